"""The help of every command: the same manners everywhere, and what is shown is what works."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from elmokit.cli.main import app
from tests.running import Call, assert_help_has_examples

WRITES = [
    "embed",
    "convert",
    "pretrain",
    "finetune",
    "corpus vocab",
    "corpus shard",
    "task train",
    "task compare",
    "analyze mixing",
    "analyze placement",
    "analyze sample-efficiency",
    "analyze neighbors",
    "analyze wsd",
    "analyze pos",
    "analyze ner",
    "analyze layer-weights",
    "analyze learning-curves",
    "analyze senses",
]
NEED_MORE = {
    *("task train", "task evaluate", "task predict", "task compare"),
    *(f"analyze {name}" for name in ("pos", "ner", "wsd", "layer-weights", "learning-curves", "mixing", "placement")),
    "analyze sample-efficiency",
}
"""Commands whose examples name files that only a user of tasks has, or that need a compiler."""
BRITISH = re.compile(r"analys(?!i|t|es\b)|neighbou|colou|behaviou|tokenis|favou|normalis")


def walk(command: Any, *path: str, hidden: bool = False) -> Iterator[tuple[tuple[str, ...], Any, bool]]:
    """Every command and group under its path, and whether help leaves it out."""
    yield path, command, hidden
    for name, own in getattr(command, "commands", {}).items():
        yield from walk(own, *path, name, hidden=hidden or own.hidden)


ALL = list(walk(typer.main.get_command(app)))
GROUPS = [path for path, command, hidden in ALL if hasattr(command, "commands") and not hidden]
SHOWN = [path for path, command, hidden in ALL if not hasattr(command, "commands") and not hidden]
HIDDEN = [path for path, command, hidden in ALL if not hasattr(command, "commands") and hidden]


def usage_line(shown: str) -> str:
    """The one line, on a terminal of 140 columns."""
    [line] = [line for line in shown.splitlines() if line.startswith(" Usage: ")]
    return line


def test_there_are_commands() -> None:
    assert len(SHOWN) >= 25
    assert {" ".join(path) for path in SHOWN} >= set(WRITES)


@pytest.mark.parametrize("path", [*GROUPS, *SHOWN], ids=" ".join)
class TestHelp:
    def test_of_flags_and_arguments(self, path: tuple[str, ...], run: Call) -> None:
        done = run(*path, "--help")
        assert (done.returncode, done.stderr) == (0, "")
        assert "<bool>" not in done.stdout and "BOOLEAN" not in done.stdout
        usage = usage_line(done.stdout)
        assert f"elmokit {' '.join(path)}".strip() in usage
        assert not set("{}…") & set(usage)
        arguments = re.sub(r"COMMAND \[ARGS\]", "", usage).partition("[OPTIONS]")[2]
        assert arguments == arguments.upper(), "arguments are in capitals, as the text of the help names them"

    def test_short_option(self, path: tuple[str, ...], run: Call) -> None:
        assert run(*path, "-h").stdout == run(*path, "--help").stdout

    def test_american_spelling(self, path: tuple[str, ...], run: Call) -> None:
        assert not BRITISH.findall(run(*path, "--help").stdout)


@pytest.mark.parametrize("path", SHOWN, ids=" ".join)
def test_examples(path: tuple[str, ...], run: Call) -> None:
    done = run(*path, "--help")
    examples = done.stdout.partition("Examples:")[2]
    assert examples.splitlines()[1].strip().startswith(f"elmokit {' '.join(path)}")
    assert_help_has_examples(run, *path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*held-out sentences")
def test_first_examples_work_on_the_sentences_of_the_readme(run: Call, folder: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    [sentences] = re.findall(r"printf '(.+)' > sentences.txt", readme)
    (folder / "sentences.txt").write_text(sentences.replace("\\n", "\n"))
    tried = []
    for path in sorted(SHOWN, key=lambda path: path != ("convert",)):  # which makes my-model
        first = run(*path, "--help").stdout.partition("Examples:")[2].splitlines()[1].strip()
        if " ".join(path) in NEED_MORE:
            continue
        done = run(*shlex.split(first)[1:])
        assert done.returncode == 0, f"{first}: {done.stderr}"
        tried.append(first)
    assert len(tried) >= 13 and sum("sentences.txt" in line for line in tried) >= 10


@pytest.mark.parametrize("path", WRITES)
def test_every_command_that_writes_has_output(path: str, run: Call) -> None:
    assert re.search(r"--output +-o\b", run(*path.split(), "--help").stdout)


def test_british_names_are_hidden_and_the_same(run: Call) -> None:
    aliases = {
        path: tuple({"analyse": "analyze", "neighbours": "neighbors"}.get(w, w) for w in path) for path in HIDDEN
    }
    assert {("analyse", "neighbours"), ("analyse", "neighbors"), ("analyze", "neighbours")} <= set(aliases)
    assert {own for path, own in aliases.items() if path[0] == "analyse"} == {p for p in SHOWN if p[0] == "analyze"}
    for path, own in aliases.items():
        assert own in SHOWN
        shown, expected = run(*path, "--help").stdout, run(*own, "--help").stdout
        assert shown.replace(usage_line(shown), "") == expected.replace(usage_line(expected), "")
    assert "analyse" not in run("--help").stdout
    assert "neighbours" not in run("analyse", "--help").stdout.partition("Commands")[2]
