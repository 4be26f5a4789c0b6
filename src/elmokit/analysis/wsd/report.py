"""Word senses by layer, as in the paper's Table 5, and by votes of similar occurrences on the same vectors."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

from elmokit.analysis.axes import BAR_ROOM, axis_note, axis_start
from elmokit.analysis.report import Cell, Chart, Report, Table
from elmokit.analysis.wsd.contexts import VIEWS
from elmokit.analysis.wsd.nearest import ALL, FIRST_SENSE, WITHOUT_DEVELOPMENT, Score, WsdResult
from elmokit.analysis.wsd.votes import ALL_VIEWS, OWN, PRIOR_ONLY, VECTORS_ONLY, VotesResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = {FIRST_SENSE: 65.9, "layer 1": 67.4, "layer 2": 69.0}
"""The paper's F1 on the sets without semeval2007."""
_SHORT = {
    "senseval2": "SE2",
    "senseval3": "SE3",
    "semeval2007": "SE07",
    "semeval2013": "SE13",
    "semeval2015": "SE15",
    WITHOUT_DEVELOPMENT: "without SE07",
}
_VOTES = (PRIOR_ONLY, VECTORS_ONLY, OWN, ALL_VIEWS)


def wsd_report(paper: WsdResult, votes: VotesResult, *, model: str, parts: str) -> Report:
    """F1 by set, method and layer, with the paper's rows.

    Args:
        paper: scores of the nearest sense, as in the paper.
        votes: scores of votes of occurrences.
        model: the biLM's name.
        parts: names of the SemCor parts.
    """
    names = list(paper.scores)
    total = {name: next(iter(ways.values())).total for name, ways in paper.scores.items()}
    header = ("method", *(_SHORT.get(name, name) for name in names))
    rows = [_row(_label(way), paper.scores, way) for way in paper.scores[names[0]]]
    rows += [_paper_row(name, f1, names) for name, f1 in PAPER.items()]
    vote_rows = [_row(FIRST_SENSE, paper.scores, FIRST_SENSE), *(_row(way, votes.scores, way) for way in _VOTES)]
    learned = votes.votings[ALL_VIEWS]
    weights = ", ".join(f"{view} {weight:.1f}" for view, weight in zip(VIEWS, learned.weights, strict=True))
    blocks = (
        f"{model}; senses from {paper.num_occurrences:,} occurrences of {paper.num_senses:,} senses in SemCor "
        f"({parts}); {total.get(ALL, total[names[0]]):,} instances, of which "
        f"{sum(paper.backed_off.values()):,} are of words that are not in SemCor and take WordNet's first sense. "
        "SE2 and SE3 are Senseval-2 and -3, SE07 to SE15 the SemEval tasks of 2007, 2013 and 2015.",
        Table("The nearest sense vector, as in the paper: F1 in percent", header, tuple(rows)),
        Table("Votes of similar occurrences on the same vectors: F1 in percent", header, tuple(vote_rows)),
        f"Weights of the views in the votes: {weights}. They and the metric are learned from SemCor alone, the weights "
        f"on {votes.num_held:,} occurrences in held-out texts. “{VECTORS_ONLY}” gives frequent and rare senses "
        f"equal weight; “{PRIOR_ONLY}” counts senses and ignores vectors; “{OWN}” leaves out the window, the "
        "neighbors and the rest of the sentence.",
        chart_scores(paper, votes, model),
    )
    return Report("Word-sense disambiguation by layer", blocks, _figures(paper, votes, model, parts))


def _label(way: str) -> str:
    return f"layer {way}" if way.isdecimal() else "mean of layers" if way == "mean" else way


def _row(label: str, scores: Mapping[str, Mapping[str, Score]], way: str) -> tuple[Cell, ...]:
    return (label, *(ways[way].f1 for ways in scores.values()))


def _paper_row(name: str, f1: float, names: list[str]) -> tuple[Cell, ...]:
    return (f"the paper's {name}", *(f1 if column == WITHOUT_DEVELOPMENT else None for column in names))


def _figures(paper: WsdResult, votes: VotesResult, model: str, parts: str) -> dict[str, Any]:
    def written(scores: Mapping[str, Mapping[str, Score]]) -> dict[str, dict[str, float]]:
        return {name: {_label(way): score.f1 for way, score in ways.items()} for name, ways in scores.items()}

    return {
        "model": model,
        "semcor": {"parts": parts, "senses": paper.num_senses, "occurrences": paper.num_occurrences},
        "instances": {name: next(iter(ways.values())).total for name, ways in paper.scores.items()},
        "backed_off": paper.backed_off,
        "nearest_sense": written(paper.scores),
        "votes": written(votes.scores),
        "votings": {way: asdict(voting) for way, voting in votes.votings.items()},
        "views": list(VIEWS),
        "voters": votes.num_voters,
        "held_out": votes.num_held,
        "paper": dict(PAPER),
    }


def chart_scores(paper: WsdResult, votes: VotesResult, model: str) -> Chart:
    """F1 on all sets together, by either method."""
    name = ALL if ALL in paper.scores else next(iter(paper.scores))
    nearest = {_label(way): score.f1 for way, score in paper.scores[name].items() if way != FIRST_SENSE}
    voted = {way: votes.scores[name][way].f1 for way in _VOTES}
    first = paper.scores[name][FIRST_SENSE].f1
    start = axis_start((first, *nearest.values(), *voted.values()), room=BAR_ROOM)
    where = "all sets together" if name == ALL else name
    caption = (
        f"F1 on {where}, by the nearest sense vector of each layer and by votes of similar occurrences; the dashed "
        f"line is WordNet's first sense.{axis_note(start)}"
    )
    sides = {"nearest sense, as in the paper": nearest, "votes": voted}
    draw = partial(_draw, sides=sides, first=first, start=start, name=name)
    return Chart("wsd", f"Word-sense disambiguation: {model} on {where}", caption, draw)


def _draw(figure: "Figure", *, sides: Mapping[str, Mapping[str, float]], first: float, start: float, name: str) -> None:
    axes = figure.subplots()
    labels: list[str] = []
    for side, scores in sides.items():
        places = range(len(labels), len(labels) + len(scores))
        bars = axes.bar(places, list(scores.values()), label=side)
        axes.bar_label(bars, fmt="%.1f", padding=2)
        labels += scores
    axes.axhline(first, color="#444444", linestyle="--", linewidth=1, label="WordNet's first sense")
    highest = max(first, *(score for scores in sides.values() for score in scores.values()))
    axes.set(xlabel="method", ylabel=f"F1 on {name} in percent", xticks=range(len(labels)))
    axes.set_ylim(start, highest + 0.1 * (highest - start))
    axes.set_xticklabels([fill(label, 12) for label in labels], fontsize=9)
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
