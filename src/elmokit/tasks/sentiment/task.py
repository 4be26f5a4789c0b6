"""Text classification as a task: its files, labels, figures and records."""

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
from elmokit.tasks.records import Id, Record, TaskText
from elmokit.tasks.sentiment.model import SentimentModel, SentimentSettings
from elmokit.tasks.sentiment.reader import SentimentExample, read_sentiment_tsv, read_sst
from elmokit.tasks.sentiment.record import SentimentRecord

NAMES = {2: ("negative", "positive"), 5: ("very negative", "negative", "neutral", "positive", "very positive")}


class Sentiment(ClassTask[SentimentExample]):
    """Sentiment classification: how positive a sentence is."""

    name: ClassVar[str] = "sentiment"
    settings: ClassVar[type[Config]] = SentimentSettings
    splits_sentences: ClassVar[bool] = False

    def read(self, paths: Iterable[Path], settings: SentimentSettings, *, training: bool) -> Iterator[SentimentExample]:
        """Read SST trees, or .tsv files of tokens; phrases are used in training only."""
        classes, phrases = settings.num_classes, settings.phrases and training
        return chain.from_iterable(
            read_sentiment_tsv(path, input="tokens", num_classes=classes)
            if ".tsv" in path.suffixes
            else read_sst(path, phrases=phrases, num_classes=classes)
            for path in paths
        )

    def texts(self, example: SentimentExample) -> tuple[Text, ...]:
        """The sentence."""
        return ((example.tokens,),)

    def build(self, settings: SentimentSettings, inputs: TokenInputs, labels: Labels) -> TaskModel:
        """A biattentive classification network."""
        return SentimentModel(settings, inputs)

    def collate(self, examples: Sequence[SentimentExample], labels: Labels, texts: Sequence[TokenBatch]) -> Tensor:
        """Gold classes (B,)."""
        return torch.tensor([example.label for example in examples])

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
        names = NAMES[settings.num_classes]
        return SentimentRecord(
            index, id, texts[0], label, names[label], scores[label], dict(zip(names, scores, strict=True))
        )
