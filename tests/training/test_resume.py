"""A run that ends at any moment and is resumed must be the run that did not."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from elmokit.errors import ConfigError, FormatError
from elmokit.native.library import find_library
from elmokit.training.checkpoint import Checkpoints, load_checkpoint
from elmokit.training.loop import Loop
from tests.training.runs import KINDS, count_predictions, outcome, read_log, run, settings, write_corpus


@pytest.fixture
def corpus(tmp_path: Path) -> dict[str, list[str]]:
    return write_corpus(tmp_path)


class Crash(Exception):
    """What no code of ours expects."""


def crash_before(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Loop._take_step

    def take_step(self: Loop, batches: list[Any]) -> None:
        if self.progress.step + 1 == step:
            raise Crash
        original(self, batches)

    monkeypatch.setattr(Loop, "_take_step", take_step)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_is_the_uninterrupted_one(kind: str, corpus: dict[str, list[str]], tmp_path: Path) -> None:
    check_resuming(kind, corpus, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("engine_mode")
def test_a_resumed_run_with_either_engine(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    check_resuming("tied", corpus, tmp_path)


def check_resuming(kind: str, corpus: dict[str, list[str]], tmp_path: Path) -> None:
    config = settings(kind)
    done = run(config, corpus, tmp_path / "whole")
    assert done.predictions == count_predictions(corpus["train"]) * 2
    assert done.steps > 5
    for step in (2, 6, done.steps):  # before the first checkpoint, behind one that is no log entry's step, the last
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
            crash_before(step, patch)
            run(config, corpus, tmp_path / "cut", resume=True)
    run(config, corpus, tmp_path / "cut", resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


@pytest.mark.slow
def test_resuming_a_finished_run_changes_nothing(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    for patience in (0, 1):
        config = settings("full", loop={"patience": patience, "evaluate_every": 1}, optimizer={"learning_rate": 0.5})
        output = tmp_path / str(patience)
        reason = run(config, corpus, output).reason
        before = outcome(output)
        assert run(config, corpus, output, resume=True).reason == reason
        assert outcome(output) == before
    assert reason == "patience"


def test_a_finished_run_without_its_checkpoints_is_left_alone(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    output = tmp_path / "run"
    run(settings("full", loop={"max_steps": 2}), corpus, output)
    shutil.rmtree(output / "checkpoints")
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=r"a finished run whose checkpoints are gone.*another --output"):
        run(settings("full", loop={"max_steps": 3}), corpus, output, resume=True)
    assert {path: path.read_bytes() for path in output.rglob("*") if path.is_file()} == before


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_at_the_step_it_is_in(
    number: signal.Signals, corpus: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = settings("tied", loop={"checkpoint_every": 100})
    run(config, corpus, tmp_path / "whole")
    original = Loop._take_step

    def take_step(self: Loop, batches: list[Any]) -> None:
        if self.progress.step == 3:
            os.kill(os.getpid(), number)
        original(self, batches)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Loop, "_take_step", take_step)
        run(config, corpus, tmp_path / "cut")
    assert [step for step, _ in Checkpoints(tmp_path / "cut/checkpoints", keep=1).find()] == [4]
    run(config, corpus, tmp_path / "cut", resume=True)
    cut, whole = outcome(tmp_path / "cut"), outcome(tmp_path / "whole")
    for part in ("log", "model", "checkpoint", "result"):
        assert cut[part] == whole[part]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sampled-adamw", "tied"])
def test_sigkill_at_any_moment(kind: str, tmp_path: Path) -> None:
    """Real kills, spread over all files that a run opens, syncs, renames and deletes, and over its steps."""
    command = [sys.executable, "-m", "tests.training.killing", str(tmp_path), kind, "6"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["moments"] > 50
    assert sum("checkpoint" in kill["where"] for kill in found["kills"]) >= 3, found
    assert [kill for kill in found["kills"] if not kill["equal"]] == []


# --- Checkpoints -----------------------------------------------------------------------------------------------------


def test_a_kill_while_a_checkpoint_is_written_leaves_no_rubbish(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    (tmp_path / ".step-000000001.pt.1.ab.tmp").write_bytes(b"half")
    (tmp_path / ".step-000000001.pt.1.ab.tmp.mode").touch()  # by which the mode of a new file is found
    checkpoints.save(2, {})
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000002.pt"]


@pytest.mark.slow
def test_only_the_last_few_checkpoints_are_kept(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    done = run(settings("sampled", loop={"keep_checkpoints": 3}), corpus, tmp_path / "run")
    steps = [step for step, _ in Checkpoints(tmp_path / "run/checkpoints", keep=3).find()]
    assert steps == [*range(5, done.steps, 5), done.steps][-3:]
    assert done.steps > 15


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_a_damaged_checkpoint_is_named(damage: str, corpus: dict[str, list[str]], tmp_path: Path) -> None:
    config = settings()
    run(config, corpus, tmp_path / "run")
    before = outcome(tmp_path / "run")
    _, path = Checkpoints(tmp_path / "run/checkpoints", keep=1).find()[-1]
    data = path.read_bytes()
    if damage == "flipped":
        largest = max(load_checkpoint(path)["model"].values(), key=torch.numel)
        place = data.index(largest.numpy().tobytes())
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    else:
        path.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "text": b"weights"}[damage])
    with pytest.raises(FormatError, match=rf"{path.name}.* damaged .*delete it"):
        run(config, corpus, tmp_path / "run", resume=True)
    path.unlink()
    run(config, corpus, tmp_path / "run", resume=True)
    assert outcome(tmp_path / "run") == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "name", "before", "now"),
    [
        ({"batch_size": 2}, "batch_size", "4", "2"),
        ({"model": {"lstm": {"cell_dim": 9}}}, "model.lstm.cell_dim", "8", "9"),
        ({"optimizer": {"learning_rate": 0.3}}, "optimizer.learning_rate", "0.2", "0.3"),
        ({"unroll_steps": 6}, "unroll_steps", "5", "6"),
        ({"loop": {"accumulate": 2}}, "loop.accumulate", "1", "2"),
        ({"corpus": {"min_count": 2}}, "corpus.min_count", "1", "2"),
        ({"model": {"input": {"kind": "tokens"}}}, "model.input.kind", '"characters"', '"tokens"'),
    ],
)
def test_a_checkpoint_of_another_config_names_the_setting(
    changes: dict[str, Any], name: str, before: str, now: str, corpus: dict[str, list[str]], tmp_path: Path
) -> None:
    run(settings(loop={"max_steps": 5}), corpus, tmp_path / "run")
    files = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match="anew") as raised:
        run(
            settings(**{**changes, "loop": {"max_steps": 5, **changes.get("loop", {})}}),
            corpus,
            tmp_path / "run",
            resume=True,
        )
    assert f"{name} = {before}, but now {name} = {now}" in str(raised.value)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == files


@pytest.mark.slow
def test_the_rhythm_of_a_run_may_change(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    run(settings(loop={"max_steps": 5}), corpus, tmp_path / "run")
    changed = settings(loop={"max_steps": 5, "log_every": 1, "checkpoint_every": 2, "evaluate_every": 3})
    assert run(changed, corpus, tmp_path / "run", resume=True).steps == 5


@pytest.mark.slow
def test_resume_without_a_run_begins_one(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    run(settings(loop={"max_steps": 2}), corpus, tmp_path / "run", resume=True)
    first = read_log(tmp_path / "run")[0]
    how = "portable cell" if find_library() is None else "native"
    assert first == {"step": 0, "loss_kind": "sampled", "arithmetic": f"float32, {how}"}
