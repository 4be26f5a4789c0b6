"""Read the lines of a file or of standard input; counts them, hashes their exact bytes, and tracks progress."""

import hashlib
import io
import os
import sys
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal, TextIO

from elmokit.arguments import check_path
from elmokit.errors import InputError
from elmokit.recognize import TEXTS, mistaken
from elmokit.text.files import open_text

Errors = Literal["strict", "replace"]


class LineReader:
    """Reads lines once; `digest` covers the lines read so far.

    Args:
        source: a path, compressed if it ends in .gz, .xz or .bz2; "-" is standard input.
        errors: invalid UTF-8: "strict" fails and names the line, "replace" puts U+FFFD.
    """

    def __init__(self, source: str | Path, *, errors: Errors = "strict") -> None:
        self.name = "standard input" if str(source) == "-" else str(source)
        self._source = source
        self._errors = errors
        self._hash = hashlib.sha256()
        self._file: TextIO | None = None
        self._finished = False
        self.num_lines = 0
        self._lines = self._read()

    @property
    def digest(self) -> str:
        """SHA-256 of the lines so far; the end of the last line does not matter."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[str]:
        return self._lines

    @property
    def share(self) -> float | None:
        """The share of the file that was read; None if unknown."""
        if self._finished:
            return 1.0
        with suppress(OSError, AttributeError, ValueError):
            if self._file is not None:
                number = self._file.fileno()
                return os.lseek(number, 0, os.SEEK_CUR) / (os.fstat(number).st_size or 1)
        return None

    def close(self) -> None:
        """Stop reading."""
        self._lines.close()

    def _read(self) -> Generator[str]:  # a generator, so that the caller's exceptions are not taken for read errors
        if str(self._source) == "-":
            file = io.TextIOWrapper(open_stdin(), "utf-8", "surrogateescape", newline="\n")
            try:
                yield from self._decoded(file)
            finally:
                file.detach()  # or standard input would be closed with it
            return
        with open_text(Path(self._source), errors="surrogateescape") as text:
            self._file = text
            yield from self._decoded(text)
            self._finished = True
        self._file = None

    def _decoded(self, file: TextIO) -> Iterator[str]:
        for line in file:
            data = line.encode("utf-8", "surrogateescape").removesuffix(b"\n")
            self.num_lines += 1
            try:
                text = data.decode("utf-8", self._errors)
            except UnicodeDecodeError as error:
                raise InputError(
                    mistaken(self._source, "text", *TEXTS)
                    or f"line {self.num_lines} of {self.name} is not UTF-8 ({error.reason} at byte {error.start + 1}): "
                    "convert the file, or let --errors replace (errors='replace') put U+FFFD there."
                ) from None
            self._hash.update(data + b"\n")
            yield text.strip()


def read_digest(source: str | Path, *, errors: Errors) -> str | None:
    """The digest of all lines; None if they can be read only once, or the source is missing.

    Raises:
        InputError: if a line is not UTF-8.
    """
    if str(source) == "-" or not Path(source).is_file():
        return None
    reader = LineReader(source, errors=errors)
    deque(reader, maxlen=0)
    return reader.digest


def open_stdin() -> BinaryIO:
    """Standard input as bytes; raises an error if it is closed."""
    if sys.stdin is None:
        raise InputError("standard input is closed: give a file, or send text into the command.")
    return sys.stdin.buffer


def check_readable(source: str | Path) -> None:
    """Refuse an input that cannot be opened, before a model is loaded for it.

    A pipe can be opened only once, so it is not checked here.
    """
    check_path("source", source)
    if str(source) == "-":
        open_stdin()
    elif not Path(source).is_fifo():
        with open_text(Path(source), errors="surrogateescape"):
            pass
