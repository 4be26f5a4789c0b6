"""WordNet's senses: their words, the index of all senses, and sentences with tagged words."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import FormatError
from elmokit.text.files import open_text

PARTS_OF_SPEECH = {"1": "noun", "2": "verb", "3": "adj", "4": "adv", "5": "adj"}
"""By the digit after the % of a sense key; 5 marks satellite adjectives, which WordNet numbers with the others."""
_KEY = re.compile(r"([^\s%]+)%([1-5]):\d\d:\d\d:(?:[^\s:%]+:\d\d|:)")


class Word(NamedTuple):
    """A word with senses: a lemma, in lower case with _ between its parts, and a part of speech."""

    lemma: str
    pos: str


class Target(NamedTuple):
    """A word in a sentence, tokens start to end, with the keys of its senses there."""

    start: int
    end: int
    word: Word
    keys: tuple[str, ...]
    name: str = ""


class SenseSentence(NamedTuple):
    """A sentence, its words with senses and the name of its text."""

    tokens: tuple[str, ...]
    targets: tuple[Target, ...]
    source: str = ""


def word_of(key: str) -> Word | None:
    """The word that a sense key belongs to; None if it is not a sense key."""
    match = _KEY.fullmatch(key)
    return Word(match[1], PARTS_OF_SPEECH[match[2]]) if match else None


@dataclass(frozen=True)
class SenseIndex:
    """All senses of WordNet."""

    numbers: dict[str, int]
    """The number of a sense among those of its word; 1 is the most frequent."""
    senses: dict[Word, tuple[str, ...]]
    """The senses of a word in WordNet's order."""

    def first_sense(self, word: Word) -> str | None:
        """The sense that WordNet lists first, the most frequent one in its tagged text; None for an unknown word."""
        return self.senses[word][0] if word in self.senses else None

    def in_order(self, keys: Iterable[str]) -> list[str]:
        """Keys in WordNet's order; unknown keys come last, by name."""
        last = len(self.numbers) + 1
        return sorted(keys, key=lambda key: (self.numbers.get(key, last), key))


def read_sense_index(path: Path) -> SenseIndex:
    """Read WordNet's `index.sense`, plain or compressed: sense key, synset offset, sense number, tag count."""
    numbers: dict[str, int] = {}
    senses: dict[Word, list[str]] = {}
    with open_text(path) as lines:
        for number, line in enumerate(lines, 1):
            fields = line.split()
            word = word_of(fields[0]) if len(fields) == 4 and all(map(str.isdecimal, fields[1:])) else None
            if word is None or fields[0] in numbers:
                raise FormatError(
                    f"{path} line {number} is {line.strip()[:60]!r}: a line has a sense key that occurs only once, "
                    "offset, sense number and count; give WordNet's index.sense."
                )
            key = fields[0]
            numbers[key] = int(fields[2])
            senses.setdefault(word, []).append(key)
    if not numbers:
        raise FormatError(f"{path} is empty: give WordNet's index.sense.")
    ordered = {word: tuple(sorted(keys, key=numbers.__getitem__)) for word, keys in senses.items()}
    return SenseIndex(numbers, ordered)
