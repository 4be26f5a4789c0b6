"""`elmokit convert`: a model from one format to another."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def convert(
    source: Annotated[
        str, typer.Argument(metavar="SRC", help="A model of any format: path, published name or Hub id.")
    ],
    target: Annotated[Path, typer.Argument(metavar="DST", help="The directory, or for nlpl the .zip, to write.")],
    to: Annotated[
        Literal["native", "bilm", "nlpl"] | None,
        typer.Option(help="The format to write; by default nlpl for a .zip, else native."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what DST already holds.")] = False,
) -> None:
    r"""Read a model of any format and write it as native, bilm or nlpl.

    \b
    Examples:
      elmokit convert elmo_2x1024_options.json small/
      elmokit convert small/ small-for-allennlp/ --to bilm
      elmokit convert many-langs/de german/
    """
    from elmokit.formats import load, save

    to = to or ("nlpl" if target.suffix == ".zip" else "native")
    save(load(source), target, format=to, overwrite=overwrite)
    typer.echo(f"wrote {target} ({to})", err=True)
