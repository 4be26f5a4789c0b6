"""The tokenizer: hand-written cases, properties of any text, and agreement with NLTK."""

import random
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elmokit.errors import InputError
from elmokit.text.sentences import split_sentences
from elmokit.text.tokenize import Token, tokenize
from tests.data import DATA, needs_data

ROOT = Path(__file__).resolve().parents[2]
PROSE = (ROOT / "tests" / "fixtures" / "prose.txt").read_text(encoding="utf-8").splitlines()[1:]


def words(text: str) -> str:
    """The tokens of a text taken as one sentence, with spaces between."""
    return " ".join(token.text for sentence in tokenize(text, split_sentences=False) for token in sentence)


CASES = {
    "clitics": {
        "I don't, can't and won't": "I do n't , ca n't and wo n't",
        "I'm sure we'll go": "I 'm sure we 'll go",
        "John's dog, they've, he'd, you're": "John 's dog , they 've , he 'd , you 're",
        "DON'T! It'S": "DO N'T ! It 'S",
        "couldn't've": "could n't 've",
        "I don’t think he’s here": "I do n’t think he ’s here",
        "the dogs' bones": "the dogs ' bones",
        'the "Titanic"\'s end': 'the " Titanic " \'s end',
        "n't 's": "n't 's",
        "AT&T's": "AT&T 's",
        "O'Neil at ten o'clock": "O'Neil at ten o'clock",
        "l’homme": "l’homme",
    },
    "fused words": {
        "I cannot": "I can not",
        "Cannot": "Can not",
        "gonna wanna gotta": "gon na wan na got ta",
        "Gimme! Lemme!": "Gim me ! Lem me !",
        "'Tis true, 'twas": "'T is true , 't was",
        "’tis": "’t is",
        "d'ye more'n": "d' ye more 'n",
        "cannotx": "cannotx",
    },
    "elisions": {
        "the '90s and 1990s": "the '90s and 1990s",
        "class of '68.": "class of '68 .",
        "tell 'em 'til dawn": "tell 'em 'til dawn",
        "rock 'n' roll": "rock 'n' roll",
        "'quoted' words": "' quoted ' words",
        "5'11\"": "5 ' 11 \"",
    },
    "periods": {
        "Mr. Smith met Dr. No.": "Mr. Smith met Dr. No .",
        "the U.S. army": "the U.S. army",
        "at 5 a.m. sharp": "at 5 a.m. sharp",
        "cats, e.g. lions, i.e. big ones": "cats , e.g. lions , i.e. big ones",
        "Acme Inc. of J. R. Smith": "Acme Inc. of J. R. Smith",
        "J.R.R. Tolkien, Ph.D., wrote": "J.R.R. Tolkien , Ph.D. , wrote",
        "He left. Then": "He left . Then",
        "so did I.": "so did I .",
        "He said no.": "He said no .",
        "see No. 7": "see No. 7",
        "born c. 1900": "born c. 1900",
        "apples, pears, etc.": "apples , pears , etc.",
        "(U.S.)": "( U.S. )",
        "U.S.-based U.S.'s": "U.S.-based U.S. 's",
        "in unknwn., as": "in unknwn. , as",
        "the end.The next": "the end . The next",
        "J.D./M.B.A. degree": "J.D./M.B.A. degree",
    },
    "marks": {
        "Well... yes… no..": "Well ... yes … no ..",
        "one--two -- three—four": "one -- two -- three — four",
        "1990–1995": "1990 – 1995",
        "What?! No!!! Why??": "What ?! No !!! Why ??",
        "a,b;c:d": "a , b ; c : d",
        "==== *** ____": "==== *** ____",
        "(a) [b] {c}": "( a ) [ b ] { c }",
        "((x))": "( ( x ) )",
        "x=5": "x = 5",
    },
    "quotes": {
        '"Hi," he said': '" Hi , " he said',
        "“Hi” ‘there’": "“ Hi ” ‘ there ’",
        "«oui» „ja“": "« oui » „ ja “",
        "``PTB''": "`` PTB ''",
        "'''": "'' '",
    },
    "numbers": {
        "1,000.50 3.14 .5 -5": "1,000.50 3.14 .5 -5",
        "10% of $5": "10 % of $ 5",
        "£3.50 €2 US$5": "£ 3.50 € 2 US$ 5",
        "10:30 1/2 12-03-2020": "10:30 1/2 12-03-2020",
        "10%-15%": "10 % - 15 %",
        "1,2,3, 4:": "1,2,3 , 4 :",
        "F-16 3-for-25 5pm": "F-16 3-for-25 5pm",
        "#1": "# 1",
        "25°C": "25 ° C",
    },
    "compounds": {
        "a well-known man": "a well-known man",
        "pre- and post-war": "pre- and post-war",
        "and/or km/h": "and/or km/h",
        "R&D C++ C#": "R&D C++ C#",
        "snake_case v1.2.3 node.js": "snake_case v1.2.3 node.js",
    },
    "addresses": {
        "(see http://a.org/x_(y)).": "( see http://a.org/x_(y) ) .",
        "https://a.org/?q=1&r=2, then": "https://a.org/?q=1&r=2 , then",
        "www.example.com!": "www.example.com !",
        "at example.com.": "at example.com .",
        "example.co.uk/path?x=1.": "example.co.uk/path?x=1 .",
        "<https://a.org>": "< https://a.org >",
        "me.you+z@example.co.uk, ok": "me.you+z@example.co.uk , ok",
        "@user_1: #topic!": "@user_1 : #topic !",
        "/usr/bin/env, ~/x.txt": "/usr/bin/env , ~/x.txt",
        "C:\\dir\\file.txt": "C:\\dir\\file.txt",
        "Amazon.com's": "Amazon.com 's",
        "a .pdf file": "a .pdf file",
    },
    "emoji": {
        "hi😀😃there": "hi 😀 😃 there",
        "👨‍👩‍👧‍👦👍🏽": "👨‍👩‍👧‍👦 👍🏽",
        "🇩🇪🇫🇷": "🇩🇪 🇫🇷",
        "1️⃣2️⃣ ❤️‍🔥": "1️⃣ 2️⃣ ❤️‍🔥",
        "🏴󠁧󠁢󠁥󠁮󠁧󠁿.": "🏴󠁧󠁢󠁥󠁮󠁧󠁿 .",
        ":-) ;) :( <3": ":-) ;) :( <3",
        "(a:b) 1:3": "( a : b ) 1:3",
    },
    "special tokens": {
        "-LRB- x -RRB-": "-LRB- x -RRB-",
        "<S> a </S> <unk> <eos>": "<S> a </S> <unk> <eos>",
        "well @-@ known 1 @,@ 000": "well @-@ known 1 @,@ 000",
        "&amp; a < b": "&amp; a < b",
    },
    "other scripts": {
        "Привет, мир!": "Привет , мир !",
        "Ελλάδα; ναι·": "Ελλάδα ; ναι ·",
        "مرحبا، كيف؟": "مرحبا ، كيف ؟",
        "שָׁלוֹם צה״ל": "שָׁלוֹם צה״ל",
        "हिन्दी में।": "हिन्दी में ।",
        "中文分词。": "中 文 分 词 。",
        "日本語のテキスト、「カナ」": "日 本 語 の テキスト 、 「 カナ 」",
        "ภาษาไทย 한국어를": "ภาษาไทย 한국어를",
        "e\u0301te\u0301 cafe\u0301.": "e\u0301te\u0301 cafe\u0301 .",
        "a\u200bb": "a\u200b b",
        "\u0301x": "\u0301x",
    },
}
PAIRS = [pytest.param(text, tokens, id=f"{kind}: {text}") for kind, c in CASES.items() for text, tokens in c.items()]


