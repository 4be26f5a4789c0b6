"""The option --input: whether the lines of a user's text are raw text or space-separated tokens."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from elmokit.errors import ElmokitWarning
from elmokit.text.input_kind import DEFAULT_INPUT, InputKind, is_shard, warn_of_files

InputOption = Annotated[
    InputKind | None,
    typer.Option(
        "--input",
        help="Lines are raw text or space-separated tokens; shards are always tokens.",
        show_default=DEFAULT_INPUT,
    ),
]
TrainingInputOption = Annotated[
    InputKind | None,
    typer.Option(
        "--input",
        help="Lines are raw text or space-separated tokens; shards are always tokens.",
        show_default="as in CONFIG",
    ),
]


def settle_input(
    given: InputKind | None, paths: Sequence[Path] = (), *, otherwise: InputKind = DEFAULT_INPUT, look: bool = True
) -> InputKind:
    """How a command reads its text: as requested, else by default; with a warning if the files suggest otherwise.

    Args:
        given: what the user requested, if anything.
        paths: the files to look into.
        otherwise: the default.
        look: whether to look into the files for signs of the other kind; readers that see each line once check by
            themselves.
    """
    if given == "text" and (shard := next(filter(is_shard, paths), None)):
        warnings.warn(
            f"{shard} was written by elmokit corpus shard, so it is read as tokens: leave --input out.",
            ElmokitWarning,
            stacklevel=2,
        )
    if look:
        warn_of_files(paths, given or otherwise)
    return given or otherwise
