"""The layer weights that tasks learned, as in the paper's Figure 2.

A mix gives γ Σ s_j h_j with s = softmax(w). Runs that differ only in their seed are averaged; runs of one task that
differ in a setting or in their biLM are separate rows, whose labels name the difference.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from elmokit.analysis.report import Block, Cell, Chart, Report, Table
from elmokit.analysis.tasks.run_groups import TrainedRun, check_runs, group_runs, read_settings
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.formats.locate import TASK_MODEL
from elmokit.recognize import TASK_RUN, mistaken
from elmokit.tasks.experiments.comparison import deviation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PLACES = ("input", "output")
LOW, HIGH = 1 / 3, 2 / 3
"""Shares that the paper's figure marks: smaller ones with lines, larger ones with dots."""
PAPER = (
    "The paper's Figure 2 has no numbers. It says: at the input, tasks favor the first biLSTM layer, coreference and "
    "SQuAD strongly; at the output, weights are balanced, with a slight preference for the lower layers."
)
_FEW, _MANY = "--", ".."
"""Hatching of shares below LOW and above HIGH."""
_MIX = "inputs.elmo.mixes.mixes.{number}.{part}"


@dataclass(frozen=True)
class Mix:
    """The mix learned at one place of a task model."""

    place: str
    shares: tuple[float, ...]
    """Weight of each layer; they sum to 1."""
    gamma: float


@dataclass(frozen=True)
class RunMixes(TrainedRun):
    """The mixes of one trained task model, and its settings."""

    mixes: tuple[Mix, ...]


@dataclass(frozen=True)
class MixRow:
    """The mixes at one place, of runs that differ only in their seeds."""

    label: str
    task: str
    place: str
    seeds: tuple[int, ...]
    shares: NDArray[np.float64] = field(repr=False)
    """(S, L), one row per seed."""
    gammas: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "task": self.task,
            "label": self.label,
            "place": self.place,
            "seeds": list(self.seeds),
            "layer_weights": self.shares.mean(0).tolist(),
            "layer_weights_deviation": [deviation(column) for column in self.shares.T.tolist()],
            "gamma": fmean(self.gammas),
            "gamma_deviation": deviation(self.gammas),
        }


def analyze_layer_weights(runs: Sequence[str | Path]) -> Report:
    """The layer weights and scales that task models learned (Figure 2 of the paper).

    Runs that differ only in their seed are averaged.

    Args:
        runs: Folders of task runs, or the model folders in them.
    """
    return layer_weights_report(average_mixes([read_mixes(path) for path in check_runs(runs)]))


