"""Files made to lead elsewhere, to swell or to run code: each is refused in one sentence."""

import io
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from elmokit.errors import FormatError, UnsafeFileError, WeightsError
from elmokit.formats import save
from elmokit.model.bilm import BiLM
from tests.formats.makers import edit_json, many_langs_tensors, refused, write_many_langs


@pytest.fixture
def peer(bilm: BiLM, tmp_path: Path) -> Path:
    """A bilm-tf model."""
    save(bilm, tmp_path / "bilm", format="bilm")
    return tmp_path / "bilm"


def replace(peer: Path, key: str, put: Callable[[h5py.File], Any]) -> None:
    with h5py.File(peer / "weights.hdf5", "a") as file:
        del file[key]
        put(file)


def test_links_in_hdf5(peer: Path, tmp_path: Path) -> None:
    shutil.copy(peer / "weights.hdf5", tmp_path / "other.hdf5")
    other = str(tmp_path / "other.hdf5")
    for key in ("char_embed", "CNN", "CNN_proj", "RNN_1", "lm"):
        saved = (peer / "weights.hdf5").read_bytes()
        for link in (h5py.ExternalLink(other, key), h5py.SoftLink("/CNN_high_0"), h5py.SoftLink("/" + key)):

            def put(file: h5py.File, key: str = key, link: Any = link) -> None:
                file[key] = link

            replace(peer, key, put)
            refused(peer, UnsafeFileError, "is a link to another place or file")
            (peer / "weights.hdf5").write_bytes(saved)


def test_data_outside_the_hdf5_file(peer: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(261 * 4 * 4))
    replace(
        peer,
        "char_embed",
        lambda file: file.create_dataset("char_embed", (261, 4), "<f4", external=[(str(secret), 0, 261 * 16)]),
    )
    refused(peer, UnsafeFileError, "char_embed points outside the file")


def test_virtual_datasets(peer: Path, tmp_path: Path) -> None:
    layout = h5py.VirtualLayout((261, 4), "<f4")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.hdf5"), "x", (261, 4))
    replace(peer, "char_embed", lambda file: file.create_virtual_dataset("char_embed", layout))
    refused(peer, UnsafeFileError, "char_embed points outside the file")


def test_datasets_that_were_never_written(peer: Path) -> None:
    huge = 2**24
    edit_json(peer / "options.json", char_cnn__embedding__dim=huge)
    replace(peer, "char_embed", lambda file: file.create_dataset("char_embed", (261, huge), "<f4", chunks=(1, 1024)))
    refused(peer, WeightsError, "char_embed was never written")


def test_datasets_that_swell(peer: Path) -> None:
    huge = 2**24  # 16 GiB as float32, of which one chunk is written

    def put(file: h5py.File) -> None:
        dataset = file.create_dataset("char_embed", (261, huge), "<f4", chunks=(1, 1024), compression="gzip")
        dataset[0, :1024] = 1

    edit_json(peer / "options.json", char_cnn__embedding__dim=huge)
    replace(peer, "char_embed", put)
    refused(peer, UnsafeFileError, r"unpacks to 17,515,413,504 bytes from")


def test_groups_and_nothing_where_tensors_should_be(peer: Path) -> None:
    replace(peer, "char_embed", lambda file: file.create_group("char_embed"))
    refused(peer, WeightsError, r"lacks the tensor char_embed \(261, 4\)")
    replace(peer, "char_embed", lambda file: file.create_dataset("char_embed", data=h5py.Empty("<f4")))
    refused(peer, WeightsError, "char_embed has shape None")
    replace(peer, "CNN", lambda file: file.create_dataset("CNN", data=1.0))
    refused(peer, WeightsError, "char_embed")


def test_one_direction_is_refused(peer: Path) -> None:
    with h5py.File(peer / "weights.hdf5", "a") as file:
        del file["RNN_0"], file["RNN_1"]
        file["rnn/MultiRNNCell/Cell0/LSTMCell/kernel"] = np.zeros((12, 32), dtype="<f4")
    refused(peer, FormatError, "language model of one direction")


class Trap:
    """Touches a file when it is unpickled by a program that trusts it."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> Any:
        return (Path.touch, (self.sprung,))


def plain_pickle(value: Any, path: Path) -> None:
    path.write_bytes(pickle.dumps(value))


def torch_zip(value: Any, path: Path) -> None:
    torch.save(value, path)


def torch_legacy(value: Any, path: Path) -> None:
    torch.save(value, path, _use_new_zipfile_serialization=False)


@pytest.mark.parametrize("write", [plain_pickle, torch_zip, torch_legacy])
@pytest.mark.parametrize("file", ["encoder.pkl", "token_embedder.pkl", "classifier.pkl"])
def test_pickles_do_not_run(write: Callable[[Any, Path], None], file: str, tmp_path: Path) -> None:
    directory = write_many_langs(tmp_path / "m", classifier=True)
    sprung = tmp_path / "sprung"
    write(many_langs_tensors()[file] | {"trap": Trap(sprung)}, directory / file)
    refused(directory, UnsafeFileError, f"{file.replace('.', '[.]')} wants to run code or is not a torch file")
    assert not sprung.exists()
    if write is plain_pickle:
        pickle.loads((directory / file).read_bytes())
        assert sprung.exists(), "the trap works on those who trust it"


def test_pickles_that_swell(tmp_path: Path) -> None:
    directory = write_many_langs(tmp_path / "m")
    stored = io.BytesIO()
    torch.save({"x": torch.zeros(5 << 18)}, stored)
    with (
        zipfile.ZipFile(stored) as source,
        zipfile.ZipFile(directory / "encoder.pkl", "w", zipfile.ZIP_DEFLATED) as sink,
    ):
        for member in source.infolist():
            sink.writestr(member.filename, source.read(member))
    refused(directory, UnsafeFileError, "more than weights ever do")


def test_a_pickle_whose_zip_spans_disks(tmp_path: Path) -> None:
    directory = write_many_langs(tmp_path / "m")
    data = (directory / "encoder.pkl").read_bytes()
    end = data.rindex(b"PK\x05\x06")
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 1, 0, 3)
    (directory / "encoder.pkl").write_bytes(data[:end] + locator + data[end:])
    refused(directory, FormatError, r"encoder\.pkl")
