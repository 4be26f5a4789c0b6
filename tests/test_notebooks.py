"""The notebooks run on the packaged model, draw their pictures, and are committed without outputs."""

import csv
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PICTURES = {"polysemy": 3, "probing-layers": 1}


def test_every_notebook_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_notebooks_are_committed_without_outputs(name: str) -> None:
    path = EXAMPLES / f"{name}.ipynb"
    assert path.stat().st_size < 20_000
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert cells
    assert all(cell.execution_count is None and not cell.outputs for cell in cells)


def outputs(name: str) -> list[Any]:
    """Run a notebook where its data is, and return all that its cells put out."""
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_notebooks_run_and_draw(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = outputs(name)
    drawn = [output for output in found if "image/png" in output.get("data", {})]
    assert len(drawn) == PICTURES[name]


def test_words_of_the_probe_are_nouns_and_verbs_alike() -> None:
    with (EXAMPLES / "noun-or-verb.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    words = {row["word"] for row in rows}
    assert len(words) == 24
    for word in words:
        own = [row for row in rows if row["word"] == word]
        assert sorted(row["part of speech"] for row in own) == ["noun", "noun", "verb", "verb"]
        for row in own:
            tokens = row["sentence"].rstrip(".?").split()
            assert [token.lower() for token in tokens].count(word) == tokens.count(word) == 1
