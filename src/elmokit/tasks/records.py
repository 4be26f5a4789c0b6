"""What a prediction for a text looks like: the tokenized text, spans in it, and the record of an input.

Every record has the number of its input, the input's id if it had one, and scores. Positions are given twice, as in
spaCy: `start` and `end` count tokens, `start_char` and `end_char` count characters of the text; ends are exclusive.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from elmokit.errors import InputError
from elmokit.text.tokenize import tokenize
from elmokit.text.tokens import check_tokens

Id = str | int | None
_DIGITS = 6
"""Digits after the point of a score in JSON."""


@dataclass(frozen=True)
class TaskText:
    """An input text with its tokens."""

    text: str
    """The raw text, or the given tokens joined by spaces."""
    sentences: tuple[tuple[str, ...], ...]
    """The tokens of each sentence; none is empty."""
    offsets: tuple[tuple[int, int], ...]
    """Start and end (exclusive) of each token in characters, over all sentences."""

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of all sentences."""
        return tuple(token for sentence in self.sentences for token in sentence)

    @classmethod
    def from_text(cls, text: str, *, split_sentences: bool = True) -> "TaskText":
        """Tokenize raw text."""
        found = tokenize(text, split_sentences=split_sentences)
        sentences = tuple(tuple(token.text for token in sentence) for sentence in found)
        return cls(text, sentences, tuple((token.start, token.end) for sentence in found for token in sentence))

    @classmethod
    def from_tokens(cls, sentences: Sequence[Sequence[str]]) -> "TaskText":
        """A text of given tokens."""
        kept = tuple(tuple(sentence) for sentence in sentences if sentence)
        offsets, start = [], 0
        for token in (token for sentence in kept for token in sentence):
            offsets.append((start, start + len(token)))
            start += len(token) + 1
        return cls(" ".join(token for sentence in kept for token in sentence), kept, tuple(offsets))

    def span(self, start: int, end: int, type: str = "", score: float = 1.0) -> "TextSpan":
        """The span of tokens `start` to `end` (exclusive)."""
        start_char, end_char = self.offsets[start][0], self.offsets[end - 1][1]
        text = self.text[start_char:end_char]
        return TextSpan(type, text, start, end, start_char, end_char, self.tokens[start:end], score)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"text": self.text, "tokens": list(self.tokens), "offsets": [list(pair) for pair in self.offsets]}


@dataclass(frozen=True)
class TextSpan:
    """Tokens `start` to `end` (exclusive) of a text."""

    type: str
    """What the span is, such as PER or ARG0; "" if all spans of a task are of one kind."""
    text: str
    start: int
    end: int
    start_char: int
    end_char: int
    tokens: tuple[str, ...]
    score: float
    """The model's probability of exactly this span."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "start": self.start,
            "end": self.end,
            **({"type": self.type} if self.type else {}),
            "text": self.text,
            "tokens": list(self.tokens),
            "start_char": self.start_char,
            "end_char": self.end_char,
            "score": rounded(self.score),
        }


@dataclass(frozen=True)
class Record(ABC):
    """The prediction for one input."""

    index: int
    """Number of the input, from 0."""
    id: Id
    """The id that came with the input; None if none did."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"index": self.index, **({} if self.id is None else {"id": self.id}), **self.values()}

    @abstractmethod
    def values(self) -> dict[str, Any]:
        """What `to_dict` contains besides the index and the id."""


@dataclass(frozen=True)
class TextRecord(Record):
    """The prediction for an input of one text."""

    source: TaskText

    @property
    def text(self) -> str:
        """The input text."""
        return self.source.text

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of all sentences."""
        return self.source.tokens

    @property
    def offsets(self) -> tuple[tuple[int, int], ...]:
        """Start and end (exclusive) of each token in characters."""
        return self.source.offsets


def rounded(score: float) -> float:
    """A score for JSON."""
    return round(float(score), _DIGITS)


def parse_input(
    item: Any, fields: Sequence[str], place: str, *, split_sentences: bool
) -> tuple[Id, tuple[TaskText, ...], bool]:
    """The id of an input, its texts by field, and whether any of them is raw.

    Args:
        item: a str, tokens or sentences of tokens for a task of one field; a series of such for a task of several; or a
            mapping by field name, with an optional "id".
        fields: names of the task's fields.
        place: what messages call the input.
        split_sentences: whether raw texts are split into sentences.
    """
    wanted = " and ".join(fields)
    id: Id = None
    if isinstance(item, Mapping):
        id, values = _from_mapping(item, fields, place)
    elif len(fields) == 1:
        values = [item]
    elif isinstance(item, str) or not isinstance(item, Sequence) or len(item) != len(fields):
        raise InputError(f"{place} is not {len(fields)} texts: give {wanted}, or a dict with these keys.")
    else:
        values = list(item)
    texts = tuple(_read_text(value, place, split_sentences) for value in values)
    return id, texts, any(isinstance(value, str) for value in values)


def _from_mapping(item: Mapping[str, Any], fields: Sequence[str], place: str) -> tuple[Id, list[Any]]:
    given = dict(item)
    id = given.pop("id", None)
    if id is not None and not isinstance(id, str | int):
        raise InputError(f"the id of {place} is {id!r}: give a str or an int.")
    if len(fields) == 1:
        names = [name for name in dict.fromkeys((*fields, "text", "tokens", "sentences")) if name in given]
        if len(names) != 1:
            found = " and ".join(names) or "none of them"
            raise InputError(f"{place} has {found}: give one of {fields[0]}, tokens and sentences.")
        return id, [given[names[0]]]
    if missing := [name for name in fields if name not in given]:
        raise InputError(f"{place} has no {' and no '.join(missing)}: give {' and '.join(fields)}.")
    return id, [given[name] for name in fields]


def _read_text(value: Any, place: str, split_sentences: bool) -> TaskText:
    if isinstance(value, str):
        return TaskText.from_text(value, split_sentences=split_sentences)
    if isinstance(value, Sequence) and value and not any(isinstance(part, str) for part in value):
        sentences = [check_tokens(part, place) for part in value]
        if not split_sentences:
            sentences = [tuple(token for sentence in sentences for token in sentence)]
        return TaskText.from_tokens(sentences)
    return TaskText.from_tokens([check_tokens(value, place)])
