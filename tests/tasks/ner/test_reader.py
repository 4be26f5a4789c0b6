from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ElmokitWarning, InputError
from elmokit.tasks.ner.reader import NerExample, read_conll2003, read_wnut
from elmokit.tasks.spans import Span, to_bioul, to_iob2, to_spans
from tests.data import DATA, needs_data

# What conlleval makes of ill-formed tags; seqeval 1.2.2 reads all of these the same.
READINGS = {
    "O O": "",
    "B-A I-A O": "0-2 A",
    "I-A I-A O": "0-2 A",
    "O I-A": "1-2 A",
    "I-A B-A I-A": "0-1 A, 1-3 A",
    "B-A I-B I-B": "0-1 A, 1-3 B",
    "I-A I-B I-A": "0-1 A, 1-2 B, 2-3 A",
    "B-A O I-A": "0-1 A, 2-3 A",
    "B-A B-A B-B": "0-1 A, 1-2 A, 2-3 B",
    "B-A I-A E-A I-A": "0-3 A, 3-4 A",
    "E-A E-A S-A I-A": "0-1 A, 1-2 A, 2-3 A, 3-4 A",
    "B-A S-A E-A": "0-1 A, 1-2 A, 2-3 A",
    "U-A B-A I-A L-A U-B": "0-1 A, 1-4 A, 4-5 B",
    "B-A L-B": "0-1 A, 1-2 B",
    "B-creative-work I-creative-work": "0-2 creative-work",
    "B I O I": "0-2 , 3-4 ",
}


@pytest.mark.parametrize(("tags", "expected"), READINGS.items())
def test_spans_of_any_tags(tags: str, expected: str) -> None:
    assert ", ".join(f"{start}-{end} {kind}" for start, end, kind in to_spans(tags.split())) == expected


def test_schemes() -> None:
    spans = [Span(0, 1, "A"), Span(1, 4, "A"), Span(4, 6, "B"), Span(7, 8, "B")]
    assert to_iob2(spans, 8) == ("B-A", "B-A", "I-A", "I-A", "B-B", "I-B", "O", "B-B")
    assert to_bioul(spans, 8) == ("U-A", "B-A", "I-A", "L-A", "B-B", "L-B", "O", "U-B")


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from("AB")), max_size=5))
def test_every_scheme_holds_all_spans(gaps: list[tuple[int, int, str]]) -> None:
    spans, place = [], 0
    for gap, length, kind in gaps:
        spans.append(Span(place + gap, place + gap + length, kind))
        place += gap + length
    for convert in (to_iob2, to_bioul):
        assert to_spans(convert(spans, place + 1)) == tuple(spans)


@pytest.mark.parametrize("convert", [to_iob2, to_bioul])
def test_spans_that_tags_cannot_hold(convert: Callable[..., object]) -> None:
    with pytest.raises(InputError, match=r"\(1, 3, 'A'\) overlaps another"):
        convert([Span(0, 2, "A"), Span(1, 3, "A")], 4)
    for start, end in [(0, 3), (1, 1), (-1, 1)]:
        with pytest.raises(InputError, match="is not inside a sentence of 2 tokens"):
            convert([Span(start, end, "A")], 2)


CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
Commission NNP I-NP I-ORG
French NNP I-NP B-ORG

Peter NNP I-NP I-PER

-DOCSTART- -X- -X- O
Rome NNP I-NP I-LOC
"""


def test_conll2003(tmp_path: Path) -> None:
    path = tmp_path / "eng.train"
    path.write_text(CONLL)
    assert list(read_conll2003(path)) == [
        NerExample(("EU", "Commission", "French"), ("B-ORG", "I-ORG", "B-ORG")),
        NerExample(("Peter",), ("B-PER",)),
        NerExample(("Rome",), ("B-LOC",)),
    ]


def test_wnut(tmp_path: Path) -> None:
    path = tmp_path / "wnut.conll"
    path.write_text("#win\tO\nHarry\tB-person\nPotter\tI-person\nfilm\tB-creative-work\n\t\nx y\tO\n")
    first, second = read_wnut(path)
    assert first.tokens == ("#win", "Harry", "Potter", "film")
    assert first.spans == (Span(1, 3, "person"), Span(3, 4, "creative-work"))
    assert second == NerExample(("x y",), ("O",))


@pytest.mark.parametrize("tag", ["PER", "B-", "U-PER", "B", "o"])
def test_unknown_tags(tag: str, tmp_path: Path) -> None:
    path = tmp_path / "eng.train"
    path.write_text(f"a x x O\nb x x {tag}\n")
    with pytest.raises(InputError, match=rf"eng\.train line 2 has the tag '{tag}', expected O, B-TYPE or I-TYPE"):
        list(read_conll2003(path))


def test_wrong_number_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "eng.train"
    path.write_text("a x O\n")
    with pytest.raises(InputError, match=r"line 1 has 3 columns, expected 4 \(word, POS, chunk, NER tag\)"):
        list(read_conll2003(path))


def test_a_mixture_of_schemes_is_read_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "mixed"
    path.write_text("a\tO\nb\tB-A\nc\tI-A\nd\tI-B\n")
    with pytest.warns(
        ElmokitWarning, match=r"with I- \(line 4, IOB1\) and with B- after other tokens \(line 2, IOB2\)"
    ):
        (example,) = read_wnut(path)
    assert example.tags == ("O", "B-A", "I-A", "B-B")


def totals(examples: Iterator[NerExample]) -> tuple[int, int, int]:
    found = list(examples)
    return (
        len(found),
        sum(len(example.tokens) for example in found),
        sum(len(example.spans) for example in found),
    )


@pytest.mark.slow
@needs_data("ner")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("eng.train", (14_041, 203_621, 23_499)),
        ("eng.testa", (3_250, 51_362, 5_942)),
        ("eng.testb", (3_453, 46_435, 5_648)),
    ],
)
def test_counts_of_conll2003(name: str, expected: tuple[int, ...]) -> None:
    assert totals(read_conll2003(DATA / "ner" / "conll2003" / name)) == expected


@needs_data("ner")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wnut17train.conll", (3_394, 62_730, 1_975)),
        ("emerging.dev.conll", (1_009, 15_733, 836)),
        ("emerging.test.annotated", (1_287, 23_394, 1_079)),
    ],
)
def test_counts_of_wnut(name: str, expected: tuple[int, ...]) -> None:
    assert totals(read_wnut(DATA / "ner" / "wnut17" / name)) == expected
