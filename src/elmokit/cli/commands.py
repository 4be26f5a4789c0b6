"""Command groups whose help shows flags without types and arguments without braces."""

import os.path
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import Default

_TYPED = f"{__name__}.typed"
"""Where a context keeps the values as they were typed, by the name of the parameter."""


class _Command(TyperCommand):
    """Parses as usual, but explains two common mistakes better."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        """Parse, then refuse "" as a path."""
        rest = super().parse_args(ctx, args)
        self._refuse_empty_paths(ctx, ctx.meta[_TYPED])
        return rest

    def make_parser(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """The usual parser, which also keeps what was typed and refuses a pattern that the shell has expanded."""
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_and_keep(args: list[str]) -> Any:
            found = typed, extra, _ = parse(args=list(args))
            if extra and not typed.get("help") and not ctx.resilient_parsing:
                self._refuse_expanded_pattern(ctx, args)
            ctx.meta[_TYPED] = typed
            return found

        parser.parse_args = parse_and_keep  # type: ignore[method-assign]
        return parser

    def _refuse_empty_paths(self, ctx: typer.Context, typed: Any) -> None:
        """Refuse "" as a path, which Python would read as the working directory."""
        for parameter in self.get_params(ctx):
            given, value = typed.get(parameter.name), ctx.params.get(parameter.name)
            is_empty = given == "" or (isinstance(given, list | tuple) and "" in given)
            if is_empty and any(
                isinstance(one, Path) for one in (value if isinstance(value, list | tuple) else [value])
            ):
                is_option = parameter.param_type_name == "option"
                name = max(parameter.opts, key=len) if is_option else parameter.metavar
                raise typer.BadParameter("it is empty: give a path.", ctx=ctx, param_hint=name)

    def _refuse_expanded_pattern(self, ctx: typer.Context, args: list[str]) -> None:
        """Explain surplus arguments where the shell has expanded a pattern after an option."""
        names = {
            name
            for parameter in self.get_params(ctx)
            if getattr(parameter, "multiple", False)
            for name in parameter.opts
        }
        for option, first, second in zip(args, args[1:], args[2:], strict=False):
            if option in names and not second.startswith("-") and os.path.exists(second):
                raise typer.BadParameter(
                    f"{second} follows {first}, but each {option} takes one value: quote a pattern, so that the shell "
                    f"leaves it alone ({option} '*.txt'), or repeat {option} for every file.",
                    ctx=ctx,
                    param_hint=option,
                )

    def get_params(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """The parameters; flags (also `--help`) show no type."""
        return _without_types_of_flags(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """The parts of the usage line: INPUT where Typer writes {INPUT}."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]


class _Group(TyperGroup):
    def get_params(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Like those of a command."""
        return _without_types_of_flags(super().get_params(ctx))


def _without_types_of_flags(parameters: Any) -> Any:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


class Commands(typer.Typer):
    """Commands under one name, with the same conventions everywhere.

    Args:
        name: the name of the group.
        help: one line; None if the group has a callback that provides the help.
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
        """Add a command, as Typer does."""
        return super().command(*names, **{"cls": _Command, **settings})
