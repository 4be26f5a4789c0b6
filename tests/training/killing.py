"""Train again and again, killing the run at chosen moments, and resume it; prints what happened as JSON.

    python -m tests.training.killing FOLDER KIND NUMBER_OF_MOMENTS

Beside the moments of `tests.killing` those count at which the run makes a step or is halfway through a checkpoint; half
of the ones chosen have to do with checkpoints.
"""

import io
import json
import random
import signal
import sys
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # an optimizer's first step would import it in every fork

from elmokit.training.optim import Optimizer
from tests.killing import Moments, in_fork, where
from tests.training.runs import outcome, run, settings, write_corpus


class TrainingMoments(Moments):
    """Steps and half-written checkpoints are moments too."""

    def __init__(self, folder: Path, deadly: int | None) -> None:
        super().__init__(folder, deadly)
        self.count(Optimizer, "update")
        self._save, torch.save = torch.save, self._save_by_halves

    def _save_by_halves(self, content: Any, file: Any) -> None:
        whole = io.BytesIO()
        self._save(content, whole)
        half = len(whole.getvalue()) // 2
        file.write(whole.getvalue()[:half])
        file.flush()
        self.reach("half a checkpoint")
        file.write(whole.getvalue()[half:])


def main(folder: Path, kind: str, num_points: int) -> None:
    corpus, config = write_corpus(folder), settings(kind)

    def train(output: Path, deadly: int | None = None) -> list[str]:
        moments = TrainingMoments(output, deadly)
        run(config, corpus, output, resume=True)
        return moments.names

    whole = folder / "whole"
    status, names = in_fork(lambda: train(whole))
    assert status == 0, "the uninterrupted run failed"
    _, expected = in_fork(lambda: outcome(whole))
    generator, kills = random.Random(kind), []
    halves = [point for point, name in enumerate(names, 1) if name == "half a checkpoint"]
    others = [point for point, name in enumerate(names, 1) if "checkpoints" in name and point not in halves]
    points = [generator.choice(halves), *generator.sample(others, num_points // 2 - 1)]
    points += generator.sample(range(1, len(names) + 1), num_points - len(points))
    for number, point in enumerate(points):
        output = folder / f"cut{number}"
        status, _ = in_fork(lambda output=output, point=point: train(output, point))
        assert status == -signal.SIGKILL, f"not killed at {point}"
        status, _ = in_fork(lambda output=output: train(output))
        found = in_fork(lambda output=output: outcome(output))[1] if status == 0 else None
        place = where(output).read_text(encoding="utf-8")
        kills.append({"point": point, "where": place, "status": status, "equal": found == expected})
    sys.stdout.write(json.dumps({"moments": len(names), "kills": kills}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
