"""`elmokit build-engine`: compile the fused cell for this machine."""

import typer


def build_engine() -> None:
    """Compile the optional fused LSTM cell with this machine's C compiler; embedding then uses it automatically.

    \b
    Examples:
      elmokit build-engine
      elmokit info --engine
    """  # noqa: D301
    from elmokit.model.engines.native import build_native_cell

    typer.echo(f"built {build_native_cell()}", err=True)
