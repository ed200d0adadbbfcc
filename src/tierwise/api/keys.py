"""Every label and annotation that tierwise reads or writes, of its own and of other projects, as a table.

The rows are in `keys.txt`, below the headings of the page that shows them; a key that begins with a slash is under
tierwise's prefix. Up to what a tenant's word counts is not said here: each key is in a row of `tenant_inputs`, or names
the row that it falls under.
"""

from __future__ import annotations

from pkgutil import get_data  # importlib.resources is too slow to start
from typing import Final, NamedTuple

__all__ = ["KEYS", "OPERATORS", "PREFIX", "Key", "spelled"]

PREFIX: Final = "tierwise.io/"
OPERATORS: Final = "operators"
"""In place of a row: it is read on objects alone that no tenant writes."""


class Key(NamedTuple):
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


def _rows(text: str) -> tuple[Key, ...]:
    rows, section = [], ""
    for line in text.splitlines():
        if line.startswith("# "):
            section = line[2:]
        else:
            cells = [cell.strip() for cell in line.split("|")]
            rows.append(Key._make((spelled(cells[0]), *cells[1:], section)))
    return tuple(rows)


KEYS: Final = _rows((get_data("tierwise.api", "keys.txt") or b"").decode())
