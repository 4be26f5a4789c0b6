"""How records are shown: marks that need no colors, and columns that scorers read."""

from pathlib import Path

import pytest

from elmokit.cli.task_output import to_text, write_record
from elmokit.tasks.coref.reader import read_conll2012 as read_coref
from elmokit.tasks.coref.record import CorefRecord, LinkedMention
from elmokit.tasks.ner.reader import read_entities
from elmokit.tasks.ner.record import NerRecord
from elmokit.tasks.nli.record import NliRecord
from elmokit.tasks.qa.record import QaRecord
from elmokit.tasks.records import Record, TaskText
from elmokit.tasks.sentiment.record import SentimentRecord
from elmokit.tasks.srl.reader import read_conll2005
from elmokit.tasks.srl.record import Frame, SrlRecord
from elmokit.tasks.tag.reader import read_tags
from elmokit.tasks.tag.record import TagRecord

TEXT = TaskText.from_text("Ann saw old Bo run. Bo fell.")
NER = NerRecord(0, None, TEXT, (TEXT.span(0, 1, "PER", 0.5), TEXT.span(2, 4, "PER", 0.5), TEXT.span(6, 7, "PER", 0.5)))
SRL = SrlRecord(
    0,
    None,
    TEXT,
    (
        Frame(TEXT.span(1, 2), (TEXT.span(0, 1, "ARG0"), TEXT.span(2, 5, "ARG1"))),
        Frame(TEXT.span(4, 5), (TEXT.span(2, 4, "ARGM-X"),)),
        Frame(TEXT.span(7, 8), (TEXT.span(6, 7, "ARG1"),)),
    ),
)
COREF = CorefRecord(
    0,
    "a b",
    TEXT,
    (
        (LinkedMention(TEXT.span(2, 4), None), LinkedMention(TEXT.span(6, 7), (2, 4))),
        (LinkedMention(TEXT.span(3, 4), None), LinkedMention(TEXT.span(7, 8), (3, 4))),
    ),
)
QA = QaRecord(0, None, TEXT, TaskText.from_text("Who fell?"), (TEXT.span(6, 7, score=0.5), TEXT.span(2, 4, score=0.25)))
TAG = TagRecord(0, None, TEXT, tuple("NVANVPNVP"), (0.5,) * 9)
EMPTY = TaskText.from_text("")
BLANK: list[Record] = [
    NerRecord(0, None, EMPTY, ()),
    SrlRecord(0, None, EMPTY, ()),
    CorefRecord(0, None, EMPTY, ()),
    QaRecord(0, None, EMPTY, EMPTY, ()),
    SentimentRecord(0, None, EMPTY, None, None, None, {}),
    NliRecord(0, None, EMPTY, EMPTY, None, None, {}),
    TagRecord(0, None, EMPTY, (), ()),
]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (NER, "[Ann]PER saw [old Bo]PER run . [Bo]PER fell ."),
        (SRL, "[Ann]ARG0 [saw]V [old Bo run]ARG1 .\nAnn saw [old Bo]ARGM-X [run]V .\n[Bo]ARG1 [fell]V ."),
        (COREF, "Ann saw [1 old [2 Bo]] run .\n[1 Bo] [2 fell] ."),
        (QA, "Who fell?\nAnn saw old Bo run. [Bo] fell.\n  2. old Bo (0.25)"),
        (SentimentRecord(0, None, TEXT, 1, "positive", 0.5, {}), "      positive  Ann saw old Bo run . Bo fell ."),
        (SentimentRecord(0, None, TEXT, "spam", "spam", 0.5, {}), "          spam  Ann saw old Bo run . Bo fell ."),
        (TAG, "Ann/N saw/V old/A Bo/N run/V ./P Bo/N fell/V ./P"),
        (NliRecord(0, None, EMPTY, EMPTY, "neutral", 0.5, {}), "      neutral    →  "),
        (NerRecord(0, None, TEXT, ()), "Ann saw old Bo run . Bo fell ."),
        (SrlRecord(0, None, TEXT, ()), "Ann saw old Bo run . Bo fell ."),
    ],
)
def test_marks(record: Record, expected: str) -> None:
    assert to_text(record).plain == expected


def test_colors() -> None:
    text = to_text(COREF)
    styles = {text.plain[span.start : span.end]: str(span.style) for span in text.spans}
    assert styles["old"] == "bold cyan" and styles["fell"] == "bold magenta" and "Ann" not in styles
    text = to_text(SRL)
    styles = {text.plain[span.start : span.end]: str(span.style) for span in text.spans}
    assert styles["[Ann]"] == "bold green" and styles["[old Bo]"] == "bold yellow" and styles["[saw]"] == "bold"


@pytest.mark.parametrize("record", BLANK)
def test_blank_inputs(record: Record) -> None:
    assert to_text(record).plain == ""
    assert write_record(record, "json").startswith("{") and write_record(record, "csv").count("\n") <= 1


def test_readers_read_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "out.conll"
    path.write_text(write_record(NER, "conll"), encoding="utf-8")
    first, second = read_entities(path)
    assert (first.tokens, [tuple(span) for span in first.spans]) == (TEXT.tokens[:6], [(0, 1, "PER"), (2, 4, "PER")])
    assert [tuple(span) for span in second.spans] == [(0, 1, "PER")]
    path.write_text(write_record(TAG, "conll"), encoding="utf-8")
    assert [(one.tokens, one.tags) for one in read_tags(path)] == [
        (TEXT.tokens[:6], tuple("NVANVP")),
        (TEXT.tokens[6:], tuple("NVP")),
    ]
    path.write_text(write_record(SRL, "conll"), encoding="utf-8")
    first_roles, second_roles = read_conll2005(path)
    assert [one.index for one in first_roles.predicates] == [1, 4] and second_roles.tokens == ("Bo", "fell", ".")
    assert [tuple(span) for span in first_roles.predicates[1].spans] == [(2, 4, "ARGM-X"), (4, 5, "V")]
    lines = [line.split(" ") for line in write_record(COREF, "conll").splitlines()]
    whole = [line if line[0] in ("", "#begin", "#end") else [*line[:4], *"-" * 7, line[4]] for line in lines]
    path.write_text("".join(" ".join(line) + "\n" for line in whole), encoding="utf-8")
    (document,) = read_coref(path)
    assert document.sentences == TEXT.sentences
    assert [[tuple(one) for one in cluster] for cluster in document.clusters] == [[(2, 4), (6, 7)], [(3, 4), (7, 8)]]
