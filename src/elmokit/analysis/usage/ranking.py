"""The words whose use differs most between two corpora.

Every word that is frequent enough in both is measured by its shift (see `shift`): the distance between the corpora less
that within them. That is 0 on average for a word that is used alike, rare or frequent; but it varies more for a rare
one, and for one that a few texts use over and over. So words are ranked by what their shift is beyond a floor, the
highest of three: what shuffled corpora of as many occurrences rarely reach, and the shift between the first and the
second half of each corpus. At most so many occurrences of a word are looked at, and the samples of words share
sentences.

Notation: K occurrences, D width of a vector, R shuffles.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.usage.occurrences import (
    Corpus,
    Occurrence,
    collect_words,
    count_types,
    mix_layers,
    read_contexts,
)
from elmokit.analysis.usage.shift import (
    Floats,
    chance_of,
    find_loneliness,
    mean_distance,
    shuffle_corpora,
    unit_contexts,
)
from elmokit.embedding.pooling import Selection
from elmokit.errors import InputError
from elmokit.progress import ProgressCallback
from elmokit.tasks.layer_store import LayerStore

COMMON_TYPES = 150
"""So many of the most frequent types are taken for words without content, and not ranked."""
_NOISE_SHARE = 0.95


@dataclass(frozen=True)
class RankOptions:
    """Which words are ranked, and on how much text."""

    min_count: int = 20
    """A word must occur so often in each corpus."""
    max_words: int = 1000
    """Of more words, those whose lower count is the highest are looked at."""
    max_occurrences: int = 50
    """Of a word in each corpus."""
    seed: int = 0
    num_shuffles: int = 199


@dataclass(frozen=True)
class RankedWord:
    """A word and how differently it is used."""

    word: str
    counts: tuple[int, int]
    """Occurrences in each corpus."""
    apd: float
    shift: float
    """What APD is beyond the mean distance within the corpora."""
    noise: float
    """The shift that shuffled corpora exceed once in 20 times; higher for words of few occurrences."""
    halves: tuple[float, float]
    """The shift between the halves of each corpus: what its texts alone make of it."""
    chance: float
    examples: tuple[Occurrence, Occurrence]
    """Of each corpus the occurrence that is farthest from those of the other."""

    @property
    def floor(self) -> float:
        """What has to be exceeded to mean anything."""
        return max(self.noise, *self.halves)

    @property
    def score(self) -> float:
        """The shift beyond its floor."""
        return self.shift - self.floor


def rank_words(
    store: LayerStore,
    corpora: tuple[Corpus, Corpus],
    selection: Selection,
    options: RankOptions | None = None,
    progress: ProgressCallback | None = None,
) -> list[RankedWord]:
    """The words that are frequent enough in both corpora, those first whose use differs most.

    Args:
        store: of the model; what was embedded by an earlier run is not embedded again.
        corpora: each is read twice.
        selection: which layers to use.
        options: which words, and on how much text.
        progress: is told how many of how many sentences have been embedded.
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
    """Alphabetic words of two letters or more that are frequent enough in both, without the commonest of all types."""
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
        """APD less the distance within, (R,), from the means of unit vectors."""
        return mean_distance(first, second) - (1 - _alike(first, sizes[0]) + 1 - _alike(second, sizes[1])) / 2

    (apd, own), (_, shuffled) = shuffle_corpora(
        [(units, mean_distance), (units, shift)], is_second, options.num_shuffles, options.seed
    )
    lonely = find_loneliness(units, is_second)
    parts = (units[~is_second], units[is_second])
    examples = [side[int(lonely[is_second == number].argmax())] for number, side in enumerate(sides)]
    return RankedWord(
        word,
        counts,
        apd,
        own,
        float(np.quantile(shuffled, _NOISE_SHARE)),
        (_between_halves(parts[0], sides[0]), _between_halves(parts[1], sides[1])),
        chance_of(own, shuffled),
        (examples[0], examples[1]),
    )


def _alike(means: Floats, size: int) -> Floats:
    """The mean cosine of two different ones of so many unit vectors, from their mean (R, D)."""
    return np.asarray(((means**2).sum(1) * size - 1) / (size - 1))


def _between_halves(units: Floats, occurrences: Sequence[Occurrence]) -> float:
    """The shift from a corpus's first half of occurrences (K, D) to its second; 0 if there are too few to tell."""
    order = np.argsort([occurrence.line for occurrence in occurrences], kind="stable")
    first, second = units[order[: len(order) // 2]], units[order[len(order) // 2 :]]
    if len(first) < 2:
        return 0.0
    means = first.mean(0, keepdims=True), second.mean(0, keepdims=True)  # (1, D)
    within = (1 - _alike(means[0], len(first)) + 1 - _alike(means[1], len(second))) / 2
    return float((mean_distance(*means) - within)[0])
