"""The plugins of one cycle, the rules by which they are asked, and the boundary around every call into one.

`CyclePlugins` holds what a profile constructs, and records what fails. A `Panel` is the part of them that
answers for the pods of one scheduler: a plugin that a profile configures for one scheduler name is asked about the pods
of that scheduler only. Nothing here keeps the pipeline, so that a cycle is freed when nothing refers to it any more.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from typing import Any, Concatenate, Final, Generic, NoReturn, ParamSpec, Protocol, TypeAlias, TypeVar, cast

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.config.profile import PluginChoice, Profile
from tierwise.framework import declaration
from tierwise.framework import extension as points
from tierwise.framework.answers import AnswerError, bounded, key
from tierwise.framework.ledger import Ledger, ShownLedger, stands_in_part
from tierwise.framework.pod_rules import PodRules, joined
from tierwise.framework.report import PluginFailure
from tierwise.model.arrays import EMPTY, Bools, Floats, Ints, Rows, Why, length
from tierwise.model.job import Job, Reason, Shape, SubJob, Task
from tierwise.model.topology import ROOT

RAISED: Final = (Exception, SystemExit)
"""What a plugin may raise; a plugin that calls sys.exit has failed, and the process goes on."""

_SHOWN: Final = 200
_NOTHING: Final[frozenset[points.Purpose]] = frozenset()


class PluginError(Exception):
    """A plugin failed on a job, which is therefore not placed in this attempt."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


class _Made(msgspec.Struct, frozen=True, eq=False):
    """A constructed plugin with its entry in the profile, the number of its tier and the methods that it answers by."""

    choice: PluginChoice
    tier: int
    plugin: Any
    plugin_id: int  # by which the methods of a plugin are found
    methods: frozenset[str]
    answers: frozenset[points.Purpose]  # of a victim filter, the purposes that it names victims for
    counts: bool  # and whether it counts them
    own: bool  # of this package: it is given the ledger itself, and arrays as they are


class Asked(msgspec.Struct, frozen=True, eq=False):
    """A method of a plugin. Whoever asks has it among its variables, where the watchdog finds it."""

    by: _Made
    method: str
    ask: Callable[..., Any]

    @property
    def name(self) -> str:
        """The name of the plugin in the profile."""
        return self.by.choice.name


def promises(plugin: object) -> declaration.Declaration:
    """What the class of a constructed plugin declares."""
    return declaration.declared(type(plugin)) or declaration.Declaration(())


@cache
def _methods_of(name: str, kind: type) -> frozenset[str]:
    """The methods by which plugins of a class take part; a class of others is checked once, ours by the tests."""
    if kind is declaration.Idle:
        return frozenset()
    declared = declaration.declared(kind) if _is_own(kind) else None
    return (declared or declaration.check_declaration(name, kind)).methods


@cache
def _is_own(factory: points.Factory | type) -> bool:
    return getattr(factory, "__module__", "").partition(".")[0] == __name__.partition(".")[0]


def _said(error: BaseException) -> str:
    """The error in one line; the type's name if the error cannot be formatted."""
    try:
        message = " ".join(str(error).split())[:_SHOWN]
    except RAISED:
        message = ""
    kind = type(error).__name__
    if isinstance(error, AnswerError):
        return message
    return f"{kind}: {message}" if message else kind


