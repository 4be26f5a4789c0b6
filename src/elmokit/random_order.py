"""Random orders that depend on a key alone, so that a resumed run repeats them."""

import numpy as np
from numpy.typing import NDArray


def random_numbers(size: int, *key: int) -> NDArray[np.uint64]:
    """Numbers that depend on the key alone: numpy keeps the raw ones of Philox the same for ever."""
    return np.atleast_1d(np.random.Philox(np.random.SeedSequence(key)).random_raw(size))


def random_order(size: int, *key: int) -> NDArray[np.int64]:
    """A permutation that depends on the key alone."""
    return np.argsort(random_numbers(size, *key), kind="stable")
