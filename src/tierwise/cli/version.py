"""`tierwise version`."""

from __future__ import annotations

import click

from tierwise import __version__
from tierwise.cli.options import verb

__all__ = ["version"]


@verb("""
  tierwise version
""")
def version() -> None:
    """Print the version, and that of the solver, on which placements may depend."""
    from tierwise.framework.solver import solver_version

    click.echo(f"tierwise {__version__}")
    click.echo(solver_version())
