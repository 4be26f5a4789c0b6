"""Small model files of the peers' formats, written here by hand rather than by elmokit."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from elmokit.errors import ElmokitError
from elmokit.formats import load

CHARACTERS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>", "a", "b", "\u3000", "é")
WORDS = ("<oov>", "<bos>", "<eos>", "<pad>", "the", "cat")
ARCHITECTURE: dict[str, Any] = {
    "encoder": {"name": "elmo", "projection_dim": 6, "cell_clip": 2, "proj_clip": 1.5, "dim": 8, "n_layers": 2},
    "token_embedder": {"name": "cnn", "activation": "tanh", "max_characters_per_token": 9},
    "classifier": {"name": "sampled_softmax", "n_samples": 8192},
    "dropout": 0.1,
}


def assert_one_sentence(error: BaseException, path: Path | str | None = None) -> None:
    """A message that a command line can print: one line, one full stop at its end, not too long, the file named."""
    assert isinstance(error, ElmokitError), repr(error)
    text = str(error)
    assert text.strip() == text and text.endswith(".") and not text.endswith(".."), text
    assert len(text.splitlines()) == 1, text
    assert len(text) < 500 + (len(str(path)) if path else 0), text
    if path is not None:
        assert str(path) in text, text


def refused(path: Path, kind: type[ElmokitError] = ElmokitError, match: str | None = None) -> ElmokitError:
    """What loading says, as one sentence that names the path or a file in it."""
    with pytest.raises(kind, match=match) as caught:
        load(path)
    assert_one_sentence(caught.value, path)
    return caught.value


def write_dictionary(path: Path, tokens: tuple[str, ...]) -> None:
    path.write_text("".join(f"{token}\t{index}\n" for index, token in enumerate(tokens)), encoding="utf-8")


def many_langs_tensors(*, char_dim: int = 4, word_dim: int = 3) -> dict[str, dict[str, Tensor]]:
    """The three pickles of a model with 9 filters, two layers of 8 cells and 6 outputs."""
    generator = torch.Generator().manual_seed(5)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator) / 2

    embedder = {"projection.weight": random(6, word_dim + (9 if char_dim else 0)), "projection.bias": random(6)}
    if word_dim:
        embedder["word_emb_layer.embedding.weight"] = random(len(WORDS), word_dim)
    if char_dim:
        embedder |= {
            "char_emb_layer.embedding.weight": random(len(CHARACTERS), char_dim),
            "convolutions.0.weight": random(4, char_dim, 1),
            "convolutions.0.bias": random(4),
            "convolutions.1.weight": random(5, char_dim, 2),
            "convolutions.1.bias": random(5),
            "highways._layers.0.weight": random(18, 9),
            "highways._layers.0.bias": random(18),
        }
    encoder: dict[str, Tensor] = {}
    for direction in ("forward", "backward"):
        for depth in range(2):
            layer = f"{direction}_layer_{depth}"
            encoder |= {
                f"{layer}.input_linearity.weight": random(32, 6),
                f"{layer}.state_linearity.weight": random(32, 6),
                f"{layer}.state_linearity.bias": random(32),
                f"{layer}.state_projection.weight": random(6, 8),
            }
    classifier = {
        "column_emb.weight": random(len(WORDS), 6),
        "column_bias.weight": random(len(WORDS), 1),
        "oov_column": random(6, 1),
    }
    return {"token_embedder.pkl": embedder, "encoder.pkl": encoder, "classifier.pkl": classifier}


def write_many_langs(
    directory: Path,
    pickles: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    zipped: bool = True,
    classifier: bool = False,
    architecture: Any = None,
    config_path: Any = "configs/cnn.json",
    architecture_path: str = "configs/cnn.json",
) -> Path:
    """A directory as ELMoForManyLangs leaves it; `zipped` chooses torch's newer pickles or the legacy ones."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps({"config_path": config_path, "lr": 0.001}))
    (directory / architecture_path).parent.mkdir(parents=True, exist_ok=True)
    (directory / architecture_path).write_text(json.dumps(ARCHITECTURE if architecture is None else architecture))
    write_dictionary(directory / "char.dic", CHARACTERS)
    write_dictionary(directory / "word.dic", WORDS)
    for name, tensors in (pickles or many_langs_tensors()).items():
        if name != "classifier.pkl" or classifier:
            torch.save(dict(tensors), directory / name, _use_new_zipfile_serialization=zipped)
    return directory


def edit_json(path: Path, **changes: Any) -> None:
    """Set dotted keys (`lstm__dim=3`) of a JSON file; `...` takes a key out."""
    values = json.loads(path.read_text(encoding="utf-8"))
    for dotted, value in changes.items():
        *folders, key = dotted.split("__")
        place = values
        for folder in folders:
            place = place[folder]
        if value is ...:
            del place[key]
        else:
            place[key] = value
    path.write_text(json.dumps(values), encoding="utf-8")
