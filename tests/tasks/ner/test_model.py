"""The tagger for entities: what its tags may do, what it predicts, how it is scored."""

import itertools
from pathlib import Path

import pytest
import torch

from elmokit.tasks.batches import TokenLookup
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.ner.example import NerExample
from elmokit.tasks.ner.model import NerModel, NerSettings, _allowed
from elmokit.tasks.ner.record import NerRecord
from elmokit.tasks.ner.task import Ner
from elmokit.tasks.records import TaskText
from elmokit.tasks.spans import Span, to_bioul, to_iob2, to_spans
from elmokit.tasks.words import WordTable

TAGS = ("O", "B-A", "I-A", "L-A", "U-A", "B-B", "I-B", "L-B", "U-B")
SETTINGS = NerSettings(hidden_dim=4, num_layers=1, char_dim=2, num_filters=3)
TABLE = WordTable(["a", "b"])


@pytest.fixture
def ner() -> Ner:
    return Ner()


def example(*spans: Span, length: int = 4) -> NerExample:
    return NerExample(tuple("abcdefgh"[:length]), to_iob2(spans, length))


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_the_allowed_sequences_are_those_that_spans_can_be_written_as(length: int) -> None:
    """All sequences of tags, and whether writing their spans as BIOUL gives them again."""
    rules = _allowed(TAGS)
    for numbers in itertools.product(range(len(TAGS)), repeat=length):
        tags = tuple(TAGS[number] for number in numbers)
        steps = all(rules["allowed"][pair] for pair in itertools.pairwise(numbers))
        allowed = bool(steps and rules["may_start"][numbers[0]] and rules["may_end"][numbers[-1]])
        assert allowed == (to_bioul(to_spans(tags), length) == tags), tags


def test_labels_are_all_tags_of_the_types_in_training(ner: Ner) -> None:
    examples = [example(Span(0, 2, "B")), example(Span(1, 2, "A"), Span(2, 3, "B")), example()]
    assert ner.find_labels(examples) == {"tags": list(TAGS)}
    assert ner.find_labels([example()]) == {"tags": ["O"]}


def test_gold_tags(ner: Ner) -> None:
    examples = [example(Span(0, 2, "B"), Span(3, 4, "A")), example(Span(0, 1, "new"), length=2)]
    texts = [TokenLookup(TABLE).batch([ner.texts(one)[0] for one in examples])]
    gold = ner.collate(examples, {"tags": list(TAGS)}, texts)
    assert gold.tolist() == [[5, 7, 0, 4], [0, 0, 0, 0]]  # B-B L-B O U-A; a type that training never saw is O


def build_model(extra: float = 0.0) -> NerModel:
    torch.manual_seed(3)
    model = NerModel(SETTINGS, TokenInputs(torch.randn(3, 5), tune_words=True), TAGS).eval()
    with torch.no_grad():
        model.scores.weight.mul_(20)
    return model


def test_predictions_are_spans_that_tags_can_hold(ner: Ner) -> None:
    model, lookup = build_model(), TokenLookup(TABLE)
    sentences = [tuple("ab"[place % (number + 1) % 2] for place in range(number + 1)) for number in range(8)]
    batch = lookup.batch([(sentence,) for sentence in sentences])
    with torch.no_grad():
        found = model.predict([batch], None)
        alone = [model.predict([lookup.batch([(sentence,)])], None)[0] for sentence in sentences]
    assert any(found)
    assert found == alone
    for spans, sentence in zip(found, sentences, strict=True):
        to_bioul([Span(*span) for span in spans], len(sentence))


def test_the_loss_is_a_mean_over_sentences(ner: Ner) -> None:
    model, lookup = build_model(), TokenLookup(TABLE)
    examples = [example(Span(0, 2, "B")), example(Span(1, 2, "A"), length=2), example(length=3)]
    losses = []
    for group in (examples, *([one] for one in examples)):
        texts = [lookup.batch([ner.texts(one)[0] for one in group])]
        losses.append(model.loss(texts, ner.collate(group, {"tags": list(TAGS)}, texts)).item())
    assert losses[0] == pytest.approx(sum(losses[1:]) / 3, rel=1e-5)
    assert losses[0] > 0


def test_what_stands_beside_the_encoder_reaches_the_scores() -> None:
    class Beside(torch.nn.Module):
        dim, extra_dim = 5, 2
        extra: torch.Tensor

        def forward(self, batch: object) -> tuple[torch.Tensor, ...]:
            return torch.zeros(1, 3, 5), self.extra, torch.ones(1, 3, dtype=torch.bool)

    inputs = Beside()
    model = NerModel(SETTINGS, inputs, TAGS).eval()  # type: ignore[arg-type]
    found = []
    for value in (0.0, 1.0):
        inputs.extra = torch.full((1, 3, 2), value)
        found.append(model._run(None))  # type: ignore[arg-type]
    torch.testing.assert_close(found[1] - found[0], model.scores.weight[:, -2:].sum(1).expand(1, 3, -1))


def test_figures(ner: Ner) -> None:
    examples = [example(Span(0, 2, "A"), Span(2, 3, "B")), example(Span(1, 2, "A")), example()]
    predictions = [[[0, 2, "A"], [2, 3, "A"]], [[1, 2, "A"]], [[0, 1, "B"]]]
    figures = ner.score(examples, predictions)
    assert figures == pytest.approx({"f1": 100 * 4 / 7, "precision": 50.0, "recall": 200 / 3})
    assert ner.metric in figures
    assert ner.score(examples, [[], [], []]) == {"f1": 0.0, "precision": 0.0, "recall": 0.0}


@pytest.mark.parametrize("separator", ["\t", " "])
def test_two_formats_are_told_apart(separator: str, ner: Ner, tmp_path: Path) -> None:
    path = tmp_path / "file"
    columns = [("Rome", "B-LOC"), ("wins", "O")]
    rows = [row if separator == "\t" else (row[0], "X", "X", row[1]) for row in columns]
    path.write_text("\n\n" + "".join(separator.join(row) + "\n" for row in rows))
    (found,) = ner.read([path], SETTINGS, training=True)
    assert found.tokens == ("Rome", "wins")
    assert found.spans == (Span(0, 1, "LOC"),)


def test_raw_text(ner: Ner) -> None:
    text = TaskText.from_text("Anna left. Emil stayed in Oslo.")
    first, second = ner.to_examples([text])
    assert first.tokens == ("Anna", "left", ".")
    found = [(first, ([], [])), (second, ([[0, 1, "PER"], [3, 4, "LOC"]], [0.5, 1 / 3]))]
    record = ner.to_record(4, "x", [text], found, SETTINGS)
    assert isinstance(record, NerRecord)
    assert [(one.text, one.type, one.score) for one in record.entities] == [
        ("Emil", "PER", 0.5),
        ("Oslo", "LOC", 1 / 3),
    ]
    assert record.to_dict()["entities"][1] == {
        "start": 6,
        "end": 7,
        "type": "LOC",
        "text": "Oslo",
        "tokens": ["Oslo"],
        "start_char": 26,
        "end_char": 30,
        "score": 0.333333,
    }
    assert record.to_transformers()[0] == {
        "entity_group": "PER",
        "score": 0.5,
        "word": "Emil",
        "start": 11,
        "end": 15,
    }
