"""The long run that trains `base`: set up, started, looked at and stopped by one command, over days and machines.

    python tools/base_run.py start       make what is missing, then start or resume the run in the background
    python tools/base_run.py status      step, tokens, perplexity, hours left
    python tools/base_run.py stop        let it save and end (SIGTERM)
    python tools/base_run.py pause       while something is measured (SIGSTOP); `continue` lets it run again
    python tools/base_run.py finish      begin the decay of the learning rate
    python tools/base_run.py move COMMIT take the code of another commit, if it repeats the losses of 100 steps

Everything is in one folder outside the work tree (--home): a checkout of the commit that `tools/base_run.toml` names,
an environment and a native library of its own, the tokenized text with its SHA-256, the word list, and the run. Each
part is made once, whole or not at all, so that the command can be repeated at any time.
"""

import argparse
import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.places import DATA, ROOT

SETTINGS = tomllib.loads((ROOT / "tools/base_run.toml").read_text(encoding="utf-8"))
NICENESS, START_SECONDS, STOP_SECONDS = 10, 20, 300
TRIAL_STEPS = 100
TOLERANCE = 0.02
"""How far the mean loss of 100 steps may be from that of the code before: bfloat16 rounds to 8 bits."""


class Failure(Exception):
    """A sentence for the user."""


