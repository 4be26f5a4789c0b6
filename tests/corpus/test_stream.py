"""Every sentence once an epoch, in an order that a run can be resumed in from any place."""

import json
import math
import os
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.corpus import stream as stream_module
from elmokit.corpus.mixing import Order
from elmokit.corpus.stream import SentenceStream
from elmokit.errors import ConfigError, InputError
from elmokit.text import lines as text_lines
from elmokit.text.files import find_files
from elmokit.text.input_kind import InputKind
from elmokit.text.lines import read_sentences
from elmokit.text.tokenize import tokenize
from tests.corpus.texts import sentences_of, write_files


@pytest.fixture
def paths(texts: list[str], tmp_path: Path) -> list[Path]:
    return write_files(tmp_path, texts)


def passages_of(stream: SentenceStream) -> list[list[list[str]]]:
    found: list[list[list[str]]] = [[]]
    for sentence in stream:
        found[-1].append(sentence)
        if not stream.continues:
            found.append([])
    assert found.pop() == []
    return found


def test_passages_stay_together(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["a\nb\nc\nd\ne\n\nf\ng\n\n\n", "h\ni\nj\nk"])
    passages = ["abc", "de", "fg", "hij", "k"]
    in_order = SentenceStream(paths, shuffle=False, passage_sentences=3, buffer_sentences=4, num_epochs=1)
    assert ["".join(token for (token,) in passage) for passage in passages_of(in_order)] == passages
    orders = set()
    for seed in range(20):
        stream = SentenceStream(paths, seed=seed, passage_sentences=3, buffer_sentences=100, num_epochs=1)
        found = ["".join(token for (token,) in passage) for passage in passages_of(stream)]
        assert sorted(found) == passages
        orders.add(tuple(found))
    assert len(orders) > 10


def test_sentences_of_a_line_of_text_share_a_passage(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["It rains. Why?\nNobody knows! Go home.\n\nDr. No can't stay.\n"])
    stream = SentenceStream(paths, input="text", passage_sentences=9, shuffle=False, num_epochs=1)
    assert list(map(len, passages_of(stream))) == [4, 1]


def test_read_sentences(paths: list[Path], texts: list[str], kind: InputKind) -> None:
    found = [sentence for path in paths for sentence in read_sentences(path, input=kind)]
    assert found == sentences_of(texts, kind)
    assert len(found) > 10


def test_read_sentences_with_wrong_bytes(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"na\xefve\n")
    assert list(read_sentences(path, input="tokens", errors="replace")) == [["na\ufffdve"]]
    with pytest.raises(InputError, match="not UTF-8"):
        list(read_sentences(path, input="tokens"))


def test_without_shuffling_the_order_is_that_of_the_files(paths: list[Path], texts: list[str], kind: InputKind) -> None:
    stream = SentenceStream(paths, input=kind, shuffle=False, buffer_sentences=3, num_epochs=2)
    assert list(stream) == sentences_of(texts, kind) * 2


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_every_sentence_comes_once_an_epoch(paths: list[Path], texts: list[str], kind: InputKind, size: int) -> None:
    expected = sorted(sentences_of(texts, kind))
    stream = SentenceStream(paths, input=kind, buffer_sentences=size, num_epochs=3)
    for epoch in range(3):
        assert stream.epoch == epoch
        assert sorted(islice(stream, len(expected))) == expected
        assert stream.num_sentences == len(expected) * (epoch + 1)
    assert stream.epoch == 3
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(stream)


def test_orders_repeat_with_the_seed_and_differ_between_epochs(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [f"{number}\n" for number in range(20)])
    many = tmp_path / "many.txt"
    many.write_text("".join(f"{number}\n" for number in range(20)))
    for files, size in ((paths, 1), ([many], 20)):

        def orders(seed: int, files: list[Path] = files, size: int = size) -> list[list[list[str]]]:
            stream = SentenceStream(files, seed=seed, buffer_sentences=size)
            return [list(islice(stream, 20)) for _ in range(4)]

        assert orders(0) == orders(0)
        seen = [*orders(0), *orders(1)]
        assert all(one != other for one, other in pairwise(sorted(seen)))
        assert sorted(seen[0]) == sorted(seen[5])


