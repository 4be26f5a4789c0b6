"""One pass over a corpus: its words, the size of each file, and which held-out sentences are in it.

`count_words`, `check_corpus` and the beginning of a training run all use it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.corpus.blocks import REPLACE, Block, Errors, map_blocks, tokenize_lines
from elmokit.progress import ProgressCallback
from elmokit.text.input_kind import InputKind

MAX_DISTINCT = 20_000_000
MIN_HELDOUT_TOKENS = 5
"""Shorter sentences recur by chance."""

Hashes = NDArray[np.uint64]


class WordCounts:
    """Word counts that drop the rarest words when there are too many to hold."""

    def __init__(self, max_distinct: int = MAX_DISTINCT) -> None:
        self.counts: Counter[str] = Counter()
        self.max_lost = 0
        """Upper bound on how much any count may be too low."""
        self._max_distinct = max_distinct

    def add(self, counts: Mapping[str, int]) -> None:
        """Add the counts of a part; if there are then too many words, drop the rarer half."""
        self.counts.update(counts)
        if len(self.counts) > self._max_distinct:
            median = sorted(self.counts.values())[len(self.counts) // 2]
            self.counts = Counter({word: count for word, count in self.counts.items() if count > median})
            self.max_lost += median


class FileSize(NamedTuple):
    """How long the text of a file is."""

    characters: int
    """Number of characters, as counted by `count_characters`."""
    num_words: int
    num_sentences: int


@dataclass(frozen=True)
class Survey:
    """Results of `survey_corpus`."""

    words: WordCounts
    by_file: list[FileSize]
    """Size of each file, in the order of the files."""
    num_repeated: int
    """Held-out sentences of five tokens or more that occur in the corpus."""
    num_compared: int

    @property
    def num_words(self) -> int:
        """Words of all files."""
        return sum(size.num_words for size in self.by_file)

    @property
    def num_sentences(self) -> int:
        """Sentences of all files."""
        return sum(size.num_sentences for size in self.by_file)

    def weighted_predictions(self, weights: Sequence[float]) -> int:
        """Predictions of one direction per epoch if it reads each file `weight` times."""
        pairs = zip(self.by_file, weights, strict=True)
        return round(sum(weight * (size.num_words + size.num_sentences) for size, weight in pairs))


class Part(NamedTuple):
    """What is in one block of a file."""

    path: Path
    size: FileSize
    counts: Counter[str]
    hashes: Hashes
    """Of the sentences that were to be hashed, in order."""


def survey_corpus(
    paths: Sequence[Path],
    *,
    input: InputKind,
    errors: Errors = "strict",
    advice: str = REPLACE,
    heldout: Iterable[str] = (),
    max_distinct: int = MAX_DISTINCT,
    processes: int | None = None,
    progress: ProgressCallback | None = None,
) -> Survey:
    """Read a corpus once.

    Args:
        paths: Files to read.
        input: "tokens" or "text", as for `read_sentences`.
        errors: Invalid UTF-8: "strict" fails, "replace" puts U+FFFD.
        advice: What to do about invalid UTF-8, for the message.
        heldout: Sentences to look for, as tokens separated by spaces.
        max_distinct: Distinct words to hold; beyond that the rarest are dropped.
        processes: Processes to tokenize with; None chooses by the number of cores.
        progress: Receives the number of bytes read and the total.
    """
    wanted = set(hash_sentences((line.split(" ") for line in heldout), MIN_HELDOUT_TOKENS).tolist())
    words, repeated = WordCounts(max_distinct), set[int]()
    sizes: defaultdict[Path, FileSize] = defaultdict(lambda: FileSize(0, 0, 0))
    min_hashed = MIN_HELDOUT_TOKENS if wanted else None
    function = partial(_survey_block, input=input, errors=errors, advice=advice, min_hashed=min_hashed)
    for part in map_blocks(function, paths, processes=processes, progress=progress):
        words.add(part.counts)
        sizes[part.path] = FileSize(*map(sum, zip(sizes[part.path], part.size, strict=True)))
        repeated |= wanted.intersection(part.hashes.tolist())
    return Survey(words, [sizes[path] for path in paths], len(repeated), len(wanted))


def _survey_block(
    block: Block, *, input: InputKind, errors: Errors, advice: str = REPLACE, min_hashed: int | None = None
) -> Part:
    """Tokenize and count a block; hash its sentences of at least `min_hashed` tokens, or none."""
    lines = tokenize_lines(block, input=input, errors=errors, advice=advice)
    return survey_sentences(block, list(chain.from_iterable(lines)), min_hashed=min_hashed)


def survey_sentences(block: Block, sentences: Sequence[Sequence[str]], *, min_hashed: int | None) -> Part:
    """Count and hash the sentences of a block."""
    counts = Counter(chain.from_iterable(sentences))
    size = FileSize(sum(map(len, block.lines)), counts.total(), len(sentences))
    hashes = np.empty(0, np.uint64) if min_hashed is None else hash_sentences(sentences, min_hashed)
    return Part(block.path, size, counts, hashes)


def hash_sentences(sentences: Iterable[Sequence[str]], min_tokens: int) -> Hashes:
    """A hash of the tokens of each sentence that has at least `min_tokens`."""
    texts = (" ".join(sentence) for sentence in sentences if len(sentence) >= min_tokens)
    hashes = (blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(hashes), dtype="<u8")
