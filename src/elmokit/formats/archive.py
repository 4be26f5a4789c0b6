"""Unpack a zip that somebody else made: nothing outside the folder, nothing larger than it says."""

import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from elmokit.errors import FormatError, UnsafeFileError

MAX_UNPACKED = 32 * 2**30
MAX_RATIO = 200
_SMALL = 2**20


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Give a temporary folder with the archive's contents; it is gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="elmokit-") as folder:
        try:
            with zipfile.ZipFile(path) as archive:
                _check_members(archive, path)
                for member in archive.infolist():
                    if not member.is_dir():
                        _unpack_member(archive, member, Path(folder))
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise FormatError(f"{path} is cut short, damaged or encrypted ({error}): fetch it again.") from None
        yield Path(folder)


def member_names(path: Path) -> list[str]:
    """What the archive holds, by its table of contents."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError) as error:
        raise FormatError(f"{path} is cut short, damaged or not a zip ({error}): fetch it again.") from None


def _check_members(archive: zipfile.ZipFile, path: Path) -> None:
    total = 0
    for member in archive.infolist():
        name = PurePosixPath(member.filename.replace("\\", "/"))
        if name.is_absolute() or ".." in name.parts or ":" in member.filename or "\0" in member.orig_filename:
            raise UnsafeFileError(
                f"{path} would write {member.filename!r}, outside its own folder: "
                "this is no model archive; fetch it from a source you trust."
            )
        if stat.S_ISLNK(member.external_attr >> 16):
            raise UnsafeFileError(f"{path} holds the link {member.filename!r}, which a model archive never needs.")
        total += member.file_size
        swollen = member.file_size > _SMALL and member.file_size > MAX_RATIO * max(member.compress_size, 1)
        if total > MAX_UNPACKED or swollen:
            raise UnsafeFileError(
                f"{path} unpacks {member.filename!r} from {member.compress_size:,} to {member.file_size:,} bytes, more "
                f"than weights ever do (limit: {MAX_RATIO} ×, {MAX_UNPACKED:,} bytes in all): "
                "fetch it from a source you trust, or unpack it yourself and give the folder."
            )


def _unpack_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> None:
    target = folder / member.filename.replace("\\", "/")
    target.parent.mkdir(parents=True, exist_ok=True)
    # zipfile never reads more of a member than its table declares, and that was checked above.
    with archive.open(member) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink, 2**20)
