"""Imports go one way, and what needs no torch imports none."""

import subprocess
import sys
from pathlib import Path

import pytest
from tools.draw_imports import FIGURE, draw, find_upward, read_imports

import elmokit

ROOT = Path(elmokit.__file__).parent


def test_imports_point_downward() -> None:
    imports = read_imports()
    assert len(imports) > 1000
    assert find_upward(imports) == []


@pytest.mark.parametrize(
    "code",
    [
        "from elmokit.model.bilm import BiLM",
        "import elmokit.model",
        "from elmokit import model",
        "from elmokit import load",
        "def f():\n    from elmokit.model import bilm",
        "if TYPE_CHECKING:\n    from elmokit.model.bilm import BiLM",
        "HOMES = {'BiLM': 'elmokit.model.bilm'}",
        "f = lambda name: import_module(f'elmokit.model.{name}')",
        "from elmokit.corpus.stream import SentenceStream",
    ],
)
def test_upward_imports_are_found(code: str, tmp_path: Path) -> None:
    for package in ("corpus", "model", "text"):
        (tmp_path / package).mkdir()
    (tmp_path / "text/tokens.py").write_text(f"from elmokit.text.files import open_text\n{code}\n", encoding="utf-8")
    (upward,) = find_upward(read_imports(tmp_path))
    assert (upward.source, upward.path.name) == ("text", "tokens.py")
    assert upward.target in ("__init__", "corpus", "model")


def test_the_figure_of_imports_is_current() -> None:
    assert FIGURE.read_text(encoding="utf-8") == draw(read_imports()), "run python tools/draw_imports.py"


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
        ("elmokit.locks", {"torch", "h5py", "numpy"}),
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
