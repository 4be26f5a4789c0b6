"""Train again and again, killing the run at chosen moments, and resume it; prints what happened as JSON.

    python -m tests.training.killing FOLDER KIND NUMBER_OF_MOMENTS

A moment is the n-th time that the run opens, syncs, renames or removes something in its folder, makes a step or is
halfway through a checkpoint; half of the moments chosen have to do with checkpoints. Every run is a fork of this
process, which imports everything once but computes nothing: no thread is lost in a fork.
"""

import io
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # an optimiser's first step would import it in every fork

from elmokit.training.optim import Optimizer
from tests.training.runs import outcome, run, settings, write_corpus


class Moments:
    """Counts moments in this process and ends it at one of them, saying where on the way."""

    def __init__(self, folder: Path, deadly: int | None) -> None:
        self.names: list[str] = []
        self._folder, self._deadly = folder, deadly
        sys.addaudithook(self._hear)
        self._wrap(os, "fsync")
        self._wrap(Optimizer, "update")
        self._save, torch.save = torch.save, self._save_by_halves

    def _wrap(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counted(*args: Any) -> Any:
            self._pass(name)
            return original(*args)

        setattr(owner, name, counted)

    def _save_by_halves(self, content: Any, file: Any) -> None:
        whole = io.BytesIO()
        self._save(content, whole)
        half = len(whole.getvalue()) // 2
        file.write(whole.getvalue()[:half])
        file.flush()
        self._pass("half a checkpoint")
        file.write(whole.getvalue()[half:])

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir") and str(self._folder) in str(args[0]):
            self._pass(f"{event} {args[0]}")

    def _pass(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self._deadly:
            self._deadly = None
            self._folder.with_suffix(".where").write_text(name, encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)


def in_fork(action: Callable[[], Any]) -> tuple[int, Any]:
    """What the action returned in a child, and how that ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            with open(writing, "w", encoding="utf-8") as pipe:
                pipe.write(json.dumps(action()))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        answer = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), json.loads(answer) if answer else None


def main(folder: Path, kind: str, num_points: int) -> None:
    corpus, config = write_corpus(folder), settings(kind)

    def train(output: Path, deadly: int | None = None) -> list[str]:
        moments = Moments(output, deadly)
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
        where = output.with_suffix(".where").read_text(encoding="utf-8")
        kills.append({"point": point, "where": where, "status": status, "equal": found == expected})
    sys.stdout.write(json.dumps({"moments": len(names), "kills": kills}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
