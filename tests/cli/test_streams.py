"""Standard streams that are closed, full or not read, pipes for files, and too little memory: one sentence each."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from elmokit.cli import main as main_module
from elmokit.formats import save
from elmokit.model.bilm import BiLM
from tests.running import Call, assert_one_line

pytestmark = pytest.mark.skipif(os.name != "posix", reason="streams are closed as a POSIX shell does it")


@pytest.fixture
def folder(bilm: BiLM, tmp_path: Path) -> Path:
    save(bilm, tmp_path / "model")
    (tmp_path / "in.txt").write_text("The play was naïve. They play.\n", encoding="utf-8")
    return tmp_path


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line with `elmokit` in it, each in a process of its own."""
    line = command.replace("elmokit", f"'{sys.executable}' -m elmokit")
    environment = os.environ | {"NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("elmokit --version >&-", "standard output is closed"),
        ("elmokit embed in.txt - --model model >&-", "standard output is closed"),
        ("elmokit --version >/dev/full", "standard output cannot be written to: No space left on device"),
        ("elmokit --help >/dev/full", "standard output cannot be written to: No space left on device"),
        ("elmokit embed in.txt - --model model >/dev/full", "standard output cannot be written to: No space left"),
        ("elmokit score - --model model <&-", "standard input is closed"),
        ("elmokit embed - out.npz --model model <&-", "standard input is closed"),
    ],
)
def test_closed_and_full_streams(command: str, expected: str, folder: Path) -> None:
    if "/dev/full" in command and not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    done = shell(command, folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"elmokit: {expected}") and done.stderr.count("\n") == 1, done.stderr
    assert not (folder / "out.npz").exists()


def test_a_closed_standard_error_loses_only_messages(folder: Path) -> None:
    done = shell("elmokit embed in.txt out.npz --model model 2>&-", folder)
    assert (done.returncode, done.stdout) == (0, "")
    assert (folder / "out.npz").exists()
    assert shell("elmokit embed missing.txt out.npz 2>&-", folder).returncode == 1


def test_a_reader_that_has_seen_enough_ends_the_command_quietly(folder: Path) -> None:
    (folder / "many.txt").write_text("They play.\n" * 5000)
    done = shell("elmokit score many.txt --model model | head -n 1; exit ${PIPESTATUS[0]}", folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("# 0: perplexity")


def test_ctrl_c_is_told_and_exits_with_130(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("elmokit.corpus.check.check_corpus", interrupted)
    assert_one_line_at(run("corpus", "check", "in.txt"), 130, "elmokit: interrupted\n")


def assert_one_line_at(done: subprocess.CompletedProcess[str], code: int, text: str) -> None:
    assert (done.returncode, done.stdout, done.stderr) == (code, "", text)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), "there is not enough memory (no more can be had): choose smaller sizes"),
        (MemoryError("Unable to allocate 7 TiB"), "not enough memory (Unable to allocate 7 TiB): choose smaller"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory: you tried"),
            "not enough memory (can't allocate memory: you tried): choose smaller",
        ),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "not enough memory (CUDA out of memory"),
        (RuntimeError("Storage size calculation overflowed with sizes=[9]"), "Storage size calculation overflowed"),
    ],
)
def test_memory_that_ends_is_told(error: Exception, expected: str, run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(main_module, "app", fail)
    assert_one_line(run("info", "mini"), expected)


def test_other_runtime_errors_are_faults_of_ours(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(main_module, "app", fail)
    with pytest.raises(RuntimeError, match="a fault"):
        main_module.main()


# --- pipes -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pipe(folder: Path) -> str:
    """A named pipe that somebody writes into once."""
    path = folder / "pipe"
    os.mkfifo(path)
    text = (folder / "in.txt").read_bytes()
    threading.Thread(target=lambda: path.write_bytes(text), daemon=True).start()
    return "pipe"


@pytest.mark.parametrize(
    "words",
    [
        ["embed", "pipe", "out.npz", "--model", "model", "--threads", "1"],
        ["score", "pipe", "--model", "model"],
        ["perplexity", "model", "pipe"],
        ["corpus", "check", "pipe", "--processes", "1"],
        ["corpus", "vocab", "pipe", "--output", "vocab.txt", "--processes", "1"],
        ["corpus", "shard", "pipe", "--output", "out", "--shards", "2", "--processes", "1"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_pipe_is_read_once(words: list[str], pipe: str, run: Call) -> None:
    assert run(*words).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ["pretrain", "tiny", "--train", "pipe", "--output", "run"],
        ["finetune", "model", "--train", "pipe", "--output", "run"],
        ["analyse", "neighbours", "They play.", "--word", "play", "--corpus", "pipe", "--model", "model"],
        ["analyse", "neighbours", "--type", "play", "--corpus", "pipe", "--model", "model"],
        ["analyse", "senses", "play", "--corpus", "pipe", "--model", "model"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_pipe_is_refused_where_text_is_read_again(words: list[str], folder: Path, run: Call) -> None:
    os.mkfifo(folder / "pipe")
    assert_one_line(run(*words), "pipe is a pipe or a device, not a regular file", "save it to a file")
    assert not (folder / "run").exists()


def test_a_pipe_is_no_model(folder: Path, run: Call) -> None:
    os.mkfifo(folder / "pipe")
    assert_one_line(run("info", "pipe"), "pipe is a pipe or a device, not a model file")


# --- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("model.lstm.cell_dim=16000000", "model.lstm (cell_dim 16000000"),
        ("model.lstm.projection_dim=16000000", "projection_dim 16000000"),
        ("model.input.filters=[[1,16000000]]", "model.input"),
        ("batch_size=16000000", "batch_size (16000000)"),
        ("unroll_steps=16000000", "unroll_steps (16000000)"),
    ],
)
def test_absurd_sizes_are_refused(change: str, expected: str, folder: Path, run: Call) -> None:
    preset = "tiny" if "model.input" in change else "tiny-token"
    words = ["pretrain", preset, "--train", "in.txt", "--output", "run", "--set", change]
    assert_one_line(run(*words), "this run needs at least", " GB of memory", expected)
    assert not (folder / "run").exists()


def test_absurd_batches_of_fine_tuning_are_refused(run: Call) -> None:
    words = ["finetune", "model", "--train", "in.txt", "--output", "run", "--set", "batch_size=16000000"]
    assert_one_line(run(*words, "--set", "unroll_steps=1000"), "GB of memory", "batch_size (16000000)")


@pytest.mark.parametrize(("shards", "expected"), [("5", "2 sentences cannot fill 5 shards"), ("1000000", "at most")])
def test_more_shards_than_sentences_are_refused(shards: str, expected: str, folder: Path, run: Call) -> None:
    done = run("corpus", "shard", "in.txt", "--output", "out", "--shards", shards)
    assert_one_line(done, expected, "--shards")
    assert not (folder / "out").exists()


@pytest.mark.parametrize("name", ["x.zip", "x.ZIP"])
@pytest.mark.parametrize("format", ["native", "bilm"])
def test_folders_do_not_end_in_zip(name: str, format: str, folder: Path, run: Call) -> None:
    assert_one_line(run("convert", "model", name, "--to", format), f"{name} ends in .zip", "is a folder", "nlpl")
    assert not (folder / name).exists()
