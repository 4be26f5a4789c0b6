"""Read texts with entities as character offsets: JSON lines in the layouts of Prodigy, spaCy and doccano.

A line is an object with `text` and a list of spans under `spans`, `ents`, `entities`, `labels` or `label`, or a pair of
a text and such an object. A span is an object with `start`, `end` and `label`, or a list of these three. `tokens` with
`start` and `end` are kept, otherwise elmokit tokenizes. An example that an annotator rejected or skipped (`answer`) is
left out.
"""

import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from elmokit.errors import ElmokitWarning, InputError
from elmokit.tasks.json_lines import read_json_lines
from elmokit.tasks.ner.example import NerExample
from elmokit.tasks.spans import Span, to_iob2
from elmokit.text.tokenize import Token, tokenize

_SPAN_KEYS = ("spans", "ents", "entities", "labels", "label")
_ACCEPTED = "accept"
_SHOWN = 'an object with "text" and "spans": [{"start": 0, "end": 3, "label": "PER"}]'


class _Entity(NamedTuple):
    """Characters `start` to `end` (exclusive)."""

    start: int
    end: int
    label: str


class _Watch:
    """Counts what was changed or left out."""

    def __init__(self) -> None:
        self.entities = self.widened = self.overlapping = self.examples = self.unanswered = 0

    def warn(self, path: Path) -> None:
        parts = [
            f"{self.unanswered} of {self.examples} examples were not accepted by their annotator and are left out",
            f"{self.widened} of {self.entities} spans begin or end inside a token and cover all of it",
            f"{self.overlapping} of {self.entities} spans overlap a longer one and are left out",
        ]
        counts = (self.unanswered, self.widened, self.overlapping)
        said = [part for part, number in zip(parts, counts, strict=True) if number]
        if said:
            warnings.warn(f"{path}: {'; '.join(said)}.", ElmokitWarning, stacklevel=3)


def read_annotations(path: Path) -> Iterator[NerExample]:
    """Stream the sentences of a file, plain or compressed."""
    watch = _Watch()
    for where, value in read_json_lines(path):
        watch.examples += 1
        text, record = _text_of(where, value)
        if record.get("answer", _ACCEPTED) != _ACCEPTED:
            watch.unanswered += 1
            continue
        entities = _read_entities(where, text, record)
        sentences = _read_tokens(where, text, record) or tokenize(text)
        yield from _examples(sentences, entities, watch)
    watch.warn(path)


def _text_of(where: str, value: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], dict):
        value = {**value[1], "text": value[0]}
    text = value.get("text") if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise InputError(f"{where} has no text: give {_SHOWN}.")
    return text, value


def _read_entities(where: str, text: str, record: dict[str, Any]) -> list[_Entity]:
    key = next((key for key in _SPAN_KEYS if isinstance(record.get(key), list)), None)
    if key is None:
        raise InputError(f"{where} has no list of spans: give {_SHOWN}.")
    return [_read_entity(where, text, item) for item in record[key]]


def _read_entity(where: str, text: str, item: Any) -> _Entity:
    if isinstance(item, dict):
        item = [item.get("start"), item.get("end"), item.get("label")]
    fits = isinstance(item, list) and len(item) >= 3
    if not fits or type(item[0]) is not int or type(item[1]) is not int or not isinstance(item[2], str) or not item[2]:
        raise InputError(f"{where} has the span {str(item)[:60]}, expected start, end and label: give {_SHOWN}.")
    start, end, label = item[:3]
    if not 0 <= start < end <= len(text) or not text[start:end].strip():
        raise InputError(
            f"{where} has a span of characters {start} to {end}, which is no part of its text of {len(text)} "
            "characters: correct the offsets."
        )
    return _Entity(start, end, label)


def _read_tokens(where: str, text: str, record: dict[str, Any]) -> list[list[Token]]:
    """The tokens of a line as one sentence, without white space; none if the line has no tokens."""
    items = record.get("tokens")
    if not isinstance(items, list):
        return []
    tokens: list[Token] = []
    for item in items:
        start, end = (item.get("start"), item.get("end")) if isinstance(item, dict) else (None, None)
        before = tokens[-1].end if tokens else 0
        if type(start) is not int or type(end) is not int or not before <= start <= end <= len(text):
            raise InputError(
                f"{where} has the token {str(item)[:60]}, expected start and end inside its text, in order: correct "
                "it, or leave the tokens out."
            )
        if text[start:end].strip():
            tokens.append(Token(text[start:end], start, end))
    return [tokens] if tokens else []


def _examples(sentences: Sequence[Sequence[Token]], entities: Sequence[_Entity], watch: _Watch) -> Iterator[NerExample]:
    """One example per sentence; sentences that share an entity are joined."""
    tokens = [token for sentence in sentences for token in sentence]
    spans: list[Span] = []
    taken: set[int] = set()
    for entity in sorted(entities, key=lambda entity: (entity.start - entity.end, entity.start)):
        watch.entities += 1
        start = bisect_right(tokens, entity.start, key=lambda token: token.end)
        end = bisect_left(tokens, entity.end, key=lambda token: token.start)
        if start >= end or taken & set(range(start, end)):
            watch.overlapping += 1
            continue
        watch.widened += tokens[start].start < entity.start or entity.end < tokens[end - 1].end
        taken |= set(range(start, end))
        spans.append(Span(start, end, entity.label))
    ends = [0]
    for sentence in sentences:
        ends.append(ends[-1] + len(sentence))
    ends = [end for end in ends if not any(span.start < end < span.end for span in spans)]
    for first, last in pairwise(ends):
        own = [Span(s.start - first, s.end - first, s.type) for s in spans if first <= s.start < last]
        yield NerExample(tuple(token.text for token in tokens[first:last]), to_iob2(own, last - first))
