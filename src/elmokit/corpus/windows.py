"""Sentences → windows of consecutive predictions, for both directions.

A sentence of N tokens gives N + 1 predictions per direction: forward from `<S> w1 … wN` to `w1 … wN </S>`, backward
from `</S> wN … w1` to `wN … w1 <S>`. Rows hold these end to end, cut every T steps; a sentence that is cut continues in
the same row of the next window. Both directions read the same sentences at the same positions, so one mask serves both.

Notation: R rows, T steps of a window, K distinct tokens, C columns of a token's row.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError
from elmokit.text.characters import Ids, Indexer
from elmokit.text.vocabulary import BEGIN, END, Vocabulary

NO_TARGET = -1
"""The target at positions after the end of a row's data."""


@dataclass(frozen=True)
class Window:
    """The next T predictions of every row; where an axis has both directions, forward is first."""

    char_ids: Ids  # (K, C) <S>, </S> and the distinct tokens of this process's rows
    inputs: NDArray[np.int64]  # (2, own rows, T) index into char_ids
    targets: NDArray[np.int64]  # (2, R, T) ids of all rows, NO_TARGET after the end of the data
    starts: NDArray[np.bool_]  # (own rows, T) where a sentence begins
    rows: range
    """The rows of this process, of all R rows."""

    @property
    def own_targets(self) -> NDArray[np.int64]:
        """The targets (2, own rows, T) of this process's rows."""
        return self.targets[:, self.rows.start : self.rows.stop]

    @property
    def num_predictions(self) -> int:
        """Predictions of one direction, over all rows."""
        return int((self.targets[0] != NO_TARGET).sum())


class Sentences(Protocol):
    """An iterator over sentences that can save and restore its position.

    It may have `continues`: whether the next sentence belongs to the same passage as the last one.
    """

    def __next__(self) -> list[str]:
        """The tokens of the next sentence."""

    def state_dict(self) -> dict[str, Any]:
        """The current position."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position."""


class _Row:
    """The current sentence of a row, the number of its predictions already made, and the rest of its passage."""

    def __init__(self, tokens: list[str] | None = None, done: int = 0, rest: Iterable[list[str]] = ()) -> None:
        self.tokens = tokens
        self.done = done
        self.rest = deque(rest)

    def take(self, source: Any) -> list[str] | None:
        """Begin the next sentence, from the same passage or the next one; None if there is none."""
        if not self.rest:
            first = next(source, None)
            if first is None:
                return None
            self.rest.append(first)
            while getattr(source, "continues", False):
                self.rest.append(next(source))
        self.tokens, self.done = self.rest.popleft(), 0
        return self.tokens


