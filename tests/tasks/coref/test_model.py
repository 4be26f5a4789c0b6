"""Span ranking: its parts against plain computations, and whole runs on documents that a tiny model learns."""

import io
import itertools
import json
import math
import random
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from elmokit.errors import InputError
from elmokit.formats import save
from elmokit.tasks.base import Labels
from elmokit.tasks.batches import TokenBatch, TokenLookup
from elmokit.tasks.config import ElmoSettings, TaskConfig
from elmokit.tasks.coref import spans as spans_module
from elmokit.tasks.coref.document import CorefDocument, Mention
from elmokit.tasks.coref.files import split_document
from elmokit.tasks.coref.metric import score_clusters
from elmokit.tasks.coref.model import Coref, CorefModel, CorefSettings, Links
from elmokit.tasks.coref.pairs import PairScorer, join_scores, link_loss, make_clusters
from elmokit.tasks.coref.spans import Kept, Spans, SpanScorer, keep_best, list_spans
from elmokit.tasks.inputs import CharCnn, ElmoInputs, TokenInputs
from elmokit.tasks.registry import TASKS
from elmokit.tasks.runner import TaskFiles, evaluate_task, train_task
from elmokit.tasks.trained import load_trained
from elmokit.tasks.words import WordTable
from elmokit.training.config import read_run
from tests.conftest import build_tiny
from tests.tasks.coref.test_reader import CONLL2012, LENGTHS, LITBANK, ONTOGUM

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
LOOKUP = TokenLookup(WordTable(sorted(set(DOCUMENT.tokens))), store=None, indexer=None)


def build(labels: Labels = NO_LABELS, elmo: ElmoInputs | None = None, **changes: Any) -> CorefModel:
    torch.manual_seed(0)
    settings = CorefSettings(**{**TINY, **changes})
    char_dim, num_filters, width = TASK.num_char_filters(settings)
    cnn = CharCnn(char_dim=char_dim, num_filters=num_filters, width=width)
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


# --- Spans -----------------------------------------------------------------------------------------------------------


def pairs_of(spans: Spans) -> list[tuple[int, int]]:
    return list(zip(spans.starts.tolist(), spans.ends.tolist(), strict=True))


def crosses(first: tuple[int, int], second: tuple[int, int]) -> bool:
    return first[0] < second[0] < first[1] < second[1] or second[0] < first[0] < second[1] < first[1]


@pytest.mark.parametrize("lengths", [(1,), (5,), (3, 1, 4), (1, 1)])
def test_spans_stay_inside_sentences(lengths: tuple[int, ...]) -> None:
    bounds = [0, *itertools.accumulate(lengths)]
    expected = [
        (start, end)
        for begin, stop in itertools.pairwise(bounds)
        for start in range(begin, stop)
        for end in range(start + 1, stop + 1)
        if end - start <= 3
    ]
    assert pairs_of(list_spans(lengths, 3)) == expected


@pytest.mark.parametrize("seed", range(20))
def test_the_best_spans_that_do_not_cross_are_kept(seed: int) -> None:
    generator = random.Random(seed)
    spans = list_spans([generator.randint(1, 9) for _ in range(3)], generator.randint(1, 6))
    places = pairs_of(spans)
    scores = [generator.choice([-1.0, 0.5, 2.0, generator.random()]) for _ in places]
    limit = generator.randint(1, len(places))
    kept: list[int] = []
    for number in sorted(range(len(places)), key=lambda number: -scores[number]):
        if len(kept) < limit and not any(crosses(places[number], places[other]) for other in kept):
            kept.append(number)
    assert keep_best(spans, torch.tensor(scores), limit).tolist() == sorted(kept)


def test_crossing_spans_are_passed_over_and_nested_ones_kept() -> None:
    spans = Spans(torch.tensor([0, 0, 1, 1, 2]), torch.tensor([2, 4, 2, 3, 4]))
    scores = torch.tensor([3.0, 1.0, 2.0, 5.0, 4.0])
    assert keep_best(spans, scores, 5).tolist() == [1, 2, 3]  # [1, 3) is best; [2, 4) and [0, 2) cross it
    assert keep_best(spans, scores, 2).tolist() == [2, 3]


