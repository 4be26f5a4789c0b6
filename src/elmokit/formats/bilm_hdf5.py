"""The two files of bilm-tf and AllenNLP: options.json and weights in HDF5.

One table (`_entries`) has the place and shape of each tensor and its conversion to ours and back; both reading and
writing use it. Differences from our layout: gates are packed i, j, f, o, the input and the recurrent matrix are one
matrix, and the program, not the file, adds 1 to the forget gate.
"""

import io
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import torch
from numpy.typing import NDArray

from elmokit._version import __version__
from elmokit.config import CharacterInput, ElmoConfig
from elmokit.errors import ElmokitWarning, FormatError, WeightsError
from elmokit.filesystem import foreign_files
from elmokit.formats.bilm_options import MARK, config_to_options, options_to_config, read_options
from elmokit.formats.hdf5_file import Hdf5Reader
from elmokit.formats.parts import ModelParts, read_spare_vocabulary
from elmokit.model.bilm import BiLM
from elmokit.text.vocabulary import read_vocabulary, write_vocabulary

Array = NDArray[np.float32]
OPTIONS, WEIGHTS, VOCABULARY = "options.json", "weights.hdf5", "vocab.txt"
SOFTMAX = "lm/softmax/W"
SOFTMAX_BIAS = "lm/softmax/b"


class _Entry(NamedTuple):
    """One dataset of the file and our tensors that it contains."""

    key: str
    shape: tuple[int, ...]
    names: tuple[str, ...]
    unpack: Callable[[Array], tuple[Array, ...]]
    pack: Callable[..., Array]


def read(options_path: Path, weights_path: Path, vocabulary_path: Path | None = None) -> ModelParts:
    """Read a model from its two files, with its vocabulary if there is one."""
    options = read_options(options_path)
    with Hdf5Reader(weights_path) as file:
        _refuse_one_direction(file, weights_path)
        needed = SOFTMAX_BIAS in file or "char_cnn" not in options
        vocabulary = None
        if vocabulary_path is not None:
            vocabulary = (read_vocabulary if needed else read_spare_vocabulary)(vocabulary_path)
        config = options_to_config(options, file, vocabulary, origin=str(options_path))
        _refuse_more_than_declared(config, file, options_path)
        tensors = {}
        for entry in _entries(config, one_layer=_cell_folder(0, 0, one_layer=True) in file):
            for name, array in zip(entry.names, entry.unpack(file.read(entry.key, entry.shape)), strict=True):
                tensors[name] = torch.from_numpy(np.ascontiguousarray(array))
    return ModelParts(config, tensors, vocabulary)


def write(bilm: BiLM, directory: Path, *, weights: str = WEIGHTS) -> None:
    """Write a model's two files, and its vocabulary if it has one, to an empty folder."""
    if isinstance(bilm.config.input, CharacterInput) and bilm.config.input.alphabet != "bytes":
        raise FormatError(
            "this model reads a table of characters (ELMoForManyLangs), which the bilm format cannot hold: "
            "save it as native."
        )
    if bilm.config.softmax_cutoffs:
        raise FormatError(
            "this model has an adaptive softmax, which the bilm and nlpl formats cannot hold: save it as native."
        )
    _warn_of_readers(bilm.config)
    state = bilm.state_dict()
    image = io.BytesIO()  # HDF5 crashes the process when the disk is full; Python raises OSError
    with h5py.File(image, "w") as file:
        for entry in _entries(bilm.config, one_layer=False):
            arrays = (state[name].detach().float().cpu().numpy() for name in entry.names)
            file.create_dataset(entry.key, data=entry.pack(*arrays), dtype="<f4")
    (directory / weights).write_bytes(image.getbuffer())
    if bilm.vocabulary is not None:
        write_vocabulary(bilm.vocabulary, directory / VOCABULARY)
    options = {**config_to_options(bilm.config), MARK: __version__}
    (directory / OPTIONS).write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")


def is_own(path: Path) -> bool:
    """Whether a folder has a model that `write` wrote, and nothing else; models of other tools do not count."""
    try:
        return has_mark((path / OPTIONS).read_bytes()) and not foreign_files(path, {OPTIONS, WEIGHTS, VOCABULARY})
    except OSError:
        return False


def has_mark(options: bytes) -> bool:
    """Whether an options file was written by elmokit."""
    try:
        values = json.loads(options)
    except ValueError:
        return False
    return isinstance(values, dict) and MARK in values


def _entries(config: ElmoConfig, *, one_layer: bool) -> Iterator[_Entry]:
    width = config.lstm.output_dim
    if isinstance(config.input, CharacterInput):
        yield from _character_entries(config.input, width)
    else:
        yield _same("embedding", (_vocab_size(config), width), "encoder.token_table")
    for number, direction in enumerate(("forward", "backward")):
        for depth in range(config.lstm.num_layers):
            folder = _cell_folder(number, depth, one_layer=one_layer)
            yield from _cell_entries(config, folder, f"{direction}_lstm.layers.{depth}")
    if config.softmax:
        if not config.tied_softmax:
            yield _same(SOFTMAX, (_vocab_size(config), width), "softmax.weight")
        yield _same(SOFTMAX_BIAS, (_vocab_size(config),), "softmax.bias")


