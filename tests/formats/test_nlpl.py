import errno
import gzip
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from elmokit.errors import FormatError
from elmokit.formats import bilm_hdf5, detect_format, load, save
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from tests.contracts.format import FormatContract, Tiny, assert_same_model


class TestNlpl(FormatContract):
    format = "nlpl"
    name = "model.zip"
    writer = bilm_hdf5
    keeps_languages = True


@pytest.fixture
def directory(bilm: BiLM, tmp_path: Path) -> Path:
    """An unpacked NLPL model."""
    save(bilm, tmp_path / "m.zip", format="nlpl")
    with zipfile.ZipFile(tmp_path / "m.zip") as archive:
        archive.extractall(tmp_path / "m")
    return tmp_path / "m"


def test_what_the_zip_holds(bilm: BiLM, tmp_path: Path) -> None:
    save(bilm, tmp_path / "m.zip", format="nlpl")
    with zipfile.ZipFile(tmp_path / "m.zip") as archive:
        assert archive.namelist() == ["model.hdf5", "options.json", "vocab.txt"]
        assert json.loads(archive.read("options.json"))["char_cnn"]["n_characters"] == 262  # simple_elmo refuses 261


def test_a_zip_must_be_called_one(bilm: BiLM, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"does not end in \.zip"):
        save(bilm, tmp_path / "m", format="nlpl")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_never_replaced_by_a_zip(bilm: BiLM, tmp_path: Path) -> None:
    (tmp_path / "m.zip").mkdir()
    for overwrite in (False, True):
        with pytest.raises(FormatError, match=r"m\.zip"):
            save(bilm, tmp_path / "m.zip", format="nlpl", overwrite=overwrite)
    assert list((tmp_path / "m.zip").iterdir()) == []


def test_a_directory_of_the_same_files(directory: Path, bilm: BiLM) -> None:
    assert detect_format(directory) == "nlpl"
    assert_same_model(load(directory), bilm)
    assert fingerprint(load(directory / "options.json")) == fingerprint(bilm)
    assert fingerprint(load(directory / "model.hdf5")) == fingerprint(bilm)


def test_a_directory_with_only_one_hdf5_file_of_any_name(directory: Path, bilm: BiLM) -> None:
    (directory / "model.hdf5").rename(directory / "epoch10.hdf5")
    assert fingerprint(load(directory)) == fingerprint(bilm)


def test_the_compressed_vocabulary_comes_first(directory: Path, bilm: BiLM) -> None:
    assert bilm.vocabulary is not None
    text = (directory / "vocab.txt").read_text(encoding="utf-8")
    (directory / "vocab.txt").write_text("this is not the vocabulary\n")
    (directory / "vocab.txt.gz").write_bytes(gzip.compress(text.encode()))
    assert load(directory).vocabulary == bilm.vocabulary
    assert load(directory / "options.json").vocabulary == bilm.vocabulary


@pytest.mark.parametrize(
    ("meta", "languages"),
    [
        ({"corpus": [{"language": "rus"}, {"language": "ukr"}, {"language": "rus"}]}, ("rus", "ukr")),
        ({"corpus": []}, ()),
        ({"corpus": [{"description": "x"}]}, ()),
        ([], ()),
        ({"corpus": "rus"}, ()),
        ("{", ()),
    ],
)
def test_languages_of_meta_json(meta: Any, languages: tuple[str, ...], directory: Path, bilm: BiLM) -> None:
    (directory / "meta.json").write_text(meta if isinstance(meta, str) else json.dumps(meta))
    loaded = load(directory)
    assert loaded.config.languages == languages
    assert fingerprint(loaded) == fingerprint(bilm)


@pytest.mark.parametrize("root", ["", "213/", "a/b/"])
@pytest.mark.parametrize("folders", [False, True])
def test_a_zip_with_a_root_folder(root: str, folders: bool, directory: Path, bilm: BiLM, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("README.txt", "hello")
        if folders and root:
            archive.mkdir(root)
        for path in directory.iterdir():
            archive.write(path, root + path.name)
    assert detect_format(tmp_path / "x.zip") == "nlpl"
    assert_same_model(load(tmp_path / "x.zip"), bilm)


def test_a_zip_with_backslashes(directory: Path, bilm: BiLM, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("213\\", b"")
        for path in directory.iterdir():
            archive.write(path, "213\\" + path.name)
    assert_same_model(load(tmp_path / "x.zip"), bilm)


def test_a_zip_without_the_suffix(directory: Path, tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "m.zip").rename(tmp_path / "download")
    assert detect_format(tmp_path / "download") == "nlpl"
    assert fingerprint(load(tmp_path / "download")) == fingerprint(tiny("softmax"))


@pytest.mark.parametrize("existing", [False, True])
def test_failing_while_zipping_leaves_what_was_there(
    existing: bool, bilm: BiLM, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if existing:
        save(tiny("characters"), tmp_path / "m.zip", format="nlpl")
    original = zipfile.ZipFile.write

    def fail_at_the_second(self: zipfile.ZipFile, *args: Any) -> None:
        if self.namelist():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "write", fail_at_the_second)
        with pytest.raises(OSError, match="No space left"):
            save(bilm, tmp_path / "m.zip", format="nlpl", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == (["m.zip"] if existing else [])
    if existing:
        assert_same_model(load(tmp_path / "m.zip"), tiny("characters"))
