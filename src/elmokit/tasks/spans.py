"""Labeled spans of tokens, their encodings as tags, and counts of correct spans.

IOB1 begins a span with B- only directly after another span of the same type, IOB2 always. BIOUL also marks the last
token (L-) and a span of one token (U-).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from elmokit.errors import InputError

Item = TypeVar("Item")
_BEGINS, _ENDS = frozenset("BUS"), frozenset("LUES")


class Span(NamedTuple):
    """A labeled span: tokens `start` to `end` (exclusive)."""

    start: int
    end: int
    type: str


@dataclass(frozen=True)
class SpanCounts:
    """Numbers of gold, predicted and correct spans."""

    gold: int = 0
    predicted: int = 0
    correct: int = 0

    @property
    def precision(self) -> float:
        """Share of the predicted spans that are correct; 0 if none was predicted."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold spans that were found; 0 if there are none."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if nothing is correct."""
        return 2 * self.correct / (self.gold + self.predicted) if self.correct else 0.0

    def figures(self) -> dict[str, float]:
        """F1, precision and recall in percent."""
        return {"f1": 100 * self.f1, "precision": 100 * self.precision, "recall": 100 * self.recall}


def count_labelled(
    pairs: Iterable[tuple[set[Item], set[Item]]], label: Callable[[Item], str]
) -> tuple[SpanCounts, dict[str, SpanCounts]]:
    """Counts over all pairs of gold and predicted spans, in total and per label, in alphabetical order."""
    in_gold: Counter[str] = Counter()
    in_predicted: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for wanted, found in pairs:
        in_gold.update(map(label, wanted))
        in_predicted.update(map(label, found))
        correct.update(map(label, wanted & found))
    labels = sorted(in_gold | in_predicted)
    return (
        SpanCounts(in_gold.total(), in_predicted.total(), correct.total()),
        {name: SpanCounts(in_gold[name], in_predicted[name], correct[name]) for name in labels},
    )


def read_spans(values: Iterable[Sequence[Any]]) -> list[Span]:
    """Spans from their JSON values."""
    return [Span(int(start), int(end), str(kind)) for start, end, kind in values]


def to_spans(tags: Sequence[str]) -> tuple[Span, ...]:
    """The entities of tags in any scheme; ill-formed tags are read as conlleval does.

    An entity continues only with a tag of its own type that does not begin one; any other tag except O begins an
    entity, whatever its prefix. B- and I- are IOB1 and IOB2; L-, U- (or E-, S-) are BIOUL.
    """
    spans: list[Span] = []
    start, inside = 0, None
    for place, tag in enumerate((*tags, "O")):
        letter, _, kind = tag.partition("-")
        if inside is not None and (letter == "O" or letter in _BEGINS or kind != inside):
            spans.append(Span(start, place, inside))
            inside = None
        if letter == "O":
            continue
        if inside is None:
            start, inside = place, kind
        if letter in _ENDS:
            spans.append(Span(start, place + 1, kind))
            inside = None
    return tuple(spans)


def types_of(tags: Iterable[str]) -> set[str]:
    """The types of spans that tags name."""
    return {tag[2:] for tag in tags if tag != "O"}


def to_iob2(spans: Iterable[Span], num_tokens: int) -> tuple[str, ...]:
    """Tags that begin every entity with B-."""
    tags = ["O"] * num_tokens
    for span in spans:
        _place(tags, span, ["B", *"I" * (span.end - span.start - 1)])
    return tuple(tags)


def to_bioul(spans: Iterable[Span], num_tokens: int) -> tuple[str, ...]:
    """Tags that mark first, inner and last tokens of entities, and entities of one token."""
    tags = ["O"] * num_tokens
    for span in spans:
        length = span.end - span.start
        _place(tags, span, ["U"] if length == 1 else ["B", *"I" * (length - 2), "L"])
    return tuple(tags)


def _place(tags: list[str], span: Span, letters: list[str]) -> None:
    if not 0 <= span.start < span.end <= len(tags):
        raise InputError(f"the span {tuple(span)} is not inside a sentence of {len(tags)} tokens: give start < end.")
    for place, letter in enumerate(letters, start=span.start):
        if tags[place] != "O":
            raise InputError(f"the span {tuple(span)} overlaps another: tags can hold one entity per token.")
        tags[place] = f"{letter}-{span.type}"
