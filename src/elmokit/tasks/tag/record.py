"""The labels of the tokens of a text."""

from dataclasses import dataclass
from typing import Any

from elmokit.tasks.records import TextRecord, rounded


@dataclass(frozen=True)
class TagRecord(TextRecord):
    """A label for each token of a text, such as its part of speech."""

    tags: tuple[str, ...]
    """One label per token, over all sentences."""
    scores: tuple[float, ...]
    """The marginal probability of each label in the CRF."""

    def values(self) -> dict[str, Any]:
        """The text, its tokens, and their labels."""
        return {**self.source.to_dict(), "tags": list(self.tags), "scores": [rounded(score) for score in self.scores]}
