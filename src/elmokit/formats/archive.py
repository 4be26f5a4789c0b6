"""Unpack an untrusted zip: nothing outside the folder, nothing larger than declared."""

import errno
import lzma
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from elmokit.errors import FormatError, UnsafeFileError, brief

MAX_UNPACKED = 32 * 2**30
MAX_RATIO = 200
_SMALL = 2**20
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError),
    *(NotImplementedError, RuntimeError, ValueError, OSError, OverflowError),
)


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield a temporary folder with the archive's contents; it is removed when the block ends.

    Raises:
        FormatError: if the archive is damaged.
        OSError: if the disk for temporary files is full; it names their folder.
    """
    with tempfile.TemporaryDirectory(prefix="elmokit-") as folder:
        try:
            with zipfile.ZipFile(path) as archive:
                _check_names(archive, path)
                _check_sizes(archive, path)
                for member in archive.infolist():
                    if not _posix(member.filename).endswith("/"):
                        _unpack_member(archive, member, Path(folder))
        except _DAMAGED as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from None
            raise FormatError(f"{path} is cut short, damaged or encrypted ({brief(error)}): fetch it again.") from None
        yield Path(folder)


def member_names(path: Path) -> list[str]:
    """The names in the archive's table of contents."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [_posix(name) for name in archive.namelist()]
    except _DAMAGED as error:
        raise FormatError(f"{path} is cut short, damaged or not a zip ({brief(error)}): fetch it again.") from None


def is_zip(path: Path) -> bool:
    """Whether a file looks like a zip, damaged or not."""
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:
        return True


def check_sizes(path: Path) -> None:
    """Refuse a zip that would expand too much, for libraries that unpack it themselves."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_sizes(archive, path)
    except _DAMAGED as error:
        raise FormatError(f"{path} is cut short or damaged ({brief(error)}): fetch it again.") from None


def _posix(name: str) -> str:
    """A member's name with slashes: some programs write backslashes."""
    return name.replace("\\", "/")


def _check_names(archive: zipfile.ZipFile, path: Path) -> None:
    for member in archive.infolist():
        name = PurePosixPath(_posix(member.filename))
        if name.is_absolute() or ".." in name.parts or ":" in member.filename or "\0" in member.orig_filename:
            raise UnsafeFileError(
                f"{path} would write {member.filename[:60]!r}, outside its own folder: "
                "this is not a model archive; fetch it from a source you trust."
            )
        if stat.S_ISLNK(member.external_attr >> 16):
            raise UnsafeFileError(
                f"{path} holds the link {member.filename[:60]!r}, which a model archive never needs: "
                "fetch it from a source you trust."
            )


def _check_sizes(archive: zipfile.ZipFile, path: Path) -> None:
    total, size = 0, path.stat().st_size
    for member in archive.infolist():
        total += member.file_size
        swollen = member.file_size > _SMALL and member.file_size > MAX_RATIO * max(member.compress_size, 1)
        swollen |= total > MAX_RATIO * max(size, _SMALL)  # many small members, or many that share their bytes
        if total > MAX_UNPACKED or swollen:
            raise UnsafeFileError(
                f"{path} unpacks {member.filename[:60]!r} from {member.compress_size:,} to {member.file_size:,} bytes "
                f"({total:,} so far), more than weights ever do (limit: {MAX_RATIO} ×, {MAX_UNPACKED:,} in all): "
                "fetch it from a source you trust, or unpack it yourself and give the folder."
            )


def _unpack_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> None:
    target = folder / _posix(member.filename)
    target.parent.mkdir(parents=True, exist_ok=True)
    # zipfile never reads more of a member than the table of contents declares, which was checked above.
    with archive.open(member) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink, 2**20)
