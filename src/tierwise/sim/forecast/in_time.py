"""The least that makes a job start, as far as it is known when the processor time for it is used up.

Called by the command and by the pages, which show how far it is.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

from tierwise.explain.comparison import Answer, LeastChange, in_order
from tierwise.explain.naming import full_name
from tierwise.sim.forecast.eta import with_wait
from tierwise.sim.what_if.changes import Scenario, job_named
from tierwise.sim.what_if.first_answers import by_counting
from tierwise.sim.what_if.least_change import Effort, least_change
from tierwise.snapshot.builder import Reader

__all__ = ["SECONDS", "OutOfTime", "least_in_time", "limit_processor_time"]

SECONDS: Final = 60
"""Seconds of a processor for which a question is worked on; what is known then is told."""


class OutOfTime(BaseException):
    """A question has been worked on for long enough: nothing that guards a cycle may take it for a fault."""


def _out_of_time(number: int, frame: FrameType | None) -> NoReturn:
    raise OutOfTime


@contextmanager
def limit_processor_time() -> Iterator[None]:
    """`OutOfTime` is raised inside once so much processor time is used; for the main thread of a process."""
    before = signal.signal(signal.SIGPROF, _out_of_time)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def least_in_time(
    scenario: Scenario,
    name: str,
    effort: Effort,
    report_progress: Callable[[str, int, Callable[[], LeastChange]], None],
    reader: Reader | None = None,
) -> LeastChange:
    """The ways to make a job start now and that of waiting, or those that were found before `OutOfTime`.

    `report_progress` hears what is tried, how many runs that took so far, and can ask what is known: before the first
    run that is what was counted, and later each way that was tried instead.
    """
    job = job_named(scenario.snapshot(), name)
    counted = by_counting(scenario, name).answers
    answers: list[Answer] = []
    trying = ""

    def known(stopped: str = "") -> LeastChange:
        tried_ways = {answer.way for answer in answers}
        untried = [answer for answer in counted if answer.way not in tried_ways]
        return LeastChange(job.key, False, in_order([*answers, *untried]), (), full_name(job), stopped=stopped)

    def tried(answer_way: str, runs: int) -> None:
        nonlocal trying
        trying = answer_way.replace("-", " ")
        report_progress(trying, runs, known)

    wait = next((answer for answer in counted if answer.way == "wait"), None)
    try:
        return with_wait(scenario, least_change(scenario, name, effort, tried, answers.append, reader), wait)
    except OutOfTime:
        return known(f"stopped after {SECONDS} s of a processor, while trying to {trying}: more ways may do")
