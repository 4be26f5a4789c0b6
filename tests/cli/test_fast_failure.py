"""A mistyped path is answered before torch is loaded, which takes seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DATA = ["--train", "in.txt", "--dev", "in.txt", "--test", "in.txt"]


def without(option: str, *words: str) -> list[str]:
    """Words in which the file of an option is not there."""
    place = words.index(option)
    return [*words[: place + 1], "missing.txt", *words[place + 2 :]]


COMMANDS = [
    ["embed", "missing.txt", "out.npz"],
    ["embed", "in.txt", "no/such/folder/out.npz"],
    ["embed", "in.txt", "out.npz", "--model", "no/such/model"],
    ["score", "missing.txt"],
    ["score", "in.txt", "--model", "no/such/model"],
    ["perplexity", "mini", "missing.txt"],
    ["perplexity", "no/such/model", "in.txt"],
    ["substitutes", "the play", "--position", "0", "--model", "no/such/model"],
    ["info", "no/such/model"],
    ["convert", "no/such/model", "out"],
    ["convert", "missing.npz", "out.hdf5"],
    ["corpus", "check", "missing.txt"],
    ["corpus", "check", "in.txt", "--heldout", "missing.txt"],
    ["corpus", "check", "in.txt", "--vocab", "missing.txt"],
    ["corpus", "vocab", "missing.txt", "--output", "vocab.txt"],
    ["corpus", "shard", "missing.txt", "--output", "shards", "--shards", "2"],
    ["pretrain", "tiny", "--train", "missing.txt", "--output", "run"],
    ["pretrain", "no/such/config.toml", "--train", "in.txt", "--output", "run"],
    ["pretrain", "tiny", "--train", "in.txt", "--heldout", "missing.txt", "--output", "run"],
    ["pretrain", "tiny", "--train", "in.txt", "--vocab", "missing.txt", "--output", "run"],
    ["pretrain", "tiny", "--train", "in.txt", "--init", "no/such/model", "--output", "run"],
    ["finetune", "mini", "--train", "missing.txt", "--output", "run"],
    ["finetune", "mini", "--train", "in.txt", "--heldout", "missing.txt", "--output", "run"],
    ["finetune", "no/such/model", "--train", "in.txt", "--output", "run"],
    *(
        ["task", "train", "ner", *without(option, *DATA), "--output", "run"]
        for option in ("--train", "--dev", "--test")
    ),
    ["task", "train", "ner", *DATA, "--output", "run", "--vectors", "missing.txt"],
    ["task", "train", "ner", *DATA, "--output", "run", "--model", "no/such/model"],
    ["task", "evaluate", "ner", "no/such/model", "in.txt"],
    ["task", "evaluate", "ner", "trained", "missing.txt"],
    ["task", "predict", "ner", "no/such/model", "Ada Lovelace"],
    ["task", "predict", "ner", "trained", "--input-file", "missing.txt"],
    *(["task", "compare", "ner", *without(option, *DATA), "--output", "runs"] for option in ("--train", "--test")),
    ["task", "compare", "ner", *DATA, "--output", "runs", "--model", "no/such/model"],
    ["analyze", "mixing", "ner", *without("--dev", *DATA), "--output", "runs"],
    ["analyze", "placement", "ner", *without("--dev", *DATA), "--output", "runs"],
    ["analyze", "sample-efficiency", "ner", *without("--dev", *DATA), "--output", "runs"],
    ["analyze", "neighbors", "the play", "--word", "play", "--corpus", "missing.txt"],
    ["analyze", "neighbors", "the play", "--word", "play", "--index", "missing"],
    ["analyze", "senses", "play", "--corpus", "missing.txt"],
    ["analyze", "senses", "play", "--corpus", "in.txt", "--against", "missing.txt"],
    ["analyze", "wsd", "--data", "missing"],
    ["analyze", "pos", "--data", "missing"],
    ["analyze", "ner", "--data", "missing"],
    ["analyze", "layer-weights", "missing"],
    ["analyze", "learning-curves", "missing"],
]

SCRIPT = """
import contextlib, io, json, sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "safetensors"):
            raise ImportError("torch was loaded")

sys.meta_path.insert(0, NoTorch())
from elmokit.cli.main import main

found = []
for words in json.load(sys.stdin):
    sys.argv = ["elmokit", *words]
    out, code = io.StringIO(), None
    with contextlib.redirect_stderr(out), contextlib.redirect_stdout(out):
        try:
            main()
        except SystemExit as end:
            code = end.code
        except ImportError as error:
            code = str(error)
    found.append([code, out.getvalue()])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each command ends with where torch cannot be loaded, all of them in one process."""
    folder = tmp_path_factory.mktemp("fast")
    (folder / "in.txt").write_text("the play\n")
    (folder / "trained").mkdir()
    (folder / "trained" / "task.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(COMMANDS),
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", "HF_HUB_OFFLINE": "1"},
    )
    assert sorted(path.name for path in folder.iterdir()) == ["in.txt", "trained"]
    return dict(zip(map(" ".join, COMMANDS), json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("command", [" ".join(words) for words in COMMANDS])
def test_a_mistyped_path_is_answered_without_torch(command: str, answers: dict[str, Any]) -> None:
    code, said = answers[command]
    assert code in (1, 2), said or code
    assert "missing" in said or "no/such" in said
    if code == 1:
        assert said.startswith("elmokit: ") and said.count("\n") == 1, said


def test_every_command_is_tried() -> None:
    tried = {" ".join(words[: 2 if words[0] in ("task", "corpus", "analyze") else 1]) for words in COMMANDS}
    script = "import typer.main as t; from elmokit.cli.main import app; print(*t.get_command(app).commands)"
    named = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert {one.split()[0] for one in tried} >= set(named) - {"analyse", "presets", "cache"}


def test_torch_is_loaded_in_the_end(tmp_path: Path) -> None:
    """The trap does catch torch."""
    (tmp_path / "in.txt").write_text("the play\n")
    words = json.dumps([["score", "in.txt"]])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=words, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert json.loads(done.stdout) == [["torch was loaded", ""]]
