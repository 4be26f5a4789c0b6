"""Every occurrence as a point: a picture (needs matplotlib) and a page for the browser (needs nothing)."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from polysemy import Floats
from senses import Study, find_nearest

COLOURS = ("#0072b2", "#d55e00", "#009e73")  # told apart by colour-blind eyes too
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
    """One panel a word, one point an occurrence, one colour a sense, by the best layer."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16, 8.4), layout="constrained")
    title = (
        f"Each point is a sentence with the word, by layer {study.best}; in per cent: the nearest has the same sense"
    )
    figure.suptitle(title, fontsize=16)
    panels = figure.subplots(2, (len(study.words) + 1) // 2).flat
    for axes, (word, occurrences) in zip(panels, study.words.items(), strict=False):
        points, found = project(study.vectors[word][study.best]), study.shares[word]
        for sense, colour, marker in zip(found.senses, COLOURS, MARKERS, strict=False):
            rows = [row for row, occurrence in enumerate(occurrences) if occurrence.sense == sense]
            axes.scatter(*points[rows].T, s=70, c=colour, marker=marker, alpha=0.8, linewidths=0, label=sense)
        axes.set_title(f"{word}: {found.layers[study.best]:.0%} (guess {found.guess:.0%})", fontsize=14)
        axes.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), xticks=[], yticks=[])
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3, frameon=False, handletextpad=0, fontsize=12)
    figure.savefig(path, dpi=110)


def write_page(path: Path, study: Study) -> None:
    """The same by every layer; pointing at an occurrence shows its sentence and the nearest one."""
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
    data = json.dumps({"best": study.best, "colours": COLOURS, "panels": panels}).replace("<", "\\u003c")
    path.write_text(TEMPLATE.read_text(encoding="utf-8").replace("DATA", data), encoding="utf-8")
