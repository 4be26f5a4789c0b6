"""Texts out of an archive, or out of the folder that it unpacks to."""

import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from elmokit.errors import FormatError, InputError
from elmokit.text.files import open_text

MAX_FILE_BYTES = 2**25
"""More than any document has; a file beyond it is refused instead of read."""
_DAMAGED = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError)


class Text(NamedTuple):
    """A file of an archive."""

    name: str
    """Without folders and suffix."""
    where: str
    """What errors call it."""
    content: str


def read_texts(path: Path, wanted: Callable[[PurePosixPath], bool]) -> Iterator[Text]:
    """The wanted files one by one; nothing is unpacked to disk."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and wanted(PurePosixPath(file.relative_to(path).as_posix())):
                with open_text(file) as text:
                    yield Text(file.stem, str(file), text.read())
        return
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                name = PurePosixPath(member.name)
                if member.isfile() and wanted(name):
                    yield Text(name.stem, f"{path}: {name}", _content(path, archive, member))
    except _DAMAGED as error:
        raise FormatError(
            f"{path} is damaged or no archive ({error}): give a .tar.xz, a .tar.gz or the folder it unpacks to."
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None


def _content(path: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = archive.extractfile(member)
    if file is None or member.size > MAX_FILE_BYTES:
        raise FormatError(f"{path}: {member.name} has {member.size:,} bytes: no document is that large.")
    try:
        return file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError(f"{path}: {member.name} is not UTF-8 text: fetch the archive again.") from None
