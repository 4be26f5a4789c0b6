"""The settings of a model, validated where they enter and frozen from then on.

A config says what a model is, never where its files are or how it was trained. The `config.json` of a native model
folder holds an `ElmoConfig`.
"""

import json
import textwrap
import tomllib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from elmokit.errors import ConfigError

# Far larger than any model, but small enough that a malicious file cannot cause endless loops or allocations.
_MAX_SIZE, _MAX_DEPTH, _MAX_CHARACTERS = 2**24, 1000, 2**16

Positive = Annotated[int, Field(gt=0, le=_MAX_SIZE)]
NotNegative = Annotated[int, Field(ge=0, le=_MAX_SIZE)]
Clip = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Config(BaseModel):
    """Base of all settings: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class CharacterInput(Config):
    """Tokens are read by a convolution over their characters."""

    kind: Literal["characters"] = "characters"
    """Tokens are read by their characters."""
    alphabet: Literal["bytes", "table"] = "bytes"
    """UTF-8 bytes as in bilm-tf, or a table of characters as in ELMoForManyLangs."""
    num_characters: NotNegative = 261
    """Rows of the character table; 261 for bytes. 0: no character part (table alphabets only)."""
    char_dim: NotNegative = 16
    """Width of a character's vector."""
    filters: tuple[tuple[Positive, Positive], ...] = ()
    """(width, number) of each group of convolution filters."""
    activation: Literal["relu", "tanh"] = "relu"
    """Activation after the maximum over characters; the highway layers always use relu."""
    num_highway: Annotated[int, Field(ge=0, le=_MAX_DEPTH)] = 0
    """Highway layers after the convolution."""
    max_characters: Annotated[int, Field(ge=3, le=_MAX_CHARACTERS)] = 50
    """Columns of a token's row: its characters and two marks."""
    num_words: NotNegative = 0
    """Rows of a table of whole words beside the characters; 0: none."""
    word_dim: NotNegative = 0
    """Width of a whole word's vector; 0: none."""
    projected: bool = True
    """Whether a linear map projects the filters to the LSTM's width; without it the two must be equal."""

    @property
    def num_filters(self) -> int:
        """Number of filters, over all widths."""
        return sum(number for _, number in self.filters)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.alphabet == "bytes" and (self.num_characters != 261 or self.num_words):
            raise ValueError("alphabet 'bytes' has num_characters 261 and no words")
        if (self.num_words == 0) != (self.word_dim == 0):
            raise ValueError(f"num_words ({self.num_words}) and word_dim ({self.word_dim}) go together")
        if bool(self.num_characters) != bool(self.char_dim) or bool(self.char_dim) != bool(self.filters):
            raise ValueError(
                f"num_characters ({self.num_characters}), char_dim ({self.char_dim}) and "
                f"filters ({len(self.filters)}) are all given or all empty"
            )
        if not self.filters and not self.num_words:
            raise ValueError("filters must name at least one group, e.g. [[1, 32], [2, 32]]")
        if self.num_highway and not self.filters:
            raise ValueError(f"num_highway ({self.num_highway}) needs filters to run over")
        if self.num_filters > _MAX_SIZE:
            raise ValueError(f"filters are {self.num_filters} in all, more than {_MAX_SIZE}")
        if widest := [width for width, _ in self.filters if width > self.max_characters]:
            raise ValueError(f"a filter {widest[0]} wide exceeds max_characters ({self.max_characters})")
        return self


class TokenInput(Config):
    """Tokens are rows of an embedding table, one per word of the vocabulary."""

    kind: Literal["tokens"] = "tokens"
    """Tokens are rows of a table."""


class LstmStack(Config):
    """The recurrent layers of each direction."""

    num_layers: Annotated[int, Field(gt=0, le=_MAX_DEPTH)] = 2
    """LSTM layers, layer 0 not counted."""
    cell_dim: Positive = 4096
    """Width of the memory cell (H)."""
    projection_dim: Positive | None = 512
    """Width of a layer's output (P); null: the cell's own, without a projection."""
    cell_clip: Clip | None = 3.0
    """Absolute bound of the memory cell's values; null: none."""
    projection_clip: Clip | None = 3.0
    """Absolute bound of the projected output; has no effect without a projection."""
    skip_connections: bool = True
    """Add a layer's input to its output, from the second layer on."""
    forget_bias: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    """Added to the forget gate on top of its stored bias (1 in bilm-tf, 0 in ELMoForManyLangs)."""

    @property
    def output_dim(self) -> int:
        """Width of each direction in every layer (P)."""
        return self.projection_dim or self.cell_dim


