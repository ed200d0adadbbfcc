"""Spares: room that is kept free for gangs that run and may lose nodes.

A job declares how many places for its pods it wants to be kept where it runs. Of these it gets as many as the profile
allows a gang of its size, and as its queue and the resource quotas of its namespace have left: they are charged as if
its pods stood there. They are set aside on the ledger as those of nominated pods are, and are open to their owner, to
jobs of a higher priority, to jobs that say they may borrow them, and to jobs that may reclaim from their queue, while
these are served. What borrowers hold counts as kept: the owner takes it back when it needs it
(`actions.eviction.repair`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from tierwise.actions.placement.bounds import Room
from tierwise.api.plurals import count
from tierwise.api.repair import SPARES
from tierwise.config.spares import SpareRules
from tierwise.framework.cycle import Cycle
from tierwise.framework.declined import Held
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import EMPTY, Bools, Ints
from tierwise.model.job import Job, Reason, Shape, Status, Task
from tierwise.model.lost_nodes import LostNodes
from tierwise.model.topology import ROOT

__all__ = ["Spares", "like_nodes"]

_OPENINGS = 20_000
"""How often spares are opened to borrowers in one cycle; beyond that these wait for the next cycle."""
_UNKNOWN = "annotation {key}: no tier is called {tier}, so no spares are kept for it"
_FEWER = "annotation {key}: {asked} asked for, and the profile keeps at most {most} for {pods}"


def like_nodes(cycle: Cycle, job: Job) -> Bools:
    """Rows with taints that running tasks of a job put up with, and that are not lost to its first one.

    What else running tasks say of nodes is not known any more.
    """
    running_tasks = _standing(job)
    rows = cycle.nodes.rows[[task.node for task in running_tasks]]
    like: Bools = np.isin(cycle.nodes.taint_set, cycle.nodes.taint_set[rows])
    if running_tasks:
        return like & ~LostNodes(cycle.nodes).rows(running_tasks[0].tolerations)
    return like


def _standing(job: Job) -> list[Task]:
    return [task for task in job.tasks if task.status is Status.RUNNING and task.node >= 0]


def _shape(job: Job) -> Shape:
    """The shape of the spares of a job: that of most of its running tasks, of equally many the first one."""
    return Counter(task.shape for task in _standing(job)).most_common(1)[0][0]


class Spares:
    """The spares of one cycle, by the job that owns them."""

    def __init__(self, cycle: Cycle, rules: SpareRules) -> None:
        self._cycle = cycle
        self._kept: dict[int, tuple[Shape, Ints, Ints]] = {}
        self._due: dict[int, int] = {}  # by owner: places of its spares that borrowers hold
        self._open: set[int] = set()  # owners whose spares are open to the job that is served
        self._before: dict[int, tuple[Shape, Ints, Ints]] = {}  # by owner: what was kept until they were opened
        self._openings = 0  # for borrowers, each owner counted
        self._charged: dict[str, Ints] = {}  # by namespace: what is kept for its jobs, for its resource quotas
        declared = (job for job in cycle.snapshot.jobs if job.repair is not None and job.repair.spares)
        running = {job.number: len(_standing(job)) for job in declared}
        self._most = {number: rules.most(pods) for number, pods in running.items() if pods}
        self._owners = [cycle.snapshot.jobs[number] for number, max_spares in self._most.items() if max_spares]
        self.complaints: tuple[tuple[Task, Reason], ...] = ()
        borrow = np.array([job.repair is not None and job.repair.borrows for job in cycle.snapshot.jobs], dtype=bool)
        self._lent: Ints = np.flatnonzero(borrow[cycle.running.job]) if self._owners and borrow.any() else EMPTY
        self._seen = 0  # evictions that `_lent` is without
        self._like = {job.number: like_nodes(cycle, job) for job in self._owners}
        for number, max_spares in self._most.items():
            self._tell_of_fewer(cycle.snapshot.jobs[number], max_spares)
        for job in self._owners:
            self._keep(job)

    def serve(self, job: Job | None) -> None:
        """From now on they are open to a job if it is their owner, more important than that, may borrow them, or may
        reclaim from their queue.

        To None they are closed, as to any job of which nothing is known.
        """
        borrows = job is not None and job.repair is not None and job.repair.borrows and self._openings < _OPENINGS
        self._openings += len(self._owners) if borrows else 0
        for owner in self._owners:
            open_ = job is not None and (owner is job or borrows or owner.priority < job.priority)
            open_ = open_ or (job is not None and self._reclaimed(owner, job))
            if open_ == (owner.number in self._open) and owner is not job:
                continue
            if open_:
                self._open.add(owner.number)
                self._give_back(owner)
            else:
                self._open.discard(owner.number)
                self._keep_again(owner)
            if owner is job:
                self._before.pop(owner.number, None)  # what it needs may be another number, elsewhere

    def _reclaimed(self, owner: Job, job: Job) -> bool:
        """Whether a job may reclaim from the queue of an owner, which holds more than it deserves with its spares: what
        is only kept free goes before anything that runs there.
        """
        cycle = self._cycle
        queues = self._cycle.snapshot.queues
        kept_place = self._kept.get(owner.number) or self._before.get(owner.number)
        different_queues = owner.queue in queues and job.queue in queues and owner.queue != job.queue
        if (
            kept_place is None
            or not different_queues
            or not queues[owner.queue].reclaimable
            or self._openings >= _OPENINGS
        ):
            return False
        deserved = cycle.pipeline.entitled() if cycle.pipeline.may_reclaim else None
        if deserved is None:
            return False
        shape, _, counts = kept_place
        column = cycle.ledger.queue_index[owner.queue]
        used_by_queue = cycle.ledger.queue_used[:, column]
        if owner.number not in self._kept:  # it is open, and so not charged
            used_by_queue = used_by_queue + shape.request * int(counts.sum())
        if not ((used_by_queue > deserved[:, column]) & (shape.request > 0)).any():
            return False
        self._openings += 1
        requests = (pod_set.shape.request for pod_set in job.pod_sets())
        return any(cycle.pipeline.may_reclaim(job, request) is None for request in requests)

    def kept_for(self) -> Iterable[tuple[Job, Held]]:
        """The owners of spares, each with the places that are kept free for it now."""
        jobs = self._cycle.snapshot.jobs
        return [(jobs[number], (kept_place,)) for number, kept_place in self._kept.items()]

    def kept(self) -> dict[str, int]:
        """How many are kept free now, by the key of their owner."""
        jobs = self._cycle.snapshot.jobs
        return {jobs[number].key: int(counts.sum()) for number, (_, _, counts) in self._kept.items()}

    def places(self) -> Iterable[tuple[Shape, Ints, Ints]]:
        """The places that are kept free now: shapes, rows, and how many of the shape on each."""
        return self._kept.values()

    def open_all(self) -> None:
        """Release the room of all kept spares on the ledger. The caller undoes it with its statement."""
        for shape, rows, counts in self._kept.values():
            self._cycle.ledger.set_aside(shape, rows, -counts)

    def lent(self) -> Ints:
        """The running tasks of borrowers that are not evicted yet, by position."""
        cycle = self._cycle
        evictions = cycle.report.evictions
        if len(evictions) != self._seen:
            gone = [cycle.running.position.get(eviction.task.key, -1) for eviction in evictions[self._seen :]]
            self._lent, self._seen = np.setdiff1d(self._lent, gone), len(evictions)
        return self._lent

    def covers(self, job: Job, lacking: int) -> bool:
        """Whether borrowers owe an owner that is served as much as it lacks beside what is free around it."""
        if job.number not in self._due:
            return False
        room = self._cycle.fit_counts.of(_shape(job)).rows(Pool.FUTURE_IDLE)
        free = sum(int(room[self._cycle.topology.span(domain)].sum()) for domain in self._domains(job))
        return lacking - free <= self._due[job.number]

    def _give_back(self, job: Job) -> None:
        kept_place = self._kept.pop(job.number, None)
        if kept_place is not None:
            shape, rows, counts = self._before[job.number] = kept_place
            self._cycle.ledger.set_aside(shape, rows, -counts)
            self._charge(job, -shape.request * int(counts.sum()))

    def _keep_again(self, job: Job) -> None:
        """Set aside what was kept before, where that is still free and can be paid for; else look for it again."""
        kept_before = self._before.get(job.number)
        if kept_before is None:
            self._keep(job)
            return
        shape, rows, counts = kept_before
        number = int(counts.sum())
        room = self._cycle.fit_counts.of(shape).rows(Pool.FUTURE_IDLE)[rows]
        if (room >= counts).all() and self._affordable(job, shape.request, number) == number:
            self._cycle.ledger.set_aside(shape, rows, counts)
            self._charge(job, shape.request * number)
            self._kept[job.number] = kept_before
        else:
            self._keep(job)

    def _charge(self, job: Job, amounts: Ints) -> None:
        """Charge what is kept to the queue of its owner, and to the resource quotas of its namespace."""
        self._cycle.ledger.charge_kept(job, amounts)
        namespace = job.key.partition("/")[0]
        if namespace in self._cycle.snapshot.resource_quotas:
            self._charged[namespace] = self._charged.get(namespace, 0) + amounts

    def _affordable(self, job: Job, request: Ints, max_places: int) -> int:
        """How many places of so many its queue and the resource quotas of its namespace have left for a job."""
        namespace = job.key.partition("/")[0]
        quota_left = self._cycle.snapshot.resource_quotas.get(namespace)
        if quota_left is not None:
            requests_it = request > 0
            places_left = (quota_left - self._charged.get(namespace, 0))[requests_it] // request[requests_it]
            max_places = max(0, min(max_places, int(places_left.min(initial=max_places))))
        return self._cycle.pipeline.headroom(job, request, max_places) if max_places else 0

    def _keep(self, job: Job) -> None:
        """Set aside what is free of a job's spares, on the fullest nodes that have room."""
        cycle = self._cycle
        terms = job.repair
        assert terms is not None
        shape = _shape(job)
        like = self._like[job.number]
        lent = self.lent()
        free = np.where(like, cycle.fit_counts.of(shape).rows(Pool.FUTURE_IDLE), 0)
        without = free
        if len(lent):
            freed = cycle.running.freed(lent)
            without = np.where(like, Room(cycle, Pool.FUTURE_IDLE, freed=freed).rows(shape), 0)
        counts = np.zeros(len(cycle.nodes), dtype=np.int64)
        allowance = self._most[job.number]
        due = 0
        for domain in self._domains(job):
            span = cycle.topology.span(domain)
            wanted_here = min(terms.spares, allowance)
            held_by_borrowers = min(wanted_here, int((without[span] - free[span]).sum()))
            missing, allowance, due = wanted_here - held_by_borrowers, allowance - wanted_here, due + held_by_borrowers
            rows = np.flatnonzero(free[span]) + span.start
            rows = rows[np.lexsort((cycle.nodes.rank[rows], free[rows]))]
            before = np.cumsum(free[rows]) - free[rows]
            counts[rows] = np.clip(missing - before, 0, free[rows])
        self._due[job.number] = due
        rows = np.flatnonzero(counts)
        before = np.cumsum(counts[rows]) - counts[rows]
        counts[rows] = np.clip(self._affordable(job, shape.request, int(counts.sum())) - before, 0, counts[rows])
        rows = np.flatnonzero(counts)
        if len(rows) and not cycle.idle_room.allows(job, ((shape, rows, counts[rows]),)):
            self._complain(job, cycle.idle_room.refusal(job))
            return
        if len(rows):
            cycle.ledger.set_aside(shape, rows, counts[rows])
            self._charge(job, shape.request * int(counts.sum()))
            self._kept[job.number] = shape, rows, counts[rows]

    def _tell_of_fewer(self, job: Job, max_spares: int) -> None:
        """Tell an owner that it asks for more than the profile keeps."""
        wanted_spares = job.repair.spares if job.repair is not None else 0
        if wanted_spares > max_spares:
            pods = count(len(_standing(job)), "running pod")
            text = _FEWER.format(key=SPARES, asked=count(wanted_spares, "spare"), most=max_spares, pods=pods)
            self._complain(job, Reason("FewerSpares", "repair", text))

    def _complain(self, job: Job, reason: Reason) -> None:
        self.complaints = tuple(dict.fromkeys((*self.complaints, (job.tasks[0], reason))))

    def _domains(self, job: Job) -> list[int]:
        """Where the spares of a job are: in each domain of a tier that it runs in, or in the one that it may not leave,
        else the innermost one around it.
        """
        topology = self._cycle.topology
        terms = job.repair
        assert terms is not None
        if not terms.spares_tier:
            current = self._cycle.current_domain(job)
            limit = self._cycle.pipeline.limit(job)
            current = ROOT if current is None else current
            return [current if limit is None else topology.highest(current, limit) or current]
        tier = topology.tier_names.get(terms.spares_tier)
        if tier is None and terms.spares_tier.isdecimal():
            tier = int(terms.spares_tier)
        if tier not in topology.at_tier:
            text = _UNKNOWN.format(key=SPARES, tier=terms.spares_tier)
            self._complain(job, Reason("UnknownTier", "repair", text))
            return []
        node_numbers = [task.node for task in _standing(job)]
        chains = (topology.ancestors(int(topology.leaf[row])) for row in self._cycle.nodes.rows[node_numbers].tolist())
        return sorted({domain for chain in chains for domain in chain if topology.tier[domain] == tier})
