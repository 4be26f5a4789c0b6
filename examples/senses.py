"""How well the layers of a model distinguish the senses of a word.

Notation: n occurrences of a word, L layers, D width of a vector.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import elmokit
from polysemy import Floats, Occurrence, embed_word


def find_nearest(vectors: Floats) -> Floats:
    """(..., n, n): row by row the weight of each other occurrence as the nearest one; equally near ones share it."""
    cosines = vectors @ vectors.swapaxes(-1, -2) - 3 * np.eye(vectors.shape[-2])  # nothing is its own neighbor
    nearest = cosines >= cosines.max(axis=-1, keepdims=True) - 1e-6
    return np.asarray(nearest / nearest.sum(axis=-1, keepdims=True))


def share_same(vectors: Floats, senses: Sequence[str]) -> list[float]:
    """For each layer of (L, n, D) the share of occurrences whose nearest other one has their sense."""
    same = np.equal.outer(np.array(senses), np.array(senses))  # (n, n)
    shares: list[float] = (find_nearest(vectors) * same).sum(axis=-1).mean(axis=-1).tolist()
    return shares


class Shares(NamedTuple):
    """How often the nearest other occurrence of a word has the same sense."""

    senses: list[str]
    layers: list[float]
    random: list[float]
    """The same for a model of that shape with random weights: what the neighboring words reveal without training."""
    guess: float
    """The share of the most frequent sense."""
    number: int

    def beats_both(self, layer: int) -> bool:
        """Whether a layer is two standard errors above guessing, and above random weights."""
        clearly = self.guess + 2 * (self.guess * (1 - self.guess) / self.number) ** 0.5
        return bool(self.layers[layer] > max(clearly, self.random[layer]))


class Study(NamedTuple):
    """Words, their vectors by a model, and how well it tells their senses apart."""

    words: dict[str, list[Occurrence]]
    vectors: dict[str, Floats]
    """By word (L, n, D)."""
    shares: dict[str, Shares]
    best: int
    """The layer that is best for the mean of the words."""


def study(embedder: elmokit.Embedder, words: dict[str, list[Occurrence]]) -> Study:
    """Embed and measure, by the model and by one of its shape with random weights."""
    bilm = embedder.bilm
    shape = elmokit.BiLM(bilm.config, vocabulary=bilm.vocabulary, indexer=bilm.indexer, seed=0).eval()
    untaught = elmokit.Embedder(shape)
    vectors = {word: embed_word(embedder, occurrences) for word, occurrences in words.items()}
    shares = {}
    for word, occurrences in words.items():
        senses = [occurrence.sense for occurrence in occurrences]
        kinds = list(dict.fromkeys(senses))
        taught, random = share_same(vectors[word], senses), share_same(embed_word(untaught, occurrences), senses)
        shares[word] = Shares(kinds, taught, random, max(map(senses.count, kinds)) / len(senses), len(senses))
    best = int(np.argmax(np.mean([found.layers for found in shares.values()], axis=0)))
    return Study(words, vectors, shares, best)
