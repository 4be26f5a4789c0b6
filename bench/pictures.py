"""Draw the pictures of docs/pictures again from results/, without a run.

python bench/pictures.py
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.places import ROOT
from bench.results import read
from elmokit.analysis.page import draw_picture
from elmokit.analysis.report import Chart
from elmokit.analysis.tasks.learning_curves import CurveGroup, RunCurve, chart_curves
from elmokit.analysis.tasks.sample_efficiency import Curve, Point, chart_curve
from elmokit.analysis.tasks.variants import MIXING, PLACEMENT, chart_study
from elmokit.tasks.config import read_task_config
from elmokit.tasks.experiments.comparison import Comparison, VariantScores

STUDIES = {"mixing": MIXING, "placement": PLACEMENT}


def comparison(found: dict[str, Any]) -> Comparison:
    """What `Comparison.to_dict` wrote."""
    baseline, *others = (
        VariantScores(
            name=one["name"],
            label=one["label"],
            dev=tuple(one["dev"]["scores"]),
            test=tuple(one["test"]["scores"]),
            p=one.get("p"),
        )
        for one in (found["baseline"], *found["others"])
    )
    return Comparison(found["task"], found["metric"], tuple(found["seeds"]), baseline, tuple(others))


def curves(found: dict[str, Any]) -> Chart:
    groups = []
    for group in found["groups"]:
        config = read_task_config(group["task"], "small", {})
        runs = tuple(
            RunCurve(Path(), config, "", group["metric"], tuple((epoch, dev) for epoch, dev in run["epochs_and_dev"]))
            for run in group["runs"]
        )
        groups.append(CurveGroup(group["label"], group["metric"], runs))
    return chart_curves(found["groups"][0]["task"], groups)


def efficiency(found: dict[str, Any]) -> Chart:
    points = tuple(Point(one["share"], one["num_examples"], comparison(one), ()) for one in found["points"])
    return chart_curve(Curve(found["task"], found["metric"], points))


def main() -> None:
    """Draw every existing picture from the result of the same name."""
    for path in sorted((ROOT / "docs/pictures").glob("*.svg")):
        study = next(name for name in ("learning-curves", "sample-efficiency", *STUDIES) if path.stem.startswith(name))
        found = read(f"tasks/{study}/{path.stem.removeprefix(f'{study}-')}")
        chart = (
            curves(found)
            if study == "learning-curves"
            else efficiency(found)
            if study == "sample-efficiency"
            else chart_study(STUDIES[study], comparison(found))
        )
        path.write_bytes(draw_picture(chart)[0])
        print(f"{path.relative_to(ROOT)}: {chart.caption}")


if __name__ == "__main__":
    main()
