"""Train in one process and in two that share the work, and go from one number to the other; prints JSON.

    python -m tests.training.two_processes FOLDER KIND…

Each process is a fork of this one, as torchrun would start it but much faster.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from elmokit.errors import ElmokitError
from elmokit.training.loop import Loop
from tests.killing import in_fork
from tests.training.runs import read_log, run, settings, write_corpus


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def in_ranks(size: int, action: Callable[[int], Any]) -> list[tuple[int, Any]]:
    """What the action returned in each of several processes that can find each other."""
    port = free_port()

    def ranked(rank: int) -> Callable[[], Any]:
        def act() -> Any:
            os.environ |= {"WORLD_SIZE": str(size), "RANK": str(rank), "LOCAL_RANK": str(rank)}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            return action(rank)

        return act

    def last_of(rank: int) -> list[tuple[int, Any]]:
        """Start a rank from a fork that starts the next one from a fork, so that all run at once."""
        if rank == size - 1:
            return [in_fork(ranked(rank))]
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            with open(writing, "w", encoding="utf-8") as pipe:
                pipe.write(json.dumps(last_of(rank + 1)))
            os._exit(0)
        os.close(writing)
        own = in_fork(ranked(rank))
        with open(reading, encoding="utf-8") as pipe:
            others = json.loads(pipe.read())
        os.waitpid(child, 0)
        return [own, *others]

    return last_of(0)


def main(folder: Path, kinds: list[str]) -> None:
    corpus = write_corpus(folder)

    def train(kind: str, output: Path, end: Callable[[int], None] | None, rank: int) -> Any:
        original = Loop._take_step

        def take_step(self: Loop, batches: list[Any]) -> None:
            if end is not None and self.progress.step == 6:
                end(rank)
            original(self, batches)

        Loop._take_step = take_step  # type: ignore[method-assign]
        try:
            return run(settings(kind), corpus, output, resume=True).steps
        except ElmokitError as error:
            return str(error)

    def kill_second(rank: int) -> None:
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    report: dict[str, Any] = {}
    for kind in kinds:
        found: dict[str, Any] = {}
        for name, first, second in (("one", 1, 0), ("two", 2, 0), ("one to two", 1, 2), ("two to one", 2, 1)):
            output = folder / f"{kind} {name}"
            if second and kind != kinds[0]:
                continue
            end = (kill_second if first == 2 else lambda rank: os._exit(9)) if second else None
            ended = in_ranks(first, partial(train, kind, output, end))
            if second:
                found[f"{name} ended"] = ended
                ended = in_ranks(second, partial(train, kind, output, None))
            found[name] = {"ended": ended, "log": read_log(output)}
        report[kind] = found
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
