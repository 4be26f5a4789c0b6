"""ELMoForManyLangs folders: torch pickles, `.dic` tables and two JSON files. Read only.

Sizes come from the tensors; the architecture JSON adds only what the tensors do not show: activation, clipping and the
width of a token's row. The sign of its highway is the opposite of ours, and its gates are packed i, f, j, o.
"""

import os
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmokit.config import CharacterInput, parse_config, read_settings
from elmokit.errors import ConfigError, FormatError, UnsafeFileError, WeightsError
from elmokit.formats.allennlp_state import numbered, read_characters, read_lstms, take
from elmokit.formats.archive import check_sizes, is_zip
from elmokit.formats.parts import ModelParts
from elmokit.text.characters import TableIndexer
from elmokit.text.dictionary import read_dictionary
from elmokit.text.vocabulary import SPECIALS, Vocabulary

CONFIG, ENCODER, TOKEN_EMBEDDER, CLASSIFIER = "config.json", "encoder.pkl", "token_embedder.pkl", "classifier.pkl"
_BOUNDARIES = ("<bos>", "<eos>", "<oov>")  # in the order of our SPECIALS
_RELEASED = re.compile(r"cnn_\d+_\d+_512_4096_sample\.json")
"""Architecture files of the released models, which come without them; our defaults equal their values."""


def read(directory: Path) -> ModelParts:
    """Read a model folder; its classifier, if it has one, becomes the softmax."""
    architecture = _read_architecture(directory)
    embedder = _load_pickle(directory / TOKEN_EMBEDDER)
    encoder = _load_pickle(directory / ENCODER)
    characters = embedder.get("char_emb_layer.embedding.weight")
    words = embedder.get("word_emb_layer.embedding.weight")
    section = architecture.get("token_embedder", {})
    tensors = read_lstms(encoder, forget_bias=0.0) | _embedder_tensors(embedder)
    character_ids = None if characters is None else read_dictionary(directory / "char.dic", num_rows=len(characters))
    word_ids = None if words is None else read_dictionary(directory / "word.dic", num_rows=len(words))
    vocabulary, softmax = _read_softmax(directory, word_ids)
    filters = [(w.shape[2], w.shape[0]) for w in numbered(embedder, "convolutions.{}.weight")]
    stack = architecture.get("encoder", {})
    projection = encoder["forward_layer_0.state_projection.weight"]
    config = parse_config(
        {
            "input": {
                "kind": "characters",
                "alphabet": "table",
                "num_characters": 0 if characters is None else len(characters),
                "char_dim": 0 if characters is None else characters.shape[1],
                "filters": filters,
                "activation": section.get("activation", "relu"),
                "num_highway": len(numbered(embedder, "highways._layers.{}.weight")),
                "max_characters": section.get("max_characters_per_token", 50),
                "num_words": 0 if words is None else len(words),
                "word_dim": 0 if words is None else words.shape[1],
            },
            "lstm": {
                "num_layers": len(numbered(encoder, "forward_layer_{}.state_projection.weight")),
                "cell_dim": projection.shape[1],
                "projection_dim": projection.shape[0],
                "cell_clip": stack.get("cell_clip", 3),
                "projection_clip": stack.get("proj_clip", 3),
                "forget_bias": 0.0,
            },
            "vocab_size": None if vocabulary is None else len(vocabulary),
            "softmax": vocabulary is not None,
        },
        origin=str(directory / CONFIG),
    )
    assert isinstance(config.input, CharacterInput)
    _refuse_gaps(directory, embedder | encoder, config.input, config.lstm.num_layers)
    indexer = TableIndexer(character_ids, word_ids, max_characters=config.input.max_characters)
    return ModelParts(config, tensors | softmax, vocabulary, indexer)


def _is_near(path: Path, directory: Path) -> bool:
    """Whether a path is in a model's folder or beside it: a model must not make us read other files."""
    try:
        return path.resolve().is_relative_to(directory.resolve().parent)
    except (OSError, ValueError):  # no file can have such a name
        return False


def _read_architecture(directory: Path) -> dict[str, Any]:
    """Find the architecture JSON at the path in config.json, or by its name here or in configs/."""
    saved = read_settings(directory / CONFIG)
    named = saved.get("config_path") if isinstance(saved, dict) else None
    if not isinstance(named, str):
        raise ConfigError(f"{directory / CONFIG} has no config_path: it is not from an ELMoForManyLangs model.")
    base = Path(named.replace("\\", "/")).name
    candidates = [directory / base, directory / "configs" / base]
    if _is_near(directory / named, directory):
        candidates.insert(0, directory / named)
    for candidate in candidates:
        if os.path.isfile(candidate):  # false, not an error, for a name that no file can have
            architecture = read_settings(candidate)
            break
    else:
        if _RELEASED.fullmatch(base):
            return {}
        raise FormatError(
            f"{directory} lacks its architecture file {base[:100]!r}, which alone names its activation and clips: "
            f"copy it from ELMoForManyLangs' configs/ into {directory / 'configs'}."
        )
    if not isinstance(architecture, dict):
        raise ConfigError(f"{candidate} is not an architecture file: it must hold an object.")
    for part in ("encoder", "token_embedder"):
        section = architecture.setdefault(part, {})
        if not isinstance(section, dict):
            raise ConfigError(f"{candidate} is not an architecture file: {part} must be an object.")
        if str(section.get("name", "")).lower() == "lstm":
            raise FormatError(
                f"{candidate} asks for the {part} 'lstm', but ELMo's are 'elmo' and 'cnn': "
                "this model is of another family."
            )
    return architecture


