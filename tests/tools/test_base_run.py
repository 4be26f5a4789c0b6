"""The command that keeps the long run alive: its parts, its process, its snapshot, and its move to other code."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.base_parts import Failure, git
from tools.base_run import BaseRun

from elmokit.formats import load
from tests.tools.homes import Commands, commit, make_data, make_home, make_root, make_settings, read_settings


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "root")


@pytest.fixture
def still(tmp_path: Path, root: Path) -> BaseRun:
    """A run of which nothing is there yet."""
    return BaseRun(tmp_path / "home", read_settings(), root=root, data=tmp_path)


@pytest.fixture
def commands(tmp_path: Path, root: Path) -> Iterator[Commands]:
    home = make_home(tmp_path / "home", seconds=0.02)
    found = Commands(home, root, make_data(tmp_path / "data"), make_settings(tmp_path / "settings.toml"))
    yield found
    end(found)


def end(commands: Commands) -> None:
    if commands.run.pid() is not None:
        commands("stop")


# --- The whole life of a run -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_life_of_a_run(commands: Commands, tmp_path: Path) -> None:
    assert json.loads(commands.succeed("status"))["state"] == "not begun"
    assert commands.fail("stop") == commands.fail("pause") == "base_run: the run is not going: start it first."
    commands.succeed("start")
    assert "already, as process" in commands.succeed("start")
    commands.wait_for(lambda status: status["step"] >= 4)
    commands.succeed("pause")
    assert commands.run.state() == "paused"
    commands.succeed("continue")
    assert commands.run.state() == "running"
    commands.succeed("pause")
    commands.succeed("stop")  # which must wake it up, so that it can save
    stopped = commands.run.status()
    assert (stopped["state"], stopped["process"]) == ("stopped", None)
    assert sorted((commands.run.run / "checkpoints").glob("step-*.pt"))
    commands.succeed("start")
    before = commands.wait_for(lambda status: status["perplexity"] and status["step"] > stopped["step"])
    assert before["tokens"] > stopped["tokens"]
    assert 0 < before["passes"] < 10_000
    assert before["hours_left"] > 0
    assert before["arithmetic"].startswith("float32")
    assert "tokens" in commands.succeed("snapshot", str(tmp_path / "snapshot"))
    check_snapshot(tmp_path / "snapshot", commands.run)
    assert "exists already" in commands.fail("snapshot", str(tmp_path / "snapshot"))
    assert "begins its decay" in commands.succeed("finish")
    done = commands.wait_for(lambda status: status["state"] == "finished")
    assert done["step"] == done["of"] == done["decay_from"] + 5
    assert "the run is finished" in commands.fail("start")
    result = json.loads((commands.run.run / "result.json").read_text(encoding="utf-8"))
    assert (result["reason"], result["steps"]) == ("end of decay", done["step"])


def check_snapshot(folder: Path, run: BaseRun) -> None:
    """It is the float16 model of an evaluation, with that evaluation's tokens."""
    content = json.loads((folder / "snapshot.json").read_text(encoding="utf-8"))
    (entry,) = [e for e in run.entries() if e["step"] == content["step"] and "heldout_perplexity" in e]
    assert content["tokens"] == entry["count"]
    assert content["perplexity"] == min(entry["heldout_perplexity"], entry["heldout_ema_perplexity"])
    assert content["commit"] == run.commit()
    assert load(folder / "model").config.softmax
    assert sorted(path.name for path in folder.iterdir()) == ["model", "snapshot.json"]
    size, whole = ((path / "model.safetensors").stat().st_size for path in (folder / "model", run.run / "best"))
    assert size < whole


@pytest.mark.extended
def test_a_lost_run_continues_from_its_snapshot(commands: Commands, root: Path, tmp_path: Path) -> None:
    commands.succeed("start")
    commands.wait_for(lambda status: bool(status["perplexity"]))
    commands.succeed("snapshot", str(root / "kept"))
    commands.succeed("stop")
    tokens = json.loads((root / "kept/snapshot.json").read_text(encoding="utf-8"))["tokens"]
    other = Commands(
        make_home(tmp_path / "other"),
        root,
        commands.run.data,
        make_settings(tmp_path / "with-snapshot.toml", snapshot="kept"),
    )
    try:
        other.succeed("start")
        other.wait_for(lambda status: status["tokens"] > tokens)
        record = json.loads((other.run.run / "run.json").read_text(encoding="utf-8"))
        assert record["config"]["optimizer"]["warmup_steps"] == 1000
        assert f"{tokens:,} predictions passed over" in record["note"]
        other.succeed("stop")
        shutil.rmtree(root / "kept")  # the run keeps its own copy
        step = other.run.status()["step"]
        other.succeed("start")
        other.wait_for(lambda status: status["step"] > step)
    finally:
        end(other)


