"""Experiments of a moment for the tests of variants: tiny data, a tiny biLM, runs in this process."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from elmokit.errors import ElmokitError
from elmokit.tasks.experiments import processes, single_run
from elmokit.tasks.experiments.variants import Experiment
from elmokit.tasks.ner.task import Ner
from tests.tasks.conftest import BASE, merge, write_data


def write_experiment(folder: Path, **changes: Any) -> Path:
    """Data, a biLM and settings of a run of a moment."""
    write_data(folder)
    (folder / "tiny.json").write_text(json.dumps(merge(BASE, {"num_epochs": 2, **changes})), encoding="utf-8")
    return folder


def build_experiment(folder: Path, **changes: Any) -> Experiment:
    """The same as an object; names are absolute."""
    files = {name: [str(folder / f"{name}.conll")] for name in ("train", "dev", "test")}
    values = {**files, "output": folder / "out", "seeds": (1, 2), "preset": str(folder / "tiny.json"), "processes": 1}
    return Experiment(Ner(), **{**values, **changes})


def run_in_process(patch: pytest.MonkeyPatch, cache: Path) -> list[str]:
    """Let runs take place here, because a process takes seconds to load torch; their names come into the list."""
    names: list[str] = []
    alone = threading.Lock()

    def launch(command: Sequence[str], lock: int | None, under_way: object) -> tuple[int, str]:
        assert command[1:3] == ["-m", single_run.__name__]
        names.append(Path(json.loads(command[3])["files"]["output"]).name)
        with alone:
            try:
                single_run.run(command[3])
            except ElmokitError as error:
                return 1, f"elmokit: {error}\n"
        return 0, ""

    patch.setenv("ELMOKIT_CACHE", str(cache))
    patch.setattr(processes, "launch", launch)
    return names
