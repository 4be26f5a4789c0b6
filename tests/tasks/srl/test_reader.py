import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elmokit.errors import InputError
from elmokit.tasks.spans import Span
from elmokit.tasks.srl.reader import (
    Predicate,
    SrlExample,
    SrlSentence,
    read_conll2005,
    read_conll2012,
    read_ewt_propbank,
)
from tests.data import DATA, needs_data

EWT = """\
doc/one 0 0 The DT (NP* - - (ARG1* *
doc/one 0 1 dog NN *) - - *) (ARG0*)
doc/one 0 2 was VBD (VP* - - * *
doc/one 0 3 told VBN * tell tell.01 (V*) *
doc/one 0 4 , , * - - * *
doc/one 0 5 who WP * - - * (R-ARG0*)
doc/one 0 6 x NN * - - * (V*)
doc/one 0 7 rayed VBD * xray xray.01 * *
doc/one 0 8 to TO * - - (C-ARG1* *
doc/one 0 9 sit VB *) - - *) *

doc/one 1 0 Yes UH * - -
""".replace(" ", "\t")
TELL = Predicate(3, (Span(0, 2, "ARG1"), Span(3, 4, "V"), Span(8, 10, "C-ARG1")))
XRAY = Predicate(7, (Span(1, 2, "ARG0"), Span(5, 6, "R-ARG0"), Span(6, 7, "V")))

# Two columns of arguments in the first sentence: `plans` has a lemma but no column of its own.
CONLL2012 = """\
#begin document (nw/doc/00/doc_0001); part 000
nw/doc/00/doc_0001   0   0    She   PRP  (TOP(S(NP*)       -    -   -   Ann    *    (ARG0*)   *        (4)
nw/doc/00/doc_0001   0   1    plans VBZ  (VP*            plan   -   -   Ann    *    *         *          -
nw/doc/00/doc_0001   0   2    took  VBD  *               take  08   2   Ann    *    (V*       *          -
nw/doc/00/doc_0001   0   3    off   RP   *                  -   -   -   Ann    *    *)        *        (1|(2
nw/doc/00/doc_0001   0   4    and   CC   *                  -   -   -   Ann    *    *         *        2)|1)
nw/doc/00/doc_0001   0   5    flew  VBD  *))             fly    01   -   Ann    *    *         (V*)       -

nw/doc/00/doc_0001   0   0    Bye   UH   (TOP*)             -   -   -   Ann    *          -

#end document
"""

PROPS = "- (A0* *\n- *) *\nsay (V*) *\n- (A1* (A0*)\nrun *) (V*)\n\n-\n"
WORDS = "The\nman\nsaid\nhe\nran\n\nOh\n"


def write(folder: Path, text: str, name: str = "data") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_ewt_propbank(tmp_path: Path) -> None:
    first, second = read_ewt_propbank(write(tmp_path, EWT))
    assert first.tokens == tuple("The dog was told , who x rayed to sit".split())
    assert first.predicates == (TELL, XRAY)
    assert second == SrlSentence(("Yes",))
    assert second.examples() == ()


def test_an_example_for_each_predicate(tmp_path: Path) -> None:
    sentence = next(read_ewt_propbank(write(tmp_path, EWT)))
    told, rayed = sentence.examples()
    tags = tuple("B-ARG1 I-ARG1 O B-V O O O O B-C-ARG1 I-C-ARG1".split())
    assert told == SrlExample(sentence.tokens, 3, tags)
    assert rayed.predicate == 7
    assert rayed.tags == tuple("O B-ARG0 O O O B-R-ARG0 B-V O O O".split())


def test_conll2012(tmp_path: Path) -> None:
    first, second = read_conll2012(write(tmp_path, CONLL2012))
    assert first.tokens == ("She", "plans", "took", "off", "and", "flew")
    assert first.predicates == (
        Predicate(2, (Span(0, 1, "ARG0"), Span(2, 4, "V"))),
        Predicate(5, (Span(5, 6, "V"),)),
    )
    assert second == SrlSentence(("Bye",))


