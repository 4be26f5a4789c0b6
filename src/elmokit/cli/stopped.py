"""What a command says when it is stopped with Ctrl-C and has kept its work."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def telling_how_to_go_on(how: str = "repeat the command to go on from here", *, silent: bool = False) -> Iterator[None]:
    """Exit with 130 on Ctrl-C, and say on stderr how to go on unless nobody should hear it."""
    try:
        yield
    except KeyboardInterrupt:
        if not silent:
            typer.echo(f"elmokit: stopped; {how}", err=True)
        raise SystemExit(130) from None
