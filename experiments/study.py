"""The common harness of the studies: settings, stages that can be killed and resumed, tables, figures, a manifest.

A study is one file. Its settings are a frozen dataclass, of which it gives two: quick, for two cores, and full. Its
stages are functions of a `Work`, run in order:

    @dataclasses.dataclass(frozen=True)
    class Settings:
        size: int = 4
        steps: int = 20
        seeds: tuple[int, ...] = (0,)

    def agents(work: study.Work[Settings]) -> None:
        '''Trains the agents, judges every checkpoint, and compares them with the thesis.'''
        settings, rows, curves = work.settings, {}, {}
        for name, theirs in (("baseline", 85.0), ("A3", 100.0)):
            runs = [work.run(f"{name}-{seed}", config_of(settings, name, seed)) for seed in settings.seeds]
            sweeps = [work.sweep(run, "suite:hex4?simulations=1000&c=2&solve=1") for run in runs]
            finals = [100 * sweep[-1]["all"]["share"] for sweep in sweeps]
            rows[name] = {"final %": study.Beside(theirs, statistics.mean(finals)), "seeds": len(finals)}
            curves[name] = series(sweeps[0], "all.share")
        work.table("final", "WMSR at the end", rows, notes=("Another suite than the thesis's.",))
        work.figure("curves", my_figure(curves))

    def games(work: study.Work[Settings]) -> None:
        '''Head-to-head games.'''
        one, other = (work.run(f"{name}-0", config_of(work.settings, name, 0)) for name in ("A3", "baseline"))
        found = work.once("games", lambda: play(one.path, other.path), simulations=1000)

    STUDY = study.Study(
        "daliri2022", __doc__, quick=Settings(), full=Settings(size=6, steps=100, seeds=(0, 1, 2)),
        stages={"agents": agents, "games": games},
        costs=lambda settings: [study.training_cost("baseline", config_of(settings, "baseline", 0)), ...],
    )

    if __name__ == "__main__":
        STUDY.main()

Then

    python -m experiments.daliri2022_forced_openings                     # every stage, with the quick settings
    python -m experiments.daliri2022_forced_openings --only agents --steps 5 --seeds 0 1
    python -m experiments.daliri2022_forced_openings --full              # says what it costs, then begins
    python -m experiments.daliri2022_forced_openings --full --plan       # says what it costs

A stage does not remember that it is done: whatever takes long goes through `run`, `sweep` or `once`, which keep what
they found, so that a stage that is run again, or was killed, only does what is missing, and writes its tables anew.

- `run` gives a run of `azjax.train` (or of TD or evolution, by the class of its configuration; or of a learner that
  the study hands in) that is trained when its weights are first needed, and goes on where it was stopped. Runs lie
  below --out, which git ignores.
- `sweep` has a judge look at every checkpoint of a run; `once` keeps any result that is plain data.
- Both keep their results in `points/` beside the tables, small enough for git: with them the tables can be made again
  without the runs. They say of which settings they are; with others they are refused, never overwritten.
- `StudyRun.keep` keeps weights in `agents/` there, in half precision, for whatever comes later; `StudyRun.agent` is the
  file of a player: of the run if its folder is there, else what was kept, else it is trained. So a study can go on
  where the folder of its runs is gone.
- `table` writes NAME.md and NAME.json and prints; a cell may be a number, a text, an `evaluation.statistics.Mean` over
  seeds, and `Beside(theirs, ours)`, which makes two columns.
- `figure` writes NAME.png; make figures with `azjax.plots.style`, so that all look alike.
- `manifest.json` has the commands, the settings, the versions, and what every result cost.

In a test: `STUDY.run(settings, out=tmp_path / "runs", results=tmp_path / "results")`, with settings of a tiny board.
"""

import dataclasses
import functools
import importlib.metadata
import json
import math
import os
import pathlib
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import jax
import tyro
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from azjax import api
from azjax.agents import make_agent
from azjax.cli import progress as bars
from azjax.cli import screen
from azjax.common import atomic, files
from azjax.common.checked import ConfigError
from azjax.common.progress import StagedProgress
from azjax.evaluation import supervision
from azjax.evaluation.evaluate import evaluate
from azjax.evaluation.judges import JudgeOptions
from azjax.evaluation.statistics import Mean
from azjax.learners import session
from azjax.learners.supervised import SupervisedConfig, as_trained
from azjax.plots import style
from azjax.training import alphazero, checkpoint, distributed, profiling
from azjax.training.config import (
    ReplayConfig,
    SelfplayConfig,
    TrainConfig,
    config_from_dict,
    config_to_dict,
)

