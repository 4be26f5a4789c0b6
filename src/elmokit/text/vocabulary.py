"""The word list of a language model's softmax, and of a token embedding.

One token per line: `<S>`, `</S>` and `<UNK>` first, then the words by descending count in the training text, which the
sampled softmax relies on. bilm-tf and AllenNLP accept lists without the boundaries and then silently use the last word
for them; here that is an error.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError, VocabularyError
from elmokit.text.files import open_text
from elmokit.text.tokens import check_tokens

BEGIN: Final = "<S>"
END: Final = "</S>"
UNKNOWN: Final = "<UNK>"
SPECIALS: Final = (BEGIN, END, UNKNOWN)
SKIPPED: Final = "!!!MAXTERMID"
"""A line that readers of vocabulary files skip, so no word can have this spelling."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Vocabulary:
    """Words in the order of their ids; unknown words have the id of `<UNK>`."""

    def __init__(self, tokens: Iterable[str], *, origin: str = "the vocabulary") -> None:
        self.tokens: tuple[str, ...] = check_tokens(tokens, origin)
        for expected, special in enumerate(SPECIALS):
            places = [index for index, token in enumerate(self.tokens) if token == special]
            if places != [expected]:
                raise VocabularyError(_misplaced(origin, special, expected, places))
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        self.begin_id, self.end_id, self.unknown_id = range(len(SPECIALS))

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.tokens == other.tokens

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens)"

    @property
    def num_duplicates(self) -> int:
        """Lines that repeat an earlier word; as in bilm-tf and AllenNLP, a word has the id of its last line."""
        return len(self.tokens) - len(self._ids)

    def to_ids(self, tokens: Sequence[str]) -> NDArray[np.int64]:
        """Ids (T,) of the tokens; unknown tokens have the id of `<UNK>`."""
        return np.array([self._ids.get(token, self.unknown_id) for token in check_tokens(tokens)], dtype=np.int64)


def _misplaced(origin: str, special: str, expected: int, places: list[int]) -> str:
    if not places:
        found = f"lacks {special}"
    elif len(places) > 1:
        found = f"has {special} on lines {', '.join(str(place + 1) for place in places[:5])}"
    else:
        found = f"has {special} on line {places[0] + 1}"
    return (
        f"{origin} {found}: a vocabulary has <S>, </S> and <UNK> once each, on lines 1, 2 and 3 "
        f"({special} belongs on line {expected + 1}), then the words by descending count."
    )


def read_vocabulary(path: Path) -> Vocabulary:
    """Read a vocabulary file, plain or compressed, by the rules of bilm-tf and AllenNLP.

    Lines are stripped, `!!!MAXTERMID` lines are skipped, and a blank line is the token "".
    """
    with open_text(path) as lines:
        tokens = [line.strip() for line in lines]
    return Vocabulary((token for token in tokens if token != SKIPPED), origin=str(path))


def is_vocabulary(path: Path) -> bool:
    """Whether a file begins like a vocabulary; reads only three lines."""
    try:
        with open_text(path) as lines:
            return tuple(line.strip() for line in islice(lines, len(SPECIALS))) == SPECIALS
    except (InputError, OSError):
        return False


def write_vocabulary(vocabulary: Vocabulary, path: Path) -> None:
    """Write a vocabulary file; a word that could not be read back unchanged is an error."""
    for token in vocabulary.tokens:
        if token != token.strip() or "\n" in token or token == SKIPPED or _LONE_SURROGATE.search(token):
            raise VocabularyError(
                f"the word {token!r} cannot be stored in a vocabulary file, where a word is a stripped line of UTF-8: "
                "remove it from the vocabulary."
            )
    path.write_text("".join(f"{token}\n" for token in vocabulary.tokens), encoding="utf-8", newline="\n")
