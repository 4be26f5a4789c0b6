"""The vector store: a folder of records in append-only chunks, read through memory maps.

    meta.json            what the vectors are (`Meta`)
    00000000.vectors     rows (N, D) or (N, L, D) of all records of the chunk, end to end; a record has T rows, or one
    00000000.index       where each record starts in the other files, and hashes to find it by
    00000000.tokens      one JSON list per record
    00000000.texts       UTF-8
    00000000.arrays      optional: arrays that the writer attached (npz)
    00000000.json        sizes of the above and the writer's note

A chunk is valid once its .json exists, which is written last. So a writer can be killed at any moment: what was
committed stays, and the next writer removes the rest. Only one writer at a time can open a store; readers see what was
committed when they opened it.
"""

import bisect
import hashlib
import json
import os
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.embedding.records import Embeddings, Meta, Record, Sentence, Vectors, wanted_sentence
from elmokit.errors import FormatError, closed_error

META, LOCK = "meta.json", "lock"
PARTS = ("vectors", "index", "tokens", "texts", "arrays")
INDEX = np.dtype(
    [("row", "<i8"), ("token", "<i8"), ("text", "<i8"), ("tokens_hash", "<u8"), ("text_hash", "<u8")]
)  # one per record and one after the last
OPEN_CHUNKS = 4
"""Default number of chunks to keep mapped: pages read through a map count as memory of the process."""
_HASHES = ("text_hash", "tokens_hash")
_FORMAT, _VERSION = "elmokit-store", 1
_CHUNK_FILE = re.compile(r"(\d{8})\.(vectors|index|tokens|texts|arrays|json)(\.tmp)?")


def chunk_path(store: Path, number: int, part: str) -> Path:
    """The path of one file of a chunk."""
    return store / f"{number:08d}.{part}"


def sentence_hash(data: bytes) -> int:
    """The hash for finding records; records with equal hashes are compared in full."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def encode_tokens(tokens: Sequence[str]) -> bytes:
    """Tokens as stored."""
    return json.dumps(list(tokens), ensure_ascii=False).encode("utf-8", "surrogatepass")


def encode_text(text: str) -> bytes:
    """Text as stored."""
    return text.encode("utf-8", "surrogatepass")


def is_store(path: str | Path) -> bool:
    """Whether a folder is a store."""
    try:
        with open(Path(path) / META, encoding="utf-8") as file:
            return f'"{_FORMAT}"' in file.read(200)
    except (OSError, ValueError):
        return False


def meta_text(meta: Meta) -> str:
    """The contents of meta.json."""
    return json.dumps({"format": _FORMAT, "format_version": _VERSION, **meta.to_dict()}, indent=2) + "\n"


def read_meta(path: Path) -> Meta:
    """Read the `Meta` of a store."""
    try:
        values = json.loads((path / META).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FormatError(f"{path} is not a vector store: it has no {META}; give the folder of one.") from None
    except (ValueError, NotADirectoryError):
        values = None
    if not isinstance(values, dict) or values.get("format") != _FORMAT:
        raise FormatError(f"{path / META} does not describe a vector store: give the folder of one.")
    if values.get("format_version") != _VERSION:
        raise FormatError(f"{path} is a store of version {values.get('format_version')!r}: install a newer elmokit.")
    meta = Meta.from_dict(values, origin=str(path / META))
    if meta.width is None:
        raise FormatError(f"{path / META} does not say how wide its vectors are: build the store again.")
    return meta


@dataclass(frozen=True)
class Manifest:
    """The sizes and the note of a committed chunk."""

    num_records: int
    num_rows: int
    sizes: dict[str, int]
    note: dict[str, Any]

    @classmethod
    def read(cls, store: Path, number: int) -> "Manifest":
        """Read a chunk's .json and check the sizes of its files."""
        path = chunk_path(store, number, "json")
        try:
            manifest = cls(**json.loads(path.read_text(encoding="utf-8")))
            sizes = dict(manifest.sizes)
            numbers = (manifest.num_records, manifest.num_rows, *sizes.values())
            if not all(type(value) is int and value >= 0 for value in numbers) or not set(PARTS[:-1]) <= set(sizes):
                raise ValueError
        except (ValueError, TypeError):
            raise FormatError(f"{path} is damaged: delete the store {store} and build it again.") from None
        for part, size in sizes.items():
            file = chunk_path(store, number, part)
            found = file.stat().st_size if file.exists() else -1
            if found != size:
                state = "is missing" if found < 0 else f"holds {found:,} bytes instead of {size:,}"
                raise FormatError(f"{file} {state}: delete the store {store} and build it again.")
        return manifest