S = TypeVar("S")
RESULTS = pathlib.Path(__file__).parent / "results"
RUNS = pathlib.Path("runs")  # git ignores it
_OWN_PARTS = ("search", "loss", "openings", "value_targets", "schedule")  # of a training
_PACKAGES = ("azjax", "jax", "jaxlib", "flax", "optax", "mctx", "numpy", "scipy")


class Stopped(KeyboardInterrupt):
    """The study was interrupted; all that was finished is kept."""


class Beside(NamedTuple):
    """A cell of a table: what the thesis reports and what we found; None where there is nothing."""

    theirs: Any
    ours: Any


class Cost(NamedTuple):
    """What a part of a study asks of a machine."""

    what: str
    config: TrainConfig | None = None  # whose network is asked
    evaluations: float = 0.0  # of positions by that network; learning from a position counts as three
    hours: float = 0.0  # on top of that, of one core: solvers, random playouts


@dataclasses.dataclass(frozen=True)
class StudyCommand(Generic[S]):
    """Run a study, or go on with it."""

    settings: Annotated[S, tyro.conf.arg(name="")]
    full: bool = False  # the thesis's own lengths; says what it costs, then begins
    only: tuple[str, ...] = ()  # names of stages; default all of them
    plan: bool = False  # say what it costs, and stop
    # Where runs lie; default runs/STUDY/quick or full. Runs of other settings go elsewhere: those here are refused.
    out: pathlib.Path | None = None
    results: pathlib.Path | None = None  # tables and figures; default experiments/results/STUDY/quick or full


@dataclasses.dataclass(frozen=True)
class Study(Generic[S]):
    """A study: what `main` and tests run."""

    name: str  # of its folders
    about: str  # its docstring: the question, the thesis's numbers, the command
    quick: S
    full: S
    stages: Mapping[str, Callable[["Work[S]"], None]]  # in order; the docstring of each says what it does
    costs: Callable[[S], Sequence[Cost]]  # of all stages

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Reads the command line and runs."""
        distributed.make_cores_devices()  # as `azjax train` does: a run takes a third of the time
        arguments = sys.argv[1:] if arguments is None else list(arguments)
        full = "--full" in arguments
        standard = self.full if full else self.quick
        stages = "\n".join(
            f"  {name}: {(stage.__doc__ or '').strip()}" for name, stage in self.stages.items()
        )
        command = tyro.cli(
            StudyCommand[type(standard)],
            args=arguments,
            default=StudyCommand(settings=standard),
            description=f"{self.about}\n\nStages:\n{stages}",
        )
        if unknown := set(command.only) - set(self.stages):
            raise SystemExit(f"there is no stage {min(unknown)}; there are {', '.join(self.stages)}")
        console = screen.console()
        if full or command.plan:
            console.print(cost_table(self.costs(command.settings)))
            if command.plan:
                return
        folder = "full" if full else "quick"
        try:
            self.run(
                command.settings,
                out=command.out or RUNS / self.name / folder,
                results=command.results or RESULTS / self.name / folder,
                only=command.only,
                console=console,
                line=shlex.join(
                    ["python", "-m", f"experiments.{pathlib.Path(sys.argv[0]).stem}", *arguments]
                ),
            )
        except (Stopped, KeyboardInterrupt):
            console.print("stopped; the same command goes on from here")
            raise SystemExit(130) from None
        except (ValueError, OSError) as error:
            raise SystemExit(str(error)) from error

    def run(
        self,
        settings: S,
        *,
        out: pathlib.Path,
        results: pathlib.Path,
        only: Sequence[str] = (),
        console: Console | None = None,
        line: str = "",
    ) -> None:
        """Runs stages, or goes on with them.

        Args:
          settings: of the study.
          out: the folder of its runs.
          results: the folder of its tables, figures and kept results.
          only: names of stages; empty for all.
          console: where tables are printed; None for nowhere.
          line: the command, for the manifest.
        """
        console = Console(quiet=True) if console is None else console
        with bars.bar() as bar:
            work = Work(settings, out, results, console, bar)
            work.note_command(self.name, line)
            for name, stage in self.stages.items():
                if not only or name in only:
                    stage(work)


Learn = Callable[[pathlib.Path, bool, pathlib.Path | None, Callable[[int, int], None]], checkpoint.Run]
"""(folder, resume, file of the weights to begin with, progress (done, in all)) -> the run."""


class Lesson(NamedTuple):
    """A learner of a study's own."""

    learn: Learn
    about: dict[str, Any]  # what is learned, where the configuration does not say so: plain data


