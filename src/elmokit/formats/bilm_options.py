"""Convert bilm-tf's options.json to our config and back. Keys that we do not use are kept and written back."""

import warnings
from pathlib import Path
from typing import Any

from elmokit.config import CharacterInput, ElmoConfig, parse_config, read_settings
from elmokit.errors import ConfigError, ElmokitWarning, WeightsError
from elmokit.formats.hdf5_file import Hdf5Reader
from elmokit.text.vocabulary import Vocabulary

MARK = "elmokit_version"
"""The key that marks options written by elmokit; other programs ignore it."""
TOKENIZER = "elmokit_tokenizer"
"""The key of the tokenizer that a model was trained with, if known; other programs ignore it."""
_LSTM = {
    "n_layers": "num_layers",
    "dim": "cell_dim",
    "projection_dim": "projection_dim",
    "cell_clip": "cell_clip",
    "proj_clip": "projection_clip",
    "use_skip_connections": "skip_connections",
}
_CHARACTERS = {
    "filters": "filters",
    "activation": "activation",
    "n_highway": "num_highway",
    "max_characters_per_token": "max_characters",
}
_WRITTEN = {"n_tokens_vocab": "vocab_size", "share_embedding_softmax": "tied_softmax"}
_NAMES = (
    {f"lstm.{ours}": f"lstm.{theirs}" for theirs, ours in _LSTM.items()}
    | {f"input.{ours}": f"char_cnn.{theirs}" for theirs, ours in _CHARACTERS.items()}
    | {"input.char_dim": "char_cnn.embedding.dim", "vocab_size": "n_tokens_vocab"}
    | {f"tokenizer{field}": f"{TOKENIZER}{field}" for field in ("", ".name", ".version")}
)
_KNOWN = {
    "": {
        *("lstm", "char_cnn", "bidirectional", "dropout", "all_clip_norm_val", "n_epochs", "n_train_tokens"),
        *("batch_size", "n_tokens_vocab", "unroll_steps", "n_negative_samples_batch", "learning_rate"),
        *("sample_softmax", "share_embedding_softmax", TOKENIZER),
    },
    "lstm": set(_LSTM),
    "char_cnn": {*_CHARACTERS, "embedding", "n_characters"},
}


def read_options(path: Path) -> dict[str, Any]:
    """Read the file, and warn once about keys that neither elmokit nor bilm-tf or AllenNLP knows."""
    options = read_settings(path)
    if not isinstance(options, dict) or not isinstance(options.get("lstm"), dict):
        raise ConfigError(f"{path} is not a biLM's options file: it needs an object with the key lstm.")
    if not isinstance(options.get("char_cnn", {}), dict):
        raise ConfigError(f"{path}: char_cnn must be an object, or absent for a model over token ids.")
    options.pop(MARK, None)
    unknown = [
        f"{section}.{key}" if section else key
        for section, known in _KNOWN.items()
        for key in (options.get(section, {}) if section else options)
        if key not in known
    ]
    if unknown:
        warnings.warn(
            f"{path} has keys that elmokit does not know: {', '.join(unknown)}; they are kept and have no effect.",
            ElmokitWarning,
            stacklevel=6,
        )
    return options


def options_to_config(
    options: dict[str, Any], file: Hdf5Reader, vocabulary: Vocabulary | None, *, origin: str
) -> ElmoConfig:
    """The config of a model, from its options and the optional tensors that its weights have."""
    lstm = {ours: options["lstm"][theirs] for theirs, ours in _LSTM.items() if theirs in options["lstm"]}
    for theirs, ours in _LSTM.items():
        if ours in ("num_layers", "cell_dim", "projection_dim") and ours not in lstm:
            raise ConfigError(f"{origin} lacks lstm.{theirs}: it must say the sizes of the model.")
    for ours, absent in (("cell_clip", None), ("projection_clip", None), ("skip_connections", False)):
        lstm.setdefault(ours, absent)
    if not _has_projection(file):
        if lstm["cell_dim"] != lstm["projection_dim"]:
            raise WeightsError(
                f"{file.path} lacks the projection W_P_0, but {origin} has dim {lstm['cell_dim']} and projection_dim "
                f"{lstm['projection_dim']}: weights and options belong to different models."
            )
        lstm["projection_dim"] = None
    softmax = "lm/softmax/b" in file
    values: dict[str, Any] = {
        "input": _character_input(options["char_cnn"], file, origin) if "char_cnn" in options else {"kind": "tokens"},
        "lstm": lstm,
        "vocab_size": _vocab_size(options, file, vocabulary, softmax, origin),
        "softmax": softmax,
        "tied_softmax": softmax and "lm/softmax/W" not in file,
        "tokenizer": options.get(TOKENIZER),
    }
    if rest := _leftover(options, written={key for key in _WRITTEN if values[_WRITTEN[key]]}):
        values["foreign"] = {"options": rest}
    return parse_config(values, origin=origin, names=_NAMES)