@pytest.mark.parametrize(("text", "tokens"), PAIRS)
def test_cases(text: str, tokens: str) -> None:
    assert words(text) == tokens


def test_number_of_cases() -> None:
    assert len(PAIRS) >= 80


def test_sentences_of_tokens_with_offsets() -> None:
    assert tokenize(" Dr. No can't\nstay.\n\nWhy? ") == [
        [
            Token("Dr.", 1, 4),
            Token("No", 5, 7),
            Token("ca", 8, 10),
            Token("n't", 10, 13),
            Token("stay", 14, 18),
            Token(".", 18, 19),
        ],
        [Token("Why", 21, 24), Token("?", 24, 25)],
    ]


def test_the_same_word_inside_and_at_the_end_of_a_sentence() -> None:
    text = "The Sun. of May and No. 5, so no. It was the Sun. They saw it."
    assert [[t.text for t in s] for s in tokenize(text)] == [
        ["The", "Sun.", "of", "May", "and", "No.", "5", ",", "so", "no", "."],
        ["It", "was", "the", "Sun", "."],
        ["They", "saw", "it", "."],
    ]


@pytest.mark.parametrize("text", ["", " ", "\n\n\t\u2003\x1c"])
def test_white_space_has_no_sentence(text: str) -> None:
    assert tokenize(text) == []
    assert tokenize(text, split_sentences=False) == []


@pytest.mark.parametrize("text", [None, b"bytes", ["a", "b"]])
def test_what_is_no_string_is_refused(text: object) -> None:
    with pytest.raises(InputError, match=f"given {type(text).__name__} but takes one str"):
        tokenize(text)  # type: ignore[arg-type]


def test_imports_no_torch() -> None:
    code = "import sys, elmokit.text.tokenize; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


FRAGMENTS = [
    *"aZ9 .,'’\"?!-–/@#&:$%()[]<>_…。！」، ।\u0301\u200b\u200d\ufe0f\u20e3\n\x00\ud800",
    *("can't", "U.S.", "Mr.", "etc.", "http://a.b", "www.", "x@y.org", "e.g.", "end.The", "it...I", "\n\n", "\r\n"),
    *(
        "😀",
        "👍🏽",
        "🇩🇪",
        "中",
        "カ",
        "ไ",
        "ש",
        "--",
        "''",
        "'tis",
        "...",
        "? ",
        '." ',
        "The",
        "i ",
        "foo.com",
        "C:\\a",
    ),
]
ANY_TEXT = st.one_of(
    st.text(st.characters(exclude_categories=())), st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join)
)


