import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import elmokit
from elmokit.config import CharacterInput, TokenizerConfig
from elmokit.errors import ConfigError, ElmokitWarning
from elmokit.formats import bilm_hdf5, load, save
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from tests.conftest import SENTENCES
from tests.contracts.format import FormatContract, Tiny, assert_bit_equal, assert_same_model, save_quietly
from tests.formats.makers import edit_json

ORIGINAL_OPTIONS: dict[str, Any] = {
    "all_clip_norm_val": 10,
    "batch_size": 128,
    "bidirectional": True,
    "dropout": 0.1,
    "learning_rate": 0.2,
    "n_epochs": 10,
    "n_negative_samples_batch": 8192,
    "n_tokens_vocab": 793471,
    "n_train_tokens": 768648884,
    "sample_softmax": True,
    "share_embedding_softmax": False,
    "unroll_steps": 20,
}


class TestBilm(FormatContract):
    format = "bilm"
    writer = bilm_hdf5


def write_by_hand(directory: Path, bilm: BiLM, *, one_layer: bool = False, **options: Any) -> Path:
    """The files of a character model as bilm-tf dumps them, by FORMATS.md rather than by elmokit's own table."""
    directory.mkdir(parents=True)
    state = {name: tensor.numpy() for name, tensor in bilm.state_dict().items()}
    characters, lstm = bilm.config.input, bilm.config.lstm
    assert isinstance(characters, CharacterInput)
    char_cnn = {
        "activation": characters.activation,
        "embedding": {"dim": characters.char_dim},
        "filters": [list(group) for group in characters.filters],
        "max_characters_per_token": characters.max_characters,
        "n_characters": 261,
        "n_highway": characters.num_highway,
    }
    stack = {
        "cell_clip": lstm.cell_clip,
        "dim": lstm.cell_dim,
        "n_layers": lstm.num_layers,
        "proj_clip": lstm.projection_clip,
        "projection_dim": lstm.output_dim,
        "use_skip_connections": lstm.skip_connections,
    }
    (directory / "options.json").write_text(json.dumps({"lstm": stack, "char_cnn": char_cnn} | options))
    with h5py.File(directory / "weights.hdf5", "w") as file:
        file["char_embed"] = state["encoder.char_table"]
        for index in range(len(characters.filters)):
            file[f"CNN/W_cnn_{index}"] = state[f"encoder.convolutions.{index}.weight"][None]
            file[f"CNN/b_cnn_{index}"] = state[f"encoder.convolutions.{index}.bias"]
        for depth in range(characters.num_highway):
            for part in ("carry", "transform"):
                file[f"CNN_high_{depth}/W_{part}"] = state[f"encoder.highways.{depth}.{part}.weight"]
                file[f"CNN_high_{depth}/b_{part}"] = state[f"encoder.highways.{depth}.{part}.bias"]
        if characters.projected:
            file["CNN_proj/W_proj"] = state["encoder.projection.weight"]
            file["CNN_proj/b_proj"] = state["encoder.projection.bias"]
        for number, direction in enumerate(("forward", "backward")):
            for depth in range(lstm.num_layers):
                ours = f"{direction}_lstm.layers.{depth}"
                folder = f"RNN_{number}/RNN/" + ("" if one_layer else f"MultiRNNCell/Cell{depth}/") + "LSTMCell"
                joint = np.concatenate([state[f"{ours}.input_weight"], state[f"{ours}.recurrent_weight"]], axis=0)
                file[f"{folder}/W_0"] = _ijfo(joint)
                file[f"{folder}/B"] = _ijfo(state[f"{ours}.bias"])
                if lstm.projection_dim is not None:
                    file[f"{folder}/W_P_0"] = state[f"{ours}.projection_weight"]
    return directory


def _ijfo(array: Any) -> Any:
    size = array.shape[-1] // 4
    input_gate, forget, output, candidate = (array[..., start * size : (start + 1) * size] for start in range(4))
    return np.concatenate([input_gate, candidate, forget, output], axis=-1)


@pytest.mark.parametrize("kind", ["characters", "bare", "one-layer"])
def test_files_written_by_hand(kind: str, tiny: Tiny, tmp_path: Path) -> None:
    bilm = tiny(kind)
    write_by_hand(tmp_path / "m", bilm)
    assert_same_model(load(tmp_path / "m"), bilm)


