"""The long run that trains `base`: one command to set up, start, monitor and stop it, over days and machines.

    python tools/base_run.py start           make what is missing, then start or resume the run in the background
    python tools/base_run.py status          step, tokens, perplexity, hours left
    python tools/base_run.py stop            save and end (SIGTERM)
    python tools/base_run.py pause           while something is measured (SIGSTOP); `continue` lets it run again
    python tools/base_run.py finish          begin the decay of the learning rate
    python tools/base_run.py move COMMIT     use the code of another commit, if it repeats the losses of 100 steps
    python tools/base_run.py snapshot FOLDER write the best model so far in float16, and how many tokens it has read

Everything is in one folder outside the work tree (--home): a checkout of the commit that `tools/base_run.toml` names,
its own environment and native library, the tokenized text with its SHA-256, the word list, and the run
(`tools/base_parts.py` makes them). If there is no run yet, but `tools/base_run.toml` names a snapshot, the run
starts from it: with its weights, after the tokens that it has read, and with a longer warm-up.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.places import DATA, ROOT

from tools.base_parts import Failure, Parts, call, git, say

SETTINGS = ROOT / "tools/base_run.toml"
NICENESS, START_SECONDS, STOP_SECONDS, POLL_SECONDS = 10, 20.0, 300.0, 0.1
TRIAL_STEPS = 100
TOLERANCES = {"bfloat16": 0.01, "float32": 0.001}
"""How much a loss of the next steps may differ from that of the old code: bfloat16 rounds to 8 bits."""
SNAPSHOT_WARMUP = 1000
"""Warm-up steps of a run that starts from a snapshot, which has no optimizer state."""

Entries = list[dict[str, Any]]


class BaseRun(Parts):
    """The run in its folder; the arguments are those of `Parts`."""

    def __init__(self, home: Path, settings: dict[str, Any], *, root: Path = ROOT, data: Path = DATA) -> None:
        super().__init__(home, settings, root=root, data=data)
        self.run, self.snapshot_copy = home / "run", home / "snapshot"
        self.pid_file, self.output = home / "pid", home / "output.txt"

    # --- Running ---

    def command(self, output: Path, *more: str, heldout: bool = True) -> list[str]:
        """The command that trains."""
        words = ["nice", "-n", str(NICENESS), str(self.environment / "bin/elmokit")]
        words += ["pretrain", str(self.settings.get("config", "base")), "--resume", "--output", str(output)]
        words += ["--train", str(self.shards / "*/shard-*.txt")]
        words += ["--heldout", str(self.heldout / "*/shard-*.txt")] if heldout else []
        if self.snapshot_copy.exists():
            words += ["--init", str(self.snapshot_copy / "model"), "--skip-tokens", str(self.skipped_tokens())]
            words += ["--set", f"optimizer.warmup_steps={SNAPSHOT_WARMUP}"]
        else:
            words += ["--vocab", str(self.words)]
        return [*words, *more]

    def skipped_tokens(self) -> int:
        """Tokens read by the snapshot that the run started from."""
        return int(_read_json(self.snapshot_copy / "snapshot.json").get("tokens", 0))

    def start(self, wait: float = START_SECONDS) -> None:
        """Start or resume the run, and watch for some seconds that it stays alive."""
        with self.locked():
            if (pid := self.pid()) is not None:
                say(f"the run is {self.state()} already, as process {pid}")
                return
            if self.is_finished():
                raise Failure(f"the run is finished: its model is {self.run / 'model'}.")
            self.prepare()
            if not (self.run / "run.json").exists():
                self._take_snapshot()
            with self.output.open("ab") as log:
                process = subprocess.Popen(
                    self.command(self.run),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self.variables(),
                    start_new_session=True,
                )
            self.write(self.pid_file, f"{process.pid}\n")
            while self.pid() is None and process.poll() is None:  # for a moment it has no name yet
                time.sleep(POLL_SECONDS)
        for _ in range(round(wait / POLL_SECONDS)):
            time.sleep(POLL_SECONDS)
            if process.poll() is not None:
                if process.returncode == 0:
                    break
                raise Failure(f"the run ended at once: {self.last_words()}")
        say(f"started as process {process.pid}; what it says is in {self.output}")

    def _take_snapshot(self) -> None:
        """Copy the snapshot that the settings name, so that the run does not depend on the work tree."""
        shutil.rmtree(self.snapshot_copy, ignore_errors=True)
        if (name := self.settings.get("snapshot")) is None:
            return
        source = self.root / name
        if "tokens" not in _read_json(source / "snapshot.json") or not (source / "model").exists():
            raise Failure(f"{source} is no snapshot: give one that `snapshot` wrote, or leave it out of the settings.")
        self._make(self.snapshot_copy, partial(_copy, source))

    def pid(self) -> int | None:
        """The process id, if the run is alive; a new process that reuses the id does not count."""
        try:
            pid = int(self.pid_file.read_text(encoding="utf-8"))
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return pid if b"pretrain" in words and str(self.run).encode() in words else None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the run."""
        if (pid := self.pid()) is None:
            raise Failure("the run is not going: start it first.")
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            raise Failure("the run has just ended.") from None

    def stop(self) -> None:
        """Make it save and end, even if it is paused."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        for _ in range(round(STOP_SECONDS / POLL_SECONDS)):
            if self.pid() is None:
                say(f"stopped; its last words: {self.last_words()}")
                return
            time.sleep(POLL_SECONDS)
        raise Failure(f"it has not ended within {STOP_SECONDS:.0f} seconds: look at {self.output}.")

    def last_words(self) -> str:
        """The last line that the run printed."""
        lines = self.output.read_text(encoding="utf-8", errors="replace").split("\n") if self.output.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "none")

    # --- Looking ---

    def is_finished(self) -> bool:
        """Whether the run is finished."""
        return (self.run / "result.json").exists()

    def state(self) -> str:
        """What the run is doing, in a word or two."""
        if (pid := self.pid()) is not None:
            try:
                state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            except (OSError, IndexError):
                return "stopped"
            return "paused" if state in "Tt" else "running"
        if self.is_finished():
            return "finished"
        return "stopped" if (self.run / "run.json").exists() else "not begun"

    def entries(self) -> Entries:
        """The lines of the log; the last one may be half written."""
        try:
            lines = (self.run / "log.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
        except OSError:
            return []
        return [json.loads(line) for line in lines]

    def status(self) -> dict[str, Any]:
        """The progress of the run."""
        entries, record = self.entries(), _read_json(self.run / "run.json")
        losses = [entry for entry in entries if "loss" in entry]
        decays = [entry for entry in entries if "decay" in entry]
        num_steps = record.get("num_steps")
        if decays:
            num_steps = decays[-1]["step"] + record["config"]["optimizer"]["decay_steps"]
        step = entries[-1]["step"] if entries else 0
        tokens = self.skipped_tokens() + (losses[-1]["count"] if losses else 0)
        in_pass = _read_json(self.run / "corpus.json").get("epoch_predictions")
        speed = statistics.median(entry["per_second"] for entry in losses[-50:]) if losses else None
        left = None
        if losses and speed and num_steps:
            left = round((num_steps - step) * losses[-1]["count"] / losses[-1]["step"] / speed / 3600, 2)
        return {
            "state": self.state(),
            "process": self.pid(),
            "commit": self.commit() if self.pin.exists() else None,
            "step": step,
            "of": num_steps,
            "decay_from": decays[-1]["step"] if decays else None,
            "tokens": tokens,
            "passes": round(tokens / in_pass, 3) if in_pass else None,
            "loss": losses[-1]["loss"] if losses else None,
            "perplexity": [
                [e["step"], e["heldout_perplexity"], e.get("heldout_ema_perplexity")] for e in _measured(entries)
            ][-5:],
            "tokens_per_second": speed,
            "hours_left": left,
            "arithmetic": next((e["arithmetic"] for e in reversed(entries) if "arithmetic" in e), None),
        }

    # --- A model to continue from ---

    def snapshot(self, folder: Path) -> None:
        """Write the best model so far in float16, from the weights or their average, and what is needed to continue."""
        if folder.exists():
            raise Failure(f"{folder} exists already: give another folder, or delete it.")
        half = folder.with_name(f"{folder.name}.half")
        while True:
            if (best := _best(self.entries())) is None or not (self.run / "best").exists():
                raise Failure("the run has not been evaluated yet, so that there is no best model: wait for it.")
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir(parents=True)
            self.elmokit("convert", str(self.run / "best"), str(half / "model"), "--float16")
            if _best(self.entries()) == best:  # otherwise the run has found a better one meanwhile
                break
        perplexity, entry = best
        content = {
            "step": entry["step"],
            "tokens": self.skipped_tokens() + entry["count"],
            "perplexity": perplexity,
            "commit": self.commit(),
        }
        self.write(half / "snapshot.json", json.dumps(content, indent=1) + "\n")
        half.rename(folder)
        say(f"wrote {folder}: {content['tokens']:,} tokens, perplexity {perplexity:.2f}")

    # --- Other code ---

    def move(self, commit: str) -> None:
        """Use another commit's code if a copy of the run repeats the losses of the next steps with it."""
        if self.pid() is not None or self.is_finished():
            raise Failure("the run is finished." if self.is_finished() else "stop the run first.")
        with self.locked():
            new, old = git(self.root, "rev-parse", "--verify", f"{commit}^{{commit}}"), self.commit()
            before, tolerance = self._trial("before")
            try:
                self.use(new)
                after, other = self._trial("after")
                differences = [abs(one / two - 1) for one, two in zip(after, before, strict=False)]
                tolerance = max(tolerance, other)
                if len(after) != len(before) or max(differences) > tolerance:
                    raise Failure(
                        f"the losses of {new} differ by up to {max(differences, default=1):.2%}, but at most "
                        f"{tolerance:.1%} is accepted, so that the code stays at {old}."
                    )
            except BaseException:
                self.use(old)
                raise
            self.write(self.pin, new + "\n")
        say(f"moved to {new}: losses of the next steps differ by up to {max(differences):.3%}")

    def _trial(self, name: str) -> tuple[list[float], float]:
        """The losses of a copy of the run over the next steps, and how much others may differ from them."""
        found = sorted((self.run / "checkpoints").glob("step-*.pt"))
        if not found:
            raise Failure("the run has no checkpoint yet: start it first.")
        begin = int(found[-1].stem.removeprefix("step-"))
        decays = [entry["step"] for entry in self.entries() if "decay" in entry and entry["step"] <= begin]
        copy = self.home / f"trial-{name}"
        shutil.rmtree(copy, ignore_errors=True)
        try:
            shutil.copytree(self.run, copy, ignore=shutil.ignore_patterns("best", "model", ".*"))
            (copy / "finish").unlink(missing_ok=True)
            end = begin + TRIAL_STEPS
            changes = {
                "loop.max_steps": end,
                "optimizer.decay_steps": end - decays[-1] if decays else TRIAL_STEPS,
                "loop.log_every": TRIAL_STEPS // 10,
            }
            more = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
            call(*self.command(copy, *more, heldout=False), env=self.variables())
            lines = (copy / "log.jsonl").read_text(encoding="utf-8").splitlines()
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        entries = [json.loads(line) for line in lines]
        label = next((entry["arithmetic"] for entry in reversed(entries) if "arithmetic" in entry), "")
        losses = [entry["loss"] for entry in entries if "loss" in entry and entry["step"] > begin]
        return losses, TOLERANCES["float32" if label.startswith("float32") else "bfloat16"]


