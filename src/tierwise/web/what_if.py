"""What would happen if, in the page: the same board with changes made in memory, and what differs from the one without.

The changes are in the address (`if=drain=rack-7`), so a link leads others to the same answer; manifests that users
paste are kept for such links, a bounded number. Nothing outside is touched. One answer is worked out at a time.
"""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from yarl import URL

from tierwise.api.codec import Object, Raw
from tierwise.api.errors import InputError
from tierwise.explain.board import Board
from tierwise.explain.comparison import least_change_wire
from tierwise.explain.disruption import drainable_wire
from tierwise.explain.eta import etas_wire
from tierwise.explain.text.schedule import Run
from tierwise.manifests.files import read
from tierwise.port import Objects
from tierwise.sim.forecast.eta import back_again, etas, with_wait
from tierwise.sim.what_if.change_texts import read_change
from tierwise.sim.what_if.changes import Change, Scenario, submit
from tierwise.sim.what_if.drainable import drainable
from tierwise.sim.what_if.least_change import BRIEF, least_change
from tierwise.sim.what_if.runs import what_if, what_if_wire
from tierwise.web.views import Bounded, CachedBody, RunView

__all__ = ["BusyError", "WhatIfs"]

_ANSWERS: Final = 8
_MANIFESTS: Final = 32
_CHANGES: Final = 20
_TOGETHER: Final = 16
_WAITING: Final = 4
"""Requests that may wait for the answer before theirs."""


T = TypeVar("T")


class BusyError(Exception):
    """Too many ask at once."""


class WhatIfs:
    """Answers about the views of one source. Asked from several threads."""

    def __init__(self) -> None:
        self._manifests: Bounded[str, tuple[tuple[Object, Raw], ...]] = Bounded(_MANIFESTS)
        self._answers: Bounded[tuple[int, str], tuple[RunView, RunView, CachedBody]] = Bounded(_ANSWERS)
        self._etas: Bounded[tuple[int, str], tuple[RunView, CachedBody]] = Bounded(_ANSWERS)
        self._working = threading.Lock()
        self._room = threading.Semaphore(_WAITING)

    def keep(self, text: bytes) -> str:
        """Keep pasted manifests, under the name that changes use; InputError where they are none."""
        loaded = Objects.holding((entry.key, entry.record, entry.manifest) for entry in read(["-"], io.BytesIO(text)))
        found = ((loaded.record(key), loaded.raw(key)) for key in loaded)
        objects = tuple((record, raw) for record, raw in found if record is not None and raw is not None)
        if not objects:
            raise InputError("there is no manifest in it", file="the text")
        name = hashlib.sha256(text).hexdigest()[:12]
        self._manifests[name] = objects
        return name

    def view(self, show: RunView, changes: str) -> RunView:
        """The board with the changes."""
        return self._answer(show, changes)[1]

    def comparison(self, show: RunView, changes: str) -> CachedBody:
        """What the changes do to which job."""
        return self._answer(show, changes)[2]

    def least(self, show: RunView, job: str) -> CachedBody:
        """The least that makes a job start."""
        return self._alone(lambda: CachedBody.json(_least(_of(show), job)))

    def drainable(self, show: RunView, asked: Mapping[str, str]) -> CachedBody:
        """What draining each domain of a tier costs, and which can go together."""
        number = asked.get("together", "")
        together = min(int(number), _TOGETHER) if number.isdecimal() else 0
        tier = asked.get("tier", "")
        return self._alone(
            lambda: CachedBody.json(drainable_wire(drainable(_of(show), tier, together=together, effort=BRIEF)))
        )

    def eta(self, show: RunView, job: str = "") -> CachedBody:
        """When a job is expected to start, or all that wait."""
        key = id(show), job
        known = self._etas.get(key)
        return known[1] if known is not None else self._alone(lambda: self._foretell(show, key))

    def _foretell(self, show: RunView, key: tuple[int, str]) -> CachedBody:
        if key in self._etas:  # another request asked the same meanwhile
            return self._etas[key][1]
        scenario, job = _of(show), key[1]
        report = etas(scenario.objects, scenario.profile, scenario.now, names=(job,) if job else ())
        self._etas[key] = show, CachedBody.json(etas_wire(report))
        return self._etas[key][1]

    def _answer(self, show: RunView, text: str) -> tuple[RunView, RunView, CachedBody]:
        key = id(show), text  # the view is kept in the answer, so that no other has its identity
        known = self._answers.get(key)
        return known if known is not None else self._alone(lambda: self._work(show, key))

    def _alone(self, work: Callable[[], T]) -> T:
        if not self._room.acquire(blocking=False):
            raise BusyError
        try:
            with self._working:
                return work()
        finally:
            self._room.release()

    def _work(self, show: RunView, key: tuple[int, str]) -> tuple[RunView, RunView, CachedBody]:
        if key in self._answers:  # another request asked the same meanwhile
            return self._answers[key]
        scenario = _of(show)
        found = what_if(scenario, self._changes(key[1]))
        after, profile = found.after, scenario.profile
        run = Run(after.reports, after.after(scenario.now), profile, after.evictions, after.complaints())
        view = RunView(Board(run), mode="manifests", title=f"what if: {', '.join(found.changes)}")
        wire = what_if_wire(found, back_again(found.changed, found.restarts, found.started))
        entries = cast("list[dict[str, Any]]", wire["jobs"])
        for entry, change in zip(entries, found.comparison.jobs, strict=True):
            entry["name"] = change.name
            for state in filter(None, (entry["before"], entry["after"])):
                state["pods"] = len(state["pods"])  # the page draws places, and asks for pods one job at a time
        self._answers[key] = show, view, CachedBody.json(wire)
        return self._answers[key]

    def _changes(self, text: str) -> list[Change]:
        asked = list(URL.build(query_string=text, encoded=True).query.items())
        if not 0 < len(asked) <= _CHANGES:
            raise InputError(f"1 to {_CHANGES} changes are made, each as KIND=TEXT", field="if")
        return [self._submitted(value) if kind == "submit" else read_change(kind, value) for kind, value in asked]

    def _submitted(self, name: str) -> Change:
        objects = self._manifests.get(name)
        if objects is None:
            raise InputError("these manifests are not kept any more: paste them again", field="submit")
        return submit(objects, "the text")


def _least(scenario: Scenario, job: str) -> Raw:
    return least_change_wire(with_wait(scenario, least_change(scenario, job, BRIEF)))


def _of(show: RunView) -> Scenario:
    if show.scenario is None:
        raise InputError("questions are answered by `tierwise serve`, of manifests, a cluster or a journal")
    return show.scenario()