class Failures:
    """Failures of plugins in a cycle, by plugin and method."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], PluginFailure] = {}

    def note(self, name: str, method: str, error: BaseException) -> Reason:
        """Record a failure, once per method, and return it as a reason for the job."""
        failure = self.found.get((name, method))
        text = _said(error)
        if failure is None:
            import traceback  # rarely needed

            point = declaration.METHODS[method].__name__ if method in declaration.METHODS else ""
            trace = "" if isinstance(error, AnswerError) else "".join(traceback.format_exception(error, limit=-12))
            failure = PluginFailure(name, point, method, text, traceback=trace)
        else:
            failure = replace(failure, times=failure.times + 1)
        self.found[name, method] = failure
        return Reason("PluginFailed", name, replace(failure, error=text).text)


class CyclePlugins:
    """The plugins of a profile in one cycle, and what failed of them."""

    def __init__(self, profile: Profile, view: points.CycleView, factories: Mapping[str, points.Factory]) -> None:
        self.view = view
        self.failures = Failures()
        self.broken: list[tuple[str | None, Reason]] = []  # plugins that could not be constructed, and their scheduler
        self._panels: dict[str, Panel] = {}
        self._made: list[_Made] = []
        by_scheduler = False
        for tier, choices in enumerate(profile.tiers_in_force):
            for choice in choices:
                self._make(choice, tier, factories)
                by_scheduler = by_scheduler or choice.scheduler is not None
        self.by_scheduler = by_scheduler
        self.everybody = Panel(self._made, view, self.failures)

    def _make(self, choice: PluginChoice, tier: int, factories: Mapping[str, points.Factory]) -> None:
        ledger = self.view.ledger
        note = self.failures.note
        registered_before = ledger.registered
        try:
            factory = factories[choice.name]
            is_own = _is_own(factory)
            plugin: Any = factory(choice.arguments, self.view if is_own else self._shown_view)
            methods = _methods_of(choice.name, plugin.__class__)
            names = (plugin.answers, plugin.counts) if "protect" in methods else (_NOTHING, False)
            if not is_own and names[0] is not _NOTHING and (wrong := declaration.wrong_attribute(plugin)):
                raise AnswerError(wrong)
        except RAISED as error:
            ledger.unregister(registered_before)
            self.broken.append((choice.scheduler, note(choice.name, "__init__", error)))
            return
        if ledger.registered != registered_before:
            ledger.guard(registered_before, lambda error: PluginError(note(choice.name, "count", error)))
        self._made.append(_Made(choice, tier, plugin, id(plugin), methods, names[0], names[1], is_own))

    @cached_property
    def _shown_view(self) -> points.CycleView:
        """The view of plugins of other packages: of the ledger they can but read."""
        return replace(self.view, ledger=cast("Ledger", ShownLedger(self.view.ledger)))

    def unmade(self, scheduler: str) -> Reason | None:
        """Why the pods of a scheduler wait: a plugin for them could not be constructed."""
        return next((reason for whose, reason in self.broken if whose in (None, scheduler)), None)

    def panel(self, scheduler: str) -> Panel:
        """The plugins for the pods of a scheduler; where all serve all, everybody."""
        if not self.by_scheduler:
            return self.everybody
        panel = self._panels.get(scheduler)
        if panel is None:
            serving = [member for member in self._made if member.choice.scheduler in (None, scheduler)]
            panel = self._panels[scheduler] = Panel(serving, self.view, self.failures)
        return panel


class Panel:
    """The plugins that answer for some pods."""

    def __init__(self, members: list[_Made], view: points.CycleView, failures: Failures) -> None:
        self.view = view
        self.memo: dict[str, Any] = {}  # what several questions share
        self.note = failures.note
        self._made = members
        self._members: dict[tuple[str, str], list[Asked]] = {}
        self._guarded: dict[str, tuple[Callable[..., Any], ...]] = {}

    def members(self, rule: Rule[..., Any], switch: str = "") -> list[Asked]:
        """The plugins that answer a rule's question and are not switched off for it, in the profile's order."""
        method = rule.method
        switch = switch or rule.switch
        questions = self._members.get((method, switch))
        if questions is None:
            questions = self._members[method, switch] = [
                Asked(member, method, getattr(member.plugin, method))
                for member in self._made
                if method in member.methods and switch not in member.choice.off
            ]
        return questions

    def asks(self, rule: Rule[..., Any]) -> tuple[Callable[..., Any], ...]:
        """The questions of a rule, one for each plugin, each inside the boundary."""
        questions = self._guarded.get(rule.method)
        if questions is None:
            questions = self._guarded[rule.method] = tuple(
                [self.guarded(rule, question) for question in self.members(rule)]
            )
        return questions

    def by_plugin(self, rule: Rule[..., Any], switch: str = "") -> dict[int, Callable[..., Any]]:
        """The questions of a rule, each inside the boundary, by the id of the plugin that is asked."""
        return {question.by.plugin_id: self.guarded(rule, question) for question in self.members(rule, switch)}

    def guarded(self, rule: Rule[..., Any], question: Asked) -> Callable[..., Any]:
        """A question inside the boundary: a failure or an invalid answer is what the rule makes of it."""
        ask = question.ask
        check = rule.check
        view = self.view
        note = self.note
        failed = rule.failure
        seals = rule.seals if not question.by.own else ()

        def guarded(*args: Any) -> Any:
            if seals:
                args = tuple([sealed(arg) if at in seals else arg for at, arg in enumerate(args)])
            try:
                return check(ask(*args), args, view)
            except RAISED as error:
                return failed(question, note(question.name, question.method, error))

        return guarded


# How the answers of plugins become one: what a `Rule` is made of.
#
# A rule is one row of the table in `framework.pipeline`: a method of an extension point, the switch by which a
# profile turns it off, whose plugins are asked, how their answers combine, what a failure means and what an answer
# must be. On first use a rule becomes a function over the plugins that answer it in this cycle, and no call pays for
# looking them up. Without any such plugin that function is false, and gives the neutral answer.


P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

Answer = Callable[..., Any]
AnyRule: TypeAlias = "Rule[..., Any]"
Combine = Callable[[Panel, AnyRule], Answer]
"""Makes of the plugins of a panel the function that answers a rule's question."""

