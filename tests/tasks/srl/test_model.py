"""The model from files to predictions, on sentences whose roles a tiny model learns in a moment."""

import gzip
import itertools
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.batches import TokenBatch, TokenTypes
from elmokit.tasks.config import ElmoSettings, TaskConfig
from elmokit.tasks.inputs import ElmoInputs, TokenInputs
from elmokit.tasks.pipeline import TaskPipeline
from elmokit.tasks.records import TaskText
from elmokit.tasks.runner import evaluate_task, train_task
from elmokit.tasks.saved import load_task
from elmokit.tasks.spans import Span, to_iob2, to_spans
from elmokit.tasks.srl.model import Gold, SrlModel, SrlSettings
from elmokit.tasks.srl.reader import SrlExample
from elmokit.tasks.srl.record import SrlRecord
from elmokit.tasks.srl.task import RoleExample, Srl
from elmokit.training.config import read_run
from tests.tasks.conftest import BASE, files, merge, write_data
from tests.tasks.srl.test_reader import CONLL2012, EWT, PROPS, WORDS, write

SRL = Srl()
TAGS = ("O", "B-ARG0", "I-ARG0", "B-ARG1", "I-ARG1", "B-V", "I-V")
NAMES = ("Anna", "Bjørn", "Clara", "Dario", "Emil")
MODEL = {"hidden_dim": 16, "num_layers": 2, "indicator_dim": 4, "dropout": 0.0, "tagger_dim": 8}
NO_TYPES = TokenTypes(torch.empty(0, 0), torch.empty(0, 0))
"""The model has no character features."""


# --- A corpus of a moment --------------------------------------------------------------------------------------------


def clause(generator: random.Random, first: int) -> tuple[list[str], int, list[Span]]:
    """`the old Anna saw a Clara`, or the same with `was seen by`, and who did what, counted from token `first`."""
    subject = [*generator.sample(["the", "old"], generator.randint(0, 2)), generator.choice(NAMES)]
    other = ["a", generator.choice(NAMES)][generator.randint(0, 1) :]
    active = generator.random() < 0.5
    verb = ["saw"] if active else ["was", "seen", "by"]
    place = first + len(subject) + (not active)
    begin = first + len(subject) + len(verb)
    agent, patient = ("ARG0", "ARG1") if active else ("ARG1", "ARG0")
    spans = [
        Span(first, first + len(subject), agent),
        Span(place, place + 1, "V"),
        Span(begin, begin + len(other), patient),
    ]
    return [*subject, *verb, *other], place, spans


def write_roles(path: Path, number: int, seed: int) -> Path:
    """One clause, two of them, or none: in the columns of EWT PropBank."""
    generator = random.Random(seed)
    blocks = []
    for sentence in range(number):
        tokens: list[str] = []
        frames = []
        for _ in range(generator.choice((0, 1, 1, 2))):
            words, place, spans = clause(generator, len(tokens))
            tokens += [*words, "and"]
            frames.append((place, spans))
        tokens += ["oh", "."]
        columns = [to_cells(spans, len(tokens)) for _, spans in frames]
        marked = {place for place, _ in frames}
        blocks.append(
            "".join(
                "\t".join(
                    ("doc", str(sentence), str(k), word, "X", "*", *(("see", "see.01") if k in marked else "--")),
                )
                + "".join(f"\t{column[k]}" for column in columns)
                + "\n"
                for k, word in enumerate(tokens)
            )
        )
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def to_cells(spans: list[Span], num_tokens: int) -> list[str]:
    cells = ["*"] * num_tokens
    for start, end, label in spans:
        cells[start] = f"({label}{cells[start]}"
        cells[end - 1] += ")"
    return cells


def config(**changes: Any) -> TaskConfig:
    own = {"task": "srl", "num_epochs": 12, "optimizer": {"learning_rate": 0.02}}
    return TaskConfig.model_validate(merge({**merge(BASE, own), "model": MODEL}, changes))


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    named = {
        name: [str(write_roles(tmp_path / f"{name}.gold_conll", size, size))]
        for name, size in {"train": 60, "dev": 16, "test": 12}.items()
    }
    return {**write_data(tmp_path), **named}


def read(data: dict[str, Any], name: str) -> list[RoleExample]:
    return list(SRL.read([Path(data[name][0])], SrlSettings(), training=False))


# --- Files -----------------------------------------------------------------------------------------------------------


