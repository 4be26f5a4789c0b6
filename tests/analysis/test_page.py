"""Reports as files: nothing from outside is markup, nothing is fetched, the same report gives the same bytes."""

import csv
import io
import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from elmokit.analysis import page
from elmokit.analysis.page import to_csv, to_html, write_report
from elmokit.analysis.report import Block, Chart, Concordance, Line, Map, Point, Report, Table
from elmokit.errors import ElmokitError, FormatError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOSTILE = "</title></caption></svg><script>alert(1)</script>\"'><img src=x onerror=alert(2)>& $x_$ <!-- body --> \x1b"
VOID = {"meta", "br", "img", "link"}


def draw(figure: "Figure") -> None:
    axes = figure.subplots()
    axes.bar(["a", "b"], [1, 2], label="bars")
    axes.plot([0, 1], [2, 1], label="$5 & <b>$")
    axes.set_title("$5 of \\frac{ & <b>")
    axes.legend()


def points() -> tuple[Point, ...]:
    return (Point(0, 0, "one", "a sentence"), Point(2, 1, "_two $", "an <i>other</i>"), Point(4, -3, "one", "third"))


BLOCKS: tuple[Block, ...] = (
    "A paragraph.",
    Table("table", ("name", "figure"), (("a", 1.25), ("b", 3), ("c", None))),
    Concordance("lines", (Line("before", "word", "after", "note"),), "what is said"),
    Chart("bars", "Bars", "A chart & its caption", draw),
    Chart("more", "More", "Another", draw),
    Map("map", "The map", "A map", points()),
)
REPORT = Report("The title", BLOCKS, {"value": 1.25, "name": "naïve"})


