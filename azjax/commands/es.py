"""`azjax es GAME`: evolve a policy, without gradients."""

from azjax.commands.learner import run_learner
from azjax.learners.es import ESConfig


def run(arguments: list[str]) -> None:
    """Learns by an evolution strategy and draws the curves."""
    run_learner("es", ESConfig, "Evolve a policy by an evolution strategy.", arguments)
