"""What is passed as texts and tokens: the right kinds are taken, the wrong ones named by their place."""

from collections import UserString
from typing import Any

import numpy as np
import pytest

from elmokit.errors import ElmokitWarning, InputError
from elmokit.text.tokens import check_sentences, check_texts, check_tokens
from tests.formats.makers import assert_one_sentence

NAN = float("nan")


class Table:
    """What a pandas table looks like from outside."""

    def __iter__(self) -> Any:
        return iter(["text", "label"])

    def iterrows(self) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("tokens", [["a", "b"], ("a", "b"), np.array(["a", "b"]), iter(["a", "b"])])
def test_series_of_str_are_tokens(tokens: Any) -> None:
    assert check_tokens(tokens) == ("a", "b")


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (0, r"0 \(int\): tokens are str; convert numbers with str\(\)"),
        (False, r"False \(bool\)"),
        (0.5, r"0\.5 \(float\): tokens are str; convert numbers"),
        (None, r"None: tokens are str; leave empty cells out"),
        (NAN, r"nan \(float\): tokens are str; leave empty cells out, or fill them"),
        (b"a", r"b'a' \(bytes\): tokens are str; decode bytes first"),
        (b"", r"b'' \(bytes\)"),
        ([], r"\[\] \(list\): tokens are str; convert it first"),
        (["b"], r"\['b'\] \(list\)"),
        (np.int64(0), r".*\(int64\)"),
        (UserString(""), r".*\(UserString\)"),
        (np.array([]), r".*\(ndarray\)"),
    ],
)
def test_a_wrong_token_is_named(token: Any, words: str) -> None:
    for call in (
        lambda: check_tokens(["a", token], "text 7"),
        lambda: list(check_texts(["", ("x",), ["a", token]], "inputs"))[2],
        lambda: list(check_sentences([["a", token]])),
    ):
        with pytest.raises(InputError, match=rf"^token 1 of (text 7|text 2|sentence 0) is {words}") as caught:
            call()
        assert_one_sentence(caught.value)


@pytest.mark.parametrize("text", [None, NAN, 0, 1.5, b"", b"abc", {}, {"a"}, np.array("abc"), np.float32(1), object()])
def test_a_wrong_text_is_named(text: Any) -> None:
    with pytest.raises(InputError, match=r"^text 1 is .*: a text is a str, or a list of its tokens; ") as caught:
        list(check_texts(["a", text], "inputs"))
    assert_one_sentence(caught.value)
    with pytest.raises(InputError, match=r"^sentence 1 is .*: a sentence is a list of tokens \(str\); ") as caught:
        list(check_sentences([["a"], text]))
    assert_one_sentence(caught.value)


@pytest.mark.parametrize("texts", ["abc", "", None, 3, NAN, b"abc", {"a": 1}, {"a"}, np.array("a"), Table()])
def test_what_is_no_list_is_refused_at_once(texts: Any) -> None:
    for check in (check_texts, check_sentences):
        if isinstance(texts, Table) and check is check_sentences:
            continue
        with pytest.raises(InputError, match=r"^inputs is ") as caught:
            check(texts, "inputs")
        assert_one_sentence(caught.value)


def test_nothing_is_read_ahead() -> None:
    stream = iter(["a", "b"])
    texts = check_texts(stream, "inputs")
    assert next(stream) == "a"
    assert list(texts) == ["b"]


def test_sentences_in_the_place_of_tokens_are_warned_about_once() -> None:
    documents = [["The play was cancelled.", "They play."], ["One more. Two more."]]
    with pytest.warns(ElmokitWarning, match="text 0 is a list.*'The play was cancelled.' has spaces in it") as caught:
        assert len(list(check_texts(documents, "inputs"))) == 2
    assert len(caught) == 1
    list(check_texts([["The", "play"], "The play.", ["a\u00a0b"]], "inputs"))  # no warning
