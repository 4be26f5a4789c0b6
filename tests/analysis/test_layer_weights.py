"""Learned layer weights: read from trained models, averaged over seeds, kept apart where settings differ."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from elmokit.analysis.page import write_report
from elmokit.analysis.report import Table
from elmokit.analysis.tasks.layer_weights import (
    RunMixes,
    average_mixes,
    layer_weights_report,
    read_mixes,
)
from elmokit.errors import ConfigError, ElmokitError, FormatError, InputError
from elmokit.tasks.ner.task import Ner
from elmokit.tasks.runner import train_task
from tests.tasks.conftest import files, settings, write_data


def write_model(
    path: Path, weights: list[list[float]], gammas: list[float], task: str = "ner", bilm: str = "b" * 64, **changes: Any
) -> Path:
    """A model folder that has no more than what is read of it."""
    place = "both" if len(weights) == 2 else "input"
    elmo = {"place": place, "layers": "all", "regularization": 0.0} | changes.pop("elmo", {})
    config = {"task": task, "seed": 0, "batch_size": 8, "elmo": elmo} | changes
    path.mkdir(parents=True)
    content = {"format": "elmokit-task", "version": 1, "task": task, "config": config, "labels": {}}
    (path / "task.json").write_text(json.dumps({**content, "bilm": {"name": "x", "fingerprint": bilm}}))
    tensors = {}
    for number, (own, gamma) in enumerate(zip(weights, gammas, strict=True)):
        tensors[f"inputs.elmo.mixes.mixes.{number}.weights"] = np.array(own, np.float32)
        tensors[f"inputs.elmo.mixes.mixes.{number}.gamma"] = np.array(gamma, np.float32)
    save_file(tensors, path / "model.safetensors")
    return path


class TestReading:
    def test_a_trained_model(self, tmp_path: Path) -> None:
        """From the run's folder and from its model folder: what the run itself says of its mixes."""
        config = settings(num_epochs=1, seed=4, elmo={"place": "both"}, optimizer={"learning_rate": 0.1})
        result = train_task(Ner(), config, files(write_data(tmp_path), tmp_path / "run"))
        assert [mix["place"] for mix in result["mixes"]] == ["input", "output"]
        for path in (tmp_path / "run", tmp_path / "run/model"):
            found = read_mixes(path)
            assert (found.config.task, found.config.seed, found.bilm) == ("ner", 4, result["bilm"]["fingerprint"])
            for mix, expected in zip(found.mixes, result["mixes"], strict=True):
                assert (mix.place, mix.gamma) == (expected["place"], pytest.approx(expected["gamma"]))
                assert mix.shares == pytest.approx(expected["layer_weights"])
                assert max(mix.shares) - min(mix.shares) > 1e-3

    def test_softmax(self, tmp_path: Path) -> None:
        [mix] = read_mixes(write_model(tmp_path / "m", [[0.0, np.log(2), np.log(5)]], [1.5])).mixes
        assert mix.shares == pytest.approx([1 / 8, 2 / 8, 5 / 8])
        assert (mix.place, mix.gamma) == ("input", 1.5)
        [mix] = read_mixes(write_model(tmp_path / "n", [[900.0, 0.0, -900.0]], [1.0])).mixes
        assert mix.shares == (1, 0, 0)

    def test_a_setting_that_is_younger_than_a_model_has_its_default(self, tmp_path: Path) -> None:
        """`elmo.tuned` was yes or no once, and a setting may be absent: the same settings all the same."""
        paths = [
            write_model(tmp_path / str(seed), [[0.0, 1.0]], [1.0], seed=seed, elmo=elmo)
            for seed, elmo in enumerate(({"tuned": False}, {"tuned": 0.0}, {}))
        ]
        assert len(average_mixes([read_mixes(path) for path in paths])) == 1

    def test_models_without_weights(self, tmp_path: Path) -> None:
        path = write_model(tmp_path / "none", [], [], elmo={"place": "none"})
        with pytest.raises(ConfigError, match=r"none is a model of ner without ELMo: leave it out"):
            read_mixes(path)
        path = write_model(tmp_path / "top", [[0.0]], [1.0], elmo={"layers": "top"})
        with pytest.raises(ConfigError, match=r"with elmo\.layers = top, which learns no layer weights: leave it out"):
            read_mixes(path)

    def test_what_is_no_task_model(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"nowhere does not exist: give the folder of a run"):
            read_mixes(tmp_path / "nowhere")
        with pytest.raises(InputError, match=r"has neither task\.json nor model/task\.json"):
            read_mixes(tmp_path)

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("task.json", b"{"),
            ("task.json", b"[]"),
            ("task.json", b'{"task": "ner"}'),
            ("task.json", b"\xff"),
            ("model.safetensors", b""),
            ("model.safetensors", b"\x08\0\0\0\0\0\0\0{}      "),
        ],
    )
    def test_damaged_files(self, name: str, content: bytes, tmp_path: Path) -> None:
        path = write_model(tmp_path / "m", [[0.0, 1.0]], [1.0])
        (path / name).write_bytes(content)
        with pytest.raises(FormatError, match=r"^\S+/m is not the folder of a task model \(\w+: .*\): give what"):
            read_mixes(path)

    def test_lost_and_strange_tensors(self, tmp_path: Path) -> None:
        path = write_model(tmp_path / "m", [[0.0, 1.0], [1.0, 0.0]], [1.0, 2.0])
        tensors = load_file(path / "model.safetensors")
        del tensors["inputs.elmo.mixes.mixes.1.gamma"]
        save_file(tensors, path / "model.safetensors")
        with pytest.raises(ElmokitError, match="is not the folder of a task model"):
            read_mixes(path)
        for weights in (np.zeros(0, np.float32), np.array([np.nan, 0], np.float32), np.zeros((2, 2), np.float32)):
            tensors["inputs.elmo.mixes.mixes.1.gamma"] = np.array(1.0, np.float32)
            tensors["inputs.elmo.mixes.mixes.1.weights"] = weights
            save_file(tensors, path / "model.safetensors")
            with pytest.raises(FormatError, match="has no finite layer weights"):
                read_mixes(path)