def test_an_example_for_each_predicate_and_for_each_sentence_without(tmp_path: Path) -> None:
    first, second, third = SRL.read([write(tmp_path, EWT)], SrlSettings(), training=True)
    assert [one.predicate for one in (first, second, third)] == [3, 7, -1]
    assert [one.is_first for one in (first, second, third)] == [True, False, True]
    assert first.predicates == second.predicates == (3, 7)
    assert (third.tokens, third.pair, third.predicates) == (("Yes",), None, ())
    assert first.pair is not None


PLAIN_ROWS = CONLL2012.split("\n", 1)[1]


@pytest.mark.parametrize(
    ("text", "predicates"),
    [
        pytest.param(EWT, [3, 7, -1], id="EWT"),
        pytest.param(CONLL2012, [2, 5, -1], id="CoNLL-2012"),
        pytest.param(PLAIN_ROWS, [2, 5, -1], id="CoNLL-2012 without its first line"),
        pytest.param("Oh -\n\n* - (A0*)\nran run (V*)\n", [-1, 1], id="CoNLL-2005"),
        pytest.param("* - (A0*)\nran run (V*)\n\nOh -\n", [1, -1], id="CoNLL-2005 with arguments at once"),
    ],
)
def test_files_are_told_by_their_first_line(text: str, predicates: list[int], tmp_path: Path) -> None:
    examples = SRL.read([write(tmp_path, "\n" + text)], SrlSettings(), training=True)
    assert [example.predicate for example in examples] == predicates


@pytest.mark.parametrize(
    ("props", "words"),
    [("a.props", "a.words"), ("props/a.props.gz", "words/a.words.gz"), ("data", "words.data")],
)
def test_words_of_conll2005_are_found(props: str, words: str, tmp_path: Path) -> None:
    for name, text in ((props, PROPS), (words, WORDS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    examples = list(SRL.read([tmp_path / props], SrlSettings(), training=True))
    assert [example.predicate for example in examples] == [2, 4, -1]
    assert examples[0].tokens == ("The", "man", "said", "he", "ran")


def test_words_that_are_not_there_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, PROPS, "a.props")
    with pytest.raises(InputError, match=r"a\.props has no words, and there is no .*a\.words: put the words there"):
        list(SRL.read([path], SrlSettings(), training=True))


@pytest.mark.parametrize("text", ["", "word\n", "EU NNP B-NP B-ORG\n", "word\tO\n", "# newdoc\n1\tHe\n"])
def test_a_file_of_another_task_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data begins with .*, which is neither EWT PropBank .* model\.format\.$"):
        list(SRL.read([write(tmp_path, text)], SrlSettings(), training=True))


def test_a_format_can_be_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected 12"):
        list(SRL.read([write(tmp_path, EWT)], SrlSettings(format="conll2012"), training=True))
    with pytest.raises(ConfigError, match="format"):
        SRL.read_settings({"format": "conll2009"})


# --- The model -------------------------------------------------------------------------------------------------------


def build_model(place: str = "input", *, tags: tuple[str, ...] = TAGS, seed: int = 0, **own: Any) -> SrlModel:
    """Over 5 words of width 6 and three layers of ELMo of width 4."""
    torch.manual_seed(seed)
    elmo = ElmoInputs(ElmoSettings.model_validate({"place": place, "dropout": 0.0}), num_layers=3, width=4)
    inputs = TokenInputs(torch.randn(5, 6), tune_words=True, elmo=None if place == "none" else elmo)
    return SrlModel(SrlSettings.model_validate({**MODEL, **own}), inputs, tags)


def random_batch(lengths: list[int], predicates: list[int], seed: int = 0) -> tuple[TokenBatch, Gold]:
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths))
    mask = torch.arange(shape[1]) < torch.tensor(lengths)[:, None]
    batch = TokenBatch(
        mask,
        torch.randint(5, shape, generator=generator),
        NO_TYPES,
        torch.randn(3, *shape, 4, generator=generator),
        None,
    )
    tags = torch.randint(len(TAGS), shape, generator=generator)
    everywhere = torch.rand(shape, generator=generator) < 0.4
    return batch, Gold(torch.tensor(predicates), tags, everywhere, torch.tensor([True, False] * 9)[: len(lengths)])


def take(batch: TokenBatch, gold: Gold, row: int) -> tuple[TokenBatch, Gold]:
    """One example without its padding."""
    size, own = int(batch.mask[row].sum()), slice(row, row + 1)
    assert batch.layers is not None
    alone = TokenBatch(
        batch.mask[own, :size],
        batch.word_rows[own, :size],
        NO_TYPES,
        batch.layers[:, own, :size],
        None,
    )
    tags, everywhere = gold.tags[own, :size], gold.all_predicates[own, :size]
    return alone, Gold(gold.predicates[own], tags, everywhere, gold.is_first[own])


