"""Several files at once: even shares at every point, weights, bounded files and memory, and runs older than that."""

import json
import resource
import subprocess
import sys
import tracemalloc
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.corpus.mixing import deal_out
from elmokit.corpus.passages import count_characters
from elmokit.corpus.stream import SentenceStream
from elmokit.corpus.survey import survey_corpus
from elmokit.errors import ConfigError, InputError
from tests.corpus.test_stream import check_every_resume, passages_of
from tests.corpus.texts import write_files

GENRES = {"books": 400, "news": 100, "wiki": 250, "verse": 9}


def write_genres(folder: Path, sizes: dict[str, int], *, num_files: int = 1) -> list[Path]:
    """Files of sentences of about the same length, each of the form genre, number, padding."""
    paths = []
    for genre, size in sizes.items():
        for part in range(num_files):
            paths.append(folder / f"{genre}-{part:03}.txt")
            lines = [f"{genre} {part}-{number:05} {'x' * (number % 7)}" for number in range(size)]
            paths[-1].write_text("".join(f"{line}\n" for line in lines))
    return sorted(paths)


def shares_by_tenths(sentences: list[list[str]], sizes: dict[str, int]) -> list[dict[str, float]]:
    """The share of each genre that has come after each tenth of an epoch."""
    tenth = len(sentences) // 10
    counts = [Counter(genre for genre, *_ in sentences[: tenth * number]) for number in range(1, 10)]
    return [{genre: count[genre] / size for genre, size in sizes.items()} for count in counts]


def test_every_genre_is_read_to_the_same_share_at_every_tenth(tmp_path: Path) -> None:
    paths = write_genres(tmp_path, GENRES)
    found = list(SentenceStream(paths, input="tokens", buffer_sentences=20, num_epochs=1))
    assert len(found) == sum(GENRES.values())
    for number, shares in enumerate(shares_by_tenths(found, GENRES), start=1):
        for genre, share in shares.items():
            assert abs(share - number / 10) <= 0.03 + 1 / GENRES[genre], (genre, number)
    in_files = list(SentenceStream(paths, input="tokens", buffer_sentences=20, num_epochs=1, order="files"))
    assert any(abs(share - 0.5) > 0.4 for share in shares_by_tenths(in_files, GENRES)[4].values())


def test_genres_of_many_files_are_read_to_the_same_share(tmp_path: Path) -> None:
    """Files of a genre share lanes, a few of them with the next genre; the order within is another in each epoch."""
    sizes = {"books": 20, "news": 10, "wiki": 35}
    paths = write_genres(tmp_path, sizes, num_files=40)
    stream = SentenceStream(paths, input="tokens", buffer_sentences=20, num_epochs=2, max_open_files=16)
    epochs = [list(islice(stream, 40 * sum(sizes.values()))) for _ in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1])
    for found in epochs:
        for number, shares in enumerate(shares_by_tenths(found, {genre: 40 * n for genre, n in sizes.items()}), 1):
            assert all(abs(share - number / 10) < 0.1 for share in shares.values()), shares
    firsts = [{f"{genre} {part.partition('-')[0]}" for genre, part, *_ in found[:200]} for found in epochs]
    assert firsts[0] != firsts[1]


def test_short_files_do_not_all_come_first(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["long\n" * 1000, *(f"short-{number}\n" for number in range(30))], compressed=False)
    stream = SentenceStream(paths, input="tokens", buffer_sentences=1, num_epochs=1)
    places = [number for number, (token,) in enumerate(stream) if token != "long"]
    assert min(places) < 200 and max(places) > 800


def test_a_file_of_one_long_line_is_mixed_by_sentences(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["It rains. " * 50 + "\n", "It snows.\n" * 50], compressed=False)
    found = list(SentenceStream(paths, input="text", buffer_sentences=1, num_epochs=1))
    assert len(found) == 100
    assert 24 <= sum("rains" in sentence for sentence in found[:50]) <= 26


@pytest.mark.parametrize("max_open_files", [1, 2, 5])
def test_passages_stay_whole(tmp_path: Path, max_open_files: int) -> None:
    texts = ["a\nb\nc\nd\ne\n\nf\ng\n\n\n", "h\ni\nj\nk", "l\n\nm\nn\n"]
    paths = write_files(tmp_path, texts)
    options: dict[str, Any] = {"passage_sentences": 3, "input": "tokens", "max_open_files": max_open_files}
    for seed in range(10):
        stream = SentenceStream(paths, seed=seed, buffer_sentences=4, num_epochs=1, **options)
        found = ["".join(token for (token,) in passage) for passage in passages_of(stream)]
        assert sorted(found) == ["abc", "de", "fg", "hij", "k", "l", "mn"]


def test_lengths_of_a_survey_are_those_that_a_stream_counts(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["\ufeffIt rains. Why?\n\n", "", "a\x85b\u2028c é\r\nd", "x\n" * 5])
    found = [size.characters for size in survey_corpus(paths, input="text").by_file]
    assert found == list(map(count_characters, paths)) == [16, 0, 10, 10]
    plain = SentenceStream(paths, buffer_sentences=2, num_epochs=2)
    given = SentenceStream(paths, buffer_sentences=2, num_epochs=2, lengths=found)
    assert list(plain) == list(given)
    assert plain.state_dict() == given.state_dict()


