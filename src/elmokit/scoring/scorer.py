"""Exact log probabilities of every word of windows of text, on all cores and in bounded memory.

Almost all the time is spent in the softmax. Sentences that start from zero often have the same beginning (or the same
end, for the backward direction), so it is computed once for each distinct beginning in a batch.

Notation: R rows, T steps, N = R·T positions in step order, n of them in use, K distinct tokens, P width of a direction.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.arguments import shown
from elmokit.cores import usable_cores
from elmokit.corpus.windows import NO_TARGET, Window, read_in_order, sentence_in_windows, sentences_as_rows
from elmokit.errors import ConfigError
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.model.engines import Engine
from elmokit.model.engines.choose import inference_engine, resolve_precision, word_encoder
from elmokit.model.engines.workers import Workers
from elmokit.model.lstm import LstmState
from elmokit.scoring.log_probs import target_log_probs

_NUM_STEPS = 32
"""Steps of a window when rows read text in order."""
_PIECE_PREDICTIONS = 512
"""Predictions of a direction whose softmax one thread computes at a time."""
_BATCH_SENTENCES, _BATCH_PREDICTIONS = 512, 4096
"""Maximum batch size for sentences that start from zero; a longer sentence runs separately, in windows."""

Scored = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Targets and their log probabilities, (2, R, T) each."""


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows to run together: of similar length, and not too many."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
        if batch and (len(batch) >= _BATCH_SENTENCES or (len(batch) + 1) * (lengths[row] + 1) > _BATCH_PREDICTIONS):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


class _Types(NamedTuple):
    """The vectors of a window's distinct tokens, and the position of each token among them."""

    vectors: Tensor  # (K, P)
    places: Tensor  # (K,)


_FIRST_SENTENCES, _BLOCK_SENTENCES, _BLOCK_PREDICTIONS = 64, 4096, 65_536
"""How much is read before scores are returned: little at first, then twice as much each time, up to these bounds."""


