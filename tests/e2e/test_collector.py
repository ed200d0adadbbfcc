"""Traces in a real collector of OpenTelemetry, which prints what came: it needs no control plane.

`tools/control_plane --with otelcol` builds one. OTELCOL may name another, with the receiver `otlp` and the exporter
`debug`.
"""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import yaml
from tests.support.draw import draw, gang, objects_of
from tests.support.served_playground import program_of

from tierwise.config.profile import DEFAULT
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import CycleTimes, SchedulerProfile
from tierwise.runtime.tracing import TraceWriter, sending
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import SCHEDULER_NAMES

OBJECTS = objects_of(draw("r0[n0 n1]", node="gpu=4"), gang("fits", tasks=1, each="gpu=4", within=1))


@contextmanager
def _collecting(folder: Path) -> Iterator[tuple[str, Path]]:
    """The address of a collector, and the file that it prints into; whole once this has ended."""
    program = program_of("otelcol")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
    config, log = folder / "collector.yaml", folder / "collector.log"
    told = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": host}}}},
        "exporters": {"debug": {"verbosity": "detailed", "use_internal_logger": False}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["debug"]}},
        },
    }
    config.write_text(yaml.safe_dump(told))
    with log.open("wb") as out:
        process = subprocess.Popen([program, f"--config=file:{config}"], stdout=out, stderr=subprocess.STDOUT)
    try:
        while process.poll() is None and not _listens(host):
            time.sleep(0.05)
        yield f"http://{host}/v1/traces", log
    finally:
        process.terminate()
        process.wait(60)


def _listens(host: str) -> bool:
    name, _, port = host.partition(":")
    with socket.socket() as tried:
        return not tried.connect_ex((name, int(port)))


def test_a_collector_shows_the_cycle_and_its_binds(tmp_path: Path) -> None:
    """Who looks there finds the spans of the page about metrics, and goes from a bind to its gang."""
    ticks = map(float, count()).__next__
    with _collecting(tmp_path) as (url, log), sending(url, "--traces") as tracer:
        writer = TraceWriter(tracer, ticks=lambda: 0.0, clock=lambda: 1000.0)
        loop = Loop(
            EmbeddedCluster(OBJECTS),
            [SchedulerProfile(SCHEDULER_NAMES, DEFAULT)],
            clock=lambda: 1234.5,
            ticks=ticks,
            observers=[writer],
            times=lambda: CycleTimes(ticks, 0.0),
        )
        loop.run_once()

    shown = log.read_text()
    parts = shown.split("Span #")[1:]
    spans = [dict(re.findall(r"^ +(ID|Parent ID|Name) +: (\S*)$", part, re.MULTILINE)) for part in parts]
    names = {span["ID"]: span["Name"] for span in spans}
    parents = {span["Name"]: names.get(span["Parent ID"]) for span in spans}
    links = {
        span["Name"]: re.findall(r"-> ID: (\S+)$", part, re.MULTILINE) for span, part in zip(spans, parts, strict=True)
    }
    assert "service.name: Str(tierwise)" in shown
    assert (None, "cycle", "decide", "allocate", "apply") == tuple(
        parents[name] for name in ("cycle", "decide", "allocate", "gang", "bind")
    )
    assert ["gang"] == [names[link] for link in links["bind"]]
