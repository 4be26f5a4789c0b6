"""A sentence with its vectors, the origin of the vectors, and the common interface for reading many of them.

Notation: L layers, T tokens of a sentence, D width of a vector.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from elmokit._version import __version__
from elmokit.arguments import shown
from elmokit.errors import FormatError
from elmokit.text.tokens import check_tokens
from elmokit.wording import counted

Vectors = NDArray[np.floating]
Sentence = tuple[str, tuple[str, ...]]
"""Text and tokens."""


@dataclass(frozen=True, eq=False)
class Record:
    """A sentence with its vectors."""

    index: int
    text: str
    """The input line, without surrounding white space."""
    tokens: tuple[str, ...]
    """Empty if the file, from another program, stores no tokens."""
    vectors: Vectors
    """(L, T, D) for all layers, (T, D) for one or a mix; (L, D) or (D,) if the tokens were pooled."""


@dataclass(frozen=True)
class Meta:
    """The origin of vectors and their form."""

    model: str = ""
    fingerprint: str = ""
    layers: str = ""
    """The requested layers: all, top, average, a number or weights."""
    pooling: str = "none"
    """none, mean or max; with mean or max there is no T."""
    state: str = ""
    dtype: str = "float32"
    num_layers: int | None = None
    """L, or None if the vectors have no layer axis."""
    width: int | None = None
    """D, or None until the first vector is known."""
    elmokit: str = __version__
    extra: dict[str, Any] = field(default_factory=dict)
    """Any other JSON values."""

    @property
    def pooled(self) -> bool:
        """Whether a sentence has one vector (per layer) instead of one per token."""
        return self.pooling != "none"

    def shape(self, num_tokens: int) -> tuple[int, ...]:
        """The shape of a sentence's vectors."""
        leading = () if self.num_layers is None else (self.num_layers,)
        middle = () if self.pooled else (num_tokens,)
        return (*leading, *middle, self.width or 0)

    def completed(self, vectors: Vectors) -> "Meta":
        """A copy completed from the vectors of the first record."""
        if self.width is not None:
            return self
        axes = vectors.ndim - (1 if self.pooled else 2)
        if axes not in (0, 1):
            raise FormatError(
                f"the vectors of a record have shape {vectors.shape}, but with pooling {self.pooling!r} they have "
                f"{1 if self.pooled else 2} dimensions, and one more for layers: correct one of the two."
            )
        return replace(
            self, num_layers=vectors.shape[0] if axes else None, width=vectors.shape[-1], dtype=vectors.dtype.name
        )

    def check(self, vectors: Vectors, num_tokens: int = 0, place: str = "a record") -> None:
        """Refuse vectors whose form differs from the first ones, or whose number differs from that of the tokens.

        `num_tokens` is 0 for files of other programs that store no tokens.
        """
        length = vectors.shape[-2] if vectors.ndim > 1 else 0
        if vectors.shape != self.shape(length) or vectors.dtype != self.dtype:
            raise FormatError(
                f"{place} holds {vectors.dtype} of shape {vectors.shape} where {self.dtype} of shape "
                f"{self.form} is kept: all records of a file have one form."
            )
        if num_tokens and not self.pooled and length != num_tokens:
            raise FormatError(
                f"{place} holds {counted(num_tokens, 'token')} and {counted(length, 'vector')}: give one vector per "
                "token."
            )

    @property
    def form(self) -> str:
        """The shape, in letters and numbers, for messages."""
        layers = [] if self.num_layers is None else [str(self.num_layers)]
        return f"({', '.join([*layers, *([] if self.pooled else ['T']), str(self.width)])})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Any, *, origin: str) -> "Meta":
        """Create a `Meta` from plain values; refuses values that do not describe one."""
        known = {item.name for item in fields(cls)}
        try:
            meta = cls(**{name: value for name, value in values.items() if name in known})
            np.dtype(meta.dtype)
            texts = (meta.model, meta.fingerprint, meta.layers, meta.pooling, meta.state, meta.dtype, meta.elmokit)
            sizes = [size for size in (meta.num_layers, meta.width) if size is not None]
            right = all(isinstance(text, str) for text in texts) and isinstance(meta.extra, dict)
            if not right or not all(type(size) is int and size >= 0 for size in sizes):
                raise TypeError
        except (AttributeError, TypeError):
            raise FormatError(f"{origin} does not say what its vectors are: it was not written by elmokit.") from None
        return meta


def to_json(value: Any) -> bytes:
    """JSON as UTF-8; lone surrogates, which UTF-8 cannot represent, are escaped."""
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value).encode("ascii")


