"""`azjax es GAME`: evolve a policy, without gradients."""

from azjax.cli.learner import run_learner
from azjax.learners.es import ESConfig


def run(arguments: list[str]) -> int:
    """Learns by an evolution strategy and draws the curves."""
    return run_learner("es", ESConfig, arguments)
