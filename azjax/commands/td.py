"""`azjax td GAME`: learn a value by temporal differences, without search."""

from azjax.commands.learner import run_learner
from azjax.learners.td import TDConfig


def run(arguments: list[str]) -> None:
    """Learns by TD(lambda) and draws the curves."""
    run_learner("td", TDConfig, "Learn a value by temporal differences.", arguments)
