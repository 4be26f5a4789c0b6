"""Settings of task runs."""

from pathlib import Path

import pytest

import elmokit
from elmokit.errors import ConfigError
from elmokit.tasks.config import ElmoSettings, read_task_config
from elmokit.tasks.registry import TASKS


@pytest.mark.parametrize("name", TASKS)
def test_a_baseline_is_the_same_whatever_is_said_of_elmo(name: str) -> None:
    plain = read_task_config(name, "small", {"elmo.place": "none"})
    changed = read_task_config(name, "small", {"elmo.place": "none", "elmo.dropout": "0.9", "elmo.layers": "top"})
    assert plain == changed
    assert plain.elmo == ElmoSettings(place="none")


def test_with_elmo_its_settings_count() -> None:
    changed = read_task_config("ner", "small", {"elmo.dropout": "0.9"})
    assert changed.elmo.dropout == 0.9
    assert changed != read_task_config("ner", "small")


def test_unknown_settings_of_a_task_hear_of_near_ones() -> None:
    for name, near in (("model.hiden_dim", "model.hidden_dim"), ("elmo.plaec", "elmo.place")):
        with pytest.raises(ConfigError, match=f"there is no setting '{name}' \\(did you mean {near}"):
            read_task_config("ner", "small", {name: "1"})


def test_settings_of_another_task() -> None:
    preset = Path(elmokit.__file__).parent / "presets/tasks/ner-small.toml"
    with pytest.raises(ConfigError, match="settings of ner, not of qa: give those of qa"):
        read_task_config("qa", str(preset))
