"""`--threads`: how many cores torch may use in a command."""

from typing import Annotated

import typer

ThreadsOption = Annotated[int | None, typer.Option("--threads", min=1, help="Cores to use; by default all.")]


def use_threads(threads: int | None) -> None:
    """Limit torch to this number of cores; None uses all."""
    import torch

    from elmokit.cores import usable_cores

    torch.set_num_threads(threads or usable_cores())
