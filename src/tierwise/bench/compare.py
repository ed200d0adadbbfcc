"""Engine against reference: the same gangs in the same order, and they must agree on what fits and how tightly."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
import numpy as np

from tierwise.bench.measure import Pass, decisions, gc_off
from tierwise.bench.reference import Reference, Verdict
from tierwise.bench.workloads import Gang, jobs
from tierwise.bench.worlds import Cluster, snapshot
from tierwise.framework.report import Decision
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot

__all__ = ["Comparison", "agree", "compare"]


class Comparison(msgspec.Struct, frozen=True):
    """Seconds that each took for all gangs, and the median over the gangs of what one of them took more."""

    reference: float
    engine: float
    median: float

    @property
    def ratio(self) -> float:
        return self.reference / self.engine


def compare(where: Cluster, gangs: Sequence[Gang], repeats: int) -> Comparison:
    """Decide gangs with both; RuntimeError where they disagree.

    The reference decides each gang on what the engine left after the gangs before it, so that one difference in
    taste does not become a difference in fact later on. It runs once and in full, so its processor time is what
    counts; nothing is extrapolated.
    """
    snap = snapshot(where, jobs(gangs))
    done = decisions(snap, repeats)
    seconds = _reference_seconds(snap, done)
    each = np.array(seconds[1:])  # the lead is nobody's gang
    return Comparison(float(each.sum()), float(done.seconds.sum()), float(np.median(each / done.seconds)))


def _reference_seconds(snap: Snapshot, done: Pass) -> list[float]:
    reference = Reference(snap)
    decided = {decision.job.key: decision for decision in done.report.decisions}
    seconds = []
    with gc_off():
        for job in snap.jobs:
            start = time.process_time()
            verdict = reference.decide(job)
            seconds.append(time.process_time() - start)
            decision = decided.get(job.key)
            agree(snap, job, decision, verdict)
            if decision is not None:
                reference.apply(decision)
    return seconds


def agree(snap: Snapshot, job: Job, decision: Decision | None, verdict: Verdict | None) -> None:
    """RuntimeError where engine and reference do not say the same of what fits, or of the tier at which it does."""
    mine = None if decision is None else int(snap.topology.tier[decision.domain])
    theirs = None if verdict is None else verdict.tier
    if mine != theirs:
        raise RuntimeError(f"{job.key}: the engine says tier {mine}, pod by pod says tier {theirs}")
