"""Threads that each compute on one core, without changing the thread settings of the rest of the process.

The two directions of a biLM are independent, and so are two batches, so whole directions run in parallel. That scales
better than splitting every matrix product, and a result never depends on the number of threads, because each product
is always computed by one. `torch.set_num_threads` would change the setting for threads that the caller starts later;
the calls below affect only the calling thread.
"""

import ctypes
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def compute_on_one_core() -> None:
    """Keep torch's products on the calling thread; has no effect where the libraries are not accessible."""
    torch.get_num_threads()  # makes torch set up this thread now; later it would undo this
    try:
        libraries = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    except OSError:
        return
    for name in ("omp_set_num_threads", "MKL_Set_Num_Threads_Local"):
        function = getattr(libraries, name, None)
        if function is not None:
            function(ctypes.c_int(1))


class Workers:
    """A pool of such threads."""

    def __init__(self, num_threads: int) -> None:
        self.num_threads = num_threads
        self._pool = ThreadPoolExecutor(num_threads, "elmokit", initializer=compute_on_one_core)

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        weigh: Callable[[Item], float] = lambda _: 1.0,
    ) -> Iterator[Result]:
        """Yield results in the order of the items; items are taken only as fast as the results are.

        Args:
            function: what a thread does with an item.
            items: taken until one more than the threads can work on is waiting.
            weigh: the size of an item, compared with the largest ones; more small ones may wait.
        """
        waiting: deque[tuple[Future[Result], float]] = deque()
        total = 0.0
        try:
            for item in items:
                waiting.append((self._pool.submit(_without_gradients, function, item), weigh(item)))
                total += waiting[-1][1]
                while total >= self.num_threads + 1:
                    future, weight = waiting.popleft()
                    total -= weight
                    yield future.result()
            while waiting:
                yield waiting.popleft()[0].result()
        finally:
            for future, _ in waiting:
                future.cancel()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _without_gradients(function: Callable[[Item], Result], item: Item) -> Result:
    with torch.inference_mode():
        return function(item)
