"""What a cycle decided, and why not the rest: the sole output of the core.

Decisions stay in count form (tasks beside an array of rows) until somebody needs single pods; effects, status,
events, JSON and the page are all made from the same report. Wall time is nobody's business here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Phase, SubJob, Task
from tierwise.model.reason import Rejection

if TYPE_CHECKING:
    from tierwise.framework.probe import Probe

__all__ = ["CycleReport", "Decision", "Placed", "ReportBuilder", "Work"]


@dataclass(frozen=True, slots=True)
class Placed:
    """Tasks of one sub-job and the row of each."""

    sub: SubJob
    tasks: tuple[Task, ...]
    rows: Ints
    pool: Pool


@dataclass(frozen=True, slots=True)
class Decision:
    """One job, or more of it, was given room: bound now, or held until resources are released."""

    job: Job
    action: str
    domain: int  # the innermost domain that holds all of the job's tasks now
    placed: tuple[Placed, ...]
    bound: bool  # False: the gang waits on releasing resources, and its room is kept for it
    score: float = 0.0

    def count(self) -> int:
        return sum(len(p.tasks) for p in self.placed)


@dataclass(slots=True)
class Work:
    """How much a cycle looked at."""

    trials: int = 0
    domains: int = 0


@dataclass(frozen=True, slots=True)
class CycleReport:
    """All that one cycle decided."""

    decisions: tuple[Decision, ...]
    rejections: dict[str, Rejection]  # by job key: why (the rest of) the job is not placed
    phases: dict[str, Phase]  # jobs that left phase Pending
    work: Work


@dataclass(slots=True)
class ReportBuilder:
    """Collects decisions while the actions run."""

    probe: Probe | None = None
    watch: Callable[[Job, Decision | Rejection], None] | None = None  # told of each outcome as it falls
    decisions: list[Decision] = field(default_factory=list)
    rejections: dict[str, Rejection] = field(default_factory=dict)
    phases: dict[str, Phase] = field(default_factory=dict)
    work: Work = field(default_factory=Work)

    def decide(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self.rejections.pop(decision.job.key, None)
        if self.watch is not None:
            self.watch(decision.job, decision)

    def reject(self, job: Job, rejection: Rejection) -> None:
        self.rejections[job.key] = rejection
        if self.watch is not None:
            self.watch(job, rejection)

    def build(self) -> CycleReport:
        return CycleReport(tuple(self.decisions), dict(self.rejections), dict(self.phases), self.work)
