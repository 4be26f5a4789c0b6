"""Every task keeps the contract of pipelines, with and without ELMo."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from elmokit.formats import save
from elmokit.tasks.pipeline import TaskPipeline
from elmokit.tasks.saved import load_task
from tests.conftest import build_tiny
from tests.contracts.task import TaskContract
from tests.tasks.small_files import FILES, TASKS, train_small

pytestmark = pytest.mark.slow  # a model of each task is trained first


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("tasks")
    save(build_tiny("characters"), found / "bilm")
    return found


@pytest.fixture(scope="module", params=TASKS)
def trained(request: pytest.FixtureRequest, folder: Path) -> tuple[str, TaskPipeline]:
    name: str = request.param
    model = train_small(folder, name, "--model", str(folder / "bilm"), "--set", "elmo.place=input")
    pipeline = load_task(model, threads=1)
    assert pipeline.embedder is not None
    return name, pipeline


class TestTasks(TaskContract):
    @pytest.fixture
    def pipeline(self, trained: tuple[str, TaskPipeline]) -> TaskPipeline:
        return trained[1]

    @pytest.fixture
    def examples(self, trained: tuple[str, TaskPipeline], folder: Path) -> Sequence[Any]:
        name, pipeline = trained
        return list(pipeline.task.read([folder / FILES[name][0]], pipeline.settings, training=False))
