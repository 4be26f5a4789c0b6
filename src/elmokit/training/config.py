"""The settings of a training run, as given in TOML presets and by `--set`, validated when they are read."""

import difflib
import os.path
import tomllib
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from elmokit.arguments import check_path, shown
from elmokit.config import Config, ElmoConfig, Positive, describe_faults, read_settings
from elmokit.corpus.mixing import DEFAULT_ORDER, MAX_WEIGHT, Order
from elmokit.errors import ConfigError
from elmokit.recognize import JSON, mistaken
from elmokit.settings import Groups, check_name, check_names, read_nones
from elmokit.text.input_kind import DEFAULT_INPUT, InputKind

Share = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
_LARGEST_VOCABULARY = 2**24


class CorpusConfig(Config):
    """How text becomes sentences and words."""

    input: InputKind = DEFAULT_INPUT
    """text: raw text to tokenize; tokens: separated by spaces. Shards of `elmokit corpus shard` are always tokens."""
    max_vocab: Annotated[int, Field(ge=4, le=_LARGEST_VOCABULARY)] | None = None
    """Size of the vocabulary, including three special tokens; none: all words that reach min_count."""
    min_count: Positive = 1
    """How often a word must occur to be in the vocabulary."""
    buffer_sentences: Positive = 100_000
    """Number of sentences that are shuffled together."""
    passage_sentences: Positive = 1
    """Consecutive sentences to keep together, so that a row reads coherent text; an empty line ends a passage. With 1,
    all sentences are in random order, as in bilm-tf."""
    order: Order = DEFAULT_ORDER
    """How several files are read: mixed reads all at once, each in proportion to its length; files reads one after the
    other, and evaluates on the first held-out files only. A resumed run keeps its own order."""
    weights: dict[str, Annotated[float, Field(gt=0, le=MAX_WEIGHT)]] | None = None
    """How often an epoch reads each file, by name pattern: {"wikipedia-*" = 2, "forum-*" = 0.5}; none: once."""

    @model_validator(mode="after")
    def _mixed_if_weighted(self) -> Self:
        if self.weights and self.order != "mixed":
            raise ValueError("weights need order 'mixed'")
        return self


class LossConfig(Config):
    """The training loss."""

    kind: Literal["full", "sampled", "adaptive"] = "sampled"
    """full: over all words; sampled: over a random sample; adaptive: by clusters, needs softmax_cutoffs."""
    num_negatives: Positive = 8192
    """Number of sampled words."""
    first_bias: Literal["unigram", "zero"] = "unigram"
    """Initial softmax biases: log frequencies of the words, or zero as in bilm-tf, with which words that are rarely
    sampled converge slowly."""


class OptimizerConfig(Config):
    """The optimizer and its schedule."""

    kind: Literal["adagrad", "adamw", "adadelta", "muon"] = "adagrad"
    """Optimizer: adagrad, adamw, adadelta, or muon (for matrices, with adamw for the rest)."""
    learning_rate: Rate = 0.2
    """The full learning rate, after warmup and before the schedule lowers it."""
    initial_accumulator: Weight = 1.0
    """Adagrad's sum of squares at the start."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """AdamW's betas; the second is also the decay rate of Adadelta."""
    eps: Rate = 1e-8
    """Added to denominators to avoid division by zero."""
    weight_decay: Weight = 0.0
    """AdamW's weight decay, for matrices of the encoder and the LSTMs, but not for embedding tables."""
    clip_norm: Rate | None = 10.0
    """Maximum global norm of the gradient; the loss is summed over the steps of a window, as in bilm-tf."""
    clip_value: Rate | None = None
    """Maximum absolute value of each gradient entry, applied after clip_norm."""
    schedule: Literal["constant", "cosine", "linear", "wsd"] = "constant"
    """constant: no change; cosine, linear: the rate falls; wsd: constant, then falling in the last decay_steps."""
    warmup_steps: Count = 0
    """Steps over which the learning rate rises from 0 to its full value."""
    hold: Share = 0.0
    """Share of the run before the rate starts to fall."""
    floor: Share = 0.0
    """Final learning rate, as a share of the full rate."""
    decay_steps: Positive = 1000
    """Length of the decay of wsd: the last steps of the run, or the steps after `elmokit pretrain --finish`."""
    halve_after: Count = 0
    """Consecutive evaluations without improvement before the rate is halved; 0: never."""
    ema_decay: Share = 0.0
    """Decay of a running average of the weights, e.g. 0.999; the better of average and weights is kept. 0: none."""