Failure = Callable[[Asked, Reason], Any]
"""The answer of a plugin that failed."""

RULES: dict[str, AnyRule] = {}
"""Every rule by its method, as the table in `framework.pipeline` has it."""


class Whose(enum.Enum):
    """Whose plugins are asked: those for the scheduler of what the question is about, or all."""

    POD = "of its scheduler"  # of the first argument: a shape, a job, a part of one or whoever evicts
    JOB = "of the job's scheduler"  # of a job that is given in front, and not handed on
    ALL = "all"


class Question(Protocol[P, R_co]):
    """What a rule is on a pipeline; false where no plugin answers it."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def __bool__(self) -> bool: ...


class _Unasked:
    """A question that no plugin answers."""

    __slots__ = ("__wrapped__",)

    def __init__(self, answer: Answer) -> None:
        self.__wrapped__ = answer

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __bool__(self) -> bool:
        return False


class _Pipeline(Protocol):
    """What a rule knows of the table that it is a row of."""

    plugins: CyclePlugins


class Rule(Generic[P, R]):
    """One method of an extension point: who is asked, how answers combine, what a failure and a wrong answer mean."""

    def __init__(
        self,
        method: Callable[Concatenate[Any, P], R],
        combine: Combine,
        failure: Failure,
        check: Callable[[Any, tuple[Any, ...], Any], Any],
        *,
        whose: Whose = Whose.POD,
        seals: tuple[int, ...] = (),  # the arguments that are arrays, which a plugin may not write into
    ) -> None:
        self.point = declaration.METHODS[method.__name__]
        self.method = method.__name__
        self.switch = declaration.MARKS[self.method].switches[0]
        self.whose = whose
        self.seals = seals
        self.combine = combine
        self.failure = failure
        self.check = check
        RULES[self.method] = self

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, pipeline: _Pipeline, _: type) -> Question[P, R]:
        plugins = pipeline.plugins
        everybody = pipeline.plugins.everybody
        answer = self.combine(everybody, self)
        is_answered = bool(everybody.members(self))
        if is_answered and plugins.by_scheduler and self.whose is not Whose.ALL:
            answer = _by_scheduler(plugins.panel, self, plugins.view.jobs)
        elif self.whose is Whose.JOB:
            answer = _without_job(answer)
        if not is_answered:
            answer = _Unasked(answer)
        pipeline.__dict__[self._name] = answer  # which is found before this from now on
        return answer  # type: ignore[return-value]  # by its combination


def _by_scheduler(panel: Callable[[str], Panel], rule: AnyRule, jobs: tuple[Job, ...]) -> Answer:
    """A question of which each scheduler has its own plugins."""
    answer_by_scheduler: dict[str, Answer] = {}

    def ask(about: Any, *args: Any, **kwargs: Any) -> Any:
        scheduler = scheduler_of(about, jobs)
        answer = answer_by_scheduler.get(scheduler)
        if answer is None:
            combined = rule.combine(panel(scheduler), rule)
            answer = answer_by_scheduler[scheduler] = _without_job(combined) if rule.whose is Whose.JOB else combined
        return answer(about, *args, **kwargs)

    return ask


def scheduler_of(about: Shape | points.Ask | Job | SubJob | points.Preemptor, jobs: tuple[Job, ...]) -> str:
    """The scheduler of what a question is about."""
    if isinstance(about, SubJob):
        return jobs[about.job_number].scheduler
    if isinstance(about, points.Ask):
        return about.shape.scheduler
    if isinstance(about, points.Preemptor):
        return about.job.scheduler
    return about.scheduler


def _without_job(ask: Answer) -> Answer:
    return lambda _, *args: ask(*args)


def sealed(array: T) -> T:
    """A read-only view of an array, to be shown to a plugin; anything else is returned as it is."""
    if not isinstance(array, np.ndarray):
        return array
    shown = array.view()
    shown.setflags(write=False)
    return shown


# The ways in which the answers of several plugins become one, and what a plugin that fails answers instead.
#
# The first line of each is what the tables of the reference page say. Each way makes, of the plugins of a panel, the
# function that answers the question.


Key = tuple[float, ...]

_LAST: Final = (math.inf,)
_NUMBERS: Final = (int, float)


# -- what a failure means


def costs_turn(_: Asked, reason: Reason) -> NoReturn:
    """The job loses its turn and waits with `PluginFailed`."""
    raise PluginError(reason)


def objects(_: Asked, reason: Reason) -> Reason:
    """An objection with the reason `PluginFailed`."""
    return reason


def goes_last(_: Asked, __: Reason) -> Key:
    """What the key was asked for goes last."""
    return _LAST


def says_no(_: Asked, __: Reason) -> bool:
    """No."""
    return False


def protects_all(_: Asked, __: Reason) -> np.bool_:
    """Everybody is protected."""
    return np.True_


def nobody_goes(_: Asked, __: Reason) -> Ints:
    """No pod goes."""
    return EMPTY


def is_silent(_: Asked, __: Reason) -> None:
    """Nothing is said."""


def is_not_bound(_: Asked, reason: Reason) -> points.Preparation:
    """The gang is not bound, and waits with `PluginFailed`."""
    return points.Preparation(failed=reason)


def abstains(question: Asked, reason: Reason) -> points.Abstained:
    """No recommendation; the ordinary search goes on."""
    return points.Abstained(question.name, reason.text)


# -- one answer of several


def first(panel: Panel, rule: AnyRule) -> Answer:
    """The first that answers."""
    asks = panel.asks(rule)
    if len(asks) == 1:
        return asks[0]

    def ask(*args: Any) -> Any:
        for question in asks:
            answer = question(*args)
            if answer is not None:
                return answer
        return None

    return ask


def first_of_all(panel: Panel, rule: AnyRule) -> Answer:
    """The first that has any."""
    asks = panel.asks(rule)

    def ask(*args: Any) -> Any:
        for question in asks:
            answer = question(*args)
            if answer is not None and len(answer):
                return answer
        return None

    return ask


def first_per_row(panel: Panel, rule: AnyRule) -> Answer:
    """The first objection for each node."""
    asks = panel.asks(rule)
    nodes = panel.view.nodes

    def ask(*args: Any) -> Why:
        why = np.zeros(len(nodes), dtype=np.uint16)
        for question in asks:
            np.copyto(why, question(*args), where=why == 0)
        return why

    return ask


def keys(panel: Panel, rule: AnyRule) -> Answer:
    """Keys one after the other, in the order of the profile."""
    return _joined(panel, rule, [(question, None) for question in panel.members(rule)])


def job_keys(panel: Panel, rule: AnyRule) -> Answer:
    """Keys one after the other; what runs in part goes first among jobs of its priority."""
    ledger = panel.view.ledger
    members = panel.members(rule)
    place = next((i for i, question in enumerate(members) if promises(question.by.plugin).by_priority), None)
    if place is None:
        other_keys = keys(panel, rule)
        return lambda job: (_whole(ledger, job), *other_keys(job))

    def at_once(key: Key, job: Job) -> Key:
        """In an order before priority what runs in part counts as one that holds nothing, if it has a place there."""
        if not stands_in_part(ledger, job):
            return key
        return tuple([number if number == math.inf else min(number, 0.0) for number in key])

    def behind_priority(key: Key, job: Job) -> Key:
        return *key[:1], _whole(ledger, job), *key[1:]

    changes = [at_once] * place + [behind_priority] + [None] * (len(members) - place - 1)
    return _joined(panel, rule, list(zip(members, changes, strict=True)))


def _whole(ledger: Ledger, job: Job) -> float:
    return float(not stands_in_part(ledger, job))


def _joined(panel: Panel, rule: AnyRule, members: list[tuple[Asked, Callable[[Key, Any], Key] | None]]) -> Answer:
    note = panel.note
    failed = rule.failure

    def ask(*about: Any) -> Key:
        found: list[float] = []
        for question, changed in members:  # in line: there is one key for each waiting job
            try:
                numbers = question.ask(*about)
                if type(numbers) is not tuple or type(total := sum(numbers)) not in _NUMBERS or total != total:
                    key(numbers, about, panel.view)
            except RAISED as error:
                numbers = failed(question, note(question.name, question.method, error))
            found += numbers if changed is None else changed(numbers, *about)
        return tuple(found)

    return ask


def any_of_them(panel: Panel, rule: AnyRule) -> Answer:
    """Any."""
    asks = panel.asks(rule)
    return lambda *args: any(question(*args) for question in asks)


def all_of_them(panel: Panel, rule: AnyRule) -> Answer:
    """All."""
    asks = panel.asks(rule)
    return lambda *args: all(question(*args) for question in asks)


def most(panel: Panel, rule: AnyRule) -> Answer:
    """The most of them."""
    asks = panel.asks(rule)
    return lambda *args: max([answer for question in asks if (answer := question(*args)) is not None], default=0.0)


def least(panel: Panel, rule: AnyRule) -> Answer:
    """The least of them."""
    asks = panel.asks(rule)
    return lambda *args: min([question(*args) for question in asks], default=math.inf)


def most_of_each(panel: Panel, rule: AnyRule) -> Answer:
    """Entry by entry, the highest number that any plugin gives."""
    return _folded(panel, rule, np.maximum)


def total(panel: Panel, rule: AnyRule) -> Answer:
    """The sum."""
    return _folded(panel, rule, np.add)


def _folded(panel: Panel, rule: AnyRule, join: np.ufunc) -> Answer:
    """Numbers for each of what is asked about, beginning with 0."""
    asks = panel.asks(rule)

    def ask(*args: Any) -> Floats:
        folded = np.zeros(len(args[1]))
        for question in asks:
            join(folded, question(*args), out=folded)
        return folded

    return ask


# -- all answers


def one_after_the_other(panel: Panel, rule: AnyRule) -> Answer:
    """All of them, one after the other."""
    asks = panel.asks(rule)
    return lambda *args: [answer for question in asks for answer in question(*args)]


def by_plugin(panel: Panel, rule: AnyRule) -> Answer:
    """One for each plugin."""
    members = [(question.name, panel.guarded(rule, question)) for question in panel.members(rule)]
    return lambda *args: {name: answer for name, question in members if (answer := question(*args)) is not None}


def each_once(panel: Panel, rule: AnyRule) -> Answer:
    """All, each once."""
    ask = with_its_plugin(panel, rule)
    return lambda: dict.fromkeys(answer for _, answer in ask())


def with_its_plugin(panel: Panel, rule: AnyRule) -> Answer:
    """One after the other, as long as they are wanted."""
    members = panel.members(rule)
    check = rule.check
    view = panel.view
    note = panel.note
    failed = rule.failure

    def ask() -> Iterator[tuple[Any, points.Debt]]:
        for question in members:
            try:
                for answer in bounded(
                    question.ask(), question.method
                ):  # one by one: victims for one may settle the next
                    yield question.by.plugin, check(answer, (), view)
            except RAISED as error:
                failed(question, note(question.name, question.method, error))

    return ask


def of_its_plugin(panel: Panel, rule: AnyRule) -> Answer:
    """Of the plugin that said so."""
    asks = {id(question.by.plugin): panel.guarded(rule, question) for question in panel.members(rule)}
    return lambda plugin, *args: asks[id(plugin)](*args)


def by_task(panel: Panel, rule: AnyRule) -> Answer:
    """Everything that any of them says."""
    asks = panel.asks(rule)

    def ask(job: Job, tasks: Iterable[tuple[Task, int]]) -> dict[str, list[points.Preparation]]:
        preparations: dict[str, list[points.Preparation]] = {}
        for task, row in tasks:
            for question in asks:
                preparation = question(job, task, row)
                if preparation is not None:
                    preparations.setdefault(task.key, []).append(preparation)
        return preparations

    return ask


# -- searches and gates


def proposals(panel: Panel, rule: AnyRule) -> Answer:
    """The first recommendation; without one, the first reason for abstaining."""
    asks = panel.asks(rule)

    def ask(units: points.Units, candidates: Ints) -> points.Proposal | points.Abstained | None:
        abstention: points.Abstained | None = None
        units = replace(units, own=sealed(units.own), held=sealed(units.held))
        for question in asks:
            recommendation = question(units, candidates)
            if isinstance(recommendation, points.Proposal):
                return recommendation
            abstention = abstention if abstention is not None else recommendation
        return abstention

    return ask


def limit_once(panel: Panel, _: AnyRule) -> Answer:
    """The limit of the first plugin that sets one. Plugins are asked once for each gang."""
    space_of, space_by_gang = _spaces(panel)

    def ask(gang: Job | SubJob) -> int | None:
        space = space_by_gang.get(id(gang))  # in line: a search wants it many times
        return space[1] if space is not None else space_of(gang)[1]

    return ask


_Space = tuple[Asked | None, int | None, Job | SubJob]
"""The plugin that sets a limit for a gang, the limit, and the gang, which keeps its identity."""


def _spaces(panel: Panel) -> tuple[Callable[[Job | SubJob], _Space], dict[int, _Space]]:
    """Who sets a limit for a gang, and what is known of that by identity."""
    if "spaces" in panel.memo:
        return panel.memo["spaces"]  # type: ignore[no-any-return]
    rule = RULES["limit"]
    members = [(question, panel.guarded(rule, question)) for question in panel.members(rule)]
    space_by_gang: dict[int, _Space] = {}

    def space_of(gang: Job | SubJob) -> _Space:
        space = space_by_gang.get(id(gang))
        if space is None:
            limits = ((question, limit, gang) for question, ask in members if (limit := ask(gang)) is not None)
            space = space_by_gang[id(gang)] = next(limits, (None, None, gang))
        return space

    panel.memo["spaces"] = space_of, space_by_gang
    return space_of, space_by_gang


def of_the_limiter(panel: Panel, rule: AnyRule) -> Answer:
    """Those of the plugin that sets the limit; without one, the whole is the only candidate."""
    (space_of, _), view, note = _spaces(panel), panel.view, panel.note
    members = {question.by.plugin_id: question for question in panel.members(rule)}

    def ask(gang: Job | SubJob, within: int = ROOT, *, evicting: bool = False) -> points.Gradients:
        limiter = space_of(gang)[0]
        if limiter is None:
            return (np.array([within]),)
        return groups(members[limiter.by.plugin_id], gang, within, evicting=evicting)

    def groups(question: Asked, gang: Job | SubJob, within: int, *, evicting: bool) -> Iterator[Ints]:
        try:
            yield from rule.check(question.ask(gang, within, evicting=evicting), (gang, within), view)
        except RAISED as error:
            rule.failure(question, note(question.name, question.method, error))

    return ask


def tier_by_tier(panel: Panel, rule: AnyRule) -> Answer:
    """Tier by tier, the first objection; a permit of a tier without one ends the asking."""
    tiers: dict[int, tuple[list[Answer], list[Answer]]] = {}
    for i, asking in enumerate((rule, RULES["must_enqueue"])):
        for question in panel.members(asking):
            tiers.setdefault(question.by.tier, ([], []))[i].append(panel.guarded(asking, question))
    in_order = [tiers[number] for number in sorted(tiers)]

    def ask(job: Job) -> Reason | None:
        for gates, permits in in_order:
            for gate in gates:
                reason: Reason | None = gate(job)
                if reason is not None:
                    return reason
            if any(permitted(job) for permitted in permits):
                return None
        return None

    return ask


# What filters that move say together of a shape: those whose answer changes as tasks are placed.
#
# Which of them concern a shape is asked once in a cycle.


class _Mover(msgspec.Struct, frozen=True, eq=False):
    """A filter that moves: what it is asked, None where it has no answer."""

    concerns: Callable[[Shape], bool]
    why_not_now: Callable[[Shape, slice], Why]
    own_row: Callable[[Shape], bool] | None
    order_free: Callable[[Shape], bool] | None
    room: Callable[[Shape], Ints | None] | None
    pod_rules: Callable[[tuple[Shape, ...]], PodRules | None] | None

    def keeps_to_its_row(self, shape: Shape) -> bool:
        return self.own_row is not None and self.own_row(shape)


def _once(answer: Callable[[Shape], R]) -> Callable[[Shape], R]:
    """A function that asks `answer` once for each shape and remembers it."""
    answers: dict[int, R] = {}

    def ask(shape: Shape) -> R:
        number = shape.number
        if number not in answers:  # no exception: a flood has thousands of shapes, each asked about once
            answers[number] = answer(shape)
        return answers[number]

    return ask


def _movers(panel: Panel) -> Callable[[Shape], tuple[_Mover, ...]]:
    """The filters that move for a shape."""
    movers_of_shape: Callable[[Shape], tuple[_Mover, ...]] | None = panel.memo.get("movers")
    if movers_of_shape is None:
        asks: Any = {name: panel.by_plugin(RULES[name]) for name in _Mover.__struct_fields__}
        movers = [
            _Mover(*(methods_of_plugin.get(plugin) for methods_of_plugin in asks.values()))
            for plugin in asks["concerns"]
        ]
        movers_of_shape = _once(lambda shape: tuple([mover for mover in movers if mover.concerns(shape)]))
        panel.memo["movers"] = movers_of_shape
    return movers_of_shape


def any_concerned(panel: Panel, _: AnyRule) -> Answer:
    """Any."""
    moving = _movers(panel)
    return lambda shape: bool(moving(shape))


def first_that_moves(panel: Panel, _: AnyRule) -> Answer:
    """The first objection for each node, of those that the shape concerns."""
    moving = _movers(panel)

    def ask(shape: Shape, span: slice) -> Why:
        why = np.zeros(span.stop - span.start, dtype=np.uint16)
        for mover in moving(shape):
            np.copyto(why, mover.why_not_now(shape, span), where=why == 0)
        return why

    return ask


def all_keep_to_their_row(panel: Panel, _: AnyRule) -> Answer:
    """All that move for the shape must say so."""
    moving = _movers(panel)
    return _once(lambda shape: all(mover.keeps_to_its_row(shape) for mover in moving(shape)))


def free_but_one(panel: Panel, _: AnyRule) -> Answer:
    """Of those that move beyond a task's own node there must be one at most, and it must say so."""
    moving = _movers(panel)

    def ask(shape: Shape) -> bool:
        wide = [mover for mover in moving(shape) if not mover.keeps_to_its_row(shape)]
        return not wide or (len(wide) == 1 and wide[0].order_free is not None and wide[0].order_free(shape))

    return _once(ask)


