"""`elmokit analyze learning-curves` as a user meets it."""

import json
from pathlib import Path

import pytest

from tests.analysis.test_learning_curves import write_run
from tests.running import Call, assert_help_has_examples, assert_one_line

COMMAND = ("analyze", "learning-curves")


def test_help(run: Call) -> None:
    assert_help_has_examples(run, *COMMAND)


@pytest.mark.slow
def test_for_people_for_programs_and_as_files(run: Call, tmp_path: Path) -> None:
    write_run(tmp_path / "baseline-1", [40.0, 50.0])
    write_run(tmp_path / "elmo-1", [60.0, 55.0], "b" * 64)
    done = run(*COMMAND, "baseline-1", "elmo-1", "--output", "out")
    assert done.returncode == 0
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    assert ["1", "60.00", "0.50", "1.00"] in [cells[1:] for cells in lines]
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"learning-curves-ner.png", "learning-curves-ner.svg", "table-1.csv", "report.json", "page.html"}
    found = json.loads(run(*COMMAND, "baseline-1", "elmo-1", "--json").stdout)
    assert found == json.loads((tmp_path / "out/report.json").read_text())
    assert [group["label"] for group in found["groups"]] == ["ner (without ELMo)", "ner (with ELMo)"]


def test_bad_input(run: Call, tmp_path: Path) -> None:
    assert run(*COMMAND).returncode == 2
    write_run(tmp_path / "one", [40.0])
    assert_one_line(run(*COMMAND, "one", "nowhere"), "nowhere does not exist", "`elmokit task train`")
    assert_one_line(run(*COMMAND, "one", "one"), "same settings and the seed 0: give each run once")
