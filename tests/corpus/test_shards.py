"""Counting, checking and sharding: the same with any number of processes, and right about what is wrong."""

import hashlib
import json
import subprocess
import sys
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from elmokit.corpus import blocks, check, survey
from elmokit.corpus import shards as shards_module
from elmokit.corpus.blocks import Block, map_blocks
from elmokit.corpus.check import check_corpus
from elmokit.corpus.counting import build_vocabulary, count_words
from elmokit.corpus.shards import Compression, write_shards
from elmokit.corpus.stream import SentenceStream
from elmokit.errors import ConfigError, ElmokitError, ElmokitWarning, FormatError, InputError
from elmokit.text.files import find_files
from elmokit.text.input_kind import InputKind
from elmokit.text.lines import read_sentences
from elmokit.text.vocabulary import SPECIALS, Vocabulary, read_vocabulary, write_vocabulary
from tests.corpus.texts import count_opens, sentences_of, write_files

PROSE = Path(__file__).parents[1] / "fixtures/prose.txt"


@pytest.fixture
def paths(texts: list[str], tmp_path: Path) -> list[Path]:
    (tmp_path / "in").mkdir()
    return write_files(tmp_path / "in", texts)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_BLOCK_CHARACTERS", 4)


def number_lines(block: Block) -> list[tuple[str, int, str]]:
    return [(block.path.name, number, line) for number, line in enumerate(block.lines, start=block.first_line)]


def exit_at_once(block: Block) -> None:
    sys.exit(int(block.first_line < 0))


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2, None])
def test_blocks_are_all_lines_in_order(paths: list[Path], texts: list[str], small_blocks: None, processes: int) -> None:
    seen: list[tuple[int, int]] = []
    blocks = list(map_blocks(number_lines, paths, processes=processes, progress=lambda *pair: seen.append(pair)))
    expected = [
        (path.name, number, line)
        for path, text in zip(paths, texts, strict=True)
        for number, line in enumerate(text.splitlines(keepends=True) if text.isascii() else lines_of(text), start=1)
    ]
    assert [line for block in blocks for line in block] == expected
    assert len(blocks) > 5
    total = sum(path.stat().st_size for path in paths)
    assert seen == sorted(seen) and seen[-1] == (total, total) and 0 <= seen[0][0] < total


def lines_of(text: str) -> list[str]:
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


@pytest.mark.slow
def test_memory_is_bounded_by_a_few_blocks(tmp_path: Path, small_blocks: None) -> None:
    paths = write_files(tmp_path, ["word\n" * 200], compressed=False)
    seen: list[tuple[int, int]] = []
    results = map_blocks(number_lines, paths * 50, processes=2, progress=lambda *pair: seen.append(pair))
    next(results)
    assert len(seen) <= 6
    results.close()  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_process_that_dies_is_one_sentence(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["a\n"])
    with pytest.raises(SystemExit):
        list(map_blocks(exit_at_once, paths, processes=1))
    with pytest.raises(ElmokitError, match=r"ended at once or was killed: free some memory .*\.$"):
        list(map_blocks(partial(kill_oneself), paths, processes=2))


def kill_oneself(block: Block) -> None:
    import os

    os._exit(3)


def test_processes_must_be_some(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"processes \(0\) must be"):
        count_words(write_files(tmp_path, ["a\n"]), processes=0)


def test_workers_load_no_torch() -> None:
    script = "import sys, elmokit.corpus.check; print('torch' in sys.modules, 'h5py' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


@pytest.mark.parametrize("processes", [1, 2])
def test_counts(paths: list[Path], texts: list[str], kind: InputKind, small_blocks: None, processes: int) -> None:
    expected = Counter(token for sentence in sentences_of(texts, kind) for token in sentence)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert count_words(paths, input=kind, processes=processes) == expected


def test_counts_of_more_words_than_can_be_held(
    tmp_path: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_files(tmp_path, ["".join(f"often rare{number}\n" for number in range(35))])
    with pytest.warns(ElmokitWarning, match="more than 10 distinct words, .* by up to 3") as caught:
        counts = count_words(paths, processes=1, max_distinct=10)
    assert len(caught) == 1
    assert counts == {"often": 35} | {f"rare{number}": 1 for number in range(30, 35)}
    monkeypatch.setattr(check, "WordCounts", partial(survey.WordCounts, 10))
    report = check_corpus(paths, processes=1)
    assert report.num_distinct == 6
    assert report.notes == ["num_distinct leaves out words that were seen at most 3 times."]


@pytest.mark.parametrize("processes", [1, 2])
def test_wrong_bytes_are_named(tmp_path: Path, processes: int) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"fine\nna\xefve\n")
    with pytest.raises(InputError, match=r"^line 2 of .*latin\.txt is not UTF-8: convert .*\.$"):
        count_words([path], processes=processes)
    assert count_words([path], input="tokens", processes=processes, errors="replace") == {"fine": 1, "na\ufffdve": 1}


