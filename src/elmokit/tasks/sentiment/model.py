"""A biattentive classification network (McCann et al. 2017) for the sentiment of sentences.

Notation: B sentences, T tokens, E width of the inputs, H of one direction, D of ELMo at the output, Y classes.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from elmokit.config import Config, Positive
from elmokit.errors import InputError
from elmokit.tasks.accuracy import ClassTask
from elmokit.tasks.base import Labels, Scored, TaskModel
from elmokit.tasks.batches import Text, TokenBatch
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.layers import BiRnn, Dropout, InputDropout, Maxout, attend, pool_all
from elmokit.tasks.records import Id, Record, TaskText
from elmokit.tasks.sentiment.labeled import is_json_lines, is_labeled
from elmokit.tasks.sentiment.reader import TREE_LABELS, SentimentExample, read_sentiment_labels, read_sst
from elmokit.tasks.sentiment.record import SentimentRecord
from elmokit.text.input_kind import InputKind
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


class Sentiment(ClassTask[SentimentExample]):
    """Sentiment, or any other classification of texts."""

    name: ClassVar[str] = "sentiment"
    settings: ClassVar[type[Config]] = SentimentSettings
    splits_sentences: ClassVar[bool] = False

    def read(self, paths: Iterable[Path], settings: SentimentSettings, *, training: bool) -> Iterator[SentimentExample]:
        """Read SST trees, or texts with labels; phrases are used in training only."""
        classes, phrases = settings.num_classes, settings.phrases and training
        return chain.from_iterable(
            read_sentiment_labels(path, input=_input_of(path, settings), num_classes=classes)
            if is_labeled(path)
            else read_sst(path, phrases=phrases, num_classes=classes)
            for path in paths
        )

    def texts(self, example: SentimentExample) -> tuple[Text, ...]:
        """The sentence."""
        return ((example.tokens,),)

    def find_labels(self, examples: Sequence[SentimentExample]) -> Labels:
        """The labels, unless all are numbers of classes, which need no names."""
        found = {example.label for example in examples}
        if all(isinstance(label, int) for label in found):
            return {}
        if len(found) == 1:
            raise InputError(f"the training files have one label, {found.pop()!r}: give texts of two labels or more.")
        return {"classes": sorted(map(str, found))}

    def gold_labels(self, example: SentimentExample) -> Iterable[str]:
        """Its label."""
        return (str(example.label),)

    def known_labels(self, labels: Labels) -> Collection[str]:
        """The classes."""
        return _classes(labels)

    def counts(self, example: SentimentExample, prediction: Any) -> Sequence[float]:
        """1 if the prediction is correct, else 0; then 1 for the example."""
        return float(str(example.label) == str(prediction)), 1.0

    def build(self, settings: SentimentSettings, inputs: TokenInputs, labels: Labels) -> TaskModel:
        """A biattentive classification network."""
        return SentimentModel(settings, inputs, labels.get("classes", ()))

    def collate(self, examples: Sequence[SentimentExample], labels: Labels, texts: Sequence[TokenBatch]) -> Tensor:
        """Gold classes (B,); a label that training never saw is the first one."""
        numbers = {name: number for number, name in enumerate(_classes(labels))}
        return torch.tensor([numbers.get(str(example.label), 0) for example in examples])

    def to_examples(self, texts: Sequence[TaskText]) -> list[SentimentExample]:
        """A text as one token sequence, like the sentences of SST."""
        return [SentimentExample(texts[0].tokens, 0)] if texts[0].tokens else []

    def to_record(
        self,
        index: int,
        id: Id,
        texts: Sequence[TaskText],
        found: Sequence[tuple[SentimentExample, Scored]],
        settings: SentimentSettings,
    ) -> Record:
        """The class and the probabilities of all classes."""
        if not found:
            return SentimentRecord(index, id, texts[0], None, None, None, {})
        label, scores = found[0][1]
        name = label if isinstance(label, str) else NAMES[settings.num_classes][label]
        return SentimentRecord(index, id, texts[0], label, name, scores[name], scores)


def _input_of(path: Path, settings: SentimentSettings) -> InputKind:
    if settings.input != "auto":
        return settings.input
    return "text" if is_json_lines(path) else "tokens"


def _classes(labels: Labels) -> Sequence[str]:
    """The labels of a model, in the order of its scores."""
    return labels.get("classes") or [str(number) for number in range(TREE_LABELS)]
