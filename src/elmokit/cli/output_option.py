"""`--output`, which every command that writes a result has, and its relation to a positional OUTPUT."""

from typing import TypeVar

import typer

OUTPUT_NAMES = ("--output", "-o")

Place = TypeVar("Place")


def choose_output(argument: Place | None, option: Place | None, name: str) -> Place:
    """The output path, from the argument (called `name` in the help) or the option; exactly one must be given."""
    if argument is None and option is None:
        raise typer.BadParameter(f"say what to write, as {name} or with --output.", param_hint=name)
    if argument is not None and option is not None:
        raise typer.BadParameter(
            f"{name} {argument} and --output {option} both say what to write: give one of them.", param_hint=name
        )
    chosen = argument if argument is not None else option
    assert chosen is not None
    return chosen
