"""The `elmokit` command: its subcommands, and how an error becomes one line and an exit code.

Exit codes: 0 done, 1 failure, 2 usage, 130 interrupted. torch is imported only by the command that needs it.
"""

import sys
import warnings
from typing import Annotated

import typer

from elmokit._version import __version__
from elmokit.amx import avoid_hidden_tiles
from elmokit.cli.analyse import analyse
from elmokit.cli.build_engine import build_engine
from elmokit.cli.cache import cache
from elmokit.cli.convert import convert
from elmokit.cli.corpus import corpus
from elmokit.cli.disk import describe_disk_error
from elmokit.cli.embed import embed
from elmokit.cli.info import info
from elmokit.cli.perplexity import perplexity, score, substitutes
from elmokit.cli.presets import presets
from elmokit.cli.pretrain import finetune, pretrain
from elmokit.cli.task import task
from elmokit.errors import ElmokitError, ElmokitWarning

app = typer.Typer(
    name="elmokit",
    help="ELMo on current PyTorch: train biLMs, adapt them, load every published model, embed text.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


for command in (info, convert, embed, score, substitutes, pretrain, finetune, perplexity, presets, build_engine):
    app.command()(command)
app.add_typer(corpus)
app.add_typer(cache)
app.add_typer(task)
app.add_typer(analyse)


def main() -> None:
    """Run the command line and exit: a foreseen failure is one line on stderr and 1, Ctrl-C is 130."""
    warnings.showwarning = _show_warning
    avoid_hidden_tiles()
    try:
        app()
    except ElmokitError as error:
        _fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        _fail(describe_disk_error(error))
    except KeyboardInterrupt:
        typer.echo("elmokit: interrupted", err=True)
        sys.exit(130)


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
    """Our own warnings are for the user; those of libraries are not."""
    if issubclass(category, ElmokitWarning):
        typer.secho("elmokit: warning: ", err=True, fg="yellow", nl=False)
        typer.echo(str(message), err=True)
