"""The settings of a task run: what the presets in `presets/tasks` hold, validated where they enter."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from elmokit.arguments import shown
from elmokit.config import Config, Positive
from elmokit.errors import ConfigError
from elmokit.settings import check_names
from elmokit.training.config import Count, LoopConfig, OptimizerConfig, PresetConfig, Seed, Share, Weight, read_run


class ElmoSettings(Config):
    """Where ELMo goes in a task model, and how its layers are mixed."""

    place: Literal["none", "input", "output", "both"] = "input"
    """Beside the words, beside the output of the task's encoder, at both (each with a mix of its own), or nowhere."""
    layers: Literal["all", "top", "average", "concat"] | Count = "all"
    """A learned mix of all layers, one fixed choice of them, or all side by side."""
    gamma: bool = True
    """Whether the mix learns its scale."""
    dropout: Share = 0.5
    """On ELMo's vectors."""
    regularization: Weight = 0.0
    """λ of λ‖w‖² on the weights of the mix: 1 keeps it near the average, 0.001 lets it choose."""
    layer_norm: bool = False
    """Whether each layer is normalized before the layers are mixed."""
    tuned: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The share of the task's learning rate with which the biLM learns too; 0: it is frozen, and run once over the
    data."""

    @property
    def num_mixes(self) -> int:
        """How many representations the model takes."""
        return {"none": 0, "input": 1, "output": 1, "both": 2}[self.place]


class WordSettings(Config):
    """The task's own word vectors."""

    width: Positive = 100
    """Of words if no file gives vectors."""
    max_vectors: Positive | None = 50_000
    """Words taken from a file of vectors, the first ones; none: all."""
    min_count: Positive = 2
    """How often a word without a vector must occur in training to have one of its own."""
    tuned: bool = True
    """Whether they learn with the task."""


class TaskConfig(PresetConfig):
    """A whole task run but for its files and its biLM."""

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
    """Examples of a batch."""
    num_epochs: Positive = 50
    """Passes through the training files, at most."""
    average: Share = 0.0
    """Decay of the running average of the weights that is evaluated and kept; 0: the weights themselves."""
    seed: Seed = 0
    """Decides first weights, order and dropout."""
    train_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the training examples that is used, drawn by the seed; a smaller share lies inside a larger one."""

    @model_validator(mode="after")
    def _one_average(self) -> Self:
        if self.average and self.optimizer.ema_decay:
            raise ValueError("average and optimizer.ema_decay both average the weights: set one of them to 0")
        return self


def read_task_config(name: str, preset: str, changes: Mapping[str, str] | None = None) -> TaskConfig:
    """Read the settings of a task's run.

    Args:
        name: of the task.
        preset: "small", "paper", or the path of a TOML or JSON file.
        changes: see `elmokit.training.config.read_run`.
    """
    if not isinstance(preset, str):
        raise ConfigError(f"preset is {shown(preset)}: give small, paper or the path of a TOML or JSON file.")
    source = preset if preset.endswith((".toml", ".json")) else f"{name}-{preset}"
    from elmokit.tasks.registry import TASKS  # whose modules need the settings above

    config = read_run(TaskConfig, source, changes)
    if config.task != name:
        raise ConfigError(f"{source} has settings of {config.task}, not of {name}: give those of {name}.")
    if name in TASKS:
        check_names({"model": config.model}, TaskConfig, {"model": TASKS[name].settings}, origin=source)
    if config.elmo.place == "none":  # a baseline is the same whatever else is said of ELMo
        return config.model_copy(update={"elmo": ElmoSettings(place="none")})
    return config
