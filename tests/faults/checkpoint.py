"""Faults in what a run keeps on disk."""

from tests.faults.core import Fault

CHECKPOINT = "azjax/training/checkpoint.py"

_DAMAGED = "training/test_loop.py::test_a_damaged_checkpoint_is_set_aside_and_saved_anew"
_ALL_DAMAGED = (
    "training/test_loop.py::test_a_run_whose_checkpoints_are_all_damaged_is_refused_and_left_as_it_is"
)
_EARLIER = "training/test_loop.py::test_going_on_from_an_earlier_checkpoint_sets_the_later_ones_aside"
_COPIES = "training/test_loop.py::test_a_changed_configuration_is_noticed_by_its_copies"
_LINES = "training/test_loop.py::test_a_damaged_line_of_the_metrics_costs_no_other"
_SECONDS = "training/test_loop.py::test_seconds_go_on_over_resumes"
_GONE = "training/test_loop.py::test_a_run_whose_checkpoints_are_gone_is_refused_and_left_as_it_is"
_KILLED_START = "training/test_loop.py::test_a_start_that_was_killed_can_be_made_again"

FAULTS = [
    Fault(
        "checkpoint-oldest-instead-of-newest",
        CHECKPOINT,
        "for step in reversed(known) if iteration is None else [iteration]:",
        "for step in known if iteration is None else [iteration]:",
        (f"{_DAMAGED}[a bit flipped]",),
    ),
    Fault(
        "checkpoint-changed-bits-not-noticed",
        CHECKPOINT,
        "wrong = [name for name, known in sums.items() if _checksum(folder / name) != known]",
        "wrong = [name for name in sums if not (folder / name).stat().st_size]",
        (f"{_DAMAGED}[a bit flipped]",),
    ),
    Fault(
        "checkpoint-list-without-folders",
        CHECKPOINT,
        'found = sorted(path for path in folder.rglob("*") if path.is_file())',
        'found = sorted(path for path in folder.glob("*") if path.is_file())',
        (f"{_DAMAGED}[a bit flipped]",),
    ),
    Fault(
        "checkpoint-set-aside-too-early",
        CHECKPOINT,
        "for step in self.iterations if step > after",
        "for step in self.iterations if step >= after",
        (_EARLIER,),
    ),
    Fault(
        "checkpoint-one-kept",
        CHECKPOINT,
        "for older in self.iterations[:-KEPT]:",
        "for older in self.iterations[:-1]:",
        (_EARLIER, f"{_DAMAGED}[a bit flipped]"),
    ),
    Fault(
        "checkpoint-changed-configuration-not-noticed",
        CHECKPOINT,
        "                self._check_same_configuration(step)\n",
        "",
        (_COPIES,),
    ),
    Fault(
        "checkpoint-runs-cannot-be-made-longer",
        CHECKPOINT,
        "    differences = _differences(config_to_dict(own), config_to_dict(config))\n"
        '    differences.pop("iterations", None)\n',
        "    differences = _differences(config_to_dict(own), config_to_dict(config))\n",
        (_SECONDS,),
    ),
    Fault(
        "checkpoint-length-of-the-run-stays",
        CHECKPOINT,
        "return Run(path, dataclasses.replace(own, iterations=config.iterations))",
        "return Run(path, own)",
        (_SECONDS,),
    ),
    Fault(
        "checkpoint-metrics-of-the-saved-iteration-dropped",
        CHECKPOINT,
        'kept = [row for row in rows if row["iteration"] <= iteration]',
        'kept = [row for row in rows if row["iteration"] < iteration]',
        (_SECONDS,),
    ),
    Fault(
        "checkpoint-metrics-after-a-damaged-line-dropped",
        CHECKPOINT,
        "            elif line.strip():\n                others.append(line)\n",
        "            elif line.strip():\n                others.append(line)\n                break\n",
        (_LINES,),
    ),
    Fault(
        "checkpoint-begins-anew-where-checkpoints-are-gone",
        CHECKPOINT,
        "            self._check_nothing_is_lost()\n            return 0, {}\n",
        "            return 0, {}\n",
        (_GONE,),
    ),
    Fault(
        "checkpoint-killed-start-refused",
        CHECKPOINT,
        'entry.name != ".lock" and not atomic.is_partial(entry) for entry in path.iterdir()',
        'entry.name != ".lock" for entry in path.iterdir()',
        (_KILLED_START,),
    ),
]
