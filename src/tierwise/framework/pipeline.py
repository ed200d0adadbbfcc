"""The table of questions that a cycle asks of its plugins, one rule for each method of an extension point.

How answers combine, what a failure means and what an answer must be is said by each rule, and nowhere else:
`framework.boundary` says what a rule is, holds the plugins with the boundary around every call, and says how
answers become one, `answers` what they must be. Only these modules loop over plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np

from tierwise.config.profile import Profile
from tierwise.framework import answers, boundary
from tierwise.framework import extension as points
from tierwise.framework.boundary import (
    RULES,
    Answer,
    AnyRule,
    CyclePlugins,
    Panel,
    PluginError,
    Question,
    Rule,
    Whose,
    promises,
    sealed,
)
from tierwise.framework.extension import Ask, CycleView, Factory, Preemptor, Purpose
from tierwise.framework.pod_rules import PodRules
from tierwise.framework.report import PluginFailure
from tierwise.model.arrays import Bools, Floats, Ints, Rows
from tierwise.model.job import Job, Queue, Reason, Shape, SubJob, Task
from tierwise.model.running import RunningTable
from tierwise.model.snapshot import Ground

__all__ = ["Pipeline", "PluginError"]


# Who may be evicted: what victim filters say together. Every filter has a veto, whatever its place in the profile.
#
# Filters that count victims are asked last, about those that no other protects. If no filter names victims for a
# purpose, no pod is evicted for it.


_ROUNDS: Final = 4
"""How often a filter that counts is asked again about those that it has protected."""

_SWITCH: Final = {Purpose.PREEMPT: "Preemptable", Purpose.RECLAIM: "Reclaimable"}


class _Filter(msgspec.Struct, frozen=True, eq=False):
    """A victim filter: its questions inside the boundary."""

    name: str
    answers: bool  # names victims for the purpose
    counts: bool
    prices: bool  # says what evictions cost
    protect: Answer
    protect_alone: Answer | None
    protect_whole: Answer | None

    def lets_go(self, preemptor: Preemptor, victims: Ints) -> Bools:
        return ~self.protect(preemptor, sealed(victims))  # type: ignore[no-any-return]

    def lets_go_whole(self, preemptor: Preemptor, victims: Ints, bundles: Ints) -> Bools:
        """Which victims may go, where a bundle goes whole or not at all; a bundle that stays uses up nothing.

        What a filter says of those behind a bundle that it would break does not hold: they are asked about again.
        """
        if self.protect_whole is not None:
            return ~self.protect_whole(preemptor, sealed(victims), sealed(bundles))  # type: ignore[no-any-return]
        to_ask = np.ones(len(victims), dtype=bool)
        while True:
            goes = np.zeros(len(victims), dtype=bool)
            goes[to_ask] = self.lets_go(preemptor, victims[to_ask])
            if goes.all():
                return goes
            broken = np.intersect1d(bundles[goes], bundles[to_ask & ~goes])
            if not len(broken):
                return goes
            to_ask &= bundles != broken[0]


def vetoes(panel: Panel, rule: AnyRule) -> Answer:
    """Every filter has a veto, counting ones last; no pod goes where none answers."""
    pricing = panel.by_plugin(RULES["lost_seconds"])
    filters: dict[Purpose, list[_Filter]] = {}
    for purpose, switch in _SWITCH.items():
        alone, protect_whole = (panel.by_plugin(RULES[name], switch) for name in ("protect_alone", "protect_whole"))
        filters[purpose] = [
            _Filter(
                question.name,
                answers=purpose in question.by.answers,
                counts=question.by.counts,
                prices=question.by.plugin_id in pricing,
                protect=panel.guarded(rule, question),
                protect_alone=alone.get(question.by.plugin_id),
                protect_whole=protect_whole.get(question.by.plugin_id),
            )
            for question in panel.members(rule, switch)
        ]
    return lambda preemptor: filters[preemptor.purpose]


class Victims:
    """What a pipeline says of victims."""

    _victim_filters: Question[[Preemptor], list[_Filter]]
    _acts_name_victims: bool

    def answered(self, preemptor: Preemptor) -> bool:
        """Whether some plugin names victims for the purpose; Kubernetes' preempting actions choose them without
        plugins.
        """
        if preemptor.by_pod and self._acts_name_victims:
            return True
        return any(victim_filter.answers for victim_filter in self._victim_filters(preemptor))

    def counts_victims(self, preemptor: Preemptor) -> bool:
        """Whether some filter limits the number of victims."""
        return any(victim_filter.counts for victim_filter in self._victim_filters(preemptor))

    def may_go(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Which candidates every victim filter lets go; filters that count are asked last."""
        allowed = self.named(preemptor, victims)
        allowed[allowed] = self.counted(preemptor, victims[allowed])
        return allowed

    def named(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Which candidates may be evicted before counting filters are asked; none if no filter answers."""
        if not self.answered(preemptor):
            return np.zeros(len(victims), dtype=bool)
        return self._let_go(preemptor, victims, counting=False)

    def counted(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Which of the candidates that are named every filter lets go that counts."""
        return self._let_go(preemptor, victims, counting=True)

    def _let_go(self, preemptor: Preemptor, victims: Ints, *, counting: bool) -> Bools:
        allowed = np.ones(len(victims), dtype=bool)
        for victim_filter in self._victim_filters(preemptor):
            if victim_filter.counts is counting:
                allowed &= victim_filter.lets_go(preemptor, victims)
        return allowed

    def counted_whole(self, preemptor: Preemptor, victims: Ints, bundles: Ints) -> Bools:
        """Which candidates each counting filter lets go, in bundles that go whole: rows for filters that keep some."""
        filters = [victim_filter for victim_filter in self._victim_filters(preemptor) if victim_filter.counts]
        goes_by_filter = [
            np.broadcast_to(victim_filter.lets_go_whole(preemptor, victims, bundles), len(victims))
            for victim_filter in filters
        ]
        keeping = [goes for goes in goes_by_filter if not goes.all()]
        return np.array(keeping, dtype=bool).reshape(len(keeping), len(victims))

    def could_go(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Which candidates every victim filter might let go, were it asked about each alone; never too few.

        Filters that count let fewer go the more they are asked about. So whoever one of them protects is asked about
        again without those that it lets go, and where it protects all that are left, it would protect each alone.
        """
        allowed = self.alone(preemptor, victims)
        for victim_filter in self._victim_filters(preemptor):
            if not victim_filter.counts or victim_filter.protect_alone is not None:
                continue
            candidates = np.flatnonzero(allowed)
            for _ in range(_ROUNDS):
                lets_go = victim_filter.lets_go(preemptor, victims[candidates])
                if not lets_go.any():
                    allowed[candidates] = False
                    break
                candidates = candidates[~lets_go]
        return allowed

    def alone(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Which candidates no filter protects that can judge each of them alone."""
        allowed = self.named(preemptor, victims)
        for victim_filter in self._victim_filters(preemptor):
            if victim_filter.protect_alone is not None:
                allowed[allowed] = ~victim_filter.protect_alone(preemptor, sealed(victims[allowed]))
        return allowed

    def protected_by_price(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Candidates that plugins which price evictions protect: those that have not run for long enough."""
        protected = np.zeros(len(victims), dtype=bool)
        for victim_filter in self._victim_filters(preemptor):
            if victim_filter.prices:
                protected |= victim_filter.protect(preemptor, sealed(victims))
        return protected

    def protected_counts(self, preemptor: Preemptor, victims: Ints) -> dict[str, int]:
        """How many candidates each filter protects, to explain why nothing was evicted."""
        everyone = np.ones(len(victims), dtype=bool)
        filters = self._victim_filters(preemptor)
        return {
            victim_filter.name: int((everyone & ~victim_filter.lets_go(preemptor, victims)).sum())
            for victim_filter in filters
        }


_JOB, _ALL = Whose.JOB, Whose.ALL


def _other(*args: Any, **kwargs: Any) -> Any:
    """A rule whose question takes or gives something else than the method of a plugin."""
    return Rule(*args, **kwargs)


class Pipeline(Victims):
    """The plugins of a profile in one cycle."""

    # Filters: which nodes cannot take a task. `moving` and the like are said of a shape, for the whole cycle.
    why_not = Rule(points.Filter.why_not, boundary.first_per_row, boundary.costs_turn, answers.why_by_row)
    moving = Rule(points.Filter.concerns, boundary.any_concerned, boundary.costs_turn, answers.boolean)
    why_not_now = Rule(points.Filter.why_not_now, boundary.first_that_moves, boundary.costs_turn, answers.why_in_span)
    moving_own_rows = Rule(points.Filter.own_row, boundary.all_keep_to_their_row, boundary.costs_turn, answers.boolean)
    order_free = Rule(points.Filter.order_free, boundary.free_but_one, boundary.costs_turn, answers.boolean)
    room = Rule(points.Filter.room, boundary.least_room, boundary.costs_turn, answers.ints_by_row)
    ties: Question[[Shape], list[points.Tie]] = _other(
        points.Filter.ties, boundary.one_after_the_other, boundary.costs_turn, answers.ties
    )
    pod_rules: Question[[tuple[Shape, ...]], PodRules] = _other(
        points.Filter.pod_rules, boundary.rules_of_all, boundary.costs_turn, answers.pod_rules
    )
    shared_places = Rule(points.Filter.shared_places, boundary.first, boundary.costs_turn, answers.ints_by_row)

    # Scores of nodes, of which `score_rows` and `score_leaves` are the parts, and of domains.
    effect = Rule(points.Scorer.effect, boundary.largest_effect, boundary.costs_turn, answers.score_effect)
    score: Question[[Ask, slice, Bools], Floats] = _other(
        points.Scorer.score, boundary.weighted_sum, boundary.costs_turn, answers.scores_in_span, seals=(2,)
    )
    stale = Rule(points.Scorer.stale, boundary.widest, boundary.costs_turn, answers.slice_of_rows)
    score_rows: Question[[Ask, Rows], Floats | None] = _other(
        points.Scorer.score_rows, boundary.sum_by_row, boundary.costs_turn, answers.scores_of_rows, seals=(1,)
    )
    score_leaves: Question[[Ask], list[Floats] | None] = _other(
        points.Scorer.score_leaves, boundary.parts_by_domain, boundary.costs_turn, answers.scores_by_domain
    )
    score_domains = Rule(
        points.DomainScorer.score_domains, boundary.total, boundary.costs_turn, answers.scores_of_them, seals=(1, 2)
    )

    room_ahead = Rule(
        points.Foresight.room_ahead, boundary.first, boundary.is_silent, answers.scores_by_domain, seals=(1, 2)
    )

    # Where a gang is searched for.
    limit = Rule(points.SearchSpace.limit, boundary.limit_once, boundary.costs_turn, answers.tier)
    gradients: Callable[..., points.Gradients] = _other(
        points.SearchSpace.gradients, boundary.of_the_limiter, boundary.costs_turn, answers.groups_of_domains
    )
    never_fits = Rule(points.SearchSpace.never_fits, boundary.first, boundary.objects, answers.reason, seals=(1,))
    _gather_options = Rule(
        points.SearchSpace.gather_options, boundary.first_of_all, boundary.costs_turn, answers.gather_ways
    )
    propose: Question[[Job, points.Units, Ints], points.Proposal | points.Abstained | None] = _other(
        points.Proposer.propose, boundary.proposals, boundary.abstains, answers.proposal, whose=_JOB, seals=(1,)
    )

    # Orders: the smallest key goes first.
    queue_order = Rule(points.QueueOrder.queue_key, boundary.keys, boundary.goes_last, answers.key, whose=_ALL)
    job_factors = Rule(points.JobOrder.job_key, boundary.by_plugin, boundary.goes_last, answers.key, whose=_ALL)
    job_order = Rule(points.JobOrder.job_key, boundary.job_keys, boundary.goes_last, answers.key, whose=_ALL)
    sub_job_order = Rule(points.SubJobOrder.sub_job_key, boundary.keys, boundary.goes_last, answers.key, whose=_ALL)
    task_key = Rule(points.TaskOrder.task_key, boundary.keys, boundary.goes_last, answers.key, whose=_ALL)
    victim_queue_key = Rule(
        points.QueueOrder.victim_queue_key, boundary.keys, boundary.goes_last, answers.key, whose=_ALL
    )
    _global_queue = Rule(
        points.QueueOrder.global_queue, boundary.any_of_them, boundary.says_no, answers.boolean, whose=_ALL
    )

    # Gates and quotas.
    _admit = Rule(points.Gate.admit, boundary.first, boundary.objects, answers.reason)
    _may_enqueue = Rule(points.EnqueueGate.may_enqueue, boundary.tier_by_tier, boundary.objects, answers.reason)
    _must_enqueue = Rule(points.EnqueueGate.must_enqueue, boundary.any_of_them, boundary.says_no, answers.boolean)
    quota_exceeded = Rule(points.Quota.quota_exceeded, boundary.first, boundary.objects, answers.reason, seals=(1,))
    overused = Rule(points.Quota.overused, boundary.first, boundary.objects, answers.reason, whose=_ALL)
    may_reclaim = Rule(points.Quota.may_reclaim, boundary.first, boundary.objects, answers.reason, seals=(1,))
    protects_up_to: Question[[], Ints | None] = _other(
        points.Quota.protects_up_to, boundary.first_of_all, boundary.is_silent, answers.queue_amounts, whose=_ALL
    )
    defer = Rule(points.Delaying.defer, boundary.first, boundary.costs_turn, answers.delay, seals=(1,))
    starving = Rule(points.Starving.starving, boundary.all_of_them, boundary.costs_turn, answers.boolean)

    # Evictions; what victim filters say together is in `Victims`.
    _victim_filters: Any = Rule(points.VictimFilter.protect, vetoes, boundary.protects_all, answers.flags_of_them)
    _protect_alone = Rule(points.VictimFilter.protect_alone, vetoes, boundary.protects_all, answers.flags_of_them)
    _protect_whole = Rule(points.VictimFilter.protect_whole, vetoes, boundary.protects_all, answers.flags_of_them)
    select_victims = Rule(
        points.VictimSelector.select_victims, boundary.first, boundary.costs_turn, answers.positions_of_them
    )
    lost_seconds: Question[[Job, RunningTable, Ints], Floats] = _other(
        points.EvictionCosts.lost_seconds,
        boundary.most_of_each,
        boundary.costs_turn,
        answers.scores_of_them,
        whose=_JOB,
        seals=(1,),
    )
    gained_seconds = Rule(points.EvictionCosts.gained_seconds, boundary.least, boundary.costs_turn, answers.seconds)
    notice_seconds = Rule(points.EvictionCosts.notice_seconds, boundary.most, boundary.is_silent, answers.seconds)
    declines_losses = Rule(points.EvictionCosts.declines, boundary.any_of_them, boundary.says_no, answers.boolean)
    _debts: Question[[], Iterator[tuple[points.Lending, points.Debt]]] = _other(
        points.Lending.debts, boundary.with_its_plugin, boundary.is_silent, answers.debt, whose=_ALL
    )
    paid_with: Question[[points.Lending, points.Debt, RunningTable], Ints] = _other(
        points.Lending.paid_with, boundary.of_its_plugin, boundary.nobody_goes, answers.some_positions, whose=_ALL
    )

    # Binds, and what is told.
    before_bind: Question[[Job, Iterable[tuple[Task, int]]], dict[str, list[points.Preparation]]] = _other(
        points.PreBind.before_bind, boundary.by_task, boundary.is_not_bound, answers.preparation
    )
    complaints: Question[[], dict[tuple[Task, Reason], None]] = _other(
        points.Reporter.complaints, boundary.each_once, boundary.is_silent, answers.complaint, whose=_ALL
    )
    figures: Question[[Ask], dict[str, Sequence[Mapping[str, object]]]] = _other(
        points.Reporter.figures, boundary.by_plugin, boundary.is_silent, answers.figures
    )
    entitled: Question[[], Ints | None] = _other(
        points.Reporter.entitled, boundary.first_of_all, boundary.is_silent, answers.queue_amounts, whose=_ALL
    )

    def __init__(self, profile: Profile, view: CycleView, factories: Mapping[str, Factory]) -> None:
        self.plugins = CyclePlugins(profile, view, factories)
        self._view = view
        self.gangs = profile.enables("gang", "JobReady")  # False: every task is placed on its own
        self.gangs_wait = profile.enables("gang", "JobPipelined")  # evict for a whole gang or not at all
        self.spelled = profile.spelled
        self.max_waiting_pods = profile.max_waiting_pods  # of a namespace that are looked at; 0 for all
        self.protection_gap = profile.protection_gap  # difference of priority that ends protection; 0 for none
        self._acts_name_victims = profile.immediate_preemption  # Kubernetes' preemption has no victim filters

    @property
    def failures(self) -> tuple[PluginFailure, ...]:
        """The plugin methods that have failed so far."""
        return tuple(self.plugins.failures.found.values())

    # -- what all plugins promise

    def _promised(self, promise: str, *methods: str) -> bool:
        members = (question for method in methods for question in self.plugins.everybody.members(RULES[method]))
        return all(getattr(promises(question.by.plugin), promise) for question in members)

    @cached_property
    def ignores_names(self) -> bool:
        """Whether no order and no gate looks at the names of jobs."""
        return self._promised("ignores_names", "job_key", "admit")

    @cached_property
    def gates_enqueue(self) -> bool:
        """Whether a plugin may keep jobs in phase Pending."""
        return bool(self._may_enqueue)

    @cached_property
    def rises_with_use(self) -> bool:
        """Whether limits and orders only rise with what is used."""
        return self._promised("rises_with_use", "quota_exceeded", "overused", "queue_key", "job_key")

    @cached_property
    def limits_by_amounts(self) -> bool:
        """Whether quotas follow from what queues hold."""
        return self._promised("by_amounts", "quota_exceeded")

    @cached_property
    def victims_by_amounts(self) -> bool:
        """Whether filters of victims follow from the kind of preemptor and the jobs and budgets of the victims."""
        return self._promised("by_amounts", "protect")

    @cached_property
    def scores_by_shape(self) -> bool:
        """Whether scores of nodes follow from the shape of a task alone."""
        return self._promised("scores_by_shape", "score")

    # -- questions with something beside what plugins say

    def admit(self, job: Job) -> Reason | None:
        """Why a job must not be tried. A job is not tried if a plugin for its pods could not be constructed."""
        return self._unmade(job) or self._admit(job)

    def may_enqueue(self, job: Job) -> Reason | None:
        """Why a job must not leave phase Pending; the same holds."""
        return self._unmade(job) or self._may_enqueue(job)

    def _unmade(self, job: Job) -> Reason | None:
        if self.plugins.broken:
            return self.plugins.unmade(job.scheduler)
        return None

    def ruled_out(self, job: Job, need: Ints) -> Reason | None:
        """Why plugins of other packages say that a job can never fit; None where none does.

        Ours are asked by the verdict, which tells more of what the job lacks.
        """
        if self._others_limit:
            rule = RULES["never_fits"]
            panel = self.plugins.panel(job.scheduler)
            asks = (panel.guarded(rule, question) for question in panel.members(rule) if not question.by.own)
            return next((reason for ask in asks if (reason := ask(job, need)) is not None), None)
        return None

    @cached_property
    def _others_limit(self) -> bool:
        return any(not question.by.own for question in self.plugins.everybody.members(RULES["never_fits"]))

    def debts(self) -> Iterable[tuple[points.Lending, points.Debt]]:
        """What queues hold beyond their share, each with its plugin; none if a plugin could not be constructed."""
        return () if self.plugins.broken else self._debts()

    def gather_options(self, job: Job, count: int) -> tuple[points.GatherOption, ...]:
        """The options for gathering so many tasks of a job; empty if the job is not gathered in one tree."""
        if self._view.snapshot.ground(job) is not Ground.GATHERED:
            return ()
        return self._gather_options(job, count) or ()

    def headroom(self, job: Job, request: Ints, max_tasks: int) -> int:
        """How many tasks, up to `max_tasks`, the quotas allow a job."""
        if not self.quota_exceeded or self.quota_exceeded(job, request * max_tasks) is None:
            return max_tasks
        low, high = 0, max_tasks  # `low` tasks are allowed, `high` are not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.quota_exceeded(job, request * middle) is None else (low, middle)
        return low

    def scores(self, ask: Ask, span: slice, fits: Bools) -> dict[str, Floats]:
        """The scores of each plugin, before weights; 0 of one that has nothing to say."""
        panel = self.plugins.panel(ask.shape.scheduler)
        rule = RULES["score"]
        score_by_name: dict[str, Floats] = boundary.by_plugin(panel, rule)(ask, span, fits)
        return {
            question.name: score_by_name.get(question.name, np.zeros(len(fits))) for question in panel.members(rule)
        }

    @cached_property
    def global_queue(self) -> bool:
        """Whether jobs are ordered globally, regardless of their queues."""
        return self._global_queue()

    def queue_key(self, queue: Queue) -> tuple[object, ...]:
        """The order of plugins, then that of names."""
        return self.queue_order(queue), queue.order

    def job_key(self, job: Job) -> tuple[object, ...]:
        """The order of plugins, then that of age and names."""
        return self.job_order(job), job.created, job.order

    def sub_job_key(self, sub: SubJob) -> tuple[object, ...]:
        """The order of plugins, then that of their policy and names."""
        return self.sub_job_order(sub), sub.match_index, sub.order
