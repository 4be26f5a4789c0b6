"""Entry point of `python -m elmokit` and `torchrun -m elmokit`."""

from elmokit.cli.main import main

main()
