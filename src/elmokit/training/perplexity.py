"""How well a biLM predicts text: exact log-probabilities of every word in both directions.

Perplexity is exp of the mean of −log p over all N + 1 predictions of every sentence, `<UNK>` counted as a word, by the
model's whole softmax. The text is read in order by a few rows, each its own stretch, and the state is carried along a
row; or every sentence starts from zero.

Notation: R rows, T steps, N = R·T places step by step, K distinct tokens, P width of a direction.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.cores import usable_cores
from elmokit.errors import ConfigError, InputError
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.model.engines import Engine
from elmokit.model.engines.infer import InferEngine
from elmokit.model.engines.native import find_native_cell
from elmokit.model.engines.plain import PlainEngine
from elmokit.model.engines.workers import compute_on_one_core
from elmokit.model.lstm import LstmState
from elmokit.text.input_kind import Input
from elmokit.training.corpus import read_sentences
from elmokit.training.losses import target_log_probs
from elmokit.training.windows import NOTHING, Window, read_in_order, sentences_as_rows

_NUM_ROWS, _NUM_STEPS = 64, 32
_BLOCK_SENTENCES, _BATCH_PREDICTIONS = 2048, 4096

Scored = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Targets and their log-probabilities, (2, R, T) each."""


@dataclass(frozen=True)
class DirectionScore:
    """One direction's figures."""

    perplexity: float
    perplexity_known: float
    """Over targets that are in the vocabulary alone."""
    num_predictions: int


