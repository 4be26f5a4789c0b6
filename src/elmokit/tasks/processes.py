"""Commands as parallel processes that end with the process that started them."""

import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

from elmokit.errors import ElmokitError

_UnderWay = set["subprocess.Popen[str]"]


def run_side_by_side(commands: Mapping[Path, Sequence[str]], *, number: int, lock: int) -> Iterator[Path]:
    """Run commands, and give the folder of each as it ends.

    A command that fails, or whatever stops this process, stops the others politely: they save their place.

    Args:
        commands: by the folder that each writes.
        number: at a time.
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
