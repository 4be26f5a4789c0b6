"""A sentence with named entities."""

from dataclasses import dataclass

from elmokit.tasks.spans import Span, to_spans


@dataclass(frozen=True)
class NerExample:
    """A sentence with its entities as IOB2 tags."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def spans(self) -> tuple[Span, ...]:
        """The entities, from left to right."""
        return to_spans(self.tags)
