"""`elmokit cache`: what is cached on disk, how large it is, and how to remove it."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from elmokit.cli import options
from elmokit.cli.commands import Commands

if TYPE_CHECKING:
    from elmokit.cli.cached_items import Item

cache = Commands("cache")
_ALIASES = {"neighbours": "neighbors"}


@cache.callback(invoke_without_command=True)
def show(context: typer.Context, as_json: options.Json = False) -> None:
    """Show what is cached, how large it is and where; all of it can be downloaded or computed again.

    The folder is $ELMOKIT_CACHE, else $XDG_CACHE_HOME/elmokit, else ~/.cache/elmokit. It also contains the text of
    corpora that tasks and analyses have read, with its vectors.

    \b
    Examples:
      elmokit cache
      elmokit cache --json
      elmokit cache clear layers
    """  # noqa: D301
    if context.invoked_subcommand is not None:
        return
    from elmokit.cache import cache_directory
    from elmokit.cli.cached_items import KINDS, find_items, other_names

    items = find_items()
    others = other_names(items)
    if as_json:
        total = sum(item.num_bytes for item in items)
        content = {"folder": str(cache_directory()), "bytes": total, "items": [item.to_dict() for item in items]}
        typer.echo(json.dumps(content | {"others": others}, ensure_ascii=False, indent=2))
        return
    typer.echo(f"{cache_directory()}: {_size(items)}")
    for kind, what in KINDS.items():
        own = [item for item in items if item.kind == kind]
        if not own:
            continue
        typer.echo(f"\n{kind}: {_size(own)}, {what}")
        width = max(len(item.name) for item in own)
        for item in own:
            typer.echo(f"  {item.name:<{width}}  {_bytes(item.num_bytes):>10}  {item.note}".rstrip())
    if others:
        more = " …" if len(others) > 5 else ""
        typer.echo(f"\nnot elmokit's, left alone: {', '.join(others[:5])}{more}")


@cache.command()
def clear(
    kinds: Annotated[
        list[str] | None,
        typer.Argument(metavar="KIND", help="downloads, layers, neighbors or engine; by default all."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: options.Json = False,
) -> None:
    """Clear the cache, or some kinds of it; files being written by another process, and files of your own, are kept.

    Do not clear layers while a task is being trained on them.

    \b
    Examples:
      elmokit cache clear
      elmokit cache clear layers neighbors --yes
    """  # noqa: D301
    from elmokit.cache import cache_directory
    from elmokit.cli.cached_items import KINDS, find_items, in_use, remove
    from elmokit.errors import ElmokitError, FormatError

    chosen = {_ALIASES.get(kind, kind) for kind in kinds or KINDS}
    if unknown := sorted(chosen - set(KINDS)):
        raise typer.BadParameter(f"{unknown[0]!r} is not one of {', '.join(KINDS)}.", param_hint="KIND")
    items = [item for item in find_items() if item.kind in chosen]
    if items and not yes:
        _confirm(f"Remove {_size(items)} from {cache_directory()}?")
    freed, kept = 0, []
    for item in items:
        try:
            freed += remove(item)
        except FormatError as error:
            kept.append(in_use(error))
    if as_json:
        typer.echo(json.dumps({"folder": str(cache_directory()), "freed_bytes": freed, "kept": kept}))
    else:
        typer.echo(f"freed {_bytes(freed)}", err=True)
    if kept:
        raise ElmokitError(f"{'; '.join(kept)}: it is left alone; repeat the command when that process has ended.")


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            "confirmation needs a terminal: add --yes to clear the cache without asking.", param_hint="--yes"
        )
    typer.confirm(question, abort=True, err=True)


def _size(items: "list[Item]") -> str:
    return _bytes(sum(item.num_bytes for item in items))


def _bytes(number: int) -> str:
    size = float(number)
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
