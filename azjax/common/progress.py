"""How work that takes a while tells how far it is."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with the work done and the work in all."""

StagedProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is in all."""
