"""preempt and reclaim as Volcano has them: task by task, victims on one node at a time.

preempt takes from less important jobs of the same queue, and from less important tasks of the same job; reclaim takes
from other queues. A job's evictions are kept only if its minimum finds a place with them. Jobs with a hard topology are
left to the gang variants, which know domains.
"""

from __future__ import annotations

import numpy as np

from tierwise.actions.fit import Take, take
from tierwise.actions.making_room import quota_allows
from tierwise.actions.preemptors import starving_jobs
from tierwise.actions.settle import decide
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, Cause, Purpose
from tierwise.framework.ledger import Pool
from tierwise.framework.report import Eviction, Story
from tierwise.framework.standing import job_ready, sub_ready
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job, Part, SubJob
from tierwise.model.reason import Reason
from tierwise.model.running import RunningTable
from tierwise.model.topology import ROOT

__all__ = ["classic_evict"]


def classic_evict(cycle: Cycle, purpose: Purpose, action: str) -> None:
    """Serve every starving job once, in queue and job order."""
    maker = _Maker(cycle, purpose, action)
    for job in starving_jobs(cycle):
        maker.serve(job)


class _Maker:
    def __init__(self, cycle: Cycle, purpose: Purpose, action: str) -> None:
        self._cycle = cycle
        self._purpose = purpose
        self._action = action
        self._running: RunningTable = cycle.running
        self._gone: Bools = np.zeros(len(self._running), dtype=bool)
        for eviction in cycle.report.evictions:  # by an action before this one
            self._gone[self._running.position[eviction.task.key]] = True

    def serve(self, job: Job) -> None:
        cycle = self._cycle
        if cycle.pipeline.ways(job, job.minimum):
            text = f"it is gathered, and {self._action} knows no domains: jobpreempt does"
            cycle.report.tell(job, Story(self._action, Reason("HardTopology", self._action, text)))
            return
        gangs: tuple[Job | SubJob, ...] = (job, *job.subs)
        limits = [limit for gang in gangs if (limit := cycle.pipeline.limit(gang)) is not None]
        if limits and min(limits) < int(cycle.topology.tier[ROOT]):
            text = f"its topology is hard, and {self._action} knows no domains: gang{self._action} does"
            cycle.report.tell(job, Story(self._action, Reason("HardTopology", self._action, text)))
            return
        cycle.nominations.release(job)
        before = self._gone.copy()
        with cycle.ledger.statement() as statement:
            takes, victims = self._place_all(job)
            whole = all(sub_ready(cycle.ledger, take.sub, waiting=True) for take in takes)
            if takes and whole and job_ready(cycle.ledger, job, waiting=True):
                statement.keep()
        if not statement.kept:
            self._gone = before
            text = "evicting on single nodes does not bring it to its minimum"
            cycle.report.tell(job, Story(self._action, Reason("NotEnoughVictims", self._action, text)))
            return
        for victim in victims:
            cycle.report.evict(self._eviction(job, victim))
        decide(cycle, job, takes, action=self._action, score=0.0, bound=False)

    def _place_all(self, job: Job) -> tuple[list[Take], list[int]]:
        """Task after task while the job starves; a task that finds no node is passed over."""
        takes: list[Take] = []
        victims: list[int] = []
        for sub in job.subs:
            for part in sorted(sub.parts, key=self._cycle.pipeline.part_key):
                if part.shape.never_preempts:
                    continue
                rows = self._place_part(job, sub, part, victims)
                if rows:
                    takes.append(Take(sub, part, np.array(rows, dtype=np.int64), Pool.LATER))
        return takes, victims

    def _place_part(self, job: Job, sub: SubJob, part: Part, victims: list[int]) -> list[int]:
        rows: list[int] = []
        for _ in range(self._cycle.backlog.left(part)):
            if not self._wanting(job):
                break
            found = self._node_for(Ask(part.shape, sub, job))
            if found is None:
                break  # the others of this part are the same task
            row, gone = found
            if len(gone):
                self._cycle.ledger.evict(self._running, gone, self._cycle.snapshot.jobs)
                self._gone[gone] = True
                victims += gone.tolist()
            self._cycle.ledger.any_releasing = True  # so that what waits is counted, also where nobody had to go
            take(self._cycle, Ask(part.shape, sub, job), part, (np.array([row]), np.array([1])), Pool.LATER)
            rows.append(row)
        return rows

    def _wanting(self, job: Job) -> bool:
        lacking = not job_ready(self._cycle.ledger, job, waiting=True)
        return lacking and self._cycle.pipeline.starving(job)

    def _node_for(self, ask: Ask) -> tuple[int, Ints] | None:
        """The best node that the task fits once enough victims there are gone, and who they are."""
        cycle, shape = self._cycle, ask.shape
        cause = Cause(self._purpose, ask.job, shape.request, gang=False, running=self._running)
        if self._purpose is Purpose.RECLAIM and cycle.pipeline.may_reclaim(ask.job, shape.request) is not None:
            return None
        candidates = self._candidates(cause)
        able = self._able(ask, candidates)
        if not able.any():
            return None
        everything = slice(0, len(cycle.nodes))
        scores = np.rint(cycle.pipeline.score(ask, everything, able) * 2.0**20)
        rows = np.flatnonzero(able)
        for row in rows[np.lexsort((cycle.nodes.rank[rows], -scores[rows]))].tolist():
            victims = self._victims_on(ask, cause, row, candidates)
            if victims is not None:
                return row, victims
        return None

    def _candidates(self, cause: Cause) -> Ints:
        """Whom the purpose lets go, in the order in which they would: by queue, job and task, the last first."""
        running, jobs, job = self._running, self._cycle.snapshot.jobs, cause.job
        if self._purpose is Purpose.PREEMPT:
            fair = [o.queue == job.queue and o is not job for o in jobs]
        else:
            queues = self._cycle.snapshot.queues
            fair = [o.queue != job.queue and o.queue in queues and queues[o.queue].reclaimable for o in jobs]
        per_job = np.array(fair, dtype=bool)
        per_job[[e.by.number for e in self._cycle.report.evictions if e.by]] = False  # or others had gone in vain
        eligible = per_job[running.job] & ~self._gone & ~running.spared
        if self._purpose is Purpose.PREEMPT:  # less important tasks of the same job make room as well
            highest = max((part.shape.priority for part in job.parts()), default=0)
            eligible |= (running.job == job.number) & (running.priority < highest) & ~self._gone & ~running.spared
        found = np.flatnonzero(eligible)
        job_order, queue_order = self._orders()
        keys = (
            running.rank[found],
            -running.created[found],
            running.priority[found],
            job_order[running.job[found]],
            queue_order[running.job[found]],
        )
        return found[np.lexsort(keys)]

    def _orders(self) -> tuple[Ints, Ints]:
        """Ranks of the jobs as victims: those that would be served last go first; ties go to the youngest."""
        pipeline, jobs = self._cycle.pipeline, self._cycle.snapshot.jobs
        keys = [(pipeline.job_order(job), job.created) for job in jobs]
        ranks = {key: -i for i, key in enumerate(sorted(set(keys)))}
        queue_keys = {name: pipeline.queue_order(queue) for name, queue in self._cycle.snapshot.queues.items()}
        queue_ranks = {key: -i for i, key in enumerate(sorted(set(queue_keys.values())))}
        reclaims = self._purpose is Purpose.RECLAIM
        queues = [queue_ranks[queue_keys[j.queue]] if reclaims and j.queue in queue_keys else 0 for j in jobs]
        return np.array([ranks[key] for key in keys], dtype=np.int64), np.array(queues, dtype=np.int64)

    def _able(self, ask: Ask, candidates: Ints) -> Bools:
        """Which nodes would take the task with every candidate on them gone."""
        cycle, shape = self._cycle, ask.shape
        free = cycle.ledger.free(shape.asked, slice(0, len(cycle.nodes)), Pool.LATER)
        for i, r in enumerate(shape.asked.tolist()):
            weights = self._running.request[r, candidates]
            freed = np.bincount(self._running.row[candidates], weights=weights, minlength=len(cycle.nodes))
            free[i] += freed.astype(np.int64)
        result: Bools = (shape.room(free) > 0) & (cycle.rooms.of(shape).why == 0)
        return result

    def _victims_on(self, ask: Ask, cause: Cause, row: int, candidates: Ints) -> Ints | None:
        """The first victims on a node that make room for the task and for its queue; None where they cannot."""
        here = candidates[self._running.row[candidates] == row]
        here = here[self._cycle.pipeline.may_go(cause, here)] if len(here) else here
        shape = ask.shape
        free = self._cycle.ledger.free(shape.asked, np.array([row]), Pool.LATER)[:, 0]
        freed = np.cumsum(self._running.request[np.ix_(shape.asked, here)], axis=1)
        enough = np.concatenate(([0], freed.shape[1] * [0])).astype(bool)
        enough[0] = bool((free >= shape.request[shape.asked]).all())
        enough[1:] = ((free[:, None] + freed) >= shape.request[shape.asked, None]).all(axis=0)
        for count in np.flatnonzero(enough).tolist():
            first: Ints = here[:count]
            if quota_allows(self._cycle, cause, first) and self._cured(ask, row, first):
                return first
        return None

    def _cured(self, ask: Ask, row: int, victims: Ints) -> bool:
        """Whether rules between pods let the task in once the victims are gone."""
        if not self._cycle.pipeline.moving(ask.shape):
            return True
        with self._cycle.ledger.statement():
            if len(victims):
                self._cycle.ledger.evict(self._running, victims, self._cycle.snapshot.jobs)
            return bool(self._cycle.fits(ask, slice(row, row + 1), Pool.LATER)[0])

    def _eviction(self, job: Job, victim: int) -> Eviction:
        owner = self._cycle.snapshot.jobs[int(self._running.job[victim])]
        reason = f"{self._action}ed to make room for {job.key}"
        return Eviction(self._running.tasks[victim], owner, job, self._action, reason)
