"""The words whose use differs most between two corpora.

Every word that is frequent enough in both is measured by its shift (see `shift`): the distance between the corpora less
that within them. That is 0 on average for a word that is used alike, rare or frequent; but it varies more for a rare
one. So words are ranked by what their shift is beyond the floor that shuffled corpora of as many occurrences rarely
reach. At most so many occurrences of a word are looked at, and the samples of words share sentences.

Notation: K occurrences, D width of a vector, R shuffles.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.occurrences import (
    Corpus,
    Occurrence,
    Progress,
    collect_words,
    count_types,
    mix_layers,
    read_contexts,
)
from elmokit.analysis.shift import Floats, chance_of, find_loneliness, mean_distance, shuffle_corpora, unit_contexts
from elmokit.embedding.pooling import Selection
from elmokit.errors import InputError
from elmokit.tasks.layer_store import LayerStore

COMMON_TYPES = 150
"""So many of the most frequent types are taken for words without content, and not ranked."""
_FLOOR_SHARE = 0.95


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
    floor: float
    """The shift that shuffled corpora exceed once in 20 times; higher for words of few occurrences."""
    chance: float
    examples: tuple[Occurrence, Occurrence]
    """Of each corpus the occurrence that is farthest from those of the other."""

    @property
    def score(self) -> float:
        """The shift beyond its floor."""
        return self.shift - self.floor


def rank_words(
    store: LayerStore,
    corpora: tuple[Corpus, Corpus],
    selection: Selection,
    options: RankOptions | None = None,
    progress: Progress | None = None,
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
    sizes = np.array([len(rows) for rows in contexts])

    def shift(first: Floats, second: Floats) -> Floats:
        """APD less the distance within, (R,), from the means of unit vectors."""
        inside = [((mean**2).sum(1) * size - 1) / (size - 1) for mean, size in zip((first, second), sizes, strict=True)]
        return np.asarray((inside[0] + inside[1]) / 2 - (first * second).sum(1))

    (apd, own), (_, shuffled) = shuffle_corpora(
        [(units, mean_distance), (units, shift)], is_second, options.num_shuffles, options.seed
    )
    lonely = find_loneliness(units, is_second)
    examples = [side[int(lonely[is_second == number].argmax())] for number, side in enumerate(sides)]
    return RankedWord(
        word,
        counts,
        apd,
        own,
        float(np.quantile(shuffled, _FLOOR_SHARE)),
        chance_of(own, shuffled),
        (examples[0], examples[1]),
    )
