"""Write a report as files: a page that needs no network, plots as PNG and SVG, figures as JSON."""

import csv
import html
import io
import json
import os.path
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from elmokit.analysis.report import Block, Chart, Concordance, Map, Report, Table, printable
from elmokit.arguments import check_path, shown
from elmokit.errors import ElmokitError, FormatError
from elmokit.filesystem import foreign_files, guard_output, write_bytes_atomic, write_text_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#666666")
"""Distinguishable by color-blind readers; colors repeat if there are more groups."""
CORPUS_COLORS = COLORS[:2]
"""Colors of the first and the second corpus, in every figure of a report."""
PAGE, FIGURES = "page.html", "report.json"
_GENERATOR = '<meta name="generator" content="elmokit">'
_PART = re.compile(r".+\.(png|svg)|table-\d+\.csv")
_TEMPLATE = Path(__file__).with_name("page.html")
_SIDE, _EDGE = 520, 30
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def check_report_folder(folder: Path, *, overwrite: bool = False) -> None:
    """Refuse a folder that contains anything but a report to overwrite; commands check this first."""
    if os.path.exists(folder) and not os.path.isdir(folder):  # False, not an error, for a name that is too long
        raise FormatError(f"the report's folder {folder} is a file: give the name of a folder.")
    guard_output(folder, kind="a report", is_ours=is_report, overwrite=overwrite)


def is_report(folder: Path) -> bool:
    """Whether a folder contains a report by `write_report`, and nothing else."""
    try:
        ours = _GENERATOR in (folder / PAGE).read_text(encoding="utf-8")[:1000]
    except (OSError, ValueError):
        return False
    return ours and not [name for name in foreign_files(folder, (PAGE, FIGURES)) if not _PART.fullmatch(name)]


def write_report(report: Report, folder: str | Path, *, overwrite: bool = False) -> list[Path]:
    """Write page.html, report.json, pictures and tables (CSV) into a new folder, and return what was written.

    Args:
        report: the report to write.
        folder: the folder, which is created if it does not exist.
        overwrite: whether to replace a report; a folder with anything else is refused.
    """
    figures, folder = _check(report), check_path("folder", folder)
    check_report_folder(folder, overwrite=overwrite)
    pictures: dict[str, bytes] = {}
    drawings: dict[str, str] = {}
    for block in report.blocks:
        if isinstance(block, Chart | Map):
            name = _file_name(block.name)
            if f"{name}.svg" in pictures:
                raise ValueError(f"two pictures of a report are named {name}")
            svg, png = draw_picture(block)
            pictures |= {f"{name}.png": png, f"{name}.svg": svg}
            drawings[block.name] = svg.decode("utf-8")
    page = to_html(report, drawings)
    tables = [block for block in report.blocks if isinstance(block, Table | Concordance)]
    parts = pictures | {f"table-{number}.csv": to_csv(table) for number, table in enumerate(tables, start=1)}
    folder.mkdir(parents=True, exist_ok=True)
    for file_name, data in parts.items():
        write_bytes_atomic(folder / file_name, data)
    write_text_atomic(folder / FIGURES, figures + "\n")
    write_text_atomic(folder / PAGE, page)
    for old in foreign_files(folder, (PAGE, FIGURES, *parts)):  # plots and tables of the replaced report
        (folder / old).unlink()
    return [folder / name for name in (*parts, FIGURES, PAGE)]


def _check(report: Report) -> str:
    """The figures as JSON; raises an error if the report cannot be written, for example because of a NaN."""
    if not isinstance(report, Report):
        raise TypeError(f"report is {shown(report)}: give a Report.")
    for block in report.blocks:
        if not isinstance(block, Block):
            raise TypeError(f"a block of the report is {shown(block)}: give text, a table, a concordance or a picture.")
    try:
        return json.dumps(dict(report.figures), ensure_ascii=False, indent=2, allow_nan=False)
    except (TypeError, ValueError) as error:
        what = "NaN or infinite numbers, which JSON cannot" if isinstance(error, ValueError) else str(error)
        raise type(error)(f"the figures of the report hold {what}.") from None


