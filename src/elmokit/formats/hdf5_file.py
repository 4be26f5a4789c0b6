"""Read weights from an untrusted HDF5 file."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmokit.errors import WeightsError
from elmokit.formats.parts import shape_error
from elmokit.hdf5_file import Hdf5File


class Hdf5Reader(Hdf5File):
    """An open file whose datasets are checked for kind, shape and size before a byte is read."""

    contents, again, damage = "weights", "fetch it again", WeightsError

    def __init__(self, path: Path) -> None:
        try:
            super().__init__(path)
        except FileNotFoundError:
            raise WeightsError(f"{path} does not exist: give the weights that belong to the options.") from None
        except OSError as error:
            raise WeightsError(f"{path} cannot be read: {error.strerror or error}.") from None

    def __contains__(self, key: str) -> bool:
        return self._find(key) is not None

    def read(self, key: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """The dataset as float32; it must have numbers in exactly this shape."""
        dataset = self._find(key)
        with self.damage_reported(key):
            return self._read_checked(dataset, key, shape)

    def _read_checked(self, dataset: Any, key: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        if not isinstance(dataset, h5py.Dataset):
            raise WeightsError(f"{self.path} lacks the tensor {key} {shape}: the file is incomplete; fetch it again.")
        if dataset.dtype.kind != "f":
            raise WeightsError(f"{self.path}: tensor {key} holds {dataset.dtype}, but weights are floating point.")
        if dataset.shape != shape:
            raise shape_error(str(self.path), key, dataset.shape, shape)
        outside = dataset.external is not None or dataset.is_virtual
        if dataset.nbytes and not outside and not dataset.id.get_storage_size():
            raise WeightsError(f"{self.path}: tensor {key} was never written: the file is incomplete; fetch it again.")
        self.check_storage(dataset, key)
        return np.asarray(dataset[...], dtype=np.float32)

    def _find(self, key: str) -> Any:
        return self.find(*key.split("/"))
