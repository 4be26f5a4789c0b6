"""Reports on a terminal: figures rounded as their table says, text from outside as it is, words under each other."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from elmokit.analysis.report import Chart, Concordance, Line, Map, Report, Table, printable, show

HOSTILE = "[red]x[/red] \x1b[31m\x07z\x9b"
PLAIN = "[red]x[/red] �[31m�z�"


def printed(*blocks: object, title: str = "title", width: int = 200, colors: bool = False) -> str:
    file = io.StringIO()
    console = Console(
        file=file, width=width, highlight=False, force_terminal=colors, color_system="standard" if colors else None
    )
    show(Report(title, blocks, {}), console)  # type: ignore[arg-type]
    return file.getvalue()


def cells(output: str, row: int) -> list[str]:
    """The cells of a table's row, counted from the one below its header."""
    return [
        cell.strip() for cell in [line for line in output.splitlines() if line.startswith("│")][row].split("│")[1:-1]
    ]


class TestTables:
    def test_numbers_are_rounded_as_the_table_says(self) -> None:
        row = ("name", 2, 0.125, 66.6666, 99.999, -0.04, None, float("nan"))
        for decimals, expected in (
            (1, ["name", "2", "0.1", "66.7", "100.0", "0.0", "", "nan"]),
            (3, ["name", "2", "0.125", "66.667", "99.999", "-0.040", "", "nan"]),
            (0, ["name", "2", "0", "67", "100", "0", "", "nan"]),
        ):
            table = Table("caption", tuple("abcdefgh"), (row,), decimals=decimals)
            assert [table.text_of(cell) for cell in row] == expected
            assert cells(printed(table), 0) == expected

    def test_numbers_stand_to_the_right(self) -> None:
        table = Table("caption", ("name", "wide header", "mixed"), (("a", 1.0, "x"), ("b", 22.5, 3)))
        assert table.numeric_columns == (False, True, True)
        lines = printed(table).splitlines()
        assert "│ a    │         1.0 │     x │" in lines
        assert "│ b    │        22.5 │     3 │" in lines

    def test_no_rows(self) -> None:
        table = Table("nothing found", ("a", "b"), ())
        assert table.numeric_columns == (False, False)
        assert "nothing found" in printed(table)


class TestHostileText:
    """Nothing in a corpus is markup or a command to the terminal, wherever it stands."""

    @pytest.mark.parametrize(
        "blocks",
        [
            (HOSTILE,),
            (Table(HOSTILE, ("a",), (("b",),)),),
            (Table("c", (HOSTILE,), (("b",),)),),
            (Table("c", ("a",), ((HOSTILE,),)),),
            (Concordance(HOSTILE, ()),),
            (Concordance("c", (Line(HOSTILE, "w", "a"),)),),
            (Concordance("c", (Line("b", HOSTILE, "a"),)),),
            (Concordance("c", (Line("b", "w", HOSTILE),)),),
            (Concordance("c", (Line("b", "w", "a", HOSTILE),)),),
        ],
    )
    def test_stays_as_it_is(self, blocks: tuple[object, ...]) -> None:
        assert PLAIN in printed(*blocks)
        assert "\x1b[31m" not in printed(*blocks, colors=True)
        assert "\x07" not in printed(*blocks, colors=True)

    def test_title(self) -> None:
        assert PLAIN in printed(title=HOSTILE)

    def test_printable(self) -> None:
        assert printable("a\tb\nc é 模 \u2028") == "a\tb\nc é 模 \u2028"
        assert printable("\ud800\x00\x7f\x85\r\ufffe") == "\ufffd" * 6
        printable("".join(map(chr, range(0x11000)))).encode()


class TestConcordance:
    LINES = (
        Line("a very long sentence before the word " * 3, "play", "and after it " * 9, "0.9"),
        Line("", "play", "", "0.8"),
        Line("模型" * 40, "play", "模型" * 40),
        Line("with a\nline  break", "play", "here\tand there"),
    )

    @pytest.mark.parametrize(("width", "around"), [(200, 60), (91, 40), (90, 39), (50, 19)])
    def test_words_stand_under_each_other(self, width: int, around: int) -> None:
        shown = printed(Concordance("caption", self.LINES), width=width).splitlines()[2:]
        assert [cell_len(line[: line.index("play")]) for line in shown] == [around + 1] * 4
        assert [line.split()[-1] for line in shown[:2]] == ["0.9", "0.8"]
        assert cell_len(shown[0].split("  0.9")[0]) == cell_len(shown[1].split("  0.8")[0]) == 2 * around + 6
        assert max(map(cell_len, shown)) <= width
        assert "with a line break play here and there".endswith(shown[3].strip())

    def test_a_terminal_too_narrow_cuts(self) -> None:
        shown = printed(Concordance("c", self.LINES), width=24).splitlines()[2:]
        assert len(shown) == 4
        assert max(map(cell_len, shown)) <= 24
        assert shown[0].endswith("…")


def test_pictures_are_left_out() -> None:
    def draw(figure: object) -> None:
        pytest.fail("a picture was drawn")

    assert (
        printed(Chart("name", "title", "caption", draw), "text", Map("map", "title", "caption", ())) == "title\ntext\n"
    )
