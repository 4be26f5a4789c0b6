"""The option --model, and its default."""

from typing import Annotated

import typer

DEFAULT_MODEL = "mini"
"""The packaged model."""

ModelOption = Annotated[
    str,
    typer.Option("--model", help="A path, mini (in the package), a published name (original …), a Hub id."),
]
