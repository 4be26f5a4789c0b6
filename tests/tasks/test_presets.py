"""Every preset of a task is valid and builds its model."""

import pytest
import torch

from elmokit.errors import ConfigError
from elmokit.tasks.config import ElmoSettings, TaskConfig
from elmokit.tasks.registry import TASKS, find_task
from elmokit.training.config import preset_names, read_run
from elmokit.training.optim import Optimizer

NAMES = preset_names(TaskConfig)


def test_the_presets_are_there() -> None:
    assert set(NAMES) >= {"ner-paper", "ner-small"}


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_names_a_task_and_its_settings(name: str) -> None:
    config = read_run(TaskConfig, name)
    task = find_task(config.task)
    assert name.startswith(f"{task.name}-")
    task.read_settings(config.model)
    assert config.elmo.num_mixes > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_optimiser_of_every_preset_takes_its_parameters(name: str) -> None:
    """Word vectors that learn have sparse gradients, which not every optimizer can use."""
    config = read_run(TaskConfig, name)
    table, weight = (torch.nn.Parameter(torch.ones(3, 2)) for _ in range(2))
    Optimizer([("w", weight)], [("inputs.word_table", table)] if config.words.tuned else [], config.optimizer, 10)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_a_preset_ends_by_patience(name: str) -> None:
    config = read_run(TaskConfig, name)
    assert config.loop.patience > 0


def test_changes_reach_every_part() -> None:
    changes = {"elmo.place": "both", "elmo.layers": "1", "words.tuned": "false", "model.hidden_dim": "7", "seed": "3"}
    config = read_run(TaskConfig, "ner-small", changes)
    assert (config.elmo.place, config.elmo.layers, config.words.tuned, config.seed) == ("both", 1, False, 3)
    assert TASKS["ner"].read_settings(config.model).hidden_dim == 7
    assert read_run(TaskConfig, "ner-small", {"elmo.layers": "top"}).elmo.layers == "top"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("elmo.place", "everywhere"),
        ("elmo.layers", "-1"),
        ("elmo.layers", "bottom"),
        ("elmo.dropout", "1.0"),
        ("elmo.regularization", "-1"),
        ("words.min_count", "0"),
        ("average", "1.0"),
        ("batch_size", "0"),
    ],
)
def test_values_that_make_no_sense_are_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"^ner-small is not a valid tasks config: .*{name}"):
        read_run(TaskConfig, "ner-small", {name: value})


def test_how_many_mixes_a_place_takes() -> None:
    places = {"none": 0, "input": 1, "output": 1, "both": 2}
    assert {place: ElmoSettings.model_validate({"place": place}).num_mixes for place in places} == places


def test_an_unknown_task_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"^there is no task named 'chess': choose one of .*ner"):
        find_task("chess")