def _character_input(section: dict[str, Any], file: Hdf5Reader, origin: str) -> dict[str, Any]:
    embedding = section.get("embedding")
    if not isinstance(embedding, dict) or "dim" not in embedding or "filters" not in section:
        raise ConfigError(f"{origin} lacks char_cnn.embedding.dim or char_cnn.filters: it must say the sizes.")
    if section.get("n_characters", 261) not in (261, 262):
        raise ConfigError(
            f"{origin}: char_cnn.n_characters is {str(section['n_characters'])[:40]!r}, but models over bytes have 261 "
            "or 262."
        )
    values = {ours: section[theirs] for theirs, ours in _CHARACTERS.items() if theirs in section}
    values["num_highway"] = values.get("num_highway") or 0
    return values | {"kind": "characters", "char_dim": embedding["dim"], "projected": "CNN_proj" in file}


def _has_projection(file: Hdf5Reader) -> bool:
    folders = ("RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell", "RNN_0/RNN/LSTMCell")
    return any(f"{folder}/W_P_0" in file for folder in folders)


def _vocab_size(
    options: dict[str, Any], file: Hdf5Reader, vocabulary: Vocabulary | None, softmax: bool, origin: str
) -> Any:
    """The vocabulary size of a model that predicts or embeds words: from the options, or else the vocabulary."""
    if not softmax and "char_cnn" in options:
        return None
    if vocabulary is None:
        raise ConfigError(
            f"{origin} describes a model with a word table, which needs its vocabulary: put vocab.txt beside it."
        )
    return options.get("n_tokens_vocab", len(vocabulary))


def _leftover(options: dict[str, Any], *, written: set[str]) -> dict[str, Any]:
    """Options that our config does not represent, so that an export would not write them otherwise."""
    known = {"lstm", "char_cnn", "bidirectional", TOKENIZER} | written
    rest = {key: value for key, value in options.items() if key not in known}
    for section in ("lstm", "char_cnn"):
        kept = {key: value for key, value in options.get(section, {}).items() if key not in _KNOWN[section]}
        if section == "char_cnn" and isinstance(options.get(section, {}).get("embedding"), dict):
            embedding = {key: value for key, value in options[section]["embedding"].items() if key != "dim"}
            kept |= {"embedding": embedding} if embedding else {}
        if kept:
            rest[section] = kept
    return rest


def config_to_options(config: ElmoConfig) -> dict[str, Any]:
    """The options for bilm-tf and AllenNLP: n_characters 262, explicit sizes, kept keys unchanged."""
    kept = dict(config.foreign.get("options", {}))
    stack = config.lstm.model_dump() | {"projection_dim": config.lstm.output_dim}
    options: dict[str, Any] = kept | {
        "bidirectional": True,
        "lstm": kept.get("lstm", {}) | {theirs: stack[ours] for theirs, ours in _LSTM.items()},
    }
    if isinstance(config.input, CharacterInput):
        section = kept.get("char_cnn", {})
        values = config.input.model_dump(mode="json")
        options["char_cnn"] = section | {theirs: values[ours] for theirs, ours in _CHARACTERS.items()}
        options["char_cnn"]["embedding"] = section.get("embedding", {}) | {"dim": config.input.char_dim}
        options["char_cnn"]["n_characters"] = config.input.num_characters + 1
    if config.vocab_size is not None:
        options["n_tokens_vocab"] = config.vocab_size
    if config.tied_softmax:
        options["share_embedding_softmax"] = True
    if config.tokenizer is not None:
        options[TOKENIZER] = config.tokenizer.model_dump()
    return options
