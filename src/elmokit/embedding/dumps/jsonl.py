"""JSON lines: the first line describes the origin of the vectors, then one object per sentence.

    {"elmokit": {"model": …, "layers": "top", …}}
    {"index": 0, "text": "The play .", "tokens": ["The", "play", "."], "vectors": [[…], […], […]]}

Numbers have enough digits to restore every bit.
"""

import bz2
import gzip
import json
import lzma
import zlib
from array import array
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from elmokit.embedding.records import Embeddings, Meta, Record, Sentence, Vectors, checked, to_json
from elmokit.errors import FormatError, closed_error

_DIGITS = {2: 5, 4: 9, 8: 17}  # by bytes of a number
_BLOCK = 64
"""Rows of float16 numbers that are written together."""
_VECTORS = b', "vectors": '
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_DAMAGED = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)


def write(records: Iterable[Record], path: Path, meta: Meta) -> int:
    """Write a file."""
    with open(path, "wb") as file:
        return write_stream(records, file, meta)


def write_stream(records: Iterable[Record], file: IO[bytes], meta: Meta) -> int:
    """Write to an open file, record by record."""
    stream, meta = checked(records, meta)
    file.write(to_json({"elmokit": meta.to_dict()}) + b"\n")
    count = 0
    for count, record in enumerate(stream, start=1):
        head = to_json({"index": count - 1, "text": record.text, "tokens": list(record.tokens)})
        file.write(head[:-1] + _VECTORS)
        for part in _numbers(record.vectors):
            file.write(part)
        file.write(b"}\n")
    return count


def _numbers(vectors: Vectors) -> Iterator[bytes]:
    """Nested lists, a few rows at a time: the numbers of a long text as Python objects would fill the memory."""
    if vectors.ndim == 1:
        yield _row(vectors)
        return
    yield b"["
    if vectors.ndim == 2:
        for place, rows in enumerate(_rows(vectors)):
            yield b", " + rows if place else rows
    else:
        for place, part in enumerate(vectors):
            yield b", " if place else b""
            yield from _numbers(part)
    yield b"]"


def _row(row: Vectors) -> bytes:
    if not row.all():  # a zero written by %g loses its sign
        return json.dumps(row.tolist(), allow_nan=False).encode()
    pattern = f"%.{_DIGITS[row.dtype.itemsize]}g"
    return ("[" + ", ".join([pattern] * len(row)) % tuple(row.tolist()) + "]").encode()


def _rows(matrix: Vectors) -> Iterator[bytes]:
    """The lists of one or more rows, joined by commas."""
    if matrix.dtype != np.float16 or not matrix.shape[1]:
        yield from map(_row, matrix)
        return
    bits = np.ascontiguousarray(matrix).view(np.uint16)
    for start in range(0, len(bits), _BLOCK):
        block = bits[start : start + _BLOCK]
        if (block & 0x7FFF).all():
            yield _join_half(block)
        else:  # zeros
            yield from map(_row, matrix[start : start + _BLOCK])


def _join_half(block: NDArray[np.uint16]) -> bytes:
    """What `_row` gives for rows of float16 numbers without zeros, from a table of all such numbers."""
    inner, last = _half_texts()
    cells = inner[block]
    cells[:, -1] = last[block[:, -1]]
    return b"[" + cells.tobytes().translate(None, b"\0").removesuffix(b", [")


@cache
def _half_texts() -> tuple[NDArray[np.bytes_], NDArray[np.bytes_]]:
    """Every float16 number as text, by its bits: followed by a comma, and by the end of its row and the next "["."""
    numbers = np.arange(2**16, dtype=np.uint16).view(np.float16).tolist()
    texts = (f"%.{_DIGITS[2]}g " * len(numbers) % tuple(numbers)).encode().split()
    inner, last = ([text + end for text in texts] for end in (b", ", b"], ["))
    width = max(map(len, last))
    return np.array(inner, dtype=f"S{width}"), np.array(last, dtype=f"S{width}")


