"""What is told of attempts to make room by evictions."""

from __future__ import annotations

from tierwise.explain.page import Page
from tierwise.explain.text.evictions import eviction_lines
from tierwise.framework.report import EvictionAttempt
from tierwise.model.job import Reason


def test_what_several_cycles_tried_alike_is_told_once() -> None:
    """Another obstacle is another story."""
    tried = [EvictionAttempt("gangpreempt", Reason("X", "gangpreempt", text)) for text in ("nobody", "nobody", "late")]

    lines = [line.plain for line in eviction_lines(Page(), tried)]

    assert ["  gangpreempt: nobody", "  gangpreempt: late"] == lines
