"""Build a neighbor index again and again, killing it at chosen moments, and finish it; prints what happened as JSON.

    python -m tests.analysis.index_killing MODEL CORPUS FOLDER NUMBER_OF_MOMENTS

Beside the moments of `tests.killing` those count at which a sentence is added; a number of them are spread over the
build (0: all that there are).
"""

import json
import random
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from elmokit.analysis.neighbors import build as neighbor_build
from elmokit.analysis.neighbors.index import NeighborIndex, is_finished
from elmokit.embedding import windows
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.store import VectorStore, is_store
from elmokit.embedding.store_writer import StoreWriter
from tests.killing import Moments, in_fork

windows.WINDOW_INPUTS = 3
neighbor_build.COMMIT_BYTES = 1


def contents(folder: Path) -> dict[str, bytes]:
    """All files of an index."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def main(model: str, corpus: Path, folder: Path, num_points: int) -> None:
    index = folder / "index"

    def build(deadly: int | None = None) -> dict[str, Any]:
        embedder = Embedder.from_pretrained(model, threads=1)
        embedded: list[int] = []
        run = embedder.embed_window
        embedder.embed_window = lambda inputs, *args: embedded.append(len(inputs)) or run(inputs, *args)
        moments = Moments(folder, deadly)
        moments.count(StoreWriter, "add")
        neighbor_build.open_index(embedder, corpus, index, input="text")
        return {"moments": len(moments.names), "embedded": sum(embedded)}

    status, first = in_fork(build)
    assert status == 0, "the uninterrupted build failed"
    expected = contents(index)
    generator = random.Random(0)
    moments = range(1, first["moments"] + 1)
    strata = [moments[part * len(moments) // num_points :][: len(moments) // num_points] for part in range(num_points)]
    results = []
    for point in [generator.choice(stratum) for stratum in strata] or moments:
        shutil.rmtree(folder)
        folder.mkdir()
        status, _ = in_fork(lambda point=point: build(point))
        assert status == -signal.SIGKILL, f"not killed at {point}"
        whole = not is_finished(index) or contents(index).keys() >= expected.keys()
        committed = len(VectorStore(index / "vectors")) if is_store(index / "vectors") else 0
        status, resumed = in_fork(build)
        # A kill after all was done leaves the writer's lock and the empty files that it had opened for a next chunk.
        left = {name for name, data in contents(index).items() if data and name != "vectors/lock"}
        results.append(
            {
                "point": point,
                "whole": whole,
                "committed": committed,
                "status": status,
                "resumed": resumed,
                "equal": status == 0 and all(contents(index)[name] == data for name, data in expected.items()),
                "strange": sorted(left - expected.keys()),
            }
        )
    total = len(NeighborIndex(index).store)
    sys.stdout.write(json.dumps({"total": total, "moments": first["moments"], "results": results}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
