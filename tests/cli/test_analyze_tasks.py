"""`elmokit task compare` and `elmokit analyze mixing | placement | sample-efficiency` as a user meets them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elmokit.cli.progress import describe_run, runs_bar
from elmokit.embedding.embedder import Embedder
from elmokit.formats import load
from elmokit.formats.parts import fingerprint
from elmokit.tasks.experiments import variants
from elmokit.tasks.experiments.processes import run_parallel
from tests.cli.conftest import Terminal
from tests.running import Call, command_runner
from tests.tasks.experiments import run_in_process, write_experiment

DATA = ["--train", "train.conll", "--dev", "dev.conll", "--test", "test.conll", "--preset", "tiny.json"]
DATA += ["--model", "bilm", "--processes", "1", "--output", "out"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_experiment(tmp_path, num_epochs=1)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    return run_in_process(monkeypatch, folder / "cache")


@pytest.fixture
def run(folder: Path, launched: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The command in this process, and its runs as well."""

    return command_runner(folder, monkeypatch, capsys)


def numbered(text: str) -> list[str]:
    return re.findall(r"^\[\d+/\d+\] .*?(?=: test)", text, re.MULTILINE)


# --- compare ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_compare_with_more_models(folder: Path, run: Call, launched: list[str]) -> None:
    words = ["task", "compare", "ner", *DATA, "--seeds", "3", "--also", "random", "--also", "twin=bilm"]
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert launched == ["baseline-3", "elmo-3", "random-3", "twin-3"]
    assert numbered(done.stderr) == [f"[{number}/4] {name}" for number, name in enumerate(launched, 1)]
    assert "train: train.conll (40 examples)" in done.stdout and "resampled test sets" in done.stdout
    for row in ("+ ELMo", "+ random weights", "+ twin", "recall", "the paper, CoNLL-2003"):
        assert row in done.stdout
    content = json.loads((folder / "out/comparison.json").read_text())
    assert [side["name"] for side in content["others"]] == ["elmo", "random", "twin"]
    assert content["others"][0]["test"] == content["others"][2]["test"]  # the same biLM twice
    assert all(0 <= side["p"] <= 1 for side in content["others"])
    random = load(folder / "out/random-bilm")
    assert random.config == load(folder / "bilm").config
    assert content["setting"]["bilms"] == {
        "bilm": fingerprint(load(folder / "bilm")),
        "out/random-bilm": fingerprint(random),
    }
    launched.clear()
    again = run(*words, "--json")
    assert json.loads(again.stdout) == content
    assert launched == [] and again.stderr.count(", already done") == 4


def test_compare_has_bars_on_a_terminal(run: Call, launched: list[str], terminal: Terminal) -> None:
    words = ["task", "compare", "ner", *DATA, "--seeds", "3"]
    assert "runs" not in run(*words).stderr
    launched.clear()
    shown = terminal()
    assert run(*words).returncode == 0
    assert launched == [] and "runs" in shown.getvalue() and "2/2" in shown.getvalue()