def test_the_order_is_this_one_on_every_machine(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["a\nb\nc\n", "d\ne\nf\n", "g\nh\n"], compressed=False)
    for order, expected in (("files", "bdcahfeghgedcbaf"), ("mixed", "aegdcfbhagbdfche")):
        stream = SentenceStream(paths, seed=6, buffer_sentences=4, num_epochs=2, order=order)  # type: ignore[arg-type]
        assert "".join(token for (token,) in stream) == expected


def test_buffers_run_over_the_ends_of_files(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [f"{number}\n" for number in range(12)])
    drawn = [int(token) for (token,) in SentenceStream(paths, buffer_sentences=6, num_epochs=1)]
    files = stream_order(paths)
    assert sorted(drawn[:6]) == sorted(files[:6])
    assert drawn[:6] != files[:6]


def stream_order(paths: list[Path]) -> list[int]:
    """The order of the files, by a buffer of one sentence."""
    return [int(token) for (token,) in SentenceStream(paths, buffer_sentences=1, num_epochs=1)]


def check_every_resume(paths: list[Path], **options: Any) -> None:
    """At every place the state, through JSON, gives the rest to a new stream, and the same states with it."""
    whole = SentenceStream(paths, **options)
    states, sentences = [whole.state_dict()], []
    for sentence in whole:
        sentences.append(sentence)
        states.append(whole.state_dict())
    assert sentences
    for number, state in enumerate(states):
        stream = SentenceStream(paths, **options)
        stream.load_state_dict(json.loads(json.dumps(state)))
        assert stream.state_dict() == state
        assert (stream.epoch, stream.num_sentences) == (state["epoch"], number)
        assert list(islice(stream, 5)) == sentences[number : number + 5]
        assert stream.state_dict() == states[min(number + 5, len(sentences))]
        assert list(stream) == sentences[number + 5 :]


