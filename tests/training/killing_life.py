"""Go through a long run's changes again and again, killing it at chosen moments of them; prints what happened as JSON.

    python -m tests.training.killing_life FOLDER NUMBER_OF_MOMENTS

The run changes its precision, is given another pass and other negatives, is asked to finish while it trains, and
decays. Between these it is stopped politely. Killed at any moment and resumed, it must become the run that was not.
"""

import json
import random
import shutil
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

from elmokit.training.loop import Loop
from elmokit.training.run_folder import request_finish
from tests.killing import in_fork, where
from tests.training.killing import TrainingMoments
from tests.training.runs import outcome, run, settings, write_corpus

WSD = {"kind": "adamw", "schedule": "wsd", "decay_steps": 6, "ema_decay": 0.9}
STAGES: list[tuple[dict[str, Any], int | None]] = [
    ({"num_epochs": 2}, 4),
    ({"num_epochs": 3, "precision": "bfloat16"}, 11),
    ({"num_epochs": 9, "precision": "bfloat16", "loss": {"num_negatives": 12}}, None),
]
"""What each stage changes, and the step after which it is stopped politely."""
ASKED_AT = 15
"""The step after which the last stage is asked to finish; there is a checkpoint of it."""
PARTS = ("log", "model", "checkpoint", "result")


def live(output: Path, corpus: dict[str, list[str]], number: int, deadly: int | None = None) -> list[str]:
    """A stage of the run; gives the moments at which it could have been killed."""
    changes, stop = STAGES[number]
    take_step, take_batches = Loop._take_step, Loop._take_batches

    def stopping(self: Loop, batches: list[Any]) -> None:
        if self.progress.step + 1 == stop:
            signal.raise_signal(signal.SIGTERM)
        take_step(self, batches)

    def asking(self: Loop, *others: Any) -> list[Any]:
        if stop is None and self.progress.step == ASKED_AT:
            request_finish(output)
        return take_batches(self, *others)

    Loop._take_step, Loop._take_batches = stopping, asking
    warnings.filterwarnings("ignore", "this processor has no instructions for bfloat16")
    moments = TrainingMoments(output, deadly)
    try:
        run(settings("sampled", optimizer=WSD, **changes), corpus, output, resume=True)
    except KeyboardInterrupt:
        assert stop is not None
    return moments.names


def compare(output: Path, whole: Path) -> list[str]:
    """What two finished runs do not have in common."""
    one, other = outcome(output), outcome(whole)
    return [part for part in PARTS if one[part] != other[part]]


def main(folder: Path, num_points: int) -> None:
    corpus, whole, generator = write_corpus(folder), folder / "whole", random.Random(1)
    names: list[list[str]] = []
    for number in range(len(STAGES)):
        if whole.exists():
            shutil.copytree(whole, folder / f"before{number}")
        status, found = in_fork(lambda number=number: live(whole, corpus, number))
        assert status == 0, f"stage {number} of the uninterrupted run failed"
        names.append(found)
    kills = []
    for kill in range(num_points):
        number = kill % len(STAGES)
        last = kill == num_points - 1  # one of them just where the decay begins
        asked = next(place for place, name in enumerate(names[-1], 1) if ".finish." in name)
        number, point = (
            (len(STAGES) - 1, asked + generator.randint(1, 12))
            if last
            else (number, generator.randint(1, len(names[number])))
        )
        output = folder / f"cut{kill}"
        if number:
            shutil.copytree(folder / f"before{number}", output)
        status, _ = in_fork(lambda output=output, number=number, point=point: live(output, corpus, number, point))
        assert status == -signal.SIGKILL, f"not killed at {point} of stage {number}"
        for later in range(number, len(STAGES)):
            status, _ = in_fork(lambda output=output, later=later: live(output, corpus, later))
            assert status == 0, f"stage {later} failed after a kill at {point} of stage {number}"
        _, differs = in_fork(lambda output=output: compare(output, whole))
        kills.append({"stage": number, "where": where(output).read_text(encoding="utf-8"), "differs": differs})
    sys.stdout.write(json.dumps({"kills": kills}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
