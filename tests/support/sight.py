"""What a property has seen of what it is about, so that one which saw nothing fails instead of passing.

    @sees(evictions=3)
    @given(cases())
    def test_budgets_hold(case: Case) -> None: ...

Whoever runs cycles for a property (`schedule` and `cycle` here, `once`, `settle`) says what came of them; a property
may say more (`saw`). The least numbers hold for the examples of every profile, the few of `make test` included.
With `TIERWISE_SIGHT=FILE` each property writes down what it saw, and `python -m tests.support.sight FILE` prints that
as a table.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

from tierwise import scheduler
from tierwise.config.profile import Profile
from tierwise.framework.report import CycleReport
from tierwise.model.job import Status
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
            if log := os.environ.get("TIERWISE_SIGHT"):
                with Path(log).open("a") as out:
                    out.write(json.dumps({"test": f"{test.__module__}::{test.__name__}", **_SEEN}) + "\n")
            short = {name: f"{_SEEN[name]} of {number}" for name, number in least.items() if _SEEN[name] < number}
            assert {} == short, f"{test.__name__} saw too little of what it is about: {short}"

        return run  # type: ignore[return-value]

    return guarded


def schedule(objects: Objects, profile: Profile, **named: Any) -> rounds.Rounds:
    """As many cycles as change anything, or as asked for."""
    history = rounds.schedule(objects, profile, **named)
    waiting = history.report.rejections if history.report is not None else ()
    saw(cycles=history.cycles, binds=len(history.bindings), evictions=len(history.evictions), refusals=len(waiting))
    saw(second_cycles=max(history.cycles - 1, 0), half_gangs=sum(_half(seen) for seen, _ in history.reports))
    saw(reclaims=sum("reclaim" in eviction.action for eviction in history.evictions))
    return history


def cycle(snapshot: Snapshot, profile: Profile, **named: Any) -> CycleReport:
    """One cycle."""
    report = scheduler.cycle(snapshot, profile, **named)
    saw(cycles=1, decisions=len(report.decisions), evictions=len(report.evictions), refusals=len(report.rejections))
    saw(half_gangs=_half(snapshot), reclaims=sum("reclaim" in eviction.action for eviction in report.evictions))
    return report


def _half(snapshot: Snapshot) -> int:
    """Gangs of which some pods stand and some wait."""
    states = ({task.status for task in job.tasks} for job in snapshot.jobs if len(job.tasks) > 1)
    return sum({Status.RUNNING, Status.PENDING} <= found for found in states)


def table(path: Path) -> Iterator[str]:
    """What properties wrote down: a row for each that saw evictions, and the sum of all others."""
    columns = ("cycles", "second_cycles", "half_gangs", "evictions", "reclaims")
    seen: dict[str, Counter[str]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        seen.setdefault(row.pop("test"), Counter()).update(row)
    rows = {test.rpartition("::")[2].removeprefix("test_").replace("_", " "): row for test, row in seen.items()}
    few = [name for name, row in rows.items() if not row["evictions"]]
    rest = sum((rows.pop(name) for name in few), Counter[str]())
    yield "| Property | cycles | of which second and later | half gangs | evictions | reclaims |"
    yield "|---|---|---|---|---|---|"
    shown = sorted(rows.items(), key=lambda entry: (-entry[1]["evictions"], entry[0]))
    for name, row in (*shown, (f"{len(few)} others, which are about no evictions", rest)):
        yield f"| {name} | {' | '.join(str(row[column]) for column in columns)} |"


if __name__ == "__main__":
    print(*table(Path(sys.argv[1])), sep="\n")
