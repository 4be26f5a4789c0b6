"""Files that are not what they should be: each loads, or ends in one sentence that names it, and never otherwise."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from elmokit.errors import (
    ConfigError,
    ElmokitError,
    FormatError,
    InputError,
    VocabularyError,
    WeightsError,
)
from elmokit.formats import SaveFormat, load, save
from elmokit.model.bilm import BiLM
from tests.contracts.format import Tiny, save_quietly
from tests.formats.makers import assert_one_sentence, edit_json, refused, write_dictionary, write_many_langs

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


def may_load(path: Path) -> None:
    """Loading works or says why not."""
    try:
        load(path)
    except ElmokitError as error:
        assert_one_sentence(error, path)


@pytest.fixture
def native(bilm: BiLM, tmp_path: Path) -> Path:
    save(bilm, tmp_path / "native")
    return tmp_path / "native"


@pytest.fixture
def peer(bilm: BiLM, tmp_path: Path) -> Path:
    """A bilm-tf model."""
    save(bilm, tmp_path / "bilm", format="bilm")
    return tmp_path / "bilm"


# --- damaged, missing and mistaken files ---


def model_files(bilm: BiLM, folder: Path) -> list[tuple[Path, Path]]:
    """Every file of a model of every format, with the path that loads it."""
    formats: tuple[SaveFormat, ...] = ("native", "bilm")
    for format in formats:
        save(bilm, folder / format, format=format)
    save(bilm, folder / "m.zip", format="nlpl")
    write_many_langs(folder / "many", classifier=True)
    write_many_langs(folder / "legacy", classifier=True, zipped=False)
    return [(folder / "m.zip", folder / "m.zip")] + [
        (folder / name, file)
        for name in ("native", "bilm", "many", "legacy")
        for file in sorted((folder / name).iterdir())
        if file.is_file()
    ]


@pytest.mark.slow
def test_files_cut_short(bilm: BiLM, tmp_path: Path) -> None:
    files = model_files(bilm, tmp_path)
    assert len(files) == 1 + 3 + 3 + 6 + 6
    for model, file in files:
        data = file.read_bytes()
        for length in (0, 1, 7, 8, 20, len(data) // 3, len(data) // 2, len(data) - 20, len(data) - 2):
            if not 0 <= length < len(data.strip()):
                continue
            file.write_bytes(data[:length])
            if file.suffix == ".dic" and length > 20:  # all marks are there: a sound file of a smaller table
                may_load(model)
            else:
                refused(model)
        file.write_bytes(data)
        load(model)


@pytest.mark.slow
def test_files_replaced_by_something_else(bilm: BiLM, tmp_path: Path) -> None:
    for model, file in model_files(bilm, tmp_path):
        data = file.read_bytes()
        for other in (PNG, b"[1, 2]", b"null", b"\xff\xfe\x00", b"hello\n", b"\0" * 100, b"PK\x05\x06" + bytes(18)):
            file.write_bytes(other)
            refused(model)
        file.unlink()
        file.mkdir()
        if file != model:
            refused(model)
        file.rmdir()
        file.write_bytes(data)
        load(model)


@pytest.mark.slow
def test_files_with_wrong_bytes(bilm: BiLM, tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    for model, file in model_files(bilm, tmp_path):
        if file.suffix not in (".zip", ".safetensors", ".hdf5", ".pkl"):
            continue
        data = np.frombuffer(file.read_bytes(), dtype=np.uint8)
        for _ in range(15):
            damaged = data.copy()
            reach = int(generator.choice([100, 2000, len(data)]))
            places = generator.integers(0, min(reach, len(data)), size=int(generator.choice([1, 4, 30])))
            damaged[places] = generator.integers(0, 256, size=len(places))
            file.write_bytes(damaged.tobytes())
            may_load(model)
        file.write_bytes(data.tobytes())


@pytest.mark.parametrize(
    ("name", "kind", "match"),
    [
        ("config.json", ConfigError, "No such file"),
        ("model.safetensors", WeightsError, r"model\.safetensors does not exist"),
        ("vocab.txt", ConfigError, "needs its vocabulary"),
    ],
)
def test_native_files_missing(name: str, kind: type[ElmokitError], match: str, native: Path) -> None:
    (native / name).unlink()
    refused(native, kind, match)


def test_bilm_vocabulary_missing(peer: Path) -> None:
    (peer / "vocab.txt").unlink()
    refused(peer, ConfigError, r"needs its vocabulary: put vocab\.txt beside it")


@pytest.mark.parametrize("name", ["encoder.pkl", "token_embedder.pkl", "char.dic", "word.dic"])
def test_many_langs_files_missing(name: str, tmp_path: Path) -> None:
    directory = write_many_langs(tmp_path / "m")
    (directory / name).unlink()
    refused(directory, ElmokitError, name.replace(".", r"\."))


def test_a_text_file_called_hdf5(peer: Path) -> None:
    (peer / "weights.hdf5").write_text("version https://git-lfs.github.com/spec/v1\n")
    refused(peer, FormatError, "is not an HDF5 file")


# --- settings ---

HUGE = (10**12, 10**18, 10**30)


@pytest.mark.parametrize("value", [0, -1, *HUGE, float("nan"), float("inf"), 1.5, "eight", "", None, [], {}, [8]])
@pytest.mark.parametrize("key", ["lstm__dim", "lstm__projection_dim", "lstm__n_layers", "char_cnn__embedding__dim"])
def test_sizes_in_options(key: str, value: Any, peer: Path) -> None:
    edit_json(peer / "options.json", **{key: value})
    refused(peer)


@pytest.mark.parametrize("value", [-1, *HUGE, float("nan"), 1.5, "two", [], {}, 1, 3])
def test_highways_in_options(value: Any, peer: Path) -> None:
    edit_json(peer / "options.json", char_cnn__n_highway=value)
    refused(peer)


@pytest.mark.parametrize("value", [0, 2, -1, *HUGE, float("nan"), "fifty", None, [], {}])
def test_max_characters_in_options(value: Any, peer: Path) -> None:
    edit_json(peer / "options.json", char_cnn__max_characters_per_token=value)
    refused(peer, ConfigError, "max_characters")


@pytest.mark.parametrize(
    "value",
    [
        [],
        "[[1, 4]]",
        ["1", "4"],
        [[1]],
        [[1, 4, 5]],
        [[0, 4]],
        [[1, 0]],
        [[-1, 4]],
        [[1, 10**12]],
        [[10**12, 4]],
        [[1, 2**24], [2, 2**24]],
        [[60, 4], [2, 5], [3, 3]],
        [["a", "b"]],
        [[float("nan"), 4]],
        None,
        {"1": 4},
        7,
    ],
)
def test_filters_in_options(value: Any, peer: Path) -> None:
    edit_json(peer / "options.json", char_cnn__filters=value)
    refused(peer, ElmokitError, "filter|W_cnn")


@pytest.mark.parametrize("value", [0, -3, float("nan"), float("inf"), "three", [], {}])
@pytest.mark.parametrize("key", ["lstm__cell_clip", "lstm__proj_clip"])
def test_clips_in_options(key: str, value: Any, peer: Path) -> None:
    edit_json(peer / "options.json", **{key: value})
    refused(peer, ConfigError, r"lstm\.(cell|proj)_clip")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"char_cnn__activation": "gelu"}, r"activation.*gelu"),
        ({"char_cnn__activation": "two\nlines " * 50}, "activation"),
        ({"char_cnn__n_characters": 128}, "n_characters is '128'"),
        ({"char_cnn__n_characters": "two\nlines " * 50}, "n_characters"),
        ({"char_cnn__embedding": 16}, r"embedding\.dim"),
        ({"char_cnn__filters": ...}, r"char_cnn\.filters"),
        ({"char_cnn": []}, "char_cnn must be an object"),
        ({"char_cnn": None}, "char_cnn must be an object"),
        ({"char_cnn": ...}, "embedding"),
        ({"lstm": 5}, "needs an object with the key lstm"),
        ({"lstm": ...}, "needs an object with the key lstm"),
        ({"lstm__dim": ...}, r"lacks lstm\.dim"),
        ({"lstm__n_layers": ...}, r"lacks lstm\.n_layers"),
        ({"lstm__use_skip_connections": "perhaps"}, "skip_connections"),
        ({"n_tokens_vocab": -5}, "n_tokens_vocab.*-5"),
        ({"n_tokens_vocab": 10**12}, "n_tokens_vocab.*1000000000000"),
        ({"n_tokens_vocab": True}, "n_tokens_vocab"),
        ({"n_tokens_vocab": None}, "vocab_size must be given"),
        ({"n_tokens_vocab": [10]}, "n_tokens_vocab"),
    ],
)
def test_other_options(changes: dict[str, Any], match: str, peer: Path) -> None:
    edit_json(peer / "options.json", **changes)
    refused(peer, ElmokitError, match)


@pytest.mark.parametrize("key", ["lstm__dim", "lstm__n_layers", "char_cnn__n_highway", "char_cnn__embedding__dim"])
def test_booleans_are_no_sizes(key: str, peer: Path) -> None:
    edit_json(peer / "options.json", **{key: True})
    refused(peer)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (b"[" * 100_000, "not JSON"),
        (b'{"lstm":' * 100_000, "not JSON"),
        (b'{"lstm": {"dim": ' + b"1" * 5000 + b"}}", "not JSON"),
        (b'{"lstm": {}', "not JSON"),
        (b'{"name": "\xe9"}', "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"\xff\xfe{\0}\0", "not JSON"),
        (b"", "not JSON"),
        (b"[]", ""),
        (b"3", ""),
        (b'"lstm"', ""),
        (b"NaN", ""),
        (b"{}", ""),
    ],
)
def test_texts_that_are_no_settings(text: bytes, match: str, peer: Path, native: Path, tmp_path: Path) -> None:
    many = write_many_langs(tmp_path / "many")
    for directory, name in ((peer, "options.json"), (native, "config.json"), (many, "config.json")):
        (directory / name).write_bytes(text)
        refused(directory, ElmokitError, f"{name}.*{match}")


@pytest.mark.parametrize("value", [2, 0, "1", None, [], "two\nlines " * 50])
def test_other_format_versions(value: Any, native: Path) -> None:
    edit_json(native / "config.json", format_version=value)
    refused(native, FormatError, "has format_version .* install a newer elmokit")


@pytest.mark.parametrize("changes", [{"format": "bert"}, {"format": ...}, {"model": ...}, {"format": ["elmokit"]}])
def test_configs_of_other_programs(changes: dict[str, Any], native: Path) -> None:
    edit_json(native / "config.json", **changes)
    refused(native, FormatError, "is not the config of an elmokit model")


@pytest.mark.parametrize("value", [0, -1, *HUGE, float("nan"), "x", None, [], {}, True])
@pytest.mark.parametrize(
    "key",
    [
        "model__lstm__num_layers",
        "model__lstm__cell_dim",
        "model__input__num_highway",
        "model__input__max_characters",
        "model__input__char_dim",
        "model__input__num_characters",
        "model__input__filters",
        "model__vocab_size",
        "model__lstm",
        "model__input",
        "model",
    ],
)
def test_sizes_in_native_configs(key: str, value: Any, native: Path) -> None:
    edit_json(native / "config.json", **{key: value})
    refused(native)


def test_every_fault_of_a_config_in_one_line(native: Path) -> None:
    edit_json(native / "config.json", model__lstm__cell_dim=-1, model__surplus=1, model__input__char_dim="x")
    text = str(refused(native, ConfigError))
    assert "lstm.cell_dim" in text and "surplus" in text and "input.char_dim" in text


def test_a_config_with_more_faults_than_a_line_holds(native: Path) -> None:
    edit_json(native / "config.json", **{f"model__{'long' * 9}{number}\nkey": 1 for number in range(50)})
    assert "longlong" in str(refused(native, ConfigError))


# --- tensors ---

CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"


@pytest.mark.parametrize(
    ("changes", "tensor", "shapes"),
    [
        ({"lstm__dim": 16}, f"{CELL}/W_0", ("(12, 32)", "(12, 64)")),
        ({"lstm__projection_dim": 4}, "CNN_proj/W_proj", ("(12, 6)", "(12, 4)")),
        ({"char_cnn__embedding__dim": 5}, "char_embed", ("(261, 4)", "(261, 5)")),
        ({"char_cnn__filters": [[1, 4], [2, 5], [3, 4]]}, "CNN/W_cnn_2", ("(1, 3, 4, 3)", "(1, 3, 4, 4)")),
    ],
)
def test_options_that_contradict_shapes(
    changes: dict[str, Any], tensor: str, shapes: tuple[str, str], peer: Path
) -> None:
    edit_json(peer / "options.json", **changes)
    error = str(refused(peer, WeightsError, "belong to different models"))
    assert f"tensor {tensor} has shape {shapes[0]}, but the settings ask for {shapes[1]}" in error
    assert str(peer / "weights.hdf5") in error


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"lstm__n_layers": 3}, r"lacks the tensor .*Cell2/LSTMCell/W_0 \(12, 32\)"),
        ({"char_cnn__n_highway": 3}, r"lacks the tensor CNN_high_2/W_carry \(12, 12\)"),
        ({"lstm__n_layers": 1}, "holds RNN_0/RNN/MultiRNNCell/Cell1, for which .* has no place"),
        ({"char_cnn__n_highway": 1}, "holds CNN_high_1, for which .* has no place"),
        ({"char_cnn__n_highway": ...}, "holds CNN_high_0, for which .* has no place"),
        ({"char_cnn__filters": [[1, 4], [2, 5]]}, "holds CNN/W_cnn_2, for which .* has no place"),
    ],
)
def test_options_of_a_larger_or_smaller_model(changes: dict[str, Any], match: str, peer: Path) -> None:
    edit_json(peer / "options.json", **changes)
    refused(peer, WeightsError, match)


def test_a_missing_projection_must_not_be_needed(peer: Path) -> None:
    with h5py.File(peer / "weights.hdf5", "a") as file:
        del file[f"{CELL}/W_P_0"]
    refused(peer, WeightsError, "lacks the projection W_P_0.*dim 8 and projection_dim 6")


@pytest.mark.slow
def test_every_tensor_of_a_file_is_needed(peer: Path, native: Path) -> None:
    names: list[str] = []
    with h5py.File(peer / "weights.hdf5") as file:
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    original = (peer / "weights.hdf5").read_bytes()
    optional = {"lm/softmax/b", "lm/softmax/W"}  # without its bias, a model has no softmax
    assert len(names) > 20
    for name in set(names) - optional:
        with h5py.File(peer / "weights.hdf5", "a") as file:
            del file[name]
        refused(peer, WeightsError, name.rpartition("/")[2])
        (peer / "weights.hdf5").write_bytes(original)
    tensors = load_file(native / "model.safetensors")
    for name in tensors:
        save_file({other: tensors[other] for other in tensors if other != name}, native / "model.safetensors")
        refused(native, WeightsError, f"lacks the tensor {name}")


def test_native_tensors_beyond_the_config(native: Path) -> None:
    path = native / "model.safetensors"
    save_file(load_file(path) | {"a.b": torch.zeros(1), "c.d": torch.zeros(1)}, path)
    refused(native, WeightsError, r"holds 2 tensors that its config has no place for, e\.g\. a\.b")


def test_native_shapes(native: Path) -> None:
    path = native / "model.safetensors"
    save_file(load_file(path) | {"encoder.char_table": torch.zeros(261, 5)}, path)
    refused(native, WeightsError, r"encoder\.char_table has shape \(261, 5\), but the settings ask for \(261, 4\)")


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.bool])
def test_numbers_of_other_kinds(dtype: torch.dtype, native: Path, peer: Path) -> None:
    path = native / "model.safetensors"
    tensors = load_file(path)
    save_file(tensors | {"encoder.char_table": tensors["encoder.char_table"].to(dtype)}, path)
    refused(native, WeightsError, rf"encoder\.char_table holds {dtype}, but weights are floating point")
    with h5py.File(peer / "weights.hdf5", "a") as file:
        del file["char_embed"]
        file["char_embed"] = np.ones((261, 4), dtype=str(dtype).removeprefix("torch."))
    refused(peer, WeightsError, "char_embed holds .*, but weights are floating point")


@pytest.mark.parametrize("value", ["text", b"bytes", np.complex64(1), np.void(b"xx")])
def test_hdf5_values_of_other_kinds(value: Any, peer: Path) -> None:
    with h5py.File(peer / "weights.hdf5", "a") as file:
        del file["char_embed"]
        file["char_embed"] = value
    refused(peer, WeightsError, "char_embed")


def header(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Rewrite the header of a safetensors file."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    values = json.loads(data[8 : 8 + size])
    changed = change(values)
    text = json.dumps(values if changed is None else changed).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["encoder.char_table"].update(shape=[261, 4000]),
        lambda h: h["encoder.char_table"].update(shape=[2**40, 2**40]),
        lambda h: h["encoder.char_table"].update(shape=[-261, -4]),
        lambda h: h["encoder.char_table"].update(data_offsets=[0, 2**60]),
        lambda h: h["encoder.char_table"].update(data_offsets=[2**60, 0]),
        lambda h: h["encoder.char_table"].update(dtype="F31"),
        lambda h: h["encoder.char_table"].update(dtype="F64"),
        lambda h: {},
        lambda h: [1],
    ],
)
def test_lying_safetensors_headers(change: Callable[[dict[str, Any]], Any], native: Path) -> None:
    header(native / "model.safetensors", change)
    refused(native, WeightsError)


def test_a_safetensors_header_longer_than_the_file(native: Path) -> None:
    path = native / "model.safetensors"
    for length in (2**20, 2**62, 2**64 - 1):
        path.write_bytes(struct.pack("<Q", length) + path.read_bytes()[8:])
        refused(native, WeightsError, "cut short, damaged or not safetensors")


# --- word lists ---


@pytest.mark.parametrize(
    ("lines", "kind", "match"),
    [
        (["</S>", "<UNK>", "a"], VocabularyError, "lacks <S>"),
        (["<S>", "<UNK>", "a"], VocabularyError, "lacks </S>"),
        (["<S>", "</S>", "a"], VocabularyError, "lacks <UNK>"),
        (["</S>", "<S>", "<UNK>", "a"], VocabularyError, "has <S> on line 2"),
        (["a", "<S>", "</S>", "<UNK>"], VocabularyError, "has <S> on line 2"),
        (["<S>", "</S>", "<UNK>", "<S>"], VocabularyError, "has <S> on lines 1, 4"),
        (["<S>", "</S>", "<UNK>", *["<UNK>"] * 100], VocabularyError, "has <UNK> on lines 3, 4, 5, 6, 7:"),
        ([], VocabularyError, "lacks <S>"),
        (["<S>", "</S>", "<UNK>", "a"], ConfigError, "4 words, but the model has 10"),
        (["<S>", "</S>", "<UNK>", *"abcdefghi"], ConfigError, "12 words, but the model has 10"),
    ],
)
def test_vocabularies_that_do_not_fit(
    lines: list[str], kind: type[ElmokitError], match: str, native: Path, peer: Path
) -> None:
    for directory in (native, peer):
        (directory / "vocab.txt").write_text("".join(f"{line}\n" for line in lines))
        refused(directory, kind, match)


def test_a_vocabulary_that_is_not_utf8(native: Path, peer: Path) -> None:
    for directory in (native, peer):
        (directory / "vocab.txt").write_bytes(b"<S>\n</S>\n<UNK>\nna\xefve\n")
        refused(directory, InputError, r"vocab\.txt is not UTF-8 text")


def test_a_compressed_vocabulary_that_is_damaged(peer: Path) -> None:
    (peer / "vocab.txt.gz").write_bytes((peer / "vocab.txt").read_bytes())
    refused(peer, InputError, r"vocab\.txt\.gz is damaged or not a \.gz file")


def test_token_models_need_the_table_they_declare(tiny: Tiny, tmp_path: Path) -> None:
    save_quietly(tiny("untied"), tmp_path / "m", format="bilm")
    edit_json(tmp_path / "m" / "options.json", n_tokens_vocab=11)
    refused(tmp_path / "m", WeightsError, r"embedding has shape \(10, 6\), but the settings ask for \(11, 6\)")


@pytest.mark.parametrize("name", ["char.dic", "word.dic"])
@pytest.mark.parametrize("fault", ["missing", "beyond", "empty", "mark"])
def test_native_tables(name: str, fault: str, tmp_path: Path) -> None:
    save(load(write_many_langs(tmp_path / "theirs")), tmp_path / "m")
    path = tmp_path / "m" / name
    if fault == "missing":
        path.unlink()
    elif fault == "beyond":
        path.write_text(path.read_text() + "zz\t10\n")
    elif fault == "empty":
        path.write_text("")
    else:
        write_dictionary(path, ("<bos>", "<oov>"))
    words = {"missing": "No such file", "beyond": "ids up to 10", "empty": "lacks <bos>", "mark": "lacks <eos>"}
    refused(tmp_path / "m", InputError, words[fault])
