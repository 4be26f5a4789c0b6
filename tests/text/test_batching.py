import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import InputError
from elmokit.text.batching import pad_sentences, sentences_to_char_ids
from elmokit.text.characters import ByteIndexer, WordIndexer
from elmokit.text.vocabulary import SPECIALS, Vocabulary
from tests import strategies

INDEXERS = (ByteIndexer(7), WordIndexer(Vocabulary([*SPECIALS, "a"])))


@pytest.mark.slow
@given(st.lists(strategies.sentences, max_size=5))
def test_rows_of_a_batch_are_those_of_each_sentence(sentences: list[list[str]]) -> None:
    for indexer in INDEXERS:
        batch = sentences_to_char_ids(sentences, indexer)
        longest = max(map(len, sentences), default=0)
        assert batch.shape == (len(sentences), longest, indexer.width) and batch.dtype == np.int64
        for sentence, rows in zip(sentences, batch, strict=True):
            assert np.array_equal(rows[: len(sentence)], indexer.to_char_ids(sentence))
            assert np.array_equal(rows[: len(sentence)], sentences_to_char_ids([sentence], indexer)[0])
            assert rows[: len(sentence)].any(-1).all()
            assert not rows[len(sentence) :].any()


@pytest.mark.parametrize(
    ("sentences", "shape"), [([], (0, 0, 7)), ([[]], (1, 0, 7)), ([[], []], (2, 0, 7)), ([[], [""]], (2, 1, 7))]
)
def test_empty_batches(sentences: list[list[str]], shape: tuple[int, ...]) -> None:
    assert sentences_to_char_ids(sentences, INDEXERS[0]).shape == shape


def test_padding_does_not_share_memory_with_its_source() -> None:
    rows = np.ones((2, 3), dtype=np.int64)
    batch = pad_sentences([rows], 3)
    batch[:] = 7
    assert rows.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_tuples_are_sentences_too() -> None:
    assert sentences_to_char_ids((("a", "b"),), INDEXERS[0]).shape == (1, 2, 7)


@pytest.mark.parametrize("sentences", [["A sentence ."], [["a"], "b c"], "text"])
def test_raw_text_is_refused(sentences: list[list[str]]) -> None:
    with pytest.raises(InputError, match=r"sentences? \d?.*is the str .*elmokit\.tokenize first\.$"):
        sentences_to_char_ids(sentences, INDEXERS[0])


def test_the_sentence_is_named() -> None:
    with pytest.raises(InputError, match=r"sentence 2 is the str 'x{40}'"):
        sentences_to_char_ids([["a"], ["b"], "x" * 1000], INDEXERS[0])
