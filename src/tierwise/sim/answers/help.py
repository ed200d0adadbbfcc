"""Ways to start a waiting job now, as its own users are told: their own changes by name, those of others in general.

The ways are the same that operators get. What a user can change (constraints of the job) is told as it is. What the
operator can change is told by its kind and on a grid of numbers, because exact amounts tell what others use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tierwise.explain.comparison import Answer, LeastChange
from tierwise.explain.tenant import HelpAnswer, Way, coarse_number, coarse_text
from tierwise.sim.forecast.in_time import least_in_time
from tierwise.sim.what_if.changes import Scenario
from tierwise.sim.what_if.least_change import BRIEF
from tierwise.snapshot.builder import Reader

__all__ = ["help_answer", "help_for"]

_OWN: Final = ("loosen", "relax")
"""Ways that change nothing but the job."""

_OTHERS: Final = ("evict", "move")
"""Ways in which other jobs lose or change their places."""


def help_for(scenario: Scenario, job: str, name: str, reader: Reader | None = None) -> HelpAnswer:
    """Ways to start the job with this path now; `name` is what its users call it. InputError where it is unknown."""
    return help_answer(least_in_time(scenario, job, BRIEF, lambda *_: None, reader), name)


def help_answer(change: LeastChange, name: str) -> HelpAnswer:
    """The ways of a change as the users of its job may be told them."""
    ways = tuple(dict.fromkeys(_ways(change.answers)))
    stopped = "not all ways were tried: the search ended at its bound" if change.stopped else ""
    return HelpAnswer(name=name, starts=change.starts, ways=ways, stopped=stopped)


def _ways(answers: tuple[Answer, ...]) -> Iterator[Way]:
    for answer in answers:
        if answer.way in _OWN:
            yield Way(answer.way, answer.text)
        elif answer.way in _OTHERS:
            yield Way("others", "room that other jobs use now would do: their pods would have to end or move")
        elif answer.way == "quota":
            yield Way("quota", "a higher quota of its queue, which an operator sets")
        elif answer.way in ("add-nodes", "uncordon"):
            number = coarse_text(coarse_number(answer.number))
            words = "more nodes" if answer.way == "add-nodes" else "nodes that are cordoned now"
            yield Way(answer.way, f"{words}: {number}")
