"""Traces of cycles: times are taken from outside, and what is decided does not depend on it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread

import msgspec
import pytest
from tests.support.draw import draw, gang, objects_of

from tierwise import __version__
from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT
from tierwise.explain.message import decision_id
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import CycleTimes, LoopPass, SchedulerProfile
from tierwise.runtime.tracing import TraceWriter, sending
from tierwise.scheduler import cycle
from tierwise.scheduler.guard import Crash
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import SCHEDULER_NAMES, build

OBJECTS = objects_of(
    draw("r0[n0 n1]", node="gpu=4"),
    gang("fits", tasks=1, each="gpu=4", within=1),
    gang("waits", tasks=4, each="gpu=4", within=1),
)


def _ticking() -> Callable[[], float]:
    """A clock that goes on by a second whenever it is asked."""
    moments = count()
    return lambda: float(next(moments))


def test_reports_are_the_same_whoever_looks_on() -> None:
    """Byte for byte, with times and without."""
    times = CycleTimes(_ticking(), 0.0)

    watched, plain = cycle(build(OBJECTS, 1234.5), DEFAULT, stopwatch=times), cycle(build(OBJECTS, 1234.5), DEFAULT)

    assert msgspec.msgpack.encode(repr(plain)) == msgspec.msgpack.encode(repr(watched))
    assert {"allocate", "backfill", "gang"} <= {one.name for one in times.found}


def test_actions_and_slow_gangs_are_timed() -> None:
    """A gang below the bound is left out; one above it is a part of its action."""
    snapshot = build(OBJECTS, 1234.5)
    slow, quick = CycleTimes(_ticking(), 1.0), CycleTimes(_ticking(), 1000.0)
    for times in (slow, quick):
        cycle(snapshot, DEFAULT, stopwatch=times)

    assert {"default/fits", "default/waits"} == {one.job for one in slow.found if one.name == "gang"}
    assert {"allocate"} == {one.parent for one in slow.found if one.name == "gang"}
    assert [] == [one for one in quick.found if one.name == "gang"]


class _Seen:
    def __init__(self) -> None:
        self.passes: list[LoopPass] = []

    def saw(self, iteration: LoopPass) -> None:
        self.passes.append(iteration)

    def crashed(self, crash: Crash) -> None:
        raise AssertionError(crash.text)


def _passes(*, traced: bool) -> list[LoopPass]:
    seen, ticks = _Seen(), _ticking()
    own = [SchedulerProfile(SCHEDULER_NAMES, DEFAULT)]
    times = (lambda: CycleTimes(ticks, 0.0)) if traced else None
    loop = Loop(EmbeddedCluster(OBJECTS), own, clock=lambda: 1234.5, ticks=ticks, observers=[seen], times=times)
    loop.run_once()
    return seen.passes


def test_nothing_is_timed_where_nobody_asked() -> None:
    """The loop has no times to hand on, and the core no stopwatch."""
    assert {None} == {one.times for one in _passes(traced=False)}


def test_a_bind_is_linked_to_its_decision() -> None:
    """Stages, actions and slow gangs are spans of one trace; a bind has the id that logs and events have."""
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    exporter, provider = memory.InMemorySpanExporter(), trace.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    writer = TraceWriter(provider.get_tracer("test"), ticks=lambda: 0.0, clock=lambda: 1000.0)
    seen = next(one for one in _passes(traced=True) if one.report.decisions)

    writer.saw(seen)

    spans = exporter.get_finished_spans()
    by_name = {span.name: span for span in spans}
    assert {"cycle", "read", "build", "decide", "apply", "publish", "allocate", "gang", "bind"} <= by_name.keys()
    assert 1 == len({span.context.trace_id for span in spans})
    assert decision_id(seen.snapshot.now, "default/fits") == by_name["bind"].attributes["tierwise.decision"]
    gangs = {span.context.span_id: span.attributes["tierwise.job"] for span in spans if span.name == "gang"}
    assert ["default/fits"] == [gangs[link.context.span_id] for link in by_name["bind"].links]
    assert by_name["decide"].context.span_id == by_name["allocate"].parent.span_id
    assert by_name["cycle"].start_time == min(span.start_time for span in spans) >= 1000 * 10**9


@contextmanager
def _receiving() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A receiver of OTLP over HTTP on loopback: its address, and the media types and bodies that came."""
    came: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append((self.headers["Content-Type"], self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/traces", came
        finally:
            server.shutdown()
            thread.join()


def test_what_is_sent_is_what_the_protocol_says() -> None:
    """Decoded by OpenTelemetry's own types: one trace of tierwise, in which a bind is linked to its gang."""
    wire = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    seen = next(one for one in _passes(traced=True) if one.report.decisions)
    with _receiving() as (url, came), sending(url, "--traces") as tracer:
        TraceWriter(tracer, ticks=lambda: 0.0, clock=lambda: 1000.0).saw(seen)

    ((kind, body),) = came
    (traces,) = wire.ExportTraceServiceRequest.FromString(body).resource_spans
    about = {one.key: one.value.string_value for one in traces.resource.attributes}
    spans = [span for scope in traces.scope_spans for span in scope.spans]
    names = {span.span_id: span.name for span in spans}
    by_name = {span.name: span for span in spans}
    assert ("application/x-protobuf", "tierwise", __version__) == (
        kind,
        about["service.name"],
        about["service.version"],
    )
    assert 1 == len({span.trace_id for span in spans})
    assert "" == names.get(by_name["cycle"].parent_span_id, "")
    assert {"cycle"} == {names[by_name[stage].parent_span_id] for stage in ("read", "build", "decide", "apply")}
    assert ("apply", ["gang"]) == (
        names[by_name["bind"].parent_span_id],
        [names[link.span_id] for link in by_name["bind"].links],
    )
    assert decision_id(seen.snapshot.now, "default/fits") in {
        one.value.string_value for one in by_name["bind"].attributes
    }


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that has it."""
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)

    with pytest.raises(InputError, match="install tierwise with the extra `tracing`"), sending("http://[::1]:1", "-t"):
        pass