def _measured(entries: Entries) -> Entries:
    return [entry for entry in entries if "heldout_perplexity" in entry]


def _best(entries: Entries) -> tuple[float, dict[str, Any]] | None:
    """The best evaluation, of the weights or of their average, and its entry; the first of equal ones."""
    found = [
        (min(e["heldout_perplexity"], e.get("heldout_ema_perplexity", e["heldout_perplexity"])), e)
        for e in _measured(entries)
    ]
    return min(found, key=lambda pair: pair[0], default=None)


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target)


def _read_json(path: Path) -> dict[str, Any]:
    """The contents of a JSON file; empty if it does not exist."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; a foreseen failure is one sentence and exit code 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = ("start", "status", "stop", "pause", "continue", "finish", "prepare", "move", "snapshot")
    parser.add_argument("action", choices=actions)
    parser.add_argument("what", nargs="?", help="the commit to move to, or the folder of a snapshot")
    parser.add_argument("--home", type=Path, default=ROOT.parent / "base-run", help="where everything is kept")
    parser.add_argument("--settings", type=Path, default=SETTINGS, help="instead of tools/base_run.toml")
    parser.add_argument("--root", type=Path, default=ROOT, help="the work tree whose commits are taken")
    parser.add_argument("--wait", type=float, default=START_SECONDS, help="seconds that `start` watches the run")
    given = parser.parse_args(arguments)
    if (given.what is not None) != (given.action in ("move", "snapshot")):
        parser.error("`move` takes a commit, `snapshot` a folder, and the other actions nothing")
    try:
        settings = tomllib.loads(given.settings.read_text(encoding="utf-8"))
        run = BaseRun(given.home.resolve(), settings, root=given.root.resolve())
        _act(run, given.action, given.what, given.wait)
    except (Failure, OSError, tomllib.TOMLDecodeError) as error:
        sys.exit(f"base_run: {error}")


def _act(run: BaseRun, action: str, what: str, wait: float) -> None:
    if action == "start":
        run.start(wait)
    elif action == "status":
        print(json.dumps(run.status(), indent=1))
    elif action == "prepare":
        with run.locked():
            run.prepare()
    elif action == "stop":
        run.stop()
    elif action in ("pause", "continue"):
        run.signal(signal.SIGSTOP if action == "pause" else signal.SIGCONT)
    elif action == "finish":
        run.elmokit("pretrain", "--finish", "--output", str(run.run))
    elif action == "move":
        run.move(what)
    else:
        run.snapshot(Path(what).resolve())


if __name__ == "__main__":
    main()