def test_one_layer_as_bilm_tf_dumps_it(tiny: Tiny, tmp_path: Path) -> None:
    bilm = tiny("one-layer")
    write_by_hand(tmp_path / "m", bilm, one_layer=True)
    loaded = load(tmp_path / "m")
    assert_bit_equal(loaded, bilm)
    save(loaded, tmp_path / "again", format="bilm")
    with h5py.File(tmp_path / "again" / "weights.hdf5") as file:
        assert "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0" in file
        assert "RNN_1/RNN/LSTMCell" not in file
    assert_same_model(load(tmp_path / "again"), loaded)


@pytest.mark.parametrize("n_characters", [261, 262, ...])
def test_261_and_262_characters_are_the_same(n_characters: Any, tiny: Tiny, tmp_path: Path) -> None:
    bilm = tiny("characters")
    write_by_hand(tmp_path / "m", bilm)
    edit_json(tmp_path / "m" / "options.json", char_cnn__n_characters=n_characters)
    loaded = load(tmp_path / "m")
    assert fingerprint(loaded) == fingerprint(bilm)
    save(loaded, tmp_path / "again", format="bilm")
    assert json.loads((tmp_path / "again" / "options.json").read_text())["char_cnn"]["n_characters"] == 262


@pytest.mark.parametrize("absent", [None, ...])
def test_absent_options_mean_none(absent: Any, tiny: Tiny, tmp_path: Path) -> None:
    write_by_hand(tmp_path / "m", tiny("bare"))
    edit_json(
        tmp_path / "m" / "options.json",
        lstm__cell_clip=absent,
        lstm__proj_clip=absent,
        char_cnn__n_highway=absent,
    )
    edit_json(tmp_path / "m" / "options.json", lstm__use_skip_connections=...)
    config = load(tmp_path / "m").config
    assert isinstance(config.input, CharacterInput)
    assert (config.lstm.cell_clip, config.lstm.projection_clip, config.input.num_highway) == (None, None, 0)
    assert not config.lstm.skip_connections
    assert config.lstm.projection_dim is None and not config.input.projected


def test_written_names_and_shapes(bilm: BiLM, tmp_path: Path) -> None:
    save(bilm, tmp_path / "m", format="bilm")
    with h5py.File(tmp_path / "m" / "weights.hdf5") as file:
        shapes: dict[str, tuple[int, ...]] = {}
        file.visititems(
            lambda name, item: shapes.update({name: item.shape}) if isinstance(item, h5py.Dataset) else None
        )
        assert all(file[name].dtype == np.dtype("<f4") and not file[name].attrs for name in shapes)
        biases = np.split(file["RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/B"][()], 4)
    ours = bilm.state_dict()["forward_lstm.layers.1.bias"].chunk(4)  # i, f, o, j
    assert [np.array_equal(a, ours[b]) for a, b in zip(biases, (0, 3, 1, 2), strict=True)] == [True] * 4
    cells = {"W_0": (12, 32), "B": (32,), "W_P_0": (8, 6)}
    highway = {"W_carry": (12, 12), "W_transform": (12, 12), "b_carry": (12,), "b_transform": (12,)}
    assert shapes == {
        "char_embed": (261, 4),
        "CNN/W_cnn_0": (1, 1, 4, 4),
        "CNN/W_cnn_1": (1, 2, 4, 5),
        "CNN/W_cnn_2": (1, 3, 4, 3),
        "CNN/b_cnn_0": (4,),
        "CNN/b_cnn_1": (5,),
        "CNN/b_cnn_2": (3,),
        **{f"CNN_high_{k}/{name}": shape for k in (0, 1) for name, shape in highway.items()},
        "CNN_proj/W_proj": (12, 6),
        "CNN_proj/b_proj": (6,),
        **{
            f"RNN_{side}/RNN/MultiRNNCell/Cell{depth}/LSTMCell/{name}": shape
            for side in (0, 1)
            for depth in (0, 1)
            for name, shape in cells.items()
        },
        "lm/softmax/W": (10, 6),
        "lm/softmax/b": (10,),
    }


