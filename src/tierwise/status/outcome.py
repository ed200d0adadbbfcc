"""What a cycle means for one gang, as the function of its language is told that writes its status."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tierwise.api.core import Pod
from tierwise.controllers.workqueue import Index
from tierwise.explain.message import decision_id
from tierwise.framework.report import CycleReport, Decision, Reservation
from tierwise.model.job import Job, Phase, Rejection
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects
from tierwise.status.conditions import phase_after

__all__ = ["GangOutcome"]


class GangOutcome(msgspec.Struct, frozen=True):
    """A gang after a cycle."""

    objects: Objects
    snapshot: Snapshot
    report: CycleReport
    pods: Index[Pod]  # by podGroup of Volcano's
    job: Job
    decisions: Sequence[Decision]  # about this job
    reserved: Reservation | None

    @property
    def bound(self) -> int:
        """How many of its pods were bound."""
        return sum(decision.count() for decision in self.decisions if decision.bound)

    @property
    def phase(self) -> Phase:
        """What it is in now."""
        return phase_after(self.job, self.report, self.bound)

    @property
    def rejection(self) -> Rejection | None:
        """Why the rest of it waits."""
        return self.report.rejections.get(self.job.key)

    @property
    def decision(self) -> str:
        """What events name as the decision about it."""
        return decision_id(self.snapshot.now, self.job.key)
