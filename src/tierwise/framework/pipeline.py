"""The plugins of one cycle, sorted once into one typed tuple for each extension point that is asked for.

The only module that loops over plugins, and the error boundary around every call: a plugin that raises or answers
wrongly either costs the job its attempt (`PluginError`) or is ignored, by the rule of its extension point, and is
recorded in `failures`.

How answers combine: sort keys are concatenated in the profile's order; the first objection wins; scores are added by
weight; the first search space, proposer or victim selector that answers decides; every victim filter has a veto, and
without any answer nothing is evicted. Tiers matter for enqueue only: a permit in one tier overrules objections in later
tiers. A plugin that a profile configures for one scheduler name is called for the pods of that scheduler only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import numpy as np
from msgspec import convert, json, to_builtins
from msgspec.structs import replace
from numpy.typing import NDArray

from tierwise.config.profile import PluginChoice, Profile
from tierwise.framework.bundle import Bundles
from tierwise.framework.declaration import (
    METHODS,
    SWITCHES,
    Declaration,
    Idle,
    check_declaration,
    declared,
    wrong_attribute,
)
from tierwise.framework.extension import (
    Abstained,
    Ask,
    Complaints,
    CycleView,
    Debt,
    Delay,
    Delaying,
    DomainScorer,
    EnqueueGate,
    EnqueuePermit,
    Entitlement,
    EvictionCosts,
    Factory,
    GangCheck,
    Gate,
    Gathering,
    GlobalQueue,
    Gradients,
    JobOrder,
    LeafScorer,
    Lending,
    LoneVictimFilter,
    MovingFilter,
    NodeFigures,
    NodeScorer,
    OrderFreeFilter,
    Overuse,
    OwnRowFilter,
    PreBind,
    Preemptor,
    Preparation,
    Proposal,
    Proposer,
    Purpose,
    QueueOrder,
    Quota,
    ReclaimGate,
    RoomFilter,
    RowScorer,
    ScoreEffect,
    SearchSpace,
    Sharing,
    Starving,
    StaticFilter,
    SubJobOrder,
    TaskOrder,
    Tie,
    TyingFilter,
    Units,
    VictimFilter,
    VictimQueueOrder,
    VictimSelector,
)
from tierwise.framework.ledger import Ledger, ShownLedger, stands_in_part
from tierwise.framework.report import PluginFailure
from tierwise.model.arrays import Bools, Floats, Ints, Rows, Why, length
from tierwise.model.job import Job, PodSet, SubJob, Task
from tierwise.model.queue import Queue
from tierwise.model.reason import Reason, ReasonBook
from tierwise.model.running import RunningTable
from tierwise.model.shape import Shape
from tierwise.model.topology import ROOT

if TYPE_CHECKING:
    from tierwise.framework.gathering import GatherOption

__all__ = ["Pipeline", "PluginError"]

Point = TypeVar("Point")
T = TypeVar("T", bound=np.generic)

_RAISED: Final = (Exception, SystemExit)
"""What a plugin may raise; a plugin that calls sys.exit has failed, and the process goes on."""

_LAST: Final = (math.inf,)
"""The sort key of an object that a plugin fails on: it is sorted last."""

_FLOAT, _INT = np.dtype(np.float64), np.dtype(np.int64)
_BOOL, _WHY = np.dtype(np.bool_), np.dtype(np.uint16)

_SHOWN: Final = 200
_HIGHEST: Final = 1e9
"""An upper bound for scores: sums of weighted scores must fit 64 bits."""

_THREADED: Final = 10_000
"""From this length on a dot product is dealt to threads, which wait for each other: a thousand times as long where
other programs keep the cores busy.
"""

_PURPOSES: Final = frozenset(Purpose)

_MOST_ANSWERS: Final = 1_000_000
"""Answers that a plugin may give one by one: one that gives more would never come to an end."""

_ROUNDS: Final = 4
"""How often a filter that counts is asked again about those whom it has spared."""

_CHECKED: dict[type, frozenset[type]] = {Idle: frozenset()}
"""The extension points of classes whose declaration was checked."""


_PROMISES: dict[type, Declaration] = {}
"""What classes declare, as far as somebody has asked."""


class PluginError(Exception):
    """A plugin failed on a job, which is therefore not placed in this attempt."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


class _AnswerError(Exception):
    """A plugin returned an invalid answer."""


def _points_of(name: str, plugin: object) -> frozenset[type]:
    """The extension points of a constructed plugin; each class is checked once."""
    kind = type(plugin)
    known = _CHECKED.get(kind)
    if known is None:
        known = _CHECKED[kind] = frozenset(check_declaration(name, kind).points)
    return known


def _promises(plugin: object) -> Declaration:
    """What the class of a constructed plugin declares."""
    kind = type(plugin)
    known = _PROMISES.get(kind)
    if known is None:
        known = _PROMISES[kind] = declared(kind) or Declaration(())
    return known


_LONGEST_TEXT: Final = 32_768
"""As long as the message of a condition may be in Kubernetes."""


