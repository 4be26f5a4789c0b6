"""A cache of the token vectors (layer 0) of words.

The token vector of a word does not depend on its sentence, and most words of a text have been seen before. So the
character CNN runs only for new words. On the portable path it runs in blocks of a fixed size, so that the bits of a
vector never depend on which other words were new at the same time; in the native library they never do.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.model.bilm import BiLM
from elmokit.model.engines.choose import InferencePrecision, word_encoder
from elmokit.model.engines.native_encoder import NativeEncoder

Ids = NDArray[np.int64]
Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

BLOCK = 64
"""Number of words that the character CNN processes together."""


class WordVectorCache:
    """The token layer of the words of a window, from a bounded cache and the encoder."""

    def __init__(self, bilm: BiLM, *, capacity: int, precision: InferencePrecision = "float32") -> None:
        self._bilm = bilm
        self._encode_types = word_encoder(bilm.encoder, precision)
        self._capacity = capacity
        self._slots: dict[str, int] = {}  # in the order of last use, oldest first
        self._free: list[int] = list(range(capacity - 1, -1, -1))
        self._lock = threading.Lock()
        dtype = next(bilm.parameters()).dtype
        self._vectors = torch.empty(0, bilm.config.lstm.output_dim, dtype=dtype)  # (rows in use, P), grown as needed
        self._begin, self._end = torch.as_tensor(bilm.indexer.begin), torch.as_tensor(bilm.indexer.end)
        self._boundaries: Tensor | None = None  # (2, P)

    def look_up(self, words: list[str], run: Mapper) -> Tensor:
        """Vectors (2 + K, P): sentence begin, sentence end, then the words, in their order.

        `run` maps the encoder over blocks of the words, which are distinct, possibly in parallel.
        """
        with self._lock:
            return self._look_up(words, run)

    def _look_up(self, words: list[str], run: Mapper) -> Tensor:
        fresh = [word for word in words if word not in self._slots]
        vectors = self._encode(fresh, run)
        place = {word: row for row, word in enumerate(fresh)}
        table = self._vectors.new_empty(2 + len(words), self._vectors.shape[1])  # (2 + K, P)
        table[:2] = self._boundary_vectors()
        old = [(row, self._slots[word]) for row, word in enumerate(words, start=2) if word not in place]
        new = [(row, place[word]) for row, word in enumerate(words, start=2) if word in place]
        for pairs, source in ((old, self._vectors), (new, vectors)):
            if pairs:
                rows, places = torch.tensor(pairs).unbind(1)
                table[rows] = source[places]
        self._remember(words, table[2:])
        return table

    def _boundary_vectors(self) -> Tensor:
        if self._boundaries is None:
            self._boundaries = self._encode_block(torch.stack([self._begin, self._end]))
        return self._boundaries

    def _encode(self, words: list[str], run: Mapper) -> Tensor:
        # Words of similar length share a block, so that the CNN reads few padding characters.
        order = sorted(range(len(words)), key=lambda index: len(words[index]))
        rows = self._bilm.indexer.to_char_ids([words[index] for index in order])  # (K, C)
        vectors = self._vectors.new_empty(len(words), self._vectors.shape[1])  # (K, P)
        if words:
            blocks = run(self._encode_block, torch.from_numpy(rows).split(BLOCK))
            vectors[torch.tensor(order)] = torch.cat(list(blocks))
        return vectors

    def _encode_block(self, char_ids: Tensor) -> Tensor:
        """The vectors of at most `BLOCK` rows, on the portable path computed as a full block."""
        device = next(self._bilm.parameters()).device
        with torch.inference_mode():
            if isinstance(self._encode_types, NativeEncoder):
                return self._encode_types(char_ids)
            full = char_ids[torch.arange(BLOCK).clamp(max=len(char_ids) - 1)].to(device)  # (BLOCK, C)
            return self._encode_types(full)[: len(char_ids)].cpu()

    def _remember(self, words: list[str], vectors: Tensor) -> None:
        """Store the words just used as the newest; evict the oldest."""
        rows, slots = [], []
        for row, word in enumerate(words[-self._capacity :], start=max(0, len(words) - self._capacity)):
            if (slot := self._slots.pop(word, None)) is None:
                slot = self._free.pop() if self._free else self._slots.pop(next(iter(self._slots)))
                rows.append(row)
                slots.append(slot)
            self._slots[word] = slot
        if slots:
            if (missing := max(slots) + 1 - len(self._vectors)) > 0:
                room = min(self._capacity - len(self._vectors), max(missing, len(self._vectors) // 2))
                self._vectors = torch.cat([self._vectors, self._vectors.new_empty(room, self._vectors.shape[1])])
            self._vectors[torch.tensor(slots)] = vectors[torch.tensor(rows)]
