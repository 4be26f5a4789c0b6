import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ElmokitWarning, InputError
from elmokit.tasks.ner.example import NerExample
from elmokit.tasks.ner.reader import read_entities
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
    assert list(read_entities(path)) == [
        NerExample(("EU", "Commission", "French"), ("B-ORG", "I-ORG", "B-ORG")),
        NerExample(("Peter",), ("B-PER",)),
        NerExample(("Rome",), ("B-LOC",)),
    ]


def test_wnut(tmp_path: Path) -> None:
    path = tmp_path / "wnut.conll"
    path.write_text("#win\tO\nHarry\tB-person\nPotter\tI-person\nfilm\tB-creative-work\n\t\nx y\tO\n")
    first, second = read_entities(path)
    assert first.tokens == ("#win", "Harry", "Potter", "film")
    assert first.spans == (Span(1, 3, "person"), Span(3, 4, "creative-work"))
    assert second == NerExample(("x y",), ("O",))


@pytest.mark.parametrize("tag", ["PER", "B-", "X-PER", "B", "o"])
def test_unknown_tags(tag: str, tmp_path: Path) -> None:
    path = tmp_path / "eng.train"
    path.write_text(f"a x x O\nb x x {tag}\n")
    with pytest.raises(InputError, match=rf"eng\.train line 2 has the tag '{tag}', expected O, B-TYPE or I-TYPE"):
        list(read_entities(path))


def test_wrong_number_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "eng.train"
    path.write_text("a x y O\na x O\n")
    with pytest.raises(InputError, match=r"line 2 has 3 columns, expected 4 \(word, POS, chunk, NER tag\)"):
        list(read_entities(path))


def test_a_mixture_of_schemes_is_read_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "mixed"
    path.write_text("a\tO\nb\tB-A\nc\tI-A\nd\tI-B\n")
    with pytest.warns(
        ElmokitWarning, match=r"with I- \(line 4, IOB1\) and with B- after other tokens \(line 2, IOB2\)"
    ):
        (example,) = read_entities(path)
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
    assert totals(read_entities(DATA / "ner" / "conll2003" / name)) == expected


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
    assert totals(read_entities(DATA / "ner" / "wnut17" / name)) == expected


