"""End-to-end coreference by ranking spans (Lee et al. 2017) over words, characters and ELMo.

Notation: B documents, T tokens of the longest, N tokens of one, S sentences, U tokens of the longest; E width of the
inputs, C of what the encoder gives, M kept spans, A antecedents.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import pad_sequence

from elmokit.config import Config, Positive
from elmokit.tasks.base import Labels, Scored, TaskModel
from elmokit.tasks.batches import TokenBatch
from elmokit.tasks.coref.files import Format
from elmokit.tasks.coref.pairs import PairScorer, join_scores, link_loss, make_clusters
from elmokit.tasks.coref.spans import Kept, SpanScorer, list_spans
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.layers import BiRnn, Dropout
from elmokit.training.config import Rate, Share


class CorefSettings(Config):
    """File format and sizes."""

    format: Format = "auto"
    """Format of the files; auto recognizes a list of LitBank's or OntoGUM's documents by the archive next to it."""
    max_tokens: Positive = 1000
    """Maximum tokens of a training example; longer documents are split into pieces of whole sentences. Development and
    test documents are not split."""
    singletons: bool = False
    """Whether single mentions of an entity are trained, by a separate loss, and predicted."""
    hidden_dim: Positive = 200
    """Width of one direction of the biLSTM."""
    ffn_dim: Positive = 150
    """Width of the two hidden layers of every scorer."""
    feature_dim: Positive = 20
    """Width of the features: span width, distance, speaker and genre."""
    max_width: Positive = 10
    """Maximum number of tokens of a mention."""
    spans_per_word: Rate = 0.4
    """Number of spans to keep per word."""
    max_antecedents: Positive = 100
    """Number of earlier spans that a span is compared with."""
    lexical_dropout: Share = 0.5
    """Dropout on words and characters; ELMo has its own."""
    dropout: Share = 0.2
    """Dropout on the biLSTM's output, on hidden layers and on features."""
    char_dim: Positive = 8
    """Width of a character's vector."""
    num_filters: Positive = 150
    """Filters of the task's own character features."""
    filter_width: Positive = 4
    """Width of a filter in characters."""


@dataclass(frozen=True)
class CorefGold:
    """What the model needs to know about a document besides its tokens."""

    lengths: tuple[int, ...]
    """Lengths of its sentences."""
    speakers: Tensor  # (N,), 0 where nobody is known to speak
    genre: int
    clusters: Mapping[tuple[int, int], int]
    """The cluster number of each gold mention, from 1."""


class Links(NamedTuple):
    """The kept spans of a document and the scores of their antecedents."""

    kept: Kept
    scores: Tensor  # (M, 1 + A), no antecedent first


