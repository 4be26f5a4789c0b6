"""Imports go one way, and what needs no torch imports none."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import elmokit

ROOT = Path(elmokit.__file__).parent
# Each package may import itself and everything before it.
LAYERS = [
    ["_version", "cache", "cores", "errors", "lazy", "progress", "random_order", "wording"],
    ["amx", "arguments", "filesystem", "hdf5_file", "recognize"],
    ["config"],
    ["settings"],
    ["text"],
    ["corpus"],
    ["model"],
    ["formats"],
    ["embedding", "scoring"],
    ["training"],
    ["tasks"],
    ["analysis"],
    ["integrations"],
    ["cli"],
    ["__main__"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_layers(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("elmokit.")}
    return found


def test_there_are_files() -> None:
    assert len(FILES) > 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_downwards(path: Path) -> None:
    own = layer_of(path)
    assert own in RANK, f"{own} has no place in LAYERS"
    for other in imported_layers(path):
        assert other == own or RANK[other] < RANK[own], f"{path} imports {other}"


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("elmokit", {"torch", "h5py", "matplotlib", "pydantic", "rich"}),
        *(
            (f"elmokit.{name}", {"torch", "h5py", "numpy"})
            for name in ("analysis", "corpus", "embedding", "scoring", "tasks", "training")
        ),
        ("elmokit.config", {"torch", "h5py"}),
        ("elmokit.filesystem", {"torch", "h5py", "numpy"}),
        ("elmokit.recognize", {"torch", "h5py", "numpy"}),
        ("elmokit.text.tokenize", {"torch", "h5py"}),
        ("elmokit.text.batching", {"torch", "h5py"}),
        ("elmokit.text.vocabulary", {"torch", "h5py"}),
        ("elmokit.text.dictionary", {"torch", "h5py"}),
        *((f"elmokit.corpus.{path.stem}", {"torch", "h5py"}) for path in sorted(ROOT.glob("corpus/[a-z]*.py"))),
        ("elmokit.cli.main", {"torch", "h5py", "numpy", "huggingface_hub"}),
    ],
)
def test_light_imports(module: str, forbidden: set[str]) -> None:
    script = f"import sys, {module}; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert module in loaded
    assert forbidden.isdisjoint(loaded)
