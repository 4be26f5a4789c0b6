"""Embeddings in HDF5: read files from other programs safely, and write files."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmokit.embedding.records import Vectors
from elmokit.errors import FormatError, UnsafeFileError
from elmokit.hdf5_file import Hdf5File


class DumpFile(Hdf5File):
    """An open file of embeddings."""

    contents, again = "embeddings", "make it again"

    def walk(self) -> Iterator[tuple[str, ...]]:
        """The paths of all datasets, in the file's order."""
        waiting: list[tuple[str, ...]] = [(name,) for name in reversed(list(self.root))]
        seen: set[Any] = set()
        while waiting:
            names = waiting.pop()
            found = self.find(*names)
            if isinstance(found, h5py.Group):
                with self.damage_reported():
                    address = h5py.h5o.get_info(found.id).addr
                    if address in seen:
                        raise UnsafeFileError(
                            f"{self.path} has a group that contains itself: this is not a file of embeddings."
                        )
                    seen.add(address)
                    waiting += [(*names, name) for name in reversed(list(found))]
            elif isinstance(found, h5py.Dataset):
                yield names

    def vectors(self, *names: str) -> Vectors:
        """The vectors in a dataset."""
        dataset = self.checked(*names)
        with self.damage_reported():
            array: Vectors = np.asarray(dataset[...])
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def checked(self, *names: str) -> Any:
        """A dataset of floating-point numbers that are stored in this file."""
        dataset = self.find(*names)
        key = "/".join(names)[:60]
        if not isinstance(dataset, h5py.Dataset):
            raise FormatError(f"{self.path} has no sentence {key!r}: it is incomplete; make it again.")
        with self.damage_reported():
            if dataset.dtype.kind != "f" or not 1 <= dataset.ndim <= 3:
                raise FormatError(
                    f"{self.path} is not a file of embeddings: {key!r} holds {dataset.dtype} of shape {dataset.shape}, "
                    "but vectors are floating point of 1 to 3 dimensions."
                )
            self.check_storage(dataset, key)
        return dataset


class WriteFile:
    """A file for h5py to write to that never raises an error inside h5py.

    HDF5 cannot close a file that it cannot flush, and prints errors until the process ends. So the first error (such as
    a full disk) is stored here, later writes are discarded, and `check` raises the error.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open(path, "w+b")
        self._error: OSError | None = None

    def check(self) -> None:
        """Raise the first error, if there was one."""
        if self._error is not None:
            number = self._error.errno or errno.EIO
            raise OSError(number, os.strerror(number), str(self._path)) from None

    def close(self) -> None:
        """Close the file; `check` says whether it is complete."""
        self._try(self._file.close)

    def write(self, data: bytes) -> int:
        """See `io.RawIOBase`, also for the following methods."""
        self._try(self._file.write, data)
        return len(data)

    def read(self, size: int = -1) -> bytes:  # noqa: D102
        return self._file.read(size)

    def readinto(self, buffer: bytearray) -> int:  # noqa: D102
        return self._try(self._file.readinto, buffer) or 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:  # noqa: D102
        return self._try(self._file.seek, offset, whence) or 0

    def tell(self) -> int:  # noqa: D102
        return self._file.tell()

    def truncate(self, size: int) -> int:  # noqa: D102
        return self._try(self._file.truncate, size) or 0

    def flush(self) -> None:  # noqa: D102
        self._try(self._file.flush)

    def _try(self, action: Callable[..., Any], *arguments: Any) -> Any:
        if self._error is None or action == self._file.close:
            try:
                return action(*arguments)
            except OSError as error:
                self._error = self._error or error
        return None


@contextmanager
def write_hdf5(path: Path) -> Iterator[tuple[h5py.File, WriteFile]]:
    """A new HDF5 file, and the `WriteFile` below it, whose `check` says whether writing has failed."""
    sink = WriteFile(path)
    try:
        # Groups in the format of HDF5 1.8 (2008) or later hold a million names in constant memory.
        with h5py.File(sink, "w", libver=("v108", "v108")) as file:
            yield file, sink
    except (OSError, RuntimeError, ValueError):
        sink.check()  # raises the cause, which h5py does not know
        raise
    finally:
        sink.close()
    sink.check()