@pytest.mark.parametrize(("num_tokens", "ratio", "expected"), [(12, 0.4, 4), (12, 0.25, 3), (1, 0.4, 1), (2, 0.1, 1)])
def test_how_many_spans_are_kept(num_tokens: int, ratio: float, expected: int) -> None:
    document = CorefDocument("", (DOCUMENT.tokens[:num_tokens],))
    model = build(spans_per_word=ratio)
    (links,) = model._run(batch([document])[0][0], batch([document])[1])
    assert len(links.kept.scores) == expected
    assert all(not crosses(*two) for two in itertools.combinations(pairs_of(links.kept.spans), 2))


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


@pytest.mark.parametrize("at_once", [1, 7, 10_000])
def test_mention_scores_are_those_of_whole_vectors(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_module, "_SPANS_AT_ONCE", at_once)
    torch.manual_seed(0)
    scorer = SpanScorer(5, 6, hidden_dim=7, feature_dim=2, max_width=4, dropout=0.5).eval()
    x, encoded, spans = torch.randn(9, 5), torch.randn(9, 6), list_spans((4, 5), 4)
    kept = scorer(x, encoded, spans, 6)
    vectors = whole_vectors(scorer, x, encoded, spans)
    scores = scorer.mentions(vectors)
    best = keep_best(spans, scores, 6)
    assert pairs_of(kept.spans) == pairs_of(spans.select(best))
    torch.testing.assert_close(kept.scores, scores[best])
    torch.testing.assert_close(kept.vectors, vectors[best])


def test_attention_far_apart_is_no_problem() -> None:
    scorer = SpanScorer(5, 6, hidden_dim=7, feature_dim=2, max_width=4, dropout=0.0)
    scorer.heads.last.weight.data.mul_(1e4)
    x, encoded = torch.randn(9, 5), torch.randn(9, 6)
    kept = scorer(x, encoded, list_spans((9,), 4), 9)
    assert kept.vectors.isfinite().all() and kept.scores.isfinite().all()


# --- Pairs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("num_genres", "speakers"), [(0, False), (0, True), (2, False), (2, True)])
def test_pair_scores_are_those_of_whole_vectors(num_genres: int, speakers: bool) -> None:
    torch.manual_seed(0)
    scorer = PairScorer(4, hidden_dim=5, feature_dim=3, num_genres=num_genres, speakers=speakers, dropout=0.5).eval()
    spans, voices, genre = torch.randn(9, 4), torch.tensor([1, 0, 2, 2, 1, 1, 0, 3, 1]), 2
    scores = scorer(spans, 7, speakers=voices, genre=genre)
    assert scores.shape == (9, 7)
    for i, column in itertools.product(range(9), range(7)):
        j = i - 1 - column
        if j < 0:
            assert scores[i, column] == -math.inf
            continue
        bucket = {1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 4, 7: 4}[i - j]
        features = [scorer.distances.weight[bucket]]
        if scorer.speakers is not None:
            known = bool(voices[i]) and bool(voices[j])
            features.append(scorer.speakers.weight[(1 if voices[i] == voices[j] else 2) if known else 0])
        if scorer.genres is not None:
            features.append(scorer.genres.weight[genre])
        whole = torch.cat([spans[i], spans[j], spans[i] * spans[j], *features])
        torch.testing.assert_close(scores[i, column], scorer.ffn(whole))


def test_distances_fall_into_buckets() -> None:
    scorer = PairScorer(1, hidden_dim=1, feature_dim=1, num_genres=0, speakers=False, dropout=0.0)
    for parameter in scorer.parameters():
        parameter.data.zero_()
    for weight in (scorer.ffn.first.weight[0, 3:], scorer.ffn.second.weight, scorer.ffn.last.weight):
        weight.data.fill_(1.0)
    scorer.distances.weight.data[:, 0] = torch.arange(1.0, 10.0)
    last = scorer(torch.zeros(101, 1), 100, speakers=torch.zeros(101), genre=0)[-1].tolist()
    expected = [1, 2, 3, 4, *[5] * 3, *[6] * 8, *[7] * 16, *[8] * 32, *[9] * 37]
    assert last == expected


