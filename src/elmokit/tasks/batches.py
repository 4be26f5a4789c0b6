"""Examples → batches: token sequences with everything that is looked up for them, and epochs that can be resumed.

Notation: B examples, T tokens of the longest, K different tokens, C characters of the longest of them, L layers, D
width of a layer; S sentences that a live biLM reads, U tokens of the longest of them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from elmokit.embedding.records import Vectors
from elmokit.errors import InputError
from elmokit.random_order import random_order
from elmokit.tasks.words import WordTable
from elmokit.text.batching import sentences_to_char_ids
from elmokit.text.characters import Indexer

Text = tuple[tuple[str, ...], ...]
"""A token sequence of an example, split into the sentences that the biLM reads one by one."""
LayerReader = Callable[[Sequence[str]], Vectors]
"""Returns the layers (L, T, D) of a sentence, from a cache or from memory."""
Example = TypeVar("Example")
_BUCKET_BATCHES = 50
_MAX_BYTES = 30
"""Of a token, for the task's own character features."""


@dataclass(frozen=True)
class LiveSentences:
    """The input of a biLM that is trained with the task, and the positions of its vectors in the batch."""

    char_ids: Tensor  # (S, U, C)
    places: Tensor  # (B, T): which of the S·U places; 0 where there is no token


@dataclass(frozen=True)
class TokenTypes:
    """The distinct tokens of a batch, for features of a token alone; the first entry is padding."""

    char_ids: Tensor  # (K, C); 0 is no character
    rows: Tensor  # (B, T): which of the K


@dataclass(frozen=True)
class TokenBatch:
    """One token sequence per example."""

    mask: Tensor  # (B, T)
    word_rows: Tensor  # (B, T)
    types: TokenTypes
    """For the task's own character features."""
    layers: Tensor | None  # (L, B, T, D) of a frozen biLM
    live: LiveSentences | None

    @property
    def lengths(self) -> Tensor:
        """(B,)."""
        return self.mask.sum(1)


class TokenLookup:
    """Looks up the features of tokens for task models.

    Args:
        table: rows of the task's own word vectors.
        layers_shape: (L, D) of a frozen biLM; None if there is none.
        indexer: the indexer of a biLM that is trained with the task; None if there is none.
    """

    def __init__(
        self, table: WordTable, *, layers_shape: tuple[int, int] | None = None, indexer: Indexer | None = None
    ) -> None:
        self.table, self.layers_shape, self.indexer = table, layers_shape, indexer

    def batch(self, texts: Sequence[Text], read: LayerReader | None = None) -> TokenBatch:
        """Pad and look up; `read` returns the layers of a sentence, if there is a frozen biLM."""
        tokens = [[token for sentence in text for token in sentence] for text in texts]
        if not all(tokens):
            raise InputError("an example has no token: leave empty texts out.")
        shape = (len(tokens), max(map(len, tokens)))
        mask, rows = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=np.int64)  # (B, T)
        for number, own in enumerate(tokens):
            mask[number, : len(own)] = True
            rows[number, : len(own)] = self.table.to_rows(own)
        return TokenBatch(
            torch.from_numpy(mask),
            torch.from_numpy(rows),
            _find_types(tokens, shape),
            None if self.layers_shape is None else _gather_layers(texts, shape, self.layers_shape, read),
            None if self.indexer is None else _live_sentences(texts, shape, self.indexer),
        )


def _gather_layers(
    texts: Sequence[Text], shape: tuple[int, int], layers_shape: tuple[int, int], read: LayerReader | None
) -> Tensor:
    assert read is not None
    layers = np.zeros((layers_shape[0], *shape, layers_shape[1]), dtype=np.float32)  # (L, B, T, D)
    for row, place, sentence in _find_sentences(texts):
        layers[:, row, place : place + len(sentence)] = read(sentence)
    return torch.from_numpy(layers)


