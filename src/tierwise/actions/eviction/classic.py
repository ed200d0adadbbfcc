"""preempt and reclaim as in Volcano: task by task, with victims on one node at a time.

preempt evicts tasks of less important jobs in the same queue, and less important tasks of the same job; reclaim evicts
tasks of other queues. Only tasks that free something that is short on the node or in the queue are evicted, and those
that turn out to be unnecessary are kept. A job's evictions are kept only if its minimum fits with them. Jobs with a
hard topology are left to the gang actions, which know domains.
"""

from __future__ import annotations

from itertools import chain

import numpy as np

from tierwise.actions.eviction.feasibility import quota_objection
from tierwise.actions.eviction.losses import with_losses
from tierwise.actions.eviction.node_costs import node_keys
from tierwise.actions.eviction.preemptors import Evictor, highest_priority, marked, slots, starving_jobs
from tierwise.actions.placement.bounds import Room
from tierwise.actions.placement.problem import Placement, place_tasks
from tierwise.api.plurals import count, several
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, Preemptor, Purpose
from tierwise.framework.ledger import Pool, job_ready, sub_ready
from tierwise.framework.placer import score_keys
from tierwise.framework.refusals import Page, What
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job, PodSet, Reason, SubJob, namespace_of
from tierwise.model.snapshot import Ground
from tierwise.model.topology import ROOT

__all__ = ["classic_evict"]


Place = tuple[SubJob, PodSet, int]
"""A task of a pod set, and the row that it is to be placed on."""


def classic_evict(cycle: Cycle, purpose: Purpose, action: str, *, by_node: bool = False) -> None:
    """Serve every starving job once, in queue and job order; `by_node` compares nodes by their victims."""
    maker = _ClassicPreemptor(cycle, purpose, action, by_node=by_node)
    for job in starving_jobs(cycle):
        maker.serve_safely(job)


