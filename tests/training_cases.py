"""Small runs that the training tests share; also a script, for tests that need a process of their own.

python -m tests.training_cases devices 1,4,16          # one JSON line per number of devices
python -m tests.training_cases devices 2 boards        # the same of a run with several boards
python -m tests.training_cases train FOLDER 12     # a run, as the command line makes it
"""

import dataclasses
import hashlib
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

from azjax import training
from azjax.envs import DotsAndBoxes, Hex
from azjax.evaluation.live import make_judge
from azjax.nn.networks import NetworkConfig
from azjax.training import alphazero, checkpoint, replay
from azjax.training.config import (
    EvaluationConfig,
    OptimiserConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
)

SMALL = TrainConfig(
    game=Hex(size=3),
    network=NetworkConfig(tower="mlp", blocks=1, channels=16, heads="dense", global_pooling=False),
    search=SearchConfig(kind="gumbel", simulations=4),
    selfplay=SelfplayConfig(lanes=16, plies=6, openings="A1", opening_share=0.5),
    replay=ReplayConfig(capacity=512, batch_size=32, reuse=2.0, warm_up=100),
    optimiser=OptimiserConfig(ema=0.9),
    evaluation=EvaluationConfig(every=1000, pairs=2, simulations=2, uct_simulations=2, truth=False),
    iterations=12,
    save_every=2,
)

# Several boards. Plain descent, so that a step with the mean of gradients is the mean of the steps with each.
HEXES = dataclasses.replace(
    SMALL,
    boards=("2@2",),
    network=NetworkConfig(blocks=1, channels=4, policy_channels=4, value_hidden=4),
    search=SearchConfig(kind="gumbel", simulations=2),
    replay=ReplayConfig(capacity=512, batch_size=32, updates=1, warm_up=50),
    optimiser=OptimiserConfig(name="sgd", momentum=0.0, clip_norm=None, learning_rate=0.1),
    iterations=6,
    save_every=3,
)
DOTS = dataclasses.replace(HEXES, game=DotsAndBoxes(2, 2), boards=("2x3@2-5",))

# A line of metrics.jsonl after which the run was judged.
JUDGED = {
    "iteration": 2,
    "games": 3,
    "positions": 20,
    "updates": 2,
    "seconds": 1.5,
    "mean_plies": 5.5,
    "loss": {"total": 1.0, "policy": 0.5},
    "evaluation": {"random": {"score": 0.5, "interval": [0.2, 0.8], "games": 4, "distinct_games": 4}},
    "truth": {"policy_accuracy": 0.5},
}


def create_run(path, config) -> checkpoint.Run:
    """The folder of a new run, without any iteration."""
    run = checkpoint.new_run(path, config)
    run.begin()
    return run


def timeless(row: dict) -> dict:
    """A line of metrics.jsonl without what a clock says."""
    clocked = ("seconds", "positions_per_second", "seconds_per_game")
    return {name: value for name, value in row.items() if name not in clocked}


def digest(tree) -> str:
    """A fingerprint of every bit in a tree."""
    total = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        total.update(np.asarray(leaf).tobytes())
    return total.hexdigest()


def append_game(ring, group, rows, length, replaces=True):
    """One game that ends alone, in a group's only lane."""
    lane = jnp.arange(len(ring.written))
    rows = jax.tree.map(lambda column: jnp.broadcast_to(column, (len(lane), *column.shape)), rows)
    return replay.append_games(ring, rows, jnp.where(lane == group, length, 0), replaces)


def at_the_limit(ring):
    """The same ring when its counters are about to pass 2^31: larger by multiples of their periods."""

    def more(count, period):
        return (2**31 - 1 - int(count.max())) // period * period

    positions, games = more(ring.written, ring.capacity), more(ring.games, ring.starts.shape[1])
    return ring._replace(
        written=ring.written + positions, games=ring.games + games, starts=ring.starts + positions
    )


def play_on(devices: int, iterations: int, config: TrainConfig) -> dict:
    """A few iterations on some devices, see `play`."""
    return {"devices": devices} | play(training.make_trainer(config, training.make_mesh(devices)), iterations)


def play(trainer: training.Trainer, iterations: int) -> dict:
    """A few iterations, until something is learned: fingerprints of what was played, and the weights."""
    state = trainer.init(jax.random.key(0))
    played = []
    for _ in range(iterations):
        state, metrics = trainer.iteration(state)
        parts = []
        for lanes, ring, _ in state.played:
            parts += [lanes.state, lanes.ply, lanes.key, ring.rows.state, ring.rows.outcome, ring.written]
        played.append(digest(parts))
        if float(metrics.losses.total) > 0:
            break
    weights = np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(state.params.weights)])
    return {"played": played, "weights": weights.tolist(), "updates": int(state.updates)}


def main(arguments: list[str]) -> None:
    """Runs what the arguments say."""
    if arguments[0] == "devices":
        many = dataclasses.replace(SMALL, replay=dataclasses.replace(SMALL.replay, groups=16))
        config = HEXES if "boards" in arguments else many
        for devices in arguments[1].split(","):
            print(json.dumps(play_on(int(devices), 6, config)), flush=True)
    else:
        folder, iterations = arguments[1], int(arguments[2])
        config = dataclasses.replace(SMALL, iterations=iterations)
        alphazero.train(
            config,
            folder,
            resume="--resume" in arguments,
            judge=make_judge,
            watch=lambda report: print("x", flush=True),
        )


if __name__ == "__main__":
    main(sys.argv[1:])
