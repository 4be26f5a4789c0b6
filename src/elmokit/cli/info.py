"""`elmokit info`: what a model is."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from elmokit.wording import counted

if TYPE_CHECKING:
    from elmokit.formats import ModelInfo


def info(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A path, mini (in the package), a published name (original, many-langs/de …), a Hub id.",
        ),
    ] = None,
    engine: Annotated[bool, typer.Option("--engine", help="Show which engine this machine uses instead.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="With --engine: check that vectors have the promised bits on this machine.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show a model's format, sizes, parameters, languages and SHA-256; for a packaged model, also its version and card.

    \b
    Examples:
      elmokit info mini
      elmokit info path/to/model
      elmokit info elmo_2x1024_weights.hdf5 --json
      elmokit info many-langs/de
      elmokit info --engine --verify
    """  # noqa: D301
    if verify and not engine:
        raise typer.BadParameter("it checks the engine: give --engine too.", param_hint="--verify")
    if engine:
        _show_engine(verify=verify, as_json=as_json)
        return
    if model is None:
        raise typer.BadParameter("name a model, or ask for --engine.", param_hint="MODEL")
    from elmokit.formats import describe

    found = describe(model)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
        return
    _print_rows(_rows(found), as_json=False)
    if found.card is not None:
        typer.echo(f"\n{found.card}", nl=False)


def _show_engine(*, verify: bool, as_json: bool) -> None:
    if not verify:
        _print_rows(_engine_rows(), as_json=as_json)
        return
    from elmokit.embedding.verify import verify_bits

    verification = verify_bits()
    _print_rows([*_engine_rows(), ("bits", str(verification))], as_json=as_json)
    if verification.outcome == "failed":
        raise typer.Exit(1)


def _print_rows(rows: list[tuple[str, str]], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(dict(rows), indent=2))
        return
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        typer.echo(f"{name:<{width}}  {value}")


def _engine_rows() -> list[tuple[str, str]]:
    import torch

    from elmokit.cores import usable_cores
    from elmokit.native.library import describe_library

    devices = [f"cuda:{number}" for number in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return [
        ("torch", f"{torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"),
        ("cores", str(usable_cores())),
        ("engine", describe_library()),
        ("other devices", ", ".join(devices) or "none"),
    ]


def _rows(found: "ModelInfo") -> list[tuple[str, str]]:
    from elmokit.text.tokenizers import describe_tokenizer

    config = found.config
    stack = config.lstm
    rows = [
        ("model", found.source),
        *([("version", found.version)] if found.version else []),
        *((name, text) for name in ("publisher", "note", "license") if (text := getattr(found, name))),
        ("format", f"{found.format} ({found.path})"),
        ("languages", ", ".join(found.languages) or "not stated"),
        ("tokenizer", describe_tokenizer(config.tokenizer)),
        ("parameters", _parameters(found.num_parameters)),
        ("input", _input_line(found)),
        (
            "LSTM",
            f"{counted(stack.num_layers, 'layer')} × 2 directions, cell {stack.cell_dim}, output {stack.output_dim}",
        ),
        ("", f"clips {stack.cell_clip} / {stack.projection_clip}, skip connections {_on(stack.skip_connections)}"),
        ("vectors", f"{counted(found.num_layers, 'layer')} of {found.output_dim}"),
        ("vocabulary", "none" if found.vocab_size is None else counted(found.vocab_size, "word")),
        ("softmax", "yes" if found.softmax else "none: it embeds, but cannot predict words until it is fine-tuned"),
        ("fingerprint", f"{found.fingerprint}  (equal in every format)"),
    ]
    return rows + [("SHA-256", f"{digest}  {name}") for name, digest in found.files.items()]


def _input_line(found: "ModelInfo") -> str:
    shape = found.config.input
    if shape.kind == "tokens":
        return f"a table of {counted(found.config.vocab_size or 0, 'word')}"
    filters = f"{counted(shape.num_filters, 'filter')} of width {', '.join(str(width) for width, _ in shape.filters)}"
    words = f", {counted(shape.num_words, 'whole word')}" if shape.num_words else ""
    letters = "bytes" if shape.alphabet == "bytes" else counted(shape.num_characters, "character")
    highway = counted(shape.num_highway, "highway layer")
    return f"{letters} (≤ {shape.max_characters} per token), {filters}, {highway}{words}"


def _parameters(number: int) -> str:
    """All digits; from one million on, also in millions."""
    return f"{number:,} ({number / 1e6:.1f}M)" if number >= 1_000_000 else f"{number:,}"


def _on(value: bool) -> str:
    return "on" if value else "off"
