import copy
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ElmokitWarning, InputError
from elmokit.tasks.qa.reader import Answer, Paragraph, QaExample, TokenSpan, read_squad
from elmokit.tasks.qa.task import Qa
from elmokit.text.tokenize import tokenize
from tests.data import DATA, needs_data

CONTEXT = " Dr. No kicked a 33-yard goal. It cost US$5 (1990–1995)."
SQUAD: dict[str, Any] = {
    "version": "1.1",
    "data": [
        {
            "title": "Goals",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {
                            "id": "1",
                            "question": "He left. Who?",
                            "answers": [{"text": "Dr. No", "answer_start": 1}, {"text": "33", "answer_start": 17}],
                        },
                        {
                            "id": "2",
                            "question": "When?",
                            "answers": [{"text": "1990", "answer_start": CONTEXT.index("1990")}],
                        },
                    ],
                },
                {"context": "x", "qas": []},
            ],
        }
    ],
}


def write(folder: Path, value: Any) -> Path:
    path = folder / "squad.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def changed(place: str, key: str, value: Any) -> dict[str, Any]:
    """The file with one value replaced, or removed where it is None."""
    whole = copy.deepcopy(SQUAD)
    parts = {
        "": whole,
        "data[0]": (article := whole["data"][0]),
        "data[0].paragraphs[0]": (first := article["paragraphs"][0]),
        "data[0].paragraphs[0].qas[1]": first["qas"][1],
        "data[0].paragraphs[0].qas[0].answers[1]": first["qas"][0]["answers"][1],
    }
    parts[place].pop(key)
    if value is not None:
        parts[place][key] = value
    return whole


def paragraph_of(text: str) -> Paragraph:
    sentences = tokenize(text)
    offsets = tuple((token.start, token.end) for sentence in sentences for token in sentence)
    return Paragraph("", text, tuple(tuple(token.text for token in sentence) for sentence in sentences), offsets)


def test_examples(tmp_path: Path) -> None:
    first, second = read_squad(write(tmp_path, SQUAD))
    sentences = (
        ("Dr.", "No", "kicked", "a", "33-yard", "goal", "."),
        ("It", "cost", "US$", "5", "(", "1990", "–", "1995", ")", "."),
    )
    assert first.paragraph.title == "Goals"
    assert first.paragraph.sentences == sentences
    assert first.paragraph.tokens == sentences[0] + sentences[1]
    assert [CONTEXT[start:end] for start, end in first.paragraph.offsets] == list(first.paragraph.tokens)
    assert second.paragraph is first.paragraph
    assert first == QaExample(
        "1",
        "He left. Who?",
        ("He", "left", ".", "Who", "?"),
        first.paragraph,
        (Answer("Dr. No", 1), Answer("33", 17)),
        (TokenSpan(0, 2), TokenSpan(4, 5)),
    )
    assert (second.answers, second.spans) == ((Answer("1990", 45),), (TokenSpan(12, 13),))


def test_compressed(tmp_path: Path) -> None:
    path = tmp_path / "squad.json.xz"
    path.write_bytes(lzma.compress(json.dumps(SQUAD).encode("utf-8-sig")))
    assert [example.id for example in read_squad(path)] == ["1", "2"]


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("33", "33-yard"),
        ("o kicked a 3", "No kicked a 33-yard"),
        ("goal. It", "goal. It"),
        (" kicked ", "kicked"),
        (" ", None),
        ("", None),
        (CONTEXT, CONTEXT.strip()),
        ("$5", "US$5"),
        ("–", "–"),
    ],
)
def test_the_smallest_span_covers_an_answer(text: str, covered: str | None) -> None:
    paragraph = paragraph_of(CONTEXT)
    span = paragraph.span_of(Answer(text, CONTEXT.index(text)))
    assert (span and paragraph.text_of(span)) == covered


@pytest.mark.parametrize(
    "answer", [Answer("kicked", 9), Answer("Kicked", 8), Answer(").", -2), Answer("x", 999), Answer(").zzz", 56)]
)
def test_answers_that_stand_elsewhere(answer: Answer) -> None:
    assert paragraph_of(CONTEXT).span_of(answer) is None


@given(st.text("ab .-$\n–é", min_size=1, max_size=30), st.data())
def test_any_answer_is_covered_by_as_few_tokens_as_can_be(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    answer = text[start : data.draw(st.integers(start + 1, len(text)))]
    paragraph = paragraph_of(text)
    span = paragraph.span_of(Answer(answer, start))
    inked = {place for place in range(start, start + len(answer)) if not text[place].isspace()}
    touched = [number for number, offset in enumerate(paragraph.offsets) if inked & set(range(*offset))]
    assert span == ((touched[0], touched[-1] + 1) if touched else None)


@pytest.mark.parametrize(("start", "end"), [(0, 0), (2, 1), (-1, 1), (0, 18)])
def test_spans_outside(start: int, end: int) -> None:
    with pytest.raises(InputError, match="is not inside a paragraph of 17 tokens"):
        paragraph_of(CONTEXT).text_of(TokenSpan(start, end))


def test_answers_without_a_span_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path, changed("data[0].paragraphs[0].qas[0].answers[1]", "answer_start", 18))
    with pytest.warns(
        ElmokitWarning, match=r"squad\.json has 1 of 3 answers that differ from the text at their offset"
    ):
        first, _ = read_squad(path)
    assert first.spans == (TokenSpan(0, 2), None)
    assert Qa().counts(first, [0, 2])[0] == 1


