"""Plots of a word's uses: a map of occurrences, shares of groups, shifts of words."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from elmokit.analysis.occurrence import Occurrence
from elmokit.analysis.page import COLORS, CORPUS_COLORS
from elmokit.analysis.report import Chart, Map, Point
from elmokit.analysis.usage.groups import Grouping
from elmokit.analysis.usage.ranking import RankedWord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DIRECTIONS = ("direction of strongest agreement", "direction of second strongest agreement")


def map_corpora(word: str, grouping: Grouping, occurrences: Sequence[Occurrence], corpora: Sequence[str]) -> Map:
    """Occurrences with one color per corpus; `corpora` names the corpus of each."""
    return _map("corpora", f"Occurrences of “{word}” by corpus", grouping, occurrences, corpora, CORPUS_COLORS)


def map_groups(
    word: str, grouping: Grouping, occurrences: Sequence[Occurrence], names: Sequence[str], *, one_corpus: bool
) -> Map:
    """Occurrences with one color per group; no group has the color of a corpus in the same report."""
    palette = COLORS if one_corpus else COLORS[len(CORPUS_COLORS) :]
    own = [names[group] for group in grouping.groups.tolist()]
    return _map("groups", f"Occurrences of “{word}” by group", grouping, occurrences, own, palette, tuple(names))


def chart_shares(word: str, corpora: tuple[str, ...], names: Sequence[str], shares: list[list[float]]) -> Chart:
    """The distribution of a word's occurrences over groups; one row of shares per corpus."""
    return Chart(
        "shares",
        f"Groups of “{word}” in {' and '.join(corpora)}",
        f"The distribution of the occurrences of “{word}” over its groups, with one color per corpus.",
        partial(_draw_shares, corpora=corpora, names=names, shares=shares),
        size=(8, 2 + 0.7 * len(names)),
    )


def chart_shifts(ranked: Sequence[RankedWord], middle: float, corpora: tuple[str, str]) -> Chart:
    """The shifts of words, and the threshold of each; `middle` is the median shift of all words."""
    return Chart(
        "shifts",
        f"Words whose use differs most between {' and '.join(corpora)}",
        "The shift of each word. The black stroke is the threshold that the shift must exceed to count; words are "
        "ordered by how far they exceed it. The dashed line is the median shift of all words.",
        partial(_draw_shifts, ranked=ranked, middle=middle),
        size=(8, 2.2 + 0.27 * len(ranked)),
    )


def _map(
    name: str,
    title: str,
    grouping: Grouping,
    occurrences: Sequence[Occurrence],
    kinds: Sequence[str],
    palette: tuple[str, ...],
    legend: tuple[str, ...] = (),
) -> Map:
    """Occurrences in the two directions on which both sides agree most; colors are groups or corpora."""
    points = tuple(
        Point(x, y, kind, " ".join(occurrence.tokens))
        for (x, y), kind, occurrence in zip(plane(grouping), kinds, occurrences, strict=True)
    )
    caption = (
        "Each point is one occurrence, placed by the two directions in which the text before the word and the text "
        "after it agree most: points that are close together have similar contexts. The axes have no unit."
    )
    return Map(name, title, caption, points, legend or tuple(dict.fromkeys(kinds)), palette, _DIRECTIONS)


def plane(grouping: Grouping) -> list[tuple[float, float]]:
    """The position of each occurrence on the maps."""
    points = grouping.points  # (K, F)
    return [(row[0], row[1] if len(row) > 1 else 0.0) for row in points.tolist()]


def _draw_shares(
    figure: "Figure", *, corpora: tuple[str, ...], names: Sequence[str], shares: list[list[float]]
) -> None:
    axes = figure.subplots()
    height = 0.8 / len(corpora)
    for number, (name, row) in enumerate(zip(corpora, shares, strict=True)):
        places = [group + height * (number - (len(corpora) - 1) / 2) for group in range(len(names))]
        axes.barh(places, [100 * share for share in row], height, label=name, color=CORPUS_COLORS[number])
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlabel="% of the corpus's occurrences", ylabel="group")
    figure.legend(frameon=False, loc="outside lower center", ncols=len(corpora))


def _draw_shifts(figure: "Figure", *, ranked: Sequence[RankedWord], middle: float) -> None:
    axes = figure.subplots()
    places = range(len(ranked))
    axes.barh(places, [one.shift for one in ranked], 0.7, color=COLORS[2], label="shift")
    floors = [one.floor for one in ranked]
    below, above = [place - 0.35 for place in places], [place + 0.35 for place in places]
    axes.vlines(floors, below, above, colors="black", label="threshold")
    axes.axvline(middle, color="gray", linestyle="--", linewidth=1, label="median shift")
    axes.set_yticks(places, [one.word for one in ranked])
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set(xlabel="shift", ylabel="word")
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
