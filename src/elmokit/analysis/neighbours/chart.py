"""Neighbours as a picture: a bar as long as the cosine beside each of them."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from elmokit.analysis.page import COLOURS
from elmokit.analysis.report import Chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MOST = 20


class Panel(NamedTuple):
    """Neighbours of one kind, the nearest first."""

    title: str
    labels: Sequence[str]
    cosines: Sequence[float]


def bar_chart(caption: str, panels: Sequence[Panel]) -> Chart:
    """A panel under the other, with the same scale and the first neighbours of each."""
    panels = [Panel(title, labels[:_MOST], cosines[:_MOST]) for title, labels, cosines in panels]
    rows = sum(len(panel.labels) for panel in panels)
    return Chart("neighbours", caption, partial(_draw, panels=panels), size=(9, 0.7 * len(panels) + 0.3 + 0.27 * rows))


def _draw(figure: "Figure", *, panels: Sequence[Panel]) -> None:
    heights = [len(panel.labels) + 1 for panel in panels]
    all_axes = figure.subplots(len(panels), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, panel, colour in zip(all_axes, panels, COLOURS * len(panels), strict=False):
        places = range(len(panel.labels))
        axes.barh(places, panel.cosines, 0.7, color=colour)
        axes.set_yticks(places, panel.labels)
        axes.set_title(panel.title, loc="left", fontsize="medium")
        axes.margins(y=0.02)
        axes.invert_yaxis()
    all_axes[-1].set_xlabel("cosine")
