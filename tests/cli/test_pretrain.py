"""`elmokit pretrain` as a user meets it: what it prints, where, and its exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elmokit.training.checkpoint import Checkpoints
from tests.running import Call, assert_help_has_examples, assert_one_line
from tests.training.runs import BASE, merge, write_corpus


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The command's files."""
    corpus = write_corpus(tmp_path)
    return [
        *("--train", f"{tmp_path}/[ab].txt", "--heldout", corpus["heldout"][0]),
        *("--output", str(tmp_path / "run"), "--threads", "1"),
    ]


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(merge(BASE, {"loop": {"max_steps": 4}})), encoding="utf-8")
    return str(path)


def start(*words: str) -> subprocess.Popen[str]:
    environment = os.environ | {"NO_COLOR": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "elmokit", "pretrain", *words]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)


def test_a_run_and_its_result(words: list[str], config: str, run: Call) -> None:
    done = run("pretrain", config, *words)
    assert done.returncode == 0
    first, carry, reset = done.stdout.splitlines()
    assert first.startswith("wrote ") and first.endswith("/run/model after 4 steps, 80 predictions per direction")
    assert carry.startswith("held-out perplexity (carry): ")
    assert reset.startswith("held-out perplexity (reset): ")
    assert done.stderr.startswith("step 4: held-out perplexity ")
    done = run("pretrain", config, *words, "--resume", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["steps"] == 4


def test_only_the_first_process_speaks(
    words: list[str], config: str, run: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    done = run("pretrain", config, *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_with_a_checkpoint_and_one_line(
    number: signal.Signals, words: list[str], config: str, tmp_path: Path
) -> None:
    process = start(config, *words, "--set", "loop.max_steps=1000000", "--set", "loop.evaluate_every=1000000")
    log = tmp_path / "run" / "log.jsonl"
    while process.poll() is None and not (log.exists() and log.read_text(encoding="utf-8").count("\n") > 2):
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert err == f"elmokit: stopped; repeat the command with --resume to resume {tmp_path / 'run'}\n"
    step = Checkpoints(tmp_path / "run/checkpoints", keep=2).find()[-1][0]
    last = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])["step"]
    assert last <= step < last + 3


@pytest.mark.parametrize(
    ("extra", "code", "parts"),
    [
        (["--set", "loop.max_stepz=3"], 1, ["max_stepz"]),
        (["--set", "loop.max_steps"], 2, ["'loop.max_steps' is not NAME=VALUE"]),
        (["--set", "batch_size=0"], 1, ["batch_size"]),
        (["--set", "loss.num_negatives=500"], 1, ["loss.num_negatives (500)"]),
        (["--train", "/nowhere/*.txt"], 1, ["/nowhere/*.txt"]),
        (["--vocab", "/nowhere/words"], 1, ["/nowhere/words"]),
        (["--init", "/nowhere/model"], 1, ["/nowhere/model"]),
        (["--device", "abacus"], 1, ["abacus"]),
        (["--skip-tokens", "-1"], 2, ["--skip-tokens"]),
    ],
)
def test_bad_input_is_one_sentence(
    extra: list[str],
    code: int,
    parts: list[str],
    words: list[str],
    config: str,
    run: Call,
) -> None:
    assert_one_line(run("pretrain", config, *words, *extra), *parts, code=code)


@pytest.mark.parametrize(
    ("preset", "parts"),
    [("huge", ["'huge'", "mini", "tiny-token", "original"]), ("/nowhere/config.toml", ["/nowhere/config.toml"])],
)
def test_an_unknown_preset(
    preset: str,
    parts: list[str],
    words: list[str],
    run: Call,
) -> None:
    assert_one_line(run("pretrain", preset, *words), *parts)


def test_a_folder_that_holds_a_run(words: list[str], config: str, run: Call) -> None:
    command = ["pretrain", config, *words]
    assert run(*command).returncode == 0
    assert_one_line(run(*command), "holds a run already: repeat the command with --resume")
    again = run(*command, "--resume", "--set", "batch_size=8")
    assert_one_line(again, "batch_size = 4, but now batch_size = 8")


def test_finish_only_leaves_a_request(words: list[str], config: str, tmp_path: Path, run: Call) -> None:
    folder = str(tmp_path / "run")
    schedule = ["--set", "optimizer.schedule=wsd", "--set", "optimizer.decay_steps=2", "--set", "loop.max_steps=4"]
    assert_one_line(run("pretrain", "--finish", "--output", folder), "there is no run in")
    assert run("pretrain", config, *words, *schedule).returncode == 0
    assert_one_line(run("pretrain", "--finish", "--output", folder), "is finished already")
    (tmp_path / "run/result.json").unlink()
    done = run("pretrain", "--finish", "--output", folder)
    assert (done.returncode, done.stdout) == (0, "")
    assert "begins its decay before its next step" in done.stderr
    assert "before." not in done.stderr
    assert (tmp_path / "run/finish").exists()
    assert "as it was asked to before." in run("pretrain", "--finish", "--output", folder).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        (["--finish", "tiny"], 2, ["--finish", "leave CONFIG and all other options out"]),
        (["--finish", "--train", "x.txt"], 2, ["--finish", "leave CONFIG and all other options out"]),
        (["--finish", "--set", "optimizer.decay_steps=3"], 2, ["--finish", "all other options out"]),
        (["--finish", "--resume"], 2, ["--finish", "all other options out"]),
        (["--train", "x.txt"], 2, ["CONFIG", "preset"]),
        (["tiny"], 2, ["--train"]),
    ],
)
def test_what_goes_with_finish_and_what_is_needed_without_it(
    arguments: list[str], code: int, parts: list[str], tmp_path: Path, run: Call
) -> None:
    assert_one_line(run("pretrain", *arguments, "--output", str(tmp_path / "run")), *parts, code=code)