class BaseRun:
    """The folder of the run and its parts."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.checkout, self.environment, self.cache = home / "checkout", home / "venv", home / "cache"
        self.shards, self.heldout, self.words, self.run = (
            home / name for name in ("shards", "heldout", "words.txt", "run")
        )
        self.pin, self.pid_file, self.output = home / "commit", home / "pid", home / "output.txt"

    # --- Making what is missing ---

    def prepare(self) -> None:
        """Make every part that is not there."""
        self.home.mkdir(parents=True, exist_ok=True)
        if not self.pin.exists():
            self.pin.write_text(SETTINGS["commit"] + "\n", encoding="utf-8")
        self._make(self.checkout, self._clone)
        self._install()
        self._make(self.cache, lambda folder: self.elmokit("build-engine", cache=folder))
        for target, sources in ((self.shards, "[0-9]*"), (self.heldout, "heldout")):
            self._make(target, lambda folder, sources=sources: self._shard(folder, sources))
        if not self.words.exists():
            say("counting words")
            arguments = ["--output", str(self.words), "--max-size", str(SETTINGS["num_words"])]
            self.elmokit("corpus", "vocab", str(self.shards / "*/shard-*.txt"), *arguments)
        self._check_shards()

    def _make(self, target: Path, build: Callable[[Path], None]) -> None:
        """Build a folder under another name, so that half of it is never taken for the whole."""
        if target.exists():
            return
        say(f"making {target.name}")
        half = target.with_name(f"{target.name}.half")
        shutil.rmtree(half, ignore_errors=True)
        build(half)
        half.rename(target)

    def _clone(self, folder: Path) -> None:
        call("git", "clone", "--quiet", str(ROOT), str(folder))
        call("git", "-C", str(folder), "checkout", "--quiet", self.pin.read_text(encoding="utf-8").strip())

    def _install(self) -> None:
        """Make the environment, which cannot be renamed: a mark at its end says that it is whole."""
        mark = self.environment / "installed"
        if mark.exists():
            return
        say("making venv")
        shutil.rmtree(self.environment, ignore_errors=True)
        call(sys.executable, "-m", "venv", str(self.environment))
        pip = [str(self.environment / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip += ["--constraint", str(self.checkout / "constraints.txt")]
        call(*pip, "torch")
        call(*pip, "--editable", str(self.checkout))
        mark.touch()

    def _shard(self, folder: Path, sources: str) -> None:
        """Tokenize each kind of text apart, so that the stream can mix them in any proportion."""
        folder.mkdir()
        for kind, number in SETTINGS["shards"].items():
            count = number if sources != "heldout" else 1
            arguments = ["--output", str(folder / kind), "--shards", str(count), "--compression", "none"]
            self.elmokit("corpus", "shard", str(DATA / "lm" / f"{kind}-{sources}.txt.xz"), *arguments)

    def _check_shards(self) -> None:
        """Compare the text with the sums that were written down when it was made."""
        for record in sorted(self.home.glob("*/*/corpus.json")):
            for shard in json.loads(record.read_text(encoding="utf-8"))["shards"]:
                path = record.parent / shard["name"]
                with path.open("rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
                if found != shard["sha256"]:
                    raise Failure(f"{path} has changed: delete {record.parents[1]} and start again.")

    # --- Running ---

    def command(self, output: Path, *more: str) -> list[str]:
        """The command that trains."""
        return [
            *(str(self.environment / "bin/elmokit"), "pretrain", "base", "--resume", "--output", str(output)),
            *("--train", str(self.shards / "*/shard-*.txt"), "--heldout", str(self.heldout / "*/shard-*.txt")),
            *("--vocab", str(self.words), *more),
        ]

    def variables(self, cache: Path | None = None) -> dict[str, str]:
        """The environment variables of its processes; threads that wait leave the cores to others."""
        return os.environ | {"ELMOKIT_CACHE": str(cache or self.cache), "OMP_WAIT_POLICY": "PASSIVE"}

    def elmokit(self, *arguments: str, cache: Path | None = None) -> None:
        """Run a command of the pinned elmokit."""
        call(str(self.environment / "bin/elmokit"), *arguments, env=self.variables(cache))

    def start(self) -> None:
        """Start or resume the run, and see that it lives."""
        if (pid := self.pid()) is not None:
            say(f"the run is going, as process {pid}")
            return
        if (self.run / "result.json").exists():
            raise Failure(f"the run is finished: its model is {self.run / 'model'}.")
        self.prepare()
        with self.output.open("ab") as log:
            process = subprocess.Popen(
                ["nice", "-n", str(NICENESS), *self.command(self.run)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.variables(),
                start_new_session=True,
            )
        self.pid_file.write_text(f"{process.pid}\n", encoding="utf-8")
        for _ in range(START_SECONDS):
            time.sleep(1)
            if process.poll() is not None:
                last = self.output.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
                raise Failure(f"the run ended at once: {' '.join(last)}")
        say(f"started as process {process.pid}; its words are in {self.output}")

    def pid(self) -> int | None:
        """The number of the process, if it lives."""
        try:
            pid = int(self.pid_file.read_text(encoding="utf-8"))
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if str(self.run).encode() in words else None

    def signal(self, number: signal.Signals) -> int:
        """Send a signal to the run."""
        if (pid := self.pid()) is None:
            raise Failure("the run is not going: start it first.")
        os.kill(pid, number)
        return pid

    def stop(self) -> None:
        """Let it save and end."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        for _ in range(STOP_SECONDS):
            if self.pid() is None:
                say("stopped; it has saved its state")
                return
            time.sleep(1)
        raise Failure(f"it has not ended within {STOP_SECONDS} seconds: look at {self.output}.")

    def status(self) -> dict[str, Any]:
        """How far the run is."""
        entries = [json.loads(line) for line in (self.run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        record = json.loads((self.run / "run.json").read_text(encoding="utf-8"))
        losses = [entry for entry in entries if "loss" in entry]
        measured = [entry for entry in entries if "heldout_perplexity" in entry]
        decays = [entry for entry in entries if "decay" in entry]
        num_steps = decays[-1]["num_steps"] if decays else record["num_steps"]
        step = entries[-1]["step"]
        speeds = sorted(entry["per_second"] for entry in losses[-50:])
        speed = speeds[len(speeds) // 2] if speeds else math.nan
        per_step = losses[-1]["count"] / losses[-1]["step"] if losses else math.nan
        return {
            "process": self.pid(),
            "step": step,
            "of": num_steps,
            "tokens": losses[-1]["count"] if losses else 0,
            "loss": losses[-1]["loss"] if losses else None,
            "perplexity": [
                [e["step"], e["heldout_perplexity"], e.get("heldout_ema_perplexity")] for e in measured[-5:]
            ],
            "tokens_per_second": speed,
            "hours_left": round((num_steps - step) * per_step / speed / 3600, 1),
            "arithmetic": [entry["arithmetic"] for entry in entries if "arithmetic" in entry][-1:],
        }

    # --- Other code ---

    def move(self, commit: str) -> None:
        """Take another commit's code if a copy of the run repeats the losses of the next steps with it."""
        if self.pid() is not None:
            raise Failure("stop the run first.")
        before = self._trial("before")
        old = self.pin.read_text(encoding="utf-8")
        call("git", "-C", str(self.checkout), "fetch", "--quiet", str(ROOT), commit)
        call("git", "-C", str(self.checkout), "checkout", "--quiet", commit)
        self.elmokit("build-engine")
        after = self._trial("after")
        difference = abs(sum(after) / sum(before) - 1)
        if len(after) != len(before) or difference > TOLERANCE:
            call("git", "-C", str(self.checkout), "checkout", "--quiet", old.strip())
            raise Failure(f"the losses differ by {difference:.2%}, so that the code stays at {old.strip()}.")
        self.pin.write_text(commit + "\n", encoding="utf-8")
        say(f"moved to {commit}: the losses of {TRIAL_STEPS} steps differ by {difference:.3%}")

    def _trial(self, name: str) -> list[float]:
        """The losses of a copy of the run over the next steps."""
        copy = self.home / f"trial-{name}"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.run, copy)
        begin = self.status()["step"]
        steps = [f"loop.max_steps={begin + TRIAL_STEPS}", f"optimizer.decay_steps={TRIAL_STEPS}"]
        call(*self.command(copy, *(word for step in steps for word in ("--set", step))), env=self.variables())
        entries = [json.loads(line) for line in (copy / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        shutil.rmtree(copy)
        return [entry["loss"] for entry in entries if "loss" in entry and entry["step"] > begin]


def call(*command: str, env: dict[str, str] | None = None) -> None:
    """Run a program that must succeed."""
    done = subprocess.run(command, env=env)
    if done.returncode:
        raise Failure(f"{' '.join(command[:4])} … failed with exit code {done.returncode}: see above.")


def say(line: str) -> None:
    """A line for the user."""
    print(f"base_run: {line}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; a foreseen failure is one sentence and exit code 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = ("start", "status", "stop", "pause", "continue", "finish", "prepare", "move")
    parser.add_argument("action", choices=actions)
    parser.add_argument("commit", nargs="?", help="for move")
    parser.add_argument("--home", type=Path, default=ROOT.parent / "base-run", help="where everything is kept")
    given = parser.parse_args(arguments)
    run = BaseRun(given.home.resolve())
    try:
        if given.action == "status":
            print(json.dumps(run.status(), indent=1))
        elif given.action == "move":
            if not given.commit:
                raise Failure("say which commit to move to.")
            run.move(given.commit)
        elif given.action == "finish":
            run.elmokit("pretrain", "--finish", "--output", str(run.run))
        elif given.action in ("pause", "continue"):
            run.signal(signal.SIGSTOP if given.action == "pause" else signal.SIGCONT)
        else:
            getattr(run, given.action)()
    except (Failure, OSError) as error:
        sys.exit(f"base_run: {error}")


if __name__ == "__main__":
    main()
