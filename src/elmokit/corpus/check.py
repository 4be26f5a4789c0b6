"""Inspect a corpus before training on it: how large it is, and what is wrong with it."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.corpus.blocks import Block, map_blocks, replaced
from elmokit.corpus.counting import WordCounts
from elmokit.progress import ProgressCallback
from elmokit.text.input_kind import DEFAULT_INPUT, InputKind, actual_input, check_input
from elmokit.text.lines import split_line
from elmokit.text.vocabulary import UNKNOWN, Vocabulary
from elmokit.wording import counted

MAX_SENTENCE_TOKENS = 1000
MAX_TOKEN_BYTES = 48
MIN_HELDOUT_TOKENS = 5
_MAX_HASHES = 1 << 25
_NUM_PLACES = 3
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

Hashes = NDArray[np.uint64]


@dataclass
class Finding:
    """How often a problem was found, and where it first occurred."""

    count: int = 0
    places: list[str] = field(default_factory=list)
    """The first three occurrences, as `file:line`."""

    def add(self, place: str, count: int = 1) -> None:
        """Record occurrences at a place."""
        self.merge(Finding(count, [place]))

    def merge(self, other: "Finding") -> None:
        """Add the occurrences of a later part of the corpus."""
        self.count += other.count
        self.places = [*self.places, *other.places][:_NUM_PLACES]


@dataclass
class Findings:
    """Problems to look at before training."""

    long_sentences: Finding = field(default_factory=Finding)
    """Sentences of more than 1,000 tokens: badly tokenized, or not sentences at all."""
    long_tokens: Finding = field(default_factory=Finding)
    """Tokens of more than 48 bytes; a character model sees only the first 48."""
    encoding_faults: Finding = field(default_factory=Finding)
    """Lines that are not UTF-8."""
    control_characters: Finding = field(default_factory=Finding)
    """Lines with a control character other than a tab or a carriage return."""
    replacement_characters: Finding = field(default_factory=Finding)
    """Lines with U+FFFD, left by an earlier decoding step."""

    def merge(self, other: "Findings") -> None:
        """Add the findings of a later part of the corpus."""
        for name, finding in vars(other).items():
            getattr(self, name).merge(finding)


@dataclass
class CorpusReport:
    """What `check_corpus` found."""

    num_files: int
    num_lines: int = 0
    num_blank_lines: int = 0
    num_sentences: int = 0
    num_tokens: int = 0
    num_predictions: int = 0
    """Tokens plus sentence ends: the predictions of each direction per epoch."""
    num_distinct: int = 0
    """Distinct tokens."""
    findings: Findings = field(default_factory=Findings)
    num_duplicates: int = 0
    """Sentences that repeat an earlier one exactly."""
    coverage: float | None = None
    """Share of tokens that are in the vocabulary, if one was given."""
    oov_rate: float | None = None
    """Share of tokens outside the vocabulary, which a model learns to predict as `<UNK>`."""
    num_heldout_sentences: int | None = None
    """Held-out sentences of at least five tokens, if held-out files were given."""
    heldout_overlap: float | None = None
    """Share of them that also occur in the corpus."""
    notes: list[str] = field(default_factory=list)
    """Which figures are estimates, and why."""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values for JSON."""
        return asdict(self)


@dataclass
class _Part:
    """Findings of one block."""

    num_lines: int
    num_blank_lines: int
    num_sentences: int
    counts: Counter[str]
    hashes: Hashes
    findings: Findings


def check_corpus(
    paths: Sequence[Path],
    *,
    input: InputKind = DEFAULT_INPUT,
    vocabulary: Vocabulary | None = None,
    heldout: Sequence[Path] = (),
    processes: int | None = None,
    progress: ProgressCallback | None = None,
) -> CorpusReport:
    """Read a whole corpus and report its size and problems. Invalid UTF-8 is counted, not rejected.

    Args:
        paths: Files to read.
        input: "tokens" or "text", as for `read_sentences`; the held-out files are read in the same way.
        vocabulary: If given, the report says how much of the corpus it covers.
        heldout: Files whose sentences should not be in the corpus.
        processes: Processes to tokenize with; None chooses by the number of cores.
        progress: Receives the number of bytes read and the total.

    Raises:
        InputError: If a file cannot be read at all.
    """
    check_input(input)
    report = CorpusReport(len(paths))
    words, sentences = WordCounts(), _SentenceSample()
    unseen = _heldout_hashes(heldout, input, processes) if heldout else Counter[int]()
    num_heldout, num_known = unseen.total(), 0
    for part in map_blocks(partial(_check_block, input=input), paths, processes=processes, progress=progress):
        report.num_lines += part.num_lines
        report.num_blank_lines += part.num_blank_lines
        report.num_sentences += part.num_sentences
        report.num_tokens += part.counts.total()
        report.findings.merge(part.findings)
        words.add(part.counts)
        sentences.add(part.hashes)
        if vocabulary is not None:
            num_known += sum(count for word, count in part.counts.items() if word in vocabulary and word != UNKNOWN)
        for sentence in unseen.keys() & part.hashes.tolist() if unseen else ():
            del unseen[sentence]
    report.num_predictions = report.num_tokens + report.num_sentences
    report.num_distinct = len(words.counts)
    report.num_duplicates = sentences.num_duplicates
    if vocabulary is not None and report.num_tokens:
        report.coverage = num_known / report.num_tokens
        report.oov_rate = 1 - report.coverage
    if heldout:
        report.num_heldout_sentences = num_heldout
        report.heldout_overlap = 1 - unseen.total() / num_heldout if num_heldout else None
    report.notes = _notes(words, sentences)
    return report


