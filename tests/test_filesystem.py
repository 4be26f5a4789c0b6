import errno
import os
import stat
import threading
from pathlib import Path

import numpy
import pytest

from elmokit import filesystem
from elmokit.errors import FormatError
from elmokit.filesystem import atomic_directory, atomic_path, write_bytes_atomic, write_text_atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fill_disk(*args: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_write_replaces_the_whole_file(tmp_path: Path) -> None:
    goal = tmp_path / "options.json"
    write_bytes_atomic(goal, b"a longer first content")
    write_text_atomic(goal, "zwölf\r\n")
    assert goal.read_bytes() == "zwölf\r\n".encode()
    assert names(tmp_path) == ["options.json"]


def test_the_final_name_appears_only_at_the_end(tmp_path: Path) -> None:
    goal = tmp_path / "model.hdf5"
    with atomic_path(goal) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.name.startswith(f".model.hdf5.{os.getpid()}.") and temporary.name.endswith(".tmp")
        temporary.write_bytes(b"half")
        assert not goal.exists()
    assert goal.read_bytes() == b"half"


def test_names_are_unique(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "a") as first, atomic_path(tmp_path / "a") as second:
        assert first != second
        first.write_bytes(b"1")
        second.write_bytes(b"2")
    assert names(tmp_path) == ["a"]


def test_keep_suffix_serves_writers_that_append_one(tmp_path: Path) -> None:
    goal = tmp_path / "vectors.npz"
    with atomic_path(goal, keep_suffix=True) as temporary:
        assert temporary.name.startswith(".vectors.") and temporary.suffix == ".npz"
        numpy.savez(temporary, x=numpy.arange(3))
    assert names(tmp_path) == ["vectors.npz"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_a_failure_keeps_the_old_file_and_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    goal = tmp_path / "a"
    goal.write_bytes(b"old")
    with pytest.raises(type(error)), atomic_path(goal) as temporary:
        temporary.write_bytes(b"new")
        raise error
    assert goal.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    goal = tmp_path / "a"
    goal.write_bytes(b"old")
    monkeypatch.setattr(filesystem.os, step, fill_disk)
    with pytest.raises(OSError, match="No space left"):
        write_bytes_atomic(goal, b"new")
    assert goal.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent'"):
        write_bytes_atomic(tmp_path / "absent" / "a", b"")
    with pytest.raises(FileNotFoundError, match=r"absent'"), atomic_directory(tmp_path / "absent" / "a"):
        pass
    assert names(tmp_path) == []


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere" / "target")
    write_bytes_atomic(link, b"data")
    assert link.is_symlink()
    assert (tmp_path / "elsewhere" / "target").read_bytes() == b"data"


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for goal in (tmp_path / "pipe", tmp_path):
        with pytest.raises(FormatError, match=r"is not a regular file: give"):
            write_bytes_atomic(goal, b"")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_readers_never_see_a_mixture(tmp_path: Path) -> None:
    goal, contents = tmp_path / "a", {bytes([letter]) * 200_000 for letter in b"ab"}
    goal.write_bytes(min(contents))

    def write() -> None:
        for _ in range(10):
            for content in contents:
                write_bytes_atomic(goal, content)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    seen = {goal.read_bytes() for _ in range(50)}
    for writer in writers:
        writer.join()
    assert seen <= contents
    assert names(tmp_path) == ["a"]


def test_directory_appears_at_once(tmp_path: Path) -> None:
    goal = tmp_path / "model"
    with atomic_directory(goal) as folder:
        (folder / "configs").mkdir()
        (folder / "configs" / "a.json").write_text("{}")
        (folder / "config.json").write_text("{}")
        assert folder.parent == tmp_path and folder.name.startswith(".model.")
        assert not goal.exists()
    assert names(goal) == ["config.json", "configs"]
    assert names(tmp_path) == ["model"]


def test_directory_takes_the_place_of_an_empty_one(tmp_path: Path) -> None:
    goal = tmp_path / "model"
    goal.mkdir()
    with atomic_directory(goal) as folder:
        (folder / "new").touch()
    assert names(goal) == ["new"]
    assert names(tmp_path) == ["model"]


def test_directory_that_holds_something_is_refused_before_the_work(tmp_path: Path) -> None:
    goal = tmp_path / "model"
    goal.mkdir()
    (goal / "old").touch()
    entered = False
    with pytest.raises(FormatError, match=r"model already holds files: give a new or empty folder"):
        with atomic_directory(goal):
            entered = True
    assert not entered
    assert names(goal) == ["old"]
    assert names(tmp_path) == ["model"]


def test_directory_filled_meanwhile_is_refused(tmp_path: Path) -> None:
    goal = tmp_path / "model"
    with pytest.raises(FormatError, match="already holds files"), atomic_directory(goal) as folder:
        (folder / "new").touch()
        goal.mkdir()
        (goal / "other").touch()
    assert names(goal) == ["other"]
    assert names(tmp_path) == ["model"]


def test_directory_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").touch()
    with pytest.raises(FormatError, match=r"model is a file where a folder"):
        with atomic_directory(tmp_path / "model", overwrite=True):
            pass


def test_overwrite_replaces_the_directory(tmp_path: Path) -> None:
    goal = tmp_path / "model"
    goal.mkdir()
    (goal / "old").touch()
    with atomic_directory(goal, overwrite=True) as folder:
        (folder / "new").touch()
        assert names(goal) == ["old"]
    assert names(goal) == ["new"]
    assert names(tmp_path) == ["model"]


def test_directory_failure_keeps_the_old_one(tmp_path: Path) -> None:
    goal = tmp_path / "model"
    goal.mkdir()
    (goal / "old").touch()
    with pytest.raises(ZeroDivisionError), atomic_directory(goal, overwrite=True) as folder:
        (folder / "new").touch()
        raise ZeroDivisionError
    assert names(goal) == ["old"]
    assert names(tmp_path) == ["model"]


def test_directory_is_put_back_if_the_new_one_cannot_be_moved_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal = tmp_path / "model"
    goal.mkdir()
    (goal / "old").touch()
    rename, calls = Path.rename, []

    def fail_second(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == 2:
            raise PermissionError(errno.EACCES, "no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_second)
    monkeypatch.setattr(filesystem, "_exchange", lambda first, second: False)
    with pytest.raises(PermissionError), atomic_directory(goal, overwrite=True) as folder:
        (folder / "new").touch()
    assert len(calls) == 3
    assert names(goal) == ["old"]
    assert names(tmp_path) == ["model"]
