"""Exact span precision, recall and F1, counted as conlleval counts: a span is right if its tokens and its type are."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from elmokit.errors import InputError
from elmokit.tasks.spans import Span, SpanCounts, to_spans


@dataclass(frozen=True)
class SpanScore:
    """Counts over all spans and over those of each type, types in alphabetical order."""

    overall: SpanCounts
    by_type: dict[str, SpanCounts] = field(default_factory=dict)

    @property
    def f1(self) -> float:
        """F1 over all spans (the micro average)."""
        return self.overall.f1


def score_spans(gold: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]]) -> SpanScore:
    """Compare the spans of sentences, sentence by sentence."""
    if len(gold) != len(predicted):
        raise InputError(f"there are {len(predicted)} predicted sentences for {len(gold)}: give one for each.")
    in_gold: Counter[str] = Counter()
    in_predicted: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for wanted, found in zip(map(set, gold), map(set, predicted), strict=True):
        in_gold.update(span.type for span in wanted)
        in_predicted.update(span.type for span in found)
        correct.update(span.type for span in wanted & found)
    return SpanScore(
        SpanCounts(in_gold.total(), in_predicted.total(), correct.total()),
        {kind: SpanCounts(in_gold[kind], in_predicted[kind], correct[kind]) for kind in sorted(in_gold | in_predicted)},
    )


def score_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> SpanScore:
    """Compare the spans that tags mean (`to_spans`), sentence by sentence."""
    for number, (wanted, found) in enumerate(zip(gold, predicted, strict=False)):
        if len(wanted) != len(found):
            raise InputError(
                f"sentence {number} has {len(found)} predicted tags, expected one for each of {len(wanted)} tokens."
            )
    return score_spans([to_spans(tags) for tags in gold], [to_spans(tags) for tags in predicted])