class LoopConfig(Config):
    """How long a run lasts, and when it logs, evaluates and saves."""

    max_steps: Positive | None = None
    """Maximum number of optimizer steps; none: limited by num_epochs only."""
    accumulate: Positive = 1
    """Number of batches whose gradients are combined into one step."""
    log_every: Positive = 10
    """Steps between log lines."""
    evaluate_every: Count = 1000
    """Steps between evaluations; 0: at the end of each epoch."""
    patience: Count = 0
    """Evaluations without improvement before the run stops; 0: never."""
    checkpoint_every: Positive = 500
    """Steps between checkpoints, from which a stopped run resumes."""
    keep_checkpoints: Positive = 2
    """Number of checkpoints to keep, the latest ones."""


class PresetConfig(Config):
    """Settings of a kind of run that has presets in the package."""

    preset_folder: ClassVar[str]
    """Folder in `presets`."""
    groups: ClassVar[Groups] = {}
    """Config classes of the fields that are declared as plain dicts, by field name."""


class RunConfig(PresetConfig):
    """A training run of a language model, without its model and its files."""

    preset_folder: ClassVar[str] = "pretrain"

    corpus: CorpusConfig = CorpusConfig()
    loss: LossConfig = LossConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    loop: LoopConfig = LoopConfig()
    batch_size: Positive = 128
    """Rows per batch, over all processes."""
    unroll_steps: Positive = 20
    """Tokens per row in each training step."""
    dropout: Share = 0.0
    """Dropout rate on the input of every LSTM layer and on the top output, with a new mask at every step."""
    precision: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """Data type of the products in training; weights stay float32. auto: the fastest, found by timing a few steps."""
    num_epochs: Positive = 10
    """Maximum number of passes over the training text."""
    heldout_tokens: Positive | None = 100_000
    """Held-out predictions per evaluation during training, with equal shares of each file; none: all. The final
    evaluation always uses all."""
    seed: Seed = 0
    """Random seed for initial weights, order of the text and dropout."""


class PretrainConfig(RunConfig):
    """A pretraining run, without its files."""

    groups: ClassVar[Groups] = {"model": ElmoConfig}

    model: dict[str, Any]
    """Settings of the model; the size of the vocabulary and the softmax are added automatically."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        try:
            config = self._validate_model(_LARGEST_VOCABULARY)
        except ValidationError as error:
            raise ValueError(f"model: {describe_faults(error)}") from None
        if (self.loss.kind == "adaptive") != bool(config.softmax_cutoffs):
            raise ValueError("loss.kind 'adaptive' and model.softmax_cutoffs go together")
        if self.loss.kind == "sampled" and self.corpus.max_vocab and self.loss.num_negatives > self.corpus.max_vocab:
            raise ValueError(
                f"loss.num_negatives ({self.loss.num_negatives}) exceeds corpus.max_vocab ({self.corpus.max_vocab})"
            )
        return self

    def build_model(self, vocab_size: int) -> ElmoConfig:
        """The model's settings for a vocabulary."""
        try:
            return self._validate_model(vocab_size)
        except ValidationError as error:
            raise ConfigError(f"[model] does not fit a vocabulary of {vocab_size}: {describe_faults(error)}.") from None

    def model_settings(self) -> ElmoConfig:
        """The model's settings with their defaults, for a vocabulary of any size."""
        return self.build_model(_LARGEST_VOCABULARY)

    def _validate_model(self, vocab_size: int) -> ElmoConfig:
        return ElmoConfig.model_validate({**self.model, "vocab_size": vocab_size, "softmax": True})


