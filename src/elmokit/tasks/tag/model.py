"""A tagger of tokens: the biLSTM-CRF of named entity recognition, whose labels may follow each other in any order."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from elmokit.tasks.base import Scored
from elmokit.tasks.batches import TokenBatch
from elmokit.tasks.ner.model import NerModel, NerSettings


class TagSettings(NerSettings):
    """The column of the labels, and the encoder's sizes."""

    column: str = ""
    """Column of the labels: upos, xpos or another name of CoNLL-U, or a number from 1; empty: upos in CoNLL-U, the last
    column of other files."""
    chunks: bool = False
    """Whether labels are chunks (B-NP, I-NP, O), whose exact span F1 is reported too."""


class TagModel(NerModel):
    """Inputs → biLSTM → label scores → CRF."""

    def rules(self) -> dict[str, Tensor]:
        """None: any label may follow any other."""
        return {}

    def predict(self, texts: Sequence[TokenBatch], gold: Any) -> list[Any]:
        """The label of each token of each sentence."""
        (batch,) = texts
        return [[self.tags[tag] for tag in tags] for tags in self.crf.decode(self._run(batch), batch.mask)]

    def predict_scored(self, texts: Sequence[TokenBatch], gold: Any, *, num_best: int = 1) -> list[Scored]:
        """The labels, and the marginal probability of each."""
        (batch,) = texts
        scores = self._run(batch)
        posteriors = self.crf.posteriors(scores, batch.mask)
        found: list[Scored] = []
        for row, tags in enumerate(self.crf.decode(scores, batch.mask)):
            chances = [posteriors.segment(row, place, [tag]) for place, tag in enumerate(tags)]
            found.append(([self.tags[tag] for tag in tags], chances))
        return found
