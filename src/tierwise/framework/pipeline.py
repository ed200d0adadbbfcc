"""Plugins of one cycle, sorted once into typed tuples, one per extension point.

The only place that loops over plugins. Combination rules: sort keys are concatenated in the profile's order, the
first objection wins, scores add up by weight, the first search space, proposer or victim selector with an opinion
decides, every victim filter has a veto, and nobody goes where none of them answers. Tiers matter to enqueue alone: a
permit in one overrules objections of later ones. A plugin that a profile has for one scheduler's pods is asked about
those alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeGuard, TypeVar

import numpy as np

from tierwise.config.profile import PluginChoice, Profile
from tierwise.framework.bundle import Bundles
from tierwise.framework.extension import (
    Abstained,
    Ask,
    Cause,
    Complaints,
    CycleView,
    Debt,
    Delay,
    Delaying,
    DomainScorer,
    EnqueueGate,
    EnqueuePermit,
    Entitlement,
    Factory,
    GangCheck,
    Gate,
    Gathering,
    Gradients,
    JobOrder,
    Lending,
    MovingFilter,
    NodeFigures,
    NodeScorer,
    Overuse,
    PartOrder,
    Proposal,
    Proposer,
    Purpose,
    QueueOrder,
    Quota,
    Readiness,
    ReclaimGate,
    ScoreEffect,
    SearchSpace,
    Starving,
    StaticFilter,
    SubJobOrder,
    Turns,
    Units,
    VictimFilter,
    VictimQueueOrder,
    VictimSelector,
)
from tierwise.model.arrays import Bools, Floats, Ints, Why
from tierwise.model.job import Job, Part, SubJob, Task
from tierwise.model.queue import Queue
from tierwise.model.reason import Reason
from tierwise.model.shape import Shape
from tierwise.model.topology import ROOT

if TYPE_CHECKING:
    from tierwise.framework.gathering import Way

__all__ = ["Pipeline"]

Point = TypeVar("Point")

_FLAGS: Mapping[type, str] = {
    StaticFilter: "Predicate",
    MovingFilter: "Predicate",
    NodeScorer: "NodeOrder",
    DomainScorer: "HyperNodeOrder",
    SearchSpace: "HyperNodeGradient",
    Gathering: "HyperNodeGradient",
    Proposer: "HyperNodeProposal",
    QueueOrder: "QueueOrder",
    JobOrder: "JobOrder",
    SubJobOrder: "SubJobOrder",
    PartOrder: "TaskOrder",
    Readiness: "JobReady",
    Gate: "JobValid",
    Quota: "Allocatable",
    Overuse: "Overused",
    ReclaimGate: "Preemptive",
    VictimQueueOrder: "VictimQueueOrder",
    GangCheck: "Predicate",
    Delaying: "JobReady",
    Starving: "JobStarving",
    VictimSelector: "Victim",
    Complaints: "JobValid",
    NodeFigures: "NodeOrder",
    Turns: "QueueOrder",
    Lending: "Reclaimable",
    Entitlement: "QueueOrder",
}
"""The switch of each point, as Volcano spells it behind `enable`."""


_KNOWN: dict[tuple[type, type], bool] = {}


def _has(plugin: object, point: type[Point]) -> TypeGuard[Point]:
    """Whether a plugin takes part in a point; asked once for each class, because asking a Protocol is slow."""
    key = type(plugin), point
    known = _KNOWN.get(key)
    if known is None:
        known = _KNOWN[key] = isinstance(plugin, point)
    return known


class _PluginsAt(Generic[Point]):
    """The plugins at one point: all of them, and those that serve the pods of one scheduler."""

    def __init__(self, members: tuple[tuple[PluginChoice, Point], ...]) -> None:
        self.all = tuple((choice.name, plugin) for choice, plugin in members)
        self._members = members
        self._serving: dict[str, tuple[Point, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self.all)

    def __getitem__(self, scheduler: str) -> tuple[Point, ...]:
        found = self._serving.get(scheduler)
        if found is None:
            found = self._serving[scheduler] = tuple(plugin for _, plugin in self.chosen(scheduler))
        return found

    def chosen(self, scheduler: str) -> tuple[tuple[PluginChoice, Point], ...]:
        """The same, each with what the profile says of it."""
        return tuple((c, plugin) for c, plugin in self._members if c.scheduler in (None, scheduler))


class Pipeline:
    """The plugins of a profile at work in one cycle."""

    def __init__(self, profile: Profile, view: CycleView, factories: Mapping[str, Factory]) -> None:
        self._view = view
        self._plugins = [
            (plugin, factories[plugin.name](plugin.arguments, view)) for tier in profile.tiers for plugin in tier
        ]
        self._static = self._at(StaticFilter)
        self._movers = self._at(MovingFilter)
        self._scorers = self._at(NodeScorer)
        self._domain_scorers = self._at(DomainScorer)
        self._spaces = self._at(SearchSpace)
        self._gatherings = self._at(Gathering)
        self._proposers = self._at(Proposer)
        self._queue_orders = self._at(QueueOrder)
        self._job_orders = self._at(JobOrder)
        self._sub_orders = self._at(SubJobOrder)
        self._part_orders = self._at(PartOrder)
        self._gates = self._at(Gate)
        made = iter(self._plugins)
        self._enqueue_tiers = [
            _PluginsAt(tuple((choice, p) for choice, p in islice(made, len(tier)) if choice.enabled("JobEnqueued")))
            for tier in profile.tiers
        ]
        self._readiness = self._at(Readiness)
        self._pipelining = self._among("JobPipelined", Readiness)
        self._quotas = self._at(Quota)
        self._overuses = self._at(Overuse)
        self._reclaim_gates = self._at(ReclaimGate)
        self._victim_queue_orders = self._at(VictimQueueOrder)
        self._gang_checks = self._at(GangCheck)
        self._delayers = self._at(Delaying)
        self._starvings = self._at(Starving)
        self._selectors = self._at(VictimSelector)
        self._complaints = self._at(Complaints)
        self._figures = self._at(NodeFigures)
        self._turns = self._at(Turns)
        self._lendings = self._at(Lending)
        self._entitlements = self._at(Entitlement)
        self._victim_filters = {
            Purpose.PREEMPT: self._among("Preemptable", VictimFilter),
            Purpose.RECLAIM: self._among("Reclaimable", VictimFilter),
        }
        self._acts_name_victims = profile.immediate_preemption  # Kubernetes' preemption asks no plugin who may go
        self._moving: dict[int, bool] = {}
        self._weighing: dict[str, tuple[tuple[PluginChoice, NodeScorer], ...]] = {}

    def _at(self, point: type[Point]) -> _PluginsAt[Point]:
        """The plugins that have a point's methods and are not switched off for it, in the profile's order."""
        return self._among(_FLAGS[point], point)

    def _among(self, flag: str, point: type[Point]) -> _PluginsAt[Point]:
        return _PluginsAt(tuple((p, made) for p, made in self._plugins if p.enabled(flag) and _has(made, point)))

    def _whose(self, gang: Job | SubJob) -> str:
        return gang.scheduler if isinstance(gang, Job) else self._view.jobs[gang.job_number].scheduler

    # -- filters

    def why_not(self, shape: Shape) -> Why:
        """The first static objection per row; 0 where there is none."""
        why = np.zeros(len(self._view.nodes), dtype=np.uint16)
        for plugin in self._static[shape.scheduler]:
            other = plugin.why_not(shape)
            np.copyto(why, other, where=why == 0)
        return why

    def moving(self, shape: Shape) -> bool:
        """Whether placements in this cycle change which nodes the shape may use."""
        known = self._moving.get(shape.number)
        if known is None:
            known = self._moving[shape.number] = any(plugin.concerns(shape) for plugin in self._movers[shape.scheduler])
        return known

    def why_not_now(self, shape: Shape, span: slice) -> Why:
        why = np.zeros(span.stop - span.start, dtype=np.uint16)
        for plugin in self._movers[shape.scheduler]:
            if plugin.concerns(shape):
                np.copyto(why, plugin.why_not_now(shape, span), where=why == 0)
        return why

    # -- scores

    def effect(self, ask: Ask) -> ScoreEffect:
        return max((plugin.effect(ask) for plugin in self._scorers[ask.shape.scheduler]), default=ScoreEffect.FIXED)

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        """The weighted sum of all scores."""
        total = np.zeros(span.stop - span.start)
        for choice, plugin in self._weighers(ask.shape.scheduler):
            score = plugin.score(ask, span, fits)
            total += score if choice.weight == 1.0 else choice.weight * score
        return total

    def scores(self, ask: Ask, span: slice, fits: Bools) -> dict[str, Floats]:
        """The same plugin by plugin, before their weights."""
        return {c.name: plugin.score(ask, span, fits) for c, plugin in self._weighers(ask.shape.scheduler)}

    def _weighers(self, scheduler: str) -> tuple[tuple[PluginChoice, NodeScorer], ...]:
        found = self._weighing.get(scheduler)
        if found is None:
            found = self._weighing[scheduler] = self._scorers.chosen(scheduler)
        return found

    def figures(self, ask: Ask) -> dict[str, Sequence[Mapping[str, object]]]:
        """What the answers of plugins are made of, row by row, for those that can say."""
        return {c.name: plugin.figures(ask) for c, plugin in self._figures.chosen(ask.shape.scheduler)}

    def stale(self, ask: Ask, row: int) -> slice:
        """The rows whose total may change once a task stands on `row`."""
        spans = [plugin.stale(ask, row) for plugin in self._scorers[ask.shape.scheduler]]
        return slice(min((s.start for s in spans), default=row), max((s.stop for s in spans), default=row))

    def score_domains(self, sub: SubJob, domains: Ints, copies: Ints | None = None) -> Floats:
        total = np.zeros(len(domains))
        for plugin in self._domain_scorers[self._whose(sub)]:
            total += plugin.score_domains(sub, domains, copies)
        return total

    # -- search

    def limit(self, gang: Job | SubJob) -> int | None:
        """The limit of the first plugin that sets one for the gang."""
        limits = (space.limit(gang) for space in self._spaces[self._whose(gang)])
        return next((limit for limit in limits if limit is not None), None)

    def gradients(self, gang: Job | SubJob, within: int = ROOT, *, evicting: bool = False) -> Gradients:
        """The candidates of the plugin that sets the limit; all of `within` as one where none does."""
        for space in self._spaces[self._whose(gang)]:
            if space.limit(gang) is not None:
                return space.gradients(gang, within, evicting=evicting)
        return (np.array([within]),)

    def ways(self, job: Job, count: int) -> tuple[Way, ...]:
        """How so many tasks of a job are gathered; none where it is not gathered at all."""
        if job.gather is None:
            return ()
        return next((ways for g in self._gatherings[self._whose(job)] if (ways := g.ways(job, count))), ())

    @property
    def proposes(self) -> bool:
        """Whether anything recommends domains."""
        return bool(self._proposers)

    def propose(self, job: Job, units: Units, candidates: Ints) -> Proposal | Abstained | None:
        """The first recommendation for a job, or else the first that could have made one and says why it did not."""
        said = [p for plugin in self._proposers[job.scheduler] if (p := plugin.propose(units, candidates)) is not None]
        return next((s for s in said if isinstance(s, Proposal)), said[0] if said else None)

    # -- gates

    def admit(self, job: Job) -> Reason | None:
        return next((reason for gate in self._gates[job.scheduler] if (reason := gate.admit(job)) is not None), None)

    def may_enqueue(self, job: Job) -> Reason | None:
        """Tier by tier: the first objection refuses; a permit of a tier without one ends the asking."""
        for tier in self._enqueue_tiers:
            reasons = (plugin.may_enqueue(job) for plugin in tier[job.scheduler] if _has(plugin, EnqueueGate))
            reason = next((r for r in reasons if r is not None), None)
            if reason is not None:
                return reason
            if any(plugin.must_enqueue(job) for plugin in tier[job.scheduler] if _has(plugin, EnqueuePermit)):
                return None
        return None

    def defer(self, job: Job, rows: Ints) -> Delay | None:
        """The first objection to a place that was found for a job."""
        return next((d for plugin in self._delayers[job.scheduler] if (d := plugin.defer(job, rows))), None)

    @property
    def delays(self) -> bool:
        """Whether any plugin may decline a place."""
        return bool(self._delayers)

    @property
    def gangs(self) -> bool:
        """Whether anything asks for gangs to start as one; without it every task stands alone."""
        return any(plugin.needs_gang() for _, plugin in self._readiness.all)

    @property
    def gangs_wait(self) -> bool:
        """Whether anything asks that room is made for a whole gang or not at all; without it every task counts."""
        return any(plugin.needs_gang() for _, plugin in self._pipelining.all)

    def complaints(self) -> dict[tuple[Task, Reason], None]:
        """What plugins cannot do as tasks ask for, each once."""
        return dict.fromkeys(complaint for _, plugin in self._complaints.all for complaint in plugin.complaints())

    # -- quotas

    @property
    def has_quotas(self) -> bool:
        return bool(self._quotas)

    def quota_exceeded(self, job: Job, amounts: Ints) -> Reason | None:
        """Why a job's queue must not be given these amounts."""
        return next(
            (r for quota in self._quotas[job.scheduler] if (r := quota.quota_exceeded(job, amounts)) is not None), None
        )

    def headroom(self, job: Job, request: Ints, most: int) -> int:
        """How many tasks, up to `most`, the quotas let a job have."""
        if not self._quotas or self.quota_exceeded(job, request * most) is None:
            return most
        low, high = 0, most  # `low` tasks are allowed, `high` are not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.quota_exceeded(job, request * middle) is None else (low, middle)
        return low

    def entitled(self) -> Ints | None:
        """What queues are entitled to, as the first plugin that knows says; None where none does."""
        return next((plugin.entitled() for _, plugin in self._entitlements.all), None)

    def overused(self, queue: Queue) -> Reason | None:
        return next((r for _, plugin in self._overuses.all if (r := plugin.overused(queue)) is not None), None)

    # -- eviction

    def never_fits(self, job: Job, need: Ints) -> Reason | None:
        return next(
            (r for plugin in self._gang_checks[job.scheduler] if (r := plugin.never_fits(job, need)) is not None), None
        )

    def may_reclaim(self, job: Job, need: Ints) -> Reason | None:
        return next(
            (r for gate in self._reclaim_gates[job.scheduler] if (r := gate.may_reclaim(job, need)) is not None), None
        )

    def starving(self, job: Job) -> bool:
        return all(plugin.starving(job) for plugin in self._starvings[job.scheduler])

    def may_go(self, cause: Cause, victims: Ints) -> Bools:
        """Which candidates nobody spares: every filter has a veto, and those that count are asked last."""
        filters = self._victim_filters[cause.purpose][cause.job.scheduler]
        allowed = self.named(cause, victims)
        left = np.flatnonzero(allowed)
        for plugin in filters:
            if plugin.counts:
                allowed[left] &= ~plugin.spare(cause, victims[left])
        return allowed

    def named(self, cause: Cause, victims: Ints) -> Bools:
        """Which candidates may go before anybody counts how many: nobody where no filter answers."""
        if not self.answered(cause):
            return np.zeros(len(victims), dtype=bool)
        allowed = np.ones(len(victims), dtype=bool)
        for plugin in self._victim_filters[cause.purpose][cause.job.scheduler]:
            if not plugin.counts:
                allowed &= ~plugin.spare(cause, victims)
        return allowed

    def counts_victims(self, cause: Cause) -> bool:
        """Whether some filter lets go only so many, whoever they are."""
        return any(plugin.counts for plugin in self._victim_filters[cause.purpose][cause.job.scheduler])

    def answered(self, cause: Cause) -> bool:
        """Whether some plugin names victims for the purpose; actions of Kubernetes' kind choose by themselves."""
        if cause.singly and self._acts_name_victims:
            return True
        filters = self._victim_filters[cause.purpose][cause.job.scheduler]
        return any(cause.purpose in plugin.answers for plugin in filters)

    def who_spares(self, cause: Cause, victims: Ints) -> dict[str, int]:
        """How many candidates each filter spares, for people who ask why nobody was evicted."""
        filters = self._victim_filters[cause.purpose].chosen(cause.job.scheduler)
        return {choice.name: int(plugin.spare(cause, victims).sum()) for choice, plugin in filters}

    def debts(self) -> Iterator[tuple[Lending, Debt]]:
        """What queues hold that others were promised, each with the plugin that says so."""
        for _, plugin in self._lendings.all:
            for debt in plugin.debts():
                yield plugin, debt

    def select_victims(self, cause: Cause, bundles: Bundles) -> Ints | None:
        """The choice of the first plugin that has an opinion."""
        chosen = (plugin.select_victims(cause, bundles) for plugin in self._selectors[cause.job.scheduler])
        return next((order for order in chosen if order is not None), None)

    def victim_queue_key(self, queue: Queue, taker: Queue) -> tuple[float, ...]:
        return tuple(
            key for _, plugin in self._victim_queue_orders.all for key in plugin.victim_queue_key(queue, taker)
        )

    @property
    def shares_move(self) -> bool:
        """Whether turns follow shares, which move with every task placed."""
        return bool(self._queue_orders)

    # -- orders: the smallest key goes first

    @property
    def global_queue(self) -> bool:
        """Whether the queues of jobs have no say in their turns."""
        return any(plugin.global_queue() for _, plugin in self._turns.all)

    def queue_order(self, queue: Queue) -> tuple[float, ...]:
        """What the plugins say of a queue's turn; equal for queues that they do not tell apart."""
        return tuple(key for _, plugin in self._queue_orders.all for key in plugin.queue_key(queue))

    def queue_key(self, queue: Queue) -> tuple[object, ...]:
        return (*self.queue_order(queue), queue.order)

    def job_order(self, job: Job) -> tuple[float, ...]:
        """What the plugins say of a job's turn; equal for jobs that they do not tell apart."""
        return tuple(key for _, plugin in self._job_orders.all for key in plugin.job_key(job))

    def job_key(self, job: Job) -> tuple[object, ...]:
        return (*self.job_order(job), job.created, job.order)

    def sub_job_key(self, sub: SubJob) -> tuple[object, ...]:
        keys = [key for _, plugin in self._sub_orders.all for key in plugin.sub_job_key(sub)]
        return (*keys, sub.match_index, sub.order)

    def part_key(self, part: Part) -> tuple[float, ...]:
        return tuple(key for _, plugin in self._part_orders.all for key in plugin.part_key(part))
