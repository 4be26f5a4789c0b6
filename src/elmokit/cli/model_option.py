"""The option --model, and the model where it is left out."""

from typing import Annotated

import typer

DEFAULT_MODEL = "mini"
"""The one inside the package."""

ModelOption = Annotated[
    str,
    typer.Option("--model", help="A path, mini (in the package), a published name (original …), a Hub id."),
]
