"""The log probability of every token of a sentence, by each direction."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.model.bilm import BiLM
from elmokit.scoring.scorer import Scorer, sentence_blocks
from elmokit.text.tokens import check_sentences


class SentenceScore(NamedTuple):
    """The log probability of every token by each direction, and of the boundary at which each direction ends."""

    tokens: list[str]
    forward: NDArray[np.float32]  # (N + 1,) of w1 … wN and </S>
    backward: NDArray[np.float32]  # (N + 1,) of <S> and w1 … wN

    @property
    def perplexity(self) -> float:
        """Exp of the mean of −log p over both directions."""
        return exp_or_infinity(-float(np.concatenate([self.forward, self.backward]).mean(dtype=np.float64)))


def score_sentences(
    bilm: BiLM, sentences: Iterable[Sequence[str]], *, threads: int | None = None, precision: str = "float32"
) -> Iterator[SentenceScore]:
    """Score sentences in input order, each from the zero state, in constant memory.

    `precision` is that of the products in the encoder and the LSTMs, as in `Embedder`.
    """
    with closing(Scorer(bilm, threads, precision)) as scorer:
        for block in sentence_blocks(check_sentences(sentences)):
            found: dict[int, SentenceScore] = {}
            for rows, (_, log_probs) in scorer.from_zero(block):
                for row, (ahead, back) in zip(rows, log_probs.swapaxes(0, 1), strict=True):
                    length = len(block[row]) + 1
                    found[row] = SentenceScore(block[row], ahead[:length], back[:length][::-1])
            yield from (found[row] for row in range(len(block)))


def exp_or_infinity(value: float) -> float:
    """Exp, or infinity on overflow."""
    return math.exp(value) if value < 700 else math.inf