def least_room(panel: Panel, _: AnyRule) -> Answer:
    """The least of them; all that move for the shape must know it."""
    moving = _movers(panel)

    def known(shape: Shape) -> list[Any]:
        rooms = [mover.room for mover in moving(shape)]
        return rooms if None not in rooms else []

    rooms_of = _once(known)

    def ask(shape: Shape) -> Ints | None:
        smallest: Ints | None = None
        for room in rooms_of(shape):
            room_by_row = room(shape)
            if room_by_row is None:
                return None
            smallest = room_by_row if smallest is None else np.minimum(smallest, room_by_row)
        return smallest

    return ask


def rules_of_all(panel: Panel, _: AnyRule) -> Answer:
    """Those of all filters that move for any of the shapes; shapes for which one does that says nothing are named."""
    moving = _movers(panel)

    def ask(shapes: tuple[Shape, ...]) -> PodRules:
        concerned: dict[int, tuple[_Mover, list[int]]] = {}
        for shape in shapes:
            for mover in moving(shape):
                concerned.setdefault(id(mover), (mover, []))[1].append(shape.number)
        rules_of_filters = []
        for mover, numbers in concerned.values():
            rules = mover.pod_rules(shapes) if mover.pod_rules is not None else None
            rules_of_filters.append(PodRules(unstated=frozenset(numbers)) if rules is None else rules)
        return joined(rules_of_filters)

    return ask


