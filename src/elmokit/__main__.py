"""`python -m elmokit`, and so `torchrun -m elmokit`."""

from elmokit.cli.main import main

main()
