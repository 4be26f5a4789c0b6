import gzip
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from elmokit.errors import ConfigError, ElmokitWarning, InputError
from elmokit.tasks.sentiment.reader import (
    SentimentExample,
    SentimentTree,
    TreeNode,
    read_sentiment_labels,
    read_sst,
    read_trees,
)
from tests.data import DATA, needs_data

TREES = """(4 (2 It) (3 (2 is) (3 good)))
(1 (1 bad) (2 .))

(2 (2 It) (2 .))
(3 good)
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        path = tmp_path / "trees.txt"
        path.write_bytes(text.encode())
        return path

    return written


def spelled(path: Path, **options: Any) -> list[str]:
    return [f"{' '.join(tokens)} {label}" for tokens, label in read_sst(path, **options)]


def test_a_tree(write: Callable[[str], Path]) -> None:
    (tree,) = read_trees(write("(4 (2 It) (3 (2 is) (3 good)))"))
    nodes = [(2, 0, 1), (2, 1, 2), (3, 2, 3), (3, 1, 3), (4, 0, 3)]
    assert tree == SentimentTree(("It", "is", "good"), tuple(TreeNode(*node) for node in nodes))
    assert tree.root == SentimentExample(("It", "is", "good"), 4)


def test_sentences(write: Callable[[str], Path]) -> None:
    assert spelled(write(TREES)) == ["It is good 4", "bad . 1", "It . 2", "good 3"]
    assert spelled(write(TREES), num_classes=2) == ["It is good 1", "bad . 0", "good 1"]


def test_sentences_come_as_often_as_they_occur(write: Callable[[str], Path]) -> None:
    assert spelled(write("(3 good)\n(3 good)\n")) == ["good 3", "good 3"]


def test_phrases_come_once(write: Callable[[str], Path]) -> None:
    path = write(TREES)
    fine = ["It 2", "is 2", "good 3", "is good 3", "It is good 4", "bad 1", ". 2", "bad . 1", "It . 2"]
    assert spelled(path, phrases=True) == fine
    assert spelled(path, phrases=True, num_classes=2) == ["good 1", "is good 1", "It is good 1", "bad 0", "bad . 0"]


def test_a_phrase_with_two_labels_comes_with_each(write: Callable[[str], Path]) -> None:
    path = write("(3 (3 odd) (2 .))\n(1 (1 odd) (2 .))\n(4 odd)\n(4 odd)\n")
    assert spelled(path, phrases=True) == ["odd 3", ". 2", "odd . 3", "odd 1", "odd . 1", "odd 4"]
    assert spelled(path, phrases=True, num_classes=2) == ["odd 1", "odd . 1", "odd 0", "odd . 0"]


def test_escapes(write: Callable[[str], Path]) -> None:
    r"""What PTB escapes comes back, within words too; other backslashes stay."""
    words = [r"and\/or", r"\*\*", "-LRB-", ":-RRB-", "-LSB-", "-RCB-", r"a\b", "LRB", "``"]
    (example,) = read_sst(write(f"(2 {' '.join(f'(2 {word})' for word in words)})"))
    assert example.tokens == ("and/or", "**", "(", ":)", "[", "}", r"a\b", "LRB", "``")


def test_only_spaces_and_tabs_separate(write: Callable[[str], Path]) -> None:
    (example,) = read_sst(write("\ufeff( 2(2\t8\u00a01\\/2)\t( 3  \u2028 )  )\r\n"))
    assert example == SentimentExample(("8\u00a01/2", "\u2028"), 2)


def test_compressed_and_empty(tmp_path: Path) -> None:
    path = tmp_path / "trees.txt.gz"
    path.write_bytes(gzip.compress(b"\n(3 good)\n \r\n"))
    assert spelled(path) == ["good 3"]
    path.write_bytes(gzip.compress(b""))
    assert spelled(path) == []


@pytest.mark.parametrize(
    ("tree", "fault"),
    [
        ("(2 (2 a)", r"has 1 '\(' that nothing closes"),
        ("(2 (2 a)))", r"has '\)' outside of the tree"),
        ("(2 a) (2 b)", r"has '\(' outside of the tree"),
        ("2 a", "has '2' outside of the tree"),
        (")", r"has '\)' outside of the tree"),
        ("(2 a) b", "has 'b' outside of the tree"),
        ("()", "has a node without a label"),
        ("((2 a) (2 b))", "has a node without a label"),
        ("((2 a) 2)", "has a node without a label"),
        ("(2)", "has a node without a word"),
        ("(2 (2 a) (3))", "has a node without a word"),
        ("(2 a b)", "has 'b' in a node that is not empty"),
        ("(2 (2 a) b)", "has 'b' in a node that is not empty"),
        ("(2 a (2 b))", "has a node inside a node that holds a word"),
        ("(5 a)", "has the label '5', expected a number from 0 to 4"),
        ("(-1 a)", "has the label '-1'"),
        ("(good (2 a))", "has the label 'good'"),
        ("(02 a)", "has the label '02'"),
        ("(² a)", "has the label '²'"),
    ],
)
def test_malformed_trees(tree: str, fault: str, write: Callable[[str], Path]) -> None:
    examples = read_sst(write(f"(2 a)\n\n{tree}\n"))
    assert next(examples).tokens == ("a",)
    with pytest.raises(InputError, match=rf"trees\.txt line 3 {fault}"):
        next(examples)


def test_depth_is_no_limit(write: Callable[[str], Path]) -> None:
    depth = 20_000
    path = write("(2 " * depth + "a" + ")" * depth + "\n" + "(2 " * depth + "\n")
    trees = read_trees(path)
    assert len(next(trees).nodes) == depth
    with pytest.raises(InputError, match=r"line 2 has 20000 '\(' that nothing closes"):
        next(trees)


def test_other_numbers_of_classes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="num_classes is 3: choose 5, or 2"):
        read_sst(tmp_path / "none", num_classes=3)


def test_lines_with_labels(write: Callable[[str], Path]) -> None:
    bare = list(read_sentiment_labels(write("4\tIt's good.\r\n\n0\tNo\n"), input="text"))
    assert bare == [SentimentExample(("It", "'s", "good", "."), 4), SentimentExample(("No",), 0)]
    named = list(read_sentiment_labels(write("sentence\tLabel\nIt's good. \t1\n"), input="tokens", num_classes=2))
    assert named == [SentimentExample(("It's", "good."), 1)]
    assert list(read_sentiment_labels(write("label\ttext\n"), input="text")) == []
    assert list(read_sentiment_labels(write(""), input="text")) == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("2\tto\tmany", "line 2 has 2 tabs, expected one"),
        ("2 none", "line 2 has 0 tabs, expected one"),
        ("1\t \r", "line 2 has no text beside its label"),
    ],
)
def test_malformed_lines(line: str, fault: str, write: Callable[[str], Path]) -> None:
    with pytest.raises(InputError, match=rf"trees\.txt {fault}"):
        list(read_sentiment_labels(write(f"1\tfine\n{line}\n"), input="text", num_classes=2))


def test_unknown_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="input 'words' is unknown"):
        read_sentiment_labels(tmp_path / "none", input="words")  # type: ignore[arg-type]


# Three tokens of train hold a no-break space (`8 1/2`); a count of words without white space gives 163,560.
@pytest.mark.slow
@needs_data("sentiment")
@pytest.mark.parametrize(
    ("name", "sentences", "tokens", "binary", "phrases", "binary_phrases"),
    [
        ("train", 8_544, 163_563, 6_920, 159_274, 77_616),
        ("dev", 1_101, 21_274, 872, 24_772, 11_395),
        ("test", 2_210, 42_405, 1_821, 46_663, 21_931),
    ],
)
def test_counts_of_sst(name: str, sentences: int, tokens: int, binary: int, phrases: int, binary_phrases: int) -> None:
    path = DATA / "sentiment" / "sst" / "trees" / f"{name}.txt"
    examples = list(read_sst(path))
    assert (len(examples), sum(len(example.tokens) for example in examples)) == (sentences, tokens)
    assert sum(example.label != 2 for example in examples) == binary
    found = list(read_sst(path, phrases=True))
    assert len(found) == phrases == len({example.tokens for example in found})
    assert sum(example.label != 2 for example in found) == binary_phrases


@pytest.mark.parametrize(
    "text",
    [
        "It is fine .\tgood\nNo !\tbad\n",
        "good\tIt is fine .\nbad\tNo !\n",
        "id\ttext\tlabel\n1\tIt is fine .\tgood\n2\tNo !\tbad\n",
        '{"text": "It is fine .", "label": "good"}\n\n{"text": "No !", "label": "bad"}\n',
        '{"text": "It is fine .", "cats": {"bad": 0.0, "good": 1.0}}\n{"sentence": "No !", "accept": ["bad"]}\n',
        '{"text": "It is fine .", "label": ["good"]}\n{"text": "No !", "category": "bad"}\n',
    ],
)
def test_labels_of_any_words(text: str, write: Callable[[str], Path]) -> None:
    assert list(read_sentiment_labels(write(text), input="tokens")) == [
        SentimentExample(("It", "is", "fine", "."), "good"),
        SentimentExample(("No", "!"), "bad"),
    ]


def test_numbers_stay_numbers(write: Callable[[str], Path]) -> None:
    path = write('{"text": "a", "label": 4}\n{"text": "b", "label": 5}\n')
    assert [example.label for example in read_sentiment_labels(path, input="text")] == [4, "5"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("label\ttext\tid\ngood\tfine\t1\nbad\tno\n", "line 3 has 1 tabs, expected 2 as in the first line"),
        ("a\t \n", "line 1 has no (text|label) beside"),
        ('{"text": "a", "label": "x"}\n[1]\n', "line 2 is not an object: give an object such as"),
        ('{"label": "x"}\n', "line 1 has no text"),
        ('{"text": "a"}\n', "line 1 has the label None, expected one word or number"),
        ('{"text": "a", "label": ["x", "y"]}\n', "line 1 has the label"),
        ('{"text": "a", "label": "x"\n', "line 1 is not JSON"),
    ],
)
def test_malformed_labels(text: str, fault: str, write: Callable[[str], Path]) -> None:
    with pytest.raises(InputError, match=rf"trees\.txt {fault}"):
        list(read_sentiment_labels(write(text), input="text"))


def test_examples_that_an_annotator_skipped_are_counted(write: Callable[[str], Path]) -> None:
    path = write('{"text": "a", "label": "x", "answer": "ignore"}\n{"text": "a", "label": "x", "answer": "accept"}\n')
    with pytest.warns(ElmokitWarning, match=r"trees\.txt: 1 of 2 examples were not accepted"):
        assert len(list(read_sentiment_labels(path, input="text"))) == 1


def test_the_other_kind_of_input_is_named(write: Callable[[str], Path]) -> None:
    path = write("good\tIt works, really, and, yes, it does.\n" * 3)
    with pytest.warns(ElmokitWarning, match=r"trees\.txt looks like raw text.*--set model\.input=text"):
        list(read_sentiment_labels(path, input="tokens"))


@needs_data("sentiment")
def test_a_slice_of_sst_as_labeled_texts(write: Callable[[str], Path]) -> None:
    examples = list(islice(read_sst(DATA / "sentiment" / "sst" / "trees" / "dev.txt"), 100))
    path = write("".join(f"{' '.join(example.tokens)}\t{example.label}\n" for example in examples))
    assert list(read_sentiment_labels(path, input="tokens")) == examples