def test_nothing_scores_0_and_pairs_add_up() -> None:
    pairs = torch.tensor([[-math.inf, -math.inf], [0.5, -math.inf], [1.0, 2.0]])
    mentions = torch.tensor([10.0, 20.0, 40.0])
    expected = [[0, -math.inf, -math.inf], [0, 30.5, -math.inf], [0, 61, 52]]
    assert join_scores(pairs, mentions).tolist() == expected


def test_the_loss_counts_every_gold_antecedent() -> None:
    torch.manual_seed(0)
    clusters = [1, 0, 1, 2, 1, 0, 3, 2]
    scores = join_scores(
        PairScorer(4, hidden_dim=5, feature_dim=3, num_genres=0, speakers=False, dropout=0.0)(
            torch.randn(8, 4), 3, speakers=torch.zeros(8), genre=0
        ),
        torch.randn(8),
    )
    expected = 0.0
    for i, row in enumerate(scores.tolist()):
        total = sum(math.exp(score) for score in row)
        wanted = [d for d in (1, 2, 3) if i - d >= 0 and clusters[i] and clusters[i - d] == clusters[i]]
        expected -= math.log(sum(math.exp(row[d]) for d in wanted or [0]) / total)
    assert expected > 1
    assert value(link_loss(scores, torch.tensor(clusters))) == pytest.approx(expected, rel=1e-5)


def test_an_antecedent_out_of_reach_leaves_nothing_to_go_back_to() -> None:
    scores = torch.tensor([[0.0, -math.inf], [0.0, -9.0], [0.0, -9.0]])
    assert value(link_loss(scores, torch.tensor([1, 0, 1]))) < 0.01  # the one before is no mention
    assert value(link_loss(scores, torch.tensor([0, 1, 1]))) > 8


@pytest.mark.parametrize(
    ("choices", "clusters"),
    [
        ([], []),
        ([-1], [[0]]),
        ([-1, -1, 0, 2, 1, -1], [[0, 2, 3], [1, 4], [5]]),
        ([-1, 0, 0, 1, 3], [[0, 1, 2, 3, 4]]),
    ],
)
def test_clusters_are_what_goes_back_to_each_other(choices: list[int], clusters: list[list[int]]) -> None:
    assert make_clusters(choices) == clusters


# --- The model -------------------------------------------------------------------------------------------------------


def test_shapes_of_a_document() -> None:
    model = build()
    (links,) = model._run(batch([DOCUMENT])[0][0], batch([DOCUMENT])[1])
    assert links.kept.scores.shape == (6,)
    assert links.kept.vectors.shape == (6, model.spans.dim) == (6, 2 * 12 + 5 + 3 + 3)
    assert links.scores.shape == (6, 1 + 4)
    assert (links.scores.isinf() == (torch.arange(6)[:, None] < torch.arange(5))).all()


def test_how_many_parameters_the_paper_has() -> None:
    """450 wide words and characters, ELMo 1024 wide; F = 150, features of 20."""
    config = read_run(TaskConfig, "coref-paper")
    settings = TASK.read_settings(config.model)
    assert TASK.num_char_filters(settings) == (8, 150, 4)
    cnn = CharCnn(char_dim=8, num_filters=150, width=4)
    elmo = ElmoInputs(config.elmo, num_layers=3, width=1024)
    model = TASK.build(settings, TokenInputs(torch.zeros(7, 300), tune_words=True, char_cnn=cnn, elmo=elmo), NO_LABELS)
    assert isinstance(model, CorefModel)
    assert model.inputs.dim == 1474
    assert num_parameters(model.encoder) == 2 * 4 * 200 * (1474 + 200 + 2)

    def scorer(width: int) -> int:
        return width * 150 + 150 + 150 * 150 + 150 + 150 + 1

    span_dim = 400 + 400 + 1474 + 20
    assert num_parameters(model.spans) == scorer(400) + scorer(span_dim) + 10 * 20
    assert num_parameters(model.pairs) == scorer(3 * span_dim + 20) + 9 * 20


