"""One sentence for a system error about a file or a disk."""

import errno
import tempfile
from pathlib import Path

from elmokit.cache import cache_directory

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def describe_disk_error(error: OSError) -> str:
    """Name the location and the remedy: the user's path, or the cache and `ELMOKIT_CACHE`."""
    reason = error.strerror or str(error)
    if error.filename is None:
        return f"a file or device cannot be used ({reason}): free some space, or check what is plugged in and mounted."
    place, cache = Path(str(error.filename)), cache_directory()
    is_full = error.errno in _FULL
    if place.absolute().is_relative_to(cache.absolute()):
        if is_full:
            return (
                f"the cache {cache} is full ({reason}): free some space, run `elmokit cache clear`, or set "
                "ELMOKIT_CACHE to another folder."
            )
        return f"the cache cannot be used ({place}: {reason}): make it usable, or set ELMOKIT_CACHE to another folder."
    if is_full and place == Path(tempfile.gettempdir()):
        return f"{place}, for temporary files, is full ({reason}): free some space, or set TMPDIR to another folder."
    return f"{place}: {reason}; {'free some space, or ' if is_full else ''}give another path."
