"""The settings of a task run, as in the presets in `presets/tasks`, validated when they are read."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from elmokit.arguments import shown
from elmokit.config import Config, Positive
from elmokit.errors import ConfigError
from elmokit.settings import check_names
from elmokit.training.config import Count, LoopConfig, OptimizerConfig, PresetConfig, Seed, Share, Weight, read_run


class ElmoSettings(Config):
    """Where ELMo is added to a task model, and how its layers are mixed."""

    place: Literal["none", "input", "output", "both"] = "input"
    """Concatenated to the words, to the output of the task's encoder, to both (each with its own mix), or not used."""
    layers: Literal["all", "top", "average", "concat"] | Count = "all"
    """A learned mix of all layers, one fixed choice, or all layers concatenated."""
    gamma: bool = True
    """Whether the mix learns its scale γ."""
    dropout: Share = 0.5
    """Dropout on ELMo's vectors."""
    regularization: Weight = 0.0
    """λ of the penalty λ‖w‖² on the mix weights: 1 keeps the mix near the average, 0.001 lets it favor layers."""
    layer_norm: bool = False
    """Whether each layer is normalized before the layers are mixed."""
    tuned: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The biLM's learning rate as a share of the task's; 0: the biLM is frozen, and its layers are computed once."""

    precision: Literal["float32", "bfloat16", "int8", "auto"] = "float32"
    """Precision in which a frozen biLM computes its layers; auto is the fastest of the first two."""

    @model_validator(mode="after")
    def _frozen_if_rounded(self) -> Self:
        if self.tuned and self.precision != "float32":
            raise ValueError("precision is for the layers of a frozen biLM: set elmo.tuned to 0, or leave it float32")
        return self

    @property
    def num_mixes(self) -> int:
        """Number of ELMo representations in the model."""
        return {"none": 0, "input": 1, "output": 1, "both": 2}[self.place]


class WordSettings(Config):
    """The task's own word vectors."""

    width: Positive = 100
    """Width of the word vectors if no file provides them."""
    max_vectors: Positive | None = 50_000
    """Number of words to take from the start of a vector file; none: all."""
    min_count: Positive = 2
    """Minimum training count of a word without a vector to get one of its own."""
    tuned: bool = True
    """Whether they are trained with the task."""


class TaskConfig(PresetConfig):
    """All settings of a task run except its files and its biLM."""

    preset_folder: ClassVar[str] = "tasks"

    task: str
    """Which task the settings are for."""
    model: dict[str, Any] = Field(default_factory=dict)
    """Settings of the task's own model."""
    elmo: ElmoSettings = ElmoSettings()
    words: WordSettings = WordSettings()
    optimizer: OptimizerConfig = OptimizerConfig(kind="adamw", learning_rate=1e-3, clip_norm=5.0)
    loop: LoopConfig = LoopConfig(evaluate_every=0, patience=10)
    batch_size: Positive = 32
    """Examples per batch."""
    num_epochs: Positive = 50
    """Maximum number of passes over the training files."""
    average: Share = 0.0
    """Decay of the running average of the weights that is evaluated and kept; 0: no averaging."""
    seed: Seed = 0
    """Random seed of initial weights, order and dropout."""
    train_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the training examples to use, drawn by the seed; a smaller share is a subset of a larger one."""

    @model_validator(mode="after")
    def _one_average(self) -> Self:
        if self.average and self.optimizer.ema_decay:
            raise ValueError("average and optimizer.ema_decay both average the weights: set one of them to 0")
        return self


def read_task_config(name: str, preset: str, changes: Mapping[str, str] | None = None) -> TaskConfig:
    """Read the settings of a task's run.

    Args:
        name: the task.
        preset: "small", "paper", or the path of a TOML or JSON file.
        changes: see `elmokit.training.config.read_run`.
    """
    if not isinstance(preset, str):
        raise ConfigError(f"preset is {shown(preset)}: give small, paper or the path of a TOML or JSON file.")
    source = preset if preset.endswith((".toml", ".json")) else f"{name}-{preset}"
    from elmokit.tasks.registry import TASKS  # here, because its modules need the settings above

    config = read_run(TaskConfig, source, changes)
    if config.task != name:
        raise ConfigError(f"{source} has settings of {config.task}, not of {name}: give those of {name}.")
    if name in TASKS:
        check_names({"model": config.model}, TaskConfig, {"model": TASKS[name].settings}, origin=source)
    if config.elmo.place == "none":  # a baseline is the same whatever the other settings of ELMo
        return config.model_copy(update={"elmo": ElmoSettings(place="none")})
    return config
