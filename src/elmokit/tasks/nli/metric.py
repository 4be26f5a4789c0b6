"""Accuracy over the three relations."""

from collections.abc import Sequence

from elmokit.tasks.accuracy import AccuracyScore, score_classes
from elmokit.tasks.nli.reader import LABELS


def score_nli(gold: Sequence[str], predicted: Sequence[str]) -> AccuracyScore:
    """Compare labels, pair by pair."""
    return score_classes(gold, predicted, LABELS)
