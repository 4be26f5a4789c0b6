"""The `elmokit` command: its subcommands, and how an error becomes one line and an exit code.

Exit codes: 0 done, 1 failure, 2 usage, 130 interrupted. torch is imported only by the command that needs it.
"""

import atexit
import gc
import re
import sys
import warnings
from typing import Annotated

import typer

from elmokit._version import __version__
from elmokit.amx import avoid_hidden_tiles
from elmokit.cli.analyze import analyze
from elmokit.cli.cache import cache
from elmokit.cli.commands import Commands
from elmokit.cli.convert import convert
from elmokit.cli.corpus import corpus
from elmokit.cli.disk import describe_disk_error
from elmokit.cli.embed import embed
from elmokit.cli.info import info
from elmokit.cli.perplexity import perplexity, score, substitutes
from elmokit.cli.presets import presets
from elmokit.cli.pretrain import finetune, pretrain
from elmokit.cli.streams import OUTPUT, discard_output, name_output, open_closed_streams
from elmokit.cli.task import task
from elmokit.errors import ElmokitError, ElmokitWarning

_ALLOCATIONS = 10_000
"""Objects that may be made before the next search for garbage; Python's default is 700."""

app = Commands("elmokit", "ELMo on current PyTorch: train biLMs, adapt them, load every published model, embed text.")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"elmokit {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """ELMo on current PyTorch: train biLMs, adapt them, load every published model, embed text."""


for command in (info, convert, embed, score, substitutes, pretrain, finetune, perplexity, presets):
    app.command()(command)
app.add_typer(corpus)
app.add_typer(cache)
app.add_typer(task)
app.add_typer(analyze)
app.add_typer(analyze, name="analyse", hidden=True)


def main() -> None:
    """Run the command line and exit: an expected failure is one line on stderr and exit code 1, Ctrl-C is 130."""
    warnings.showwarning = _show_warning
    _collect_less_garbage()
    avoid_hidden_tiles()
    try:
        open_closed_streams()
        name_output()
        _run()
    except ElmokitError as error:
        _fail(str(error))
    except BrokenPipeError:  # the reader of the output has closed it, as head does: not an error
        discard_output()
        sys.exit(1)
    except OSError as error:
        _fail(_describe(error))
    except MemoryError as error:
        _fail(f"there is not enough memory ({str(error) or 'no more can be had'}): {_SMALLER}.")
    except RuntimeError as error:
        if not (reason := _OUT_OF_MEMORY.search(str(error))):
            raise
        _fail(f"there is not enough memory ({reason[0].rstrip('.')}): {_SMALLER}.")
    except KeyboardInterrupt:
        typer.echo("elmokit: interrupted", err=True)
        sys.exit(130)


def _collect_less_garbage() -> None:
    """Save a third of the time that a short command takes: importing torch makes many objects, and none is garbage."""
    gc.set_threshold(_ALLOCATIONS, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)  # what is left at the end is freed with the process


def _run() -> None:
    """Run the command and flush its output now: failures at interpreter exit are not handled."""
    try:
        app()
    except SystemExit as end:
        sys.stdout.flush()
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):  # so typer exits
            typer.echo("elmokit: interrupted", err=True)
        raise


_SMALLER = "choose smaller sizes or batches, or a machine with more memory"
_OUT_OF_MEMORY = re.compile(
    r"can't allocate memory[^.\n]{0,80}|not enough memory[^.\n]{0,80}|\w* ?out of memory[^.\n]{0,80}|"
    r"Storage size calculation overflowed|integer multiplication overflow|Overflow when unpacking long",
    re.IGNORECASE,
)


def _describe(error: OSError) -> str:
    """One sentence for a failure of the system."""
    if error.filename == OUTPUT:
        discard_output()
        return f"standard output cannot be written to: {error.strerror or error}; send it elsewhere."
    return describe_disk_error(error)


def _fail(message: str) -> None:
    typer.secho("elmokit: ", err=True, fg="red", bold=True, nl=False)
    typer.echo(" ".join(message.split()), err=True)
    sys.exit(1)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: object = None,
) -> None:
    """Show elmokit's own warnings to the user, and hide those of libraries."""
    if issubclass(category, ElmokitWarning):
        typer.secho("elmokit: warning: ", err=True, fg="yellow", nl=False)
        typer.echo(str(message), err=True)
