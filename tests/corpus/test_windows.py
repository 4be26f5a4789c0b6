"""Every prediction of a sentence once, each from the right input, in rows that continue from window to window."""

import copy
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.corpus.stream import SentenceStream
from elmokit.corpus.windows import NO_TARGET, Window, WindowStream, read_in_order, sentences_as_rows
from elmokit.errors import InputError
from elmokit.text.characters import ByteIndexer, Indexer, TableIndexer, WordIndexer
from elmokit.text.vocabulary import BEGIN, END, SPECIALS, Vocabulary

VOCABULARY = Vocabulary([*SPECIALS, "a", "b", "c", "d"])
BYTES, WORD_IDS = ByteIndexer(8), WordIndexer(VOCABULARY)

Prediction = tuple[tuple[int, ...], int]
"""What a place reads, as its row of char_ids, and the id it must give."""


class Given:
    """Sentences from a list, as a stream that knows its place."""

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        self._all = [list(sentence) for sentence in sentences]
        self._place = 0

    def __next__(self) -> list[str]:
        if self._place == len(self._all):
            raise StopIteration
        self._place += 1
        return self._all[self._place - 1]

    def state_dict(self) -> dict[str, Any]:
        return {"place": self._place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._place = state["place"]


def stream(
    sentences: Iterable[Sequence[str]], num_rows: int, num_steps: int, rows: range | None = None, indexer: Any = BYTES
) -> WindowStream:
    return WindowStream(Given(sentences), VOCABULARY, indexer, num_rows=num_rows, num_steps=num_steps, rows=rows)


def predictions_of(sentence: Sequence[str], side: int, indexer: Indexer = BYTES) -> list[Prediction]:
    """What the definition says of a sentence, forward or backward."""
    words = list(sentence) if side == 0 else list(sentence)[::-1]
    opening, closing = ((indexer.begin, END), (indexer.end, BEGIN))[side]
    read = [opening, *indexer.to_char_ids(words)]
    return list(zip((tuple(row.tolist()) for row in read), VOCABULARY.to_ids([*words, closing]).tolist(), strict=True))


def read_rows(windows: Iterable[Window]) -> list[list[list[Prediction]]]:
    """The predictions of each direction and row over all windows, with the masked places left out."""
    found: list[list[list[Prediction]]] = [[], []]
    for window in windows:
        num_rows = window.inputs.shape[1]
        for side in (0, 1):
            found[side] += [[] for _ in range(num_rows - len(found[side]))]
            for row in range(num_rows):
                for place, target in zip(window.inputs[side, row], window.own_targets[side, row], strict=True):
                    if target != NO_TARGET:
                        found[side][row].append((tuple(window.char_ids[place].tolist()), int(target)))
    return found


def split_rows(windows: Sequence[Window]) -> list[list[int]]:
    """How many predictions each row makes from one start of a sentence to the next."""
    starts = np.concatenate([window.starts for window in windows], 1)  # (R, all steps)
    real = np.concatenate([window.own_targets[0] != NO_TARGET for window in windows], 1)
    return [np.diff([*np.flatnonzero(start), row.sum()]).tolist() for start, row in zip(starts, real, strict=True)]


def test_bilm_tfs_example_by_hand() -> None:
    windows = stream([["a", "b", "c", "d", "zzz"], ["b", "a"]], 2, 4)
    first, second = windows
    s, e, unk, a, b, c, d = range(7)
    rest = NO_TARGET
    spelled = [BEGIN, END, "a", "b", "c", "zzz", "d"]
    assert np.array_equal(first.char_ids, BYTES.to_char_ids(spelled))

    def words(window: Window) -> list[list[str]]:
        return [[spelled[place] for place in row] for row in window.inputs.reshape(-1, 4)]

    assert words(first)[0] == [BEGIN, "a", "b", "c"]
    assert words(first)[1][:3] == [BEGIN, "b", "a"]
    assert words(first)[2] == [END, "zzz", "d", "c"]
    assert words(first)[3][:3] == [END, "a", "b"]
    assert first.targets.tolist() == [[[a, b, c, d], [b, a, e, rest]], [[unk, d, c, b], [a, b, s, rest]]]
    assert first.starts.tolist() == [[True, False, False, False]] * 2
    assert first.num_predictions == 7

    spelled = [BEGIN, END, "d", "zzz", "b", "a"]
    assert np.array_equal(second.char_ids, BYTES.to_char_ids(spelled))
    assert words(second)[0][:2] == ["d", "zzz"]
    assert words(second)[2][:2] == ["b", "a"]
    assert second.targets.tolist() == [
        [[unk, e, rest, rest], [rest] * 4],
        [[a, s, rest, rest], [rest] * 4],
    ]
    assert not second.starts.any()
    assert second.num_predictions == 2


def test_a_row_takes_the_next_sentence_within_a_window() -> None:
    (window,) = stream([["a"], ["b"], ["c", "d"]], 1, 7)
    s, e, _, a, b, c, d = range(7)
    assert window.targets.tolist() == [[[a, e, b, e, c, d, e]], [[a, s, b, s, d, c, s]]]
    assert window.starts.tolist() == [[True, False, True, False, True, False, False]]


SENTENCE = st.lists(st.sampled_from(["a", "b", "c", "d", "zzz", "é" * 9, BEGIN, END, "<UNK>"]), max_size=7)
TEXT = st.lists(SENTENCE, max_size=12)
SIZE = st.integers(1, 5)


@settings(max_examples=60, deadline=None)
@given(TEXT, SIZE, SIZE, st.sampled_from([BYTES, WORD_IDS]))
def test_an_epoch_makes_every_prediction_once(
    sentences: list[list[str]], num_rows: int, num_steps: int, indexer: Indexer
) -> None:
    windows = list(stream(sentences, num_rows, num_steps, indexer=indexer))
    assert sum(window.num_predictions for window in windows) == sum(len(sentence) + 1 for sentence in sentences)
    for window in windows:
        assert window.targets.shape == (2, num_rows, num_steps)
        assert window.num_predictions > 0
        masked = window.targets == NO_TARGET
        assert np.array_equal(masked[0], masked[1])
        assert np.array_equal(masked, np.sort(masked, axis=-1))  # only the tail of a row runs dry
        assert np.unique(window.inputs).max() < len(window.char_ids)
    if not windows:
        return
    lengths = split_rows(windows)
    found: list[Counter[tuple[Prediction, ...]]] = [Counter(), Counter()]
    for side, rows in enumerate(read_rows(windows)):
        for row, cuts in zip(rows, lengths, strict=True):
            assert len(row) == sum(cuts)
            pieces = iter(row)
            found[side].update(tuple(itertools.islice(pieces, cut)) for cut in cuts)
    for side in (0, 1):
        assert found[side] == Counter(tuple(predictions_of(sentence, side, indexer)) for sentence in sentences)


@settings(max_examples=30, deadline=None)
@given(TEXT, SIZE, SIZE)
def test_a_stream_goes_on_from_any_window(sentences: list[list[str]], num_rows: int, num_steps: int) -> None:
    windows = stream(sentences, num_rows, num_steps)
    states, whole = [copy.deepcopy(windows.state_dict())], []
    for window in windows:
        whole.append(window)
        states.append(copy.deepcopy(windows.state_dict()))
    for number, state in enumerate(states):
        again = stream(sentences, num_rows, num_steps)
        again.load_state_dict(state)
        for found, expected in zip(again, whole[number:], strict=True):
            for name in ("char_ids", "inputs", "targets", "starts"):
                assert np.array_equal(getattr(found, name), getattr(expected, name))


def test_a_state_of_other_rows_is_refused() -> None:
    with pytest.raises(InputError, match="3 rows, but batch_size is 2"):
        stream([["a"]], 2, 4).load_state_dict(stream([["a"]], 3, 4).state_dict())


def test_a_real_corpus_goes_on_where_it_was(tmp_path: Path) -> None:
    """Blank lines are no sentences, and the state is of both the corpus and the rows."""
    (tmp_path / "text").write_text("a b c d zzz\n\nb a\nc\nd d d\n")

    def open_stream() -> WindowStream:
        sentences = SentenceStream([tmp_path / "text"], num_epochs=2, seed=1)
        return WindowStream(sentences, VOCABULARY, BYTES, num_rows=2, num_steps=3)

    windows = open_stream()
    next(windows)
    state = windows.state_dict()
    rest = list(windows)
    again = open_stream()
    again.load_state_dict(state)
    assert [window.targets.tolist() for window in again] == [window.targets.tolist() for window in rest]
    assert sum(window.num_predictions for window in open_stream()) == 2 * (6 + 3 + 2 + 4)


def test_a_row_reads_a_passage_to_its_end(tmp_path: Path) -> None:
    """Rows of more than one passage each, resumed at every window."""
    (tmp_path / "text").write_text("a b\na c\na d\n\nb a\nb b\n\nc\n\nd d d\nd\n")

    def open_stream() -> WindowStream:
        sentences = SentenceStream([tmp_path / "text"], shuffle=False, passage_sentences=3, num_epochs=1)
        return WindowStream(sentences, VOCABULARY, BYTES, num_rows=2, num_steps=3)

    windows, found, states = open_stream(), [], []
    for window in windows:
        found.append(window.targets)
        states.append(windows.state_dict())
    forward = np.concatenate([targets[0] for targets in found], axis=1)  # (R, T)
    rows = [" ".join(VOCABULARY.tokens[word] for word in row if word != NO_TARGET) for row in forward]
    assert rows == ["a b </S> a c </S> a d </S>", "b a </S> b b </S> c </S> d d d </S> d </S>"]
    for number, state in enumerate(states):
        again = open_stream()
        again.load_state_dict(state)
        assert [window.targets.tolist() for window in again] == [rest.tolist() for rest in found[number + 1 :]]


@settings(max_examples=40, deadline=None)
@given(TEXT, st.integers(1, 3), st.integers(1, 3), SIZE)
def test_processes_see_their_rows_of_the_same_windows(
    sentences: list[list[str]], share: int, num_processes: int, num_steps: int
) -> None:
    num_rows = share * num_processes
    whole = list(stream(sentences, num_rows, num_steps))
    for rank in range(num_processes):
        rows = range(rank * share, (rank + 1) * share)
        own = slice(rows.start, rows.stop)
        for part, window in zip(stream(sentences, num_rows, num_steps, rows), whole, strict=True):
            assert np.array_equal(part.targets, window.targets)
            assert np.array_equal(part.own_targets, window.targets[:, own])
            assert np.array_equal(part.starts, window.starts[own])
            real = part.own_targets != NO_TARGET
            ours, all_of_them = part.char_ids[part.inputs], window.char_ids[window.inputs[:, own]]
            assert np.array_equal(ours[real], all_of_them[real])
            assert len(part.char_ids) <= 2 + real.sum()


@settings(max_examples=60, deadline=None)
@given(st.lists(SENTENCE.filter(bool), max_size=12), st.integers(1, 15), SIZE)
def test_reading_in_order_gives_each_row_its_stretch(sentences: list[list[str]], num_rows: int, num_steps: int) -> None:
    text = [" ".join(sentence) for sentence in sentences]
    windows = list(read_in_order(text, VOCABULARY, BYTES, num_rows=num_rows, num_steps=num_steps))
    found = read_rows(windows)
    for side in (0, 1):  # the rows one behind the other are the text in its order
        expected = [prediction for sentence in sentences for prediction in predictions_of(sentence, side)]
        assert list(itertools.chain.from_iterable(found[side])) == expected
    if windows:
        assert windows[0].targets.shape == (2, num_rows, num_steps)
        lengths = [len(row) for row in found[0]]
        longest = max(len(sentence) + 1 for sentence in sentences)
        assert max(lengths) <= sum(lengths) / num_rows + longest


def test_reading_in_order_shares_equal_sentences_equally() -> None:
    (window,) = read_in_order(["a b", "b c", "c d", "d a"], VOCABULARY, BYTES, num_rows=2, num_steps=6)
    e = VOCABULARY.end_id
    assert window.targets[0].tolist() == [[3, 4, e, 4, 5, e], [5, 6, e, 6, 3, e]]


def test_sentences_as_rows() -> None:
    sentences = [["a", "zzz", "b"], [], ["c"]]
    window = sentences_as_rows(sentences, VOCABULARY, BYTES)
    assert window.targets.shape == (2, 3, 4)
    assert window.starts.tolist() == [[True, False, False, False]] * 3
    for side, rows in enumerate(read_rows([window])):
        assert rows == [predictions_of(sentence, side) for sentence in sentences]
    assert sentences_as_rows([[]], VOCABULARY, BYTES).targets.tolist() == [
        [[VOCABULARY.end_id]],
        [[VOCABULARY.begin_id]],
    ]


@pytest.fixture(params=["read_in_order", "sentences_as_rows", "stream"])
def window_of(request: pytest.FixtureRequest) -> Callable[[Sequence[str], Vocabulary, Indexer], Window]:
    """The first window of one sentence in one row, by each way to make it."""

    def build(sentence: Sequence[str], vocabulary: Vocabulary, indexer: Indexer) -> Window:
        num_steps = len(sentence) + 1
        if request.param == "sentences_as_rows":
            return sentences_as_rows([sentence], vocabulary, indexer)
        if request.param == "read_in_order":
            return next(read_in_order([" ".join(sentence)], vocabulary, indexer, num_rows=1, num_steps=num_steps))
        return next(WindowStream(Given([sentence]), vocabulary, indexer, num_rows=1, num_steps=num_steps))

    return build


@pytest.mark.parametrize("indexer", [BYTES, WORD_IDS])
def test_an_unknown_word_is_read_by_its_characters_and_predicted_as_unknown(
    window_of: Callable[[Sequence[str], Vocabulary, Indexer], Window], indexer: Indexer
) -> None:
    window = window_of(["a", "zzz", "yyy"], VOCABULARY, indexer)
    unknown = VOCABULARY.unknown_id
    assert window.targets.tolist() == [[[3, unknown, unknown, 1]], [[unknown, unknown, 3, 0]]]
    read = window.char_ids[window.inputs[0, 0]]  # (4, C)
    assert np.array_equal(read, np.concatenate([indexer.begin[None], indexer.to_char_ids(["a", "zzz", "yyy"])]))
    assert np.array_equal(read[2], read[3]) == (indexer is WORD_IDS)


def test_a_word_spelled_like_a_boundary_is_what_the_indexer_says() -> None:
    """In a table of characters `<S>` is three of them, while a sentence opens with `<bos>`."""
    marks = ("<bos>", "<eos>", "<bow>", "<eow>", "<oov>", "<pad>", *"<S>/")
    indexer = TableIndexer({mark: number for number, mark in enumerate(marks)}, None, max_characters=6)
    sentence = [BEGIN, "a", END]
    window = sentences_as_rows([sentence], VOCABULARY, indexer)
    for side in (0, 1):
        assert read_rows([window])[side] == [predictions_of(sentence, side, indexer)]
    assert not np.array_equal(indexer.begin, indexer.to_char_ids([BEGIN])[0])