def test_the_loss_of_a_tiny_document() -> None:
    model = build()
    texts, gold = batch([DOCUMENT])
    tokens = model.inputs(texts[0]).tokens[0]  # (N, E)
    encoded = torch.cat(
        [
            model.encoder(sentence[None], torch.ones(1, len(sentence), dtype=torch.bool))[0]
            for sentence in tokens.split([4, 7, 1])
        ]
    )
    every = list_spans((4, 7, 1), 3)
    best = every.select(keep_best(every, model.spans.mentions(whole_vectors(model.spans, tokens, encoded, every)), 6))
    vectors = whole_vectors(model.spans, tokens, encoded, best)
    mentions = model.spans.mentions(vectors)
    cluster_of = {tuple(mention): n for n, cluster in enumerate(DOCUMENT.clusters) for mention in cluster}
    places = pairs_of(best)
    expected = 0.0
    for i in range(6):
        scores, right = [0.0], [False]
        for j in range(max(0, i - 4), i):
            feature = model.pairs.distances.weight[i - j - 1]
            pair = model.pairs.ffn(torch.cat([vectors[i], vectors[j], vectors[i] * vectors[j], feature]))
            scores.append(value(mentions[i] + mentions[j] + pair))
            right.append(places[i] in cluster_of and cluster_of[places[i]] == cluster_of.get(places[j]))
        right[0] = not any(right)
        chances = torch.tensor(scores, dtype=torch.float64).softmax(0)
        expected -= math.log(value(chances[torch.tensor(right)].sum()))
    assert value(model.loss(texts, gold)) == pytest.approx(expected, rel=1e-5)


def test_gradients_reach_everything() -> None:
    labels = {"genres": ["nw"], "speakers": True}
    elmo = ElmoInputs(ElmoSettings(place="both"), num_layers=2, width=4)
    model = build(labels, elmo=elmo, dropout=0.2, lexical_dropout=0.5)
    texts, gold = batch([replace(DOCUMENT, genre="nw")], labels)
    texts = [replace(texts[0], layers=torch.randn(2, *texts[0].mask.shape, 4))]
    assert model.spans.parts == (16, 16, 12, 3)
    model.loss(texts, gold).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_sentences_are_read_one_by_one() -> None:
    model = build()
    x = torch.randn(12, 8)
    whole, changed = model._encode(x, (4, 7, 1)), model._encode(torch.cat([x[:11], x[:1]]), (4, 7, 1))
    torch.testing.assert_close(whole[:11], changed[:11])
    torch.testing.assert_close(whole[4:11], model._encode(x[4:11], (7,)))
    assert not torch.allclose(whole[11], changed[11])


def test_lexical_dropout_spares_elmo(monkeypatch: pytest.MonkeyPatch) -> None:
    elmo = ElmoInputs(ElmoSettings(place="input", dropout=0.0), num_layers=2, width=4)
    model = build(elmo=elmo, lexical_dropout=0.99)
    texts, gold = batch([DOCUMENT])
    texts = [replace(texts[0], layers=torch.ones(2, *texts[0].mask.shape, 4))]
    seen: list[Tensor] = []
    monkeypatch.setattr(model, "_encode", lambda x, lengths: seen.append(x) or torch.zeros(len(x), 12))
    list(model._run(texts[0], gold))
    assert (seen[0][:, :8] == 0).float().mean() > 0.8
    assert (seen[0][:, 8:] == 1).all()


