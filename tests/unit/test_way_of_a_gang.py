"""How much of the program a gang passes on its way from manifest to bind: figures that never rise."""

from __future__ import annotations

import msgspec
import pytest
from tools.way_of_a_gang import CORE, KINDS, way_of


class _Most(msgspec.Struct, frozen=True):
    """What the way of one kind of gang may take at most."""

    files: int
    core: int  # files of actions, framework and plugins
    switches: int  # calls from one file to another, rounded up to the next ten
    depth: int  # functions that wait for each other between `allocate` and the ledger


_LIMITS = {
    "a plain pod": _Most(135, 37, 1340, 0),
    "a gang": _Most(144, 46, 1560, 14),
    "a nested gang": _Most(141, 47, 1860, 25),
    "a gathered gang": _Most(142, 45, 1520, 15),
    "a gang on two fabrics": _Most(146, 48, 1670, 14),
}
"""Lower a figure when the way has become shorter. Goals for a gang: 30 files of the core and 1,000 switches; its depth
of 14 was a goal."""


@pytest.mark.parametrize("kind", KINDS)
def test_the_way_gets_no_longer(kind: str) -> None:
    """Files, files of the core, switches and depth are at most what they were when the way was last shortened."""
    way, most = way_of(KINDS[kind]), _LIMITS[kind]

    found = _Most(len(way.files()), len(way.files(*CORE)), way.switches, way.depth)

    assert [] == [name for name in most.__struct_fields__ if getattr(found, name) > getattr(most, name)], found
