"""Groups of a word's occurrences by meaning: word-sense induction.

Occurrences are compared by their contexts: what the forward language model knows about the text before the word, and
the backward one about the text after it. Neither has seen the word, so its forms and its case do not matter. The two
sides have no token in common, so what they share is the meaning of the word there, and not an adjacent word.
Occurrences are therefore projected on the directions in which both sides vary together (the singular vectors of their
covariance), and grouped by k-means.

The number of groups is one more than the number of directions in which the sides agree, since n + 1 centers span n
directions. A direction counts if the sides agree on it clearly more than after shuffling them against each other; the
strength is corrected for the agreement of shuffled sides, so that it does not depend on the number of occurrences. If
no direction counts, all occurrences are one group.

Notation: K occurrences, P width of one side, D = 2P, F directions, G groups.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError
from elmokit.wording import counted

Floats = NDArray[np.float64]
MAX_GROUPS = 8
"""Maximum for the automatic number of groups; users can request more."""
MIN_STRENGTH, MAX_CHANCE = 0.3, 0.05
"""A direction counts if its corrected correlation is at least, and its p-value at most, this."""
_SIDE_DIRECTIONS, _SHARED_DIRECTIONS = 10, 5
_SHUFFLES = 99
_RESTARTS, _MAX_STEPS = 8, 100
_NEGLIGIBLE = 1e-5
_PRIOR, _LEAST_SCORE = 0.1, 1.5


@dataclass(frozen=True)
class Agreement:
    """The directions in which both sides of occurrences vary together, strongest first."""

    points: Floats  # (K, F) each occurrence along them
    strengths: tuple[float, ...]
    """The correlation of the sides on each of up to 7 directions, minus the correlation by chance."""
    chances: tuple[float, ...]
    """The p-values: how often shuffled sides agree as much."""

    @property
    def num_groups(self) -> int:
        """The number of groups that the significant directions can separate; 1 if there are none."""
        counts = (s >= MIN_STRENGTH and p <= MAX_CHANCE for s, p in zip(self.strengths, self.chances, strict=True))
        return 1 + next((number for number, so in enumerate(counts) if not so), len(self.strengths))


@dataclass(frozen=True)
class Grouping:
    """Occurrences in groups, the largest first."""

    groups: NDArray[np.int64]  # (K,) the group of each occurrence, from 0
    centers: Floats  # (G, F)
    agreement: Agreement

    @property
    def points(self) -> Floats:
        """Coordinates of each occurrence in the shared directions: (K, F)."""
        return self.agreement.points

    @property
    def num_groups(self) -> int:
        """G."""
        return len(self.centers)

    @property
    def sizes(self) -> list[int]:
        """Number of occurrences of each group."""
        return [int(count) for count in np.bincount(self.groups, minlength=self.num_groups)]

    @property
    def distances(self) -> Floats:
        """Distances of every occurrence to every center: (K, G)."""
        return np.sqrt(_squared_distances(self.points, self.centers))

    @property
    def fits(self) -> Floats:
        """How clearly each occurrence (K,) belongs to its group: 1 at its center, 0 if another center is as near."""
        if self.num_groups == 1:
            return np.ones(len(self.points))
        nearest = np.sort(self.distances, axis=1)  # (K, G)
        return 1 - nearest[:, 0] / np.where(nearest[:, 1] == 0, 1, nearest[:, 1])

    def typical(self, group: int, number: int) -> list[int]:
        """The occurrences of a group that are nearest to its center."""
        return self._first(group, self.distances[:, group], number)

    def borderline(self, group: int, number: int) -> list[int]:
        """The occurrences of a group that are closest to another group; empty if there is no other."""
        return self._first(group, self.fits, number) if self.num_groups > 1 else []

    def _first(self, group: int, values: Floats, number: int) -> list[int]:
        own = np.flatnonzero(self.groups == group)
        return [int(row) for row in own[np.argsort(values[own], kind="stable")][:number]]


def induce(contexts: NDArray[np.floating], num_groups: int | None = None, *, seed: int = 0) -> Grouping:
    """Group occurrences by their contexts.

    Args:
        contexts: (K, D); the first half of each row is from the text before the word, the second from that after it.
        num_groups: number of groups; None determines it automatically, and may find one.
        seed: random seed; the same contexts and seed give the same groups.
    """
    if num_groups is not None and num_groups < 1:
        raise InputError(f"{num_groups} groups cannot be made: ask for at least 1.")
    if len(contexts) < max(2, num_groups or 0):
        raise InputError(
            f"{counted(len(contexts), 'occurrence')} cannot be put in "
            f"{'groups' if num_groups is None else counted(num_groups, 'group')}: give a corpus with more of them, or "
            "ask for fewer groups."
        )
    agreement = find_agreement(contexts, seed=seed)
    points = agreement.points  # (K, F)
    distinct = len(np.unique(points, axis=0))
    if num_groups is not None and distinct < num_groups:
        raise InputError(
            f"the occurrences have only {distinct} different contexts, too few for {num_groups} groups: "
            "ask for fewer groups, or another layer than 0."
        )
    number = num_groups or min(agreement.num_groups, distinct)
    groups = k_means(points, number, seed=seed)
    order = np.argsort(-np.bincount(groups, minlength=number), kind="stable")  # (G,)
    ranked = np.argsort(order, kind="stable")[groups]  # (K,)
    return Grouping(ranked, _centers(points, ranked, number), agreement)


def find_agreement(contexts: NDArray[np.floating], *, seed: int = 0) -> Agreement:
    """The directions in which the two sides of contexts (K, D) vary together."""
    half = contexts.shape[1] // 2
    before, after = main_directions(contexts[:, :half]), main_directions(contexts[:, half:])
    left, _, right = np.linalg.svd(before.T @ after)
    number = min(before.shape[1], after.shape[1])
    before, after = before @ left[:, :number], after @ right[:number].T  # (K, F), (K, F)
    tried = min(number, MAX_GROUPS - 1)
    own = np.einsum("kf,kf->f", before, after)[:tried]  # (tried,)
    draw = np.random.default_rng(seed)
    shuffled = np.array([_shuffled(before, after[draw.permutation(len(after))], tried) for _ in range(_SHUFFLES)])
    extents = np.linalg.norm(before, axis=0) * np.linalg.norm(after, axis=0)  # (F,)
    beyond = np.sqrt(np.maximum(own**2 - (shuffled**2).mean(0), 0))  # (tried,)
    strengths = np.divide(beyond, extents[:tried], out=np.zeros(tried), where=extents[:tried] > 0)
    chances = (1 + (shuffled >= own).sum(0)) / (1 + _SHUFFLES)
    return Agreement((before + after)[:, :_SHARED_DIRECTIONS], tuple(strengths.tolist()), tuple(chances.tolist()))


def _shuffled(before: Floats, after: Floats, tried: int) -> Floats:
    """The strongest covariance of shuffled sides on each direction or a later one."""
    products = before.T @ after  # (F, F)
    return np.array([np.linalg.norm(products[first:, first:], 2) for first in range(tried)])


def main_directions(vectors: NDArray[np.floating], number: int = _SIDE_DIRECTIONS) -> Floats:
    """Standardized vectors (K, D), projected on their directions of largest variance: (K, F)."""
    standard = standardize(vectors)  # (K, …)
    if not standard.shape[1]:
        return np.zeros((len(standard), 1))
    left, values, right = np.linalg.svd(standard, full_matrices=False)
    kept = max(1, min(number, int((values > _NEGLIGIBLE * values[0]).sum())))
    signs = np.where(right[np.arange(kept), np.abs(right[:kept]).argmax(1)] < 0, -1.0, 1.0)  # (F,) or it may be either
    projected: Floats = left[:, :kept] * values[:kept] * signs
    return projected


def standardize(vectors: NDArray[np.floating]) -> Floats:
    """Vectors (K, D) with mean 0 and deviation 1 in every column that varies; the others are left out."""
    wide = np.asarray(vectors, dtype=np.float64)
    spread = wide.std(0)  # (D,)
    varies = spread > _NEGLIGIBLE * np.abs(wide).max(0)
    standard: Floats = (wide[:, varies] - wide[:, varies].mean(0)) / spread[varies]
    return standard


def k_means(points: Floats, num_groups: int, *, seed: int = 0, restarts: int = _RESTARTS) -> NDArray[np.int64]:
    """k-means groups (K,) of points (K, F), the best of several starts."""
    draw = np.random.default_rng(seed)
    best, least = np.zeros(len(points), dtype=np.int64), np.inf
    for _ in range(restarts if num_groups > 1 else 0):
        groups, total = _lloyd(points, _spread_start(points, num_groups, draw))
        if total < least:
            best, least = groups, total
    return best


def _spread_start(points: Floats, num_groups: int, draw: np.random.Generator) -> Floats:
    """Initial centers (G, F) by k-means++: points, likelier the farther they are from earlier centers."""
    centers = [points[draw.integers(len(points))]]
    distances = np.full(len(points), np.inf)
    for _ in range(num_groups - 1):
        distances = np.minimum(distances, ((points - centers[-1]) ** 2).sum(1))  # (K,)
        total = distances.sum()
        centers.append(points[draw.choice(len(points), p=distances / total if total else None)])
    return np.array(centers)


def _lloyd(points: Floats, centers: Floats) -> tuple[NDArray[np.int64], float]:
    groups = np.full(len(points), -1)
    for _ in range(_MAX_STEPS):
        distances = _squared_distances(points, centers)  # (K, G)
        nearest = distances.argmin(1)
        for empty in np.setdiff1d(np.arange(len(centers)), nearest):
            nearest[distances[np.arange(len(points)), nearest].argmax()] = empty  # the farthest point becomes a group
            distances[nearest == empty] = 0
        if (nearest == groups).all():
            break
        groups = nearest
        centers = _centers(points, groups, len(centers))
    return groups, float(((points - centers[groups]) ** 2).sum())


def _squared_distances(points: Floats, centers: Floats) -> Floats:
    products = (points**2).sum(1)[:, None] - 2 * points @ centers.T + (centers**2).sum(1)  # (K, G)
    distances: Floats = np.maximum(products, 0)
    return distances


def _centers(points: Floats, groups: NDArray[np.int64], num_groups: int) -> Floats:
    """The mean of every group: (G, F)."""
    members = np.eye(num_groups)[groups]  # (K, G)
    means: Floats = members.T @ points / np.maximum(members.sum(0), 1)[:, None]
    return means


def characteristic_words(
    contexts: Sequence[Collection[str]], groups: NDArray[np.int64], number: int
) -> list[list[tuple[str, float]]]:
    """The words that best distinguish each group's contexts from those of the other groups, with z-scores.

    The scores are of the log-odds ratio of a word in the contexts of the group and of other groups, with all contexts
    as a prior (after Monroe et al., 2008), so that only frequent words get high scores.
    """
    columns: dict[str, int] = {}
    cells = [
        (group, columns.setdefault(word, len(columns)))
        for words, group in zip(contexts, groups.tolist(), strict=True)
        for word in sorted(set(words))
    ]
    sizes = np.bincount(groups)  # (G,)
    having = np.zeros((len(sizes), len(columns)))  # (G, words)
    np.add.at(having, tuple(np.array(cells, dtype=np.int64).reshape(-1, 2).T), 1)
    prior, names = _PRIOR * having.sum(0), list(columns)  # (words,)
    found = []
    for own, size in zip(having, sizes, strict=True):
        odds, variance = np.zeros(len(names)), np.zeros(len(names))  # (words,), (words,)
        for sign, count, total in ((1, own, size), (-1, having.sum(0) - own, len(groups) - size)):
            present, missing = count + prior + 0.5, total - count + _PRIOR * len(groups) - prior + 0.5
            odds += sign * np.log(present / missing)
            variance += 1 / present + 1 / missing
        scores = np.where(own > 1, odds / np.sqrt(variance), 0)
        best = sorted(range(len(names)), key=lambda column: (-scores[column], names[column]))[:number]
        found.append([(names[column], float(scores[column])) for column in best if scores[column] >= _LEAST_SCORE])
    return found
