"""Pad sentences of different length into one array."""

from collections.abc import Iterable, Sequence

import numpy as np

from elmokit.text.characters import Ids, Indexer
from elmokit.text.tokens import check_sentences


def pad_sentences(rows: Sequence[Ids], width: int) -> Ids:
    """Stack the rows (T_i, C) of sentences into (B, T, C), zeros on the right."""
    longest = max((len(sentence) for sentence in rows), default=0)
    char_ids = np.zeros((len(rows), longest, width), dtype=np.int64)  # (B, T, C)
    for padded, sentence in zip(char_ids, rows, strict=True):
        padded[: len(sentence)] = sentence
    return char_ids


def sentences_to_char_ids(sentences: Iterable[Sequence[str]], indexer: Indexer) -> Ids:
    """Tokens of several sentences → padded `char_ids` (B, T, C) without boundaries."""
    rows = [indexer.to_char_ids(sentence) for sentence in check_sentences(sentences)]
    return pad_sentences(rows, indexer.width)