class Reader(HTMLParser):
    """Elements with their attributes and text, and whether all that was opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.stack: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.stack[-1] if self.stack else "", data))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]

    def texts_in(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reports") / "deep/report"
    write_report(REPORT, path)
    return path


class TestPage:
    @pytest.mark.slow
    def test_what_is_written(self, folder: Path, tmp_path: Path) -> None:
        pictures = [f"{name}.{suffix}" for name in ("bars", "more", "map") for suffix in ("png", "svg")]
        names = [*pictures, "table-1.csv", "table-2.csv", "report.json", "page.html"]
        assert [path.relative_to(tmp_path).name for path in write_report(REPORT, tmp_path)] == names
        assert sorted(path.name for path in folder.iterdir()) == sorted(names)
        assert json.loads((folder / "report.json").read_text("utf-8")) == REPORT.figures
        assert (folder / "bars.png").read_bytes().startswith(b"\x89PNG")

    def test_tables_are_written_as_csv_too(self) -> None:
        table = Table("t", ("name", "a, b"), (("x", 1 / 3), ('"y"\n', None), ("z\x1b", 2)))
        rows = list(csv.reader(io.StringIO(to_csv(table).decode())))
        assert rows == [["name", "a, b"], ["x", str(1 / 3)], ['"y"\n', ""], ["z\ufffd", "2"]]
        lines = Concordance("c", (Line("they", "play", "on", "0.5"),), note="cosine")
        assert to_csv(lines) == b"before,word,after,cosine\nthey,play,on,0.5\n"

    @pytest.mark.slow
    def test_the_same_bytes_whatever_the_users_settings(self, folder: Path, tmp_path: Path) -> None:
        import matplotlib

        with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": "own", "svg.fonttype": "path"}):
            again = write_report(REPORT, tmp_path)
            assert matplotlib.rcParams["font.size"] == 30
        assert all(path.read_bytes() == (folder / path.name).read_bytes() for path in again)

    def test_content(self, folder: Path) -> None:
        found = Reader((folder / "page.html").read_text("utf-8"))
        assert found.texts_in("title")[0] == found.texts_in("h1")[0] == "The title"
        assert found.texts_in("p") == ["A paragraph."]
        assert found.texts_in("caption") == ["table", "lines"]
        assert found.texts_in("figcaption") == ["A chart & its caption", "Another", "A map"]
        assert found.texts_in("td") == ["a", "1.2", "b", "3", "c", "word", "after", "note"]
        assert found.texts_in("bdi") == ["before"]
        assert [row.get("class") for row in found.named("td")][:6] == [None, "number", None, "number", None, None]
        assert [row.get("class") for row in found.named("th")] == [None, "number", "before", "word", "after", "note"]
        assert found.texts_in("th") == ["name", "figure", "before", "word", "after", "what is said"]
        labels = [row.get("aria-label") for row in found.named("svg")]
        assert labels == ["A chart & its caption", "Another", None]
        assert not [tag for tag in found.stack if tag not in ("html", "body")]

    def test_nothing_is_fetched(self, folder: Path) -> None:
        text = (folder / "page.html").read_text("utf-8")
        found = Reader(text)
        for _, attributes in found.found:
            for name, value in attributes.items():
                if name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
                    assert value is not None and value.startswith("#")
        assert not found.named("link") and not found.named("iframe") and not found.named("img")
        assert "http" not in text and "@import" not in text and "DOCTYPE" not in text
        assert len(found.named("script")) == 1

    def test_ids_do_not_meet(self, folder: Path) -> None:
        text = (folder / "page.html").read_text("utf-8")
        ids = [attributes["id"] for _, attributes in Reader(text).found if "id" in attributes]
        assert len(ids) == len(set(ids)) > 20
        used = set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text))
        assert used
        assert used <= set(ids)

    def test_pictures_keep_dollars(self, folder: Path) -> None:
        texts = ["".join(node.itertext()) for node in ElementTree.parse(folder / "bars.svg").getroot().iter()]
        assert "$5 of \\frac{ & <b>" in texts
        assert "$5 & <b>$" in texts
        texts = ["".join(node.itertext()) for node in ElementTree.parse(folder / "map.svg").getroot().iter()]
        assert "_two $" in texts

    def test_map(self, folder: Path) -> None:
        found = Reader((folder / "page.html").read_text("utf-8"))
        circles = found.named("circle")
        assert [(c["cx"], c["cy"]) for c in circles] == [("30.0", "145.0"), ("260.0", "30.0"), ("490.0", "490.0")]
        assert [c["fill"] for c in circles] == [page.COLORS[0], page.COLORS[1], page.COLORS[0]]
        assert found.texts_in("title")[1:] == ["one: a sentence", "_two $: an <i>other</i>", "one: third"]
        assert found.texts_in("span") == ["one", "_two $"]

    def test_a_map_of_one_point_or_none(self) -> None:
        single = Report("t", (Map("m", "t", "c", (Point(3, 3, "g", "l"),)), Map("n", "t", "c", ())), {})
        [circle] = Reader(to_html(single, {})).named("circle")
        assert (circle["cx"], circle["cy"]) == ("260.0", "260.0")


class TestHostileText:
    @pytest.mark.parametrize(
        "report",
        [
            Report(HOSTILE, (), {}),
            Report("t", (HOSTILE,), {}),
            Report("t", (Table(HOSTILE, (HOSTILE,), ((HOSTILE,),)),), {}),
            Report("t", (Concordance(HOSTILE, (Line(HOSTILE, HOSTILE, HOSTILE, HOSTILE),)),), {}),
            Report("t", (Map("m", HOSTILE, HOSTILE, (Point(0, 0, HOSTILE, HOSTILE), Point(1, 1, "g", HOSTILE))),), {}),
        ],
    )
    def test_is_text(self, report: Report) -> None:
        found, clean = Reader(to_html(report, {})), HOSTILE.replace("\x1b", "�")
        assert len(found.named("script")) == 1
        assert not found.named("img")
        assert any(clean in text for _, text in found.texts)
        assert not [tag for tag in found.stack if tag not in ("html", "body")]

    @pytest.mark.slow
    def test_in_pictures(self, tmp_path: Path) -> None:
        def write(figure: "Figure") -> None:
            figure.subplots().set_title(HOSTILE)

        charts = (
            Chart("c", HOSTILE, HOSTILE, write),
            Map("m", "t", "c", (Point(0, 0, HOSTILE, "x"), Point(1, 1, "模型", "x"))),
        )
        write_report(Report("t", charts, {"text": HOSTILE}), tmp_path)
        found, clean = Reader((tmp_path / "page.html").read_text("utf-8")), HOSTILE.replace("\x1b", "�")
        assert len(found.named("script")) == 1
        assert not found.named("img")
        assert clean in found.texts_in("text")
        assert found.named("svg")[0]["aria-label"] == clean
        for name, text in (("c.svg", clean), ("m.svg", clean[:39] + "…")):
            assert any(node.text == text for node in ElementTree.parse(tmp_path / name).getroot().iter())
        assert json.loads((tmp_path / "report.json").read_text("utf-8")) == {"text": HOSTILE}

    def test_lone_surrogates(self, tmp_path: Path) -> None:
        write_report(Report("a\ud800", (Map("m", "t", "c", (Point(0, 0, "g\udfff", "\ud800"),)),), {}), tmp_path)
        assert "<h1>a�</h1>" in (tmp_path / "page.html").read_text("utf-8")

    @pytest.mark.parametrize(
        ("name", "expected"),
        [("../../etc/x", "etc-x"), ("a b/c", "a-b-c"), ("..", "picture"), ("über_1.2", "über_1.2")],
    )
    def test_names_stay_in_the_folder(self, name: str, expected: str, tmp_path: Path) -> None:
        write_report(Report("t", (Map(name, "t", "c", points()),), {}), tmp_path / "out")
        assert {path.name for path in tmp_path.rglob("*.*")} >= {f"{expected}.png", f"{expected}.svg"}
        assert [path.name for path in tmp_path.iterdir()] == ["out"]


class TestWriting:
    @pytest.fixture
    def without_matplotlib(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        yield

    @pytest.mark.usefixtures("without_matplotlib")
    def test_pictures_without_matplotlib(self, tmp_path: Path) -> None:
        message = r'^pictures need matplotlib, which is not installed: run pip install "elmokit\[analysis\]"\.$'
        with pytest.raises(ElmokitError, match=message):
            write_report(REPORT, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        write_report(Report("t", BLOCKS[:3], {}), tmp_path / "out")
        assert (tmp_path / "out/page.html").exists()

    def test_a_failure_leaves_the_old_page_whole(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plain = Report("old", ("text",), {"a": 1})
        write_report(plain, tmp_path)
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.replace", fail)
        with pytest.raises(OSError, match="No space"):
            write_report(Report("new", ("text",), {"a": 2}), tmp_path, overwrite=True)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    def test_only_a_report_is_replaced_and_only_if_asked(self, tmp_path: Path) -> None:
        new = Report("new", ("text",), {"a": 2})
        write_report(REPORT, tmp_path / "out")
        with pytest.raises(FormatError, match="already exists: give another name, or --overwrite"):
            write_report(new, tmp_path / "out")
        write_report(new, tmp_path / "out", overwrite=True)
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["page.html", "report.json"]
        (tmp_path / "out" / "notes.txt").write_text("mine")
        for folder in (tmp_path / "out", tmp_path):
            with pytest.raises(FormatError, match="is not a report that elmokit wrote, so it is left alone"):
                write_report(new, folder, overwrite=True)
        assert (tmp_path / "out" / "notes.txt").read_text() == "mine"

    def test_a_chart_that_fails_writes_nothing(self, tmp_path: Path) -> None:
        def fail(figure: "Figure") -> None:
            raise ElmokitError("no")

        with pytest.raises(ElmokitError, match="no"):
            write_report(Report("t", (BLOCKS[-1], Chart("last", "t", "c", fail)), {}), tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_two_pictures_of_one_name(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="two pictures of a report are named a-b"):
            write_report(Report("t", (Map("a b", "t", "c", points()), Map("a/b", "t", "c", points())), {}), tmp_path)
