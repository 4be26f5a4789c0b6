import bz2
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from elmokit.errors import ConfigError, ElmokitWarning, InputError
from elmokit.tasks.nli.reader import NliExample, read_nli
from tests.data import DATA, needs_data


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        path = tmp_path / "pairs"
        path.write_bytes(text.encode())
        return path

    return written


def pair(premise: str, hypothesis: str, label: str) -> str:
    record = {"gold_label": label, "sentence1": premise, "sentence2": hypothesis, "sentence1_binary_parse": "( x )"}
    return json.dumps(record) + "\n"


def test_json_lines(write: Callable[[str], Path]) -> None:
    path = write(pair("It rains . ", "It's wet.", "entailment") + "\r\n\n" + pair("No.  No.", "Yes", "contradiction"))
    assert list(read_nli(path, input="tokens")) == [
        NliExample(("It", "rains", "."), ("It's", "wet."), "entailment"),
        NliExample(("No.", "No."), ("Yes",), "contradiction"),
    ]
    assert list(read_nli(path, input="text")) == [
        NliExample(("It", "rains", "."), ("It", "'s", "wet", "."), "entailment"),
        NliExample(("No", ".", "No", "."), ("Yes",), "contradiction"),
    ]


def test_pairs_without_a_gold_label_are_counted(write: Callable[[str], Path]) -> None:
    path = write(pair("a", "b", "-") + pair("a", "c", "neutral") + pair("", "", "-"))
    with pytest.warns(ElmokitWarning, match="pairs has 2 of 3 pairs without a gold label"):
        assert list(read_nli(path, input="tokens")) == [NliExample(("a",), ("c",), "neutral")]


SICK = (
    "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\r\n"
    "1\tA man sings\tNobody sings\t3.6\tCONTRADICTION\r\n"
    '2\t"A man" sings\t"Sing ""it"" "\t3.6\tNeutral\r\n'
)


def test_sick(write: Callable[[str], Path]) -> None:
    assert list(read_nli(write(SICK), input="tokens")) == [
        NliExample(("A", "man", "sings"), ("Nobody", "sings"), "contradiction"),
        NliExample(('"A', 'man"', "sings"), ("Sing", '"it"'), "neutral"),
    ]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ('"He said ""no""."', 'He said "no".'),
        ('"""no"""', '"no"'),
        ('"no"', '"no"'),
        ('"a" and "b"', '"a" and "b"'),
        ('a ""b"" c', 'a ""b"" c'),
        ('""', '""'),
        ('"', '"'),
        ('"He said ""no"', 'He said "no'),
        ('"a" ""b""', '"a" ""b""'),
    ],
)
def test_quoted_cells(cell: str, expected: str, write: Callable[[str], Path]) -> None:
    (example,) = read_nli(write(f"sentence1\tsentence2\tgold_label\nx\t{cell}\tneutral\n"), input="tokens")
    assert example.hypothesis == tuple(expected.split())


def test_columns_are_found_by_name(write: Callable[[str], Path]) -> None:
    header = "\ngold_label\tsentence1_binary_parse\tsentence1\tsentence2\tpairID\n"
    (example,) = read_nli(write(f"{header}neutral\t( a b )\ta b\tc\t7\n"), input="tokens")
    assert example == NliExample(("a", "b"), ("c",), "neutral")


def test_compressed_and_empty(tmp_path: Path, write: Callable[[str], Path]) -> None:
    path = tmp_path / "pairs.jsonl.bz2"
    path.write_bytes(bz2.compress(pair("a", "b", "neutral").encode()))
    assert len(list(read_nli(path, input="tokens"))) == 1
    assert list(read_nli(write(" \r\n\n"), input="tokens")) == []
    assert list(read_nli(write("sentence1\tsentence2\tgold_label\n"), input="tokens")) == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"gold_label": ', r"is not JSON \(Expecting value\)"),
        ("sentence1\tsentence2\tgold_label", r"is not JSON \(Expecting value\)"),
        ('{"a": ' * 100_000, r"is not JSON \(nested too deeply or a number too long\)"),
        ('{"a": ' + "1" * 10_000 + "}", r"is not JSON \(nested too deeply or a number too long\)"),
        ("[]", "has no text under 'sentence1'"),
        ('{"sentence1": "a", "gold_label": "neutral"}', "has no text under 'sentence2'"),
        ('{"sentence1": "a", "sentence2": "b", "gold_label": null}', "has no text under 'gold_label'"),
        (pair("a", "b", "maybe"), "has the label 'maybe': accepted are entailment, neutral, contradiction and -"),
        (pair("a", "b", ""), "has the label ''"),
        (pair(" \n", "b", "neutral"), "has an empty premise"),
        (pair("a", "", "neutral"), "has an empty hypothesis"),
    ],
)
def test_malformed_json_lines(line: str, fault: str, write: Callable[[str], Path]) -> None:
    pairs = read_nli(write(pair("a", "b", "neutral") + "\n" + line), input="text")
    assert next(pairs).premise == ("a",)
    with pytest.raises(InputError, match=f"pairs line 3 {fault}"):
        next(pairs)


def test_malformed_tables(write: Callable[[str], Path]) -> None:
    header = "sentence1\tsentence2\tgold_label\n"
    with pytest.raises(InputError, match="line 3 has 2 columns, expected 3 as in the first line"):
        list(read_nli(write(f"{header}\na\tb\n"), input="tokens"))
    with pytest.raises(InputError, match="line 2 has an empty premise"):
        list(read_nli(write(f"{header}\tb\tneutral\n"), input="tokens"))
    with pytest.raises(InputError, match="line 2 has the label 'x'"):
        list(read_nli(write(f"{header}a\tb\tx\n"), input="tokens"))
    with pytest.raises(InputError, match="line 1 is neither a JSON object nor names a column sentence2 or sentence_B"):
        list(read_nli(write("sentence1\tgold_label\n"), input="tokens"))


def test_unknown_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="input 'words' is unknown"):
        read_nli(tmp_path / "none", input="words")  # type: ignore[arg-type]


@pytest.mark.slow
@needs_data("nli")
def test_counts_of_snli() -> None:
    folder = DATA / "nli" / "snli-dev-test"
    examples = list(read_nli(folder / "snli_dev.jsonl.xz", input="tokens"))
    assert (len(examples), sum(len(example.premise) + len(example.hypothesis) for example in examples)) == (
        9_842,
        231_663,
    )
    assert len(list(read_nli(folder / "snli_test.jsonl.xz", input="tokens"))) == 9_824


@needs_data("nli")
@pytest.mark.parametrize(("name", "expected"), [("train", 4_500), ("dev", 500), ("test", 4_927)])
def test_counts_of_sick(name: str, expected: int) -> None:
    assert len(list(read_nli(DATA / "nli" / "sick" / f"SICK_{name}.txt", input="text"))) == expected


@pytest.mark.slow
@needs_data("nli")
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("original", (1_666, 200, 400)),
        ("revised_combined", (6_664, 800, 1_600)),
        ("all_combined", (8_330, 1_000, 2_000)),
    ],
)
def test_counts_of_counterfactual_pairs(kind: str, expected: tuple[int, ...]) -> None:
    folder = DATA / "nli" / "snli-counterfactual" / kind
    sets = [list(read_nli(folder / f"{name}.tsv.xz", input="tokens")) for name in ("train", "dev", "test")]
    assert tuple(map(len, sets)) == expected
    assert not any('""' in token for pairs in sets for example in pairs for token in example.premise)
