"""The report of an evaluation: figures per type, confusions, and errors in context, for each task."""

import pytest

from elmokit.analysis.report import Cell, Concordance, Line, Table
from elmokit.analysis.tasks.evaluation import question_kind, report_evaluation
from elmokit.tasks.evaluation import Evaluation
from elmokit.tasks.qa.reader import Answer, QaExample
from elmokit.tasks.registry import TASKS
from elmokit.tasks.sentiment.reader import SentimentExample
from elmokit.tasks.tag.reader import TagExample
from tests.tasks.test_scorer_files import CASES, TEXT


def errors_of(name: str) -> tuple[tuple[Cell, ...], ...]:
    table = report_evaluation(CASES[name], "title").blocks[-1]
    assert isinstance(table, Table) and table.caption == "Errors in context"
    return table.rows


def test_entities() -> None:
    report = report_evaluation(CASES["ner"], "title")
    assert report.title == "title"
    assert report.figures["f1"] == 0 and report.figures["examples"] == 1
    assert {name: (own["gold"], own["predicted"]) for name, own in report.figures["by_type"].items()} == {
        "ORG": (0, 1),
        "PER": (1, 0),
    }
    assert errors_of("ner") == (("PER → none", "[Ann B] left"), ("none → ORG", "Ann B left"))


def test_roles_leave_out_the_predicate() -> None:
    report = report_evaluation(CASES["srl"], "title")
    own = report.figures["by_type"]
    assert (own["ARG0"]["gold"], own["ARG0"]["correct"], own["ARG1"]["correct"]) == (2, 1, 0)
    assert (report.figures["predicates"], report.figures["perfect_predicates"]) == (2, 0)
    assert errors_of("srl") == (
        ("saw: none → ARG1", "Ann saw [Bob] run"),
        ("saw: ARG1 → none", "Ann saw [Bob run]"),
        ("run: ARG0 → none", "Ann saw [Bob] run"),
    )


def test_labels_and_their_confusions() -> None:
    report = report_evaluation(CASES["tag"], "title")
    assert report.figures["confusions"] == [{"gold": "V", "predicted": "N", "number": 1}]
    assert report.figures["by_type"]["N"]["precision"] == 50.0
    assert report.blocks[-1] == Concordance(
        "Errors in context", (Line("Ann", "left", "", "V → N"),), "gold → predicted"
    )
    chunks = Evaluation(TASKS["tag"], [TagExample(("a", "b"), ("B-NP", "O"), chunks=True)], [["B-NP", "B-VP"]])
    assert set(report_evaluation(chunks, "").figures["chunks"]) == {"NP", "VP"}


def test_classes() -> None:
    texts = [SentimentExample((word,), label) for word, label in [("a", "x"), ("b", "x"), ("c", "y")]]
    evaluation = Evaluation(TASKS["sentiment"], texts, ["x", "y", "y"])
    report = report_evaluation(evaluation, "", max_errors=0)
    assert report.figures["confusion"] == {"x": {"x": 1, "y": 1}, "y": {"x": 0, "y": 1}}
    assert report.figures["accuracy"] == pytest.approx(200 / 3)
    table = next(block for block in report.blocks if isinstance(block, Table) and "Confusion" in block.caption)
    assert table.rows == (("x", 1, 1), ("y", 0, 1))
    report = report_evaluation(evaluation, "")
    assert report.blocks[-1] == Table("Errors in context", ("gold → predicted", "text"), (("x → y", "b"),))


def test_questions_by_kind() -> None:
    questions = [
        QaExample("1", "When was she born?", ("When",), TEXT, (Answer("1815", 16),), (None,)),
        QaExample("2", "In which town?", ("Which",), TEXT, (Answer("London", 35),), (None,)),
        QaExample("3", "Why?", ("Why",), TEXT, (), ()),
    ]
    report = report_evaluation(Evaluation(TASKS["qa"], questions, [[4, 5], [4, 5], [0, 1]]), "")
    assert {kind: own["exact_match"] for kind, own in report.figures["by_type"].items()} == {
        "when": 100.0,
        "which": 0.0,
        "without an answer": 0.0,
    }
    errors = report.blocks[-1]
    assert isinstance(errors, Table)
    assert errors.rows == (
        ("London → 1815", "In which town? ‖ Ann was born in [1815] . She lived in London."),
        ("no answer → Ann", "Why? ‖ [Ann] was born in 1815. She lived in London."),
    )


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What is it?", "what"),
        ("In how many cities?", "how many"),
        ("How did it end?", "how"),
        ("Name a city", "other"),
        ("So, who?", "who"),
    ],
)
def test_kinds_of_questions(question: str, kind: str) -> None:
    assert question_kind(question) == kind


def test_coreference_by_document() -> None:
    report = report_evaluation(CASES["coref"], "")
    assert report.figures["by_type"]["bc/a"]["f1"] == pytest.approx(report.figures["f1"])
    assert errors_of("coref") == (
        ("mention → none", "[Ann and Bob] She left ."),
        ("mention → none", "Ann and [Bob] She left ."),
        ("Bob → Ann", "Ann and Bob [She] left ."),
    )
