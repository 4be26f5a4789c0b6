"""Every file that elmokit writes goes through here: the guard, atomic writing and syncing.

- `guard_output` decides whether a path may be written at all. It protects the inputs of a command, finished results
  and every file that elmokit did not write.
- `atomic_path` and `atomic_directory` write under a hidden temporary name beside the destination, sync it to disk and
  rename it, so that a name never holds half a file. A failure removes the temporary. An `OSError` (disk full, no
  permission) always names the destination, never the temporary.

This module imports neither torch nor numpy.
"""

import ctypes
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elmokit.errors import FormatError

LOCK = ".lock"
"""The name of a lock file, unless the folder's format says otherwise."""
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.\d+\.[0-9a-f]{8}\.(?P<kind>tmp|old)(\.[^.]+)?")
_HIDDEN_TEMPORARY = re.compile(r"\..+\.tmp(\.[^.]+)?")
_ERROR_CODE = re.compile(r"(?:errno = |code: |os error |\[Errno )(\d+)")
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def guard_output(
    output: str | Path,
    *,
    kind: str,
    is_ours: Callable[[Path], bool],
    inputs: Iterable[str | Path] = (),
    overwrite: bool = False,
) -> Path:
    """Refuse to write where files of the user would be lost.

    Links and different spellings of a path make no difference: what counts is the file on disk.

    Args:
        output: the file or folder to write.
        kind: what will be written, in words: "a vocabulary", "a model folder".
        is_ours: whether an existing path is a result of this kind, which may be replaced.
        inputs: files and folders that the command reads; names that do not exist are ignored. The files in a folder
            are also inputs.
        overwrite: replace a result of the same kind.

    Returns:
        The path with links resolved.

    Raises:
        FormatError: if `output` is an input, holds one, or exists and may not be replaced. Nothing is changed.
    """
    if str(output) in ("", "-"):
        raise FormatError(f"{str(output)!r} is not a name for {kind}: give the name of a file or folder.")
    final = check_name(output)
    refuse_input(output, inputs)
    if not os.path.lexists(final) or (final.is_dir() and is_empty(final)):
        return final
    if not overwrite:
        raise FormatError(f"{output} already exists: give another name, or --overwrite (overwrite=True) to replace it.")
    if not is_ours(final):
        raise FormatError(
            f"{output} exists and is not {kind} that elmokit wrote, so it is left alone: give another name, or delete "
            "it yourself."
        )
    return final


def check_name(output: str | Path) -> Path:
    """Check that a file can have this name, and return the path with links resolved.

    Raises:
        FormatError: if the name has invalid characters, is too long (also for the temporary name that a file has while
            it is written), or has a file where a folder should be. Nothing is changed.
    """
    try:
        final = Path(output).resolve()
        os.lstat(_temporary_sibling(final))
    except ValueError:  # a NUL or a lone surrogate
        name = str(output).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
        raise FormatError(f"{name} is a name that no file can have: leave out its odd characters.") from None
    except (OSError, RuntimeError) as error:
        number = getattr(error, "errno", errno.ELOOP)  # a RuntimeError is a loop of links, in Python before 3.13
        if number == errno.ENAMETOOLONG:
            raise FormatError(
                f"the name {str(output)[:40]}… is too long for a file or folder: give a shorter one."
            ) from None
        if number == errno.ELOOP:
            raise FormatError(f"{output} leads through symbolic links in a circle: give another name.") from None
        if number == errno.ENOTDIR:
            above = next(parent for parent in Path(output).parents if parent.exists())
            raise FormatError(f"{above} is a file, so {output} cannot be inside it: give another name.") from None
    return final


def refuse_input(output: str | Path, inputs: Iterable[str | Path]) -> None:
    """Refuse an output that is one of the inputs, is inside one, or contains one."""
    final = check_name(output)
    for given in inputs:
        if not os.path.exists(given):  # false, not an error, for a name that no file can have
            continue
        source = Path(given).resolve()
        if source == final or (final.exists() and os.path.samefile(source, final)):
            raise FormatError(f"{output} is an input of this command ({given}): give another name for the output.")
        if source.is_relative_to(final):
            raise FormatError(f"{output} holds an input of this command ({given}): give another name for the output.")
        if final.is_file() and source.is_dir() and _holds(source, final):
            raise FormatError(f"{output} belongs to {given}, an input of this command: give another name.")


def _holds(folder: Path, file: Path) -> bool:
    """Whether a file is in a folder, by name or as a hard link."""
    if file.is_relative_to(folder):
        return True
    return file.stat().st_nlink > 1 and any(
        os.path.samefile(Path(where, name), file)
        for where, _, names in os.walk(folder)
        for name in names
        if Path(where, name).is_file()
    )


def is_empty(folder: Path) -> bool:
    """Whether a folder has nothing but lock files and leftovers of interrupted writes."""
    return not foreign_files(folder, frozenset())


def foreign_files(folder: Path, known: Iterable[str]) -> list[str]:
    """The sorted names in a folder that are not known, except locks and leftovers of interrupted writes."""
    names = set(os.listdir(folder)) - {LOCK, *known}
    return sorted(name for name in names if not _TEMPORARY.fullmatch(name))


@contextmanager
def naming_destination(path: str | Path) -> Iterator[None]:
    """Make an `OSError` name the path that the user knows, instead of a temporary file or no file."""
    try:
        yield
    except OSError as error:
        if error.filename is not None and not _is_temporary(error.filename):
            raise
        number = error.errno or _code_in(str(error))
        if number is None:
            raise OSError(errno.EIO, str(error)[:200] or os.strerror(errno.EIO), str(path)) from None
        raise OSError(number, os.strerror(number), str(path)) from None


