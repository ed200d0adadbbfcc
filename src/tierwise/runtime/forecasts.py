"""Expected starts on podGroups: worked out now and then beside the loop, and written where they have changed.

An observer of the loop. Runs ahead take seconds on a large cluster, so a thread does them on the snapshot of one
iteration, and a later iteration writes what came of it. A forecast is written with an annotation
(`api.expected_start`), and again only where it has changed by more than a step: a queue of a thousand jobs that moves
up by one writes nothing. The errors of forecasts are remembered, as long as the process lives, and correct the ranges
of the next ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Final

from tierwise.api.expected_start import EXPECTED_START, ExpectedStart, parse_expected_start, spell_expected_start
from tierwise.api.volcano import PodGroup
from tierwise.config.profile import Profile
from tierwise.explain.eta import Eta, EtaReport, eta_text
from tierwise.model.expected_ends import started_at
from tierwise.model.job import namespace_of
from tierwise.model.snapshot import Snapshot
from tierwise.port import Cluster, Key, Objects, PatchStatus
from tierwise.runtime.profile_run import LoopPass
from tierwise.scheduler.guard import Crash
from tierwise.sim.forecast.eta import Forecasts, forecasts, summary, waiting_snapshot
from tierwise.sim.forecast.forward import waits
from tierwise.sim.forecast.start_ranges import ForecastErrors, range_of_runs
from tierwise.sim.what_if.runs import prepared

__all__ = ["ForecastWriter", "forecast_effects"]

log = logging.getLogger(__name__)

_GROUP: Final = "scheduling.volcano.sh"


class ForecastWriter:
    """Writes expected starts every so many seconds. Told of iterations by the loop, in its thread."""

    def __init__(self, cluster: Cluster, executor: Executor, *, ticks: Callable[[], float], every: float) -> None:
        self._cluster = cluster
        self._executor = executor
        self._ticks = ticks
        self._every = every
        self._errors = ForecastErrors()
        self._working: tuple[Profile, Future[Forecasts]] | None = None
        self._due = ticks()

    def saw(self, iteration: LoopPass) -> None:
        """Write what is ready; begin again where it is time."""
        self._learn(iteration.snapshot)
        if self._working is not None and self._working[1].done():
            (profile, done), self._working = self._working, None
            self._write(profile, done)
        if self._working is None and self._ticks() >= self._due and any(map(waits, iteration.snapshot.jobs)):
            self._due = self._ticks() + self._every
            self._working = iteration.profile, self._executor.submit(_ahead, iteration)

    def crashed(self, crash: Crash) -> None:
        """Nothing: a skipped object waits for nothing that a forecast could tell."""

    def _learn(self, snapshot: Snapshot) -> None:
        for job in snapshot.jobs:
            start = started_at(job) if not waits(job) else None
            if start is not None:
                self._errors.started(job.key, start)

    def _write(self, profile: Profile, done: Future[Forecasts]) -> None:
        error = done.exception()
        if error is not None:
            log.error("expected starts could not be worked out: %s", error, exc_info=error)
            return
        forecasts_now = done.result()
        report = summary(forecasts_now, profile, errors=self._errors)
        for job in forecasts_now.waiting:
            self._errors.note(job.key, report.now, range_of_runs(forecasts_now.starts(job)))
        self._cluster.tell(forecast_effects(self._cluster.read(), report), "forecasts")


def _ahead(iteration: LoopPass) -> Forecasts:
    """Runs ahead from the objects of an iteration, in which its binds may be on their way."""
    if iteration.objects is None:
        return forecasts(iteration.snapshot, iteration.profile)
    now = iteration.snapshot.now
    schedulers = iteration.schedulers
    _, snapshot = waiting_snapshot(prepared(iteration.objects, iteration.profile, now, schedulers))
    return forecasts(snapshot, iteration.profile)


def forecast_effects(objects: Objects, report: EtaReport) -> list[PatchStatus]:
    """The annotations of podGroups of which something else is to be said than what they have."""
    effects: list[PatchStatus] = []
    for eta in report.jobs:
        key = Key.at(_GROUP, "PodGroup", eta.job)
        record = objects.record(key)
        if not isinstance(record, PodGroup):
            continue
        expected_start = _told(eta, report.now)
        written = parse_expected_start(record.metadata.annotations.get(EXPECTED_START, ""))
        if written is None or written.differs(expected_start):
            effects.append(PatchStatus(key, {}, {EXPECTED_START: spell_expected_start(expected_start)}))
    return effects


def _told(eta: Eta, now: float) -> ExpectedStart:
    return ExpectedStart(
        kind=eta.kind.value,
        text=eta_text(eta, now, namespace_of(eta.job))[:1000],
        said=now,
        position=eta.position,
        of=eta.of,
        start=eta.start,
        half=eta.half,
        most=eta.most,
    )
