"""Span ranking as a whole, and runs on documents that a tiny model learns."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from elmokit.formats import save
from elmokit.tasks.config import ElmoSettings, TaskConfig
from elmokit.tasks.coref.document import CorefDocument, Mention
from elmokit.tasks.coref.metric import score_clusters
from elmokit.tasks.coref.model import CorefModel, Links
from elmokit.tasks.coref.record import CorefRecord
from elmokit.tasks.coref.spans import Kept, Spans, keep_best, list_spans
from elmokit.tasks.inputs import CharCnn, ElmoInputs, TokenInputs
from elmokit.tasks.records import TaskText
from elmokit.tasks.runner import TaskFiles, evaluate_task, train_task
from elmokit.tasks.saved import load_task
from elmokit.training.config import read_run
from tests.conftest import build_tiny
from tests.tasks.coref.tiny import (
    DOCUMENT,
    NO_LABELS,
    TASK,
    TINY,
    batch,
    build,
    num_parameters,
    pairs_of,
    value,
    whole_vectors,
)

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
    assert TASK.char_cnn_shape(settings) == (8, 150, 4)
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


def test_sentences_of_any_length_are_those_read_alone() -> None:
    model = build()
    lengths = (4, 7, 1, 2, 9, 1, 3)  # of several groups, whose sentences do not follow each other
    x = torch.randn(sum(lengths), 8)
    alone = [model._encode(sentence, (len(sentence),)) for sentence in x.split(lengths)]
    torch.testing.assert_close(model._encode(x, lengths), torch.cat(alone))


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
    clusters, decisions = build()._decode(links)
    assert clusters == [[[0, 1], [4, 6]], [[2, 3], [6, 7]]]
    assert [[antecedent for antecedent, _ in one] for one in decisions] == [[None, [0, 1]], [None, [2, 3]]]
    assert decisions[1][1][1] == pytest.approx(math.exp(3) / sum(map(math.exp, (0, 1, 3, 2))))


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
    first, second = scores
    assert not torch.allclose(first, second)


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
    named: dict[str, Any] = {
        name: [write_documents(folder / f"{name}_conll", n, n)] for name, n in (("train", 24), ("dev", 5), ("test", 6))
    }
    files = TaskFiles(
        **named, output=folder / "run", bilm=str(folder / "bilm"), layers_folder=folder / "layers", threads=1
    )
    config = TaskConfig.model_validate({**CONFIG, **changes})
    return train_task(TASK, config, files), files


@pytest.mark.slow
@pytest.mark.parametrize(("place", "singletons"), [("none", False), ("both", True)])
def test_a_run_learns_who_is_who(place: str, singletons: bool, tmp_path: Path) -> None:
    model = {**CONFIG["model"], "singletons": singletons}
    result, files = run(tmp_path, elmo={"place": place, "dropout": 0.0}, model=model)
    assert result["dev"]["f1"] == 100
    assert result["test"]["f1"] > 85  # one wrong link of six documents is 88.8
    assert (result["dev"]["f1_with_singletons"] > 98) == singletons
    assert result["examples"] == {"train": 24, "dev": 5, "test": 6}
    trained = load_task(tmp_path / "run/model")
    assert evaluate_task(trained, files.test) == result["test"]
    assert trained.labels == {"genres": ["nw"], "speakers": True}
    (record,) = trained.predict(["Clara met old Emil. Emil sang. Clara slept."])
    assert isinstance(record, CorefRecord)
    found = [[(one.span.text, one.span.start, one.antecedent) for one in cluster] for cluster in record.clusters]
    assert found == [[("Clara", 0, None), ("Clara", 8, (0, 1))], [("old Emil", 2, None), ("Emil", 5, (2, 4))]]
    assert all(0.5 < one.span.score <= 1 for cluster in record.clusters for one in cluster)
    shown = json.loads(json.dumps(record.to_dict()))
    assert shown["sentences"] == [["Clara", "met", "old", "Emil", "."], ["Emil", "sang", "."], ["Clara", "slept", "."]]
    assert [[one["text"] for one in cluster] for cluster in shown["clusters"]] == [["Clara"] * 2, ["old Emil", "Emil"]]


def test_raw_text_without_tokens_is_no_document() -> None:
    assert TASK.to_examples([TaskText.from_text("  \n")]) == []
    (document,) = TASK.to_examples([TaskText.from_text("One. Two.")])
    assert document.sentences == (("One", "."), ("Two", "."))