# What scorers of nodes say together: the weighted sum of their scores, and its parts.
#
# Scores that are the same throughout a domain are added last, so that the sum is the same, bit by bit, whether nodes
# are scored at once or in parts.


def _weighed(panel: Panel, rule: AnyRule, members: list[Asked]) -> list[tuple[float, Answer]]:
    return [(question.by.choice.weight, panel.guarded(rule, question)) for question in members]


def _others(panel: Panel) -> list[Asked]:
    """The scorers that do not score by domain."""
    leaves = panel.by_plugin(RULES["score_leaves"])
    return [question for question in panel.members(RULES["score"]) if question.by.plugin_id not in leaves]


def largest_effect(panel: Panel, rule: AnyRule) -> Answer:
    """The largest of them."""
    asks = panel.asks(rule)
    return lambda ask: max([question(ask) for question in asks], default=points.ScoreEffect.FIXED)


def weighted_sum(panel: Panel, rule: AnyRule) -> Answer:
    """The sum, each by its plugin's weight; those by domain behind the others."""
    leaves = panel.by_plugin(RULES["score_leaves"])
    members = sorted(panel.members(rule), key=lambda question: question.by.plugin_id in leaves)
    weighed = _weighed(panel, rule, members)

    def ask(ask: points.Ask, span: slice, fits: Bools) -> Floats:
        total = np.zeros(span.stop - span.start)
        for weight, question in weighed:
            score = question(ask, span, fits)
            if score is not None:
                total += score if weight == 1.0 else weight * score
        return total

    return ask