def test_questions_without_answers(tmp_path: Path) -> None:
    path = write(tmp_path, changed("data[0].paragraphs[0].qas[1]", "answers", []))
    with pytest.warns(ElmokitWarning, match=r"squad\.json has 1 of 2 questions without an answer \(SQuAD v2\.0\)"):
        _, second = read_squad(path)
    assert (second.answers, second.spans) == ((), ())


@pytest.mark.parametrize(
    ("place", "key", "value", "kind"),
    [
        ("", "data", None, "a list"),
        ("", "data", {}, "a list"),
        ("data[0]", "title", None, "text"),
        ("data[0]", "paragraphs", None, "a list"),
        ("data[0].paragraphs[0]", "context", None, "text"),
        ("data[0].paragraphs[0]", "qas", "x", "a list"),
        ("data[0].paragraphs[0].qas[1]", "question", ["x"], "text"),
        ("data[0].paragraphs[0].qas[1]", "id", 7, "text"),
        ("data[0].paragraphs[0].qas[1]", "answers", None, "a list"),
        ("data[0].paragraphs[0].qas[0].answers[1]", "text", None, "text"),
        ("data[0].paragraphs[0].qas[0].answers[1]", "answer_start", "17", "a whole number"),
    ],
)
def test_what_is_missing_is_named(place: str, key: str, value: Any, kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, changed(place, key, value))
    with pytest.raises(InputError) as caught:
        list(read_squad(path))
    where = f"{path} {place}".strip()
    assert str(caught.value) == f"{where} has no '{key}' that is {kind}: give a JSON file of SQuAD v1.1."


@pytest.mark.parametrize(
    ("place", "key", "value", "message"),
    [
        ("data[0].paragraphs[0]", "context", " \n", r"paragraphs\[0\] has an empty 'context'"),
        ("data[0].paragraphs[0].qas[1]", "question", "\u00a0", r"qas\[1\] has an empty 'question'"),
        ("data[0].paragraphs[0].qas[1]", "id", "1", r"qas\[1\] has the id '1' of an earlier question"),
    ],
)
def test_what_cannot_be_used(place: str, key: str, value: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        list(read_squad(write(tmp_path, changed(place, key, value))))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", r"is not JSON \(Expecting value: line 1 column 1"),
        ('{"data": [\n{]', r"is not JSON \(Expecting property name .*: line 2 column 2"),
        ("[" * 100_000, r"is not JSON \(nested too deeply"),
        ("[]", "has no 'data' that is a list"),
        ('{"data": [7]}', r"data\[0\] has no 'title'"),
    ],
)
def test_other_files(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"squad\.json {fault}"):
        list(read_squad(write(tmp_path, text)))


# The scores of the spans themselves: what a model that finds the tokens of the first gold answer gets.
@pytest.mark.slow
@needs_data("qa")
@pytest.mark.parametrize(
    ("name", "counts", "inexact", "scores"),
    [
        ("dev-v1.1", (48, 2_067, 10_570, 34_726), 346, (0.99347, 0.99429)),
        ("squad-train34", (34, 1_516, 7_983, 26_275), 295, (0.99186, 0.99282)),
        ("squad-dev7", (7, 223, 1_022, 3_363), 31, (0.99804, 0.99893)),
        ("squad-test7", (7, 328, 1_565, 5_088), 20, (0.99872, 0.99872)),
    ],
)
def test_counts_of_squad(name: str, counts: tuple[int, ...], inexact: int, scores: tuple[float, float]) -> None:
    examples = list(read_squad(DATA / "qa" / "squad" / f"{name}.json.xz"))
    titles = {example.paragraph.title for example in examples}
    num_paragraphs = len({id(example.paragraph) for example in examples})
    assert (len(titles), num_paragraphs, len(examples), sum(len(example.answers) for example in examples)) == counts
    spans = [(one, answer, span) for one in examples for answer, span in zip(one.answers, one.spans, strict=True)]
    assert sum(one.paragraph.text_of(span) != answer.text for one, answer, span in spans if span) == inexact
    assert all(span for _, _, span in spans)
    score = Qa().score(examples, [one.spans[0] for one in examples])
    assert (score["exact_match"] / 100, score["f1"] / 100) == pytest.approx(scores, abs=1e-5)
