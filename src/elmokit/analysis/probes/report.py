"""Part of speech by layer, as in the paper's Table 6."""

from collections.abc import Mapping
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
    first = next(iter(results.values()))
    header = ["vectors"]
    for tags in results:
        header += [f"{_NAMES[tags]} test", "±", f"{_NAMES[tags]} dev"]
    rows: list[tuple[Cell, ...]] = []
    for name in first.candidates:
        row: list[Cell] = [name]
        for result in results.values():
            found = result.candidates[name]
            spread = 100 * found.test_deviation if len(result.seeds) > 1 else None
            row += [100 * found.test_mean, spread, 100 * found.dev_mean]
        rows.append(tuple(row))
    if "xpos" in results:
        for name, accuracy in PAPER.items():
            cells = (cell for tags in results for cell in (accuracy if tags == "xpos" else None, None, None))
            rows.append((f"the paper's {name}, WSJ", *cells))
    sizes = ", ".join(f"{name} {number:,}" for name, number in num_tokens.items())
    chosen = "; ".join(f"{_NAMES[tags]}: {result.chosen}" for tags, result in results.items())
    over = f"mean and standard deviation over {len(first.seeds)} seeds" if len(first.seeds) > 1 else "one seed"
    means = [100 * found.test_mean for result in results.values() for found in result.candidates.values()]
    start = axis_start(means, room=BAR_ROOM)
    bars = f"; the strokes are one standard deviation over {len(first.seeds)} seeds" if len(first.seeds) > 1 else ""
    blocks = (
        f"{model} on {data} (tokens: {sizes}). One softmax per token on frozen, standardized vectors; its L2 strength "
        f"is chosen on dev; {over}. Best single vectors on dev: {chosen}.",
        Table("Accuracy of tags in percent", tuple(header), tuple(rows), decimals=2),
        Chart(
            "pos",
            f"Part of speech by layer: {model} on {data}",
            f"Accuracy on the test set by layer{bars}.{axis_note(start)}",
            lambda figure: _draw(figure, results, start),
        ),
        "The paper's rows are of another treebank and its own, larger model (Table 6): compare how the layers differ, "
        "not the numbers themselves.",
    )
    figures = {
        "model": model,
        "data": data,
        "tokens": dict(num_tokens),
        "seeds": list(first.seeds),
        "tags": {tags: _plain(result) for tags, result in results.items()},
        "paper": dict(PAPER),
    }
    return Report("Part of speech by layer", blocks, figures)


def _plain(result: ProbeResult) -> dict[str, Any]:
    def written(found: Candidate) -> dict[str, Any]:
        return {
            "test": found.test_mean * 100,
            "test_deviation": found.test_deviation * 100,
            "dev": found.dev_mean * 100,
            "l2": list(found.l2),
        }

    return {"chosen": result.chosen, "candidates": {n: written(found) for n, found in result.candidates.items()}}


def _draw(figure: "Figure", results: Mapping[TagSet, ProbeResult], start: float) -> None:
    axes = figure.subplots()
    names = list(next(iter(results.values())).candidates)
    width = 0.8 / len(results)
    highest = 0.0
    for number, (tags, result) in enumerate(results.items()):
        means = [100 * found.test_mean for found in result.candidates.values()]
        several = len(result.seeds) > 1
        spread = [100 * found.test_deviation for found in result.candidates.values()] if several else None
        places = [place - 0.4 + width * (number + 0.5) for place in range(len(names))]
        bars = axes.bar(places, means, width * 0.95, yerr=spread, label=f"{_NAMES[tags]} tags", capsize=3)
        axes.bar_label(bars, fmt="%.1f", padding=2)
        highest = max(highest, *means)
    axes.set(xlabel="vectors", ylabel="test accuracy in percent", xticks=range(len(names)))
    axes.set_ylim(start, highest + 0.1 * (highest - start))
    axes.set_xticklabels(names)
    figure.legend(frameon=False, loc="outside lower center", ncols=len(results))