def test_compare_keeps_to_its_threads(folder: Path, run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []
    side_by_side, build = run_parallel, Embedder.from_pretrained

    def note(commands: Any, *, number: int, lock: Any) -> Any:
        numbers.append(number)
        return side_by_side(commands, number=number, lock=lock)

    def load_note(model: str, *, threads: int | None, **extra: Any) -> Any:
        numbers.append(threads or 0)
        return build(model, threads=threads, **extra)

    monkeypatch.setattr(variants, "run_parallel", note)
    monkeypatch.setattr(Embedder, "from_pretrained", load_note)
    words = ["task", "compare", "ner", *(word for word in DATA if word not in ("--processes", "1")), "--seeds", "3"]
    assert run(*words, "--threads", "1").returncode == 0
    assert numbers == [1, 1]


def test_how_far_a_run_has_come(tmp_path: Path) -> None:
    assert describe_run(tmp_path / "none", "f1") is None
    log = tmp_path / "log.jsonl"
    log.write_text("")
    assert describe_run(tmp_path, "f1") is None
    log.write_text('{"step": 5, "loss": 1.5}\n{"step": 6, "lo')
    assert describe_run(tmp_path, "f1") == "step 5"
    log.write_text('{"step": 5, "heldout_f1": 61.239}\n{"step": 1006, "loss": 1.4}\n')
    assert describe_run(tmp_path, "f1") == "step 1,006, dev f1 61.24"
    log.write_text('{"step": 5, "loss": 1.5}\n' * 5000)
    assert describe_run(tmp_path, "f1") == "step 5"
    (tmp_path / "result.json").write_text("{}")
    assert describe_run(tmp_path, "f1") is None


def test_runs_under_way_are_shown(tmp_path: Path, terminal: Terminal) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    (tmp_path / "one/log.jsonl").write_text('{"step": 9}\n')
    shown = terminal()
    with runs_bar(tmp_path, 3, "f1") as (on_embedding, on_runs):
        assert on_embedding is not None and on_runs is not None
        (tmp_path / "two/log.jsonl").write_text('{"step": 7, "heldout_f1": 50}\n')
        on_runs(1, 3)
        on_embedding(1, 4)
    for text in ("1/3", "embedding", "25%", "two: step 7, dev f1 50.00"):
        assert text in shown.getvalue()
    assert "three" not in shown.getvalue()
    assert "one" not in shown.getvalue(), "its log is of an earlier command"


@pytest.mark.parametrize(
    ("also", "message"),
    [
        ("noise", "'noise' is neither NAME=MODEL nor random"),
        ("random=bilm", "'random=bilm' is neither NAME=MODEL nor random"),
        ("tuned=", "'tuned=' is neither NAME=MODEL nor random"),
        ("elmo=bilm", "'elmo' cannot name another biLM"),
        ("../x=bilm", "'../x' cannot name another biLM"),
    ],
)
def test_compare_refuses_odd_models(also: str, message: str, run: Call, launched: list[str]) -> None:
    done = run("task", "compare", "ner", *DATA, "--also", also)
    assert done.returncode == 2 and message in done.stderr
    assert launched == []


@pytest.mark.slow
def test_compare_in_processes(folder: Path) -> None:
    """As a user runs it; an interrupted command resumes."""
    environment = os.environ | {"ELMOKIT_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "elmokit", "task", "compare", "ner", *DATA, "--seeds", "1", "--json"]
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("[1/2] baseline-1: test f1")
    process.terminate()
    assert "elmokit: stopped; repeat the command to resume out" in process.communicate()[1]
    assert process.returncode == 130
    before = (folder / "out/baseline-1/result.json").stat().st_mtime_ns
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "[1/2] baseline-1" in done.stderr and "already done" in done.stderr
    assert (folder / "out/baseline-1/result.json").stat().st_mtime_ns == before
    assert json.loads(done.stdout)["seeds"] == [1]


# --- mixing and placement --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("mixing", ["last", "lambda-1", "lambda-0.001", "all-no-gamma", "last-no-gamma"]),
        ("placement", ["input", "both", "output"]),
    ],
)
def test_studies(command: str, names: list[str], folder: Path, run: Call, launched: list[str]) -> None:
    done = run("analyze", command, "ner", *DATA, "--seeds", "1")
    assert done.returncode == 0, done.stderr
    assert launched == [f"{name}-1" for name in ("baseline", *names)]
    figures = json.loads((folder / "out/report/report.json").read_text())
    assert [side["name"] for side in figures["others"]] == names
    written = {path.name for path in (folder / "out/report").iterdir()}
    assert written == {f"{command}.png", f"{command}.svg", "table-1.csv", "report.json", "page.html"}
    for side in figures["others"]:
        assert side["label"] in done.stdout
    launched.clear()
    again = run("analyze", command, "ner", *DATA, "--seeds", "1", "--json")
    assert json.loads(again.stdout) == figures and launched == []


