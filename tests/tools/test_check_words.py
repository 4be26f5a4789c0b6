"""The word list finds what it should, and leaves names alone."""

import pytest
from tools.check_words import find_words, help_texts


@pytest.mark.parametrize(
    "line",
    [
        "killed at any moment, it goes on where it was",
        "A sentence a line, its fields between tabs",
        "report: is told how much is done",
        "the tokeniser is initialised",
        "one colour per corpus",
        "12.3% of the error gone",
        "the vector stands at place 3",
        "this is no list of numbers",
        "3,000 tokens a second",
    ],
)
def test_phrases_are_found(line: str) -> None:
    (found,) = list(find_words(f"first line\n{line}\n", "file"))[:1]
    assert found.place == "file:2" and found.phrase.lower() in line.lower()


@pytest.mark.parametrize(
    "line",
    [
        'folder = cache / "neighbours"',
        "If it is interrupted, repeat the command to resume.",
        "One sentence per line.",
        "senses are told apart by color",
        "3,000 tokens per second",
        "the analysis of colors and neighbors",
        "hold on; go on",
        "standard input, standards in use",
    ],
)
def test_plain_words_and_stored_names_pass(line: str) -> None:
    assert not list(find_words(line, "file"))


def test_every_command_is_read() -> None:
    texts = dict(help_texts())
    assert "Usage: " in texts["elmokit task predict --help"] and "elmokit analyze --help" in texts
    assert not any("analyse" in name for name in texts)
