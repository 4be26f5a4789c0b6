"""Turn a token into one fixed-width row of integers, which is all that a model sees of it.

Every model reads `char_ids` (B, T, C), in which a row of zeros means "no token here". The indexer decides what the C
columns hold:

- `ByteIndexer`: the UTF-8 bytes of the token between marks, as bilm-tf and AllenNLP write them (C = 50 as a rule);
- `TableIndexer`: characters looked up in a table, as ELMoForManyLangs does, with the word's own id in front of them
  if the model also embeds whole words;
- `WordIndexer`: the word's id alone (C = 1), for models with a token embedding.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elmokit.arguments import shown
from elmokit.errors import ConfigError, VocabularyError
from elmokit.text.tokens import check_tokens
from elmokit.text.vocabulary import BEGIN, END, Vocabulary

Ids = NDArray[np.int64]

_BEGIN_SENTENCE, _END_SENTENCE, _BEGIN_WORD, _END_WORD, _PAD = 257, 258, 259, 260, 261
MIN_CHARACTERS = 3


class Indexer(Protocol):
    """Turns tokens into the rows of integers that a model reads."""

    @property
    def width(self) -> int:
        """Columns of a row (C)."""

    @property
    def begin(self) -> Ids:
        """The row (C,) that opens every sentence."""

    @property
    def end(self) -> Ids:
        """The row (C,) that closes every sentence."""

    def to_char_ids(self, tokens: Sequence[str]) -> Ids:
        """The rows (T, C) of one sentence, without its boundaries."""


def _check_width(max_characters: int) -> int:
    if not isinstance(max_characters, int) or max_characters < MIN_CHARACTERS:
        raise ConfigError(
            f"max_characters ({shown(max_characters)}) must be an integer of at least {MIN_CHARACTERS}: "
            "a row holds a mark, a character and a mark."
        )
    return max_characters


def _bracket(max_characters: int, opening: int, inner: Sequence[int], closing: int, pad: int) -> Ids:
    """Put a token's characters between marks, truncated to what fits and padded to the full width."""
    row = np.full(max_characters, pad, dtype=np.int64)  # (C,)
    inner = inner[: max_characters - 2]
    row[0] = opening
    row[1 : len(inner) + 1] = inner
    row[len(inner) + 1] = closing
    return row


class ByteIndexer:
    """bilm-tf's character ids, shifted by one so that 0 is free for "no token".

    A token is its UTF-8 bytes (lone surrogates are dropped), truncated to C − 2 bytes. A token spelled `<S>` or `</S>`
    is the boundary itself, as in AllenNLP; `<UNK>` is five ordinary characters.
    """

    def __init__(self, max_characters: int = 50) -> None:
        self.width = _check_width(max_characters)
        self.begin = self._row([_BEGIN_SENTENCE])  # (C,)
        self.end = self._row([_END_SENTENCE])  # (C,)

    def _row(self, inner: Sequence[int]) -> Ids:
        return _bracket(self.width, _BEGIN_WORD, inner, _END_WORD, _PAD)

    def to_char_ids(self, tokens: Sequence[str]) -> Ids:
        """The rows (T, C) of one sentence, without its boundaries."""
        tokens = check_tokens(tokens)
        rows = np.full((len(tokens), self.width), _PAD, dtype=np.int64)  # (T, C)
        rows[:, 0] = _BEGIN_WORD
        for row, token in zip(rows, tokens, strict=True):
            if token == BEGIN:
                row[:] = self.begin
                continue
            if token == END:
                row[:] = self.end
                continue
            spelled = token.encode("utf-8", "ignore")[: self.width - 2]
            row[1 : len(spelled) + 1] = np.frombuffer(spelled, dtype=np.uint8)
            row[1 : len(spelled) + 1] += 1
            row[len(spelled) + 1] = _END_WORD
        return rows


class TableIndexer:
    """ELMoForManyLangs' ids: characters, words or both, looked up in the model's `.dic` files.

    The released models were trained with the marks for begin and end of word swapped, and every model of that format
    expects them swapped. Tokens are truncated to C − 2 Unicode characters before both lookups.
    """

    def __init__(
        self, characters: Mapping[str, int] | None, words: Mapping[str, int] | None, max_characters: int = 50
    ) -> None:
        self.max_characters = _check_width(max_characters)
        self.characters = dict(characters) if characters is not None else None
        self.words = dict(words) if words is not None else None
        _check_entries("char.dic", self.characters, ("<bos>", "<eos>", "<bow>", "<eow>", "<oov>", "<pad>"))
        _check_entries("word.dic", self.words, ("<bos>", "<eos>", "<oov>"))
        self.width = (self.max_characters if self.characters else 0) + (self.words is not None)
        self.begin = self._row("<bos>")  # (C,)
        self.end = self._row("<eos>")  # (C,)

    def _row(self, token: str) -> Ids:
        boundary = token in ("<bos>", "<eos>")
        row = np.empty(0, dtype=np.int64)
        if self.characters is not None:
            table, unknown = self.characters, self.characters["<oov>"]
            inner = [table[token]] if boundary else [table.get(character, unknown) for character in token]
            row = _bracket(self.max_characters, table["<eow>"], inner, table["<bow>"], table["<pad>"])
        if self.words is not None:
            row = np.concatenate(([self.words.get(token, self.words["<oov>"])], row))
        return row + 1

    def to_char_ids(self, tokens: Sequence[str]) -> Ids:
        """The rows (T, C) of one sentence, without its boundaries."""
        rows = [self._row(token[: self.max_characters - 2]) for token in check_tokens(tokens)]
        return np.stack(rows) if rows else np.empty((0, self.width), dtype=np.int64)


def _check_entries(file: str, table: Mapping[str, int] | None, required: Sequence[str]) -> None:
    if table is not None and (missing := [entry for entry in required if entry not in table]):
        raise VocabularyError(
            f"{file} lacks {', '.join(missing)}: it must list {', '.join(required)}; use the file of the model."
        )


class WordIndexer:
    """Vocabulary ids plus one, a single column; a word outside the vocabulary is `<UNK>`."""

    width = 1

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.begin = np.array([vocabulary.begin_id + 1])  # (1,)
        self.end = np.array([vocabulary.end_id + 1])  # (1,)

    def to_char_ids(self, tokens: Sequence[str]) -> Ids:
        """The rows (T, 1) of one sentence, without its boundaries."""
        return self.vocabulary.to_ids(tokens)[:, None] + 1