class Scorer:
    """Runs windows through a model, with directions and parts of the softmax in parallel.

    `precision` is that of the products in the encoder and the LSTMs (see `Embedder`); the softmax is float32.
    """

    def __init__(self, bilm: BiLM, threads: int | None = None, precision: str = "float32") -> None:
        if not isinstance(bilm, BiLM):
            raise ConfigError(f"bilm is {shown(bilm)}: give a loaded model, as elmokit.load gives it.")
        if bilm.softmax is None or bilm.vocabulary is None:
            raise ConfigError(
                "this model has no softmax, so it gives words no probability (published models lack theirs): "
                "train one with elmokit finetune."
            )
        self.bilm = bilm
        self.vocabulary = bilm.vocabulary
        like = next(bilm.parameters())
        self.device = like.device
        on_cpu = self.device.type == "cpu"
        self.precision = resolve_precision(precision, like)
        self._engine: Engine = inference_engine(like, self.precision)
        self._encode_types = word_encoder(bilm.encoder, self.precision)
        self._workers = Workers((threads or usable_cores()) if on_cpu else 1)

    def close(self) -> None:
        """End the threads."""
        self._workers.close()

    def in_order(self, sentences: Sequence[str], num_rows: int) -> Iterator[Scored]:
        """Consecutive windows of rows that each read a part of the text and carry their state."""
        return self._carried(
            read_in_order(sentences, self.vocabulary, self.bilm.indexer, num_rows=num_rows, num_steps=_NUM_STEPS),
            num_rows,
        )

    def from_zero(self, block: Sequence[Sequence[str]]) -> Iterator[tuple[list[int], Scored]]:
        """Targets and log probabilities (2, R, T) of sentences, one per row, with their numbers in the block."""
        lengths = [len(sentence) for sentence in block]
        longest = sorted(row for row, length in enumerate(lengths) if length + 1 > _BATCH_PREDICTIONS)
        short = sorted(set(range(len(block))) - set(longest))
        batches = [[short[place] for place in batch] for batch in _batches([lengths[row] for row in short])]
        texts = [[block[row] for row in batch] for batch in batches]
        windows = [sentences_as_rows(text, self.vocabulary, self.bilm.indexer) for text in texts]
        types = list(self._workers.map(self._encode, windows))

        def score(job: tuple[int, int]) -> NDArray[np.float32]:
            number, side = job
            window, start = windows[number], self.bilm.zero_state(len(texts[number]))
            top, _ = self._run(window, types[number], side, start[side])  # (N, P)
            return self._score_beginnings(window, side, top, _beginnings(texts[number], side))

        done = self._workers.map(score, [(number, side) for number in range(len(batches)) for side in (0, 1)])
        for batch, window in zip(batches, windows, strict=True):
            yield batch, (window.targets, np.stack([next(done), next(done)]))
        for row in longest:
            yield [row], self._score_long(block[row])

    def _score_long(self, tokens: Sequence[str]) -> Scored:
        """Score a sentence that is too long to run in one window."""
        steps = _BATCH_PREDICTIONS
        windows = sentence_in_windows(tokens, self.vocabulary, self.bilm.indexer, num_steps=steps)
        targets, log_probs = zip(*self._carried(windows, 1), strict=True)
        return np.concatenate(targets, 2), np.concatenate(log_probs, 2)

    def _carried(self, windows: Iterable[Window], num_rows: int) -> Iterator[Scored]:
        """Score windows in order, each starting from the state after the one before."""
        state = self.bilm.zero_state(num_rows)
        for window in windows:
            scored, state = self._score_window(window, state)
            yield scored

    def _score_window(self, window: Window, state: BiLMState) -> tuple[Scored, BiLMState]:
        (types,) = self._workers.map(self._encode, [window])
        runs = list(self._workers.map(lambda side: self._run(window, types, side, state[side]), (0, 1)))
        places = [np.flatnonzero(_step_by_step(own) != NO_TARGET) for own in window.targets]
        pieces = [
            (side, places[side][begin : begin + _PIECE_PREDICTIONS])
            for side in (0, 1)
            for begin in range(0, len(places[side]), _PIECE_PREDICTIONS)
        ]

        def score(piece: tuple[int, NDArray[np.int64]]) -> NDArray[np.float32]:
            side, chosen = piece
            return self._log_probs(runs[side][0], window.targets[side], chosen, chosen)

        found = np.zeros((2, window.targets[0].size), dtype=np.float32)  # (2, N)
        for (side, chosen), log_probs in zip(pieces, self._workers.map(score, pieces), strict=True):
            found[side, chosen] = log_probs
        log_probs = found.reshape(2, -1, state.num_rows).swapaxes(1, 2)  # (2, R, T)
        return (window.targets, log_probs), BiLMState(*(after for _, after in runs))

    def _encode(self, window: Window) -> _Types:
        char_ids = torch.from_numpy(window.char_ids).to(self.device)
        order, vectors = self.bilm.encoder.encode_by_length(char_ids, self._encode_types)
        return _Types(vectors, order.argsort())

    def _run(self, window: Window, types: _Types, side: int, state: LstmState) -> tuple[Tensor, LstmState]:
        """The top layer (N, P) of a direction, in step order, and the state after it."""
        lstm = (self.bilm.forward_lstm, self.bilm.backward_lstm)[side]
        num_rows, num_steps = window.inputs.shape[1:]
        index = types.places[torch.from_numpy(_step_by_step(window.inputs[side])).to(self.device)]  # (N,)
        outputs, after = lstm(types.vectors, [num_rows] * num_steps, state, index=index, engine=self._engine)
        return outputs[-1], after

    def _score_beginnings(
        self, window: Window, side: int, top: Tensor, beginnings: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Log probabilities (R, T), with one softmax for all positions that have read the same words."""
        flat = _step_by_step(beginnings)  # (N,)
        real = np.flatnonzero(flat != NO_TARGET)  # (n,)
        _, first, which = np.unique(flat[real], return_index=True, return_inverse=True)  # …, (m,), (n,)
        found = np.zeros(flat.size, dtype=np.float32)
        found[real] = self._log_probs(top, window.targets[side], real, real[first][which])
        return found.reshape(-1, len(beginnings)).T

    def _log_probs(
        self, top: Tensor, targets: NDArray[np.int64], places: NDArray[np.int64], outputs: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """The log p (n,) of the targets (R, T) at some positions (n,), each from the output at a position in (n,)."""
        softmax = self.bilm.softmax
        assert softmax is not None
        own = torch.from_numpy(_step_by_step(targets)[places]).to(self.device)  # (n,)
        at = torch.from_numpy(outputs).to(self.device)  # (n,)
        return target_log_probs(top, own, softmax, self.bilm.token_table, at).float().cpu().numpy()


def _step_by_step(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """From (R, T) to (N,) in step order: all rows of a step, then those of the next."""
    return np.ascontiguousarray(array.T).reshape(-1)


def _beginnings(sentences: Sequence[Sequence[str]], side: int) -> NDArray[np.int64]:
    """An id (R, T) for the words that a direction has read at each position; NO_TARGET at padding."""
    known: dict[tuple[int, str], int] = {}
    found = np.full((len(sentences), max(map(len, sentences)) + 1), NO_TARGET, dtype=np.int64)  # (R, T)
    for row, tokens in enumerate(sentences):
        number = 0
        numbers = [number]
        for token in reversed(tokens) if side else tokens:
            number = known.setdefault((number, token), len(known) + 1)
            numbers.append(number)
        found[row, : len(numbers)] = numbers
    return found


def sentence_blocks(sentences: Iterable[Sequence[str]]) -> Iterator[list[list[str]]]:
    """Consecutive sentences that are read before any of them is scored; the first blocks are small."""
    block: list[list[str]] = []
    most, num_predictions = min(_FIRST_SENTENCES, _BLOCK_SENTENCES), 0
    for sentence in sentences:
        block.append(list(sentence))
        num_predictions += len(block[-1]) + 1
        if len(block) >= most or num_predictions >= _BLOCK_PREDICTIONS:
            yield block
            block, most, num_predictions = [], min(2 * most, _BLOCK_SENTENCES), 0
    if block:
        yield block