def test_vocabularies_are_sorted_and_cut(tmp_path: Path) -> None:
    counts = {"b": 2, "a": 2, "é": 5, "<S>": 9, "<UNK>": 7, "!!!MAXTERMID": 8, "rare": 1, "Z": 2}
    assert build_vocabulary(counts).tokens == (*SPECIALS, "é", "Z", "a", "b", "rare")
    assert build_vocabulary(counts, min_count=2).tokens == (*SPECIALS, "é", "Z", "a", "b")
    assert build_vocabulary(counts, max_size=5).tokens == (*SPECIALS, "é", "Z")
    write_vocabulary(build_vocabulary(counts), tmp_path / "vocab.txt")
    assert read_vocabulary(tmp_path / "vocab.txt") == build_vocabulary(counts)
    for nothing in ({}, {"<S>": 3, "</S>": 3, "<UNK>": 9}, {"rare": 1}):
        with pytest.raises(InputError, match="no word occurs 2 times or more"):
            build_vocabulary(nothing, min_count=2)
    with pytest.raises(ConfigError, match=r"max_size \(3\) must be an integer of at least 4"):
        build_vocabulary(counts, max_size=3)
    with pytest.raises(ConfigError, match=r"min_count \(0\) must be an integer of at least 1"):
        build_vocabulary(counts, min_count=0)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_report_counts(
    paths: list[Path], texts: list[str], kind: InputKind, small_blocks: None, processes: int
) -> None:
    sentences = sentences_of(texts, kind)
    counts = Counter(token for sentence in sentences for token in sentence)
    lines = [line for text in texts for line in lines_of(text)]
    report = check_corpus(paths, input=kind, processes=processes)
    assert report.num_files == 4
    assert report.num_lines == len(lines)
    assert report.num_blank_lines == sum(not line.split() for line in lines) > 2
    assert report.num_sentences == len(sentences)
    assert report.num_tokens == counts.total()
    assert report.num_predictions == counts.total() + len(sentences)
    assert report.num_distinct == len(counts)
    assert report.num_duplicates == len(sentences) - len(set(map(tuple, sentences)))
    assert report.coverage is report.heldout_overlap is report.num_heldout_sentences is None
    assert report.notes == []
    assert json.loads(json.dumps(report.to_dict()))["num_lines"] == len(lines)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_report_names_what_is_wrong(tmp_path: Path, small_blocks: None, processes: int) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    fine = "tab\tand return are fine\r\n"
    first.write_text(f"{fine}{'é' * 24} {'x' * 48} fine\n{'é' * 25} {'x' * 49} long\n{'w ' * 1000}\n{'w ' * 1001}\n")
    second.write_bytes(b"\xff\n" * 5 + "bell \x07\nnull \0 \x9c\nlost \ufffd\n".encode() + b"\xed\xa0\x80 surrogate\n")
    report = check_corpus([first, second], processes=processes)
    found = {name: (finding.count, finding.places) for name, finding in vars(report.findings).items()}
    assert found == {
        "long_tokens": (2, [f"{first}:3"]),
        "long_sentences": (1, [f"{first}:5"]),
        "encoding_faults": (6, [f"{second}:{number}" for number in (1, 2, 3)]),
        "control_characters": (2, [f"{second}:6", f"{second}:7"]),
        "replacement_characters": (1, [f"{second}:8"]),
    }
    assert report.num_sentences == 14
    assert report.num_duplicates == 4


def test_a_report_on_vocabulary_and_heldout_sentences(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["a b c d e\na b\n", "<UNK> c c c c c\n"])
    heldout = tmp_path / "heldout.txt"
    heldout.write_text("a b c d e\na b c d e\na b c d e f\na b\nc c c c c\n")
    report = check_corpus(paths, vocabulary=Vocabulary([*SPECIALS, "a", "c"]), heldout=[heldout], processes=1)
    assert report.coverage == pytest.approx(8 / 13)
    assert report.oov_rate == pytest.approx(5 / 13)
    assert report.num_heldout_sentences == 4
    assert report.heldout_overlap == 0.5
    heldout.write_text("too short\n")
    assert check_corpus(paths, heldout=[heldout]).heldout_overlap is None