@pytest.mark.parametrize(("place", "in_dim", "out_dim"), [("none", 6, 16), ("input", 10, 16), ("both", 10, 20)])
def test_widths(place: str, in_dim: int, out_dim: int) -> None:
    model = build_model(place)
    assert model.encoder.layers[0].input_weight.shape == (in_dim + 4, 6 * 16)
    assert model.scores.in_features == out_dim
    batch, gold = random_batch([3, 5], [0, 2])
    assert model._score_tags(model.inputs(batch), gold.predicates).shape == (2, 5, len(TAGS))
    assert model.loss([batch], gold).isfinite()


@pytest.mark.slow
def test_the_size_of_the_papers_model() -> None:
    """Eight layers of 300, the first over 100 + 1024 + 100 numbers, 119 tags, ten words; the tagger has 64 more."""
    config = read_run(TaskConfig, "srl-paper")
    elmo = ElmoInputs(config.elmo, num_layers=3, width=1024)
    inputs = TokenInputs(torch.zeros(10, 100), tune_words=config.words.tuned, elmo=elmo)
    tags = ["O", *(f"{letter}-{label}" for label in range(59) for letter in "BI")]
    model = SRL.build(SRL.read_settings(config.model), inputs, {"tags": tags})
    learning = {name: parameter.numel() for name, parameter in model.named_parameters() if parameter.requires_grad}
    layers = (1224 + 7 * 300) * 6 * 300 + 8 * (300 * 5 * 300 + 5 * 300)
    tagger = 2 * 4 * 64 * (1124 + 64 + 2) + 128 + 1
    assert sum(size for name, size in learning.items() if name.startswith("encoder.")) == layers
    assert sum(size for name, size in learning.items() if name.startswith("tagger.")) == tagger
    assert sum(learning.values()) == 10 * 100 + layers + tagger + 2 * 100 + 301 * 119 + 3 + 1


def test_the_loss_is_summed_over_tokens_and_divided_by_examples() -> None:
    model = build_model("both").double()
    batch, gold = random_batch([3, 5, 1, 4], [0, 2, -1, 3])
    batch = replace(batch, layers=batch.layers.double())
    expected = torch.zeros((), dtype=torch.float64)
    for row, predicate in enumerate(gold.predicates.tolist()):
        alone, own = take(batch, gold, row)
        inputs = model.inputs(alone)
        if predicate != -1:
            scores = model._score_tags(inputs, own.predicates)[0].log_softmax(1)  # (T, K)
            expected = expected - scores.gather(1, own.tags[0, :, None]).sum()
        if row % 2 == 0:
            odds = model.tagger(inputs)[0].sigmoid()  # (T,)
            expected = expected - torch.where(own.all_predicates[0], odds, 1 - odds).log().sum()
    torch.testing.assert_close(model.loss([batch], gold), expected / 4)