ANN = NerExample(("Ann", "saw", "New", "York"), ("B-PER", "O", "B-LOC", "I-LOC"))
LAYOUTS = {
    "two columns, spaces": "Ann B-PER\nsaw O\nNew B-LOC\nYork I-LOC\n",
    "two columns, several spaces": "Ann   B-PER\nsaw   O\nNew   B-LOC\nYork  I-LOC\n",
    "three columns": "-DOCSTART- O\n\nAnn N B-PER\nsaw V O\nNew N B-LOC\nYork N I-LOC\n",
    "no columns beside DOCSTART": "-DOCSTART-\n\nAnn B-PER\nsaw O\nNew B-LOC\nYork I-LOC\n",
    "chunks before entities": "Ann N B-NP B-PER\nsaw V B-VP O\nNew N B-NP B-LOC\nYork N I-NP I-LOC\n",
    "iob2 of Universal NER": "# sent_id = 1\n1\tAnn\tB-PER\n2\tsaw\tO\n3\tNew\tB-LOC\n4\tYork\tI-LOC\n",
    "with the names of annotators": "1\tAnn\tB-PER\t-\t-\n2\tsaw\tO\t-\t-\n3\tNew\tB-LOC\t-\t-\n4\tYork\tI-LOC\t-\t-\n",
    "words of several tokens": "1-2\tAnns\tB-PER\n1\tAnn\tB-PER\n2\tsaw\tO\n3\tNew\tB-LOC\n4\tYork\tI-LOC\n",
    "GermEval's nested entities": "#\thttp://x\n1\tAnn\tB-PER\tO\n2\tsaw\tO\tO\n3\tNew\tB-LOC\tB-X\n4\tYork\tI-LOC\tO\n",
    "MultiCoNER": "# id 1\tdomain=en\nAnn _ _ B-PER\nsaw _ _ O\nNew _ _ B-LOC\nYork _ _ I-LOC\n",
    "BIOES": "Ann S-PER\nsaw O\nNew B-LOC\nYork E-LOC\n",
    "BILOU": "Ann U-PER\nsaw O\nNew B-LOC\nYork L-LOC\n",
    "CoNLL-2012": "#begin document (a); part 000\n"
    + "".join(
        f"a 0 {number} {word} X * - - - - {cell} *\n"
        for number, (word, cell) in enumerate([("Ann", "(PER)"), ("saw", "*"), ("New", "(LOC*"), ("York", "*)")])
    )
    + "\n#end document\n",
    "Prodigy": '{"text": "Ann saw New York", "spans": [{"start": 0, "end": 3, "label": "PER", "token_start": 0}, '
    '{"start": 8, "end": 16, "label": "LOC"}], "answer": "accept"}\n',
    "Prodigy's tokens": '{"text": "Ann saw\\n New York", "tokens": [{"start": 0, "end": 3}, {"start": 4, "end": 7}, '
    '{"start": 7, "end": 8}, {"start": 9, "end": 12}, {"start": 13, "end": 17}], "spans": [{"start": 0, "end": 3, '
    '"label": "PER"}, {"start": 9, "end": 17, "label": "LOC"}]}\n',
    "spaCy's documents": '{"text": "Ann saw New York", "ents": [{"start": 0, "end": 3, "label": "PER"}, '
    '{"start": 8, "end": 16, "label": "LOC"}]}\n',
    "spaCy's training pairs": '["Ann saw New York", {"entities": [[0, 3, "PER"], [8, 16, "LOC"]]}]\n',
    "doccano": '{"id": 1, "text": "Ann saw New York", "label": [[8, 16, "LOC"], [0, 3, "PER"]]}\n',
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text(LAYOUTS[name])
    assert list(read_entities(path)) == [ANN]


def test_a_word_may_be_a_number_or_a_hash_sign(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("1 CD O\n\n# S O\n2 CD B-X\n")
    assert [example.tokens for example in read_entities(path)] == [("1",), ("#", "2")]


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("\n# only a comment\n")
    assert list(read_entities(path)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("The cat sat.\n", r"line 1 begins a sentence in whose columns \('The cat sat\.'\) none has entity tags"),
        ("1\ta\tB-X\n2\tb\tO\n\n1\tc\tO\nx\td\tO\n", "line 5 has the ID 'x', expected a number"),
        ('{"text": "a", "spans": []}\n\n{"text"\n', "line 3 is not JSON"),
        ('{"spans": []}\n', "line 1 has no text: give an object"),
        ('{"text": "a"}\n', "line 1 has no list of spans"),
        ('{"text": "ab", "spans": [[1, 3, "X"]]}\n', "line 1 has a span of characters 1 to 3, which is no part of its"),
        ('{"text": "a b", "spans": [[1, 2, "X"]]}\n', "line 1 has a span of characters 1 to 2"),
        ('{"text": "ab", "spans": [[0, 1]]}\n', r"line 1 has the span \[0, 1\], expected start, end and label"),
        ('{"text": "ab", "spans": [[0, 1.5, "X"]]}\n', "line 1 has the span"),
        ('{"text": "ab", "spans": [{"start": 0, "end": 1}]}\n', "line 1 has the span"),
        ('{"text": "ab", "spans": [], "tokens": [{"start": 1, "end": 9}]}\n', "line 1 has the token"),
    ],
)
def test_bad_input(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text(text)
    with pytest.raises(InputError, match=f"data {message}"):
        list(read_entities(path))


def test_what_annotations_lose_is_said(tmp_path: Path) -> None:
    path = tmp_path / "data"
    lines = [
        '{"text": "Ann left. Bob too", "spans": [[0, 2, "PER"], [0, 8, "EVENT"], [10, 13, "PER"]]}',
        '{"text": "Ann", "spans": [], "answer": "reject"}',
        '{"text": "Ann. Bob", "spans": [[0, 8, "PAIR"]]}',
    ]
    path.write_text("\n".join(lines))
    with pytest.warns(ElmokitWarning, match=r"data: 1 of 3 examples .*; 1 of 4 spans overlap a longer one"):
        found = list(read_entities(path))
    assert [(example.tokens, example.spans) for example in found] == [
        (("Ann", "left", "."), (Span(0, 2, "EVENT"),)),
        (("Bob", "too"), (Span(0, 1, "PER"),)),
        (("Ann", ".", "Bob"), (Span(0, 3, "PAIR"),)),
    ]
    path.write_text('{"text": "Anna", "spans": [[0, 3, "PER"]]}')
    with pytest.warns(ElmokitWarning, match="1 of 1 spans begin or end inside a token and cover all of it"):
        assert [example.tags for example in read_entities(path)] == [("B-PER",)]


@needs_data("ner")
@pytest.mark.parametrize(("name", "expected"), [("dev", (2_001, 25_149, 966)), ("test", (2_077, 25_097, 1_088))])
def test_counts_of_universal_ner(name: str, expected: tuple[int, ...]) -> None:
    assert totals(read_entities(DATA / "ner" / "uner-ewt" / f"{name}.iob2.xz")) == expected


@needs_data("ner")
def test_texts_with_offsets_give_what_columns_give(tmp_path: Path) -> None:
    """A slice of WNUT, written in Prodigy's layout."""
    examples = list(islice(read_entities(DATA / "ner" / "wnut17" / "emerging.dev.conll"), 200))
    lines = []
    for example in examples:
        starts = [0]
        for token in example.tokens:
            starts.append(starts[-1] + len(token) + 1)
        tokens = [{"start": a, "end": a + len(t)} for a, t in zip(starts, example.tokens, strict=False)]
        spans = [{"start": starts[s.start], "end": starts[s.end] - 1, "label": s.type} for s in example.spans]
        lines.append(json.dumps({"text": " ".join(example.tokens), "tokens": tokens, "spans": spans}))
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(lines))
    assert list(read_entities(path)) == examples
    assert any(example.spans for example in examples)
