"""ESIM: its parts the long way, what padding may change, and runs that learn a rule."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from elmokit.tasks.batches import TokenBatch
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.nli.model import NliModel, NliSettings
from elmokit.tasks.nli.reader import LABELS, NliExample
from elmokit.tasks.nli.task import Nli
from elmokit.tasks.records import TaskText
from elmokit.tasks.runner import evaluate_task, train_task
from elmokit.tasks.saved import load_task
from tests.tasks.conftest import BASE, files, merge, write_data
from tests.tasks.sentiment.test_model import build_inputs, check_mixes, in_double, random_batch, take, without_gradient

NLI = Nli()
PLACES = ("none", "input", "output", "both")
NOUNS = ("dogs", "boys", "girls")


# --- The model -------------------------------------------------------------------------------------------------------


def build_model(place: str = "both", dropout: float = 0.0) -> NliModel:
    torch.manual_seed(1)
    return NliModel(NliSettings(hidden_dim=5, dropout=dropout), build_inputs(place))


def pairs(first: list[int], second: list[int]) -> list[TokenBatch]:
    return [random_batch(first, 1), random_batch(second, 2)]


@pytest.mark.parametrize(("place", "in_dim", "extra"), [("none", 6, 0), ("input", 10, 0), ("output", 6, 4)])
def test_widths(place: str, in_dim: int, extra: int) -> None:
    model = build_model(place)
    assert model.encoder.layers[0].ahead.input_size == in_dim
    assert model.compare.in_features == 4 * (10 + extra)
    texts = pairs([3, 5, 1], [2, 1, 4])
    assert model._run(texts).shape == (3, 3)
    assert model.loss(texts, torch.tensor([0, 1, 2])).isfinite()
    assert set(model.predict(texts, None)) <= set(LABELS)


def encode(model: NliModel, batch: TokenBatch) -> Tensor:
    """(T, 2H + D) of one text."""
    tokens, extra, mask = model.inputs(batch)
    return torch.cat([model.encoder(tokens, mask)[0], extra[0]], 1)


def compose(model: NliModel, a: Tensor, b: Tensor) -> Tensor:
    """Pools (4H,) of what a says of b, token by token."""
    rows = []
    for token in a:
        shares = torch.stack([token @ other for other in b]).softmax(0)
        aligned = sum(share * other for share, other in zip(shares, b, strict=True))
        enhanced = torch.cat([token, aligned, token - aligned, token * aligned])
        rows.append(torch.relu(model.compare.weight @ enhanced + model.compare.bias))
    v = model.compose(torch.stack(rows)[None], torch.ones(1, len(rows), dtype=torch.bool))[0]  # (T, 2H)
    return torch.cat([v.mean(0), v.max(0).values])


def test_scores_are_what_the_equations_give() -> None:
    model = build_model().eval()
    texts = pairs([4, 6, 1], [3, 2, 5])
    with torch.no_grad():
        found = model._run(texts)
        for row in range(3):
            a, b = (encode(model, take(batch, row)) for batch in texts)
            pooled = torch.cat([compose(model, a, b), compose(model, b, a)])  # (8H,)
            first, second = model.classify[1], model.classify[4]
            hidden = torch.tanh(first.weight @ pooled + first.bias)
            torch.testing.assert_close(found[row], second.weight @ hidden + second.bias, atol=1e-5, rtol=1e-4)


def test_premise_and_hypothesis_share_their_weights_but_not_their_part() -> None:
    model = build_model().eval()
    first, second = pairs([4], [4])
    with torch.no_grad():
        forth, back = model._run([first, second]), model._run([second, first])
        model.classify[1].weight.copy_(model.classify[1].weight.roll(20, 1))  # the halves change places
        torch.testing.assert_close(model._run([second, first]), forth)
    assert not torch.allclose(forth, back)


@pytest.mark.parametrize("place", PLACES)
def test_neighbors_change_no_score(place: str) -> None:
    model = build_model(place).eval()
    texts = pairs([3, 9, 1, 4], [7, 1, 2, 8])
    with torch.no_grad():
        together = model._run(texts)
        alone = torch.cat([model._run([take(batch, row) for batch in texts]) for row in range(4)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)
    assert together.std(0).max() > 1e-3


@pytest.mark.parametrize("place", PLACES)
def test_gradients_reach_everything(place: str) -> None:
    model = build_model(place).double()
    texts = [in_double(batch) for batch in pairs([3, 5, 2, 6], [4, 2, 5, 3])]
    model.loss(texts, torch.tensor([0, 2, 1, 1])).backward()
    assert without_gradient(model) == set()


def test_dropout_is_only_in_training() -> None:
    model, texts = build_model(dropout=0.5), pairs([3, 5], [2, 4])
    assert not torch.equal(model._run(texts), model._run(texts))
    assert torch.equal(model.eval()._run(texts), model._run(texts))


# --- Examples --------------------------------------------------------------------------------------------------------


def test_what_a_person_and_a_program_read() -> None:
    texts = [TaskText.from_text("A dog runs. It barks."), TaskText.from_text("A dog sleeps.")]
    (example,) = NLI.to_examples(texts)
    assert NLI.texts(example) == ((("A", "dog", "runs", ".", "It", "barks", "."),), (("A", "dog", "sleeps", "."),))
    shown = NLI.to_record(2, 7, texts, [(example, ("contradiction", [0.25, 0.25, 0.5]))], NliSettings()).to_dict()
    offsets = [shown.pop(f"{name}_offsets") for name in ("premise", "hypothesis")]
    assert [len(one) for one in offsets] == [7, 4]
    assert shown == {
        "index": 2,
        "id": 7,
        "premise": list(example.premise),
        "hypothesis": list(example.hypothesis),
        "label": "contradiction",
        "score": 0.5,
        "scores": {"entailment": 0.25, "neutral": 0.25, "contradiction": 0.5},
    }


def test_gold_and_accuracy() -> None:
    examples = [NliExample(("a",), ("b",), label) for label in reversed(LABELS)]
    assert NLI.collate(examples, {}, pairs([1] * 3, [1] * 3)).tolist() == [2, 1, 0]
    assert NLI.score(examples, ["contradiction", "neutral", "neutral"]) == pytest.approx({"accuracy": 200 / 3})


# --- Runs ------------------------------------------------------------------------------------------------------------


def pair(generator: random.Random) -> dict[str, str]:
    """`not` in a hypothesis contradicts; otherwise nothing is known of what only `perhaps` is so in the premise."""
    noun, label = generator.choice(NOUNS), generator.choice(LABELS)
    perhaps = label == "neutral" or (label == "contradiction" and generator.random() < 0.5)
    first = f"{'perhaps' if perhaps else 'surely'} {noun} run{generator.choice(['', ' here', ' in town'])}"
    second = f"{noun} {'not' if label == 'contradiction' else 'do'} run"
    return {"gold_label": label, "sentence1": first, "sentence2": second}


def write_pairs(path: Path, number: int, seed: int) -> str:
    generator = random.Random(seed)
    path.write_text("".join(f"{json.dumps(pair(generator))}\n" for _ in range(number)), encoding="utf-8")
    return str(path)


def config(**changes: Any) -> TaskConfig:
    own = {"task": "nli", "num_epochs": 11, "batch_size": 16, "optimizer": {"learning_rate": 0.01}}
    values = {**merge(BASE, own), "model": {"hidden_dim": 12, "dropout": 0.0}}
    return TaskConfig.model_validate(merge(values, changes))


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    sizes = {"train": 160, "dev": 30, "test": 60}
    named = {name: [write_pairs(tmp_path / f"{name}.jsonl", size, size)] for name, size in sizes.items()}
    return {**write_data(tmp_path), **named}


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_run_learns_a_rule(place: str, data: dict[str, Any], tmp_path: Path) -> None:
    result = train_task(NLI, config(elmo={"place": place}), files(data, tmp_path / "run"))
    assert result["test"]["accuracy"] > 85  # chance is 33, and 67 for one who sees either text alone
    check_mixes(result, place)
    trained = load_task(tmp_path / "run/model")
    assert evaluate_task(trained, data["test"]) == result["test"]
    lines = (tmp_path / "run/predictions.jsonl").read_text().splitlines()
    assert {json.loads(line) for line in lines} == set(LABELS)
    (record,) = trained.predict([("surely dogs run", "dogs not run")])
    assert record.to_dict()["label"] == LABELS[2]
