"""Run commands as parallel processes that end with the process that started them."""

import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

from elmokit.errors import ElmokitError

_UnderWay = set["subprocess.Popen[str]"]


def run_parallel(commands: Mapping[Path, Sequence[str]], *, number: int, lock: int) -> Iterator[Path]:
    """Run commands, and yield the folder of each as it ends.

    If a command fails, or this process is stopped, the others receive SIGTERM, on which they save their progress.

    Args:
        commands: commands by the folder that each writes.
        number: number of commands to run at a time.
        lock: the descriptor of the folder's lock, which every command inherits.
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


def launch(command: Sequence[str], lock: int, under_way: _UnderWay) -> tuple[int, str]:
    """Run a command to its end, and return its exit code and its stderr.

    Args:
        command: program and arguments.
        lock: a descriptor that the command inherits, so that the lock outlives this process if only this one is killed.
        under_way: contains the process while it runs.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=(lock,),
    ) as process:
        under_way.add(process)
        try:
            _, errors = process.communicate()
        finally:
            under_way.discard(process)
    return process.returncode, errors


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Make SIGTERM end this process as Ctrl-C does."""
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