class FinetuneConfig(RunConfig):
    """A fine-tuning run, without its model and its files."""

    preset_folder: ClassVar[str] = "finetune"

    freeze: tuple[Literal["encoder", "lstm", "softmax"], ...] = ()
    """Parts that are not trained."""


Run = TypeVar("Run", bound=PresetConfig)


def read_run(kind: type[Run], source: str, changes: Mapping[str, str] | None = None) -> Run:
    """Read a run's settings from a file or a preset's name, with some of them changed.

    Args:
        kind: `PretrainConfig`, `FinetuneConfig` or `elmokit.tasks.config.TaskConfig`.
        source: the path of a TOML or JSON file, or a preset such as "mini".
        changes: new values by dotted name, written as in TOML: {"optimizer.learning_rate": "1e-3"}.

    Raises:
        ConfigError: if a name or a value is not accepted; the message suggests names similar to a mistyped one.
    """
    path = check_path("source", source)
    if changes is not None and not isinstance(changes, Mapping):
        raise ConfigError(f"changes are {shown(changes)}: give new values by dotted name, e.g. {{'batch_size': '8'}}.")
    if path.suffix not in (".toml", ".json") and (sentence := mistaken(path, "a file of settings", JSON)):
        raise ConfigError(f"{sentence[:-1]}; settings are a TOML or JSON file, or the name of a preset.")
    values = read_settings(path) if _is_file(source) else _read_preset(kind, source)
    if not isinstance(values, dict):
        raise ConfigError(f"{source} is not a table of settings: give a TOML file such as the presets.")
    for name, text in (changes or {}).items():
        check_name(name, kind, kind.groups, origin="--set")
        _change(values, name, text)
    check_names(values, kind, kind.groups, origin=source)
    read_nones(values, kind, kind.groups)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{source} is not a valid {kind.preset_folder} config: {describe_faults(error)}.") from None


def names_setting(source: str, name: str) -> bool:
    """Whether a settings file has a setting, by dotted name; always False for a preset, which no user wrote."""
    values: Any = read_settings(Path(source)) if _is_file(source) else None
    for part in name.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values is not None


def _is_file(source: str) -> bool:
    path = Path(source)
    return path.suffix in (".toml", ".json") or os.path.isfile(path)  # false for a name that no file can have


def preset_names(kind: type[PresetConfig]) -> list[str]:
    """The names of the presets of a kind."""
    folder = resources.files("elmokit") / "presets" / kind.preset_folder
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def _read_preset(kind: type[PresetConfig], name: str) -> Any:
    if name not in (names := preset_names(kind)):
        near = difflib.get_close_matches(name.lower(), names, cutoff=0.5)
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        raise ConfigError(
            f"there is no file and no preset named {name[:100]!r}{hint}: give a TOML file or one of {', '.join(names)}."
        )
    with resources.as_file(_preset_file(kind, name)) as path:
        return read_settings(path)


def preset_summary(kind: type[PresetConfig], name: str) -> str:
    """What a preset is for: the comment in its first line."""
    return _preset_file(kind, name).read_text(encoding="utf-8").partition("\n")[0].removeprefix("#").strip()


def _preset_file(kind: type[PresetConfig], name: str) -> Traversable:
    return resources.files("elmokit") / "presets" / kind.preset_folder / f"{name}.toml"


def _change(values: dict[str, Any], name: str, text: str) -> None:
    """Set the value at a dotted name; the text is parsed as a TOML value, or else kept as a string."""
    try:
        value = tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        value = text
    *parents, last = name.split(".")
    for parent in parents:
        values = values.setdefault(parent, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{name} cannot be set, because {parent} is not a group of settings.")
    values[last] = value
