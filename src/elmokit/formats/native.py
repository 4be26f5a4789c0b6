"""elmokit's own model folder: config.json, model.safetensors and, if the model needs them, its word lists."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from elmokit._version import __version__
from elmokit.config import CharacterInput, parse_config, read_settings
from elmokit.errors import FormatError, WeightsError
from elmokit.filesystem import foreign_files
from elmokit.formats.parts import ModelParts, check_shapes, empty_model, expected_shapes, read_spare_vocabulary
from elmokit.model.bilm import BiLM
from elmokit.recognize import read_object
from elmokit.text.characters import TableIndexer
from elmokit.text.dictionary import dictionary_text, read_dictionary
from elmokit.text.vocabulary import read_vocabulary, write_vocabulary

CONFIG, WEIGHTS, VOCABULARY, CHARACTERS, WORDS = "config.json", "model.safetensors", "vocab.txt", "char.dic", "word.dic"
_FORMAT, _VERSION = "elmokit", 1


def read(directory: Path) -> ModelParts:
    """Read a model folder."""
    settings = read_settings(directory / CONFIG)
    config = parse_config(_model_section(settings, directory / CONFIG), origin=str(directory / CONFIG))
    vocabulary = None
    if (directory / VOCABULARY).exists():
        needed = config.softmax or config.input.kind == "tokens"
        vocabulary = (read_vocabulary if needed else read_spare_vocabulary)(directory / VOCABULARY)
    indexer = None
    if isinstance(config.input, CharacterInput) and config.input.alphabet == "table":
        indexer = TableIndexer(
            _read_table(directory / CHARACTERS, config.input.num_characters),
            _read_table(directory / WORDS, config.input.num_words),
            max_characters=config.input.max_characters,
        )
    path = directory / WEIGHTS
    if not path.exists():
        raise WeightsError(f"{path} does not exist: a model directory holds {CONFIG} and {WEIGHTS}; copy both.")
    try:
        with safe_open(path, framework="pt") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}
            check_shapes(shapes, expected_shapes(empty_model(config, vocabulary, indexer)), origin=str(path))
            tensors = {name: file.get_tensor(name) for name in shapes}
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path} is cut short, damaged or not safetensors ({error}): fetch it again.") from None
    return ModelParts(config, tensors, vocabulary, indexer)


def _read_table(path: Path, num_rows: int) -> dict[str, int] | None:
    return read_dictionary(path, num_rows=num_rows) if num_rows else None


def _model_section(settings: Any, path: Path) -> Any:
    if not isinstance(settings, dict) or settings.get("format") != _FORMAT or "model" not in settings:
        raise FormatError(f'{path} is not the config of an elmokit model: it must say "format": "{_FORMAT}".')
    if settings.get("format_version") != _VERSION:
        raise FormatError(
            f"{path} has format_version {str(settings.get('format_version'))[:40]!r}, but elmokit {__version__} reads "
            f"{_VERSION}: install a newer elmokit."
        )
    return settings["model"]


def write(bilm: BiLM, directory: Path, *, float16: bool = False) -> None:
    """Write a model's files to an empty folder; `float16` rounds the weights, which halves their size."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in bilm.state_dict().items()}
    if float16:
        tensors = {name: _rounded(name, tensor) for name, tensor in tensors.items()}
    save_tensors(tensors, directory / WEIGHTS, metadata={"format": "pt"})
    if bilm.vocabulary is not None:
        write_vocabulary(bilm.vocabulary, directory / VOCABULARY)
    if isinstance(bilm.indexer, TableIndexer):
        for name, table in ((CHARACTERS, bilm.indexer.characters), (WORDS, bilm.indexer.words)):
            if table is not None:
                (directory / name).write_text(dictionary_text(table), encoding="utf-8", newline="\n")
    settings = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "elmokit_version": __version__,
        "model": bilm.config.model_dump(mode="json", exclude={"foreign"}) | {"foreign": bilm.config.foreign},
    }
    (directory / CONFIG).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def save_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file; a full disk raises an `OSError`, as for every other file."""
    try:
        save_file(tensors, path, metadata=metadata)
    except SafetensorError as error:
        raise OSError(str(error)) from None


def is_own(path: Path) -> bool:
    """Whether a folder has a model that `write` wrote, and nothing else."""
    is_model = read_object(path / CONFIG).get("format") == _FORMAT
    return is_model and not foreign_files(path, {CONFIG, WEIGHTS, VOCABULARY, CHARACTERS, WORDS})


def _rounded(name: str, tensor: Tensor) -> Tensor:
    half = tensor.half()
    beyond = ~half.isfinite()
    if beyond.any():
        raise WeightsError(
            f"tensor {name} holds {tensor[beyond][0].item():g}, but float16 holds numbers up to "
            f"{torch.finfo(half.dtype).max:,.0f}: write the model without float16."
        )
    return half
