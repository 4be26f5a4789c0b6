"""A token in its sentence, and where the sentence is from."""

from typing import NamedTuple


class Occurrence(NamedTuple):
    """A token in its sentence."""

    tokens: tuple[str, ...]
    position: int
    """Position of the token in the sentence, from 0."""
    source: str = ""
    """The file and line of the sentence, for people."""
    line: int = 0
    """The line of the corpus, from 1; 0 if it is from no corpus."""

    @property
    def form(self) -> str:
        """The token as it is written there."""
        return self.tokens[self.position]
