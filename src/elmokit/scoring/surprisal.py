"""Surprisal: how unexpected each token of a text is, by either direction or both, in bits or nats.

Surprisal is −log p. The forward direction sees what precedes a token, the backward direction what follows it; both
start from the zero state at every sentence. "both" is the mean of the two.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from elmokit.arguments import check_choice, check_integer, shown
from elmokit.errors import InputError
from elmokit.model.bilm import BiLM
from elmokit.scoring.sentences import SentenceScore, score_sentences
from elmokit.text.tokenize import Token, tokenize
from elmokit.text.tokens import check_text, check_texts

Unit = Literal["bits", "nats"]
Direction = Literal["forward", "backward", "both"]

_SCALE: dict[Unit, float] = {"bits": 1 / math.log(2), "nats": 1.0}


@dataclass(frozen=True)
class TextSurprisal:
    """The surprisal of every token of a text."""

    index: int
    """Number of the text in the input, from 0."""
    text: str
    """The text; tokens that were given as a list are joined by single spaces."""
    tokens: tuple[Token, ...]
    """The tokens, each with its start and end in `text`."""
    sentences: tuple[int, ...]
    """Number of the sentence that each token belongs to."""
    forward: NDArray[np.float64]  # (N,)
    backward: NDArray[np.float64]  # (N,)
    forward_end: NDArray[np.float64]
    """Surprisal of the end of each sentence, by the forward direction."""
    backward_end: NDArray[np.float64]
    """Surprisal of the beginning of each sentence, by the backward direction."""
    unit: Unit

    def values(self, direction: Direction = "both") -> NDArray[np.float64]:
        """The surprisal of each token (N,)."""
        check_choice("direction", direction, get_args(Direction))
        if direction == "both":
            return (self.forward + self.backward) / 2
        return self.forward if direction == "forward" else self.backward

    def total(self, direction: Direction = "both", *, boundaries: bool = True) -> float:
        """The sum over the text, including sentence boundaries unless `boundaries` is False."""
        total = float(self.values(direction).sum())
        if boundaries:
            ends = {"forward": self.forward_end, "backward": self.backward_end}
            ends["both"] = (self.forward_end + self.backward_end) / 2
            total += float(ends[direction].sum())
        return total

    def span(self, start: int, end: int, direction: Direction = "both") -> float:
        """The sum over the tokens that have a character in `text[start:end]`.

        Raises:
            InputError: If the span is not within the text, or has no token.
        """
        check_integer("start", start, at_least=0)
        check_integer("end", end, at_least=0)
        inside = [token.start < end and token.end > start for token in self.tokens]
        if end > len(self.text) or not any(inside):
            raise InputError(
                f"characters {start} to {end} hold no token of text {self.index}, which has {len(self.text)} "
                "characters: give a span that touches a token."
            )
        return float(self.values(direction)[np.array(inside)].sum())

    def to_dict(self) -> dict[str, Any]:
        """The surprisals as plain values for JSON."""
        return {
            "index": self.index,
            "unit": self.unit,
            "tokens": [
                {**token._asdict(), "sentence": sentence, "forward": ahead, "backward": back}
                for token, sentence, ahead, back in zip(
                    self.tokens, self.sentences, self.forward.tolist(), self.backward.tolist(), strict=True
                )
            ],
            "boundaries": {"forward": self.forward_end.tolist(), "backward": self.backward_end.tolist()},
            "total": {direction: self.total(direction) for direction in get_args(Direction)},
        }


def measure_surprisal(
    bilm: BiLM,
    texts: Iterable[str | Sequence[str]],
    *,
    unit: Unit = "bits",
    threads: int | None = None,
    precision: str = "float32",
) -> Iterator[TextSurprisal]:
    """Measure the surprisal of every token, text by text in input order, in constant memory.

    Args:
        bilm: A model with a softmax.
        texts: Raw text (str), or the tokens of one sentence (a list of str).
        unit: "bits" (logarithms to base 2) or "nats".
        threads: Cores to use on a CPU; None uses all that the process may use.
        precision: Precision of the products in the encoder and the LSTMs, as in `Embedder`.
    """
    check_choice("unit", unit, get_args(Unit))
    waiting: deque[_Text] = deque()
    scores: deque[SentenceScore] = deque()

    def sentences() -> Iterator[list[str]]:
        for index, text in enumerate(check_texts(texts, "texts")):
            waiting.append(_split(index, text))
            yield from ([token.text for token in sentence] for sentence in waiting[-1].sentences)

    for score in score_sentences(bilm, sentences(), threads=threads, precision=precision):
        scores.append(score)
        while waiting and len(scores) >= len(waiting[0].sentences):
            own = waiting.popleft()
            yield _join(own, [scores.popleft() for _ in own.sentences], unit)
    for own in waiting:  # texts without a token at the end
        yield _join(own, [], unit)


@dataclass(frozen=True)
class PairSurprisal:
    """The surprisal of a minimal pair: two texts, of which the first should be the more probable."""

    index: int
    first: float
    """Surprisal of the whole text."""
    second: float
    prefers_first: bool
    """Whether the first text is less surprising; False for a tie."""


def compare_pairs(
    bilm: BiLM,
    pairs: Iterable[tuple[str | Sequence[str], str | Sequence[str]]],
    *,
    direction: Direction = "both",
    unit: Unit = "bits",
    threads: int | None = None,
    precision: str = "float32",
) -> Iterator[PairSurprisal]:
    """Compare the texts of minimal pairs, such as a grammatical sentence with an ungrammatical one.

    Args:
        bilm: A model with a softmax.
        pairs: Pairs of texts, raw or as tokens.
        direction: Direction to use; "both" is the mean of the two.
        unit: "bits" or "nats".
        threads: Cores to use on a CPU; None uses all that the process may use.
        precision: Precision of the products in the encoder and the LSTMs, as in `Embedder`.
    """
    check_choice("direction", direction, get_args(Direction))
    found = measure_surprisal(bilm, _flat(pairs), unit=unit, threads=threads, precision=precision)
    for index, (first, second) in enumerate(zip(found, found, strict=True)):
        totals = first.total(direction), second.total(direction)
        yield PairSurprisal(index, *totals, totals[0] < totals[1])


def _flat(pairs: Any) -> Iterator[str | tuple[str, ...]]:
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InputError(f"pairs is {shown(pairs)}: give a list of pairs of texts.")
    for number, pair in enumerate(pairs):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise InputError(f"pair {number} is {shown(pair)}: give two texts.")
        for text in pair:
            yield check_text(text, f"a text of pair {number}")


@dataclass(frozen=True)
class _Text:
    index: int
    text: str
    sentences: list[list[Token]]


def _split(index: int, text: str | tuple[str, ...]) -> _Text:
    if isinstance(text, str):
        return _Text(index, text, [list(sentence) for sentence in tokenize(text)])
    tokens, place = [], 0
    for word in text:
        tokens.append(Token(word, place, place + len(word)))
        place += len(word) + 1
    return _Text(index, " ".join(text), [tokens] if tokens else [])


def _join(own: _Text, scores: Sequence[SentenceScore], unit: Unit) -> TextSurprisal:
    forward = [-_SCALE[unit] * score.forward.astype(np.float64) for score in scores]  # (n + 1,) each
    backward = [-_SCALE[unit] * score.backward.astype(np.float64) for score in scores]
    nothing = np.empty(0)
    return TextSurprisal(
        own.index,
        own.text,
        tuple(token for sentence in own.sentences for token in sentence),
        tuple(number for number, sentence in enumerate(own.sentences) for _ in sentence),
        np.concatenate([nothing, *(values[:-1] for values in forward)]),
        np.concatenate([nothing, *(values[1:] for values in backward)]),
        np.array([values[-1] for values in forward]),
        np.array([values[0] for values in backward]),
        unit,
    )
