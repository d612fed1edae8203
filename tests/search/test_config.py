"""One search from a configuration, for self-play and for play."""

import pytest

from azjax.common.checked import ConfigError
from azjax.envs import Hex
from azjax.search import SearchConfig, config, search_from_config

CAPPED = {"simulations": 9, "quick_simulations": 3, "full_share": 0.5}


@pytest.fixture
def made(monkeypatch):
    """What searches are made with, in their order: (kind, options)."""
    searches = []
    for kind in ("gumbel", "puct"):
        monkeypatch.setattr(
            config, kind, lambda game, evaluate, kind=kind, **options: searches.append((kind, options))
        )
    monkeypatch.setattr(config, "playout_cap", lambda full, quick, share: searches.append(("cap", share)))
    return searches


@pytest.mark.parametrize("kind, noise", [("gumbel", "gumbel_scale"), ("puct", "dirichlet_fraction")])
def test_a_search_for_play_has_no_noise_and_no_quick_searches(made, kind, noise):
    search_from_config(SearchConfig(kind=kind, **CAPPED), Hex(3), None, explore=False)
    ((found, options),) = made
    assert (found, options["simulations"], options[noise]) == (kind, 9, 0.0)


def test_what_is_given_replaces_what_the_configuration_says(made):
    given = {"simulations": 5, "kind": "puct", "c": 2.5, "solve": True}
    search_from_config(SearchConfig(**CAPPED), Hex(3), None, explore=False, **given)
    ((found, options),) = made
    assert {"kind": found} | {name: options[name] for name in ("simulations", "c", "solve")} == given


@pytest.mark.parametrize("given", [{"solve": True}, {"c": 2.0}])
def test_what_only_puct_knows_makes_the_search_puct_unless_a_kind_is_given(made, given):
    search_from_config(SearchConfig(kind="gumbel"), Hex(3), None, explore=False, **given)
    assert [kind for kind, _ in made] == ["puct"]
    with pytest.raises(ConfigError, match="solve and c belong to search=puct: Gumbel search knows neither"):
        search_from_config(SearchConfig(), Hex(3), None, explore=False, kind="gumbel", **given)


def test_what_has_learned_without_search_is_searched_by_gumbel_in_play(made):
    search_from_config(SearchConfig(kind="klent"), Hex(3), None, explore=False, simulations=7)
    ((found, options),) = made
    assert (found, options["simulations"], options["gumbel_scale"]) == ("gumbel", 7, 0.0)
    with pytest.raises(ConfigError, match="kind must be 'gumbel' or 'puct', got 'klent'"):
        search_from_config(SearchConfig(kind="klent"), Hex(3), None, explore=True)


def test_a_proof_never_asks_the_network_about_finished_games(made):
    trained = SearchConfig(kind="puct", evaluate_terminals_with_network=True)
    for solve in (False, True):
        search_from_config(trained, Hex(3), None, explore=False, solve=solve)
    assert [options["evaluate_terminals_with_network"] for _, options in made] == [True, False]


def test_an_unknown_kind_is_refused():
    with pytest.raises(ConfigError, match="kind must be 'gumbel' or 'puct', got 'uct'"):
        search_from_config(SearchConfig(), Hex(3), None, explore=False, kind="uct")
