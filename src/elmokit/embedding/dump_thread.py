"""Keep the journal of a run and write its dump, on one thread, while the next lines are embedded.

The dump is written from the records in memory as they come. Only a run that resumes reads the journal back: its dump
begins with what earlier runs committed.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from numpy.typing import NDArray

from elmokit.embedding.dumps import dump_format, write_part
from elmokit.embedding.records import Meta, Record
from elmokit.embedding.store_writer import StoreWriter
from elmokit.model.engines.workers import compute_on_one_core

COMMIT_SECONDS, COMMIT_BYTES = 2.0, 32 * 2**20
"""Windows are committed together as long as no more than this much work could be lost."""
WAITING_BYTES = 8 * 2**20
"""Vectors that may wait for the thread; the caller is held up when there are more."""
REPORT_SECONDS = 0.5
"""Time between reports while the caller is held up."""


@dataclass(frozen=True)
class _WindowEnd:
    """All records of a window were added: what the journal notes if it commits here."""

    note: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


class _Abandoned(Exception):
    """The run has failed, so the dump is not finished."""


class DumpThread:
    """Adds records to a journal and to a dump; as a context manager, it ends with all records committed and written.

    If its block raises an error, what was added is still committed by the same rules, and the dump is removed.

    Args:
        journal: the journal, which stays open.
        part: where to write the dump; its suffix is its format. None writes only the journal.
        meta: the origin of the vectors in the dump.
        report: called with the number of records in the dump, regularly while the caller is held up.
    """

    def __init__(self, journal: StoreWriter, part: Path | None, meta: Meta, report: Callable[[int], None]) -> None:
        self._journal, self._part, self._meta, self._report = journal, part, meta, report
        self._items: deque[Record | _WindowEnd | None] = deque()  # None is the end
        self._bytes = 0
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._is_abandoned = False
        self._num_written = 0
        self._committed_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="elmokit-dump")
        self._thread.start()

    def add(self, record: Record) -> None:
        """Add a record.

        Raises:
            OSError: if the journal or the dump could not be written, here or in a later call.
        """
        self._put(record, record.vectors.nbytes)

    def end_window(self, note: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Say that a window is complete: a run can resume from here."""
        self._put(_WindowEnd(note, arrays), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with self._changed:
            self._is_abandoned = kind is not None
            self._items.append(None)
            self._changed.notify_all()
        while self._thread.is_alive():
            self._thread.join(REPORT_SECONDS)
            if self._thread.is_alive() and kind is None:
                self._report(self._num_written)
        if kind is not None and self._part is not None:
            self._part.unlink(missing_ok=True)
        if kind is None and self._error is not None:
            raise self._error

    def _put(self, item: Record | _WindowEnd, size: int) -> None:
        with self._changed:
            while self._bytes > WAITING_BYTES and self._error is None:
                if not self._changed.wait(REPORT_SECONDS):
                    self._report(self._num_written)
            if self._error is not None:
                raise self._error
            self._items.append(item)
            self._bytes += size
            self._changed.notify_all()

    def _take(self) -> Record | _WindowEnd | None:
        with self._changed:
            while not self._items:
                self._changed.wait()
            item = self._items.popleft()
            if isinstance(item, Record):
                self._bytes -= item.vectors.nbytes
            self._changed.notify_all()
            return item

    def _run(self) -> None:
        try:
            compute_on_one_core()
            records = self._records()
            if self._part is None:
                deque(records, maxlen=0)
            else:
                write_part(records, self._part, self._meta, dump_format(self._part))
        except _Abandoned:
            pass
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _records(self) -> Iterator[Record]:
        """The records of the dump: what earlier runs committed, then what is added, which the journal gets first."""
        if self._part is not None:
            for record in self._journal.committed:
                yield record
                self._num_written += 1
        end = None
        while (item := self._take()) is not None:
            if isinstance(item, Record):
                self._journal.add(item.text, item.tokens, item.vectors)
                yield item
                self._num_written += 1
            else:
                end = item
                self._commit(end)
        if self._is_abandoned:
            raise _Abandoned
        if end is not None:
            self._journal.commit(end.note, end.arrays)

    def _commit(self, end: _WindowEnd) -> None:
        """Commit, unless little work could be lost."""
        waited = time.monotonic() - self._committed_at
        if waited >= COMMIT_SECONDS or self._journal.pending_bytes >= COMMIT_BYTES:
            self._journal.commit(end.note, end.arrays)
            self._committed_at = time.monotonic()
