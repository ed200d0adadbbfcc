"""All that a tenant writes and the scheduler obeys: what it can take from others, and what keeps that in bounds.

A tenant may write objects in one namespace. Keys under tierwise's prefix have a row also where only tierwise should
write them, because they can be forged. The rows are in `tenant_inputs.txt`, each with the fields of `TenantInput`; a
key that begins with a slash is under the prefix. The page on the security model shows this table.
"""

from __future__ import annotations

from pkgutil import get_data  # importlib.resources is too slow to start
from typing import Final, NamedTuple

from tierwise.api.keys import spelled

__all__ = ["TENANT_INPUTS", "TenantInput"]


class TenantInput(NamedTuple):
    """Keys or fields that belong together."""

    keys: tuple[str, ...]
    takes: str  # from others
    cap: str
    charge: str  # who pays
    switch: str  # of the profile
    tests: tuple[str, ...]  # and conformance cases, which hold it


def _row(text: str) -> TenantInput:
    keys, takes, cap, charge, switch, tests = " ".join(text.split()).split(" | ")
    return TenantInput(tuple(map(spelled, keys.split())), takes, cap, charge, switch, tuple(tests.split()))


_TABLE: Final = (get_data("tierwise.api", "tenant_inputs.txt") or b"").decode()
TENANT_INPUTS: Final = tuple(map(_row, f"\n{_TABLE}".split("\n- ")[1:]))
