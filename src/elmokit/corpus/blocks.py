"""Process a corpus in blocks of lines, optionally in several processes, with ordered results and bounded memory."""

import hashlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple, TextIO, TypeVar

from elmokit.arguments import check_integer, check_paths
from elmokit.cores import usable_cores
from elmokit.errors import ElmokitError, InputError
from elmokit.progress import ProgressCallback
from elmokit.recognize import TEXTS, mistaken
from elmokit.text.files import open_text
from elmokit.text.input_kind import InputKind, actual_input
from elmokit.text.lines import split_line

Errors = Literal["strict", "replace"]
Result = TypeVar("Result")

_BLOCK_CHARACTERS = 1 << 20
_SMALL_CORPUS = 4_000_000
"""Below this many bytes, one process finishes before others would have started."""


class Block(NamedTuple):
    """Consecutive lines of a file; bytes that are not UTF-8 are kept as lone surrogates."""

    path: Path
    first_line: int
    """Number of the first line, from 1."""
    lines: list[str]


REPLACE = "let --errors replace (errors='replace') put U+FFFD there"
"""Advice for invalid UTF-8, used where a command has the option."""


def tokenize_lines(
    block: Block, *, input: InputKind, errors: Errors = "strict", advice: str = REPLACE
) -> Iterator[list[list[str]]]:
    """The sentences of each line of a block.

    Raises:
        InputError: If a line is not UTF-8 and `errors` is "strict".
    """
    input = actual_input(block.path, input)
    for number, line in enumerate(block.lines, start=block.first_line):
        text = replaced(line)
        if errors == "strict" and text is not line:
            raise InputError(
                mistaken(block.path, "text", *TEXTS)
                or f"line {number} of {block.path} is not UTF-8: convert the file, or {advice}."
            )
        yield split_line(text, input)


def replaced(line: str) -> str:
    """Return the line itself if it is valid UTF-8, otherwise a copy with U+FFFD in place of invalid bytes."""
    try:
        line.encode()
    except UnicodeEncodeError:
        return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return line


def map_blocks(
    function: Callable[[Block], Result],
    paths: Sequence[Path],
    *,
    processes: int | None = None,
    progress: ProgressCallback | None = None,
    digests: dict[Path, str] | None = None,
) -> Iterator[Result]:
    """Read the files once, apply a function to every block, and yield the results in order.

    Args:
        function: Takes a block. With several processes it must be a module-level function, or a `partial` of one.
        paths: Files to read.
        processes: Number of processes; 1 uses this process only, None uses all cores, or one for a small corpus. New
            processes import the module of `function`, so that module should not import torch.
        progress: Receives the number of bytes read and the total.
        digests: Receives the SHA-256 of each file, in hexadecimal, when it has been read.

    Raises:
        InputError: If a file cannot be read.
        ElmokitError: If a process dies.
    """
    if processes is not None:
        check_integer("processes", processes, at_least=1)
    paths = check_paths("paths", paths)
    sizes = [path.stat().st_size if path.is_file() else 0 for path in paths]
    if processes is None:
        processes = 1 if 0 < sum(sizes) < _SMALL_CORPUS else usable_cores()
    blocks = _read_blocks(paths, sizes, progress, digests)
    if processes == 1:
        yield from map(function, blocks)
    else:
        yield from _map_in_pool(function, blocks, processes)


def _map_in_pool(function: Callable[[Block], Result], blocks: Iterator[Block], processes: int) -> Iterator[Result]:
    context = multiprocessing.get_context("spawn")  # a fork would copy the locks of the caller's threads
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_leave_interrupts_to_the_parent)
    waiting: deque[Future[Result]] = deque()
    try:
        for block in blocks:
            waiting.append(pool.submit(function, block))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise ElmokitError(
            "a process that tokenizes ended at once or was killed: free some memory if it is short, as one process "
            "(processes=1) needs less; a script must call this under if __name__ == '__main__'."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _read_blocks(
    paths: Sequence[Path], sizes: Sequence[int], progress: ProgressCallback | None, digests: dict[Path, str] | None
) -> Iterator[Block]:
    total, done = sum(sizes), 0
    for path, size in zip(paths, sizes, strict=True):
        digest = None if digests is None else hashlib.sha256()
        with open_text(path, errors="surrogateescape", digest=digest) as text:
            first_line, num_characters, lines = 1, 0, list[str]()
            for line in text:
                lines.append(line)
                num_characters += len(line)
                if num_characters >= _BLOCK_CHARACTERS:
                    yield Block(path, first_line, lines)
                    first_line, num_characters, lines = first_line + len(lines), 0, []
                    if progress is not None:
                        progress(done + min(_place(text), size), total)
        if lines:
            yield Block(path, first_line, lines)
        if digests is not None and digest is not None:
            digests[path] = digest.hexdigest()
        done += size
        if progress is not None:
            progress(done, total)


def _place(text: TextIO) -> int:
    """Number of bytes read from the file; for a compressed file, compressed bytes."""
    with suppress(OSError, ValueError):
        return os.lseek(text.fileno(), 0, os.SEEK_CUR)
    return 0
