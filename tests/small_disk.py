"""A disk that is full, as far as the system lets us have one."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def small_disk(num_bytes: int) -> Iterator[None]:
    """Let the system refuse every write beyond so many bytes of a file, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
