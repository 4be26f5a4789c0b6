"""Learning curves: read from the folders of finished runs, in groups of the same settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmokit.analysis.page import write_report
from elmokit.analysis.report import Table
from elmokit.analysis.tasks.learning_curves import group_curves, learning_curves_report, read_curve
from elmokit.errors import FormatError, InputError
from elmokit.tasks.ner.task import Ner
from elmokit.tasks.runner import train_task
from tests.tasks.conftest import files, settings, write_data


def write_run(path: Path, scores: list[float], bilm: str = "", task: str = "ner", **changes: Any) -> Path:
    """A run's folder with no more than what is read of it: an evaluation every half epoch."""
    path.mkdir(parents=True)
    config = {"task": task, "seed": 0, "elmo": {"place": "input" if bilm else "none"}} | changes
    result = {"config": config, "examples": {"train": 20}, "bilm": {"fingerprint": bilm} if bilm else None}
    (path / "result.json").write_text(json.dumps(result))
    entries = [{"step": n, "count": 10 * (n + 1), "heldout_f1": score} for n, score in enumerate(scores)]
    log = [{"step": 0, "count": 5, "loss": 1.0}, *entries]
    (path / "log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in log))
    return path


class TestReading:
    @pytest.mark.slow
    def test_a_run(self, tmp_path: Path) -> None:
        """As many evaluations as epochs, the best of them what the run says of itself."""
        config = settings(num_epochs=3, seed=4)
        result = train_task(Ner(), config, files(write_data(tmp_path), tmp_path / "run"))
        curve = read_curve(tmp_path / "run")
        assert [epoch for epoch, _ in curve.points] == [1, 2, 3]
        assert curve.best[1] == result["dev"]["f1"]
        assert (curve.config, curve.bilm) == (config, result["bilm"]["fingerprint"])

    def test_the_first_of_two_best_evaluations_counts(self, tmp_path: Path) -> None:
        assert read_curve(write_run(tmp_path / "a", [1.0, 7.0, 7.0, 3.0])).best == (1.0, 7.0)

    def test_what_is_no_finished_run(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"nowhere does not exist: give the folder of a run"):
            read_curve(tmp_path / "nowhere")
        with pytest.raises(InputError, match="holds no finished run"):
            read_curve(tmp_path)
        with pytest.raises(FormatError, match=r"has no evaluation in log\.jsonl"):
            read_curve(write_run(tmp_path / "empty", []))

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("result.json", b"{"),
            ("result.json", b"[]"),
            ("result.json", b'{"config": {"task": "chess"}, "bilm": null, "examples": {"train": 3}}'),
            ("result.json", b'{"config": {"task": "ner"}, "bilm": null, "examples": {"train": 0}}'),
            ("log.jsonl", b"\xff\n"),
            ("log.jsonl", b"{\n"),
        ],
    )
    def test_damaged_files(self, name: str, content: bytes, tmp_path: Path) -> None:
        path = write_run(tmp_path / "m", [1.0])
        (path / name).write_bytes(content)
        with pytest.raises(FormatError, match=r"^\S+/m is not the folder of a task's run \(\w+: .*\): give what"):
            read_curve(path)


class TestGroups:
    @pytest.mark.slow
    def test_sides_and_seeds(self, tmp_path: Path) -> None:
        paths = [
            write_run(tmp_path / "a", [1.0, 4.0, 2.0], seed=1),
            write_run(tmp_path / "b", [5.0, 3.0], "b" * 64, seed=1),
            write_run(tmp_path / "c", [1.0, 2.0, 6.0], seed=2),
            write_run(tmp_path / "d", [1.0], task="srl"),
        ]
        groups = group_curves([read_curve(path) for path in paths])
        assert [group.label for group in groups] == ["ner (without ELMo)", "ner (with ELMo)", "srl"]
        report = learning_curves_report(groups)
        [table] = (block for block in report.blocks if isinstance(block, Table))
        assert table.rows == (
            ("ner (without ELMo)", 2, "5.00 ± 1.41", "1.25 ± 0.35", "1.50 ± 0.00"),
            ("ner (with ELMo)", 1, "5.00", "0.50", "1.00"),
            ("srl", 1, "1.00", "0.50", "0.50"),
        )
        assert report.figures["groups"][0]["runs"][1] == {
            "seed": 2,
            "epochs_and_dev": [[0.5, 1.0], [1.0, 2.0], [1.5, 6.0]],
        }
        written = {path.name for path in write_report(report, tmp_path / "out")}
        assert {"learning-curves-ner.svg", "learning-curves-srl.png", "report.json", "page.html"} <= written

    def test_settings_of_elmo_do_not_part_baselines(self, tmp_path: Path) -> None:
        """A setting of ELMo is named where ELMo is, and nowhere else."""
        paths = [
            write_run(tmp_path / "a", [1.0], seed=1),
            write_run(tmp_path / "b", [1.0], seed=2, elmo={"place": "none", "dropout": 0.0}),
            write_run(tmp_path / "c", [1.0], "b" * 64, elmo={"place": "both"}),
            write_run(tmp_path / "d", [1.0], "b" * 64, elmo={"place": "input"}),
        ]
        groups = group_curves([read_curve(path) for path in paths])
        assert [group.label for group in groups] == [
            "ner (without ELMo)",
            "ner (with ELMo, elmo.place = both)",
            "ner (with ELMo, elmo.place = input)",
        ]