def test_duplicates_of_more_sentences_than_can_be_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_files(tmp_path, ["".join(f"{number % 4000}\n" for number in range(8000))])
    assert check_corpus(paths).num_duplicates == 4000
    monkeypatch.setattr(check, "_MAX_HASHES", 2000)
    monkeypatch.setattr(blocks, "_BLOCK_CHARACTERS", 100)
    report = check_corpus(paths)
    assert report.num_duplicates == pytest.approx(4000, rel=0.15)
    assert report.num_duplicates % 4 == 0
    assert report.notes == ["num_duplicates is estimated from every 4th distinct sentence."] or "8th" in report.notes[0]


def test_a_report_on_nothing(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["", "\n"])
    report = check_corpus(paths, vocabulary=Vocabulary([*SPECIALS, "a"]))
    assert (report.num_lines, report.num_sentences, report.num_duplicates, report.coverage) == (1, 0, 0, None)
    with pytest.raises(InputError, match="cannot be read"):
        check_corpus([tmp_path / "no.txt"])


@pytest.mark.parametrize("compression", ["xz", "gz", "none"])
def test_shards_hold_every_sentence_once(
    paths: list[Path],
    texts: list[str],
    kind: InputKind,
    compression: Compression,
    small_blocks: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shards_module, "_MAX_CHUNK_BYTES", 10)
    output = tmp_path / "out"
    summary = write_shards(paths, output, num_shards=3, input=kind, compression=compression, processes=1)
    shards = find_files([str(output / "shard-*")])
    found = [list(read_sentences(path, input="tokens")) for path in shards]
    expected = sentences_of(texts, kind)
    assert sorted(sentence for sentences in found for sentence in sentences) == sorted(expected)
    assert len(shards) == 3 and all(found)
    written = json.loads((output / "corpus.json").read_text())
    assert written == {"format": "elmokit-corpus", "version": 1, **summary.to_dict()}
    assert written["num_sentences"] == len(expected)
    assert written["num_tokens"] == sum(map(len, expected))
    assert [shard["num_sentences"] for shard in written["shards"]] == list(map(len, found))
    assert [source["name"] for source in written["sources"]] == [path.name for path in paths]
    assert sorted(SentenceStream(shards, num_epochs=1)) == sorted(expected)


@pytest.mark.slow
def test_shards_are_the_same_with_any_number_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_BLOCK_CHARACTERS", 1000)
    contents = []
    for processes, seed in ((1, 0), (2, 0), (1, 1)):
        output = tmp_path / f"out-{processes}-{seed}"
        write_shards([PROSE], output, num_shards=4, input="text", seed=seed, processes=processes)
        contents.append({path.name: path.read_bytes() for path in output.iterdir()})
    assert contents[0] == contents[1]
    assert len(contents[0]) == 5
    assert contents[0]["shard-00000.txt.xz"] != contents[2]["shard-00000.txt.xz"]