def sum_by_row(panel: Panel, rule: AnyRule) -> Answer:
    """The sum; all scorers but those by domain must know it."""
    knowing = panel.by_plugin(rule)
    other_scorers = _others(panel)
    all_score_rows = all(question.by.plugin_id in knowing for question in other_scorers)
    weighed = (
        [(question.by.choice.weight, knowing[question.by.plugin_id]) for question in other_scorers]
        if all_score_rows
        else []
    )

    def ask(ask: points.Ask, rows: Rows) -> Floats | None:
        if not all_score_rows:
            return None
        total = np.zeros(length(rows))
        for weight, question in weighed:
            score = question(ask, rows)
            if score is None:
                return None
            total += score if weight == 1.0 else weight * score
        return total

    return ask


def parts_by_domain(panel: Panel, rule: AnyRule) -> Answer:
    """Added behind the sum of all others, in their order."""
    weighed = _weighed(panel, rule, panel.members(rule))

    def ask(ask: points.Ask) -> list[Floats] | None:
        parts = []
        for weight, question in weighed:
            score = question(ask)
            if score is None:
                return None
            parts.append(score if weight == 1.0 else weight * score)
        return parts

    return ask


def widest(panel: Panel, rule: AnyRule) -> Answer:
    """The span of all of them."""
    asks = panel.asks(rule)

    def ask(ask: points.Ask, row: int) -> slice:
        spans: list[Any] = [question(ask, row) for question in asks]
        if not spans:
            return slice(row, row)
        return slice(min([span.start for span in spans]), max([span.stop for span in spans]))

    return ask
