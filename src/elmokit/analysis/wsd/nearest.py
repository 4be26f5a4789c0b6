"""Word-sense disambiguation by the nearest sense, as in the paper's Table 5.

A sense's vector is the mean over its occurrences in SemCor. An instance takes the sense with the nearest vector
(cosine) among the senses of its lemma and part of speech that SemCor has; a word that is not in SemCor takes
WordNet's first sense. All instances are answered, so F1 is the share of correct answers: those among the gold keys.

An occurrence tagged with several senses counts for each. Ties, within rounding, go to the sense that WordNet lists
first: this matters at layer 0, where all occurrences of one form have the same vector.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.embed import Embed
from elmokit.analysis.wsd.target_vectors import keep_words, layer_mixes, target_vectors, unit_mixes
from elmokit.analysis.wsd.wordnet import SenseIndex, SenseSentence, Target, Word, word_of
from elmokit.errors import InputError

FIRST_SENSE = "first sense"
ALL = "ALL"
DEVELOPMENT = "semeval2007"
"""The framework's development set; the paper's results are on the other four."""
WITHOUT_DEVELOPMENT = f"{ALL} without {DEVELOPMENT}"
_TIE = 1e-9


class Score(NamedTuple):
    """Correct answers and all answers."""

    right: int
    total: int

    @property
    def f1(self) -> float:
        """In percent; since every instance is answered, precision, recall and F1 are equal."""
        return 100 * self.right / self.total if self.total else 0.0


@dataclass(frozen=True)
class SenseVectors:
    """Mean vectors of senses at every layer."""

    means: dict[str, NDArray[np.float64]]
    """(L, D) by sense key."""
    counts: dict[str, int]
    """Number of occurrences by sense key."""
    keys: dict[Word, tuple[str, ...]]
    """The senses of a word that have a vector."""


def average_senses(embed: Embed, sentences: Iterable[SenseSentence]) -> SenseVectors:
    """Average the vectors of all occurrences of each sense, with running sums only."""
    sums: dict[str, NDArray[np.float64]] = {}
    counts: Counter[str] = Counter()
    keys: dict[Word, dict[str, None]] = defaultdict(dict)
    for sentence, vectors in target_vectors(embed, sentences):  # vectors (K, L, D)
        for target, vector in zip(sentence.targets, vectors, strict=True):  # (L, D)
            for key in target.keys:
                if key in sums:
                    sums[key] += vector
                else:
                    sums[key] = vector.astype(np.float64)
                    keys[word_of(key) or target.word][key] = None
                counts[key] += 1
    for key, total in sums.items():
        total /= counts[key]
    return SenseVectors(sums, dict(counts), {word: tuple(found) for word, found in keys.items()})


def nearest_senses(
    targets: Sequence[Target],
    vectors: NDArray[Any],
    senses: SenseVectors,
    index: SenseIndex,
    mixes: Mapping[str, NDArray[np.float64]],
) -> dict[str, list[str | None]]:
    """The answers for targets with vectors (K, L, D), by mix; None if neither SemCor nor WordNet has the word."""
    answers: dict[str, list[str | None]] = {
        name: [index.first_sense(target.word) for target in targets] for name in mixes
    }
    rows_of: dict[Word, list[int]] = defaultdict(list)
    for row, target in enumerate(targets):
        rows_of[target.word].append(row)
    for word, rows in rows_of.items():
        if word not in senses.keys:
            continue
        candidates = index.in_order(senses.keys[word])
        means = unit_mixes(np.stack([senses.means[key] for key in candidates]), mixes)  # (M, S, D)
        cosines = unit_mixes(vectors[rows], mixes) @ means.swapaxes(1, 2)  # (M, K, S)
        nearest = (cosines >= cosines.max(-1, keepdims=True) - _TIE).argmax(-1)  # (M, K): the first of the nearest
        for name, choices in zip(mixes, nearest, strict=True):
            for row, choice in zip(rows, choices, strict=True):
                answers[name][row] = candidates[choice]
    return answers


@dataclass(frozen=True)
class WsdResult:
    """Scores by set and method, and their counts."""

    scores: dict[str, dict[str, Score]]
    """By set, then by `FIRST_SENSE`, layer ("0", "1", …), "mean" and own mixes."""
    backed_off: dict[str, int]
    """Instances of each set whose word is not in SemCor: these get WordNet's first sense."""
    num_senses: int
    num_occurrences: int
    """The number of senses with a vector, and the number of averaged vectors."""


def evaluate_wsd(
    embed: Embed,
    train: Iterable[SenseSentence],
    sets: Mapping[str, Iterable[SenseSentence]],
    index: SenseIndex,
    *,
    mixes: Mapping[str, Sequence[float]] | None = None,
) -> WsdResult:
    """Score every set and all sets together.

    Only words in the sets get sense vectors. With several sets there is a total `ALL` and, if semeval2007 is one of
    them, a total without it.

    Args:
        embed: gives the layers of tokenized sentences.
        train: tagged text, such as `read_semcor(path)`.
        sets: tagged text by name, such as `read_wsd_set(folder)`.
        index: WordNet's senses.
        mixes: further layer weights by name, besides each layer and their mean.
    """
    tests = {name: list(sentences) for name, sentences in sets.items()}
    words = {target.word for sentences in tests.values() for sentence in sentences for target in sentence.targets}
    if not words:
        raise InputError("no set has an instance to disambiguate: give sets such as senseval2.")
    senses = average_senses(embed, keep_words(train, words))
    scores: dict[str, dict[str, Score]] = {}
    backed_off: dict[str, int] = {}
    for name, sentences in tests.items():
        found = list(target_vectors(embed, sentences))
        targets = [target for sentence, _ in found for target in sentence.targets]
        if not targets:
            raise InputError(f"set {name!r} has no instance to disambiguate: leave it out.")
        vectors = np.concatenate([vectors for _, vectors in found])  # (K, L, D)
        answers = nearest_senses(targets, vectors, senses, index, layer_mixes(vectors.shape[1], mixes))
        scores[name] = {FIRST_SENSE: score_first_sense(targets, index)}
        scores[name] |= {mix: score_answers(targets, given) for mix, given in answers.items()}
        backed_off[name] = sum(target.word not in senses.keys for target in targets)
    return WsdResult(scores | sums_of(scores), backed_off, len(senses.means), sum(senses.counts.values()))


def score_answers(targets: Iterable[Target], answers: Iterable[str | None]) -> Score:
    """The number of answers that are among the gold keys."""
    right = [answer in target.keys for target, answer in zip(targets, answers, strict=True)]
    return Score(sum(right), len(right))


def score_first_sense(targets: Sequence[Target], index: SenseIndex) -> Score:
    """The baseline that always takes WordNet's first sense."""
    return score_answers(targets, [index.first_sense(target.word) for target in targets])


def sums_of(scores: Mapping[str, Mapping[str, Score]]) -> dict[str, dict[str, Score]]:
    """The total of all sets as `ALL`, and the total without the development set; empty for a single set."""
    groups = {ALL: list(scores), WITHOUT_DEVELOPMENT: [name for name in scores if name != DEVELOPMENT]}
    if len(scores) < 2:
        return {}
    if len(groups[WITHOUT_DEVELOPMENT]) == len(scores):
        del groups[WITHOUT_DEVELOPMENT]
    return {
        group: {
            way: Score(sum(scores[name][way].right for name in names), sum(scores[name][way].total for name in names))
            for way in scores[names[0]]
        }
        for group, names in groups.items()
    }
