"""Neighbors as a bar chart of cosines."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from elmokit.analysis.page import COLORS
from elmokit.analysis.report import Chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MOST = 20


class Panel(NamedTuple):
    """Neighbors of one kind, the nearest first."""

    title: str
    kind: str
    """What the labels are."""
    labels: Sequence[str]
    cosines: Sequence[float]


def bar_chart(title: str, caption: str, panels: Sequence[Panel]) -> Chart:
    """Panels one below the other, on the same scale, with the nearest neighbors of each."""
    panels = [panel._replace(labels=panel.labels[:_MOST], cosines=panel.cosines[:_MOST]) for panel in panels]
    rows = sum(len(panel.labels) for panel in panels)
    size = (9, 0.7 * len(panels) + 0.8 + 0.27 * rows)
    return Chart("neighbours", title, caption, partial(_draw, panels=panels), size=size)


def _draw(figure: "Figure", *, panels: Sequence[Panel]) -> None:
    heights = [len(panel.labels) + 1 for panel in panels]
    all_axes = figure.subplots(len(panels), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, panel, color in zip(all_axes, panels, COLORS * len(panels), strict=False):
        places = range(len(panel.labels))
        axes.barh(places, panel.cosines, 0.7, color=color)
        axes.set_yticks(places, panel.labels)
        axes.set_title(panel.title, loc="left", fontsize="medium")
        axes.set_ylabel(panel.kind)
        axes.margins(y=0.02)
        axes.invert_yaxis()
    figure.align_ylabels(all_axes)
    all_axes[-1].set_xlabel("cosine with the word asked about")