def _is_temporary(name: object) -> bool:
    return isinstance(name, str | Path) and any(_HIDDEN_TEMPORARY.fullmatch(part) for part in Path(name).parts)


def _code_in(text: str) -> int | None:
    """The system's error number, which HDF5 and safetensors give only in the text of their errors."""
    found = _ERROR_CODE.search(text)
    return int(found[1]) if found else None


@contextmanager
def atomic_path(path: str | Path, *, keep_suffix: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the same folder and rename it to `path` when the block succeeds.

    A symbolic link is followed: its target is replaced and the link remains. A replaced file keeps its permissions; a
    new file gets those of the umask, regardless of what the writer chose.

    Args:
        path: The final name; an existing file remains intact until the new one is complete.
        keep_suffix: Keep the suffix of `path` in the temporary name, for writers that look at it (`numpy.savez` appends
            one, others choose the compression by it).

    Yields:
        The path to write to; the block must create a file there.

    Raises:
        FormatError: If `path` exists and is not a regular file.
        OSError: If the disk does not let us write; it names `path`, and nothing is left behind.
    """
    final = _existing_parent(path)
    if final.exists() and not final.is_file():
        raise FormatError(f"{path} exists and is not a regular file: give the name of a file that may be replaced.")
    temporary = _temporary_sibling(final, keep_suffix=keep_suffix)
    try:
        with naming_destination(path):
            yield temporary
            _set_mode(temporary, like=final)
            sync_file(temporary)
            os.replace(temporary, final)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_directory(final.parent)


def write_bytes_atomic(path: str | Path, data: bytes) -> None:
    """Write `data` to `path` atomically: readers see either the old file or the new one."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_text_atomic(path: str | Path, text: str) -> None:
    """Write `text` to `path` atomically, as UTF-8 with unchanged line ends."""
    write_bytes_atomic(path, text.encode("utf-8"))


@contextmanager
def atomic_directory(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside `path` and rename it to `path` when the block succeeds.

    Args:
        path: The final name of the folder; its parent must exist.
        overwrite: Replace a folder that is not empty. Check first with `guard_output` that it may be replaced. The two
            folders are swapped atomically where the system supports that; elsewhere the old one is moved aside first,
            and `remove_leftovers` restores it if the process is killed in between.

    Yields:
        An empty folder to fill.

    Raises:
        FormatError: If `path` is a file, or a folder that is not empty and `overwrite` is false.
        OSError: If the disk does not let us write; it names `path`, and nothing is left behind.
    """
    final = _existing_parent(path)
    _refuse_occupied(path, final, overwrite=overwrite)
    temporary = _temporary_sibling(final)
    with naming_destination(path):
        temporary.mkdir()
    try:
        with naming_destination(path):
            yield temporary
            for folder, _, names in os.walk(temporary):
                for name in names:
                    _set_mode(Path(folder, name))
                    sync_file(Path(folder, name))
                sync_directory(Path(folder))
            _refuse_occupied(path, final, overwrite=overwrite)  # another process may have filled it meanwhile
            _swap_in(temporary, final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_directory(final.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove half-written files that a killed process left in a folder, and restore what it had moved aside."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        match = _TEMPORARY.fullmatch(path.name)
        if match is None:
            continue
        if match["kind"] == "old" and not (folder / match["name"]).exists():
            path.rename(folder / match["name"])
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _refuse_occupied(given: str | Path, final: Path, *, overwrite: bool) -> None:
    if final.exists() and not final.is_dir():
        raise FormatError(f"{given} is a file where a folder is to be written: delete it or give another name.")
    if not overwrite and final.is_dir() and not is_empty(final):
        raise FormatError(
            f"{given} already holds files: give a new or empty folder, or --overwrite (overwrite=True) to replace it."
        )


def _swap_in(temporary: Path, final: Path) -> None:
    if not final.exists():
        temporary.rename(final)
        return
    if _exchange(temporary, final):
        shutil.rmtree(temporary, ignore_errors=True)
        return
    old = _temporary_sibling(final, kind="old")
    final.rename(old)
    try:
        temporary.rename(final)
    except BaseException:
        old.rename(final)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two names atomically; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    if rename is None:
        return False
    names = (os.fsencode(first), os.fsencode(second))
    return bool(rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)


def _existing_parent(path: str | Path) -> Path:
    """Resolve `path`; an error names the missing parent folder rather than a temporary file inside it."""
    final = Path(path).resolve()
    if not final.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(final.parent))
    return final


def _temporary_sibling(final: Path, *, keep_suffix: bool = False, kind: str = "tmp") -> Path:
    middle = f"{os.getpid()}.{secrets.token_hex(4)}.{kind}"
    if keep_suffix:
        return final.with_name(f".{final.stem}.{middle}{final.suffix}")
    return final.with_name(f".{final.name}.{middle}")


def _set_mode(path: Path, like: Path | None = None) -> None:
    """Give a written file the mode of the file that it replaces, or of any new file; some libraries write 0600."""
    if like is not None and like.exists():
        mode = stat.S_IMODE(like.stat().st_mode)
    else:
        probe = path.with_name(f"{path.name}.mode")
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        mode = stat.S_IMODE(probe.stat().st_mode)
        probe.unlink()
    if stat.S_IMODE(path.stat().st_mode) != mode:
        path.chmod(mode)


def sync_file(path: Path) -> None:
    """Write a file's bytes through to the disk."""
    with open(path, "rb+") as handle:
        os.fsync(handle.fileno())


def sync_directory(path: Path) -> None:
    """Write a folder's names through to the disk, where the system can."""
    # The new name is already in place; some systems cannot sync a folder, which is not a reason to fail.
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
