"""Repair of gangs that lose nodes: what is restarted, and room for what replaces it.

Before anything is placed, pods on lost nodes are evicted, and with them what their job wants to be restarted, so that
replacements are made at once. `model.lost_nodes` says which nodes are lost to a pod. Where replacements find no place
beside the rest of their gang, `Replacements` makes room: borrowers of its spares go first; else the smallest part of
the gang moves that has a place elsewhere. Only jobs that say what they want, or profiles that say it for them, are
repaired, and pods that no controller would create again stay where they are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.eviction.feasibility import Tried
from tierwise.actions.placement.commit import commit
from tierwise.actions.placement.demand import Demand, demand, needs
from tierwise.actions.placement.problem import SearchResult, deferral
from tierwise.actions.placement.solve import solve
from tierwise.actions.placement.spares import Spares, like_nodes
from tierwise.api.plurals import count, verb
from tierwise.api.repair import OnNodeLoss
from tierwise.config.profile import Profile
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.framework.ledger import Pool, job_ready
from tierwise.framework.report import Eviction, EvictionAttempt
from tierwise.model.arrays import Ints
from tierwise.model.gang import around
from tierwise.model.job import Job, Named, Reason, Rejection, Shape, Status, SubJob, Task, namespace_of
from tierwise.model.job_counts import with_tasks
from tierwise.model.lost_nodes import LostNodes, repaired_jobs
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT

__all__ = ["REPAIR", "Replacements", "evict_lost", "repaired"]

REPAIR = "repair"
"""The name under which repairs evict."""

_GIVES_BACK = "it gives back a spare node, because the owner of the spare has lost a node"
_HOLDING = (Status.RUNNING, Status.RELEASING)


# Who is repaired.


def repaired(snapshot: Snapshot, profile: Profile) -> dict[str, OnNodeLoss]:
    """The wish of each job for the loss of a node, by key; jobs without one are left out."""
    if not profile.feature("Repair"):
        return {}
    usual = next((OnNodeLoss(text) for text in profile.listed(REPAIR, "onNodeLoss")), None)
    return repaired_jobs(snapshot.jobs, usual)


# What is restarted.


def evict_lost(cycle: Cycle, wishes: Mapping[str, OnNodeLoss]) -> None:
    """Evict the tasks of these jobs whose nodes are lost, and what else their jobs want to be restarted then."""
    lost = LostNodes(cycle.nodes)
    for job in cycle.snapshot.jobs:
        wish = wishes.get(job.key)
        if wish is None or not (lost.any or any(t.node < 0 and t.status in _HOLDING for t in job.tasks)):
            continue
        holding = [task for task in job.tasks if task.status in _HOLDING and not task.unowned]
        why = {task.key: cause for task in holding if (cause := lost.why(task))}
        running = [task for task in holding if task.status is Status.RUNNING and task.key not in why]
        sick = {task.key: cause for task in running if (cause := lost.unhealthy(task))}
        tied_to = _tied_to_unowned(job, lost)
        firm = tied_to or _spared(cycle, [task for task in running if task.key in sick or job.together]) if sick else ""
        run = f"{count(len(sick), 'pod')} {verb(len(sick), 'runs', 'run')}"
        if firm:
            _tell(cycle, job, "SparedByRepair", f"{run} on unhealthy nodes, but {firm}")
            sick = {}
        if sick and not _room_elsewhere(cycle, job, why.keys() | sick.keys()):
            replacements = verb(len(sick), "a replacement", "replacements")
            text = f"{run} on unhealthy nodes, and there is no room for {replacements}"
            _tell(cycle, job, "NoRoomForReplacements", text)
            sick = {}
        # A pod of a lost node runs no more; with one that does run the others go that are disrupted together with it.
        if job.together and (sick or wish is not OnNodeLoss.REPLACE):
            wish = OnNodeLoss.RESTART_ALL
        _restart(cycle, job, wish, why | sick, tied_to)


def _tied_to_unowned(job: Job, lost: LostNodes) -> str:
    """Why no healthy task of a job may be evicted, as the end of a sentence: one goes with all others or not at all,
    and one of them has to stay. "" where they may.
    """
    if job.together and any(t.status is Status.RUNNING and t.unowned and not lost.why(t) for t in job.tasks):
        return "no controller would recreate some of its pods, and its pods are evicted together or not at all"
    return ""


def _restart(cycle: Cycle, job: Job, wish: OnNodeLoss, why: Mapping[str, str], objection: str) -> None:
    """Evict tasks for these reasons, and what else a job wants to be restarted then, unless there is an `objection`."""
    if not why:
        return
    names, rows = cycle.nodes.names, cycle.nodes.rows
    lost_task = next(task for task in job.tasks if task.key in why)
    where = f"node {names[rows[lost_task.node]]}" if lost_task.node >= 0 else "the node"
    since = _lost_at(job, why)
    healthy: dict[str, list[tuple[SubJob, Task]]] = {}  # by the reason for which they go together
    for sub in job.subs:
        task_of_sub = next((task for task in sub.tasks if task.key in why), None)
        for task in sub.tasks:
            if task.status is not Status.RUNNING or task.unowned:
                continue
            if task.key in why:
                node = f"node {names[rows[task.node]]}" if task.node >= 0 else "its node"
                _evict(cycle, job, sub, task, f"{node} {why[task.key]}")
                continue
            if task.created and task.created >= since:
                continue  # it was created again for this loss
            if wish is OnNodeLoss.RESTART_ALL:
                reason = f"the job restarts: {where} of pod {lost_task.key} {why[lost_task.key]}"
            elif wish is OnNodeLoss.RESTART_SUBGROUP and task_of_sub is not None:
                node_text = f"node {names[rows[task_of_sub.node]]}" if task_of_sub.node >= 0 else "the node"
                reason = (
                    f"its {job.part_word(sub)} restarts: {node_text} of pod {task_of_sub.key} {why[task_of_sub.key]}"
                )
            else:
                continue
            healthy.setdefault(reason, []).append((sub, task))
    asked_by_job = job.repair is not None and job.repair.on_node_loss is not None
    for reason, together in healthy.items():
        firm = objection or _spared(cycle, [task for _, task in together], asked_by_job=asked_by_job)
        if firm:
            _tell(cycle, job, "SparedByRepair", f"{count(len(together), 'pod')} should restart, but {firm}")
            continue
        for sub, task in together:
            _evict(cycle, job, sub, task, reason)


def _spared(cycle: Cycle, tasks: Sequence[Task], *, asked_by_job: bool = False) -> str:
    """Why healthy tasks may not all be evicted, as the end of a sentence; "" where they may.

    Disruption budgets hold for every eviction. Marks as not preemptable hold too, unless `asked_by_job`: the job wants
    to be restarted itself.
    """
    marked = cycle.running.not_preemptable
    firm = next((task for task in tasks if marked[cycle.running.position[task.key]]), None)
    if firm is not None and not asked_by_job:
        return f"pod {firm.key} is marked as not preemptable"
    for budget, number in Counter(budget for task in tasks for budget in task.budgets).items():
        allowed = max(cycle.ledger.disruptions_left(budget), 0)
        if number > allowed:
            return f"a disruption budget allows {count(allowed, 'eviction')} of {number}"
    return ""


def _tell(cycle: Cycle, job: Job, code: str, text: str) -> None:
    attempt = EvictionAttempt(REPAIR, Reason(code, REPAIR, text))
    cycle.report.eviction_attempts.setdefault(job.key, []).append(attempt)  # maybe nothing of it waits


def _lost_at(job: Job, why: Mapping[str, str]) -> float:
    """Until when what was made belongs to what was lost: pods on a lost node may be terminating for long."""
    lost = [task for task in job.tasks if task.key in why]
    if any(task.status is Status.RUNNING for task in lost):
        return math.inf
    since = max(task.deleted for task in lost)
    older = any(t.created < since for t in job.tasks if t.status is Status.RUNNING and t.key not in why)
    return math.inf if job.together and older else since  # with an older one all others go again


def _evict(cycle: Cycle, job: Job, sub: SubJob, task: Task, reason: str) -> None:
    """Evict a task, on the ledger too; of one whose node is gone it knows no more than that it ran."""
    position = cycle.running.position.get(task.key)
    if position is not None:
        cycle.ledger.evict(cycle.running, np.array([position]))
    else:
        cycle.ledger.count_ready(sub, job.numbers_of(task.role), -1)
    cycle.evict([Eviction(task, job, None, REPAIR, reason)])


def _room_elsewhere(cycle: Cycle, job: Job, gone: Collection[str]) -> bool:
    """Whether so many tasks of a job would find room beside the rest of it, or for the whole of it, by counting.

    What running tasks say of nodes is not known any more, so that nodes count whose taints some task of the job puts
    up with now; spares and what borrowers hold of them count as free.
    """
    topology, like_rows = cycle.topology, like_nodes(cycle, job)
    gang = [sub for sub in job.subs if any(task.key in gone for task in sub.tasks)]
    for sub in gang:
        to_move = [task for task in sub.tasks if task.key in gone and task.status is Status.RUNNING]
        staying_nodes = [task.node for task in sub.tasks if task.status is Status.RUNNING and task.key not in gone]
        limit = cycle.pipeline.limit(job.gang_of(sub))
        around = topology.meet_rows(cycle.nodes.rows[staying_nodes]) if staying_nodes else ROOT
        domain = ROOT if limit is None or not staying_nodes else topology.highest(around, limit)
        span = topology.span(around if domain is None else domain)
        free = np.where(like_rows, cycle.fit_counts.of(to_move[0].shape).rows(Pool.FUTURE_IDLE), 0)
        if to_move and int(free[span].sum()) < len(to_move):
            return False
    return True


# Room for replacements.


class _Part(msgspec.Struct, frozen=True):
    """A part of a gang that may move: what it is called, its tasks, and those of them that are not evicted already."""

    name: str
    tasks: tuple[Task, ...]
    going: tuple[Task, ...]


Rehearse = Callable[[Snapshot], Cycle]
"""Opens a cycle on another snapshot, with the same profile."""


class Replacements:
    """Makes room for tasks that a running gang has lost, as soon as allocate has refused them."""

    def __init__(self, cycle: Cycle, spares: Spares, wishes: Collection[str], rehearse: Rehearse) -> None:
        self._cycle, self._spares, self._wishes, self._rehearse = cycle, spares, wishes, rehearse
        self._moves: list[tuple[Shape, Ints, Ints]] = []  # where parts of gangs move to: shapes, rows and counts

    def complaints(self) -> tuple[tuple[Task, Reason], ...]:
        """Tasks with a wish for repair that cannot be kept, each with the reason."""
        return self._spares.complaints

    def make_room(self, job: Job) -> bool:
        """Whether room was made for a job that was refused; a gang to repair is told why not."""
        job_demand = demand(self._cycle, job)
        if not job_demand.task_groups or not job_demand.enough:
            return False
        running = self._cycle.current_domain(job) is not None
        if job.key in self._wishes and running:
            if self._cycle.pipeline.quota_exceeded(job, needs(job_demand)) is not None:
                return False
            return self._from_borrowers(job, job_demand) or self._move(job, job_demand)
        self._tell_of_spares(job, job_demand)
        return False

    def _tell_of_spares(self, job: Job, demand: Demand) -> None:
        """Tell a job that waits where it would fit if spares were not kept."""
        spares_by_gang = self._spares.kept()
        if not spares_by_gang:
            return
        with self._cycle.ledger.statement():
            self._spares.open_all()
            placement = solve(self._cycle, job, demand)
        if isinstance(placement, SearchResult):
            number = sum(spares_by_gang.values())
            others_text = f" and {count(len(spares_by_gang) - 1, 'other gang')}" if len(spares_by_gang) > 1 else ""
            owners = f"{next(iter(spares_by_gang))}{others_text}"
            text = f"{count(number, 'spare')} of {owners} {verb(number, 'is', 'are')} kept free, where it would fit"
            names = (Named(namespace_of(next(iter(spares_by_gang))), owners, "gangs of other namespaces"),)
            attempt = EvictionAttempt(REPAIR, Reason("SparesKept", REPAIR, text, names))
            self._cycle.report.add_eviction_attempt(job, attempt)

    def _from_borrowers(self, job: Job, demand: Demand) -> bool:
        """Evict the fewest borrowers of spares, node by node, that make room for what is asked."""
        cycle, running = self._cycle, self._cycle.running
        if not self._spares.covers(job, demand.need):
            return False
        lent = self._spares.lent()
        rows, numbers = np.unique(running.row[lent], return_counts=True)
        dearest = rows[np.lexsort((cycle.nodes.rank[rows], numbers))[::-1]].tolist()  # these are spared first
        parts = [lent[running.row[lent] == row] for row in dearest]
        need = needs(demand)
        fits = Tried(cycle, Preemptor(Purpose.PREEMPT, job, need, False, running), demand, ROOT)
        if not parts or not fits.without(lent):
            return False
        going = fits.needed(np.concatenate(parts), np.cumsum([0, *map(len, parts)]), lent[:0])
        victims = self._whole_gangs(np.concatenate([parts[i] for i in going]))
        if _spared(cycle, [running.tasks[victim] for victim in victims.tolist()], asked_by_job=True):
            return False
        self._take_back(job, demand, victims)
        return True

    def _whole_gangs(self, victims: Ints) -> Ints:
        """The victims, with all of the gangs that would be below their minimum."""
        running = self._cycle.running
        surplus = running.jobs.surplus(self._cycle.ledger.ready)
        lost = np.bincount(running.job[victims], minlength=len(surplus))
        return np.union1d(victims, np.flatnonzero(((lost > 0) & (lost > surplus))[running.job]))

    def _take_back(self, job: Job, demand: Demand, victims: Ints) -> None:
        """Evict these borrowers and nominate the job where they were, unless it had better wait."""
        cycle = self._cycle
        with cycle.ledger.statement() as statement:
            cycle.ledger.evict(cycle.running, victims)
            placement = solve(cycle, job, demand)
            assert isinstance(placement, SearchResult)  # it was there with fewer gone
            delay = deferral(cycle, job, placement.placements)
            if delay is not None:
                cycle.report.delay(job, delay)
                return
            statement.keep()
        cycle.evict_running(victims, job, REPAIR, _GIVES_BACK)
        commit(cycle, job, placement.placements, action=REPAIR, score=placement.score, bound=False)
        where = cycle.topology.name[placement.domain]
        cycle.report.add_eviction_attempt(job, EvictionAttempt(REPAIR, None, (where,), where))

    def _move(self, job: Job, demand: Demand) -> bool:
        """Evict the smallest part of the gang that, together with what is missing, has a place; say so, or why not."""
        cycle = self._cycle
        current = cycle.current_domain(job)
        beside = "beside the others" if current in (None, ROOT) else f"in {cycle.topology.name[current]}"
        lacking = f"there is no room for {count(demand.need, 'replacement')} {beside}"
        fixed = ""
        gone = {eviction.task.key for eviction in cycle.report.evictions}
        parts = [part for part in _parts(job, demand, gone) if part.going]
        parts = parts[-1:] if job.together else parts  # the last of them is the whole gang
        if not parts:  # what it has lost is still there: it is waited for
            return False
        for part in parts:
            firm = _spared(cycle, part.going)
            if firm:
                fixed = f": {firm}"
                continue
            plan = self._rehearsed(job, part)
            if isinstance(plan, str):
                fixed = plan
                continue
            if plan is None:
                continue
            delay = deferral(cycle, job, plan.placements)
            if delay is not None:
                cycle.report.delay(job, delay)
                return True
            for placement in plan.placements:  # what it moves to stays free for it for the rest of the cycle
                distinct, counts = np.unique(placement.rows, return_counts=True)
                cycle.ledger.set_aside(placement.pod_set.shape, distinct, counts)
                self._moves.append((placement.pod_set.shape, distinct, counts))
            where = cycle.topology.name[plan.domain]
            moves = f"{part.name} ({count(len(part.going), 'pod')}) moves to {where}"
            subs = {task.key: sub for sub in job.subs for task in sub.tasks}
            for task in part.going:
                _evict(cycle, job, subs[task.key], task, f"{lacking}, and {moves}")
            reason = Reason("MovesForRepair", REPAIR, f"{lacking}; {moves}")
            cycle.report.reject(job, Rejection("place", job.key, reason))
            cycle.report.add_eviction_attempt(job, EvictionAttempt(REPAIR, None, (where,), where))
            return True
        text = f"{lacking}, and neither a part nor all of the gang has a place elsewhere{fixed}"
        cycle.report.add_eviction_attempt(job, EvictionAttempt(REPAIR, Reason("NoRoomForReplacements", REPAIR, text)))
        return False

    def _rehearsed(self, job: Job, part: _Part) -> SearchResult | str | None:
        """Where the gang would be if a part of it were pending, in a cluster with all that was decided so far."""
        moved = _pending_again(job, {task.key for task in part.tasks})
        if isinstance(moved, str):
            return moved
        cycle = self._cycle
        jobs = tuple(moved if any_job is job else any_job for any_job in cycle.snapshot.jobs)
        trial = self._rehearse(replace(cycle.snapshot, jobs=jobs))
        gone = [e for e in cycle.report.evictions if e.task.key in trial.running.position]
        if gone:
            victims = np.array([trial.running.position[e.task.key] for e in gone], dtype=np.int64)
            trial.ledger.evict(trial.running, victims)
            trial.ledger.linger()
        for decision in cycle.report.decisions:
            for placed in decision.placed:
                for task, row in zip(placed.tasks, placed.rows.tolist(), strict=True):
                    trial.ledger.place(task.shape, np.array([row]), np.array([1]), pool=placed.pool)
        for shape, rows, counts in self._moves:  # no two gangs move to one place
            trial.ledger.set_aside(shape, rows, counts)
        trial.nominations.release(moved)
        trial_demand = demand(trial, moved)
        if not trial_demand.task_groups or not trial_demand.enough:
            return None
        if trial.pipeline.quota_exceeded(moved, needs(trial_demand)) is not None:
            return None
        with trial.serving(moved):
            placement = solve(trial, moved, trial_demand)
        return (
            placement if isinstance(placement, SearchResult) and job_ready(trial.ledger, moved, waiting=True) else None
        )


def _parts(job: Job, demand: Demand, gone: Collection[str]) -> Iterator[_Part]:
    """What of a gang may move, the smallest first: sub-groups that lack tasks, groups around them, the whole gang."""
    lacking = [task_group.sub for task_group in demand.task_groups]
    sizes: set[int] = set()
    for subs, name in _sets(job, lacking):
        tasks = tuple(task for sub in subs for task in sub.tasks if task.status is Status.RUNNING and task.node >= 0)
        if tasks and len(tasks) not in sizes:
            sizes.add(len(tasks))
            yield _Part(name, tasks, tuple(task for task in tasks if task.key not in gone))


def _sets(job: Job, lacking: Sequence[SubJob]) -> Iterator[tuple[Sequence[SubJob], str]]:
    if job.shape.parted:
        only_one = len(lacking) == 1
        word = job.joint_word(lacking)
        yield lacking, f"{word} {lacking[0].key}" if only_one else f"{count(len(lacking), word)}"
    groups = {sub.inner_group for sub in lacking} - {-1, 0}
    while groups:
        inside = [sub for sub in job.subs if not groups.isdisjoint(around(job.shape, sub.inner_group))]
        paths = [job.inner_groups[number].path for number in sorted(groups)]
        yield inside, f"group {paths[0]}" if len(paths) == 1 else f"{count(len(paths), 'group')}"
        groups = {job.inner_groups[number].parent for number in groups} - {-1, 0}
    yield job.subs, "the gang"


def _pending_again(job: Job, keys: Collection[str]) -> Job | str:
    """The job with these of its running tasks pending; why that cannot be told where one is unlike all that are.

    A running task is read without its rules about nodes: a pending one of its role knows them.
    """
    waiting = {_likeness(task): task.shape for task in job.tasks if task.status is Status.PENDING}
    pending_tasks: dict[str, Task] = {}
    for task in job.tasks:
        if task.key in keys:
            if task.unowned:
                return f": no controller would recreate pod {task.key} anew"
            shape = waiting.get(_likeness(task))
            if shape is None and task.node_rules:
                return f": pod {task.key} has rules about nodes that are not known while it runs"
            pending_tasks[task.key] = replace(task, shape=shape or task.shape, status=Status.PENDING, node=-1)
    return with_tasks(job, pending_tasks)


def _likeness(task: Task) -> tuple[str, bytes, int]:
    return task.role, task.shape.request.tobytes(), task.shape.priority
