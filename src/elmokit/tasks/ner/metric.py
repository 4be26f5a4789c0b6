"""Exact span precision, recall and F1, counted as conlleval does: a span is correct if its tokens and its type are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from elmokit.errors import InputError
from elmokit.tasks.spans import Span, SpanCounts, count_labelled, to_spans


@dataclass(frozen=True)
class SpanScore:
    """Counts over all spans and per type, in alphabetical order."""

    overall: SpanCounts
    by_type: dict[str, SpanCounts] = field(default_factory=dict)

    @property
    def f1(self) -> float:
        """F1 over all spans (the micro average)."""
        return self.overall.f1


def score_spans(gold: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]]) -> SpanScore:
    """Compare the spans of sentences, sentence by sentence."""
    if len(gold) != len(predicted):
        raise InputError(f"there are {len(predicted)} predicted sentences, expected {len(gold)}: give one for each.")
    pairs = zip(map(set, gold), map(set, predicted), strict=True)
    return SpanScore(*count_labelled(pairs, lambda span: span.type))


def score_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> SpanScore:
    """Compare the spans of tags (`to_spans`), sentence by sentence."""
    for number, (wanted, found) in enumerate(zip(gold, predicted, strict=False)):
        if len(wanted) != len(found):
            raise InputError(
                f"sentence {number} has {len(found)} predicted tags, expected one for each of {len(wanted)} tokens."
            )
    return score_spans([to_spans(tags) for tags in gold], [to_spans(tags) for tags in predicted])