@pytest.mark.parametrize(
    ("command", "setting"),
    [
        ("mixing", "elmo.gamma=false"),
        ("mixing", "elmo.layers=0"),
        ("placement", "elmo.place=both"),
        ("sample-efficiency", "train_fraction=0.5"),
    ],
)
def test_what_a_command_varies_cannot_be_set(command: str, setting: str, run: Call, launched: list[str]) -> None:
    done = run("analyze", command, "ner", *DATA, "--set", setting)
    assert done.returncode == 2
    assert f"{setting.split('=')[0]} is what this command varies: leave it out." in done.stderr
    assert launched == []


# --- sample-efficiency -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sample_efficiency(folder: Path, run: Call, launched: list[str]) -> None:
    words = ["analyze", "sample-efficiency", "ner", *DATA, "--seeds", "1 2", "--least-steps", "4"]
    done = run(*words, "--fractions", "1 0.1")
    assert done.returncode == 0, done.stderr
    names = [f"{side}-{share}-{seed}" for seed in (1, 2) for share in ("0.1", "1") for side in ("baseline", "elmo")]
    assert launched == names
    assert {path.name for path in (folder / "out/report").iterdir()} == {
        "page.html",
        "report.json",
        "sample-efficiency.png",
        "sample-efficiency.svg",
        "table-1.csv",
    }
    assert "is at its best dev f1" in done.stdout and "With ELMo the baseline's test f1 on 100%" in done.stdout
    launched.clear()
    more = run(*words, "--fractions", "0.1,0.5,1", "--json")  # a share more: only its runs are made
    assert sorted(launched) == sorted(f"{side}-0.5-{seed}" for seed in (1, 2) for side in ("baseline", "elmo"))
    points = json.loads(more.stdout)["points"]
    assert [(point["share"], point["num_examples"]) for point in points] == [(0.1, 4), (0.5, 20), (1.0, 40)]


@pytest.mark.parametrize("fractions", ["0", "0,1", "0.1,1.5", "-0.1", "nan", "half", "", "0.1,0.10", "1%"])
def test_fractions_that_make_no_sense(fractions: str, run: Call, launched: list[str]) -> None:
    done = run("analyze", "sample-efficiency", "ner", *DATA, "--fractions", fractions)
    assert done.returncode == 2
    assert f"{fractions!r} is not a list of distinct numbers above 0 and up to 1" in done.stderr
    assert launched == []


def assert_one_line(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("elmokit: ")
    for part in parts:
        assert part in done.stderr


def test_a_fraction_that_leaves_no_example(run: Call, launched: list[str]) -> None:
    done = run("analyze", "sample-efficiency", "ner", *DATA, "--fractions", "0.01,1")
    assert_one_line(done, "a share of 0.01 of 40 training examples leaves none: give at least 0.025.")
    assert launched == []


@pytest.mark.parametrize(
    "command",
    [("task", "compare"), ("analyze", "mixing"), ("analyze", "sample-efficiency", "--fractions", "1")],
    ids=lambda words: words[1],
)
def test_bad_input_of_all(command: tuple[str, ...], folder: Path, run: Call, launched: list[str]) -> None:
    assert_one_line(run(*command, "chess", *DATA), "there is no task named 'chess': choose one of ner")
    for seeds, message in (
        ("1 x", "'1 x' is not a list of numbers"),
        ("", "'' is not a list of numbers"),
        ("-1", "'-1' is not a list of numbers"),
        ("1 1", "'1 1' repeats a seed"),
        ("1 01", "'1 01' repeats a seed"),
    ):
        done = run(*command, "ner", *DATA, f"--seeds={seeds}")
        assert done.returncode == 2 and message in done.stderr
    assert_one_line(run(*command, "ner", *DATA, "--set", "elmo.place=none"), "the model has no ELMo")
    assert_one_line(run(*command, "ner", *DATA, "--set", "batch_size=0"), "batch_size")
    (folder / "train.conll").unlink()
    assert_one_line(run(*command, "ner", *DATA), "train.conll")
    assert launched == []