class Chunk:
    """The mapped files of a chunk."""

    def __init__(self, store: Path, number: int, manifest: Manifest, meta: Meta) -> None:
        leading = () if meta.num_layers is None else (meta.num_layers,)
        self._origin = chunk_path(store, number, "index")
        self.vectors: Vectors = _mapped(
            chunk_path(store, number, "vectors"),
            np.dtype(meta.dtype).newbyteorder("<"),
            (manifest.num_rows, *leading, meta.width or 0),
        )
        self.index: NDArray[Any] = np.fromfile(self._origin, dtype=INDEX)
        self._tokens = _mapped(chunk_path(store, number, "tokens"), np.dtype("u1"), (manifest.sizes["tokens"],))
        self._texts = _mapped(chunk_path(store, number, "texts"), np.dtype("u1"), (manifest.sizes["texts"],))
        ends = {"row": manifest.num_rows, "token": len(self._tokens), "text": len(self._texts)}
        rows_fit = not meta.pooled or manifest.num_rows == manifest.num_records
        whole = (
            len(self.index) == manifest.num_records + 1
            and rows_fit
            and all(
                self.index[name][0] == 0 and self.index[name][-1] == end and (np.diff(self.index[name]) >= 0).all()
                for name, end in ends.items()
            )
        )
        if not whole:
            raise FormatError(f"{self._origin} is damaged: delete the store {store} and build it again.")

    def rows(self, place: int) -> Vectors:
        """The rows of a record: (T, D) or (T, L, D), with T = 1 if it is pooled."""
        return self.vectors[self.index["row"][place] : self.index["row"][place + 1]]

    def sentence(self, place: int) -> Sentence:
        """Text and tokens of a record."""
        tokens = self._tokens[self.index["token"][place] : self.index["token"][place + 1]].tobytes()
        text = self._texts[self.index["text"][place] : self.index["text"][place + 1]].tobytes()
        try:
            return text.decode("utf-8", "surrogatepass"), tuple(json.loads(tokens.decode("utf-8", "surrogatepass")))
        except ValueError:
            raise FormatError(f"the tokens beside {self._origin} are damaged: build the store again.") from None


