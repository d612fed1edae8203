"""The measurement of a run's strength: what it keeps, how many games differ, and that openings are not asked."""

import dataclasses
import json

import jax
import numpy as np

from azjax.evaluation import suites
from azjax.nn.networks import make_network
from azjax.positions import write_positions
from azjax.training import checkpoint
from experiments import strength
from tests.training_cases import SMALL


def test_strength_keeps_the_agent_counts_different_games_and_leaves_openings_out(
    tmp_path, monkeypatch, quickly_compiled
):
    opening_file = tmp_path / "openings.jsonl"
    write_positions(opening_file, [{"game": "hex", "size": 3, "moves": [move]} for move in ("a1", "b2")])
    config = dataclasses.replace(
        SMALL,
        selfplay=dataclasses.replace(SMALL.selfplay, openings=str(opening_file), opening_share=1.0),
    )
    run = tmp_path / "run"
    run.mkdir()
    params = jax.jit(make_network(config.network, config.game).init)(jax.random.key(0))
    checkpoint.export_agent(run / "agent.npz", config, params)
    (run / "metrics.jsonl").write_text('{"iteration": 1}\n')
    (run / "curves.png").write_bytes(b"a picture")
    lines = [
        {"game": "hex", "size": 3, "moves": m.split(), "optimal": ["c2"]} for m in ("b2", "a1 b2", "c1 a3 b3")
    ]
    write_positions(tmp_path / "suite.jsonl", lines)
    read = suites.read_suite
    monkeypatch.setattr(suites, "read_suite", lambda name: read(tmp_path / "suite.jsonl"))
    monkeypatch.setattr(strength, "RESULTS", tmp_path / "results")

    strength.main(strength.Config(run, simulations=(2,), uct=2, games=18))

    kept = tmp_path / "results" / "run"
    _, weights = checkpoint.load_agent(kept / "agent.npz")
    assert jax.tree.all(jax.tree.map(np.array_equal, weights, jax.tree.map(np.asarray, params)))
    rows = json.loads((kept / "strength.json").read_text())["measured"]
    # A half turn takes a1 to c3, so that three of the nine first moves are what training was shown.
    assert "of 6; 3 more left out" in rows["first moves whose value has the right sign"]
    assert rows["the same, the run's openings included"].endswith(" of 9")
    for how in ("2 simulations (gumbel)", "raw policy"):
        row = rows[f"winning moves in the suite, {how}"]
        assert "1 more left out" in row and " of 1" in row  # asked: one of each colour
    games = rows["games against uct:2 from won first moves"]
    won, different = int(games.split(" of ")[0]), int(games.split("; ")[1].split()[0])
    assert games.endswith("different games") and "of 18 won" in games
    assert 0 <= won <= 18 and 9 <= different <= 18  # nine first moves, twice each
