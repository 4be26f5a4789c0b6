"""Natural language inference as a task: its files, labels, figures and records."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from elmokit.config import Config
from elmokit.tasks.accuracy import ClassTask
from elmokit.tasks.base import Labels, Scored, TaskModel
from elmokit.tasks.batches import Text, TokenBatch
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.nli.model import NliModel, NliSettings
from elmokit.tasks.nli.reader import LABELS, NliExample, read_nli
from elmokit.tasks.nli.record import NliRecord
from elmokit.tasks.records import Id, Record, TaskText


class Nli(ClassTask[NliExample]):
    """Natural language inference: does a premise entail a hypothesis?"""

    name: ClassVar[str] = "nli"
    fields: ClassVar[tuple[str, ...]] = ("premise", "hypothesis")
    settings: ClassVar[type[Config]] = NliSettings
    splits_sentences: ClassVar[bool] = False

    def read(self, paths: Iterable[Path], settings: NliSettings, *, training: bool) -> Iterator[NliExample]:
        """Read SNLI, MultiNLI, SICK and counterfactual files."""
        return chain.from_iterable(read_nli(path, input=settings.input) for path in paths)

    def reads_raw_text(self, settings: NliSettings) -> bool:
        """Depends on the setting `input`."""
        return settings.input == "text"

    def texts(self, example: NliExample) -> tuple[Text, ...]:
        """Premise and hypothesis."""
        return (example.premise,), (example.hypothesis,)

    def build(self, settings: NliSettings, inputs: TokenInputs, labels: Labels) -> TaskModel:
        """ESIM."""
        return NliModel(settings, inputs)

    def collate(self, examples: Sequence[NliExample], labels: Labels, texts: Sequence[TokenBatch]) -> Tensor:
        """Gold labels (B,)."""
        return torch.tensor([LABELS.index(example.label) for example in examples])

    def to_examples(self, texts: Sequence[TaskText]) -> list[NliExample]:
        """One pair."""
        premise, hypothesis = texts
        return (
            [NliExample(premise.tokens, hypothesis.tokens, LABELS[0])] if premise.tokens and hypothesis.tokens else []
        )

    def to_record(
        self,
        index: int,
        id: Id,
        texts: Sequence[TaskText],
        found: Sequence[tuple[NliExample, Scored]],
        settings: NliSettings,
    ) -> Record:
        """The label and the probabilities of all labels."""
        premise, hypothesis = texts
        if not found:
            return NliRecord(index, id, premise, hypothesis, None, None, {})
        label, scores = found[0][1]
        named = dict(zip(LABELS, scores, strict=True))
        return NliRecord(index, id, premise, hypothesis, label, named[label], named)
