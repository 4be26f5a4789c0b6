"""Draw which packages of elmokit import which, and check that all imports point to lower layers.

    python tools/draw_imports.py            write docs/pictures/import-graph.svg
    python tools/draw_imports.py --check    exit code 1 if the figure is out of date or an import points upward

Everything that loads a module counts: imports at the top of a module, imports inside functions, names that a package
loads on first use (`elmokit.lazy`), `import_module`, and imports for type checkers, which also show what code knows of.
A process that runs `python -m elmokit` uses the command line as a user does, and is not an import.
"""

import ast
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/elmokit"
FIGURE = ROOT / "docs/pictures/import-graph.svg"
LAYERS = [
    ["_version", "cache", "cores", "errors", "lazy", "progress", "random_order", "wording"],
    ["amx", "arguments", "filesystem", "hdf5_file", "recognize"],
    ["config", "locks"],
    ["settings"],
    ["text"],
    ["corpus"],
    ["native"],
    ["model"],
    ["formats"],
    ["embedding", "scoring"],
    ["training"],
    ["tasks"],
    ["analysis"],
    ["integrations"],
    ["cli"],
    ["__main__", "__init__"],
]
"""Lowest first. A module may import its own package and all lower layers; `__init__` is that of elmokit itself."""
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
When = Literal["at once", "later", "for types"]
INK, QUIET, LINE, BAND, BLUE = "#222222", "#5b6770", "#dfe3e6", "#f3f6f8", "#0072b2"
CELL, TOP, LEFT, WIDTH = 30, 64, 28, 790


class Import(NamedTuple):
    """A line of a module that loads another part of elmokit."""

    path: Path
    line: int
    source: str
    """The importing package or module of the top level."""
    target: str
    when: When


def read_imports(source: Path = SOURCE) -> list[Import]:
    """All imports between packages and modules of the top level."""
    imports = []
    for path in sorted(source.rglob("*.py")):
        own = path.relative_to(source).parts[0].removesuffix(".py")
        for name, line, when in _Reader(path).read():
            parts = name.split(".")
            target = parts[1] if len(parts) > 1 and _exists(source, parts[1]) else "__init__"
            if target != own:
                imports.append(Import(path, line, own, target, when))
    return imports


def _exists(source: Path, name: str) -> bool:
    return (source / name).is_dir() or (source / f"{name}.py").exists()


class _Reader:
    """Finds the names of elmokit's modules that a file loads, with line numbers and the moment of loading."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Iterator[tuple[str, int, When]]:
        return self._visit(ast.parse(self.path.read_text(encoding="utf-8")), "at once")

    def _visit(self, node: ast.AST, when: When) -> Iterator[tuple[str, int, When]]:
        if isinstance(node, ast.ImportFrom) and node.level:
            sys.exit(f"{self.path} line {node.lineno} has a relative import: write the whole name.")
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((name, node.lineno, when) for name in _imported(node) if name.split(".")[0] == "elmokit")
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("elmokit."):
            if all(part.isidentifier() for part in node.value.rstrip(".").split(".")):
                yield node.value, node.lineno, "later"
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            when = "for types"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            when = "later"
        for child in ast.iter_child_nodes(node):
            yield from self._visit(child, when)


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return [prefix + item.name for item in node.names]


def find_upward(imports: list[Import]) -> list[Import]:
    """The imports that do not point to a lower layer."""
    return [one for one in imports if RANK[one.target] >= RANK[one.source]]


def draw(imports: list[Import]) -> str:
    """The figure: names on a diagonal, lowest layer first; the row of a name has a dot below each name it imports."""
    rows = [group for names in LAYERS for group in ([[name] for name in names] if _are_packages(names) else [names])]
    places = {name: place for place, names in enumerate(rows) for name in names}
    at_once = {(places[one.source], places[one.target]) for one in imports if one.when == "at once"}
    edges = sorted({(places[one.source], places[one.target]) for one in imports})
    height = TOP + CELL * len(rows) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" role="img">',
        "<title>What the packages of elmokit import</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        *_legend(),
    ]
    for place in range(0, len(rows), 2):
        parts.append(f'<rect x="12" y="{_top(place)}" width="{WIDTH - 24}" height="{CELL}" fill="{BAND}"/>')
    for place in range(len(rows)):
        x, y = _center(place)
        left = min((target for source, target in edges if source == place), default=place)
        down = max((source for source, target in edges if target == place), default=place)
        line = f"M{_center(left)[0]} {y}H{x}V{_center(down)[1]}"
        parts.append(f'<path d="{line}" fill="none" stroke="{LINE}" stroke-width="2"/>')
    for place, names in enumerate(rows):
        x, y = _center(place)
        parts.append(f'<rect x="{x - 7}" y="{y - 7}" width="14" height="14" rx="3" fill="{INK}"/>')
        parts.append(_text(x + 16, y + 5, _label(names), INK, "600" if _are_packages(names) else "400"))
    for source, target in edges:
        parts.append(_dot(_center(target)[0], _center(source)[1], filled=(source, target) in at_once))
    return "\n".join([*parts, "</svg>\n"])


def _are_packages(names: list[str]) -> bool:
    return all((SOURCE / name).is_dir() for name in names)


def _label(names: list[str]) -> str:
    own = {"__main__": "python -m elmokit", "__init__": "import elmokit"}
    return ", ".join(own.get(name, name) for name in names)


def _top(place: int) -> int:
    return TOP + CELL * place


def _center(place: int) -> tuple[int, int]:
    """A name on the diagonal."""
    return LEFT + CELL * place + CELL // 2, _top(place) + CELL // 2


def _legend() -> Iterator[str]:
    texts = {"the row imports the column at once": 34, "… inside a function or on first use": 340}
    for number, (text, x) in enumerate(texts.items()):
        yield _dot(x, 32, filled=number == 0)
        yield _text(x + 14, 37, text, QUIET, "400")


def _dot(x: int, y: int, *, filled: bool) -> str:
    return f'<circle cx="{x}" cy="{y}" r="6" fill="{BLUE if filled else "#ffffff"}" stroke="{BLUE}" stroke-width="2"/>'


def _text(x: int, y: int, text: str, color: str, weight: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="14" font-weight="{weight}" fill="{color}">{escape(text)}</text>'


def main(words: list[str]) -> int:
    """Write the figure, or check it."""
    imports = read_imports()
    faults = [
        f"{one.path.relative_to(ROOT)} line {one.line}: {one.source} imports {one.target}, which is in no lower layer"
        for one in find_upward(imports)
    ]
    figure = draw(imports)
    if words != ["--check"]:
        FIGURE.write_text(figure, encoding="utf-8")
    elif not FIGURE.exists() or FIGURE.read_text(encoding="utf-8") != figure:
        faults.append(f"{FIGURE.relative_to(ROOT)} is out of date: run python tools/draw_imports.py")
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