def test_documents_of_a_batch_do_not_see_each_other() -> None:
    model = build(singletons=True).eval()
    other = CorefDocument("other", (("man",), ("he", "ran")), ((Mention(0, 1), Mention(1, 2)),))
    both = batch([DOCUMENT, other])
    assert model.predict(*both) == [*model.predict(*batch([DOCUMENT])), *model.predict(*batch([other]))]
    alone = [value(model.loss(*batch([document]))) for document in (DOCUMENT, other)]
    assert value(model.loss(*both)) == pytest.approx(sum(alone) / 2, rel=1e-5)


@pytest.mark.parametrize("sentences", [(("yes",),), (("he", "ran"),), (("he",), ("ran",)), ((), ("he",), ())])
def test_short_documents(sentences: tuple[tuple[str, ...], ...]) -> None:
    model = build()
    texts, gold = batch([CorefDocument("", sentences)])
    assert value(model.loss(texts, gold)) >= 0
    (clusters,) = model.predict(texts, gold)
    assert all(len(cluster) > 1 for cluster in clusters)


def test_the_best_antecedent_makes_the_clusters() -> None:
    spans = Spans(torch.tensor([0, 2, 4, 6]), torch.tensor([1, 3, 6, 7]))
    no = -math.inf
    scores = torch.tensor([[0, no, no, no], [0, -1.0, no, no], [0, 1.0, 2.0, no], [0, 1.0, 3.0, 2.0]])
    links = Links(Kept(spans, torch.zeros(4), torch.zeros(4, 1)), scores)
    assert build()._decode(links) == [[[0, 1], [4, 6]], [[2, 3], [6, 7]]]


def test_singletons_are_predicted_where_they_are_wanted() -> None:
    texts, gold = batch([DOCUMENT])
    for singletons in (False, True):
        model = build(singletons=singletons).eval()
        model.pairs.ffn.last.bias.data.fill_(-100.0)  # nothing goes back to anything
        middle = next(iter(model._run(texts[0], gold))).kept.scores.median()
        model.spans.mentions.last.bias.data.sub_(middle.detach())
        (links,) = model._run(texts[0], gold)
        likely = [[list(span)] for span, s in zip(pairs_of(links.kept.spans), links.kept.scores, strict=True) if s > 0]
        assert 0 < len(likely) < 6
        assert model.predict(texts, gold) == [likely if singletons else []]


def test_the_loss_of_mentions_is_there_only_with_singletons() -> None:
    texts, gold = batch([DOCUMENT])
    plain, more = build(), build(singletons=True)
    (links,) = more._run(texts[0], gold)
    real = torch.tensor([span in gold[0].clusters for span in pairs_of(links.kept.spans)])
    chances = links.kept.scores.sigmoid()
    expected = -torch.where(real, chances, 1 - chances).log().sum()
    torch.testing.assert_close(more.loss(texts, gold) - plain.loss(texts, gold), expected)


def test_speakers_and_genres_reach_the_model() -> None:
    labels = TASK.find_labels(
        [DOCUMENT, replace(DOCUMENT, genre="wb"), replace(DOCUMENT, genre="bc", speakers=(("a",),))]
    )
    assert labels == {"genres": ["bc", "wb"], "speakers": True}
    assert TASK.find_labels([DOCUMENT]) == NO_LABELS
    said = replace(DOCUMENT, genre="wb", speakers=(("Ann",) * 4, ("-",) * 7, ("Bob",)))
    _, (gold, unknown) = batch([said, replace(DOCUMENT, genre="xx")], labels)
    assert gold.speakers.tolist() == [1] * 4 + [0] * 7 + [2]
    assert (gold.genre, unknown.genre) == (2, 0)
    assert unknown.speakers.tolist() == [0] * 12
    model = build(labels).eval()
    scores = []
    for document in (said, DOCUMENT):
        (text,), known = batch([document], labels)
        scores += [links.scores[:, 1] for links in model._run(text, known)]
    assert not torch.allclose(*scores)


# --- Scores ----------------------------------------------------------------------------------------------------------


