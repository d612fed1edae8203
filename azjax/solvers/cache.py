"""Where solved tables lie: one folder, one name per table, found by everybody who asks for the truth.

The folder is that of `azjax.common.cache`. A table that somebody saved elsewhere leaves a link there.
"""

import contextlib
import os
import pathlib
from typing import Any

from azjax.common.cache import folder
from azjax.envs.core import Game


def path_of(game: Game, options: dict[str, Any]) -> pathlib.Path:
    """Where the table of a game lies, or would lie; `options` are those that its values depend on."""
    return folder() / (
        "-".join([game.name, *(f"{option}_{value}" for option, value in options.items())]) + ".npz"
    )


def remember(path: str | os.PathLike, place: pathlib.Path) -> None:
    """Lets a table that was saved to `path` be found at `place`, one of `path_of`; whatever stood there gives way.

    A cache that cannot be written costs time, nothing else.
    """
    path = pathlib.Path(path).absolute()
    with contextlib.suppress(OSError):
        if path.resolve() == place.resolve():
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(path)
