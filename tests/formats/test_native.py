import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from elmokit.config import TokenizerConfig
from elmokit.formats import load, native, save
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from elmokit.text.characters import TableIndexer
from tests.contracts.format import FormatContract, assert_same_model
from tests.formats.makers import write_many_langs


class TestNative(FormatContract):
    format = "native"
    writer = native
    keeps_languages = True


def test_what_the_directory_holds(bilm: BiLM, tmp_path: Path) -> None:
    save(bilm, tmp_path / "m")
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == ["config.json", "model.safetensors", "vocab.txt"]
    settings = json.loads((tmp_path / "m" / "config.json").read_text())
    assert settings["format"] == "elmokit" and settings["format_version"] == 1
    assert settings["model"]["lstm"]["cell_dim"] == 8
    with safe_open(tmp_path / "m" / "model.safetensors", framework="pt") as file:
        assert sorted(file.keys()) == sorted(bilm.state_dict())
        assert file.metadata() == {"format": "pt"}


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_either_file_names_the_model(file: str, bilm: BiLM, tmp_path: Path) -> None:
    save(bilm, tmp_path / "m")
    assert_same_model(load(tmp_path / "m" / file), bilm)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_read_as_float32(dtype: torch.dtype, bilm: BiLM, tmp_path: Path) -> None:
    save(bilm, tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    save_file({name: tensor.to(dtype) for name, tensor in load_file(path).items()}, path)
    loaded = load(tmp_path / "m")
    for name, tensor in loaded.state_dict().items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, bilm.state_dict()[name].to(dtype).float()), name


@pytest.mark.parametrize("classifier", [False, True])
def test_many_langs_models_stay_whole(classifier: bool, tmp_path: Path) -> None:
    original = load(write_many_langs(tmp_path / "theirs", classifier=classifier))
    save(original, tmp_path / "ours")
    loaded = load(tmp_path / "ours")
    assert_same_model(loaded, original)
    assert isinstance(loaded.indexer, TableIndexer) and isinstance(original.indexer, TableIndexer)
    assert loaded.indexer.characters == original.indexer.characters
    assert loaded.indexer.words == original.indexer.words
    assert loaded.indexer.max_characters == 9


def test_odd_foreign_values_survive(bilm: BiLM, tmp_path: Path) -> None:
    nested: list[object] = []
    for _ in range(400):
        nested = [nested]
    foreign = {"options": {"half of a pair": "\ud800", "infinite": float("inf"), "nested": nested, "ключ": None}}
    bilm.config = bilm.config.model_copy(update={"foreign": foreign})
    save(bilm, tmp_path / "m")
    assert load(tmp_path / "m").config.foreign == foreign


def test_the_fingerprint_sees_everything_that_decides_the_output(bilm: BiLM, tmp_path: Path) -> None:
    seen = {fingerprint(bilm)}
    with torch.no_grad():
        bilm.forward_lstm.layers[0].bias[3] += 1e-3
    seen.add(fingerprint(bilm))
    bilm.config = bilm.config.model_copy(update={"lstm": bilm.config.lstm.model_copy(update={"cell_clip": 1.0})})
    seen.add(fingerprint(bilm))
    assert len(seen) == 3
    bilm.config = bilm.config.model_copy(update={"languages": ("en",), "foreign": {"options": {"dropout": 0.1}}})
    assert fingerprint(bilm) in seen
    theirs = load(write_many_langs(tmp_path / "a"))
    (tmp_path / "a" / "char.dic").write_text((tmp_path / "a" / "char.dic").read_text().replace("a\t", "q\t"))
    assert fingerprint(load(tmp_path / "a")) != fingerprint(theirs)


def test_models_that_name_no_tokenizer(bilm: BiLM, tmp_path: Path) -> None:
    """As all did at first."""
    save(bilm, tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["model"].pop("tokenizer", "") is None
    path.write_text(json.dumps(content), encoding="utf-8")
    assert_same_model(load(tmp_path / "m"), bilm)


def test_the_tokenizer_is_no_part_of_the_fingerprint(bilm: BiLM) -> None:
    before = fingerprint(bilm)
    bilm.config = bilm.config.model_copy(update={"tokenizer": TokenizerConfig(name="elmokit", version=7)})
    assert fingerprint(bilm) == before