def test_finding_predicates_teaches_the_inputs_nothing() -> None:
    model = build_model("both")
    batch, gold = random_batch([3, 2], [-1, -1])
    model.loss([batch], gold).backward()
    touched = {name.split(".")[0] for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert touched == {"tagger"}
    gold = gold._replace(predicates=torch.tensor([1, 1]), is_first=torch.tensor([False, False]))
    model.zero_grad()
    model.loss([batch], gold).backward()
    touched = {name.split(".")[0] for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert touched == {"inputs", "indicator", "encoder", "scores"}


def test_the_predicate_matters_to_arguments_and_not_to_the_search_for_predicates() -> None:
    model = build_model(seed=2).eval()
    batch, gold = random_batch([5], [0])
    inputs = model.inputs(batch)
    scores = [model._score_tags(inputs, torch.tensor([place])) for place in (0, 4)]
    assert not torch.allclose(scores[0], scores[1])
    found = [model.predict([batch], gold._replace(predicates=torch.tensor([place]))) for place in (0, 4, -1)]
    assert found[0][0]["predicates"] == found[1][0]["predicates"] == found[2][0]["predicates"]
    assert [[frame["predicate"] for frame in one["frames"]] for (one,) in found] == [[0], [4], []]


def brute_force(scores: Tensor, tags: tuple[str, ...]) -> float:
    """The highest sum of scores (T, K) of any tags that spans can be written as."""
    best = -torch.inf
    for numbers in itertools.product(range(len(tags)), repeat=len(scores)):
        own = tuple(tags[number] for number in numbers)
        if to_iob2(to_spans(own), len(own)) == own:
            best = max(best, float(scores[range(len(scores)), numbers].sum()))
    return best


def test_predictions_are_the_best_that_tags_can_hold() -> None:
    """With scores so wild that the best tag of each token alone would break the rules."""
    tags = TAGS[:5]
    model = build_model(tags=tags, seed=5).eval()
    with torch.no_grad():
        model.scores.weight.mul_(30)
    batch, gold = random_batch([4, 3, 1, 4, 4, 2], [0, 1, 0, 3, 2, 1])
    with torch.inference_mode():
        predictions = model.predict([batch], gold)
        scores = model._score_tags(model.inputs(batch), gold.predicates)  # (B, T, K)
    broken = 0
    for row, size in enumerate(batch.mask.sum(1).tolist()):
        (frame,) = predictions[row]["frames"]
        own = to_iob2([Span(*span) for span in frame["spans"]], size)
        total = sum(float(scores[row, place, tags.index(tag)]) for place, tag in enumerate(own))
        assert total == pytest.approx(brute_force(scores[row, :size], tags), rel=1e-5)
        greedy = tuple(tags[number] for number in scores[row, :size].argmax(1).tolist())
        broken += to_iob2(to_spans(greedy), size) != greedy
    assert broken > 0


def test_neighbors_change_no_prediction() -> None:
    model = build_model("both", seed=3).eval()
    batch, gold = random_batch([3, 6, 1, 4], [0, 5, -1, 3])
    together = model.predict([batch], gold)
    for row in range(4):
        alone, own = take(batch, gold, row)
        assert model.predict([alone], own) == together[row : row + 1]


# --- Figures ---------------------------------------------------------------------------------------------------------


def example(*spans: Span, predicates: tuple[int, ...] = (1,), is_first: bool = True) -> RoleExample:
    tokens = tuple("abcdef")
    return RoleExample(tokens, SrlExample(tokens, predicates[0], to_iob2(spans, 6)), predicates, is_first)


def prediction(*spans: Span, predicates: tuple[int, ...] = (1,)) -> Any:
    """As it comes back from JSON."""
    frames = [{"predicate": 1, "spans": [list(span) for span in spans]}]
    return json.loads(json.dumps({"predicates": predicates, "frames": frames}))


V, ARG0, ARG1, MORE = Span(1, 2, "V"), Span(0, 1, "ARG0"), Span(2, 3, "ARG1"), Span(4, 6, "C-ARG1")


def test_counts() -> None:
    gold = example(ARG0, V, ARG1, MORE, predicates=(1, 4))
    assert SRL.counts(gold, prediction(ARG0, V, ARG1, MORE)) == (2, 2, 2, 2, 1, 1)
    assert SRL.counts(gold, prediction(ARG0, ARG1, predicates=(0, 1, 4))) == (2, 2, 1, 2, 3, 2)
    later = example(ARG0, V, predicates=(1, 4), is_first=False)
    assert SRL.counts(later, prediction(V)) == (1, 0, 0, 0, 0, 0)
    none = RoleExample(tuple("ab"))
    assert SRL.counts(none, {"predicates": [0], "frames": []}) == (0, 0, 0, 0, 1, 0)


def test_figures() -> None:
    figures = SRL.figures([4.0, 2.0, 1.0, 10.0, 10.0, 9.0])
    assert figures == pytest.approx({"f1": 100 / 3, "precision": 50, "recall": 25, "predicate_f1": 90})
    assert set(SRL.figures([0.0] * 6).values()) == {0}
    assert SRL.metric in figures


def test_labels_and_gold(tmp_path: Path) -> None:
    examples = list(SRL.read([write(tmp_path, EWT)], SrlSettings(), training=True))
    labels = SRL.find_labels(examples)
    assert labels["tags"][:3] == ["O", "B-ARG0", "I-ARG0"]
    assert {tag[2:] for tag in labels["tags"][1:]} == {"ARG0", "ARG1", "C-ARG1", "R-ARG0", "V"}
    mask = torch.ones(3, 10, dtype=torch.bool)
    batch = TokenBatch(mask, mask.long(), NO_TYPES, None, None)
    gold = SRL.collate(examples, {"tags": ["O", "B-ARG1", "I-ARG1", "B-V"]}, [batch])
    assert gold.predicates.tolist() == [3, 7, -1]
    assert gold.tags.tolist() == [[1, 2, 0, 3, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 3, 0, 0, 0], [0] * 10]
    assert gold.all_predicates.nonzero().tolist() == [[0, 3], [0, 7], [1, 3], [1, 7]]
    assert gold.is_first.tolist() == [True, False, True]


def test_what_a_program_reads() -> None:
    text = TaskText.from_text("Ann saw old Bo run")
    (sentence,) = SRL.to_examples([text])
    found: list[Any] = [(sentence, ({"predicates": [1, 4], "frames": []}, ([0.75, 0.5], [])))]
    frames: list[Any] = [
        {"predicate": 1, "spans": [[0, 1, "ARG0"], [1, 2, "V"], [2, 5, "ARG1"]]},
        {"predicate": 4, "spans": [[2, 4, "ARGM-X"], [4, 5, "V"]]},
    ]
    more = SRL.further_examples(sentence, found[0][1][0])
    assert [one.predicate for one in more] == [1, 4]
    for one, frame in zip(more, frames, strict=True):
        found.append((one, ({"predicates": [], "frames": [frame]}, ([], [[0.25] * len(frame["spans"])]))))
    record = SRL.to_record(0, None, [text], found, SrlSettings())
    assert isinstance(record, SrlRecord)
    assert [(one.predicate.text, one.predicate.score) for one in record.predicates] == [("saw", 0.75), ("run", 0.5)]
    shown = record.to_dict()["predicates"][1]
    own = {"start": 2, "end": 4, "type": "ARGM-X", "text": "old Bo", "tokens": ["old", "Bo"]}
    assert shown["arguments"] == [{**own, "start_char": 8, "end_char": 14, "score": 0.25}]
    assert (shown["index"], shown["token"], shown["start_char"]) == (4, "run", 15)


# --- Runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_learns_and_reads_raw_text(data: dict[str, Any], tmp_path: Path) -> None:
    result = train_task(SRL, config(), files(data, tmp_path / "run"))
    assert result["dev"]["f1"] > 90 and result["test"]["f1"] > 85
    assert result["test"]["predicate_f1"] > 95
    assert set(result["test"]) == {"f1", "precision", "recall", "predicate_f1"}
    assert [mix["place"] for mix in result["mixes"]] == ["input"]
    trained = load_task(tmp_path / "run/model")
    assert evaluate_task(trained, data["test"]) == result["test"]
    lines = [json.loads(line) for line in (tmp_path / "run/predictions.jsonl").read_text().splitlines()]
    assert SRL.score(read(data, "test"), lines) == result["test"]
    check_raw_text(trained)


def check_raw_text(trained: TaskPipeline) -> None:
    """Two sentences in one text, the first with two predicates, and a text without any."""
    rows = ["Anna saw Emil and Clara was seen by Dario and oh . Dario saw Anna and oh .", "oh .", ""]
    found = [record for record in trained.predict(rows) if isinstance(record, SrlRecord)]
    assert [len(record.tokens) for record in found] == [18, 2, 0]
    assert [[frame.predicate.start for frame in record.predicates] for record in found] == [[1, 6, 13], [], []]
    for frame in found[0].predicates:
        first, last = (0, 12) if frame.predicate.start < 12 else (12, 18)
        tokens = found[0].tokens[first:last]
        pair = SrlExample(tokens, frame.predicate.start - first, ("O",) * len(tokens))
        (given,) = trained.predict_examples([RoleExample(tokens, pair)])
        spans = [(start + first, end + first, label) for start, end, label in given["frames"][0]["spans"]]
        assert [(one.start, one.end, one.type) for one in frame.arguments] == [one for one in spans if one[2] != "V"]
        assert all(0 < one.score <= 1 for one in frame.arguments)
    assert (12, 13, "ARG0") in [(one.start, one.end, one.type) for one in found[0].predicates[2].arguments]


@pytest.mark.slow
@pytest.mark.parametrize("elmo", [{"place": "none"}, {"place": "both", "layer_norm": True}, {"tuned": True}])
def test_steps_with_every_place_of_elmo(elmo: dict[str, Any], data: dict[str, Any], tmp_path: Path) -> None:
    own = config(num_epochs=1, elmo=elmo, model={"dropout": 0.2, "input_dropout": 0.2})
    result = train_task(SRL, own, files(data, tmp_path / "run"))
    assert result["examples"]["train"] == len(read(data, "train"))
    trained = load_task(tmp_path / "run/model")
    assert evaluate_task(trained, data["test"]) == result["test"]


@pytest.mark.slow
def test_a_step_as_the_paper_takes_it(data: dict[str, Any], tmp_path: Path) -> None:
    """With the paper's optimizer, by which words learn too."""
    paper = read_run(TaskConfig, "srl-paper")
    assert (paper.optimizer.kind, paper.optimizer.clip_value, paper.elmo.regularization) == ("adadelta", 1.0, 0.001)
    assert paper.words.tuned
    own = config(num_epochs=1).model_copy(update={"optimizer": paper.optimizer})
    result = train_task(SRL, own, files(data, tmp_path / "run"))
    assert result["steps"] > 5
