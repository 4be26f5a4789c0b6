"""Does a word's vector know its sense? Pairs of occurrences of one form, same sense against different senses.

For each word, the AUC is the probability that a pair with the same sense has a higher cosine than a pair with different
senses; ties count half. At a layer without context, a form has one vector, so the AUC is 0.5 for any model.

The compared occurrences are single lower-case tokens with one sense. Pairs within one text are left out: a common
topic, or the same sentence, would make them similar whatever the model knows about senses.

Notation: K occurrences of a word, L layers, D width of a vector; M mixes of layers.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.embed import Embed
from elmokit.analysis.wsd.target_vectors import layer_mixes, target_vectors, unit_mixes
from elmokit.analysis.wsd.wordnet import SenseSentence, Target, Word
from elmokit.errors import InputError

NUM_WORDS = 20
MIN_OCCURRENCES = 15
MIN_TEXTS = 5
MAX_OCCURRENCES = 100
_DECIMALS = 9


class ChosenWord(NamedTuple):
    """A chosen word: its form and the counts of its senses, most frequent first."""

    word: Word
    form: str
    counts: dict[str, int]

    @property
    def balance(self) -> int:
        """Count of the second most frequent sense."""
        return sorted(self.counts.values())[-2]


def choose_words(sentences: Iterable[SenseSentence], num_words: int = NUM_WORDS) -> list[ChosenWord]:
    """Choose nouns and verbs whose senses are frequent enough in a text; the choice is deterministic.

    The rule: count the occurrences of each sense of a word in each of its forms. A sense counts in a form if it occurs
    at least `MIN_OCCURRENCES` times there, in at least `MIN_TEXTS` texts. Of the forms in which two senses or more
    count, a word is looked at in the one whose second most frequent sense is the most frequent (then the first in the
    alphabet). By that number (then by lemma), half of `num_words` are the first nouns and half the first verbs.
    """
    counts: Counter[tuple[Word, str, str]] = Counter()
    texts: dict[tuple[Word, str, str], set[str]] = defaultdict(set)
    for sentence in sentences:
        for target, form in _occurrences(sentence):
            sense = (target.word, form, target.keys[0])
            counts[sense] += 1
            texts[sense].add(sentence.source)
    forms: dict[tuple[Word, str], dict[str, int]] = defaultdict(dict)
    for (word, form, key), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if count >= MIN_OCCURRENCES and len(texts[word, form, key]) >= MIN_TEXTS:
            forms[word, form][key] = count
    ambiguous = [ChosenWord(word, form, senses) for (word, form), senses in forms.items() if len(senses) > 1]
    best: dict[Word, ChosenWord] = {}
    for choice in sorted(ambiguous, key=lambda choice: (-choice.balance, choice.word, choice.form)):
        best.setdefault(choice.word, choice)
    nouns, verbs = ([choice for choice in best.values() if choice.word.pos == pos] for pos in ("noun", "verb"))
    return nouns[: num_words // 2] + verbs[: num_words - num_words // 2]


def _occurrences(sentence: SenseSentence) -> Iterator[tuple[Target, str]]:
    """The nouns and verbs that can be compared, with their form."""
    for target in sentence.targets:
        form = sentence.tokens[target.start]
        alone = target.end - target.start == 1 and len(target.keys) == 1
        if alone and target.word.pos in ("noun", "verb") and form == form.lower():
            yield target, form


@dataclass(frozen=True)
class ContextResult:
    """AUC by word and layer."""

    words: list[ChosenWord]
    num_pairs: list[tuple[int, int]]
    """Numbers of pairs of each word with the same sense, and with different senses."""
    aucs: dict[str, list[float]]
    """By layer ("0", "1", …) and "mean": one AUC per word."""

    @property
    def means(self) -> dict[str, float]:
        """The mean over words by layer."""
        return {name: float(np.mean(values)) for name, values in self.aucs.items()}


def compare_contexts(embed: Embed, sentences: Iterable[SenseSentence], words: Sequence[ChosenWord]) -> ContextResult:
    """The AUC of each chosen word in the text it was chosen from.

    For a sense with more than `MAX_OCCURRENCES` occurrences, that number is taken, evenly spread over the text.
    """
    if not words:
        raise InputError("no word was chosen: give text in which words have several frequent senses, such as SemCor.")
    found: dict[Word, list[tuple[str, str, NDArray[np.float32]]]] = defaultdict(list)
    for sentence, vectors in target_vectors(embed, _spread(sentences, words)):  # vectors (K, L, D)
        for target, vector in zip(sentence.targets, vectors, strict=True):
            found[target.word].append((target.keys[0], sentence.source, vector))
    aucs: dict[str, list[float]] = defaultdict(list)
    num_pairs = []
    for choice in words:
        if len(occurrences := found[choice.word]) != sum(min(n, MAX_OCCURRENCES) for n in choice.counts.values()):
            raise InputError(f"{choice.form!r} occurs {len(occurrences)} times: give the text it was chosen from.")
        keys, sources, rows = zip(*occurrences, strict=True)
        same, different = _pairs(np.array(keys), np.array(sources))
        num_pairs.append((int(same.sum()), int(different.sum())))
        vectors = np.stack(rows)  # (K, L, D)
        mixes = layer_mixes(vectors.shape[1])
        units = unit_mixes(vectors, mixes)  # (M, K, D)
        for name, unit in zip(mixes, units, strict=True):
            cosines = (unit @ unit.T).round(_DECIMALS)  # (K, K): equal vectors are equal in spite of rounding
            aucs[name].append(auc(cosines[same], cosines[different]))
    return ContextResult(list(words), num_pairs, dict(aucs))


def _spread(sentences: Iterable[SenseSentence], words: Sequence[ChosenWord]) -> Iterator[SenseSentence]:
    """Sentences with the chosen occurrences as their only targets."""
    chosen = {choice.word: choice for choice in words}
    seen: Counter[tuple[Word, str]] = Counter()
    for sentence in sentences:
        targets = []
        for target, form in _occurrences(sentence):
            choice, key = chosen.get(target.word), target.keys[0]
            if choice is None or choice.form != form or key not in choice.counts:
                continue
            place, count = seen[target.word, key], choice.counts[key]
            seen[target.word, key] += 1
            taken = min(count, MAX_OCCURRENCES)
            if (place + 1) * taken // count > place * taken // count:
                targets.append(target)
        if targets:
            yield sentence._replace(targets=tuple(targets))


def _pairs(keys: NDArray[Any], sources: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks (K, K) of pairs from different texts, each pair once: with the same sense, and with different ones."""
    apart = np.triu(sources[:, None] != sources[None, :], 1)
    same = keys[:, None] == keys[None, :]
    return apart & same, apart & ~same


def auc(higher: NDArray[Any], lower: NDArray[Any]) -> float:
    """The probability that a value of the first exceeds one of the second; ties count half; exact, by ranks."""
    if not higher.size or not lower.size:
        raise InputError(f"AUC of {higher.size} against {lower.size} values: give at least one of each.")
    ordered = np.sort(lower)
    below, not_above = (np.searchsorted(ordered, higher, side) for side in ("left", "right"))
    return float((below.sum() + not_above.sum()) / (2 * higher.size * lower.size))
