import os
import shutil
from pathlib import Path

import pytest
import torch

import elmokit
from elmokit.errors import ConfigError, ElmokitWarning, FormatError, VocabularyError, WeightsError
from elmokit.formats import SAVE_FORMATS, SaveFormat, detect_format, load, save
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from tests.contracts.format import Tiny, save_quietly
from tests.formats.makers import assert_one_sentence, write_many_langs


def test_the_public_names_are_these() -> None:
    assert elmokit.load is load and elmokit.save is save


@pytest.mark.slow
def test_one_fingerprint_in_every_format(bilm: BiLM, tmp_path: Path) -> None:
    expected = fingerprint(bilm)
    for source in SAVE_FORMATS:
        save(bilm, tmp_path / f"{source}.zip", format=source)
        for target in SAVE_FORMATS:
            save(load(tmp_path / f"{source}.zip"), tmp_path / f"{source}-{target}.zip", format=target)
            assert fingerprint(load(tmp_path / f"{source}-{target}.zip")) == expected
    assert len(list(tmp_path.iterdir())) == 12


def test_loading_leaves_the_random_state_alone(bilm: BiLM, tmp_path: Path) -> None:
    save(bilm, tmp_path / "m")
    before = torch.get_rng_state()
    load(tmp_path / "m")
    assert torch.equal(torch.get_rng_state(), before)


def test_an_unknown_format_is_not_written(bilm: BiLM, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^format 'onnx' is unknown: choose native, bilm or nlpl\.$") as caught:
        save(bilm, tmp_path / "m", format="onnx")  # type: ignore[arg-type]
    assert_one_sentence(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["native", "bilm"])
def test_a_directory_never_replaces_a_file(format: str, bilm: BiLM, tmp_path: Path) -> None:
    (tmp_path / "m").write_text("mine")
    for overwrite, message in ((False, "already exists"), (True, "exists and is not a .* model .* left alone")):
        with pytest.raises(FormatError, match=message):
            save(bilm, tmp_path / "m", format=format, overwrite=overwrite)  # type: ignore[arg-type]
    assert (tmp_path / "m").read_text() == "mine"


def test_an_empty_directory_may_be_filled(bilm: BiLM, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    save(bilm, tmp_path / "m")
    assert fingerprint(load(tmp_path / "m")) == fingerprint(bilm)


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="does not exist: give a directory of") as caught:
        load(tmp_path / "nowhere")
    assert_one_sentence(caught.value, tmp_path / "nowhere")


@pytest.mark.parametrize("format", ["native", "bilm", "nlpl"])
@pytest.mark.parametrize("content", [b"the\nplay\n", b"<S>\n</S>\n", b"\xff\xfe", b""])
def test_a_vocabulary_that_nobody_needs_is_no_reason_to_fail(
    format: SaveFormat, content: bytes, tiny: Tiny, tmp_path: Path
) -> None:
    path = tmp_path / ("m.zip" if format == "nlpl" else "m")
    save(tiny("characters"), path, format=format)
    if format == "nlpl":
        shutil.unpack_archive(path, tmp_path / "m")
    (tmp_path / "m" / "vocab.txt").write_bytes(content)
    with pytest.warns(ElmokitWarning, match=r"without its vocabulary, which it does not need: .*vocab\.txt") as caught:
        bilm = load(tmp_path / "m")
    assert len(caught) == 1 and bilm.vocabulary is None
    assert fingerprint(bilm) == fingerprint(tiny("characters"))


@pytest.mark.parametrize("kind", ["softmax", "tokens"])
@pytest.mark.parametrize("format", ["native", "bilm"])
def test_a_vocabulary_that_is_needed_must_be_right(kind: str, format: SaveFormat, tiny: Tiny, tmp_path: Path) -> None:
    save_quietly(tiny(kind), tmp_path / "m", format=format)
    (tmp_path / "m" / "vocab.txt").write_text("the\nplay\n")
    with pytest.raises(VocabularyError, match="lacks <S>"):
        load(tmp_path / "m")


@pytest.mark.parametrize("name", ["x" * 300, "a" * 100_000, "nul\0nul", "two\nlines", "no such model", "", " "])
def test_names_that_are_nothing(name: str) -> None:
    with pytest.raises(FormatError if name else ConfigError) as caught:
        load(name)
    assert_one_sentence(caught.value)


def test_a_name_too_long_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="does not exist"):
        load(tmp_path / ("x" * 300))


