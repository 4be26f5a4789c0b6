"""A wrong command line: what is typed, the exit code, and words that the answer must have."""

from typing import NamedTuple

DATA = "--train train.conll --dev dev.conll"
TESTED = f"{DATA} --test test.conll"


class Row(NamedTuple):
    """A command line that cannot be carried out."""

    line: str
    code: int
    words: tuple[str, ...]


def row(line: str, code: int, *words: str) -> Row:
    return Row(line, code, words)
