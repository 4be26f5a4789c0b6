"""Draw the figures of `elmo.md`: the biLM, the mix of its layers, and where ELMo goes in a task.

python docs/figures.py            write them into docs/pictures
"""

from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

FOLDER = Path(__file__).parent / "pictures"
FORWARD, BACKWARD, SHARED, TASK, INK = "#0072b2", "#d55e00", "#5b6770", "#009e73", "#222222"
TINTS = {FORWARD: "#deedf6", BACKWARD: "#fae9dd", SHARED: "#e9ebec", TASK: "#ddf2ec"}
TOKENS = ("The", "play", "was", "cancelled")


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of width × height inches whose axes count in tenths of an inch."""
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 10 * width), ylim=(0, 10 * height))
    axes.axis("off")
    return figure, axes


def box(axes: Axes, x: float, y: float, width: float, height: float, text: str, color: str, size: int = 10) -> None:
    """A box around (x, y) with a text in it."""
    corner = (x - width / 2, y - height / 2)
    look = {"facecolor": TINTS[color], "edgecolor": color, "lw": 1.4, "zorder": 3}
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle="round,pad=0,rounding_size=0.8", **look))
    axes.text(x, y, text, ha="center", va="center", fontsize=size, color=INK, linespacing=1.3, zorder=4)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], color: str = SHARED) -> None:
    """An arrow from one point to another."""
    style = {"arrowstyle": "-|>", "color": color, "lw": 1.4, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 11}
    axes.annotate("", xy=end, xytext=start, arrowprops=style, zorder=1)


def label(axes: Axes, x: float, y: float, text: str, color: str = INK, *, bold: bool = False, ha: str = "left") -> None:
    """A text beside the drawing."""
    weight = "bold" if bold else "normal"
    axes.text(x, y, text, ha=ha, va="center", fontsize=10, color=color, fontweight=weight, linespacing=1.35)


def draw_bilm() -> Figure:
    """Two stacks of LSTMs over one character CNN: one reads to the right, the other to the left."""
    figure, axes = canvas(7.8, 4.8)
    columns = [25 + 15.5 * i for i in range(len(TOKENS))]
    heights = {1: 21, 2: 32}
    for i, (x, token) in enumerate(zip(columns, TOKENS, strict=True)):
        axes.text(x, 2.4, token, ha="center", va="center", fontsize=12, fontweight="bold", color=INK)
        box(axes, x, 9.5, 11, 5, "character CNN", SHARED, 9)
        arrow(axes, (x, 4.2), (x, 7))
        for side, color, text in ((-3, FORWARD, "→"), (3, BACKWARD, "←")):
            arrow(axes, (x + side * 0.8, 12), (x + side, 18.5), color)
            arrow(axes, (x + side, 23.5), (x + side, 29.5), color)
            arrow(axes, (x + side, 34.5), (x + side, 40.5), color)
            for y in heights.values():
                box(axes, x + side, y, 5, 5, text, color, 13)
        following = TOKENS[i + 1] if i + 1 < len(TOKENS) else "</S>"
        before = TOKENS[i - 1] if i else "<S>"
        axes.text(x - 3, 42, following, ha="center", fontsize=8.5, color=FORWARD)
        axes.text(x + 3, 44.4, before, ha="center", fontsize=8.5, color=BACKWARD)
    for left, right in pairwise(columns):
        for y in heights.values():
            arrow(axes, (left - 0.5, y + 1.2), (right - 5.5, y + 1.2), FORWARD)
            arrow(axes, (right + 0.5, y - 1.2), (left + 5.5, y - 1.2), BACKWARD)
    label(axes, 1, 9.5, "layer 0", bold=True)
    label(axes, 1, 21, "layer 1", bold=True)
    label(axes, 1, 32, "layer 2", bold=True)
    label(axes, 1, 42.6, "next word", FORWARD)
    label(axes, 1, 45, "previous word", BACKWARD)
    label(axes, 1, 7, "no context", SHARED)
    label(axes, 1, 18.5, "in context", SHARED)
    label(axes, 1, 29.5, "in context", SHARED)
    return figure


def draw_vector(axes: Axes, x: float, y: float, shades: tuple[float, ...], color: str) -> None:
    """A vector as a row of cells, darker where its numbers are larger."""
    for i, shade in enumerate(shades):
        axes.add_patch(Rectangle((x + 2.4 * i, y - 1.5), 2.4, 3, facecolor=color, alpha=shade, lw=0))
    axes.add_patch(Rectangle((x, y - 1.5), 2.4 * len(shades), 3, fill=False, edgecolor=color, lw=1.4))


def draw_mix() -> Figure:
    """Three layers of one token, weighed and added up."""
    figure, axes = canvas(7.8, 2.9)
    rows = (
        ("layer 2", 23, "s₂", (0.2, 0.7, 0.4, 0.1, 0.8, 0.3, 0.5, 0.2), FORWARD),
        ("layer 1", 16, "s₁", (0.6, 0.3, 0.1, 0.5, 0.4, 0.8, 0.2, 0.6), BACKWARD),
        ("layer 0", 9, "s₀", (0.1, 0.5, 0.6, 0.3, 0.2, 0.4, 0.7, 0.3), SHARED),
    )
    for name, y, weight, shades, color in rows:
        label(axes, 1, y, name, bold=True)
        draw_vector(axes, 10, y, shades, color)
        label(axes, 31, y, f"× {weight}")
        arrow(axes, (36, y), (43.2, 16 + (y - 16) * 0.25))
    box(axes, 45.5, 16, 4.4, 4.4, "+", TASK, 15)
    arrow(axes, (48, 16), (55, 16))
    label(axes, 50, 18.4, "× γ")
    draw_vector(axes, 56, 16, (0.4, 0.5, 0.4, 0.3, 0.6, 0.5, 0.6, 0.4), TASK)
    label(axes, 65.6, 20, "the ELMo vector of one word", bold=True, ha="center")
    label(axes, 65.6, 10.4, "s₀ + s₁ + s₂ = 1; the task\nlearns s and the scale γ", TASK, ha="center")
    label(axes, 1, 3, "The language model stays frozen: these four numbers are all that a task learns of ELMo.", SHARED)
    return figure


def draw_places() -> Figure:
    """A task model with ELMo at its input and, in some tasks, at its output."""
    figure, axes = canvas(8.6, 3.9)
    box(axes, 11, 9, 19, 9, "language model\n(frozen)", SHARED, 11)
    box(axes, 11, 30, 19, 9, "word vectors\nof the task", TASK, 11)
    box(axes, 42, 30, 15, 9, "the task's\nencoder", TASK, 11)
    box(axes, 68, 30, 15, 9, "the task's\noutput layer", TASK, 11)
    for x, text in ((30, "mix 1"), (55, "mix 2")):
        box(axes, x, 9, 9, 6, text, FORWARD, 10)
        arrow(axes, (x, 12), (x, 28.2), FORWARD)
        axes.text(x, 30, "+", ha="center", va="center", fontsize=15, color=FORWARD, fontweight="bold")
    arrow(axes, (20.5, 9), (25.5, 9), FORWARD)
    axes.plot([11, 11, 55, 55], [4.5, 2.5, 2.5, 6], color=FORWARD, lw=1.4)
    arrow(axes, (55, 4), (55, 6), FORWARD)
    arrow(axes, (20.5, 30), (28.6, 30))
    arrow(axes, (31.4, 30), (34.5, 30))
    arrow(axes, (49.5, 30), (53.6, 30))
    arrow(axes, (56.4, 30), (60.5, 30))
    arrow(axes, (75.5, 30), (79.5, 30))
    label(axes, 80, 30, "answer", bold=True)
    label(axes, 31.4, 19, "at the input:\nall six tasks", FORWARD)
    label(axes, 56.4, 19, "at the output as well:\nquestions and inference", FORWARD)
    label(axes, 1, 37.2, "“+” joins two vectors end to end. Each place has a mix of its own.", SHARED)
    return figure


def main() -> None:
    """Write every figure."""
    mpl.rcParams["svg.hashsalt"] = "elmokit"
    for name, draw in (("bilm", draw_bilm), ("mix", draw_mix), ("places", draw_places)):
        draw().savefig(FOLDER / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
