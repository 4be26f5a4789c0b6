"""Every occurrence as a point: a picture (needs matplotlib) and a page for the browser (needs nothing)."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from polysemy import Floats
from senses import Study, find_nearest

COLORS = ("#0072b2", "#d55e00", "#009e73")  # distinct to color-blind eyes too
MARKERS = ("o", "s", "^")
TEMPLATE = Path(__file__).with_name("page.html")


def project(vectors: Floats, like: Floats | None = None) -> Floats:
    """The two directions (n, 2) in which the vectors (n, D) differ most, scaled to ±1; senses play no part in it.

    They are known up to a turn or a mirror: `like` is a projection of the same occurrences to be turned towards.
    """
    left, lengths, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    if lengths[0] < 1e-4:  # one vector for all
        return np.zeros((len(vectors), 2))
    plane = left[:, :2] * lengths[:2]
    if like is not None:
        first, _, second = np.linalg.svd(plane.T @ like)
        plane = plane @ first @ second
    return np.asarray(plane / np.abs(plane).max())


def write_picture(path: Path, study: Study) -> None:
    """One panel per word, one point per occurrence, one color per sense, by the best layer."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 6.6), layout="constrained")
    title = (
        "Each dot is a sentence, placed by ELMo's vector of the word. Colors are meanings, which ELMo was never told.\n"
        "Percent: how often the most similar sentence means the same."
    )
    figure.suptitle(title, fontsize=12)
    panels = figure.subplots(2, (len(study.words) + 1) // 2).flat
    for axes, (word, occurrences) in zip(panels, study.words.items(), strict=False):
        points, found = project(study.vectors[word][study.best]), study.shares[word]
        for sense, color, marker in zip(found.senses, COLORS, MARKERS, strict=False):
            rows = [row for row, occurrence in enumerate(occurrences) if occurrence.sense == sense]
            axes.scatter(*points[rows].T, s=55, c=color, marker=marker, alpha=0.8, linewidths=0, label=sense)
        axes.set_title(word, fontsize=14, fontweight="bold", loc="left")
        axes.set_title(f"{found.layers[study.best]:.0%}", fontsize=12, color="#666666", loc="right")
        axes.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), xticks=[], yticks=[])
        axes.spines[:].set_color("#cccccc")
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.01), "ncols": 3, "frameon": False}
        axes.legend(**place, handletextpad=0, handlelength=1.4, columnspacing=1, borderpad=0.2, fontsize=10)
    figure.savefig(path, dpi=110)


def write_page(path: Path, study: Study) -> None:
    """The same for every layer; pointing at an occurrence shows its sentence and the nearest one."""
    panels: list[dict[str, Any]] = []
    for word, occurrences in study.words.items():
        vectors, found = study.vectors[word], study.shares[word]
        best = project(vectors[study.best])
        places = np.stack([project(layer, like=best) for layer in vectors], axis=1).round(3)  # (n, L, 2)
        nearest = find_nearest(vectors).argmax(axis=-1).T  # (n, L)
        points = [
            {"sense": each.sense, "around": each.around, "source": each.source, "at": at, "near": near}
            for each, at, near in zip(occurrences, places.tolist(), nearest.tolist(), strict=True)
        ]
        percent = [f"{share:.0%}" for share in found.layers]
        panels.append({"word": word, "senses": found.senses, "shares": percent, "points": points})
    data = json.dumps({"best": study.best, "colors": COLORS, "panels": panels}).replace("<", "\\u003c")
    path.write_text(TEMPLATE.read_text(encoding="utf-8").replace("DATA", data), encoding="utf-8")
