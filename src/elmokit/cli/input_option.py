"""The option --input: whether the lines of a user's text are raw text or tokens between spaces."""

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
        help="Lines are raw text, or tokens between spaces, as shards always are.",
        show_default=DEFAULT_INPUT,
    ),
]
TrainingInputOption = Annotated[
    InputKind | None,
    typer.Option(
        "--input",
        help="Lines are raw text, or tokens between spaces, as shards always are.",
        show_default="as in CONFIG",
    ),
]


def settle_input(
    given: InputKind | None, paths: Sequence[Path] = (), *, otherwise: InputKind = DEFAULT_INPUT, look: bool = True
) -> InputKind:
    """How a command reads its text: as asked, else by default; with a warning if the files say otherwise.

    Args:
        given: what the user asked for, if anything.
        paths: the files.
        otherwise: what holds if the user did not ask.
        look: whether to look into the files for signs of the other kind; what reads lines only once looks itself.
    """
    if given == "text" and (shard := next(filter(is_shard, paths), None)):
        warnings.warn(
            f"{shard} was written by elmokit corpus shard, so it is read as the tokens it holds: leave --input out.",
            ElmokitWarning,
            stacklevel=2,
        )
    if look:
        warn_of_files(paths, given or otherwise)
    return given or otherwise
