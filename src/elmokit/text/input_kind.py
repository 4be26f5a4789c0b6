"""The kind of a text, raw text or tokens separated by spaces, and how to detect that it is really the other kind."""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from elmokit.errors import ConfigError, ElmokitError, ElmokitWarning, InputError
from elmokit.recognize import read_object
from elmokit.text.files import open_text

InputKind = Literal["tokens", "text"]
INPUTS: tuple[InputKind, ...] = get_args(InputKind)
DEFAULT_INPUT: InputKind = "text"

CORPUS_FILE, CORPUS_FORMAT = "corpus.json", "elmokit-corpus"
"""The file beside the shards of `elmokit corpus shard`, and the value of its key `format`."""

_HEAD_WORDS = 1000
_LINE_CHARACTERS = 65_536
_MIN_SIGNS, _MIN_SHARE = 3, 0.02

# A mark glued to a word: a comma anywhere, but a period only at the end of a line, as elsewhere it may belong to an
# abbreviation.
_GLUED_ANYWHERE = re.compile(r"[^\W\d_][,;،，、।]$")
_GLUED_AT_THE_END = re.compile(r"[^\W\d_][.!?。！？۔।][\"'”’»)\]]*$")
_EDGES = re.compile(r"^\W+|\W+$")
_APART = frozenset(
    [",", ".", "،", "。", "，", "、", "।", "۔", "n't", "'s", "’s", "n’t", "``", "''", "-LRB-", "-RRB-", "<unk>", "@-@"]
)


def check_input(input: str) -> None:
    """Refuse a kind of input that does not exist."""
    if input not in INPUTS:
        raise ConfigError(f"input {input!r} is unknown: choose {' or '.join(INPUTS)}.")


def is_shard(path: Path) -> bool:
    """Whether a file is in a folder that `elmokit corpus shard` wrote, and so holds tokens."""
    return read_shard_summary(path.parent) is not None


def read_shard_summary(folder: Path) -> Mapping[str, Any] | None:
    """The content of the `corpus.json` in a folder of shards; None for any other folder."""
    content = read_object(folder / CORPUS_FILE)
    return content if content.get("format") == CORPUS_FORMAT else None


def has_raw_text(paths: Iterable[Path], input: InputKind) -> bool:
    """Whether any of several files is read as raw text; shards never are."""
    folders = {path.parent: path for path in paths}
    return any(actual_input(path, input) == "text" for path in folders.values())


def actual_input(path: Path, input: InputKind) -> InputKind:
    """How to read a file: a shard as tokens, any other file as requested.

    Raises:
        InputError: if it is the summary beside shards, which a pattern such as shards/* names with them.
    """
    if path.name == CORPUS_FILE and is_shard(path):
        raise InputError(
            f"{path} is the summary of a folder of shards, not text: name the shards alone, as in "
            f"'{path.parent}/shard-*'."
        )
    return "tokens" if input == "text" and is_shard(path) else input


def looks_like(lines: Iterable[str], input: InputKind) -> str | None:
    """A word that suggests that lines are the other kind of input; None if there is none, or too little text.

    In raw text punctuation is glued to words ("rates."), in tokens it is separate, so the first thousand words are
    enough. Marks that prove nothing do not count: French writes a space before some, and abbreviations keep their
    period.
    """
    glued, apart = list[str](), list[str]()
    num_words = 0
    for line in lines:
        words = line.split()
        num_words += len(words)
        glued += filter(_GLUED_ANYWHERE.search, words)
        if len(words) > 1 and _GLUED_AT_THE_END.search(words[-1]):
            glued.append(words[-1])
        if len(words) > 1:
            apart += filter(_APART.__contains__, words)
        if num_words >= _HEAD_WORDS:
            break
    signs, against = (glued, apart) if input == "tokens" else (apart, glued)
    if len(signs) < max(_MIN_SIGNS, _MIN_SHARE * num_words) or len(signs) <= len(against):
        return None
    return signs[0]


def glued_form(word: str, tokens: Iterable[str]) -> str | None:
    """A token that is the word with punctuation glued to it, as in raw text that was not tokenized."""
    return next((token for token in tokens if token != word and word and _EDGES.sub("", token) == word), None)


def warn_if_other_kind(lines: Iterable[str], input: InputKind, name: str, option: str = "--input ") -> None:
    """Warn if lines look like the other kind of input; `option` is how a command chooses the kind."""
    word = looks_like(lines, input)
    if word is None:
        return
    if input == "tokens":
        text = (
            f"{name} looks like raw text ({word!r} is one token), but is read as tokens between spaces, so punctuation "
            f"stays glued to words: give {option}text (input='text')."
        )
    else:
        text = (
            f"{name} looks like tokens already ({word!r} between spaces), but is read as raw text and tokenized again: "
            f"give {option}tokens (input='tokens') to keep its tokens and sentences."
        )
    warnings.warn(text, ElmokitWarning, stacklevel=3)


def warn_of_files(paths: Iterable[Path], input: InputKind) -> None:
    """Warn in the same way about the first file that has text; pipes, which can be read only once, are skipped."""
    for path in paths:
        if path.is_file() and (head := _read_head(path)):
            warn_if_other_kind(head, actual_input(path, input), str(path))
            return


def _read_head(path: Path) -> list[str]:
    """The first lines of a file, about a thousand words; none if it cannot be read, which is reported elsewhere."""
    head: list[str] = []
    num_words = 0
    try:
        with open_text(path, errors="replace") as text:
            while num_words < _HEAD_WORDS and (line := text.readline(_LINE_CHARACTERS)):
                num_words += len(line.split())
                head.append(line)
    except ElmokitError:
        return []
    return head if num_words else []


def watched(lines: Iterable[str], input: InputKind, name: str, option: str = "--input ") -> Iterator[str]:
    """Pass lines on, and warn once about the first thousand words if they look like the other kind of input."""
    head: list[str] = []
    num_words = 0
    is_open = True
    for line in lines:
        if is_open:
            head.append(line)
            num_words += len(line.split())
            if num_words >= _HEAD_WORDS:
                warn_if_other_kind(head, input, name, option)
                is_open, head = False, []
        yield line
    if is_open:
        warn_if_other_kind(head, input, name, option)
