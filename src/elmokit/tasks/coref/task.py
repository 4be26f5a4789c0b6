"""Coreference as a task: its files, figures and records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from elmokit.config import Config
from elmokit.tasks.base import Labels, Scored, Task, TaskModel
from elmokit.tasks.batches import Text, TokenBatch
from elmokit.tasks.coref.document import CorefDocument
from elmokit.tasks.coref.files import read_documents, split_document
from elmokit.tasks.coref.metric import CorefScore, Fractions, score_clusters
from elmokit.tasks.coref.model import CorefGold, CorefModel, CorefSettings
from elmokit.tasks.coref.record import CorefRecord, LinkedMention
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.records import Id, Record, TaskText

_NOBODY = "-"


class Coref(Task[CorefDocument]):
    """Coreference resolution: mentions of the same entity in documents."""

    name: ClassVar[str] = "coref"
    metric: ClassVar[str] = "f1"
    fields: ClassVar[tuple[str, ...]] = ("document",)
    whole_files: ClassVar[bool] = True
    settings: ClassVar[type[Config]] = CorefSettings
    needs: ClassVar[str] = "mention"

    def read(self, paths: Iterable[Path], settings: CorefSettings, *, training: bool) -> Iterator[CorefDocument]:
        """Read CoNLL-2012 files, LitBank or OntoGUM; training documents are split into pieces."""
        for path in paths:
            for document in read_documents(path, settings.format):
                if training:
                    yield from split_document(document, settings.max_tokens, singletons=settings.singletons)
                else:
                    yield document

    def texts(self, example: CorefDocument) -> tuple[Text, ...]:
        """The document."""
        return (example.sentences,)

    def find_labels(self, examples: Sequence[CorefDocument]) -> Labels:
        """The genres, and whether speakers are known."""
        return {
            "genres": sorted({example.genre for example in examples if example.genre is not None}),
            "speakers": any(example.speakers is not None for example in examples),
        }

    def has_gold(self, example: CorefDocument) -> bool:
        """Whether the document has mentions."""
        return bool(example.clusters)

    def build(self, settings: CorefSettings, inputs: TokenInputs, labels: Labels) -> TaskModel:
        """A span ranker."""
        return CorefModel(settings, inputs, labels)

    def collate(self, examples: Sequence[CorefDocument], labels: Labels, texts: Sequence[TokenBatch]) -> Any:
        """One `CorefGold` per document."""
        return [_collate(example, labels["genres"]) for example in examples]

    def counts(self, example: CorefDocument, prediction: Any) -> Sequence[float]:
        """Fractions of MUC, B³, CEAF and mentions, first without singletons on either side, then with them."""
        gold, found = [[*map(tuple, c)] for c in example.clusters], [[*map(tuple, c)] for c in prediction]
        scores = [
            score_clusters([[c for c in gold if len(c) >= least]], [[c for c in found if len(c) >= least]])
            for least in (2, 1)
        ]
        return [number for score in scores for part in _parts(score) for number in vars(part).values()]

    def figures(self, sums: Sequence[float]) -> Mapping[str, float]:
        """The F1 of CoNLL-2012 and its three parts; singletons count only for the last figure."""
        parts = [Fractions(*sums[begin : begin + 4]) for begin in range(0, len(sums), 4)]
        without, all_of_them = CorefScore(*parts[:4]), CorefScore(*parts[4:])
        return {
            "f1": 100 * without.f1,
            "muc": 100 * without.muc.f1,
            "b_cubed": 100 * without.b_cubed.f1,
            "ceaf": 100 * without.ceaf.f1,
            "mentions": 100 * without.mentions.f1,
            "f1_with_singletons": 100 * all_of_them.f1,
        }

    def to_examples(self, texts: Sequence[TaskText]) -> list[CorefDocument]:
        """One document, or none if the text has no tokens."""
        return [CorefDocument("", texts[0].sentences)] if texts[0].tokens else []

    def to_record(
        self,
        index: int,
        id: Id,
        texts: Sequence[TaskText],
        found: Sequence[tuple[CorefDocument, Scored]],
        settings: CorefSettings,
    ) -> Record:
        """The clusters of the document."""
        (text,) = texts
        clusters, decisions = found[0][1] if found else ([], [])
        linked = [
            tuple(
                LinkedMention(
                    text.span(span[0], span[1], score=score),
                    None if antecedent is None else (antecedent[0], antecedent[1]),
                )
                for span, (antecedent, score) in zip(cluster, own, strict=True)
            )
            for cluster, own in zip(clusters, decisions, strict=True)
        ]
        return CorefRecord(index, id, text, tuple(linked))


def _parts(score: CorefScore) -> tuple[Fractions, ...]:
    return score.muc, score.b_cubed, score.ceaf, score.mentions


def _collate(document: CorefDocument, genres: Sequence[str]) -> CorefGold:
    speakers = [name for sentence in document.speakers or () for name in sentence] or [_NOBODY] * len(document.tokens)
    numbers = {_NOBODY: 0}
    return CorefGold(
        tuple(len(sentence) for sentence in document.sentences if sentence),
        torch.tensor([numbers.setdefault(name, len(numbers)) for name in speakers]),
        genres.index(document.genre) + 1 if document.genre in genres else 0,
        {
            (mention.start, mention.end): number
            for number, cluster in enumerate(sorted(document.clusters), 1)  # of several clusters, the last
            for mention in cluster
        },
    )