@pytest.mark.extended
def test_moving_to_code_that_computes_the_same_and_to_code_that_does_not(commands: Commands, root: Path) -> None:
    commands.succeed("start")
    first = git(root, "rev-parse", "HEAD")
    other, same = commit(root, "1.01", "other losses"), commit(root, "1.0", "the same losses")
    commands.wait_for(lambda status: status["step"] >= 12)
    assert "stop the run first" in commands.fail("move", other)
    commands.succeed("stop")
    before = {path: path.read_bytes() for path in commands.run.run.rglob("*") if path.is_file()}
    assert f"but at most 0.1% is accepted, so that the code stays at {first}" in commands.fail("move", other)
    assert git(commands.run.checkout, "rev-parse", "HEAD") == commands.run.commit() == first
    assert f"moved to {same}" in commands.succeed("move", same)
    assert git(commands.run.checkout, "rev-parse", "HEAD") == commands.run.commit() == same
    assert {path: path.read_bytes() for path in commands.run.run.rglob("*") if path.is_file()} == before
    step = commands.run.status()["step"]
    commands.succeed("start")
    commands.wait_for(lambda status: status["step"] > step)


# --- The process -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "none\n", "999999999\n"])
def test_a_stale_pid_file(text: str, still: BaseRun) -> None:
    still.home.mkdir()
    still.pid_file.write_text(text, encoding="utf-8")
    assert still.pid() is None
    assert still.state() == "not begun"


@pytest.mark.parametrize("more", [[], ["{run}/log.jsonl"], ["pretrain"]])
def test_a_number_that_another_process_has_now(more: list[str], still: BaseRun) -> None:
    still.home.mkdir()
    words = [word.format(run=still.run) for word in more]
    command, pipe = [sys.executable, "-c", "print(flush=True); input()", *words], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()  # until it is there, with its arguments
        still.pid_file.write_text(f"{process.pid}\n", encoding="utf-8")
        assert still.pid() is None
        with pytest.raises(Failure, match="not going"):
            still.stop()
        assert process.poll() is None
        process.communicate(b"\n")


def test_only_one_command_starts_the_run(still: BaseRun) -> None:
    with still.locked(), pytest.raises(Failure, match="another command is at work"):
        still.start(0)


@pytest.mark.slow
def test_a_run_that_ends_at_once_says_why(commands: Commands) -> None:
    commands.run.run.mkdir(parents=True)
    (commands.run.run / "mine.txt").touch()
    done = commands("start", "--wait", "200")
    assert done.returncode == 1
    assert "the run ended at once: elmokit: " in done.stderr
    assert "mine.txt" in done.stderr


# --- How far it is ---------------------------------------------------------------------------------------------------


def write_run(still: BaseRun, record: dict[str, Any], log: str) -> None:
    still.run.mkdir(parents=True)
    (still.run / "run.json").write_text(json.dumps(record), encoding="utf-8")
    (still.run / "log.jsonl").write_text(log, encoding="utf-8")


def test_status_before_the_first_line_of_the_log(still: BaseRun) -> None:
    write_run(still, {"config": {}}, '{"step": 0, "loss_ki')
    found = still.status()
    assert (found["state"], found["step"], found["of"], found["tokens"]) == ("stopped", 0, None, 0)
    assert found["loss"] is found["hours_left"] is found["tokens_per_second"] is None
    json.dumps(found, allow_nan=False)


def test_status_reckons_with_the_decay_and_the_snapshot(still: BaseRun) -> None:
    entries = [
        {"step": 0, "arithmetic": "float32, portable cell"},
        {"step": 10, "count": 1000, "loss": 3.5, "per_second": 10.0},
        {"step": 10, "decay": "begun on request", "num_steps": 99},
    ]
    config = {"optimizer": {"decay_steps": 30}}
    write_run(still, {"config": config, "num_steps": 500}, "".join(f"{json.dumps(entry)}\n" for entry in entries))
    still.snapshot_copy.mkdir()
    (still.snapshot_copy / "snapshot.json").write_text('{"tokens": 500}', encoding="utf-8")
    found = still.status()
    assert (found["of"], found["decay_from"], found["tokens"]) == (40, 10, 1500)
    assert found["hours_left"] == round(30 * 100 / 10 / 3600, 2)


