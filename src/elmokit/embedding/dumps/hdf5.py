"""HDF5 in AllenNLP's layout: one dataset per sentence, with the line number as its key.

There is also AllenNLP's `sentence_to_index` (JSON {line: "number"}, the last of equal lines) and our `tokens` (one JSON
list per sentence) and `texts` (one JSON string per sentence, empty if the text is its tokens joined by spaces; absent
if all texts are). Attributes of the file describe the origin of the vectors.
"""

import ctypes
import json
import warnings
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmokit.embedding.dumps import peers
from elmokit.embedding.dumps.hdf5_access import DumpFile, write_hdf5
from elmokit.embedding.records import Embeddings, Meta, Record, Sentence, Vectors, checked, to_json, wanted_sentence
from elmokit.embedding.store import sentence_hash
from elmokit.errors import ElmokitWarning, FormatError

INDEX, TOKENS, TEXTS = "sentence_to_index", "tokens", "texts"
INDEX_LIMIT = 64 * 10**6
"""Maximum size of `sentence_to_index` in bytes; a larger one could not be read in constant memory and is omitted."""
_FORMAT = "elmokit-dump"
_BLOCK = 256


def write(records: Iterable[Record], path: Path, meta: Meta) -> int:
    """Write a file."""
    stream, meta = checked(records, meta)
    count = 0
    with write_hdf5(path) as (file, sink):
        for name, value in meta.to_dict().items():
            if value is not None:
                file.attrs[name] = to_json(value).decode() if isinstance(value, dict) else value
        file.attrs["format"] = _FORMAT
        tokens, texts, index = _Strings(file, TOKENS), _Strings(file, TEXTS), _SentenceIndex()
        for count, record in enumerate(stream, start=1):
            _write_vectors(file, str(count - 1), np.ascontiguousarray(record.vectors))
            sink.check()
            tokens.add(count - 1, to_json(record.tokens))
            if record.text != " ".join(record.tokens):
                texts.add(count - 1, to_json(record.text))
            index.add(record.text, count - 1)
        tokens.finish(count)
        if texts.used:
            texts.finish(count)
        index.write(file)
    if index.left_out:
        warnings.warn(
            f"sentence_to_index is left out of {path.suffix} files with more than {INDEX_LIMIT // 10**6} MB of "
            "sentences; open_embeddings finds sentences by their tokens.",
            ElmokitWarning,
            stacklevel=2,
        )
    return count


def _write_vectors(file: h5py.File, key: str, vectors: Vectors) -> None:
    """Like `file.create_dataset(key, data=vectors)`, in a third of the time."""
    kind = h5py.h5t.py_create(vectors.dtype, logical=True)
    dataset = h5py.h5d.create(file.id, key.encode("ascii"), kind, h5py.h5s.create_simple(vectors.shape))
    if vectors.size:
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, vectors)


class _Strings:
    """A dataset of strings that grows in blocks."""

    def __init__(self, file: h5py.File, name: str) -> None:
        self._file, self._name = file, name
        self._start = 0
        self._block: list[bytes] = []
        self.used = False

    def add(self, place: int, value: bytes) -> None:
        """Set one string; skipped ones are empty."""
        self.used = True
        while place >= self._start + _BLOCK:
            self._flush()
        self._block += [b""] * (place - self._start - len(self._block)) + [value]

    def finish(self, length: int) -> None:
        """Write the rest."""
        if self._start + len(self._block) < length:
            self.add(length - 1, b"")
        self._flush(last=True)

    def _flush(self, last: bool = False) -> None:
        if not last:
            self._block += [b""] * (_BLOCK - len(self._block))
        if self._name not in self._file:
            text = h5py.string_dtype("utf-8")
            self._file.create_dataset(self._name, (0,), dtype=text, maxshape=(None,), chunks=(_BLOCK,))
        dataset = self._file[self._name]
        dataset.resize((self._start + len(self._block),))
        if self._block:
            dataset[self._start :] = np.array(self._block, dtype=object)
        self._start += len(self._block)
        self._block = []


