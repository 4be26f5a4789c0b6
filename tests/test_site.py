"""The documentation site: what a reader of the pages alone cannot see."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def tables(page: Path) -> set[tuple[str, str]]:
    return {(page.name, name) for name in re.findall(r"<!-- end of ([\w-]+) -->", page.read_text(encoding="utf-8"))}


def test_results_page_shows_every_table() -> None:
    shown = re.findall(r"^```{results-table} (\S+) (\S+)$", (DOCS / "results.md").read_text(encoding="utf-8"), re.M)
    assert len(shown) == len(set(shown))
    assert set(shown) == set().union(*(tables(page) for page in DOCS.glob("*.md")))


def test_readme_is_short_and_shows_a_picture() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 120
    assert any(line.startswith("![") for line in lines)


@pytest.fixture
def extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx", reason="the extensions of the site need the extra docs")
    monkeypatch.syspath_prepend(str(DOCS / "_extensions"))


@pytest.mark.usefixtures("extensions")
def test_provenance_folds() -> None:
    from provenance import fold

    block = "| a |\n|---|\n| 1 ± 2 |\n\nMade by `x` (one).\nMade by `y` (two)."
    assert fold(block) == (
        "| a |\n|---|\n| 1\u00a0±\u00a02 |\n\n:::{dropdown} How this was measured\n:class-container: provenance\n"
        "- `x` (one).\n- `y` (two).\n:::\n"
    )


@pytest.mark.usefixtures("extensions")
@pytest.mark.parametrize(
    ("page", "number"),
    [
        ('<script src="https://cdn.example.org/a.js"></script>', 1),
        ('<link rel="stylesheet" href="//cdn.example.org/a.css">', 1),
        ("<style>@font-face { src: url(https://fonts.example.org/a.woff2) }</style>", 1),
        ('<a href="https://example.org">a link</a><script src="_static/a.js"></script>', 0),
    ],
)
def test_other_servers_are_found(tmp_path: Path, page: str, number: int) -> None:
    from self_contained import loaded_from_elsewhere

    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    assert len(loaded_from_elsewhere(tmp_path)) == number
