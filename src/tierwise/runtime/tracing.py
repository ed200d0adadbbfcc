"""Where the time of a cycle goes, as traces: one span for each action, and for each gang that takes long.

The core knows no clock. The loop hands it a `CycleTimes`, which takes the times of what begins and ends; what a cycle
decides does not depend on it. `TraceWriter`, an observer of the loop, makes spans of them when the cycle is over, so
that nothing is sent while it decides. The span of a bind carries the id of its decision, as logs and events do, and is
linked to the span of the gang, or of the action, that it was decided in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tierwise import __version__
from tierwise.api.extras import imported
from tierwise.explain.message import decision_id
from tierwise.runtime.profile_run import LoopPass, Timed
from tierwise.scheduler.guard import Crash

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, Tracer

__all__ = ["SLOW", "TraceWriter", "sending"]

SLOW: Final = 0.05
"""Seconds from which on a gang has a span of its own."""

_MOST_BINDS: Final = 100
"""Decisions of a cycle that have a span of their own; the span of the cycle counts all of them."""


class TraceWriter:
    """Makes spans of cycles that are over."""

    def __init__(self, tracer: Tracer, *, ticks: Callable[[], float], clock: Callable[[], float]) -> None:
        """`ticks` is the clock of the times, `clock` gives seconds since the epoch."""
        self._tracer = tracer
        self._ticks = ticks
        self._clock = clock

    def saw(self, iteration: LoopPass) -> None:
        """One trace for the cycle."""
        times = iteration.times
        report = iteration.report
        if times is None or not times.found:
            return
        since = self._clock() - self._ticks()
        begin = min(timed.begin for timed in times.found)
        end = max(timed.end for timed in times.found)
        root = self._span("cycle", begin, since)
        root.set_attributes(
            {
                "tierwise.nodes": len(iteration.snapshot.nodes),
                "tierwise.jobs": len(iteration.snapshot.jobs),
                "tierwise.decisions": len(report.decisions),
                "tierwise.evictions": len(report.evictions),
                "tierwise.waiting": len(report.rejections),
            }
        )
        spans = {"cycle": root}
        for span_time in sorted(times.found, key=lambda timed: (timed.begin, -timed.end)):
            span = self._span(span_time.name, span_time.begin, since, spans.get(span_time.parent, root))
            if span_time.job:
                span.set_attribute("tierwise.job", span_time.job)
                span.set_attribute("tierwise.decision", decision_id(iteration.snapshot.now, span_time.job))
            spans[f"gang {span_time.job}" if span_time.job else span_time.name] = span
            span.end(_nanoseconds(span_time.end, since))
        applied = next((timed for timed in times.found if timed.name == "apply"), None)
        if applied is not None:
            self._binds(iteration, applied, spans, since)
        root.end(_nanoseconds(end, since))

    def crashed(self, crash: Crash) -> None:
        """Traces are of cycles that ended."""

    def _binds(self, iteration: LoopPass, applied: Timed, spans: dict[str, Span], since: float) -> None:
        from opentelemetry.trace import Link

        for decision in [decision for decision in iteration.report.decisions if decision.bound][:_MOST_BINDS]:
            job = decision.job.key
            decided = spans.get(f"gang {job}") or spans.get(decision.action) or spans["cycle"]
            links = [Link(decided.get_span_context())]
            span = self._span("bind", applied.begin, since, spans["apply"], links)
            span.set_attribute("tierwise.job", job)
            span.set_attribute("tierwise.decision", decision_id(iteration.snapshot.now, job))
            span.set_attribute("tierwise.pods", decision.count())
            span.end(_nanoseconds(applied.end, since))

    def _span(
        self, name: str, begin: float, since: float, parent: Span | None = None, links: Sequence[Link] = ()
    ) -> Span:
        from opentelemetry.trace import set_span_in_context

        within = set_span_in_context(parent) if parent is not None else None
        return self._tracer.start_span(name, within, links=links, start_time=_nanoseconds(begin, since))


def _nanoseconds(ticks: float, since: float) -> int:
    return int((ticks + since) * 1e9)


@contextmanager
def sending(url: str, option: str) -> Iterator[Tracer]:
    """A tracer whose spans are sent to a collector by OTLP over HTTP, in a thread of its own."""
    exporter = imported("opentelemetry.exporter.otlp.proto.http.trace_exporter", "tracing", option)
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "tierwise", "service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(exporter.OTLPSpanExporter(url)))
    try:
        yield provider.get_tracer("tierwise")
    finally:
        provider.shutdown()
