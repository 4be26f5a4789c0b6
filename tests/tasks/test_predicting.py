"""Prediction for real use: the guide's first lines, nothing on disk, many processes, thousands of calls."""

import io
import os
import re
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from elmokit.embedding.embedder import Embedder
from elmokit.errors import ConfigError, ElmokitWarning, FormatError
from elmokit.formats import load, save
from elmokit.tasks.packaged import packaged_tasks, task_names
from elmokit.tasks.pipeline import TaskPipeline
from elmokit.tasks.registry import TASKS
from elmokit.tasks.saved import load_task
from tests.conftest import build_tiny
from tests.precisions import rounding_precisions
from tests.tasks.small_files import train_small

pytestmark = pytest.mark.slow  # a model is trained first
GUIDE = Path(__file__).parents[2] / "docs/predicting.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("predicting")
    save(build_tiny("characters"), found / "bilm")
    changes = [
        "elmo.place=input",
        "num_epochs=30",
        "loop.patience=0",
        "optimizer.learning_rate=0.01",
        "model.dropout=0",
    ]
    options = [word for change in changes for word in ("--set", change)]
    train_small(found, "ner", "--model", str(found / "bilm"), *options)
    (found / "run").symlink_to(found / "ner")
    return found


@pytest.fixture
def pipeline(folder: Path) -> TaskPipeline:
    return load_task(folder / "run", threads=1)


def test_the_first_lines_of_the_guide(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = re.search(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    lines = [line for line in block[1].splitlines() if line and not line.startswith("#")]
    assert len(lines) == 5
    monkeypatch.chdir(folder)
    code = "\n".join(lines).replace("Ada Lovelace wrote to Charles Babbage.", "Ada saw Paris .")
    with redirect_stdout(io.StringIO()) as shown:
        exec(code, {})
    assert shown.getvalue().startswith("0 Ada PER 0 3 ") and "0 Paris LOC 8 13 " in shown.getvalue()


def test_scores_are_high_for_what_was_learned(pipeline: TaskPipeline) -> None:
    (record,) = pipeline.predict(["Ada saw Paris ."])
    scores = [entity["score"] for entity in record.to_dict()["entities"]]
    assert len(scores) == 2 and all(0.4 < score <= 1 for score in scores)


def test_an_embedder_may_be_shared(folder: Path, pipeline: TaskPipeline) -> None:
    embedder = Embedder(load(folder / "bilm"), threads=1)
    one, other = (load_task(folder / "run", bilm=embedder) for _ in range(2))
    assert one.embedder is other.embedder is embedder
    assert one.predict(["Ada ."]) == pipeline.predict(["Ada ."])
    with pytest.raises(ConfigError, match=r"state 'warm': task models need one with state 'reset'"):
        load_task(folder / "run", bilm=Embedder(load(folder / "bilm"), threads=1, state="warm"))
    with pytest.raises(ConfigError, match=r"was trained on the biLM .* but  is "):
        load_task(folder / "run", bilm=Embedder(build_tiny("softmax"), threads=1))


@pytest.mark.parametrize("name", ["float32", *rounding_precisions()])
def test_the_precision_can_be_chosen(name: str, folder: Path, pipeline: TaskPipeline) -> None:
    other = load_task(folder / "run", threads=1, precision=name)
    assert other.embedder is not None and other.embedder.precision == name
    (one,), (exact,) = other.predict(["Ada saw Paris ."]), pipeline.predict(["Ada saw Paris ."])
    assert (one == exact) == (name == "float32")


def test_raw_text_for_a_model_of_other_tokens(folder: Path) -> None:
    odd = load_task(folder / "run", threads=1)
    odd.table.words += tuple(f"then{number}," for number in range(20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        odd.predict([["then1,", "Ada"]])
    with pytest.warns(ElmokitWarning, match="trained on tokens such as .* which elmokit's tokenizer splits"):
        odd.predict(["Ada saw Paris ."])
    with warnings.catch_warnings():  # once
        warnings.simplefilter("error")
        odd.predict(["Ada saw Paris ."])


def test_a_task_without_a_packaged_model_is_named() -> None:
    with pytest.raises(FormatError, match=r"^sentiment is a task, and there is no model of this name: give the model/"):
        load_task("sentiment")


def test_the_names_of_the_tasks() -> None:
    assert task_names() == sorted(TASKS)
    assert set(packaged_tasks()) <= set(TASKS)


def test_candidates_are_for_questions_only(pipeline: TaskPipeline) -> None:
    with pytest.raises(ConfigError, match="num_best is 2, but ner predicts one answer per input"):
        pipeline.predict(["Ada ."], num_best=2)


def test_nothing_is_written(pipeline: TaskPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    opened: list[str] = []
    sys.addaudithook(lambda event, args: opened.append(str(args[:2])) if event == "open" and listening else None)
    listening = True
    pipeline.predict(["Zweckverband saw Paris .", "Bob left ."])
    listening = False
    assert not (tmp_path / "cache").exists()
    assert [one for one in opened if "'w" in one or "'a" in one or "+" in one] == []


def test_six_processes_predict_at_once(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "elmokit", "task", "predict", str(folder / "run"), "Ada saw Paris .", "--json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ELMOKIT_CACHE": str(tmp_path / "cache")}
    running = [
        subprocess.Popen([*command, "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        for _ in range(6)
    ]
    results = [process.communicate() for process in running]
    assert {errors for _, errors in results} == {b""}
    assert len({output for output, _ in results}) == 1 and b"Paris" in results[0][0]
    assert not (tmp_path / "cache").exists()


@pytest.mark.extended
def test_soak(pipeline: TaskPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of predictions: neither memory nor files grow, nor what one prediction does; no word is on disk."""
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    words = ["Zweckverband", "Ada", "Paris", "naïveté", "Xylophon"]

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def calls_of_one() -> int:
        number = 0

        def count(*_: object) -> None:
            nonlocal number
            number += 1

        sys.setprofile(count)
        try:
            pipeline.predict(["Ada saw Paris ."])
        finally:
            sys.setprofile(None)
        return number

    for number in range(1000):
        pipeline.predict([f"{words[number % 5]} {number} saw {words[number % 3]} ."])
    before = (resident(), len(os.listdir("/proc/self/fd")), calls_of_one())
    for number in range(1000, 5000):
        pipeline.predict([f"{words[number % 5]} {number} saw {words[number % 3]} ."])
    after = (resident(), len(os.listdir("/proc/self/fd")), calls_of_one())
    assert after[0] - before[0] < 30 * 2**20, "the word cache holds some thousand more words"
    assert after[1] == before[1]
    assert abs(after[2] - before[2]) < 50  # the work of a prediction, which load does not change as it does its time
    for root in (tmp_path, Path(os.environ.get("TMPDIR", "/tmp"))):
        found = [path for path in root.glob("elmokit*/**/*") if path.is_file()]
        assert not any(word.encode() in path.read_bytes() for path in found for word in words)
    assert not (tmp_path / "cache").exists()
