"""The sentences of a corpus that may be larger than memory, in an order that a run can be resumed in.

A `SentenceStream` reads files in a random order and shuffles what it reads one buffer at a time, sentence by sentence
or in passages of successive sentences. Everything random is a function of (seed, epoch, number of the buffer), so the
place where a buffer began and how much of it was given out say exactly where the stream stands.
"""

import glob
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.arguments import check_integer, check_path, check_paths, is_path, shown
from elmokit.errors import ConfigError, InputError
from elmokit.recognize import did_you_mean, mistaken
from elmokit.text.files import open_text
from elmokit.text.input_kind import CORPUS_FILE, DEFAULT_INPUT, Input, actual_input, check_input, is_shard
from elmokit.text.tokenize import tokenize

_MAX_BUFFER_BYTES = 64_000_000
_FILE_ORDER, _SENTENCE_ORDER = 0, 1


def find_files(patterns: Sequence[str]) -> list[Path]:
    """Find the files that paths and globs name, sorted, each once.

    Args:
        patterns: Paths, or globs in which `*`, `?`, `[…]` and `**` (any folders) work; `~` is the home folder. A name
            that exists is taken as it is, whatever characters it has.

    Raises:
        InputError: If a pattern names nothing, or a folder.
    """
    if is_path(patterns) or not isinstance(patterns, Iterable):
        kind = "the str " if isinstance(patterns, str) else ""
        raise ConfigError(f"patterns is {kind}{shown(patterns)}: give a list of paths or globs, e.g. [path].")
    found: dict[Path, Path] = {}
    for pattern in patterns:
        check_path("a pattern", pattern)
        name = os.path.expanduser(pattern)
        paths = [Path(name)] if os.path.exists(name) else [Path(path) for path in glob.glob(name, recursive=True)]
        if not paths:
            raise InputError(
                f"no file matches {pattern!r}{did_you_mean(name)}: check the path, or give a glob such as "
                "'data/*.txt.xz'."
            )
        files = [path for path in paths if not path.is_dir()]
        if not files:
            raise InputError(
                mistaken(paths[0], "a text file")
                or f"{pattern!r} is a folder, not a file: name its files, as in '{paths[0]}/*.txt'."
            )
        found = {path.resolve(): path for path in files} | found
    return sorted(found.values())


def split_line(line: str, input: Input) -> list[list[str]]:
    """The sentences of a line: its tokens as they are between white space, or what the tokenizer finds in raw text."""
    if input == "tokens":
        tokens = line.split()
        return [tokens] if tokens else []
    return [[token.text for token in sentence] for sentence in tokenize(line)]


def read_sentences(path: Path, *, input: Input, errors: str = "strict") -> Iterator[list[str]]:
    """Read the sentences of a file, plain or compressed, as lists of tokens; blank lines give none.

    Args:
        path: The file.
        input: "tokens" if a line is a sentence of tokens between white space, "text" if it is running text of any
            number of sentences. Shards of `write_shards` hold tokens and are read as such in any case.
        errors: What to do with bytes that are not UTF-8, as in `open`.
    """
    check_input(input)
    path = check_path("path", path)
    yield from (tokens for _, _, tokens in _read_located(path, input, errors))


def _read_located(
    path: Path, input: Input, errors: str, start_line: int = 0, start_sentence: int = 0
) -> Iterator[tuple[int, int, list[str]]]:
    """Sentences with the number of their line and their number in it, both from 0, beginning at a place."""
    input = actual_input(path, input)
    with open_text(path, errors=errors) as lines:
        for number, line in enumerate(lines):
            if number < start_line:
                continue
            for index, tokens in enumerate(split_line(line, input)):
                if number > start_line or index >= start_sentence:
                    yield number, index, tokens


class _Place(NamedTuple):
    """A sentence of an epoch: the file by its number in the epoch's order, the line, the sentence within the line."""

    file: int = 0
    line: int = 0
    sentence: int = 0


def random_order(size: int, *key: int) -> NDArray[np.int64]:
    """A permutation that depends on the key alone: numpy keeps the raw numbers of Philox the same for ever."""
    return np.argsort(np.random.Philox(np.random.SeedSequence(key)).random_raw(size), kind="stable")


