"""Wrong command lines, one per row: what is typed, the exit code, and words that the answer must have.

They run in a copy of the workspace, in which no file may change and no file may be left. `!` before a line means that
it asks for something that must be refused although each of its words is right.
"""

from typing import NamedTuple


class Row(NamedTuple):
    """A command line that cannot be carried out."""

    line: str
    code: int
    words: tuple[str, ...]


def row(line: str, code: int, *words: str) -> Row:
    return Row(line, code, words)
