"""The biattentive network: its parts the long way, what padding may change, and runs that learn a rule."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from elmokit.cli.task_output import to_text, write_record
from elmokit.errors import ConfigError, ElmokitWarning, InputError
from elmokit.tasks.batches import TokenBatch, TokenTypes
from elmokit.tasks.config import ElmoSettings, TaskConfig
from elmokit.tasks.inputs import CharCnn, ElmoInputs, TokenInputs
from elmokit.tasks.records import TaskText
from elmokit.tasks.runner import evaluate_task, train_task
from elmokit.tasks.saved import load_task
from elmokit.tasks.sentiment.model import SentimentModel, SentimentSettings
from elmokit.tasks.sentiment.reader import SentimentExample
from elmokit.tasks.sentiment.record import SentimentRecord
from elmokit.tasks.sentiment.task import Sentiment
from tests.tasks.conftest import BASE, files, merge, write_data

SENTIMENT = Sentiment()
PLACES = ("none", "input", "output", "both")
MODEL = {"hidden_dim": 6, "maxout_dims": [8, 5], "input_dropout": 0.0, "dropout": 0.0}
ADJECTIVES = ("awful", "bad", "plain", "good", "great")
FILLERS = ("the", "film", "that", "we", "saw", "here", "today")


# --- Batches, which the tests of other tasks use too -----------------------------------------------------------------


def build_inputs(place: str, *, num_filters: int = 0) -> TokenInputs:
    """Over 7 words of width 6 and three layers of ELMo of width 4."""
    elmo = ElmoInputs(ElmoSettings.model_validate({"place": place, "dropout": 0.0}), num_layers=3, width=4)
    cnn = CharCnn(char_dim=2, num_filters=num_filters, width=3) if num_filters else None
    return TokenInputs(torch.randn(7, 6), tune_words=True, char_cnn=cnn, elmo=None if place == "none" else elmo)


def random_batch(lengths: list[int], seed: int = 0) -> TokenBatch:
    """Texts of these lengths; the values at padding are as random as the rest."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths))
    places = torch.arange(shape[0] * shape[1]).view(shape)  # all tokens are different
    return TokenBatch(
        torch.arange(shape[1]) < torch.tensor(lengths)[:, None],
        torch.randint(7, shape, generator=generator),
        TokenTypes(torch.randint(1, 250, (places.numel(), 4), generator=generator), places),
        2 * torch.randn(3, *shape, 4, generator=generator),
        None,
    )


def take(batch: TokenBatch, row: int) -> TokenBatch:
    """One text without its padding."""
    size, own = int(batch.mask[row].sum()), slice(row, row + 1)
    assert batch.layers is not None
    types = TokenTypes(batch.types.char_ids, batch.types.rows[own, :size])
    return TokenBatch(batch.mask[own, :size], batch.word_rows[own, :size], types, batch.layers[:, own, :size], None)


def in_double(batch: TokenBatch) -> TokenBatch:
    assert batch.layers is not None
    return replace(batch, layers=batch.layers.double())


def without_gradient(model: torch.nn.Module) -> set[str]:
    """Parameters that should learn and have no gradient, or one of nothing but the noise of double numbers."""
    return {
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and (parameter.grad is None or not parameter.grad.to_dense().abs().max() > 1e-12)
    }


def check_mixes(result: dict[str, Any], place: str) -> None:
    places = {"none": [], "both": ["input", "output"]}.get(place, [place])
    assert [mix["place"] for mix in result["mixes"]] == places


# --- The model -------------------------------------------------------------------------------------------------------


def build_model(place: str = "both", **changes: Any) -> SentimentModel:
    torch.manual_seed(0)
    return SentimentModel(SentimentSettings.model_validate({**MODEL, **changes}), build_inputs(place))


