"""What an action receives: one cycle's view, pipeline, ledger, rooms and report."""

from __future__ import annotations

import msgspec

from tierwise.framework.backlog import Backlog
from tierwise.framework.extension import Ask, CycleView
from tierwise.framework.ledger import Ledger, Pool
from tierwise.framework.nominations import Nominations
from tierwise.framework.pipeline import Pipeline
from tierwise.framework.report import ReportBuilder
from tierwise.framework.room import Rooms
from tierwise.model.arrays import Bools
from tierwise.model.job import Job
from tierwise.model.node import NodeTable
from tierwise.model.running import RunningTable, running_table
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import Fabric, Topology

__all__ = ["Cycle"]


class Cycle(msgspec.Struct, frozen=True):
    """One pass over one snapshot."""

    snapshot: Snapshot
    view: CycleView
    ledger: Ledger
    pipeline: Pipeline
    rooms: Rooms
    nominations: Nominations
    report: ReportBuilder
    backlog: Backlog = msgspec.field(default_factory=Backlog)
    _running: list[RunningTable] = []

    @property
    def running(self) -> RunningTable:
        """Who runs where as the cycle begins; made once, for the first action that evicts."""
        if not self._running:
            self._running.append(running_table(self.snapshot))
        return self._running[0]

    @property
    def nodes(self) -> NodeTable:
        return self.snapshot.nodes

    @property
    def topology(self) -> Topology:
        return self.snapshot.topology

    def fabric(self, job: Job) -> Fabric | None:
        """The tree that a job's constraint is about, where that is not the one that rows follow."""
        return self.snapshot.fabrics.get(job.constraint.kind) if job.constraint is not None else None

    def fits(self, ask: Ask, span: slice, pool: Pool) -> Bools:
        """Which rows of a span take one more task, every filter asked."""
        fits = self.rooms.of(ask.shape).rows(pool)[span] > 0
        if self.pipeline.moving(ask.shape):
            fits &= self.pipeline.why_not_now(ask.shape, span) == 0
        return fits

    def shortage(self, resource: str, asked: int, free: int) -> str:
        """What a node lacks, with numbers."""
        from tierwise.api.quantity import show  # exact fractions are slow to import, and few cycles explain anything

        return f"short of {resource}: asks {show(resource, asked)}, {show(resource, max(free, 0))} free"
