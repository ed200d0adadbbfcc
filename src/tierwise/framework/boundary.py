"""The plugins of one cycle, the rules by which they are asked, and the boundary around every call into one.

`CyclePlugins` holds what a profile constructs, and records what fails. A `Panel` is the part of them that
answers for the pods of one scheduler: a plugin that a profile configures for one scheduler name is asked about the pods
of that scheduler only. Nothing here keeps the pipeline, so that a cycle is freed when nobody needs it any more.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, cast

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tierwise.config.profile import PluginChoice, Profile
from tierwise.framework import declaration
from tierwise.framework.answers import AnswerError
from tierwise.framework.extension import Ask, CycleView, Factory, Preemptor, Purpose
from tierwise.framework.ledger import Ledger, ShownLedger
from tierwise.framework.report import PluginFailure
from tierwise.model.job import Job, Reason, Shape, SubJob

__all__ = [
    "RAISED",
    "RULES",
    "Answer",
    "AnyRule",
    "Asked",
    "CyclePlugins",
    "Failures",
    "Panel",
    "PluginError",
    "Question",
    "Rule",
    "Whose",
    "promises",
    "sealed",
]

RAISED: Final = (Exception, SystemExit)
"""What a plugin may raise; a plugin that calls sys.exit has failed, and the process goes on."""

_SHOWN: Final = 200
_NOTHING: Final[frozenset[Purpose]] = frozenset()


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
    answers: frozenset[Purpose]  # of a victim filter, the purposes that it names victims for, and whether it counts
    counts: bool


class Asked(msgspec.Struct, frozen=True, eq=False):
    """A method of a plugin. Whoever asks has it among its variables, where the watchdog finds it."""

    by: _Made
    method: str
    ask: Callable[..., Any]

    @property
    def name(self) -> str:
        """What the profile calls the plugin."""
        return self.by.choice.name


def promises(plugin: object) -> declaration.Declaration:
    """What the class of a constructed plugin declares."""
    return declaration.declared(type(plugin)) or declaration.Declaration(())


@cache
def _methods_of(name: str, kind: type) -> frozenset[str]:
    """The methods by which plugins of a class take part; each class is checked once."""
    return declaration.check_declaration(name, kind).methods if kind is not declaration.Idle else frozenset()


def _is_own(factory: Factory) -> bool:
    return getattr(factory, "__module__", "").partition(".")[0] == __name__.partition(".")[0]


def _said(error: BaseException) -> str:
    """The error in one line; the type's name if the error cannot be formatted."""
    try:
        said = " ".join(str(error).split())[:_SHOWN]
    except RAISED:
        said = ""
    kind = type(error).__name__
    return said if isinstance(error, AnswerError) else f"{kind}: {said}" if said else kind


