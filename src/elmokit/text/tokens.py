"""The single check of what callers pass as texts and tokens.

An error says which text and which token is wrong, its type, and what to do about it. Values come from tables as often
as from text, so the usual wrong ones are empty cells (None, NaN), numbers and bytes.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from elmokit.errors import ElmokitWarning, InputError

_NOT_A_LIST = (bytes, bytearray, memoryview, Mapping, Set)


def check_tokens(tokens: Any, place: str = "the sentence") -> tuple[str, ...]:
    """Check that a sentence is a series of str, and return its tokens.

    Args:
        tokens: a list or any other ordered series of str.
        place: the name of the sentence in messages, such as "text 3".

    Raises:
        InputError: if it is a str, is not a series, or has an item that is not a str.
    """
    if isinstance(tokens, str):
        raise InputError(
            f"{place} is the str {tokens[:40]!r}: a sentence is a list of tokens here; split it with "
            "elmokit.tokenize first."
        )
    given = _series(tokens, place, "a sentence is a list of tokens (str)")
    for number, token in enumerate(given):
        if not isinstance(token, str):
            raise InputError(f"token {number} of {place} is {_described(token)}: tokens are str; {_remedy(token)}.")
    return given


def check_text(text: Any, place: str) -> str | tuple[str, ...]:
    """Check a text and return it: a raw text (str) unchanged, or the tokens of a sentence."""
    if isinstance(text, str):
        return text
    _series(text, place, "a text is a str, or a list of its tokens", consume=False)
    return check_tokens(text, place)


def check_texts(texts: Any, name: str) -> Iterator[str | tuple[str, ...]]:
    """Check texts one by one, each raw (str) or as tokens; whether it is a series at all is checked immediately."""
    if isinstance(texts, str):
        raise InputError(f"{name} is the str {texts[:40]!r}: give a list of texts, e.g. [text].")
    if hasattr(texts, "iterrows"):  # a pandas table iterates over the names of its columns
        raise InputError(f"{name} is a table ({type(texts).__name__}): give one of its columns, e.g. df['text'].")
    _series(texts, name, "texts come as a list", consume=False)
    return _watch_for_sentences(check_text(text, f"text {number}") for number, text in enumerate(texts))


def _watch_for_sentences(texts: Iterator[str | tuple[str, ...]]) -> Iterator[str | tuple[str, ...]]:
    """Warn once if what should be tokens looks like a list of sentences."""
    warned = False
    for number, text in enumerate(texts):
        if not warned and not isinstance(text, str):
            sentence = next((token for token in text if " " in token.strip()), None)
            if sentence is not None:
                warned = True
                warnings.warn(
                    f"text {number} is a list, so its items are taken as tokens, but {sentence[:40]!r} has spaces in "
                    "it: give raw text as a str.",
                    ElmokitWarning,
                    stacklevel=3,
                )
        yield text


def check_sentences(sentences: Any, name: str = "sentences") -> Iterator[tuple[str, ...]]:
    """Check sentences one by one, each given as tokens; otherwise like `check_texts`."""
    if isinstance(sentences, str):
        raise InputError(
            f"{name} is the str {sentences[:40]!r}: give a list of sentences, each a list of tokens; "
            "split raw text with elmokit.tokenize first."
        )
    _series(sentences, name, "give a list of sentences, each a list of tokens", consume=False)
    return (check_tokens(tokens, f"sentence {number}") for number, tokens in enumerate(sentences))


def _series(values: Any, place: str, accepted: str, *, consume: bool = True) -> tuple[Any, ...]:
    """The items of an ordered series; without `consume`, only check that it is one."""
    if isinstance(values, _NOT_A_LIST) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0:
        raise InputError(f"{place} is {_described(values)}: {accepted}; {_remedy(values)}.")
    return tuple(values) if consume else ()


def _described(value: Any) -> str:
    if value is None:
        return "None"
    text = " ".join(repr(value).split())
    return f"{text[:40]}{'…' if len(text) > 40 else ''} ({type(value).__name__})"


def _remedy(value: Any) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return 'leave empty cells out, or fill them with ""'
    if isinstance(value, bytes | bytearray):
        return 'decode bytes first, e.g. with .decode("utf-8")'
    if isinstance(value, int | float):
        return "convert numbers with str()"
    if isinstance(value, Mapping | Set):
        return "make a list of what it holds, in the order that you mean"
    return "convert it first"
