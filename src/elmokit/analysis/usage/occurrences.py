"""Occurrences of words in a corpus, and what a model knows about their contexts.

A corpus is read line by line and never kept in memory. A limited number of a word's occurrences is sampled: those whose
sentences rank first by a seeded hash. So every sentence has the same chance, the order of files and lines does not
matter, a repeated sentence counts once, and the samples of many words share sentences, which are embedded once.

Notation: K occurrences, L layers, T tokens of a sentence, D = 2P width of a vector.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.analysis.occurrence import Occurrence
from elmokit.arguments import check_integer
from elmokit.embedding.layer_cache import LayerCache
from elmokit.embedding.pooling import Selection
from elmokit.errors import InputError
from elmokit.progress import ProgressCallback
from elmokit.text.files import find_files, open_text, refuse_pipes
from elmokit.text.input_kind import DEFAULT_INPUT, InputKind, actual_input, check_input, glued_form, is_shard
from elmokit.text.lines import split_line
from elmokit.wording import counted


@dataclass(frozen=True)
class Corpus:
    """Text files: a line is one sentence of space-separated tokens, or raw text with any number of sentences."""

    paths: tuple[Path, ...]
    input: InputKind = DEFAULT_INPUT

    @classmethod
    def find(cls, patterns: Sequence[str], input: InputKind = DEFAULT_INPUT) -> "Corpus":
        """The files that match paths and globs, sorted by name."""
        check_input(input)
        if isinstance(patterns, Sequence) and not patterns:
            raise InputError("patterns are empty: name at least one file of the corpus.")
        paths = find_files(patterns)
        refuse_pipes(paths)
        folders = {path.parent: path for path in paths}
        return cls(tuple(paths), "tokens" if all(map(is_shard, folders.values())) else input)

    @property
    def name(self) -> str:
        """The name of the corpus: its file, or the first of them."""
        more = len(self.paths) - 1
        return self.paths[0].name + (f" and {more} more" if more else "")

    def read(self, wanted: Callable[[str], bool] | None = None) -> Iterator[tuple[str, int, list[str]]]:
        """The sentences of all or selected lines: file and line, line number in the corpus, tokens."""
        total, is_empty = 0, True
        for path in self.paths:
            kind = actual_input(path, self.input)
            with open_text(path) as lines:
                for number, line in enumerate(lines, 1):
                    total += 1
                    is_empty = is_empty and not line.strip()
                    if wanted is None or wanted(line):
                        for tokens in split_line(line, kind):
                            yield f"{path.name}:{number}", total, tokens
        if is_empty:
            raise InputError(f"the corpus {self.name} has no text: give files with sentences.")


@dataclass
class Sample:
    """The occurrences of a word whose sentences rank first; each sentence counts once.

    Args:
        size: number of occurrences to keep.
    """

    size: int
    num_seen: int = 0
    """Number of occurrences offered, including repetitions."""
    _heap: list[tuple[int, int]] = field(default_factory=list)
    _kept: dict[tuple[int, int], Occurrence] = field(default_factory=dict)

    def offer(self, rank: int, occurrence: Occurrence) -> None:
        """Keep an occurrence if its sentence's rank is low enough."""
        self.num_seen += 1
        key = (-rank, -occurrence.position)
        if key in self._kept:
            self._kept[key] = min(self._kept[key], occurrence)  # a repeated sentence: the same source in any order
            return
        if len(self._heap) < self.size:
            heapq.heappush(self._heap, key)
        elif key > self._heap[0]:
            del self._kept[heapq.heapreplace(self._heap, key)]
        else:
            return
        self._kept[key] = occurrence

    @property
    def occurrences(self) -> list[Occurrence]:
        """The kept occurrences, by rank."""
        return [self._kept[key] for key in sorted(self._kept, reverse=True)]


def rank_sentence(tokens: Sequence[str], seed: int) -> int:
    """A random number that depends only on the sentence and the seed."""
    data = "\n".join(tokens).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8, key=str(seed).encode()).digest(), "big")


def collect(
    corpus: Corpus, forms: Collection[str], *, max_occurrences: int, seed: int = 0, match_case: bool = False
) -> Sample:
    """The occurrences of a word in any of its forms; only lines that may contain one are tokenized.

    Args:
        corpus: the corpus to read.
        forms: tokens that count as the word.
        max_occurrences: maximum number of occurrences to keep.
        seed: random seed of the sample.
        match_case: whether `Play` and `play` are different words.
    """
    check_integer("max_occurrences", max_occurrences, at_least=1)
    if isinstance(forms, str):
        raise InputError(f"forms is the str {forms!r}: give a list of tokens, e.g. [{forms!r}].")
    own = {form if match_case else form.lower() for form in forms}
    if match_case:

        def wanted(line: str) -> bool:
            return any(form in line for form in own)
    else:
        folded = {form.casefold() for form in own}  # character by character, independent of context: lower() is not

        def wanted(line: str) -> bool:
            line = line.casefold()
            return any(form in line for form in folded)

    sample = Sample(max_occurrences)
    for source, line, tokens in corpus.read(wanted):
        places = [place for place, token in enumerate(tokens) if (token if match_case else token.lower()) in own]
        if places:
            rank, sentence = rank_sentence(tokens, seed), tuple(tokens)
            for place in places:
                sample.offer(rank, Occurrence(sentence, place, source, line))
    return sample


