"""Several processes that train one model: the same run, whatever their number."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from elmokit.errors import ConfigError
from elmokit.formats import load
from elmokit.training.distributed import Processes, own_device
from elmokit.training.run_folder import request_finish
from tests.training.runs import BASE, KINDS, merge, read_log, write_corpus
from tests.training.two_processes import free_port

COMMON = ["sampled", "sampled-adamw", "tied"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Runs in one process, in two, and from one number to the other."""
    folder = tmp_path_factory.mktemp("two")
    command = [sys.executable, "-m", "tests.training.two_processes", str(folder), *COMMON]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "way"), [*((kind, "two") for kind in COMMON), ("sampled", "one to two"), ("sampled", "two to one")]
)
def test_the_number_of_processes_changes_rounding_only(
    kind: str, way: str, trained: tuple[Path, dict[str, Any]]
) -> None:
    """Losses, norms of clipped gradients, perplexities and weights, with dropout and shared negatives."""
    folder, found = trained
    one, other = found[kind]["one"], found[kind][way]
    steps = one["ended"][0][1]
    assert steps > 5
    assert all(ended == [0, steps] for ended in other["ended"])
    assert len(other["log"]) == len(one["log"])
    assert other["log"][0] == one["log"][0]
    for entry, expected in zip(other["log"][1:], one["log"][1:], strict=True):
        assert entry == pytest.approx(expected, rel=1e-5)
    weights = load(folder / f"{kind} {way}" / "model").state_dict()
    for name, tensor in load(folder / f"{kind} one" / "model").state_dict().items():
        torch.testing.assert_close(weights[name], tensor, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_the_survivor_of_a_killed_process_says_so(trained: tuple[Path, dict[str, Any]]) -> None:
    survivor, killed = trained[1]["sampled"]["two to one ended"]
    assert killed[0] == -signal.SIGKILL
    assert survivor[0] == 0
    assert re.fullmatch(r"another process of this run has ended .* --resume; the number of processes .*\.", survivor[1])


def test_rows_are_shared_evenly() -> None:
    assert [list(Processes(rank, 2).own_rows(4)) for rank in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(ConfigError, match=r"batch_size \(5\) .* 2 processes: make it a multiple of 2"):
        Processes(0, 2).own_rows(5)


def test_each_process_has_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert own_device("cuda") == "cuda"
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert [own_device(device) for device in ("cuda", "cuda:0", "cpu")] == ["cuda:1", "cuda:0", "cpu"]


# --- Under torchrun --------------------------------------------------------------------------------------------------


def start(tmp_path: Path, *words: str, **loop: Any) -> subprocess.Popen[str]:
    """`elmokit pretrain` in two processes of torchrun."""
    corpus = write_corpus(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(merge(merge(BASE, KINDS["sampled"]), {"loop": loop})), encoding="utf-8")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    torchrun += ["--master-port", str(free_port())]
    command = ["-m", "elmokit", "pretrain", str(config), "--output", str(tmp_path / "run"), *words]
    files = [word for path in corpus["train"] for word in ("--train", path)] + ["--heldout", corpus["heldout"][0]]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(torchrun + command + files, stdout=pipe, stderr=pipe, text=True, env=environment)


@pytest.mark.slow
def test_torchrun(tmp_path: Path) -> None:
    """One result, one log, one line an evaluation, and nothing else."""
    process = start(tmp_path, "--json", max_steps=4)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads(out)["steps"] == 4
    assert [line for line in err.splitlines() if line] == [line for line in err.splitlines() if line.startswith("step")]
    assert err.count("step 4: held-out perplexity") == 1
    assert load(tmp_path / "run" / "model").vocabulary is not None


@pytest.mark.slow
def test_torchrun_finishes_on_request(tmp_path: Path) -> None:
    """The first process finds the request, and all of them decay."""
    wsd = ["--set", "optimizer.schedule=wsd", "--set", "optimizer.decay_steps=4"]
    process = start(tmp_path, "--json", *wsd, max_steps=10**6)
    checkpoint = tmp_path / "run" / "checkpoints" / "step-000000005.pt"
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.02)
    request_finish(tmp_path / "run")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    result = json.loads(out)
    (entry,) = [entry for entry in read_log(tmp_path / "run") if "decay" in entry]
    assert (result["reason"], result["steps"]) == ("end of decay", entry["step"] + 4)


@pytest.mark.slow
def test_a_killed_process_ends_the_job(tmp_path: Path) -> None:
    process = start(tmp_path, max_steps=10**6)
    checkpoint = tmp_path / "run" / "checkpoints" / "step-000000005.pt"
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.02)
    os.kill(_find_rank(process.pid, 1), signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "elmokit: another process of this run has ended" in err
    assert "elmokit/training" not in err  # no traceback of ours


def _find_rank(parent: int, rank: int) -> int:
    for child in map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8").split()):
        if f"RANK={rank}" in Path(f"/proc/{child}/environ").read_text(encoding="utf-8").split("\0"):
            return child
    raise AssertionError("no such process")
