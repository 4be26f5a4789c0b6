"""The message of a command that is stopped with Ctrl-C and has saved its work."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def resume_hint(how: str = "repeat the command to resume", *, silent: bool = False) -> Iterator[None]:
    """Exit with 130 on Ctrl-C, and print on stderr how to resume, unless `silent`."""
    try:
        yield
    except KeyboardInterrupt:
        if not silent:
            typer.echo(f"elmokit: stopped; {how}", err=True)
        raise SystemExit(130) from None
