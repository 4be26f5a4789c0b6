"""Write a vector store chunk by chunk, so that a kill at any moment loses only what was not committed."""

import json
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from elmokit.arguments import check_path, shown
from elmokit.embedding.records import Meta, Vectors, check_kinds
from elmokit.embedding.store import (
    INDEX,
    LOCK,
    META,
    VectorStore,
    chunk_path,
    encode_text,
    encode_tokens,
    is_store,
    meta_text,
    own_files,
    read_meta,
    sentence_hash,
)
from elmokit.errors import FormatError
from elmokit.filesystem import check_name, naming_destination, sync_directory, write_text_atomic
from elmokit.locks import FolderLock


class StoreWriter:
    """Appends records to a store; they become visible when committed. Open it with `create` or `append`."""

    def __init__(self, path: Path, meta: Meta, lock: FolderLock) -> None:
        self.path = path
        self.meta = meta
        self._lock = lock
        self._dtype = np.dtype(meta.dtype).newbyteorder("<")
        committed = VectorStore(path)
        for leftover in own_files(path, from_chunk=committed.num_chunks):
            leftover.unlink()
        self.committed = committed
        """The store as it was when it was opened."""
        self.num_committed = len(committed)
        self._number = committed.num_chunks
        self._files: dict[str, IO[bytes]] = {}
        self._begin()

    @classmethod
    def create(cls, path: str | Path, meta: Meta) -> "StoreWriter":
        """Create a store in a new or empty folder."""
        path = check_path("path", path)
        if not isinstance(meta, Meta):
            raise FormatError(f"meta is {shown(meta)}: give a Meta, which says where the vectors come from.")
        check_name(path)
        if meta.width is None:
            raise FormatError(f"the store {path} needs to know how wide its vectors are: set Meta.width.")
        path.mkdir(exist_ok=True)
        lock = FolderLock(path, name=LOCK)
        try:
            strange = {name for name in os.listdir(path) if name != LOCK and not (name[0] == "." and ".tmp" in name)}
            if strange:
                raise FormatError(f"{path} already holds files, e.g. {min(strange)}: give a new folder.")
            write_text_atomic(path / META, meta_text(meta))
            return cls(path, meta, lock)
        except BaseException:
            lock.release()
            with suppress(OSError):  # it is not empty
                path.rmdir()
            raise

    @classmethod
    def append(cls, path: str | Path) -> "StoreWriter":
        """Open a store to append to it; what its last writer did not commit is removed."""
        path = check_path("path", path)
        meta = read_meta(path)
        lock = FolderLock(path, name=LOCK)
        try:
            return cls(path, meta, lock)
        except BaseException:
            lock.release()
            raise

    @property
    def num_records(self) -> int:
        """Records so far, including uncommitted ones."""
        return self.num_committed + len(self._tokens_hashes)

    @property
    def pending_bytes(self) -> int:
        """Bytes of vectors that are not committed."""
        return self._num_rows * self._row_bytes

    def add(self, text: str, tokens: Sequence[str], vectors: Vectors) -> None:
        """Append a record to the open chunk.

        The vectors are (L, T, D), (T, D), (L, D) or (D,), according to the store's meta.
        """
        self._check_open()
        check_kinds(text, tokens, vectors, "the record")
        self.meta.check(vectors, len(tokens))
        if self.meta.pooled:
            rows = vectors[None]  # (1, D) or (1, L, D)
        else:
            rows = vectors if self.meta.num_layers is None else vectors.swapaxes(0, 1)  # (T, D) or (T, L, D)
        data = {"tokens": encode_tokens(tokens), "texts": encode_text(text)}
        with self._naming_the_store():
            for part, content in data.items():
                self._write(part, content)
                self._places[part].append(self._places[part][-1] + len(content))
            if rows.size:
                self._write("vectors", np.ascontiguousarray(rows, dtype=self._dtype).data.cast("B"))
        self._num_rows += len(rows)
        self._places["vectors"].append(self._num_rows)
        self._tokens_hashes.append(sentence_hash(data["tokens"]))
        self._text_hashes.append(sentence_hash(data["texts"]))

    def commit(self, note: Mapping[str, Any] | None = None, arrays: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Store what was added since the last commit as a permanent chunk.

        `note` (values for JSON) and `arrays` are for the next writer.
        """
        self._check_open()
        try:
            kept = dict(note or {})
            json.dumps(kept)
        except (TypeError, ValueError):
            raise FormatError(f"note is {shown(note)}: give a dict of values that JSON can hold.") from None
        count = len(self._tokens_hashes)
        if not count:
            return
        index = np.zeros(count + 1, dtype=INDEX)
        for name, part in (("row", "vectors"), ("token", "tokens"), ("text", "texts")):
            index[name] = self._places[part]
        index["tokens_hash"][:-1], index["text_hash"][:-1] = self._tokens_hashes, self._text_hashes
        with self._naming_the_store():
            self._commit(index, kept, arrays)
        self.num_committed += count
        self._number += 1
        self._begin()

    def _commit(self, index: NDArray[Any], note: dict[str, Any], arrays: Mapping[str, NDArray[Any]] | None) -> None:
        self._write("index", index.tobytes())
        if arrays:
            np.savez(self._file("arrays"), allow_pickle=False, **arrays)
        sizes = {}
        for part, file in self._files.items():
            file.flush()
            os.fsync(file.fileno())
            sizes[part] = file.tell()
            file.close()
        for part in sizes:
            os.replace(self._temporary(part), chunk_path(self.path, self._number, part))
        sync_directory(self.path)
        count = len(index) - 1
        manifest = {"num_records": count, "num_rows": self._num_rows, "sizes": sizes, "note": note}
        write_text_atomic(chunk_path(self.path, self._number, "json"), json.dumps(manifest))

    def close(self) -> None:
        """Discard what was not committed and release the lock."""
        for file in self._files.values():
            with suppress(OSError):  # a full disk: what could not be flushed is discarded in any case
                file.close()
        for part in self._files:
            self._temporary(part).unlink(missing_ok=True)
        self._files.clear()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if not self._files:
            raise FormatError(f"the writer of {self.path} is closed: open it again with StoreWriter.append.")

    @contextmanager
    def _naming_the_store(self) -> Iterator[None]:
        """Make an `OSError` name the store, not one of its files."""
        try:
            with naming_destination(self.path):
                yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None

    def _begin(self) -> None:
        self._files.clear()
        with self._naming_the_store():
            for part in ("vectors", "tokens", "texts"):
                self._file(part)
        self._places = {part: array("q", [0]) for part in ("vectors", "tokens", "texts")}
        self._tokens_hashes, self._text_hashes = array("Q"), array("Q")
        self._num_rows = 0
        self._row_bytes = self._dtype.itemsize * (self.meta.num_layers or 1) * (self.meta.width or 0)

    def _file(self, part: str) -> IO[bytes]:
        if part not in self._files:
            self._files[part] = open(self._temporary(part), "wb")
        return self._files[part]

    def _write(self, part: str, data: bytes | memoryview) -> None:
        self._file(part).write(data)

    def _temporary(self, part: str) -> Path:
        return chunk_path(self.path, self._number, f"{part}.tmp")


def delete_store(path: str | Path) -> None:
    """Remove a store and nothing else, last chunk first, so that a kill leaves a smaller valid store."""
    path = check_path("path", path)
    if not path.is_dir():
        raise FormatError(f"{path} does not exist, so that there is no vector store to remove: check the path.")
    if not is_store(path) and set(os.listdir(path)) - {LOCK}:
        raise FormatError(f"{path} is not a vector store: it is left alone; delete it yourself.")
    lock = FolderLock(path, name=LOCK)
    try:
        for file in own_files(path):
            file.unlink(missing_ok=True)
        (path / META).unlink(missing_ok=True)
    finally:
        lock.release()
    path.rmdir()
