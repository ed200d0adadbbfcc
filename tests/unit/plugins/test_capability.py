"""Capability: every queue and its ancestors are held to what they declare, whatever the profile names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.draw import gang
from tests.support.queue_worlds import code, hall_of, queue

from tierwise.plugins.queues.capability import Capability


@given(caps=st.tuples(*[st.integers(0, 6)] * 3), held=st.integers(0, 3), asked=st.integers(1, 5))
def test_the_innermost_queue_that_is_full_refuses(caps: tuple[int, ...], held: int, asked: int) -> None:
    """A job is refused where its queue, or one above it, would hold more than declared; a cap of no cpu is none."""
    busy = [gang("busy", tasks=held, each="cpu=1 mem=1", queue="side", on="n0 " * held)] if held else []
    hall = hall_of(
        "n0",
        queue("top", capability=f"cpu={caps[0]}"),
        queue("mid", parent="top", capability=f"cpu={caps[1]}"),
        queue("low", parent="mid", capability=f"cpu={caps[2]}"),
        queue("side", parent="top"),
        *busy,
        gang("new", tasks=1, each="cpu=1 mem=1", queue="low"),
    )
    full = [
        (name, f"(cpu: {asked} asked, {others} used, {cap} allowed)")
        for name, cap, others in zip(("top", "mid", "low"), caps, (held, 0, 0), strict=True)
        if cap and others + asked > cap
    ]

    reason = Capability({}, hall.view).quota_exceeded(hall.job("new"), hall.vector(f"cpu={asked}"))

    name, figures = full[-1] if full else ("", "")
    assert (f"queue {name} would have more cpu than its capability allows {figures}" if full else None) == (
        reason.text if reason is not None else None
    )


def test_parents_in_a_circle_are_each_asked_once() -> None:
    """Broken parents end no run, and their caps hold."""
    hall = hall_of(
        "n0",
        queue("a", parent="b"),
        queue("b", parent="a", capability="cpu=1"),
        gang("new", tasks=1, each="cpu=1 mem=1", queue="a"),
    )

    assert "QueueOverCapability" == code(
        Capability({}, hall.view).quota_exceeded(hall.job("new"), hall.vector("cpu=2"))
    )
