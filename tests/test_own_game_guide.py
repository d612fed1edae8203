"""The guide to writing a game: its example is executed, and plays Nim as Bouton (1901) says it must."""

import functools
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pgx

from azjax.envs.core import Env, random_action

GUIDE = pathlib.Path(__file__).parent.parent / "envs" / "README.md"


@functools.cache
def guide_namespace() -> dict:
    code = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL))
    namespace: dict = {"__name__": "guide"}
    exec(compile(code, str(GUIDE), "exec"), namespace)  # runs check_game on it, too
    return namespace


def test_the_example_of_the_guide_passes_its_own_check():
    assert "Nim" in guide_namespace()


def test_the_example_passes_the_test_of_pgx():
    pgx.api_test(Env(guide_namespace()["Nim"]()), 2)


def test_the_example_is_lost_exactly_when_the_heaps_sum_to_zero_without_carries():
    nim = guide_namespace()["Nim"](heaps=3, largest=4)
    state = guide_namespace()["NimState"]

    @functools.cache
    def mover_wins(heaps: tuple[int, ...]) -> bool:
        x = state(jnp.array(heaps, jnp.int32), jnp.int32(0))
        legal = np.flatnonzero(legal_action_mask(x))
        return any(not mover_wins(tuple(np.asarray(step(x, a).heaps).tolist())) for a in legal)

    legal_action_mask, step = jax.jit(nim.legal_action_mask), jax.jit(nim.step)
    for heaps in np.ndindex(4, 4, 4):
        assert mover_wins(heaps) == bool(heaps[0] ^ heaps[1] ^ heaps[2])


def test_random_action_is_uniform_over_the_mask():
    # Chi-square with 3 degrees of freedom: 16.3 is the 99.9 % point.
    mask = jnp.arange(12) % 3 == 0
    draws = random_action(jax.random.key(1), jnp.tile(mask, (40_000, 1)))
    counts = np.bincount(np.asarray(draws), minlength=12)
    assert counts[~np.asarray(mask)].sum() == 0
    assert (((counts[::3] - 10_000) ** 2) / 10_000).sum() < 16.3