def _find_sentences(texts: Sequence[Text]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """The sentences that are not empty, each with its row and the position of its first token."""
    for row, text in enumerate(texts):
        place = 0
        for sentence in text:
            if sentence:
                yield row, place, sentence
            place += len(sentence)


def _find_types(tokens: Sequence[Sequence[str]], shape: tuple[int, int]) -> TokenTypes:
    """Bytes of UTF-8 plus one, at least three wide so that a filter of three fits."""
    numbers = {"": 0}
    rows = np.zeros(shape, dtype=np.int64)  # (B, T)
    for row, own in enumerate(tokens):
        rows[row, : len(own)] = [numbers.setdefault(token, len(numbers)) for token in own]
    data = [token.encode("utf-8", "surrogatepass")[:_MAX_BYTES] for token in numbers]
    char_ids = np.zeros((len(data), max(3, *map(len, data))), dtype=np.int64)  # (K, C)
    for number, token in enumerate(data):
        char_ids[number, : len(token)] = np.frombuffer(token, dtype=np.uint8).astype(np.int64) + 1
    return TokenTypes(torch.from_numpy(char_ids), torch.from_numpy(rows))


def _live_sentences(texts: Sequence[Text], shape: tuple[int, int], indexer: Indexer) -> LiveSentences:
    found = list(_find_sentences(texts))
    char_ids = sentences_to_char_ids([list(sentence) for _, _, sentence in found], indexer)  # (S, U, C)
    places = np.zeros(shape, dtype=np.int64)  # (B, T)
    for number, (row, place, sentence) in enumerate(found):
        places[row, place : place + len(sentence)] = number * char_ids.shape[1] + np.arange(len(sentence))
    return LiveSentences(torch.from_numpy(char_ids), torch.from_numpy(places))


class EpochBatches(Generic[Example]):
    """Batches of examples of similar length, in a new order each epoch; the position can be saved and restored.

    Args:
        examples: all training examples.
        size: the length of an example, to sort by.
        batch_size: examples per batch.
        num_epochs: number of passes over the examples.
        seed: determines the order of every epoch.
        collate: makes a batch from examples.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        *,
        size: Callable[[Example], int],
        batch_size: int,
        num_epochs: int,
        seed: int,
        collate: Callable[[list[Example]], Any],
    ) -> None:
        self.examples, self.batch_size, self.num_epochs, self.seed = examples, batch_size, num_epochs, seed
        self._sizes = np.array([size(example) for example in examples])
        self._collate = collate
        self.epoch = 0
        self._place = 0
        self._order: list[np.ndarray[Any, np.dtype[np.int64]]] | None = None

    @property
    def num_batches(self) -> int:
        """Number of batches per epoch, or one more."""
        return -(-len(self.examples) // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.epoch >= self.num_epochs:
            raise StopIteration
        if self._order is None:
            self._order = self._shuffle()
        batch = [self.examples[int(number)] for number in self._order[self._place]]
        self._place += 1
        if self._place == len(self._order):
            self.epoch, self._place, self._order = self.epoch + 1, 0, None
        return self._collate(batch)

    def _shuffle(self) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
        """Batches of an epoch: shuffle, sort by length within stretches of many batches, then shuffle the batches."""
        order = random_order(len(self.examples), self.seed, self.epoch, 0)
        stretch = self.batch_size * _BUCKET_BATCHES
        batches = []
        for start in range(0, len(order), stretch):
            part = order[start : start + stretch]
            part = part[np.argsort(self._sizes[part], kind="stable")]
            batches += [part[i : i + self.batch_size] for i in range(0, len(part), self.batch_size)]
            if len(batches[-1]) == 1 < self.batch_size and len(batches) > 1:  # too few for batch normalization
                batches[-2:] = [np.concatenate(batches[-2:])]
        return [batches[int(number)] for number in random_order(len(batches), self.seed, self.epoch, 1)]

    def state_dict(self) -> dict[str, int]:
        """The current position."""
        return {"epoch": self.epoch, "place": self._place, "num_examples": len(self.examples)}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue from a saved position."""
        if state["num_examples"] != len(self.examples):
            raise InputError(
                f"there are {len(self.examples):,} training examples, but {state['num_examples']:,} in the run to "
                "resume: give its files."
            )
        self.epoch, self._place, self._order = state["epoch"], state["place"], None


def in_order(examples: Sequence[Example], size: Callable[[Example], int], batch_size: int) -> Iterator[list[int]]:
    """Indices of examples, batch by batch, short ones first: for evaluation."""
    order = sorted(range(len(examples)), key=lambda number: size(examples[number]))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]
