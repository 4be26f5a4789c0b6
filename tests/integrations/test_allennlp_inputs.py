"""What AllenNLP's ELMo accepts: sentences, files, settings and pickles."""

import io
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmokit.errors import ConfigError, ElmokitWarning, FormatError, InputError
from elmokit.integrations.allennlp import Elmo, ElmoEmbedder, batch_to_ids
from tests.formats.loopback import serve
from tests.parity.allennlp_peer import load_peer, quiet, requires_peer
from tests.reference import random_bilm, write_bilm

Files = tuple[str, str]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("bilm")
    write_bilm(folder, *random_bilm(3, max_characters=50))
    (options,), (weights,) = folder.glob("*.json"), folder.glob("*.hdf5")
    return str(options), str(weights)


@requires_peer
@pytest.mark.parametrize("batch", [["naïve", "ab"], "ab"], ids=["sentences", "batch"])
def test_a_str_is_the_list_of_its_characters(batch: Any, files: Files) -> None:
    with pytest.warns(ElmokitWarning, match="each of its characters is a token") as told:
        ids = batch_to_ids(batch)
    assert len(told) == 1
    with quiet():
        assert torch.equal(ids, load_peer().batch_to_ids(batch))
    split = [list(sentence) for sentence in batch]
    for name in ("embed_batch", "embed_sentences"):
        with pytest.warns(ElmokitWarning, match="each of its characters"):
            found = list(getattr(ElmoEmbedder(*files), name)(batch))
        for one, other in zip(found, getattr(ElmoEmbedder(*files), name)(split), strict=True):
            assert np.array_equal(one, other)
    with pytest.warns(ElmokitWarning, match="each of its characters"):
        assert ElmoEmbedder(*files).embed_sentence("abc").shape[1] == 3


def test_series_of_every_kind(files: Files) -> None:
    batch = [["They", "play"], ["a"]]
    expected = ElmoEmbedder(*files).embed_batch(batch)
    kinds: list[Callable[[], Any]] = [
        lambda: (iter(sentence) for sentence in batch),
        lambda: tuple(map(tuple, batch)),
        lambda: [np.array(sentence) for sentence in batch],
    ]
    for kind in kinds:
        assert torch.equal(batch_to_ids(kind()), batch_to_ids(batch))
        embedder = ElmoEmbedder(*files)
        for found in (embedder.embed_batch(kind()), ElmoEmbedder(*files).embed_sentences(kind())):
            for one, other in zip(found, expected, strict=True):
                assert np.array_equal(one, other)


@pytest.mark.parametrize("wrong", [[[None]], [None], None, 3, [[3]], {"a": 1}, b"ab", [b"ab"]])
def test_what_is_no_sentence_is_one_sentence(wrong: Any, files: Files) -> None:
    for call in (batch_to_ids, ElmoEmbedder(*files).embed_batch, ElmoEmbedder(*files).batch_to_embeddings):
        with pytest.raises(InputError, match=r"token|sentence"):
            call(wrong)


def test_a_path_may_begin_with_the_home_directory(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for file, name in zip(files, ("o.json", "w.hdf5"), strict=True):
        shutil.copy(file, tmp_path / name)
    ids = batch_to_ids([["They", "play"]])
    for options, weights in (("~/o.json", "~/w.hdf5"), (Path("~/o.json"), Path("~/w.hdf5"))):
        found = Elmo(options, weights, 1).eval()(ids)["elmo_representations"][0]  # type: ignore[arg-type]
        assert torch.equal(found, Elmo(*files, 1).eval()(ids)["elmo_representations"][0])
    with pytest.raises(FormatError, match="does not exist"):
        Elmo("~/nowhere.json", "~/w.hdf5", 1)


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("s3://bucket/o.json", "only http://, https:// and hf:// are fetched"),
        ("hf://owner/o.json", "write hf://owner/repository/file"),
        ("hf://owner/repository/../o.json", "write hf://owner/repository/file"),
        ("", "options_file is empty"),
        (3, "must be a path"),
    ],
)
def test_files_that_are_nowhere(file: Any, sentence: str, files: Files) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Elmo(file, files[1], 1)