@pytest.mark.parametrize("order", ["files", "mixed", "sorted"])
@pytest.mark.parametrize("passage", [1, 2, 50])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_resuming_anywhere(paths: list[Path], kind: InputKind, size: int, passage: int, order: str) -> None:
    options: dict[str, Any] = {"shuffle": False} if order == "sorted" else {"order": order}
    options |= {"buffer_sentences": size, "passage_sentences": passage}
    check_every_resume(paths, input=kind, num_epochs=2, seed=3, **options)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(st.text("ab.? \n\u2003é", max_size=30), min_size=1, max_size=4),
    size=st.integers(1, 5),
    seed=st.integers(0, 2**70),
    kind=st.sampled_from(["tokens", "text"]),
    order=st.sampled_from(["files", "mixed"]),
    lanes=st.integers(1, 6),
)
def test_resuming_anything(
    texts: list[str],
    size: int,
    seed: int,
    kind: InputKind,
    order: Order,
    lanes: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    paths = write_files(folder, [*texts, "z"])
    expected = sorted(sentences_of([*texts, "z"], kind))
    options: dict[str, Any] = {"input": kind, "seed": seed, "buffer_sentences": size, "order": order}
    options |= {"max_open_files": lanes}
    assert sorted(SentenceStream(paths, num_epochs=1, **options)) == expected
    check_every_resume(paths, num_epochs=2, **options)


def test_a_stream_can_go_back_to_its_own_state(paths: list[Path], kind: InputKind) -> None:
    stream = SentenceStream(paths, input=kind, buffer_sentences=4)
    list(islice(stream, 5))
    state = stream.state_dict()
    rest = list(islice(stream, 30))
    stream.load_state_dict(state)
    assert list(islice(stream, 30)) == rest


def test_a_finished_run_may_go_on_for_more_epochs(paths: list[Path], kind: InputKind) -> None:
    short = SentenceStream(paths, input=kind, num_epochs=1)
    first = list(short)
    longer = SentenceStream(paths, input=kind, num_epochs=2)
    longer.load_state_dict(short.state_dict())
    assert first + list(longer) == list(SentenceStream(paths, input=kind, num_epochs=2))


@pytest.mark.parametrize(("order", "num_ahead"), [("files", 1), ("mixed", 4)])
def test_a_resume_reads_only_the_present_buffer(
    order: str, num_ahead: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a passage ahead in each file that is open."""
    paths = write_files(tmp_path, ["One. Two. Three.\n" * 100] * 4, compressed=False)
    options: dict[str, Any] = {"input": "text", "buffer_sentences": 10, "num_epochs": 1, "order": order}
    stream = SentenceStream(paths, **options)
    list(islice(stream, 995))
    state, rest = stream.state_dict(), list(stream)
    lines: list[str] = []
    original = tokenize
    monkeypatch.setattr(text_lines, "tokenize", lambda line: lines.append(line) or original(line))
    again = SentenceStream(paths, **options)
    again.load_state_dict(state)
    assert next(again) == rest[0]
    assert 4 <= len(lines) <= 4 + num_ahead
    assert list(again) == rest[1:]


def test_buffers_are_bounded_by_bytes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "_MAX_BUFFER_BYTES", 100)
    paths = write_files(tmp_path, ["".join(f"{number:02} {'é' * 20}\n" for number in range(50))])  # 43 bytes each
    stream = SentenceStream(paths, num_epochs=1)
    numbers = []
    for sentence in stream:
        numbers.append(int(sentence[0]))
        assert len(stream._buffer) <= 3
    blocks = [numbers[start : start + 3] for start in range(0, 50, 3)]
    assert [sorted(block) for block in blocks] == [list(range(50))[start : start + 3] for start in range(0, 50, 3)]
    assert numbers != sorted(numbers)
    check_every_resume(paths, num_epochs=1)


def test_position_names_the_place_of_the_buffer(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n\na\nb\n\nc\nd\n")
    stream = SentenceStream([path], buffer_sentences=2, num_epochs=1)
    assert stream.position == f"{path}, line 1"
    positions = [stream.position for _ in stream]
    assert positions == [f"{path}, line 3", f"{path}, line 6", f"{path}, line 6", f"{path}, line 1"]


def assert_one_sentence(error: pytest.ExceptionInfo[Exception]) -> None:
    text = str(error.value)
    assert text.endswith(".") and "\n" not in text


@pytest.mark.parametrize("num_epochs", [1, None])
def test_a_corpus_without_a_sentence(tmp_path: Path, kind: InputKind, num_epochs: int | None) -> None:
    paths = write_files(tmp_path, ["", "\n \n"])
    stream = SentenceStream(paths, input=kind, num_epochs=num_epochs)
    with pytest.raises(InputError, match=r"there is no sentence in .*part-0\.txt, .*part-1\.gz: give") as error:
        next(stream)
    assert_one_sentence(error)
    with pytest.raises(InputError, match="no files"):
        SentenceStream([])


def test_a_file_that_vanishes_and_comes_back(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["a\n" * 5, "b\n" * 5, "c\n" * 5], compressed=False)
    expected = list(SentenceStream(paths, shuffle=False, buffer_sentences=2, num_epochs=1))
    stream = SentenceStream(paths, shuffle=False, buffer_sentences=2, num_epochs=1)
    first = list(islice(stream, 3))
    hidden = tmp_path / "hidden"
    paths[2].rename(hidden)
    with pytest.raises(InputError, match=r"part-2\.txt cannot be read: .*; the run can be resumed when") as error:
        first.extend(stream)
    assert_one_sentence(error)
    state = stream.state_dict()
    assert state["num_sentences"] == len(first) > 3
    hidden.rename(paths[2])
    resumed = SentenceStream(paths, shuffle=False, buffer_sentences=2, num_epochs=1)
    resumed.load_state_dict(state)
    assert first + list(resumed) == first + list(stream) == expected


def test_files_that_change_while_in_use(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["a\nb\n", "c\n"], compressed=False)
    stream = SentenceStream(paths, shuffle=False)
    paths[1].write_text("c\nd\n")
    with pytest.raises(InputError, match=r"part-1\.txt has changed while it was in use"):
        next(stream)


@pytest.mark.parametrize(("num_emitted", "line"), [(1, 1), (2, 3)])
def test_a_place_that_is_no_more(tmp_path: Path, num_emitted: int, line: int) -> None:
    paths = write_files(tmp_path, ["aa\nb\nc\n"], compressed=False)
    stream = SentenceStream(paths, shuffle=False, buffer_sentences=2)
    list(islice(stream, num_emitted))
    state = stream.state_dict()
    paths[0].write_text("a b c d")  # of the same size
    other = SentenceStream(paths, shuffle=False, buffer_sentences=2)
    other.load_state_dict(state)
    with pytest.raises(InputError, match=rf"the corpus ends before .*part-0\.txt, line {line}: restore") as error:
        next(other)
    assert_one_sentence(error)


@pytest.mark.skipif(os.name != "posix", reason="needs named pipes")
def test_only_files_that_can_be_read_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in ((tmp_path / "pipe", "not a regular file"), (tmp_path / "no", "cannot be read: No such")):
        with pytest.raises(InputError, match=words):
            SentenceStream([path])


def test_states_of_another_corpus(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["a\n", "b\n", "c c\n"], compressed=False)
    state = SentenceStream(paths, input="tokens").state_dict()
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    copies = [moved / path.name for path in paths]
    for path, copy in zip(paths, copies, strict=True):
        copy.write_bytes(path.read_bytes())
    SentenceStream(copies, input="tokens").load_state_dict(state)
    cases: list[tuple[list[Path], dict[str, Any], str]] = [
        (paths[:2], {}, "num_files is 2, but 3"),
        (paths[::-1], {}, "the names of the files"),
        (paths, {"seed": 1}, "seed is 1, but 0"),
        (paths, {"shuffle": False}, "shuffle is 0, but 1"),
        (
            paths,
            {"order": "files"},
            "in the order 'files', but 'mixed' in the run to resume: give the same corpus.order",
        ),
        (paths, {"weights": {"part-1*": 2}}, "the weights of the files are not those of the run"),
        (paths, {"max_open_files": 2}, "max_open_files is 2, but 32"),
        (paths, {"buffer_sentences": 5}, "buffer_sentences is 5, but 100000"),
        (
            paths,
            {"input": "text"},
            "as raw text, but were read as tokens in the run to resume: give the same --input",
        ),
    ]
    for files, options, words in cases:
        with pytest.raises(InputError, match=words) as error:
            SentenceStream(files, **{"input": "tokens", **options}).load_state_dict(state)
        assert_one_sentence(error)
    paths[0].write_text("a a\n")
    with pytest.raises(InputError, match="the sizes of the files"):
        SentenceStream(paths, input="tokens").load_state_dict(state)


@pytest.mark.parametrize("change", [{"file": 9}, {"line": -1}, {"epoch": None}, {"buffer": "1"}])
def test_states_that_are_none(tmp_path: Path, change: dict[str, Any]) -> None:
    stream = SentenceStream(write_files(tmp_path, ["a\n"]))
    with pytest.raises(InputError, match="not a state of a sentence stream"):
        stream.load_state_dict(stream.state_dict() | change)
    with pytest.raises(InputError, match="not a state of a sentence stream"):
        stream.load_state_dict({})
    assert next(stream) == ["a"]


def test_settings_that_make_no_sense(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["a\n"])
    wrong: list[dict[str, Any]] = [{"order": "any"}, {"max_open_files": 0}, {"lengths": [1, 2]}, {"weights": 2}]
    wrong += [{"weights": {"*": weight}} for weight in (0, -1, math.nan, 1000, "2")]
    wrong += [{"weights": {pattern: 1}} for pattern in ("", "other", 3)]
    wrong += [{"weights": {"*": 2}, "order": "files"}, {"weights": {"*": 2}, "shuffle": False}]
    wrong += [{"seed": -1}, {"buffer_sentences": 0}, {"num_epochs": 0}, {"input": "words"}]
    for options in wrong:
        with pytest.raises(ConfigError):
            SentenceStream(paths, **options)


def test_find_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep/er").mkdir(parents=True)
    for name in ("b.txt", "a.txt", "a[1].txt", "deep/c.txt", "deep/er/d.txt", "e.xz"):
        (tmp_path / name).write_text("x")

    def names(*patterns: str) -> list[str]:
        return [path.as_posix() for path in find_files(patterns)]

    assert names("b.txt", "a.txt", "./b.txt", "*.xz") == ["a.txt", "b.txt", "e.xz"]
    assert names("a[1].txt") == ["a[1].txt"]
    assert names("deep/**") == names("deep/**/*.txt") == ["deep/c.txt", "deep/er/d.txt"]
    assert names(str(tmp_path / "a.txt"), "a.txt") == [(tmp_path / "a.txt").as_posix()]
    for pattern, words in (("no*.txt", "no file matches 'no"), ("no.txt", "no file"), ("deep", "is a folder")):
        with pytest.raises(InputError, match=words) as error:
            find_files(["a.txt", pattern])
        assert_one_sentence(error)
