"""Mixing and placement: every row trains what it says, and is shown with the paper's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from elmokit.analysis.report import Chart, Table
from elmokit.analysis.tasks.variants import MIXING, PLACEMENT, Study, analyze_mixing, report_study
from elmokit.tasks.experiments.comparison import Comparison, VariantScores
from elmokit.tasks.experiments.variants import BASELINE, Experiment, Runs, run_all
from elmokit.tasks.registry import TASKS
from tests.tasks.experiments import build_experiment, run_in_process, write_experiment


def experiment_of(task: str, preset: str = "small") -> Experiment:
    return Experiment(TASKS[task], ["a"], ["b"], ["c"], Path("out"), (1, 2), preset=preset)


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_rows_of_mixing_are_settings_of_every_task(task: str) -> None:
    found = {}
    for variant in MIXING.variants("model"):
        elmo = experiment_of(task).config(variant, 1).elmo
        found[variant.name] = (elmo.layers, elmo.regularization if elmo.layers == "all" else None, elmo.gamma)
        assert elmo.place == experiment_of(task).config().elmo.place
    assert found == {
        "last": ("top", None, True),
        "lambda-1": ("all", 1.0, True),
        "lambda-0.001": ("all", 0.001, True),
        "all-no-gamma": ("all", 0.001, False),
        "last-no-gamma": ("top", None, False),
    }


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_rows_of_placement_are_settings_of_every_task(task: str) -> None:
    plain = experiment_of(task).config(None, 1)
    for variant in PLACEMENT.variants("model"):
        config = experiment_of(task).config(variant, 1)
        assert config.elmo.place == variant.name
        assert config.model_copy(update={"elmo": plain.elmo}) == plain
    assert [variant.name for variant in PLACEMENT.variants("model")] == ["input", "both", "output"]


@pytest.mark.parametrize("study", [MIXING, PLACEMENT])
def test_the_paper_s_rows_are_ours(study: Study) -> None:
    assert set(study.paper) == {"qa", "nli", "srl"}
    for scores in study.paper.values():
        assert set(scores) <= {"baseline", *study.rows}
        assert all(80 < score < 90 for score in scores.values())
    varied = {name for _, changes in study.rows.values() for name, _ in changes}
    assert varied == set(study.varied)


def fake(task: str, study: Study) -> tuple[Comparison, Runs]:
    """Scores of 10, 20 … by row, and runs that know only what a report asks of them."""
    sides = [VariantScores("baseline", "baseline", (5.0, 7.0), (10.0, 12.0))]
    for number, variant in enumerate(study.variants("model"), 2):
        score = 10.0 * number
        sides.append(VariantScores(variant.name, variant.label, (score, score), (score, score + 2), number / 1000))
    result = {
        "data": {name: [{"name": f"{name}.txt", "sha256": "0"}] for name in ("train", "dev", "test")},
        "bilm": {"name": "model", "fingerprint": "0123456789abcdef"},
        "versions": {"elmokit": "0"},
        "examples": {"train": 7, "dev": 3, "test": 2},
        "mixes": [],
    }
    runs = Runs(experiment_of(task), {side.name: [result, result] for side in sides})
    return Comparison(task, "f1", (1, 2), sides[0], tuple(sides[1:])), runs


def table_of(study: Study, task: str) -> tuple[Table, str, dict[str, Any]]:
    report = report_study(study, *fake(task, study))
    (table,) = (block for block in report.blocks if isinstance(block, Table))
    texts = [block for block in report.blocks if isinstance(block, str)]
    assert texts[0].startswith(f"{task}; train: train.txt (7 examples); dev: dev.txt (3 examples); test: test.txt (2 ")
    assert "biLM: model (01234567); seeds 1, 2." in texts[0]
    return table, texts[-1], dict(report.figures)


def test_a_task_of_the_paper_has_its_rows_beside() -> None:
    table, text, figures = table_of(MIXING, "srl")
    assert table.header == ("variant", "dev f1", "test f1", "increase", "p", "the paper, CoNLL-2012, dev F1")
    assert table.rows[0] == ("baseline", "6.00 ± 1.41", "11.00 ± 1.41", None, None, 81.6)
    assert table.rows[1] == ("last layer", "20.00 ± 0.00", "21.00 ± 1.41", "+10.00", "0.0020", 84.1)
    assert [row[-1] for row in table.rows] == [81.6, 84.1, 84.6, 84.8, None, None]
    assert "does not have" not in text
    assert figures["paper"] == {"baseline": 81.6, "last": 84.1, "lambda-1": 84.6, "lambda-0.001": 84.8}
    places, _, _ = table_of(PLACEMENT, "nli")
    assert [(row[0], row[-1]) for row in places.rows] == [
        ("baseline", None),
        ("at the input", 88.9),
        ("at the input and the output", 89.5),
        ("at the output", 88.7),
    ]


def test_the_picture_has_a_dot_a_seed_and_the_means() -> None:
    found, runs = fake("nli", PLACEMENT)
    (chart,) = (block for block in report_study(PLACEMENT, found, runs).blocks if isinstance(block, Chart))
    figure = Figure()
    chart.draw(figure)
    (axes,) = figure.axes
    places = [np.asarray(line.get_xdata()).tolist() for line in axes.lines[:8]]
    seeds, means = places[::2], places[1::2]
    assert seeds == [list(side.test) for side in (found.baseline, *found.others)]
    assert [mean[0] for mean in means] == [11.0, 21.0, 31.0, 41.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["baseline", *(s.label for s in found.others)]


def test_a_task_that_the_paper_does_not_have() -> None:
    table, text, figures = table_of(PLACEMENT, "ner")
    assert table.header == ("variant", "dev f1", "test f1", "increase", "p")
    assert text.endswith("The paper's Table 3 does not have this task.")
    assert figures["paper"] == {}


@pytest.mark.slow
def test_what_is_mixed_is_what_the_rows_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real runs: γ learns or stays at 1, and λ = 1 keeps the layers nearer to their average."""
    write_experiment(tmp_path, num_epochs=4)
    run_in_process(monkeypatch, tmp_path / "cache")
    experiment, model = build_experiment(tmp_path, seeds=(1,)), str(tmp_path / "bilm")
    runs = run_all(experiment, [BASELINE, *MIXING.variants(model)])
    mixes = {name: results[0]["mixes"] for name, results in runs.results.items()}
    assert mixes.pop("baseline") == []
    (mixes,) = ({name: own for name, (own,) in mixes.items()},)
    assert {name: len(own["layer_weights"]) for name, own in mixes.items()} == {
        "last": 1,
        "lambda-1": 3,
        "lambda-0.001": 3,
        "all-no-gamma": 3,
        "last-no-gamma": 1,
    }
    for name, own in mixes.items():
        assert (own["gamma"] == 1) == name.endswith("no-gamma")
    spread = {name: max(own["layer_weights"]) - min(own["layer_weights"]) for name, own in mixes.items()}
    assert 0 < spread["lambda-1"] < spread["lambda-0.001"] / 2
    report = analyze_mixing(experiment, model)
    assert report.figures["mixes"]["last"] == [[mixes["last"]]]
    assert [side["name"] for side in report.figures["others"]] == list(MIXING.rows)
