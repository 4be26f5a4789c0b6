"""A task model is the same when it is saved and loaded, and is never used with the wrong biLM."""

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from elmokit.errors import ConfigError, ElmokitWarning, FormatError
from elmokit.formats import save
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from elmokit.tasks.ner.example import NerExample
from elmokit.tasks.ner.reader import read_entities
from elmokit.tasks.ner.task import Ner
from elmokit.tasks.pipeline import BilmUse, TaskPipeline
from elmokit.tasks.saved import load_task
from elmokit.tasks.sets import warn_of_other_tokens
from elmokit.tasks.words import WordTable
from elmokit.text.files import open_text
from tests.conftest import build_tiny
from tests.data import DATA, needs_data
from tests.tasks.conftest import settings

WORDS = ("so", "Anna", "a\u2028b", "c\x85", "d\re", "\ud800", " ")
SENTENCES = (("so", "Anna", "left"), ("a\u2028b",), ("d\re", "c\x85", "\ud800", "so", "x" * 40))
EXAMPLES = [NerExample(tokens, ("O",) * len(tokens)) for tokens in SENTENCES]
Build = Callable[..., TaskPipeline]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    save(build_tiny("characters"), tmp_path / "bilm")

    def make(**elmo: Any) -> TaskPipeline:
        bilm = None if elmo.get("place") == "none" else build_tiny("characters")
        torch.manual_seed(4)
        return TaskPipeline(
            Ner(),
            settings(elmo=elmo, model={"dropout": 0.5}),
            {"tags": ["O", "B-PER", "I-PER", "L-PER", "U-PER"]},
            WordTable(WORDS),
            torch.randn(len(WORDS) + 1, 8),
            bilm=bilm,
            use=None if bilm is None else BilmUse(str(tmp_path / "bilm"), fingerprint(bilm)),
            threads=1,
        )

    return make


@pytest.fixture
def folder(build: Build, tmp_path: Path) -> Path:
    build().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    "elmo", [{"place": "none"}, {"place": "both"}, {"place": "output", "tuned": True}, {"layers": 1, "gamma": False}]
)
def test_a_saved_model_is_the_same(elmo: dict[str, Any], build: Build, tmp_path: Path) -> None:
    trained = build(**elmo)
    trained.save(tmp_path / "model")
    loaded = load_task(tmp_path / "model", threads=1)
    assert not loaded.model.training
    assert (loaded.config, loaded.labels, loaded.use) == (trained.config, trained.labels, trained.use)
    assert loaded.table.words == WORDS
    ours, theirs = loaded.model.state_dict(), trained.model.state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert any(name.startswith("inputs.elmo.bilm.") for name in ours) == elmo.get("tuned", False)
    trained.model.eval()
    with torch.no_grad():
        (batch,), (other,) = (one.collate(EXAMPLES, one._embed(EXAMPLES))[0] for one in (trained, loaded))
        torch.testing.assert_close(loaded.model._run(other), trained.model._run(batch), rtol=0, atol=0)
    assert loaded.predict_examples(EXAMPLES) == trained.predict_examples(EXAMPLES)


def test_predictions_do_not_depend_on_order_or_batches(build: Build) -> None:
    trained = build()
    found = trained.predict_examples(EXAMPLES, batch_size=1)
    assert any(found), "an untrained model says something"
    assert trained.predict_examples(EXAMPLES, batch_size=3) == found
    assert trained.predict_examples(EXAMPLES[::-1], batch_size=2) == found[::-1]
    assert trained.predict_examples([]) == []


def test_predicting_leaves_the_model_in_its_mode(build: Build) -> None:
    trained = build(place="none")
    for training in (True, False):
        trained.model.train(training)
        first = trained.predict_examples(EXAMPLES)
        assert trained.model.training == trained.model.encoder.training == training
        assert trained.predict_examples(EXAMPLES) == first


def test_mixes(build: Build) -> None:
    both = build(place="both").mixes()
    assert [mix["place"] for mix in both] == ["input", "output"]
    assert all(mix["layer_weights"] == pytest.approx([1 / 3] * 3) and mix["gamma"] == 1 for mix in both)
    assert build(place="none").mixes() == []


def test_a_model_replaces_an_older_one(build: Build, folder: Path) -> None:
    build(place="none").save(folder)
    assert json.loads((folder / "task.json").read_text(encoding="utf-8"))["bilm"] is None
    assert [path.name for path in folder.parent.glob(".*")] == []


# --- The biLM --------------------------------------------------------------------------------------------------------


def test_another_bilm_is_refused_by_fingerprint(folder: Path, tmp_path: Path) -> None:
    other = BiLM(build_tiny("characters").config, seed=9)
    save(other, tmp_path / "other")
    right, wrong = fingerprint(build_tiny("characters"))[:16], fingerprint(other)[:16]
    message = rf"^the task model \S+ was trained on the biLM {right} \(.*bilm\), but .*other is {wrong}: name the right"
    with pytest.raises(ConfigError, match=message):
        load_task(folder, bilm=str(tmp_path / "other"))
    save(other, tmp_path / "bilm", overwrite=True)  # the name that training was given is another model now
    with pytest.raises(ConfigError, match=f"{right} .* is {wrong}"):
        load_task(folder)


