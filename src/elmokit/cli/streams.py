"""The standard streams of a command, also if one is closed, full or no longer read."""

import io
import os
import sys
from contextlib import suppress
from typing import Any

from elmokit.errors import ElmokitError

OUTPUT = "standard output"


def open_closed_streams() -> None:
    """Replace closed standard streams by the null device, so that the next opened file does not get their descriptor.

    Messages to a closed standard error are lost. Commands that read a closed standard input refuse it.

    Raises:
        ElmokitError: if standard output is closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # for as long as the process lives
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
        raise ElmokitError("standard output is closed: leave it open, or send it to a file or to /dev/null.")


class _Output(io.FileIO):
    """Standard output that names itself in write errors."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = OUTPUT
            raise


def name_output() -> None:
    """Make write errors of standard output name it; a replaced stream is left alone."""
    old = sys.stdout
    if os.name != "posix" or old is not sys.__stdout__ or not isinstance(old, io.TextIOWrapper):
        return
    raw = _Output(old.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=old.encoding,
        errors=old.errors,
        line_buffering=old.line_buffering,
        write_through=old.write_through,
    )


def discard_output() -> None:
    """Discard buffered standard output, so that nothing fails again at interpreter exit."""
    with suppress(OSError, ValueError):  # a stream may have no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
