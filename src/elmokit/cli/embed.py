"""`elmokit embed`: the vectors of a file's sentences, as a file."""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from elmokit.cli import options
from elmokit.cli.paths import check_model
from elmokit.cli.progress import embedding_bar
from elmokit.cli.stopped import resume_hint
from elmokit.wording import counted

if TYPE_CHECKING:
    from elmokit.embedding.bulk import EmbedSummary


_TURN = 0.0005
"""Seconds that a thread may run Python code while another one waits to start its next product."""


def embed(
    source: options.Source,
    target: Annotated[
        str | None,
        typer.Argument(metavar="OUTPUT", help="A .hdf5 .h5 .parquet .npz or .jsonl file; - is JSON lines on stdout."),
    ] = None,
    other_target: Annotated[
        str | None, typer.Option(*options.OUTPUT_NAMES, help="Alternative to the argument OUTPUT.")
    ] = None,
    model: options.Model = options.DEFAULT_MODEL,
    layers: Annotated[
        str, typer.Option(help="all, top, average, a layer's number, or one weight per layer: 0.2,0.3,0.5.")
    ] = "all",
    pooling: Annotated[
        Literal["none", "mean", "max"], typer.Option(help="One vector per sentence instead of one per token.")
    ] = "none",
    input_: options.Input = None,
    state: Annotated[
        Literal["reset", "carry", "warm"],
        typer.Option(help="The LSTM state at the start of a sentence; see docs/embedding.md."),
    ] = "reset",
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Sentences per batch; with --state carry, rows (default 32).")
    ] = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum tokens per batch, which bounds memory; the default is the fastest."),
    ] = None,
    dtype: Annotated[Literal["float32", "float16"], typer.Option(help="Data type of the vectors.")] = "float32",
    errors: options.Errors = "strict",
    resume: Annotated[bool, typer.Option(help="Resume an unfinished run, or start over.")] = True,
    threads: options.Threads = None,
    device: options.Device = "cpu",
    precision: options.Precision = "float32",
    int8: Annotated[bool, typer.Option("--int8", help="The same as --precision int8.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished OUTPUT.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON on stdout.")] = False,
) -> None:
    """Write the vectors of every line of a file. If interrupted, repeat the command to resume.

    \b
    Examples:
      elmokit embed sentences.txt vectors.hdf5
      elmokit embed sentences.txt vectors.npz --model path/to/model
      elmokit embed corpus.txt.gz top.parquet --model original --layers top --pooling mean
      cat sentences.txt | elmokit embed - - --model original --layers average | head -n 2
    """  # noqa: D301
    output = options.choose_output(target, other_target, "OUTPUT")
    if as_json and output == "-":
        raise typer.BadParameter("both it and OUTPUT - would write to stdout.", param_hint="--json")
    parsed = options.parse_layers(layers)
    _check_arguments(source, output, model, device)
    from elmokit.embedding.bulk import EmbedOptions, embed_file
    from elmokit.embedding.embedder import Embedder

    settings = EmbedOptions(
        layers=parsed,
        pooling=pooling,
        input=options.settle_input(input_, [] if source == "-" else [Path(source)], look=False),
        dtype=dtype,
        batch_size=batch_size,
        errors=errors,
        resume=resume,
        overwrite=overwrite,
    )
    _return_freed_memory()
    _share_cores()
    embedder = Embedder.from_pretrained(
        model,
        device=device,
        state=state,
        threads=threads,
        precision=_own_precision(precision, output, resume=resume, overwrite=overwrite),
        int8=int8,
        batch_tokens=batch_tokens,
    )
    with resume_hint() if output != "-" else nullcontext(), embedding_bar() as report:
        done = embed_file(source, output, embedder, settings, report=report)
    _print(done, as_json=as_json)


def _check_arguments(source: str, output: str, model: str, device: str) -> None:
    """Refuse what cannot be read, written or used, before the model is loaded."""
    from elmokit.embedding.dumps import check_output
    from elmokit.embedding.lines import check_readable

    if output != "-":
        check_output(output)
    check_readable(source)
    check_model(model)
    from elmokit.model.devices import check_device

    check_device(device)


def _own_precision(precision: str, output: str, *, resume: bool, overwrite: bool) -> str:
    """For "auto", the precision of the run that is resumed, or of the output that is there already."""
    if precision != "auto" or output == "-":
        return precision
    from elmokit.embedding.journal import find_precision

    return find_precision(Path(output), resume=resume, overwrite=overwrite) or precision


def _return_freed_memory() -> None:
    """Make glibc map large arrays one by one, so that each returns to the system when it is freed.

    By default, glibc takes later arrays from its heaps, where freed gaps between others are kept: a fifth of the
    full-size model's peak memory. Smaller arrays, such as all of a small model's, stay on the heaps: to map and clear
    them anew takes time.
    """
    import ctypes

    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(-3, 12 * 2**20)  # M_MMAP_THRESHOLD
        mallopt(-1, 32 * 2**20)  # M_TRIM_THRESHOLD, which the line above would otherwise lower to 128 KB


def _share_cores() -> None:
    """Leave the cores to the threads that compute: no products on this thread, and short turns for Python code."""
    from elmokit.model.engines.workers import compute_on_one_core

    compute_on_one_core()
    sys.setswitchinterval(_TURN)


def _print(done: "EmbedSummary", *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(done.to_dict()))
    elif done.was_done:
        typer.echo(f"{done.output} is already complete: {counted(done.num_lines, 'sentence')}", err=True)
    elif done.output != "-":
        resumed = f", {done.num_resumed:,} of them by an earlier run" if done.num_resumed else ""
        unknown = f"; {done.num_unknown:,} of {counted(done.num_tokens, 'token')} unknown" if done.num_unknown else ""
        typer.echo(f"wrote {done.output}: {counted(done.num_lines, 'sentence')}{resumed}{unknown}", err=True)
