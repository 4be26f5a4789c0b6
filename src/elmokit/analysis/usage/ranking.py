"""The words whose use differs most between two corpora.

Every word that is frequent enough in both is measured by its shift (see `shift`): the distance between the corpora
minus the distance within them. It is 0 on average for a word that is used in the same way, rare or frequent; but it
varies more for a rare word, and for a word that a few texts use over and over. So words are ranked by how far their
shift exceeds a floor, the highest of three values: the shift that shuffled corpora of the same size rarely reach, and
the shift between the first and the second half of each corpus. A limited number of occurrences per word is sampled, and
the samples of words share sentences.

Notation: K occurrences, D width of a vector, R shuffles.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.occurrence import Occurrence
from elmokit.analysis.usage.occurrences import Corpus, collect_words, count_types, mix_layers, read_contexts
from elmokit.analysis.usage.shift import (
    Floats,
    find_isolation,
    mean_distance,
    permutation_p_value,
    shuffle_corpora,
    unit_contexts,
)
from elmokit.embedding.layer_cache import LayerCache
from elmokit.embedding.pooling import Selection
from elmokit.errors import InputError
from elmokit.progress import ProgressCallback

COMMON_TYPES = 150
"""This number of most frequent types counts as function words, which are not ranked."""
_NOISE_SHARE = 0.95


@dataclass(frozen=True)
class RankOptions:
    """Which words are ranked, and on how many occurrences."""

    min_count: int = 20
    """Minimum occurrences in each corpus."""
    max_words: int = 1000
    """Maximum number of words; those with the highest minimum count are compared."""
    max_occurrences: int = 50
    """Maximum occurrences per word and corpus."""
    seed: int = 0
    num_shuffles: int = 199


@dataclass(frozen=True)
class RankedWord:
    """A word and the difference of its use."""

    word: str
    counts: tuple[int, int]
    """Occurrences in each corpus."""
    apd: float
    shift: float
    """APD minus the mean distance within the corpora."""
    noise: float
    """The shift that shuffled corpora exceed once in 20 times; higher for words with few occurrences."""
    halves: tuple[float, float]
    """The shift between the halves of each corpus, due to its texts alone."""
    chance: float
    examples: tuple[Occurrence, Occurrence]
    """For each corpus, the occurrence that is farthest from those of the other."""

    @property
    def floor(self) -> float:
        """The threshold for a meaningful shift."""
        return max(self.noise, *self.halves)

    @property
    def score(self) -> float:
        """The shift minus its floor."""
        return self.shift - self.floor


def rank_words(
    store: LayerCache,
    corpora: tuple[Corpus, Corpus],
    selection: Selection,
    options: RankOptions | None = None,
    progress: ProgressCallback | None = None,
) -> list[RankedWord]:
    """The words that are frequent enough in both corpora, in order of decreasing difference of use.

    Args:
        store: the store of the model; sentences in it are not embedded again.
        corpora: two corpora; each is read twice.
        selection: which layers to use.
        options: which words, and on how many occurrences.
        progress: receives the number of embedded sentences and the total.
    """
    options = options or RankOptions()
    counts = (count_types(corpora[0]), count_types(corpora[1]))
    words = choose_words(counts, options)
    if not words:
        raise InputError(
            f"no word occurs {options.min_count} times in both {corpora[0].name} and {corpora[1].name}: "
            "give more text, or a lower --min-count."
        )
    samples = [
        collect_words(corpus, words, max_occurrences=options.max_occurrences, seed=options.seed) for corpus in corpora
    ]
    found = {word: (samples[0][word].occurrences, samples[1][word].occurrences) for word in words}
    found = {word: sides for word, sides in found.items() if min(map(len, sides)) > 1}
    store.prepare((o.tokens for sides in found.values() for side in sides for o in side), progress)
    ranked = []
    for word, sides in found.items():
        contexts = [mix_layers(read_contexts(store, side), selection) for side in sides]  # (K, D) each
        ranked.append(_rank(word, (counts[0][word], counts[1][word]), sides, contexts, options))
    return sorted(ranked, key=lambda one: (-one.score, one.word))


def choose_words(counts: tuple[Counter[str], Counter[str]], options: RankOptions) -> list[str]:
    """Alphabetic words of at least two letters that are frequent enough in both, without the most common types."""
    totals = [sum(count.values()) for count in counts]
    both = [word for word in counts[0] if word in counts[1]]
    rates = {word: sum(count[word] / total for count, total in zip(counts, totals, strict=True)) for word in both}
    common = set(sorted(both, key=lambda word: (-rates[word], word))[:COMMON_TYPES])
    lower = {word: min(count[word] for count in counts) for word in both if word not in common}
    enough = [word for word, n in lower.items() if n >= options.min_count and len(word) > 1 and word.isalpha()]
    return sorted(sorted(enough, key=lambda word: (-lower[word], word))[: options.max_words])


def _rank(
    word: str,
    counts: tuple[int, int],
    sides: tuple[list[Occurrence], list[Occurrence]],
    contexts: Sequence[NDArray[np.float32]],
    options: RankOptions,
) -> RankedWord:
    units = unit_contexts(np.concatenate(contexts))  # (K, D)
    is_second = np.arange(len(units)) >= len(contexts[0])  # (K,)
    sizes = (len(contexts[0]), len(contexts[1]))

    def shift(first: Floats, second: Floats) -> Floats:
        """APD minus the distance within, (R,), from the means of unit vectors."""
        return mean_distance(first, second) - (1 - _alike(first, sizes[0]) + 1 - _alike(second, sizes[1])) / 2

    (apd, own), (_, shuffled) = shuffle_corpora(
        [(units, mean_distance), (units, shift)], is_second, options.num_shuffles, options.seed
    )
    isolation = find_isolation(units, is_second)
    parts = (units[~is_second], units[is_second])
    examples = [side[int(isolation[is_second == number].argmax())] for number, side in enumerate(sides)]
    return RankedWord(
        word,
        counts,
        apd,
        own,
        float(np.quantile(shuffled, _NOISE_SHARE)),
        (_between_halves(parts[0], sides[0]), _between_halves(parts[1], sides[1])),
        permutation_p_value(own, shuffled),
        (examples[0], examples[1]),
    )


def _alike(means: Floats, size: int) -> Floats:
    """The mean cosine of pairs of different unit vectors, from their number and their mean (R, D)."""
    return np.asarray(((means**2).sum(1) * size - 1) / (size - 1))


def _between_halves(units: Floats, occurrences: Sequence[Occurrence]) -> float:
    """The shift from a corpus's first half of occurrences (K, D) to its second; 0 if there are too few."""
    order = np.argsort([occurrence.line for occurrence in occurrences], kind="stable")
    first, second = units[order[: len(order) // 2]], units[order[len(order) // 2 :]]
    if len(first) < 2:
        return 0.0
    means = first.mean(0, keepdims=True), second.mean(0, keepdims=True)  # (1, D)
    within = (1 - _alike(means[0], len(first)) + 1 - _alike(means[1], len(second))) / 2
    return float((mean_distance(*means) - within)[0])
