"""Locks that keep a second process out of a folder that is being written."""

import errno
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Self, TextIO

from elmokit.errors import FormatError
from elmokit.filesystem import LOCK, naming_destination

try:
    import fcntl
except ImportError:  # a system without file locks
    fcntl = None  # type: ignore[assignment]

WAIT_POLLS, WAIT_SECONDS = 3000, 0.2
"""How often, and at what interval, to try a lock while waiting for it."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL)


class FolderInUse(FormatError):
    """Another process is writing to a folder.

    Args:
        holder: the process id, or words for an unknown process.
        stale: advice to add on systems where a killed process leaves its lock behind.
    """

    def __init__(self, folder: Path, holder: str, stale: str = "") -> None:
        super().__init__(
            f"{folder} is in use by process {holder} or one that it started: wait until it ends, stop it{stale}, or "
            "give another folder."
        )
        self.holder = holder


class FolderLock:
    """Lets only one process at a time write to a folder; the lock always ends with the process.

    Where the system has no file locks, the existence of the lock file counts, and a killed process leaves it behind.

    Args:
        name: name of the lock file, which contains the process id.
        wait: wait up to ten minutes for the other process instead of refusing immediately.
        inherited: child processes get `descriptor` and may hold the lock longer than this process, so the file stays.

    Raises:
        FolderInUse: if another process holds the lock.
    """

    def __init__(self, folder: Path, *, name: str = LOCK, wait: bool = False, inherited: bool = False) -> None:
        self._path = folder / name
        self._inherited = inherited
        self._polls = WAIT_POLLS if wait else 1
        with naming_destination(folder):
            self._file = self._create() if fcntl is None else self._acquire()
            self._file.truncate(0)
            self._file.write(f"{os.getpid()}\n")
            self._file.flush()

    @property
    def descriptor(self) -> int:
        """The open file. A child process that inherits it keeps the lock if its parent is killed."""
        return self._file.fileno()

    def release(self) -> None:
        """Let others write."""
        if fcntl is None or not self._inherited:
            with suppress(OSError):
                self._path.unlink()
        self._file.close()

    def _acquire(self) -> TextIO:
        while True:
            file = open(self._path, "a+", encoding="ascii")
            try:
                self._flock(file)
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(file.fileno()), os.stat(self._path)):
                        return file
            except BaseException:
                file.close()
                raise
            file.close()  # the last holder has just removed it

    def _flock(self, file: TextIO) -> None:
        for _ in range(self._polls):
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(WAIT_SECONDS if self._polls > 1 else 0)
            except OSError as error:
                if error.errno in _NO_LOCKS:
                    return
                raise
        file.seek(0)
        raise self._held(file.read(20))

    def _create(self) -> TextIO:
        for _ in range(self._polls):
            try:
                return open(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666), "r+", encoding="ascii")
            except FileExistsError:
                time.sleep(WAIT_SECONDS if self._polls > 1 else 0)
        raise self._held(self._path.read_text(encoding="ascii", errors="replace")[:20])

    def _held(self, holder: str) -> FolderInUse:
        stale = f", or delete {self._path} if there is no such process" if fcntl is None else ""
        return FolderInUse(self._path.parent, holder.strip() or "(number unknown)", stale)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