def collect_words(corpus: Corpus, words: Collection[str], *, max_occurrences: int, seed: int = 0) -> dict[str, Sample]:
    """The occurrences of many words, given in lower case and matched in any case, in one pass."""
    samples = {word: Sample(max_occurrences) for word in words}
    for source, line, tokens in corpus.read():
        found = [(place, samples[word]) for place, token in enumerate(tokens) if (word := token.lower()) in samples]
        if found:
            rank, sentence = rank_sentence(tokens, seed), tuple(tokens)
            for place, sample in found:
                sample.offer(rank, Occurrence(sentence, place, source, line))
    return samples


def count_types(corpus: Corpus) -> Counter[str]:
    """The counts of all tokens in lower case."""
    counts: Counter[str] = Counter()
    for _, _, tokens in corpus.read():
        counts.update(map(str.lower, tokens))
    return counts


def check_word(word: str, input: InputKind) -> None:
    """Refuse a word that cannot be one token of a corpus."""
    tokens = [token for sentence in split_line(word, input) for token in sentence]
    if tokens != [word]:
        pieces = f"{counted(len(tokens), 'token')} ({' '.join(tokens)})" if tokens else "no token"
        raise InputError(f"the word {word!r} is {pieces} here: give one token, and its other forms with --forms.")


def missing_word_error(word: str, corpus: Corpus) -> InputError:
    """The error for a word that does not occur, with suggestions; reads the corpus again."""
    types = count_types(corpus)
    folded = word.lower()
    if corpus.input == "tokens" and (form := glued_form(folded, types)):
        return InputError(
            f"{word!r} does not occur in {corpus.name}, but {form!r} does: read it as raw text with --input text "
            "(input='text')."
        )
    near = [form for form in get_close_matches(folded, types, n=4) if form != folded]
    meant = f"; it has {', '.join(near)}" if near else ""
    other = " (only in other case)" if folded in types else ""
    return InputError(f"{word!r} does not occur in {corpus.name}{other}{meant}: give a word that does, or more text.")


def read_contexts(
    store: LayerCache, occurrences: Sequence[Occurrence], progress: ProgressCallback | None = None
) -> NDArray[np.float32]:
    """What the model knows about the context of each token without having seen the token: (K, L, D).

    The first half is the forward direction at the previous token, the second the backward direction at the next token.
    Sentences that the store lacks are embedded first.
    """
    store.prepare((occurrence.tokens for occurrence in occurrences), progress)
    half = store.width // 2
    begin, end = _boundaries(store)  # (L, P), (L, P)
    contexts = np.empty((len(occurrences), store.num_layers, store.width), dtype=np.float32)  # (K, L, D)
    for row, (sentence, place, _, _) in enumerate(occurrences):
        layers = store.read(sentence)  # (L, T, D)
        contexts[row, :, :half] = layers[:, place - 1, :half] if place else begin
        contexts[row, :, half:] = layers[:, place + 1, half:] if place + 1 < len(sentence) else end
    return contexts


def _boundaries(store: LayerCache) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The layers of each direction before the first token: forward at `<S>`, backward at `</S>`, (L, P) each."""
    bilm, half = store.embedder.bilm, store.width // 2
    with torch.inference_mode():
        layers = bilm(bilm.to_char_ids([[]]), keep_boundaries=True).layers[:, 0].cpu().numpy()  # (L, 2, D)
    return layers[:, 0, :half], layers[:, 1, half:]


def mix_layers(contexts: NDArray[np.float32], selection: Selection) -> NDArray[np.float32]:
    """One row per occurrence from (K, L, D): a mix of the layers, (K, D), or all of them, (K, L·D).

    In either case, the first half of a row is from the text before the token.
    """
    if selection.weights is not None:
        mixed: NDArray[np.float32] = np.tensordot(np.array(selection.weights, np.float32), contexts, (0, 1))  # (K, D)
        return mixed
    sides = np.split(contexts, 2, axis=2)  # (K, L, P) twice
    return np.concatenate([side.reshape(len(contexts), -1) for side in sides], axis=1)
