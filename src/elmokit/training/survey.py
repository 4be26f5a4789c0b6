"""One pass over a training corpus before a run: its words, its size, and whether the held-out text is part of it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from elmokit.errors import InputError
from elmokit.text.input_kind import Input
from elmokit.training.corpus_blocks import Block, Progress, map_blocks, tokenize_block
from elmokit.training.corpus_check import MIN_HELDOUT_TOKENS, hash_sentences
from elmokit.training.corpus_tools import WordCounts
from elmokit.wording import counted

_CLEAN = "make clean files of it with elmokit corpus shard --errors replace"


@dataclass(frozen=True)
class Survey:
    """What was found."""

    counts: Counter[str]
    num_words: int
    num_sentences: int
    num_repeated: int
    """Held-out sentences of five tokens or more that occur in the training text."""
    num_compared: int

    @property
    def num_predictions(self) -> int:
        """Predictions of a direction in an epoch."""
        return self.num_words + self.num_sentences


def survey_corpus(
    paths: Sequence[Path],
    *,
    input: Input,
    heldout: Iterable[str] = (),
    processes: int | None = None,
    progress: Progress | None = None,
) -> Survey:
    """Read a corpus once; held-out sentences are given as tokens between spaces."""
    if not paths:
        raise InputError("there are no training files: name at least one.")
    wanted = _hashes(line.split(" ") for line in heldout)
    words, num_words, num_sentences, repeated = WordCounts(), 0, 0, set[int]()
    function = partial(_survey_block, input=input, heldout=wanted)
    for counts, sentences, found in map_blocks(function, paths, processes=processes, progress=progress):
        words.add(counts)
        num_words += counts.total()
        num_sentences += sentences
        repeated |= found
    if not num_words:
        raise InputError(
            f"the training text ({counted(len(paths), 'file')}, {paths[0]} …) has no word: give files with text."
        )
    return Survey(words.counts, num_words, num_sentences, len(repeated), len(wanted))


def _survey_block(block: Block, *, input: Input, heldout: set[int]) -> tuple[Counter[str], int, set[int]]:
    sentences = tokenize_block(block, input=input, advice=_CLEAN)
    counts = Counter(token for sentence in sentences for token in sentence)
    return counts, len(sentences), _hashes(sentences) & heldout if heldout else set()


def _hashes(sentences: Iterable[list[str]]) -> set[int]:
    """Those of the sentences that are long enough not to recur by chance."""
    telling = [sentence for sentence in sentences if len(sentence) >= MIN_HELDOUT_TOKENS]
    return set(hash_sentences(telling).tolist())
