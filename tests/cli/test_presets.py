"""`elmokit presets`: every preset with a line on what it is for, every setting with a line on what it means."""

import json
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

import pytest

from elmokit.settings import list_settings
from elmokit.tasks.config import TaskConfig, read_task_config
from elmokit.tasks.registry import TASKS
from elmokit.training.config import FinetuneConfig, PresetConfig, PretrainConfig, preset_names, read_run
from tests.running import Call, assert_help_has_examples, assert_one_line

KINDS: dict[str, type[PresetConfig]] = {"pretrain": PretrainConfig, "finetune": FinetuneConfig, "tasks": TaskConfig}
NAMES = [(folder, name) for folder, kind in KINDS.items() for name in preset_names(kind)]


def test_all_presets_are_listed_with_what_they_are_for(run: Call) -> None:
    found = json.loads(run("presets", "--json").stdout)
    assert [(folder, name) for folder, names in found.items() for name in names] == NAMES
    done = run("presets")
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    for folder, name in NAMES:
        assert len(found[folder][name]) > 10 and "#" not in found[folder][name]
        assert [name, *found[folder][name].split()] in lines


@pytest.mark.parametrize(("kind", "name"), NAMES, ids=lambda word: word)
def test_the_settings_are_those_of_the_file_and_its_defaults(kind: str, name: str, run: Call) -> None:
    found = json.loads(run("presets", name, "--json").stdout)
    assert (found["name"], found["kind"]) == (name, kind)
    values = {row["name"]: row["value"] for row in found["settings"]}
    assert len(values) == len(found["settings"]) > 20
    text = (resources.files("elmokit") / "presets" / kind / f"{name}.toml").read_text(encoding="utf-8")
    for key, value in flat(tomllib.loads(text)).items():
        assert values[key] == value
    for row in found["settings"]:
        assert row["explanation"], row


def test_what_is_not_set_is_called_none(run: Call) -> None:
    lines = run("presets", "tiny").stdout.splitlines()
    assert "loop.max_steps = none" in lines
    assert not [line for line in lines if line.endswith("= null")]
    values = {row["name"]: row["value"] for row in json.loads(run("presets", "tiny", "--json").stdout)["settings"]}
    assert values["loop.max_steps"] is None


def flat(values: dict[str, object], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def test_every_name_that_is_listed_can_be_set(run: Call) -> None:
    for row in json.loads(run("presets", "tiny", "--json").stdout)["settings"]:
        if row["value"] is not None:
            read_run(PretrainConfig, "tiny", {row["name"]: json.dumps(row["value"])})
    for row in json.loads(run("presets", "ner-small", "--json").stdout)["settings"]:
        if row["value"] is not None:
            read_task_config("ner", "small", {row["name"]: json.dumps(row["value"])})


def test_every_setting_is_explained() -> None:
    kinds: list[tuple[type[PresetConfig], Mapping[str, Any]]] = [
        (PretrainConfig, PretrainConfig.groups),
        (FinetuneConfig, {}),
    ]
    kinds += [(TaskConfig, {"model": task.settings}) for task in TASKS.values()]
    unexplained = {name for kind, groups in kinds for name, own in list_settings(kind, groups).items() if not own[1]}
    assert unexplained == set()


def test_the_settings_are_text(run: Call) -> None:
    done = run("presets", "tiny")
    assert done.returncode == 0
    assert "elmokit pretrain tiny --train" in done.stdout
    assert "model.lstm.cell_dim = 32\n    Width of the memory cell (H).\n" in done.stdout
    assert 'optimizer.kind = "adamw"\n    Optimizer: adagrad, adamw' in done.stdout
    assert "elmokit task train ner --preset small" in run("presets", "ner-small").stdout


def test_an_unknown_preset_hears_of_near_ones(run: Call) -> None:
    assert_one_line(run("presets", "ner"), "no preset named 'ner' (did you mean ner-paper or ner-small?)")
    assert_one_line(run("presets", "minni"), "no preset named 'minni' (did you mean mini", "choose one of base, medium")
    words = ["--train", "x", "--output", "y"]
    assert_one_line(run("pretrain", "minni", *words), "no preset named 'minni' (did you mean mini")
    assert_one_line(
        run("pretrain", "tiny", *words, "--set", "learning_rate=1"),
        "--set: there is no setting 'learning_rate' (did you mean optimizer.learning_rate?); `elmokit presets NAME`",
    )


def test_help(run: Call) -> None:
    assert_help_has_examples(run, "presets")
