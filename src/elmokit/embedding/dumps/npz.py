"""npz that `numpy.load` reads without pickle: one array per sentence, named by its number.

There are also `meta` (JSON in a str), `tokens` and `texts` (UTF-8 bytes of all sentences end to end, tokens as JSON
lists) and `offsets` (n + 1, 2), where each sentence starts in these two.
"""

import io
import json
import tempfile
import zipfile
import zlib
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.embedding.dumps.stored_zip import StoredZip
from elmokit.embedding.records import Embeddings, Meta, Record, Sentence, Vectors, checked, to_json
from elmokit.embedding.store import encode_text, encode_tokens
from elmokit.errors import FormatError, brief, closed_error

_DAMAGED = (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, NotImplementedError)


def write(records: Iterable[Record], path: Path, meta: Meta) -> int:
    """Write a file."""
    stream, meta = checked(records, meta)
    count = 0
    with _Column(path) as tokens, _Column(path) as texts, StoredZip(path) as archive:
        for count, record in enumerate(stream, start=1):
            vectors = np.ascontiguousarray(record.vectors)
            archive.add(f"{count - 1}.npy", [_header(vectors), _bytes(vectors)])
            tokens.add(encode_tokens(record.tokens))
            texts.add(encode_text(record.text))
        tokens.copy_to(archive, "tokens")
        texts.copy_to(archive, "texts")
        offsets = np.stack([np.array(tokens.places), np.array(texts.places)], axis=1).astype(np.int64)  # (n + 1, 2)
        for name, values in (("offsets", offsets), ("meta", np.array(to_json(meta.to_dict()).decode()))):
            archive.add(f"{name}.npy", [_header(values), _bytes(values)])
    return count


class _Column:
    """Bytes of all records, collected beside the file until they can be written as one array."""

    def __init__(self, path: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=path.parent)
        self.places = array("q", [0])

    def add(self, data: bytes) -> None:
        self._file.write(data)
        self.places.append(self.places[-1] + len(data))

    def copy_to(self, archive: StoredZip, name: str) -> None:
        size = self.places[-1]
        header = _header_of(np.dtype(np.uint8), (size,))
        checksum = zlib.crc32(header)
        for block in self._blocks():
            checksum = zlib.crc32(block, checksum)
        archive.begin(f"{name}.npy", len(header) + size, checksum)
        archive.write(header)
        for block in self._blocks():
            archive.write(block)

    def _blocks(self) -> Iterable[bytes]:
        self._file.seek(0)
        while block := self._file.read(1 << 20):
            yield block

    def __enter__(self) -> "_Column":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def _header(values: NDArray[Any]) -> bytes:
    return _header_of(values.dtype, values.shape)


def _header_of(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    text = io.BytesIO()
    description = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(text, {"descr": description, "fortran_order": False, "shape": shape})
    return text.getvalue()


def _bytes(values: NDArray[Any]) -> bytes | memoryview:
    # A memoryview copies nothing, but supports neither str nor empty arrays.
    return values.tobytes() if values.dtype.kind == "U" or not values.size else values.data.cast("B")


def read(path: Path) -> Embeddings:
    """Open a file that `write` made."""
    try:
        return _NpzDump(path)
    except _DAMAGED as error:
        raise FormatError(f"{path} is cut short, damaged or not npz ({brief(error)}): make it again.") from None


class _NpzDump(Embeddings):
    """See the module's docstring."""

    layout = "npz"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive = zipfile.ZipFile(path)
        try:
            if "meta.npy" not in self._archive.NameToInfo or "offsets.npy" not in self._archive.NameToInfo:
                raise FormatError(f"{path} was not written by elmokit: it has no meta; give a dump of embeddings.")
            self.meta = Meta.from_dict(json.loads(str(self._read("meta"))), origin=str(path))
            self._offsets = self._read("offsets")  # (n + 1, 2)
            self._tokens, self._texts = self._mapped("tokens"), self._mapped("texts")
            ends = (len(self._tokens), len(self._texts))
            if (
                self._offsets.shape[1:] != (2,)
                or tuple(self._offsets[-1]) != ends
                or (np.diff(self._offsets, axis=0) < 0).any()
            ):
                raise ValueError("offsets do not fit the tokens")
        except BaseException:
            self._archive.close()
            raise

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def read_vectors(self, index: int) -> Vectors:
        try:
            return self._read(str(index))
        except _DAMAGED as error:
            raise FormatError(f"{self.path}: sentence {index} is damaged ({error}): make the file again.") from None

    def read_sentence(self, index: int) -> Sentence:
        self._check_open()
        (token, text), (token_end, text_end) = self._offsets[index], self._offsets[index + 1]
        try:
            tokens = json.loads(self._tokens[token:token_end].tobytes().decode("utf-8", "surrogatepass"))
            return self._texts[text:text_end].tobytes().decode("utf-8", "surrogatepass"), tuple(tokens)
        except ValueError:
            raise FormatError(f"{self.path}: the tokens of sentence {index} are damaged: make it again.") from None

    def close(self) -> None:
        self._archive.close()

    def _check_open(self) -> None:
        if self._archive.fp is None:
            raise closed_error(self.path)

    def _read(self, name: str) -> NDArray[Any]:
        self._check_open()
        with self._archive.open(f"{name}.npy") as file:
            array_: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
            return array_

    def _mapped(self, name: str) -> NDArray[np.uint8]:
        """A member's bytes, mapped rather than read, if it is not compressed."""
        info = self._archive.getinfo(f"{name}.npy")
        if info.compress_type != zipfile.ZIP_STORED:
            return self._read(name)
        with open(self.path, "rb") as file:
            file.seek(info.header_offset + 26)
            lengths = np.frombuffer(file.read(4), dtype="<u2")
            file.seek(info.header_offset + 30 + int(lengths.sum()))
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            if dtype != np.uint8 or len(shape) != 1:
                raise ValueError(f"{name} is not an array of bytes")
            if not shape[0]:
                return np.empty(0, np.uint8)
            return np.memmap(self.path, np.uint8, "r", file.tell(), shape).view(np.ndarray)
