"""What README and docs show is run, and every example runs."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import elmokit
from tests.tasks.small_files import train_small

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


PYTHON = [(page.name, block) for page in PAGES for block in blocks(page, "python")]
COMMANDS = {
    page.name: lines
    for page in PAGES
    if (
        lines := [
            line
            for block in blocks(page, "sh")
            for line in re.sub(r"^# needs .*\n(.*)$", r"\1  # needs files", block, flags=re.MULTILINE).splitlines()
            if line.startswith(("elmokit ", "printf "))
        ]
    )
}


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "ELMOKIT_CACHE": str(folder / "cache"), "NO_COLOR": "1"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=120)


def check(done: subprocess.CompletedProcess[str], shown: str) -> None:
    """Done well; what says that it needs the network got as far as asking for it."""
    if "# needs the network" in shown:
        assert done.returncode == 1
        assert "HF_HUB_OFFLINE" in done.stderr
    else:
        assert done.returncode == 0, done.stderr


@pytest.fixture
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder, which is what a newcomer has."""
    return tmp_path_factory.mktemp("bare")


@pytest.fixture(scope="module")
def task_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of `elmokit task train ner`."""
    return train_small(tmp_path_factory.mktemp("tasks"), "ner").parent


@pytest.fixture
def workplace(tmp_path: Path, tiny_bilm: elmokit.BiLM, request: pytest.FixtureRequest) -> Path:
    """A folder with the files that the documents say they need."""
    elmokit.save(tiny_bilm, tmp_path / "small", format="bilm")
    os.rename(tmp_path / "small/options.json", tmp_path / "small/elmo_options.json")
    os.rename(tmp_path / "small/weights.hdf5", tmp_path / "small/elmo_weights.hdf5")
    (tmp_path / "sentences.txt").write_text("The play was cancelled.\nThey play.\n", encoding="utf-8")
    (tmp_path / "tokenized.txt").write_text("The play was cancelled .\nThey play .\n", encoding="utf-8")
    sentence = "Ada NNP O I-PER\nwrote VBD O O\nto TO O O\nCharles NNP O I-PER\nin IN O O\nLondon NNP O I-LOC\n\n"
    for name in ("train", "dev"):
        (tmp_path / f"{name}.conll").write_text(sentence * 3, encoding="utf-8")
    if request.node.callspec.params["page"] == "predicting.md":  # another page trains it itself
        shutil.copytree(request.getfixturevalue("task_run"), tmp_path / "run")
        (tmp_path / "letters.txt").write_text("Ada wrote to Charles.\n\nIt rained.\n", encoding="utf-8")
        (tmp_path / "tweets.jsonl").write_text('{"id": 7, "text": "Ada left."}\nnonsense\n', encoding="utf-8")
    return tmp_path


def test_documents_show_something() -> None:
    assert PYTHON
    assert COMMANDS
    assert EXAMPLES


def needs_files(shown: str) -> bool:
    return "# needs" in shown.replace("# needs the network", "")


@pytest.mark.slow
@pytest.mark.parametrize(("page", "code"), PYTHON, ids=[f"{page}-{i}" for i, (page, _) in enumerate(PYTHON)])
def test_python_blocks_run(page: str, code: str, workplace: Path, bare: Path) -> None:
    check(run([sys.executable, "-c", code], workplace if needs_files(code) else bare), code)


@pytest.mark.slow
@pytest.mark.parametrize("page", COMMANDS)
def test_commands_run(page: str, workplace: Path, bare: Path) -> None:
    """The commands of a page in their order, with the files that they make; others are there once a line needs them."""
    for line in COMMANDS[page]:
        if needs_files(line):
            shutil.copytree(workplace, bare, dirs_exist_ok=True)
        words = ["sh", "-c", line] if line.startswith("printf ") else shlex.split(line, comments=True)
        check(run([sys.executable, "-m", *words] if words[0] == "elmokit" else words, bare), line)


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_run_and_are_short(path: Path, tmp_path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 80
    done = run([sys.executable, str(path)], tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_tables_say_what_the_results_say() -> None:
    done = subprocess.run([sys.executable, "bench/tables.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or "run python bench/tables.py"


def test_links_between_documents_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"
