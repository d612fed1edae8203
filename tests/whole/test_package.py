"""The package as others get it: the wheel, the scripts, the README's promises."""

import importlib
import os
import pathlib
import subprocess
import sys
import sysconfig
import venv

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = sorted(path.relative_to(ROOT) for path in (ROOT / "experiments").rglob("*.py"))

PLAY_EACH_GAME = """
import jax, azjax
for name, options in (("hex", {"size": 3}), ("chinese_checkers", {"size": 3, "pieces": 1}),
                      ("dots_and_boxes", {"rows": 1, "columns": 2}), ("tic_tac_toe", {})):
    env = azjax.make(name, **options)
    state = env.init(jax.random.key(0))
    while not state.terminated:
        state = env.step(state, int(state.legal_action_mask.argmax()))
    print(name, state.rewards.tolist())
for name in azjax.agents.ready_networks():
    print(azjax.load_agent(name).name, azjax.make_agent(f"az:{name}?sims=2", azjax.agents.trained_agent(name)[1]).name)
print(azjax.__file__)
"""


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_every_script_imports(script):
    importlib.import_module(".".join(script.with_suffix("").parts))


@pytest.mark.slow
def test_a_wheel_in_an_empty_environment_plays_each_game(tmp_path):
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(build, check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("azjax-*.whl")
    venv.create(tmp_path / "empty")
    python = tmp_path / "empty" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel]
    subprocess.run(install, check=True)
    # The dependencies are lent by this environment; the installed azjax of it is not seen that way, because
    # an editable install works through a .pth file, which PYTHONPATH does not read.
    environment = os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")}
    played = subprocess.run(
        [python, "-c", PLAY_EACH_GAME],
        check=True,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "tic_tac_toe" in played.stdout
    weights = sorted((ROOT / "azjax" / "data" / "networks").glob("*.npz"))
    assert weights and all(f"az:{path.stem} az:{path.stem}?sims=2" in played.stdout for path in weights)
    assert str(tmp_path) in played.stdout.splitlines()[-1]


def test_the_gallery_plays_and_draws(tmp_path):
    gallery = importlib.import_module("experiments.gallery")
    gallery.main(gallery.Config(games=8, drawn=1, out=tmp_path))
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("<svg") == len(gallery.GAMES)
