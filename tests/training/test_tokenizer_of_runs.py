"""Runs whose text is tokenized by another version when they are resumed, and runs older than the record of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmokit.config import TokenizerConfig
from elmokit.corpus.shards import write_shards
from elmokit.errors import ConfigError
from elmokit.formats import load
from elmokit.text import tokenizers
from elmokit.text.tokenizers import OWN
from elmokit.training.checkpoint import Checkpoints
from tests.training.runs import run, settings, write_corpus

NEWER = TokenizerConfig(name="elmokit", version=(OWN.version or 0) + 1)


@pytest.fixture
def corpus(tmp_path: Path) -> dict[str, list[str]]:
    return write_corpus(tmp_path)


@pytest.fixture
def shards(corpus: dict[str, list[str]], tmp_path: Path) -> dict[str, list[str]]:
    write_shards(list(map(Path, corpus["train"])), tmp_path / "shards", num_shards=2, compression="none", processes=1)
    return {**corpus, "train": [str(tmp_path / "shards" / "shard-*.txt")]}


def change(path: Path, *places: str) -> None:
    """Take an entry out of a JSON file."""
    values = content = json.loads(path.read_text(encoding="utf-8"))
    for place in places[:-1]:
        values = values[place]
    del values[places[-1]]
    path.write_text(json.dumps(content), encoding="utf-8")


def go_on(corpus: dict[str, list[str]], output: Path, steps: int) -> Any:
    return run(settings(loop={"max_steps": steps}), corpus, output, resume=True)


@pytest.mark.parametrize("of_shards", [False, True])
def test_runs_older_than_the_record_resume(
    of_shards: bool, corpus: dict[str, list[str]], shards: dict[str, list[str]], tmp_path: Path
) -> None:
    given, output = (shards if of_shards else corpus), tmp_path / "run"
    if of_shards:
        change(tmp_path / "shards/corpus.json", "tokenizer")
    go_on(given, output, 4)
    change(output / "corpus.json", "key", "tokenizer")
    for name in ("best", "model"):
        change(output / name / "config.json", "model", "tokenizer")
    change(output / "run.json", "model", "tokenizer")
    content = Checkpoints(output / "checkpoints", keep=1).load_last()
    assert content is not None and not [name for name in content["identity"] if "tokenizer" in name]
    assert go_on(given, output, 8).steps == 8
    assert load(output / "model").config.tokenizer == TokenizerConfig(name="elmokit", version=1)
    change(output / "best/config.json", "model", "tokenizer")  # as if no later evaluation had been better
    go_on(given, output, 8)
    assert load(output / "model").config.tokenizer == TokenizerConfig(name="elmokit", version=1)


def test_raw_text_of_another_version_is_refused(
    corpus: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on(corpus, tmp_path / "run", 4)
    monkeypatch.setattr(tokenizers, "OWN", NEWER)
    sentence = f"with version {OWN.version} of elmokit's tokenizer, but now with version {NEWER.version} of"
    with pytest.raises(ConfigError, match=sentence):
        go_on(corpus, tmp_path / "run", 8)


def test_shards_are_what_they_were(
    shards: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on(shards, tmp_path / "run", 4)
    monkeypatch.setattr(tokenizers, "OWN", NEWER)
    assert go_on(shards, tmp_path / "run", 8).steps == 8
    assert load(tmp_path / "run/model").config.tokenizer == OWN


def test_words_are_counted_again_by_another_version(
    corpus: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a run that was stopped before its first checkpoint, which begins again."""
    go_on(corpus, tmp_path / "run", 4)
    for _, path in Checkpoints(tmp_path / "run/checkpoints", keep=1).find():
        path.unlink()
    (tmp_path / "run/result.json").unlink()
    counts = tmp_path / "run/counts.txt"
    before = counts.stat().st_mtime_ns
    go_on(corpus, tmp_path / "run", 4)
    assert counts.stat().st_mtime_ns == before
    for _, path in Checkpoints(tmp_path / "run/checkpoints", keep=1).find():
        path.unlink()
    (tmp_path / "run/result.json").unlink()
    monkeypatch.setattr(tokenizers, "OWN", NEWER)
    go_on(corpus, tmp_path / "run", 4)
    assert counts.stat().st_mtime_ns > before
    assert load(tmp_path / "run/model").config.tokenizer == NEWER
