"""What a property has seen of what it is about, so that one which saw nothing fails instead of passing.

    @sees(evictions=3)
    @given(cases())
    def test_budgets_hold(case: Case) -> None: ...

Whoever runs cycles for a property (`schedule` and `cycle` here, `once`, `settle`) says what came of them; a property
may say more (`saw`). The least numbers hold for the examples of every profile, the few of `make test` included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

from tierwise import scheduler
from tierwise.config.profile import Profile
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects
from tierwise.sim.cluster import rounds

__all__ = ["cycle", "saw", "schedule", "sees"]

F = TypeVar("F", bound=Callable[..., Any])

_SEEN: Final = Counter[str]()


def saw(**numbers: int) -> None:
    """So much was seen, beside what was seen before."""
    _SEEN.update(numbers)


def sees(**least: int) -> Callable[[F], F]:
    """A test that fails where all its examples together show less than this."""

    def guarded(test: F) -> F:
        @wraps(test)
        def run(*args: Any, **named: Any) -> None:
            _SEEN.clear()
            test(*args, **named)
            short = {name: f"{_SEEN[name]} of {number}" for name, number in least.items() if _SEEN[name] < number}
            assert {} == short, f"{test.__name__} saw too little of what it is about: {short}"

        return run  # type: ignore[return-value]

    return guarded


def schedule(objects: Objects, profile: Profile, **named: Any) -> rounds.Rounds:
    """As many cycles as change anything, or as asked for."""
    history = rounds.schedule(objects, profile, **named)
    waiting = history.report.rejections if history.report is not None else ()
    saw(cycles=history.cycles, binds=len(history.bindings), evictions=len(history.evictions), refusals=len(waiting))
    return history


def cycle(snapshot: Snapshot, profile: Profile, **named: Any) -> CycleReport:
    """One cycle."""
    report = scheduler.cycle(snapshot, profile, **named)
    saw(cycles=1, decisions=len(report.decisions), evictions=len(report.evictions), refusals=len(report.rejections))
    return report
