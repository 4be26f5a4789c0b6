"""A task run that ends at any moment and is resumed must be the run that did not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.engine
def test_sigkill_at_any_moment(tmp_path: Path) -> None:
    """Real kills: while layers are embedded, at steps, at checkpoints, at the best model, at the result."""
    command = [sys.executable, "-m", "tests.tasks.killing", str(tmp_path), "7", "store", "frozen", "tuned"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {kill["kept"] for kill in found["store"]} == {0, 1, 2, 3}
    assert [kill for kill in found["store"] if kill["kept"] + kill["prepared"] != 3 or not kill["equal"]] == []
    for kind in ("frozen", "tuned"):
        assert len(found[kind]) == 7
        assert [kill for kill in found[kind] if kill["status"] or kill["different"]] == [], kind
