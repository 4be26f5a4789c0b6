"""Compute the vectors of sentences: which ones run together, on which thread, and where their vectors go.

Notation: B rows of a batch, K distinct words, N tokens in all, P width of a direction, D = 2P.

Sentences are placed end to end in B rows of nearly equal length, and the state of a row is reset where a new sentence
begins. So every step of the recurrence uses all rows, whatever the lengths of the sentences; there is no padding, and
the rest of the batch affects only rounding.
"""

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.embedding.pooling import Floats, Selection
from elmokit.embedding.word_cache import WordVectorCache
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.model.engines.choose import InferencePrecision, inference_engine
from elmokit.model.engines.infer import NativeEngine, PortableEngine
from elmokit.model.engines.workers import Workers
from elmokit.model.lstm import LstmState

Sentence = tuple[str, ...]
CACHE_BYTES, CACHE_WORDS = 64 * 2**20, 100_000
"""Size of the cache for token vectors in bytes, and the maximum number of words in it."""
MAX_ROWS = 128
"""Maximum rows per batch: enough for matrix products at full speed, few enough to stay in a core's cache."""
MAX_TOKENS = 8192
"""Maximum tokens per batch; a longer sentence is a separate batch."""
WARM_PREFIX: Sentence = (".",)
"""The prefix that a warm start has read: it can precede sentences of any kind, in most languages."""


