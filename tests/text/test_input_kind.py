"""Raw text is distinguished from space-separated tokens, and shards are recognized."""

import json
import os
import warnings
from pathlib import Path

import pytest

from elmokit.errors import ConfigError, ElmokitWarning
from elmokit.text.input_kind import InputKind, actual_input, check_input, is_shard, looks_like, warn_of_files, watched
from elmokit.text.tokenize import tokenize

PROSE = (Path(__file__).parents[1] / "fixtures" / "prose.txt").read_text(encoding="utf-8").splitlines()[1:]
TOKENIZED = [" ".join(token.text for token in sentence) for line in PROSE[:40] for sentence in tokenize(line)]
NEWSPAPER = ["mr. <unk> is chairman of <unk> n.v. the dutch group", "he did n't say so at u.s. inc."] * 3


@pytest.mark.parametrize("begin", range(0, 60, 6))
def test_prose_is_raw_text(begin: int) -> None:
    lines = PROSE[begin : begin + 6]
    word = looks_like(lines, "tokens")
    assert word is not None and word in lines[0].split() and not word[-1].isalnum()
    assert looks_like(lines, "text") is None


@pytest.mark.parametrize("begin", range(0, 60, 6))
def test_tokenized_prose_is_tokens(begin: int) -> None:
    lines = TOKENIZED[begin : begin + 12]
    assert looks_like(lines, "tokens") is None
    assert looks_like(lines, "text") in {".", ",", "'s", "n't"}


def test_tokens_without_punctuation() -> None:
    """The Penn Treebank of language modeling has lost its punctuation, but not its abbreviations."""
    assert looks_like(NEWSPAPER, "tokens") is None
    assert looks_like(NEWSPAPER, "text") == "<unk>"


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [""],
        ["play"],
        ["They play."],
        ["They play ."],
        ["etc.", "e.g.", "i.e.", "Inc.", "Mr."],
        [",", ".", "n't", "'s"],
        ["Quoi ?", "Non !", "Si ; mais voilà :", "Où ?"],
        ["die Katze schläft", "der Hund bellt", "es regnet"] * 50,
        ["3.", "1,5 2,5 3,5", "4. 5. 6."],
    ],
    ids=[
        "nothing",
        "blank",
        "word",
        "short text",
        "short tokens",
        "abbreviations",
        "marks",
        "French",
        "none",
        "numbers",
    ],
)
@pytest.mark.parametrize("input", ["tokens", "text"])
def test_no_false_alarm(lines: list[str], input: InputKind) -> None:
    assert looks_like(lines, input) is None


def test_other_scripts() -> None:
    assert looks_like(["你好 吗。", "我 很 好，谢谢。", "再见 了。"], "tokens") == "吗。"
    assert looks_like(["你好 吗 。", "我 很 好 ， 谢谢 。", "再见 。"], "text") == "。"


def test_only_the_first_words_count() -> None:
    assert looks_like([*TOKENIZED[:80], *PROSE], "tokens") is None


def test_an_unknown_kind() -> None:
    with pytest.raises(ConfigError, match="input 'html' is unknown: choose tokens or text"):
        check_input("html")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"format": "elmokit-corpus", "version": 1}, True),
        ({"num_words": 3, "key": {}}, False),  # of a run's folder
        (["elmokit-corpus"], False),
        (None, False),
    ],
)
def test_shards_hold_tokens(tmp_path: Path, content: object, expected: bool) -> None:
    if content is not None:
        (tmp_path / "corpus.json").write_text(json.dumps(content))
    path = tmp_path / "shard-00000.txt"
    assert is_shard(path) is expected
    assert actual_input(path, "text") == ("tokens" if expected else "text")
    assert actual_input(path, "tokens") == "tokens"


def test_a_broken_corpus_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "corpus.json").write_text("{")
    assert not is_shard(tmp_path / "a.txt")


def test_files_are_looked_at_once(tmp_path: Path) -> None:
    """The first file with text speaks for all; pipes and what cannot be read are passed over."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty.txt").write_text("\n \n")
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("\n".join(PROSE), encoding="utf-8")
    paths = [tmp_path / name for name in ("missing", "pipe", "empty.txt", "a.txt", "b.txt")]
    with pytest.warns(ElmokitWarning, match=r"a\.txt looks like raw text .* --input text") as found:
        warn_of_files(paths, "tokens")
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_files(paths, "text")


@pytest.mark.parametrize("repeat", [1, 30], ids=["few words", "many words"])
def test_lines_that_are_passed_on_are_looked_at(repeat: int) -> None:
    lines = TOKENIZED[:10] * repeat
    with pytest.warns(ElmokitWarning, match="standard input looks like tokens already .* --input tokens") as found:
        assert list(watched(lines, "text", "standard input")) == lines
    assert len(found) == 1
