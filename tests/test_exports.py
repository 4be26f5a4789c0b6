"""The public surface is what `__all__` says, no more and no less."""

import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import elmokit

ROOT = Path(__file__).parents[1]


PACKAGES = [
    "elmokit",
    *(f"elmokit.{name}" for name in ("analysis", "corpus", "embedding", "scoring", "tasks", "training")),
]


@pytest.mark.parametrize("package", PACKAGES)
def test_all_resolves(package: str) -> None:
    module = import_module(package)
    assert len(module.__all__) == len(set(module.__all__))
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)


@pytest.mark.parametrize("package", PACKAGES)
def test_lazy_names_are_all_public_and_have_docstrings(package: str) -> None:
    module = import_module(package)
    assert set(module._HOMES) == set(module.__all__) - {"ElmokitError", "__version__"}
    for name, home in module._HOMES.items():
        assert getattr(import_module(home), name).__doc__


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_is_that_of_a_module(package: str) -> None:
    module = import_module(package)
    modules = {found.name for found in iter_modules(module.__path__)}
    assert modules.isdisjoint(module.__all__), "importing the module would replace the name"


@pytest.mark.parametrize("package", PACKAGES)
def test_unknown_names_are_attribute_errors(package: str) -> None:
    assert not hasattr(import_module(package), "nonsense")


def test_typed_marker_is_there() -> None:
    assert (Path(elmokit.__file__).parent / "py.typed").exists()


def test_changelog_names_the_version() -> None:
    heads = re.findall(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert elmokit.__version__ in heads
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {elmokit.__version__}" in citation
