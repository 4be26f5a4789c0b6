"""Numbers with their nouns."""

import pytest

from elmokit.wording import counted


@pytest.mark.parametrize(
    ("number", "noun", "plural", "expected"),
    [
        (0, "sentence", None, "0 sentences"),
        (1, "sentence", None, "1 sentence"),
        (2, "sentence", None, "2 sentences"),
        (12345, "file", None, "12,345 files"),
        (1, "entry", "entries", "1 entry"),
        (3, "entry", "entries", "3 entries"),
    ],
)
def test_singular_and_plural(number: int, noun: str, plural: str | None, expected: str) -> None:
    assert counted(number, noun, plural) == expected