def _character_entries(characters: CharacterInput, width: int) -> Iterator[_Entry]:
    char_dim, num_filters = characters.char_dim, characters.num_filters
    yield _same("char_embed", (characters.num_characters, char_dim), "encoder.char_table")
    for index, (filter_width, number) in enumerate(characters.filters):
        yield _Entry(
            f"CNN/W_cnn_{index}",
            (1, filter_width, char_dim, number),
            (f"encoder.convolutions.{index}.weight",),
            lambda array: (array[0],),
            lambda array: array[None],
        )
        yield _same(f"CNN/b_cnn_{index}", (number,), f"encoder.convolutions.{index}.bias")
    for depth in range(characters.num_highway):
        for part in ("carry", "transform"):
            name = f"encoder.highways.{depth}.{part}"
            yield _same(f"CNN_high_{depth}/W_{part}", (num_filters, num_filters), f"{name}.weight")
            yield _same(f"CNN_high_{depth}/b_{part}", (num_filters,), f"{name}.bias")
    if characters.projected:
        yield _same("CNN_proj/W_proj", (num_filters, width), "encoder.projection.weight")
        yield _same("CNN_proj/b_proj", (width,), "encoder.projection.bias")


def _cell_entries(config: ElmoConfig, folder: str, name: str) -> Iterator[_Entry]:
    cell, width = config.lstm.cell_dim, config.lstm.output_dim
    extra_forget = np.float32(config.lstm.forget_bias - 1.0)

    def pack_bias(bias: Array) -> Array:
        if extra_forget:  # adding 0 would still turn -0 into 0
            bias = bias.copy()
            bias[cell : 2 * cell] += extra_forget
        return _to_ijfo(bias)

    yield _Entry(
        f"{folder}/W_0",
        (2 * width, 4 * cell),
        (f"{name}.input_weight", f"{name}.recurrent_weight"),
        lambda array: (_to_ifoj(array[:width]), _to_ifoj(array[width:])),
        lambda ours, recurrent: np.concatenate([_to_ijfo(ours), _to_ijfo(recurrent)]),
    )
    yield _Entry(f"{folder}/B", (4 * cell,), (f"{name}.bias",), lambda array: (_to_ifoj(array),), pack_bias)
    if config.lstm.projection_dim is not None:
        yield _same(f"{folder}/W_P_0", (cell, width), f"{name}.projection_weight")


def _to_ifoj(array: Array) -> Array:
    i, j, f, o = np.split(array, 4, axis=-1)
    return np.concatenate([i, f, o, j], axis=-1)


def _to_ijfo(array: Array) -> Array:
    i, f, o, j = np.split(array, 4, axis=-1)
    return np.concatenate([i, j, f, o], axis=-1)


def _same(key: str, shape: tuple[int, ...], name: str) -> _Entry:
    return _Entry(key, shape, (name,), lambda array: (array,), lambda array: array)


def _cell_folder(direction: int, depth: int, *, one_layer: bool) -> str:
    """bilm-tf writes models of one layer without the MultiRNNCell level; no other program reads those."""
    return f"RNN_{direction}/RNN/" + ("LSTMCell" if one_layer else f"MultiRNNCell/Cell{depth}/LSTMCell")


def _vocab_size(config: ElmoConfig) -> int:
    assert config.vocab_size is not None
    return config.vocab_size


def _refuse_one_direction(file: Hdf5Reader, path: Path) -> None:
    if "rnn" in file and "RNN_0" not in file:
        raise FormatError(
            f"{path} holds a language model of one direction (bidirectional: false): ELMo needs both; "
            "train it with bidirectional: true."
        )


def _refuse_more_than_declared(config: ElmoConfig, file: Hdf5Reader, options_path: Path) -> None:
    """Refuse options of a smaller model, which would otherwise silently read a part of this one."""
    first_beyond = [f"RNN_0/RNN/MultiRNNCell/Cell{config.lstm.num_layers}"]
    if isinstance(config.input, CharacterInput):
        first_beyond += [f"CNN/W_cnn_{len(config.input.filters)}", f"CNN_high_{config.input.num_highway}"]
    for key in first_beyond:
        if key in file:
            raise WeightsError(
                f"{file.path} holds {key}, for which {options_path} has no place: "
                "weights and options belong to different models."
            )


def _warn_of_readers(config: ElmoConfig) -> None:
    """Warn about programs that cannot read an export."""
    lacks = []
    if not isinstance(config.input, CharacterInput):
        lacks.append("a character CNN")
    elif not config.input.projected:
        lacks.append("CNN_proj")
    if config.lstm.projection_dim is None:
        lacks.append("W_P_0")
    if not config.lstm.skip_connections:
        lacks.append("use_skip_connections: true")
    if lacks:
        warnings.warn(
            f"AllenNLP will not read this export, which lacks {', '.join(lacks)}; elmokit and bilm-tf will.",
            ElmokitWarning,
            stacklevel=4,
        )
