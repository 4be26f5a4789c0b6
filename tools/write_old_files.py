"""Write small files with an older commit, one of each kind that users keep; `tests/test_old_files.py` reads them.

    git worktree add ../older daebe70
    python tools/write_old_files.py ../older

The inputs (invented sentences, settings of tiny models) are in `tests/fixtures/old-files`, the results next to them in
`written.tar.xz`. The commands are those of the older commit; they run in a copy of the inputs, so that files name each
other by relative paths. "Interrupted" means a SIGKILL just before a run opens a file of a given name.
"""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

INPUTS = Path(__file__).resolve().parents[1] / "tests/fixtures/old-files"
DATA = {"ner": "conll", "sentiment": "tsv", "qa": "json"}
RUNNER = """\
import os, signal, sys
from elmokit.cli.main import main
from elmokit.embedding import bulk, windows

windows.WINDOW_INPUTS, bulk.COMMIT_SECONDS = 3, 0.0
name = sys.argv.pop(1)

def end(event, args):
    if name and event == "open" and name in str(args[0]):
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(end)
main()
"""


def write_all(checkout: Path, folder: Path) -> None:
    """Run all commands with the source of a checkout, in a folder that has the inputs."""
    written = folder / "written"
    written.mkdir()
    settings = {"PYTHONPATH": str(checkout / "src"), "ELMOKIT_CACHE": "written/cache", "ELMOKIT_NATIVE": "0"}

    def run(*words: str, before: str = "") -> str:
        """The output of a command; `before` is the name of a file that interrupts it."""
        command = [sys.executable, "-c", RUNNER, before, *words, "--threads", "1"]
        done = subprocess.run(command, cwd=folder, env=os.environ | settings, capture_output=True, text=True)
        if done.returncode != (-signal.SIGKILL if before else 0):
            sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    for kind in ("characters", "words"):
        pretrain = ["pretrain", f"{kind}.toml", "--train", "train.txt", "--heldout", "heldout.txt"]
        run(*pretrain, "--output", f"written/{kind}")
        run(*pretrain, "--output", f"written/interrupted-{kind}", before="step-000000008")
        shutil.rmtree(written / kind / "checkpoints")
    model = ["--model", "written/characters/model"]
    embed = ["embed", "train.txt", *model, "--input", "tokens"]
    for suffix in ("hdf5", "jsonl", "npz", "parquet"):
        run(*embed, f"written/vectors.{suffix}")
    run(*embed, "written/interrupted.npz", before="00000002.")
    neighbors = ["analyze", "neighbors", "Ada saw the bank .", "--word", "bank", "--layers", "all", "--input", "tokens"]
    answer = run(*neighbors, *model, "--corpus", "train.txt", "--index", "written/index", "--json")
    (written / "neighbors.json").write_text(answer, encoding="utf-8")
    for task, suffix in DATA.items():
        train, dev = f"{task}-train.{suffix}", f"{task}-dev.{suffix}"
        command = [
            "task",
            "train",
            task,
            "--preset",
            f"{task}.toml",
            "--train",
            train,
            "--dev",
            dev,
            "--test",
            dev,
            *model,
        ]
        run(*command, "--output", f"written/{task}")
        run(*command, "--output", f"written/interrupted-{task}", before="step-000000004")
    for lock in written.rglob("*lock"):
        lock.unlink()


def main(checkout: Path) -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory(prefix="old-files") as temporary:
        folder = Path(temporary) / "inputs"
        shutil.copytree(INPUTS, folder, ignore=shutil.ignore_patterns("*.xz"))
        write_all(checkout, folder)
        with tarfile.open(INPUTS / "written.tar.xz", "w:xz", preset=9) as archive:
            archive.add(folder / "written", "written", filter=_without_owner)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    return member.replace(uid=0, gid=0, uname="", gname="", deep=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
