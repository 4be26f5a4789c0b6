import hashlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elmokit.cli.main import app
from elmokit.formats import SaveFormat, describe, remote, save
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from tests.contracts.format import Tiny, save_quietly
from tests.formats.makers import write_many_langs


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("format", "files"),
    [
        ("native", ["config.json", "model.safetensors", "vocab.txt"]),
        ("bilm", ["options.json", "weights.hdf5", "vocab.txt"]),
        ("nlpl", ["m.zip"]),
    ],
)
def test_what_is_told(format: SaveFormat, files: list[str], bilm: BiLM, tmp_path: Path) -> None:
    path = tmp_path / "m.zip"
    save(bilm, path, format=format)
    info = describe(str(path))
    assert (info.source, info.path, info.format) == (str(path), str(path), format)
    assert (info.num_layers, info.output_dim, info.vocab_size, info.softmax) == (3, 12, 10, True)
    assert info.num_parameters == sum(tensor.numel() for tensor in bilm.state_dict().values())
    assert info.fingerprint == fingerprint(bilm)
    assert info.config.lstm == bilm.config.lstm
    folder = tmp_path if format == "nlpl" else path
    assert info.files == {name: sha256(folder / name) for name in files}


def test_models_without_words_or_languages(tiny: Tiny, tmp_path: Path) -> None:
    save_quietly(tiny("bare"), tmp_path / "m", format="bilm")
    info = describe(tmp_path / "m" / "options.json")
    assert (info.vocab_size, info.softmax, info.languages) == (None, False, ())
    assert sorted(info.files) == ["options.json", "weights.hdf5"]
    assert info.path == str(tmp_path / "m")


def test_many_langs(tmp_path: Path) -> None:
    info = describe(write_many_langs(tmp_path / "m"))
    assert info.format == "many-langs"
    assert sorted(info.files) == ["char.dic", "config.json", "encoder.pkl", "token_embedder.pkl", "word.dic"]


def test_publisher_and_license(bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(bilm, tmp_path / "m", format="bilm")
    monkeypatch.setattr(remote, "fetch_published", lambda model: tmp_path / "m")
    info = describe("original")
    assert (info.publisher, info.languages) == ("AllenNLP", ("en",))
    assert info.license is not None and "no license is stated" in info.license
    local = describe(tmp_path / "m")
    assert (local.publisher, local.note, local.license) == (None, None, None)
    rows = CliRunner().invoke(app, ["info", "original"]).stdout
    assert f"publisher    AllenNLP\nnote         {info.note}\nlicense      {info.license}\n" in rows


def test_as_json(bilm: BiLM, tmp_path: Path) -> None:
    bilm.config = bilm.config.model_copy(update={"languages": ("nb", "nn")})
    save(bilm, tmp_path / "m")
    told = json.loads(json.dumps(describe(tmp_path / "m").to_dict()))
    assert told["languages"] == ["nb", "nn"]
    assert told["config"]["lstm"]["cell_dim"] == 8
    assert set(told) >= {"source", "format", "path", "num_parameters", "fingerprint", "files", "vocab_size", "softmax"}
