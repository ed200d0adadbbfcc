"""The table of questions that a cycle asks of its plugins, one rule for each method of an extension point.

How answers combine, what a failure means and what an answer must be is said by each rule, and nowhere else:
`framework.boundary` says what a rule is, and holds the plugins with the boundary around every call, `combine` says how
answers become one, and `answers` what they must be. Only these modules loop over plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from tierwise.config.profile import Profile
from tierwise.framework import answers, combine
from tierwise.framework.boundary import RULES, CyclePlugins, PluginError, Question, Rule, Whose, promises, sealed
from tierwise.framework.combine import (
    abstains,
    costs_turn,
    first,
    goes_last,
    is_not_bound,
    is_silent,
    keys,
    most_of_each,
    nobody_goes,
    objects,
    says_no,
    spares_all,
)
from tierwise.framework.extension import (
    Abstained,
    Ask,
    CycleView,
    Debt,
    Delaying,
    DomainScorer,
    EnqueueGate,
    EvictionCosts,
    Factory,
    Filter,
    Gate,
    GatherOption,
    Gradients,
    JobOrder,
    Lending,
    PreBind,
    Preparation,
    Proposal,
    Proposer,
    QueueOrder,
    Quota,
    Reporter,
    Scorer,
    SearchSpace,
    Starving,
    SubJobOrder,
    TaskOrder,
    Tie,
    Units,
    VictimFilter,
    VictimSelector,
)
from tierwise.framework.report import PluginFailure
from tierwise.framework.victims import Victims, vetoes
from tierwise.model.arrays import Bools, Floats, Ints
from tierwise.model.job import Job, SubJob, Task
from tierwise.model.queue import Queue
from tierwise.model.reason import Reason
from tierwise.model.running import RunningTable
from tierwise.model.shape import Shape

__all__ = ["Pipeline", "PluginError"]

_JOB, _ALL = Whose.JOB, Whose.ALL


def _other(*told: Any, **more: Any) -> Any:
    """A rule whose question takes or gives something else than the method of a plugin."""
    return Rule(*told, **more)


class Pipeline(Victims):
    """The plugins of a profile in one cycle."""

    # Filters: which nodes cannot take a task. `moving` and the like are said of a shape, for the whole cycle.
    why_not = Rule(Filter.why_not, combine.first_per_row, costs_turn, answers.why_by_row)
    moving = Rule(Filter.concerns, combine.any_concerned, costs_turn, answers.boolean)
    why_not_now = Rule(Filter.why_not_now, combine.first_that_moves, costs_turn, answers.why_in_span)
    moving_own_rows = Rule(Filter.own_row, combine.all_keep_to_their_row, costs_turn, answers.boolean)
    order_free = Rule(Filter.order_free, combine.free_but_one, costs_turn, answers.boolean)
    room = Rule(Filter.room, combine.least_room, costs_turn, answers.ints_by_row)
    ties: Question[[Shape], list[Tie]] = _other(Filter.ties, combine.one_after_the_other, costs_turn, answers.ties)
    shared_places = Rule(Filter.shared_places, first, costs_turn, answers.ints_by_row)

    # Scores of nodes, of which `score_rows` and `score_leaves` are the parts, and of domains.
    effect = Rule(Scorer.effect, combine.largest_effect, costs_turn, answers.score_effect)
    score = Rule(Scorer.score, combine.weighted_sum, costs_turn, answers.scores_in_span)
    stale = Rule(Scorer.stale, combine.widest, costs_turn, answers.slice_of_rows)
    score_rows = Rule(Scorer.score_rows, combine.sum_by_row, costs_turn, answers.scores_of_rows)
    score_leaves: Question[[Ask], list[Floats] | None] = _other(
        Scorer.score_leaves, combine.parts_by_domain, costs_turn, answers.scores_by_domain
    )
    score_domains = Rule(DomainScorer.score_domains, combine.total, costs_turn, answers.scores_of_them, seals=(1, 2))

    # Where a gang is searched for.
    limit = Rule(SearchSpace.limit, combine.limit_once, costs_turn, answers.tier)
    gradients: Callable[..., Gradients] = _other(
        SearchSpace.gradients, combine.of_the_limiter, costs_turn, answers.groups_of_domains
    )
    never_fits = Rule(SearchSpace.never_fits, first, objects, answers.reason, seals=(1,))
    _gather_options = Rule(SearchSpace.gather_options, combine.first_of_all, costs_turn, answers.gather_ways)
    propose: Question[[Job, Units, Ints], Proposal | Abstained | None] = _other(
        Proposer.propose, combine.proposals, abstains, answers.proposal, whose=_JOB, seals=(1,)
    )

    # Orders: the smallest key goes first.
    queue_order = Rule(QueueOrder.queue_key, keys, goes_last, answers.key, whose=_ALL)
    job_order = Rule(JobOrder.job_key, combine.job_keys, goes_last, answers.key, whose=_ALL)
    sub_job_order = Rule(SubJobOrder.sub_job_key, keys, goes_last, answers.key, whose=_ALL)
    task_key = Rule(TaskOrder.task_key, keys, goes_last, answers.key, whose=_ALL)
    victim_queue_key = Rule(QueueOrder.victim_queue_key, keys, goes_last, answers.key, whose=_ALL)
    _global_queue = Rule(QueueOrder.global_queue, combine.any_of_them, says_no, answers.boolean, whose=_ALL)

    # Gates and quotas.
    _admit = Rule(Gate.admit, first, objects, answers.reason)
    _may_enqueue = Rule(EnqueueGate.may_enqueue, combine.tier_by_tier, objects, answers.reason)
    _must_enqueue = Rule(EnqueueGate.must_enqueue, combine.any_of_them, says_no, answers.boolean)
    quota_exceeded = Rule(Quota.quota_exceeded, first, objects, answers.reason, seals=(1,))
    overused = Rule(Quota.overused, first, objects, answers.reason, whose=_ALL)
    may_reclaim = Rule(Quota.may_reclaim, first, objects, answers.reason, seals=(1,))
    defer = Rule(Delaying.defer, first, costs_turn, answers.delay, seals=(1,))
    starving = Rule(Starving.starving, combine.all_of_them, costs_turn, answers.boolean)

    # Evictions; what victim filters say together is in `Victims`.
    _victim_filters: Any = Rule(VictimFilter.spare, vetoes, spares_all, answers.flags_of_them)
    _spare_alone = Rule(VictimFilter.spare_alone, vetoes, spares_all, answers.flags_of_them)
    select_victims = Rule(VictimSelector.select_victims, first, costs_turn, answers.positions_of_them)
    lost_seconds: Question[[Job, RunningTable, Ints], Floats] = _other(
        EvictionCosts.lost_seconds, most_of_each, costs_turn, answers.scores_of_them, whose=_JOB, seals=(1,)
    )
    gained_seconds = Rule(EvictionCosts.gained_seconds, combine.least, costs_turn, answers.seconds)
    notice_seconds = Rule(EvictionCosts.notice_seconds, combine.most, is_silent, answers.seconds)
    declines_losses = Rule(EvictionCosts.declines, combine.any_of_them, says_no, answers.boolean)
    _debts: Question[[], Iterator[tuple[Lending, Debt]]] = _other(
        Lending.debts, combine.with_its_plugin, is_silent, answers.debt, whose=_ALL
    )
    paid_with: Question[[Lending, Debt, RunningTable], Ints] = _other(
        Lending.paid_with, combine.of_its_plugin, nobody_goes, answers.some_positions, whose=_ALL
    )

    # Binds, and what is told.
    before_bind: Question[[Job, Iterable[tuple[Task, int]]], dict[str, list[Preparation]]] = _other(
        PreBind.before_bind, combine.by_task, is_not_bound, answers.preparation
    )
    complaints: Question[[], dict[tuple[Task, Reason], None]] = _other(
        Reporter.complaints, combine.each_once, is_silent, answers.complaint, whose=_ALL
    )
    figures: Question[[Ask], dict[str, Sequence[Mapping[str, object]]]] = _other(
        Reporter.figures, combine.by_plugin, is_silent, answers.figures
    )
    entitled: Question[[], Ints | None] = _other(
        Reporter.entitled, combine.first_of_all, is_silent, answers.queue_amounts, whose=_ALL
    )

    def __init__(self, profile: Profile, view: CycleView, factories: Mapping[str, Factory]) -> None:
        self.plugins = CyclePlugins(profile, view, factories)
        self._view = view
        self.gangs = profile.enables("gang", "JobReady")  # False: every task is placed on its own
        self.gangs_wait = profile.enables("gang", "JobPipelined")  # evict for a whole gang or not at all
        self._acts_name_victims = profile.immediate_preemption  # Kubernetes' preemption has no victim filters

    @property
    def failures(self) -> tuple[PluginFailure, ...]:
        """The plugin methods that have failed so far."""
        return tuple(self.plugins.failures.found.values())

    # -- what all plugins promise

    def _promised(self, promise: str, *methods: str) -> bool:
        members = (asked for method in methods for asked in self.plugins.panel().members(RULES[method]))
        return all(getattr(promises(asked.by.plugin), promise) for asked in members)

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
        return self.plugins.unmade(job.scheduler) if self.plugins.broken else None

    def debts(self) -> Iterable[tuple[Lending, Debt]]:
        """What queues hold beyond their share, each with its plugin; none if a plugin could not be constructed."""
        return () if self.plugins.broken else self._debts()

    def gather_options(self, job: Job, count: int) -> tuple[GatherOption, ...]:
        """The options for gathering so many tasks of a job; empty if the job is not gathered in one tree."""
        snapshot = self._view.snapshot
        if job.gather is None and snapshot.alternate_topology(job.constraint) is None:
            return ()
        return () if snapshot.on_several_trees(job) else self._gather_options(job, count) or ()

    def headroom(self, job: Job, request: Ints, most: int) -> int:
        """How many tasks, up to `most`, the quotas allow a job."""
        if not self.quota_exceeded or self.quota_exceeded(job, request * most) is None:
            return most
        low, high = 0, most  # `low` tasks are allowed, `high` are not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.quota_exceeded(job, request * middle) is None else (low, middle)
        return low

    def scores(self, ask: Ask, span: slice, fits: Bools) -> dict[str, Floats]:
        """The scores of each plugin, before weights."""
        found: dict[str, Floats] = combine.by_plugin(self.plugins.panel(ask.shape.scheduler), RULES["score"])(
            ask, span, sealed(fits)
        )
        return found

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
