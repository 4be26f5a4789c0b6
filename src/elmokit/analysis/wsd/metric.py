"""A metric that separates senses: directions in which senses of a word differ more than occurrences of a sense.

Each part of a view is centered and normalized to length one. Over all words, W is the covariance of occurrences within
a sense, B that of senses within a word. Vectors are projected on the directions with the greatest ratio λ of B to W
(linear discriminant analysis over many words at once) and weighted by √(λ / (1 + λ)); then the mean of the word is
subtracted, so that the rest is how an occurrence differs from others of its word.

Notation: N occurrences, D width of a view, K directions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError

MAX_DIRECTIONS = 150
SHRINKAGE = 0.1
"""Share of an isotropic covariance in W."""
MEAN_SHRINKAGE = 3.0
"""A word's mean of n occurrences is subtracted with factor n / (n + 3)."""
MAX_OCCURRENCES = 400
"""Maximum per word for the covariances, so that frequent words do not dominate."""
_LEAST_RATIO = 1e-4
_CHUNK = 8192
Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SenseMetric:
    """The metric of one view."""

    means: list[Floats]
    """Mean of each part."""
    matrix: Floats
    """(D, K)."""

    def project(self, parts: Sequence[NDArray[Any]]) -> Floats:
        """From parts (N, …) to (N, K)."""
        found = np.empty((len(parts[0]), self.matrix.shape[1]), np.float32)
        for start in range(0, len(found), _CHUNK):
            rows = slice(start, start + _CHUNK)
            found[rows] = _side_by_side([part[rows] for part in parts], self.means) @ self.matrix
        return found


def learn_metric(parts: Sequence[NDArray[Any]], words: Numbers, senses: Numbers, *, seed: int = 0) -> SenseMetric:
    """Learn the metric from tagged occurrences.

    Args:
        parts: parts of a view, (N, …) each.
        words: the index of each occurrence's word (N,).
        senses: the index of its sense (N,); words share no sense index.
        seed: random seed of the sample if a word has more than `MAX_OCCURRENCES`.
    """
    rows = _sample(words, senses, seed)
    num_words, num_senses, spread = _sizes(words[rows], senses[rows])
    if len(rows) == num_senses or not spread:
        raise InputError(
            f"{len(rows)} tagged occurrences of {num_senses} senses of {num_words} words are too few to learn from: "
            "give all of SemCor."
        )
    means = [part.mean(0, dtype=np.float64).astype(np.float32) for part in parts]
    width = sum(part.shape[1] for part in parts)
    within, between = np.zeros((width, width)), np.zeros((width, width))  # (D, D)
    for chunk in _whole_words(rows, words):
        vectors = _side_by_side([part[chunk] for part in parts], means)  # (n, D)
        sense_means, sizes, of_sense = _group_means(vectors, senses[chunk])  # (s, D), (s,), (n,)
        word_means, _, of_word = _group_means(vectors, words[chunk])  # (w, D), …, (n,)
        inside = vectors - sense_means[of_sense]  # (n, D)
        of_word = of_word[np.cumsum(sizes) - 1]  # (s,)
        across = np.sqrt(sizes)[:, None] * (sense_means - word_means[of_word])  # (s, D)
        within += inside.T @ inside
        between += across.T @ across
    within /= len(rows) - num_senses
    between = (between - (num_senses - num_words) * within) / spread
    return SenseMetric(means, _directions(within, between))


def centre_words(vectors: Floats, words: Numbers, reference: Floats, reference_words: Numbers) -> Floats:
    """Subtract the reference mean of each word and normalize vectors (N, K) to length one; zeros stay zeros."""
    size = 1 + max(words.max(initial=-1), reference_words.max(initial=-1))
    counts = np.bincount(reference_words, minlength=size)  # (words,)
    sums = np.zeros((size, vectors.shape[1]), np.float32)  # (words, K)
    np.add.at(sums, reference_words, reference)
    centered = vectors - (sums / (counts + MEAN_SHRINKAGE)[:, None]).astype(np.float32)[words]  # (N, K)
    return _of_length_one(centered)


def _directions(within: NDArray[np.float64], between: NDArray[np.float64]) -> Floats:
    """The eigenvectors of B relative to W with the largest eigenvalues, weighted (D, K)."""
    width = len(within)
    smooth = (1 - SHRINKAGE) * within + SHRINKAGE * (np.trace(within) / width + 1e-12) * np.eye(width)
    root = np.linalg.cholesky(smooth)  # (D, D)
    relative = np.linalg.solve(root, np.linalg.solve(root, between).T)  # (D, D)
    ratios, vectors = np.linalg.eigh((relative + relative.T) / 2)
    kept = [number for number in reversed(range(width)) if ratios[number] > _LEAST_RATIO][:MAX_DIRECTIONS]
    directions = np.linalg.solve(root.T, vectors[:, kept])  # (D, K)
    weighted: Floats = (directions * np.sqrt(ratios[kept] / (1 + ratios[kept]))).astype(np.float32)
    return weighted


def _side_by_side(parts: Sequence[NDArray[Any]], means: Sequence[Floats]) -> Floats:
    """Parts, each centered and normalized, as one array (N, D)."""
    centered = [part.astype(np.float32) - mean for part, mean in zip(parts, means, strict=True)]
    return np.concatenate([_of_length_one(part) for part in centered], axis=1)


def _of_length_one(vectors: Floats) -> Floats:
    unit: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)
    return unit


def _sample(words: Numbers, senses: Numbers, seed: int) -> Numbers:
    """Rows by word and sense, with a sample for frequent words."""
    shuffled = np.random.default_rng(seed).permutation(len(words))
    by_word = shuffled[np.argsort(words[shuffled], kind="stable")]  # (N,)
    _, starts, counts = np.unique(words[by_word], return_index=True, return_counts=True)
    rank = np.arange(len(words)) - np.repeat(starts, counts)  # (N,): place within the word
    rows = by_word[rank < MAX_OCCURRENCES]
    return rows[np.lexsort((rows, senses[rows], words[rows]))]


def _sizes(words: Numbers, senses: Numbers) -> tuple[int, int, float]:
    """The numbers of words and senses, and the weight of B in the scatter of senses: Σ (n − Σ n_s² / n)."""
    (_, of_word), sizes = np.unique(np.stack([senses, words]), axis=1, return_counts=True)  # (s,), (s,)
    names, word_sizes = np.unique(words, return_counts=True)  # (w,), (w,)
    squares = np.bincount(np.searchsorted(names, of_word), sizes**2, len(names))  # (w,)
    return len(word_sizes), len(sizes), float((word_sizes - squares / word_sizes).sum())


def _whole_words(rows: Numbers, words: Numbers) -> list[Numbers]:
    """Rows in chunks, split between words."""
    starts = np.flatnonzero(np.diff(words[rows], prepend=-1))
    cuts = [0]
    for start in starts.tolist():
        if start - cuts[-1] >= _CHUNK:
            cuts.append(start)
    return [rows[a:b] for a, b in zip(cuts, [*cuts[1:], len(rows)], strict=True)]


def _group_means(vectors: Floats, groups: Numbers) -> tuple[Floats, Numbers, Numbers]:
    """Means (g, D) and sizes (g,) of groups of consecutive rows, and the group of each row (n,)."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    sizes = np.diff(np.append(starts, len(groups)))
    means: Floats = (np.add.reduceat(vectors, starts, axis=0) / sizes[:, None]).astype(np.float32)
    return means, sizes, np.repeat(np.arange(len(starts)), sizes)