class CorefModel(TaskModel):
    """Inputs → biLSTM over each sentence → the best spans → the best antecedent of each."""

    def __init__(self, settings: CorefSettings, inputs: TokenInputs, labels: Labels) -> None:
        super().__init__()
        self.inputs, self.settings = inputs, settings
        features = 0 if inputs.char_cnn is None else inputs.char_cnn.convolution.out_channels
        self.lexical_dim = inputs.word_table.shape[1] + features
        self.lexical_dropout, self.dropout = Dropout(settings.lexical_dropout), Dropout(settings.dropout)
        self.encoder = BiRnn(inputs.dim, settings.hidden_dim)
        sizes = {"hidden_dim": settings.ffn_dim, "feature_dim": settings.feature_dim}
        self.spans = SpanScorer(
            inputs.dim,
            self.encoder.dim + inputs.extra_dim,
            **sizes,
            max_width=settings.max_width,
            dropout=settings.dropout,
        )
        self.pairs = PairScorer(
            self.spans.dim,
            **sizes,
            num_genres=len(labels["genres"]),
            speakers=labels["speakers"],
            dropout=settings.dropout,
        )

    def _run(self, batch: TokenBatch, gold: Sequence[CorefGold]) -> Iterator[Links]:
        tokens, extra, mask = self.inputs(batch)  # (B, T, E), (B, T, D)
        words, rest = tokens[mask].tensor_split([self.lexical_dim], 1)  # all N of the batch
        x = torch.cat([self.lexical_dropout(words), rest], 1)  # (N, E)
        encoded = self._encode(x, [length for each in gold for length in each.lengths])  # (N, 2H)
        encoded = encoded if extra is None else torch.cat([encoded, extra[mask]], 1)  # (N, C)
        sizes = [sum(each.lengths) for each in gold]
        for parts in zip(x.split(sizes), encoded.split(sizes), gold, strict=True):
            yield self._link(*parts)

    def _encode(self, x: Tensor, lengths: Sequence[int]) -> Tensor:
        tokens = x.split(list(lengths))  # S × (U, E)
        found: dict[int, Tensor] = {}
        for alike in _group_by_length(lengths):
            sentences = pad_sequence([tokens[number] for number in alike], batch_first=True)  # (S, U, E)
            own = [lengths[number] for number in alike]
            places = torch.arange(sentences.shape[1], device=x.device)
            mask = places < torch.tensor(own, device=x.device)[:, None]  # (S, U)
            found.update(zip(alike, self.encoder(sentences, mask)[mask].split(own), strict=True))
        encoded: Tensor = self.dropout(torch.cat([found[number] for number in range(len(lengths))]))  # (N, 2H)
        return encoded

    def _link(self, x: Tensor, encoded: Tensor, gold: CorefGold) -> Links:
        limit = max(1, int(self.settings.spans_per_word * len(x)))
        kept = self.spans(x, encoded, list_spans(gold.lengths, self.settings.max_width, x.device), limit)
        num_antecedents = min(self.settings.max_antecedents, len(kept.scores) - 1)  # A
        speakers = gold.speakers.to(x.device)[kept.spans.starts]  # (M,)
        pairs = self.pairs(kept.vectors, num_antecedents, speakers=speakers, genre=gold.genre)  # (M, A)
        return Links(kept, join_scores(pairs, kept.scores))

    def loss(self, texts: Sequence[TokenBatch], gold: Any) -> Tensor:
        """The mean over documents of the sum over kept spans."""
        (batch,) = texts
        losses = []
        for each, (kept, scores) in zip(gold, self._run(batch, gold), strict=True):
            places = zip(kept.spans.starts.tolist(), kept.spans.ends.tolist(), strict=True)
            clusters = torch.tensor([each.clusters.get(place, 0) for place in places], device=scores.device)  # (M,)
            losses.append(link_loss(scores, clusters))
            if self.settings.singletons:
                real = (clusters > 0).to(scores.dtype)  # (M,)
                losses.append(binary_cross_entropy_with_logits(kept.scores, real, reduction="sum"))
        return torch.stack(losses).sum() / len(gold)

    def predict(self, texts: Sequence[TokenBatch], gold: Any) -> list[Any]:
        """The clusters of each document, as lists of [start, end]."""
        return [clusters for clusters, _ in self.predict_scored(texts, gold)]

    def predict_scored(self, texts: Sequence[TokenBatch], gold: Any, *, num_best: int = 1) -> list[Scored]:
        """The clusters, and for each mention its antecedent or None, and the probability of that decision."""
        (batch,) = texts
        return [self._decode(links) for links in self._run(batch, gold)]

    def _decode(self, links: Links) -> Scored:
        kept, scores = links
        spans = [list(span) for span in zip(kept.spans.starts.tolist(), kept.spans.ends.tolist(), strict=True)]
        distances = scores.argmax(1).tolist()  # 0 means no antecedent
        choices = [number - distance if distance else -1 for number, distance in enumerate(distances)]
        likely = (kept.scores > 0).tolist()
        clusters = [
            cluster
            for cluster in make_clusters(choices)
            if len(cluster) > 1 or (self.settings.singletons and likely[cluster[0]])
        ]
        certain = scores.softmax(1).amax(1).tolist()
        decisions = [
            [(spans[choices[number]] if choices[number] >= 0 else None, certain[number]) for number in cluster]
            for cluster in clusters
        ]
        return [[spans[number] for number in cluster] for cluster in clusters], decisions


def _group_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Batches of sentence indices, where the shortest has at least half the length of the longest.

    Otherwise one very long sentence would fill the encoder's input with padding.
    """
    groups: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if not groups or 2 * lengths[number] < lengths[groups[-1][0]]:
            groups.append([])
        groups[-1].append(number)
    return groups
