"""`azjax td GAME`: learn a value by temporal differences, without search."""

from azjax.cli.learner import run_learner
from azjax.learners.td import TDConfig


def run(arguments: list[str]) -> int:
    """Learns by TD(lambda) and draws the curves."""
    return run_learner("td", TDConfig, arguments)
