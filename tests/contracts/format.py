"""What every format that elmokit writes must do; a subclass names the format and what it cannot keep."""

import errno
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from elmokit.errors import ElmokitWarning, FormatError
from elmokit.formats import SaveFormat, detect_format, load, save
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from tests.conftest import KINDS, SENTENCES
from tests.small_disk import small_disk

Tiny = Callable[[str], BiLM]


def assert_bit_equal(found: BiLM, expected: BiLM) -> None:
    """Same tensors under the same names, down to the sign of zero."""
    ours, theirs = found.state_dict(), expected.state_dict()
    assert list(ours) == list(theirs)
    assert ours
    for name in theirs:
        assert ours[name].dtype == torch.float32, name
        assert torch.equal(ours[name].view(torch.int32), theirs[name].view(torch.int32)), name


def assert_same_model(found: BiLM, expected: BiLM, *, languages: bool = True) -> None:
    """Same tensors, settings, words and vectors."""
    assert_bit_equal(found, expected)
    lost = set() if languages else {"languages"}
    assert found.config.model_dump(exclude=lost) == expected.config.model_dump(exclude=lost)
    assert found.vocabulary == expected.vocabulary
    assert type(found.indexer) is type(expected.indexer)
    char_ids = expected.to_char_ids(SENTENCES)
    assert torch.equal(found.to_char_ids(SENTENCES), char_ids)
    assert torch.equal(found(char_ids).layers, expected(char_ids).layers)
    assert fingerprint(found) == fingerprint(expected)


def save_quietly(bilm: BiLM, path: str | Path, *, format: SaveFormat = "native", overwrite: bool = False) -> None:
    """Save, without the word on who else cannot read it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ElmokitWarning)
        save(bilm, path, format=format, overwrite=overwrite)


def listing(folder: Path) -> dict[str, int]:
    """Every file and folder below, with the time of its last change."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))}


