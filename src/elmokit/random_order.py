"""Random orders that depend only on a key, so that a resumed run repeats them."""

import numpy as np
from numpy.typing import NDArray


def random_numbers(size: int, *key: int) -> NDArray[np.uint64]:
    """Random numbers that depend only on the key: numpy guarantees that the raw output of Philox never changes."""
    return np.atleast_1d(np.random.Philox(np.random.SeedSequence(key)).random_raw(size))


def random_order(size: int, *key: int) -> NDArray[np.int64]:
    """A permutation that depends only on the key."""
    return np.argsort(random_numbers(size, *key), kind="stable")
