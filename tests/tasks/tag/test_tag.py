"""Tagging: files, labels, scores, and a run that learns a rule."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmokit.cli.task_output import to_text
from elmokit.errors import ConfigError, ElmokitWarning, InputError
from elmokit.tasks.registry import find_task
from elmokit.tasks.runner import evaluate_task, train_task
from elmokit.tasks.saved import load_task
from elmokit.tasks.tag.reader import TagExample, read_tags
from elmokit.tasks.tag.record import TagRecord
from elmokit.tasks.tag.task import Tag
from tests.data import DATA, needs_data
from tests.tasks.conftest import files, settings

CONLLU = """# sent_id = 1
1-2\tIt's\t_\t_\t_\t_\t_\t_\t_\t_
1\tIt\tit\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\t's\tbe\tAUX\tVBZ\t_\t0\troot\t_\t_
2.1\tso\tso\tADV\t_\t_\t_\t_\t_\t_

1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
"""
COLUMNS = "# PUNCT B-NP\nIt PRP B-NP\nruns VBZ O\n\n-DOCSTART- X O\n\nGo VB O\n"
TAG = Tag()


def write(folder: Path, text: str) -> Path:
    path = folder / "data"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("", (("PRON", "AUX"), ("VERB",))),
        ("upos", (("PRON", "AUX"), ("VERB",))),
        ("XPOS", (("PRP", "VBZ"), ("VB",))),
        ("8", (("nsubj", "root"), ("root",))),
    ],
)
def test_columns_of_conllu(column: str, expected: tuple[Any, ...], tmp_path: Path) -> None:
    first, second = read_tags(write(tmp_path, CONLLU), column)
    assert (first.tokens, second.tokens) == (("It", "'s"), ("Go",))
    assert (first.tags, second.tags) == expected


@pytest.mark.parametrize(
    ("column", "expected"),
    [("", ("B-NP", "B-NP", "O")), ("2", ("PUNCT", "PRP", "VBZ")), ("column 3", ("B-NP", "B-NP", "O"))],
)
def test_columns_of_other_files(column: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    text = COLUMNS.replace("# PUNCT B-NP\nIt", "It", 1).replace("runs", "# PUNCT B-NP\nruns", 1)
    first, second = read_tags(write(tmp_path, text), column)
    assert first.tokens == ("It", "#", "runs") and second.tokens == ("Go",)
    assert first.tags == (expected[1], expected[0], expected[2])


def test_empty_files(tmp_path: Path) -> None:
    assert list(read_tags(write(tmp_path, "\n# a comment of words\n"))) == []


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        (CONLLU, "11", "model.column is '11', but .*data has lemma, upos, .*misc: choose one"),
        (CONLLU, "form", "model.column is 'form'"),
        (COLUMNS, "1", "model.column is '1', but .*data has a number from 2 to 3"),
        (COLUMNS, "upos", "model.column is 'upos'"),
        (CONLLU, "feats", r"data line 3 has no FEATS \(_\): choose another column with model.column"),
        ("word\n", "", "data line 1 has 1 column, expected a word and its label"),
        ('{"text": "a b"}\n', "", "data line 1 has JSON, expected a word and its label"),
        ("a X\nb X Y\n", "", r"data line 2 has 3 columns, expected 2 \(word, column 2\)"),
        (CONLLU.replace("2.1", "x"), "", "data line 5 has the ID 'x'"),
    ],
)
def test_bad_input(text: str, column: str, message: str, tmp_path: Path) -> None:
    with pytest.raises((ConfigError, InputError), match=message):
        list(read_tags(write(tmp_path, text), column))


def test_scores() -> None:
    plain = [TagExample(("a", "b", "c"), ("X", "Y", "X")), TagExample(("a",), ("Y",))]
    assert TAG.score(plain, [["X", "X", "X"], ["Y"]]) == {"accuracy": 75.0}
    chunks = [TagExample(("a", "b", "c"), ("B-NP", "I-NP", "O"), chunks=True)]
    assert TAG.score(chunks, [["B-NP", "I-NP", "B-VP"]]) == pytest.approx(
        {"accuracy": 200 / 3, "f1": 200 / 3, "precision": 50.0, "recall": 100.0}
    )


def test_any_label_may_follow_any_other() -> None:
    """Labels that begin like tags of spans are labels like any other."""
    assert TAG.find_labels([TagExample(("a", "b"), ("IN", "B-X"))]) == {"tags": ["B-X", "IN"]}
    assert find_task("tag").read_settings({}).column == ""


def config(**changes: Any) -> Any:
    return settings(task="tag", **changes)


@pytest.mark.slow
def test_a_run_learns_a_rule(data: dict[str, Any], tmp_path: Path) -> None:
    """The entities of the shared files as labels per token, with chunks scored."""
    own = config(model={"chunks": True}, num_epochs=6)
    result = train_task(TAG, own, files(data, tmp_path / "run"))
    assert result["test"]["accuracy"] > 90 and result["test"]["f1"] > 80
    trained = load_task(tmp_path / "run")
    assert evaluate_task(trained, data["test"]) == result["test"]
    lines = [json.loads(line) for line in (tmp_path / "run/predictions.jsonl").read_text().splitlines()]
    assert {tag for line in lines for tag in line} <= {"O", "B-PER", "I-PER", "B-LOC"}
    (found,) = trained.predict(["so Anna left Oslo"])
    assert isinstance(found, TagRecord)
    shown = found.to_dict()
    assert (shown["tokens"], shown["tags"]) == (["so", "Anna", "left", "Oslo"], list(found.tags))
    assert len(shown["scores"]) == 4 and all(0 < score <= 1 for score in shown["scores"])
    assert to_text(found).plain.startswith("so/O Anna/")
    path = tmp_path / "new.conll"
    path.write_text("Anna X X B-SHIP\n")
    with pytest.warns(ElmokitWarning, match=r"training never saw the labels B-SHIP \(1\)"):
        assert evaluate_task(trained, [str(path)])["accuracy"] == 0


@needs_data("pos")
@pytest.mark.parametrize(("column", "expected"), [("upos", 17), ("xpos", 49)])
def test_counts_of_ud_ewt(column: str, expected: int) -> None:
    examples = list(read_tags(DATA / "pos/ud_ewt/dev.conllu.xz", column))
    assert (len(examples), sum(len(example.tokens) for example in examples)) == (2_001, 25_147)
    assert len({tag for example in examples for tag in example.tags}) == expected