class TokenizerConfig(Config):
    """The tokenizer of the text that a model was trained on."""

    name: Annotated[str, Field(min_length=1, max_length=80)]
    """elmokit, or external if the text was given as tokens from another tokenizer."""
    version: Annotated[int, Field(gt=0, le=_MAX_SIZE)] | None = None
    """Version of the tokenizer's rules; null: unknown."""


class ElmoConfig(Config):
    """A bidirectional language model: its input tokens, its layers, its softmax."""

    input: Annotated[CharacterInput | TokenInput, Field(discriminator="kind")]
    lstm: LstmStack = LstmStack()
    vocab_size: Annotated[int, Field(ge=3, le=_MAX_SIZE)] | None = None
    """Words of the softmax and of a token embedding (V)."""
    softmax: bool = False
    """Whether the model can predict words; published models cannot."""
    tied_softmax: bool = False
    """The softmax shares its matrix with the token embedding."""
    softmax_cutoffs: tuple[Positive, ...] = ()
    """Ids at which the clusters of an adaptive softmax begin; empty: a plain softmax."""
    languages: tuple[str, ...] = ()
    """ISO codes of the languages, if known."""
    tokenizer: TokenizerConfig | None = None
    """Tokenizer of the training text; training fills it in. null: unknown, as for published models."""
    foreign: dict[str, Any] = {}
    """Settings in a file of another project that this model does not use; written back on export."""

    @property
    def num_layers(self) -> int:
        """Number of output layers, including layer 0 (L)."""
        return self.lstm.num_layers + 1

    @property
    def output_dim(self) -> int:
        """Width of a vector, both directions together (2P)."""
        return 2 * self.lstm.output_dim

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.vocab_size is None and (self.softmax or self.input.kind == "tokens"):
            raise ValueError("vocab_size must be given for a softmax or a token embedding")
        if self.tied_softmax and not (self.softmax and self.input.kind == "tokens"):
            raise ValueError("tied_softmax needs softmax and input.kind 'tokens'")
        if self.softmax_cutoffs:
            if not self.softmax or self.tied_softmax:
                raise ValueError("softmax_cutoffs need a softmax of its own, not a tied one")
            bounds = (*self.softmax_cutoffs, self.vocab_size or 0)
            if any(later <= earlier for earlier, later in pairwise(bounds)):
                raise ValueError(f"softmax_cutoffs {self.softmax_cutoffs} must rise and stay below vocab_size")
        if isinstance(self.input, CharacterInput) and not self.input.projected:
            width = self.input.num_filters + self.input.word_dim
            if width != self.lstm.output_dim:
                raise ValueError(
                    f"input.projected is false, so the filters ({width}) must equal the LSTM's width "
                    f"({self.lstm.output_dim})"
                )
        return self


def parse_config(values: Any, *, origin: str, names: Mapping[str, str] | None = None) -> ElmoConfig:
    """Validate settings; errors name each wrong field, under the name that `names` gives it for the user's file."""
    try:
        return ElmoConfig.model_validate(values)
    except ValidationError as error:
        faults = describe_faults(error, names)
        raise ConfigError(f"{origin} is not a valid model config: {faults}.") from None


def describe_faults(error: ValidationError, names: Mapping[str, str] | None = None) -> str:
    """One line that says which fields are wrong and why."""
    faults = "; ".join(_fault(fault, names or {}) for fault in error.errors())
    return textwrap.shorten(faults, 300, placeholder=" …")


def _fault(fault: Any, names: Mapping[str, str]) -> str:
    field = ".".join(str(part)[:40] for part in fault["loc"] if part not in ("characters", "tokens"))
    field = names.get(field, field)
    reason = fault["msg"].removeprefix("Value error, ")
    given = "" if fault["type"] in ("missing", "value_error") else f" (given: {str(fault['input'])[:60]})"
    return f"{field + ': ' if field else ''}{reason[0].lower()}{reason[1:]}{given}"


def read_config(path: Path) -> ElmoConfig:
    """Read a model's settings from a JSON or TOML file."""
    return parse_config(read_settings(path), origin=str(path))


def read_settings(path: Path) -> Any:
    """Read a JSON or TOML file, according to its suffix."""
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON or TOML, or numbers too long to convert
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise ConfigError(f"{path} is not {kind} ({error}): give a file of settings.") from None
