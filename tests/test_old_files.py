"""What an older commit wrote (`tools/write_old_files.py`) resumes and loads, value by value.

An interrupted run must end as the older commit's own uninterrupted run did, and a finished file must hold what the
older commit put into it. The files were written on one processor, and others round differently.
"""

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from elmokit.embedding import Embedder, VectorStore, open_embeddings
from elmokit.embedding.layer_cache import LayerCache
from elmokit.tasks.saved import load_task
from tests.running import command_runner
from tests.tolerances import AFTER_TRAINING, assert_close, assert_close_halves

FIXTURES = Path(__file__).parent / "fixtures/old-files"
MODEL = "written/characters/model"
Run = Callable[..., Any]
DATA = {"ner": "conll", "sentiment": "tsv", "qa": "json"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The inputs and the older files, which the test may change."""
    folder = tmp_path / "old"
    shutil.copytree(FIXTURES, folder)
    with tarfile.open(folder / "written.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ELMOKIT_CACHE", str(folder / "written/cache"))
    return folder


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """What runs a command of the present code in the folder, and gives the JSON that it prints."""
    call = command_runner(folder, monkeypatch, capsys)

    def run(*words: str) -> Any:
        done = call(*words, "--threads", "1", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def read_log(run: Path) -> list[dict[str, Any]]:
    """The entries without the speed, and without the arithmetic, which the older commit did not log."""
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [
        {name: value for name, value in entry.items() if name != "per_second"}
        for entry in entries
        if "arithmetic" not in entry
    ]


def assert_same(found: Any, expected: Any) -> None:
    """Equal JSON values. Floats may differ by the rounding of other processors, and newer keys may be added."""
    if isinstance(expected, dict):
        assert found.keys() >= expected.keys()
        for name in expected:
            assert_same(found[name], expected[name])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        assert found == (pytest.approx(expected, rel=AFTER_TRAINING) if isinstance(expected, float) else expected)


def assert_same_tensors(found: Path, expected: Path) -> None:
    """The same tensors by name and shape, in every file of a folder."""
    names = sorted(path.relative_to(expected) for path in expected.rglob("*.safetensors"))
    assert names
    for name in names:
        tensors, wanted = load_file(found / name), load_file(expected / name)
        assert tensors.keys() == wanted.keys()
        for key in wanted:
            assert_close(tensors[key], wanted[key], atol=AFTER_TRAINING)


@pytest.mark.engine
@pytest.mark.parametrize("kind", ["characters", "words"])
def test_an_interrupted_pretraining_run_resumes(kind: str, folder: Path, run: Run) -> None:
    interrupted, whole = folder / f"written/interrupted-{kind}", folder / f"written/{kind}"
    assert [path.name for path in (interrupted / "checkpoints").iterdir()] == ["step-000000004.pt"]
    run(
        *("pretrain", f"{kind}.toml", "--train", "train.txt", "--heldout", "heldout.txt"),
        *("--output", str(interrupted), "--resume"),
    )
    assert_same(read_log(interrupted), read_log(whole))
    assert_same_tensors(interrupted / "model", whole / "model")


@pytest.mark.engine
def test_an_interrupted_embedding_resumes(folder: Path, run: Run, engine_environment: pytest.MonkeyPatch) -> None:
    engine_environment.setenv("ELMOKIT_NATIVE", "0")  # a journal is finished by the engine that began it
    done = run("embed", "train.txt", "written/interrupted.npz", "--model", MODEL, "--input", "tokens")
    assert done["num_resumed"] == 6
    assert not (folder / "written/interrupted.npz.journal").exists()
    with open_embeddings("written/interrupted.npz") as found, open_embeddings("written/vectors.npz") as expected:
        assert found.meta == expected.meta
        assert len(found) == len(expected) == 10
        for record, other in zip(found, expected, strict=True):
            assert (record.text, record.tokens) == (other.text, other.tokens)
            assert_close(record.vectors, other.vectors)


@pytest.mark.engine
@pytest.mark.parametrize("suffix", ["hdf5", "jsonl", "npz", "parquet"])
def test_dumps_are_read_and_known_as_finished(suffix: str, folder: Path, run: Run) -> None:
    sentences = (folder / "train.txt").read_text(encoding="utf-8").splitlines()
    vectors = Embedder(MODEL, threads=1).embed([sentence.split() for sentence in sentences])
    path = f"written/vectors.{suffix}"
    with open_embeddings(path) as found:
        assert [record.text for record in found] == sentences
        for record, expected in zip(found, vectors, strict=True):
            assert list(record.tokens) == record.text.split()
            assert_close(record.vectors, expected)
    assert run("embed", "train.txt", path, "--model", MODEL, "--input", "tokens")["was_done"]


@pytest.mark.engine
def test_stored_layers_are_read_and_not_computed_again(folder: Path) -> None:
    embedder = Embedder(MODEL, threads=1)
    store = VectorStore(folder / "written/cache/layers" / embedder.fingerprint[:16])
    sentences = [list(record.tokens) for record in store]
    assert ["Ada", "saw", "Oslo", "."] in sentences
    layers = LayerCache(embedder)
    assert layers.prepare(sentences) == 0
    for sentence, expected in zip(sentences, embedder.embed(sentences, dtype="float16"), strict=True):
        assert_close_halves(layers.read(sentence), expected)


@pytest.mark.engine
def test_an_index_of_neighbors_answers_as_before(folder: Path, run: Run) -> None:
    index = [path for path in (folder / "written/index").rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in index}
    found = run(
        *("analyze", "neighbors", "Ada saw the bank .", "--word", "bank", "--layers", "all", "--input", "tokens"),
        *("--model", MODEL, "--corpus", "train.txt", "--index", "written/index"),
    )
    expected = json.loads((folder / "written/neighbors.json").read_text(encoding="utf-8"))
    assert_same(found, expected)
    assert {path: path.read_bytes() for path in index} == before


def train(task: str, output: str) -> list[str]:
    """The command that trained the older task models."""
    train, dev = (f"{task}-{name}.{DATA[task]}" for name in ("train", "dev"))
    files = ["--train", train, "--dev", dev, "--test", dev, "--output", output]
    return ["task", "train", task, "--preset", f"{task}.toml", "--model", MODEL, *files, "--resume"]


@pytest.mark.engine
@pytest.mark.parametrize("task", DATA)
def test_an_interrupted_task_run_resumes(task: str, folder: Path, run: Run) -> None:
    interrupted, whole = folder / f"written/interrupted-{task}", folder / f"written/{task}"
    assert [path.name for path in (interrupted / "checkpoints").iterdir()] == ["step-000000002.pt"]
    result = run(*train(task, str(interrupted)))
    expected = json.loads((whole / "result.json").read_text(encoding="utf-8"))
    assert_same(read_log(interrupted), read_log(whole))
    assert_same(result, {name: value for name, value in expected.items() if name != "versions"})
    assert_same_tensors(interrupted / "model", whole / "model")


@pytest.mark.parametrize("task", DATA)
def test_a_finished_task_run_is_known_as_finished(task: str, folder: Path, run: Run) -> None:
    result = run(*train(task, f"written/{task}"))
    assert result == json.loads((folder / f"written/{task}/result.json").read_text(encoding="utf-8"))


@pytest.mark.engine
@pytest.mark.parametrize("task", DATA)
def test_a_task_model_predicts_as_before(task: str, folder: Path, run: Run) -> None:
    figures = run("task", "evaluate", task, f"written/{task}/model", f"{task}-dev.{DATA[task]}")
    expected = json.loads((folder / f"written/{task}/result.json").read_text(encoding="utf-8"))["dev"]
    assert_same(figures, expected)
    trained = load_task(folder / f"written/{task}/model")
    examples = list(trained.task.read([folder / f"{task}-dev.{DATA[task]}"], trained.settings, training=False))
    lines = (folder / f"written/{task}/predictions.jsonl").read_text(encoding="utf-8").splitlines()
    assert trained.predict_examples(examples) == [json.loads(line) for line in lines]
