"""Training a task model from files to a result, on sentences that a tiny model learns in a moment."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from elmokit.errors import ConfigError, ElmokitWarning, FormatError, InputError
from elmokit.formats import load, save
from elmokit.formats.parts import fingerprint
from elmokit.model.engines.choose import resolve_precision
from elmokit.tasks import runner
from elmokit.tasks.ner.task import Ner
from elmokit.tasks.runner import evaluate_task, train_task
from elmokit.tasks.saved import load_task
from elmokit.training.loop import Loop
from elmokit.training.optim import Optimizer
from elmokit.training.run_folder import request_finish
from tests.conftest import build_tiny
from tests.precisions import rounding_precisions
from tests.tasks.conftest import files, settings, write_entities
from tests.tasks.killing import outcome


def train(data: dict[str, Any], output: Path, changes: dict[str, Any] | None = None, **extra: Any) -> dict[str, Any]:
    return train_task(Ner(), settings(**changes or {}), files(data, output, **extra))


def entries(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / "log.jsonl").read_text(encoding="utf-8").splitlines()]


@contextmanager
def no_training() -> Iterator[None]:
    def update(self: Optimizer, step: int, scale: float = 1.0) -> float:
        pytest.fail("the run trains")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Optimizer, "update", update)
        yield


# --- Learning --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("elmo", "places"),
    [
        ({"place": "none"}, []),
        ({"place": "input"}, ["input"]),
        ({"place": "both", "layer_norm": True}, ["input", "output"]),
        ({"place": "input", "tuned": True}, ["input"]),
    ],
)
def test_a_run_learns(elmo: dict[str, Any], places: list[str], data: dict[str, Any], tmp_path: Path) -> None:
    changes = {
        "elmo": elmo,
        "num_epochs": 14,
        "loop": {"patience": 4, "checkpoint_every": 50},
        "optimizer": {"learning_rate": 0.05},
    }
    result = train(data, tmp_path / "run", changes)
    assert result["dev"]["f1"] > 95
    assert result["test"]["f1"] > 85
    assert [mix["place"] for mix in result["mixes"]] == places
    assert all(sum(mix["layer_weights"]) == pytest.approx(1) and mix["gamma"] != 1 for mix in result["mixes"])
    assert (tmp_path / "run/model/bilm").is_dir() == elmo.get("tuned", False)
    assert (tmp_path / "layers").exists() == (elmo["place"] != "none" and not elmo.get("tuned"))
    figures = evaluate_task(load_task(tmp_path / "run/model"), data["test"])
    assert figures == result["test"]


def test_an_evaluation_tells_how_far_it_is(data: dict[str, Any], tmp_path: Path) -> None:
    train(data, tmp_path / "run", {"num_epochs": 1})
    embedded: list[tuple[int, int]] = []
    predicted: list[tuple[int, int]] = []
    evaluate_task(
        load_task(tmp_path / "run/model"),
        data["test"],
        layers_folder=tmp_path / "new",
        embedding=lambda *pair: embedded.append(pair),
        predicting=lambda *pair: predicted.append(pair),
    )
    assert embedded == [(number, 10) for number in range(1, 11)]
    assert predicted == [(8, 10), (10, 10)]


@pytest.mark.slow
def test_a_biLM_that_learns_along_changes_and_a_frozen_one_does_not(data: dict[str, Any], tmp_path: Path) -> None:
    before = load(data["bilm"])
    result = train(data, tmp_path / "tuned", {"num_epochs": 1, "elmo": {"tuned": True}})
    after = load(tmp_path / "tuned/model/bilm")
    assert result["bilm"] == {"name": data["bilm"], "fingerprint": fingerprint(before)}
    changed = {name for name, value in after.state_dict().items() if not torch.equal(value, before.state_dict()[name])}
    assert changed == set(before.state_dict())
    frozen = train(data, tmp_path / "frozen", {"num_epochs": 1})
    assert fingerprint(load(data["bilm"])) == fingerprint(before)
    assert result["num_parameters"] - frozen["num_parameters"] == before.num_parameters


@pytest.mark.slow
def test_a_biLM_learns_along_as_slowly_as_it_is_told(data: dict[str, Any], tmp_path: Path) -> None:
    before = load(data["bilm"]).state_dict()
    moved = []
    for tuned in (1.0, 0.01):
        train(data, tmp_path / str(tuned), {"num_epochs": 1, "elmo": {"tuned": tuned}})
        after = load(tmp_path / f"{tuned}/model/bilm").state_dict()
        moved.append(sum(float((after[name] - value).abs().sum()) for name, value in before.items()))
    assert 0 < moved[1] < moved[0] / 20


@pytest.mark.slow
def test_a_softmax_does_not_learn_along(data: dict[str, Any], tmp_path: Path) -> None:
    save(build_tiny("softmax"), tmp_path / "with")
    elmo = {"tuned": True}
    results = [
        train({**data, "bilm": name}, tmp_path / f"run{number}", {"num_epochs": 1, "elmo": elmo})
        for number, name in enumerate((data["bilm"], str(tmp_path / "with")))
    ]
    assert results[0]["num_parameters"] == results[1]["num_parameters"]


# --- The result ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_a_run_leaves(data: dict[str, Any], tmp_path: Path) -> None:
    heard: list[int] = []
    embedded: list[tuple[int, int]] = []
    config = settings(num_epochs=3, seed=5)
    result = train_task(
        Ner(),
        config,
        files(data, tmp_path / "deep/run"),
        report=lambda progress, figures: heard.append(progress.step),
        embedding=lambda done, total: embedded.append((done, total)),
    )
    output = tmp_path / "deep/run"
    assert json.loads((output / "result.json").read_text()) == result
    assert json.loads((output / "run.json").read_text()).items() <= result.items()
    assert sorted(path.name for path in output.iterdir()) == [
        "log.jsonl",
        "model",
        "predictions.jsonl",
        "result.json",
        "run.json",
    ]
    assert result["task"] == "ner"
    assert type(config).model_validate(result["config"]) == config
    assert result["seed"] == 5
    assert result["examples"] == {"train": 40, "dev": 12, "test": 10}
    assert (result["steps"], result["epochs"], result["reason"]) == (15, 3, "end of data")
    assert result["bilm"] == {"name": data["bilm"], "fingerprint": fingerprint(load(data["bilm"]))}
    for name in ("train", "dev", "test"):
        sha = hashlib.sha256(Path(data[name][0]).read_bytes()).hexdigest()
        assert result["data"][name] == [{"name": f"{name}.conll", "sha256": sha}]
    assert "vectors" not in result["data"]
    assert result["versions"]["torch"] == torch.__version__
    assert set(result["dev"]) == set(result["test"]) == {"f1", "precision", "recall"}
    best = max((entry["heldout_f1"], -entry["step"]) for entry in entries(output) if "heldout_f1" in entry)
    assert best == (result["dev"]["f1"], -result["best_step"])
    predictions = [json.loads(line) for line in (output / "predictions.jsonl").read_text().splitlines()]
    examples = list(Ner().read([Path(data["test"][0])], None, training=False))  # type: ignore[arg-type]
    assert len(predictions) == 10
    assert Ner().score(examples, predictions) == result["test"]
    assert heard[-1] == 15 and len(heard) == len(entries(output))
    assert embedded[-1][0] == embedded[-1][1] == len(embedded) > 40


def test_every_file_is_hashed_once(data: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def note(path: Path) -> str:
        hashed.append(path.name)
        return "sum"

    monkeypatch.setattr(runner, "file_sha256", note)
    result = train(data, tmp_path / "run", {"num_epochs": 1})
    assert hashed == ["train.conll", "dev.conll", "test.conll"]
    assert result["data"]["dev"] == [{"name": "dev.conll", "sha256": "sum"}]


def test_without_test_files_there_are_no_predictions(data: dict[str, Any], tmp_path: Path) -> None:
    result = train({**data, "test": ()}, tmp_path / "run", {"num_epochs": 1})
    assert "test" not in result and "test" not in result["data"]
    assert result["examples"]["test"] == 0
    assert not (tmp_path / "run/predictions.jsonl").exists()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_and_another_does_not(data: dict[str, Any], tmp_path: Path) -> None:
    changes = {"num_epochs": 2, "model": {"dropout": 0.3}, "elmo": {"dropout": 0.3}}
    for name, seed in (("one", 3), ("same", 3), ("other", 4)):
        train(data, tmp_path / name, {**changes, "seed": seed})
        torch.manual_seed(99)
    one, same, other = (outcome(tmp_path / name) for name in ("one", "same", "other"))
    assert one == same
    assert one["model/model.safetensors"] != other["model/model.safetensors"]
    assert [entry.get("loss") for entry in one["log.jsonl"]] != [entry.get("loss") for entry in other["log.jsonl"]]


@pytest.mark.slow
def test_word_vectors_are_taken_from_files(data: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.vec").write_text("2 3\nParis 1 2 3\nvisited 4 5 6\n")
    (tmp_path / "b.txt").write_text("Oslo 7 8\n")
    vectors = [str(tmp_path / name) for name in ("a.vec", "b.txt")]
    words = {"tuned": False, "min_count": 1000}
    result = train({**data, "vectors": vectors}, tmp_path / "run", {"num_epochs": 1, "words": words})
    assert [file["name"] for file in result["data"]["vectors"]] == ["a.vec", "b.txt"]
    trained = load_task(tmp_path / "run/model")
    assert trained.table.words == ("Paris", "visited", "Oslo")
    expected = [[1, 2, 3, 0, 0], [4, 5, 6, 0, 0], [0, 0, 0, 7, 8]]
    assert trained.model.inputs.word_table[1:].tolist() == expected
    one = train({**data, "vectors": vectors}, tmp_path / "few", {"num_epochs": 1, "words": {**words, "max_vectors": 1}})
    assert one["steps"] == 5
    assert load_task(tmp_path / "few/model").table.words == ("Paris", "Oslo")


# --- Stopping --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_patience_ends_a_run_at_its_best(data: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures, halvings = iter([10.0, 30.0, 20.0, 30.0, 25.0]), []
    original = Loop.measure

    def measure(self: Loop) -> None:
        own = self.evaluate
        self.evaluate = lambda: {"f1": next(figures)}
        original(self)
        self.evaluate = own
        halvings.append(self.optimizer.state_dict()["halvings"])

    monkeypatch.setattr(Loop, "measure", measure)
    result = train(data, tmp_path / "run", {"num_epochs": 9, "loop": {"patience": 2}, "optimizer": {"halve_after": 1}})
    assert (result["reason"], result["steps"], result["best_step"], result["epochs"]) == ("patience", 20, 10, 4)
    assert halvings == [0, 0, 1, 2]


@pytest.mark.slow
def test_the_best_model_is_kept_not_the_last(data: dict[str, Any], tmp_path: Path) -> None:
    worse = {"num_epochs": 8, "optimizer": {"learning_rate": 0.05}, "loop": {"evaluate_every": 3}}
    result = train(data, tmp_path / "run", worse)
    figures = {entry["step"]: entry["heldout_f1"] for entry in entries(tmp_path / "run") if "heldout_f1" in entry}
    assert result["dev"]["f1"] == max(figures.values()) == figures[result["best_step"]]
    again = train(data, tmp_path / "again", {**worse, "loop": {"evaluate_every": 3, "max_steps": result["best_step"]}})
    assert again["dev"] == result["dev"]
    one, other = (outcome(tmp_path / name)["model/model.safetensors"] for name in ("run", "again"))
    assert one == other


@pytest.mark.slow
def test_max_steps_and_accumulation(data: dict[str, Any], tmp_path: Path) -> None:
    result = train(data, tmp_path / "a", {"num_epochs": 4, "loop": {"accumulate": 3}})
    assert (result["steps"], result["reason"]) == (7, "end of data")
    result = train(data, tmp_path / "b", {"loop": {"max_steps": 2}})
    assert (result["steps"], result["reason"], result["epochs"]) == (2, "max_steps", 0)


# --- The average of weights ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_evaluation_and_the_kept_model_use_the_average(data: dict[str, Any], tmp_path: Path) -> None:
    """Training itself takes the same steps with and without."""
    changes = {"num_epochs": 3, "elmo": {"tuned": True}}
    for name, decay in (("plain", 0.0), ("average", 0.9)):
        train(data, tmp_path / name, {**changes, "average": decay})
    plain, average = (entries(tmp_path / name) for name in ("plain", "average"))
    assert [e["loss"] for e in plain if "loss" in e] == [e["loss"] for e in average if "loss" in e]
    assert [e["heldout_f1"] for e in plain if "heldout_f1" in e] != [
        e["heldout_f1"] for e in average if "heldout_f1" in e
    ]


@pytest.mark.slow
def test_the_better_of_the_weights_and_their_average_is_kept(data: dict[str, Any], tmp_path: Path) -> None:
    """The average of the loop, as pretraining has it; `average` always takes the average."""
    result = train(data, tmp_path / "run", {"num_epochs": 3, "optimizer": {"ema_decay": 0.9}})
    measured = [entry for entry in entries(tmp_path / "run") if "heldout_f1" in entry]
    best = max(max(entry["heldout_f1"], entry["heldout_ema_f1"]) for entry in measured)
    assert any(entry["heldout_f1"] != entry["heldout_ema_f1"] for entry in measured)
    assert result["dev"]["f1"] == pytest.approx(best)


def test_one_average_is_enough() -> None:
    with pytest.raises(ValueError, match=r"average and optimizer.ema_decay both average"):
        settings(average=0.9, optimizer={"ema_decay": 0.9})


@pytest.mark.slow
def test_a_task_finishes_on_request(data: dict[str, Any], tmp_path: Path) -> None:
    output = tmp_path / "run"
    optimizer = {"schedule": "wsd", "decay_steps": 3}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "_take_step", asking_at(4, output, Loop._take_step))
        result = train(data, output, {"num_epochs": 50, "optimizer": optimizer})
    assert (result["reason"], result["steps"]) == ("end of decay", 5 + 3)


def asking_at(step: int, output: Path, original: Any) -> Any:
    def take_step(self: Loop, batches: list[Any]) -> None:
        if self.progress.step == step:
            request_finish(output)
        original(self, batches)

    return take_step


# --- Going on --------------------------------------------------------------------------------------------------------


def test_a_finished_run_is_not_trained_again(data: dict[str, Any], tmp_path: Path) -> None:
    result = train(data, tmp_path / "run", {"num_epochs": 1})
    before = outcome(tmp_path / "run")
    (tmp_path / "run/checkpoints").mkdir()  # a kill may come just before they are removed
    (tmp_path / "run/checkpoints/step-000000005.pt").write_bytes(b"")
    with no_training():
        assert train(data, tmp_path / "run", {"num_epochs": 1}, resume=True) == result
    assert outcome(tmp_path / "run") == before
    with no_training():
        assert train(data, tmp_path / "run", {"num_epochs": 1, "loop": {"log_every": 1}}, resume=True) == result
    forget_new_settings(tmp_path / "run/result.json")
    with no_training():
        train(data, tmp_path / "run", {"num_epochs": 1}, resume=True)
        with pytest.raises(ConfigError, match="ema_decay"):
            train(data, tmp_path / "run", {"num_epochs": 1, "optimizer": {"ema_decay": 0.5}}, resume=True)


def forget_new_settings(path: Path) -> None:
    """Let a result be one of a version without some settings."""
    result = json.loads(path.read_text(encoding="utf-8"))
    for name in ("decay_steps", "ema_decay"):
        del result["config"]["optimizer"][name]
    path.write_text(json.dumps(result), encoding="utf-8")


def test_settings_that_are_new_and_not_used_are_no_part_of_a_checkpoint(data: dict[str, Any], tmp_path: Path) -> None:
    plain, averaged = (
        runner._identity(settings(optimizer=changes), files(data, tmp_path / "run"), None)["optimizer"]
        for changes in ({}, {"ema_decay": 0.5})
    )
    assert "decay_steps" not in plain and "ema_decay" not in plain
    assert '"ema_decay": 0.5' in averaged


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "seed = 0, but now seed = 1"),
        ({"optimizer": {"learning_rate": 0.5}}, r'optimizer = \{.*"learning_rate": 0.03.*optimizer = .*: 0.5'),
        ({"loop": {"patience": 3}}, r'loop = .*"patience": 0.*but now loop = .*"patience": 3'),
    ],
)
def test_a_finished_run_of_other_settings_is_not_taken_for_this_one(
    changes: dict[str, Any], message: str, data: dict[str, Any], tmp_path: Path
) -> None:
    train(data, tmp_path / "run", {"num_epochs": 1})
    with pytest.raises(ConfigError, match=rf"run holds a finished run with {message}.*: give its own settings, or"):
        train(data, tmp_path / "run", {"num_epochs": 1, **changes}, resume=True)


def interrupt(step: int, data: dict[str, Any], output: Path, changes: dict[str, Any]) -> None:
    """Leave a run that ended before a step."""
    original = Loop._take_step

    def take_step(self: Loop, batches: list[Any]) -> None:
        if self.progress.step + 1 == step:
            raise ZeroDivisionError
        original(self, batches)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(Loop, "_take_step", take_step)
        train(data, output, changes, resume=True)


@pytest.mark.slow
def test_a_run_cut_off_several_times_is_the_whole_one(data: dict[str, Any], tmp_path: Path) -> None:
    changes = {"num_epochs": 3, "average": 0.5, "model": {"dropout": 0.2}}
    for step in (2, 6, 15):
        interrupt(step, data, tmp_path / "cut", changes)
    train(data, tmp_path / "cut", changes, resume=True)
    train(data, tmp_path / "whole", changes)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_a_folder_that_holds_a_run_is_not_begun_anew(data: dict[str, Any], tmp_path: Path) -> None:
    train(data, tmp_path / "done", {"num_epochs": 1})
    interrupt(5, data, tmp_path / "cut", {"num_epochs": 1})
    for name in ("done", "cut"):
        files_before = {path: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()}
        with no_training(), pytest.raises(ConfigError, match=rf"{name} holds a run already: .*--resume .*--output\."):
            train(data, tmp_path / name, {"num_epochs": 1})
        assert {path: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()} == files_before


@pytest.mark.parametrize(
    ("changes", "renamed", "message"),
    [
        ({"seed": 1}, None, "seed = 0, but now seed = 1"),
        ({"batch_size": 4}, None, "batch_size = 8, but now batch_size = 4"),
        ({}, "train", r'train = \["train.conll"\], but now train = \["other.conll"\]'),
        ({}, "dev", r'dev = \["dev.conll"\], but now dev = \["other.conll"\]'),
    ],
)
def test_an_unfinished_run_of_other_settings_or_files_is_refused(
    changes: dict[str, Any], renamed: str | None, message: str, data: dict[str, Any], tmp_path: Path
) -> None:
    interrupt(5, data, tmp_path / "run", {"num_epochs": 1})
    if renamed:
        data[renamed] = [str(Path(data[renamed][0]).rename(tmp_path / "other.conll"))]
    with no_training(), pytest.raises(ConfigError, match=f"the run to resume was made with {message}"):
        train(data, tmp_path / "run", {"num_epochs": 1, **changes}, resume=True)


@pytest.mark.slow
def test_the_rhythm_of_a_run_may_change(data: dict[str, Any], tmp_path: Path) -> None:
    interrupt(5, data, tmp_path / "run", {"num_epochs": 2})
    changes = {"num_epochs": 2, "loop": {"log_every": 1, "checkpoint_every": 9}}
    assert train(data, tmp_path / "run", changes, resume=True)["steps"] == 10


def test_a_run_with_more_examples_is_refused(data: dict[str, Any], tmp_path: Path) -> None:
    interrupt(5, data, tmp_path / "run", {"num_epochs": 1})
    write_entities(Path(data["train"][0]), 41, 0)
    with pytest.raises(InputError, match="there are 41 training examples, but 40 in the run to resume"):
        train(data, tmp_path / "run", {"num_epochs": 1, "words": {"min_count": 1}}, resume=True)


# --- Files and settings ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_type_of_entity_that_only_dev_has(data: dict[str, Any], tmp_path: Path) -> None:
    path = Path(data["dev"][0])
    path.write_text(path.read_text(encoding="utf-8").replace("B-LOC", "B-CITY"), encoding="utf-8")
    with pytest.warns(ElmokitWarning, match=r"dev\.conll: training never saw the labels CITY \(12\)"):
        result = train(data, tmp_path / "run", {"num_epochs": 14, "elmo": {"place": "none"}})
    assert 30 < result["dev"]["recall"] < 70  # people are found, cities cannot be
    tags = json.loads((tmp_path / "run/model/task.json").read_text())["labels"]["tags"]
    assert tags == ["O", "B-LOC", "I-LOC", "L-LOC", "U-LOC", "B-PER", "I-PER", "L-PER", "U-PER"]


def test_training_sentences_without_entities(data: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "none.conll").write_text("a X X O\nb X X O\n\nc X X O\n")
    with pytest.raises(InputError, match=r"there is no entity of ner in .*none\.conll: give files of this task\."):
        train({**data, "train": [str(tmp_path / "none.conll")]}, tmp_path / "run", {"num_epochs": 1})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["train", "dev", "test"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Paris X Y B-LOC\nOslo B-LOC\n", r"bad\.txt line 2 has 2 columns, expected 4 \(word, POS, chunk, NER tag\)"),
        ("\nParis\tB-LOC\nOslo\tX\n", r"bad\.txt line 3 has the tag 'X', expected O, B-TYPE or I-TYPE"),
        ("\n\n", r"there is no example of ner in .*bad\.txt: give files of this task\.$"),
    ],
)
def test_files_of_another_format(text: str, message: str, name: str, data: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text(text)
    with pytest.raises(InputError, match=message) as raised:
        train({**data, name: [str(tmp_path / "bad.txt")]}, tmp_path / "run")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("name", "called"), [("train", "training"), ("dev", "dev")])
def test_training_and_dev_files_are_needed(name: str, called: str, data: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^there are no {called} files for ner: name at least one"):
        train({**data, name: []}, tmp_path / "run")


def test_settings_that_the_task_does_not_know(data: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^\[model\] has no valid settings for ner: .*hiden_dim"):
        train(data, tmp_path / "run", {"model": {"hiden_dim": 3}})


@pytest.mark.slow
def test_adadelta_and_word_vectors_that_learn(data: dict[str, Any], tmp_path: Path) -> None:
    adadelta = {"optimizer": {"kind": "adadelta", "learning_rate": 1.0, "eps": 1e-6}, "num_epochs": 1}
    tables = {}
    for tuned in (True, False):
        result = train(data, tmp_path / f"{tuned}", {**adadelta, "words": {"tuned": tuned}})
        assert result["steps"] == 5
        tables[tuned] = load_task(tmp_path / f"{tuned}/model", bilm=data["bilm"]).model.inputs.word_table
    assert tables[True].shape == tables[False].shape and not torch.equal(tables[True], tables[False])


def test_a_bilm_that_is_not_there(data: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises((FormatError, InputError), match=re.escape(str(tmp_path / "nothing"))):
        train({**data, "bilm": str(tmp_path / "nothing")}, tmp_path / "run")


def test_no_bilm_is_a_model_without_elmo(data: dict[str, Any], tmp_path: Path) -> None:
    result = train({**data, "bilm": None}, tmp_path / "run", {"num_epochs": 1, "elmo": {"place": "both"}})
    assert result["bilm"] is None and result["mixes"] == []


@pytest.mark.slow
def test_the_result_of_a_finished_run_is_not_that_of_other_data(data: dict[str, Any], tmp_path: Path) -> None:
    output, few = tmp_path / "run", {"num_epochs": 1}
    result = train(data, output, few)
    assert train(data, output, few, resume=True) == result
    other = {**data, "train": [str(write_entities(tmp_path / "other.conll", 5, seed=9))]}
    with pytest.raises(ConfigError, match="a finished run with other train files than now"):
        train(other, output, few, resume=True)
    with pytest.raises(ConfigError, match="a finished run with other test files than now"):
        train({**data, "test": []}, output, few, resume=True)
    save(build_tiny("one-layer"), tmp_path / "another")
    with pytest.raises(ConfigError, match="a finished run on another biLM"):
        train({**data, "bilm": str(tmp_path / "another")}, output, few, resume=True)


@pytest.mark.slow
def test_pipes_are_refused_before_they_hang(data: dict[str, Any], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    pipe = [str(tmp_path / "pipe")]
    for name in ("train", "dev", "test"):
        with pytest.raises(InputError, match="pipe is a pipe or a device"):
            train({**data, name: pipe}, tmp_path / "run")
    train(data, tmp_path / "run", {"num_epochs": 1})
    with pytest.raises(InputError, match="pipe is a pipe or a device"):
        evaluate_task(load_task(tmp_path / "run/model"), pipe)


# --- Precision -------------------------------------------------------------------------------------------------------


def test_auto_is_resolved_once_and_kept(data: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fastest = resolve_precision("auto", torch.empty(0))
    auto = {"num_epochs": 1, "elmo": {"precision": "auto"}}
    result = train(data, tmp_path / "auto", auto)
    assert result["config"]["elmo"]["precision"] == fastest
    assert load_task(tmp_path / "auto/model").config.elmo.precision == fastest
    train(data, tmp_path / "int8", {"num_epochs": 1, "elmo": {"precision": "int8"}})
    with no_training():
        assert train(data, tmp_path / "int8", auto, resume=True)["config"]["elmo"]["precision"] == "int8"
        with pytest.raises(ConfigError, match="holds a finished run with elmo = "):
            train(data, tmp_path / "int8", {"num_epochs": 1}, resume=True)
    monkeypatch.setattr(runner, "with_precision", lambda config, name: pytest.fail("it was float32 already"))
    train(data, tmp_path / "exact", {"num_epochs": 1})


def test_a_trained_model_can_run_in_another_precision(data: dict[str, Any], tmp_path: Path) -> None:
    train(data, tmp_path / "run", {"num_epochs": 1})
    for name in ("float32", *rounding_precisions()):
        loaded = load_task(tmp_path / "run/model", precision=name)
        assert loaded.embedder is not None and loaded.embedder.precision == name
        assert loaded.config.elmo.precision == name
        shared = load_task(tmp_path / "run/model", bilm=loaded.embedder)
        assert shared.embedder is loaded.embedder and shared.config.elmo.precision == name
        with pytest.raises(ConfigError, match=f"precision is auto, but the embedder has {name}: leave it out"):
            load_task(tmp_path / "run/model", bilm=loaded.embedder, precision="auto")
    with pytest.raises(ConfigError, match="'half' is unknown: choose float32, bfloat16, int8 or auto"):
        load_task(tmp_path / "run/model", precision="half")


def test_a_tuned_biLM_is_not_rounded(data: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"precision is for the layers of a frozen biLM: set elmo\.tuned to 0"):
        settings(elmo={"tuned": 1.0, "precision": "int8"})
    train(data, tmp_path / "run", {"num_epochs": 1, "elmo": {"tuned": 1.0}})
    with pytest.raises(ConfigError, match="precision int8 is for a frozen biLM"):
        load_task(tmp_path / "run/model", precision="int8")
