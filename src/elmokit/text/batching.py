"""Pad sentences of different length into one array."""

from collections.abc import Sequence

import numpy as np

from elmokit.errors import InputError
from elmokit.text.characters import Ids, Indexer


def pad_sentences(rows: Sequence[Ids], width: int) -> Ids:
    """Stack the rows (T_i, C) of sentences into (B, T, C), zeros on the right."""
    longest = max((len(sentence) for sentence in rows), default=0)
    char_ids = np.zeros((len(rows), longest, width), dtype=np.int64)  # (B, T, C)
    for padded, sentence in zip(char_ids, rows, strict=True):
        padded[: len(sentence)] = sentence
    return char_ids


def sentences_to_char_ids(sentences: Sequence[Sequence[str]], indexer: Indexer) -> Ids:
    """Tokens of several sentences → padded `char_ids` (B, T, C) without boundaries."""
    for number, sentence in enumerate(sentences):
        if isinstance(sentence, str):
            raise InputError(
                f"sentence {number} is the str {sentence[:40]!r}: a sentence is a list of tokens here; "
                "split it with elmokit.tokenize first."
            )
        if (wrong := next((token for token in sentence if not isinstance(token, str)), None)) is not None:
            raise InputError(f"sentence {number} has the token {wrong!r}: tokens are str, not {type(wrong).__name__}.")
    return pad_sentences([indexer.to_char_ids(sentence) for sentence in sentences], indexer.width)
