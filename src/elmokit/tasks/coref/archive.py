"""Read texts from an archive, or from the folder that it unpacks to."""

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from elmokit.text.archive import read_tar
from elmokit.text.files import open_text


class Text(NamedTuple):
    """A file of an archive."""

    name: str
    """The file name without folders and suffix."""
    where: str
    """The name used in error messages."""
    content: str


def read_texts(path: Path, wanted: Callable[[PurePosixPath], bool]) -> Iterator[Text]:
    """Stream the requested files; nothing is unpacked to disk."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and wanted(PurePosixPath(file.relative_to(path).as_posix())):
                with open_text(file) as text:
                    yield Text(file.stem, str(file), text.read())
        return
    remedy = "give a .tar.xz, a .tar.gz or the folder it unpacks to"
    for member, content in read_tar(path, lambda name: wanted(PurePosixPath(name)), remedy=remedy):
        name = PurePosixPath(member)
        yield Text(name.stem, f"{path}: {name}", content)
