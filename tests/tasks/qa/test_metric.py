import pytest

from elmokit.tasks.qa.metric import exact_match, normalize_answer, token_f1
from elmokit.tasks.qa.reader import Answer, QaExample, read_paragraph
from elmokit.tasks.qa.task import Qa

QA = Qa()
PARAGRAPH = read_paragraph("the paragraph", "", "Gold color Carolina Broncos")


def question(id: str, *answers: str) -> QaExample:
    """A question about the paragraph."""
    return QaExample(id, "?", ("?",), PARAGRAPH, tuple(Answer(text, 0) for text in answers), (None,) * len(answers))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Denver\u00a0Broncos!", "denver broncos"),
        ("a an THE A.", ""),
        ("Theatre and anthem", "theatre and anthem"),
        ("the-end a/b", "theend ab"),
        ("3.5%, $1,000", "35 1000"),
        ("“Gold” — ½ …", "“gold” — ½ …"),
        ("“the end”", "“ end”"),
        ("’a’", "’ ’"),
        ("a_the", "athe"),
        ("", ""),
    ],
)
def test_normal_form(text: str, expected: str) -> None:
    assert normalize_answer(text) == expected


# Exact match and F1 as both SQuAD's evaluate-v1.1.py and torchmetrics 1.9.0 give them.
@pytest.mark.parametrize(
    ("prediction", "answer", "exact", "f1"),
    [
        ("Denver Broncos", "The Denver Broncos.", True, 1),
        ("the Denver Broncos of Denver", "Denver Broncos", False, 2 / 3),
        ("gold gold gold", "gold", False, 0.5),
        ("gold", "gold gold gold", False, 0.5),
        ("gold, gold and gold", "Gold gold", False, 2 / 3),
        ("“golden”", "golden", False, 0),
        ("Santa Clara, California", "Levi's Stadium in the San Francisco Bay Area at Santa Clara", False, 4 / 13),
        ("", "gold", False, 0),
        ("the", "gold", False, 0),
        ("33-yard", "33", False, 0),
        ("İstanbul", "i̇stanbul", True, 1),
    ],
)
def test_one_answer(prediction: str, answer: str, exact: bool, f1: float) -> None:
    assert exact_match(prediction, answer) is exact
    assert token_f1(prediction, answer) == pytest.approx(f1)


def test_an_answer_of_nothing_that_is_compared() -> None:
    """SQuAD has gold answers `.`: its evaluation gives an article there an exact match, and no F1 (torchmetrics 1)."""
    assert exact_match("the", ".")
    assert token_f1("the", ".") == 0


def test_the_best_answer_counts() -> None:
    examples = [question("1", "gold", "the gold color", "golden"), question("2", "Denver Broncos", "Broncos")]
    assert QA.score(examples, [[0, 2], [2, 4]]) == pytest.approx({"f1": 100 * (1 + 2 / 3) / 2, "exact_match": 50})
