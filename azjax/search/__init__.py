"""Search: batched trees, and the policies that grow them."""

from azjax.search.config import SearchConfig, reusing_from_config, search_from_config
from azjax.search.core import ReusingSearch, Search, SearchOutput, playout_cap
from azjax.search.gumbel_search import gumbel
from azjax.search.klent_search import improved_logits, klent
from azjax.search.puct_search import puct, puct_scores, reusing_puct
from azjax.search.tree import AnyParams, Evaluator
from azjax.search.uct_search import distance_value, reusing_uct, ucb1_scores, uct

__all__ = [
    "AnyParams",
    "Evaluator",
    "ReusingSearch",
    "Search",
    "SearchConfig",
    "SearchOutput",
    "distance_value",
    "gumbel",
    "improved_logits",
    "klent",
    "playout_cap",
    "puct",
    "puct_scores",
    "reusing_from_config",
    "reusing_puct",
    "reusing_uct",
    "search_from_config",
    "ucb1_scores",
    "uct",
]
