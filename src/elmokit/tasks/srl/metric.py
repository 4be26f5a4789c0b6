"""Precision, recall and F1 of arguments, counted as in srl-eval, the scorer of CoNLL-2005.

For each predicate:

- A span C-X belongs to the last argument X that begins before it and makes it discontinuous: one argument, of several
  pieces. If no X begins before it, it is an X itself, which later C-X may continue.
- An argument is correct if its label and all its pieces are. Joining or splitting adjacent pieces makes it wrong.
- V and C-V are ignored.
- R-X is a label like any other.
- A predicate is perfect if its arguments are exactly the gold ones, also if there are none.

A repeated span counts once. Overlapping spans, which neither tags nor files can represent, count individually.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from elmokit.errors import InputError
from elmokit.tasks.spans import Span, SpanCounts, count_labelled
from elmokit.tasks.srl.reader import VERB

_CONTINUATION = "C-"


class Argument(NamedTuple):
    """A label and the pieces that carry it, start and end of each, from left to right."""

    label: str
    pieces: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SrlScore:
    """Counts over all arguments, per label in alphabetical order, and over predicates."""

    overall: SpanCounts
    by_label: dict[str, SpanCounts] = field(default_factory=dict)
    predicates: int = 0
    perfect: int = 0
    """Predicates with exactly the gold arguments."""

    @property
    def f1(self) -> float:
        """F1 over all arguments (the micro average)."""
        return self.overall.f1

    @property
    def perfect_share(self) -> float:
        """Share of the predicates that are perfect; 0 if there are none."""
        return self.perfect / self.predicates if self.predicates else 0.0


def to_arguments(spans: Iterable[Span]) -> tuple[Argument, ...]:
    """Join each C-X with the X before it, and leave V out; arguments are in the order of their first pieces."""
    found: list[tuple[str, list[tuple[int, int]]]] = []
    latest: dict[str, list[tuple[int, int]]] = {}
    for span in sorted(set(spans), key=lambda span: (span.start, -span.end, span.type)):
        piece = (span.start, span.end)
        label = span.type.removeprefix(_CONTINUATION)
        if label != span.type and label in latest:
            latest[label].append(piece)
        else:
            latest[label] = [piece]
            found.append((label, latest[label]))
    return tuple(Argument(label, tuple(pieces)) for label, pieces in found if label != VERB)


def score_arguments(gold: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]]) -> SrlScore:
    """Compare the arguments of predicates, predicate by predicate."""
    if len(gold) != len(predicted):
        raise InputError(
            f"there are predictions for {len(predicted)} predicates, expected {len(gold)}: give some for each."
        )
    pairs = [
        (set(to_arguments(wanted)), set(to_arguments(found))) for wanted, found in zip(gold, predicted, strict=True)
    ]
    perfect = sum(wanted == found for wanted, found in pairs)
    return SrlScore(*count_labelled(pairs, lambda argument: argument.label), len(pairs), perfect)