def checked(records: Iterable[Record], meta: Meta) -> tuple[Iterator[Record], Meta]:
    """The records, each checked against the meta, and the meta completed from the first record."""
    if not isinstance(records, Iterable):
        raise FormatError(f"records are {shown(records)}: give Record objects, one per sentence.")
    stream = map(_checked_record, records, count())
    first = next(stream, None)
    if first is None:
        return iter(()), meta if meta.width is not None else replace(meta, width=0)
    meta = meta.completed(first.vectors)

    def run() -> Iterator[Record]:
        for number, record in enumerate(chain([first], stream)):
            meta.check(record.vectors, len(record.tokens), f"record {number}")
            yield record

    return run(), meta


def _checked_record(record: Any, number: int) -> Record:
    if not isinstance(record, Record):
        raise FormatError(f"records hold {shown(record)} at {number}: give Record objects, one per sentence.")
    check_kinds(record.text, record.tokens, record.vectors, f"record {number}")
    if not all_finite(record.vectors):
        raise FormatError(
            f"the vectors of record {number} hold NaN or infinite numbers: leave the record out, or make its vectors "
            "again."
        )
    return record


def check_kinds(text: Any, tokens: Any, vectors: Any, place: str) -> None:
    """Check the types of a text (str), its tokens (a series of str) and its vectors (an array of floats)."""
    if not isinstance(text, str):
        raise FormatError(f"the text of {place} is {shown(text)}: give a str.")
    check_tokens(tokens, f"the tokens of {place}")
    if not isinstance(vectors, np.ndarray):
        raise FormatError(f"the vectors of {place} are {shown(vectors)}: give a numpy array.")
    if vectors.dtype.kind != "f":
        raise FormatError(f"the vectors of {place} are {vectors.dtype}: give floating-point numbers.")


def all_finite(vectors: Vectors) -> bool:
    """Whether vectors have neither NaN nor infinite numbers; if their sum is finite, no other check is needed.

    numpy adds float16 numbers slowly, so their bits are compared instead.
    """
    if vectors.dtype == np.float16:
        return bool((vectors.view(np.uint16) & 0x7FFF).max(initial=0) < 0x7C00)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(vectors.sum()) or np.isfinite(vectors).all())


class Embeddings(ABC):
    """Sentences with their vectors, read from disk on demand.

    `len(e)`, `e[i]` (also from the end), `e[a:b]` (another lazy sequence), iteration, `e.find(text)`, `e.tokens(i)`,
    `e.meta`; a context manager.

    Attributes:
        path: path of the file or folder.
        meta: origin and form of the vectors.
        layout: name of the file layout, e.g. "hdf5" or "many-langs".
    """

    path: Path
    meta: Meta
    layout: str

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read_vectors(self, index: int) -> Vectors:
        """The vectors of record `index`, which is at least 0 and in range."""

    @abstractmethod
    def read_sentence(self, index: int) -> Sentence:
        """Text and tokens of record `index`, which is at least 0 and in range."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> "Slice": ...
    def __getitem__(self, index: int | slice) -> "Record | Slice":
        if isinstance(index, slice):
            return Slice(self, range(len(self))[index])
        place = self._place(index)
        return Record(place, *self.read_sentence(place), self.read_vectors(place))

    def __iter__(self) -> Iterator[Record]:
        for index in range(len(self)):
            yield self[index]

    def tokens(self, index: int) -> tuple[str, ...]:
        """The tokens of a record, without reading its vectors."""
        return self.read_sentence(self._place(index))[1]

    def text(self, index: int) -> str:
        """The text of a record, without reading its vectors."""
        return self.read_sentence(self._place(index))[0]

    def sentences(self) -> Iterator[Sentence]:
        """Text and tokens of every record, without reading vectors."""
        for index in range(len(self)):
            yield self.read_sentence(index)

    def find(self, sentence: str | Sequence[str]) -> list[int]:
        """The numbers of all records with this text (a str; surrounding white space is ignored) or these tokens."""
        part, wanted = wanted_sentence(sentence)
        return [index for index, found in enumerate(self.sentences()) if found[part] == wanted]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _place(self, index: int) -> int:
        length = len(self)
        if not hasattr(index, "__index__") or isinstance(index, bool | np.ndarray):
            raise TypeError(f"records have numbers: give an int or a slice as index, not {shown(index)}.")
        place = range(length)[index] if -length <= index < length else None
        if place is None:
            raise IndexError(f"there is no record {index}: {self.path} holds {length}.")
        return place


def wanted_sentence(sentence: str | Sequence[str]) -> tuple[int, str | tuple[str, ...]]:
    """Which item of a `Sentence` to compare, and with what."""
    return (0, sentence.strip()) if isinstance(sentence, str) else (1, check_tokens(sentence))


class Slice(Sequence[Record]):
    """Some records of an `Embeddings`, read on demand."""

    def __init__(self, embeddings: Embeddings, places: range) -> None:
        self._embeddings = embeddings
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> "Slice": ...
    def __getitem__(self, index: int | slice) -> "Record | Slice":
        if isinstance(index, slice):
            return Slice(self._embeddings, self._places[index])
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no record {index}: this slice holds {len(self)}.")
        return self._embeddings[self._places[index]]
