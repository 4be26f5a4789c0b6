"""Open text by what its name says: plain, or compressed as .gz, .xz or .bz2."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from elmokit.errors import InputError

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_DAMAGED = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)


@contextmanager
def open_text(path: Path, *, errors: str = "strict") -> Iterator[TextIO]:
    r"""Read UTF-8 text whose lines end at `\n` only, so that no other separator can break a line.

    A file that is not text, or is damaged or not there, ends in an `InputError` that says so.
    """
    opener = _OPENERS.get(path.suffix, open)
    try:
        with opener(path, "rt", encoding="utf-8", errors=errors, newline="\n") as lines:
            yield lines
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text ({error.reason} after {error.start} bytes of a block): "
            "convert it to UTF-8 first."
        ) from None
    except _DAMAGED as error:
        raise InputError(f"{path} is damaged or not a {path.suffix} file ({error}): fetch it again.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
