"""`elmokit analyze layer-weights` as a user meets it."""

import json
from pathlib import Path

import numpy as np
import pytest

import elmokit
from elmokit.model.bilm import BiLM
from tests.analysis.test_layer_weights import write_model
from tests.running import Call, assert_help_has_examples, assert_one_line

COMMAND = ("analyze", "layer-weights")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shares = np.log([[0.1, 0.6, 0.3], [0.3, 0.4, 0.3], [0.25, 0.25, 0.5]]).tolist()
    write_model(tmp_path / "ner-1/model", [shares[0]], [1.0], seed=1)
    write_model(tmp_path / "ner-2/model", [shares[1]], [2.0], seed=2)
    write_model(tmp_path / "qa/model", [shares[0], shares[2]], [1.0, 0.5], task="qa")
    write_model(tmp_path / "baseline", [], [], elmo={"place": "none"})
    return tmp_path


def test_help(run: Call) -> None:
    assert_help_has_examples(run, *COMMAND)


@pytest.mark.slow
def test_for_people_for_programs_and_as_files(run: Call, folder: Path) -> None:
    done = run(*COMMAND, "ner-1", "ner-2/model", "qa", "--output", "out")
    assert done.returncode == 0
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    assert ["ner", "input", "2", "0.20", "0.50", "0.30", "1.50"] in lines
    assert ["qa", "output", "1", "0.25", "0.25", "0.50", "0.50"] in lines
    written = {path.name for path in (folder / "out").iterdir()}
    assert written == {"layer-weights.png", "layer-weights.svg", "report.json", "page.html"}
    assert [line.split("/")[-1] for line in done.stderr.splitlines()] == [
        "layer-weights.png",
        "layer-weights.svg",
        "report.json",
        "page.html",
    ]
    found = json.loads(run(*COMMAND, "ner-1", "ner-2/model", "qa", "--json").stdout)
    assert found == json.loads((folder / "out/report.json").read_text())
    assert found["rows"][0]["layer_weights"] == pytest.approx([0.2, 0.5, 0.3])


@pytest.mark.slow
def test_bad_input(run: Call, folder: Path, bilm: BiLM) -> None:
    assert run(*COMMAND).returncode == 2
    assert_one_line(run(*COMMAND, "baseline"), "baseline is a model of ner without ELMo: leave it out")
    assert_one_line(run(*COMMAND, "ner-1", "nowhere"), "nowhere does not exist", "`elmokit task train`")
    assert_one_line(run(*COMMAND, "ner-1", "ner-1/model"), "same settings and the seed 1: give each run once")
    elmokit.save(bilm, folder / "bilm")
    assert_one_line(run(*COMMAND, "bilm"), "bilm is a model (biLM), not a task's run")
    (folder / "file").write_text("x")
    assert_one_line(run(*COMMAND, "file"), "file is a text file, not a task's run")
    done = run(*COMMAND, "ner-1", "--output", "file")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "file" in done.stderr and "Traceback" not in done.stderr
