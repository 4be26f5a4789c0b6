"""Write a file or a folder so that its name never holds half of it.

Everything is written under a hidden temporary name beside the goal, brought to the disk (fsync) and renamed. A
failure removes the temporary; an `OSError` (disk full, no permission) passes through for the caller to word.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elmokit.errors import FormatError


@contextmanager
def atomic_path(path: str | Path, *, keep_suffix: bool = False) -> Iterator[Path]:
    """Give a temporary path in the same folder and rename it to `path` when the block ends well.

    A symbolic link is followed, so that its target is replaced and the link stays.

    Args:
        path: The final name; an existing file there stays whole until the new one is.
        keep_suffix: Let the temporary name end as `path` does, for writers that look at the suffix (`numpy.savez`
            appends one, `gzip`-aware ones choose by it).

    Yields:
        The path to write to; the block must create a file there.

    Raises:
        FormatError: If `path` exists and is not a regular file.
        OSError: If the disk does not let us write; nothing is left behind.
    """
    final = _existing_parent(path)
    if final.exists() and not final.is_file():
        raise FormatError(f"{path} exists and is not a regular file: give the name of a file that may be replaced.")
    temporary = _temporary_sibling(final, keep_suffix=keep_suffix)
    try:
        yield temporary
        sync_file(temporary)
        os.replace(temporary, final)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_directory(final.parent)


def write_bytes_atomic(path: str | Path, data: bytes) -> None:
    """Write `data` to `path` in one step: readers see the old file or the new one."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_text_atomic(path: str | Path, text: str) -> None:
    """Write `text` as UTF-8, line ends as they are, to `path` in one step."""
    write_bytes_atomic(path, text.encode("utf-8"))


@contextmanager
def atomic_directory(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary folder beside `path` and rename it to `path` when the block ends well.

    Args:
        path: The final name of the folder; its parent must exist.
        overwrite: Replace a folder that already holds something. The old one is moved aside, the new one moved in,
            then the old one deleted; if the move fails the old one is put back.

    Yields:
        An empty folder to fill.

    Raises:
        FormatError: If `path` is a file, or a folder that holds something and `overwrite` is false.
        OSError: If the disk does not let us write; nothing is left behind.
    """
    final = _existing_parent(path)
    _refuse_occupied(path, final, overwrite=overwrite)
    temporary = _temporary_sibling(final)
    temporary.mkdir()
    try:
        yield temporary
        for folder, _, names in os.walk(temporary):
            for name in names:
                sync_file(Path(folder, name))
            sync_directory(Path(folder))
        _refuse_occupied(path, final, overwrite=overwrite)  # somebody may have filled it meanwhile
        _swap_in(temporary, final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_directory(final.parent)


def _refuse_occupied(given: str | Path, final: Path, *, overwrite: bool) -> None:
    if final.exists() and not final.is_dir():
        raise FormatError(f"{given} is a file where a folder is to be written: delete it or give another name.")
    if not overwrite and final.is_dir() and any(final.iterdir()):
        raise FormatError(f"{given} already holds files: give an empty or new folder, or ask for it to be overwritten.")


def _swap_in(temporary: Path, final: Path) -> None:
    if not final.exists():
        temporary.rename(final)
        return
    old = _temporary_sibling(final)
    final.rename(old)
    try:
        temporary.rename(final)
    except BaseException:
        old.rename(final)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _existing_parent(path: str | Path) -> Path:
    """Resolve `path`, and name the missing folder rather than a temporary file inside it."""
    final = Path(path).resolve()
    if not final.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(final.parent))
    return final


def _temporary_sibling(final: Path, *, keep_suffix: bool = False) -> Path:
    middle = f"{os.getpid()}.{secrets.token_hex(4)}.tmp"
    if keep_suffix:
        return final.with_name(f".{final.stem}.{middle}{final.suffix}")
    return final.with_name(f".{final.name}.{middle}")


def sync_file(path: Path) -> None:
    """Bring a file's bytes to the disk."""
    with open(path, "rb+") as handle:
        os.fsync(handle.fileno())


def sync_directory(path: Path) -> None:
    """Bring a folder's names to the disk, where the system can."""
    # The new name is in place already; some systems cannot sync a folder, and that is no reason to fail.
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
