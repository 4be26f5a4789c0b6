"""Read texts from a tar archive one by one; nothing is unpacked to disk."""

import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from elmokit.errors import FormatError, InputError

MAX_FILE_BYTES = 2**25
"""More than any text of a corpus has; a larger file is refused instead of read."""
_DAMAGED = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError)


def read_tar(path: Path, wanted: Callable[[str], bool], *, remedy: str) -> Iterator[tuple[str, str]]:
    """The names and contents of the wanted files, in the archive's order.

    Args:
        path: the archive, plain or compressed in any way that tar knows.
        wanted: decides by the path of a file in the archive whether to read it.
        remedy: what to give instead of a bad archive; ends the error message.

    Raises:
        FormatError: if the archive is damaged, or a wanted file is too large or not text.
        InputError: if it cannot be read.
    """
    try:
        with tarfile.open(path, "r:*") as archive:  # as a stream ("r|*") a truncated archive could pass for complete
            for member in archive:
                if member.isfile() and wanted(member.name):
                    yield member.name, _content(path, archive, member, remedy)
    except _DAMAGED as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise FormatError(f"{path} is damaged or not an archive ({reason}): {remedy}.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None


def _content(path: Path, archive: tarfile.TarFile, member: tarfile.TarInfo, remedy: str) -> str:
    file = archive.extractfile(member)
    if file is None or member.size > MAX_FILE_BYTES:
        raise FormatError(f"{path}: {member.name} has {member.size:,} bytes, more than any text: {remedy}.")
    try:
        return file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError(f"{path}: {member.name} is not UTF-8 text: {remedy}.") from None
