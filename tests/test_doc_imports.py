"""What documents and examples show imports public names only: those in the `__all__` of `elmokit` and its packages."""

import ast
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import elmokit

ROOT = Path(__file__).parents[1]
PACKAGES = {"analysis", "corpus", "embedding", "formats", "integrations.allennlp", "scoring", "tasks", "training"}
PUBLIC = {"elmokit"} | {f"elmokit.{name}" for name in PACKAGES}
PAGES = [
    ROOT / "README.md",
    *(path for folder in ("docs", "examples") for path in sorted((ROOT / folder).rglob("*.md"))),
]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def find_private(code: str) -> list[str]:
    """The imports and attributes of elmokit in a piece of code that are not public."""
    private = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            private += [item.name for item in node.names if _is_own(item.name) and item.name not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and _is_own(node.module or ""):
            names = [f"{node.module}.{item.name}" for item in node.names]
            private += [name for name in names if name not in PUBLIC and not _is_public(*name.rsplit(".", 1))]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "elmokit":
            if node.attr not in elmokit.__all__ and f"elmokit.{node.attr}" not in PUBLIC:
                private.append(f"elmokit.{node.attr}")
    return private


def _is_own(module: str) -> bool:
    return module.split(".")[0] == "elmokit"


def _is_public(module: str, name: str) -> bool:
    return module in PUBLIC and name in import_module(module).__all__


def snippets() -> Iterator[tuple[str, str]]:
    """Every fenced Python block, script and notebook, with its name."""
    for page in PAGES:
        blocks = re.findall(r"^ *```python\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        yield from ((f"{page.relative_to(ROOT)}-{number}", block) for number, block in enumerate(blocks, start=1))
    for path in SCRIPTS:
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        lines = [line for cell in cells if cell["cell_type"] == "code" for line in [*cell["source"], "\n"]]
        yield str(path.relative_to(ROOT)), "".join(line for line in lines if not line.startswith(("%", "!")))


SNIPPETS = dict(snippets())


@pytest.mark.parametrize("code", SNIPPETS.values(), ids=SNIPPETS)
def test_only_public_names_are_shown(code: str) -> None:
    assert find_private(code) == []


def test_there_is_something_to_check() -> None:
    assert sum("elmokit" in code for code in SNIPPETS.values()) > 20
    assert {Path(name).suffix for name in SNIPPETS} >= {".py", ".ipynb"}


@pytest.mark.parametrize(
    ("code", "private"),
    [
        ("from elmokit.embedding.store import VectorStore", ["elmokit.embedding.store.VectorStore"]),
        ("from elmokit.embedding import VectorStore, sentence_hash", ["elmokit.embedding.sentence_hash"]),
        ("from elmokit import load, lazy", ["elmokit.lazy"]),
        ("import elmokit.training.loop as loop", ["elmokit.training.loop"]),
        ("def f():\n    import elmokit.text.tokenize, json", ["elmokit.text.tokenize"]),
        ("import elmokit\n\nelmokit.cli.main()", ["elmokit.cli"]),
        (
            "import elmokit.embedding\nfrom elmokit import tasks\nfrom elmokit.tasks import Task\nelmokit.load('mini')",
            [],
        ),
        ("import numpy as np\nfrom os.path import join", []),
    ],
)
def test_private_names_are_found(code: str, private: list[str]) -> None:
    assert find_private(code) == private
