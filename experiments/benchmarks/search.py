"""How much does search cost beyond its network? Against mctx and OpenSpiel, interleaved in one run.

    python -m experiments.benchmarks.search            # about ten minutes; keeps its tables
    python -m experiments.benchmarks.search --quick    # a smoke test; keeps nothing

Rates are simulations per CPU-second of one core, to which the process is kept. The network is a residual one,
4 blocks of 32 channels; its own rate, on the same batch and in the same kind of loop, is the limit of what a
search can reach. With a trivial network only the trees cost. mctx plays the same game with the same network, by
its own policies.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import mctx
import pyspiel
import tyro

from azjax import search as searches
from azjax.common.legality import mask_logits
from azjax.envs import DotsAndBoxes, Game, Hex
from azjax.envs.core import random_action
from azjax.nn import NetworkConfig, make_evaluator, make_network
from azjax.training.profiling import repeated_evaluation
from experiments.benchmarks.timing import compile_seconds, cpu_seconds, report, use_one_core


@dataclasses.dataclass(frozen=True)
class Config:
    """What to measure."""

    quick: bool = False  # small numbers, nothing kept
    batch: int = 64
    rounds: int = 15
    uct_simulations: int = 1000


MCTX_PUCT = {"c": 1.25, "c_base": 19652, "normalise": True}  # the settings in which trees equal mctx's


def positions(game: Game, batch: int, plies: int) -> object:
    """Positions after some random moves, so that the lanes differ."""

    def ply(x, key):
        action = random_action(key, jax.vmap(game.legal_action_mask)(x))
        return jax.vmap(game.step)(x, action), None

    x = jax.vmap(game.init)(jax.random.split(jax.random.key(0), batch))
    return jax.lax.scan(ply, x, jax.random.split(jax.random.key(1), plies))[0]


def trivial_evaluator(game: Game) -> Callable:
    """Answers that differ from position to position and cost next to nothing."""

    def evaluate(params, key, states):
        del params, key
        mark = sum(
            jnp.sum(leaf.reshape(leaf.shape[0], -1).astype(jnp.float32) * 0.37, -1)
            for leaf in jax.tree.leaves(states)
        )
        action = jnp.arange(game.num_actions) * 1.3
        return 2 * jnp.sin(mark[:, None] + action), jnp.sin(1.7 * mark)

    return evaluate


def mctx_search(game: Game, evaluate: Callable, policy: Callable, simulations: int, **options) -> Callable:
    """The same search by mctx's own policy."""

    def answers(params, key, states):
        logits, value = evaluate(params, key, states)
        legal = jax.vmap(game.legal_action_mask)(states)
        return mask_logits(logits, legal), value, legal

    def recurrent(params, key, action, states):
        after = jax.vmap(game.step)(states, action)
        over = jax.vmap(game.is_terminal)(after)
        logits, value, _ = answers(params, key, after)
        reward = jax.vmap(game.rewards)(after)[jnp.arange(len(over)), states.current_player]
        sign = jnp.where(after.current_player == states.current_player, 1.0, -1.0)
        step = mctx.RecurrentFnOutput(
            reward=jnp.where(over, reward, 0.0),
            discount=jnp.where(over, 0.0, sign),
            prior_logits=logits,
            value=jnp.where(over, 0.0, value),
        )
        return step, after

    def search(params, key, states):
        logits, value, legal = answers(params, key, states)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=states)
        output = policy(
            params, key, root, recurrent, simulations, invalid_actions=(~legal).astype(jnp.float32), **options
        )
        return output.action, output.action_weights

    return search


def contenders(game: Game, evaluate: Callable, simulations: int) -> dict[str, Callable]:
    """(params, key, states) -> ..., ours and mctx's, with the same settings."""
    return {
        "gumbel": searches.gumbel(game, evaluate, simulations=simulations, gumbel_scale=1.0),
        "mctx gumbel": mctx_search(game, evaluate, mctx.gumbel_muzero_policy, simulations),
        "puct": searches.puct(game, evaluate, simulations=simulations, **MCTX_PUCT),
        "mctx puct": mctx_search(game, evaluate, mctx.muzero_policy, simulations, dirichlet_fraction=0.0),
    }