def _notes(words: WordCounts, sentences: "_SentenceSample") -> list[str]:
    notes = []
    if words.max_lost:
        notes.append(f"num_distinct leaves out words that were seen at most {counted(words.max_lost, 'time')}.")
    if sentences.rate > 1:
        notes.append(f"num_duplicates is estimated from every {sentences.rate}th distinct sentence.")
    return notes


class _SentenceSample:
    """Hashes of sentences for finding duplicates: of all sentences, or of a fixed share of the distinct ones.

    A hash is in the sample if `rate` divides it, so the sample has either all occurrences of a sentence or none.
    """

    def __init__(self, max_hashes: int | None = None) -> None:
        self.rate = 1
        self._max_hashes = max_hashes or _MAX_HASHES
        self._parts: list[Hashes] = []
        self._size = 0

    def add(self, hashes: Hashes) -> None:
        self._parts.append(hashes[hashes % np.uint64(self.rate) == 0])
        self._size += len(self._parts[-1])
        while self._size > self._max_hashes:
            self.rate *= 2
            self._parts = [part[part % np.uint64(self.rate) == 0] for part in self._parts]
            self._size = sum(map(len, self._parts))

    @property
    def num_duplicates(self) -> int:
        if not self._size:
            return 0
        return (self._size - len(np.unique(np.concatenate(self._parts)))) * self.rate


def _heldout_hashes(paths: Sequence[Path], input: InputKind, processes: int | None) -> Counter[int]:
    """Hashes of the held-out sentences that are too long to recur by chance, with the count of each."""
    hashes: Counter[int] = Counter()
    function = partial(_hash_block, input=input, min_tokens=MIN_HELDOUT_TOKENS)
    for part in map_blocks(function, paths, processes=processes):
        hashes.update(part.tolist())
    return hashes


def _hash_block(block: Block, *, input: InputKind, min_tokens: int) -> Hashes:
    input = actual_input(block.path, input)
    sentences = [sentence for line in block.lines for sentence in split_line(replaced(line), input)]
    return hash_sentences([sentence for sentence in sentences if len(sentence) >= min_tokens])


def hash_sentences(sentences: Sequence[Sequence[str]]) -> Hashes:
    """A hash of the tokens of each sentence."""
    hashes = (blake2b(" ".join(sentence).encode(), digest_size=8).digest() for sentence in sentences)
    return np.frombuffer(b"".join(hashes), dtype="<u8")


def _check_block(block: Block, *, input: InputKind) -> _Part:
    part = _Part(len(block.lines), 0, 0, Counter(), np.empty(0, np.uint64), Findings())
    found = part.findings
    input = actual_input(block.path, input)
    all_sentences: list[list[str]] = []
    for number, line in enumerate(block.lines, start=block.first_line):
        place = f"{block.path}:{number}"
        text = replaced(line)
        if text is not line:
            found.encoding_faults.add(place)
        elif "\ufffd" in line:
            found.replacement_characters.add(place)
        if _CONTROL.search(text):
            found.control_characters.add(place)
        sentences = split_line(text, input)
        part.num_blank_lines += not sentences
        for sentence in sentences:
            part.counts.update(sentence)
            if len(sentence) > MAX_SENTENCE_TOKENS:
                found.long_sentences.add(place)
            # A character has at most 4 bytes, so almost no token needs its bytes counted.
            if len(max(sentence, key=len)) * 4 > MAX_TOKEN_BYTES and (num_long := sum(map(_is_long, sentence))):
                found.long_tokens.add(place, num_long)
        all_sentences += sentences
    part.num_sentences = len(all_sentences)
    part.hashes = hash_sentences(all_sentences)
    return part


def _is_long(token: str) -> bool:
    return len(token.encode()) > MAX_TOKEN_BYTES
