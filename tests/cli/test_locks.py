"""Every command that keeps a folder is alone in it: a second one says which process is there and changes nothing."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elmokit.formats import save
from elmokit.locks import FolderLock
from tests.conftest import build_tiny
from tests.running import Call, assert_one_line
from tests.tasks.conftest import write_entities
from tests.training.runs import BASE, merge, write_corpus

TASK = "--train train.conll --dev dev.conll --test test.conll --set num_epochs=1 --model bilm"
COMMANDS = {
    "pretrain": ("pretrain config.json --train a.txt --output out", "out", ".lock"),
    "finetune": ("finetune bilm --train a.txt --output out --set num_epochs=1", "out", ".lock"),
    "task train": (f"task train ner {TASK} --output out", "out", ".lock"),
    "task compare": (f"task compare ner {TASK} --output out", "out", ".lock"),
    "mixing": (f"analyze mixing ner {TASK} --output out", "out", ".lock"),
    "placement": (f"analyze placement ner {TASK} --output out", "out", ".lock"),
    "sample-efficiency": (f"analyze sample-efficiency ner {TASK} --fractions 1 --output out", "out", ".lock"),
    "embed": ("embed a.txt vectors.npz --model bilm", "vectors.npz.journal", "lock"),
    "neighbors": (
        "analyze neighbors the --word the --corpus a.txt --model bilm --index out",
        "out/vectors",
        "lock",
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_corpus(tmp_path)
    save(build_tiny("softmax"), tmp_path / "bilm")
    (tmp_path / "config.json").write_text(json.dumps(merge(BASE, {"loop": {"max_steps": 2}})))
    for seed, name in enumerate(("train", "dev", "test")):
        write_entities(tmp_path / f"{name}.conll", 4, seed)
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_in_use_is_left_alone(name: str, folder: Path, run: Call) -> None:
    line, where, lock = COMMANDS[name]
    (folder / where).mkdir(parents=True)
    with FolderLock(folder / where, name=lock):
        said = "vectors.npz is being written by" if name == "embed" else "is in use by"
        assert_one_line(run(*line.split()), f"{said} process {os.getpid()}")
        assert os.listdir(folder / where) == [lock]


@pytest.mark.parametrize("name", ["pretrain", "task train"])
def test_the_second_of_two_runs_at_once_fails(name: str, folder: Path) -> None:
    line = COMMANDS[name][0].split()
    hold = (
        "import sys, time\nfrom pathlib import Path\n"
        "from elmokit.training import loop\nfrom elmokit.cli.main import main\n"
        "original = loop.Loop.run\n"
        "def run(self):\n    Path('held').touch()\n    while not Path('free').exists(): time.sleep(0.01)\n"
        "    return original(self)\n"
        "loop.Loop.run = run\nmain()\n"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": folder, "env": environment}
    with subprocess.Popen([sys.executable, "-c", hold, *line], **pipes) as first:  # type: ignore[call-overload]
        while not (folder / "held").exists():
            assert first.poll() is None, first.stderr.read()
            time.sleep(0.01)
        for more in ([], ["--resume"]):
            second = subprocess.run([sys.executable, "-m", "elmokit", *line, *more], **pipes)  # type: ignore[call-overload]
            assert second.returncode == 1
            expected = f"in use by process {first.pid} " if more else "out"
            assert expected in second.stderr and second.stderr.count("\n") == 1
        (folder / "free").touch()
        assert first.wait() == 0, first.stderr.read()
    assert (folder / "out" / "result.json").exists()