class FormatContract:
    """Tests of one writable format."""

    format: SaveFormat
    name: str = "model"
    """What the target is called; a zip needs its suffix."""
    writer: ModuleType
    """The module whose `write_vocabulary` runs in the middle of writing."""
    keeps_languages: bool = False

    @pytest.fixture
    def target(self, tmp_path: Path) -> Path:
        """Where to save, alone in its folder."""
        (tmp_path / "alone").mkdir()
        return tmp_path / "alone" / self.name

    def save(self, bilm: BiLM, path: str | Path, *, overwrite: bool = False) -> None:
        save_quietly(bilm, path, format=self.format, overwrite=overwrite)

    @pytest.mark.parametrize("kind", KINDS)
    def test_round_trip(self, kind: str, tiny: Tiny, target: Path) -> None:
        bilm = tiny(kind)
        self.save(bilm, target)
        assert_same_model(load(target), bilm)
        assert [path.name for path in target.parent.iterdir()] == [target.name]

    def test_loaded_models_are_ready_to_run(self, tiny: Tiny, target: Path) -> None:
        self.save(tiny("softmax").double().train(), target)
        loaded = load(target)
        assert not any(module.training for module in loaded.modules())
        parameters = list(loaded.parameters())
        assert all(p.dtype == torch.float32 and p.device.type == "cpu" and p.requires_grad for p in parameters)
        assert fingerprint(loaded) == fingerprint(tiny("softmax"))

    def test_signs_of_zero_and_tiny_numbers_survive(self, bilm: BiLM, target: Path) -> None:
        with torch.no_grad():
            for parameter in bilm.parameters():
                parameter.view(-1)[::2] = -0.0
                parameter.view(-1)[1::4] = 1e-45
        self.save(bilm, target)
        assert_bit_equal(load(target), bilm)

    def test_foreign_options_and_languages(self, bilm: BiLM, target: Path) -> None:
        extra = {"learning_rate": 0.2, "n_epochs": 10, "dropout": 0.1}
        bilm.config = bilm.config.model_copy(update={"foreign": {"options": extra}, "languages": ("de", "fr")})
        self.save(bilm, target)
        loaded = load(target)
        assert loaded.config.foreign == bilm.config.foreign
        assert loaded.config.languages == (("de", "fr") if self.keeps_languages else ())
        assert_same_model(loaded, bilm, languages=self.keeps_languages)

    @pytest.mark.parametrize("as_given", [str, Path])
    def test_paths_may_be_any_text(self, as_given: type, bilm: BiLM, tmp_path: Path) -> None:
        path = tmp_path / "new" / "Modèle 模型 😀 'x' [1]" / self.name
        self.save(bilm, as_given(path))
        assert detect_format(as_given(path)) == self.format
        assert_same_model(load(as_given(path)), bilm)

    def test_a_relative_path(self, bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        self.save(bilm, self.name)
        assert_same_model(load(self.name), bilm)

    def test_detecting_reads_no_weights(self, bilm: BiLM, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.save(bilm, target)
        monkeypatch.setattr("elmokit.formats._read", lambda location: pytest.fail("read"))
        assert detect_format(target) == self.format

    def test_loading_changes_nothing_on_disk(self, bilm: BiLM, target: Path) -> None:
        self.save(bilm, target)
        paths = (*target.rglob("*"), target, target.parent)
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = listing(target.parent)
        try:
            assert_same_model(load(target), bilm)
            assert listing(target.parent) == before
        finally:
            for path in paths:
                path.chmod(0o755)

    def test_training_a_loaded_model_leaves_its_files_alone(self, bilm: BiLM, target: Path) -> None:
        self.save(bilm, target)
        loaded = load(target)
        with torch.no_grad():
            for parameter in loaded.parameters():
                parameter.zero_()
        assert_same_model(load(target), bilm)

    def test_overwriting_has_to_be_asked_for(self, tiny: Tiny, target: Path) -> None:
        self.save(tiny("softmax"), target)
        before = listing(target.parent)
        with pytest.raises(FormatError, match=r"already exists: give another name, or --overwrite"):
            self.save(tiny("characters"), target)
        assert listing(target.parent) == before
        self.save(tiny("characters"), target, overwrite=True)
        assert_same_model(load(target), tiny("characters"))
        assert [path.name for path in target.parent.iterdir()] == [target.name]

    def test_a_model_can_replace_its_own_files(self, bilm: BiLM, target: Path) -> None:
        self.save(bilm, target)
        loaded = load(target)
        self.save(loaded, target, overwrite=True)
        assert_same_model(loaded, bilm)
        assert_same_model(load(target), bilm)

    @pytest.mark.parametrize(
        "failure", [RuntimeError("stop"), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()]
    )
    @pytest.mark.parametrize("existing", [False, True])
    def test_failing_midway_leaves_what_was_there(
        self, failure: BaseException, existing: bool, tiny: Tiny, target: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if existing:
            self.save(tiny("characters"), target)
        before = sorted(listing(target.parent))

        def fail(*args: object) -> None:
            raise failure

        with monkeypatch.context() as patch:
            patch.setattr(self.writer, "write_vocabulary", fail)
            with pytest.raises(type(failure)):
                self.save(tiny("softmax"), target, overwrite=True)
        assert sorted(listing(target.parent)) == before
        if existing:
            assert_same_model(load(target), tiny("characters"))

    def test_a_full_disk_is_an_os_error_and_leaves_nothing(self, bilm: BiLM, target: Path) -> None:
        with small_disk(3000), pytest.raises(OSError, match="File too large"):
            self.save(bilm, target)
        assert list(target.parent.iterdir()) == []
        self.save(bilm, target)
        assert_same_model(load(target), bilm)

    def test_saving_does_not_change_the_model(self, tiny: Tiny, target: Path) -> None:
        bilm = tiny("softmax").train()
        self.save(bilm, target)
        assert bilm.training
        assert_same_model(bilm, tiny("softmax"))
