"""Ids exactly as docs/formats.md and the peers have them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ConfigError, VocabularyError
from elmokit.text.characters import ByteIndexer, Indexer, TableIndexer, WordIndexer
from elmokit.text.vocabulary import SPECIALS, Vocabulary
from tests import strategies

CHARACTERS = {"<bos>": 0, "<eos>": 1, "<oov>": 2, "<pad>": 3, "<bow>": 4, "<eow>": 5, "a": 6, "b": 7, "é": 8, "👩": 9}
WORDS = {"<oov>": 0, "<bos>": 1, "<eos>": 2, "ab": 3, "abababa": 4, "<S>": 5}
TABLES: list[Indexer] = [
    TableIndexer(CHARACTERS, WORDS, 9),
    TableIndexer(CHARACTERS, None, 9),
    TableIndexer(None, WORDS, 9),
]


def byte_row(token: str, width: int = 50) -> list[int]:
    row = ByteIndexer(width).to_char_ids([token])
    assert row.shape == (1, width) and row.dtype == np.int64
    ids: list[int] = row[0].tolist()
    return ids


def padded(*ids: int, width: int = 50) -> list[int]:
    return [*ids, *[261] * (width - len(ids))]


def test_the() -> None:
    assert byte_row("the") == padded(259, 117, 105, 102, 260)


@pytest.mark.parametrize(
    ("token", "inner"),
    [
        ("<S>", [257]),
        ("</S>", [258]),
        ("", []),
        ("<UNK>", [61, 86, 79, 76, 63]),
        ("<s>", [61, 116, 63]),
        (" <S>", [33, 61, 84, 63]),
        ("\0", [1]),
        ("é", [196, 170]),
        ("e\u0301", [102, 205, 130]),
        ("👍", [241, 160, 146, 142]),
        ("\ud800", []),
        ("a\ud800b\udfff", [98, 99]),
        ("\ud83d\udc4d", []),  # a pair of surrogates is not the character that they would mean in UTF-16
        ("שלום", [216, 170, 216, 157, 216, 150, 216, 158]),
        ("\U0010ffff", [245, 144, 192, 192]),
    ],
)
def test_bytes_between_marks(token: str, inner: list[int]) -> None:
    assert byte_row(token) == padded(259, *inner, 260)


def test_boundaries_are_what_their_spelling_gives() -> None:
    indexer = ByteIndexer()
    assert indexer.begin.tolist() == byte_row("<S>") == padded(259, 257, 260)
    assert indexer.end.tolist() == byte_row("</S>") == padded(259, 258, 260)
    assert indexer.width == 50


def test_long_tokens_are_cut_to_bytes() -> None:
    assert byte_row("x" * 47) == padded(259, *[121] * 47, 260)
    for length in (48, 49, 10_000):
        assert byte_row("x" * length) == [259, *[121] * 48, 260]


def test_a_cut_may_fall_inside_a_character() -> None:
    assert byte_row("a" * 47 + "é") == [259, *[98] * 47, 196, 260]
    assert byte_row("👍" * 3, width=8) == [259, 241, 160, 146, 142, 241, 160, 260]


@pytest.mark.parametrize("width", [3, 4, 16, 60])
def test_other_widths(width: int) -> None:
    assert byte_row("<S>", width) == padded(259, 257, 260, width=width)
    assert byte_row("", width) == padded(259, 260, width=width)
    room = width - 2
    assert byte_row("the", width) == padded(259, *[117, 105, 102][:room], 260, width=width)


@pytest.mark.parametrize("width", [2, 0, -5])
def test_a_row_needs_three_columns(width: int) -> None:
    with pytest.raises(ConfigError, match=rf"max_characters \({width}\) must be an integer of at least 3.*\.$"):
        ByteIndexer(width)
    with pytest.raises(ConfigError, match=rf"max_characters \({width}\)"):
        TableIndexer(CHARACTERS, None, width)


@given(st.lists(strategies.tokens), st.integers(3, 60))
def test_every_byte_row_is_well_formed(tokens: list[str], width: int) -> None:
    rows = ByteIndexer(width).to_char_ids(tokens)
    assert rows.shape == (len(tokens), width)
    for token, row in zip(tokens, rows.tolist(), strict=True):
        assert row[0] == 259
        end = row.index(260)
        assert row[end + 1 :] == [261] * (width - end - 1)
        inner = row[1:end]
        if token in ("<S>", "</S>"):
            assert inner == [257 if token == "<S>" else 258]
            continue
        assert all(1 <= number <= 256 for number in inner)
        spelled = token.encode("utf-8", "ignore")
        assert bytes(number - 1 for number in inner) == spelled[: width - 2]


@pytest.mark.slow
@given(st.lists(strategies.tokens, min_size=1))
def test_a_row_depends_on_its_token_alone(tokens: list[str]) -> None:
    for indexer in (ByteIndexer(12), *TABLES, WordIndexer(Vocabulary([*SPECIALS, "a", "é"]))):
        rows = indexer.to_char_ids(tokens)
        assert np.array_equal(rows, np.concatenate([indexer.to_char_ids([token]) for token in tokens]))
        assert rows.dtype == np.int64
        assert rows.shape == (len(tokens), indexer.width)
        assert rows.any(-1).all(), "an all-zero row would be padding"


@pytest.mark.parametrize("indexer", [ByteIndexer(12), *TABLES, WordIndexer(Vocabulary(SPECIALS))])
def test_no_tokens(indexer: Indexer) -> None:
    assert indexer.to_char_ids([]).shape == (0, indexer.width)
    assert indexer.begin.shape == indexer.end.shape == (indexer.width,)


# --- ELMoForManyLangs: ids + 1; begin and end of word swapped; cut to Unicode characters ---


def table_row(token: str, indexer: Indexer = TABLES[0]) -> list[int]:
    ids: list[int] = indexer.to_char_ids([token])[0].tolist()
    return ids


@pytest.mark.parametrize(
    ("token", "word", "inner"),
    [
        ("ab", 3, [6, 7]),
        ("ba", 0, [7, 6]),
        ("AB", 0, [2, 2]),
        ("", 0, []),
        ("é👩", 0, [8, 9]),
        ("e\u0301", 0, [2, 2]),
        ("<bos>", 1, [0]),
        ("<eos>", 2, [1]),
        ("<S>", 5, [2, 2, 2]),
        ("<oov>", 0, [2, 2, 2, 2, 2]),
        ("<bow>", 0, [2, 7, 2, 2, 2]),
        ("abababa", 4, [6, 7] * 3 + [6]),
        ("abababab", 4, [6, 7] * 3 + [6]),  # the cut token is looked up as a word too
        ("👩" * 20, 0, [9] * 7),
        ("\ud800", 0, [2]),
    ],
)
def test_table_rows(token: str, word: int, inner: list[int]) -> None:
    characters = [5, *inner, 4]
    characters += [3] * (9 - len(characters))
    assert table_row(token, TABLES[0]) == [number + 1 for number in (word, *characters)]
    assert table_row(token, TABLES[1]) == [number + 1 for number in characters]
    assert table_row(token, TABLES[2]) == [word + 1]


def test_table_boundaries() -> None:
    for indexer in TABLES:
        assert indexer.begin.tolist() == table_row("<bos>", indexer)
        assert indexer.end.tolist() == table_row("<eos>", indexer)
    assert [indexer.width for indexer in TABLES] == [10, 9, 1]


def test_tokens_are_cut_before_they_are_recognised() -> None:
    narrow = TableIndexer(CHARACTERS, WORDS, 3)
    assert narrow.begin.tolist() == [2, 6, 1, 5]
    assert table_row("<bos>", narrow) == [1, 6, 3, 5]  # "<", of which no table knows


@pytest.mark.parametrize("missing", ["<bos>", "<eos>", "<bow>", "<eow>", "<oov>", "<pad>"])
def test_char_dic_needs_its_marks(missing: str) -> None:
    table = {token: index for token, index in CHARACTERS.items() if token != missing}
    with pytest.raises(VocabularyError, match=rf"char\.dic lacks {missing}: .*\.$"):
        TableIndexer(table, None)


@pytest.mark.parametrize("missing", ["<bos>", "<eos>", "<oov>"])
def test_word_dic_needs_its_marks(missing: str) -> None:
    table = {token: index for token, index in WORDS.items() if token != missing}
    with pytest.raises(VocabularyError, match=rf"word\.dic lacks {missing}: .*\.$"):
        TableIndexer(None, table)


def test_an_empty_table_is_not_no_table() -> None:
    with pytest.raises(VocabularyError, match=r"char\.dic lacks"):
        TableIndexer({}, WORDS)
    with pytest.raises(VocabularyError, match=r"word\.dic lacks"):
        TableIndexer(CHARACTERS, {})


def test_the_indexer_keeps_its_own_tables() -> None:
    table = dict(CHARACTERS)
    indexer = TableIndexer(table, None, 9)
    table["a"] = 99
    assert table_row("a", indexer) == table_row("a", TABLES[1])


# --- token embeddings ---


def test_word_ids_are_one_more() -> None:
    indexer = WordIndexer(Vocabulary([*SPECIALS, "the", "", "the"]))
    ids = indexer.to_char_ids(["the", "The", "", "<S>", "</S>", "<UNK>", "\ud800"])
    assert ids[:, 0].tolist() == [6, 3, 5, 1, 2, 3, 3]  # of duplicates the last counts
    assert (indexer.begin.tolist(), indexer.end.tolist(), indexer.width) == ([1], [2], 1)