def _mapped(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if 0 in shape:
        return np.empty(shape, dtype)
    if path.stat().st_size != dtype.itemsize * int(np.prod(shape)):
        raise FormatError(f"{path} does not hold {shape} of {dtype}: the store is damaged; build it again.")
    return np.memmap(path, dtype=dtype, mode="r", shape=shape).view(np.ndarray)


class VectorStore(Embeddings):
    """The committed records of a store.

    Example:
        >>> with StoreWriter.create("cache", meta) as writer:
        ...     writer.add("The play .", ("The", "play", "."), vectors)
        ...     writer.commit()
        >>> VectorStore("cache")[0].vectors
    """

    layout = "store"

    def __init__(self, path: str | Path, *, open_chunks: int = OPEN_CHUNKS) -> None:
        self.path = Path(path)
        self.meta = read_meta(self.path)
        self._open_chunks = open_chunks
        names = (_CHUNK_FILE.fullmatch(name) for name in os.listdir(self.path))
        numbers = sorted(int(name[1]) for name in names if name and name[2] == "json" and not name[3])
        if numbers != list(range(len(numbers))):
            raise FormatError(f"{self.path} lacks some of its chunks: delete the store and build it again.")
        self.manifests = [Manifest.read(self.path, number) for number in numbers]
        self._starts = [0]
        for manifest in self.manifests:
            self._starts.append(self._starts[-1] + manifest.num_records)
        self._open: OrderedDict[int, Chunk] = OrderedDict()
        self._closed = False

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def num_chunks(self) -> int:
        """Number of committed chunks."""
        return len(self.manifests)

    @property
    def note(self) -> dict[str, Any]:
        """The writer's note in the last chunk."""
        return self.manifests[-1].note if self.manifests else {}

    def read_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that the writer attached to the last chunk."""
        if not self.manifests or "arrays" not in self.manifests[-1].sizes:
            return {}
        path = chunk_path(self.path, self.num_chunks - 1, "arrays")
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)
        except (OSError, ValueError):
            raise FormatError(f"{path} is damaged: delete the store {self.path} and build it again.") from None

    def read_matrix(self, chunk: int) -> Vectors:
        """All rows of a chunk, mapped: (N, D), or (N, L, D) with layers."""
        return self._chunk(chunk).vectors

    def row_offsets(self, chunk: int) -> NDArray[np.int64]:
        """Where each record of a chunk starts in its matrix, followed by the end of the last."""
        offsets: NDArray[np.int64] = self._chunk(chunk).index["row"]
        return offsets

    def first_record(self, chunk: int) -> int:
        """The number of the first record of a chunk."""
        return self._starts[chunk]

    def read_vectors(self, index: int) -> Vectors:
        """See `Embeddings`; a view into the mapped file."""
        chunk, place = self._locate(index)
        return self._record_shape(chunk.rows(place))

    def __iter__(self) -> Iterator[Record]:
        """See `Embeddings`; vectors are read, not mapped, because pages read through a map would stay in memory."""
        index = 0
        for number, manifest in enumerate(self.manifests):
            with open(chunk_path(self.path, number, "vectors"), "rb") as file:
                for place in range(manifest.num_records):
                    chunk = self._chunk(number)
                    rows = chunk.rows(place)  # mapped, but never read
                    data = np.frombuffer(file.read(rows.nbytes), rows.dtype)
                    vectors = self._record_shape(data.reshape(rows.shape))
                    yield Record(index, *chunk.sentence(place), vectors)
                    index += 1

    def _record_shape(self, rows: Vectors) -> Vectors:
        """The vectors of a record from its rows as stored."""
        if self.meta.pooled:
            return rows.reshape(rows.shape[1:])  # (D,) or (L, D)
        return rows if self.meta.num_layers is None else rows.swapaxes(0, 1)  # (T, D) or (L, T, D)

    def read_sentence(self, index: int) -> Sentence:
        """See `Embeddings`."""
        chunk, place = self._locate(index)
        return chunk.sentence(place)

    def find(self, sentence: str | Sequence[str]) -> list[int]:
        """See `Embeddings`; compares hashes first, so that few sentences are read."""
        self._check_open()
        part, wanted = wanted_sentence(sentence)
        goal = sentence_hash(encode_text(wanted) if isinstance(wanted, str) else encode_tokens(wanted))
        found = []
        for number, start in enumerate(self._starts[:-1]):
            hashes = np.fromfile(chunk_path(self.path, number, "index"), dtype=INDEX)[_HASHES[part]][:-1]
            found += [start + int(place) for place in np.flatnonzero(hashes == np.uint64(goal))]
        return [index for index in found if self.read_sentence(index)[part] == wanted]

    def read_hashes(self) -> NDArray[np.uint64]:
        """The `sentence_hash` of every record's tokens, for looking up many sentences."""
        parts = [
            np.fromfile(chunk_path(self.path, number, "index"), dtype=INDEX)["tokens_hash"][:-1]
            for number in range(self.num_chunks)
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)

    def close(self) -> None:
        """Unmap the files; arrays returned earlier stay valid."""
        self._closed = True
        self._open.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise closed_error(self.path)

    def _locate(self, index: int) -> tuple[Chunk, int]:
        number = bisect.bisect_right(self._starts, index) - 1
        return self._chunk(number), index - self._starts[number]

    def _chunk(self, number: int) -> Chunk:
        self._check_open()
        if not 0 <= number < self.num_chunks:
            raise IndexError(f"there is no chunk {number}: {self.path} holds {self.num_chunks}.")
        if number not in self._open:
            while len(self._open) >= self._open_chunks:
                self._open.popitem(last=False)
            self._open[number] = Chunk(self.path, number, self.manifests[number], self.meta)
        self._open.move_to_end(number)
        return self._open[number]


def own_files(path: Path, *, from_chunk: int = 0) -> list[Path]:
    """Files of a store's chunks, starting at a chunk, and temporary files, in a safe order for removal."""
    found = []
    for name in os.listdir(path):
        match = _CHUNK_FILE.fullmatch(name)
        if match and (int(match[1]) >= from_chunk or match[3]):
            found.append((-int(match[1]), match[2] != "json", name))
        elif name.startswith(".") and ".tmp" in name:
            found.append((1, False, name))
    return [path / name for _, _, name in sorted(found)]
