"""The public surface is what `__all__` says, no more and no less."""

import re
from importlib import import_module
from pathlib import Path

import elmokit

ROOT = Path(__file__).parents[1]


def test_all_is_sorted_and_resolves() -> None:
    assert elmokit.__all__ == sorted(elmokit.__all__)
    for name in elmokit.__all__:
        assert getattr(elmokit, name) is not None
        assert name in dir(elmokit)


def test_lazy_names_are_all_public_and_have_docstrings() -> None:
    assert set(elmokit._HOMES) | {"ElmokitError", "__version__"} == set(elmokit.__all__)
    for name, home in elmokit._HOMES.items():
        assert getattr(import_module(home), name).__doc__


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(elmokit, "nonsense")


def test_typed_marker_is_there() -> None:
    assert (Path(elmokit.__file__).parent / "py.typed").exists()


def test_changelog_names_the_version() -> None:
    heads = re.findall(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert elmokit.__version__ in heads
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {elmokit.__version__}" in citation