class SentenceStream(Iterator[list[str]]):
    """Iterate over the sentences of many files for training, with bounded memory and an exact place to resume from.

    In each epoch every sentence comes once. Files come in a random order; sentences are read into a buffer, across
    the ends of files, and a full buffer is given out in random order before the next one is read. A passage stays
    together: successive sentences up to a number, an empty line or the end of the file.

    Args:
        paths: The files, as `find_files` gives them; they must stay as they are while the stream lives.
        input: "tokens" or "text", as for `read_sentences`.
        seed: Decides every order.
        shuffle: False gives the sentences in the order of the files and lines.
        buffer_sentences: Sentences of a buffer; it is also full at 64 MB of text.
        passage_sentences: Sentences of a passage at most.
        num_epochs: Times to go through the corpus; None never ends.

    Attributes:
        epoch: Epoch of the next sentence, from 0; `num_epochs` when all is done.
        num_sentences: Sentences given out since the first epoch began.
        continues: Whether the next sentence belongs to the passage of the last one.

    Raises:
        InputError: If there are no files, one of them cannot be read or changes, or no sentence is in them. After an
            error in the middle of a run `state_dict` still says where to resume.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        input: Input = DEFAULT_INPUT,
        seed: int = 0,
        shuffle: bool = True,
        buffer_sentences: int = 100_000,
        passage_sentences: int = 1,
        num_epochs: int | None = None,
    ) -> None:
        check_input(input)
        numbers = {"buffer_sentences": buffer_sentences, "passage_sentences": passage_sentences}
        for name, value in {"seed": seed, **numbers, "num_epochs": 1 if num_epochs is None else num_epochs}.items():
            check_integer(name, value, at_least=0 if name == "seed" else 1)
        if not check_paths("paths", paths):
            raise InputError("no files to read sentences from: name at least one.")
        self.paths = tuple(paths)
        self.num_epochs = num_epochs
        self.epoch = 0
        self.num_sentences = 0
        self._input: Input = input
        self._seed = seed
        self._shuffle = shuffle
        self._buffer_sentences = buffer_sentences
        self._passage_sentences = passage_sentences
        self._sizes = [_file_size(path) for path in self.paths]
        self._identity = {  # what must be the same for a state to mean the same sentences
            "num_files": len(self.paths),
            "names": _digest(path.name for path in self.paths),
            "sizes": _digest(str(size) for size in self._sizes),
            "raw_text": int(self._has_raw_text()),
            "seed": seed,
            "shuffle": int(shuffle),
            **numbers,
        }
        self._move_to(_Place(), buffer_number=0)

    def _has_raw_text(self) -> bool:
        """Whether any file is read as raw text; shards never are."""
        if self._input == "tokens":
            return False
        folders = {path.parent: path for path in self.paths}
        return not all(map(is_shard, folders.values()))

    def _move_to(self, begin: _Place, *, buffer_number: int, num_emitted: int = 0, within: int = 0) -> None:
        """Stand at a buffer that has not been read yet, with nothing open."""
        self._begin = begin
        self._buffer_number = buffer_number
        self._num_emitted = num_emitted  # whole passages of the buffer
        self._within = within  # sentences of the passage behind them
        self._buffer: list[bytes] = []  # passages as UTF-8, one sentence a line, spaces between tokens, which have none
        self._order: NDArray[np.int64] | None = None
        self._reader: Iterator[tuple[_Place, bytes]] | None = None
        self._pending: tuple[_Place, bytes] | None = None  # the first passage of the next buffer

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
        """Whether the next sentence belongs to the passage of the last one."""
        return self._within > 0

    def _leave_buffer(self) -> None:
        self._buffer = []
        self._num_emitted = 0
        if self._pending is None:
            self.epoch += 1
            self._move_to(_Place(), buffer_number=0)
        else:
            self._begin = self._pending[0]
            self._buffer_number += 1

    def _fill(self) -> None:
        """Read the buffer that begins at `_begin` and one passage more, to know whether the epoch ends with it."""
        reader = self._reader or self._read_passages(self._begin)
        buffer: list[bytes] = []
        num_sentences = num_bytes = 0
        try:
            item = first = self._pending or next(reader, None)
            while item is not None and num_sentences < self._buffer_sentences and num_bytes < _MAX_BUFFER_BYTES:
                buffer.append(item[1])
                num_sentences += item[1].count(b"\n") + 1
                num_bytes += len(item[1])
                item = next(reader, None)
            if first is None or self._num_emitted >= len(buffer):
                raise InputError(self._missing_sentences())
        except BaseException:  # whoever resumes or tries again reads this buffer from its beginning
            self._move_to(
                self._begin, buffer_number=self._buffer_number, num_emitted=self._num_emitted, within=self._within
            )
            raise
        self._begin, self._buffer, self._reader, self._pending = first[0], buffer, reader, item
        if self._shuffle:
            self._order = random_order(len(buffer), self._seed, self.epoch, _SENTENCE_ORDER, self._buffer_number)

    def _missing_sentences(self) -> str:
        if self._begin == _Place() and not self._num_emitted:
            names = ", ".join(str(path) for path in self.paths[:3]) + (" …" if len(self.paths) > 3 else "")
            return f"there is no sentence in {names}: give at least one file with text in it."
        return f"the corpus ends before the run can go on behind {self.position}: restore its files."

    def _files(self) -> NDArray[np.int64]:
        """The numbers of the files in the order of this epoch."""
        size = len(self.paths)
        return random_order(size, self._seed, self.epoch, _FILE_ORDER) if self._shuffle else np.arange(size)

    def _read_passages(self, begin: _Place) -> Iterator[tuple[_Place, bytes]]:
        first = last = begin
        passage: list[bytes] = []
        for place, sentence in self._read_epoch(begin):
            is_next = place.file == last.file and place.line <= last.line + 1  # a line without a sentence divides
            if passage and not (is_next and len(passage) < self._passage_sentences):
                yield first, b"\n".join(passage)
                passage = []
            first = first if passage else place
            passage.append(sentence)
            last = place
        if passage:
            yield first, b"\n".join(passage)

    def _read_epoch(self, begin: _Place) -> Iterator[tuple[_Place, bytes]]:
        for file, number in enumerate(self._files()):
            if file < begin.file:
                continue
            path, start = self.paths[number], begin if file == begin.file else _Place()
            try:
                if _file_size(path) != self._sizes[number]:
                    raise InputError(f"{path} has changed while it was in use: restore it.")
                for line, index, tokens in _read_located(path, self._input, "strict", start.line, start.sentence):
                    yield _Place(file, line, index), " ".join(tokens).encode()
            except InputError as error:
                if isinstance(error.__context__, UnicodeDecodeError):
                    raise
                text = str(error).removesuffix(".")
                raise InputError(f"{text}; the run can be resumed when the file is back.") from None

    @property
    def position(self) -> str:
        """The file and line at which the present buffer began, for messages."""
        return f"{self.paths[self._files()[self._begin.file]]}, line {self._begin.line + 1}"

    def state_dict(self) -> dict[str, int]:
        """Where the stream stands, and of which corpus and settings, as numbers for JSON."""
        return {
            "epoch": self.epoch,
            "num_sentences": self.num_sentences,
            "buffer": self._buffer_number,
            "num_emitted": self._num_emitted,
            "within": self._within,
            **self._begin._asdict(),
            **self._identity,
        }

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue with the sentence that would have come next when `state` was taken.

        Only the buffer of that moment is read again. `num_epochs` may be another one.

        Raises:
            InputError: If the state is of other files or other settings, or is none at all.
        """
        if not isinstance(state, Mapping):
            raise InputError(f"{shown(state)} is no state of a sentence stream: use a whole checkpoint.")
        broken = any(not isinstance(state.get(key), int) or state[key] < 0 for key in self.state_dict())
        if broken or state["file"] >= state["num_files"]:
            raise InputError("this is no state of a sentence stream: use a whole checkpoint.")
        for key, value in self._identity.items():
            if state[key] != value:
                raise InputError(_difference(key, state[key], value))
        self.epoch = state["epoch"]
        self.num_sentences = state["num_sentences"]
        begin = _Place(state["file"], state["line"], state["sentence"])
        emitted = {"num_emitted": state["num_emitted"], "within": state["within"]}
        self._move_to(begin, buffer_number=state["buffer"], **emitted)


def _difference(key: str, saved: int, given: int) -> str:
    if key in ("names", "sizes"):
        return f"the {key} of the files are not those of the run to resume: give its files, unchanged."
    if key == "raw_text":
        kinds = ("tokens", "raw text")
        return (
            f"the files are read as {kinds[given > 0]}, but were read as {kinds[saved > 0]} in the run to resume: give "
            f"the same --input (corpus.input), and leave {CORPUS_FILE} beside shards as it was."
        )
    return f"{key} is {given}, but {saved} in the run to resume: give its files and its settings."


def _digest(values: Iterator[str]) -> int:
    """48 bits that stand for a list of str, so that JSON holds them exactly."""
    return int.from_bytes(hashlib.sha256("\0".join(values).encode("utf-8", "surrogateescape")).digest()[:6])


def _file_size(path: Path) -> int:
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path} is not a regular file: a corpus is read again and again, so give files.")
    return status.st_size