class Failures:
    """What failed in a cycle, by plugin and method."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], PluginFailure] = {}

    def note(self, name: str, method: str, error: BaseException) -> Reason:
        """Record a failure, once per method, and return it as a reason for the job."""
        known = self.found.get((name, method))
        text = _said(error)
        if known is None:
            import traceback  # rarely needed

            point = declaration.METHODS[method].__name__ if method in declaration.METHODS else ""
            trace = "" if isinstance(error, AnswerError) else "".join(traceback.format_exception(error, limit=-12))
            known = PluginFailure(name, point, method, text, traceback=trace)
        else:
            known = replace(known, times=known.times + 1)
        self.found[name, method] = known
        return Reason("PluginFailed", name, replace(known, error=text).text)


class CyclePlugins:
    """The plugins of a profile in one cycle, and what failed of them."""

    def __init__(self, profile: Profile, view: CycleView, factories: Mapping[str, Factory]) -> None:
        self.view = view
        self.failures = Failures()
        self.broken: list[tuple[str | None, Reason]] = []  # plugins that could not be constructed, and their scheduler
        self._panels: dict[str | None, Panel] = {}
        self._made: list[_Made] = []
        for tier, choices in enumerate(profile.tiers_in_force):
            for choice in choices:
                self._make(choice, tier, factories)
        self.by_scheduler = any(choice.scheduler is not None for choice in profile.plugins())

    def _make(self, choice: PluginChoice, tier: int, factories: Mapping[str, Factory]) -> None:
        ledger, note = self.view.ledger, self.failures.note
        known = ledger.registered
        try:
            factory = factories[choice.name]
            plugin: Any = factory(choice.arguments, self.view if _is_own(factory) else self._shown_view)
            methods = _methods_of(choice.name, plugin.__class__)
            names = (plugin.answers, plugin.counts) if "protect" in methods else (_NOTHING, False)
            if names[0] is not _NOTHING and (wrong := declaration.wrong_attribute(plugin)):
                raise AnswerError(wrong)
        except RAISED as error:
            ledger.unregister(known)
            self.broken.append((choice.scheduler, note(choice.name, "__init__", error)))
            return
        if ledger.registered != known:
            ledger.guard(known, lambda error: PluginError(note(choice.name, "count", error)))
        self._made.append(_Made(choice, tier, plugin, id(plugin), methods, *names))

    @cached_property
    def _shown_view(self) -> CycleView:
        """The view of plugins of other packages: of the ledger they can but read."""
        return replace(self.view, ledger=cast("Ledger", ShownLedger(self.view.ledger)))

    def unmade(self, scheduler: str) -> Reason | None:
        """Why the pods of a scheduler wait: a plugin for them could not be constructed."""
        return next((reason for whose, reason in self.broken if whose in (None, scheduler)), None)

    def panel(self, scheduler: str | None = None) -> Panel:
        """The plugins for the pods of a scheduler; without one, or where all serve all, everybody."""
        scheduler = scheduler if self.by_scheduler else None
        found = self._panels.get(scheduler)
        if found is None:
            serving = [made for made in self._made if scheduler is None or made.choice.scheduler in (None, scheduler)]
            found = self._panels[scheduler] = Panel(serving, self.view, self.failures)
        return found


class Panel:
    """The plugins that answer for some pods."""

    def __init__(self, made: list[_Made], view: CycleView, failures: Failures) -> None:
        self.view = view
        self.memo: dict[str, Any] = {}  # what several questions share
        self.note = failures.note
        self._made = made
        self._guarded: dict[str, tuple[Callable[..., Any], ...]] = {}

    def members(self, rule: Rule[..., Any], switch: str = "") -> list[Asked]:
        """The plugins that answer a rule's question and are not switched off for it, in the profile's order."""
        method, switch = rule.method, switch or rule.switch
        return [
            Asked(made, method, getattr(made.plugin, method))
            for made in self._made
            if method in made.methods and switch not in made.choice.off
        ]

    def asks(self, rule: Rule[..., Any]) -> tuple[Callable[..., Any], ...]:
        """The questions of a rule, one for each plugin, each inside the boundary."""
        found = self._guarded.get(rule.method)
        if found is None:
            found = self._guarded[rule.method] = tuple([self.guarded(rule, asked) for asked in self.members(rule)])
        return found

    def by_plugin(self, rule: Rule[..., Any], switch: str = "") -> dict[int, Callable[..., Any]]:
        """The same by `plugin_id`."""
        return {asked.by.plugin_id: self.guarded(rule, asked) for asked in self.members(rule, switch)}

    def guarded(self, rule: Rule[..., Any], asked: Asked) -> Callable[..., Any]:
        """A question inside the boundary: a failure or an invalid answer is what the rule makes of it."""
        ask, check, view, note, failed = asked.ask, rule.check, self.view, self.note, rule.failure

        def guarded(*args: Any) -> Any:
            try:
                return check(ask(*args), args, view)
            except RAISED as error:
                return failed(asked, note(asked.name, asked.method, error))

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
T = TypeVar("T", bound=np.generic)

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
        self.whose, self.seals = whose, seals
        self.combine, self.failure, self.check = combine, failure, check
        RULES[self.method] = self

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, pipeline: _Pipeline, _: type) -> Question[P, R]:
        found = self._bound(pipeline)
        pipeline.__dict__[self._name] = found  # which is found before this from now on
        return cast("Question[P, R]", found)

    def _bound(self, pipeline: _Pipeline) -> Answer:
        plugins, seals = pipeline.plugins, self.seals
        everybody = plugins.panel()
        ask = self.combine(everybody, self)
        if not everybody.members(self):
            return _Unasked(ask if self.whose is not Whose.JOB else lambda _, *args: ask(*args))
        if plugins.by_scheduler and self.whose is not Whose.ALL:
            ask = _by_scheduler(plugins.panel, self, plugins.view.jobs)
        elif self.whose is Whose.JOB:
            ask = _without_job(ask)
        return _sealing(ask, seals if self.whose is not Whose.JOB else tuple(at + 1 for at in seals)) if seals else ask


def _by_scheduler(panel: Callable[[str], Panel], rule: AnyRule, jobs: tuple[Job, ...]) -> Answer:
    """A question of which each scheduler has its own plugins."""
    known: dict[str, Answer] = {}

    def ask(about: Any, *args: Any, **kwargs: Any) -> Any:
        scheduler = scheduler_of(about, jobs)
        found = known.get(scheduler)
        if found is None:
            made = rule.combine(panel(scheduler), rule)
            found = known[scheduler] = _without_job(made) if rule.whose is Whose.JOB else made
        return found(about, *args, **kwargs)

    return ask


def scheduler_of(about: Shape | Ask | Job | SubJob | Preemptor, jobs: tuple[Job, ...]) -> str:
    """The scheduler of what a question is about."""
    if isinstance(about, SubJob):
        return jobs[about.job_number].scheduler
    if isinstance(about, Ask):
        return about.shape.scheduler
    return about.job.scheduler if isinstance(about, Preemptor) else about.scheduler


def _without_job(ask: Answer) -> Answer:
    return lambda _, *args: ask(*args)


def sealed(array: NDArray[T]) -> NDArray[T]:
    """The same numbers for a plugin, which may not write into them."""
    shown = array.view()
    shown.setflags(write=False)
    return shown


def _sealing(ask: Answer, seals: tuple[int, ...]) -> Answer:
    """A question with arrays that nobody can write into."""

    def asking(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        for at in seals:
            if at < len(given) and isinstance(given[at], np.ndarray):
                given[at] = sealed(given[at])
        return ask(*given, **kwargs)

    return asking
