"""Where a job stands against its minimums, counted on the ledger's tallies.

Ready counts tasks that run, have succeeded or were placed in this cycle, and pending best-effort ones;
`waiting=True` counts tasks pipelined onto releasing resources as well.
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.ledger import Ledger
from tierwise.model.job import Job, SubJob

__all__ = ["job_ready", "roles_count", "standing_of", "sub_ready"]


def standing_of(ledger: Ledger, sub: SubJob, *, waiting: bool = False) -> int:
    """How many tasks of a sub-job are ready."""
    ready = int(ledger.ready[sub.number])
    return ready + int(ledger.waiting[sub.number]) if waiting else ready


def sub_ready(ledger: Ledger, sub: SubJob, *, waiting: bool = False) -> bool:
    """Whether a sub-job has its minimum."""
    return standing_of(ledger, sub, waiting=waiting) >= sub.minimum


def roles_count(job: Job) -> bool:
    """Whether role minimums bind: not where their sum exceeds the job's own minimum."""
    return bool(job.roles) and job.minimum >= sum(job.roles.values())


def job_ready(ledger: Ledger, job: Job, *, waiting: bool = False) -> bool:
    """Whether every minimum of the job is met, or was once where that is enough."""
    if job.satisfied:
        return True
    if not job.subs:  # its pods are not made yet
        return False
    if len(job.subs) == 1 and not job.roles and not job.policies:
        return standing_of(ledger, job.subs[0], waiting=waiting) >= job.minimum
    first, count = job.subs[0].number, len(job.subs)  # sub-jobs of a job are numbered in one stretch
    standing = ledger.ready[first : first + count]
    if waiting:
        standing = standing + ledger.waiting[first : first + count]
    if int(standing.sum()) < job.minimum:
        return False
    if roles_count(job):
        for number, least in job.roles.items():
            extra = int(ledger.role_waiting[number]) if waiting else 0
            if int(ledger.role_ready[number]) + extra < least:
                return False
    if any(policy.minimum for policy in job.policies):
        whole = np.zeros(len(job.policies), dtype=np.int64)
        for sub, number in zip(job.subs, standing.tolist(), strict=True):
            if sub.policy >= 0 and number >= sub.minimum:
                whole[sub.policy] += 1
        return all(int(w) >= policy.minimum for w, policy in zip(whole, job.policies, strict=True))
    return True