@dataclass(frozen=True)
class Perplexity:
    """A model's figures on a text, with what they depend on."""

    forward: DirectionScore
    backward: DirectionScore
    average: float
    """Exp of the mean of both directions' −log p."""
    average_known: float
    num_sentences: int
    num_predictions: int
    """Of a direction: words and sentences."""
    vocab_size: int
    oov_rate: float
    """Share of the words that are not in the vocabulary."""
    state: str

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values for JSON."""
        return asdict(self)


def read_text(paths: Iterable[Path], *, input: Input, max_predictions: int | None = None) -> list[str]:
    """The sentences of files, in order, as tokens between single spaces; at most about so many predictions."""
    sentences: list[str] = []
    total = 0
    for path in paths:
        for tokens in read_sentences(path, input=input):
            if max_predictions is not None and total >= max_predictions:
                return sentences
            sentences.append(" ".join(tokens))
            total += len(tokens) + 1
    return sentences


def measure_perplexity(
    bilm: BiLM, sentences: Sequence[str], *, carry: bool = True, num_rows: int = _NUM_ROWS
) -> Perplexity:
    """Run a model over a text, given as `read_text` gives it.

    Args:
        bilm: a model with a softmax.
        sentences: the text.
        carry: whether a row goes on from the state of its last sentence; otherwise every sentence starts from zero.
        num_rows: stretches of the text that are read side by side.
    """
    if not sentences:
        raise InputError("the text has no sentence: give a file with text.")
    scorer = _Scorer(bilm)
    vocabulary = scorer.vocabulary
    totals, counts = np.zeros((2, 2)), np.zeros((2, 2), dtype=np.int64)  # direction × (all, known)
    for targets, log_probs in (
        scorer.in_order(sentences, min(num_rows, len(sentences))) if carry else scorer.one_by_one(sentences)
    ):
        real = targets != NOTHING  # (2, R, T)
        for kind, chosen in enumerate((real, real & (targets != vocabulary.unknown_id))):
            totals[:, kind] -= np.where(chosen, log_probs, 0).sum((1, 2), dtype=np.float64)
            counts[:, kind] += chosen.sum((1, 2))
    means = totals / np.maximum(counts, 1)  # (2, 2)
    forward, backward = (
        DirectionScore(_exp(means[side, 0]), _exp(means[side, 1]), int(counts[side, 0])) for side in (0, 1)
    )
    num_predictions = int(counts[0, 0])
    return Perplexity(
        forward,
        backward,
        _exp(means[:, 0].mean()),
        _exp(means[:, 1].mean()),
        len(sentences),
        num_predictions,
        len(vocabulary),
        float(counts[0, 0] - counts[0, 1]) / max(1, num_predictions - len(sentences)),
        "carry" if carry else "reset",
    )


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


class SentenceScore(NamedTuple):
    """The log-probability of every token by each direction, and of the boundary that each direction ends with."""

    tokens: list[str]
    forward: NDArray[np.float32]  # (N + 1,) of w1 … wN and </S>
    backward: NDArray[np.float32]  # (N + 1,) of <S> and w1 … wN

    @property
    def perplexity(self) -> float:
        """Exp of the mean of −log p over both directions."""
        return _exp(-float(np.concatenate([self.forward, self.backward]).mean(dtype=np.float64)))


def score_sentences(bilm: BiLM, sentences: Iterable[Sequence[str]]) -> Iterator[SentenceScore]:
    """Score sentences, each from the zero state, in input order and with bounded memory."""
    scorer = _Scorer(bilm)
    waiting = iter(sentences)
    while block := [list(sentence) for sentence in itertools.islice(waiting, _BLOCK_SENTENCES)]:
        found: dict[int, SentenceScore] = {}
        for rows in _batches([len(sentence) for sentence in block]):
            _, log_probs = scorer.as_rows([block[row] for row in rows])
            for row, (ahead, back) in zip(rows, log_probs.swapaxes(0, 1), strict=True):
                length = len(block[row]) + 1
                found[row] = SentenceScore(block[row], ahead[:length], back[:length][::-1])
        yield from (found[row] for row in range(len(block)))


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows that are run together: of similar length, and not too many."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
        if batch and (len(batch) >= 2 * _NUM_ROWS or (len(batch) + 1) * (lengths[row] + 1) > _BATCH_PREDICTIONS):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


class _Scorer:
    """Runs windows through a model, one direction a thread."""

    def __init__(self, bilm: BiLM) -> None:
        if bilm.softmax is None or bilm.vocabulary is None:
            raise ConfigError(
                "this model has no softmax, so it gives words no probability (published models lack theirs): "
                "train one with elmokit finetune."
            )
        self.bilm = bilm
        self.vocabulary = bilm.vocabulary
        self.device = next(bilm.parameters()).device
        on_cpu = self.device.type == "cpu"
        self._engine: Engine = InferEngine(find_native_cell()) if on_cpu else PlainEngine()
        threads = 2 if on_cpu and usable_cores() > 1 else 1
        self._pool = ThreadPoolExecutor(threads, "elmokit-score", initializer=compute_on_one_core)

    def in_order(self, sentences: Sequence[str], num_rows: int) -> Iterator[Scored]:
        """Consecutive windows, the state carried from one to the next."""
        state = self.bilm.zero_state(num_rows)
        for window in read_in_order(
            sentences, self.vocabulary, self.bilm.indexer, num_rows=num_rows, num_steps=_NUM_STEPS
        ):
            scored, state = self._run(window, state)
            yield scored

    def one_by_one(self, sentences: Sequence[str]) -> Iterator[Scored]:
        """Every sentence from the zero state."""
        for rows in _batches([sentence.count(" ") + 1 for sentence in sentences]):
            yield self.as_rows([sentences[row].split(" ") for row in rows])

    def as_rows(self, sentences: Sequence[Sequence[str]]) -> Scored:
        """Targets and log-probabilities (2, R, T) of sentences, each a row."""
        window = sentences_as_rows(sentences, self.vocabulary, self.bilm.indexer)
        return self._run(window, self.bilm.zero_state(len(sentences)))[0]

    def _run(self, window: Window, state: BiLMState) -> tuple[Scored, BiLMState]:
        bilm, device = self.bilm, self.device
        with torch.inference_mode():
            order, vectors = bilm.encoder.encode_by_length(torch.from_numpy(window.char_ids).to(device))  # (K,), (K, P)
            places = order.argsort()  # (K,)
        sizes = [window.inputs.shape[1]] * window.inputs.shape[2]

        @torch.inference_mode()
        def run(side: int) -> tuple[NDArray[np.float32], LstmState]:
            lstm = (bilm.forward_lstm, bilm.backward_lstm)[side]
            index = places[torch.from_numpy(window.inputs[side].T.reshape(-1)).to(device)]  # (N,)
            outputs, after = lstm(vectors, sizes, state[side], index=index, engine=self._engine)
            targets = torch.from_numpy(window.targets[side].T.reshape(-1)).to(device)  # (N,)
            assert bilm.softmax is not None
            found = target_log_probs(outputs[-1], targets.clamp_min(0), bilm.softmax, bilm.token_table)  # (N,)
            return found.view(len(sizes), -1).T.cpu().numpy(), after  # (R, T)

        (ahead, after_ahead), (back, after_back) = self._pool.map(run, (0, 1))
        return (window.targets, np.stack([ahead, back])), BiLMState(after_ahead, after_back)
