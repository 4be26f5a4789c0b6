"""Read HDF5 files from other programs without trusting anything in them.

Both weights and embeddings come in such files. This module loads no torch, because embeddings are read without it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import h5py

from elmokit.errors import FormatError, UnsafeFileError, brief, closed_error

_LARGEST_RATIO = 1000
_DAMAGED = (OSError, RuntimeError, KeyError, ValueError, TypeError)  # what h5py raises on broken bytes


class Hdf5File:
    """An open file, accessed only through plain groups and checked datasets; a subclass says what it should contain.

    Attributes:
        path: path of the file.
        root: the root group.

    Raises:
        FormatError: if it is not an HDF5 file, is damaged, or is being written.
        OSError: if it cannot be read at all.
    """

    contents: ClassVar[str]
    """The content of such a file, in one word."""
    again: ClassVar[str]
    """What to do about a damaged file."""
    damage: ClassVar[type[FormatError]] = FormatError
    """The error for a damaged file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.root = h5py.File(path, "r")
        except OSError as error:
            with open(path, "rb") as raw:  # says itself if the file cannot be read at all
                whole = raw.read(8) == b"\x89HDF\r\n\x1a\n"
            if not whole:
                raise FormatError(f"{path} is not an HDF5 file: give a file (….hdf5) of {self.contents}.") from None
            if "unable to lock" in str(error):
                raise FormatError(f"{path} is being written by another process: wait until it ends.") from None
            raise self.damage(f"{path} is cut short or damaged: {self.again}.") from None

    def close(self) -> None:
        """Close the file."""
        self.root.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_open(self) -> None:
        """Refuse to read after `close`; the message differs from that for a damaged file."""
        if not self.root:
            raise closed_error(self.path)

    def find(self, *names: str) -> Any:
        """The group or dataset at a path of names, or None; links may lead out of the file and are not followed."""
        place: Any = self.root
        key = _shown("/".join(names))
        with self.damage_reported(key):
            for name in names:
                link = place.get(name, getlink=True) if isinstance(place, h5py.Group) else None
                if link is None:
                    return None
                if not isinstance(link, h5py.HardLink):
                    raise UnsafeFileError(
                        f"{self.path}: {key} is a link to another place or file, which {self.contents} never "
                        "need: get the file from a source you trust."
                    )
                place = place[name]
        return place

    def check_storage(self, dataset: Any, key: str) -> None:
        """Refuse a dataset that is stored outside the file or would expand without bound."""
        stored = dataset.id.get_storage_size()
        if dataset.external is not None or dataset.is_virtual or dataset.nbytes > _LARGEST_RATIO * max(stored, 1):
            raise UnsafeFileError(
                f"{self.path}: {_shown(key)} points outside the file or unpacks to {dataset.nbytes:,} bytes from "
                f"{stored:,}: get the file from a source you trust."
            )

    @contextmanager
    def damage_reported(self, key: str = "") -> Iterator[None]:
        """Turn any error that h5py raises on damaged bytes into one sentence."""
        self.check_open()
        try:
            yield
        except _DAMAGED as error:
            place = f"{self.path}: {key}" if key else str(self.path)
            raise self.damage(f"{place} cannot be read ({brief(error)}): {self.again}.") from None


def _shown(key: str) -> str:
    """A key as shown in messages; it comes from another program, so it may be long or unprintable."""
    return key[:60] if key[:60].isprintable() else repr(key[:60])