def test_token_models_keep_their_table_and_softmax(tiny: Tiny, tmp_path: Path) -> None:
    for kind in ("tokens", "tied", "untied"):
        save_quietly(tiny(kind), tmp_path / kind, format="bilm")
        with h5py.File(tmp_path / kind / "weights.hdf5") as file:
            assert file["embedding"].shape == (10, 6)
            assert ("lm/softmax/W" in file) == (kind == "untied")
            assert ("lm/softmax/b" in file) == (kind != "tokens")
        options = json.loads((tmp_path / kind / "options.json").read_text())
        assert "char_cnn" not in options
        assert options["n_tokens_vocab"] == 10
        assert options.get("share_embedding_softmax", False) == (kind == "tied")
        bilm = load(tmp_path / kind)
        assert bilm.to_char_ids([["the", "unheard-of"]]).tolist() == [[[4], [3]]]  # ids + 1, <UNK> is 2


def test_options_keep_what_they_said(tiny: Tiny, tmp_path: Path) -> None:
    write_by_hand(tmp_path / "m", tiny("characters"), **ORIGINAL_OPTIONS)
    save(load(tmp_path / "m"), tmp_path / "again", format="bilm")
    before = json.loads((tmp_path / "m" / "options.json").read_text())
    before["char_cnn"]["n_characters"], before["elmokit_version"] = 262, elmokit.__version__
    assert json.loads((tmp_path / "again" / "options.json").read_text()) == before


@pytest.mark.parametrize("tokenizer", [None, {"name": "elmokit", "version": 2}, {"name": "external", "version": None}])
def test_the_tokenizer_has_a_key_if_it_is_known(tokenizer: Any, tiny: Tiny, tmp_path: Path) -> None:
    bilm = tiny("characters")
    bilm.config = bilm.config.model_copy(update={"tokenizer": tokenizer and TokenizerConfig(**tokenizer)})
    save(bilm, tmp_path / "m", format="bilm")
    options = json.loads((tmp_path / "m" / "options.json").read_text(encoding="utf-8"))
    assert options.get("elmokit_tokenizer") == tokenizer and ("elmokit_tokenizer" in options) == bool(tokenizer)
    assert_same_model(load(tmp_path / "m"), bilm)
    (tmp_path / "m" / "options.json").write_text(json.dumps(options | {"elmokit_tokenizer": {"name": 3}}))
    with pytest.raises(ConfigError, match=r"elmokit_tokenizer\.name: input should be a valid string"):
        load(tmp_path / "m")


def test_unknown_keys_are_kept_and_told_once(tiny: Tiny, tmp_path: Path) -> None:
    write_by_hand(tmp_path / "m", tiny("characters"), zoneout=0.1)
    path = tmp_path / "m" / "options.json"
    edit_json(path, lstm__peephole=True, char_cnn__stride=1, char_cnn__embedding__note={"a": [1]})
    before = json.loads(path.read_text())
    before["char_cnn"]["n_characters"], before["bidirectional"] = 262, True
    before["elmokit_version"] = elmokit.__version__
    with pytest.warns(ElmokitWarning, match=r"zoneout, lstm\.peephole, char_cnn\.stride") as caught:
        bilm = load(tmp_path / "m")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(bilm, tmp_path / "bilm", format="bilm")
        save(bilm, tmp_path / "native")
        save(load(tmp_path / "native"), tmp_path / "back", format="bilm")
    assert json.loads((tmp_path / "bilm" / "options.json").read_text()) == before
    assert json.loads((tmp_path / "back" / "options.json").read_text()) == before
    with pytest.warns(ElmokitWarning) as caught:
        load(tmp_path / "back")
    assert len(caught) == 1


def test_peers_ignore_and_so_do_we(tiny: Tiny, tmp_path: Path) -> None:
    bilm = tiny("characters")
    write_by_hand(tmp_path / "m", bilm)
    with h5py.File(tmp_path / "m" / "weights.hdf5", "a") as file:
        file["optimizer/slots"] = np.zeros(3)
    assert fingerprint(load(tmp_path / "m")) == fingerprint(bilm)