def models(tmp_path: Path) -> list[RunMixes]:
    shares = np.log([[0.2, 0.3, 0.5], [0.4, 0.5, 0.1], [0.6, 0.1, 0.3]])
    return [
        read_mixes(write_model(tmp_path / f"ner{seed}", [shares[seed]], [1.0 + seed], seed=seed)) for seed in range(3)
    ] + [
        read_mixes(write_model(tmp_path / "qa", [shares[0], shares[1]], [2.0, 3.0], task="qa")),
    ]


class TestAverages:
    def test_over_seeds(self, tmp_path: Path) -> None:
        rows = average_mixes(models(tmp_path))
        assert [(row.label, row.place, row.seeds) for row in rows] == [
            ("ner", "input", (0, 1, 2)),
            ("qa", "input", (0,)),
            ("qa", "output", (0,)),
        ]
        assert rows[0].to_dict()["layer_weights"] == pytest.approx([0.4, 0.3, 0.3])
        assert rows[0].to_dict()["layer_weights_deviation"] == pytest.approx([0.2, 0.2, 0.2])
        assert (rows[0].to_dict()["gamma"], rows[0].to_dict()["gamma_deviation"]) == (2, 1)
        assert rows[2].to_dict()["layer_weights"] == pytest.approx([0.4, 0.5, 0.1])
        assert rows[2].to_dict()["layer_weights_deviation"] == [0, 0, 0]

    def test_other_settings_stay_apart(self, tmp_path: Path) -> None:
        given = [
            write_model(tmp_path / "a", [[0.0, 1.0]], [1.0], seed=1),
            write_model(tmp_path / "b", [[0.0, 3.0]], [1.0], seed=1, elmo={"regularization": 0.1}),
            write_model(tmp_path / "c", [[0.0, 2.0]], [1.0], seed=2),
            write_model(tmp_path / "d", [[0.0, 2.0]], [1.0], seed=1, bilm="c" * 64),
            write_model(tmp_path / "e", [[0.0, 2.0]], [1.0], seed=1, task="srl"),
        ]
        rows = average_mixes([read_mixes(path) for path in given])
        assert [(row.label, row.seeds) for row in rows] == [
            ("ner (elmo.regularization = 0.0, biLM bbbbbbbb)", (1, 2)),
            ("ner (elmo.regularization = 0.1, biLM bbbbbbbb)", (1,)),
            ("ner (elmo.regularization = 0.0, biLM cccccccc)", (1,)),
            ("srl", (1,)),
        ]

    def test_a_run_given_twice(self, tmp_path: Path) -> None:
        run = read_mixes(write_model(tmp_path / "a", [[0.0, 1.0]], [1.0], seed=3))
        with pytest.raises(InputError, match="have the same settings and the seed 3: give each run once"):
            average_mixes([run, run])


