"""Structured logs, decision ids and the pages of a running process."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re

from aiohttp.test_utils import TestClient, TestServer
from tests.support.draw import draw, gang, objects_of

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.explain.message import decision_id
from tierwise.port import RecordEvent
from tierwise.runtime.logs import JsonLines, decision_lines
from tierwise.runtime.metrics import Metrics, registry
from tierwise.runtime.probes import cycle_wire, debug, probes
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build
from tierwise.status.pod_group import statuses

OBJECTS = objects_of(
    draw("r0[n0 n1]", node="gpu=4"),
    gang("fits", tasks=1, each="gpu=4", within=1),
    gang("waits", tasks=4, each="gpu=4", within=1),
)
SNAPSHOT = build(OBJECTS, 1234.5)
REPORT = cycle(SNAPSHOT, DEFAULT)


def test_a_line_is_one_json_object_with_a_time() -> None:
    """Fields stand beside time, level and message, a traceback too, and quieter lines are left out."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonLines())
    log = logging.Logger("tierwise.test", "INFO")
    log.addHandler(handler)

    log.debug("too quiet")
    log.warning("a line\nbroken in %s", "two", extra={"fields": {"job": "default/train", "pods": 3}})
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("failed")

    first, second = map(json.loads, out.getvalue().splitlines())
    moment = first.pop("time")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", moment)
    said = {"level": "warning", "logger": "tierwise.test", "message": "a line\nbroken in two"}
    assert said | {"job": "default/train", "pods": 3} == first
    assert second["trace"].endswith("ValueError: no")


def test_the_event_and_the_log_carry_the_same_id() -> None:
    """Whoever sees an event finds the line of its decision."""
    logged = {str(fields["job"]): (text, fields["decision"]) for text, fields in decision_lines(SNAPSHOT, REPORT)}
    events = [effect for effect in statuses(OBJECTS, SNAPSHOT, REPORT) if isinstance(effect, RecordEvent)]

    assert ("bound", decision_id(1234.5, "default/fits")) == logged["default/fits"]
    assert ("waiting", decision_id(1234.5, "default/waits")) == logged["default/waits"]
    assert {event.about.path: event.decision for event in events} == {job: found[1] for job, found in logged.items()}


def test_an_id_depends_on_the_moment_and_the_job_alone() -> None:
    """The same decision has the same id wherever it is replayed, others have others."""
    assert decision_id(1.0, "default/a") == decision_id(1.0, "default/a")
    assert 3 == len({decision_id(1.0, "default/a"), decision_id(2.0, "default/a"), decision_id(1.0, "default/b")})


def test_the_pages_answer() -> None:
    """Metrics, health and the last cycle can be read; what is not well says so with status 503."""
    asyncio.run(_visit())


async def _visit() -> None:
    found = registry()
    Metrics(found).observe(SNAPSHOT, REPORT, {})
    faults, reports = ["no lease yet"], list[Raw]()
    app = probes(found, live=lambda: "", ready=lambda: faults[0])
    async with TestClient(TestServer(app)) as client:
        assert (503, "no lease yet\n") == await _get(client, "/readyz")
        assert (200, "ok\n") == await _get(client, "/healthz")
        assert (404, "404: Not Found") == await _get(client, "/debug/cycle")
        faults[0] = ""
        assert (200, "ok\n") == await _get(client, "/readyz")
        assert "tierwise_cycles_total 1.0" in (await _get(client, "/metrics"))[1]
    async with TestClient(TestServer(debug(lambda: reports[-1] if reports else None))) as client:
        assert (404, "there was no cycle yet\n") == await _get(client, "/debug/cycle")
        reports.append(cycle_wire(SNAPSHOT, REPORT, {"decide": 0.1}))
        shown = json.loads((await _get(client, "/debug/cycle"))[1])
    assert [("default/fits", True, {"default/fits-0": "n0"})] == [
        (d["job"], d["bound"], d["pods"]) for d in shown["decisions"]
    ]
    assert ["default/waits"] == [entry["job"] for entry in shown["waiting"]]


async def _get(client: TestClient, path: str) -> tuple[int, str]:  # type: ignore[type-arg]
    async with client.get(path) as answer:
        return answer.status, await answer.text()