@pytest.mark.parametrize(("place", "in_dim", "extra"), [("none", 6, 0), ("input", 10, 0), ("output", 6, 4)])
@pytest.mark.parametrize("num_classes", [2, 5])
def test_widths(place: str, in_dim: int, extra: int, num_classes: int) -> None:
    model = build_model(place, num_classes=num_classes)
    assert model.forward_layer[0].in_features == in_dim
    assert model.integrator.layers[0].ahead.input_size == 3 * (12 + extra)
    batch = random_batch([3, 5, 1])
    assert model._run(batch).shape == (3, num_classes)
    assert model.loss([batch], torch.tensor([0, 1, 1])).isfinite()
    assert all(0 <= found < num_classes for found in model.eval().predict([batch], None))


def by_hand(model: SentimentModel, batch: TokenBatch) -> Tensor:
    """Scores (Y,) of one sentence in evaluation, token by token."""
    tokens, extra, mask = model.inputs(batch)
    x = model.encoder(torch.relu(tokens @ model.forward_layer[0].weight.T + model.forward_layer[0].bias), mask)[0]
    x = torch.cat([x, extra[0]], 1)  # (T, 2H + D)
    rows = []
    for token in x:
        shares = torch.stack([token @ other for other in x]).softmax(0)
        around = sum(share * other for share, other in zip(shares, x, strict=True))
        rows.append(torch.cat([token, token - around, token * around]))
    y = model.integrator(torch.stack(rows)[None], mask)[0]  # (T, 2H)
    shares = torch.stack([token @ model.gate.weight[0] + model.gate.bias[0] for token in y]).softmax(0)
    weighted = sum(share * token for share, token in zip(shares, y, strict=True))
    z = torch.cat([y.mean(0), y.max(0).values, y.min(0).values, weighted])  # (8H,)
    blocks: Any = model.maxouts
    for norm, _, maxout in blocks:
        z = (z - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias
        pieces = z @ maxout.linear.weight.T + maxout.linear.bias
        z = torch.stack([pieces[4 * k : 4 * k + 4].max() for k in range(len(pieces) // 4)])
    return z @ model.classes.weight.T + model.classes.bias


def test_scores_are_what_the_equations_give() -> None:
    model = build_model().eval()
    with torch.no_grad():
        blocks: Any = model.maxouts
        for norm, *_ in blocks:
            norm.running_mean.uniform_(-1, 1)
            norm.running_var.uniform_(0.5, 2)
        batch = random_batch([4, 6, 1])
        found = model._run(batch)
        expected = torch.stack([by_hand(model, take(batch, row)) for row in range(3)])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("place", PLACES)
def test_neighbors_change_no_score(place: str) -> None:
    model = build_model(place).eval()
    batch = random_batch([3, 9, 1, 4])
    with torch.no_grad():
        together = model._run(batch)
        alone = torch.cat([model._run(take(batch, row)) for row in range(4)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)
    assert together.std(0).max() > 1e-3


@pytest.mark.parametrize("place", PLACES)
def test_gradients_reach_everything(place: str) -> None:
    model = build_model(place).double()
    model.loss([in_double(random_batch([3, 5, 2, 6]))], torch.tensor([0, 4, 2, 1])).backward()
    assert without_gradient(model) == {"gate.bias"}  # added to all that a softmax compares, which does not feel it


@pytest.mark.parametrize("rates", [{"input_dropout": 0.5}, {"dropout": 0.5}])
def test_dropout_is_only_in_training(rates: dict[str, Any]) -> None:
    model, batch = build_model(**rates), random_batch([3, 5, 2])
    assert not torch.equal(model._run(batch), model._run(batch))
    assert torch.equal(model.eval()._run(batch), model._run(batch))


def test_one_example_is_no_batch_to_normalise() -> None:
    model, batch = build_model(), random_batch([3])
    with pytest.raises(
        InputError, match=r"^a training batch of sentiment has one example, .* two or more: set batch_s"
    ):
        model.loss([batch], torch.tensor([0]))
    assert model.eval().loss([batch], torch.tensor([0])).isfinite()
    assert build_model(maxout_dims=[]).loss([batch], torch.tensor([0])).isfinite()  # nothing is normalized
    assert build_model(norm="layer").loss([batch], torch.tensor([0])).isfinite()


def test_a_layer_norm_looks_at_each_example_alone() -> None:
    """In training too, other than a batch norm."""
    model, batch, labels = build_model(norm="layer"), random_batch([4, 6, 1]), torch.tensor([0, 1, 2])
    alone = [model.loss([take(batch, row)], labels[row : row + 1]) for row in range(3)]
    torch.testing.assert_close(model.loss([batch], labels), torch.stack(alone).mean())
    assert all(isinstance(part[0], torch.nn.LayerNorm) for part in model.maxouts) and len(model.maxouts)


# --- Examples --------------------------------------------------------------------------------------------------------


def test_what_a_person_and_a_program_read() -> None:
    text = TaskText.from_text("Not bad. Not good.", split_sentences=False)
    (example,) = SENTIMENT.to_examples([text])
    assert example.tokens == ("Not", "bad", ".", "Not", "good", ".")
    found = [(example, (1, {"negative": 0.25, "positive": 0.75}))]
    shown = SENTIMENT.to_record(0, None, [text], found, SentimentSettings(num_classes=2)).to_dict()
    assert (shown["class"], shown["sentiment"], shown["label"], shown["score"]) == (1, "positive", "positive", 0.75)
    assert shown["scores"] == {"negative": 0.25, "positive": 0.75}


@pytest.mark.parametrize("text", ["", " ", "\n\n"])
def test_raw_text_without_tokens_is_no_example(text: str) -> None:
    assert SENTIMENT.to_examples([TaskText.from_text(text)]) == []


@pytest.mark.parametrize("text", ["It was good.\nIt was bad.", "One.\n\nTwo."])
def test_raw_text_of_several_lines_is_one_example(text: str) -> None:
    (example,) = SENTIMENT.to_examples([TaskText.from_text(text, split_sentences=False)])
    assert " ".join(example.tokens).replace(" .", ".") == " ".join(text.split())


def test_accuracy() -> None:
    examples = [SentimentExample(("a",), label) for label in (0, 1, 2, 2)]
    assert SENTIMENT.score(examples, [0, 1, 2, 4]) == {"accuracy": 75.0}


# --- Runs ------------------------------------------------------------------------------------------------------------


def tree(generator: random.Random) -> str:
    """`that film good here`: the adjective's label is that of all phrases around it, and other words are neutral."""
    label = generator.randrange(5)
    node = f"({label} {ADJECTIVES[label]})"
    for word in generator.choices(FILLERS, k=generator.randint(1, 4)):
        node = f"({label} (2 {word}) {node})" if generator.random() < 0.7 else f"({label} {node} (2 {word}))"
    return node


def write_trees(path: Path, number: int, seed: int) -> str:
    generator = random.Random(seed)
    path.write_text("".join(f"{tree(generator)}\n" for _ in range(number)), encoding="utf-8")
    return str(path)


def config(**changes: Any) -> TaskConfig:
    own = {"task": "sentiment", "num_epochs": 7, "batch_size": 16, "optimizer": {"learning_rate": 0.01}}
    return TaskConfig.model_validate(
        merge({**merge(BASE, own), "model": {**MODEL, "hidden_dim": 12, "maxout_dims": [16]}}, changes)
    )


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    sizes = {"train": 80, "dev": 30, "test": 60}
    named = {name: [write_trees(tmp_path / f"{name}.txt", size, size)] for name, size in sizes.items()}
    return {**write_data(tmp_path), **named}


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_run_learns_a_rule(place: str, data: dict[str, Any], tmp_path: Path) -> None:
    result = train_task(SENTIMENT, config(elmo={"place": place}), files(data, tmp_path / "run"))
    assert result["examples"]["train"] > 150  # every phrase
    assert result["examples"]["test"] == 60
    assert result["test"]["accuracy"] >= 75  # chance is 20; some processors stop just there
    check_mixes(result, place)
    trained = load_task(tmp_path / "run/model")
    assert evaluate_task(trained, data["test"]) == result["test"]
    lines = (tmp_path / "run/predictions.jsonl").read_text().splitlines()
    assert {json.loads(line) for line in lines} == set(range(5))


@pytest.mark.slow
def test_two_classes_from_lines(data: dict[str, Any], tmp_path: Path) -> None:
    for name in ("train", "dev"):
        path = tmp_path / f"{name}.tsv"
        path.write_text(
            "".join(f"{k % 2}\tit was {'good' if k % 2 else 'bad'} {'so ' * (k % 3)}.\n" for k in range(24))
        )
        data[name] = [str(path)]
    own = config(model={"num_classes": 2}, num_epochs=10, batch_size=4)
    result = train_task(SENTIMENT, own, files({**data, "test": []}, tmp_path / "run"))
    assert result["dev"]["accuracy"] > 90


@pytest.mark.slow
def test_any_labels(data: dict[str, Any], tmp_path: Path) -> None:
    """Spam or not, from raw text; evaluation names a label that training never saw, and reads numbers as words."""
    texts = [("win $ 100 now", "spam"), ("see you at 5", "ham"), ("win a car", "spam"), ("lunch at 7", "ham")]
    for name in ("train", "dev"):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in 6 * texts))
        data[name] = [str(path)]
    result = train_task(SENTIMENT, config(num_epochs=8, batch_size=4), files({**data, "test": []}, tmp_path / "run"))
    assert result["dev"]["accuracy"] > 90
    trained = load_task(tmp_path / "run")
    found, blank = trained.predict(["win a car now", ""])
    assert isinstance(found, SentimentRecord) and found.label == found.name == "spam"
    shown = found.to_dict()
    assert shown["label"] == "spam" and list(shown["scores"]) == ["ham", "spam"] and "class" not in shown
    assert shown["score"] == shown["scores"]["spam"] > 0.5 and blank.to_dict()["label"] is None
    assert to_text(found).plain.split() == ["spam", "win", "a", "car", "now"]
    assert write_record(found, "csv").startswith("0,,spam,")
    path.write_text('{"text": "win a car", "label": "spam"}\n{"text": "win a car", "label": 1}\n')
    with pytest.warns(ElmokitWarning, match=r"training never saw the labels 1 \(1\)"):
        assert evaluate_task(trained, [str(path)]) == {"accuracy": 50.0}


def test_one_label_is_nothing_to_learn() -> None:
    with pytest.raises(InputError, match="the training files have one label, 'spam': give texts of two labels"):
        SENTIMENT.find_labels([SentimentExample(("a",), "spam")] * 2)


@pytest.mark.parametrize(("batch_size", "number"), [(1, 3), (8, 1)])
def test_a_run_of_single_examples_is_refused(
    batch_size: int, number: int, data: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "few.txt"
    path.write_text("(3 good)\n" * number)
    own = config(batch_size=batch_size, model={"phrases": False})
    with pytest.raises((ConfigError, InputError), match="set batch_size to at least 2 and give at least two training"):
        train_task(SENTIMENT, own, files({**data, "train": [str(path)]}, tmp_path / "run"))


@pytest.mark.slow
def test_a_last_batch_of_one_joins_the_one_before(data: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "few.txt"
    path.write_text("(3 good)\n(1 bad)\n(2 so)\n")
    own = config(batch_size=2, num_epochs=1, model={"phrases": False})
    result = train_task(SENTIMENT, own, files({**data, "train": [str(path)]}, tmp_path / "run"))
    assert (result["examples"]["train"], result["steps"]) == (3, 1)


def test_gold_classes() -> None:
    examples = [SentimentExample(("a",), 3), SentimentExample(("b", "c"), 0)]
    batch = replace(random_batch([1, 2]), layers=None)
    assert SENTIMENT.collate(examples, {}, [batch]).tolist() == [3, 0]


def test_json_lines_are_raw_text_and_columns_are_tokens(tmp_path: Path) -> None:
    lines, table = tmp_path / "a.jsonl", tmp_path / "a.tsv"
    lines.write_text('{"text": "It works.", "label": 1}\n')
    table.write_text("1\tIt works.\n")
    for setting, expected in [("auto", (3, 2)), ("text", (3, 3)), ("tokens", (2, 2))]:
        read = SENTIMENT.read([lines, table], SENTIMENT.read_settings({"input": setting}), training=True)
        assert tuple(len(example.tokens) for example in read) == expected
