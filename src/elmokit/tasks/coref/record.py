"""The clusters of mentions in a document."""

from dataclasses import dataclass
from typing import Any

from elmokit.tasks.records import TextRecord, TextSpan


@dataclass(frozen=True)
class LinkedMention:
    """A mention of an entity."""

    span: TextSpan
    """The score is the probability of the decision: to refer back to `antecedent`, or to nothing before."""
    antecedent: tuple[int, int] | None
    """The tokens of the earlier mention that this one refers back to; None for the first of a cluster."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**self.span.to_dict(), "antecedent": self.antecedent and list(self.antecedent)}


@dataclass(frozen=True)
class CorefRecord(TextRecord):
    """Which mentions of a document refer to the same entity."""

    clusters: tuple[tuple[LinkedMention, ...], ...]
    """Mentions from left to right, clusters by their first mention; positions count from the document's first token."""

    def values(self) -> dict[str, Any]:
        """The document, its sentences, and the clusters."""
        return {
            **self.source.to_dict(),
            "sentences": [list(sentence) for sentence in self.source.sentences],
            "clusters": [[mention.to_dict() for mention in cluster] for cluster in self.clusters],
        }
