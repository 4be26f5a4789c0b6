"""Wrong calls of every public function: one sentence that names the argument, and nothing touched."""

import hashlib
import inspect
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import elmokit
from elmokit.errors import ElmokitError
from tests.campaign import calls_embedding, calls_models, calls_tasks, calls_text
from tests.campaign.calls import ROWS
from tests.campaign.row import Kit, Row, make_files
from tests.formats.makers import assert_one_sentence

PARAMETERS = [
    pytest.param(row, id=row.id, marks=() if number % 3 == 0 else pytest.mark.extended)
    for number, row in enumerate(ROWS)
]


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file and folder with the hash of what it holds."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in folder.rglob("*")
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of files that no call may change."""
    folder = tmp_path_factory.mktemp("files")
    make_files(folder)
    yield folder


@pytest.fixture
def kit(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kit:
    """What the calls are about; the working directory and the cache are new too."""
    for name in ("out", "work", "cache"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    return Kit(files, tmp_path / "out")


@pytest.mark.parametrize("row", PARAMETERS)
def test_wrong_call(row: Row, kit: Kit, tmp_path: Path) -> None:
    before = fingerprint(kit.folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(row.error) as caught:
            row.call(kit)
    message = str(caught.value)
    for word in row.words:
        assert word in message, f"{word!r} is not in: {message}"
    if isinstance(caught.value, ElmokitError) and not message.endswith("?"):
        assert_one_sentence(caught.value)
    assert fingerprint(kit.folder) == before
    assert not [path for path in tmp_path.rglob("*") if ".tmp" in path.name]
    assert not list((tmp_path / "work").iterdir())


def test_the_table_is_large_and_its_ids_are_names() -> None:
    assert len(ROWS) >= 220
    assert len({row.id for row in ROWS}) == len(ROWS)


def test_every_public_name_has_a_row() -> None:
    source = "".join(map(inspect.getsource, (calls_embedding, calls_models, calls_text, calls_tasks)))
    for name in elmokit.__all__:
        if name not in ("ElmokitError", "__version__"):
            assert f"{name}(" in source or f"{name}." in source, name