def test_figures_come_from_summed_counts() -> None:
    other = CorefDocument("b", (tuple("abcd"),), ((Mention(0, 1), Mention(2, 3)), (Mention(3, 4),)))
    predictions = [[[[0, 3], [4, 5]], [[6, 9], [11, 12]], [[10, 11]]], [[[0, 1], [1, 2], [2, 3]]]]
    figures = TASK.score([DOCUMENT, other], predictions)
    found = [[[tuple(span) for span in cluster] for cluster in clusters] for clusters in predictions]
    with_all = score_clusters([DOCUMENT.clusters, other.clusters], found)
    without = score_clusters(
        [[c for c in document.clusters if len(c) > 1] for document in (DOCUMENT, other)],
        [[c for c in clusters if len(c) > 1] for clusters in found],
    )
    assert figures["f1"] == pytest.approx(100 * without.f1)
    assert figures["f1_with_singletons"] == pytest.approx(100 * with_all.f1)
    assert figures["f1"] != figures["f1_with_singletons"]
    for name in ("muc", "b_cubed", "ceaf", "mentions"):
        assert figures[name] == pytest.approx(100 * getattr(without, name).f1)
    assert figures["f1"] == pytest.approx((figures["muc"] + figures["b_cubed"] + figures["ceaf"]) / 3)


def test_gold_clusters_are_perfect_and_nothing_is_nothing() -> None:
    gold = [[list(mention) for mention in cluster] for cluster in DOCUMENT.clusters]
    assert set(TASK.score([DOCUMENT], [gold]).values()) == {100.0}
    assert set(TASK.score([DOCUMENT], [[]]).values()) == {0.0}


# --- Files -----------------------------------------------------------------------------------------------------------


def write_archive(path: Path, files: dict[str, str]) -> None:
    with tarfile.open(path, "w:xz" if path.suffix == ".xz" else "w:gz") as packed:
        for name, text in files.items():
            info = tarfile.TarInfo(f"top/{name}")
            info.size = len(text.encode())
            packed.addfile(info, io.BytesIO(text.encode()))


def names(path: Path, **settings: Any) -> list[str]:
    return [document.name for document in TASK.read([path], CorefSettings(**settings), training=False)]


def test_a_list_names_documents_of_the_archive_beside_it(tmp_path: Path) -> None:
    (tmp_path / "dev.txt").write_text("a_brat\n")
    write_archive(tmp_path / "litbank-conll.tar.xz", {"a_brat.conll": LITBANK, "b_brat.conll": LITBANK})
    assert names(tmp_path / "dev.txt") == names(tmp_path / "dev.txt", format="litbank") == ["a_brat"]
    assert names(tmp_path / "litbank-conll.tar.xz") == ["a_brat", "a_brat"]
    (tmp_path / "own.tar.gz").write_bytes(b"")
    with pytest.raises(InputError, match=r"own\.tar\.gz is of no corpus .*: set model\.format to litbank or ontogum"):
        names(tmp_path / "own.tar.gz")
    with pytest.raises(InputError, match=r"and no ontogum-conll\.tar\.xz lies beside it"):
        names(tmp_path / "dev.txt", format="ontogum")


def test_a_list_names_documents_of_a_folder_beside_it(tmp_path: Path) -> None:
    (tmp_path / "dev.txt").write_text("\nGUM_news_a\n")
    folder = tmp_path / "ontogum-conll"
    folder.mkdir()
    (folder / "GUM_news_a.conll").write_text(ONTOGUM)
    (folder / "sentence_lengths.tsv").write_text(LENGTHS)
    assert names(tmp_path / "dev.txt") == ["GUM_news_a"]


def test_conll2012_files_are_given_themselves(tmp_path: Path) -> None:
    path = tmp_path / "x.v4_gold_conll"
    path.write_text(CONLL2012)
    assert names(path) == names(path, format="conll2012") == ["bc/cctv/00/cctv_0001"] * 2