def test_the_same_bilm_elsewhere_will_do(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bilm").rename(tmp_path / "moved")
    trained = load_task(folder, bilm=str(tmp_path / "moved"), threads=1)
    assert len(trained.predict_examples(EXAMPLES)) == 3


def test_a_bilm_that_learned_along_is_in_the_folder(build: Build, tmp_path: Path) -> None:
    build(tuned=True).save(tmp_path / "model")
    (tmp_path / "bilm").rename(tmp_path / "moved")
    assert len(load_task(tmp_path / "model").predict_examples(EXAMPLES)) == 3


def test_a_model_of_a_task_of_ones_own(folder: Path) -> None:
    class Chess(Ner):
        name = "chess"

    change(folder, task="chess")
    own = Chess()
    assert load_task(folder, task=own).task is own


# --- Folders that are none -------------------------------------------------------------------------------------------


def change(folder: Path, **values: Any) -> None:
    path = folder / "task.json"
    content = {**json.loads(path.read_text(encoding="utf-8")), **values}
    kept = {name: value for name, value in content.items() if value != "gone"}
    path.write_text(json.dumps(kept), encoding="utf-8")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"format": "other"},
            "is other 1 for ner, but this elmokit reads elmokit-task 1 for ner, .*: install a newer",
        ),
        ({"version": 2, "config": {"new": 1}}, "is elmokit-task 2 for ner, but this elmokit reads elmokit-task 1"),
        ({"task": "chess"}, "is elmokit-task 1 for chess, but this elmokit reads elmokit-task 1 for ner"),
        ({"task": "gone"}, r"is not the folder of a task model \(KeyError: 'task'\): give what"),
        ({"labels": "gone"}, r"is not the folder of a task model \(KeyError: 'labels'\): give what"),
        ({"config": {"task": "ner", "x": 1}}, r"is not the folder of a task model \(ValidationError"),
        ({"bilm": {"name": "x"}}, r"is not the folder of a task model \(TypeError"),
    ],
)
def test_a_description_that_does_not_fit(values: dict[str, Any], message: str, folder: Path) -> None:
    change(folder, **values)
    with pytest.raises(FormatError, match=message) as raised:
        load_task(folder)
    assert str(raised.value).startswith(str(folder))


@pytest.mark.parametrize("name", ["task.json", "words.txt", "model.safetensors"])
@pytest.mark.parametrize("content", [None, b"\xff\xfe{"])
def test_files_that_are_missing_or_damaged(name: str, content: bytes | None, folder: Path) -> None:
    (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    with pytest.raises(FormatError, match=r"model is not the folder of a task model \(.*\): give what"):
        load_task(folder)


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is not the folder of a task model"):
        load_task(tmp_path)
    with pytest.raises(FormatError, match="nothing does not exist: give the model/"):
        load_task(tmp_path / "nothing")


def test_words_that_are_cut_off(folder: Path) -> None:
    path = folder / "words.txt"
    path.write_bytes(path.read_bytes()[:9])
    with pytest.raises(FormatError, match=r"words\.txt has 2 words, but there are 7 vectors: copy it whole\.$"):
        load_task(folder)


def test_weights_of_other_settings(folder: Path) -> None:
    content = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    config = content["config"]
    change(folder, config={**config, "model": {**config["model"], "hidden_dim": 9}})
    with pytest.raises(FormatError, match=r"model\.safetensors does not fit its settings"):
        load_task(folder)
    change(folder, config={**config, "model": {**config["model"], "num_layers": 2}})
    with pytest.raises(
        FormatError, match=r"model\.safetensors lacks tensors or has unexpected ones: encoder\.layers\.1"
    ):
        load_task(folder)


def test_a_model_of_other_tokens_says_so_when_it_is_given_raw_text() -> None:
    words = [f"word{number}" for number in range(30)]
    warn_of_other_tokens([*words, "a.", "b,", "don't"])  # few of them
    with pytest.warns(ElmokitWarning, match=r"trained on tokens such as 'then0,', 'then2,', 'then4,', which elmokit"):
        warn_of_other_tokens([*words, *(f"then{number}," for number in range(6))])


@needs_data("ner")
@pytest.mark.parametrize("name", ["conll2003/eng.testa", "uner-ewt/dev.iob2.xz", "wnut17/emerging.dev.conll"])
def test_real_tokens_give_no_warning(name: str) -> None:
    warn_of_other_tokens(sorted({token for example in read_entities(DATA / "ner" / name) for token in example.tokens}))


@needs_data("lm")
def test_words_between_spaces_give_a_warning() -> None:
    with open_text(DATA / "lm" / "news-heldout.txt.xz") as lines:
        words = sorted({word for line in islice(lines, 200) for word in line.split()})
    with pytest.warns(ElmokitWarning, match="which elmokit's tokenizer splits"):
        warn_of_other_tokens(words)
