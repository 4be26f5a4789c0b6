"""Sentences → vectors: which sentences run together, on which thread, and where their vectors go.

Notation: B sentences of a batch, T positions of the longest with its boundaries, K distinct words, N tokens in all, P
width of a direction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmokit.embedding.pooling import Floats, Selection
from elmokit.embedding.types import TypeTable
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.model.engines import Engine
from elmokit.model.engines.infer import fast_engine
from elmokit.model.engines.plain import PlainEngine
from elmokit.model.engines.workers import Workers
from elmokit.model.lstm import LstmState
from elmokit.model.packing import Packing

Sentence = tuple[str, ...]
CACHE_BYTES = 64 * 2**20
"""Memory for the token layer of words seen before."""
MAX_ROWS = 128
MAX_TOKENS = 4096
WARM_PREFIX: Sentence = (".",)
"""What a warm start has read: something that stands before sentences of any kind, in most languages."""


@dataclass(frozen=True)
class Batch:
    """Sentences that run together."""

    numbers: tuple[int, ...]
    """Which sentences."""
    grid: Tensor  # (B, T) rows of the word table, boundaries included, 0 behind the end
    lengths: Tensor  # (B,) positions of each sentence with its boundaries
    packing: Packing


class SentenceRunner:
    """Runs sentences through a biLM as fast as the machine allows, keeping what can be used again."""

    def __init__(self, bilm: BiLM, *, threads: int, int8: bool = False, warm: bool = False) -> None:
        self.bilm = bilm
        self.workers = Workers(threads)
        self.types = TypeTable(bilm, capacity=CACHE_BYTES // (4 * bilm.config.lstm.output_dim))
        self.device = next(bilm.parameters()).device
        self.engine: Engine = fast_engine() if self.device.type == "cpu" else PlainEngine()
        self.carried: BiLMState | None = None
        self._warm: BiLMState | None = None
        self._start_warm = warm

    def run(self, sentences: Sequence[Sentence], selection: Selection, max_rows: int | None = None) -> Iterator[Floats]:
        """Vectors of each sentence, in order, every sentence from the same first state and computed once."""
        distinct = list(dict.fromkeys(sentences))
        table, rows = self._words(distinct)
        results: dict[Sentence, Floats] = {}
        order = sorted(range(len(distinct)), key=lambda number: -len(distinct[number]))
        batches = [self._batch(numbers, rows) for numbers in _cut(order, rows, max_rows or MAX_ROWS)]
        for batch, (vectors, _) in zip(batches, self._run_batches(batches, table, selection), strict=True):
            for place, number in enumerate(batch.numbers):
                results[distinct[number]] = vectors[..., place, 1 : len(rows[number]) - 1, :].copy()
        for sentence in sentences:
            yield results[sentence]

    def run_in_order(self, sentences: Sequence[Sentence], selection: Selection, batch_size: int) -> Iterator[Floats]:
        """Vectors of each sentence, in batches of consecutive ones; each row goes on where it stopped."""
        table, rows = self._words(list(dict.fromkeys(sentences)))
        by_sentence = dict(zip(dict.fromkeys(sentences), rows, strict=True))
        for start in range(0, len(sentences), batch_size):
            part = [by_sentence[sentence] for sentence in sentences[start : start + batch_size]]
            batch = self._batch(tuple(range(len(part))), part)
            before = self.carried or self.bilm.zero_state(len(part))
            full = before.resized(max(before.num_rows, len(part)))
            ((vectors, after),) = self._run_batches([batch], table, selection, full.resized(len(part)))
            self.carried = full.updated(after)
            for place, row in enumerate(part):
                yield vectors[..., place, 1 : len(row) - 1, :].copy()

    def _words(self, sentences: Sequence[Sentence]) -> tuple[Tensor, list[list[int]]]:
        """The table (2 + K, P) of all words, and each sentence as its rows there, boundaries included."""
        places: dict[str, int] = {}
        rows = [[0, *(places.setdefault(token, len(places) + 2) for token in s), 1] for s in sentences]
        return self.types.look_up(list(places), self.workers.map).to(self.device), rows

    def _batch(self, numbers: Sequence[int], rows: Sequence[Sequence[int]]) -> Batch:
        lengths = torch.tensor([len(rows[number]) for number in numbers], device=self.device)  # (B,)
        grid = np.zeros((len(numbers), int(lengths.max())), dtype=np.int64)  # (B, T)
        for place, number in enumerate(numbers):
            grid[place, : len(rows[number])] = rows[number]
        packing = Packing.from_lengths(lengths, grid.shape[1])
        return Batch(tuple(numbers), torch.from_numpy(grid).to(self.device), lengths, packing)

    def _run_batches(
        self, batches: Sequence[Batch], table: Tensor, selection: Selection, state: BiLMState | None = None
    ) -> Iterator[tuple[Floats, BiLMState]]:
        """Vectors (B, T, D) or (L, B, T, D) of each batch, and the state after it."""
        num_layers = max(selection.needed)
        sides = (self.bilm.forward_lstm, self.bilm.backward_lstm)

        def run_side(job: tuple[Batch, int]) -> tuple[list[Tensor], LstmState]:
            batch, side = job
            packing = batch.packing
            index = packing.backward_index if side else packing.forward_index
            before = (state or self._first_state(len(batch.numbers)))[side].select(packing.order)
            types = batch.grid.flatten()[index]  # (N,)
            return sides[side].forward(
                table, packing.batch_sizes, before, index=types, num_layers=num_layers, engine=self.engine
            )

        jobs = [(batch, side) for batch in batches for side in (0, 1)]
        done = self.workers.map(run_side, jobs if num_layers else [])
        for batch in batches:
            outputs = [next(done), next(done)] if num_layers else []
            layers = [self._layer(batch, table, [side[0] for side in outputs], depth) for depth in selection.needed]
            restored = batch.packing.order.argsort()
            after = BiLMState(*(side[1].select(restored) for side in outputs)) if outputs else self.bilm.zero_state(0)
            yield selection.combine(layers), after

    def _layer(self, batch: Batch, table: Tensor, sides: Sequence[list[Tensor]], depth: int) -> Floats:
        """One layer of a batch, (B, T, 2P): what stands behind a sentence's end is never read."""
        num_rows, num_steps = batch.grid.shape
        width = table.shape[1]
        if depth == 0:
            tokens = table[batch.grid]  # (B, T, P)
            return torch.cat([tokens, tokens], dim=-1).cpu().numpy()
        layer = table.new_empty(num_rows * num_steps, 2 * width)
        packing = batch.packing
        layer[packing.forward_index, :width] = sides[0][depth - 1]
        layer[packing.backward_index, width:] = sides[1][depth - 1]
        return layer.view(num_rows, num_steps, -1).cpu().numpy()

    def _first_state(self, num_rows: int) -> BiLMState:
        if not self._start_warm:
            return self.bilm.zero_state(num_rows)
        if self._warm is None:
            with torch.inference_mode():
                self._warm = self.bilm(self.bilm.to_char_ids([WARM_PREFIX])).state
        return BiLMState(*(LstmState(*(t.expand(-1, num_rows, -1) for t in side)) for side in self._warm))


def _cut(order: Sequence[int], rows: Sequence[Sequence[int]], max_rows: int) -> Iterator[tuple[int, ...]]:
    """Cut sentences, longest first, into batches of bounded rows and positions."""
    batch: list[int] = []
    for number in order:
        if batch and (len(batch) == max_rows or (len(batch) + 1) * len(rows[batch[0]]) > MAX_TOKENS):
            yield tuple(batch)
            batch = []
        batch.append(number)
    if batch:
        yield tuple(batch)