def test_there_is_no_snapshot_without_an_evaluation(still: BaseRun, tmp_path: Path) -> None:
    write_run(still, {"config": {}}, '{"step": 0}\n')
    with pytest.raises(Failure, match="has not been evaluated yet"):
        still.snapshot(tmp_path / "snapshot")
    assert not (tmp_path / "snapshot").exists()


def test_a_snapshot_that_is_none_is_refused(still: BaseRun, root: Path) -> None:
    (root / "kept").mkdir()
    still.settings = {**read_settings(), "snapshot": "kept"}
    with pytest.raises(Failure, match="is no snapshot"):
        still._take_snapshot()


# --- Its parts -------------------------------------------------------------------------------------------------------


def test_head_is_resolved_once(still: BaseRun, root: Path) -> None:
    still.home.mkdir()
    first = git(root, "rev-parse", "HEAD")
    still._pin_commit()
    commit(root, "1.0", "later")
    still._pin_commit()
    assert still.commit() == first
    still._make(still.checkout, still._clone)
    assert git(still.checkout, "rev-parse", "HEAD") == first


def test_a_home_that_wrote_down_head_has_the_commit_of_its_checkout(still: BaseRun, root: Path) -> None:
    still.home.mkdir()
    still._pin_commit()
    still._make(still.checkout, still._clone)
    first = still.commit()
    still.pin.write_text("HEAD\n", encoding="utf-8")
    commit(root, "1.0", "later")
    still._pin_commit()
    assert still.commit() == first


def test_half_a_part_is_made_again(still: BaseRun) -> None:
    still.home.mkdir()
    target = still.home / "part"

    def fail(folder: Path) -> None:
        folder.mkdir()
        raise Failure("no more space")

    with pytest.raises(Failure, match="no more space"):
        still._make(target, fail)
    assert not target.exists()
    still._make(target, Path.mkdir)
    still._make(target, fail)  # it is there, so that nothing is made
    assert target.is_dir()


def test_text_that_has_changed_is_refused(still: BaseRun) -> None:
    for folder in (still.shards, still.heldout):
        for kind in still.settings["shards"]:
            (folder / kind).mkdir(parents=True)
            (folder / kind / "shard-0.txt").write_bytes(b"")
            sums = [
                {"name": "shard-0.txt", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
            ]
            (folder / kind / "corpus.json").write_text(json.dumps({"shards": sums}), encoding="utf-8")
    (still.home / "others/run").mkdir(parents=True)
    (still.home / "others/run/corpus.json").write_text("{}", encoding="utf-8")  # no concern of ours
    still._check_shards()
    (still.heldout / "web/shard-0.txt").write_bytes(b"x")
    with pytest.raises(Failure, match=r"web/shard-0.txt is not what it was .* delete .*heldout and start again"):
        still._check_shards()
    (still.shards / "news/shard-0.txt").unlink()
    with pytest.raises(Failure, match=r"news/shard-0.txt is not what it was"):
        still._check_shards()


def test_a_move_that_was_interrupted_is_undone(still: BaseRun, root: Path, tmp_path: Path) -> None:
    make_home(still.home)
    still._pin_commit()
    still._make(still.checkout, still._clone)
    first, second = still.commit(), commit(root, "1.0", "later")
    still.use(second)
    assert git(still.checkout, "rev-parse", "HEAD") == second
    still._check_code()
    assert git(still.checkout, "rev-parse", "HEAD") == first


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ([2.0, 1.05], r"differ by up to 5\.00%, but at most 1\.0% is accepted"),
        ([2.0], "differ by"),
        (Failure("out of memory"), "out of memory"),
        ([2.0, 1.001], None),
    ],
)
def test_a_move_is_made_whole_or_not_at_all(
    after: Any, message: str | None, still: BaseRun, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_home(still.home)
    still._pin_commit()
    still._make(still.checkout, still._clone)
    first, second = still.commit(), commit(root, "1.0", "later")

    def trial(name: str) -> tuple[list[float], float]:
        if name == "after" and isinstance(after, Failure):
            raise after
        return ([2.0, 1.0] if name == "before" else after), 0.01

    monkeypatch.setattr(still, "_trial", trial)
    if message is None:
        still.move("HEAD")
    else:
        with pytest.raises(Failure, match=message):
            still.move("HEAD")
    expected = second if message is None else first
    assert git(still.checkout, "rev-parse", "HEAD") == still.commit() == expected


def test_a_commit_that_does_not_exist(still: BaseRun) -> None:
    still.home.mkdir()
    still._pin_commit()
    with pytest.raises(Failure, match="rev-parse"):
        still.move("nothing")
