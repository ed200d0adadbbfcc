"""Metrics, log lines and the last report of a running scheduler, made from each iteration of the loop.

An observer of the loop. Figures of the connection change between iterations, so they are read when metrics are scraped.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Final, Protocol

from prometheus_client import CollectorRegistry

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap
from tierwise.api.defrag_record import RECORD_NAME, read_record
from tierwise.explain.attention import Seen, attention, often_evicted
from tierwise.kube.cluster import ConnectionFigures
from tierwise.model.job import Rejection
from tierwise.port import Objects
from tierwise.runtime.logs import decision_lines, release_lines
from tierwise.runtime.metrics import Metrics
from tierwise.runtime.probes import cycle_wire
from tierwise.runtime.profile_run import LoopPass
from tierwise.scheduler.guard import Crash

__all__ = ["Telemetry"]

log = logging.getLogger(__name__)


_MOST_SLOW: Final = 20
"""Namespaces with slow writes that have series of their own: those that have waited longest."""


def _slow(figures: ConnectionFigures) -> Mapping[str, tuple[int, float]]:
    return {namespace.name: (namespace.writes, namespace.seconds) for namespace in figures.slow[:_MOST_SLOW]}


class _Connection(Protocol):
    def figures(self) -> ConnectionFigures:
        """How the connection is at the moment."""


class Telemetry:
    """Metrics and logs of every iteration, and the report of the last one."""

    def __init__(self, registry: CollectorRegistry, cluster: _Connection) -> None:
        self._metrics = Metrics(registry)
        self._cluster = cluster
        self._said: dict[object, object] = {}  # what was last logged of each job that waits
        self._rejections: Mapping[str, Rejection] = {}  # of the last iteration
        self._last: Callable[[], Raw] | None = None
        self._latest: LoopPass | None = None
        self._evicted: Counter[str] = Counter()  # in how many cycles a job that is still there has lost pods

    def saw(self, iteration: LoopPass) -> None:
        """Count an iteration, and log its decisions; a job that waits is told of when an event would be: as news."""
        self._metrics.observe(iteration.snapshot, iteration.report, iteration.seconds)
        effects = Counter((type(outcome.effect).__name__, outcome.ok) for outcome in iteration.outcomes)
        for (kind, ok), number in effects.items():
            self._metrics.count("tierwise_effects_total", kind, str(ok).lower(), by=number)
        if iteration.objects is not None:
            self._count_moves(iteration.objects)
        if iteration.drift is not None:
            self._metrics.set("tierwise_cache_drift_objects", len(iteration.drift), "Snapshot")
        self._log(iteration)
        self._latest = iteration
        if iteration.report.evictions:
            present_jobs = {job.key for job in iteration.snapshot.jobs}
            times = self._evicted + often_evicted((iteration.report,))
            self._evicted = Counter({key: number for key, number in times.items() if key in present_jobs})
        self._last = lambda: cycle_wire(
            iteration.snapshot, iteration.report, iteration.seconds
        )  # made when it is asked for

    def _count_moves(self, objects: Objects) -> None:
        """The defragmentation that is under way or was the last, by its record."""
        for path, config in objects.of_kind("", "ConfigMap").items():
            if path.endswith(f"/{RECORD_NAME}") and isinstance(config, ConfigMap):
                with contextlib.suppress(ValueError):  # the snapshot tells people
                    record = read_record(config)
                    moves = record.finished
                    self._metrics.defrag(str(record.phase), moves=len(moves), hours=sum(move.hours for move in moves))

    def crashed(self, crash: Crash) -> None:
        """Count a stage that raised."""
        self._metrics.count("tierwise_crashes_total", crash.stage, crash.key.kind if crash.key is not None else "")

    def _log(self, iteration: LoopPass) -> None:
        earlier = self._rejections
        self._rejections = iteration.report.rejections
        fields_of_jobs: dict[object, object] = {
            job: self._said[job] for job, rejection in self._rejections.items() if earlier.get(job) is rejection
        }
        lines = (
            decision_lines(iteration.snapshot, iteration.report, earlier),
            release_lines(iteration.snapshot, iteration.outcomes),
        )
        for text, fields in chain(*lines):
            if text == "waiting":
                job, fields_of_jobs[job] = fields["job"], (fields["pods"], fields["why"])
                if self._said.get(job) == fields_of_jobs[job]:
                    continue
            log.info(text, extra={"fields": fields})
        self._said = fields_of_jobs

    def last(self) -> Raw | None:
        """The last cycle; None before there was one."""
        return self._last() if self._last is not None else None

    def slow_writes(self) -> Mapping[str, tuple[int, float]]:
        """Writes without an answer, and the seconds since the oldest was sent, by namespace; from any thread."""
        return _slow(self._cluster.figures())

    def review(self) -> None:
        """Count what is used and what deserves attention after the last cycle; takes a while in a large cluster."""
        latest = self._latest
        if latest is None:
            return
        self._metrics.uses(latest.snapshot)
        seen = Seen(dict(self._evicted), self.slow_writes())
        counts = attention(latest.snapshot, latest.report, latest.profile, seen).counts
        for kind, number in counts.items():
            self._metrics.set("tierwise_attention", number, kind)

    def refresh(self) -> None:
        """Take the figures of the connection as they are now."""
        figures = self._cluster.figures()
        self._metrics.set("tierwise_leader", figures.leading)
        self._metrics.lease_losses(figures.losses)
        self._metrics.set("tierwise_binds_in_flight", figures.binds)
        self._metrics.slow_writes(_slow(figures))
        for what, waiting in figures.behind.items():
            self._metrics.set("tierwise_told_later", waiting.number, what)
            self._metrics.set("tierwise_told_later_seconds", waiting.seconds, what)
        for kind, seconds in figures.lag.items():
            self._metrics.set("tierwise_watch_lag_seconds", seconds, kind)
        for kind, number in figures.missed.items():
            self._metrics.set("tierwise_cache_drift_objects", number, kind)
