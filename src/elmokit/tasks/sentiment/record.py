"""The sentiment of a text, or its class by any other labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elmokit.tasks.records import TextRecord, rounded


@dataclass(frozen=True)
class SentimentRecord(TextRecord):
    """How positive a text is, or which label it has."""

    label: int | str | None
    """The class, from 0, the most negative, or a label of the training files; None if the text is blank."""
    name: str | None
    """The class in words."""
    score: float | None
    """Probability of the class."""
    scores: Mapping[str, float]
    """Probability of every class, by name."""

    def values(self) -> dict[str, Any]:
        """The text, its tokens, and the class."""
        return {
            **self.source.to_dict(),
            **({} if isinstance(self.label, str) else {"class": self.label, "sentiment": self.name}),
            "label": self.name,
            "score": None if self.score is None else rounded(self.score),
            "scores": {name: rounded(score) for name, score in self.scores.items()},
        }