@dataclass(frozen=True)
class Batch:
    """Sentences that run together, and the position of each token in the packed order of each direction."""

    types: Tensor  # (N,) rows of the word table, sentence after sentence, boundaries included
    bounds: NDArray[np.int64]  # (S + 1,) where each sentence begins in it
    batch_sizes: tuple[int, ...]
    order: Tensor  # (B,) number of each row, longest first
    forward_place: Tensor  # (N,)
    backward_place: Tensor  # (N,)
    starts: Tensor  # (N,) in packed order, of either direction: which tokens begin a sentence

    @classmethod
    def plan(cls, sentences: Sequence[Sequence[int]], rows: Sequence[int], device: torch.device) -> "Batch":
        """Place sentences (as rows of the word table) one after the other in their assigned rows."""
        lengths = np.array([len(sentence) for sentence in sentences])  # (S,)
        row_of = np.array(rows)
        offsets, totals = np.empty_like(lengths), np.zeros(max(rows) + 1, dtype=np.int64)
        for number, row in enumerate(rows):
            offsets[number] = totals[row]
            totals[row] += lengths[number]
        order = np.argsort(-totals, kind="stable")  # (B,)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        sizes = (totals[order, None] > np.arange(totals.max())).sum(0)  # (steps,)
        first = np.concatenate([[0], np.cumsum(sizes)])  # (steps + 1,)
        bounds = np.concatenate([[0], np.cumsum(lengths)])  # (S + 1,)
        within = np.arange(bounds[-1]) - np.repeat(bounds[:-1], lengths)  # (N,) place in the sentence
        base, ranks = np.repeat(offsets, lengths), np.repeat(rank[row_of], lengths)  # (N,), (N,)
        forward = first[base + within] + ranks  # (N,)
        backward = first[base + np.repeat(lengths, lengths) - 1 - within] + ranks  # (N,)
        starts = np.zeros(bounds[-1], dtype=bool)
        starts[forward[bounds[:-1]]] = True

        def tensor(array: NDArray[np.generic]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        types = np.concatenate([np.asarray(sentence, dtype=np.int64) for sentence in sentences])
        return cls(
            tensor(types),
            bounds,
            tuple(sizes.tolist()),
            tensor(order),
            tensor(forward),
            tensor(backward),
            tensor(starts),
        )


@dataclass(frozen=True)
class _Window:
    """Sentences that are deduplicated and batched together."""

    sentences: Sequence[Sentence]
    counts: Counter[Sentence]
    table: Tensor  # (2 + K, P) of its words
    batches: Sequence[Batch]  # of distinct sentences
    numbers: Sequence[Sequence[int]]  # which ones, for each batch


class SentenceRunner:
    """Runs sentences through a biLM as fast as the machine allows, caching what can be reused."""

    def __init__(
        self,
        bilm: BiLM,
        *,
        threads: int,
        precision: InferencePrecision = "float32",
        warm: bool = False,
        max_tokens: int | None = None,
    ) -> None:
        self.bilm = bilm
        self.max_tokens = max_tokens or MAX_TOKENS
        self.workers = Workers(threads)
        self._beside = Workers(1)
        capacity = min(CACHE_WORDS, CACHE_BYTES // (4 * bilm.config.lstm.output_dim))
        self.types = WordVectorCache(bilm, capacity=capacity, precision=precision)
        self.device = next(bilm.parameters()).device
        self.precision = precision
        self.engine = inference_engine(next(bilm.parameters()), precision)
        self.carried: BiLMState | None = None
        self._warm: BiLMState | None = None
        self._start_warm = warm

    @property
    def precision_key(self) -> str:
        """The precision, for bfloat16 with its instructions: what must not be mixed in one file or cache."""
        if self.precision == "bfloat16" and isinstance(self.engine, NativeEngine):
            return f"bfloat16-{self.engine.library.kind}"
        return self.precision

    @property
    def engine_name(self) -> str:
        """The engine of the LSTMs; the vectors of different engines differ in the last bits."""
        if isinstance(self.engine, NativeEngine):
            library = self.engine.library
            if library.precision == "bfloat16":
                return f"native bfloat16 by {library.kind}"
            name = "native" if library.precision == "float32" else "native int8"
            return name if library.same_bits else f"{name} without FMA"
        return "portable" if isinstance(self.engine, PortableEngine) else "plain"

    def run(
        self, windows: Iterable[Sequence[Sentence]], selection: Selection, max_rows: int | None = None
    ) -> Iterator[Iterator[Floats]]:
        """For each window, the vectors of its sentences, in order; all sentences start from the same state.

        Duplicates in a window are computed once. The next window is taken and prepared while the workers compute the
        last batches of this one. An error in it is raised only when its turn has come.
        """
        source, coming, failures = iter(windows), deque[_Window](), list[Exception]()
        prepared = deque[_Window]()

        def prepare() -> bool:
            try:
                if failures or (sentences := next(source, None)) is None:
                    return False
                window = self._prepare(sentences, max_rows, self._beside if coming else self.workers)
            except Exception as error:
                failures.append(error)
                return False
            coming.append(window)
            prepared.append(window)
            return True

        def batches() -> Iterator[tuple[Batch, Tensor]]:
            while prepared or prepare():
                window = prepared.popleft()
                yield from ((batch, window.table) for batch in window.batches)

        done = self._run_batches(batches(), selection)
        while coming or prepare():
            yield self._results(coming.popleft(), done, selection)
        if failures:
            raise failures[0]

    def _prepare(self, sentences: Sequence[Sentence], max_rows: int | None, workers: Workers) -> "_Window":
        counts = Counter(sentences)
        table, rows = self._words(list(counts), workers)
        groups = list(_cut(rows, max_rows or MAX_ROWS, self.max_tokens))
        batches = [Batch.plan([rows[number] for number in numbers], places, self.device) for numbers, places in groups]
        return _Window(sentences, counts, table, batches, [numbers for numbers, _ in groups])

    def _results(
        self, window: "_Window", done: Iterator[tuple[list[Floats], BiLMState | None]], selection: Selection
    ) -> Iterator[Floats]:
        """Vectors of each sentence of a window, in order."""
        left, kept = window.counts, dict[Sentence, Floats]()
        fresh = self._distinct_results(window, done, selection)
        for sentence in window.sentences:
            vectors = kept.pop(sentence) if sentence in kept else next(fresh)
            left[sentence] -= 1
            if left[sentence]:
                kept[sentence] = vectors
            yield vectors

    def _distinct_results(
        self, window: "_Window", done: Iterator[tuple[list[Floats], BiLMState | None]], selection: Selection
    ) -> Iterator[Floats]:
        """The same without duplicates; the memory of a batch is freed before waiting for the next one."""
        for batch, numbers in zip(window.batches, window.numbers, strict=True):
            layers, _ = next(done)
            for _, place in sorted((number, place) for place, number in enumerate(numbers)):
                yield selection.gather(layers, *batch.bounds[place : place + 2])
            del layers

    def run_in_order(self, sentences: Sequence[Sentence], selection: Selection, batch_size: int) -> Iterator[Floats]:
        """Vectors of each sentence, in batches of consecutive sentences; each row keeps its state between batches."""
        table, rows = self._words(sentences, self.workers)
        for start in range(0, len(sentences), batch_size):
            part = rows[start : start + batch_size]
            batch = Batch.plan(part, range(len(part)), self.device)
            before = self.carried or self.bilm.zero_state(len(part))
            full = before.resized(max(before.num_rows, len(part)))
            ((layers, after),) = self._run_batches([(batch, table)], selection, full.resized(len(part)))
            assert after is not None
            self.carried = full.updated(after)
            for place in range(len(part)):
                yield selection.gather(layers, *batch.bounds[place : place + 2])

    def _words(self, sentences: Sequence[Sentence], workers: Workers) -> tuple[Tensor, list[list[int]]]:
        """The table (2 + K, P) of all words, and each sentence as row numbers of the table, including boundaries."""
        places: dict[str, int] = {}
        rows = [[0, *(places.setdefault(token, len(places) + 2) for token in s), 1] for s in sentences]
        return self.types.look_up(list(places), workers.map).to(self.device), rows

    def _run_batches(
        self, batches: Iterable[tuple[Batch, Tensor]], selection: Selection, state: BiLMState | None = None
    ) -> Iterator[tuple[list[Floats], BiLMState | None]]:
        """For each batch with its table of words, the needed layers or their mix, each (N, D), and the state after it.

        Batches are taken only as fast as the workers compute.
        """
        # A carried state has all layers, whichever are requested.
        num_layers = max(selection.needed) if state is None else self.bilm.config.lstm.num_layers
        started = deque[tuple[Batch, Tensor]]()

        def jobs() -> Iterator[tuple[Batch, Tensor, int]]:
            for batch, table in batches:
                self._warm_up()
                started.append((batch, table))
                yield from ((batch, table, side) for side in (0, 1))

        def run_side(job: tuple[Batch, Tensor, int]) -> tuple[list[Tensor], LstmState | None]:
            batch, table, side = job
            if not num_layers:
                return [], None
            before = state or self._first_state(len(batch.order))
            outputs, after = self._run_side(batch, side, table, before, num_layers)
            place = batch.backward_place if side else batch.forward_place
            wanted = []  # highest first; each output is freed once it is copied
            for depth in range(num_layers, 0, -1):
                output = outputs.pop()  # (N, P)
                if depth in selection.needed:
                    wanted.append(output[place])
            return wanted, after

        done = self.workers.map(run_side, jobs(), lambda job: min(1.0, len(job[0].types) / self.max_tokens))
        for forward in done:
            backward = next(done)
            batch, table = started.popleft()
            # In numpy: torch would start threads of its own, which wait busily on the cores of the workers.
            layers = []  # each (N, D)
            if 0 in selection.needed:
                tokens = _to_numpy(table)[batch.types.cpu().numpy()]  # (N, P)
                layers.append(np.concatenate([tokens, tokens], axis=-1))
                del tokens
            while forward[0]:
                sides = _to_numpy(forward[0].pop()), _to_numpy(backward[0].pop())
                layers.append(np.concatenate(sides, axis=-1))
                del sides
            after = BiLMState(forward[1], backward[1]) if forward[1] and backward[1] else None
            combined = selection.combine(layers)
            del layers, forward, backward
            yield combined, after
            del combined

    def _run_side(
        self, batch: Batch, side: int, table: Tensor, state: BiLMState, num_layers: int | None = None
    ) -> tuple[list[Tensor], LstmState]:
        """One direction: the outputs (N, P) of its layers in packed order, and the state of each row."""
        lstm = self.bilm.backward_lstm if side else self.bilm.forward_lstm
        index = torch.empty_like(batch.types)
        index[batch.backward_place if side else batch.forward_place] = batch.types  # (N,)
        outputs, after = lstm.forward(
            table,
            batch.batch_sizes,
            state[side].select(batch.order),
            index=index,
            starts=batch.starts,
            num_layers=num_layers,
            engine=self.engine,
        )
        return outputs, after.select(batch.order.argsort())

    def _first_state(self, num_rows: int) -> BiLMState:
        if self._warm is None:
            return self.bilm.zero_state(num_rows)
        return BiLMState(*(LstmState(*(t.expand(-1, num_rows, -1) for t in side)) for side in self._warm))

    def _warm_up(self) -> None:
        """Read the prefix of a warm start, once and on the calling thread."""
        if self._start_warm and self._warm is None:
            table, rows = self._words([WARM_PREFIX], self.workers)
            batch = Batch.plan(rows, [0], self.device)
            with torch.inference_mode():
                sides = [self._run_side(batch, side, table, self.bilm.zero_state(1)) for side in (0, 1)]
            self._warm = BiLMState(*(after for _, after in sides))


def _cut(sentences: Sequence[Sequence[int]], max_rows: int, max_tokens: int) -> Iterator[tuple[list[int], list[int]]]:
    """Split sentences into batches of bounded size and assign rows: longest first, each to the shortest row."""
    batch: list[int] = []
    tokens = 0
    for number, sentence in enumerate(sentences):
        if batch and tokens + len(sentence) > max_tokens:
            yield _assign(batch, sentences, max_rows)
            batch, tokens = [], 0
        batch.append(number)
        tokens += len(sentence)
    if batch:
        yield _assign(batch, sentences, max_rows)


def _assign(batch: list[int], sentences: Sequence[Sequence[int]], max_rows: int) -> tuple[list[int], list[int]]:
    numbers = sorted(batch, key=lambda number: -len(sentences[number]))
    rows = [(0, row) for row in range(min(max_rows, len(numbers)))]
    places = []
    for number in numbers:
        total, row = rows[0]
        heapq.heapreplace(rows, (total + len(sentences[number]), row))
        places.append(row)
    return numbers, places


def _to_numpy(layer: Tensor) -> Floats:
    """A layer as an array; numpy has no bfloat16."""
    array: Floats = (layer.float() if layer.dtype == torch.bfloat16 else layer).cpu().numpy()
    return array