class WindowStream:
    """Windows of rows that share one stream of sentences: a row takes the next passage when its last one is used up.

    Every process of a run forms the same windows and looks up only the tokens of its own rows, so what a row reads
    does not depend on the number of processes.

    Args:
        sentences: Source of sentences. When it ends, the stream ends after every prediction has been made.
        num_rows: Rows of all processes together (R).
        num_steps: Predictions per row and window (T).
        rows: Rows of this process; None means all.
    """

    def __init__(
        self,
        sentences: Sentences,
        vocabulary: Vocabulary,
        indexer: Indexer,
        *,
        num_rows: int,
        num_steps: int,
        rows: range | None = None,
    ) -> None:
        self.sentences = sentences
        self._builder = _Builder(vocabulary, indexer, num_steps, range(num_rows) if rows is None else rows)
        self._rows = [_Row() for _ in range(num_rows)]

    def __iter__(self) -> Iterator[Window]:
        return self

    def __next__(self) -> Window:
        return self._builder.build(self._rows, [self.sentences] * len(self._rows))

    @property
    def epoch(self) -> int:
        """Epoch of the next sentence."""
        return int(getattr(self.sentences, "epoch", 0))

    def state_dict(self) -> dict[str, Any]:
        """The position in the corpus and in each row's passage."""
        return {
            "sentences": self.sentences.state_dict(),
            "rows": [{"done": row.done, "tokens": row.tokens, "rest": list(row.rest)} for row in self._rows],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the position of another stream with the same number of rows."""
        if len(state["rows"]) != len(self._rows):
            raise InputError(
                f"the checkpoint has {len(state['rows'])} rows, but batch_size is {len(self._rows)}: "
                "resume with the batch_size of the run."
            )
        self.sentences.load_state_dict(state["sentences"])
        self._rows = [_Row(**row) for row in state["rows"]]


def read_in_order(
    sentences: Sequence[str], vocabulary: Vocabulary, indexer: Indexer, *, num_rows: int, num_steps: int
) -> Iterator[Window]:
    """Windows for evaluation: each row reads its own range of consecutive sentences.

    Sentences are given as tokens separated by spaces. The ranges are as equal in length as whole sentences allow. Every
    row reads its text in order, and every prediction is made once. Rows without any sentence stay empty.
    """
    lengths = np.array([sentence.count(" ") + 2 for sentence in sentences])
    sources = [(sentence.split(" ") for sentence in sentences[own]) for own in divide_rows(lengths, num_rows)]
    rows = [_Row() for _ in range(num_rows)]
    builder = _Builder(vocabulary, indexer, num_steps, range(num_rows))
    while True:
        try:
            yield builder.build(rows, sources)
        except StopIteration:
            return


def divide_rows(lengths: NDArray[np.int64], num_rows: int) -> list[slice]:
    """Which sentences each row of `read_in_order` reads; `lengths` has the number of predictions per sentence."""
    ends = np.searchsorted(lengths.cumsum(), lengths.sum() * (np.arange(num_rows) + 1) / num_rows, side="left") + 1
    return [slice(begin, end) for begin, end in zip([0, *ends[:-1]], [*ends[:-1], len(lengths)], strict=True)]


def sentences_as_rows(sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, indexer: Indexer) -> Window:
    """One window with one sentence per row, as long as the longest sentence needs; there must be a sentence."""
    num_steps = max(len(sentence) for sentence in sentences) + 1
    builder = _Builder(vocabulary, indexer, num_steps, range(len(sentences)))
    return builder.build([_Row(list(sentence)) for sentence in sentences], [iter(())] * len(sentences))


def sentence_in_windows(
    tokens: Sequence[str], vocabulary: Vocabulary, indexer: Indexer, *, num_steps: int
) -> Iterator[Window]:
    """Consecutive windows of a single row that reads one sentence of any length."""
    rows, builder = [_Row(list(tokens))], _Builder(vocabulary, indexer, num_steps, range(1))
    while rows[0].tokens is not None:
        yield builder.build(rows, [iter(())])


class _Builder:
    """Fills windows from rows and their sources of sentences."""

    def __init__(self, vocabulary: Vocabulary, indexer: Indexer, num_steps: int, rows: range) -> None:
        self.vocabulary = vocabulary
        self.indexer = indexer
        self.num_steps = num_steps
        self.rows = rows

    def build(self, rows: list[_Row], sources: Sequence[Any]) -> Window:
        """The next window; StopIteration if no row has anything left."""
        shape = (2, len(rows), self.num_steps)
        targets = np.full(shape, NO_TARGET, dtype=np.int64)  # (2, R, T)
        inputs = np.zeros((2, len(self.rows), self.num_steps), dtype=np.int64)  # (2, own rows, T)
        starts = np.zeros(inputs.shape[1:], dtype=bool)  # (own rows, T)
        types: dict[str, int] = {}  # numbered after <S> and </S>; a word of the text may be spelled like them
        for number, (row, source) in enumerate(zip(rows, sources, strict=True)):
            filled = 0
            while filled < self.num_steps:
                tokens = row.take(source) if row.tokens is None else row.tokens
                if tokens is None:
                    break
                begin = row.done
                end = min(begin + self.num_steps - filled, len(tokens) + 1)
                place = slice(filled, filled + end - begin)
                for side, closing in enumerate((END, BEGIN)):
                    predicted = _stretch(tokens, side, begin, end)
                    predicted += [closing] if end > len(tokens) else []
                    targets[side, number, place] = self.vocabulary.to_ids(predicted)
                    if number in self.rows:
                        read = _stretch(tokens, side, max(0, begin - 1), end - 1)
                        own = [types.setdefault(token, len(types) + 2) for token in read]
                        inputs[side, number - self.rows.start, place] = own if begin else [side, *own]
                if number in self.rows and begin == 0:
                    starts[number - self.rows.start, filled] = True
                filled += end - begin
                row.tokens, row.done = (None, 0) if end == len(tokens) + 1 else (tokens, end)
        if not (targets[0] != NO_TARGET).any():
            raise StopIteration
        return Window(self._char_ids(list(types)), inputs, targets, starts, self.rows)

    def _char_ids(self, words: list[str]) -> Ids:
        return np.concatenate(
            [self.indexer.begin[None], self.indexer.end[None], self.indexer.to_char_ids(words)]
        )  # (K, C)


def _stretch(tokens: list[str], side: int, begin: int, end: int) -> list[str]:
    """The tokens in a range, in the order in which a direction reads them, without copying the other tokens."""
    if side == 0:
        return tokens[begin:end]
    return tokens[max(0, len(tokens) - end) : len(tokens) - begin][::-1]
