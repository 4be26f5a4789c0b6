"""ESIM (Chen et al. 2017): does a premise entail a hypothesis, contradict it, or neither?

Notation: B pairs, T and U tokens of premise and hypothesis, E width of the inputs, H of one direction, D of ELMo at the
output, Y labels.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from elmokit.config import Config, Positive
from elmokit.tasks.accuracy import ClassTask
from elmokit.tasks.base import Labels, Scored, TaskModel
from elmokit.tasks.batches import Text, TokenBatch
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.layers import BiRnn, Dropout, InputDropout, attend, pool_mean_max
from elmokit.tasks.nli.reader import LABELS, NliExample, read_nli
from elmokit.tasks.nli.record import NliRecord
from elmokit.tasks.records import Id, Record, TaskText
from elmokit.text.input_kind import InputKind
from elmokit.training.config import Share


class NliSettings(Config):
    """Input kind and sizes."""

    input: InputKind = "text"
    """Whether sentences are raw text or space-separated tokens."""
    hidden_dim: Positive = 300
    """Width of one direction of both biLSTMs, and of the layers between."""
    dropout: Share = 0.5
    """Dropout on the inputs and between layers."""


class NliModel(TaskModel):
    """Inputs → biLSTM → soft alignment → comparison → biLSTM → pools → feed-forward."""

    def __init__(self, settings: NliSettings, inputs: TokenInputs) -> None:
        super().__init__()
        self.inputs = inputs
        hidden = settings.hidden_dim
        self.input_dropout = InputDropout(settings.dropout)
        self.encoder = BiRnn(inputs.dim, hidden)
        self.compare = nn.Linear(4 * (self.encoder.dim + inputs.extra_dim), hidden)
        self.compose = BiRnn(hidden, hidden, dropout=settings.dropout)
        self.classify = nn.Sequential(
            Dropout(settings.dropout),
            nn.Linear(4 * self.compose.dim, hidden),
            nn.Tanh(),
            Dropout(settings.dropout),
            nn.Linear(hidden, len(LABELS)),
        )

    def _encode(self, batch: TokenBatch) -> Tensor:
        tokens, extra, mask = self.inputs(batch)  # (B, T, E), (B, T, D)
        x = self.encoder(self.input_dropout(tokens), mask)  # (B, T, 2H)
        return x if extra is None else torch.cat([x, extra], 2)  # (B, T, 2H + D)

    def _compose(self, x: Tensor, aligned: Tensor, mask: Tensor) -> Tensor:
        return pool_mean_max(self.compose(self._compare(x, aligned).relu(), mask), mask)  # (B, 4H)

    def _compare(self, x: Tensor, aligned: Tensor) -> Tensor:
        """`compare` of [x; aligned; x − aligned; x · aligned], without a separate product for the difference."""
        own, other, difference, product = self.compare.weight.chunk(4, 1)  # (H, 2H + D) each
        compared = linear(x, own + difference, self.compare.bias)  # (B, T, H)
        return compared + linear(aligned, other - difference) + linear(x * aligned, product)

    def _run(self, texts: Sequence[TokenBatch]) -> Tensor:
        first, second = texts
        a, b = self._encode(first), self._encode(second)  # (B, T, 2H + D), (B, U, 2H + D)
        pooled = torch.cat(
            [
                self._compose(a, attend(a, b, second.mask), first.mask),
                self._compose(b, attend(b, a, first.mask), second.mask),
            ],
            1,
        )  # (B, 8H)
        scores: Tensor = self.classify(pooled)  # (B, Y)
        return scores

    def loss(self, texts: Sequence[TokenBatch], gold: Any) -> Tensor:
        """Cross entropy."""
        return cross_entropy(self._run(texts), gold)

    def predict(self, texts: Sequence[TokenBatch], gold: Any) -> list[Any]:
        """The label of each pair."""
        return [LABELS[number] for number in self._run(texts).argmax(1).tolist()]

    def predict_scored(self, texts: Sequence[TokenBatch], gold: Any, *, num_best: int = 1) -> list[Scored]:
        """The label of each pair, and the probability of every label."""
        scores = self._run(texts)  # (B, Y)
        labels = (LABELS[number] for number in scores.argmax(1).tolist())
        return list(zip(labels, scores.softmax(1).tolist(), strict=True))


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
