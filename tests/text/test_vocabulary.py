import bz2
import gzip
import lzma
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from elmokit.errors import InputError, VocabularyError
from elmokit.text.vocabulary import SPECIALS, Vocabulary, read_vocabulary, write_vocabulary
from tests import strategies


def read(text: str | bytes, tmp_path: Path, name: str = "vocab.txt") -> Vocabulary:
    (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return read_vocabulary(tmp_path / name)


def test_ids_follow_the_lines(tmp_path: Path) -> None:
    vocabulary = read("<S>\n</S>\n<UNK>\nthe\nThe\n", tmp_path)
    assert vocabulary.tokens == ("<S>", "</S>", "<UNK>", "the", "The")
    assert (vocabulary.begin_id, vocabulary.end_id, vocabulary.unknown_id) == (0, 1, 2)
    assert len(vocabulary) == 5 and "the" in vocabulary and "THE" not in vocabulary
    ids = vocabulary.to_ids(["the", "THE", "<S>", "The", "<UNK>"])
    assert ids.tolist() == [3, 2, 0, 4, 2] and ids.dtype == np.int64
    assert vocabulary.to_ids([]).shape == (0,)
    assert repr(vocabulary) == "Vocabulary(5 tokens)"


def test_lines_are_stripped_as_the_peers_do(tmp_path: Path) -> None:
    text = "<S> \r\n\t</S>\r\n<UNK>\r\n  padded\u3000\nwith space\nlast"
    assert read(text, tmp_path).tokens[3:] == ("padded", "with space", "last")


def test_other_line_separators_stay_inside_words(tmp_path: Path) -> None:
    text = "<S>\n</S>\n<UNK>\na\u2028b\nc\x85d\ne\rf\ng\x0bh\ni\x1cj\n"
    assert read(text, tmp_path).tokens[3:] == ("a\u2028b", "c\x85d", "e\rf", "g\x0bh", "i\x1cj")


def test_blank_lines_are_the_empty_word(tmp_path: Path) -> None:
    vocabulary = read("<S>\n</S>\n<UNK>\na\n\n  \nb\n", tmp_path)
    assert vocabulary.tokens[3:] == ("a", "", "", "b")
    assert vocabulary.to_ids([""]).tolist() == [5]


def test_maxtermid_is_skipped(tmp_path: Path) -> None:
    vocabulary = read("!!!MAXTERMID\n<S>\n</S>\n<UNK>\n!!!MAXTERMID \n!!!MAXTERMIDS\n", tmp_path)
    assert vocabulary.tokens[3:] == ("!!!MAXTERMIDS",)


def test_of_duplicates_the_last_counts(tmp_path: Path) -> None:
    vocabulary = read("<S>\n</S>\n<UNK>\na\nb\na\na\n", tmp_path)
    assert vocabulary.to_ids(["a", "b"]).tolist() == [6, 4]
    assert vocabulary.num_duplicates == 2
    assert Vocabulary(SPECIALS).num_duplicates == 0


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)]
)
def test_compressed_files(suffix: str, compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    vocabulary = read(compress("<S>\n</S>\n<UNK>\nnaïve\n".encode()), tmp_path, f"vocab.txt{suffix}")
    assert vocabulary.tokens[3:] == ("naïve",)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["</S>", "<UNK>"], r"lacks <S>: .*\(<S> belongs on line 1\)"),
        (["<S>", "a", "<UNK>"], r"lacks </S>: .*\(</S> belongs on line 2\)"),
        (["<S>", "</S>", "a"], r"lacks <UNK>: .*\(<UNK> belongs on line 3\)"),
        (["</S>", "<S>", "<UNK>"], "has <S> on line 2"),
        (["<S>", "<UNK>", "</S>"], "has </S> on line 3"),
        (["<S>", "</S>", "a", "<UNK>"], "has <UNK> on line 4"),
        (["<S>", "</S>", "<UNK>", "</S>"], "has </S> on lines 2, 4"),
        (["<s>", "</s>", "<unk>"], "lacks <S>"),
        ([], "lacks <S>"),
    ],
)
def test_specials_out_of_place(tokens: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match=rf"^the vocabulary {message}.*\.$"):
        Vocabulary(tokens)
    with pytest.raises(VocabularyError, match=rf"vocab\.txt {message}.*\.$"):
        read("".join(f"{token}\n" for token in tokens), tmp_path)


def test_equality_is_by_words() -> None:
    assert Vocabulary([*SPECIALS, "a"]) == Vocabulary(iter([*SPECIALS, "a"]))
    assert Vocabulary([*SPECIALS, "a"]) != Vocabulary([*SPECIALS, "b"])
    assert Vocabulary(SPECIALS) != SPECIALS
    with pytest.raises(TypeError):
        hash(Vocabulary(SPECIALS))


@pytest.mark.slow
@given(strategies.vocabularies)
def test_written_files_come_back(vocabulary: Vocabulary) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_vocabulary(vocabulary, Path(folder, "vocab.txt"))
        assert read_vocabulary(Path(folder, "vocab.txt")) == vocabulary


@pytest.mark.parametrize(
    "word", [" a", "a\n", "a\nb", "a\u3000", "!!!MAXTERMID", "\ud800", "x\udfffy", "\n", " ", "\x1c"]
)
def test_words_that_would_not_come_back_are_refused(word: str, tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match=r"cannot be stored in a vocabulary file.*\.$") as caught:
        write_vocabulary(Vocabulary([*SPECIALS, "fine", word]), tmp_path / "vocab.txt")
    assert repr(word) in str(caught.value)
    assert not (tmp_path / "vocab.txt").exists()


@pytest.mark.parametrize("data", [b"<S>\n</S>\n<UNK>\n\xff\n", b"<S>\n\xed\xa0\x80\n"])
def test_files_that_are_not_utf8(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"vocab\.txt is not UTF-8 text .*\.$"):
        read(data, tmp_path)
