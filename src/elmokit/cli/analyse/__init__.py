"""`elmokit analyse`: the paper's analyses, and what else can be asked of a model's vectors."""

import typer

analyse = typer.Typer(name="analyse", help="What the layers know, and how words are used.", no_args_is_help=True)
