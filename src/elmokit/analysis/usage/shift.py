"""How the use of a word differs between two corpora: two periods, two domains.

Measures of one word, all on the contexts of its occurrences:

- APD, the average pairwise distance: the mean cosine distance of an occurrence in one corpus and one in the other, over
  standardized vectors. The same distance within each corpus is what two random halves of one corpus would have: the
  shift is APD minus that. It is 0 on average, whatever the number of occurrences, if the word is used in the same way.
- PRT, the prototype distance: the cosine distance of the two mean vectors, not standardized.
- JSD, the Jensen–Shannon distance (base 2) of the shares of sense groups in each corpus; groups are made from all
  occurrences together.

`chance` is a permutation p-value: how often shuffled corpora are as far apart. It assumes independent occurrences; a
text that repeats itself makes it too small.

Notation: K occurrences, D width of a vector, G groups, R shuffles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.usage.groups import Grouping, induce, standardize
from elmokit.errors import InputError
from elmokit.wording import counted

Floats = NDArray[np.float64]
NUM_SHUFFLES = 999
_NEAREST = 3
_BLOCK = 100
_ROUNDING = 1e-12

Measure = Callable[[Floats, Floats], Floats]
"""Distances (R,) of the mean rows (R, D) of two corpora."""


@dataclass(frozen=True)
class Distance:
    """A distance, and how often shuffled corpora are as far apart."""

    value: float
    chance: float


@dataclass(frozen=True)
class Comparison:
    """A word in two corpora; occurrences of the first come first."""

    grouping: Grouping
    """The grouping of all occurrences together."""
    is_second: NDArray[np.bool_]  # (K,)
    apd: Distance
    within: tuple[float, float]
    """The average pairwise distance inside each corpus."""
    prt: Distance
    jsd: Distance
    isolation: Floats
    """(K,): for each occurrence, the mean distance to the nearest few of the other corpus."""

    @property
    def shift(self) -> float:
        """The distance between the corpora minus the distance within them."""
        return self.apd.value - sum(self.within) / 2

    @property
    def shares(self) -> Floats:
        """For each corpus (rows), the share of its occurrences in each group: (2, G)."""
        groups, number = self.grouping.groups, self.grouping.num_groups
        sides = [np.bincount(groups[own], minlength=number) for own in (~self.is_second, self.is_second)]
        return np.stack([counts / counts.sum() for counts in sides])

    def most_isolated(self, second: bool, number: int) -> list[int]:
        """The occurrences of a corpus that are farthest from anything in the other one."""
        own = np.flatnonzero(self.is_second == second)
        return [int(row) for row in own[np.argsort(-self.isolation[own], kind="stable")][:number]]


def compare(
    first: NDArray[np.floating],
    second: NDArray[np.floating],
    num_groups: int | None = None,
    *,
    seed: int = 0,
    num_shuffles: int = NUM_SHUFFLES,
) -> Comparison:
    """Measure a word's shift from its contexts (K, D) in each corpus.

    Args:
        first: contexts in the first corpus, from `mix_layers`.
        second: contexts in the second corpus.
        num_groups: number of groups; None determines it automatically.
        seed: random seed of groups and shuffles.
        num_shuffles: number of shuffles for the p-values.
    """
    for rows in (first, second):
        if len(rows) < 2:
            raise InputError(
                f"{counted(len(rows), 'occurrence')} in one of the corpora cannot be compared: give at least 2."
            )
    contexts = np.concatenate([first, second])  # (K, D)
    is_second = np.arange(len(contexts)) >= len(first)  # (K,)
    grouping = induce(contexts, num_groups, seed=seed)
    units, raw = unit_contexts(contexts), np.asarray(contexts, dtype=np.float64)  # (K, D), (K, D)
    members = np.eye(grouping.num_groups)[grouping.groups]  # (K, G)
    measures: list[tuple[Floats, Measure]] = [
        (units, mean_distance),
        (raw, lambda one, other: 1 - _cosines(one, other)),
        (members, _jensen_shannon),
    ]
    own, shuffled = shuffle_corpora(measures, is_second, num_shuffles, seed)
    apd, prt, jsd = (
        Distance(value, permutation_p_value(value, others)) for value, others in zip(own, shuffled, strict=True)
    )
    within = (_within(units[~is_second]), _within(units[is_second]))
    return Comparison(grouping, is_second, apd, within, prt, jsd, find_isolation(units, is_second))


def shuffle_corpora(
    measures: Sequence[tuple[Floats, Measure]],
    is_second: NDArray[np.bool_],
    number: int,
    seed: int,
) -> tuple[list[float], list[Floats]]:
    """Measures of the mean rows of both corpora, as given and shuffled R times: one value each, and (R,) each."""
    draw = np.random.default_rng(seed)
    labels = np.stack([is_second, *(draw.permutation(is_second) for _ in range(number))])  # (1 + R, K)
    found: list[list[Floats]] = [[] for _ in measures]
    for start in range(0, len(labels), _BLOCK):
        ahead = labels[start : start + _BLOCK].astype(np.float64)  # (block, K)
        for (rows, measure), values in zip(measures, found, strict=True):
            second = ahead @ rows / ahead.sum(1, keepdims=True)  # (block, D)
            first = (1 - ahead) @ rows / (1 - ahead).sum(1, keepdims=True)  # (block, D)
            values.append(measure(first, second))
    joined = [np.concatenate(values) for values in found]
    return [float(values[0]) for values in joined], [values[1:] for values in joined]


def mean_distance(first: Floats, second: Floats) -> Floats:
    """The mean cosine distance of all pairs, from the means of unit vectors."""
    return np.asarray(1 - (first * second).sum(1))


def _cosines(first: Floats, second: Floats) -> Floats:
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines: Floats = np.divide((first * second).sum(1), norms, out=np.zeros(len(norms)), where=norms > 0)
    return cosines


def _jensen_shannon(first: Floats, second: Floats) -> Floats:
    """Distances (R,) of distributions (R, G)."""
    middle = (first + second) / 2

    def divergence(shares: Floats) -> Floats:
        ratios = np.divide(shares, middle, out=np.ones_like(shares), where=shares > 0)
        return np.asarray((shares * np.log2(ratios)).sum(1))

    return np.asarray(np.sqrt(np.maximum((divergence(first) + divergence(second)) / 2, 0)))


def _within(units: Floats) -> float:
    """The mean cosine distance of all pairs of different rows (K, D)."""
    total = units.sum(0)
    pairs = len(units) * (len(units) - 1)
    return float(1 - (total @ total - (units**2).sum()) / pairs)


def unit_contexts(contexts: NDArray[np.floating]) -> Floats:
    """Contexts (K, D), standardized and normalized to length one; all equal if nothing varies."""
    standard = standardize(contexts)
    norms = np.linalg.norm(standard, axis=1, keepdims=True)  # (K, 1)
    return standard / np.where(norms == 0, 1, norms) if standard.shape[1] else np.ones((len(standard), 1))


def permutation_p_value(value: float, shuffled: Floats) -> float:
    """The share of shuffles that are as far apart, counting the given order as one of them."""
    return float((1 + (shuffled >= value - _ROUNDING).sum()) / (1 + len(shuffled)))


def find_isolation(units: Floats, is_second: NDArray[np.bool_]) -> Floats:
    """For each occurrence (K,), the mean cosine distance to the nearest few of the other corpus."""
    distances = 1 - units[~is_second] @ units[is_second].T  # (first, second)
    found = np.empty(len(units))
    for own, rows in ((~is_second, distances), (is_second, distances.T)):
        number = min(_NEAREST, rows.shape[1])
        found[own] = np.partition(rows, number - 1, axis=1)[:, :number].mean(1)
    return found
