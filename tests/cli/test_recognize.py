"""Every kind of file is recognized, and named by a command that is given it in place of another."""

import gzip
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from elmokit.analysis.neighbors.build import open_index
from elmokit.analysis.neighbors.index import is_finished
from elmokit.analysis.page import write_report
from elmokit.analysis.report import Report
from elmokit.corpus.shards import write_shards
from elmokit.embedding.dumps import is_dump, is_own_dump
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.records import Meta
from elmokit.embedding.store import is_store
from elmokit.embedding.store_writer import StoreWriter
from elmokit.formats import fingerprint, load, native, save
from elmokit.recognize import identify, is_run, near_names, recognize
from elmokit.tasks.registry import TASKS
from elmokit.tasks.runner import TaskFiles, train_task
from elmokit.tasks.saved import is_task_model, load_task
from elmokit.text.input_kind import read_shard_summary
from elmokit.text.vocabulary import is_vocabulary, write_vocabulary
from tests.conftest import WORDS, build_tiny
from tests.running import Call, assert_one_line
from tests.tasks.conftest import settings as task_settings
from tests.training import runs

NER = "Ada\tB-PER\nsaw\tO\nParis\tB-LOC\n.\tO\n\nBob\tB-PER\nleft\tO\n.\tO\n"
DUMPS = ("v.hdf5", "v.npz", "v.jsonl", "v.parquet")
WHAT = {
    "m": "a model (biLM)",
    "b": "a model (biLM)",
    "z.zip": "a zipped model",
    "m/model.safetensors": "a file of weights (safetensors)",
    "b/weights.hdf5": "a model's file of weights (HDF5)",
    "m/config.json": "the settings of a model (JSON)",
    "v.hdf5": "a file of embeddings (HDF5)",
    "v.npz": "a file of embeddings (npz)",
    "v.jsonl": "a file of embeddings (JSON lines)",
    "v.jsonl.gz": "a file of embeddings (JSON lines)",
    "v.parquet": "a Parquet file, as embeddings are written",
    "v.npz.journal": "the journal of unfinished embeddings",
    "store": "a vector store",
    "index": "an index of a corpus",
    "half-index": "an unfinished index of a corpus",
    "run": "the folder of a training run",
    "half-run": "the folder of a training run that has not finished",
    "run/result.json": "a record of a run",
    "taskrun": "the folder of a task run (ner)",
    "half-taskrun": "the folder of a task run (ner) that has not finished",
    "taskrun/model": "a task model (ner)",
    "shards": "a folder of shards",
    "vocab.txt": "a vocabulary",
    "report": "the folder of a report",
    "report/report.json": "the figures of a report",
    "text.txt": "a text file",
    "text.txt.gz": "a text file",
    "wrong-name.txt": "a compressed file without the ending .gz",
    "other.npz": "a file of NumPy arrays (npz) that elmokit did not write",
    "some.zip": "a zip",
    "word.docx": "an Office file (Word, Excel or PowerPoint)",
    "checkpoint.pt": "a PyTorch file (a checkpoint)",
    "paper.pdf": "a PDF file",
    "utf16.txt": "a UTF-16 file",
    "empty.txt": "an empty file",
    "noise.bin": "a binary file",
    "some.json": "a JSON file",
    "latin.txt": None,
    "plain-folder": None,
    "nowhere": None,
    "nul\0nul": None,
}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each kind, as the package writes them."""
    folder = tmp_path_factory.mktemp("zoo")
    patch = pytest.MonkeyPatch()
    patch.setenv("ELMOKIT_CACHE", str(folder / "cache"))
    try:
        _make_models(folder)
        _make_embeddings(folder)
        _make_runs(folder)
        _make_files(folder)
    finally:
        patch.undo()
    return folder


def _make_models(folder: Path) -> None:
    save(build_tiny("softmax"), folder / "m")
    save(build_tiny("characters"), folder / "b", format="bilm")
    save(build_tiny("softmax"), folder / "z.zip", format="nlpl")


def _make_embeddings(folder: Path) -> None:
    embedder = Embedder(build_tiny("softmax"))
    (folder / "text.txt").write_text("the play was\nthe play .\n", encoding="utf-8")
    from elmokit.embedding.bulk import EmbedOptions, embed_file

    for name in DUMPS:
        embed_file(folder / "text.txt", folder / name, embedder, EmbedOptions())
    (folder / "v.jsonl.gz").write_bytes(gzip.compress((folder / "v.jsonl").read_bytes()))
    for name in ("v.npz.journal", "store"):
        with StoreWriter.create(folder / name, Meta(width=2)) as writer:
            writer.add("a", ("a",), np.zeros((1, 2), np.float32))
            writer.commit()
    open_index(embedder, folder / "text.txt", folder / "index")
    shutil.copytree(folder / "index", folder / "half-index", ignore=shutil.ignore_patterns("words"))


def _make_runs(folder: Path) -> None:
    corpus = runs.write_corpus(folder)
    runs.run(runs.settings(num_epochs=1), corpus, folder / "run")
    (folder / "ner.conll").write_text(NER, encoding="utf-8")
    own = [str(folder / "ner.conll")]
    config = task_settings(elmo={"place": "none"}, num_epochs=1)
    train_task(TASKS["ner"], config, TaskFiles(own, own, folder / "taskrun"))
    for name in ("run", "taskrun"):
        ignored = ("result.json",) if name == "taskrun" else ("result.json", "model")
        shutil.copytree(folder / name, folder / f"half-{name}", ignore=shutil.ignore_patterns(*ignored))


def _make_files(folder: Path) -> None:
    write_shards([folder / "text.txt"], folder / "shards", num_shards=2)
    write_vocabulary(WORDS, folder / "vocab.txt")
    write_report(Report("a report", (), {"a": 1}), folder / "report")
    packed = gzip.compress((folder / "text.txt").read_bytes())
    (folder / "text.txt.gz").write_bytes(packed)
    (folder / "wrong-name.txt").write_bytes(packed)
    np.savez(folder / "other.npz", a=np.zeros(3))
    for name, member in (("some.zip", "a.txt"), ("word.docx", "[Content_Types].xml")):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr(member, "x")
    torch.save({"model": torch.zeros(2)}, folder / "checkpoint.pt")
    (folder / "paper.pdf").write_bytes(b"%PDF-1.7\n%\xe2\xe3")
    (folder / "utf16.txt").write_text("the play", encoding="utf-16")
    (folder / "empty.txt").touch()
    (folder / "noise.bin").write_bytes(bytes(range(256)))
    (folder / "some.json").write_text('{"a": 1}')
    (folder / "latin.txt").write_bytes("naïve\n".encode("latin-1"))
    (folder / "plain-folder").mkdir()
    (folder / "plain-folder" / "a.txt").touch()


@pytest.fixture
def folder(zoo: Path) -> Path:
    """Commands run among one of each kind."""
    return zoo


def test_every_kind_is_recognized(zoo: Path) -> None:
    assert {name: recognize(zoo / name) for name in WHAT} == WHAT


def test_the_owners_of_the_formats_agree(zoo: Path) -> None:
    families = {name: kind.family for name in WHAT if (kind := identify(zoo / name)) is not None}
    for name, family in families.items():
        path = zoo / name
        if name != "v.jsonl.gz":  # ours, but for the compression
            assert (family == "embeddings") == (path.is_file() and is_own_dump(path)), name
        assert (family in ("store", "journal")) == is_store(path), name
        assert (family == "index" and "unfinished" not in WHAT[name]) == is_finished(path), name
        assert (family in ("run", "task run")) == is_run(path), name
        assert (family == "task model") == is_task_model(path), name
        assert (family == "shards") == (read_shard_summary(path) is not None), name
        assert (family == "vocabulary") == (path.is_file() and is_vocabulary(path)), name
        assert native.is_own(path) == (name == "m"), name
        assert family != "embeddings" or is_dump(path), name


MODELS = ("run", "some.json", "some.zip", "m/model.safetensors")  # what may be a model, or part of one
NOT_MODELS = [name for name, what in WHAT.items() if what and "model" not in what and name not in MODELS]


@pytest.mark.parametrize("name", [*NOT_MODELS, "taskrun/model"])
def test_what_is_no_model_is_named(name: str, zoo: Path, run: Call) -> None:
    if name == "text.txt.gz":
        pytest.skip("as text.txt")
    what = WHAT[name]
    assert what is not None
    assert_one_line(run("info", name), f"{name} is {what}, not a model: ")


@pytest.mark.parametrize(
    "words",
    [
        ["convert", "taskrun", "x"],
        ["embed", "text.txt", "x.npz", "--model", "taskrun"],
        ["score", "text.txt", "--model", "taskrun"],
        ["perplexity", "taskrun", "text.txt"],
        ["substitutes", "the play", "--position", "0", "--model", "taskrun"],
        ["finetune", "taskrun", "--train", "text.txt", "--output", "x"],
        ["pretrain", "tiny", "--train", "text.txt", "--output", "x", "--init", "taskrun"],
        ["task", "train", "ner", "--train", "ner.conll", "--dev", "ner.conll", "--output", "x", "--model", "taskrun"],
        ["analyse", "neighbours", "the play", "--word", "play", "--corpus", "text.txt", "--model", "taskrun"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_every_command_that_takes_a_model_says_so(words: list[str], zoo: Path, run: Call) -> None:
    assert_one_line(run(*words), "taskrun is the folder of a task run (ner), not a model", "the one it was trained on")
    assert not (zoo / "x").exists() and not (zoo / "x.npz").exists()


@pytest.mark.parametrize("name", ["v.hdf5", "v.jsonl", "v.jsonl.gz", "v.parquet", "m/model.safetensors", "word.docx"])
@pytest.mark.parametrize(
    "words",
    [
        ["embed", "{}", "x.npz", "--model", "m"],
        ["embed", "{}", "x.npz", "--model", "m", "--errors", "replace"],
        ["score", "{}", "--model", "m"],
        ["perplexity", "m", "{}"],
        ["pretrain", "tiny", "--train", "{}", "--output", "x"],
        ["corpus", "check", "{}"],
        ["corpus", "vocab", "{}", "--output", "x"],
        ["analyse", "neighbours", "the play", "--word", "play", "--corpus", "{}", "--model", "m"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_what_is_no_text_is_named(name: str, words: list[str], zoo: Path, run: Call) -> None:
    if name == "m/model.safetensors" and ("replace" in words or "check" in words):
        pytest.skip("its first bytes may begin a text, and bytes that are not UTF-8 are asked for")
    what = WHAT[name]
    assert what is not None
    assert_one_line(run(*[word.replace("{}", name) for word in words]), f"{name} is {what}, not text: ")
    assert not (zoo / "x").exists() and not (zoo / "x.npz").exists()


@pytest.mark.parametrize("name", ["run", "taskrun", "shards", "index", "v.npz.journal"])
def test_folders_given_as_text_are_named(name: str, zoo: Path, run: Call) -> None:
    assert_one_line(run("embed", name, "x.npz", "--model", "m"), f"{name} is {WHAT[name]}, not text: ")
    assert_one_line(run("corpus", "check", name), f"{name} is {WHAT[name]}, not a text file: ")
    neighbors = ["analyse", "neighbours", "the play", "--word", "play", "--model", "m"]
    assert_one_line(run(*neighbors, "--corpus", name), f"{name} is {WHAT[name]}, not text: ")


@pytest.mark.parametrize("name", ["run", "m", "v.hdf5", "half-taskrun", "text.txt"])
def test_what_is_no_task_model_is_named(name: str, zoo: Path, run: Call) -> None:
    for words in (["evaluate", "ner", name, "ner.conll"], ["predict", "ner", name, "Ada left ."]):
        assert_one_line(run("task", *words), f"{name} is {WHAT[name]}, not a task model: ")


def test_a_finished_run_stands_for_its_model(zoo: Path, run: Call) -> None:
    assert fingerprint(load(zoo / "run")) == fingerprint(load(zoo / "run" / "model"))
    done = run("info", "run", "--json")
    assert done.returncode == 0 and Path(json.loads(done.stdout)["path"]) == Path("run/model")
    assert load_task(zoo / "taskrun").table.words == load_task(zoo / "taskrun/model").table.words
    own, model = (run("task", "evaluate", "ner", name, "ner.conll") for name in ("taskrun", "taskrun/model"))
    assert (own.returncode, own.stdout) == (0, model.stdout)


def test_an_unfinished_run_says_what_to_give(zoo: Path, run: Call) -> None:
    assert_one_line(run("info", "half-run"), "has not finished, not a model", "--resume", "half-run/best")
    done = run("task", "evaluate", "ner", "half-taskrun", "ner.conll")
    assert_one_line(done, "has not finished, not a task model", "--resume", "half-taskrun/model")


def test_a_mistyped_path_hears_of_files_first(zoo: Path, run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMOKIT_OFFLINE", "1")
    done = run("info", "runn/model")
    assert_one_line(done, "there is no file 'runn/model' (did you mean run/model?), and no packaged or published model")
    assert done.stderr.index("no file") < done.stderr.index("Hub repository 'runn/model'")
    assert_one_line(run("info", "run/modle"), "(did you mean run/model?)")
    assert_one_line(run("info", "miny"), "no file 'miny'", "named 'miny' (did you mean mini?)")
    assert_one_line(run("embed", "txt.txt", "x.npz", "--model", "m"), "txt.txt cannot be read", "did you mean text.txt")
    assert_one_line(run("corpus", "check", "txt.txt"), "no file matches 'txt.txt' (did you mean text.txt", "glob")
    assert_one_line(run("task", "evaluate", "ner", "taskrum", "ner.conll"), "taskrum does not exist (did you mean task")


def test_near_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("run/model", "Corpus", "corpora"):
        (tmp_path / name).mkdir(parents=True)
    assert near_names("corpsu")[0] == "Corpus"
    assert near_names("rum/model") == ["run/model"]
    assert near_names(tmp_path / "rum" / "model") == [str(tmp_path / "run" / "model")]
    assert near_names("rum/other") == []
    assert near_names("zzzz") == near_names("x" * 10_000) == near_names("run/model") == []
