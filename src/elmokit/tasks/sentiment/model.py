"""A biattentive classification network (McCann et al. 2017) for the sentiment of sentences.

Notation: B sentences, T tokens, E width of the inputs, H of one direction, D of ELMo at the output, Y classes.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from elmokit.config import Config, Positive
from elmokit.errors import InputError
from elmokit.tasks.base import Scored, TaskModel
from elmokit.tasks.batches import TokenBatch
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.layers import BiRnn, Dropout, InputDropout, Maxout, attend, pool_all
from elmokit.training.config import Share

NAMES = {2: ("negative", "positive"), 5: ("very negative", "negative", "neutral", "positive", "very positive")}


class SentimentSettings(Config):
    """Classes, training examples and sizes."""

    num_classes: Literal[2, 5] = 5
    """2: negative or positive; 5: from very negative to very positive. Training files with other labels than these
    numbers replace them: any text classification."""
    input: Literal["auto", "text", "tokens"] = "auto"
    """Whether texts with labels are raw text or space-separated tokens; auto: raw text in JSON lines, tokens in .tsv
    files."""
    phrases: bool = True
    """Whether every subtree of a training tree is an example."""
    hidden_dim: Positive = 300
    """Width of the feed-forward layer and of one direction of both biLSTMs."""
    maxout_dims: tuple[Positive, ...] = (1200, 600)
    """Widths of the hidden maxout layers before the classes."""
    norm: Literal["batch", "layer"] = "batch"
    """Normalization before each of them. Training batches have phrases of one length, whose statistics differ from
    those of whole sentences; `layer` does not use batch statistics."""
    input_dropout: Share = 0.5
    """Dropout on the inputs."""
    dropout: Share = 0.3
    """Dropout between the later layers."""


class SentimentModel(TaskModel):
    """Inputs → feed-forward → biLSTM → attention to itself → biLSTM → four pools → maxout layers."""

    def __init__(self, settings: SentimentSettings, inputs: TokenInputs, classes: Sequence[str] = ()) -> None:
        super().__init__()
        self.inputs, self.names = inputs, tuple(classes)
        self.shown_names = self.names or NAMES[settings.num_classes]
        hidden = settings.hidden_dim
        self.input_dropout = InputDropout(settings.input_dropout)
        self.forward_layer = nn.Sequential(nn.Linear(inputs.dim, hidden), nn.ReLU())
        self.encoder = BiRnn(hidden, hidden)
        width = self.encoder.dim + inputs.extra_dim
        self.integrator = BiRnn(3 * width, hidden, dropout=settings.dropout)
        self.gate = nn.Linear(self.integrator.dim, 1)
        widths = (4 * self.integrator.dim, *settings.maxout_dims)
        self.batch_norm = settings.norm == "batch" and bool(settings.maxout_dims)
        norm = nn.BatchNorm1d if self.batch_norm else nn.LayerNorm
        self.maxouts = nn.Sequential(
            *(
                nn.Sequential(norm(first), Dropout(settings.dropout), Maxout(first, second))
                for first, second in pairwise(widths)
            )
        )
        self.classes = nn.Linear(widths[-1], len(classes) or settings.num_classes)

    def _run(self, batch: TokenBatch) -> Tensor:
        tokens, extra, mask = self.inputs(batch)  # (B, T, E), (B, T, D)
        x = self.encoder(self.forward_layer(self.input_dropout(tokens)), mask)  # (B, T, 2H)
        x = x if extra is None else torch.cat([x, extra], 2)  # (B, T, 2H + D)
        around = attend(x, x, mask)  # (B, T, 2H + D)
        x = self.integrator(torch.cat([x, x - around, x * around], 2), mask)  # (B, T, 2H)
        weights = self.gate(x)[:, :, 0].masked_fill(~mask, -torch.inf).softmax(1)  # (B, T)
        pooled = torch.cat([pool_all(x, mask), (weights[:, :, None] * x).sum(1)], 1)  # (B, 8H)
        scores: Tensor = self.classes(self.maxouts(pooled))  # (B, Y)
        return scores

    def loss(self, texts: Sequence[TokenBatch], gold: Any) -> Tensor:
        """Cross entropy."""
        if self.training and len(gold) == 1 and self.batch_norm:
            raise InputError(
                "a training batch of sentiment has one example, but batch normalization needs two or more: set "
                "batch_size to at least 2 and give at least two training examples, or set model.norm to layer."
            )
        return cross_entropy(self._run(texts[0]), gold)

    def predict(self, texts: Sequence[TokenBatch], gold: Any) -> list[Any]:
        """The class of each sentence: a number from 0, or a label of the training files."""
        classes: list[Any] = self._run(texts[0]).argmax(1).tolist()
        return [self.names[number] for number in classes] if self.names else classes

    def predict_scored(self, texts: Sequence[TokenBatch], gold: Any, *, num_best: int = 1) -> list[Scored]:
        """The class of each sentence, and the probability of every class by its name."""
        scores = self._run(texts[0])  # (B, Y)
        found: list[Scored] = []
        for number, chances in zip(scores.argmax(1).tolist(), scores.softmax(1).tolist(), strict=True):
            by_name = dict(zip(self.shown_names, chances, strict=True))
            found.append((self.names[number] if self.names else number, by_name))
        return found
