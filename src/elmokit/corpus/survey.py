"""One pass over a training corpus before a run: its words, its size, and its overlap with the held-out text."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from elmokit.corpus.blocks import Block, map_blocks, tokenize_block
from elmokit.corpus.check import MIN_HELDOUT_TOKENS, hash_sentences
from elmokit.corpus.counting import WordCounts
from elmokit.errors import InputError
from elmokit.progress import ProgressCallback
from elmokit.text.input_kind import InputKind
from elmokit.wording import counted

_CLEAN = "make clean files of it with elmokit corpus shard --errors replace"


class FileSize(NamedTuple):
    """How long the text of a file is."""

    characters: int
    """Number of characters, as counted by `count_characters`."""
    num_words: int
    num_sentences: int


@dataclass(frozen=True)
class Survey:
    """Results of `survey_corpus`."""

    counts: Counter[str]
    num_words: int
    num_sentences: int
    num_repeated: int
    """Held-out sentences of five tokens or more that occur in the training text."""
    num_compared: int
    by_file: list[FileSize]
    """Size of each file, in the order of the files."""

    @property
    def num_predictions(self) -> int:
        """Predictions of one direction per epoch."""
        return self.num_words + self.num_sentences

    def weighted_predictions(self, weights: Sequence[float]) -> int:
        """Predictions of one direction per epoch if it reads each file `weight` times."""
        pairs = zip(self.by_file, weights, strict=True)
        return round(sum(weight * (size.num_words + size.num_sentences) for size, weight in pairs))


def survey_corpus(
    paths: Sequence[Path],
    *,
    input: InputKind,
    heldout: Iterable[str] = (),
    processes: int | None = None,
    progress: ProgressCallback | None = None,
) -> Survey:
    """Read a corpus once; `heldout` has sentences as tokens separated by spaces."""
    if not paths:
        raise InputError("there are no training files: name at least one.")
    wanted = _hashes(line.split(" ") for line in heldout)
    words, sizes, repeated = WordCounts(), dict.fromkeys(paths, FileSize(0, 0, 0)), set[int]()
    function = partial(_survey_block, input=input, heldout=wanted)
    for path, counts, size, found in map_blocks(function, paths, processes=processes, progress=progress):
        words.add(counts)
        sizes[path] = FileSize(*map(sum, zip(sizes[path], size, strict=True)))
        repeated |= found
    by_file = [sizes[path] for path in paths]
    num_words, num_sentences = (sum(size[field] for size in by_file) for field in (1, 2))
    if not num_words:
        raise InputError(
            f"the training text ({counted(len(paths), 'file')}, {paths[0]} …) has no word: give files with text."
        )
    return Survey(words.counts, num_words, num_sentences, len(repeated), len(wanted), by_file)


def _survey_block(
    block: Block, *, input: InputKind, heldout: set[int]
) -> tuple[Path, Counter[str], FileSize, set[int]]:
    sentences = tokenize_block(block, input=input, advice=_CLEAN)
    counts = Counter(token for sentence in sentences for token in sentence)
    size = FileSize(sum(map(len, block.lines)), counts.total(), len(sentences))
    return block.path, counts, size, _hashes(sentences) & heldout if heldout else set()


def _hashes(sentences: Iterable[list[str]]) -> set[int]:
    """Hashes of the sentences that are too long to recur by chance."""
    telling = [sentence for sentence in sentences if len(sentence) >= MIN_HELDOUT_TOKENS]
    return set(hash_sentences(telling).tolist())
