"""Inspect a corpus before training on it: how large it is, and what is wrong with it."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from elmokit.corpus.blocks import Block, map_blocks, replaced, tokenize_lines
from elmokit.corpus.survey import MIN_HELDOUT_TOKENS, Hashes, Part, WordCounts, hash_sentences, survey_sentences
from elmokit.progress import ProgressCallback
from elmokit.text.input_kind import DEFAULT_INPUT, InputKind, check_input
from elmokit.text.vocabulary import UNKNOWN, Vocabulary
from elmokit.wording import counted

MAX_SENTENCE_TOKENS = 1000
MAX_TOKEN_BYTES = 48
_MAX_HASHES = 1 << 25
_NUM_PLACES = 3
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


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
    blocks = map_blocks(partial(_check_block, input=input), paths, processes=processes, progress=progress)
    for part, num_lines, num_blank_lines, findings in blocks:
        report.num_lines += num_lines
        report.num_blank_lines += num_blank_lines
        report.num_sentences += part.size.num_sentences
        report.num_tokens += part.size.num_words
        report.findings.merge(findings)
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

    def __init__(self) -> None:
        self.rate = 1
        self._parts: list[Hashes] = []
        self._size = 0

    def add(self, hashes: Hashes) -> None:
        self._parts.append(hashes[hashes % np.uint64(self.rate) == 0])
        self._size += len(self._parts[-1])
        while self._size > _MAX_HASHES:
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
    for part in map_blocks(partial(_hash_block, input=input), paths, processes=processes):
        hashes.update(part.tolist())
    return hashes


def _hash_block(block: Block, *, input: InputKind) -> Hashes:
    lines = tokenize_lines(block, input=input, errors="replace")
    return hash_sentences(chain.from_iterable(lines), MIN_HELDOUT_TOKENS)


def _check_block(block: Block, *, input: InputKind) -> tuple[Part, int, int, Findings]:
    """Counts and hashes of a block, its lines, its blank lines, and its problems."""
    found, num_blank_lines = Findings(), 0
    all_sentences: list[list[str]] = []
    tokenized = tokenize_lines(block, input=input, errors="replace")
    for number, (line, sentences) in enumerate(zip(block.lines, tokenized, strict=True), start=block.first_line):
        place = f"{block.path}:{number}"
        if replaced(line) is not line:
            found.encoding_faults.add(place)
        elif "\ufffd" in line:
            found.replacement_characters.add(place)
        if _CONTROL.search(line):
            found.control_characters.add(place)
        num_blank_lines += not sentences
        for sentence in sentences:
            if len(sentence) > MAX_SENTENCE_TOKENS:
                found.long_sentences.add(place)
            # A character has at most 4 bytes, so almost no token needs its bytes counted.
            if len(max(sentence, key=len)) * 4 > MAX_TOKEN_BYTES and (num_long := sum(map(_is_long, sentence))):
                found.long_tokens.add(place, num_long)
        all_sentences += sentences
    return survey_sentences(block, all_sentences, min_hashed=0), len(block.lines), num_blank_lines, found


def _is_long(token: str) -> bool:
    return len(token.encode()) > MAX_TOKEN_BYTES
