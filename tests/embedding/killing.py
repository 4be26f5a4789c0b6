"""Run `embed_file` again and again, killing it at chosen moments, and resume it; prints what happened as JSON.

    python -m tests.embedding.killing MODEL INPUT FOLDER SUFFIX STATE NUMBER_OF_MOMENTS

Beside the moments of `tests.killing` those count at which the run adds a record; a number of them are spread over the
run (0: all that there are).
"""

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmokit.embedding import bulk, dump_thread, dumps, windows
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.store import VectorStore, is_store
from elmokit.embedding.store_writer import StoreWriter
from tests.killing import Moments, in_fork

WINDOW = 8
windows.WINDOW_INPUTS = WINDOW
dump_thread.COMMIT_SECONDS = 0.0


def contents(path: Path) -> Any:
    """All that a dump holds; for HDF5, whose bytes may differ, every key, value and attribute."""
    if path.suffix != ".hdf5":
        return path.read_bytes()
    with h5py.File(path) as file:
        values = {name: (item.dtype.str, item.shape, np.array(item[...]).tolist()) for name, item in file.items()}
        raw = {name: item[...].tobytes() for name, item in file.items() if item.dtype.kind == "f"}
        return values, raw, dict(file.attrs)


def main(model: str, source: str, folder: Path, suffix: str, state: Any, num_points: int) -> None:
    output = folder / f"out{suffix}"
    journal = Path(f"{output}.journal")

    def embed(deadly: int | None = None) -> dict[str, Any]:
        embedder = Embedder.from_pretrained(model, state=state, threads=1)
        windows = []
        run = embedder.embed_windows

        def counted(taken: Iterable[list[Any]]) -> Iterator[list[Any]]:
            for window in taken:
                windows.append(len(window))
                yield window

        embedder.embed_windows = lambda taken, *args, **extra: run(counted(taken), *args, **extra)
        moments = Moments(folder, deadly)
        moments.count(StoreWriter, "add")
        done = bulk.embed_file(source, output, embedder, bulk.EmbedOptions(batch_size=4))
        return done.to_dict() | {"moments": len(moments.names), "embedded": sum(windows)}

    status, first = in_fork(embed)
    assert status == 0, "the uninterrupted run failed"
    expected = contents(output)
    results = []
    generator = random.Random(suffix)
    moments = range(1, first["moments"] + 1)
    strata = [moments[part * len(moments) // num_points :][: len(moments) // num_points] for part in range(num_points)]
    for point in [generator.choice(stratum) for stratum in strata] or moments:
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        status, _ = in_fork(lambda point=point: embed(point))
        assert status == -signal.SIGKILL, f"not killed at {point}"
        whole = not output.exists() or contents(output) == expected
        committed = len(VectorStore(journal)) if is_store(journal) else None
        for leftover in journal.glob("*.tmp*") if journal.exists() else ():  # what a crash of the machine would lose
            os.truncate(leftover, generator.randint(0, leftover.stat().st_size))
        status, resumed = in_fork(embed)
        results.append(
            {
                "point": point,
                "whole": whole,
                "committed": committed,
                "status": status,
                "resumed": resumed,
                "equal": status == 0 and contents(output) == expected,
                "left": sorted(path.name for path in folder.iterdir()),
            }
        )
    with dumps.open_embeddings(output) as embeddings:
        total = len(embeddings)
    sys.stdout.write(json.dumps({"total": total, "moments": first["moments"], "results": results}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5], int(sys.argv[6]))
