"""Stream the sentences of a corpus that may be larger than memory, in an order that a run can resume.

A `SentenceStream` reads all files in parallel (see `mixing`) and shuffles what it reads one buffer at a time, sentence
by sentence or in passages of consecutive sentences. All randomness is a function of (seed, epoch, number of the
buffer), so the places where a buffer began and how much of it was emitted give the exact position of the stream.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.arguments import check_integer, check_paths, shown
from elmokit.corpus.mixing import DEFAULT_ORDER, MAX_OPEN_FILES, LaneReader, Order
from elmokit.corpus.passages import Place
from elmokit.corpus.reader import CorpusReader
from elmokit.corpus.stream_state import check_state, read_places
from elmokit.errors import InputError
from elmokit.random_order import random_order
from elmokit.text.input_kind import DEFAULT_INPUT, InputKind

_MAX_BUFFER_BYTES = 64_000_000
_SENTENCE_ORDER = 1


class SentenceStream(Iterator[list[str]]):
    """Iterate over the sentences of many files for training, with bounded memory and an exact position to resume from.

    Each epoch emits every sentence once. All files are read at once, each in proportion to its length. Sentences are
    read into a buffer, and a full buffer is emitted in random order before the next one is read. A passage stays
    together: consecutive sentences up to a maximum number, an empty line or the end of the file.

    Args:
        paths: Files, as returned by `find_files`; they must not change while the stream is in use.
        input: "tokens" or "text", as for `read_sentences`.
        seed: Random seed for all orders.
        shuffle: False emits the sentences in the order of the files and lines.
        buffer_sentences: Sentences per buffer; a buffer is also full at 64 MB of text.
        passage_sentences: Maximum number of sentences per passage.
        num_epochs: Number of passes over the corpus; None repeats it forever.
        order: "mixed" reads all files at once; "files" reads one after the other, in a random order.
        weights: How often an epoch reads each file, by pattern of its name (see `file_weights`): with 0.5, an epoch
            reads the half of a file that the previous epoch did not. None reads every file once.
        lengths: Number of characters of each file, from `count_characters`; None counts them when needed.
        max_open_files: Maximum number of files open at once; if there are more, they take turns.

    Attributes:
        epoch: Epoch of the next sentence, from 0; `num_epochs` at the end.
        num_sentences: Sentences emitted since the first epoch began.

    Raises:
        InputError: If there are no files, a file cannot be read or changes, or the files have no sentence. After an
            error in the middle of a run, `state_dict` still gives the position to resume from.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        input: InputKind = DEFAULT_INPUT,
        seed: int = 0,
        shuffle: bool = True,
        buffer_sentences: int = 100_000,
        passage_sentences: int = 1,
        num_epochs: int | None = None,
        order: Order = DEFAULT_ORDER,
        weights: Mapping[str, float] | None = None,
        lengths: Sequence[int] | None = None,
        max_open_files: int = MAX_OPEN_FILES,
    ) -> None:
        numbers = {"buffer_sentences": buffer_sentences, "passage_sentences": passage_sentences}
        for name, value in {"seed": seed, **numbers, "num_epochs": 1 if num_epochs is None else num_epochs}.items():
            check_integer(name, value, at_least=0 if name == "seed" else 1)
        if not check_paths("paths", paths):
            raise InputError("no files to read sentences from: name at least one.")
        self.paths = tuple(paths)
        self.num_epochs = num_epochs
        self.epoch = 0
        self.num_sentences = 0
        self._seed = seed
        self._shuffle = shuffle
        self._buffer_sentences = buffer_sentences
        self._corpus = CorpusReader(
            self.paths,
            input=input,
            seed=seed,
            shuffle=shuffle,
            passage_sentences=passage_sentences,
            order=order,
            weights=weights,
            lengths=lengths,
            max_open_files=max_open_files,
        )
        self._identity = {"seed": seed, "shuffle": int(shuffle), **numbers, **self._corpus.identity()}
        self._move_to((), buffer_number=0)

    def _move_to(self, begin: tuple[Place, ...], *, buffer_number: int, num_emitted: int = 0, within: int = 0) -> None:
        """Move to a buffer that has not been read yet, and close everything."""
        self._begin = begin  # a place in each lane; none at the beginning of an epoch
        self._buffer_number = buffer_number
        self._num_emitted = num_emitted  # whole passages of the buffer
        self._within = within  # sentences of the passage after them
        self._buffer: list[bytes] = []  # passages, as `Passage.text`
        self._order: NDArray[np.int64] | None = None
        self._reader: LaneReader | None = None

    def __next__(self) -> list[str]:
        if self.num_epochs is not None and self.epoch >= self.num_epochs:
            raise StopIteration
        if not self._buffer:
            self._fill()
        number = self._num_emitted if self._order is None else self._order[self._num_emitted]
        passage = self._buffer[number].split(b"\n")
        sentence = passage[self._within].decode().split(" ")
        self._within += 1
        self.num_sentences += 1
        if self._within == len(passage):
            self._within = 0
            self._num_emitted += 1
        if self._num_emitted == len(self._buffer):
            self._leave_buffer()
        return sentence

    @property
    def continues(self) -> bool:
        """Whether the next sentence belongs to the same passage as the last one."""
        return self._within > 0

    def _leave_buffer(self) -> None:
        self._buffer = []
        self._num_emitted = 0
        assert self._reader is not None
        if self._reader.is_done:
            self.epoch += 1
            self._move_to((), buffer_number=0)
        else:
            self._begin = tuple(self._reader.places)
            self._buffer_number += 1

    def _fill(self) -> None:
        """Read the buffer that begins at `_begin`; after that the reader knows whether the epoch ends with it."""
        buffer: list[bytes] = []
        num_sentences = num_bytes = 0
        try:
            reader = self._reader or self._corpus.open(self.epoch, self._begin)
            begin = tuple(reader.places)
            while not reader.is_done and num_sentences < self._buffer_sentences and num_bytes < _MAX_BUFFER_BYTES:
                passage = reader.take()
                buffer.append(passage)
                num_sentences += passage.count(b"\n") + 1
                num_bytes += len(passage)
            if self._num_emitted >= len(buffer):
                raise InputError(self._missing_sentences())
        except BaseException:  # after a resume or a retry this buffer is read from its beginning
            self._move_to(
                self._begin, buffer_number=self._buffer_number, num_emitted=self._num_emitted, within=self._within
            )
            raise
        self._begin, self._buffer, self._reader = begin, buffer, reader
        if self._shuffle:
            self._order = random_order(len(buffer), self._seed, self.epoch, _SENTENCE_ORDER, self._buffer_number)

    def _missing_sentences(self) -> str:
        if not any(map(any, self._begin)) and not self._num_emitted:
            names = ", ".join(str(path) for path in self.paths[:3]) + (" …" if len(self.paths) > 3 else "")
            if self._corpus.weights and self.epoch:
                return f"the weights leave epoch {self.epoch + 1} no sentence of {names}: give larger ones."
            return f"there is no sentence in {names}: give at least one file with text in it."
        return f"the corpus ends before the run can resume after {self.position}: restore its files."

    @property
    def position(self) -> str:
        """The files and lines where the current buffer began, for messages; only the first few files are named."""
        return self._corpus.describe(self.epoch, self._begin)

    def state_dict(self) -> dict[str, Any]:
        """The position of the stream and the identity of its corpus and settings, as plain values for JSON."""
        begin: dict[str, Any] = {"places": [list(place) for place in self._begin]}
        if not self._corpus.is_mixed:
            begin = (self._begin or (Place(),))[0]._asdict()
        return {
            "epoch": self.epoch,
            "num_sentences": self.num_sentences,
            "buffer": self._buffer_number,
            "num_emitted": self._num_emitted,
            "within": self._within,
            **begin,
            **self._identity,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume at the sentence that would have come next when `state` was saved.

        Only the buffer of that moment is read again. `num_epochs` may differ. A state without an order comes from a
        version that read one file after the other.

        Raises:
            InputError: If the state belongs to other files or settings, or is not a state of a stream.
        """
        if not isinstance(state, Mapping):
            raise InputError(f"{shown(state)} is not a state of a sentence stream: use a complete checkpoint.")
        state = check_state(state, self._identity)
        places = read_places(state, is_mixed=self._corpus.is_mixed)
        self.epoch = state["epoch"]
        self.num_sentences = state["num_sentences"]
        emitted = {"num_emitted": state["num_emitted"], "within": state["within"]}
        self._move_to(places, buffer_number=state["buffer"], **emitted)
