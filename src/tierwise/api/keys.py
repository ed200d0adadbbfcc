"""Every label and annotation that tierwise reads or writes, of its own and of other projects, as a table.

The rows are in `keys.txt`, below the headings of the page that shows them; a key that begins with a slash is under
tierwise's prefix. Up to what a tenant's word counts is not said here: each key is in a row of `tenant_inputs`, or names
the row that it falls under.
"""

from __future__ import annotations

from functools import cache
from pkgutil import get_data  # importlib.resources is too slow to start
from typing import Final

import msgspec

__all__ = ["OPERATORS", "PREFIX", "Key", "known_keys", "spelled"]

PREFIX: Final = "tierwise.io/"
OPERATORS: Final = "operators"
"""In place of a row: it is read on objects alone that no tenant writes."""


class Key(msgspec.Struct, frozen=True):
    """One label or annotation."""

    name: str
    form: str  # label, annotation, or both with the first to count first
    on: str  # which objects
    type: str
    owner: str  # who writes it
    example: str
    says: str
    cap: str  # the row of `tenant_inputs` that it falls under, where it is not in one itself
    section: str


def spelled(key: str) -> str:
    """A key of a table in full."""
    return f"{PREFIX}{key[1:]}" if key.startswith("/") else key


@cache
def known_keys() -> tuple[Key, ...]:
    """The rows of the table."""
    rows = []
    section = ""
    for line in (get_data("tierwise.api", "keys.txt") or b"").decode().splitlines():
        if line.startswith("# "):
            section = line[2:]
        else:
            name, *cells = (cell.strip() for cell in line.split("|"))
            rows.append(Key(*[spelled(name), *cells, section]))
    return tuple(rows)
