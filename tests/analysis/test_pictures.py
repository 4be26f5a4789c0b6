"""Every picture says what it shows: title, caption, axes and where they begin, lines; a color means one thing."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from elmokit.analysis.axes import axis_note, axis_start
from elmokit.analysis.neighbors.chart import Panel, bar_chart
from elmokit.analysis.occurrence import Occurrence
from elmokit.analysis.page import COLORS, CORPUS_COLORS, to_html
from elmokit.analysis.probes.layers import Candidate, ProbeResult
from elmokit.analysis.probes.report import pos_report
from elmokit.analysis.report import Chart, Map, Point, Report
from elmokit.analysis.tasks.layer_weights import MixRow, layer_weights_report
from elmokit.analysis.tasks.learning_curves import CurveGroup, RunCurve, learning_curves_report
from elmokit.analysis.tasks.sample_efficiency import Curve, chart_curve
from elmokit.analysis.tasks.sample_efficiency import Point as SharePoint
from elmokit.analysis.tasks.variants import MIXING, chart_study
from elmokit.analysis.usage.ranking import RankedWord
from elmokit.analysis.usage.report import Subject, ranking_report, senses_report, shift_report
from elmokit.analysis.usage.shift import compare
from elmokit.analysis.wsd.nearest import ALL, FIRST_SENSE
from elmokit.analysis.wsd.report import chart_scores
from elmokit.analysis.wsd.votes import ALL_VIEWS, OWN, PRIOR_ONLY, VECTORS_ONLY
from elmokit.tasks.config import read_task_config
from elmokit.tasks.experiments.comparison import Comparison, VariantScores

TOKENS = ("They", "play", ".")


def scores(low: float) -> Comparison:
    baseline = VariantScores("baseline", "baseline", (low, low + 1), (low, low + 1))
    other = VariantScores("elmo", "+ ELMo", (low + 2, low + 3), (low + 2, low + 4), 0.1)
    return Comparison("srl", "f1", (1, 2), baseline, (other,))


def neighbors() -> Report:
    panels = [Panel("types, layer 0", "type", ["plays"], [0.9]), Panel("contexts, top", "context", ["a play ."], [0.8])]
    return Report("neighbors", (bar_chart("Nearest to “play”", "Types and contexts.", panels),), {})


def parts_of_speech() -> Report:
    candidates = {f"layer {n}": Candidate((1.0, 1.0), (0.9, 0.9), (0.86 + n / 100, 0.87 + n / 100)) for n in range(3)}
    result = ProbeResult("accuracy", (0, 1), candidates)
    return pos_report({"xpos": result, "upos": result}, model="mini", data="ewt", num_tokens={"train": 9})


def word_senses() -> Report:
    def scored(figures: dict[str, float]) -> Any:
        return SimpleNamespace(scores={ALL: {name: SimpleNamespace(f1=f1) for name, f1 in figures.items()}})

    nearest = scored({FIRST_SENSE: 65.0, "0": 50.0, "mean": 62.0})
    votes = scored({PRIOR_ONLY: 65.0, VECTORS_ONLY: 62.0, OWN: 69.0, ALL_VIEWS: 70.0})
    return Report("senses", (chart_scores(nearest, votes, "mini"),), {})


def layer_weights() -> Report:
    shares = np.array([[0.1, 0.7, 0.2]])
    return layer_weights_report([MixRow("srl", "srl", place, (1,), shares, (1.0,)) for place in ("input", "output")])


def learning_curves() -> Report:
    config = read_task_config("srl", "small", {})
    runs = tuple(RunCurve(Path(), config, "", "f1", ((1.0, 60.0 + n), (2.0, 70.0 + n))) for n in range(2))
    return learning_curves_report([CurveGroup("srl", "f1", runs)])


def sample_efficiency() -> Report:
    points = tuple(SharePoint(share, 10, scores(50 + 20 * share), ()) for share in (0.1, 1.0))
    return Report("efficiency", (chart_curve(Curve("srl", "f1", points)),), {})


def variants() -> Report:
    return Report("mixing", (chart_study(MIXING, scores(80.0)),), {})


def ranking() -> Report:
    example = Occurrence(TOKENS, 1)
    words = [RankedWord(word, (9, 9), 0.5, 0.3, 0.1, (0.1, 0.0), 0.01, (example, example)) for word in ("play", "bank")]
    return ranking_report(words, 2, ("wikipedia", "books"), {})


def subject(*corpora: str) -> tuple[Subject, Any]:
    random = np.random.default_rng(0)
    one, other = (random.normal(size=(30, 8)) + 3 * number for number in range(2))
    found = compare(one, other, num_groups=3)
    occurrences = [Occurrence(TOKENS, 1, f"f:{n}", n) for n in range(60)]
    return Subject("play", ("play",), corpora, (30, 30), (30, 30), occurrences, {}), found


def shift() -> Report:
    return shift_report(*subject("wikipedia", "books"))


def senses() -> Report:
    own, found = subject("wikipedia")
    return senses_report(own, found.grouping)


REPORTS = (
    neighbors,
    parts_of_speech,
    word_senses,
    layer_weights,
    learning_curves,
    sample_efficiency,
    variants,
    ranking,
    shift,
    senses,
)


@pytest.mark.parametrize("make", REPORTS, ids=lambda make: make.__name__)
def test_pictures_explain_themselves(make: Callable[[], Report]) -> None:
    pictures = [block for block in make().blocks if isinstance(block, Chart | Map)]
    assert pictures
    for picture in pictures:
        assert picture.title and picture.caption.endswith(".")
        if isinstance(picture, Map):
            assert all(picture.axes) and set(picture.groups) >= {point.group for point in picture.points}
            continue
        picture.draw(figure := Figure())
        axes = [own for own in figure.axes if not any(isinstance(one, QuadMesh) for one in own.collections)]
        assert any(own.get_xlabel() for own in axes) and axes[0].get_ylabel()
        (left, right), (bottom, top) = axes[0].get_xlim(), axes[0].get_ylim()
        is_scale = {"vertical": axes[0].get_yscale(), "horizontal": axes[0].get_xscale()}
        for name, start in (("vertical", min(bottom, top)), ("horizontal", min(left, right))):
            if start > 0 and is_scale[name] == "linear":
                assert f"The {name} axis begins at {start:g}, not at 0." in picture.caption
        named = {text.get_text() for own in (figure, *axes) for legend in legends(own) for text in legend.get_texts()}
        broken = [line for own in axes for line in own.lines if line.get_linestyle() in ("--", ":")]
        assert all(line.get_label() in named for line in broken)


def legends(place: Any) -> list[Any]:
    return place.legends if isinstance(place, Figure) else [own for own in [place.get_legend()] if own is not None]


def test_hatching_is_in_the_legend() -> None:
    [chart] = [block for block in layer_weights().blocks if isinstance(block, Chart)]
    chart.draw(figure := Figure())
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["share below 1/3", "share above 2/3"]
    used = {patch.get_hatch() for axes in figure.axes for patch in axes.patches if patch.get_hatch()}
    assert {patch.get_hatch() for patch in legend.get_patches()} == used


def test_one_color_per_corpus_in_all_figures_of_a_report() -> None:
    """The names are not in the order of the alphabet, by which maps once took their colors."""
    report = shift()
    blocks = {block.name: block for block in report.blocks if isinstance(block, Chart | Map)}
    shares, corpora, groups = blocks["shares"], blocks["corpora"], blocks["groups"]
    assert isinstance(shares, Chart) and isinstance(corpora, Map) and isinstance(groups, Map)
    shares.draw(figure := Figure())
    [legend] = figure.legends
    bars = {
        text.get_text(): to_hex(patch.get_facecolor())
        for text, patch in zip(legend.get_texts(), legend.get_patches(), strict=True)
    }
    assert bars == dict(zip(("wikipedia", "books"), CORPUS_COLORS, strict=True))
    page = to_html(Report("t", (corpora,), {}), {})
    for name, color in bars.items():
        assert f'<i style="background:{color}"></i>{name}<' in page
    assert not set(groups.palette) & set(CORPUS_COLORS)
    assert senses().blocks and set(COLORS) > set(CORPUS_COLORS)


def test_colors_of_a_map_follow_the_order_of_its_groups() -> None:
    points = (Point(0, 0, "b", "x"), Point(1, 1, "a", "y"))
    page = to_html(
        Report("t", (Map("m", "t", "c", points, ("c", "a", "b"), ("#111111", "#222222", "#333333")),), {}), {}
    )
    assert '#222222"></i>a<' in page and '#333333"></i>b<' in page and "#111111" not in page


@pytest.mark.parametrize(
    ("values", "start"),
    [([84.0, 86.0], 83.0), ([80.0, 90.0], 79.0), ([3.0, 90.0], 0.0), ([0.0], 0.0), ([], 0.0), ([-5.0, 60.0], 0.0)],
)
def test_where_axes_begin(values: list[float], start: float) -> None:
    assert axis_start(values) == start
    assert axis_start(iter(values)) == start
    note = axis_note(start, "horizontal")
    assert note == (f" The horizontal axis begins at {start:g}, not at 0." if start else "")
