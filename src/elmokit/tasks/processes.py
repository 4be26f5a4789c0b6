"""Commands as processes side by side, which end with the process that began them, and a folder that is theirs alone."""

import errno
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

from elmokit.errors import ElmokitError

try:
    import fcntl
except ImportError:  # a system without file locks
    fcntl = None  # type: ignore[assignment]

_UnderWay = set["subprocess.Popen[str]"]


def run_side_by_side(commands: Mapping[Path, Sequence[str]], *, number: int, lock: int | None) -> Iterator[Path]:
    """Run commands, and give the folder of each as it ends.

    A command that fails, or whatever stops this process, stops the others politely: they save their place.

    Args:
        commands: by the folder that each writes.
        number: at a time.
        lock: what `locked` gave.
    """
    under_way: _UnderWay = set()
    stopped = threading.Event()

    def run(folder: Path) -> Path:
        if stopped.is_set():
            return folder
        code, errors = launch(commands[folder], lock, under_way)
        if code:
            reason = errors.strip().splitlines()[-1] if errors.strip() else f"exit {code}"
            raise ElmokitError(f"the run {folder} failed ({reason.removeprefix('elmokit: ')}): repeat the command.")
        return folder

    with _termination_as_interrupt(), ThreadPoolExecutor(number) as pool:
        try:
            for future in as_completed([pool.submit(run, folder) for folder in commands]):
                yield future.result()
        except BaseException:
            stopped.set()
            for process in list(under_way):
                process.terminate()
            raise


def launch(command: Sequence[str], lock: int | None, under_way: _UnderWay) -> tuple[int, str]:
    """Run a command to its end, and give its exit code and what it said on stderr.

    Args:
        command: its words.
        lock: a file that it holds open, so that the lock outlives us if we are killed and it is not.
        under_way: has its process meanwhile.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=() if lock is None else (lock,),
    ) as process:
        under_way.add(process)
        try:
            _, errors = process.communicate()
        finally:
            under_way.discard(process)
    return process.returncode, errors


@contextmanager
def locked(folder: Path) -> Iterator[int | None]:
    """Keep other commands out of a folder as long as we, or a process that holds what this gives, live."""
    if fcntl is None:
        yield None
        return
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ElmokitError(
                f"{folder} is in use by another command, or by runs that one left behind: wait until they end, or "
                "stop them."
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL):
                raise
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Let a polite kill end us as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