def to_csv(table: Table | Concordance) -> bytes:
    """A table as CSV in UTF-8, with its header; numbers are not rounded."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if isinstance(table, Table):
        writer.writerow(table.header)
        writer.writerows([printable(cell) if isinstance(cell, str) else cell for cell in row] for row in table.rows)
    else:
        writer.writerow(("before", "word", "after", table.note or "note"))
        writer.writerows(map(printable, (line.before, line.word, line.after, line.note)) for line in table.lines)
    return text.getvalue().encode()


def to_html(report: Report, drawings: Mapping[str, str]) -> str:
    """The page; all external text is escaped, `drawings` are SVG by chart name."""
    body = "\n".join(_to_html(block, drawings) for block in report.blocks)
    template = _TEMPLATE.read_text(encoding="utf-8")
    head, _, rest = template.partition("<!-- title -->")
    between, _, tail = rest.partition("<!-- body -->")
    title = escape(report.title)
    return f"{head}<title>{title}</title>{between}<h1>{title}</h1>\n{body}{tail}"


def escape(text: str) -> str:
    """External text as HTML, for use inside an element or between quotes."""
    return html.escape(printable(text))


def _to_html(block: Block, drawings: Mapping[str, str]) -> str:
    if isinstance(block, str):
        return f"<p>{escape(block)}</p>"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Concordance):
        rows = "".join(
            f"<tr><td class=before><bdi>{escape(line.before)}</bdi></td><td class=word>{escape(line.word)}</td>"
            f"<td class=after>{escape(line.after)}</td><td class=note>{escape(line.note)}</td></tr>\n"
            for line in block.lines
        )
        header = "".join(
            f"<th class={name}>{escape(text)}</th>"
            for name, text in (("before", "before"), ("word", "word"), ("after", "after"), ("note", block.note))
        )
        return (
            f"<table class=concordance><caption>{escape(block.caption)}</caption>\n"
            f"<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody></table>"
        )
    if isinstance(block, Map):
        return _map(block)
    picture = _inline(drawings[block.name], _file_name(block.name), block.caption)
    return f"<figure class=chart>{picture}<figcaption>{escape(block.caption)}</figcaption></figure>"


def _table(table: Table) -> str:
    def cell(tag: str, text: str, number: bool) -> str:
        return f"<{tag}{' class=number' if number else ''}>{escape(text)}</{tag}>"

    header = "".join(cell("th", *pair) for pair in zip(table.header, table.numeric_columns, strict=True))
    rows = "".join(
        f"<tr>{''.join(cell('td', table.text_of(value), isinstance(value, int | float)) for value in row)}</tr>\n"
        for row in table.rows
    )
    return (
        f"<div class=wide><table><caption>{escape(table.caption)}</caption>\n"
        f"<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>"
    )


def _map(block: Map) -> str:
    """A map with interactive points; the page's script shows their labels."""
    colors = _color_of(block)
    xs, ys = _scaled([point.x for point in block.points]), _scaled([-point.y for point in block.points])
    circles = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colors[point.group]}" tabindex="0">'
        f"<title>{escape(point.group)}: {escape(point.label)}</title></circle>\n"
        for x, y, point in zip(xs, ys, block.points, strict=True)
    )
    legend = "".join(
        f'<span><i style="background:{color}"></i>{escape(group)}</span>' for group, color in colors.items()
    )
    across, up = map(escape, block.axes)
    middle = _SIDE // 2
    labels = (
        f'<text x="{middle}" y="{_SIDE - 6}" text-anchor="middle">{across}</text>'
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">{up}</text>'
    )
    return (
        f"<figure class=map><strong>{escape(block.title)}</strong>"
        f'<svg viewBox="0 0 {_SIDE} {_SIDE}">{labels}{circles}</svg><div class=legend>{legend}</div>'
        f"<output>Point at an occurrence to read it.</output><figcaption>{escape(block.caption)}</figcaption></figure>"
    )


def _color_of(block: Map) -> dict[str, str]:
    present = dict.fromkeys(point.group for point in block.points)
    palette = block.palette or COLORS
    groups = dict.fromkeys((*block.groups, *present))
    colors = {group: palette[number % len(palette)] for number, group in enumerate(groups)}
    return {group: color for group, color in colors.items() if group in present}


def _scaled(values: list[float]) -> list[float]:
    least, span = min(values, default=0.0), max(values, default=0.0) - min(values, default=0.0)
    return [_EDGE + (_SIDE - 2 * _EDGE) * ((value - least) / span if span else 0.5) for value in values]


def _file_name(name: str) -> str:
    """A file name without path separators."""
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "picture"


def _inline(drawing: str, name: str, caption: str) -> str:
    """An SVG file as part of a page: without namespaces, and with ids that differ from those of other drawings."""
    root = ElementTree.fromstring(drawing)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        attributes = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
        element.attrib.clear()
        for key, value in attributes.items():
            if key == "id":
                value = f"{name}-{value}"
            elif key == "href":
                value = value.replace("#", f"#{name}-", 1)
            element.set(key, value.replace("url(#", f"url(#{name}-"))
    root.attrib |= {"role": "img", "aria-label": printable(caption)}
    return ElementTree.tostring(root, encoding="unicode")


def draw_picture(block: Chart | Map) -> tuple[bytes, bytes]:
    """A plot as SVG and PNG; the output is deterministic."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ElmokitError(
            'pictures need matplotlib, which is not installed: run pip install "elmokit[analysis]".'
        ) from None
    with _plain_settings(block.name):
        figure = Figure(figsize=block.size if isinstance(block, Chart) else (7, 7), layout="constrained")
        if isinstance(block, Chart):
            block.draw(figure)
        else:
            _scatter(figure, block)
        figure.suptitle(fill(printable(block.title), int(9 * figure.get_figwidth())), fontsize="large")
        svg, png = _render(figure, "svg"), _render(figure, "png")
    return printable(svg.decode("utf-8")).encode("utf-8"), png


@contextmanager
def _plain_settings(salt: str) -> Iterator[None]:
    """Fixed plot settings, independent of the user's: no dates, no random names, and $ is a plain dollar sign."""
    from cycler import cycler
    from matplotlib import rc_context, rcdefaults, rcParams

    with rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        rcdefaults()
        rcParams.update({"svg.hashsalt": salt, "svg.fonttype": "none", "text.parse_math": False, "font.size": 11})
        rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
        rcParams["axes.prop_cycle"] = cycler(color=COLORS)
        yield


def _scatter(figure: "Figure", block: Map) -> None:
    axes = figure.subplots()
    colors = _color_of(block)
    dots = []
    for group, color in colors.items():
        own = [point for point in block.points if point.group == group]
        dots.append(axes.scatter([p.x for p in own], [p.y for p in own], s=36, c=color, alpha=0.8, linewidths=0))
    axes.set(xticks=[], yticks=[], xlabel=printable(block.axes[0]), ylabel=printable(block.axes[1]))
    names = [_shortened(printable(group)) for group in colors]
    columns = 80 // (max(map(len, names), default=0) + 8)
    figure.legend(dots, names, frameon=False, loc="outside lower center", ncols=max(1, columns))


def _shortened(text: str, length: int = 40) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _render(figure: "Figure", suffix: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=suffix, dpi=120, metadata=_NO_METADATA if suffix == "svg" else None)
    return buffer.getvalue()
