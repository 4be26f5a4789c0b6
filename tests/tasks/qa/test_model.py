"""BiDAF with self-attention: its parts the long way, what padding may change, and runs that learn to answer."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from elmokit.tasks.batches import TokenBatch
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.qa.model import QaGold, QaModel, QaSettings, TriAttention
from elmokit.tasks.qa.reader import Answer, QaExample, TokenSpan, read_paragraph
from elmokit.tasks.qa.task import Qa
from elmokit.tasks.records import TaskText
from elmokit.tasks.runner import evaluate_task, train_task
from elmokit.tasks.saved import load_task
from tests.tasks.conftest import BASE, PEOPLE, files, merge, write_data
from tests.tasks.sentiment.test_model import build_inputs, check_mixes, in_double, random_batch, take, without_gradient

QA = Qa()
PLACES = ("none", "input", "output", "both")
TOWNS = ("Oslo", "Lima", "Kyoto", "Paris")
TINY = {"hidden_dim": 5, "dropout": 0.0, "char_dim": 2, "num_filters": 3, "filter_width": 3}


# --- The model -------------------------------------------------------------------------------------------------------


def build_model(place: str = "both", **changes: Any) -> QaModel:
    torch.manual_seed(2)
    return QaModel(QaSettings.model_validate({**TINY, **changes}), build_inputs(place, num_filters=3))


def texts_of(paragraphs: list[int], questions: list[int], seed: int = 0) -> list[TokenBatch]:
    return [random_batch(paragraphs, seed), random_batch(questions, seed + 1)]


def gold_of(*spans: tuple[int, int], length: int) -> QaGold:
    starts, ends = torch.zeros(2, len(spans), length, dtype=torch.bool)
    for row, (start, end) in enumerate(spans):
        starts[row, start] = ends[row, end - 1] = True
    return QaGold(starts, ends)


@pytest.mark.parametrize(("place", "in_dim", "extra"), [("none", 9, 0), ("input", 13, 0), ("output", 9, 4)])
def test_widths(place: str, in_dim: int, extra: int) -> None:
    model = build_model(place)
    assert model.encoder.layers[0].input_weight.shape[1] == in_dim
    assert model.to_question.product.shape == (10 + extra,)
    first, last = model._run(texts_of([3, 7, 1], [2, 4, 3]))
    assert first.shape == last.shape == (3, 7)
    for log_probs in (first, last):
        torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(3))
        assert (log_probs.isinf().sum(1) == torch.tensor([4, 0, 6])).all()


def similarity(attention: TriAttention, x: Tensor, y: Tensor) -> float:
    """Of two tokens."""
    own, other = attention.first.weight[0], attention.second.weight[0]
    return sum(float(own[k] * x[k] + other[k] * y[k] + attention.product[k] * x[k] * y[k]) for k in range(len(x)))


def test_similarity_of_every_two_tokens() -> None:
    torch.manual_seed(0)
    attention, x, y = TriAttention(4), torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    with torch.no_grad():
        found = attention(x, y)
        expected = [[[similarity(attention, a, b) for b in y[row]] for a in x[row]] for row in range(2)]
    torch.testing.assert_close(found, torch.tensor(expected))


def attend_itself(model: QaModel, x: Tensor) -> Tensor:
    """(T, 2H) of a paragraph: each token attends to all others but itself."""
    rows = []
    for place, token in enumerate(x):
        others = [other for number, other in enumerate(x) if number != place]
        shares = torch.tensor([similarity(model.to_itself, token, other) for other in others]).softmax(0)
        around = sum(share * other for share, other in zip(shares, others, strict=True))
        linear = model.merge_itself[0]
        rows.append(torch.relu(linear.weight @ torch.cat([token, around, token * around]) + linear.bias))
    return torch.stack(rows)


def test_no_token_attends_to_itself() -> None:
    model = build_model().eval()
    x, mask = torch.randn(2, 5, 10), torch.arange(5) < torch.tensor([[3], [5]])
    with torch.no_grad():
        found = model._attend_itself(x, mask)
        for row, size in enumerate((3, 5)):
            expected = attend_itself(model, x[row, :size])
            torch.testing.assert_close(found[row, :size], expected, atol=1e-5, rtol=1e-4)


def by_hand(model: QaModel, texts: list[TokenBatch]) -> tuple[Tensor, Tensor]:
    """Log-probabilities (T,) of the first and of the last token of one answer, token by token."""
    x, y = (model._encode(batch)[0] for batch in texts)  # (T, 2H + D), (U, 2H + D)
    mask = texts[0].mask
    table = torch.tensor([[similarity(model.to_question, a, b) for b in y] for a in x])  # (T, U)
    relevance = table.max(1).values.softmax(0)
    summary = sum(share * token for share, token in zip(relevance, x, strict=True))
    rows = []
    for token, row in zip(x, table, strict=True):
        asked = sum(share * other for share, other in zip(row.softmax(0), y, strict=True))
        rows.append(torch.cat([token, asked, token * asked, summary * asked]))
    merged = torch.relu(torch.stack(rows) @ model.merge[0].weight.T + model.merge[0].bias)  # (T, 2H)
    merged = merged + attend_itself(model, model.reader(merged[None], mask)[0])
    starts = model.start_reader(merged[None], mask)  # (1, T, 2H)
    ends = model.end_reader(torch.cat([merged[None], starts], 2), mask)
    return model.start(starts)[0, :, 0].log_softmax(0), model.end(ends)[0, :, 0].log_softmax(0)


def test_scores_are_what_the_equations_give() -> None:
    model = build_model().eval()
    texts = texts_of([4, 6, 2], [3, 1, 5])
    with torch.no_grad():
        found = model._run(texts)
        for row, size in enumerate((4, 6, 2)):
            expected = by_hand(model, [take(batch, row) for batch in texts])
            for log_probs, own in zip(found, expected, strict=True):
                torch.testing.assert_close(log_probs[row, :size], own, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("place", PLACES)
def test_neighbors_change_no_score(place: str) -> None:
    model = build_model(place).eval()
    sizes = [3, 9, 1, 4]
    texts = texts_of(sizes, [7, 1, 2, 8])
    with torch.no_grad():
        together = model._run(texts)
        for row, size in enumerate(sizes):
            alone = model._run([take(batch, row) for batch in texts])
            for many, one in zip(together, alone, strict=True):
                torch.testing.assert_close(many[row, :size], one[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("place", PLACES)
def test_gradients_reach_everything(place: str) -> None:
    """But for what is added to all that a softmax compares, which it does not feel."""
    model = build_model(place).double()
    texts = [in_double(batch) for batch in texts_of([5, 7, 4, 6], [4, 2, 5, 3])]
    model.loss(texts, gold_of((0, 2), (4, 5), (1, 4), (5, 6), length=7)).backward()
    assert without_gradient(model) == {"start.bias", "end.bias", "to_itself.first.weight"}


def test_dropout_is_only_in_training() -> None:
    model, texts = build_model(dropout=0.5), texts_of([3, 5], [2, 4])
    assert not torch.equal(model._run(texts)[0], model._run(texts)[0])
    assert torch.equal(model.eval()._run(texts)[1], model._run(texts)[1])


def test_the_loss_counts_every_gold_answer_once() -> None:
    """The probability that the first token is one of the gold ones, times that of the last."""
    model, texts = build_model().eval(), texts_of([5, 3], [2, 4])
    starts, ends = torch.zeros(2, 2, 5, dtype=torch.bool)
    starts[0, [0, 2]] = ends[0, [1, 4]] = starts[1, 1] = ends[1, 2] = True
    with torch.no_grad():
        first, last = (log_probs.exp() for log_probs in model._run(texts))
        found = model.loss(texts, QaGold(starts, ends))
    both = (first[0, 0] + first[0, 2]) * (last[0, 1] + last[0, 4])
    torch.testing.assert_close(found, -(both.log() + (first[1, 1] * last[1, 2]).log()) / 2)


class Fixed(QaModel):
    """Gives what it is given."""

    scores: tuple[Tensor, Tensor]

    def _run(self, texts: Any) -> tuple[Tensor, Tensor]:
        return self.scores


@pytest.mark.parametrize("max_answer", [1, 2, 3, 8, 50])
def test_the_best_short_span(max_answer: int) -> None:
    """Against all spans of every paragraph, with scores that would often end before they begin."""
    sizes = [1, 2, 8, 5, 8, 7, 3]
    model = Fixed(QaSettings.model_validate({**TINY, "max_answer": max_answer}), build_inputs("none"))
    torch.manual_seed(max_answer)
    mask = random_batch(sizes).mask
    first, last = (3 * torch.randn(2, *mask.shape)).masked_fill(~mask, -torch.inf).log_softmax(2)
    model.scores = (first, last)
    expected = []
    for row, size in enumerate(sizes):
        spans = [(start, end) for start in range(size) for end in range(start + 1, min(size, start + max_answer) + 1)]
        expected.append(list(max(spans, key=lambda span: float(first[row, span[0]] + last[row, span[1] - 1]))))
    assert model.predict([], None) == expected  # type: ignore[arg-type]
    assert bool((first.argmax(1) > last.argmax(1)).any())


# --- Examples --------------------------------------------------------------------------------------------------------


def example(text: str, question: str, *answers: str) -> QaExample:
    paragraph = read_paragraph("here", "", text)
    gold = tuple(Answer(answer, text.index(answer)) for answer in answers)
    return QaExample("1", question, tuple(question.split()), paragraph, gold, tuple(map(paragraph.span_of, gold)))


def test_gold_begins_and_ends() -> None:
    one = example("Anna saw old Emil. He ran.", "who ?", "old Emil", "Emil", "Anna")
    assert one.spans == (TokenSpan(2, 4), TokenSpan(3, 4), TokenSpan(0, 1))
    gold = QA.collate([one], {}, [random_batch([8])])
    assert gold.starts.int().tolist() == [[1, 0, 1, 1, 0, 0, 0, 0]]
    assert gold.ends.int().tolist() == [[1, 0, 0, 1, 0, 0, 0, 0]]


def test_figures_take_the_best_answer() -> None:
    one = example("Anna saw old Emil. He ran.", "who ?", "Anna saw", "old Emil")
    assert QA.score([one, one], [[2, 4], [3, 4]]) == pytest.approx({"exact_match": 50, "f1": 100 * (1 + 2 / 3) / 2})


def test_what_a_person_and_a_program_read() -> None:
    texts = [TaskText.from_text("Anna saw old Emil. He ran."), TaskText.from_text("Who was seen?")]
    (one,) = QA.to_examples(texts)
    assert one.question_tokens == ("Who", "was", "seen", "?")
    record = QA.to_record(0, None, texts, [(one, ([2, 4], [(2, 4, 0.5), (0, 1, 0.25)]))], QaSettings())
    shown = record.to_dict()
    answers = shown.pop("answers")
    expected = {"index": 0, "question": "Who was seen?", "answer": "old Emil", "start": 9, "end": 17, "score": 0.5}
    assert shown == expected
    assert [(answer["text"], answer["start_char"], answer["score"]) for answer in answers] == [
        ("old Emil", 9, 0.5),
        ("Anna", 0, 0.25),
    ]


# --- Runs ------------------------------------------------------------------------------------------------------------


def item(generator: random.Random, number: int) -> dict[str, Any]:
    """`Today Anna left old Oslo .`: who left, and where from."""
    who, where = generator.choice(PEOPLE), generator.choice(["", "old "]) + generator.choice(TOWNS)
    words = " ".join(generator.sample(["today", "so", "then", "well"], generator.randint(0, 3)))
    text = f"{words} {who} left {where} at {generator.choice(['noon', 'dawn'])} .".strip()
    asked = {"who left ?": who, "where from ?": where}
    qas = [
        {"id": f"{number}-{k}", "question": question, "answers": [{"text": answer, "answer_start": text.index(answer)}]}
        for k, (question, answer) in enumerate(asked.items())
    ]
    return {"context": text, "qas": qas}


def write_squad(path: Path, number: int, seed: int) -> str:
    generator = random.Random(seed)
    paragraphs = [item(generator, k) for k in range(number)]
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}))
    return str(path)


def config(**changes: Any) -> TaskConfig:
    own = {"task": "qa", "num_epochs": 6, "batch_size": 12, "optimizer": {"learning_rate": 0.01}}
    return TaskConfig.model_validate(merge({**merge(BASE, own), "model": {**TINY, "hidden_dim": 10}}, changes))


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    sizes = {"train": 60, "dev": 12, "test": 24}
    named = {name: [write_squad(tmp_path / f"{name}.json", size, size)] for name, size in sizes.items()}
    return {**write_data(tmp_path), **named}


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_run_learns_to_answer(place: str, data: dict[str, Any], tmp_path: Path) -> None:
    result = train_task(QA, config(elmo={"place": place}), files(data, tmp_path / "run"))
    assert result["examples"] == {"train": 120, "dev": 24, "test": 48}
    assert result["test"]["f1"] > 85  # an answer to the other question is worth nothing
    assert result["test"]["f1"] >= result["test"]["exact_match"] > 75
    check_mixes(result, place)
    trained = load_task(tmp_path / "run/model")
    assert evaluate_task(trained, data["test"]) == result["test"]
    (record,) = trained.predict([("so Emil left Lima at noon .", "who left ?")])
    assert record.to_dict()["answer"] == "Emil"
