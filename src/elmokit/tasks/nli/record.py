"""Whether a hypothesis follows from a premise."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elmokit.tasks.records import Record, TaskText, rounded


@dataclass(frozen=True)
class NliRecord(Record):
    """The relation of a premise and a hypothesis."""

    premise: TaskText
    hypothesis: TaskText
    label: str | None
    """entailment, neutral or contradiction; None if a text is blank."""
    score: float | None
    """Probability of the label."""
    scores: Mapping[str, float]
    """Probability of every label."""

    def values(self) -> dict[str, Any]:
        """The tokens of both texts, with their offsets, and the label."""
        return {
            "premise": list(self.premise.tokens),
            "hypothesis": list(self.hypothesis.tokens),
            "premise_offsets": [list(pair) for pair in self.premise.offsets],
            "hypothesis_offsets": [list(pair) for pair in self.hypothesis.offsets],
            "label": self.label,
            "score": None if self.score is None else rounded(self.score),
            "scores": {name: rounded(score) for name, score in self.scores.items()},
        }
