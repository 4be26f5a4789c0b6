"""Accuracy over the classes of sentiment."""

from collections.abc import Sequence

from elmokit.tasks.accuracy import AccuracyScore, score_classes


def score_sentiment(gold: Sequence[int], predicted: Sequence[int], *, num_classes: int = 5) -> AccuracyScore:
    """Compare classes from 0, the most negative, to `num_classes` - 1."""
    return score_classes(gold, predicted, range(num_classes))