@pytest.mark.parametrize(
    ("kind", "lacks"),
    [
        ("tied", "a character CNN"),
        ("bare", "CNN_proj, W_P_0, use_skip_connections: true"),
        ("characters", None),
        ("one-layer", None),
    ],
)
def test_exports_say_who_cannot_read_them(kind: str, lacks: str | None, tiny: Tiny, tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        save(tiny(kind), tmp_path / "m", format="bilm")
    assert [str(warning.message) for warning in caught] == (
        [f"AllenNLP will not read this export, which lacks {lacks}; elmokit and bilm-tf will."] if lacks else []
    )
    assert all(warning.filename == __file__ for warning in caught)


def test_another_forget_bias_moves_into_the_stored_one(bilm: BiLM, tmp_path: Path) -> None:
    bilm.config = bilm.config.model_copy(update={"lstm": bilm.config.lstm.model_copy(update={"forget_bias": 0.25})})
    for layer in (*bilm.forward_lstm.layers, *bilm.backward_lstm.layers):
        layer.forget_bias = 0.25
    save(bilm, tmp_path / "m", format="bilm")
    loaded = load(tmp_path / "m")
    assert loaded.config.lstm.forget_bias == 1.0
    char_ids = bilm.to_char_ids(SENTENCES)
    torch.testing.assert_close(loaded(char_ids).layers, bilm(char_ids).layers, rtol=0, atol=1e-6)


def test_a_vocabulary_size_without_a_softmax_decides_nothing(tiny: Tiny, tmp_path: Path) -> None:
    bilm = tiny("characters")
    expected = fingerprint(bilm)
    bilm.config = bilm.config.model_copy(update={"vocab_size": 793471})
    save(bilm, tmp_path / "m", format="bilm")
    assert json.loads((tmp_path / "m" / "options.json").read_text())["n_tokens_vocab"] == 793471
    assert fingerprint(bilm) == fingerprint(load(tmp_path / "m")) == expected


@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8"])
def test_other_float_types_are_read_as_float32(dtype: str, tiny: Tiny, tmp_path: Path) -> None:
    bilm = tiny("characters")
    write_by_hand(tmp_path / "m", bilm)
    with h5py.File(tmp_path / "m" / "weights.hdf5", "a") as file:
        values = file["char_embed"][()].astype(dtype)
        del file["char_embed"]
        file.create_dataset("char_embed", data=values, dtype=dtype, chunks=True, compression="gzip")
    loaded = load(tmp_path / "m").state_dict()["encoder.char_table"]
    assert loaded.dtype == torch.float32
    assert np.array_equal(loaded.numpy(), values.astype("<f4"))


def test_published_names_in_a_folder_of_several_models(tiny: Tiny, tmp_path: Path) -> None:
    for kind in ("characters", "one-layer"):
        write_by_hand(tmp_path / kind, tiny(kind))
        for ending in ("options.json", "weights.hdf5"):
            shutil.move(tmp_path / kind / ending, tmp_path / f"elmo_{kind}_{ending}")
    for kind in ("characters", "one-layer"):
        for ending in ("options.json", "weights.hdf5"):
            assert fingerprint(load(tmp_path / f"elmo_{kind}_{ending}")) == fingerprint(tiny(kind))


def test_a_vocabulary_of_a_published_name(tiny: Tiny, tmp_path: Path) -> None:
    save(tiny("softmax"), tmp_path / "m", format="bilm")
    for name in ("options.json", "weights.hdf5", "vocab.txt"):
        (tmp_path / "m" / name).rename(tmp_path / "m" / f"elmo_x_{name}")
    assert fingerprint(load(tmp_path / "m")) == fingerprint(tiny("softmax"))


def test_weights_that_lie_elsewhere(tiny: Tiny, tmp_path: Path) -> None:
    write_by_hand(tmp_path / "m", tiny("characters"))
    (tmp_path / "far").mkdir()
    shutil.move(tmp_path / "m" / "weights.hdf5", tmp_path / "far" / "anything.bin")
    loaded = load(tmp_path / "m" / "options.json", weights=tmp_path / "far" / "anything.bin")
    assert fingerprint(loaded) == fingerprint(tiny("characters"))
    loaded = load(str(tmp_path / "m" / "options.json"), weights=str(tmp_path / "far" / "anything.bin"))
    assert fingerprint(loaded) == fingerprint(tiny("characters"))
