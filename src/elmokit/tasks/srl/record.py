"""The predicates of a text and their arguments."""

from dataclasses import dataclass
from typing import Any

from elmokit.tasks.records import TextRecord, TextSpan, rounded


@dataclass(frozen=True)
class Frame:
    """A predicate with its arguments."""

    predicate: TextSpan
    """One token; the score is the probability that it is a predicate."""
    arguments: tuple[TextSpan, ...]
    """From left to right; the score is the marginal probability of exactly this span."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "index": self.predicate.start,
            "token": self.predicate.text,
            "start_char": self.predicate.start_char,
            "end_char": self.predicate.end_char,
            "score": rounded(self.predicate.score),
            "arguments": [argument.to_dict() for argument in self.arguments],
        }


@dataclass(frozen=True)
class SrlRecord(TextRecord):
    """Who did what to whom in a text."""

    predicates: tuple[Frame, ...]
    """From left to right."""

    def values(self) -> dict[str, Any]:
        """The text, its tokens, and the predicates."""
        return {**self.source.to_dict(), "predicates": [frame.to_dict() for frame in self.predicates]}