def test_a_predicate_of_several_words_is_where_its_frameset_is(tmp_path: Path) -> None:
    rows = "d 0 0 x X * - - - - * (V* -\nd 0 1 rays X * xray 01 - - * *) -\n"
    (sentence,) = read_conll2012(write(tmp_path, rows))
    assert sentence.predicates == (Predicate(1, (Span(0, 2, "V"),)),)
    (sentence,) = read_conll2012(write(tmp_path, rows.replace("xray 01", "- -")))
    assert sentence.predicates == (Predicate(0, (Span(0, 2, "V"),)),)


def test_conll2005(tmp_path: Path) -> None:
    props, words = write(tmp_path, PROPS, "props"), write(tmp_path, WORDS, "words")
    first, second = read_conll2005(props, words)
    assert first.tokens == ("The", "man", "said", "he", "ran")
    assert first.predicates == (
        Predicate(2, (Span(0, 2, "A0"), Span(2, 3, "V"), Span(3, 5, "A1"))),
        Predicate(4, (Span(3, 4, "A0"), Span(4, 5, "V"))),
    )
    assert second == SrlSentence(("Oh",))
    both = "\n".join(f"{word} {prop}".strip() for word, prop in zip(WORDS.split("\n"), PROPS.split("\n"), strict=True))
    assert list(read_conll2005(write(tmp_path, both))) == [first, second]


def test_compressed(tmp_path: Path) -> None:
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(EWT.encode()))
    assert [len(sentence.tokens) for sentence in read_ewt_propbank(path)] == [10, 1]


def test_words_and_props_of_different_texts(tmp_path: Path) -> None:
    props = write(tmp_path, PROPS, "props")
    with pytest.raises(
        InputError,
        match=r"words line 7 begins a sentence of 2 tokens but .*props line 7 begins a sentence of 1 tokens:",
    ):
        list(read_conll2005(props, write(tmp_path, f"{WORDS}no\n", "words")))
    with pytest.raises(InputError, match=r"words has no more sentences but .*props line 7 begins"):
        list(read_conll2005(props, write(tmp_path, WORDS[:-4], "words")))
    with pytest.raises(InputError, match=r"words line 9 begins a sentence of 1 tokens but .*props has no more"):
        list(read_conll2005(props, write(tmp_path, f"{WORDS}\nno\n", "words")))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("(ARG1*", "(ARG1", r"line 1 has '\(ARG1' \(no argument\), expected \*, \(LABEL\*, \*\) or \(LABEL\*\)\.$"),
        ("(ARG1*", "(ARG1(ARG2*", r"line 1 has '\(ARG1\(ARG2\*' \(opens two arguments\), expected"),
        ("(V*)", "(V*))", r"line 4 has '\(V\*\)\)' \(no argument\)"),
        ("(V*)", "(*)", r"line 4 has '\(\*\)' \(no argument\)"),
        ("\t*)\t(ARG0*)", "\t*\t(ARG0*)", r"line 4 opens V inside the ARG1 of line 1: .* must not nest\.$"),
        ("(ARG1*\t*\n", "*\t*\n", r"line 2 closes an argument that is not open: balance the brackets\.$"),
        ("*)\t*\n\n", "*\t*\n\n", r"line 9 opens C-ARG1, which the sentence never closes: balance"),
        ("tell.01", "-", r"line 1 begins a sentence with 1 predicates and 2 columns of arguments: there must be"),
        ("UH\t*\t-\t-", "UH\t*\tyes\tyes.01", r"line 12 begins a sentence with 1 predicates and 0 columns"),
        ("\t0\t2\twas", "\t0\t3\twas", r"line 3 has sentence '0' and token '3', expected a number and 2: give"),
        ("one\t1\t0", "one\tx\t0", r"line 12 has sentence 'x' and token '0'"),
        ("(R-ARG0*)", "", r"line 6 has '' \(no argument\)"),
        ("\twas\tVBD", "\twas", r"line 3 has 9 columns, expected 10 \(document, .* 2 more as in the previous row"),
    ],
)
def test_bad_lines(before: str, after: str, message: str, tmp_path: Path) -> None:
    assert before in EWT
    with pytest.raises(InputError, match=message):
        list(read_ewt_propbank(write(tmp_path, EWT.replace(before, after, 1))))


