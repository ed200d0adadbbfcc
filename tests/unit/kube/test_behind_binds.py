"""What is told of those who wait comes behind the binds of a burst, and not between them."""

from __future__ import annotations

import asyncio

import pytest

from tierwise.kube import behind_binds
from tierwise.kube.behind_binds import BindsUnderWay, give_way


def test_pods_are_being_bound_until_no_bind_has_been_under_way_for_a_while() -> None:
    """The answer to the last one is not the end of a burst: the next one may be decided already."""
    now = 0.0
    binds = BindsUnderWay(lambda: now)
    seen = [binds.lately()]
    with binds:
        seen.append(binds.lately())
        with binds:
            now = 0.9
            seen.append(binds.lately())
        now = 9.0
        seen.append(binds.lately())  # one that has had no answer for so long keeps nothing back
    for after in (0.0, 0.49, 0.51):
        now = 9.0 + after
        seen.append(binds.lately())

    assert [False, True, True, False, True, True, False] == seen
    assert 0 == binds.number


@pytest.mark.parametrize(("busy", "expected"), [(0, 1), (3, 4), (10**9, 7)])
def test_binds_go_first_for_a_while(monkeypatch: pytest.MonkeyPatch, busy: int, expected: int) -> None:
    """Whoever gives way looks until nobody binds, and no longer than it has patience."""
    monkeypatch.setattr(behind_binds, "_STEP", 0.0)
    monkeypatch.setattr(behind_binds, "_PATIENCE", 7)
    looks = 0

    def binding() -> bool:
        nonlocal looks
        looks += 1
        return looks <= busy

    asyncio.run(give_way(binding))

    assert expected == looks
