"""What is written for the official scorers, read back by our own readers."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmokit.tasks.coref.document import CorefDocument, Mention
from elmokit.tasks.coref.metric import score_clusters
from elmokit.tasks.coref.reader import read_conll2012
from elmokit.tasks.evaluation import Evaluation
from elmokit.tasks.ner.example import NerExample
from elmokit.tasks.qa.reader import Answer, QaExample, read_paragraph
from elmokit.tasks.registry import TASKS
from elmokit.tasks.scorer_files import FILE_NAMES, scorer_files
from elmokit.tasks.sentiment.reader import SentimentExample
from elmokit.tasks.spans import Span
from elmokit.tasks.srl.reader import SrlExample, read_conll2005
from elmokit.tasks.srl.task import RoleExample
from elmokit.tasks.tag.reader import TagExample

WORDS = ("Ann", "saw", "Bob", "run")
TEXT = read_paragraph("it", "", "Ann was born in 1815. She lived in London.")


def role(predicate: int, tags: tuple[str, ...], *, first: bool = True) -> RoleExample:
    return RoleExample(WORDS, SrlExample(WORDS, predicate, tags), (1, 3), first)


def frame(predicate: int, *spans: Span) -> dict[str, Any]:
    return {"predicates": [], "frames": [{"predicate": predicate, "spans": [list(span) for span in spans]}]}


DOCUMENT = CorefDocument(
    "bc/a",
    (("Ann", "and", "Bob"), ("She", "left", ".")),
    ((Mention(0, 1), Mention(0, 3)), (Mention(2, 3), Mention(3, 4)), (Mention(4, 5),)),
)
CASES: dict[str, Evaluation] = {
    "ner": Evaluation(TASKS["ner"], [NerExample(("Ann B", "left"), ("B-PER", "O"))], [[[0, 2, "ORG"]]]),
    "tag": Evaluation(TASKS["tag"], [TagExample(("Ann", "left"), ("N", "V"))], [["N", "N"]]),
    "nli": Evaluation(TASKS["sentiment"], [SentimentExample(("good",), "yes")], ["no"]),
    "srl": Evaluation(
        TASKS["srl"],
        [
            role(1, ("B-ARG0", "B-V", "B-ARG1", "I-ARG1")),
            role(3, ("O", "O", "B-ARG0", "B-V"), first=False),
            RoleExample(("Yes",)),
        ],
        [
            frame(1, Span(0, 1, "ARG0"), Span(1, 2, "V"), Span(2, 3, "ARG1")),
            frame(3, Span(3, 4, "V")),
            {"predicates": [], "frames": []},
        ],
    ),
    "coref": Evaluation(TASKS["coref"], [DOCUMENT], [[[[0, 1], [3, 4]], [[2, 3]]]]),
    "qa": Evaluation(
        TASKS["qa"],
        [QaExample("q1", "When?", ("When", "?"), TEXT, (Answer("1815", 16),), (None,))],
        [[4, 5]],
    ),
}


def write(name: str, folder: Path) -> dict[str, Path]:
    found = scorer_files(CASES[name])
    for file, content in found.items():
        (folder / file).write_text(content, encoding="utf-8")
    assert set(found) <= set(FILE_NAMES)
    return {file: folder / file for file in found}


def test_conlleval(tmp_path: Path) -> None:
    assert write("ner", tmp_path)["conlleval.txt"].read_text() == "Ann_B B-PER B-ORG\nleft O I-ORG\n\n"
    assert write("tag", tmp_path)["conlleval.txt"].read_text() == "Ann N N\nleft V N\n\n"


def test_classes(tmp_path: Path) -> None:
    assert write("nli", tmp_path)["predictions.tsv"].read_text() == "gold\tpredicted\nyes\tno\n"


def test_answers(tmp_path: Path) -> None:
    assert json.loads(write("qa", tmp_path)["predictions.json"].read_text()) == {"q1": "1815"}


def test_roles(tmp_path: Path) -> None:
    paths = write("srl", tmp_path)
    assert paths["gold.props"].read_text().splitlines()[:4] == [
        "-\t(ARG0*)\t*", "saw\t(V*)\t*", "-\t(ARG1*\t(ARG0*)", "run\t*)\t(V*)",
    ]  # fmt: skip
    words = tmp_path / "words"
    words.write_text("Ann\nsaw\nBob\nrun\n\nYes\n\n")
    first, second = read_conll2005(paths["predicted.props"], words)
    assert [predicate.spans for predicate in first.predicates] == [
        (Span(0, 1, "ARG0"), Span(1, 2, "V"), Span(2, 3, "ARG1")),
        (Span(3, 4, "V"),),
    ]
    assert second.predicates == ()


def test_coreference_without_singletons(tmp_path: Path) -> None:
    paths = write("coref", tmp_path)
    (key,), (response,) = (list(read_conll2012(paths[name])) for name in ("key.conll", "response.conll"))
    assert (key.name, key.sentences) == (DOCUMENT.name, DOCUMENT.sentences)
    assert set(key.clusters) == set(DOCUMENT.clusters[:2])
    assert response.clusters == ((Mention(0, 1), Mention(3, 4)),)
    score = score_clusters([key.clusters], [response.clusters])
    assert 100 * score.f1 == pytest.approx(CASES["coref"].figures["f1"])
