"""A run that lives for days: another precision, passes added, an early end, and kills at all of these."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from elmokit.errors import ConfigError
from elmokit.training.loop import Loop
from elmokit.training.run_folder import request_finish
from tests.training.runs import outcome, read_log, run, settings, write_corpus

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
            os.kill(os.getpid(), signal.SIGTERM)
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


@pytest.mark.slow
def test_a_run_without_a_request_decays_in_its_last_steps(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    done = run(settings("sampled", optimizer=WSD, num_epochs=1), corpus, tmp_path / "run")
    expected = [entry for entry in read_log(tmp_path / "run") if "decay" in entry]
    assert expected == [{"step": done.steps - 6, "decay": "begun at the end of the steps", "num_steps": done.steps}]


@pytest.mark.slow
def test_the_average_is_what_ships_if_it_is_better(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    """At a rate this high the weights jump about, and their average does not."""
    optimizer = {**WSD, "learning_rate": 0.3, "decay_steps": 1, "ema_decay": 0.95}
    done = run(
        settings("sampled", optimizer=optimizer, num_epochs=8, loop={"evaluate_every": 8}), corpus, tmp_path / "r"
    )
    entries = [entry for entry in read_log(tmp_path / "r") if "heldout_perplexity" in entry]
    best = min(entry["heldout_ema_perplexity"] for entry in entries)
    assert best < min(entry["heldout_perplexity"] for entry in entries)
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
