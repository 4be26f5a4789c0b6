"""A document with its clusters of mentions."""

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from elmokit.errors import InputError


class Mention(NamedTuple):
    """Tokens `start` to `end` of a document, the latter not included."""

    start: int
    end: int


@dataclass(frozen=True)
class CorefDocument:
    """A document, or a part of one, and which of its mentions are the same entity."""

    name: str
    sentences: tuple[tuple[str, ...], ...]
    clusters: tuple[tuple[Mention, ...], ...] = ()
    """Mentions from left to right, clusters by their first; none, if nothing is annotated."""
    part: int = 0
    speakers: tuple[tuple[str, ...], ...] | None = None
    """Of each token, where the files have them; `-` where nobody is known to speak."""
    genre: str | None = None
    """Where the document's name tells it."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens, which mentions count."""
        return tuple(token for sentence in self.sentences for token in sentence)

    def without_singletons(self) -> "CorefDocument":
        """The same document without the clusters of one mention."""
        return replace(self, clusters=tuple(cluster for cluster in self.clusters if len(cluster) > 1))

    def cut(self, max_tokens: int, *, first_sentence: int = 0, singletons: bool = True) -> "CorefDocument":
        """As many whole sentences from `first_sentence` on as have at most `max_tokens` tokens.

        Mentions are counted from the new beginning; those that are not wholly inside are gone, and so are clusters of
        which none is left, or, without `singletons`, only one.
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
            clusters=tuple(sorted(cluster for cluster in inside if len(cluster) >= least)),
            speakers=self.speakers and self.speakers[first_sentence:last],
        )
