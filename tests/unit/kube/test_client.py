"""How long a client waits between two attempts."""

from __future__ import annotations

import pytest

from tierwise.kube.client import pause


@pytest.mark.parametrize(("attempt", "longest"), [(0, 0.1), (1, 0.2), (3, 0.8), (6, 5.0), (1000, 5.0)])
def test_pauses_grow_and_are_bounded(attempt: int, longest: float) -> None:
    """Twice as long each time, up to a limit, and never twice the same, so that no two clients keep step."""
    pauses = {pause(attempt) for _ in range(50)}

    assert len(pauses) > 1
    assert all(longest / 2 <= seconds <= longest for seconds in pauses)
