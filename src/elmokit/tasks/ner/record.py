"""The entities of a text."""

from dataclasses import dataclass
from typing import Any

from elmokit.tasks.records import TextRecord, TextSpan, rounded


@dataclass(frozen=True)
class NerRecord(TextRecord):
    """The named entities of a text."""

    entities: tuple[TextSpan, ...]
    """From left to right; the score is the marginal probability of the CRF."""

    def values(self) -> dict[str, Any]:
        """The text, its tokens, and the entities."""
        return {**self.source.to_dict(), "entities": [entity.to_dict() for entity in self.entities]}

    def to_transformers(self) -> list[dict[str, Any]]:
        """The entities as the NER pipeline of transformers returns them with `aggregation_strategy="simple"`."""
        return [
            {
                "entity_group": entity.type,
                "score": rounded(entity.score),
                "word": entity.text,
                "start": entity.start_char,
                "end": entity.end_char,
            }
            for entity in self.entities
        ]
