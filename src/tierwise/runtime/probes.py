"""What a process tells about itself over plain HTTP: /metrics, /healthz, /readyz; and /debug/cycle on a port apart.

Aiohttp applications that the loop and the webhook serve. They change nothing. /debug/cycle names the jobs and nodes of
all namespaces, so it is served only where it was asked for, and to this machine alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry

from tierwise.api.codec import Raw
from tierwise.explain.message import decision_id, message
from tierwise.explain.rejection_wire import work_wire
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.runtime import metrics

__all__ = ["Health", "cycle_wire", "debug", "probes"]

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"

Health = Callable[[], str]
"""What is wrong at the moment, in a few words; "" where all is well."""


def probes(
    registry: CollectorRegistry,
    *,
    live: Health,
    ready: Health,
    refresh: Callable[[], None] = lambda: None,
) -> web.Application:
    """Metrics and health; `refresh` is called before metrics are shown."""
    app = web.Application()

    async def serve_metrics(_: web.Request) -> web.Response:
        refresh()
        return web.Response(body=metrics.text(registry), headers={"Content-Type": _TEXT})

    app.router.add_get("/metrics", serve_metrics)
    app.router.add_get("/healthz", _answer(live))
    app.router.add_get("/readyz", _answer(ready))
    return app


def debug(last: Callable[[], Raw | None]) -> web.Application:
    """The last cycle's report."""
    app = web.Application()

    async def serve_cycle(_: web.Request) -> web.Response:
        report = last()
        if report is None:
            raise web.HTTPNotFound(text="there was no cycle yet\n")
        return web.Response(body=msgspec.json.encode(report), content_type="application/json")

    app.router.add_get("/debug/cycle", serve_cycle)
    return app


def _answer(health: Health) -> Handler:
    async def serve(_: web.Request) -> web.Response:
        fault = health()
        return web.Response(status=503, text=f"{fault}\n") if fault else web.Response(text="ok\n")

    return serve


def cycle_wire(snapshot: Snapshot, report: CycleReport, stages: dict[str, float]) -> Raw:
    """A cycle for people who look into a running scheduler: times, decisions and refusals with their ids."""
    names, tiers = snapshot.topology.name, snapshot.topology.tier
    return {
        "now": snapshot.now,
        "stages": dict(stages),
        "nodes": len(snapshot.nodes),
        "jobs": len(snapshot.jobs),
        "work": work_wire(report),
        "decisions": [
            {
                "decision": decision_id(snapshot.now, decision.job.key),
                "job": decision.job.key,
                "action": decision.action,
                "bound": decision.bound,
                "hyperNode": names[decision.domain],
                "tier": int(tiers[decision.domain]),
                "pods": {
                    task.key: snapshot.nodes.names[row]
                    for placed in decision.placed
                    for task, row in zip(placed.tasks, placed.rows.tolist(), strict=True)
                },
            }
            for decision in report.decisions
        ],
        "evictions": [
            {"pod": e.task.key, "by": e.by.key if e.by else "", "action": e.action, "reason": e.reason}
            for e in report.evictions
        ],
        "waiting": [
            {
                "decision": decision_id(snapshot.now, key),
                "job": key,
                "reason": rejection.reason.code,
                "message": message(rejection),
            }
            for key, rejection in report.rejections.items()
        ],
    }
