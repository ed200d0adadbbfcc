"""How the answers of plugins become one: what a `Rule` is made of.

A rule is one row of the table in `framework.pipeline`: a method of an extension point, the switch by which a profile
turns it off, whose plugins are asked, how their answers combine, what a failure means and what an answer must be. On
first use a rule becomes a function over the plugins that answer it in this cycle, and no call pays for looking them up.
Without any such plugin that function is false, and gives the neutral answer.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from tierwise.framework.boundary import Asked, Panel
from tierwise.framework.declaration import MARKS, METHODS
from tierwise.framework.extension import Ask, Preemptor
from tierwise.model.job import Job, SubJob
from tierwise.model.reason import Reason
from tierwise.model.shape import Shape

if TYPE_CHECKING:
    from tierwise.framework.pipeline import Pipeline

__all__ = ["RULES", "Answer", "AnyRule", "Question", "Rule", "Whose", "scheduler_of", "sealed"]

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
        self.point = METHODS[method.__name__]
        self.method = method.__name__
        self.switch = MARKS[self.method].switches[0]
        self.whose, self.seals = whose, seals
        self.combine, self.failure, self.check = combine, failure, check
        RULES[self.method] = self

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, pipeline: Pipeline, _: type) -> Question[P, R]:
        found = self._bound(pipeline)
        pipeline.__dict__[self._name] = found  # which is found before this from now on
        return cast("Question[P, R]", found)

    def _bound(self, pipeline: Pipeline) -> Answer:
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