# --- Weights ---------------------------------------------------------------------------------------------------------


def test_weights(tmp_path: Path) -> None:
    """Twice is twice in each epoch; half is the other half in the next one."""
    paths = write_genres(tmp_path, GENRES)
    weights = {"books-*": 0.5, "news*": 2, "wiki-000.txt": 1}
    stream = SentenceStream(paths, input="tokens", buffer_sentences=20, num_epochs=2, weights=weights)
    epochs: list[list[list[str]]] = [[], []]
    while stream.epoch < 2:
        number = stream.epoch
        epochs[number].append(next(stream))
    counts = [Counter(map(" ".join, found)) for found in epochs]
    times = [
        {genre: Counter(n for s, n in count.items() if s.startswith(genre)) for genre in GENRES} for count in counts
    ]
    for found in times:
        assert found["news"] == {2: 100} and found["wiki"] == {1: 250} and found["verse"] == {1: 9}
        assert set(found["books"]) == {1} and abs(found["books"][1] - 200) < 3
    books = [{sentence for sentence in count if sentence.startswith("books")} for count in counts]
    assert not books[0] & books[1] and len(books[0] | books[1]) == 400
    for number, shares in enumerate(shares_by_tenths(epochs[0], {"books": 200, "news": 200, "wiki": 250}), start=1):
        assert all(abs(share - number / 10) < 0.04 for share in shares.values()), shares


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    weight=st.floats(0.2, 4),
    num_epochs=st.integers(1, 4),
    lanes=st.integers(1, 5),
    passage=st.integers(1, 3),
)
def test_after_any_epochs_all_lines_have_come_as_often_as_the_weight_says(
    sizes: list[int],
    weight: float,
    num_epochs: int,
    lanes: int,
    passage: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    texts = ["".join(f"{file}-{number}\n" for number in range(size)) for file, size in enumerate([*sizes, 3])]
    paths = write_files(tmp_path_factory.mktemp("corpus"), texts, compressed=False)
    weights = {"part-0.txt": weight} if len(texts) > 1 else None
    options: dict[str, Any] = {"weights": weights, "max_open_files": lanes, "passage_sentences": passage}
    options |= {"input": "tokens", "buffer_sentences": 4, "num_epochs": num_epochs}
    counts = Counter(token for (token,) in SentenceStream(paths, **options))
    for text, times in zip(texts, [weight * num_epochs, *[num_epochs] * len(sizes)], strict=True):
        for token in text.split():
            assert abs(counts[token] - times) < 1
    check_every_resume(paths, **options)


def test_patterns(tmp_path: Path) -> None:
    (tmp_path / "lm").mkdir()
    paths = write_genres(tmp_path / "lm", {"books": 4, "news": 4})

    def count(weights: dict[str, float]) -> Counter[str]:
        stream = SentenceStream(paths, input="tokens", num_epochs=1, weights=weights)
        return Counter(genre for genre, *_ in stream)

    assert count({"lm/news*": 2}) == {"books": 4, "news": 8}
    assert count({"news*": 2, "*": 3}) == {"books": 12, "news": 8}
    with pytest.raises(ConfigError, match=r"the pattern 'wiki-\*' of corpus\.weights decides for no training file"):
        count({"wiki-*": 2})
    with pytest.raises(ConfigError, match=r"the pattern 'news\*' .*the first that matches a file decides"):
        count({"*": 3, "news*": 2})


def test_weights_that_leave_an_epoch_nothing(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["only\n"], compressed=False)
    stream = SentenceStream(paths, weights={"*": 0.5})
    assert next(stream) == ["only"]
    with pytest.raises(InputError, match=r"the weights leave epoch 2 no sentence of .*part-0\.txt: give larger ones"):
        next(stream)


# --- Bounds ----------------------------------------------------------------------------------------------------------

_FEW_FILES = """
import resource, sys
from pathlib import Path
from elmokit.corpus.stream import SentenceStream
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
found = list(SentenceStream(sorted(Path(sys.argv[1]).glob("*.txt")), input="tokens", num_epochs=1))
print(len(found), len(set(map(tuple, found))))
"""


@pytest.mark.slow
def test_many_files_need_few_descriptors(tmp_path: Path) -> None:
    write_genres(tmp_path, {"books": 3, "news": 5, "wiki": 4}, num_files=100)
    command = [sys.executable, "-c", _FEW_FILES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "1200 1200\n", done.stderr
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] != 60


def test_memory_does_not_grow_with_the_files(tmp_path: Path) -> None:
    """Of 12 MB of text no more than the buffer and what files read ahead is held."""
    lines = "".join(f"{number:06} {'word ' * 20}\n" for number in range(3000))
    for number in range(40):
        (tmp_path / f"{number:02}.txt").write_text(lines)
    stream = SentenceStream(sorted(tmp_path.glob("*.txt")), input="tokens", buffer_sentences=500, num_epochs=1)
    tracemalloc.start()
    try:
        total = sum(1 for _ in stream)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 120_000
    assert peak < 3_000_000


@settings(max_examples=100, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 1000), min_size=1, max_size=60),
    weights=st.none() | st.lists(st.floats(0.01, 5), min_size=60, max_size=60),
    lanes=st.integers(1, 20),
    epoch=st.integers(0, 5),
)
def test_lanes(lengths: list[int], weights: list[float] | None, lanes: int, epoch: int) -> None:
    """Never too many, every file in one of them, and the large files of many have their own."""
    dealt = deal_out(lengths, weights, seed=1, epoch=epoch, max_lanes=lanes)
    assert len(dealt) <= lanes
    assert all(lane.length for lane in dealt)
    homes = [{stretch.file for stretch in lane.stretches} for lane in dealt]
    assert sum(map(len, homes)) == len(set().union(*homes))
    if weights is None:
        assert set().union(*homes) == {number for number, length in enumerate(lengths) if length}
        assert sum(lane.length for lane in dealt) == sum(lengths)


