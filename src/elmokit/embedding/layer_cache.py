"""The layers of a frozen biLM on disk, by sentence, so that epochs, seeds, tasks and analyses compute them once.

A folder per model and precision; that of bfloat16 also names the instructions, whose bits differ:

    cache.json   format, fingerprint, precision and sizes
    vectors      float16 rows (N, L, D): the tokens of all sentences, end to end
    index        one entry per sentence: a hash of its tokens, its first row and its number of tokens

Sentences are found by a 128-bit hash, so the folder contains no text. Both files only grow: new rows are written before
the entries that point to them, so a kill loses only what was not committed. Readers map one file, however often the
cache was filled. A writer holds the lock while it appends, and not while it computes, so several runs can fill a cache
at the same time.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.cache import cache_directory
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.records import Vectors
from elmokit.embedding.store import VectorStore, encode_tokens, is_store, sentence_hash
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.filesystem import naming_destination, write_text_atomic
from elmokit.locks import FolderLock
from elmokit.progress import ProgressCallback
from elmokit.text.tokens import check_tokens

CACHE, VECTORS, INDEX, LOCK = "cache.json", "vectors", "index", "lock"
FILES = (INDEX, VECTORS, CACHE)
"""The files of a cache, in the order in which they can be removed."""
_FORMAT, _VERSION = "elmokit-layers", 1
_ENTRY = np.dtype([("key", "V16"), ("row", "<i8"), ("num_tokens", "<i8")])
_ROW = np.dtype("<f2")
_COMMIT_BYTES, _COMMIT_SECONDS = 256_000_000, 30.0


class _Place(NamedTuple):
    rows: NDArray[Any]
    """The mapped file; it stays valid if the cache is cleared."""
    first: int
    num_tokens: int


class LayerCache:
    """Layers (L, T, D) in float16 of tokenized sentences, each from the zero state.

    Args:
        embedder: the frozen model; it must reset its state at every sentence.
        folder: the parent folder of the caches, one per model and precision; None is the user's cache.
    """

    def __init__(self, embedder: Embedder, folder: Path | None = None) -> None:
        if embedder.state != "reset":
            raise ConfigError(
                f"an embedder with state {embedder.state!r} gives other layers than a cache keeps: give one with state "
                "'reset'."
            )
        self.embedder = embedder
        parent = cache_directory() / "layers" if folder is None else folder
        self.path = parent / cache_name(embedder)
        self._shape = (self.num_layers, self.width)
        self._row_bytes = _ROW.itemsize * self.num_layers * self.width
        self._places: dict[bytes, _Place] = {}
        self._num_entries, self._inode = 0, 0
        self._rows: NDArray[Any] = np.empty((0, *self._shape), _ROW)
        self._older = _OlderStore(parent / embedder.fingerprint[:16]) if embedder.precision == "float32" else None
        self._refresh()

    @property
    def num_layers(self) -> int:
        """L."""
        return self.embedder.bilm.config.num_layers

    @property
    def width(self) -> int:
        """D."""
        return self.embedder.bilm.config.output_dim

    def prepare(self, sentences: Iterable[Sequence[str]], report: ProgressCallback | None = None) -> int:
        """Embed sentences that are not cached yet, and return their number; a kill loses at most 30 seconds of work."""
        missing = list(dict.fromkeys(tokens for tokens in map(check_tokens, sentences) if not self._has(tokens)))
        if not missing:
            return 0
        with _locked(self.path):  # before the work, to notice a folder that cannot be written
            self._describe()
            self._refresh()  # another process may have embedded some of them
        missing = [tokens for tokens in missing if not self._has(tokens)]
        pending: dict[bytes, Vectors] = {}
        num_bytes, committed = 0, time.monotonic()
        stream = self.embedder.embed_stream([list(tokens) for tokens in missing], dtype="float16")
        for number, (tokens, layers) in enumerate(zip(missing, stream, strict=True), 1):
            pending[_key(tokens)] = layers
            num_bytes += layers.nbytes
            if num_bytes > _COMMIT_BYTES or time.monotonic() - committed > _COMMIT_SECONDS:
                self._commit(pending)
                pending, num_bytes, committed = {}, 0, time.monotonic()
            if report is not None:
                report(number, len(missing))
        self._commit(pending)
        return len(missing)

    def read(self, tokens: Sequence[str]) -> Vectors:
        """The layers (L, T, D) of a prepared sentence."""
        if (place := self._places.get(_key(tokens))) is not None:
            rows: Vectors = place.rows[place.first : place.first + place.num_tokens].swapaxes(0, 1)
            return rows
        if self._older is not None and (layers := self._older.read(tokens)) is not None:
            return layers
        raise InputError(f"the sentence {' '.join(tokens)[:80]!r} was not embedded: call prepare with it first.")

    def embed(self, sentences: Sequence[Sequence[str]]) -> Iterator[Vectors]:
        """The layers of sentences, in order; those that are not cached yet are embedded first."""
        self.prepare(sentences)
        return map(self.read, sentences)

    def _has(self, tokens: Sequence[str]) -> bool:
        return _key(tokens) in self._places or (self._older is not None and self._older.has(tokens))

    def _refresh(self) -> None:
        """Take over what was appended to the files since they were last read."""
        vectors = self.path / VECTORS
        try:
            inode = vectors.stat().st_ino
            if inode != self._inode:  # the first time, or the cache was cleared and filled again
                self._num_entries, self._inode = 0, inode
                self._rows = np.empty((0, *self._shape), _ROW)
            with open(self.path / INDEX, "rb") as index:
                index.seek(self._num_entries * _ENTRY.itemsize)
                data = index.read()
            num_rows = vectors.stat().st_size // self._row_bytes  # after the index, which is written after the rows
        except FileNotFoundError:
            return
        entries = np.frombuffer(data[: len(data) // _ENTRY.itemsize * _ENTRY.itemsize], _ENTRY)
        if not len(entries):
            return
        ends = entries["row"] + entries["num_tokens"]
        whole = min(entries["row"].min(), entries["num_tokens"].min()) >= 0 and ends.max() <= num_rows
        self._check_description(whole=bool(whole))
        if num_rows > len(self._rows):
            shape = (num_rows, *self._shape)
            self._rows = np.memmap(vectors, dtype=_ROW, mode="r", shape=shape).view(np.ndarray)
        for key, row, size in zip(*(entries[name].tolist() for name in _ENTRY.names or ()), strict=True):
            self._places[key] = _Place(self._rows, row, size)
        self._num_entries += len(entries)

    def _commit(self, pending: dict[bytes, Vectors]) -> None:
        """Append sentences to the files, except those that another process has appended meanwhile."""
        if not pending:
            return
        with _locked(self.path):
            self._describe()  # again: it may have been cleared meanwhile
            self._refresh()
            fresh = {key: layers for key, layers in pending.items() if key not in self._places}
            if fresh:
                _append(self.path, fresh, self._row_bytes)
                self._refresh()

    @property
    def _description(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "fingerprint": self.embedder.fingerprint,
            "precision": self.embedder.runner.precision_key,
            "num_layers": self.num_layers,
            "width": self.width,
        }

    def _describe(self) -> None:
        if (self.path / CACHE).exists():
            self._check_description()
        else:
            write_text_atomic(self.path / CACHE, json.dumps(self._description, indent=1) + "\n")

    def _check_description(self, *, whole: bool = True) -> None:
        try:
            found = json.loads((self.path / CACHE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None
        if found != self._description or not whole:
            raise FormatError(f"{self.path} is damaged, or holds the layers of another model: delete it and run again.")


def cache_name(embedder: Embedder) -> str:
    """The name of the folder for an embedder's layers."""
    return f"{embedder.fingerprint[:16]}-{embedder.runner.precision_key}"


