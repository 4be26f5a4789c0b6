"""One run of an experiment, in a process of its own: `python -m elmokit.tasks.experiments.single_run SETTINGS`.

SETTINGS is a JSON object: `config`, all settings of the run, and `files`, the fields of `TaskFiles`. A run that was
begun before resumes. An error that a user can mend is one line on stderr and exit code 1.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from elmokit.errors import ElmokitError
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.runner import TaskFiles, train_task


def command(config: TaskConfig, files: TaskFiles) -> list[str]:
    """The command that trains with these settings."""
    values = {**asdict(files), "output": str(files.output)}
    values["layers_folder"] = values["layers_folder"] and str(values["layers_folder"])
    settings = {"config": config.model_dump(mode="json"), "files": values}
    return [sys.executable, "-m", "elmokit.tasks.experiments.single_run", json.dumps(settings)]


def run(settings: str) -> dict[str, Any]:
    """Train with settings from `command`, and return the content of `result.json`."""
    import torch

    from elmokit.amx import avoid_hidden_tiles
    from elmokit.tasks.registry import find_task

    avoid_hidden_tiles()  # before the first product
    values = json.loads(settings)
    config, files = TaskConfig.model_validate(values["config"]), TaskFiles(**values["files"])
    if files.threads is not None:
        torch.set_num_threads(files.threads)
    return train_task(find_task(config.task), config, files)


def main(words: Sequence[str]) -> int:
    """Run, and return the exit code."""
    try:
        run(*words)
    except (ElmokitError, OSError) as error:
        sys.stderr.write(f"elmokit: {' '.join(str(error).split())}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("elmokit: interrupted\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
