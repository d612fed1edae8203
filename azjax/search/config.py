"""A search as a configuration names it: for self-play, with its exploration, and for play, without."""

import dataclasses
from typing import Annotated, Any, Literal

from azjax.common.checked import (
    Checked,
    ConfigError,
    Count,
    FromZero,
    Number,
    Positive,
    Share,
    at_least,
    at_most,
    check,
)
from azjax.envs.core import Game
from azjax.search.core import ReusingSearch, Search, playout_cap
from azjax.search.gumbel_search import gumbel
from azjax.search.puct_search import puct, reusing_puct
from azjax.search.tree import Evaluator


@dataclasses.dataclass(frozen=True)
class SearchConfig(Checked, part="search"):
    """How self-play looks ahead; see `search_from_config`."""

    # Gumbel AlphaZero, AlphaZero's own, or no search at all (see `azjax.search.klent`)
    kind: Literal["gumbel", "puct", "klent"] = "gumbel"
    simulations: Count = 16  # per move; klent has none
    quick_simulations: Number = 0  # playout cap: the simulations of most moves; 0 searches all moves in full
    full_share: Share = 1.0  # playout cap: how often a full search is made
    # gumbel: root actions that enter the sequential halving
    considered_actions: Annotated[int, at_least(1), at_most(10_000)] = 16
    c: FromZero = 1.25  # puct: the exploration constant
    c_base: Positive | None = None  # puct: the scale on which c grows; None keeps it constant
    formula: Literal["alphazero", "sqrt_ratio"] = "alphazero"  # puct: see `azjax.search.reusing_puct`
    dirichlet_alpha: Positive | None = None  # puct: root noise; None for 1 / number of legal moves
    dirichlet_fraction: Share = 0.25  # puct: its share of the prior
    evaluate_terminals_with_network: bool = False  # puct: category A of Jacobsen 2019
    entropy_weight: FromZero = 0.03  # klent: alpha, against policies that are too sure
    kl_weight: FromZero = 0.1  # klent: beta, against policies that change too fast

    def __post_init__(self):
        super().__post_init__()
        check(
            self.full_share == 1 or self.quick_simulations > 0,
            "search.quick_simulations",
            "above 0 where full_share is below 1",
            self.quick_simulations,
        )
        check(
            self.kind == "puct" or not self.evaluate_terminals_with_network,
            "search.evaluate_terminals_with_network",
            "False unless kind is 'puct'",
            self.evaluate_terminals_with_network,
        )
        check(
            self.kind != "klent" or self.full_share == 1,
            "search.full_share",
            "1 with kind 'klent', which knows no quick searches",
            self.full_share,
        )
        check(
            self.entropy_weight + self.kl_weight > 0,
            "search.entropy_weight",
            "above 0 where kl_weight is 0",
            self.entropy_weight,
        )

    @property
    def evaluations(self) -> int:
        """How many positions a search in full asks the network about."""
        return 1 if self.kind == "klent" else self.simulations + 1  # the root is one of them


def search_from_config(
    config: SearchConfig,
    game: Game,
    evaluate: Evaluator,
    *,
    explore: bool,
    simulations: int | None = None,
    kind: str | None = None,
    c: float | None = None,
    solve: bool = False,
) -> Search:
    """The search that a configuration describes.

    Args:
      config: what it is like; one of "klent" is searched by Gumbel in play.
      game: the rules.
      evaluate: returns the prior logits and the value of positions.
      explore: for self-play: with noise at the root, and with quick searches (without noise) between the full ones if
        the configuration asks for them. Without it every search is a full one, and nothing is drawn but ties.
      simulations: instead of the configuration's.
      kind: "gumbel" or "puct", instead of the configuration's.
      c: PUCT's exploration constant, instead of the configuration's; makes the search PUCT unless `kind` is given.
      solve: back up proven results (PUCT); makes the search PUCT unless `kind` is given.
    """
    kind = kind or ("puct" if solve or c is not None else config.kind)
    if kind == "klent" and not explore:
        kind = "gumbel"
    if kind not in ("gumbel", "puct"):
        raise ConfigError(f"kind must be 'gumbel' or 'puct', got {kind!r}")
    if kind == "gumbel" and (solve or c is not None):
        raise ConfigError("solve and c belong to search=puct: Gumbel search knows neither")

    def of(simulations: int, explore: bool) -> Search:
        if kind == "gumbel":
            return gumbel(
                game,
                evaluate,
                simulations=simulations,
                max_considered_actions=config.considered_actions,
                gumbel_scale=1.0 if explore else 0.0,
            )
        return puct(
            game,
            evaluate,
            simulations=simulations,
            **_puct_options(config, explore=explore, c=c, solve=solve),
        )

    full = of(config.simulations if simulations is None else simulations, explore)
    if not explore or config.full_share == 1:
        return full
    return playout_cap(full, of(config.quick_simulations, explore=False), config.full_share)


def reusing_from_config(
    config: SearchConfig,
    game: Game,
    evaluate: Evaluator,
    *,
    simulations: int,
    kept: int | None = None,
    c: float | None = None,
    solve: bool = False,
) -> ReusingSearch:
    """PUCT as a configuration describes it, for play, with its tree kept between moves.

    Args:
      config: what it is like; a configuration of Gumbel search gives PUCT its exploration constant all the same.
      game: the rules.
      evaluate: returns the prior logits and the value of positions.
      simulations: new nodes per search.
      kept: how many nodes survive a move; default as many as there are simulations.
      c: the exploration constant, instead of the configuration's.
      solve: back up proven results.
    """
    options = _puct_options(config, explore=False, c=c, solve=solve)
    return reusing_puct(game, evaluate, simulations=simulations, kept=kept, **options)


def _puct_options(config: SearchConfig, *, explore: bool, c: float | None, solve: bool) -> dict[str, Any]:
    return {
        "c": config.c if c is None else c,
        "c_base": config.c_base,
        "formula": config.formula,
        "dirichlet_alpha": config.dirichlet_alpha,
        "dirichlet_fraction": config.dirichlet_fraction if explore else 0.0,
        "solve": solve,
        "evaluate_terminals_with_network": config.evaluate_terminals_with_network and not solve,
    }
