"""`elmokit embed`, and `convert` of embeddings, as a user meets them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import elmokit
from elmokit.cli.main import app
from elmokit.embedding.dumps import open_embeddings
from elmokit.embedding.store import VectorStore
from elmokit.model.bilm import BiLM
from tests.running import Call, Done, assert_one_line


def run_script(folder: Path, script: str, *words: str) -> Done:
    """The command in its own process, after some preparation."""
    script += "\nimport sys; from elmokit.cli.main import main; sys.argv[0] = 'elmokit'; main()"
    command = [sys.executable, "-c", script, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def folder(bilm: BiLM, tmp_path: Path) -> Path:
    elmokit.save(bilm, tmp_path / "model")
    (tmp_path / "in.txt").write_text("The play was cancelled .\n\nThey play .\n", encoding="utf-8")
    (tmp_path / "out").mkdir()
    return tmp_path


def test_a_run_and_its_repetition(folder: Path, run: Call) -> None:
    words = ["embed", "in.txt", "out/v.hdf5", "--model", "model", "--layers", "0.2,0.3,0.5"]
    done = run(*words)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "wrote out/v.hdf5: 3 sentences\n"
    again = run(*words, "--json")
    assert again.stderr == ""
    assert json.loads(again.stdout) == json.loads(again.stdout) | {
        "num_lines": 3,
        "was_done": True,
        "output": "out/v.hdf5",
    }
    with open_embeddings(folder / "out/v.hdf5") as embeddings:
        assert [len(tokens) for _, tokens in embeddings.sentences()] == [5, 0, 3]
        assert (embeddings.meta.model, embeddings.meta.layers) == ("model", "0.2,0.3,0.5")
    assert_one_line(run(*words[:-2], "--layers", "top"), "layers", "--overwrite")
    assert os.listdir(folder / "out") == ["v.hdf5"]


@pytest.mark.parametrize("device", ["abacus", "cuda:99", "meta", "cpu:x", ""])
def test_a_device_that_is_not_there_is_one_sentence(device: str, folder: Path, run: Call) -> None:
    done = run("embed", "in.txt", "out/v.npz", "--model", "model", "--device", device)
    assert_one_line(done, f"device {device!r} cannot be used here", "choose cpu")
    assert os.listdir(folder / "out") == []


def test_the_model_goes_to_the_device(folder: Path, run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = []
    monkeypatch.setattr(BiLM, "to", lambda self, device: moved.append(str(device)) or self)
    for words in ([], ["--device", "cpu"], ["--device", "cpu:0"]):
        assert run("embed", "in.txt", "-", "--model", "model", *words).returncode == 0
    assert moved[-3:] == ["cpu", "cpu", "cpu:0"]


@pytest.mark.slow
def test_pipes(folder: Path) -> None:
    words = ["embed", "-", "-", "--model", "model", "--layers", "1", "--input", "text"]
    command = [sys.executable, "-m", "elmokit", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, input="It's here. Yes!\n", text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    meta, sentence = map(json.loads, done.stdout.splitlines())
    assert (meta["elmokit"]["layers"], meta["elmokit"]["extra"]["input"]) == ("1", "text")
    assert sentence["tokens"] == ["It", "'s", "here", ".", "Yes", "!"]
    assert np.array(sentence["vectors"]).shape == (6, 12)


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_traceback(folder: Path) -> None:
    (folder / "in.txt").write_text("a b c\n" * 20_000)
    command = [sys.executable, "-m", "elmokit", "embed", "in.txt", "-", "--model", "model"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode == 1


def test_usage_errors(folder: Path) -> None:
    for words in (
        ["in.txt", "-", "--model", "model", "--json"],
        ["in.txt", "out/v.npz", "--model", "model", "--layers", "1,x"],
        ["in.txt", "out/v.npz", "--model", "model", "--batch-size", "0"],
        ["in.txt", "out/v.npz", "--model", "model", "--pooling", "sum"],
        ["in.txt"],
    ):
        result = CliRunner().invoke(app, ["embed", *words])
        assert result.exit_code == 2, words
    assert os.listdir(folder / "out") == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["missing.txt", "out/v.npz"], ["missing.txt", "No such file"]),
        (["out", "out/v.npz"], ["out", "cannot be read"]),
        (["in.txt", "out/v.csv"], [".csv", ".hdf5, .h5, .parquet, .npz, .jsonl"]),
        (["in.txt", "no/v.npz"], ["no", "does not exist"]),
        (["in.txt", "/proc/v.npz"], ["/proc/v.npz"]),
        (["in.txt", "out/v.npz", "--layers", "7"], ["no layer 7", "layers 0 to 2"]),
        (["in.txt", "out/v.npz", "--layers", "upper"], ["upper", "all, top, average"]),
        (["latin.txt", "out/v.npz"], ["line 2 of latin.txt", "UTF-8", "--errors replace"]),
    ],
)
def test_bad_input_is_one_line(folder: Path, run: Call, words: list[str], expected: list[str]) -> None:
    (folder / "latin.txt").write_bytes("fine\nnaïve\n".encode("latin-1"))
    assert_one_line(run("embed", *words, "--model", "model"), *expected)
    assert not list((folder / "out").glob("v.npz"))


def test_an_empty_file_and_replaced_bytes(folder: Path, run: Call) -> None:
    (folder / "empty.txt").touch()
    assert run("embed", "empty.txt", "out/e.parquet", "--model", "model").returncode == 0
    (folder / "latin.txt").write_bytes("naïve\n".encode("latin-1"))
    done = run("embed", "latin.txt", "out/l.jsonl", "--model", "model", "--errors", "replace")
    assert done.returncode == 0
    with open_embeddings(folder / "out/l.jsonl") as embeddings:
        assert embeddings.text(0) == "na\ufffdve"


@pytest.mark.slow
def test_ctrl_c_is_130_and_the_run_goes_on(folder: Path, run: Call) -> None:
    (folder / "in.txt").write_text("a b c\n" * 10)
    script = (
        "import os, signal\n"
        "from elmokit.embedding import dump_thread, windows\n"
        "windows.WINDOW_INPUTS, dump_thread.COMMIT_SECONDS, dump_thread.WAITING_BYTES = 2, 0, 0\n"
        "from elmokit.embedding.store_writer import StoreWriter\n"
        "commit, seen = StoreWriter.commit, []\n"
        "def interrupted(self, *args):\n"
        "    commit(self, *args); seen.append(1)\n"
        "    if len(seen) == 3: os.kill(os.getpid(), signal.SIGINT)\n"
        "StoreWriter.commit = interrupted"
    )
    words = ["embed", "in.txt", "out/v.parquet", "--model", "model"]
    done = run_script(folder, script, *words)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert "repeat the command to resume" in done.stderr
    assert os.listdir(folder / "out") == ["v.parquet.journal"]
    assert len(VectorStore(folder / "out/v.parquet.journal")) == 6
    assert run(*words).stderr == "wrote out/v.parquet: 10 sentences, 6 of them by an earlier run\n"


@pytest.mark.slow
def test_a_full_disk_is_one_line(folder: Path, run: Call) -> None:
    (folder / "in.txt").write_text("a b c\n" * 1000)
    script = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))"
    words = ["embed", "in.txt", "out/v.hdf5", "--model", "model"]
    assert_one_line(run_script(folder, script, *words), "v.hdf5", "File too large")
    assert not (folder / "out/v.hdf5").exists()
    assert run(*words).returncode == 0


def test_help_shows_examples_and_loads_no_torch() -> None:
    result = CliRunner().invoke(app, ["embed", "--help"])
    assert "Examples:" in result.stdout
    assert "elmokit embed sentences.txt vectors.hdf5" in result.stdout
    code = "import sys; from elmokit.cli.main import app; print({'torch', 'numpy', 'h5py'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_embeddings_convert_by_suffix(folder: Path, run: Call) -> None:
    assert run("embed", "in.txt", "out/a.hdf5", "--model", "model").returncode == 0
    done = run("convert", "out/a.hdf5", "out/b.jsonl")
    assert (done.returncode, done.stderr) == (0, "wrote out/b.jsonl (3 sentences)\n")
    with open_embeddings(folder / "out/a.hdf5") as a, open_embeddings(folder / "out/b.jsonl") as b:
        assert a.meta == b.meta
        assert all(np.array_equal(x.vectors, y.vectors) for x, y in zip(a, b, strict=True))
    assert_one_line(run("convert", "out/a.hdf5", "out/b.jsonl"), "already exists")
    assert run("convert", "out/a.hdf5", "out/b.jsonl", "--overwrite").returncode == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["out/a.npz", "new-model"], ["is a file of embeddings, not a model", ".hdf5"]),
        (["out/a.npz", "b.hdf5", "--to", "bilm"], ["is a file of embeddings", "no --to"]),
        (["model", "b.hdf5"], ["model is not a file of embeddings", "elmokit embed"]),
        (["missing.npz", "b.hdf5"], ["missing.npz"]),
    ],
)
def test_conversion_never_crosses(folder: Path, run: Call, words: list[str], expected: list[str]) -> None:
    result = CliRunner().invoke(
        app, ["embed", str(folder / "in.txt"), str(folder / "out/a.npz"), "--model", str(folder / "model")]
    )
    assert result.exit_code == 0
    assert_one_line(run("convert", *words), *expected)
    assert not (folder / "b.hdf5").exists()
    assert not (folder / "new-model").exists()


def test_output_may_be_an_option(folder: Path, run: Call) -> None:
    options = ["--model", "model", "--layers", "top"]
    assert run("embed", "in.txt", "out/a.npz", *options).returncode == 0
    for name, number in (("--output", 1), ("-o", 2)):
        assert run("embed", "in.txt", name, f"out/{number}.npz", *options).returncode == 0
        assert run("convert", f"out/{number}.npz", name, f"out/{number}.jsonl").returncode == 0
        with open_embeddings(folder / "out/a.npz") as a, open_embeddings(folder / f"out/{number}.jsonl") as b:
            assert all(np.array_equal(x.vectors, y.vectors) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["embed", "in.txt"], "Invalid value for OUTPUT: say what to write, as OUTPUT or with --output."),
        (
            ["embed", "in.txt", "a.npz", "-o", "b.npz"],
            "OUTPUT a.npz and --output b.npz both say what to write: give one",
        ),
        (["convert", "model"], "Invalid value for DST: say what to write, as DST or with --output."),
        (["convert", "model", "a", "--output", "b"], "DST a and --output b both say what to write: give one of them."),
    ],
)
def test_output_is_given_once(folder: Path, run: Call, words: list[str], expected: str) -> None:
    before = sorted(folder.iterdir())
    assert_one_line(run(*words), expected, code=2)
    assert sorted(folder.iterdir()) == before
