"""`azjax export RUN`: a run's network as ONNX, its weights as safetensors."""

import dataclasses
import pathlib
from typing import Annotated, ClassVar

import jax
import tyro

from azjax.agents import ready
from azjax.agents.trained import load_weights
from azjax.cli import parsing, screen
from azjax.common import files, remote
from azjax.common.checked import Count
from azjax.positions import drawn
from azjax.training import export


@dataclasses.dataclass(frozen=True)
class ExportCommand:
    """Write a run's network for other programs: as ONNX, checked by onnxruntime, or its weights as safetensors.

    The network takes `observation` [batch, ...], what the player to move sees, and returns `logits` [batch, actions],
    of illegal moves too and numbered as that player sees the board, and `value` [batch] from -1 to 1.
    """

    EXAMPLES: ClassVar = (
        "azjax export runs/hex5 --onnx hex5.onnx",
        "azjax export hex3 --onnx hex3.onnx --safetensors hex3.safetensors",
    )

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run's folder, an agent.npz, or a name that `azjax models` lists."""
    onnx: Annotated[pathlib.Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The network as ONNX (needs the extra `export`)."""
    safetensors: Annotated[pathlib.Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The weights as safetensors (needs the extra `export`)."""
    check: Count = 256  # positions of random games in which onnxruntime must answer as jax does


def run(arguments: list[str]) -> None:
    """Writes the files that were asked for."""
    command = parsing.parse(ExportCommand, arguments, "azjax export", about=parsing.explained(ExportCommand))
    if command.onnx is None and command.safetensors is None:
        raise ValueError("say what to write: --onnx FILE, --safetensors FILE, or both")
    written = [path for path in (command.safetensors, command.onnx) if path is not None]
    weights = ready.find(command.run)
    own = [weights / name for name in ("agent.npz", "config.json")] if weights.is_dir() else [weights]
    for number, path in enumerate(written):
        files.writable_path(path, *written[:number], *own)
    config, params = load_weights(command.run)
    console = screen.console()
    if command.safetensors is not None:
        export.to_safetensors(command.safetensors, config, params)
        console.print(f"The weights are in {remote.address(command.safetensors)}.")
    if command.onnx is not None:
        export.to_onnx(command.onnx, config, params)
        states = drawn.random_play_positions(config.game, jax.random.key(0), command.check)
        observations = jax.jit(jax.vmap(lambda x: config.game.observe(x, x.current_player)))(states)
        apart = export.onnx_disagreement(command.onnx, config, params, observations)
        if apart > export.TOLERANCE:
            raise ValueError(
                f"{remote.address(command.onnx)} answers otherwise than the network it was made of: {apart:.2g} apart"
                f" in one of {len(observations)} positions, at most {export.TOLERANCE:.0e} was expected"
            )
        console.print(
            f"The network is in {remote.address(command.onnx)}; in {len(observations)} positions onnxruntime and jax"
            f" differ by at most {apart:.1g}."
        )
