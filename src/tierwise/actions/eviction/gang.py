"""Evict for a whole gang, inside one domain, with as few victims as possible: five actions with one algorithm.

For each starving job every domain that it may use is considered. In a domain the running tasks are bundled and sorted,
the victim filters are asked once, the fewest bundles that free enough are found, and unnecessary victims are dropped.
The cheapest domain wins: its victims are evicted and the gang is nominated in one statement, or nothing happens.

gang-preempt and gang-reclaim differ in who may be a victim and in the order of bundles. job-preempt and quota-preempt
(Koordinator's) and pod-preempt (Kubernetes') evict pod by pod regardless of gangs, and prefer the tightest place to the
cheapest (`plans_by_pod`). quota-preempt evicts from the job's own queue, the others from every queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, repeat

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.eviction.bundles import bundle_up, keep_allowed, refused_of, sort_bundles
from tierwise.actions.eviction.by_pod import plans_by_pod
from tierwise.actions.eviction.feasibility import Feasibility, Quotas, fits_in, place_in, quota_objection
from tierwise.actions.eviction.kept_plans import KeptPlan, KeptPlans, PlanInputs
from tierwise.actions.eviction.losses import loss_text, with_losses
from tierwise.actions.eviction.node_costs import VictimOrder, price_nodes
from tierwise.actions.eviction.preemptors import (
    Evictor,
    highest_priority,
    marked,
    may_evict,
    slots,
    starving_jobs,
    without_never_preempting,
)
from tierwise.actions.eviction.price_bounds import DomainBounds, Price, StandingTasks
from tierwise.actions.eviction.review import review
from tierwise.actions.eviction.victims import EvictionPlan, first_of, make_plan
from tierwise.actions.placement.bounds import Room, gradients_of, may_hold_all
from tierwise.actions.placement.demand import Demand, demand, least_needs, needs, shapes_of
from tierwise.api.plurals import count
from tierwise.config.actions import ACTIONS
from tierwise.config.arguments import flag, number
from tierwise.config.efficiency import ALIKE, THRESHOLD, alike_below
from tierwise.framework.bundle import Bundles
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Arguments, Preemptor, Purpose
from tierwise.framework.ledger import Pool, job_ready
from tierwise.framework.refusals import Page, What
from tierwise.framework.report import BundleSummary, EvictionAttempt
from tierwise.model.arrays import EMPTY, POD_SLOTS, Bools, Ints
from tierwise.model.job import Job, Named, Reason, Status, namespace_of
from tierwise.model.topology import ROOT

__all__ = ["EvictionOptions", "GangPreemptor", "gang_evict", "preempting_at_once"]


# What a profile may set for the actions that make room for gangs, and what their names stand for.


class EvictionOptions(msgspec.Struct, frozen=True):
    """Arguments of the action in a profile."""

    action: str
    max_domains: int | None = None
    allow_whole: bool = True
    remainder: bool = False
    victim_order: VictimOrder | None = None  # how tasks are weighed that fall one by one; None where gangs are weighed
    across: bool = False  # less important tasks of every queue may go
    alike: float = ALIKE  # differences in efficiency below this count as none

    @classmethod
    def of(cls, action: str, arguments: Arguments) -> EvictionOptions:
        action_rules = ACTIONS[action]
        max_domains = int(number(arguments, "maxDomains", 0))
        return cls(
            action=action,
            max_domains=max_domains or None,
            allow_whole=flag(arguments, "allowWholeBundle", default=True),
            remainder=flag(arguments, "evictRemainder", default=False),
            victim_order=VictimOrder(action_rules.victim_order) if action_rules.victim_order else None,
            across=action_rules.across,
            alike=alike_below(number(arguments, "efficiencyThreshold", THRESHOLD)),
        )

    @property
    def by_pod(self) -> bool:
        """Whether tasks fall one by one, whatever becomes of their gang."""
        return self.victim_order is not None


_NEVER = "its minimum holds pods with preemptionPolicy Never"
_NO_GANGS = "it makes room for the minimum of a gang, and no plugin of the profile knows gangs (gang, coscheduling)"
_TOO_FEW = "fewer of its pods wait than its minimum lacks: the others are gated, missing or not recreated yet"
_ALSO = 8
"""For how many further domains plans are made that may be as good as the cheapest."""

_SHOWN = 4
"""How many domains a message tells of."""


def gang_evict(cycle: Cycle, purpose: Purpose, options: EvictionOptions) -> None:
    """Serve every starving job once, in queue and job order."""
    starving = list(starving_jobs(cycle))
    if starving:  # else the table of running tasks is not needed
        evictor = GangPreemptor(cycle, purpose, options)
        for job in starving:
            evictor.serve_safely(job)


def preempting_at_once(
    cycle: Cycle, actions: Sequence[str], only: Mapping[str, frozenset[str]]
) -> Callable[[Job], None]:
    """Preempts for a job as soon as it is rejected, with the first of some actions that can make room for it.

    Kubernetes and Koordinator preempt for a pod in the same attempt in which it found no node, and later pods see the
    nominated resources as taken. `only` says which actions serve the pods of a scheduler.
    """
    evictors: dict[str, GangPreemptor] = {}

    def preempt(job: Job) -> None:
        allowed_actions = only.get(job.scheduler, actions)
        for action in (action for action in actions if action in allowed_actions):
            if not may_evict(cycle, job):
                return
            if action not in evictors:
                evictors[action] = GangPreemptor(cycle, Purpose.PREEMPT, EvictionOptions.of(action, {}))
            evictors[action].serve_safely(job)

    return preempt


class _Planning(msgspec.Struct, frozen=True):
    """Inputs of all plans for one preemptor, whichever domain they are for."""

    preemptor: Preemptor
    asked: Demand
    eligible: Bools  # running tasks that the purpose lets go
    room: Room  # once all are gone who may go
    lacking: Bools  # (resources x rows): of what a row has too little
    quotas: Quotas
    known: dict[int, KeptPlan]  # by domain: what was planned for a preemptor like this one, and still is

    def helps(self, local: Ints) -> Bools:
        """Which of these running tasks stand where their going could make room."""
        running = self.preemptor.running
        lacking_resources = np.flatnonzero(self.lacking.any(axis=1))
        frees = running.request[lacking_resources].take(local, axis=1) > 0
        result: Bools = np.any(frees & self.lacking[lacking_resources].take(running.row[local], axis=1), axis=0)
        return result


class GangPreemptor(Evictor):
    """Makes room for whole gangs, and for pods that fall one by one."""

    def __init__(self, cycle: Cycle, purpose: Purpose, options: EvictionOptions) -> None:
        super().__init__(cycle, purpose, options.action)
        self._options = options
        self._standing = StandingTasks(cycle.topology, self._running)
        self._plans_kept = KeptPlans(cycle, self._running)
        nominal = [name != POD_SLOTS for name in cycle.view.axis.names]
        self._resourceful: Ints = np.flatnonzero(nominal)
        self._refused: Page[EvictionAttempt] = cycle.refusals.page(What.BY_POD)  # by kind of task

    def serve(self, job: Job) -> None:
        cycle = self._cycle
        cycle.nominations.release(job)
        self._catch_up()
        refused = self._refused.entries()
        job_demand = demand(cycle, job)
        if not job_demand.task_groups:
            job_demand = slots(cycle, job)
        if not job_demand.task_groups:
            if not cycle.pipeline.gangs and cycle.backlog.some_left(job):
                self._tell(job, Reason("NoGangs", self._action, _NO_GANGS))
            return
        if not job_demand.enough:  # those of its pods that wait would not do, whoever goes for them
            self._tell(job, Reason("NotEnoughPods", self._action, _TOO_FEW))
            return
        evicting_demand = without_never_preempting(job, job_demand)
        if evicting_demand is None:
            self._tell(job, Reason("NeverPreempts", self._action, marked(job) or _NEVER))
            return
        need = needs(evicting_demand)
        how = self._options
        preemptor = self._preemptor(job, need, gang=True, across=how.across, by_pod=how.by_pod)
        preemptor = replace(preemptor, alike=how.alike) if how.alike != ALIKE else preemptor
        reason = self._objection(preemptor, evicting_demand)
        if reason is not None:
            self._tell(job, reason)
            return
        kind = self._kind(job, evicting_demand)
        earlier_attempt = refused.get(kind) if kind is not None else None
        attempt = earlier_attempt if earlier_attempt is not None else self._attempt(preemptor, evicting_demand)
        if attempt is not None:
            cycle.report.add_eviction_attempt(job, attempt)
            if kind is not None:
                self._refused.add(kind, attempt)

    def _kind(self, job: Job, demand: Demand) -> tuple[int, ...] | None:
        """A key that is equal for single tasks which could be evicted for the same preemptors.

        None for any other job.
        """
        if not self._options.by_pod or job.declared or not job.shape.free:
            return None
        if self._protection is not None:  # what is protected depends on the namespace as well
            return None
        shape = demand.task_groups[0].remaining[0].pod_set.shape
        return shape.number, int(self._running.jobs.queue[job.number]), int(self._cycle.pipeline.declines_losses(job))

    def _attempt(self, preemptor: Preemptor, demand: Demand) -> EvictionAttempt | None:
        """Make room by the cheapest plan that can be carried out; where none can, how that went.

        Those who have notice come first, whatever is cheaper now.
        """
        before = self._gone
        for gone in self._notices.first(before):
            self._gone = gone.copy()
            nothing_fits = self._cheapest(preemptor, demand) is None
            self._gone = before | (self._gone & ~gone)
            if nothing_fits:
                return None
        return self._cheapest(preemptor, demand)

    def _cheapest(self, preemptor: Preemptor, demand: Demand) -> EvictionAttempt | None:
        preemptor, plans, looked = self._plans(preemptor, demand)
        obstacle: Reason | None = None
        for plan in plans:
            done = self._declined(preemptor, plan.victims) or self._carry_out(preemptor, demand, plan, looked)
            if done is True:
                return None
            obstacle = obstacle or done or None
        return EvictionAttempt(self._action, obstacle or self._why_not(preemptor, looked), looked)

    def _objection(self, preemptor: Preemptor, demand: Demand) -> Reason | None:
        if self._purpose is Purpose.RECLAIM:
            reason = self._cycle.pipeline.may_reclaim(preemptor.job, preemptor.need)
            if reason is not None:
                return reason
        reason = self._cycle.pipeline.never_fits(preemptor.job, least_needs(demand))
        return reason if reason is not None or not self._options.by_pod else self._awaited(preemptor.job)

    def _awaited(self, job: Job) -> Reason | None:
        """Pods that are terminating for a job are waited for before any other is evicted."""
        nodes = {task.nominated for task in job.tasks if task.status is Status.PENDING and task.nominated >= 0}
        highest = highest_priority(job)
        everyone = chain(*(any_job.tasks for any_job in self._cycle.snapshot.jobs), self._cycle.snapshot.others)
        leaving = (t for t in everyone if t.status is Status.RELEASING and t.node in nodes)
        names = [t.key for t in leaving if t.shape.priority < highest] if nodes else []
        if not names:
            return None
        text = f"it waits for {names[0]}, which is terminating, before it evicts anything else"
        whose = Named(namespace_of(names[0]), names[0], "a pod of another namespace")
        return Reason("AwaitsVictims", self._action, text, (whose,))

    def _plans(self, preemptor: Preemptor, demand: Demand) -> tuple[Preemptor, Iterator[EvictionPlan], tuple[str, ...]]:
        """A plan for each domain in which the gang would fit with every candidate gone, the cheapest first.

        With them comes the preemptor as it was weighed.
        """
        if self._options.victim_order is not None:
            preemptor = with_losses(self._cycle, preemptor)
            allowed = self._allowed(preemptor.job)
            victim_order = self._options.victim_order
            candidates = self._candidates(preemptor)
            gone = self._evicted
            plans, planned = plans_by_pod(
                self._cycle, preemptor, demand, candidates, gone, allowed=allowed, victim_order=victim_order
            )
            return preemptor, plans, tuple(self._cycle.topology.name[domain] for domain in planned)
        eligible = self._eligible(preemptor)
        room = self._room_without(eligible)
        domains = self._domains(preemptor, demand, room)
        preemptor = with_losses(self._cycle, replace(preemptor, short=self._short(demand, domains)))
        looked = tuple(self._cycle.topology.name[d] for d in domains.tolist())
        going = eligible & ~preemptor.stays
        room = room if going.sum() == eligible.sum() else self._room_without(going)
        planning = self._planning(preemptor, demand, eligible, room)
        return preemptor, self._cheapest_first(planning, domains), looked

    def _cheapest_first(self, planning: _Planning, domains: Ints) -> Iterator[EvictionPlan]:
        """The plans of these domains by price; a domain is planned for once nothing else can be cheaper."""
        ahead: list[tuple[Price, int, EvictionPlan | None]]  # prices differ: they end with the domain
        ahead = [(bound, domain, None) for domain, bound in self._bounds(planning, domains).items()]
        heapify(ahead)
        alike: list[EvictionPlan] = []  # plans that may be as good as the cheapest, which is the first of them
        reach: Price = ()  # what one of those costs at most
        looked = 0  # domains that were planned for since the first of them was found
        while ahead or alike:
            if alike and (not ahead or ahead[0][0][:2] > reach or looked >= _ALSO):
                best_plan = first_of(alike, self._options.alike)
                for other_plan in alike:
                    if other_plan is not best_plan:
                        heappush(ahead, (other_plan.price, other_plan.domain, other_plan))
                alike = []
                yield best_plan
                continue
            bound, domain, plan = heappop(ahead)
            if plan is not None:
                if not alike:
                    reach = _reach(plan, self._options.alike)
                    looked = 0
                alike.append(plan)
                continue
            looked += 1
            domain_plan = self._found(planning, domain, breaks=bound[1:2] > (0,))
            if domain_plan is not None:
                heappush(ahead, (domain_plan.price, domain, domain_plan))

    def _bounds(self, planning: _Planning, domains: Ints) -> dict[int, Price]:
        """A lower bound of the price of a plan in each of these domains; domains without a plan are left out.

        A single domain is not bounded, as it comes first anyway.
        """
        if len(domains) == 1:
            return {int(domains[0]): ()}
        breakable = ~self._settled.kept & self._options.allow_whole
        bounds = DomainBounds(planning.room, self._standing, planning.preemptor, planning.asked, breakable)
        return bounds.at_once(planning.eligible, domains)

    def _room_without(self, tasks: Bools) -> Room:
        """Free amounts once these running tasks are gone."""
        return Room(self._cycle, Pool.FUTURE_IDLE, freed=self._running.freed(np.flatnonzero(tasks)))

    def _planning(self, preemptor: Preemptor, demand: Demand, eligible: Bools, room: Room) -> _Planning:
        quotas = Quotas(self._cycle, preemptor)
        lacking = self._lacking(demand, room, everywhere=not quotas.silent)
        inputs = PlanInputs.of(self._cycle, preemptor, demand, quotas, eligible)
        return _Planning(preemptor, demand, eligible, room, lacking, quotas, self._plans_kept.for_next(inputs))

    def _found(self, planning: _Planning, domain: int, *, breaks: bool) -> EvictionPlan | None:
        """The cheapest plan that is found for one domain; `breaks` says that the surplus of gangs is not enough."""
        kept_plan = planning.known.get(domain)
        if kept_plan is not None and kept_plan.holds(planning.quotas):
            return kept_plan.plan
        fits = fits_in(self._cycle, planning.preemptor, planning.asked, domain, planning.quotas)
        plan = self._plan(planning, domain, fits, breaks=breaks)
        if fits.answers is not None:
            planning.known[domain] = KeptPlan(plan, fits.answers)
        return plan

    def _plan(self, planning: _Planning, domain: int, fits: Feasibility, *, breaks: bool) -> EvictionPlan | None:
        preemptor = planning.preemptor
        demand = planning.asked
        inside = self._running.inside(self._cycle.topology.span(domain))
        local = np.flatnonzero(planning.eligible[inside]) + inside.start
        bundles = self._bundles(planning, local)
        plan = make_plan(self._cycle, preemptor, domain, bundles, fits)
        if plan is None and self._cycle.pipeline.counts_victims(preemptor):
            alone = local[~preemptor.stays[local]]
            if not fits.some_suffice(alone[self._cycle.pipeline.could_go(preemptor, alone)]):
                return None
            largest = self._bundles(planning, local, largest_first=True)
            plan = make_plan(self._cycle, preemptor, domain, largest, fits)
        if plan is not None and plan.bundles.safe[list(plan.taken)].all():
            return plan
        if breaks:
            return plan
        surplus = self._surplus_of(planning, local)
        if fits.some_suffice(surplus):
            spread = self._spread(demand, domain, surplus)
            bundles = self._bundles(planning, spread, with_cores=False)
            plan_of_spread = make_plan(self._cycle, preemptor, domain, bundles, fits)
            plan = (
                plan_of_spread
                if plan_of_spread is not None and (plan is None or plan_of_spread.price < plan.price)
                else plan
            )
        return plan

    def _short(self, demand: Demand, domains: Ints) -> Bools:
        """The resources of which some domain has too little for the demand, each counted as if it were the only one."""
        cycle = self._cycle
        short = np.zeros(len(cycle.view.axis), dtype=bool)
        for task_group in demand.task_groups:
            for tasks_left in task_group.remaining:
                shape = tasks_left.pod_set.shape
                free = cycle.ledger.free(shape.asked, slice(0, len(cycle.nodes)), Pool.FUTURE_IDLE)
                alone = np.maximum(free // shape.request[shape.asked, None], 0)
                alone[:, cycle.fit_counts.why(shape) != 0] = 0
                for r, room in zip(shape.asked.tolist(), alone, strict=True):
                    short[r] |= bool(
                        (cycle.topology.totals(room)[domains] < min(tasks_left.left, task_group.need)).any()
                    )
        if not short.any():  # enough of each, only not together
            for shape in demand.shapes:
                short[shape.asked] = True
            short[cycle.view.axis.index[POD_SLOTS]] = bool(short.sum() == 1)
        return short

    def _lacking(self, demand: Demand, room: Room, *, everywhere: bool) -> Bools:
        """Of which resources rows have too little where tasks that go could make room, (resources x rows).

        All of everything where their queue or rules must have it.
        """
        cycle = self._cycle
        shapes = shapes_of((*demand.task_groups, *demand.substitutes))
        result = np.zeros((len(cycle.view.axis), len(cycle.nodes)), dtype=bool)
        if everywhere or any(map(cycle.pipeline.moving, shapes)):
            return ~result
        for shape in shapes:
            requested = shape.request[shape.asked, None] * demand.need
            free = cycle.ledger.free(shape.asked, slice(0, len(cycle.nodes)), Pool.FUTURE_IDLE)
            result[shape.asked] |= (free < requested) & (room.rows(shape) > 0)
        return result

    def _surplus_of(self, planning: _Planning, local: Ints) -> Ints:
        """Of some candidates, the surplus of their gangs that could make room and that no filter protects by name."""
        running = self._running
        surplus = running.jobs.surplus(self._cycle.ledger.ready)
        local = local[(surplus[running.job[local]] != 0) & ~planning.preemptor.stays[local]]
        local = local[planning.helps(local)]
        result: Ints = local[self._cycle.pipeline.named(planning.preemptor, local)]
        return result

    def _spread(self, demand: Demand, domain: int, local: Ints) -> Ints:
        """Of candidates that are surplus, some that make room together while no gang loses more than its surplus.

        Node by node, those where the fewest have to go first. A good choice, not the best one; it is tried where the
        surplus in the usual order would not do.
        """
        cycle = self._cycle
        jobs = self._running.jobs
        costs = price_nodes(cycle, demand.shapes[0], self._running, local, demand.need, VictimOrder.POD)
        missing = demand.need - int(costs.free[cycle.topology.span(domain)].sum())
        surplus_left = jobs.surplus(cycle.ledger.ready).copy()  # below 0 for gangs that are broken already
        largest_numbers = np.minimum(costs.room, len(costs.price) - 1)
        rows = np.flatnonzero(largest_numbers > costs.free)
        going = [EMPTY]
        for row in rows[np.lexsort((cycle.nodes.rank[rows], costs.price[costs.free[rows] + 1, rows]))].tolist():
            victims = going[0]
            after = surplus_left
            for tasks in range(
                int(costs.free[row]) + 1, min(int(costs.free[row]) + missing, int(largest_numbers[row])) + 1
            ):
                gone_here = costs.on_row(row, tasks)
                less = surplus_left - np.bincount(self._running.job[gone_here], minlength=len(surplus_left))
                if ((less < 0) & (surplus_left >= 0)).any():
                    break
                victims = gone_here
                after = less
                missing = missing - 1
            going.append(victims)
            surplus_left = after
        return np.sort(np.concatenate(going))

    def _candidates(self, preemptor: Preemptor) -> Ints:
        """The candidates that neither a mark nor a filter protects, each by itself."""
        eligible = np.flatnonzero(self._eligible(preemptor) & ~preemptor.stays)
        running = self._running
        if running.not_preemptable[eligible].any():  # marks end for the least important, and for no other task before
            marked = running.not_preemptable[eligible]
            keys = running.rank[eligible], -running.started[eligible], running.priority[eligible], marked
            eligible = eligible[np.lexsort(keys)]
        going = np.zeros(len(self._running), dtype=bool)
        going[eligible[self._cycle.pipeline.may_go(preemptor, eligible)]] = True
        return np.flatnonzero(self._running.whole(going, self._evicted))

    def _eligible(self, preemptor: Preemptor) -> Bools:
        """Tasks of other jobs that the purpose lets go: of less important ones here, or of other queues."""
        jobs = self._running.jobs
        job = preemptor.job
        if self._options.by_pod:
            per_job = (jobs.queue == jobs.queue[job.number]) | self._options.across
        else:
            per_job = self._fair(job)
        per_job[job.number] = False
        per_job &= ~self._settled.alone
        result: Bools = per_job[self._running.job] & ~self._gone
        if not (preemptor.need > 0)[self._resourceful].any():  # a slot is all that is asked for
            result &= ~(self._running.request[self._resourceful] > 0).any(axis=0)
        if self._options.by_pod:
            result &= self._running.priority < highest_priority(job)
        return self._running.whole(result, self._evicted)

    def _bundles(
        self, planning: _Planning, local: Ints, *, with_cores: bool = True, largest_first: bool = False
    ) -> Bundles:
        """The bundles that may be evicted, cheapest first.

        Filters that count accept victims in the order in which they are asked. With `largest_first` the victims that
        free the most come first, so that a small victim does not use up the allowance of a large one.
        """
        preemptor = planning.preemptor
        helps = planning.helps(local)
        stays = preemptor.stays[local]
        while True:
            bundles = sort_bundles(self._cycle, preemptor, bundle_up(self._cycle, preemptor, local, helps, stays))
            if largest_first:
                bundles = bundles.pick(np.argsort(-bundles.gain, kind="stable"))
            breakable = ~self._settled.kept[bundles.job] & (with_cores and self._options.allow_whole)
            allowed = keep_allowed(self._cycle, preemptor, bundles, breakable)
            if allowed is bundles:
                break
            refused = np.isin(local, refused_of(bundles, allowed)) & ~stays
            if not refused.any():
                break
            stays = stays | refused  # others of the gang are surplus in their place
        if allowed is bundles and not largest_first and not self._cycle.pipeline.select_victims:
            return bundles  # all may go, and they are sorted
        return sort_bundles(self._cycle, preemptor, allowed)

    def _domains(self, preemptor: Preemptor, demand: Demand, room: Room) -> Ints:
        """The domains that the job may use and that could hold it in the room that is there with no candidate left."""
        cycle = self._cycle
        every = self._allowed(preemptor.job)
        able = every[may_hold_all(room, demand, every)]
        max_domains = self._options.max_domains
        if max_domains is None or len(able) <= max_domains:
            return able
        free = cycle.fit_counts.of(demand.task_groups[0].remaining[0].pod_set.shape).domains(Pool.FUTURE_IDLE)[able]
        order = np.lexsort((cycle.topology.rank[able], cycle.topology.tier[able], -free))
        return able[order[:max_domains]]

    def _allowed(self, job: Job) -> Ints:
        """The domains that the job's topology lets it use, tightest first; all of the cluster where it has none."""
        if self._cycle.pipeline.limit(job) is None:
            return np.array([ROOT])
        if self._cycle.current_domain(job) is not None:
            groups = tuple(gradients_of(self._cycle, job, ROOT))
        else:
            groups = tuple(self._cycle.pipeline.gradients(job, evicting=True))
        return np.concatenate(groups) if groups else EMPTY

    def _carry_out(
        self, preemptor: Preemptor, demand: Demand, plan: EvictionPlan, looked: tuple[str, ...]
    ) -> bool | Reason:
        """Evict and place in one statement. Nothing happens where the gang does not fit after all, or a plugin says why
        it had better wait.
        """
        cycle = self._cycle
        job = preemptor.job
        plan = replace(plan, victims=self._running.with_groups(plan.victims, self._evicted))
        dragged = self._running.jobs.together[self._running.job[plan.victims]]
        if not self._all_may_go(preemptor, plan.victims):
            return False
        loss = loss_text(cycle, preemptor, plan.victims)
        with cycle.ledger.statement() as statement:
            if len(plan.victims):
                cycle.ledger.evict(self._running, plan.victims)
            placement = place_in(cycle, preemptor, demand, plan.domain)
            if placement is None or not job_ready(cycle.ledger, job, waiting=True):
                return False
            late = self._late(job, placement.placements)
            if late is not None:
                return late
            statement.keep()
        victims = self._with_remainder(preemptor, plan)
        before = len(cycle.report.evictions)
        self._finish(job, placement.placements, victims, placement.score)
        cycle.report.add_eviction_attempt(job, replace(self._with_attempt(plan, looked), loss=loss))
        if dragged.any():  # victims that a group which falls as one makes needless stay, before others take the room
            review(cycle, before)
            self._gone[victims] = self._evicted[victims] = False
            evicted = self._running.at(e.task for e in cycle.report.evictions[before:])
            self._gone[evicted] = self._evicted[evicted] = True
        return True

    def _with_attempt(self, plan: EvictionPlan, looked: tuple[str, ...]) -> EvictionAttempt:
        bundles = plan.bundles
        jobs = self._cycle.snapshot.jobs
        by_pod = self._options.by_pod
        going = np.zeros(len(self._running), dtype=bool)
        going[plan.victims] = True
        evicted_by_bundle = bundles.numbers(going[bundles.victims])
        names = [jobs[number].key for number in bundles.job.tolist()]
        columns = (bundles.safe, np.diff(bundles.start), bundles.efficiency(), evicted_by_bundle)
        notes = map(BundleSummary, names, *(column.tolist() for column in columns), repeat(by_pod))
        return EvictionAttempt(self._action, None, looked, self._cycle.topology.name[plan.domain], tuple(notes))

    def _with_remainder(self, preemptor: Preemptor, plan: EvictionPlan) -> Ints:
        """The victims of a plan, with the rest of the gangs that it breaks if the profile evicts that too.

        That rest is evicted on the ledger.
        """
        broken = []
        for b in plan.taken:
            if not plan.bundles.safe[b]:
                broken.append(int(plan.bundles.job[b]))
        if not self._options.remainder or not broken:
            return plan.victims
        remainder = np.flatnonzero(np.isin(self._running.job, broken) & ~self._gone)
        remainder = np.setdiff1d(remainder, plan.victims)
        remainder = remainder[self._cycle.pipeline.may_go(preemptor, remainder) & ~preemptor.stays[remainder]]
        if len(remainder):
            self._cycle.ledger.evict(self._running, remainder)
        return np.concatenate((plan.victims, remainder))

    def _why(self, job: Job, owner: Job) -> str:
        overuse = f"queue {owner.queue} uses more than it deserves"
        why = "it is more important" if self._purpose is Purpose.PREEMPT else overuse
        return f"to make room for {job.key}: {why}"

    def _why_not(self, preemptor: Preemptor, looked: tuple[str, ...]) -> Reason:
        """The reason why nothing was evicted, domain by domain: no candidates, protected pods, or too little room."""
        over = quota_objection(self._cycle, preemptor, self._candidates(preemptor)) if self._options.by_pod else None
        if over is not None:
            return Reason("NotEnoughVictims", self._action, f"nothing was evicted, as it would not help: {over.text}")
        names = self._cycle.topology.index
        domains = [names[name] for name in looked] or self._allowed(preemptor.job).tolist()
        if not domains:
            return Reason("NoDomain", self._action, "its topology leaves no domain that could ever hold it")
        notes = "; ".join(self._note(preemptor, domain) for domain in domains[:_SHOWN])
        hidden_text = f"; and {count(len(domains) - _SHOWN, 'other domain')}" if len(domains) > _SHOWN else ""
        return Reason("NotEnoughVictims", self._action, f"nothing was evicted: {notes}{hidden_text}")

    def _note(self, preemptor: Preemptor, domain: int) -> str:
        """Why one domain has no plan, as a part of a sentence."""
        inside = self._running.inside(self._cycle.topology.span(domain))
        candidates_here = np.flatnonzero(self._eligible(preemptor)[inside]) + inside.start
        where = "in the cluster" if domain == ROOT else f"in {self._cycle.topology.name[domain]}"
        if not len(candidates_here):
            of_other_jobs = np.arange(inside.start, inside.stop)[self._running.job[inside] != preemptor.job.number]
            return f"{where} {self._why_nobody(preemptor, of_other_jobs)}"
        if not self._cycle.pipeline.answered(preemptor):
            could = count(len(candidates_here), "pod")
            return f"{where} {could} could be evicted, but no plugin of the profile permits victims"
        marked = preemptor.stays[candidates_here]
        vetoes = self._cycle.pipeline.protected_counts(preemptor, candidates_here[~marked])
        protected_text = f", {marked.sum()} marked not preemptable" if marked.any() else ""
        protected_text += "".join(f", plugin {name} protects {n}" for name, n in sorted(vetoes.items()) if n)
        protected_text += "" if self._options.allow_whole else ", gangs must stay whole"
        return f"{where} {count(len(candidates_here), 'pod')} could be evicted{protected_text}, which frees too little"


def _reach(plan: EvictionPlan, alike: float) -> Price:
    """What a plan costs at most that may be as efficient as this one, but for a difference that counts as none."""
    if not plan.cost:
        return plan.price[:2]
    lowest_efficiency = plan.gain / plan.cost - alike
    return plan.price[0], plan.gain / lowest_efficiency if lowest_efficiency > 0 else math.inf
