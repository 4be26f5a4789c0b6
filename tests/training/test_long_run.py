"""A run that lives for days: another precision, passes added, an early end, and kills at all of these."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elmokit.errors import ConfigError, ElmokitWarning
from elmokit.training.loop import Loop
from elmokit.training.run import CHANGEABLE, _flatten
from elmokit.training.run_folder import request_finish
from tests.training.runs import count_predictions, outcome, read_log, run, settings, write_corpus
from tests.training.test_loop import build
from tests.training.test_resume import Crash, crash_before

WSD = {"kind": "adamw", "schedule": "wsd", "decay_steps": 6, "ema_decay": 0.9}
STAGES: list[tuple[dict[str, Any], int | None]] = [
    ({"num_epochs": 2}, 4),
    ({"num_epochs": 3, "precision": "bfloat16"}, 11),
    ({"num_epochs": 9, "precision": "bfloat16", "loss": {"num_negatives": 12}}, 16),
    ({"num_epochs": 9, "precision": "bfloat16", "loss": {"num_negatives": 12}}, None),
]
"""What each stage changes, and the step after which it is stopped politely; the last one is asked to finish."""


@pytest.fixture
def corpus(tmp_path: Path) -> dict[str, list[str]]:
    return write_corpus(tmp_path)


class Killed(Exception):
    """Stands for a kill in the middle of a step."""


def interrupt(monkeypatch: pytest.MonkeyPatch, *, stop: int | None = None, kill: int | None = None) -> None:
    """Stop the loop with SIGTERM after a step, and kill it in another."""
    original = Loop._take_step

    def take_step(self: Loop, batches: list[Any]) -> None:
        if self.progress.step + 1 == kill:
            raise Killed
        if self.progress.step + 1 == stop:
            signal.raise_signal(signal.SIGTERM)
        original(self, batches)

    monkeypatch.setattr(Loop, "_take_step", take_step)


def live(output: Path, corpus: dict[str, list[str]], kills: dict[int, int]) -> dict[str, Any]:
    """Go through all stages; `kills` says in which step of a stage it is killed first."""
    for number, (changes, stop) in enumerate(STAGES):
        config = settings("sampled", optimizer=WSD, **changes)
        if stop is None:
            request_finish(output)
        if number in kills:
            with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
                interrupt(patch, kill=kills[number])
                run(config, corpus, output, resume=True)
        with pytest.MonkeyPatch.context() as patch:
            interrupt(patch, stop=stop)
            if stop is None:
                run(config, corpus, output, resume=True)
            else:
                with pytest.raises(KeyboardInterrupt):
                    run(config, corpus, output, resume=True)
    return outcome(output)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:this processor has no instructions for bfloat16")
def test_a_long_life_with_kills_is_the_one_without(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    whole = live(tmp_path / "whole", corpus, {})
    log = read_log(tmp_path / "whole")
    changes = [(entry["step"], sorted(entry["changed"])) for entry in log if "changed" in entry]
    assert changes == [(4, ["num_epochs", "precision"]), (11, ["loss.num_negatives", "num_epochs"])]
    assert [entry["step"] for entry in log if "decay" in entry] == [16]
    assert whole["result"]["steps"] == 16 + 6
    assert whole["result"]["reason"] == "end of decay"
    for name, kills in {
        "early": {0: 2, 1: 7},
        "late": {2: 13, 3: 19},
        "everywhere": {0: 4, 1: 11, 2: 16, 3: 22},
    }.items():
        cut = live(tmp_path / name, corpus, kills)
        for part in ("log", "model", "checkpoint", "result"):
            assert cut[part] == whole[part], (name, part)


def kill_often(folder: Path, num_kills: int) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.training.killing_life", str(folder), str(num_kills)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, env=environment)
    assert done.returncode == 0, done.stderr
    kills: list[dict[str, Any]] = json.loads(done.stdout)["kills"]
    return kills


@pytest.mark.slow
def test_sigkill_at_any_moment_of_a_long_life(tmp_path: Path) -> None:
    """Real kills while settings change, passes are added, the run is asked to finish, and decays."""
    kills = kill_often(tmp_path, 6)
    assert {kill["stage"] for kill in kills} == {0, 1, 2}
    assert [kill for kill in kills if kill["differs"]] == []


@pytest.mark.extended
def test_sigkill_at_many_moments_of_a_long_life(tmp_path: Path) -> None:
    kills = kill_often(tmp_path, 40)
    assert [kill for kill in kills if kill["differs"]] == []


# --- Settings that may change ----------------------------------------------------------------------------------------


def test_all_settings_but_five_are_refused(tmp_path: Path) -> None:
    own = {"loop": {"accumulate": 1, "max_steps": None}}
    identity = _flatten({**settings().model_dump(mode="json"), **own})
    loop = build(tmp_path, identity=identity, changeable=CHANGEABLE)
    accepted = set()
    for name in identity:
        try:
            assert loop._compare({**identity, name: "another"}) == {name: ["another", identity[name]]}
            accepted.add(name)
        except ConfigError as error:
            assert f"was made with {name} = another, but now" in str(error)
    assert accepted == {"precision", "num_epochs", "loop.max_steps", "optimizer.decay_steps", "loss.num_negatives"}
    assert {"seed", "dropout", "optimizer.ema_decay", "optimizer.warmup_steps", "optimizer.schedule"} < set(identity)


@pytest.mark.slow
def test_a_pass_more_for_a_run_that_has_ended(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    output, lines = tmp_path / "run", list[str]()
    first = run(settings("sampled", num_epochs=1), corpus, output)
    assert first.reason == "end of data"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        crash_before(first.steps + 2, patch)
        run(settings("sampled", num_epochs=2), corpus, output, resume=True)
    assert not (output / "result.json").exists()  # it is not finished any more
    done = run(settings("sampled", num_epochs=2), corpus, output, resume=True, notify=lines.append)
    assert done.predictions == 2 * count_predictions(corpus["train"])
    assert lines == [f"from step {first.steps} on num_epochs = 2, before: 1"]
    changes = [entry for entry in read_log(output) if "changed" in entry]
    assert changes == [{"step": first.steps, "changed": {"num_epochs": ["1", "2"]}}]
    record = json.loads((output / "run.json").read_text(encoding="utf-8"))
    assert record["config"]["num_epochs"] == 2
    assert record["num_steps"] in (done.steps - 1, done.steps, done.steps - 2)
    assert record["versions"]  # what else the record says stays


@pytest.mark.slow
def test_a_shorter_decay_takes_effect_in_the_middle_of_it(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    output = tmp_path / "run"
    long = settings("sampled", optimizer={**WSD, "decay_steps": 20}, loop={"max_steps": 24})
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        crash_before(12, patch)
        run(long, corpus, output)
    short = settings("sampled", optimizer={**WSD, "decay_steps": 10}, loop={"max_steps": 24})
    done = run(short, corpus, output, resume=True)
    assert (done.steps, done.reason) == (4 + 10, "end of decay")
    assert {"step": 10, "changed": {"optimizer.decay_steps": ["20", "10"]}} in read_log(output)


@pytest.mark.slow
def test_a_finished_decay_is_the_end_of_all_changes(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    output = tmp_path / "run"
    run(settings("sampled", optimizer=WSD, num_epochs=1), corpus, output)
    before = outcome(output)
    with pytest.raises(ConfigError, match=r"finished its decay.*--init"):
        run(settings("sampled", optimizer=WSD, num_epochs=2), corpus, output, resume=True)
    assert outcome(output) == before
    (output / "finish").touch()  # too late to change anything
    assert run(settings("sampled", optimizer=WSD, num_epochs=1), corpus, output, resume=True).reason == "end of decay"
    assert outcome(output)["model"] == before["model"]


@pytest.mark.slow
def test_a_decay_longer_than_the_run_is_a_warning(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    config = settings("sampled", optimizer=WSD, loop={"max_steps": 3})
    with pytest.warns(ElmokitWarning, match=r"decay_steps = 6\) is longer than the run of 3 steps.*takes 6 steps"):
        assert run(config, corpus, tmp_path / "run").steps == 6


@pytest.mark.slow
def test_a_run_without_a_request_decays_in_its_last_steps(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    done = run(settings("sampled", optimizer=WSD, num_epochs=1), corpus, tmp_path / "run")
    expected = [entry for entry in read_log(tmp_path / "run") if "decay" in entry]
    assert expected == [{"step": done.steps - 6, "decay": "begun at the end of the steps", "num_steps": done.steps}]


@pytest.mark.slow
def test_the_average_is_what_ships_if_it_is_better(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    """At a rate this high the weights jump about, and their average does not."""
    optimizer = {**WSD, "learning_rate": 0.5, "decay_steps": 1, "ema_decay": 0.95}
    done = run(
        settings("sampled", optimizer=optimizer, num_epochs=8, loop={"evaluate_every": 8}), corpus, tmp_path / "r"
    )
    entries = [entry for entry in read_log(tmp_path / "r") if "heldout_perplexity" in entry]
    best = min(entry["heldout_ema_perplexity"] for entry in entries)
    assert best < 0.9 * min(entry["heldout_perplexity"] for entry in entries)
    assert done.heldout["carry"]["average"] == pytest.approx(best, rel=1e-4)


def test_a_request_is_refused_where_there_is_nothing_to_finish(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no run in"):
        request_finish(tmp_path / "nothing")
    run(settings("full", loop={"max_steps": 1}), corpus, tmp_path / "done")
    with pytest.raises(ConfigError, match="is finished already"):
        request_finish(tmp_path / "done")
    (tmp_path / "done/result.json").unlink()
    with pytest.raises(ConfigError, match=r"schedule is 'constant'.*only 'wsd'"):
        request_finish(tmp_path / "done")