def read(path: Path) -> Embeddings:
    """Open a file that `write` made, compressed (.gz, .xz, .bz2) or not."""
    return _JsonlDump(path)


class _JsonlDump(Embeddings):
    """See the module's docstring; line offsets are found in one pass when first needed."""

    layout = "jsonl"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] = _OPENERS.get(path.suffix.lower(), open)(path, "rb")
        self._starts: array[int] | None = None
        try:
            first = self._line(0)
            values = json.loads(first) if first.startswith(b'{"elmokit"') else {}
            if not isinstance(values.get("elmokit"), dict):
                raise FormatError(f"{path} was not written by elmokit: its first line has no meta; give a dump.")
            self.meta = Meta.from_dict(values["elmokit"], origin=str(path))
        except ValueError:
            self._file.close()
            raise FormatError(f"{path}: its first line is damaged: make the file again.") from None
        except BaseException:
            self._file.close()
            raise
        self._first = len(first)

    def __len__(self) -> int:
        return len(self._places()) - 1

    def _places(self) -> "array[int]":
        """Where the line of each sentence starts, followed by the end of the file."""
        if self._starts is None:
            starts = array("q", [self._first])
            for line in self._lines():
                starts.append(starts[-1] + len(line))
            self._starts = starts
        return self._starts

    def _lines(self) -> Iterator[bytes]:
        self._seek(self._first)
        while line := self._next():
            if not line.endswith(b"\n"):
                raise FormatError(f"{self.path} is cut short in its last line: make the file again.")
            yield line

    def __iter__(self) -> Iterator[Record]:
        position, index = self._first, 0
        while line := self._line(position):
            yield Record(index, *self._sentence(line, index), self._vectors(line, index))
            position, index = position + len(line), index + 1

    def sentences(self) -> Iterator[Sentence]:
        for index, line in enumerate(self._lines()):
            yield self._sentence(line, index)

    def read_vectors(self, index: int) -> Vectors:
        return self._vectors(self._line(self._places()[index]), index)

    def read_sentence(self, index: int) -> Sentence:
        return self._sentence(self._line(self._places()[index]), index)

    def close(self) -> None:
        self._file.close()

    def _sentence(self, line: bytes, index: int) -> Sentence:
        # Inside a JSON string a quote is escaped, so this can only be the key itself.
        head, found, _ = line.partition(_VECTORS)
        values = self._parse(head + b"}" if found else line, index)
        try:
            text, tokens = values["text"], tuple(values["tokens"])
        except (KeyError, TypeError):
            raise self._damaged(index) from None
        return text, tokens

    def _vectors(self, line: bytes, index: int) -> Vectors:
        _, found, numbers = line.rpartition(_VECTORS)
        values = self._parse(numbers.rstrip()[:-1], index) if found else self._parse(line, index).get("vectors")
        try:
            vectors = np.array(values, dtype=self.meta.dtype)
            return vectors.reshape(self.meta.shape(vectors.size and vectors.shape[-2] if vectors.ndim > 1 else 0))
        except (ValueError, TypeError):
            raise self._damaged(index) from None

    def _parse(self, data: bytes, index: int) -> Any:
        try:
            return json.loads(data)
        except ValueError:
            raise self._damaged(index) from None

    def _damaged(self, index: int) -> FormatError:
        return FormatError(f"{self.path}: the line of sentence {index} is damaged: make the file again.")

    def _line(self, position: int) -> bytes:
        self._seek(position)
        return self._next()

    def _seek(self, position: int) -> None:
        if self._file.closed:
            raise closed_error(self.path)
        try:
            if self._file.tell() != position:
                self._file.seek(position)
        except _DAMAGED as error:
            raise self._unreadable(error) from None

    def _next(self) -> bytes:
        try:
            return self._file.readline()
        except _DAMAGED as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> FormatError:
        return FormatError(f"{self.path} is damaged or not compressed as its name says ({error}): make it again.")