@pytest.mark.parametrize("compression", ["xz", "gz", "none"])
def test_digests_are_those_of_the_files(
    paths: list[Path], kind: InputKind, compression: Compression, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards_module, "_MAX_CHUNK_BYTES", 10)
    paths[2].write_bytes(paths[2].read_bytes() + b"after the xz stream" * 1000)  # skipped by the reader
    output = tmp_path / "out"
    summary = write_shards(paths, output, num_shards=3, input=kind, compression=compression, processes=1)
    for described, folder in ((summary.sources, paths[0].parent), (summary.shards, output)):
        for one in described:
            content = (folder / one["name"]).read_bytes()
            assert (one["num_bytes"], one["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("processes", [1, 2])
def test_one_pass_over_the_text(paths: list[Path], kind: InputKind, tmp_path: Path, processes: int) -> None:
    heldout = tmp_path / "heldout.txt"
    heldout.write_text("one two three four five six\n")
    passes = {
        "check": lambda: check_corpus(paths, input=kind, heldout=[heldout], processes=processes),
        "count": lambda: count_words(paths, input=kind, processes=processes),
        "shard": lambda: write_shards(paths, tmp_path / "out", num_shards=2, input=kind, processes=processes),
        "survey": lambda: survey.survey_corpus(paths, input=kind, heldout=["a b c d e"], processes=processes),
    }
    for name, read in passes.items():
        with count_opens() as opens:
            read()
        assert {path.name: opens[str(path)] for path in paths} == {path.name: 1 for path in paths}, name
        assert opens[str(heldout)] == (name == "check")
        assert not [path for path in opens if "shard-" in path and opens[path] > 2], name  # written and synced


def test_every_shard_is_a_sample_of_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "numbers.txt"
    path.write_text("".join(f"{number}\n" for number in range(10_000)))
    write_shards([path], tmp_path / "out", num_shards=5, compression="none")
    for shard in find_files([str(tmp_path / "out/*.txt")]):
        numbers = np.array([int(token) for (token,) in read_sentences(shard, input="tokens")])
        assert 1800 < len(numbers) < 2200
        assert 4800 < numbers.mean() < 5200
        assert 900 < (numbers % 2).sum() < 1100


def test_shards_keep_passages_together(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["1\n2\n3\n\n4\n5\n6\n7\n8\n", "10\n11\n"])
    write_shards(paths, tmp_path / "out", num_shards=2, passage_sentences=3, compression="none")
    shards = find_files([str(tmp_path / "out/*.txt")])
    passages = [passage.split() for shard in shards for passage in shard.read_text().split("\n\n") if passage]
    assert sorted(passages) == [["1", "2", "3"], ["10", "11"], ["4", "5", "6"], ["7", "8"]]
    stream = SentenceStream(shards, passage_sentences=3, num_epochs=1)
    read = "".join(token + (" " if stream.continues else ";") for (token,) in stream)
    assert sorted(read.split(";")) == ["", "1 2 3", "10 11", "4 5 6", "7 8"]


def test_more_shards_than_sentences(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["a\nb\n"])
    with pytest.raises(ConfigError, match=r"2 sentences cannot fill 9 shards: give a smaller num_shards \(--shards\)"):
        write_shards(paths, tmp_path / "out", num_shards=9)
    with pytest.raises(ConfigError, match=r"num_shards \(--shards\) is 1,000,000,000: give at most 100,000"):
        write_shards(paths, tmp_path / "out", num_shards=10**9)
    assert not (tmp_path / "out").exists()


def test_a_shard_may_be_empty(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["a\nb\nc\nd\n"])
    write_shards(paths, tmp_path / "out", num_shards=4, compression="xz")
    shards = find_files([str(tmp_path / "out/*.xz")])
    assert len(shards) == 4
    sizes = [len(list(read_sentences(shard, input="tokens"))) for shard in shards]
    assert sum(sizes) == 4 and 0 in sizes
    assert sorted(SentenceStream(shards, num_epochs=1)) == [["a"], ["b"], ["c"], ["d"]]


def test_nothing_is_left_of_shards_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_files(tmp_path, ["a\n", "b\n"])
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match="cannot be read"):
        write_shards([*paths, tmp_path / "no.txt"], tmp_path / "out", num_shards=2)
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    with pytest.raises(InputError, match="there is no sentence"):
        write_shards([empty], tmp_path / "out", num_shards=2)
    with pytest.raises(ConfigError, match=r"num_shards \(0\)"):
        write_shards(paths, tmp_path / "out", num_shards=0)
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(shards_module._ShardWriter, "_append", lambda self: (_ for _ in ()).throw(full))
    with pytest.raises(OSError) as caught:
        write_shards(paths, tmp_path / "out", num_shards=2)
    assert caught.value.filename == str(tmp_path / "out")  # never the temporary name
    empty.unlink()
    assert sorted(tmp_path.iterdir()) == before


def test_folders_are_replaced_only_when_asked(tmp_path: Path) -> None:
    paths = write_files(tmp_path, ["a\nb\n"])
    write_shards(paths, tmp_path / "out", num_shards=1, compression="none")
    with pytest.raises(FormatError, match="already exists: give another name, or --overwrite"):
        write_shards(paths, tmp_path / "out", num_shards=2, compression="none")
    assert len(list((tmp_path / "out").iterdir())) == 2
    write_shards(paths, tmp_path / "out", num_shards=2, compression="none", overwrite=True)
    assert len(list((tmp_path / "out").iterdir())) == 3