class StudyRun:
    """A run of a study, trained when it is first needed."""

    def __init__(
        self,
        work: "Work",
        name: str,
        config: Any,
        begun_from: "StudyRun | None",
        lesson: Lesson | None,
        whole: bool,
        options: dict[str, Any],
    ):
        self.name = name
        self.config = config
        self._work, self._begun_from, self._lesson, self._options = work, begun_from, lesson, options
        self._whole = whole

    @property
    def identity(self) -> dict[str, Any]:
        """What the run is, as plain data: its configuration, what it learns, and whose weights it began with."""
        origin = {} if self._begun_from is None else {"begun_from": self._begun_from.name}
        lesson = {} if self._lesson is None else {"lesson": self._lesson.about}
        return {"config": _told(self.config), **lesson, **origin}

    @functools.cached_property
    def trained(self) -> checkpoint.Run:
        """The run, after its last iteration; trained anew if its folder is gone and not all its weights were kept."""
        folder = self._work.out / self.name
        if self._whole and not (folder / "metrics.jsonl").exists():
            shutil.rmtree(folder, ignore_errors=True)  # it was brought back, if it is there
        elif not (folder / "config.json").exists():
            self._bring_back(folder)
        if self._is_finished(folder):
            run = checkpoint.open_run(folder, self.config, type(self.config))
        else:
            run = self._train_on(folder)
        if isinstance(self.config, TrainConfig) and 0 not in run.snapshots:
            self._keep_start(run)
        return run

    @property
    def path(self) -> pathlib.Path:
        """Its folder, trained; an agent's text is `az:PATH?sims=1000`."""
        return self.trained.path

    @property
    def checkpoints(self) -> list[int]:
        """The iterations of which a run of `azjax.train` saves weights, the start included."""
        return sorted({*range(0, self.config.iterations, self.config.save_every), self.config.iterations})

    def keep(self, *iterations: int) -> None:
        """Keeps weights beside the tables, in half precision, so that `agent` needs the run's folder no more.

        Args:
          *iterations: after which; none for the last.
        """
        for iteration in iterations or (self.config.iterations,):
            path = self._kept_weights(iteration)
            if not self.is_kept(iteration):
                params = self.trained.load_agent(iteration)
                path.parent.mkdir(parents=True, exist_ok=True)
                checkpoint.export_agent(path, _portable(self._playing), params, half_precision=True)

    def is_kept(self, iteration: int | None = None) -> bool:
        """Whether `keep` has kept its weights after an iteration, None for the last."""
        return self._kept_weights(self.config.iterations if iteration is None else iteration).exists()

    def agent(self, iteration: int | None = None) -> pathlib.Path:
        """A file of its weights after an iteration, None for the last; an agent's text is `az:FILE?sims=1000`.

        It is the run's own if the run's folder is there, else what `keep` kept, else the run is trained.
        """
        iteration = self.config.iterations if iteration is None else iteration
        folder = self._work.out / self.name
        if not self._is_finished(folder) and self.is_kept(iteration):
            path = self._work.out / "kept" / f"{_file_name(self.name)}-{iteration}.npz"
            self._copy_kept(iteration, path)
            return path
        return self.path / "agents" / f"{iteration}.npz"

    @property
    def _playing(self) -> Any:
        """The configuration under which its weights are saved: some learners save agents of a `TrainConfig`."""
        config = getattr(self.config, "learning", self.config)
        return as_trained(config) if isinstance(config, SupervisedConfig) else config

    def _kept_weights(self, iteration: int) -> pathlib.Path:
        return self._work.results / "agents" / f"{_file_name(self.name)}-{iteration}.npz"

    def _copy_kept(self, iteration: int, path: pathlib.Path) -> None:
        """Writes kept weights as a run does, with the configuration of now: files that it names may lie elsewhere."""
        kept = self._kept_weights(iteration)
        config, params = checkpoint.load_agent(kept)
        then, now = (json.loads(json.dumps({"config": _told(one)})) for one in (config, self._playing))
        if wrong := _difference(then, now, None):
            raise ValueError(
                f"{kept} was found with other settings ({wrong}); move it away, or give other --out and --results"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.export_agent(path, self._playing, params)

    def _bring_back(self, folder: pathlib.Path) -> None:
        """Makes the folder of the run again if all its weights were kept; it has no metrics and cannot go on."""
        if not isinstance(self.config, TrainConfig):
            return
        if all(map(self.is_kept, self.checkpoints)):
            run = checkpoint.new_run(folder, self.config)
            run.begin()
            for iteration in self.checkpoints:
                self._copy_kept(iteration, run.path / "agents" / f"{iteration}.npz")
            self._copy_kept(self.config.iterations, run.path / "agent.npz")

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of its metrics.jsonl, one per iteration."""
        return self.trained.read_metrics()

    def _is_finished(self, folder: pathlib.Path) -> bool:
        if not (folder / "config.json").exists():
            return False
        run = checkpoint.open_run(folder, self.config, type(self.config))
        # A folder that was brought back has weights alone, of all iterations.
        done = run.iterations or run.snapshots
        return run.config.iterations <= max(done, default=0)

    def _train_on(self, folder: pathlib.Path) -> checkpoint.Run:
        """Trains until the last iteration, and notes what it cost; raises Stopped if that is interrupted."""
        self._work.say(f"training {self.name}, {self.config.iterations:,} iterations, in {folder}")
        resume = (folder / "config.json").exists()
        started = time.process_time()
        run = self._train(folder, resume)
        if run.interrupted:
            raise Stopped
        seconds = (run.read_metrics() or [{}])[-1].get("seconds", math.nan)
        # CPU time of a run that was stopped is that of its last part alone; its seconds are those of all parts.
        self._work.note_cost(f"run {self.name}", seconds, None if resume else time.process_time() - started)
        return run

    def _keep_start(self, run: checkpoint.Run) -> None:
        """Keeps the weights that the run began with as those of iteration 0, so that sweeps begin there."""
        origin = None if self._begun_from is None else self._begun_from.agent()
        parts = {name: part for name, part in self._options.items() if name in _OWN_PARTS}
        learning = alphazero.make_learning(self.config, init_from=origin, parts=parts)
        state = learning.warm_start(learning.init())
        checkpoint.export_agent(run.path / "agents" / "0.npz", self.config, jax.device_get(state.average))

    def _train(self, folder: pathlib.Path, resume: bool) -> checkpoint.Run:
        show, total = self._work.progress, self.config.iterations
        title = f"training {self.name}"
        if self._lesson is not None:
            start = None if self._begun_from is None or resume else self._begun_from.agent()
            return self._lesson.learn(folder, resume, start, functools.partial(show, title))
        if isinstance(self.config, TrainConfig):
            origin = {} if self._begun_from is None or resume else {"init_from": self._begun_from.agent()}
            return api.train(
                self.config,
                folder,
                resume=resume,
                watch=lambda report: show(title, report.row["iteration"], total),
                say=lambda line: None,
                **({"judge": None} | origin | self._options),
            )
        if isinstance(self.config, SupervisedConfig):
            return supervision.train(
                self.config,
                folder,
                resume=resume,
                init_from=None if self._begun_from is None or resume else self._begun_from.path,
                watch=lambda row: show(title, row["iteration"], total),
                say=lambda line: None,
                **self._options,
            )
        return session.train(
            self.config,
            folder,
            resume=resume,
            make_opponent=make_agent,
            watch=lambda row: show(title, row["iteration"], total),
            say=lambda line: None,
            **self._options,
        )


class Work(Generic[S]):
    """What a stage works with."""

    def __init__(
        self,
        settings: S,
        out: pathlib.Path,
        results: pathlib.Path,
        console: Console,
        progress: StagedProgress,
    ):
        self.settings = settings
        self.out = pathlib.Path(out)
        self.results = pathlib.Path(results)
        self.progress = progress  # (what, done, in all); hand it to whatever takes a while
        self._console = console

    def say(self, line: str) -> None:
        """Prints a line for people."""
        self._console.print(line, soft_wrap=True)

    def run(
        self,
        name: str,
        config: Any,
        *,
        begun_from: StudyRun | None = None,
        lesson: Lesson | None = None,
        whole: bool = False,
        **options: Any,
    ) -> StudyRun:
        """A run, trained when its weights are first needed.

        Args:
          name: of its folder; it may have slashes. Runs of one name must be of one configuration.
          config: a TrainConfig, SupervisedConfig, TDConfig or ESConfig; with a lesson, any configuration.
          begun_from: a run whose weights this one begins with.
          lesson: the learner, where `azjax.train` or that of the configuration's class would not do.
          whole: more than its weights is asked for: a run of which weights alone are left is trained again.
          **options: of the learner's own function `train`, such as own parts. Unless
            `judge` is given, nobody judges while it trains: that is the sweep's affair.
        """
        return StudyRun(self, name, config, begun_from, lesson, whole, options)

    def sweep(
        self,
        run: StudyRun,
        judge: str,
        *,
        options: JudgeOptions | None = None,
        name: str | None = None,
        **what: Any,
    ) -> list[dict[str, Any]]:
        """What a judge finds in every checkpoint of a run, in order; the weights it began with are iteration 0.

        The rows are those of `azjax.evaluate`: their field `iteration` says which checkpoint.

        Args:
          run: the run.
          judge: see `azjax.evaluation.judges`.
          options: of the judge, where its text leaves them open.
          name: what to call it instead of its text, which may name a file; what that file holds, `what` should tell.
          **what: further settings that the result depends on, as plain data.
        """
        name = judge if name is None else name
        settings = {"judge": name} if options is None else {"judge": name, "options": _plain(options)}
        return self._kept_or_made(
            f"{run.name} {name}",
            run.identity | settings | what,
            lambda: evaluate(run.trained, judge, options=options, progress=self.progress)[judge].rows,
            run.config,
        )

    def once(self, name: str, make: Callable[[], Any], *, config: Any = None, **what: Any) -> Any:
        """What `make` returned when it was first called, which must be plain data.

        Args:
          name: of the result.
          make: does the work.
          config: of a run that the result is of, if there is one.
          **what: the settings that the result depends on, as plain data. A result that was kept with others is refused.
        """
        identity = {} if config is None else {"config": _told(config)}
        return self._kept_or_made(name, identity | what, make, config)

    def has(self, name: str) -> bool:
        """Whether a result of `sweep`, named by its run and its judge, or of `once` is kept."""
        return self._kept_result(name).exists()

    def cost_of(self, run: StudyRun) -> dict[str, Any]:
        """Minutes, games and positions that a run has taken, kept as `once` keeps results."""

        def count() -> dict[str, Any]:
            rows = run.metrics()
            if not rows:
                raise ValueError(
                    f"{run.path} has no metrics, so that nobody knows what it cost; move the weights kept of it away to"
                    " train it again"
                )
            last = rows[-1]
            numbers = {name: last[name] for name in ("games", "positions", "updates") if name in last}
            return {"minutes": last["seconds"] / 60, **numbers}

        return self._kept_or_made(f"{run.name} cost", run.identity, count, run.config)

    def table(
        self,
        name: str,
        title: str,
        rows: Mapping[str, Mapping[str, Any]],
        *,
        digits: int = 1,
        notes: Sequence[str] = (),
    ) -> None:
        """Writes NAME.md and NAME.json, and prints the table.

        Args:
          name: of the files.
          title: above the table.
          rows: label -> column -> cell: a number, a text, None, a `Mean`, or `Beside` of two of these.
          digits: after the point.
          notes: lines below it.
        """
        self.results.mkdir(parents=True, exist_ok=True)
        columns, lines = _laid_out(rows, digits)
        plain = {
            label: {column: _plain(cell) for column, cell in cells.items()} for label, cells in rows.items()
        }
        kept = {"title": title, "rows": plain, "notes": list(notes)}
        atomic.write_text(self.results / f"{name}.json", json.dumps(kept, indent=1) + "\n")
        text = markdown(title, columns, lines, notes)
        atomic.write_text(self.results / f"{name}.md", text)
        if not self._console.is_terminal:
            self._console.print(text, soft_wrap=True, markup=False, highlight=False)
            return
        shown = RichTable(*columns, title=title, box=box.SIMPLE_HEAD)
        for column in shown.columns[1:]:
            column.justify = "right"
        for line in lines:
            shown.add_row(*line)
        self._console.print(shown, *notes, sep="\n")

    def figure(self, name: str, figure: Any) -> None:
        """Writes NAME.png; see `azjax.plots.style`."""
        self.results.mkdir(parents=True, exist_ok=True)
        style.save(figure, self.results / f"{name}.png")

    def drawing(self, name: str, svg: str) -> None:
        """Writes NAME.svg; see `azjax.plots.boards`."""
        self.results.mkdir(parents=True, exist_ok=True)
        atomic.write_text(self.results / f"{name}.svg", svg)

    def note_command(self, study: str, line: str) -> None:
        """Adds a command to the manifest, with the settings and versions of now."""
        manifest = self._manifest()
        known = [entry for entry in manifest["commands"] if entry["command"] != line]
        entry = {
            "command": line,
            "settings": _plain(dataclasses.asdict(self.settings)),
            "versions": _versions(),
        }
        self._write_manifest(manifest | {"study": study, "commands": [*known, entry]})

    def note_cost(self, what: str, seconds: float, cpu_seconds: float | None = None) -> None:
        """Adds to the manifest what a result has cost, and on what machine."""
        manifest = self._manifest()
        device = jax.devices()[0]
        cost = {"seconds": round(seconds, 3), "devices": f"{jax.device_count()} {device.device_kind}"}
        cost |= {} if cpu_seconds is None else {"cpu_seconds": round(cpu_seconds, 3)}
        self._write_manifest(manifest | {"costs": manifest["costs"] | {what: _plain(cost)}})

    def _manifest(self) -> dict[str, Any]:
        path = self.results / "manifest.json"
        return files.read_object(path, "manifest") if path.exists() else {"commands": [], "costs": {}}

    def _write_manifest(self, manifest: dict[str, Any]) -> None:
        self.results.mkdir(parents=True, exist_ok=True)
        atomic.write_text(self.results / "manifest.json", json.dumps(manifest, indent=1) + "\n")

    def _kept_result(self, name: str) -> pathlib.Path:
        return self.results / "points" / f"{_file_name(name)}.json"

    def _kept_or_made(
        self, name: str, what: dict[str, Any], make: Callable[[], Any], config: Any = None
    ) -> Any:
        path = self._kept_result(name)
        what = json.loads(json.dumps(what))
        if path.exists():
            kept = files.read_object(path, "kept result")
            if wrong := _difference(kept["of"], what, config):
                raise ValueError(
                    f"{path} was found with other settings ({wrong}); move it away, or give other --out and --results"
                )
            return kept["found"]
        started, cpu = time.perf_counter(), time.process_time()
        found = json.loads(json.dumps(_plain(make())))
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, json.dumps({"of": what, "found": found}) + "\n")
        self.note_cost(name, time.perf_counter() - started, time.process_time() - cpu)
        return found


def training_cost(what: str, config: TrainConfig, runs: int = 1) -> Cost:
    """What training takes: every position played is searched, every position learned from counts as three."""
    played = config.selfplay.lanes * config.selfplay.plies * config.iterations
    return Cost(what, config, runs * played * (config.search.evaluations + 3 * config.replay.reuse))


def judging_cost(
    what: str, config: TrainConfig, positions: int, simulations: int, checkpoints: int = 1
) -> Cost:
    """What a judge takes that asks about so many positions of every checkpoint."""
    return Cost(what, config, float(positions) * (simulations + 1) * checkpoints)


def cost_table(costs: Sequence[Cost]) -> RichTable:
    """The costs of a study's parts, with hours at the speed that the networks have here, on all devices."""
    table = RichTable("part", "network evaluations", "hours here", title="what it costs", box=box.SIMPLE_HEAD)
    evaluations = hours = 0.0
    for cost in costs:
        seconds = cost.evaluations * seconds_per_evaluation(cost.config) if cost.config is not None else 0.0
        part = seconds / 3600 + cost.hours
        evaluations, hours = evaluations + cost.evaluations, hours + part
        table.add_row(cost.what, f"{cost.evaluations:,.0f}", f"{part:,.2f}")
    table.add_row("all", f"{evaluations:,.0f}", f"{hours:,.2f}", style="bold")
    table.caption = (
        "Estimates, by the network's speed measured just now; trees, rules and compiling come on top."
    )
    return table


def seconds_per_evaluation(config: TrainConfig) -> float:
    """Seconds that a position takes the network in self-play's batches, if all devices work at once."""
    lanes = max(1, config.selfplay.lanes // jax.device_count())
    return _seconds_per_evaluation(config.game, config.network, lanes) / jax.device_count()


@functools.lru_cache(maxsize=32)
def _seconds_per_evaluation(game: Any, network: Any, lanes: int, calls: int = 2) -> float:
    # However a run plays and learns, any number of lanes is one that a replay of one group takes.
    config = TrainConfig(
        game=game, network=network, selfplay=SelfplayConfig(lanes=lanes), replay=ReplayConfig(groups=1)
    )
    evaluate = profiling.network_calls(config, calls)
    jax.block_until_ready(evaluate())
    started = time.perf_counter()
    jax.block_until_ready(evaluate())
    return (time.perf_counter() - started) / (calls * lanes)


def markdown(
    title: str, columns: Sequence[str], lines: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> str:
    """A table with its title and notes as Markdown."""
    rule = ["---", *("---:" for _ in columns[1:])]
    rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (columns, *lines)]
    return "\n".join(
        [f"## {title}", "", rows[0], f"|{'|'.join(rule)}|", *rows[1:], "", *(f"{note}\n" for note in notes)]
    )


def cell_text(value: Any, digits: int = 1) -> str:
    """A cell as people read it: a mean with its interval and its number of runs, numbers to so many digits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, Mean):
        shown = f"{value.mean:.{digits}f}"
        if value.count == 1:
            return shown
        low, high = value.interval
        return f"{shown} ({low:.{digits}f} to {high:.{digits}f}, {value.count} runs)"
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def _laid_out(rows: Mapping[str, Mapping[str, Any]], digits: int) -> tuple[list[str], list[list[str]]]:
    """Columns and cells of a table: a column in which anything stands beside the thesis's becomes two."""
    names = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    double = {name for name in names if any(isinstance(cells.get(name), Beside) for cells in rows.values())}
    columns = [""]
    for name in names:
        columns += [f"{name}, thesis", "ours"] if name in double else [name]
    lines = []
    for label, cells in rows.items():
        line = [label]
        for name in names:
            cell = cells.get(name)
            pair = cell if isinstance(cell, Beside) else Beside(None, cell)
            line += [cell_text(part, digits) for part in (pair if name in double else (pair.ours,))]
        lines.append(line)
    return columns, lines


def _plain(value: Any) -> Any:
    """Data for JSON: named tuples and dataclasses by the names of their fields, numbers that are not finite as None."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return checkpoint.finite_or_none(value)


def _portable(config: Any) -> Any:
    """A configuration as it is on any machine: files of openings and of labels are named without their folders."""
    if isinstance(config, SupervisedConfig):
        return dataclasses.replace(config, data=pathlib.PurePath(config.data).name)
    if not isinstance(config, TrainConfig):
        return config
    openings = pathlib.PurePath(config.selfplay.openings).name
    return dataclasses.replace(config, selfplay=dataclasses.replace(config.selfplay, openings=openings))


def _told(config: Any) -> dict[str, Any]:
    return config_to_dict(_portable(config))


def _difference(then: Any, now: dict[str, Any], config: Any) -> str:
    """The first setting in which a kept result is another; empty if none.

    A configuration is read with today's class, so that fields that were added since have their defaults.
    """
    if config is not None:
        try:
            then = then | {"config": config_to_dict(config_from_dict(then["config"], type(config)))}
        except (ConfigError, KeyError, TypeError) as error:
            return str(error)
    flat_then, flat_now = _flat(json.loads(json.dumps(then))), _flat(now)
    for name in sorted(flat_then.keys() | flat_now.keys()):
        if flat_then.get(name) != flat_now.get(name):
            return f"{name}: {flat_then.get(name)!r} then, {flat_now.get(name)!r} now"
    return ""


def _flat(tree: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {name: tree}
    return {
        key: leaf
        for part, value in tree.items()
        for key, leaf in _flat(value, f"{name}.{part}".strip(".")).items()
    }


def _file_name(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_.=" else "-" for sign in name)


def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in _PACKAGES
    }