class _ClassicPreemptor(Evictor):
    def __init__(self, cycle: Cycle, purpose: Purpose, action: str, *, by_node: bool) -> None:
        super().__init__(cycle, purpose, action)
        self._by_node = by_node
        self._refused: Page[Reason] = cycle.refusals.page(What.ON_SINGLE_NODES)  # by kind of job

    def serve(self, job: Job) -> None:
        cycle = self._cycle
        obstacle = self._beyond_it(job)
        if obstacle is not None:
            self._tell(job, obstacle)
            return
        cycle.nominations.release(job)
        kind = self._kind(job)
        refused = self._refused.entries().get(kind) if kind is not None else None
        if refused is not None:
            self._tell(job, refused)
            return
        self._catch_up()
        sets_of_gone = chain(self._notices.first(self._gone), (self._gone,))  # who has notice goes first
        rehearsal = next(
            (rehearsal for gone in sets_of_gone if (rehearsal := self._rehearsed(job, gone)) is not None), None
        )
        if rehearsal is None:
            why = self._why_not(job)
            if kind is not None:
                self._refused.add(kind, why)
            self._tell(job, why)
            return
        places, victims = rehearsal
        victims = self._running.with_groups(self._needed(job, places, victims), self._evicted)
        need = np.sum([pod_set.shape.request for _, pod_set, _ in places], axis=0)
        preemptor = with_losses(cycle, self._preemptor(job, need, gang=False))
        dear = self._declined(preemptor, victims)
        if not self._all_may_go(preemptor, victims):
            dear = self._why_not(job)
        if dear is not None:
            self._tell(job, dear)
            return
        self._carry_out(job, places, victims)

    def _rehearsed(self, job: Job, gone: Bools) -> tuple[list[Place], Ints] | None:
        """Where a job would stand, and who would go for it besides those who count as gone; None if not enough can."""
        cycle = self._cycle
        before = self._gone
        with cycle.ledger.statement():
            self._gone = gone.copy()
            try:
                places, victims = self._place_all(job)
            finally:
                self._gone = before
            subs = dict.fromkeys(sub.number for sub, _, _ in places)
            subs_ready = all(sub_ready(cycle.ledger, sub, waiting=True) for sub in job.subs if sub.number in subs)
            ready = subs_ready and job_ready(cycle.ledger, job, waiting=True)
            enough = bool(places) and (ready or not cycle.pipeline.gangs_wait)
        return (places, victims) if enough else None

    def _kind(self, job: Job) -> object | None:
        """A key of everything that the answer depends on besides the moment. None for a job that has placed tasks."""
        cycle = self._cycle
        if not job.shape.only_pods or job.subs[0].ready or len(job.subs[0].held):
            return None
        if cycle.fit_counts.closed is not None:
            return None
        (sub,) = job.subs
        waiting_by_shape = tuple((p.shape.number, cycle.backlog.left(p)) for p in sub.pod_sets)
        best_effort = tuple((p.shape.number, cycle.backlog.left(p)) for _, p in job.best_effort_pod_sets)
        tenant = namespace_of(job.key) if self._protection is not None else ""
        return tenant, job.queue, job.priority, job.minimum, job.scheduler, sub.minimum, waiting_by_shape, best_effort

    def _beyond_it(self, job: Job) -> Reason | None:
        """Jobs that must not evict, and jobs with a topology, which victims on single nodes cannot meet."""
        cycle = self._cycle
        if job.never_preempts:
            return Reason("NeverPreempts", self._action, marked(job))
        if cycle.pipeline.gather_options(job, job.minimum):
            text = f"it is gathered, and {self._action} does not plan by domain: jobpreempt does"
            return Reason("HardTopology", self._action, text)
        if cycle.snapshot.ground(job) is Ground.TREES:
            trees = "its constraints are on several trees"
            text = f"{trees}, and {self._action} does not plan by domain: gang{self._action} does"
            return Reason("HardTopology", self._action, text)
        if job.shape.apart and any(rule.constraint.hard for policy in job.policies for rule in policy.apart):
            parts = several(job.joint_word())
            text = f"its {parts} stand apart, and {self._action} does not plan by domain: gang{self._action} does"
            return Reason("HardTopology", self._action, text)
        gangs: tuple[Job | SubJob, ...] = (job, *job.subs)
        limits = [limit for gang in gangs if (limit := cycle.pipeline.limit(gang)) is not None]
        if limits and min(limits) < int(cycle.topology.tier[ROOT]):
            text = f"its topology is hard, and {self._action} does not plan by domain: gang{self._action} does"
            return Reason("HardTopology", self._action, text)
        return None

    def _why_not(self, job: Job) -> Reason:
        """Why nothing is evicted: no candidates, all protected by filters, or none on a node where it would help."""
        cycle = self._cycle
        running = self._running
        shapes = [pod_set.shape for pod_set in job.every_pod_set()]
        need = shapes[0].request if shapes else job.subs[0].request
        preemptor = self._preemptor(job, need, gang=False)
        if not cycle.pipeline.answered(preemptor):
            return Reason(
                "NotEnoughVictims", self._action, f"no plugin of the profile permits victims in {self._action}"
            )
        over = cycle.pipeline.may_reclaim(job, need) if self._purpose is Purpose.RECLAIM else None
        if over is not None:
            return over
        candidates = self._candidates(preemptor, slot=all(shape.best_effort for shape in shapes))
        if not len(candidates):
            of_other_jobs = np.flatnonzero(running.job != job.number)
            text = self._why_nobody(preemptor, of_other_jobs)
            return Reason("NotEnoughVictims", self._action, f"nothing was evicted: {text}")
        vetoes = cycle.pipeline.protected_counts(preemptor, self._in_order(candidates))
        protected = "".join(f", plugin {name} protects {n}" for name, n in sorted(vetoes.items()) if n)
        text = f"{count(len(candidates), 'pod')} could be evicted{protected}"
        text = f"{text}: evicting pods on single nodes does not bring it to its minimum"
        return Reason("NotEnoughVictims", self._action, f"nothing was evicted: {text}")

    def _carry_out(self, job: Job, places: list[Place], victims: Ints) -> None:
        """Evict and place, unless a plugin would have the job wait."""
        with self._cycle.ledger.statement() as statement:
            placements = self._place_on(job, places, victims)
            late = self._late(job, placements) if placements is not None else None
            if placements is None or late is not None:  # None: what was tried a moment ago fits no longer
                self._tell(job, late or self._why_not(job))
                return
            statement.keep()
        self._finish(job, placements, victims)

    def _why(self, job: Job, owner: Job) -> str:
        return f"{self._action}ed to make room for {job.key}"

    # -- where

    def _place_all(self, job: Job) -> tuple[list[Place], Ints]:
        """Task after task while the job starves; a task that finds no node is passed over."""
        places: list[Place] = []
        victims: list[int] = []
        best_effort_parts = {
            task_group.remaining[0].pod_set: task_group.need for task_group in slots(self._cycle, job).task_groups
        }
        ordered = (
            (sub, pod_set) for sub in job.subs for pod_set in sorted(sub.pod_sets, key=self._cycle.pipeline.task_key)
        )
        for sub, pod_set in chain(
            ordered, ((job.subs[number], pod_set) for number, pod_set in job.best_effort_pod_sets)
        ):
            if pod_set.shape.never_preempts:
                continue
            for _ in range(best_effort_parts.get(pod_set, self._cycle.backlog.left(pod_set))):
                if pod_set not in best_effort_parts and (pod_set.backfilled or not self._wanting(job)):
                    break
                node_and_victims = self._node_for(Ask(pod_set.shape, sub, job))
                if node_and_victims is None:
                    break  # the others of this part are the same task
                row, gone = node_and_victims
                self._evict(gone)
                self._gone[gone] = True
                victims += gone.tolist()
                self._put(Ask(pod_set.shape, sub, job), pod_set, row)
                places.append((sub, pod_set, row))
        return places, np.array(victims, dtype=np.int64)

    def _evict(self, victims: Ints) -> None:
        if len(victims):
            self._cycle.ledger.evict(self._running, victims)

    def _put(self, ask: Ask, pod_set: PodSet, row: int) -> Placement:
        """One task on a row: on idle room where there is some."""
        self._cycle.ledger.await_releases()
        pool = Pool.IDLE if self._cycle.fits(ask, slice(row, row + 1), Pool.IDLE)[0] else Pool.FUTURE_IDLE
        return place_tasks(self._cycle, ask, pod_set, (np.array([row]), np.array([1])), pool)

    def _wanting(self, job: Job) -> bool:
        lacking = not job_ready(self._cycle.ledger, job, waiting=True)
        return lacking and self._cycle.pipeline.starving(job)

    def _node_for(self, ask: Ask) -> tuple[int, Ints] | None:
        """The best node that the task fits once enough victims there are gone, and who they are.

        Nodes without victims come first, then by score; or, where nodes are compared by their victims, as Kubernetes
        compares them.
        """
        cycle = self._cycle
        shape = ask.shape
        preemptor = self._preemptor(ask.job, shape.request, gang=False)
        if self._purpose is Purpose.RECLAIM and cycle.pipeline.may_reclaim(ask.job, shape.request) is not None:
            return None
        candidates = self._candidates(preemptor, slot=shape.best_effort)
        able = self._able(ask, candidates)
        promising = able & self._able(ask, candidates[cycle.pipeline.could_go(preemptor, candidates)])
        if not promising.any():
            return None
        candidates = self._in_order(candidates[promising[self._running.row[candidates]]])
        everything = slice(0, len(cycle.nodes))
        scores = score_keys(cycle, ask, everything, able)
        rows = np.flatnonzero(promising)
        full = ~cycle.fits(ask, everything, Pool.FUTURE_IDLE)
        choices = []
        for row in rows[np.lexsort((cycle.nodes.rank[rows], -scores[rows], full[rows]))].tolist():
            victims = self._victims_on(ask, preemptor, row, candidates)
            if victims is None:
                continue
            if not self._by_node or not len(victims):
                return row, victims
            choices.append((row, victims))
        if choices:
            return min(choices, key=lambda choice: self._loss(choice[1]))
        return None

    def _loss(self, victims: Ints) -> tuple[float, ...]:
        """Sort key by which Kubernetes compares nodes, given the victims on a node; the smallest is preferred."""
        return tuple(float(key[0]) for key in node_keys(self._cycle, self._running, victims, np.zeros_like(victims), 1))

    # -- who

    def _candidates(self, preemptor: Preemptor, *, slot: bool) -> Ints:
        """The candidates of the purpose; where a `slot` is all that is asked for, only tasks that hold nothing else."""
        running = self._running
        job = preemptor.job
        eligible = (self._fair(job) & ~self._settled.alone)[running.job]
        if self._purpose is Purpose.PREEMPT:  # less important tasks of the same job make room as well
            eligible |= (running.job == job.number) & (running.priority < highest_priority(job))
        candidates = np.flatnonzero(running.whole(eligible & ~self._gone & ~preemptor.stays, self._evicted))
        if slot:
            candidates = candidates[[running.tasks[i].shape.best_effort for i in candidates.tolist()]]
        return candidates

    def _in_order(self, candidates: Ints) -> Ints:
        """Candidates in the order in which they would go: by queue, job and task, the last first."""
        running = self._running
        numbers, place = np.unique(running.job[candidates], return_inverse=True)
        job_order, queue_order = self._orders([self._cycle.snapshot.jobs[number] for number in numbers.tolist()])
        keys = (
            running.rank[candidates],
            -running.started[candidates],
            running.priority[candidates],
            job_order[place],
            queue_order[place],
        )
        return candidates[np.lexsort(keys)]

    def _orders(self, jobs: list[Job]) -> tuple[Ints, Ints]:
        """Ranks of jobs as victims: those that would be served last go first; ties go to the youngest."""
        pipeline = self._cycle.pipeline
        keys = [(pipeline.job_order(job), job.created) for job in jobs]
        ranks = {key: -i for i, key in enumerate(sorted(set(keys)))}
        queue_keys = {name: pipeline.queue_order(queue) for name, queue in self._cycle.snapshot.queues.items()}
        queue_ranks = {key: -i for i, key in enumerate(sorted(set(queue_keys.values())))}
        reclaims = self._purpose is Purpose.RECLAIM
        queues = [queue_ranks[queue_keys[j.queue]] if reclaims and j.queue in queue_keys else 0 for j in jobs]
        return np.array([ranks[key] for key in keys], dtype=np.int64), np.array(queues, dtype=np.int64)

    def _able(self, ask: Ask, candidates: Ints) -> Bools:
        """Which nodes would take the task with every candidate on them gone."""
        freed = self._running.freed(candidates)
        return Room(self._cycle, Pool.FUTURE_IDLE, freed=freed).rows(ask.shape) > 0

    def _victims_on(self, ask: Ask, preemptor: Preemptor, row: int, candidates: Ints) -> Ints | None:
        """Victims on a node that free enough for the task and its queue, none unnecessary; None if there are none.

        First tried in the usual order. Filters count in the order in which they are asked, so the order by freed
        amount is tried too: a small victim must not use up the allowance of a large one.
        """
        shape = ask.shape
        on_node = candidates[self._running.row[candidates] == row]
        lack = (
            shape.request[shape.asked] - self._cycle.ledger.free(shape.asked, np.array([row]), Pool.FUTURE_IDLE)[:, 0]
        )
        freed = self._running.request[shape.asked[lack > 0][:, None], on_node]
        if (
            not self._cycle.pipeline.moving(shape)
            and self._cycle.pipeline.quota_exceeded(ask.job, shape.request) is None
        ):
            helps = (freed > 0).any(axis=0)
            on_node = on_node[helps]
            freed = freed[:, helps]
        victims = self._fewest(ask, preemptor, row, self._may_go(preemptor, on_node))
        if victims is None and len(on_node) > 1:
            share = np.minimum(freed / lack[lack > 0, None], 1.0).sum(axis=0)
            victims = self._fewest(
                ask, preemptor, row, self._may_go(preemptor, on_node[np.argsort(-share, kind="stable")])
            )
        return victims

    def _may_go(self, preemptor: Preemptor, on_node: Ints) -> Ints:
        """The victims that no filter protects; a job that has just been given surplus loses no more than that."""
        pipeline = self._cycle.pipeline
        if len(on_node):
            on_node = on_node[pipeline.alone(preemptor, on_node)]  # the others use up none of the surplus of their gang
            on_node = on_node[pipeline.may_go(preemptor, on_node)]
        jobs = self._cycle.snapshot.jobs
        ledger = self._cycle.ledger
        surplus_left: dict[int, int] = {}
        result = []
        for victim in on_node.tolist():
            number = int(self._running.job[victim])
            if self._settled.kept[number]:
                ready = int(ledger.ready[[sub.number for sub in jobs[number].subs]].sum())
                surplus_left[number] = surplus_left.get(number, ready - jobs[number].minimum) - 1
            if surplus_left.get(number, 0) >= 0:
                result.append(victim)
        return np.array(result, dtype=np.int64)

    def _fewest(self, ask: Ask, preemptor: Preemptor, row: int, on_node: Ints) -> Ints | None:
        """The first that are enough, less those, the last first, who are not needed."""
        shape = ask.shape
        free = self._cycle.ledger.free(shape.asked, np.array([row]), Pool.FUTURE_IDLE)[:, 0]
        freed = np.cumsum(self._running.request[shape.asked[:, None], on_node], axis=1)
        room = np.concatenate((free[:, None], free[:, None] + freed), axis=1)
        for enough in np.flatnonzero((room >= shape.request[shape.asked, None]).all(axis=0)).tolist():
            going: Ints = on_node[:enough]
            if not self._enough(ask, preemptor, row, going):
                continue
            for victim in going[::-1].tolist():
                if self._enough(ask, preemptor, row, going[going != victim]):
                    going = going[going != victim]
            return going
        return None

    def _enough(self, ask: Ask, preemptor: Preemptor, row: int, victims: Ints) -> bool:
        """Whether the task fits a node, its queue and the rules between pods once the victims are gone."""
        shape = ask.shape
        free = self._cycle.ledger.free(shape.asked, np.array([row]), Pool.FUTURE_IDLE)[:, 0]
        free += self._running.request[shape.asked[:, None], victims].sum(axis=1)
        if (
            not (free >= shape.request[shape.asked]).all()
            or quota_objection(self._cycle, preemptor, victims) is not None
        ):
            return False
        if not self._cycle.pipeline.moving(shape):
            return True
        with self._cycle.ledger.statement():
            self._evict(victims)
            return bool(self._cycle.fits(ask, slice(row, row + 1), Pool.FUTURE_IDLE)[0])

    def _needed(self, job: Job, places: list[Place], victims: Ints) -> Ints:
        """Keep victims of one task that are no longer needed after evictions for another task."""
        if len(places) == 1:
            return victims
        for victim in victims[::-1].tolist():
            other_victims = victims[victims != victim]
            with self._cycle.ledger.statement():
                if self._place_on(job, places, other_victims) is not None:
                    victims = other_victims
        return victims

    def _place_on(self, job: Job, places: list[Place], victims: Ints) -> list[Placement] | None:
        """Evict, and put every task on its row, on the ledger as it is; None where one of them does not fit."""
        cycle = self._cycle
        self._evict(victims)
        placements: dict[tuple[int, Pool], tuple[SubJob, PodSet, list[int]]] = {}
        for sub, pod_set, row in places:
            ask = Ask(pod_set.shape, sub, job)
            fits = cycle.fits(ask, slice(row, row + 1), Pool.FUTURE_IDLE)[0]
            if not fits or cycle.pipeline.quota_exceeded(job, pod_set.shape.request) is not None:
                return None
            pool = self._put(ask, pod_set, row).pool
            placements.setdefault((id(pod_set), pool), (sub, pod_set, []))[2].append(row)
        return [
            Placement(sub, pod_set, np.array(rows, dtype=np.int64), pool)
            for (_, pool), (sub, pod_set, rows) in placements.items()
        ]
