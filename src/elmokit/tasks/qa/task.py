"""Question answering as a task: its files, gold answers, figures and records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import torch

from elmokit.config import Config
from elmokit.tasks.base import Labels, Scored, Task, TaskModel
from elmokit.tasks.batches import Text, TokenBatch
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.qa.metric import exact_match, token_f1
from elmokit.tasks.qa.model import QaGold, QaModel, QaSettings
from elmokit.tasks.qa.reader import Paragraph, QaExample, TokenSpan, read_squad
from elmokit.tasks.qa.record import QaRecord
from elmokit.tasks.records import Id, Record, TaskText


class Qa(Task[QaExample]):
    """Question answering: the words of a paragraph that answer a question."""

    name: ClassVar[str] = "qa"
    metric: ClassVar[str] = "f1"
    fields: ClassVar[tuple[str, ...]] = ("context", "question")
    settings: ClassVar[type[Config]] = QaSettings
    has_candidates: ClassVar[bool] = True

    def read(self, paths: Iterable[Path], settings: QaSettings, *, training: bool) -> Iterator[QaExample]:
        """Read SQuAD v1.1 files; in training, only questions with an answer that tokens cover."""
        examples = chain.from_iterable(read_squad(path) for path in paths)
        return (example for example in examples if not training or any(example.spans))

    def reads_raw_text(self, settings: QaSettings) -> bool:
        """Always: SQuAD's files contain raw text."""
        return True

    def texts(self, example: QaExample) -> tuple[Text, ...]:
        """Paragraph and question."""
        return example.paragraph.sentences, (example.question_tokens,)

    def find_labels(self, examples: Sequence[QaExample]) -> Labels:
        """Nothing."""
        return {}

    def build(self, settings: QaSettings, inputs: TokenInputs, labels: Labels) -> TaskModel:
        """BiDAF with self-attention."""
        return QaModel(settings, inputs)

    def collate(self, examples: Sequence[QaExample], labels: Labels, texts: Sequence[TokenBatch]) -> QaGold:
        """The first and last tokens of gold answers."""
        starts, ends = torch.zeros_like(texts[0].mask), torch.zeros_like(texts[0].mask)  # (B, T)
        for row, example in enumerate(examples):
            for span in example.spans:
                if span is not None:
                    starts[row, span.start] = ends[row, span.end - 1] = True
        return QaGold(starts, ends)

    def counts(self, example: QaExample, prediction: Any) -> Sequence[float]:
        """Exact match and F1 with the best gold answer."""
        text = _text(example, prediction)
        matches = [(float(exact_match(text, answer.text)), token_f1(text, answer.text)) for answer in example.answers]
        return max((match for match, _ in matches), default=0.0), max((f1 for _, f1 in matches), default=0.0), 1.0

    def figures(self, sums: Sequence[float]) -> Mapping[str, float]:
        """F1 and exact match."""
        return {"f1": 100 * sums[1] / sums[2], "exact_match": 100 * sums[0] / sums[2]}

    def to_examples(self, texts: Sequence[TaskText]) -> list[QaExample]:
        """One question."""
        context, question = texts
        if not context.tokens or not question.tokens:
            return []
        paragraph = Paragraph("", context.text, context.sentences, context.offsets)
        return [QaExample("", question.text, question.tokens, paragraph, (), ())]

    def to_record(
        self,
        index: int,
        id: Id,
        texts: Sequence[TaskText],
        found: Sequence[tuple[QaExample, Scored]],
        settings: QaSettings,
    ) -> Record:
        """The best answers."""
        context, question = texts
        spans = [] if not found else found[0][1][1]
        answers = tuple(context.span(start, end, score=score) for start, end, score in spans)
        return QaRecord(index, id, context, question, answers)


def _text(example: QaExample, prediction: Any) -> str:
    return example.paragraph.text_of(TokenSpan(*prediction))