def network_rows(config: Config) -> list[dict]:
    """Searches with a network, as a share of the network alone."""
    rows = []
    cases = [(3, 4)] if config.quick else [(5, 32), (7, 32), (11, 32), (11, 128)]
    for size, simulations in cases:
        game = Hex(size=size)
        network = make_network(NetworkConfig(blocks=4, channels=32), game)
        params = jax.jit(network.init)(jax.random.key(0))
        states = positions(game, config.batch, size)
        observation = jax.vmap(game.observe)(states).astype(jnp.float32)
        alone = jax.jit(functools.partial(repeated_evaluation, network, calls=simulations + 1))
        runs = {"network": functools.partial(alone, params, observation)}
        for name, search in contenders(game, make_evaluator(game, network), simulations).items():
            runs[name] = functools.partial(jax.jit(search), params, jax.random.key(1), states)
        seconds = cpu_seconds(runs, config.rounds)
        limit = config.batch * (simulations + 1) / seconds["network"]
        row = {"board": f"hex {size}x{size}", "simulations": simulations, "network alone/s": limit}
        for name in list(runs)[1:]:
            row[f"{name}, share"] = seconds["network"] / seconds[name]
        rows.append(row)
    return rows


def tree_rows(config: Config) -> list[dict]:
    """Searches with a trivial network: what the trees cost, in memory too, and what compiling them costs."""
    rows = []
    cases = [(3, 4)] if config.quick else [(5, 32), (11, 32), (11, 128)]
    for size, simulations in cases:
        game = Hex(size=size)
        states = positions(game, config.batch, size)
        candidates = contenders(game, trivial_evaluator(game), simulations)
        runs = {
            name: functools.partial(jax.jit(search), None, jax.random.key(1), states)
            for name, search in candidates.items()
        }
        seconds = cpu_seconds(runs, config.rounds)
        rate = {name: config.batch * simulations / s for name, s in seconds.items()}
        tree = jax.eval_shape(
            searches.reusing_puct(game, trivial_evaluator(game), simulations=simulations, kept=1).start,
            None,
            jax.random.key(0),
            states,
        )
        nbytes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree)) // config.batch
        cold, warm = compile_seconds(candidates["gumbel"], None, jax.random.key(1), states)
        rows.append(
            {
                "board": f"hex {size}x{size}",
                "simulations": simulations,
                "gumbel/s": rate["gumbel"],
                "times mctx": rate["gumbel"] / rate["mctx gumbel"],
                "puct/s": rate["puct"],
                "times mctx puct": rate["puct"] / rate["mctx puct"],
                "KiB a tree": nbytes / 1024,
                "gumbel compile s": cold,
                "from the cache s": warm,
            }
        )
    return rows


def openspiel_uct(text: str, simulations: int) -> Callable[[], int]:
    """One move of OpenSpiel's C++ UCT with one random playout a leaf."""
    game = pyspiel.load_game(text)
    state = game.new_initial_state()
    evaluator = pyspiel.RandomRolloutEvaluator(1, 0)
    bot = pyspiel.MCTSBot(game, evaluator, 2.0**0.5, simulations, 1000, False, 0, False)
    return lambda: bot.step(state)


def uct_rows(config: Config) -> list[dict]:
    """UCT with random playouts, many games at once, against OpenSpiel's C++."""
    rows = []
    simulations = 16 if config.quick else config.uct_simulations
    boards = [
        ("hex 6x6", Hex(size=6), "hex(board_size=6)"),
        ("hex 8x8", Hex(size=8), "hex(board_size=8)"),
        ("hex 11x11", Hex(size=11), "hex(board_size=11)"),
        ("dots and boxes 5x5", DotsAndBoxes(5, 5), "dots_and_boxes(num_rows=5,num_cols=5)"),
    ]
    for name, game, text in boards[: 1 if config.quick else None]:
        states = positions(game, config.batch, 0)
        ours = jax.jit(searches.uct(game, simulations=simulations))
        runs = {
            "azjax": functools.partial(ours, None, jax.random.key(0), states),
            "openspiel": openspiel_uct(text, simulations),
        }
        seconds = cpu_seconds(runs, config.rounds)
        ours_rate = config.batch * simulations / seconds["azjax"]
        theirs = simulations / seconds["openspiel"]
        rows.append(
            {
                "board": name,
                "azjax simulations/s": ours_rate,
                "openspiel simulations/s": theirs,
                "times openspiel": ours_rate / theirs,
            }
        )
    return rows


def main(config: Config) -> None:
    """Measures everything and prints three tables."""
    if config.quick:
        config = dataclasses.replace(config, batch=4, rounds=1)
    use_one_core()
    keep = not config.quick
    report("search_network", "Search as a share of its network alone", network_rows(config), keep)
    report("search_trees", "Trees alone, with a trivial network", tree_rows(config), keep)
    report("search_uct", "UCT with random playouts", uct_rows(config), keep)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
