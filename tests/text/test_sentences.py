"""The sentence splitter: hand-written cases and properties of any text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.text.sentences import keeps_period, split_sentences

# A bar marks each boundary.
CASES = [
    "He left.| She stayed.| Why?| Nobody knows!",
    "Mr. Smith met Dr. No in St. Louis.| They talked.",
    "J. R. R. Tolkien wrote it.| George W. Bush read it.",
    "It was in World War I.| The war went on.",
    "He moved to the U.S. Army base.| He stayed there.",
    "He moved to the U.S.| He stayed there.",
    "Apple Inc. CEO Tim Cook spoke.| He left Apple Inc.| The firm went on.",
    "We met at 5 p.m. Monday.| It was late.",
    "We met at 5 p.m.| Police came.",
    "Apples, pears, etc.| Nothing else.",
    "Apples, pears, etc. are fruit.",
    "It costs 3.14 dollars.| Version 2.0 is out.",
    "See No. 7 and Fig. 3 on p. 12.| He said no.| Then he left.",
    "It is state of the art.| I like it.",
    "He was born c. 1900 in Paris (d. Rome, 1980).| He painted.",
    "Well... maybe not.| Well...| He was gone.",
    "What?!| No!!!| Stop.",
    '"Why?" he asked.| "Because."| He sat down.',
    '"Stop!" Holmes cried.| "Never!"| The man ran.',
    '"What now?" I asked.| Nobody answered.',
    "He said: “Go.”| She went.| (It was late.)| They slept.",
    "He came (why?) and left (Acme Inc.) Smith alone.",
    "It works; really: it does.| Yes.",
    "Yahoo! News said so.| Fine.",
    "the room was small.| it was cold.| i left.",
    "esp. the first approx. five of dept. heads",
    "He left.[12]| Then it rained.",
    "1. Do this first.| 2. Then do that.",
    "The end.| The next iPhone came.| iPhones sell.",
    "He said it.|He left.",
    "See http://a.org/end.The and me.The@y.org today.| Bye.",
    "他来了。|我走了！|真的吗？|「好。」|他说。",
    "مرحبا؟| نعم.| यह है।| ठीक।",
    "A line\nthat goes on.| Next",
    "No mark at all\n\n|New paragraph",
    "Windows\r\n\r\n|line ends",
    "First. . . .| Then more",
    'He said , " I know . "| She left .',
    "Visit www.example.com today.| Thanks.",
    "He lives in Washington D.C. with her.| Fine.",
    "They won 3-2.| 1978 was the year.",
]


@pytest.mark.parametrize("marked", CASES)
def test_cases(marked: str) -> None:
    expected = [part.strip() for part in marked.split("|")]
    text = marked.replace("|", "")
    assert [text[start:end] for start, end in split_sentences(text)] == expected


@pytest.mark.slow
@given(st.text(st.one_of(st.characters(exclude_categories=()), st.sampled_from(" \n.?!\"')A a1"))))
@settings(max_examples=500, deadline=None)
def test_spans_cover_the_text_in_order(text: str) -> None:
    spans = split_sentences(text)
    assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())
    end = 0
    for begin, stop in spans:
        assert end <= begin < stop
        assert text[begin:stop] == text[begin:stop].strip()
        assert "\n\n" not in text[begin:stop]
        end = stop


@pytest.mark.parametrize(
    ("word", "inside", "final"),
    [
        ("Mr", True, True),
        ("U.S", True, True),
        ("Inc", True, True),
        ("etc", True, True),
        ("Ph.D", True, True),
        ("J", True, False),
        ("no", True, False),
        ("Sun", True, False),
        ("sun", False, False),
        ("house", False, False),
        ("example.com", False, False),
    ],
)
def test_which_words_keep_their_period(word: str, inside: bool, final: bool) -> None:
    assert keeps_period(word, final=False) is inside
    assert keeps_period(word, final=True) is final


def test_empty() -> None:
    assert split_sentences("") == split_sentences(" \n\n ") == []
