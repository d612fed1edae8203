"""The agents of a command: made with a progress bar, closed when it is done."""

import contextlib
import functools
from collections.abc import Iterator, Sequence

from azjax import agents
from azjax.cli import progress
from azjax.common.agent import Agent
from azjax.envs.core import Game


@contextlib.contextmanager
def seated(
    game: Game, names: Sequence[str], *, bar: bool = True
) -> Iterator[tuple[list[Agent], progress.Show]]:
    """Yields the agents of these names, and what shows progress.

    Args:
      game: what they are to play.
      names: as `make_agent` reads them.
      bar: False if progress is not to be shown; where a person plays it never is, it would be in the way.
    """
    with contextlib.ExitStack() as stack:
        made = []
        with progress.bar() as show:
            for name in names:
                tell = functools.partial(show, f"preparing {name}")
                made.append(agents.make_agent(name, game, progress=tell))
                stack.callback(made[-1].close)
        hidden = not bar or "human" in names
        yield made, (lambda what, done, total: None) if hidden else stack.enter_context(progress.bar())
