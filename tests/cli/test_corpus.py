"""`elmokit corpus` as a user meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from elmokit.text.vocabulary import read_vocabulary
from tests.running import Call, assert_help_has_examples, assert_one_line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("the cat sat on it\nthe dog\n")
    (tmp_path / "b.txt").write_text("the cat sat on it\n\n")
    (tmp_path / "raw.txt").write_text("It's late. Why?\n")
    return tmp_path


@pytest.mark.parametrize("command", ["check", "vocab", "shard"])
def test_every_help_ends_with_examples(command: str, run: Call) -> None:
    assert_help_has_examples(run, "corpus", command)


def test_check_for_people_and_for_programs(folder: Path, run: Call) -> None:
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\ncat\n")
    words = ["corpus", "check", "[ab].txt", "a.txt", "--vocab", "vocab.txt", "--heldout", "a.txt"]
    done = run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "tokens" in done.stdout and "long tokens" in done.stdout and "41.6667%" in done.stdout
    report = json.loads(run(*words, "--json").stdout)
    assert report == report | {"num_files": 2, "num_tokens": 12, "num_duplicates": 1, "heldout_overlap": 1.0}
    raw = json.loads(run("corpus", "check", "raw.txt", "--input", "text", "--json", "--processes", "1").stdout)
    assert (raw["num_sentences"], raw["num_tokens"]) == (2, 6)


def test_check_names_places(folder: Path, run: Call) -> None:
    (folder / "bad.txt").write_bytes(b"ok\n\xff\n")
    done = run("corpus", "check", "bad.txt")
    assert done.returncode == 0
    assert "bad.txt:2" in done.stdout


def test_vocab(folder: Path, run: Call) -> None:
    done = run("corpus", "vocab", "a.txt", "b.txt", "--output", "v.txt", "--min-count", "2", "--max-size", "6")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "wrote v.txt: 6 entries, which cover 58.33% of 12 tokens\n"
    assert read_vocabulary(folder / "v.txt").tokens[3:] == ("the", "cat", "it")
    summary = json.loads(run("corpus", "vocab", "raw.txt", "--input", "text", "--output", "w.txt", "--json").stdout)
    assert summary == {"output": "w.txt", "vocab_size": 9, "num_distinct": 6, "num_tokens": 6, "coverage": 1.0}
    assert "'s" in read_vocabulary(folder / "w.txt")


def test_shard(folder: Path, run: Call) -> None:
    words = ["corpus", "shard", "a.txt", "b.txt", "--output", "out", "--shards", "2", "--compression", "none"]
    done = run(*words)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "wrote out: 3 sentences, 12 tokens in 2 files\n"
    assert sorted(os.listdir(folder / "out")) == ["corpus.json", "shard-00000.txt", "shard-00001.txt"]
    assert_one_line(run(*words), "out already exists")
    assert json.loads(run(*words, "--overwrite", "--json").stdout)["num_tokens"] == 12


@pytest.mark.slow
def test_bad_input_is_one_line(folder: Path, run: Call) -> None:
    (folder / "latin.txt").write_bytes(b"\xff\n")
    (folder / "empty.txt").write_text("\n")
    for words, expected in (
        (["check", "no*.txt"], "no file matches 'no*.txt'"),
        (["check", "."], "is a folder"),
        (["check", "a.txt", "--heldout", "no.txt"], "no file matches 'no.txt'"),
        (["check", "a.txt", "--vocab", "a.txt"], "lacks <S>"),
        (["vocab", "latin.txt", "--output", "v"], "line 1 of latin.txt is not UTF-8"),
        (["vocab", "empty.txt", "--output", "v"], "no word occurs"),
        (["shard", "empty.txt", "--output", "out", "--shards", "2"], "there is no sentence in empty.txt"),
        (["shard", "a.txt", "--output", "no/out", "--shards", "2"], "No such file or directory"),
    ):
        assert_one_line(run("corpus", *words), expected)
    for words in (
        ["vocab", "a.txt"],
        ["vocab", "a.txt", "--output", "."],
        ["vocab", "a.txt", "--output", "no/v.txt"],
        ["vocab", "a.txt", "--output", "v", "--max-size", "3"],
        ["shard", "a.txt", "--output", "out"],
        ["shard", "a.txt", "--output", "out", "--shards", "0"],
        ["check"],
        ["check", "a.txt", "--processes", "0"],
    ):
        done = run("corpus", *words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert "Traceback" not in done.stderr
    assert sorted(os.listdir(folder)) == ["a.txt", "b.txt", "empty.txt", "latin.txt", "raw.txt"]


@pytest.mark.slow
def test_processes_of_a_real_command(folder: Path) -> None:
    command = [sys.executable, "-m", "elmokit", "corpus", "check", "*.txt", "--processes", "2", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["num_files"] == 3
