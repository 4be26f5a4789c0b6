"""What errors and warnings advise exists: every option that a sentence names is one of the commands that can say it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import elmokit
from elmokit.analysis.neighbors.contexts import locate_word
from elmokit.cli.main import app
from elmokit.errors import InputError
from elmokit.formats import save
from elmokit.model.bilm import BiLM
from elmokit.text.input_kind import glued_form
from tests.running import Call, assert_one_line

ROOT = Path(elmokit.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
ELSEWHERE = {"--force-reinstall", "--no-deps"}
"""Options of pip."""

RUNS = ("pretrain", "finetune")
SPEAKERS = {
    "filesystem.py": ("convert", "embed", "corpus vocab", "corpus shard", "analyze neighbors", "analyze senses"),
    "corpus/blocks.py": ("corpus vocab", "corpus shard"),
    "corpus/shards.py": ("corpus shard",),
    "text/files.py": RUNS,
    "corpus/stream_state.py": RUNS,
    "training/run_folder.py": (*RUNS, "task train"),
    "training/checkpoint.py": (*RUNS, "task train"),
    "training/distributed.py": RUNS,
    "training/finetuning.py": ("finetune",),
    "embedding/lines.py": ("embed", "score"),
    "embedding/bulk.py": ("embed",),
    "embedding/journal.py": ("embed",),
    "tasks/runner.py": ("task train", "task compare", "analyze mixing", "analyze sample-efficiency"),
    "tasks/experiments/variants.py": (
        "task compare",
        "analyze mixing",
        "analyze placement",
        "analyze sample-efficiency",
    ),
    "analysis/neighbors/search.py": ("analyze neighbors",),
    "analysis/neighbors/build.py": ("analyze neighbors",),
    "analysis/neighbors/contexts.py": ("analyze neighbors",),
    "analysis/usage/occurrences.py": ("analyze senses",),
    "analysis/usage/ranking.py": ("analyze senses",),
    "text/tokenizers.py": (*RUNS, "embed", "score", "perplexity", "substitutes", "analyze neighbors", "analyze senses"),
    "text/input_kind.py": (*RUNS, "embed", "score", "perplexity", "corpus check", "corpus vocab", "corpus shard"),
}
"""Modules whose sentences name options of the command that runs, and all commands that can print them."""
OWN_COMMAND = {
    "training/pretraining.py": {"--init": "pretrain", "--vocab": "pretrain"},
    "training/run.py": {"--output": "pretrain", "--init": "pretrain", "--skip-tokens": "pretrain"},
    "training/run_text.py": {"--skip-tokens": "pretrain", "--vocab": "pretrain", "--errors": "corpus shard"},
    "tasks/sentiment/labeled.py": {"--set": "task train"},
    "training/loop.py": {"--init": "pretrain"},
    "recognize.py": {"--resume": "pretrain", "--model": "embed", "--vocab": "pretrain", "--index": "analyze neighbors"},
}
"""Options that a sentence names together with their command, or that only one command can bring up."""


def options_of(name: str) -> set[str]:
    command: Any = typer.main.get_command(app)
    for part in name.split():
        command = command.commands[part]
    return {option for one in command.params for option in (*one.opts, *one.secondary_opts)}


def advised(path: Path) -> Iterator[str]:
    """The options in the strings of a module but for its docstrings and what it gives to programs that it starts."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    passed_over = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed_over
        if is_text and " " in node.value:  # type: ignore[attr-defined]
            yield from OPTION.findall(node.value)  # type: ignore[attr-defined]


def modules() -> list[str]:
    names = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
    return sorted(name for name in names if not name.startswith("cli/") and set(advised(ROOT / name)) - ELSEWHERE)


def test_every_module_that_names_options_is_listed() -> None:
    assert set(modules()) <= {*SPEAKERS, *OWN_COMMAND}


@pytest.mark.parametrize("name", modules())
def test_options_that_sentences_name_exist(name: str) -> None:
    for option in set(advised(ROOT / name)) - ELSEWHERE:
        own = OWN_COMMAND.get(name, {}).get(option)
        for command in (own,) if own else SPEAKERS[name]:
            assert option in options_of(command), f"{name} names {option}, which {command} lacks"


@pytest.fixture
def folder(bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    save(bilm, tmp_path / "model")
    (tmp_path / "in.txt").write_text("They play.\nThe play.\n", encoding="utf-8")
    (tmp_path / "latin.txt").write_bytes("The naïve play\n".encode("latin-1"))
    return tmp_path


@pytest.mark.parametrize("words", [["pretrain", "tiny"], ["finetune", "model"]], ids=RUNS)
def test_runs_advise_what_can_be_done_about_wrong_bytes(words: list[str], run: Call) -> None:
    done = run(*words, "--train", "latin.txt", "--output", "run")
    assert_one_line(done, "line 1 of latin.txt is not UTF-8", "elmokit corpus shard --errors replace")
    done = run("corpus", "shard", "latin.txt", "--output", "clean", "--shards", "1", "--errors", "replace")
    assert done.returncode == 0
    settings = ["--set", "loss.num_negatives=4", "--threads", "1"]
    assert run("pretrain", "tiny", "--train", "clean/*.xz", "--output", "run", *settings).returncode == 0


@pytest.mark.parametrize(
    ("words", "form"),
    [
        (["neighbours", "They play.", "--word", "play", "--corpus", "in.txt"], "'play.'"),
        (["neighbours", "They play", "--word", "play", "--corpus", "in.txt"], "'play.'"),
        (["senses", "play", "--corpus", "in.txt"], "'play.'"),
    ],
    ids=["sentence", "corpus", "senses"],
)
def test_glued_punctuation_is_told(words: list[str], form: str, run: Call) -> None:
    done = run("analyse", *words, "--model", "model", "--threads", "1", "--input", "tokens")
    assert_one_line(done, "'play'", form, "--input text")
    done = run("analyse", *words, "--model", "model", "--threads", "1", "--input", "text", "--json")
    assert done.returncode == 0


def test_raw_text_is_advised_only_for_tokens() -> None:
    with pytest.raises(InputError, match=r"did you mean 'Mr\.'\?"):
        locate_word(["Mr.", "Play"], "Mr")
    with pytest.raises(InputError, match=r"has no token 'play', but '“play,”': give --input text"):
        locate_word(["they", "“play,”"], "play", input="tokens")


@pytest.mark.parametrize(
    ("word", "tokens", "expected"),
    [
        ("play", ["they", "play."], "play."),
        ("play", ["(play)", "play."], "(play)"),
        ("play", ["play", "plays", "playful."], None),
        ("", ["...", "a"], None),
    ],
)
def test_glued_forms(word: str, tokens: list[str], expected: str | None) -> None:
    assert glued_form(word, tokens) == expected
