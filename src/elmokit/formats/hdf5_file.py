"""Read arrays from an HDF5 file that somebody else made, trusting nothing in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from elmokit.errors import FormatError, UnsafeFileError, WeightsError
from elmokit.formats.parts import shape_error

_LARGEST_RATIO = 1000
_DAMAGED = (OSError, RuntimeError, KeyError, ValueError, TypeError)  # what h5py raises on broken bytes


class Hdf5Reader:
    """An open file whose datasets are checked for kind, shape and size before a byte is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = h5py.File(path, "r")
        except FileNotFoundError:
            raise WeightsError(f"{path} does not exist: give the weights that belong to the options.") from None
        except OSError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: OSError) -> FormatError:
        try:
            with self.path.open("rb") as raw:
                signature = raw.read(8)
        except OSError as reason:
            return WeightsError(f"{self.path} cannot be read: {reason.strerror or reason}.")
        if signature == b"\x89HDF\r\n\x1a\n":
            return WeightsError(f"{self.path} is cut short or damaged ({error}): fetch it again.")
        return FormatError(f"{self.path} is not an HDF5 file: give the weights file (….hdf5) of the model.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __contains__(self, key: str) -> bool:
        return self._find(key) is not None

    def read(self, key: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """The dataset as float32, if it is one of numbers in this very shape."""
        dataset = self._find(key)
        with self._damage_reported(key):
            return self._read_checked(dataset, key, shape)

    def _read_checked(self, dataset: Any, key: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        if not isinstance(dataset, h5py.Dataset):
            raise WeightsError(f"{self.path} lacks the tensor {key} {shape}: the file is incomplete; fetch it again.")
        if dataset.dtype.kind != "f":
            raise WeightsError(f"{self.path}: tensor {key} holds {dataset.dtype}, but weights are floating point.")
        if dataset.shape != shape:
            raise shape_error(str(self.path), key, dataset.shape, shape)
        stored = dataset.id.get_storage_size()
        if dataset.nbytes and dataset.external is None and not dataset.is_virtual and not stored:
            raise WeightsError(f"{self.path}: tensor {key} was never written: the file is incomplete; fetch it again.")
        if dataset.external is not None or dataset.is_virtual or dataset.nbytes > _LARGEST_RATIO * stored:
            raise UnsafeFileError(
                f"{self.path}: tensor {key} points outside the file or unpacks to {dataset.nbytes:,} bytes from "
                f"{stored:,}: this is no model file; fetch it from a source you trust."
            )
        return np.asarray(dataset[...], dtype=np.float32)

    @contextmanager
    def _damage_reported(self, key: str) -> Iterator[None]:
        try:
            yield
        except _DAMAGED as error:
            reason = " ".join(str(error).split())[:150]
            raise WeightsError(f"{self.path}: {key} cannot be read ({reason}): fetch the file again.") from None

    def _find(self, key: str) -> Any:
        """The object at a path, reached through plain groups only: links may lead out of the file."""
        with self._damage_reported(key):
            return self._follow(key)

    def _follow(self, key: str) -> Any:
        place: Any = self._file
        for part in key.split("/"):
            if not isinstance(place, h5py.Group):
                return None
            link = place.get(part, getlink=True)
            if link is None:
                return None
            if not isinstance(link, h5py.HardLink):
                raise UnsafeFileError(
                    f"{self.path}: {key} is a link to another place or file, which a weights file never needs: "
                    "fetch it from a source you trust."
                )
            place = place[part]
        return place
