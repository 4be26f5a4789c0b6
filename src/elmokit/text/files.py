"""Find files by path or glob, and open text files, plain or compressed (.gz, .xz, .bz2) according to their names."""

import bz2
import codecs
import glob
import gzip
import hashlib
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from elmokit.arguments import check_path, is_path, shown
from elmokit.errors import ConfigError, InputError
from elmokit.recognize import TEXTS, binary_kind, did_you_mean, is_regular, mistaken

if TYPE_CHECKING:
    from hashlib import _Hash

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_DAMAGED = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)
_FAILURES = (UnicodeDecodeError, OSError, *_DAMAGED)


@contextmanager
def open_text(path: Path, *, errors: str = "strict", digest: "_Hash | None" = None) -> Iterator[TextIO]:
    r"""Read UTF-8 text whose lines end at `\n` only, so that no other separator can break a line.

    A byte order mark at the beginning is skipped. A file that is missing, damaged or not text raises an `InputError`
    that says so; other errors while the file is open pass through unchanged. A file that begins like embeddings, a zip
    or another binary format is reported as that format, regardless of `errors`. `digest` receives all bytes of the
    file, compressed if it is, when the text is read to its end.
    """
    path = check_path("path", path)
    try:
        codecs.lookup_error(errors)
    except (LookupError, TypeError):
        raise ConfigError(f"errors {shown(errors)} is unknown: choose strict or replace.") from None
    with ExitStack() as opened:
        try:
            stored = io.BufferedReader(io.FileIO(path) if digest is None else _DigestedFile(path, digest))
            opened.enter_context(stored)
            file = _OPENERS[path.suffix](stored, "rb") if path.suffix in _OPENERS else stored
            kind = binary_kind(path, file.peek(64)) if is_regular(path) else None
        except (*_FAILURES, ValueError) as error:  # the last for a name that no file can have
            raise _reworded(path, error) from None
        if kind is not None:
            wanted = "UTF-8 text" if "UTF-16" in kind.words else "text"
            raise InputError(f"{path} is {kind.words}, not {wanted}: {kind.use}.")
        yield opened.enter_context(_Text(path, file, errors))
        while digest is not None and stored.read(io.DEFAULT_BUFFER_SIZE):  # what may follow compressed data
            pass


class _DigestedFile(io.FileIO):
    """A file that adds the bytes that are read from it to a digest."""

    def __init__(self, path: Path, digest: "_Hash") -> None:
        super().__init__(path)
        self._digest = digest

    def readinto(self, buffer: Any, /) -> int | None:
        count = super().readinto(buffer)
        self._digest.update(memoryview(buffer)[:count])
        return count


class _Text(io.TextIOWrapper):
    """Text that reports its own failures, so that they are not confused with those of the calling code."""

    def __init__(self, path: Path, file: Any, errors: str) -> None:
        super().__init__(file, encoding="utf-8-sig", errors=errors, newline="\n")
        self._path = path

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]  # iteration calls it too
        try:
            return super().readline(size)
        except _FAILURES as error:
            raise _reworded(self._path, error) from None

    def read(self, size: int | None = -1, /) -> str:
        try:
            return super().read(size)
        except _FAILURES as error:
            raise _reworded(self._path, error) from None


def find_files(patterns: Sequence[str]) -> list[Path]:
    """Find the files that match paths and globs, sorted and without repetitions.

    Args:
        patterns: Paths, or globs with `*`, `?`, `[…]` and `**` (any folders); `~` is the home folder. The name of an
            existing file is never treated as a glob.

    Raises:
        InputError: If a pattern names nothing, or a folder.
    """
    if is_path(patterns) or not isinstance(patterns, Iterable):
        kind = "the str " if isinstance(patterns, str) else ""
        raise ConfigError(f"patterns is {kind}{shown(patterns)}: give a list of paths or globs, e.g. [path].")
    found: dict[Path, Path] = {}
    for pattern in patterns:
        check_path("a pattern", pattern)
        name = os.path.expanduser(pattern)
        paths = [Path(name)] if os.path.exists(name) else [Path(path) for path in glob.glob(name, recursive=True)]
        if not paths:
            raise InputError(
                f"no file matches {pattern!r}{did_you_mean(name)}: check the path, or give a glob such as "
                "'data/*.txt.xz'."
            )
        files = [path for path in paths if not path.is_dir()]
        if not files:
            raise InputError(
                mistaken(paths[0], "a text file")
                or f"{pattern!r} is a folder, not a file: name its files, as in '{paths[0]}/*.txt'."
            )
        found = {path.resolve(): path for path in files} | found
    return sorted(found.values())


def refuse_pipes(paths: Iterable[Path]) -> None:
    """Refuse named pipes and devices where text is read more than once."""
    for path in paths:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(
                f"{path} is a pipe or a device, not a regular file, but this text is read more than once: save it to a "
                "file first."
            )


def first_line(path: Path) -> str:
    """The first line that is not blank, with its line end, for detecting formats; "" if there is none."""
    with open_text(path) as lines:
        return next((line for line in lines if line.strip()), "")


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _reworded(path: Path, error: Exception) -> InputError:
    if sentence := mistaken(path, "text", *TEXTS):
        return InputError(sentence)
    if isinstance(error, UnicodeDecodeError):
        return InputError(
            f"{path} is not UTF-8 text ({error.reason} after {error.start} bytes of a block): "
            "convert it to UTF-8 first."
        )
    if isinstance(error, _DAMAGED):
        return InputError(f"{path} is damaged or not a {path.suffix} file ({error}): fetch it again.")
    reason = error.strerror if isinstance(error, OSError) else None
    return InputError(f"{path} cannot be read: {reason or error}{did_you_mean(path)}.")
