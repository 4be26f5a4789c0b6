"""Sample efficiency: curves made by hand, of which the answers are known."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from elmokit.analysis.report import Chart, Table
from elmokit.analysis.tasks.sample_efficiency import (
    Curve,
    DataNeeded,
    EpochsToBaseline,
    Point,
    analyze_sample_efficiency,
    chart_curve,
    find_budget,
    find_curve,
    find_need,
    find_race,
    say_data,
    say_epochs,
    share_variants,
)
from elmokit.errors import InputError
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.experiments.comparison import Comparison, VariantScores
from elmokit.tasks.experiments.variants import run_all
from tests.tasks.conftest import settings
from tests.tasks.experiments import build_experiment, run_in_process, write_experiment

SHARES = [0.001, 0.01, 0.1, 1.0]

# --- How much data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "goal", "expected"),
    [
        ([10, 20, 30, 40], 25, 10**-1.5),  # halfway between 1% and 10%, which is 3.16%
        ([10, 20, 30, 40], 22, 10**-1.8),
        ([10, 20, 30, 40], 30, 0.1),
        ([10, 20, 30, 40], 40, 1.0),
        ([0, 0, 0, 50], 25, 10**-0.5),
        ([0, 30, 10, 40], 20, 0.001 * 10 ** (2 / 3)),  # reached, lost, reached again: the first time counts
        ([0, 10, 5, 40], 20, 0.1 * 10 ** (15 / 35)),
        ([5, 5, 5, 5], 5.000001, None),
        ([10, 20, 30, 40], 40.1, None),
        ([40, 30, 20, 10], 41, None),
    ],
)
def test_the_data_that_a_curve_needs(scores: list[float], goal: float, expected: float | None) -> None:
    found = find_need(SHARES, scores, goal)
    assert not found.is_bound
    assert found.share == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("scores", [[10, 20, 30, 40], [10, 5, 0, 0]])
@pytest.mark.parametrize("goal", [10, 9, -1])
def test_the_smallest_share_may_be_enough(scores: list[float], goal: float) -> None:
    assert find_need(SHARES, scores, goal) == DataNeeded(0.001, is_bound=True)


def test_a_single_share() -> None:
    assert find_need([1.0], [10.0], 10.0) == DataNeeded(1.0, is_bound=True)
    assert find_need([1.0], [10.0], 11.0) == DataNeeded(None)


# --- How many epochs -------------------------------------------------------------------------------------------------


def test_a_race() -> None:
    baseline = [(1.0, 10.0), (2.0, 30.0), (3.0, 20.0), (4.0, 30.0)]
    assert find_race(baseline, [(1.0, 30.0), (2.0, 30.5), (3.0, 99.0)]) == EpochsToBaseline(30.0, 2.0, 2.0)
    assert find_race(baseline, [(0.5, 31.0)]) == EpochsToBaseline(30.0, 2.0, 0.5)
    assert find_race(baseline, [(1.0, 30.0), (2.0, 29.0)]) == EpochsToBaseline(30.0, 2.0, None)


def curve_of(baseline: Sequence[float], elmo: Sequence[float], races: Sequence[EpochsToBaseline] = ()) -> Curve:
    """Two seeds of each score, a point up and a point down."""
    points = []
    for share, without, with_it in zip(SHARES[-len(baseline) :], baseline, elmo, strict=True):
        sides = [VariantScores("b", "baseline", (0.0,) * 2, (without - 1, without + 1))]
        sides += [VariantScores("e", "+ ELMo", (0.0,) * 2, (with_it - 1, with_it + 1), 0.5)]
        scores = Comparison("ner", "f1", (1, 2), sides[0], (sides[1],))
        points.append(
            Point(share, round(1000 * share), scores, tuple(races) or (EpochsToBaseline(50.0, 12.0, 3.0),) * 2)
        )
    return Curve("ner", "f1", tuple(points))


@pytest.mark.parametrize(
    ("races", "expected"),
    [
        (
            [EpochsToBaseline(60.0, 12.0, 3.0), EpochsToBaseline(50.0, 15.0, 2.0)],
            "On 100% of the training data the baseline is at its best dev f1 (55.00) after 13.5 epochs (12, 15); with "
            "ELMo it is passed after 2.5 epochs (3, 2).",
        ),
        ([EpochsToBaseline(60.0, 12.0, 1.0)], "(60.00) after 12 epochs; with ELMo it is passed after 1 epoch."),
        (
            [EpochsToBaseline(60.0, 12.0, None), EpochsToBaseline(50.0, 15.0, 2.0)],
            "with ELMo it is passed after 2 epochs, but only in 1 of 2 seeds.",
        ),
        (
            [EpochsToBaseline(60.0, 12.0, None), EpochsToBaseline(50.0, 15.0, None)],
            "(12, 15); with ELMo it is never passed.",
        ),
    ],
)
def test_epochs_in_words(races: list[EpochsToBaseline], expected: str) -> None:
    text = say_epochs(curve_of([10, 20], [20, 30], races))
    assert expected in text
    assert text.endswith("The paper, SRL: 486 epochs without ELMo, 10 with it.")


@pytest.mark.parametrize(
    ("elmo", "expected"),
    [
        (
            [10, 20, 30, 40],
            "With ELMo the baseline's test f1 on 100% (25.00) is reached on 3.16% of the training data, ",
        ),
        ([25, 30, 35, 40], "is reached on the smallest share already, 0.1% of the training data."),
        ([1, 2, 3, 24], "With ELMo the baseline's test f1 on 100% (25.00) is not reached on any share."),
    ],
)
def test_data_in_words(elmo: list[float], expected: str) -> None:
    text = say_data(curve_of([5, 10, 15, 25], elmo))
    assert expected in text
    assert text.endswith("The paper, SRL: 1% of the data with ELMo equals 10% without.")


def test_needs_of_every_share() -> None:
    curve = curve_of([5, 20, 45, 25], [10, 20, 30, 40])
    assert [need.is_bound for need in curve.needs] == [True, False, False, False]
    assert [need.share for need in curve.needs] == [0.001, pytest.approx(0.01), None, pytest.approx(10**-1.5)]


# --- How long runs last ----------------------------------------------------------------------------------------------


def steps_of(config: TaskConfig, num_examples: int) -> int:
    return max(1, num_examples // config.batch_size) * config.num_epochs // config.loop.accumulate


def changed(config: TaskConfig, num_all: int, num_part: int, least: int) -> TaskConfig:
    values = config.model_dump()
    for name, value in find_budget(config, num_all, num_part, least):
        group, _, last = name.rpartition(".")
        (values[group] if group else values)[last] = int(value)
    return TaskConfig.model_validate(values)


@pytest.mark.parametrize("every", [0, 50])
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("num_part", [1, 7, 8, 50, 500, 4000, 7999])
def test_small_shares_get_enough_steps_and_looks(num_part: int, accumulate: int, every: int) -> None:
    config = settings(batch_size=8, num_epochs=10, loop={"accumulate": accumulate, "evaluate_every": every})
    own = changed(config, 8000, num_part, 1000)
    whole = steps_of(config, 8000)
    assert steps_of(own, num_part) >= max(min(1000, whole), steps_of(config, num_part))
    looks = whole // every if every else 10
    if own.loop.evaluate_every:
        assert steps_of(own, num_part) / own.loop.evaluate_every >= 0.8 * looks
        assert max(1000, steps_of(config, num_part)) / own.loop.evaluate_every <= looks
    else:
        assert own == config  # an epoch is a look
    rest = {"num_epochs": config.num_epochs, "loop": config.loop}
    assert own.model_copy(update=rest) == config


def test_a_whole_run_is_the_preset_s_and_no_share_lasts_longer() -> None:
    config = settings(batch_size=8, num_epochs=2)
    assert find_budget(config, 80, 80, 1000) == ()
    own = changed(config, 80, 8, 1000)
    assert steps_of(own, 8) == steps_of(config, 80) == 20
    bounded = settings(batch_size=8, num_epochs=10, loop={"max_steps": 30})
    assert steps_of(changed(bounded, 8000, 8, 1000), 8) == 30


def test_both_sides_of_a_share_get_the_same(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    experiment = build_experiment(tmp_path)
    pairs = share_variants(experiment, "model", [0.05, 0.1, 1.0], least_steps=7)
    assert [[variant.name for variant in pair] for pair in pairs] == [
        ["baseline-0.05", "elmo-0.05"],
        ["baseline-0.1", "elmo-0.1"],
        ["baseline-1", "elmo-1"],
    ]
    for share, pair in zip([0.05, 0.1, 1.0], pairs, strict=True):
        baseline, elmo = (experiment.config(variant, 3) for variant in pair)
        assert baseline.elmo.place == "none" and elmo.elmo.place == "input"
        assert baseline.model_copy(update={"elmo": elmo.elmo}) == elmo
        assert elmo.train_fraction == share
        assert elmo.num_epochs == (2 if share == 1 else 7)
    with pytest.raises(
        InputError, match=r"^a share of 0\.01 of 40 training examples leaves none: give at least 0\.025"
    ):
        share_variants(experiment, "model", [0.01, 1.0])


# --- Reports ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_real_runs_make_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_experiment(tmp_path)
    launched = run_in_process(monkeypatch, tmp_path / "cache")
    experiment = build_experiment(tmp_path)
    pairs = share_variants(experiment, str(tmp_path / "bilm"), [1.0, 0.1], least_steps=7)
    runs = run_all(experiment, [variant for pair in pairs for variant in pair])
    assert len(launched) == 8
    curve = find_curve(runs, pairs)
    assert [(point.share, point.num_examples) for point in curve.points] == [(0.1, 4), (1.0, 40)]
    for point in curve.points:
        for seed, race in zip((1, 2), point.races, strict=True):
            result = next(r for r in runs.results[f"baseline-{point.share:g}"] if r["seed"] == seed)
            assert race.best == result["dev"]["f1"]
            steps_an_epoch = 5 if point.share == 1 else 1
            assert race.baseline == result["best_step"] / steps_an_epoch
    report = analyze_sample_efficiency(experiment, str(tmp_path / "bilm"), fractions=[1.0, 0.1], least_steps=7)
    assert len(launched) == 8
    (table,) = (block for block in report.blocks if isinstance(block, Table))
    assert sum(isinstance(block, Chart) for block in report.blocks) == 1
    assert [row[:2] for row in table.rows] == [("10%", 4), ("100%", 40)]
    assert report.figures["statements"] == {"epochs": say_epochs(curve), "data": say_data(curve)}
    assert set(report.figures["statements"].values()) < set(report.blocks)
    assert report.figures["points"][0]["elmo_needs"] == curve.needs[0]._asdict()


def test_the_picture(tmp_path: Path) -> None:
    figure = Figure()
    chart_curve(curve_of([5, 10, 15, 25], [10, 20, 30, 40])).draw(figure)
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.1%", "1%", "10%", "100%"]
    baseline, elmo, goal = axes.lines
    heights = [np.asarray(line.get_ydata()).tolist() for line in (baseline, elmo, goal)]
    assert heights[:2] == [[5, 10, 15, 25], [10, 20, 30, 40]] and set(heights[2]) == {25}
    band = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert (band.min(), band.max()) == (pytest.approx(5 - math.sqrt(2)), pytest.approx(25 + math.sqrt(2)))