@pytest.mark.parametrize("name", ["m.png", "m.txt", "m", "m.safetensors"])
def test_files_of_no_model(name: str, tmp_path: Path) -> None:
    for content, match in ((b"\xfcber", "is not a model file"), (b"\x89PNG\r\n\x1a\n", "is a picture .*, not a model")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FormatError, match=match) as caught:
            load(tmp_path / name)
        assert_one_sentence(caught.value, tmp_path / name)


def test_an_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="holds no model") as caught:
        load(tmp_path)
    assert_one_sentence(caught.value, tmp_path)


def test_a_task_model_is_no_bilm(tmp_path: Path) -> None:
    for name in ("task.json", "model.safetensors", "words.txt"):
        (tmp_path / name).touch()
    with pytest.raises(FormatError, match="is a task model, not a biLM") as caught:
        load(tmp_path)
    assert_one_sentence(caught.value, tmp_path)


def test_a_directory_that_may_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(FormatError, match=r"cannot be read: Permission denied\.") as caught:
        load(tmp_path)
    assert_one_sentence(caught.value, tmp_path)


def test_several_models_in_one_directory(tiny: Tiny, tmp_path: Path) -> None:
    for number in (1, 2):
        save(tiny("characters"), tmp_path / str(number), format="bilm")
        for name in ("options.json", "weights.hdf5"):
            (tmp_path / str(number) / name).rename(tmp_path / f"elmo_{number}_{name}")
    with pytest.raises(FormatError, match="holds 2 options files: name the one you mean") as caught:
        load(tmp_path)
    assert_one_sentence(caught.value, tmp_path)
    (tmp_path / "elmo_1_weights.hdf5").rename(tmp_path / "first.hdf5")
    with pytest.raises(FormatError, match=r"beside .*1_options\.json lies 2 HDF5 files .*name the weights") as caught:
        load(tmp_path / "elmo_1_options.json")
    assert_one_sentence(caught.value, tmp_path)
    with pytest.raises(FormatError, match=r"beside .*first\.hdf5 lies 2 options files") as caught:
        load(tmp_path / "first.hdf5")
    assert_one_sentence(caught.value, tmp_path)


@pytest.mark.parametrize(("lone", "match"), [("options.json", "no HDF5 file"), ("weights.hdf5", "no options.json")])
def test_one_file_of_two(lone: str, match: str, bilm: BiLM, tmp_path: Path) -> None:
    save(bilm, tmp_path / "m", format="bilm")
    for name in {"options.json", "weights.hdf5"} - {lone}:
        (tmp_path / "m" / name).unlink()
    with pytest.raises(FormatError, match=match) as caught:
        load(tmp_path / "m" / lone)
    assert_one_sentence(caught.value, tmp_path / "m")


def test_weights_that_are_not_there(bilm: BiLM, tmp_path: Path) -> None:
    save(bilm, tmp_path / "m", format="bilm")
    options = tmp_path / "m" / "options.json"
    with pytest.raises(WeightsError, match="does not exist") as caught:
        load(options, weights=tmp_path / "no.hdf5")
    assert_one_sentence(caught.value, tmp_path / "no.hdf5")
    with pytest.raises(WeightsError, match="Is a directory") as caught:
        load(options, weights=tmp_path / "m")
    assert_one_sentence(caught.value, tmp_path / "m")
    with pytest.raises(FormatError, match="is not an HDF5 file") as no_hdf5:
        load(options, weights=options)
    assert_one_sentence(no_hdf5.value, options)
    with pytest.raises(ConfigError, match="Is a directory") as folder:
        load(tmp_path / "m", weights=tmp_path / "m" / "weights.hdf5")
    assert_one_sentence(folder.value, tmp_path / "m")


def test_native_comes_before_the_other_formats(tiny: Tiny, tmp_path: Path) -> None:
    write_many_langs(tmp_path / "m")
    save_quietly(tiny("bare"), tmp_path / "x", format="bilm")
    for path in (tmp_path / "x").iterdir():
        path.rename(tmp_path / "m" / path.name)
    assert detect_format(tmp_path / "m") == "many-langs"
    save(tiny("one-layer"), tmp_path / "y")
    for path in (tmp_path / "y").iterdir():
        path.replace(tmp_path / "m" / path.name)
    assert detect_format(tmp_path / "m") == "native"
    assert fingerprint(load(tmp_path / "m")) == fingerprint(tiny("one-layer"))