def check(text: str, sentences: list[list[Token]]) -> None:
    """Every promise about tokens that needs no knowledge of the rules."""
    tokens = [token for sentence in sentences for token in sentence]
    assert all(sentences)
    assert "".join(token.text for token in tokens) == "".join(text.split())
    end = 0
    for token in tokens:
        assert text[token.start : token.end] == token.text != ""
        assert not any(map(str.isspace, token.text))
        assert token.start >= end
        if unicodedata.combining(token.text[0]):
            assert token.start == 0 or text[token.start - 1].isspace()
        end = token.end


@pytest.mark.slow
@given(ANY_TEXT)
@settings(max_examples=600, deadline=None)
@example("\ud83d\ude00 \udfff")
@example("。\u0301x")
def test_nothing_is_lost_moved_or_rewritten(text: str) -> None:
    check(text, tokenize(text))
    whole = tokenize(text, split_sentences=False)
    check(text, whole)
    assert len(whole) == bool(text.strip())


@pytest.mark.slow
@given(ANY_TEXT)
@settings(max_examples=600, deadline=None)
@example("see http://a.org/end.The_x and me.The@y.org, it.The.com")
@example("wait...I know, a?I=b www.it.He www.The (www...I /end.The ~/it...I a,www.He")
def test_sentences_do_not_cut_tokens(text: str) -> None:
    inside = {at for s in tokenize(text, split_sentences=False) for t in s for at in range(t.start + 1, t.end)}
    assert not inside & {end for _, end in split_sentences(text)}


@pytest.mark.slow
@given(ANY_TEXT)
@settings(max_examples=200, deadline=None)
def test_tokens_again_as_text(text: str) -> None:
    """Tokenizing a second time gives the same (nothing depends on what was seen before)."""
    assert tokenize(text) == tokenize(text)


HUGE = {
    "periods": "a." * 50_000,
    "apostrophes": "'" * 100_000,
    "clitics": "a" + "'s" * 50_000,
    "link": "http://" + "a" * 100_000,
    "links": "www.)" * 20_000,
    "closing brackets after a link": "http://a" + ")" * 100_000,
    "letters": "a" * 100_000,
    "brackets": "(" * 50_000 + ")" * 50_000,
    "dots": "." * 100_000,
    "spaced dots": ". " * 50_000,
    "dots and closers": '.")' * 30_000,
    "at signs": "a@" * 50_000,
    "mail without end": "a." * 30_000 + "@",
    "hashes": "#1" * 50_000,
    "slashes": "/a" * 50_000,
    "dashes and underscores": "-_" * 50_000,
    "marks": "a" + "\u0301" * 100_000,
    "joiners": "😀\u200d" * 30_000,
    "emoticon eyes": ":" * 100_000,
    "commas after periods": "a.," * 30_000,
    "white space": " \n" * 50_000 + "a" + " " * 100_000,
    "lone quotes": '. " ' * 25_000,
    "run-on": "the end.The" * 10_000,
}


@pytest.mark.slow
@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", HUGE)
def test_time_is_linear(kind: str) -> None:
    """Each of these takes minutes or hours with a pattern that looks back over what it has read."""
    check(HUGE[kind], tokenize(HUGE[kind]))


def agreement(paragraphs: list[str]) -> tuple[float, list[tuple[str, list[str], list[str]]]]:
    """F1 of our spans and NLTK's, and the sentences on which they differ."""
    nltk = pytest.importorskip("nltk.tokenize").NLTKWordTokenizer()
    common = total = 0
    different = []
    for text in (paragraph[a:b] for paragraph in paragraphs for a, b in split_sentences(paragraph)):
        ours = [(token.start, token.end) for token in tokenize(text, split_sentences=False)[0]]
        theirs = list(nltk.span_tokenize(text))
        common, total = common + len(set(ours) & set(theirs)), total + len(ours) + len(theirs)
        if ours != theirs:
            different.append((text, [text[a:b] for a, b in ours], [text[a:b] for a, b in theirs]))
    assert total > 1000
    return 2 * common / total, different


@pytest.mark.slow
def test_agrees_with_nltk_on_prose() -> None:
    f1, different = agreement(PROSE)
    assert f1 >= 0.999
    assert len(different) <= 6, different


def test_agrees_with_nltk_on_simple_sentences() -> None:
    simple = [p[a:b] for p in PROSE for a, b in split_sentences(p) if p[a : b - 1].replace(" ", "").isalpha()]
    assert len(simple) > 20
    _, different = agreement(simple)
    assert different == []


@pytest.mark.slow
@needs_data("lm")
def test_agrees_with_nltk_on_wikipedia_and_books() -> None:
    import lzma

    paragraphs = []
    for name in ("wikipedia-heldout", "books-heldout"):
        with lzma.open(DATA / "lm" / f"{name}.txt.xz", "rt", encoding="utf-8") as file:
            lines = [line.rstrip("\n") for line in file if line.strip()]
        paragraphs += random.Random(7).sample(lines, 300)
    f1, _ = agreement(paragraphs)
    assert f1 >= 0.99
