"""`--threads`: how many cores torch may use in a command."""


def use_threads(threads: int | None) -> None:
    """Keep torch to so many cores; all that there are if not said."""
    import torch

    from elmokit.cores import usable_cores

    torch.set_num_threads(threads or usable_cores())
