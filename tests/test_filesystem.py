import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import numpy
import pytest

from elmokit import filesystem, locks
from elmokit.errors import FormatError
from elmokit.filesystem import (
    atomic_directory,
    atomic_path,
    guard_output,
    is_empty,
    remove_leftovers,
    write_bytes_atomic,
    write_text_atomic,
)
from elmokit.locks import FolderLock


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
    monkeypatch.setattr(os, step, fill_disk)
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


def guard(output: Path, *inputs: Path, overwrite: bool = True, ours: bool = True) -> Path:
    return guard_output(output, kind="a thing", is_ours=lambda path: ours, inputs=inputs, overwrite=overwrite)


def spellings(tmp_path: Path, path: Path) -> dict[str, Path]:
    """The same file by other names."""
    (tmp_path / "linked").symlink_to(path)
    (tmp_path / "folder").symlink_to(path.parent)
    if path.is_file():
        os.link(path, tmp_path / "hard")
    found = {
        "itself": path,
        "dots": path.parent / ".." / path.parent.name / path.name,
        "symbolic": tmp_path / "linked",
        "through a folder": tmp_path / "folder" / path.name,
    }
    return found | ({"hard": tmp_path / "hard"} if path.is_file() else {})


@pytest.mark.parametrize("overwrite", [False, True])
def test_no_spelling_of_an_input_is_an_output(tmp_path: Path, overwrite: bool) -> None:
    source = tmp_path / "data" / "text.txt"
    source.parent.mkdir()
    source.write_text("mine")
    for name, path in spellings(tmp_path, source).items():
        with pytest.raises(FormatError, match="is an input of this command"):
            guard(path, source, overwrite=overwrite)
        with pytest.raises(FormatError, match="is an input of this command"):
            guard(source, path, overwrite=overwrite)
        assert source.read_text() == "mine", name


def test_a_folder_that_holds_an_input_is_no_output(tmp_path: Path) -> None:
    source = tmp_path / "data" / "deep" / "text.txt"
    source.parent.mkdir(parents=True)
    source.write_text("mine")
    for path in (tmp_path / "data", tmp_path / "data" / "deep" / "..", tmp_path):
        with pytest.raises(FormatError, match="holds an input of this command"):
            guard(path, source)


def test_a_file_of_an_input_folder_is_no_output(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_text("mine")
    os.link(model / "weights", tmp_path / "hard")
    for path in (model / "weights", tmp_path / "hard"):
        with pytest.raises(FormatError, match=r"belongs to .*model, an input"):
            guard(path, model)
    assert guard(model / "new", model) == model / "new"


def test_what_exists_is_replaced_only_if_asked_and_ours(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert guard(path, tmp_path / "absent", overwrite=False) == path
    path.write_text("mine")
    with pytest.raises(FormatError, match=r"a already exists: give another name, or --overwrite"):
        guard(path, overwrite=False)
    with pytest.raises(FormatError, match=r"is not a thing that elmokit wrote, so it is left alone"):
        guard(path, ours=False)
    assert guard(path) == path
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".lock").touch()
    assert guard(tmp_path / "empty", overwrite=False, ours=False) == tmp_path / "empty"


def test_the_target_of_a_broken_link_may_be_made(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert guard(tmp_path / "link", overwrite=False) == tmp_path / "target"


@pytest.mark.parametrize("exchange", [True, False])
def test_a_kill_between_two_renames_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    goal = tmp_path / "best"
    goal.mkdir()
    (goal / "old").touch()
    if not exchange:
        monkeypatch.setattr(filesystem, "_exchange", lambda first, second: False)
    rename = Path.rename

    class Killed(BaseException):
        pass

    def kill_after_first(self: Path, target: Path) -> Path:
        rename(self, target)
        monkeypatch.setattr(shutil, "rmtree", lambda *args, **options: None)  # a killed process cleans nothing
        monkeypatch.setattr(Path, "rename", lambda self, target: (_ for _ in ()).throw(Killed))
        raise Killed

    monkeypatch.setattr(Path, "rename", kill_after_first)
    with pytest.raises(Killed) if not exchange else nullcontext(), atomic_directory(goal, overwrite=True) as folder:
        (folder / "new").touch()
    monkeypatch.undo()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["best"]
    assert names(goal) == (["new"] if exchange else ["old"])


def test_leftovers_are_removed_and_nothing_else(tmp_path: Path) -> None:
    keep = [".hidden.tmp", ".mine.tmp", "a", ".b.12.tmp"]
    for name in (*keep, ".a.12.0123abcd.tmp", ".vectors.12.0123abcd.tmp.npz"):
        (tmp_path / name).touch()
    (tmp_path / ".model.7.00000000.tmp").mkdir()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == sorted(keep)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_modes_follow_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        with atomic_directory(tmp_path / "model") as folder:
            (folder / "weights").touch(mode=0o600)
        with atomic_path(tmp_path / "file") as temporary:
            temporary.touch(mode=0o600)
    finally:
        os.umask(before)
    for path in (tmp_path / "model" / "weights", tmp_path / "file"):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    (tmp_path / "file").chmod(0o640)
    write_text_atomic(tmp_path / "file", "new")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("Error while serializing: I/O error: Os { code: 28, kind: StorageFull }"),
        OSError("Unable to write (file write failed: errno = 28, error message = 'No space left on device')"),
    ],
)
def test_errors_name_the_destination(tmp_path: Path, error: OSError) -> None:
    for opened in (atomic_path(tmp_path / "out"), atomic_directory(tmp_path / "out")):
        with pytest.raises(OSError) as caught, opened:
            raise error
        assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "out"))
    with pytest.raises(FileNotFoundError) as missing, atomic_path(tmp_path / "out"):
        open(tmp_path / "input")
    assert missing.value.filename == str(tmp_path / "input")
    with pytest.raises(PermissionError) as denied, atomic_path(tmp_path / "out") as temporary:
        raise PermissionError(errno.EACCES, "no", str(temporary))
    assert denied.value.filename == str(tmp_path / "out")


@pytest.mark.parametrize("has_locks", [True, False])
def test_a_lock_names_its_holder_and_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_locks: bool
) -> None:
    if not has_locks:
        monkeypatch.setattr(locks, "fcntl", None)
    with FolderLock(tmp_path):
        with pytest.raises(FormatError, match=rf"is in use by process {os.getpid()} or one that it started: wait"):
            FolderLock(tmp_path)
        assert is_empty(tmp_path)
    with FolderLock(tmp_path, name="lock"):
        assert names(tmp_path) == ["lock"]
    assert names(tmp_path) == []


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom elmokit.locks import FolderLock\n"
        f"lock = FolderLock(Path({str(tmp_path)!r}))\nprint(os.getpid(), flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as holder:
        assert holder.stdout is not None
        number = holder.stdout.readline().strip()
        with pytest.raises(FormatError, match=f"in use by process {number} "):
            FolderLock(tmp_path)
        holder.kill()
    FolderLock(tmp_path).release()
    assert names(tmp_path) == []