def test_any_other_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a_brat\n")
    expected = (
        r"x\.txt begins no document of CoNLL-2012, and no litbank-conll\.tar\.xz or ontogum-.* lies beside it: give"
    )
    with pytest.raises(InputError, match=expected):
        names(tmp_path / "x.txt")


@pytest.mark.parametrize(("max_tokens", "sizes"), [(12, [12]), (11, [11, 1]), (8, [4, 8]), (7, [4, 7, 1])])
def test_pieces_of_a_document(max_tokens: int, sizes: list[int]) -> None:
    pieces = list(split_document(DOCUMENT, max_tokens, singletons=True))
    assert [len(piece.tokens) for piece in pieces] == sizes
    assert [sentence for piece in pieces for sentence in piece.sentences] == list(DOCUMENT.sentences)
    offsets = [0, *itertools.accumulate(sizes)]
    moved = {
        Mention(mention.start + offset, mention.end + offset)
        for piece, offset in zip(pieces, offsets[:-1], strict=True)
        for cluster in piece.clusters
        for mention in cluster
    }
    assert moved == {mention for cluster in DOCUMENT.clusters for mention in cluster}


def test_pieces_are_few_and_about_equal() -> None:
    document = CorefDocument("long", tuple(("a",) * (5 + number % 4) for number in range(300)))
    sizes = [len(piece.tokens) for piece in split_document(document, 1000, singletons=False)]
    assert sum(sizes) == len(document.tokens) == 1950
    assert len(sizes) == 2 and max(sizes) - min(sizes) <= 10
    with pytest.raises(InputError, match=r"^sentence 0 of long has 5 tokens, more than max_tokens 4"):
        list(split_document(document, 4, singletons=False))


def test_only_training_documents_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "x_conll"
    path.write_text(CONLL2012)
    settings = CorefSettings(max_tokens=4)
    whole, pieces = (list(TASK.read([path], settings, training=training)) for training in (False, True))
    assert [len(document.tokens) for document in whole] == [5, 1]
    assert [len(document.tokens) for document in pieces] == [4, 1, 1]
    assert [len(document.clusters) for document in whole] == [4, 0]
    assert [len(document.clusters) for document in pieces] == [0, 0, 0]
    kept = list(TASK.read([path], CorefSettings(max_tokens=4, singletons=True), training=True))
    assert [len(document.clusters) for document in kept] == [4, 1, 0]


# --- Whole runs ------------------------------------------------------------------------------------------------------

WOMEN, MEN, VERBS = ("Anna", "Clara", "Eva"), ("Bob", "Dario", "Emil"), ("ran", "slept", "sang")
CONFIG: dict[str, Any] = {
    "task": "coref",
    "batch_size": 1,
    "num_epochs": 14,
    "model": {**TINY, "hidden_dim": 12, "ffn_dim": 40, "dropout": 0.2, "max_width": 2, "max_antecedents": 8},
    "elmo": {"place": "input", "dropout": 0.0},
    "words": {"width": 12, "min_count": 1},
    "optimizer": {"kind": "adamw", "learning_rate": 0.01, "clip_norm": 5.0},
    "loop": {"evaluate_every": 0, "patience": 0, "log_every": 50, "checkpoint_every": 500},
}


def write_documents(path: Path, number: int, seed: int) -> str:
    """A woman and a man, whom later sentences call by their name or she and he, and a dog that is there once."""
    generator = random.Random(seed)
    lines = []
    for document in range(number):
        two = [(generator.choice(WOMEN), "she", 1), (generator.choice(MEN), "he", 2)]
        generator.shuffle(two)
        (first, _, one), (second, _, other) = two
        sentences = [[(first, f"({one})"), ("met", "-"), ("old", f"({other}"), (second, f"{other})"), (".", "-")]]
        for name, pronoun, entity in generator.sample(two * 2, 4):
            word = generator.choice([name, pronoun])
            sentences.append([(word, f"({entity})"), (generator.choice(VERBS), "-"), (".", "-")])
        sentences.append([("a", "(3"), ("dog", "3)"), ("barked", "-"), (".", "-")])
        lines.append(f"#begin document (nw/d{document}); part 000\n")
        for sentence in sentences:
            rows = (f"nw/d 0 {n} {word} X * - - - - * {cell}\n" for n, (word, cell) in enumerate(sentence))
            lines.append("".join(rows) + "\n")
        lines.append("#end document\n")
    path.write_text("".join(lines))
    return str(path)