def _shown(answer: object) -> str:
    """An answer, shortened for a message."""
    if isinstance(answer, np.ndarray):
        return f"one of {answer.dtype} and of shape {answer.shape}"
    text = " ".join(repr(answer).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_own(factory: Factory) -> bool:
    return getattr(factory, "__module__", "").partition(".")[0] == __name__.partition(".")[0]


def _sealed(array: NDArray[T]) -> NDArray[T]:
    """The same numbers for a plugin, which may not write into them."""
    shown = array.view()
    shown.setflags(write=False)
    return shown


def _check_array(answer: object, dtype: np.dtype[Any], length: int) -> None:
    if type(answer) is not np.ndarray or answer.dtype != dtype or answer.shape != (length,):
        raise _AnswerError(f"expected an array of {dtype} and of shape ({length},), not {_shown(answer)}")


def _check_scores(answer: Floats) -> None:
    """Scores must be finite, and small enough to be compared in steps of a millionth."""
    squares = answer.dot(answer) if len(answer) < _THREADED else np.einsum("i,i->", answer, answer)
    if not squares < _HIGHEST**2 and not (np.abs(answer) < _HIGHEST).all():
        raise _AnswerError(f"expected finite numbers below {_HIGHEST:.0e}")


def _check_why(answer: object, length: int, reasons: ReasonBook) -> None:
    _check_array(answer, _WHY, length)
    if length and answer.max() > len(reasons):  # type: ignore[attr-defined]  # it is an array
        raise _AnswerError("a number that no reason has")


def _check_ties(answer: object, length: int) -> None:
    if not isinstance(answer, tuple):
        raise _AnswerError(f"expected a tuple of ties, not {_shown(answer)}")
    for tie in answer:
        if not isinstance(tie, Tie) or not isinstance(tie.founders, frozenset):
            raise _AnswerError(f"expected a tie, not {_shown(tie)}")
        _check_array(tie.places, _INT, length)
        if length and tie.places.min() < -1:
            raise _AnswerError("a place below -1")


def _check_positions(answer: object, length: int) -> tuple[int, int]:
    """Distinct positions in a list of this length, in any order; the lowest and the highest of them."""
    if type(answer) is not np.ndarray or answer.dtype != _INT or answer.ndim != 1:
        raise _AnswerError(f"expected an array of positions, of {_INT} and in one dimension, not {_shown(answer)}")
    if not len(answer):
        return 0, 0
    ascending = answer if (answer[1:] > answer[:-1]).all() else np.unique(answer)  # most plugins answer in order
    lowest, highest = int(ascending[0]), int(ascending[-1])
    if lowest < 0 or highest >= length:
        raise _AnswerError(f"expected positions below {length}")
    if len(ascending) < len(answer):
        raise _AnswerError("expected each position once")
    return lowest, highest


def _seconds(answer: object) -> float:
    """A duration: a number that is neither negative nor without end."""
    if isinstance(answer, bool) or not isinstance(answer, int | float) or not 0 <= answer < float("inf"):
        raise _AnswerError(f"expected a number of seconds, not {_shown(answer)}")
    return float(answer)


def _check_bool(answer: object) -> bool:
    if not isinstance(answer, bool | np.bool_):
        raise _AnswerError(f"expected true or false, not {_shown(answer)}")
    return bool(answer)


def _check_is(answer: object, *kinds: type) -> None:
    if answer is not None and not isinstance(answer, kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise _AnswerError(f"expected {expected} or None, not {_shown(answer)}")


def _check_reason(answer: object, *, needed: bool = False) -> None:
    """A reason with text, which conditions, events and pages show; or None where that is allowed."""
    if answer is None and not needed:
        return
    if type(answer) is not Reason:
        raise _AnswerError(f"expected a Reason{'' if needed else ' or None'}, not {_shown(answer)}")
    _check_texts(answer.code, answer.plugin, answer.text)


def _check_texts(*answers: object) -> None:
    for answer in answers:
        if not isinstance(answer, str):
            raise _AnswerError(f"expected a text, not {_shown(answer)}")
        if len(answer) > _LONGEST_TEXT:
            raise _AnswerError(f"expected a text of at most {_LONGEST_TEXT} characters, not one of {len(answer)}")


def _check_figures(answer: object, rows: int) -> None:
    if not isinstance(answer, Sequence) or len(answer) != rows:
        raise _AnswerError(f"expected {rows} mappings, not {_shown(answer)}")
    if not all(isinstance(figure, Mapping) for figure in answer):
        raise _AnswerError("expected a mapping for each node")
    json.encode(answer)  # what cannot be written as JSON raises here


def _check_ways(answer: object) -> None:
    from tierwise.framework.gathering import GatherOption  # rarely needed, and slow to import

    if type(answer) is not tuple or not all(type(way) is GatherOption for way in answer):
        raise _AnswerError(f"expected a tuple of GatherOption, not {_shown(answer)}")
    for way in answer:
        convert(to_builtins(way), GatherOption)  # a field of another type raises here
        if way.tier < 0 or way.pipeline < 1 or any(number < 1 for _, number in way.multiples):
            raise _AnswerError(f"expected a way with a tier and positive numbers, not {_shown(way)}")


def _check_delay(answer: object) -> None:
    _check_is(answer, Delay)
    if isinstance(answer, Delay):
        _check_reason(answer.reason, needed=True)
        if not math.isfinite(answer.until):
            raise _AnswerError(f"expected a moment, not {_shown(answer.until)}")


def _check_preparation(answer: Preparation, write: type) -> None:
    _check_is(answer, Preparation)
    if answer.waits is not None or answer.failed is not None:
        _check_reason(answer.waits)
        _check_reason(answer.failed)
    for one in (*answer.writes, *answer.undo) if answer.undo else answer.writes:
        if type(one) is not write:
            raise _AnswerError("expected writes of the type Prepare")
    if answer.until is not None and not math.isfinite(answer.until):
        raise _AnswerError(f"expected a moment, not {_shown(answer.until)}")


def _check_complaint(task: object, reason: object) -> None:
    _check_reason(reason, needed=True)
    if not isinstance(task, Task):
        raise _AnswerError(f"expected tasks with reasons, not {_shown((task, reason))}")


def _check_debt(answer: object, resources: int) -> None:
    if not isinstance(answer, Debt):
        raise _AnswerError(f"expected debts, not {_shown(answer)}")
    _check_array(answer.over, _INT, resources)
    _check_bool(answer.due)
    _check_texts(answer.queue, answer.text)


def _check_proposal(said: Proposal, units: Units, candidates: Ints, domains: int) -> None:
    pieces, counts = said.pieces, said.counts
    if said.domain not in candidates:
        raise _AnswerError(f"domain {_shown(said.domain)} is not among the candidates")
    _check_positions(pieces, domains)
    if type(counts) is not np.ndarray or counts.dtype != _INT or counts.shape != pieces.shape:
        raise _AnswerError(f"expected a count for each piece, not {_shown(counts)}")
    if (counts < 0).any() or (units.shape is not None and int(counts.sum()) != units.count):
        raise _AnswerError(f"expected counts that add up to {units.count}")


def _said(error: BaseException) -> str:
    """The error in one line; the type's name if the error cannot be formatted."""
    try:
        said = " ".join(str(error).split())[:_SHOWN]
    except _RAISED:
        said = ""
    kind = type(error).__name__
    return said if isinstance(error, _AnswerError) else f"{kind}: {said}" if said else kind


_Made = tuple[PluginChoice, object, frozenset[type]]
"""A constructed plugin with its entry in the profile and the points that it declares."""


def _whole_key(ledger: Ledger, job: Job) -> tuple[float, ...]:
    """What stands in part goes first."""
    return (float(not stands_in_part(ledger, job)),)


def _at_once(ledger: Ledger, ask: Callable[[Job], tuple[float, ...]], job: Job) -> tuple[float, ...]:
    """A key in an order that comes before priority: there, what stands in part counts as one that holds nothing.

    One that has no place in that order, such as one without a deadline, gets none by this.
    """
    key = ask(job)
    if not stands_in_part(ledger, job):
        return key
    return tuple(number if number == math.inf else min(number, 0.0) for number in key)


def _by_priority(ledger: Ledger, ask: Callable[[Job], tuple[float, ...]], job: Job) -> tuple[float, ...]:
    """A key that begins with the priority, and what stands in part behind it."""
    key = ask(job)
    return *key[:1], *_whole_key(ledger, job), *key[1:]


class _PluginsAt(Generic[Point]):
    """The plugins at one extension point: all of them, and those for the pods of one scheduler."""

    def __init__(self, members: tuple[tuple[PluginChoice, Point], ...]) -> None:
        self.all = tuple([plugin for _, plugin in members])
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
        """The same, each with its entry in the profile."""
        return tuple((c, plugin) for c, plugin in self._members if c.scheduler in (None, scheduler))


def _declaring(plugins: Iterable[_Made], point: type) -> list[tuple[PluginChoice, Any]]:
    """The plugins that declare a point, in the profile's order."""
    return [(choice, plugin) for choice, plugin, points in plugins if point in points]


def _enabled(declaring: Iterable[tuple[PluginChoice, Any]], flag: str) -> _PluginsAt[Any]:
    """Those of the plugins at a point that are not switched off for it; their classes were checked to be of it."""
    return _PluginsAt(tuple([(choice, made) for choice, made in declaring if choice.enabled(flag)]))


_NOBODY: Final[_PluginsAt[Any]] = _PluginsAt(())


class _At(Generic[Point]):
    """An attribute of a pipeline: the plugins at a point, sorted out when a cycle first asks for them."""

    def __init__(self, point: type[Point]) -> None:
        self._point = point

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, pipeline: Pipeline, _: type) -> _PluginsAt[Point]:
        found = pipeline.among(SWITCHES[self._point.__name__][0], self._point)
        pipeline.__dict__[self._name] = found  # which is found before this from now on
        return found


class Pipeline:
    """The plugins of a profile in one cycle."""

    _static = _At(StaticFilter)
    _movers = _At(MovingFilter)
    _own_row_filters = _At(OwnRowFilter)
    _order_free_filters = _At(OrderFreeFilter)
    _room_filters = _At(RoomFilter)
    _tying_filters = _At(TyingFilter)
    _sharings = _At(Sharing)
    _scorers = _At(NodeScorer)
    _row_scorers = _At(RowScorer)
    _leaf_scorers = _At(LeafScorer)
    _domain_scorers = _At(DomainScorer)
    _spaces = _At(SearchSpace)
    _gatherings = _At(Gathering)
    _proposers = _At(Proposer)
    _queue_orders = _At(QueueOrder)
    _job_orders = _At(JobOrder)
    _sub_job_orders = _At(SubJobOrder)
    _task_orders = _At(TaskOrder)
    _gates = _At(Gate)
    _quotas = _At(Quota)
    _overuses = _At(Overuse)
    _reclaim_gates = _At(ReclaimGate)
    _victim_queue_orders = _At(VictimQueueOrder)
    _gang_checks = _At(GangCheck)
    _delayers = _At(Delaying)
    _starvings = _At(Starving)
    _lone_victim_filters = _At(LoneVictimFilter)
    _selectors = _At(VictimSelector)
    _eviction_costs = _At(EvictionCosts)
    _complaints = _At(Complaints)
    _pre_binds = _At(PreBind)
    _figures = _At(NodeFigures)
    _turns = _At(GlobalQueue)
    _lendings = _At(Lending)
    _entitlements = _At(Entitlement)

    def __init__(self, profile: Profile, view: CycleView, factories: Mapping[str, Factory]) -> None:
        self._view = view
        self._failures: dict[tuple[str, str], PluginFailure] = {}
        self._names: dict[int, str] = {}  # of plugins, by identity
        self._counting: set[int] = set()  # the same, of victim filters that count victims
        self._answering: dict[int, frozenset[Purpose]] = {}  # the same: the purposes that they answer for
        self._broken: list[tuple[str | None, Reason]] = []  # plugins that could not be constructed, and their scheduler
        tiers = [self._make_tier(tier, factories) for tier in profile.tiers]
        self._plugins = [made for tier in tiers for made in tier]
        self._tiers = tiers
        self.gangs = profile.enables("gang", "JobReady")  # False: every task is placed on its own
        self.gangs_wait = profile.enables("gang", "JobPipelined")  # evict for a whole gang or not at all
        self._acts_name_victims = profile.immediate_preemption  # Kubernetes' preemption has no victim filters
        self._moving: dict[int, bool] = {}
        self._moving_own_rows: dict[int, bool] = {}
        self._order_free: dict[int, bool] = {}
        self._rooms: dict[int, tuple[RoomFilter, ...]] = {}
        self._limits: dict[int, tuple[tuple[SearchSpace | None, int | None], Job | SubJob]] = {}  # by identity
        self._weighing: dict[str, tuple[tuple[PluginChoice, NodeScorer], ...]] = {}
        self._rows_scored_by: dict[str, tuple[tuple[float, RowScorer], ...] | None] = {}
        self._leaves_scored_by: dict[str, tuple[tuple[float, LeafScorer], ...]] = {}

    def _make_tier(self, tier: Iterable[PluginChoice], factories: Mapping[str, Factory]) -> list[_Made]:
        made: list[_Made] = []
        ledger = self._view.ledger
        for choice in tier:
            known = ledger.registered
            try:
                factory = factories[choice.name]
                plugin = factory(choice.arguments, self._view if _is_own(factory) else self._shown_view)
                points = _CHECKED.get(type(plugin)) or _points_of(choice.name, plugin)
                if VictimFilter in points:
                    self._read_attributes(plugin)
            except _RAISED as error:
                ledger.unregister(known)
                self._broken.append((choice.scheduler, self._note(choice.name, "__init__", error)))
                continue
            if ledger.registered != known:
                ledger.guard(known, lambda error, name=choice.name: PluginError(self._note(name, "count", error)))  # type: ignore[misc]
            self._names[id(plugin)] = choice.name
            made.append((choice, plugin, points))
        return made

    @cached_property
    def _shown_view(self) -> CycleView:
        """The view of plugins of other packages: of the ledger they can but read."""
        return replace(self._view, ledger=cast("Ledger", ShownLedger(self._view.ledger)))

    def _read_attributes(self, plugin: object) -> None:
        """Read the attributes of a victim filter once."""
        answers, counts = getattr(plugin, "answers", None), getattr(plugin, "counts", None)
        if type(answers) is not frozenset or not answers <= _PURPOSES or type(counts) is not bool:
            wrong = wrong_attribute(plugin)
            if wrong:
                raise _AnswerError(wrong)
        self._answering[id(plugin)] = answers  # type: ignore[assignment]  # as was checked
        if counts:
            self._counting.add(id(plugin))

    @cached_property
    def _queue_keys(self) -> list[tuple[QueueOrder, Callable[..., tuple[float, ...]]]]:
        return [(plugin, plugin.queue_key) for plugin in self._queue_orders.all]

    @cached_property
    def _job_keys(self) -> list[tuple[object, Callable[..., tuple[float, ...]]]]:
        """The orders of jobs, with what stands in part before everything else of its priority (decision 0115)."""
        ledger = self._view.ledger  # closures over the pipeline itself would keep it alive
        orders = [(plugin, plugin.job_key) for plugin in self._job_orders.all]
        place = next((i for i, (plugin, _) in enumerate(orders) if _promises(plugin).by_priority), None)
        if place is None:
            return [(ledger, lambda job: _whole_key(ledger, job)), *orders]
        before = [(plugin, partial(_at_once, ledger, ask)) for plugin, ask in orders[:place]]
        plugin, ask = orders[place]
        return [*before, (plugin, partial(_by_priority, ledger, ask)), *orders[place + 1 :]]

    @cached_property
    def _sub_job_keys(self) -> list[tuple[SubJobOrder, Callable[..., tuple[float, ...]]]]:
        return [(plugin, plugin.sub_job_key) for plugin in self._sub_job_orders.all]

    @cached_property
    def _task_keys(self) -> list[tuple[TaskOrder, Callable[..., tuple[float, ...]]]]:
        return [(plugin, plugin.task_key) for plugin in self._task_orders.all]

    @cached_property
    def _victim_queue_keys(self) -> list[tuple[VictimQueueOrder, Callable[..., tuple[float, ...]]]]:
        return [(plugin, plugin.victim_queue_key) for plugin in self._victim_queue_orders.all]

    @cached_property
    def _enqueue_tiers(self) -> list[tuple[_PluginsAt[EnqueueGate], _PluginsAt[EnqueuePermit]]]:
        points = EnqueueGate, EnqueuePermit
        if not any(_declaring(self._plugins, point) for point in points):
            return []
        gates = [[_enabled(_declaring(tier, point), "JobEnqueued") for point in points] for tier in self._tiers]
        return [(gate, permit) for gate, permit in gates]

    @cached_property
    def _victim_filters(self) -> dict[Purpose, _PluginsAt[VictimFilter]]:
        return {
            Purpose.PREEMPT: self.among("Preemptable", VictimFilter),
            Purpose.RECLAIM: self.among("Reclaimable", VictimFilter),
        }

    @cached_property
    def _lone_filters(self) -> dict[int, LoneVictimFilter]:
        """By the filter that counts whose word it is."""
        return {id(plugin): plugin for plugin in self._lone_victim_filters.all}

    # What nobody takes part in is not asked for: these are looked at for every job.

    @cached_property
    def proposes(self) -> bool:
        """Whether any plugin proposes places."""
        return bool(self._proposers)

    @cached_property
    def delays(self) -> bool:
        """Whether any plugin may decline a place."""
        return bool(self._delayers)

    @cached_property
    def prepares(self) -> bool:
        """Whether any plugin writes something before a bind."""
        return bool(self._pre_binds)

    @cached_property
    def has_quotas(self) -> bool:
        """Whether any plugin limits what queues use."""
        return bool(self._quotas)

    @cached_property
    def watches_use(self) -> bool:
        """Whether one may say that a queue has had its share."""
        return bool(self._overuses)

    @cached_property
    def prices_evictions(self) -> bool:
        """Whether any plugin says what an eviction costs."""
        return bool(self._eviction_costs)

    @cached_property
    def shares_move(self) -> bool:
        """Whether the order follows shares, which every placed task changes."""
        return bool(self._queue_keys)

    @cached_property
    def ignores_names(self) -> bool:
        """Whether no order and no gate looks at the names of jobs."""
        return all(_promises(plugin).ignores_names for plugin in (*self._job_orders.all, *self._gates.all))

    @cached_property
    def rises_with_use(self) -> bool:
        """Whether limits and orders only rise with what is used."""
        limits = (*self._quotas.all, *self._overuses.all, *self._queue_orders.all, *self._job_orders.all)
        return all(_promises(plugin).rises_with_use for plugin in limits)

    @cached_property
    def scores_by_shape(self) -> bool:
        """Whether scores of nodes follow from the shape of a task alone."""
        return all(_promises(plugin).scores_by_shape for plugin in self._scorers.all)

    def among(self, flag: str, point: type[Point]) -> _PluginsAt[Point]:
        """The plugins that declare a point and are not switched off for it by a flag, in the profile's order."""
        declaring = _declaring(self._plugins, point)
        return _enabled(declaring, flag) if declaring else _NOBODY

    def _whose(self, gang: Job | SubJob) -> str:
        return gang.scheduler if isinstance(gang, Job) else self._view.jobs[gang.job_number].scheduler

    # -- the error boundary: each extension point has its own rule for plugins that fail (decision 0042)

    @property
    def failures(self) -> tuple[PluginFailure, ...]:
        """The plugin methods that have failed so far."""
        return tuple(self._failures.values())

    def _note(self, name: str, method: str, error: BaseException) -> Reason:
        """Record a failure, once per method, and return it as a reason for the job."""
        known = self._failures.get((name, method))
        text = _said(error)
        if known is None:
            import traceback  # rarely needed

            point = METHODS[method].__name__ if method in METHODS else ""
            trace = "" if isinstance(error, _AnswerError) else "".join(traceback.format_exception(error, limit=-12))
            known = self._failures[name, method] = PluginFailure(name, point, method, text, traceback=trace)
        else:
            known = self._failures[name, method] = replace(known, times=known.times + 1)
        return Reason("PluginFailed", name, replace(known, error=text).text)

    def name_of(self, plugin: object) -> str:
        """What the profile calls a plugin; "" for anything else."""
        return self._names.get(id(plugin), "")

    def _failed(self, plugin: object, method: str, error: BaseException) -> Reason:
        return self._note(self._names[id(plugin)], method, error)

    def _costs(self, plugin: object, method: str, error: BaseException) -> PluginError:
        """Turn a failure into the PluginError that ends the job's attempt."""
        return PluginError(self._failed(plugin, method, error))

    def _objection(self, gates: Iterable[tuple[object, str, Callable[..., object]]], *about: object) -> Reason | None:
        """The first objection; a gate that fails counts as an objection."""
        for plugin, method, ask in gates:
            try:
                reason = ask(*about)
                _check_reason(reason)
            except _RAISED as error:
                return self._failed(plugin, method, error)
            if reason is not None:
                return reason  # type: ignore[return-value]  # as was checked
        return None

    def _keys(
        self, method: str, orders: Iterable[tuple[object, Callable[..., tuple[float, ...]]]], *about: object
    ) -> tuple[float, ...]:
        """The concatenated sort keys; an object that a plugin fails on is sorted last."""
        keys: list[float] = []
        for plugin, ask in orders:
            try:
                key = ask(*about)
                if type(key) is not tuple:
                    raise _AnswerError(f"expected a tuple of numbers, not {_shown(key)}")
                total = sum(key)  # raises unless it consists of numbers
                if type(total) not in (int, float) and not all(isinstance(k, Real) for k in key):
                    raise _AnswerError(f"expected a tuple of numbers, not {_shown(key)}")
                if total != total and any(k != k for k in key):
                    raise _AnswerError(f"expected a tuple of numbers, not {_shown(key)}")
            except _RAISED as error:
                self._failed(plugin, method, error)
                key = _LAST
            keys += key
        return tuple(keys)

    def _any(self, plugins: Iterable[tuple[object, str, Callable[[], bool]]], *, otherwise: bool) -> bool:
        """Whether any plugin answers yes; `otherwise` is the answer of a plugin that fails."""
        for plugin, method, ask in plugins:
            try:
                yes = _check_bool(ask())
            except _RAISED as error:
                self._failed(plugin, method, error)
                yes = otherwise
            if yes:
                return True
        return False

    # -- filters

    def why_not(self, shape: Shape) -> Why:
        """The first static objection per row; 0 where there is none."""
        why = np.zeros(len(self._view.nodes), dtype=np.uint16)
        for plugin in self._static[shape.scheduler]:
            try:
                other = plugin.why_not(shape)
                _check_why(other, len(why), self._view.reasons)
            except _RAISED as error:
                raise self._costs(plugin, "why_not", error) from error
            np.copyto(why, other, where=why == 0)
        return why

    def moving(self, shape: Shape) -> bool:
        """Whether placements in this cycle change which nodes the shape may use."""
        known = self._moving.get(shape.number)
        if known is None:
            known = self._moving[shape.number] = any(self._concerns(p, shape) for p in self._movers[shape.scheduler])
        return known

    def moving_own_rows(self, shape: Shape) -> bool:
        """Whether a task of the shape changes which nodes others of it may use on its own row alone."""
        known = self._moving_own_rows.get(shape.number)
        if known is None:
            own = {id(plugin): plugin for plugin in self._own_row_filters[shape.scheduler]}
            moved_by = [id(plugin) for plugin in self._movers[shape.scheduler] if self._concerns(plugin, shape)]
            known = all(number in own and self._moves_own_row(own[number], shape) for number in moved_by)
            self._moving_own_rows[shape.number] = known
        return known

    def _moves_own_row(self, plugin: OwnRowFilter, shape: Shape) -> bool:
        try:
            return _check_bool(plugin.own_row(shape))
        except _RAISED as error:
            raise self._costs(plugin, "own_row", error) from error

    def order_free(self, shape: Shape) -> bool:
        """Whether as many tasks of a shape find a node whichever nodes are chosen first: of the filters that move for
        it, one at most moves beyond a task's own row, and that one says so.
        """
        known = self._order_free.get(shape.number)
        if known is None:
            own = {id(plugin): plugin for plugin in self._own_row_filters[shape.scheduler]}
            free = {id(plugin): plugin for plugin in self._order_free_filters[shape.scheduler]}
            moved_by = [id(plugin) for plugin in self._movers[shape.scheduler] if self._concerns(plugin, shape)]
            wide = [number for number in moved_by if number not in own or not self._moves_own_row(own[number], shape)]
            known = not wide or (len(wide) == 1 and wide[0] in free and self._is_order_free(free[wide[0]], shape))
            self._order_free[shape.number] = known
        return known

    def _is_order_free(self, plugin: OrderFreeFilter, shape: Shape) -> bool:
        try:
            return _check_bool(plugin.order_free(shape))
        except _RAISED as error:
            raise self._costs(plugin, "order_free", error) from error

    def room(self, shape: Shape) -> Ints | None:
        """How many more tasks of a shape moving filters let on each row now; None if only asking them tells."""
        least: Ints | None = None
        for plugin in self._moving_by_room(shape):
            try:
                found = plugin.room(shape)
                if found is None:
                    return None
                _check_array(found, _INT, len(self._view.nodes))
            except _RAISED as error:
                raise self._costs(plugin, "room", error) from error
            least = found if least is None else np.minimum(least, found)
        return least

    def _moving_by_room(self, shape: Shape) -> tuple[RoomFilter, ...]:
        """The filters that move for a shape, if all of them may say how many tasks each row takes."""
        known = self._rooms.get(shape.number)
        if known is None:
            rooms = {id(plugin): plugin for plugin in self._room_filters[shape.scheduler]}
            moved_by = [id(plugin) for plugin in self._movers[shape.scheduler] if self._concerns(plugin, shape)]
            known = tuple(rooms[number] for number in moved_by) if all(n in rooms for n in moved_by) else ()
            self._rooms[shape.number] = known
        return known

    def ties(self, shape: Shape) -> list[Tie]:
        """Where the first of some tasks decides where those of a shape go: by which rows, and whose tasks."""
        found: list[Tie] = []
        for plugin in self._tying_filters[shape.scheduler]:
            try:
                ties = plugin.ties(shape)
                _check_ties(ties, len(self._view.nodes))
                found += ties
            except _RAISED as error:
                raise self._costs(plugin, "ties", error) from error
        return found

    def shared_places(self, job: Job) -> Ints | None:
        """Rows by place, where all tasks of a job had better stand in one; the first plugin that knows decides."""
        for plugin in self._sharings[self._whose(job)]:
            try:
                found = plugin.shared_places(job)
                if found is not None:
                    _check_array(found, _INT, len(self._view.nodes))
                    return found
            except _RAISED as error:
                raise self._costs(plugin, "shared_places", error) from error
        return None

    def _concerns(self, plugin: MovingFilter, shape: Shape) -> bool:
        try:
            return _check_bool(plugin.concerns(shape))
        except _RAISED as error:
            raise self._costs(plugin, "concerns", error) from error

    def why_not_now(self, shape: Shape, span: slice) -> Why:
        why = np.zeros(span.stop - span.start, dtype=np.uint16)
        for plugin in self._movers[shape.scheduler]:
            if self._concerns(plugin, shape):
                try:
                    other = plugin.why_not_now(shape, span)
                    _check_why(other, len(why), self._view.reasons)
                except _RAISED as error:
                    raise self._costs(plugin, "why_not_now", error) from error
                np.copyto(why, other, where=why == 0)
        return why

    # -- scores

    def effect(self, ask: Ask) -> ScoreEffect:
        most = ScoreEffect.FIXED
        for plugin in self._scorers[ask.shape.scheduler]:
            try:
                effect = plugin.effect(ask)
                if not isinstance(effect, ScoreEffect):
                    raise _AnswerError(f"expected a ScoreEffect, not {_shown(effect)}")
            except _RAISED as error:
                raise self._costs(plugin, "effect", error) from error
            most = max(most, effect)
        return most

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        """The weighted sum of all scores; those that are the same throughout a domain come last."""
        total = np.zeros(span.stop - span.start)
        for choice, plugin in self._weighers(ask.shape.scheduler):
            score = self._score(plugin, ask, span, fits)
            total += score if choice.weight == 1.0 else choice.weight * score
        return total

    def _score(self, plugin: NodeScorer, ask: Ask, span: slice, fits: Bools) -> Floats:
        try:
            score = plugin.score(ask, span, _sealed(fits))
            _check_array(score, _FLOAT, span.stop - span.start)
            _check_scores(score)
        except _RAISED as error:
            raise self._costs(plugin, "score", error) from error
        return score

    def scores(self, ask: Ask, span: slice, fits: Bools) -> dict[str, Floats]:
        """The scores of each plugin, before weights."""
        return {c.name: self._score(plugin, ask, span, fits) for c, plugin in self._scorers.chosen(ask.shape.scheduler)}

    def _weighers(self, scheduler: str) -> tuple[tuple[PluginChoice, NodeScorer], ...]:
        found = self._weighing.get(scheduler)
        if found is None:
            leaves = {id(plugin) for plugin in self._leaf_scorers[scheduler]}
            chosen = self._scorers.chosen(scheduler)
            found = self._weighing[scheduler] = tuple(sorted(chosen, key=lambda chosen: id(chosen[1]) in leaves))
        return found

    def score_rows(self, ask: Ask, rows: Rows) -> Floats | None:
        """The part of the sum that depends on each of these nodes alone; None if more than domains matters besides.

        With `score_leaves` added it is `score`, bit by bit.
        """
        scorers = self._scoring_rows(ask.shape.scheduler)
        if scorers is None:
            return None
        number = length(rows)
        rows = rows if isinstance(rows, slice) else _sealed(rows)
        total = np.zeros(number)
        for weight, plugin in scorers:
            try:
                score = plugin.score_rows(ask, rows)
                if score is None:
                    return None
                _check_array(score, _FLOAT, number)
                _check_scores(score)
            except _RAISED as error:
                raise self._costs(plugin, "score_rows", error) from error
            total += score if weight == 1.0 else weight * score
        return total

    def _scoring_rows(self, scheduler: str) -> tuple[tuple[float, RowScorer], ...] | None:
        """The scorers that are asked for rows, with their weights; None if some scorer cannot be."""
        if scheduler not in self._rows_scored_by:
            rows = {id(plugin): plugin for plugin in self._row_scorers[scheduler]}
            leaves = {id(plugin) for plugin in self._leaf_scorers[scheduler]}
            others = [chosen for chosen in self._scorers.chosen(scheduler) if id(chosen[1]) not in leaves]
            known = all(id(plugin) in rows for _, plugin in others)
            found = tuple((choice.weight, rows[id(plugin)]) for choice, plugin in others) if known else None
            self._rows_scored_by[scheduler] = found
        return self._rows_scored_by[scheduler]

    def score_leaves(self, ask: Ask) -> list[Floats] | None:
        """The other parts of the sum in their order, each by domain; None if one depends on more than that."""
        parts = []
        for weight, plugin in self._scoring_leaves(ask.shape.scheduler):
            try:
                score = plugin.score_leaves(ask)
                if score is None:
                    return None
                _check_array(score, _FLOAT, len(self._view.topology))
                _check_scores(score)
            except _RAISED as error:
                raise self._costs(plugin, "score_leaves", error) from error
            parts.append(score if weight == 1.0 else weight * score)
        return parts

    def _scoring_leaves(self, scheduler: str) -> tuple[tuple[float, LeafScorer], ...]:
        """The scorers that are asked for domains, with their weights."""
        found = self._leaves_scored_by.get(scheduler)
        if found is None:
            chosen = self._leaf_scorers.chosen(scheduler)
            found = self._leaves_scored_by[scheduler] = tuple((choice.weight, plugin) for choice, plugin in chosen)
        return found

    def figures(self, ask: Ask) -> dict[str, Sequence[Mapping[str, object]]]:
        """The inputs of plugins' answers row by row, from the plugins that provide them."""
        found: dict[str, Sequence[Mapping[str, object]]] = {}
        for choice, plugin in self._figures.chosen(ask.shape.scheduler):
            try:
                figures = plugin.figures(ask)
                _check_figures(figures, len(self._view.nodes))
            except _RAISED as error:
                self._failed(plugin, "figures", error)
            else:
                found[choice.name] = figures
        return found

    def stale(self, ask: Ask, row: int) -> slice:
        """The rows whose total score may change after a task was placed on `row`."""
        first, last = row, row
        for i, plugin in enumerate(self._scorers[ask.shape.scheduler]):
            try:
                span = plugin.stale(ask, row)
                start, stop = span.start, span.stop
                if not 0 <= start <= stop <= len(self._view.nodes) or span.step is not None:
                    raise _AnswerError(f"expected a slice of rows, not {_shown(span)}")
            except _RAISED as error:
                raise self._costs(plugin, "stale", error) from error
            first, last = (min(first, start), max(last, stop)) if i else (start, stop)
        return slice(first, last)

    def score_domains(self, sub: SubJob, domains: Ints, copies: Ints | None = None) -> Floats:
        total = np.zeros(len(domains))
        domains, copies = _sealed(domains), None if copies is None else _sealed(copies)
        for plugin in self._domain_scorers[self._whose(sub)]:
            try:
                score = plugin.score_domains(sub, domains, copies)
                _check_array(score, _FLOAT, len(domains))
                _check_scores(score)
            except _RAISED as error:
                raise self._costs(plugin, "score_domains", error) from error
            total += score
        return total

    # -- search

    def limit(self, gang: Job | SubJob) -> int | None:
        """The limit from the first plugin that sets one for the gang."""
        return self._space(gang)[1]

    def _space(self, gang: Job | SubJob) -> tuple[SearchSpace | None, int | None]:
        """The first plugin that sets a limit for a gang, and the limit. Asked once: a search wants it many times."""
        known = self._limits.get(id(gang))
        if known is None:
            known = self._limits[id(gang)] = (self._ask_limit(gang), gang)
        return known[0]

    def _ask_limit(self, gang: Job | SubJob) -> tuple[SearchSpace | None, int | None]:
        for space in self._spaces[self._whose(gang)]:
            try:
                limit = space.limit(gang)
                if limit is not None:
                    _check_is(limit, int, np.integer)
                    return space, limit
            except _RAISED as error:
                raise self._costs(space, "limit", error) from error
        return None, None

    def gradients(self, gang: Job | SubJob, within: int = ROOT, *, evicting: bool = False) -> Gradients:
        """The gradients from the plugin that sets the limit; without one, `within` is the only candidate."""
        space, _ = self._space(gang)
        if space is None:
            return (np.array([within]),)
        return self._gradients(space, gang, within, evicting=evicting)

    def _gradients(self, space: SearchSpace, gang: Job | SubJob, within: int, *, evicting: bool) -> Gradients:
        last = int(self._view.topology.last[within])
        try:
            for number, group in enumerate(space.gradients(gang, within, evicting=evicting)):
                if number > len(self._view.topology):
                    raise _AnswerError("expected no more groups than there are domains")
                lowest, highest = _check_positions(group, len(self._view.topology))
                if not len(group):
                    raise _AnswerError("expected groups that are not empty")
                if lowest < within or highest >= last:
                    raise _AnswerError(f"expected domains below {self._view.topology.name[within] or 'the root'}")
                yield group
        except _RAISED as error:
            raise self._costs(space, "gradients", error) from error

    def gather_options(self, job: Job, count: int) -> tuple[GatherOption, ...]:
        """The options for gathering so many tasks of a job; empty if the job is not gathered in one tree."""
        snapshot = self._view.snapshot
        if job.gather is None and snapshot.alternate_topology(job.constraint) is None:
            return ()
        if snapshot.on_several_trees(job):
            return ()

        for plugin in self._gatherings[self._whose(job)]:
            try:
                options = plugin.gather_options(job, count)
                _check_ways(options)
            except _RAISED as error:
                raise self._costs(plugin, "gather_options", error) from error
            if options:
                return options
        return ()

    def propose(self, job: Job, units: Units, candidates: Ints) -> Proposal | Abstained | None:
        """The first proposal for a job; without one, the first plugin's reason for abstaining."""
        found: Abstained | None = None
        units = replace(units, own=_sealed(units.own), held=_sealed(units.held))
        for plugin in self._proposers[job.scheduler]:
            try:
                said = plugin.propose(units, _sealed(candidates))
                _check_is(said, Proposal, Abstained)
                if said is not None:
                    _check_texts(said.plugin, said.why)
                if isinstance(said, Proposal):
                    _check_proposal(said, units, candidates, len(self._view.topology))
            except _RAISED as error:
                said = Abstained(self._names[id(plugin)], self._failed(plugin, "propose", error).text)
            if isinstance(said, Proposal):
                return said
            found = found if found is not None else said
        return found

    # -- gates

    def admit(self, job: Job) -> Reason | None:
        """Why a job must not be tried. A job is not tried if a plugin for its pods could not be constructed."""
        reason = self._unmade(job)
        if reason is not None:
            return reason
        return self._objection(((gate, "admit", gate.admit) for gate in self._gates[job.scheduler]), job)

    def _unmade(self, job: Job) -> Reason | None:
        if not self._broken:
            return None
        return next((reason for scheduler, reason in self._broken if scheduler in (None, job.scheduler)), None)

    def may_enqueue(self, job: Job) -> Reason | None:
        """Ask tier by tier: the first objection rejects, and a permit in a tier without objections decides."""
        reason = self._unmade(job)
        if reason is not None:
            return reason
        for gates, permits in self._enqueue_tiers:
            reason = self._objection(((gate, "may_enqueue", gate.may_enqueue) for gate in gates[job.scheduler]), job)
            if reason is not None:
                return reason
            asked = ((p, "must_enqueue", partial(p.must_enqueue, job)) for p in permits[job.scheduler])
            if self._any(asked, otherwise=False):
                return None
        return None

    def defer(self, job: Job, rows: Ints) -> Delay | None:
        """The first plugin's objection to a place that was found for a job."""
        for plugin in self._delayers[job.scheduler]:
            try:
                delay = plugin.defer(job, _sealed(rows))
                _check_delay(delay)
            except _RAISED as error:
                raise self._costs(plugin, "defer", error) from error
            if delay is not None:
                return delay
        return None

    def complaints(self) -> dict[tuple[Task, Reason], None]:
        """Requests of tasks that plugins cannot satisfy, each reported once."""
        found: dict[tuple[Task, Reason], None] = {}
        for plugin in self._complaints.all:
            try:
                for number, (task, reason) in enumerate(plugin.complaints()):
                    if number >= _MOST_ANSWERS:
                        raise _AnswerError(f"expected fewer than {_MOST_ANSWERS} complaints")
                    _check_complaint(task, reason)
                    found[task, reason] = None
            except _RAISED as error:
                self._failed(plugin, "complaints", error)
        return found

    def before_bind(self, job: Job, tasks: Iterable[tuple[Task, int]]) -> dict[str, list[Preparation]]:
        """The writes before the binds of tasks of a job to rows, by the key of the task and plugin by plugin.

        Tasks that need none are left out. A plugin that fails prevents the gang's bind.
        """
        from tierwise.port import Prepare  # only profiles with such plugins pay for the import

        found: dict[str, list[Preparation]] = {}
        plugins = self._pre_binds[job.scheduler]
        for task, row in tasks:
            for plugin in plugins:
                try:
                    said = plugin.before_bind(job, task, row)
                    if said is None:
                        continue
                    _check_preparation(said, Prepare)
                except _RAISED as error:
                    said = Preparation(failed=self._failed(plugin, "before_bind", error))
                found.setdefault(task.key, []).append(said)
        return found

    # -- quotas

    def quota_exceeded(self, job: Job, amounts: Ints) -> Reason | None:
        """Why a job's queue may not use these additional amounts; None if it may."""
        quotas = ((quota, "quota_exceeded", quota.quota_exceeded) for quota in self._quotas[job.scheduler])
        return self._objection(quotas, job, _sealed(amounts))

    def headroom(self, job: Job, request: Ints, most: int) -> int:
        """How many tasks, up to `most`, the quotas allow a job."""
        if not self._quotas or self.quota_exceeded(job, request * most) is None:
            return most
        low, high = 0, most  # `low` tasks are allowed, `high` are not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.quota_exceeded(job, request * middle) is None else (low, middle)
        return low

    def entitled(self) -> Ints | None:
        """What queues are entitled to, from the first plugin that knows; None if no plugin does."""
        for plugin in self._entitlements.all:
            try:
                found = plugin.entitled()
                expected = (len(self._view.axis), len(self._view.ledger.queue_index))
                if type(found) is not np.ndarray or found.dtype != _INT or found.shape != expected:
                    raise _AnswerError(f"expected an array of {_INT} and of shape {expected}, not {_shown(found)}")
            except _RAISED as error:
                self._failed(plugin, "entitled", error)
            else:
                return found
        return None

    def overused(self, queue: Queue) -> Reason | None:
        return self._objection(((plugin, "overused", plugin.overused) for plugin in self._overuses.all), queue)

    # -- eviction

    def never_fits(self, job: Job, need: Ints) -> Reason | None:
        checks = ((check, "never_fits", check.never_fits) for check in self._gang_checks[job.scheduler])
        return self._objection(checks, job, _sealed(need))

    def may_reclaim(self, job: Job, need: Ints) -> Reason | None:
        gates = ((gate, "may_reclaim", gate.may_reclaim) for gate in self._reclaim_gates[job.scheduler])
        return self._objection(gates, job, _sealed(need))

    def starving(self, job: Job) -> bool:
        for plugin in self._starvings[job.scheduler]:
            try:
                starving = _check_bool(plugin.starving(job))
            except _RAISED as error:
                raise self._costs(plugin, "starving", error) from error
            if not starving:
                return False
        return True

    def may_go(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Which candidates every victim filter lets go; filters that count are asked last."""
        allowed = self.named(preemptor, victims)
        allowed[allowed] = self.counted(preemptor, victims[allowed])
        return allowed

    def counted(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Which of the candidates that are named every filter lets go that counts."""
        allowed = np.ones(len(victims), dtype=bool)
        for plugin in self._victim_filters[preemptor.purpose][preemptor.job.scheduler]:
            if id(plugin) in self._counting:
                allowed &= ~self._spare(plugin, preemptor, victims)
        return allowed

    def could_go(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Which candidates every victim filter might let go, were it asked about each alone; never too few.

        Filters that count let fewer go the more they are asked about. So whoever one of them spares is asked about
        again without those whom it does not, and where it spares all who are left, it would spare each of them alone.
        """
        allowed = self.alone(preemptor, victims)
        for plugin in self._victim_filters[preemptor.purpose][preemptor.job.scheduler]:
            if id(plugin) not in self._counting or id(plugin) in self._lone_filters:
                continue
            left = np.flatnonzero(allowed)
            for _ in range(_ROUNDS):
                spared = self._spare(plugin, preemptor, victims[left])
                if spared.all():
                    allowed[left] = False
                    break
                left = left[spared]
        return allowed

    def alone(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """The same, as far as it can be told at once: whom no filter spares of those that say so for each alone."""
        allowed = self.named(preemptor, victims)
        for plugin in self._victim_filters[preemptor.purpose][preemptor.job.scheduler]:
            lone = self._lone_filters.get(id(plugin))
            if lone is not None:
                allowed[allowed] = ~self._spared(lone, "spare_alone", lone.spare_alone, preemptor, victims[allowed])
        return allowed

    def named(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Which candidates may be evicted before counting filters are asked; none if no filter answers."""
        if not self.answered(preemptor):
            return np.zeros(len(victims), dtype=bool)
        allowed = np.ones(len(victims), dtype=bool)
        for plugin in self._victim_filters[preemptor.purpose][preemptor.job.scheduler]:
            if id(plugin) not in self._counting:
                allowed &= ~self._spare(plugin, preemptor, victims)
        return allowed

    def counts_victims(self, preemptor: Preemptor) -> bool:
        """Whether some filter limits the number of victims."""
        return any(
            id(plugin) in self._counting for plugin in self._victim_filters[preemptor.purpose][preemptor.job.scheduler]
        )

    def _spare(self, plugin: VictimFilter, preemptor: Preemptor, victims: Ints) -> Bools:
        return self._spared(plugin, "spare", plugin.spare, preemptor, victims)

    def _spared(
        self, plugin: object, method: str, spare: Callable[..., Bools], preemptor: Preemptor, victims: Ints
    ) -> Bools:
        """The candidates that a filter protects: all of them if it fails."""
        try:
            spared = spare(preemptor, _sealed(victims))
            _check_array(spared, _BOOL, len(victims))
        except _RAISED as error:
            self._failed(plugin, method, error)
            return np.ones(len(victims), dtype=bool)
        return spared

    def answered(self, preemptor: Preemptor) -> bool:
        """Whether some plugin names victims for the purpose; Kubernetes' preempting actions choose them without
        plugins.
        """
        if preemptor.by_pod and self._acts_name_victims:
            return True
        filters = self._victim_filters[preemptor.purpose][preemptor.job.scheduler]
        return any(preemptor.purpose in self._answering[id(plugin)] for plugin in filters)

    def protected_counts(self, preemptor: Preemptor, victims: Ints) -> dict[str, int]:
        """How many candidates each filter protects, to explain why nothing was evicted."""
        filters = self._victim_filters[preemptor.purpose].chosen(preemptor.job.scheduler)
        return {choice.name: int(self._spare(plugin, preemptor, victims).sum()) for choice, plugin in filters}

    def debts(self) -> Iterator[tuple[Lending, Debt]]:
        """What queues hold beyond their share, each with its plugin; none if a plugin could not be constructed."""
        for plugin in self._lendings.all if not self._broken else ():
            try:
                for number, debt in enumerate(plugin.debts()):  # one by one: victims for one may settle the next
                    if number >= _MOST_ANSWERS:
                        raise _AnswerError(f"expected fewer than {_MOST_ANSWERS} debts")
                    _check_debt(debt, len(self._view.axis))
                    yield plugin, debt
            except _RAISED as error:
                self._failed(plugin, "debts", error)

    def paid_with(self, plugin: Lending, debt: Debt, running: RunningTable) -> Ints:
        """The victims for a debt: none if its plugin fails."""
        try:
            paid = plugin.paid_with(debt, running)
            _check_positions(paid, len(running))
        except _RAISED as error:
            self._failed(plugin, "paid_with", error)
            return np.zeros(0, dtype=np.int64)
        return paid

    def selects_victims(self, preemptor: Preemptor) -> bool:
        """Whether some plugin may select victims."""
        return bool(self._selectors[preemptor.job.scheduler])

    def select_victims(self, preemptor: Preemptor, bundles: Bundles) -> Ints | None:
        """The selection of the first plugin that makes one."""
        for plugin in self._selectors[preemptor.job.scheduler]:
            try:
                order = plugin.select_victims(preemptor, bundles)
                if order is not None:
                    _check_positions(order, len(bundles))
            except _RAISED as error:
                raise self._costs(plugin, "select_victims", error) from error
            if order is not None:
                return order
        return None

    def lost_seconds(self, job: Job, running: RunningTable, victims: Ints) -> Floats:
        """Seconds of work that each victim would lose: the most that any plugin says."""
        lost = np.zeros(len(victims))
        for plugin in self._eviction_costs[job.scheduler]:
            try:
                found = plugin.lost_seconds(running, _sealed(victims))
                _check_array(found, np.dtype(np.float64), len(victims))
                _check_scores(found)
            except _RAISED as error:
                raise self._costs(plugin, "lost_seconds", error) from error
            lost = np.maximum(lost, found)
        return lost

    def spared_by_price(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Candidates that plugins which price evictions protect: those that have not run for long enough."""
        filters = self._victim_filters[preemptor.purpose][preemptor.job.scheduler]
        pricing = {id(plugin) for plugin in self._eviction_costs[preemptor.job.scheduler]}
        spared = np.zeros(len(victims), dtype=bool)
        for plugin in filters:
            if id(plugin) in pricing:
                spared |= self._spare(plugin, preemptor, victims)
        return spared

    def gained_seconds(self, job: Job) -> float:
        """Seconds of its work that a preemptor gains: the least that any plugin says."""
        gained = [float("inf")]
        for plugin in self._eviction_costs[job.scheduler]:
            try:
                gained.append(_seconds(plugin.gained_seconds(job)))
            except _RAISED as error:
                raise self._costs(plugin, "gained_seconds", error) from error
        return min(gained)

    def notice_seconds(self, job: Job) -> float:
        """How long pods of a job are told before they are evicted: the longest that any plugin says."""
        longest = 0.0
        for plugin in self._eviction_costs[job.scheduler]:
            try:
                longest = max(longest, _seconds(plugin.notice_seconds(job)))
            except _RAISED as error:
                self._failed(plugin, "notice_seconds", error)
        return longest

    def declines_losses(self, job: Job) -> bool:
        """Whether plans that lose more than they gain are declined for a job."""
        asked = ((plugin, "declines", partial(plugin.declines, job)) for plugin in self._eviction_costs[job.scheduler])
        return self._any(asked, otherwise=False)

    def victim_queue_key(self, queue: Queue, taker: Queue) -> tuple[float, ...]:
        return self._keys("victim_queue_key", self._victim_queue_keys, queue, taker)

    # -- orders: the smallest key goes first

    @cached_property
    def global_queue(self) -> bool:
        """Whether jobs are ordered globally, regardless of their queues."""
        return self._any(((p, "global_queue", p.global_queue) for p in self._turns.all), otherwise=False)

    def queue_order(self, queue: Queue) -> tuple[float, ...]:
        """The sort key of a queue from the plugins; equal for queues that they do not distinguish."""
        return self._keys("queue_key", self._queue_keys, queue)

    def queue_key(self, queue: Queue) -> tuple[object, ...]:
        return self.queue_order(queue), queue.order

    def job_order(self, job: Job) -> tuple[float, ...]:
        """The sort key of a job from the plugins; equal for jobs that they do not distinguish.

        A gang of which a part stands goes before the other jobs of its priority.
        """
        return self._keys("job_key", self._job_keys, job)

    def job_key(self, job: Job) -> tuple[object, ...]:
        return self.job_order(job), job.created, job.order

    def sub_job_key(self, sub: SubJob) -> tuple[object, ...]:
        return self._keys("sub_job_key", self._sub_job_keys, sub), sub.match_index, sub.order

    def task_key(self, pod_set: PodSet) -> tuple[float, ...]:
        return self._keys("task_key", self._task_keys, pod_set)
