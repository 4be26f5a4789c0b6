"""A tiny model of coreference and a document for it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from elmokit.tasks.base import Labels
from elmokit.tasks.batches import TokenBatch, TokenLookup
from elmokit.tasks.coref.document import CorefDocument, Mention
from elmokit.tasks.coref.model import CorefModel, CorefSettings
from elmokit.tasks.coref.spans import Spans, SpanScorer
from elmokit.tasks.coref.task import Coref
from elmokit.tasks.inputs import CharCnn, ElmoInputs, TokenInputs
from elmokit.tasks.words import WordTable

TASK = Coref()
NO_LABELS: Labels = {"genres": [], "speakers": False}
TINY: dict[str, Any] = {
    "hidden_dim": 6,
    "ffn_dim": 8,
    "feature_dim": 3,
    "max_width": 3,
    "spans_per_word": 0.5,
    "max_antecedents": 4,
    "lexical_dropout": 0.0,
    "dropout": 0.0,
    "char_dim": 2,
    "num_filters": 3,
    "filter_width": 2,
}
DOCUMENT = CorefDocument(
    "doc",
    (("the", "old", "man", "ran"), ("he", "met", "the", "old", "man", "'s", "son"), ("yes",)),
    (
        (Mention(0, 3), Mention(4, 5), Mention(6, 10)),
        (Mention(6, 9), Mention(9, 11), Mention(11, 12)),
        (Mention(10, 11),),
    ),
)
LOOKUP = TokenLookup(WordTable(sorted(set(DOCUMENT.tokens))))


def build(labels: Labels = NO_LABELS, elmo: ElmoInputs | None = None, **changes: Any) -> CorefModel:
    torch.manual_seed(0)
    settings = CorefSettings(**{**TINY, **changes})
    cnn = CharCnn(char_dim=settings.char_dim, num_filters=settings.num_filters, width=settings.filter_width)
    inputs = TokenInputs(torch.randn(len(LOOKUP.table), 5), tune_words=True, char_cnn=cnn, elmo=elmo)
    model = TASK.build(settings, inputs, labels)
    assert isinstance(model, CorefModel)
    return model


def batch(documents: Sequence[CorefDocument], labels: Labels = NO_LABELS) -> tuple[list[TokenBatch], Any]:
    texts = [LOOKUP.batch([document.sentences for document in documents])]
    return texts, TASK.collate(documents, labels, texts)


def value(tensor: Tensor) -> float:
    return float(tensor.detach())


def num_parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def pairs_of(spans: Spans) -> list[tuple[int, int]]:
    return list(zip(spans.starts.tolist(), spans.ends.tolist(), strict=True))


def crosses(first: tuple[int, int], second: tuple[int, int]) -> bool:
    return first[0] < second[0] < first[1] < second[1] or second[0] < first[0] < second[1] < first[1]


def heads(scorer: SpanScorer, x: Tensor, encoded: Tensor, start: int, end: int) -> Tensor:
    return scorer.heads(encoded[start:end]).softmax(0) @ x[start:end]


def whole_vectors(scorer: SpanScorer, x: Tensor, encoded: Tensor, spans: Spans) -> Tensor:
    """Each span's vector, put together as the paper says."""
    return torch.stack(
        [
            torch.cat([encoded[s], encoded[e - 1], heads(scorer, x, encoded, s, e), scorer.widths.weight[e - s - 1]])
            for s, e in pairs_of(spans)
        ]
    )
