"""Estimate the minimum memory of a run, so that absurd sizes are refused before anything is built."""

from torch import nn

from elmokit.config import ElmoConfig
from elmokit.cores import usable_memory
from elmokit.errors import ConfigError
from elmokit.formats.parts import empty_model
from elmokit.model.bilm import BiLM
from elmokit.text.vocabulary import SPECIALS, Vocabulary
from elmokit.training.config import PretrainConfig, RunConfig

_NUMBER_BYTES = 4
_OPTIMIZER_NUMBERS = {"adagrad": 1, "adamw": 2, "adadelta": 2, "muon": 1}
"""How many numbers an optimizer stores per weight."""


def check_settings(config: PretrainConfig) -> None:
    """Refuse a model or a batch that cannot fit with any vocabulary, before the corpus is read."""
    small = {"softmax": False, "tied_softmax": False, "softmax_cutoffs": (), "vocab_size": len(SPECIALS) + 1}
    shape = ElmoConfig.model_validate({**config.model, **small})
    check_model(empty_model(shape, Vocabulary([*SPECIALS, "a"]), None), 0, config)


def check_model(bilm: BiLM, num_words: int, config: RunConfig, *, num_processes: int = 1) -> None:
    """Refuse a model, which may be without storage, if training it takes more memory than there is.

    `num_words` is the number of rows that its word tables will have; in `bilm` they may have any size.
    """
    available = usable_memory()
    needed = _estimate(bilm, num_words, config, num_processes)
    total = sum(needed.values())
    if available is None or total <= available:
        return
    culprit = max(needed, key=lambda name: needed[name])
    raise ConfigError(
        f"this run needs at least {total / 1e9:,.1f} GB of memory, but there are {available / 1e9:,.1f} GB: make "
        f"{culprit} smaller, which takes the most."
    )


def _estimate(bilm: BiLM, num_words: int, config: RunConfig, num_processes: int) -> dict[str, int]:
    """Bytes by the setting that causes them: weights, gradients, optimizer state, and the gates of a batch."""
    shape = bilm.config
    remembered = _OPTIMIZER_NUMBERS[config.optimizer.kind] + bool(config.optimizer.ema_decay)
    has_table = shape.input.kind == "tokens"
    num_tables = 1 if shape.tied_softmax else 1 + has_table
    places = config.batch_size * config.unroll_steps // num_processes
    lstm, width = shape.lstm, f", projection_dim {shape.lstm.projection_dim}" if shape.lstm.projection_dim else ""
    numbers = {
        "model.input": 0 if has_table else _count(bilm.encoder) * (2 + remembered),
        f"model.lstm (cell_dim {lstm.cell_dim}{width}, num_layers {lstm.num_layers})": (
            (_count(bilm.forward_lstm) + _count(bilm.backward_lstm)) * (2 + remembered)
        ),
        f"corpus.max_vocab ({num_words:,} words)": num_words * lstm.output_dim * num_tables * (1 + remembered),
        f"batch_size ({config.batch_size}) times unroll_steps ({config.unroll_steps})": (
            places * 2 * lstm.num_layers * 4 * lstm.cell_dim
        ),
    }
    return {name: number * _NUMBER_BYTES for name, number in numbers.items()}


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
