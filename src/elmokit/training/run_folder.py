"""The folder of a run, whether it trains a language model or a task model.

A run needs its own folder: new, empty, or the folder of a run to resume. It holds the folder's lock until it ends, and
the first file that it writes is `run.json`, which marks the folder as a run's.
"""

import json
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from elmokit._version import __version__
from elmokit.config import TokenizerConfig
from elmokit.corpus.mixing import ORDERS, Order
from elmokit.errors import ConfigError
from elmokit.filesystem import (
    foreign_files,
    is_empty,
    naming_destination,
    refuse_input,
    remove_leftovers,
    write_text_atomic,
)
from elmokit.locks import FolderLock
from elmokit.recognize import RUN_RECORD, RUN_RESULT, RUN_SURVEY, is_run, read_object
from elmokit.text.input_kind import INPUTS, InputKind

RECORD, RESULT, SURVEY, FINISH = RUN_RECORD, RUN_RESULT, RUN_SURVEY, "finish"
_BEFORE_TRAINING = (RECORD, SURVEY, FINISH, "vocab.txt", "counts.txt", "log.jsonl", "tensorboard")
"""Files that a run writes before its first checkpoint; a run that stopped before that starts over in its folder."""


def check_run_folder(
    output: Path, *, resume: bool, models: Iterable[str | Path | None] = (), inputs: Iterable[str | Path] = ()
) -> None:
    """Refuse a folder that a run must not write to, before anything is changed.

    The models that a run reads must not be inside its folder; other inputs must not be inside the folder of a new run.
    """
    if str(output) == "-":
        raise ConfigError("'-' is not a name for a run's folder: give a new folder as --output.")
    named = [model for model in models if model is not None]
    refuse_input(output, named if resume else [*named, *inputs])
    if not output.exists() or (output.is_dir() and is_empty(output)):
        return
    if not output.is_dir():
        raise ConfigError(f"{output} is a file: give a new folder as --output.")
    if not is_run(output):
        example = foreign_files(output, ())[0]
        raise ConfigError(
            f"{output} holds files that are not a run's, e.g. {example}: a run needs a new or empty folder, so give "
            "another --output."
        )
    if not resume and foreign_files(output, _BEFORE_TRAINING):
        raise ConfigError(
            f"{output} holds a run already: repeat the command with --resume to resume it, or give another --output."
        )


def request_finish(output: Path) -> bool:
    """Ask the run in a folder to begin the decay of its learning rate, now or when it is resumed.

    Returns:
        Whether this is the first request.

    Raises:
        ConfigError: if there is no run, it is finished, or its schedule has no decay to begin.
    """
    config = read_object(output / RECORD).get("config")
    if not isinstance(config, dict):
        raise ConfigError(f"there is no run in {output}: give the folder of a run as --output.")
    if (output / RESULT).exists():
        raise ConfigError(f"the run in {output} is finished already: its model is {output / 'model'}.")
    optimizer = config.get("optimizer", {})
    if not isinstance(optimizer, dict) or optimizer.get("schedule") != "wsd":
        raise ConfigError(
            f"the run in {output} cannot be finished on request: its optimizer.schedule is "
            f"{optimizer.get('schedule', 'constant')!r}, and only 'wsd' has a decay that can begin at any time."
        )
    is_first = not (output / FINISH).exists()
    write_text_atomic(output / FINISH, "")
    return is_first


class RunFolder:
    """Creates, locks and marks the folder of a run, after `check_run_folder` has accepted it.

    A run that fails before it has written anything leaves no folder behind.

    `config` has the resolved settings; an existing `run.json` is kept.
    """

    def __init__(self, output: Path, config: Mapping[str, Any]) -> None:
        self._output = output
        with naming_destination(output):
            output.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(output)
        try:
            remove_leftovers(output)
            self._is_new = not (output / RECORD).exists()
            if self._is_new:
                record = {"config": config, "versions": versions()}
                write_text_atomic(output / RECORD, json.dumps(record, indent=1) + "\n")
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        unused = kind is not None and self._is_new and not foreign_files(self._output, (RECORD,))
        if unused:
            (self._output / RECORD).unlink()
        self._lock.release()
        if unused:
            with suppress(OSError):  # another process has begun a run there
                self._output.rmdir()


def input_of_run(output: Path) -> InputKind | None:
    """How the run in a folder reads its text; None if there is no run."""
    config = read_object(output / RECORD).get("config")
    if not isinstance(config, dict):
        return None
    corpus = config.get("corpus", {})
    found = corpus.get("input", "tokens") if isinstance(corpus, dict) else None  # the default of runs without it
    return found if found in INPUTS else None


def order_of_run(output: Path) -> Order | None:
    """The order in which the run in a folder reads its files; None if there is no run.

    Runs that do not record it are older than the setting, and read one file after the other.
    """
    config, key = read_object(output / RECORD).get("config"), read_object(output / SURVEY).get("key")
    corpus = key.get("settings") if isinstance(key, dict) else None
    if corpus is None and isinstance(config, dict):  # a run that has not counted its text yet
        corpus = config.get("corpus", {})
    found = corpus.get("order", "files") if isinstance(corpus, dict) else None
    return found if found in ORDERS else None


def tokenizer_of_run(output: Path) -> TokenizerConfig | None:
    """The tokenizer of the text of the run in a folder; None if there is no run or it does not record one."""
    key = read_object(output / SURVEY).get("key")
    found = key.get("tokenizer") if isinstance(key, dict) else None
    try:
        return None if found is None else TokenizerConfig.model_validate(found)
    except ValidationError:
        return None


def versions() -> dict[str, str]:
    """Versions of the software, for the record of a run."""
    import numpy as np
    import torch

    return {
        "elmokit": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
