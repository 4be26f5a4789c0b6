"""Small corpora, raw and tokenized, in plain and compressed files, and the sentences in them."""

import bz2
import gzip
import lzma
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmokit.text.input_kind import InputKind
from elmokit.text.tokenize import tokenize

TEXT = [
    "It rains. Why? Nobody knows! Go home.\n\n   \nDr. No can't stay.\n",
    "",
    "One. Two. Three. Four. Five.\nno newline at the end. Really",
    "\n\n\nA line. Another one.\n\n",
]
TOKENS = ["a b\n\nc\n d  e\tf \n", "\n \n", "g\nh\u3000i\nj\x85k\nl\u2028m", "n\n" * 3 + "o \u200b \ufeffp\n"]
COMPRESS: list[tuple[str, Callable[[bytes], bytes]]] = [
    (".txt", bytes),
    (".gz", gzip.compress),
    (".xz", lzma.compress),
    (".bz2", bz2.compress),
]

_open_counts: list[Counter[str]] = []


def _note_opening(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _open_counts:
        _open_counts[-1][str(arguments[0])] += 1


@contextmanager
def count_opens() -> Iterator[Counter[str]]:
    """How often this process opens each file meanwhile, by path."""
    if _note_opening not in _hooks:  # a hook cannot be removed
        sys.addaudithook(_note_opening)
        _hooks.append(_note_opening)
    _open_counts.append(Counter())
    try:
        yield _open_counts[-1]
    finally:
        _open_counts.pop()


_hooks: list[Callable[..., None]] = []


def write_files(folder: Path, texts: list[str], *, compressed: bool = True) -> list[Path]:
    paths = []
    for number, text in enumerate(texts):
        suffix, compress = COMPRESS[number % 4 if compressed else 0]
        paths.append(folder / f"part-{number}{suffix}")
        paths[-1].write_bytes(compress(text.encode()))
    return paths


def sentences_of(texts: list[str], input: InputKind) -> list[list[str]]:
    lines = [line for text in texts for line in text.split("\n")]
    if input == "tokens":
        return [line.split() for line in lines if line.split()]
    return [[token.text for token in sentence] for line in lines for sentence in tokenize(line)]
