"""Perplexity of a text under a biLM, from the exact log probability of every word in both directions.

Perplexity is exp of the mean of −log p over all N + 1 predictions of every sentence, with `<UNK>` counted as a word,
under the model's full softmax. Either a few rows read the text in order, each its own part, and carry their state; or
every sentence starts from zero.

Notation: R rows, T steps, N tokens of a sentence.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.arguments import check_flag, check_integer, shown
from elmokit.corpus.windows import NO_TARGET, divide_rows
from elmokit.errors import InputError
from elmokit.model.bilm import BiLM
from elmokit.progress import ProgressCallback
from elmokit.scoring.scorer import Scorer, sentence_blocks
from elmokit.scoring.sentences import exp_or_infinity

_NUM_ROWS = 64


@dataclass(frozen=True)
class DirectionScore:
    """The figures of one direction."""

    perplexity: float
    perplexity_known: float
    """Perplexity over the targets that are in the vocabulary."""
    num_predictions: int


@dataclass(frozen=True)
class Perplexity:
    """The figures of a model on a text, and what they depend on."""

    forward: DirectionScore
    backward: DirectionScore
    average: float
    """Exp of the mean of both directions' −log p."""
    average_known: float
    num_sentences: int
    num_predictions: int
    """Predictions of one direction: words plus sentences."""
    vocab_size: int
    oov_rate: float
    """Share of the words that are not in the vocabulary."""
    state: str

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain values for JSON."""
        return asdict(self)


def measure_perplexity(
    bilm: BiLM,
    sentences: Sequence[str],
    *,
    carry: bool = True,
    num_rows: int = _NUM_ROWS,
    threads: int | None = None,
    precision: str = "float32",
    report: ProgressCallback | None = None,
) -> Perplexity:
    """Measure the perplexity of a model on a text.

    Args:
        bilm: a model with a softmax.
        sentences: the text as returned by `read_text`: one sentence per item, tokens separated by single spaces.
        carry: whether a row continues from the state of its last sentence; otherwise every sentence starts from zero.
        num_rows: number of parts of the text that are read in parallel.
        threads: cores to use on a CPU; None uses all that the process may use.
        precision: precision of the products in the encoder and the LSTMs, as in `Embedder`.
        report: receives the number of predictions made and the total.
    """
    whole, _ = measure_parts(
        bilm, sentences, (), carry=carry, num_rows=num_rows, threads=threads, precision=precision, report=report
    )
    return whole


def evaluate_both(
    bilm: BiLM,
    sentences: Sequence[str],
    *,
    threads: int | None = None,
    precision: str = "float32",
    report: ProgressCallback | None = None,
) -> dict[str, Any]:
    """Perplexities on a text with the state carried and with it reset.

    Args:
        bilm: a model with a softmax.
        sentences: the text, one sentence per item, as tokens separated by spaces.
        threads: cores to use on a CPU; None uses all that the process may use.
        precision: precision of the products in the encoder and the LSTMs, as in `Embedder`.
        report: receives the number of predictions made and the total, over both passes.
    """

    def measure(number: int) -> Perplexity:
        def tell(done: int, total: int) -> None:
            if report is not None:
                report(number * total + done, 2 * total)

        return measure_perplexity(bilm, sentences, carry=number == 0, threads=threads, precision=precision, report=tell)

    return {name: measure(number).to_dict() for number, name in enumerate(("carry", "reset"))}


def measure_parts(
    bilm: BiLM,
    sentences: Sequence[str],
    sizes: Sequence[int],
    *,
    carry: bool = True,
    num_rows: int = _NUM_ROWS,
    threads: int | None = None,
    precision: str = "float32",
    report: ProgressCallback | None = None,
) -> tuple[Perplexity, list[Perplexity]]:
    """The figures of a text and of its parts, from one pass over the whole; `sizes` has the sentences per part.

    The other arguments are those of `measure_perplexity`, and the first result is the same as its result.
    """
    _check_lines(sentences)
    check_flag("carry", carry)
    check_integer("num_rows", num_rows, at_least=1)
    if not sentences:
        raise InputError("the text has no sentence: give a file with text.")
    lengths = np.array([sentence.count(" ") + 2 for sentence in sentences])
    num_predictions = int(lengths.sum())
    part_of = np.repeat(np.arange(len(sizes)), sizes) if sizes else np.zeros(len(sentences), dtype=np.int64)
    with closing(Scorer(bilm, threads, precision)) as scorer:
        unknown = scorer.vocabulary.unknown_id
        whole, parts = _Sums(), [_Sums() for _ in sizes]
        if carry:
            scored = _score_in_order(scorer, sentences, lengths, part_of, min(num_rows, len(sentences)))
        else:
            scored = _score_from_zero(scorer, sentences, part_of)
        for targets, log_probs, own_parts in scored:
            whole.add(targets, log_probs, targets != NO_TARGET, unknown)
            for number in np.unique(own_parts) if sizes else ():
                parts[number].add(targets, log_probs, (targets != NO_TARGET) & (own_parts == number), unknown)
            if report is not None:
                report(int(whole.counts[0, 0]), num_predictions)
        state = "carry" if carry else "reset"
        ends = np.cumsum(sizes, dtype=np.int64)
        counts = [int(lengths[end - size : end].sum()) for end, size in zip(ends, sizes, strict=True)]
        return (
            whole.figures(len(sentences), num_predictions, len(scorer.vocabulary), state),
            [
                part.figures(size, count, len(scorer.vocabulary), state)
                for part, size, count in zip(parts, sizes, counts, strict=True)
            ],
        )


Places = tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]
"""Targets and log probabilities (2, R, T), and the part of the text that they belong to, (R, T) or (R, 1)."""


def _score_in_order(
    scorer: Scorer, sentences: Sequence[str], lengths: NDArray[np.int64], part_of: NDArray[np.int64], num_rows: int
) -> Iterator[Places]:
    rows = [np.repeat(part_of[own], lengths[own]) for own in divide_rows(lengths, num_rows)]
    done = 0
    for targets, log_probs in scorer.in_order(sentences, num_rows):
        num_steps = targets.shape[2]
        parts = np.full(targets.shape[1:], NO_TARGET)  # (R, T)
        for number, row in enumerate(rows):
            own = row[done : done + num_steps]
            parts[number, : len(own)] = own
        done += num_steps
        yield targets, log_probs, parts


def _score_from_zero(scorer: Scorer, sentences: Sequence[str], part_of: NDArray[np.int64]) -> Iterator[Places]:
    first = 0
    for block in sentence_blocks(sentence.split(" ") for sentence in sentences):
        for rows, (targets, log_probs) in scorer.from_zero(block):
            yield targets, log_probs, part_of[first + np.array(rows)][:, None]  # (R, 1)
        first += len(block)


class _Sums:
    """Sums of −log p, over all words and over known ones."""

    def __init__(self) -> None:
        self.totals, self.counts = np.zeros((2, 2)), np.zeros((2, 2), dtype=np.int64)  # direction × (all, known)

    def add(
        self, targets: NDArray[np.int64], log_probs: NDArray[np.float32], real: NDArray[np.bool_], unknown: int
    ) -> None:
        for kind, chosen in enumerate((real, real & (targets != unknown))):
            self.totals[:, kind] -= np.where(chosen, log_probs, 0).sum((1, 2), dtype=np.float64)
            self.counts[:, kind] += chosen.sum((1, 2))

    def figures(self, num_sentences: int, num_predictions: int, vocab_size: int, state: str) -> Perplexity:
        means, counts = self.totals / np.maximum(self.counts, 1), self.counts  # (2, 2)
        forward, backward = (
            DirectionScore(exp_or_infinity(means[side, 0]), exp_or_infinity(means[side, 1]), int(counts[side, 0]))
            for side in (0, 1)
        )
        return Perplexity(
            forward,
            backward,
            exp_or_infinity(means[:, 0].mean()),
            exp_or_infinity(means[:, 1].mean()),
            num_sentences,
            num_predictions,
            vocab_size,
            float(counts[0, 0] - counts[0, 1]) / max(1, num_predictions - num_sentences),
            state,
        )


def _check_lines(sentences: Any) -> None:
    if isinstance(sentences, str):
        raise InputError(f"sentences is the str {sentences[:40]!r}: give a list of sentences, as read_text does.")
    if (wrong := next((n for n, line in enumerate(sentences) if not isinstance(line, str)), None)) is not None:
        raise InputError(
            f"sentence {wrong} is {shown(sentences[wrong])}: give tokens joined by single spaces, as read_text does."
        )