def run(folder: Path, **changes: Any) -> tuple[dict[str, Any], TaskFiles]:
    save(build_tiny("characters"), folder / "bilm")
    named = {
        name: [write_documents(folder / f"{name}_conll", n, n)] for name, n in (("train", 24), ("dev", 5), ("test", 6))
    }
    files = TaskFiles(
        **named, output=folder / "run", bilm=str(folder / "bilm"), layers_folder=folder / "layers", threads=1
    )
    config = TaskConfig.model_validate({**CONFIG, **changes})
    return train_task(TASK, config, files, tasks=TASKS), files


@pytest.mark.parametrize(("place", "singletons"), [("none", False), ("both", True)])
def test_a_run_learns_who_is_who(place: str, singletons: bool, tmp_path: Path) -> None:
    model = {**CONFIG["model"], "singletons": singletons}
    result, files = run(tmp_path, elmo={"place": place, "dropout": 0.0}, model=model)
    assert result["dev"]["f1"] == 100
    assert result["test"]["f1"] > 90
    assert (result["dev"]["f1_with_singletons"] > 98) == singletons
    assert result["examples"] == {"train": 24, "dev": 5, "test": 6}
    trained = load_trained(tmp_path / "run/model", TASKS, layers_folder=tmp_path / "layers")
    assert evaluate_task(trained, files.test) == result["test"]
    assert trained.labels == {"genres": ["nw"], "speakers": True}
    examples = TASK.from_raw("Clara met old Emil. Emil sang. Clara slept.")
    trained.prepare(examples)
    (prediction,) = trained.predict(examples)
    assert prediction == [[[0, 1], [8, 9]], [[2, 4], [5, 6]]]
    shown = TASK.to_json(examples[0], prediction, trained.settings)
    assert json.loads(json.dumps(shown)) == {
        "sentences": [["Clara", "met", "old", "Emil", "."], ["Emil", "sang", "."], ["Clara", "slept", "."]],
        "clusters": [
            [{"start": 0, "end": 1, "text": "Clara"}, {"start": 8, "end": 9, "text": "Clara"}],
            [{"start": 2, "end": 4, "text": "old Emil"}, {"start": 5, "end": 6, "text": "Emil"}],
        ],
    }


# --- Showing ---------------------------------------------------------------------------------------------------------


def test_raw_text_without_tokens_is_no_document() -> None:
    assert TASK.from_raw("  \n") == []
    assert [document.sentences for document in TASK.from_raw("One. Two.")] == [(("One", "."), ("Two", "."))]


def test_a_document_is_shown_with_numbers_and_colours() -> None:
    prediction = [[[0, 3], [4, 5], [6, 9]], [[6, 11], [11, 12]], [[2, 3]]]
    shown = TASK.to_text(DOCUMENT, prediction, CorefSettings())
    expected = "[1 the old [3 man]] ran\n[1 he] met [2 [1 the old man] 's son]\n[2 yes]"
    assert shown.plain == expected
    styles = {shown.plain[span.start : span.end]: str(span.style) for span in shown.spans}
    assert styles["he"] == styles["old"] == "bold cyan"
    assert styles["son"] == styles["yes"] == "bold magenta"
    assert "ran" not in styles


def test_a_document_without_mentions_is_shown_as_it_is() -> None:
    assert TASK.to_text(DOCUMENT, [], CorefSettings()).plain == "the old man ran\nhe met the old man 's son\nyes"
    assert TASK.to_json(DOCUMENT, [], CorefSettings()) == {"sentences": DOCUMENT.sentences, "clusters": []}