def _load_pickle(path: Path) -> dict[str, Tensor]:
    """Read tensors, and nothing but tensors, from a torch pickle."""
    if not path.exists():
        raise WeightsError(f"{path} does not exist: copy the whole directory of the model.")
    if is_zip(path):
        check_sizes(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's warnings on odd pickles; we raise our own error
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise UnsafeFileError(
            f"{path} wants to run code or is not a torch file: elmokit reads tensors only; "
            "fetch it from a source you trust."
        ) from None
    except Exception as error:  # on damaged bytes torch's unpickler can raise any exception
        reason = str(error).strip().splitlines()[0][:150] if str(error).strip() else type(error).__name__
        raise WeightsError(f"{path} is cut short or damaged ({reason}): fetch it again.") from None
    if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise WeightsError(f"{path} holds no table of tensors: it is not from an ELMoForManyLangs model.")
    for name, tensor in tensors.items():
        _check_layout(path, str(name), tensor)
    return tensors


def _check_layout(path: Path, name: str, tensor: Tensor) -> None:
    """Refuse a tensor that we could not convert, or whose numbers are not all in the file."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
        raise WeightsError(f"{path}: tensor {name} is not a plain array, as every weight is.")
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise UnsafeFileError(
            f"{path}: tensor {name} claims to be {tuple(tensor.shape)} without holding that many numbers: "
            "fetch it from a source you trust."
        )
    dims = {"weight": 3 if name.startswith("convolutions.") else 2, "bias": 1}.get(name.rpartition(".")[2])
    parts = 4 if "_linearity." in name else 2 if name.startswith("highways.") else 1
    if dims is not None and (tensor.dim() != dims or tensor.shape[0] % parts):
        raise WeightsError(
            f"{path}: tensor {name} has shape {tuple(tensor.shape)}, but needs {dims} dimensions"
            f"{f' and rows for {parts} equal parts' if parts > 1 else ''}: it is not from an ELMoForManyLangs model."
        )


def _refuse_gaps(directory: Path, tensors: dict[str, Tensor], characters: CharacterInput, num_layers: int) -> None:
    """Refuse missing tensors: sizes come from the tensors, so the model would otherwise appear smaller."""
    for prefix, expected in (
        *((f"{direction}_layer_", 4 * num_layers) for direction in ("forward", "backward")),
        ("convolutions.", 2 * len(characters.filters)),
        ("highways.", 2 * characters.num_highway),
    ):
        found = sum(str(name).startswith(prefix) for name in tensors)
        if found != expected:
            raise WeightsError(
                f"{directory} has {found} tensors named {prefix}…, of which only {expected} make whole layers: "
                "its pickles are incomplete; fetch them again."
            )


def _embedder_tensors(embedder: dict[str, Tensor]) -> dict[str, Tensor]:
    tensors = read_characters(
        embedder, convolution="convolutions.{}", highway="highways._layers.{}", projection="projection"
    )
    for part in ("char", "word"):
        if (table := embedder.get(f"{part}_emb_layer.embedding.weight")) is not None:
            tensors[f"encoder.{part}_table"] = table
    return tensors


def _read_softmax(directory: Path, word_ids: dict[str, int] | None) -> tuple[Vocabulary | None, dict[str, Tensor]]:
    """The classifier with its rows in the order of our vocabularies: special tokens first."""
    path = directory / CLASSIFIER
    if not path.exists() or not (directory / "word.dic").exists():
        return None, {}
    classifier = _load_pickle(path)
    if "column_emb.weight" not in classifier:
        return None, {}
    weight, bias = classifier["column_emb.weight"], take(classifier, "column_bias.weight")
    table = read_dictionary(directory / "word.dic", num_rows=len(weight)) if word_ids is None else word_ids
    words = [f"<unused-{index}>" for index in range(len(weight))]
    for word, index in table.items():
        if index < len(words) and word not in SPECIALS:  # it would look like one of our special tokens
            words[index] = word.strip()  # as stored in a vocabulary file
    order = [table[mark] for mark in _BOUNDARIES if mark in table]
    if len(order) != len(_BOUNDARIES) or max(table.values()) >= len(weight) or len(bias) != len(weight):
        raise WeightsError(
            f"{path} has {len(weight)} rows and {len(bias)} biases, which word.dic does not fit: "
            "copy the whole directory."
        )
    leading = set(order)
    order += [index for index in range(len(words)) if index not in leading]
    vocabulary = Vocabulary([*SPECIALS, *(words[index] for index in order[3:])], origin=str(directory / "word.dic"))
    return vocabulary, {"softmax.weight": weight[order], "softmax.bias": bias[order].flatten()}