class TestReport:
    def test_tables(self, tmp_path: Path) -> None:
        report = layer_weights_report(average_mixes(models(tmp_path)))
        means, spread = (block for block in report.blocks if isinstance(block, Table))
        assert means.header == ("task", "place", "seeds", "layer 0", "layer 1", "layer 2", "γ")
        assert [[means.text_of(cell) for cell in row] for row in means.rows] == [
            ["ner", "input", "3", "0.40", "0.30", "0.30", "2.00"],
            ["qa", "input", "1", "0.20", "0.30", "0.50", "2.00"],
            ["qa", "output", "1", "0.40", "0.50", "0.10", "3.00"],
        ]
        assert [[spread.text_of(cell) for cell in row] for row in spread.rows] == [
            ["ner", "input", "3", "0.20", "0.20", "0.20", "1.00"]
        ]
        json.dumps(report.figures)

    @pytest.mark.slow
    def test_models_of_different_depths(self, tmp_path: Path) -> None:
        deep = read_mixes(write_model(tmp_path / "deep", [[0.0] * 4], [1.0]))
        flat = read_mixes(write_model(tmp_path / "flat", [[0.0] * 2], [1.0], task="srl"))
        report = layer_weights_report(average_mixes([deep, flat]))
        [table] = (block for block in report.blocks if isinstance(block, Table))
        assert table.rows[1] == ("srl", "input", 1, 0.5, 0.5, None, None, 1.0)
        write_report(report, tmp_path / "out")

    def test_hatches_follow_the_paper(self, tmp_path: Path) -> None:
        """Lines below 1/3, dots above 2/3, a number in each square and nothing where a task has no ELMo."""
        from matplotlib.figure import Figure

        given = [
            write_model(tmp_path / "a", [np.log([0.1, 0.7, 0.2]).tolist(), np.log([0.3, 0.3, 0.4]).tolist()], [1, 1]),
            write_model(tmp_path / "b", [np.log([0.335, 0.33, 0.335]).tolist()], [1], task="srl"),
        ]
        figure = Figure()
        report = layer_weights_report(average_mixes([read_mixes(path) for path in given]))
        [chart] = (block for block in report.blocks if hasattr(block, "draw"))
        chart.draw(figure)
        first, second = figure.axes[:2]
        assert [first.get_title(), second.get_title()] == ["at the input", "at the output"]
        assert [patch.get_hatch() for patch in first.patches] == ["--", "..", "--", None, "--", None]
        assert [patch.get_hatch() for patch in second.patches] == ["--", "--", None]
        assert [text.get_text() for text in first.texts] == ["0.10", "0.70", "0.20", "0.34", "0.33", "0.34"]
        assert [label.get_text() for label in first.get_yticklabels()] == ["ner", "srl"]
