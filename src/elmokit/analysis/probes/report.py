"""Scores of probes by layer: part of speech, as in the paper's Table 6, and named entities."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from elmokit.analysis.axes import BAR_ROOM, axis_note, axis_start
from elmokit.analysis.probes.layers import Candidate, ProbeResult
from elmokit.analysis.probes.pos import TagSet
from elmokit.analysis.report import Cell, Chart, Report, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = {"layer 1": 97.3, "layer 2": 96.8}
"""The paper's biLM on the Wall Street Journal part of the Penn Treebank, whose tags correspond to XPOS."""
_NAMES: dict[TagSet, str] = {"xpos": "XPOS", "upos": "UPOS"}


def pos_report(
    results: Mapping[TagSet, ProbeResult], *, model: str, data: str, num_tokens: Mapping[str, int]
) -> Report:
    """Accuracy by layer and kind of tags, followed by the paper's rows.

    Args:
        results: probe results for each kind of tags, with the same candidates.
        model: the biLM's name.
        data: the treebank's name.
        num_tokens: number of tokens of train, dev and test.
    """
    paper: list[tuple[Cell, ...]] = []
    if "xpos" in results:
        for name, accuracy in PAPER.items():
            cells = (cell for tags in results for cell in (accuracy if tags == "xpos" else None, None, None))
            paper.append((f"the paper's {name}, WSJ", *cells))
    by_label = {_NAMES[tags]: result for tags, result in results.items()}
    report = _report(
        "pos", "Part of speech by layer", "tags", by_label, model=model, data=data, num_tokens=num_tokens, paper=paper
    )
    note = (
        "The paper's rows are of another treebank and its own, larger model (Table 6): compare how the layers differ, "
        "not the numbers themselves."
    )
    figures = {"tags": {tags: _plain(result) for tags, result in results.items()}, "paper": dict(PAPER)}
    return Report(report.title, (*report.blocks, note), {**report.figures, **figures})


def ner_report(result: ProbeResult, *, model: str, data: str, num_tokens: Mapping[str, int]) -> Report:
    """Span F1 of named entities by layer; the arguments are those of `pos_report`."""
    by_label = {result.metric: result}
    report = _report(
        "ner", "Named entities by layer", "entities", by_label, model=model, data=data, num_tokens=num_tokens
    )
    return Report(report.title, report.blocks, {**report.figures, "tags": {"ner": _plain(result)}})


def _report(
    name: str,
    title: str,
    what: str,
    results: Mapping[str, ProbeResult],
    *,
    model: str,
    data: str,
    num_tokens: Mapping[str, int],
    paper: Sequence[tuple[Cell, ...]] = (),
) -> Report:
    """Scores by layer, for one or several kinds of tags by their label."""
    first = next(iter(results.values()))
    metric = first.metric
    header = ["vectors"]
    for label in results:
        header += [f"{label} test", "±", f"{label} dev"]
    rows: list[tuple[Cell, ...]] = []
    for candidate in first.candidates:
        row: list[Cell] = [candidate]
        for result in results.values():
            found = result.candidates[candidate]
            spread = 100 * found.test_deviation if len(result.seeds) > 1 else None
            row += [100 * found.test_mean, spread, 100 * found.dev_mean]
        rows.append(tuple(row))
    sizes = ", ".join(f"{split} {number:,}" for split, number in num_tokens.items())
    chosen = "; ".join(f"{label}: {result.chosen}" for label, result in results.items())
    over = f"mean and standard deviation over {len(first.seeds)} seeds" if len(first.seeds) > 1 else "one seed"
    means = [100 * found.test_mean for result in results.values() for found in result.candidates.values()]
    start = axis_start(means, room=BAR_ROOM)
    bars = f"; the strokes are one standard deviation over {len(first.seeds)} seeds" if len(first.seeds) > 1 else ""
    capital = metric[0].upper() + metric[1:]
    blocks = (
        f"{model} on {data} (tokens: {sizes}). One softmax per token on frozen, standardized vectors; its L2 strength "
        f"is chosen on dev; {over}. Best single vectors on dev: {chosen}.",
        Table(f"{capital} of {what} in percent", tuple(header), (*rows, *paper), decimals=2),
        Chart(
            name,
            f"{title}: {model} on {data}",
            f"{capital} on the test set by layer{bars}.{axis_note(start)}",
            lambda figure: _draw(figure, results, start),
        ),
    )
    figures = {"model": model, "data": data, "tokens": dict(num_tokens), "seeds": list(first.seeds)}
    return Report(title, blocks, figures)


def _plain(result: ProbeResult) -> dict[str, Any]:
    def written(found: Candidate) -> dict[str, Any]:
        return {
            "test": found.test_mean * 100,
            "test_deviation": found.test_deviation * 100,
            "dev": found.dev_mean * 100,
            "l2": list(found.l2),
        }

    return {"chosen": result.chosen, "candidates": {n: written(found) for n, found in result.candidates.items()}}


def _draw(figure: "Figure", results: Mapping[str, ProbeResult], start: float) -> None:
    axes = figure.subplots()
    first = next(iter(results.values()))
    names, metric = list(first.candidates), first.metric
    width = 0.8 / len(results)
    highest = 0.0
    for number, (label, result) in enumerate(results.items()):
        means = [100 * found.test_mean for found in result.candidates.values()]
        several = len(result.seeds) > 1
        spread = [100 * found.test_deviation for found in result.candidates.values()] if several else None
        places = [place - 0.4 + width * (number + 0.5) for place in range(len(names))]
        shown = label if label == metric else f"{label} tags"
        bars = axes.bar(places, means, width * 0.95, yerr=spread, label=shown, capsize=3)
        axes.bar_label(bars, fmt="%.1f", padding=2)
        highest = max(highest, *means)
    axes.set(xlabel="vectors", ylabel=f"test {metric} in percent", xticks=range(len(names)))
    axes.set_ylim(start, highest + 0.1 * (highest - start))
    axes.set_xticklabels(names)
    figure.legend(frameon=False, loc="outside lower center", ncols=len(results))
