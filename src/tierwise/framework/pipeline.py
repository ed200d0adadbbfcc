"""Plugins of one cycle, sorted once into typed tuples, one per extension point.

The only place that loops over plugins. Combination rules: sort keys are concatenated in the profile's order, the
first objection wins, scores add up, and the first search space with an opinion decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from tierwise.config.profile import Profile
from tierwise.framework.extension import (
    Ask,
    CycleView,
    DomainScorer,
    EnqueueGate,
    Factory,
    Gate,
    Gradients,
    JobOrder,
    MovingFilter,
    NodeScorer,
    PartOrder,
    QueueOrder,
    Reach,
    Readiness,
    SearchSpace,
    StaticFilter,
    SubJobOrder,
)
from tierwise.model.arrays import Bools, Floats, Ints, Why
from tierwise.model.job import Job, Part, SubJob
from tierwise.model.queue import Queue
from tierwise.model.reason import Reason
from tierwise.model.shape import Shape
from tierwise.model.topology import ROOT

__all__ = ["Pipeline"]

Point = TypeVar("Point")

_FLAGS: Mapping[type, str] = {
    StaticFilter: "Predicate",
    MovingFilter: "Predicate",
    NodeScorer: "NodeOrder",
    DomainScorer: "HyperNodeOrder",
    SearchSpace: "HyperNodeGradient",
    QueueOrder: "QueueOrder",
    JobOrder: "JobOrder",
    SubJobOrder: "SubJobOrder",
    PartOrder: "TaskOrder",
    EnqueueGate: "JobEnqueued",
    Readiness: "JobReady",
    Gate: "JobValid",
}
"""The switch of each point, as Volcano spells it behind `enable`."""


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
        self._queue_orders = self._at(QueueOrder)
        self._job_orders = self._at(JobOrder)
        self._sub_orders = self._at(SubJobOrder)
        self._part_orders = self._at(PartOrder)
        self._gates = self._at(Gate)
        self._enqueue_gates = self._at(EnqueueGate)
        self._readiness = self._at(Readiness)
        self._moving: dict[int, bool] = {}

    def _at(self, point: type[Point]) -> tuple[tuple[str, Point], ...]:
        """The plugins that have a point's methods and are not switched off for it, in the profile's order."""
        flag = _FLAGS[point]
        return tuple((p.name, made) for p, made in self._plugins if p.enabled(flag) and isinstance(made, point))

    # -- filters

    def why_not(self, shape: Shape) -> Why:
        """The first static objection per row; 0 where there is none."""
        why = np.zeros(len(self._view.nodes), dtype=np.uint16)
        for _, plugin in self._static:
            other = plugin.why_not(shape)
            np.copyto(why, other, where=why == 0)
        return why

    def moving(self, shape: Shape) -> bool:
        """Whether placements in this cycle change which nodes the shape may use."""
        known = self._moving.get(shape.number)
        if known is None:
            known = self._moving[shape.number] = any(plugin.concerns(shape) for _, plugin in self._movers)
        return known

    def why_not_now(self, shape: Shape, span: slice) -> Why:
        why = np.zeros(span.stop - span.start, dtype=np.uint16)
        for _, plugin in self._movers:
            if plugin.concerns(shape):
                np.copyto(why, plugin.why_not_now(shape, span), where=why == 0)
        return why

    # -- scores

    def reach(self, ask: Ask) -> Reach:
        return max((plugin.reach(ask) for _, plugin in self._scorers), default=Reach.FIXED)

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        total = np.zeros(span.stop - span.start)
        for _, plugin in self._scorers:
            total += plugin.score(ask, span, fits)
        return total

    def scores(self, ask: Ask, span: slice, fits: Bools) -> dict[str, Floats]:
        """The same, plugin by plugin."""
        return {name: plugin.score(ask, span, fits) for name, plugin in self._scorers}

    def stale(self, ask: Ask, row: int) -> slice:
        """The rows whose total may change once a task stands on `row`."""
        spans = [plugin.stale(ask, row) for _, plugin in self._scorers]
        return slice(min((s.start for s in spans), default=row), max((s.stop for s in spans), default=row))

    def score_domains(self, sub: SubJob, domains: Ints, copies: Ints | None = None) -> Floats:
        total = np.zeros(len(domains))
        for _, plugin in self._domain_scorers:
            total += plugin.score_domains(sub, domains, copies)
        return total

    # -- search

    def limit(self, gang: Job | SubJob) -> int | None:
        return self._spaces[0][1].limit(gang) if self._spaces else None

    def gradients(self, gang: Job | SubJob, within: int = ROOT) -> Gradients:
        if self._spaces:
            return self._spaces[0][1].gradients(gang, within)
        return (np.array([within]),)

    # -- gates

    def admit(self, job: Job) -> Reason | None:
        return next((reason for _, gate in self._gates if (reason := gate.admit(job)) is not None), None)

    def may_enqueue(self, job: Job) -> Reason | None:
        return next((r for _, gate in self._enqueue_gates if (r := gate.may_enqueue(job)) is not None), None)

    @property
    def gangs(self) -> bool:
        """Whether anything asks for gangs to start as one; without it every task stands alone."""
        return any(plugin.needs_gang() for _, plugin in self._readiness)

    # -- orders: the smallest key goes first

    def queue_key(self, queue: Queue) -> tuple[object, ...]:
        keys = [key for _, plugin in self._queue_orders for key in plugin.queue_key(queue)]
        return (*keys, queue.order)

    def job_key(self, job: Job) -> tuple[object, ...]:
        keys = [key for _, plugin in self._job_orders for key in plugin.job_key(job)]
        return (*keys, job.created, job.order)

    def sub_job_key(self, sub: SubJob) -> tuple[object, ...]:
        keys = [key for _, plugin in self._sub_orders for key in plugin.sub_job_key(sub)]
        return (*keys, sub.match_index, sub.order)

    def part_key(self, part: Part) -> tuple[float, ...]:
        return tuple(key for _, plugin in self._part_orders for key in plugin.part_key(part))