def is_layer_cache(path: Path) -> bool:
    """Whether a folder is a cache of layers."""
    try:
        return bool(json.loads((path / CACHE).read_text(encoding="utf-8"))["format"] == _FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def count_cached(path: Path) -> int:
    """Number of sentences of a cache of layers."""
    index = path / INDEX
    return index.stat().st_size // _ENTRY.itemsize if index.exists() else 0


class _OlderStore:
    """The layers that elmokit cached before version 1 of this format, in a vector store; they are only read."""

    def __init__(self, path: Path) -> None:
        self._store = VectorStore(path, open_chunks=4096) if is_store(path) else None
        hashes = [] if self._store is None else self._store.read_hashes().tolist()
        self._records = dict(zip(hashes, range(len(hashes)), strict=True))

    def has(self, tokens: Sequence[str]) -> bool:
        record = self._records.get(sentence_hash(encode_tokens(tokens)))
        return record is not None and self._store is not None and self._store.tokens(record) == tuple(tokens)

    def read(self, tokens: Sequence[str]) -> Vectors | None:
        if self._store is None or not self.has(tokens):
            return None
        return self._store.read_vectors(self._records[sentence_hash(encode_tokens(tokens))])


def _append(path: Path, sentences: dict[bytes, Vectors], row_bytes: int) -> None:
    """Write the rows of sentences, then the entries that point to them, each to the end of its file."""
    entries = np.zeros(len(sentences), _ENTRY)
    with open(path / VECTORS, "ab") as vectors:
        vectors.write(b"\0" * (-vectors.tell() % row_bytes))  # complete the row that a kill has cut off
        first = vectors.tell() // row_bytes
        for entry, (key, layers) in zip(entries, sentences.items(), strict=True):
            entry["key"], entry["row"], entry["num_tokens"] = np.void(key), first, layers.shape[1]
            first += layers.shape[1]
            if layers.size:
                vectors.write(np.ascontiguousarray(layers.swapaxes(0, 1), dtype=_ROW).data.cast("B"))
        vectors.flush()
        os.fsync(vectors.fileno())
    with open(path / INDEX, "ab") as index:  # removes a half-written entry first
        index.truncate(index.tell() // _ENTRY.itemsize * _ENTRY.itemsize)
        index.write(entries.tobytes())
        index.flush()
        os.fsync(index.fileno())


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """The folder of a cache, made and locked; an `OSError` names it."""
    try:
        with naming_destination(path):
            path.mkdir(parents=True, exist_ok=True)
            with FolderLock(path, name=LOCK, wait=True):
                yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _key(tokens: Sequence[str]) -> bytes:
    return hashlib.blake2b(encode_tokens(tokens), digest_size=16).digest()