class _SentenceIndex:
    """The JSON of `sentence_to_index`, collected as bytes: a dict of a million lines needs ten times the memory."""

    def __init__(self) -> None:
        self._json = bytearray(b"{")
        self._ends, self._hashes = array("q", [1]), array("Q")
        self.left_out = False

    def add(self, text: str, number: int) -> None:
        """Add a sentence."""
        if self.left_out:
            return
        key = json.dumps(text).encode("ascii")
        self._json += b'%s: "%d", ' % (key, number)
        self._ends.append(len(self._json))
        self._hashes.append(sentence_hash(key))
        if len(self._json) > INDEX_LIMIT:
            self.left_out = True
            self._json, self._ends, self._hashes = bytearray(), array("q"), array("Q")

    def write(self, file: h5py.File) -> None:
        """Write the index, unless it is too long."""
        if self.left_out:
            return
        if self._hashes:
            self._drop_repeated()
            self._ends, self._hashes = array("q"), array("Q")
            del self._json[-2:]
        self._json += b"}"
        dataset = file.create_dataset(INDEX, (1,), dtype=h5py.string_dtype("utf-8"))
        # Like `dataset[0] = json`, but without the two copies that h5py would make.
        kind = h5py.h5t.C_S1.copy()
        kind.set_size(h5py.h5t.VARIABLE)
        kind.set_cset(h5py.h5t.CSET_UTF8)
        start = (ctypes.c_char * 1).from_buffer(self._json)  # Python terminates it with the NUL that C needs
        dataset.id.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([ctypes.addressof(start)], dtype=np.uintp), kind)
        del start
        self._json = bytearray()

    def _drop_repeated(self) -> None:
        """Keep the last of equal lines."""
        # Looking from the end, the first of equal hashes is the last of equal lines.
        hashes = np.frombuffer(self._hashes, dtype=np.uint64)[::-1]
        _, first = np.unique(hashes, return_index=True)
        if len(first) == len(hashes):
            return
        end = 1
        with memoryview(self._json) as entries:
            for kept in np.sort(len(hashes) - 1 - first):
                entry = entries[self._ends[kept] : self._ends[kept + 1]]
                entries[end : end + len(entry)] = entry
                end += len(entry)
                entry.release()
        del self._json[end:]


def read(path: Path) -> Embeddings:
    """Open a file in our layout or in that of another program."""
    file = DumpFile(path)
    try:
        with file.damage_reported():
            own = file.root.attrs.get("format") == _FORMAT
        if own:
            return _OwnDump(file)
        with file.damage_reported():
            names = iter(file.root)
            if INDEX in file.root or all(name.isdecimal() and name.isascii() for name in names):
                return peers.LineDump(file)
        return peers.read_keyed(file)
    except BaseException:
        file.close()
        raise


def holds_embeddings(path: Path) -> bool:
    """Whether a file holds embeddings rather than a model's weights."""
    try:
        with h5py.File(path, "r") as file:
            return not peers.is_model(file)
    except OSError:
        return False


class _OwnDump(Embeddings):
    """A file that `write` made."""

    layout = "hdf5"

    def __init__(self, file: DumpFile) -> None:
        self._file = file
        self.path = file.path
        self.meta = _read_meta(file)
        self._tokens, self._texts = file.find(TOKENS), file.find(TEXTS)
        for dataset in (self._tokens, self._texts):
            if dataset is not None and (not isinstance(dataset, h5py.Dataset) or dataset.ndim != 1):
                raise FormatError(f"{file.path} is damaged: its tokens are not a list; regenerate the file.")
        if self._tokens is None:
            raise FormatError(f"{file.path} has no tokens: it is incomplete; make it again.")
        self._length = len(self._tokens)
        self._block: tuple[int, list[Sentence]] = (-1, [])
        self._index: dict[str, str] | None = None

    def __len__(self) -> int:
        return self._length

    def read_vectors(self, index: int) -> Vectors:
        return self._file.vectors(str(index))

    def read_sentence(self, index: int) -> Sentence:
        """Neighboring records are read together."""
        number = index // _BLOCK
        self._file.check_open()
        if self._block[0] != number:
            self._block = (number, self._read_block(number * _BLOCK))
        return self._block[1][index % _BLOCK]

    def _read_block(self, start: int) -> list[Sentence]:
        with self._file.damage_reported():
            tokens = [tuple(json.loads(entry)) for entry in self._tokens[start : start + _BLOCK]]
            texts: Sequence[bytes] = [b""] * len(tokens)
            if self._texts is not None:
                texts = list(self._texts[start : start + _BLOCK])
            return [
                (json.loads(text) if text else " ".join(words), words)
                for text, words in zip(texts, tokens, strict=True)
            ]

    def find(self, sentence: str | Sequence[str]) -> list[int]:
        """Uses `sentence_to_index` if no line occurs twice."""
        self._file.check_open()
        wanted = wanted_sentence(sentence)[1]
        if isinstance(wanted, str):
            if self._index is None:
                self._index = peers.read_index(self._file) or {}
            if self._index:
                if wanted not in self._index:
                    return []
                if len(self._index) == len(self):
                    return [int(self._index[wanted])]
        return super().find(sentence)

    def close(self) -> None:
        self._file.close()


def _read_meta(file: DumpFile) -> Meta:
    values: dict[str, Any] = {}
    with file.damage_reported():
        for name, value in file.root.attrs.items():
            values[name] = value.item() if isinstance(value, np.generic) else value
        values["extra"] = json.loads(values.get("extra", "{}"))
    return Meta.from_dict(values, origin=str(file.path))
