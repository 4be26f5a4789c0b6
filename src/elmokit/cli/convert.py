"""`elmokit convert`: a model, or a file of embeddings, from one format to another."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from elmokit.cli import options
from elmokit.wording import counted


def convert(
    source: Annotated[
        str,
        typer.Argument(metavar="SRC", help="A model of any format (path, published name, Hub id), or embeddings."),
    ],
    dst: Annotated[
        Path | None,
        typer.Argument(
            metavar="DST", help="For a model, a directory or .zip; for embeddings, .hdf5 .parquet .npz .jsonl."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(*options.OUTPUT_NAMES, help="Alternative to the argument DST.")] = None,
    to: Annotated[
        Literal["native", "bilm", "nlpl"] | None,
        typer.Option(help="Format of the written model; by default nlpl for a .zip, else native."),
    ] = None,
    float16: Annotated[
        bool, typer.Option("--float16", help="Store the weights as float16, in half the space; native only.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing DST.")] = False,
) -> None:
    """Convert a model of any format to native, bilm or nlpl; or convert embeddings, by the suffix of DST.

    \b
    Examples:
      elmokit convert mini my-model
      elmokit convert elmo_2x1024_options.json small/
      elmokit convert small/ small-for-allennlp/ --to bilm
      elmokit convert many-langs/de german/
      elmokit convert run/model my-model/ --float16
      elmokit convert vectors.hdf5 vectors.parquet
    """  # noqa: D301
    target = options.choose_output(dst, output, "DST")
    from elmokit.embedding.dumps import FORMATS, convert_dump, is_dump
    from elmokit.errors import FormatError
    from elmokit.recognize import did_you_mean

    to_dump = target.suffix.lower() in FORMATS
    if is_dump(source):
        if to is not None or float16 or not to_dump:
            raise FormatError(
                f"{source} is a file of embeddings, not a model: give a DST that ends in one of {', '.join(FORMATS)}, "
                "and no --to or --float16."
            )
        count = convert_dump(source, target, overwrite=overwrite)
        typer.echo(f"wrote {target} ({counted(count, 'sentence')})", err=True)
        return
    if to_dump:
        if not Path(source).exists():
            raise FormatError(f"there is no file {source}{did_you_mean(source)}: give a file of embeddings.")
        raise FormatError(
            f"{source} is not a file of embeddings, but DST {target} would be one: give a directory for a model, or "
            "make embeddings with elmokit embed."
        )
    from elmokit.formats import load, save

    to = to or ("nlpl" if target.suffix.lower() == ".zip" else "native")
    if to != "nlpl" and target.suffix.lower() == ".zip":
        raise FormatError(
            f"{target} ends in .zip, but the {to} format is a folder: give another name, or choose --to nlpl."
        )
    save(load(source), target, format=to, overwrite=overwrite, float16=float16, inputs=[source])
    typer.echo(f"wrote {target} ({to}{', float16' if float16 else ''})", err=True)
