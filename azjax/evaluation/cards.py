"""Ready networks and their cards: how each was trained, how strong it is by which judge, and what it cannot do.

    azjax.load_agent("hex3")                       # plays at once
    cards.read_card("hex3").measured               # what judges found in it
    cards.measure("hex3", "whole?simulations=64")  # the same, measured again

`pack` makes a ready network of a run: its averaged weights in half precision, and a card for which the judges are asked
about those very weights. Nothing in a card is written by hand but the sentence about its limits.
"""

import dataclasses
import json
import os
import re
from collections.abc import Sequence
from typing import Annotated, Any

from azjax.agents import ready
from azjax.agents.trained import load_weights
from azjax.common import atomic, files, tables
from azjax.common.checked import at_least
from azjax.common.progress import StagedProgress
from azjax.common.rows import number_in
from azjax.evaluation import judges
from azjax.evaluation.curve import numbers_in
from azjax.nn import count_parameters, make_network
from azjax.training import boards, checkpoint

_TRAINED = ("iteration", "games", "positions", "updates")
MOST_BYTES = 2 * 2**20  # of all ready networks together: they are in every wheel


@dataclasses.dataclass(frozen=True)
class Card:
    """What there is to know about a ready network."""

    name: str
    game: str  # as it writes itself, such as Hex(size=3)
    parameters: int
    trained: dict[str, Any]  # iterations, games, positions and updates; the seed; versions
    measured: dict[str, dict[str, Any]]  # a judge's text -> what it found
    limits: str  # a sentence

    @property
    def headline(self) -> tuple[str, float]:
        """The first judge's first share, and what it is of."""
        judge, found = next(iter(self.measured.items()))
        name = _first_share(found)
        return f"{judge}: {name.removesuffix('.share').replace('_', ' ')}", number_in(found, name)

    def grid(self) -> tables.Grid:
        """All numbers that judges found, one per row."""
        rows = [
            (judge, name.replace("_", " "), f"{number_in(found, name):.6g}")
            for judge, found in self.measured.items()
            for name in numbers_in(found)
        ]
        return tables.Grid(("judge", "number", "found"), rows, title=f"{self.name}: {self.game}", words=2)

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html


def read_card(name: str) -> Card:
    """The card of a ready network; raises ValueError, which lists the names, if there is none."""
    known = ready.ready_networks()
    if name not in known:
        raise ValueError(f"there is no ready network {name!r}; there are {', '.join(known)}")
    return Card(**files.read_object(known[name].with_suffix(".json"), "card of a ready network"))


def cards() -> list[Card]:
    """The cards of all ready networks, by name."""
    return [read_card(name) for name in ready.ready_networks()]


def measure(
    run: str | os.PathLike, judge: str, progress: StagedProgress = lambda what, done, total: None
) -> dict[str, Any]:
    """What a judge says about weights, of a ready network or of any run; see `azjax.evaluation.judges`."""
    config, params = load_weights(run)

    def no_replay() -> Any:
        raise checkpoint.RunError(f"{judge} needs a run's replay, and a network alone has none")

    point = judges.Checkpoint(0, params, no_replay)
    context = judges.Context(config, judges.JudgeOptions(), lambda: point, progress)
    # As it comes back from a file: tuples are lists there.
    return json.loads(json.dumps(judges.make_judge(judge, context)(point)))


def pack(
    run: str | os.PathLike,
    name: str,
    texts: Sequence[str],
    *,
    limits: str,
    out: str | os.PathLike | None = None,
    progress: StagedProgress = lambda what, done, total: None,
) -> Card:
    """Makes a ready network of a run: writes NAME.npz and its card NAME.json.

    Args:
      run: its folder.
      name: of the network.
      texts: name the judges that measure it, the most telling first.
      limits: what it cannot do, in a sentence.
      out: the folder; None for the package's own, from which wheels are built.
      progress: called now and then.

    Raises:
      ValueError: a text names no judge; or with this one, the package's own folder would pass 2 MB.
    """
    if not texts:
        raise ValueError("a card needs a judge at least, such as suite:hex5")
    for text in texts:
        judges.check_text(text)
    if not re.fullmatch("[A-Za-z0-9_-]+", name):
        raise ValueError(f"names of networks consist of letters, digits, - and _, such as hex5, got {name!r}")
    opened = checkpoint.open_run(run)
    config, params = checkpoint.load_agent(opened.path)
    lines = opened.read_rows(dict.fromkeys(_TRAINED, Annotated[int, at_least(0)]))
    if not lines:
        raise checkpoint.RunError(f"{opened.path} has no metrics.jsonl, which says how long it was trained")
    target = files.writable_folder(ready.folder() if out is None else out)
    target.mkdir(parents=True, exist_ok=True)
    weights = target / f"{name}.npz"
    with atomic.replacing(weights) as partial:
        checkpoint.export_agent(partial, config, params, half_precision=True)
        others = sum(path.stat().st_size for path in target.glob("*.npz") if path not in (weights, partial))
        if others + partial.stat().st_size > MOST_BYTES:
            raise ValueError(
                f"with {name} the networks in {target} would have {others + partial.stat().st_size:,} bytes, more than"
                f" {MOST_BYTES:,}; leave another one out, or train a smaller network"
            )
        measured = {text: measure(partial, text, progress) for text in texts}
    versions = checkpoint.read_about(opened.path).get("versions", {})
    card = Card(
        name,
        boards.title(config),
        count_parameters(make_network(config.network, config.game)).trained,
        {key: lines[-1][key] for key in _TRAINED}
        | {
            "seed": config.seed,
            "versions": {key: versions[key] for key in ("azjax", "jax") if key in versions},
        },
        measured,
        limits,
    )
    atomic.write_text(weights.with_suffix(".json"), json.dumps(dataclasses.asdict(card), indent=1) + "\n")
    return card


def _first_share(found: dict[str, Any]) -> str:
    names = numbers_in(found)
    return next((name for name in names if name.endswith("share")), names[0])
