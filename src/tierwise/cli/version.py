"""`tierwise version`."""

from __future__ import annotations

import click

from tierwise import __version__

__all__ = ["version"]


@click.command(
    epilog="""\b
Examples:
  tierwise version
"""
)
def version() -> None:
    """Print the version."""
    click.echo(f"tierwise {__version__}")
