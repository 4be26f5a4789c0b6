"""MUC, B³, CEAF (φ4) and the mean of their F1, as computed by the scorer of CoNLL-2012.

Recall and precision are fractions whose numerators and denominators are summed over all documents before they are
divided. With gold clusters K and predicted ones R:

- MUC counts links. Numerator: for each k, its mentions minus the pieces into which R splits it; denominator:
  Σ |k| - 1. Singletons have no links, but a cluster that absorbs them has more.
- B³ counts mentions, each by the share of its cluster that the other side groups with it: Σ |k ∩ r|² / |k| over Σ |k|.
- CEAF pairs clusters one to one so that the sum of 2 |k ∩ r| / (|k| + |r|) is maximal; that sum over |K|.

Precision is the same with K and R exchanged. A fraction with denominator 0 is 0, and F1 is 0 if both are: a document
without clusters on either side adds nothing, and a corpus of such documents scores 0, not 1.

Mentions match exactly. Singletons count if they are given; for OntoNotes' convention, drop them on both sides first.

A mention that occurs twice on one side counts once, in the first cluster that has it. The first cluster is the one
whose first bracket a file opens first, so the readers preserve that order. Three details differ from the scorer:

- A mention that a file repeats inside a cluster is one mention before singletons are dropped; the scorer drops nothing,
  and a cluster of one mention twice is a singleton for it.
- A cell is read from left to right, so `1)|(1` ends one mention and begins another. The scorer opens before it closes.
- The scorer ends with an error at an unmatched bracket. The readers name its line; OntoGUM's reader leaves it out.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from elmokit.errors import InputError
from elmokit.tasks.coref.assignment import best_pairs

Clusters = Iterable[Iterable[Hashable]]
"""The clusters of one document; mentions may be `Mention`s or any hashable values."""


@dataclass(frozen=True)
class Fractions:
    """Recall and precision as fractions: found of gold, and correct of predicted."""

    found: float = 0.0
    gold: float = 0.0
    right: float = 0.0
    predicted: float = 0.0

    @property
    def recall(self) -> float:
        """Share of the gold that was found; 0 if there is none."""
        return self.found / self.gold if self.gold else 0.0

    @property
    def precision(self) -> float:
        """Share of the predictions that is correct; 0 if there are none."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if both are."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    def __add__(self, other: "Fractions") -> "Fractions":
        return Fractions(
            self.found + other.found,
            self.gold + other.gold,
            self.right + other.right,
            self.predicted + other.predicted,
        )


@dataclass(frozen=True)
class CorefScore:
    """The three metrics, and the fractions of mentions found."""

    muc: Fractions = Fractions()
    b_cubed: Fractions = Fractions()
    ceaf: Fractions = Fractions()
    mentions: Fractions = Fractions()

    @property
    def f1(self) -> float:
        """Mean F1 of MUC, B³ and CEAF: the score of CoNLL-2012."""
        return (self.muc.f1 + self.b_cubed.f1 + self.ceaf.f1) / 3

    def __add__(self, other: "CorefScore") -> "CorefScore":
        return CorefScore(
            self.muc + other.muc,
            self.b_cubed + other.b_cubed,
            self.ceaf + other.ceaf,
            self.mentions + other.mentions,
        )


def score_clusters(gold: Sequence[Clusters], predicted: Sequence[Clusters]) -> CorefScore:
    """Compare the clusters of documents, document by document."""
    if len(gold) != len(predicted):
        raise InputError(
            f"there are predictions for {len(predicted)} documents, expected {len(gold)}: give some for each."
        )
    pairs = zip(gold, predicted, strict=True)
    return sum((_score_document(_sets(wanted), _sets(found)) for wanted, found in pairs), CorefScore())


def _sets(clusters: Clusters) -> list[set[Hashable]]:
    """Clusters without mentions of earlier clusters, and without empty clusters."""
    seen: set[Hashable] = set()
    kept = []
    for cluster in clusters:
        mentions = set(cluster) - seen
        seen |= mentions
        if mentions:
            kept.append(mentions)
    return kept


def _score_document(gold: list[set[Hashable]], predicted: list[set[Hashable]]) -> CorefScore:
    place = {mention: number for number, cluster in enumerate(predicted) for mention in cluster}
    shared: Counter[tuple[int, int]] = Counter(
        (number, place[mention]) for number, cluster in enumerate(gold) for mention in cluster if mention in place
    )
    num_gold, num_predicted, num_shared = sum(map(len, gold)), len(place), shared.total()
    links = num_shared - len(shared)
    found = sum(count * count / len(gold[row]) for (row, _), count in shared.items())
    right = sum(count * count / len(predicted[column]) for (_, column), count in shared.items())
    alike = np.zeros((len(gold), len(predicted)))
    for (row, column), count in shared.items():
        alike[row, column] = 2 * count / (len(gold[row]) + len(predicted[column]))
    paired = sum(float(alike[pair]) for pair in best_pairs(alike))
    return CorefScore(
        muc=Fractions(links, num_gold - len(gold), links, num_predicted - len(predicted)),
        b_cubed=Fractions(found, num_gold, right, num_predicted),
        ceaf=Fractions(paired, len(gold), paired, len(predicted)),
        mentions=Fractions(num_shared, num_gold, num_shared, num_predicted),
    )
