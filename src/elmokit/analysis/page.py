"""A report as files: a page that needs no network, its pictures as PNG and SVG, its figures as JSON."""

import io
import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from elmokit.analysis.report import Block, Chart, Concordance, Map, Report, Table
from elmokit.errors import ElmokitError
from elmokit.formats._atomic import write_bytes_atomic, write_text_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#666666")
"""Told apart by colour-blind eyes too; more groups than colours begin again."""
_TEMPLATE = Path(__file__).with_name("page.html")
_SIDE = 520


def write_report(report: Report, folder: Path) -> list[Path]:
    """Write page.html, report.json and the pictures into a folder, and say what was written; the page comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    drawings: dict[str, str] = {}
    for block in report.blocks:
        if isinstance(block, Chart | Map):
            figure = _draw(block)
            for suffix in ("png", "svg"):
                data = _render(figure, suffix)
                path = folder / f"{block.name}.{suffix}"
                write_bytes_atomic(path, data)
                written.append(path)
            drawings[block.name] = data.decode("utf-8")
    write_text_atomic(folder / "report.json", json.dumps(dict(report.figures), ensure_ascii=False, indent=2) + "\n")
    write_text_atomic(folder / "page.html", to_html(report, drawings))
    return [*written, folder / "report.json", folder / "page.html"]


def to_html(report: Report, drawings: dict[str, str]) -> str:
    """The page; every text from outside is escaped, drawings are SVG by the names of their charts."""
    body = "\n".join(_to_html(block, drawings) for block in report.blocks)
    template = _TEMPLATE.read_text(encoding="utf-8")
    head, _, rest = template.partition("<!-- title -->")
    between, _, tail = rest.partition("<!-- body -->")
    title = escape(report.title)
    return f"{head}<title>{title}</title>{between}<h1>{title}</h1>\n{body}{tail}"


def _to_html(block: Block, drawings: dict[str, str]) -> str:
    if isinstance(block, str):
        return f"<p>{escape(block)}</p>"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Concordance):
        rows = "".join(
            f"<tr><td class=before>{escape(line.before)}</td><td class=word>{escape(line.word)}</td>"
            f"<td class=after>{escape(line.after)}</td><td class=note>{escape(line.note)}</td></tr>\n"
            for line in block.lines
        )
        return f"<table class=concordance><caption>{escape(block.caption)}</caption>\n{rows}</table>"
    if isinstance(block, Map):
        return _map(block)
    drawing = drawings[block.name]
    picture = drawing[drawing.index("<svg") :]
    return f"<figure role=img>{picture}<figcaption>{escape(block.caption)}</figcaption></figure>"


def _table(table: Table) -> str:
    header = "".join(f"<th>{escape(name)}</th>" for name in table.header)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=number' if isinstance(cell, int | float) else ''}>{escape(table.text_of(cell))}</td>"
            for cell in row
        )
        + "</tr>\n"
        for row in table.rows
    )
    return f"<table><caption>{escape(table.caption)}</caption>\n<tr>{header}</tr>\n{rows}</table>"


def _map(block: Map) -> str:
    """Points to point at; the page's script shows their labels."""
    colours = _colour_of(block)
    xs, ys = _scaled([point.x for point in block.points]), _scaled([-point.y for point in block.points])
    circles = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colours[point.group]}" tabindex="0">'
        f"<title>{escape(point.group)}: {escape(point.label)}</title></circle>\n"
        for x, y, point in zip(xs, ys, block.points, strict=True)
    )
    legend = "".join(
        f'<span><i style="background:{colour}"></i>{escape(group)}</span>' for group, colour in colours.items()
    )
    return (
        f'<figure class=map><svg viewBox="0 0 {_SIDE} {_SIDE}">{circles}</svg><div class=legend>{legend}</div>'
        f"<output>Point at an occurrence to read it.</output><figcaption>{escape(block.caption)}</figcaption></figure>"
    )


def _colour_of(block: Map) -> dict[str, str]:
    groups = dict.fromkeys(point.group for point in block.points)
    return {group: COLOURS[number % len(COLOURS)] for number, group in enumerate(sorted(groups))}


def _scaled(values: list[float]) -> list[float]:
    least, span = min(values, default=0.0), max(values, default=0.0) - min(values, default=0.0)
    return [20 + (_SIDE - 40) * ((value - least) / span if span else 0.5) for value in values]


def _draw(block: Chart | Map) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ElmokitError(
            'pictures need matplotlib, which is not installed: run pip install "elmokit[analysis]".'
        ) from None
    if isinstance(block, Chart):
        figure = Figure(figsize=block.size, layout="constrained")
        block.draw(figure)
        return figure
    figure = Figure(figsize=(7, 7), layout="constrained")
    axes = figure.subplots()
    for group, colour in _colour_of(block).items():
        own = [point for point in block.points if point.group == group]
        axes.scatter([p.x for p in own], [p.y for p in own], s=36, c=colour, alpha=0.8, linewidths=0, label=group)
    axes.set(xticks=[], yticks=[])
    axes.legend(frameon=False)
    return figure


def _render(figure: "Figure", suffix: str) -> bytes:
    """The same bytes for the same picture: neither dates nor random names in it."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "elmokit", "svg.fonttype": "none"}):
        figure.savefig(buffer, format=suffix, dpi=120, metadata={"Date": None} if suffix == "svg" else None)
    return buffer.getvalue()
