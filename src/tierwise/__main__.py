"""`python -m tierwise`: the command line, where no script is installed."""

from tierwise.cli.main import main

__all__: list[str] = []

main()