# --- States ----------------------------------------------------------------------------------------------------------

OLD_TEXTS = ["a\nb\nc\n\nd\ne\n", "f g\nh\ni\n", "j\nk\nl\nm\n"]
OLD_OPTIONS: dict[str, Any] = {"input": "tokens", "seed": 5, "buffer_sentences": 4, "num_epochs": 2}
OLD_OPTIONS["passage_sentences"] = 2
OLD_STATE = json.loads(
    '{"epoch": 0, "num_sentences": 6, "buffer": 1, "num_emitted": 1, "within": 0, "file": 1, "line": 0, "sentence": 0,'
    ' "num_files": 3, "names": 261649983523546, "sizes": 211577345869841, "raw_text": 0, "seed": 5, "shuffle": 1,'
    ' "buffer_sentences": 4, "passage_sentences": 2}'
)
"""As the stream saved it that read one file after the other, and below what it gave out next."""


def test_a_state_without_an_order_goes_on_file_by_file(tmp_path: Path) -> None:
    paths = write_files(tmp_path, OLD_TEXTS, compressed=False)
    stream = SentenceStream(paths, order="files", **OLD_OPTIONS)
    stream.load_state_dict(OLD_STATE)
    assert stream.state_dict().items() >= OLD_STATE.items()
    assert " ".join(map("".join, stream)) == "a b c fg h i l m j k d e a b c fg h i"
    with pytest.raises(InputError, match=r"in the order 'mixed', but 'files' in the run to resume"):
        SentenceStream(paths, **OLD_OPTIONS).load_state_dict(OLD_STATE)


def test_a_single_file_needs_no_order(tmp_path: Path) -> None:
    """Its states are the same in either, so that a run over one file is as it was."""
    paths = write_files(tmp_path, ["a\nb\nc\nd\n"])
    streams = [SentenceStream(paths, buffer_sentences=2, order=order) for order in ("files", "mixed")]
    for _ in range(10):
        assert streams[0].state_dict() == streams[1].state_dict()
        assert next(streams[0]) == next(streams[1])


@pytest.mark.parametrize(
    "places", [None, 3, [[0, 0]], [[0, 0, -1]], [[0, 0, 0.5]], [[0, 0, 0]], [[9, 0, 0], [0, 0, 0]], ["abc", "abc"]]
)
def test_places_that_are_none(tmp_path: Path, places: Any) -> None:
    paths = write_files(tmp_path, ["a\n", "b\n"])
    stream = SentenceStream(paths, num_epochs=1)
    with pytest.raises(InputError, match="not a state of a sentence stream"):
        stream.load_state_dict(stream.state_dict() | {"places": places})
        next(stream)
    again = SentenceStream(paths, num_epochs=1)
    assert sorted(again) == [["a"], ["b"]]


def test_a_file_that_vanishes_and_comes_back(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["a\n" * 5, "b\n" * 5, "c\n" * 5], compressed=False)
    options: dict[str, Any] = {"buffer_sentences": 2, "num_epochs": 2}
    expected = list(SentenceStream(paths, **options))
    stream = SentenceStream(paths, **options)
    first = list(islice(stream, 3))
    hidden = tmp_path / "hidden"
    paths[2].rename(hidden)
    with pytest.raises(InputError, match=r"part-2\.txt cannot be read: .*; the run can be resumed when"):
        first.extend(stream)
    state = stream.state_dict()
    assert state["num_sentences"] == len(first) == 15  # it was open in the first epoch
    hidden.rename(paths[2])
    resumed = SentenceStream(paths, **options)
    resumed.load_state_dict(state)
    assert first + list(resumed) == first + list(stream) == expected


def test_the_position_names_several_files(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["a\n" * 9] * 5, compressed=False)
    stream = SentenceStream(paths, buffer_sentences=10, num_epochs=1)
    begin = "; ".join(f"{path}, line 1" for path in paths[:3])
    assert stream.position == f"{begin}; …"
    list(islice(stream, 10))
    assert stream.position == f"{begin.replace('line 1', 'line 3')}; …"