def read_mixes(path: Path) -> RunMixes:
    """The mixes in a task's run folder or model folder; the biLM itself is not needed."""
    folder = path / "model" if (path / "model" / TASK_MODEL).is_file() else path
    if not (folder / TASK_MODEL).is_file():
        if sentence := mistaken(path, "a task's run or its model", TASK_RUN):
            raise InputError(sentence)
        what = "does not exist" if not path.exists() else "has neither task.json nor model/task.json"
        raise InputError(f"{path} {what}: give the folder of a run of `elmokit task train`, or its model/.")
    try:
        content = json.loads((folder / TASK_MODEL).read_text(encoding="utf-8"))
        config, bilm = read_settings(content)
        task, place, layers = config.task, config.elmo.place, config.elmo.layers
        if place == "none" or not bilm:
            raise ConfigError(f"{path} is a model of {task} without ELMo: leave it out, it has no layer weights.")
        if layers != "all":
            raise ConfigError(
                f"{path} is a model of {task} with elmo.layers = {layers}, which learns no layer weights: leave it out."
            )
        places = PLACES if place == "both" else (place,)
        with safe_open(folder / "model.safetensors", framework="numpy") as tensors:
            mixes = tuple(
                _mix(
                    path,
                    name,
                    tensors.get_tensor(_MIX.format(number=number, part="weights")),
                    tensors.get_tensor(_MIX.format(number=number, part="gamma")),
                )
                for number, name in enumerate(places)
            )
    except (OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
        raise FormatError(
            f"{path} is not the folder of a task model ({type(error).__name__}: {str(error)[:80]}): give what "
            "`elmokit task train` wrote as model/."
        ) from None
    return RunMixes(path, config, bilm, mixes)


def _mix(path: Path, place: str, weights: NDArray[Any], gamma: NDArray[Any]) -> Mix:
    raw = weights.astype(np.float64)  # (L,)
    if raw.ndim != 1 or not raw.size or not np.isfinite(raw).all() or gamma.shape or not np.isfinite(gamma):
        raise FormatError(f"{path}: the mix at the {place} has no finite layer weights: train the model again.")
    shares = np.exp(raw - raw.max())  # (L,)
    return Mix(place, tuple((shares / shares.sum()).tolist()), float(gamma))


def average_mixes(runs: Sequence[RunMixes]) -> list[MixRow]:
    """One row per task and place, in the given order; more rows if runs of a task have different settings."""
    rows = []
    for label, own in group_runs(runs):
        for number, mix in enumerate(own[0].mixes):
            shares = np.array([run.mixes[number].shares for run in own])  # (S, L)
            gammas = tuple(run.mixes[number].gamma for run in own)
            seeds = tuple(run.config.seed for run in own)
            rows.append(MixRow(label, own[0].config.task, mix.place, seeds, shares, gammas))
    return rows


def layer_weights_report(rows: Sequence[MixRow]) -> Report:
    """The weights as a table, and one heat map per place."""
    num_layers = max(row.shares.shape[1] for row in rows)
    header = ("task", "place", "seeds", *(f"layer {number}" for number in range(num_layers)), "γ")

    def cells(row: MixRow, shares: Sequence[float], gamma: float) -> tuple[Cell, ...]:
        empty = (None,) * (num_layers - len(shares))
        return (row.label, row.place, len(row.seeds), *shares, *empty, gamma)

    means = tuple(cells(row, row.shares.mean(0).tolist(), fmean(row.gammas)) for row in rows)
    blocks: list[Block] = [Table("Share of each layer, s = softmax(w), and scale γ", header, means, decimals=2)]
    if any(len(row.seeds) > 1 for row in rows):
        spread = tuple(
            cells(row, [deviation(column) for column in row.shares.T.tolist()], deviation(row.gammas))
            for row in rows
            if len(row.seeds) > 1
        )
        blocks.append(Table("Standard deviation over seeds", header, spread, decimals=2))
    caption = (
        "The share of each layer by task, at the input and at the output of the task's encoder: darker is larger. "
        "Shares below 1/3 are hatched with horizontal lines, those above 2/3 with dots, as in the paper's Figure 2. "
        "A row is empty where the task has no ELMo."
    )
    labels = dict.fromkeys(row.label for row in rows)
    num_places = len({row.place for row in rows})
    width = 2.0 + 0.09 * max(map(len, labels)) + num_places * 0.9 * num_layers
    size = (min(max(width, 6.0), 14.0), 2.4 + 0.5 * len(labels))
    draw = partial(_draw, rows=rows, num_layers=num_layers)
    blocks.append(Chart("layer-weights", "Learned layer weights by task", caption, draw, size))
    blocks.append(PAPER)
    return Report("Learned layer weights", tuple(blocks), {"rows": [row.to_dict() for row in rows]})


def _draw(figure: "Figure", *, rows: Sequence[MixRow], num_layers: int) -> None:
    """One panel per place, with the same rows."""
    from matplotlib.patches import Rectangle

    labels = list(dict.fromkeys(row.label for row in rows))
    places = [place for place in PLACES if any(row.place == place for row in rows)]
    panels = figure.subplots(1, len(places), squeeze=False)[0]
    for number, (place, axes) in enumerate(zip(places, panels, strict=True)):
        shares = np.full((len(labels), num_layers), np.nan)  # (R, L)
        for row in rows:
            if row.place == place:
                shares[labels.index(row.label), : row.shares.shape[1]] = row.shares.mean(0)
        _draw_panel(axes, shares)
        axes.set_title(f"at the {place}", fontsize="medium")
        axes.set(xticks=range(num_layers), yticks=[] if number else range(len(labels)))
        axes.set_xticklabels([str(layer) for layer in range(num_layers)])
        axes.set_yticklabels([] if number else labels)
        axes.set(xlabel="biLM layer", ylabel="" if number else "task")
    figure.colorbar(panels[-1].images[0], ax=list(panels), label="share of the layer")
    hatches = [
        Rectangle((0, 0), 1, 1, fill=False, hatch=hatch, label=label)
        for hatch, label in ((_FEW, "share below 1/3"), (_MANY, "share above 2/3"))
    ]
    figure.legend(handles=hatches, frameon=False, loc="outside lower center", ncols=2, handleheight=1.6)


def _draw_panel(axes: "Axes", shares: NDArray[np.float64]) -> None:
    """Shares (R, L) as squares; the row of a task without ELMo at this place is empty."""
    from matplotlib.patches import Rectangle

    picture = axes.imshow(shares, cmap="YlGnBu", vmin=0, vmax=1, aspect="auto")
    for (row, layer), share in np.ndenumerate(shares):
        if np.isnan(share):
            continue
        dark = share > 0.6
        hatch = _FEW if share < LOW else _MANY if share > HIGH else None
        color = "#ffffff66" if dark else "#00000044"
        axes.add_patch(Rectangle((layer - 0.5, row - 0.5), 1, 1, fill=False, hatch=hatch, edgecolor=color, lw=0))
        box = {"boxstyle": "round,pad=0.15", "facecolor": picture.cmap(float(share)), "edgecolor": "none"}
        axes.text(layer, row, f"{share:.2f}", ha="center", va="center", color="w" if dark else "k", bbox=box)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
