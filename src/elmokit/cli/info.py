"""`elmokit info`: what a model is."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from elmokit.formats import ModelInfo


def info(
    model: Annotated[str, typer.Argument(help="A path, a published name (original, many-langs/de …) or a Hub id.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    r"""Tell a model's format, sizes, parameters, languages and SHA-256.

    \b
    Examples:
      elmokit info path/to/model
      elmokit info elmo_2x1024_weights.hdf5 --json
      elmokit info many-langs/de
    """
    from elmokit.formats import describe

    found = describe(model)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
        return
    width = max(len(name) for name, _ in _rows(found))
    for name, value in _rows(found):
        typer.echo(f"{name:<{width}}  {value}")


def _rows(found: "ModelInfo") -> list[tuple[str, str]]:
    config = found.config
    stack = config.lstm
    rows = [
        ("model", found.source),
        ("format", f"{found.format} ({found.path})"),
        ("languages", ", ".join(found.languages) or "not stated"),
        ("parameters", f"{found.num_parameters:,} ({found.num_parameters / 1e6:.1f}M)"),
        ("input", _input_line(found)),
        ("LSTM", f"{stack.num_layers} layers × 2 directions, cell {stack.cell_dim}, output {stack.output_dim}"),
        ("", f"clips {stack.cell_clip} / {stack.projection_clip}, skip connections {_on(stack.skip_connections)}"),
        ("vectors", f"{found.num_layers} layers of {found.output_dim}"),
        ("vocabulary", "none" if found.vocab_size is None else f"{found.vocab_size:,} words"),
        ("softmax", "yes" if found.softmax else "none: it embeds, but cannot predict words until it is fine-tuned"),
        ("fingerprint", f"{found.fingerprint}  (equal in every format)"),
    ]
    return rows + [("SHA-256", f"{digest}  {name}") for name, digest in found.files.items()]


def _input_line(found: "ModelInfo") -> str:
    shape = found.config.input
    if shape.kind == "tokens":
        return f"a table of {found.config.vocab_size:,} words"
    filters = f"{shape.num_filters} filters of width {', '.join(str(width) for width, _ in shape.filters)}"
    words = f", {shape.num_words:,} whole words" if shape.num_words else ""
    letters = "bytes" if shape.alphabet == "bytes" else f"{shape.num_characters:,} characters"
    return f"{letters} (≤ {shape.max_characters} a token), {filters}, {shape.num_highway} highway layers{words}"


def _on(value: bool) -> str:
    return "on" if value else "off"
