"""A document with its clusters of mentions."""

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from elmokit.errors import InputError


class Mention(NamedTuple):
    """Tokens `start` to `end` (exclusive) of a document."""

    start: int
    end: int


@dataclass(frozen=True)
class CorefDocument:
    """A document, or a part of one, and its clusters of mentions that refer to the same entity."""

    name: str
    sentences: tuple[tuple[str, ...], ...]
    clusters: tuple[tuple[Mention, ...], ...] = ()
    """Mentions from left to right, clusters by their first opening brackets; empty if nothing is annotated.

    The order decides which cluster keeps a mention that several have: see `elmokit.tasks.coref.metric`.
    """
    part: int = 0
    speakers: tuple[tuple[str, ...], ...] | None = None
    """The speaker of each token, if the files have speakers; `-` if unknown."""
    genre: str | None = None
    """The genre, if the document's name contains it."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens; mentions are offsets into them."""
        return tuple(token for sentence in self.sentences for token in sentence)

    def cut(self, max_tokens: int, *, first_sentence: int = 0, singletons: bool = True) -> "CorefDocument":
        """The longest run of whole sentences from `first_sentence` on with at most `max_tokens` tokens.

        Mention offsets are relative to the new start. Mentions that are not entirely inside are dropped, and so are
        clusters with no mention left or, without `singletons`, with only one.
        """
        if not 0 <= first_sentence < len(self.sentences):
            raise InputError(
                f"{self.name} has {len(self.sentences)} sentences, so none can be the first with number "
                f"{first_sentence}: count from 0."
            )
        ends = (0, *accumulate(len(sentence) for sentence in self.sentences))  # tokens up to each sentence
        start = ends[first_sentence]
        last = max(number for number, end in enumerate(ends) if end - start <= max_tokens)
        if last <= first_sentence:
            raise InputError(
                f"sentence {first_sentence} of {self.name} has {len(self.sentences[first_sentence])} tokens, more than "
                f"max_tokens {max_tokens}: allow for at least one sentence."
            )
        inside = (
            tuple(
                Mention(mention.start - start, mention.end - start)
                for mention in cluster
                if start <= mention.start and mention.end <= ends[last]
            )
            for cluster in self.clusters
        )
        least = 1 if singletons else 2
        return replace(
            self,
            sentences=self.sentences[first_sentence:last],
            clusters=tuple(sorted((each for each in inside if len(each) >= least), key=lambda each: each[0].start)),
            speakers=self.speakers and self.speakers[first_sentence:last],
        )