FROM_HUB = """
import sys
from elmokit.errors import ElmokitError
from elmokit.integrations.allennlp import Elmo
try:
    Elmo(*(f"hf://owner/elmo@main/{name}" for name in sys.argv[1:]), 1)
    print("loaded")
except ElmokitError as error:
    print(error)
"""


@pytest.mark.slow
def test_files_of_the_hub(files: Files, tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "ELMOKIT_"))}
    with serve() as server:
        server.add_hub_repository("owner/elmo", {"o_options.json": Path(files[0]).read_bytes(),
                                                 "w.hdf5": Path(files[1]).read_bytes()})  # fmt: skip
        own = {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}
        for names, expected in (
            (("o_options.json", "w.hdf5"), "loaded"),
            (("o_options.json", "v.hdf5"), "no such file"),
        ):
            done = subprocess.run(
                [sys.executable, "-c", FROM_HUB, *names], env=kept | own, capture_output=True, text=True, timeout=120
            )
            assert expected in done.stdout, done.stderr


class Params(dict):
    """AllenNLP's class of settings, which adds files to the archive of a model."""

    def __init__(self, settings: dict) -> None:
        super().__init__(settings)
        self.archived: list[str] = []

    def add_file_to_archive(self, name: str) -> None:
        self.archived.append(name)


def test_from_params(files: Files) -> None:
    settings = {"options_file": files[0], "weight_file": files[1], "num_output_representations": "2"}
    more = {"type": "elmo", "dropout": "0.25", "do_layer_norm": "true", "scalar_mix_parameters": [1, 2, 3]}
    params = Params(settings | more)
    elmo = Elmo.from_params(params)
    assert params.archived == ["options_file", "weight_file"] and not params
    assert elmo._dropout.p == 0.25 and len(elmo._scalar_mixes) == 2
    assert elmo._scalar_mixes[0].layer_norm == "batch"
    assert elmo.scalar_mix_1.scalar_parameters[2].item() == 3
    for wrong, sentence in (
        (settings | {"nonsense": 1}, "Elmo has no setting 'nonsense': choose from options_file"),
        ({"options_file": files[0], "weight_file": files[1]}, "Elmo needs the setting num_output_representations"),
        (settings | {"dropout": "much"}, "dropout is 'much': give a number"),
        (settings | {"requires_grad": "yes"}, "requires_grad is 'yes': give true or false"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            Elmo.from_params(dict(wrong))
    with pytest.raises(ConfigError, match="give a dict of settings"):
        Elmo.from_params([])  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["pickle", "torch"])
def test_a_pickle_has_its_state_and_trains_on(how: str, files: Files) -> None:
    elmo = Elmo(*files, 1, requires_grad=True, dropout=0.0, vocab_to_cache=["<pad>", "They"])
    ids = batch_to_ids([["They", "play"]])
    elmo(ids)
    if how == "pickle":
        copy = pickle.loads(pickle.dumps(elmo))
    else:
        file = io.BytesIO()
        torch.save(elmo, file)
        file.seek(0)
        copy = torch.load(file, weights_only=False)
    assert {name: p.shape for name, p in copy.named_parameters()} == {n: p.shape for n, p in elmo.named_parameters()}
    first, second = (module(ids)["elmo_representations"][0] for module in (elmo, copy))
    assert torch.equal(first, second)  # both began with the carried state
    second.sum().backward()
    with torch.no_grad():
        for name, parameter in copy.named_parameters():
            if "_word_embedding" not in name:  # frozen
                parameter.sub_(parameter.grad, alpha=0.1)
    assert not torch.equal(copy(ids)["elmo_representations"][0], elmo(ids)["elmo_representations"][0])
    pickle.loads(pickle.dumps(ElmoEmbedder(*files))).embed_sentence(["They"])
