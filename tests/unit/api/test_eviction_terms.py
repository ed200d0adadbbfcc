"""What pods tell about their own work: when it was saved, and when it ended."""

from __future__ import annotations

import pytest

from tierwise.api import codec
from tierwise.api.core import format_time
from tierwise.api.eviction_terms import CHECKPOINTED, CHECKPOINTED_AT, ended_at, told_times


@pytest.mark.parametrize(("marked", "noted"), [(300.0, 200.0), (200.0, 300.0)])
def test_the_last_word_about_saved_work_counts(marked: float, noted: float) -> None:
    """Whether annotation or condition says so: what is older than the other takes nothing back."""
    condition = {"type": CHECKPOINTED, "status": "True", "lastTransitionTime": format_time(noted)}
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {CHECKPOINTED_AT: format_time(marked)}},
        "status": {"conditions": [condition]},
    }

    assert (300.0, 0.0) == told_times(codec.decode(raw))


@pytest.mark.parametrize(("phase", "ended"), [("Succeeded", 300.0), ("Failed", 300.0), ("Running", 0.0)])
def test_a_pod_ends_with_its_last_container(phase: str, ended: float) -> None:
    """In whatever order they are listed; one that runs has not ended, though containers of it have."""
    states = [
        {"name": str(i), "state": {"terminated": {"finishedAt": format_time(t)}}} for i, t in enumerate((200, 300, 250))
    ]
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "status": {"phase": phase, "containerStatuses": states},
    }

    assert ended == ended_at(codec.decode(raw))
