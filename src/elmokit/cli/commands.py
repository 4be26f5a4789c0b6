"""Groups of commands whose help shows flags as flags and arguments without braces."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import Default


class _Command(TyperCommand):
    def get_params(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Parameters, of which the flags (also `--help`) have no type to show."""
        return _without_types_of_flags(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """The parts of the usage line: INPUT where Typer writes {INPUT}."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]


class _Group(TyperGroup):
    def get_params(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """As of a command."""
        return _without_types_of_flags(super().get_params(ctx))


def _without_types_of_flags(parameters: Any) -> Any:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


class Commands(typer.Typer):
    """Commands under one name, with the same manners everywhere.

    Args:
        name: of the group.
        help: one line; None where the name alone does something, and the callback that does it has the help.
    """

    def __init__(self, name: str, help: str | None = None) -> None:
        super().__init__(
            name=name,
            help=Default(None) if help is None else help,
            cls=_Group,
            no_args_is_help=help is not None,
            add_completion=False,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"]},
        )

    def command(self, *names: Any, **settings: Any) -> Callable[[Any], Any]:
        """Add a command, as in Typer."""
        return super().command(*names, **{"cls": _Command, **settings})
