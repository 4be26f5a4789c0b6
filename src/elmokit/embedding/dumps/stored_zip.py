"""Write zip files of any size and number of members in constant memory.

`zipfile` keeps an object for each member, a gigabyte for a million of them. Here the directory of the members is kept
in a temporary file until the end. Members are stored, not compressed; zip64 is used where sizes require it.
"""

import struct
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Self

_BIG = 0xFFFFFFFF
_JANUARY_1980 = 0x21
_UTF8 = 0x800


class StoredZip:
    """A zip file that is written member by member."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb")
        try:
            self._directory: IO[bytes] = tempfile.TemporaryFile(dir=path.parent)
        except BaseException:
            self._file.close()
            raise
        self._count = 0

    def add(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write a member whose bytes are in memory."""
        data = list(parts)
        size, checksum = sum(len(part) for part in data), 0
        for part in data:
            checksum = zlib.crc32(part, checksum)
        self.begin(name, size, checksum)
        for part in data:
            self._file.write(part)

    def begin(self, name: str, size: int, checksum: int) -> None:
        """Write the header of a member; its bytes must follow through `write`."""
        offset, key = self._file.tell(), name.encode()
        big = size >= _BIG
        shown = _BIG if big else size
        version = 45 if big or offset >= _BIG else 20
        common = struct.pack("<HHHHHIIIH", version, _UTF8, 0, 0, _JANUARY_1980, checksum, shown, shown, len(key))
        extra = struct.pack("<HHQQ", 1, 16, size, size) if big else b""
        self._file.write(b"PK\3\4" + common + struct.pack("<H", len(extra)) + key + extra)
        wide = struct.pack("<QQ", size, size) if big else b""
        wide += struct.pack("<Q", offset) if offset >= _BIG else b""
        extra = struct.pack("<HH", 1, len(wide)) + wide if wide else b""
        tail = struct.pack("<HHHHII", len(extra), 0, 0, 0, 0, min(offset, _BIG))
        self._directory.write(b"PK\1\2" + struct.pack("<H", version) + common + tail + key + extra)
        self._count += 1

    def write(self, data: bytes) -> None:
        """Write more bytes of the current member."""
        self._file.write(data)

    def finish(self) -> None:
        """Write the directory."""
        start, size = self._file.tell(), self._directory.tell()
        self._directory.seek(0)
        while block := self._directory.read(1 << 20):
            self._file.write(block)
        count = self._count
        if count >= 0xFFFF or start >= _BIG or size >= _BIG:
            end = self._file.tell()
            self._file.write(b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, start))
            self._file.write(b"PK\6\7" + struct.pack("<IQI", 0, end, 1))
        few = min(count, 0xFFFF)
        self._file.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, few, few, min(size, _BIG), min(start, _BIG), 0))
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self._directory.close()
            self._file.close()
