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
    """Print the version."""
    click.echo(f"tierwise {__version__}")
