"""End a process at a chosen moment of its work, and see from another what it left.

A moment is the n-th time that the process opens, syncs, renames or removes something in a folder, or does whatever else
is counted. Every run is a fork of a process that imports everything once but computes nothing: no thread is lost in a
fork.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir")


class Moments:
    """Counts moments in this process and ends it at one of them, saying which in a file beside the folder."""

    def __init__(self, folder: Path, deadly: int | None) -> None:
        self.names: list[str] = []
        self._folder, self._deadly = folder, deadly
        sys.addaudithook(self._hear)
        self.count(os, "fsync")

    def count(self, owner: Any, name: str) -> None:
        """Let every call of a function be a moment."""
        original = getattr(owner, name)

        def counted(*args: Any) -> Any:
            self.reach(name)
            return original(*args)

        setattr(owner, name, counted)

    def reach(self, name: str) -> None:
        """A moment; it may be the last."""
        self.names.append(name)
        if len(self.names) == self._deadly:
            self._deadly = None
            where(self._folder).write_text(name, encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _EVENTS and str(self._folder) in str(args[0]):
            self.reach(f"{event} {args[0]}")


def where(folder: Path) -> Path:
    """The file that says at which moment a process was ended."""
    return folder.with_suffix(".where")


def in_fork(action: Callable[[], Any]) -> tuple[int, Any]:
    """How a child ended, and what the action returned in it, which must fit JSON."""
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