def test_the_order_of_a_resumed_run_is_its_own(words: list[str], config: str, run: Call) -> None:
    command = ["pretrain", config, *words]
    assert run(*command, "--set", "corpus.order=files").returncode == 0
    assert run(*command, "--resume").returncode == 0
    again = run(*command, "--resume", "--set", "corpus.order=mixed")
    assert_one_line(again, 'corpus.order = "files", but now corpus.order = "mixed"')


def test_weights_by_pattern(words: list[str], config: str, run: Call, tmp_path: Path) -> None:
    command = ["pretrain", config, *words]
    assert run(*command, "--set", 'corpus.weights={"a*" = 2, b.txt = 0.5}').returncode != 0  # a key with a dot
    wrong = run(*command, "--set", 'corpus.weights={"wiki-*" = 2}')
    assert_one_line(wrong, "the pattern 'wiki-*' of corpus.weights decides for no training file")
    assert_one_line(run(*command, "--set", 'corpus.weights={"a*" = 0}'), "corpus.weights", "greater than 0")
    assert_one_line(run(*command, "--set", 'corpus.weights={"a*" = 2}', "--set", "corpus.order=files"), "need order")
    assert run(*command, "--set", 'corpus.weights={"a*" = 2, "b.txt" = 0.5}').returncode == 0
    record = json.loads((tmp_path / "run/run.json").read_text(encoding="utf-8"))
    assert record["config"]["corpus"]["weights"] == {"a*": 2.0, "b.txt": 0.5}


@pytest.mark.slow
def test_heldout_text_in_the_training_text_is_a_warning(words: list[str], config: str, tmp_path: Path) -> None:
    process = start(config, *words, "--heldout", str(tmp_path / "a.txt"))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.startswith("wrote ")
    assert err.startswith("elmokit: warning: ")
    assert "held-out sentences of five tokens or more are also in the training text" in err


@pytest.mark.parametrize("command", ["pretrain", "finetune"])
def test_help_ends_with_examples(command: str, run: Call) -> None:
    assert_help_has_examples(run, command)