def test_a_predicate_on_no_token(tmp_path: Path) -> None:
    text = CONLL2012.replace("(V*) ", "(A*) ")
    with pytest.raises(
        InputError, match=r"line 2 begins a sentence whose argument column 2 has no \(V\*\): mark its predicate"
    ):
        list(read_conll2012(write(tmp_path, text)))
    with pytest.raises(InputError, match="line 1 begins a sentence with 1 predicates and 2 columns"):
        list(read_conll2005(write(tmp_path, PROPS.replace("run", "-")), write(tmp_path, WORDS, "words")))


LITBANK = "#begin document (a_brat); part 0\na_brat\t0\t0\tHe\t_\t_\t_\t_\t_\t_\t_\t_\t(0)\n#end document\n"
LITBANK_ROWS = "a\t0\t0\tHe\t_\t_\t_\t_\t_\t_\t_\t_\t(0)\na\t0\t1\tsat\t_\t_\t_\t_\t_\t_\t_\t_\t\n"
ONTOGUM = "# begin document \n0\tHe\t(1)\n# end document\n"
NER = "EU NNP I-NP I-ORG\n\nPeter NNP I-NP I-PER\n"
CONLLU = "# newdoc id = a\n1\tHe\the\tPRON\tPRP\t_\t0\troot\t0:root\t_\n"
WIDE_EWT = "d\t0\t0\tgo\tVB\t*\tgo\tgo.01\t(V*)\t*\t*\t*\n"


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_ewt_propbank, CONLL2012, "line 1 has 1 column, expected 8"),
        (read_ewt_propbank, PROPS, "line 1 has 1 column, expected 8"),
        (read_ewt_propbank, NER, "line 1 has 1 column, expected 8"),
        (read_ewt_propbank, LITBANK, "line 1 has 1 column, expected 8"),
        (read_ewt_propbank, LITBANK_ROWS, "line 1 begins a sentence with 2 predicates and 5 columns"),
        (read_ewt_propbank, ONTOGUM, "line 1 has 1 column, expected 8"),
        (read_ewt_propbank, CONLLU, "line 1 has 1 column, expected 8"),
        (read_ewt_propbank, CONLLU[16:], "line 1 has sentence 'He' and token 'he'"),
        (read_conll2012, EWT, r"line 1 has 10 columns, expected 12 \(document, .*, coreference\)"),
        (read_conll2012, WIDE_EWT, r"line 1 has part '0', token '0' and coreference '\*', expected numbers"),
        (read_conll2012, PROPS, "line 1 has 3 columns, expected 12"),
        (read_conll2012, NER, "line 1 has 4 columns, expected 12"),
        (read_conll2012, LITBANK, r"line 2 has '_' \(no argument\)"),
        (read_conll2012, LITBANK.replace("(0)", ""), "line 2 has part '0', token '0' and coreference '_'"),
        (read_conll2012, ONTOGUM, "line 2 has 3 columns, expected 12"),
        (read_conll2012, CONLLU, "line 2 has 10 columns, expected 12"),
        (read_conll2005, PROPS, r"line 1 has '\(A0\*' for a predicate, expected a lemma or -: give the file of words"),
        (read_conll2005, EWT, "line 1 begins a sentence with 10 predicates and 8 columns"),
        (read_conll2005, CONLL2012, "line 2 has 14 columns, expected 5"),
        (read_conll2005, NER, "line 1 begins a sentence with 1 predicates and 2 columns"),
    ],
)
def test_files_of_another_format(
    read: Callable[[Path], Iterator[SrlSentence]], text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=f"data {message}"):
        list(read(write(tmp_path, text)))


@pytest.mark.slow
@needs_data("srl")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train", (12_522, 204_201, 40_430, 1_982, 11)),
        ("dev", (1_967, 24_886, 4_961, 437, 2)),
        ("test", (2_058, 24_944, 4_795, 523, 0)),
    ],
)
def test_counts_of_ewt_propbank(name: str, expected: tuple[int, ...]) -> None:
    sentences = list(read_ewt_propbank(DATA / "srl" / "ewt-propbank" / f"{name}.gold_conll.xz"))
    examples = [example for sentence in sentences for example in sentence.examples()]
    assert (
        len(sentences),
        sum(len(sentence.tokens) for sentence in sentences),
        len(examples),
        sum(not sentence.predicates for sentence in sentences),
        sum(example.tags[example.predicate] != "B-V" for example in examples),
    ) == expected
    assert all(example.tags.count("B-V") == 1 for example in examples)
