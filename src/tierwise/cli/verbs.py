"""Verbs that installed packages add to `tierwise`, found by their entry points.

An entry point of the group `tierwise.verbs` names a mapping: for each verb where its command is, as `module:attribute`,
and what it does in a line. The module of the mapping is imported to list the verbs, so it should import little; that of
a command is imported when the command is used. The laboratory, `tierwise_lab`, adds its verbs this way.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "further_verbs"]

GROUP: Final = "tierwise.verbs"


@cache
def further_verbs() -> Mapping[str, tuple[str, str]]:
    """Where each verb of other packages is and what it does, by name; of two with one name the first by package.

    A package whose mapping cannot be imported adds nothing, which a line on standard error says.
    """
    from importlib.metadata import entry_points  # slow to import, and most commands are our own

    verbs: dict[str, tuple[str, str]] = {}
    for entry in sorted(entry_points(group=GROUP), key=_order):
        try:
            offered: Mapping[str, tuple[str, str]] = entry.load()
            verbs = {**offered, **verbs}
        except Exception as error:  # noqa: BLE001 - another package's code must not end every command
            click.echo(f"tierwise: warning: verbs of {_package(entry)} cannot be used: {error}", err=True)
    return verbs


def _order(entry: EntryPoint) -> tuple[str, str]:
    return _package(entry), entry.name


def _package(entry: EntryPoint) -> str:
    if entry.dist is not None:
        return entry.dist.name
    return "an unnamed package"
