"""What a process tells about itself over plain HTTP: /metrics, /healthz, /readyz; and /debug on a port apart.

Aiohttp applications that the loop and the webhook serve. They change nothing. What is below /debug names the jobs and
nodes of all namespaces and costs time, so it is served only where it was asked for, to this machine alone or to those
who know a token.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from math import nan
from typing import Final, TypeVar

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry

from tierwise.api.codec import Raw
from tierwise.explain.message import decision_id, message
from tierwise.explain.rejection_wire import work_wire
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.runtime import metrics, profiling
from tierwise.runtime.access import LOOPBACK, Access, guarded

__all__ = ["Health", "OneAtATime", "cycle_wire", "debug", "probes"]

_THIS_MACHINE: Final = Access(hosts=LOOPBACK)
_EVERY: Final = 0.01
"""Seconds between two looks at the stacks."""
_LONGEST: Final = 60.0
"""Seconds for which one may measure."""
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"

T = TypeVar("T")

Health = Callable[[], str]
"""What is wrong at the moment, in a few words; "" where all is well."""


def probes(
    registry: CollectorRegistry,
    *,
    live: Health,
    ready: Health,
    refresh: Callable[[], None] = lambda: None,
    review: Callable[[], None] = lambda: None,
    notes: Callable[[], str] = str,
) -> web.Application:
    """Metrics and health; `refresh` is called before metrics are shown, and `review` in a thread, as it takes its time.

    `notes` is what people should know of although all is well, "" where there is nothing: it is said below "ok".
    """
    app = web.Application()

    async def serve_metrics(_: web.Request) -> web.Response:
        refresh()
        await asyncio.to_thread(review)
        return web.Response(body=metrics.text(registry), headers={"Content-Type": _TEXT})

    app.router.add_get("/metrics", serve_metrics)
    app.router.add_get("/healthz", _answer(live, notes))
    app.router.add_get("/readyz", _answer(ready, notes))
    return app


class OneAtATime:
    """Does work in a thread of its own; HTTPConflict for a second one meanwhile, because each slows the process."""

    def __init__(self) -> None:
        self._busy = asyncio.Lock()

    async def __call__(self, work: Callable[[], T]) -> T:
        """Result of the work, which runs in a thread."""
        if self._busy.locked():
            raise web.HTTPConflict(text="another measurement is running: try again later\n")
        async with self._busy:
            return await asyncio.to_thread(work)


def debug(
    latest_report: Callable[[], Raw | None],
    *,
    access: Access = _THIS_MACHINE,
    loops: Callable[[], Iterable[asyncio.AbstractEventLoop]] = tuple,
) -> web.Application:
    """The last cycle's report, and what the process is busy with; `loops` have the tasks that are shown."""
    app = web.Application(middlewares=[guarded(access)])
    measure = OneAtATime()

    async def serve_cycle(_: web.Request) -> web.Response:
        report = latest_report()
        if report is None:
            raise web.HTTPNotFound(text="there was no cycle yet\n")
        return _json(report)

    async def serve_profile(request: web.Request) -> web.Response:
        looks = int(_seconds(request) / _EVERY)
        form = request.query.get("format", "speedscope")
        if form not in ("speedscope", "folded"):
            raise web.HTTPBadRequest(text="format is speedscope or folded\n")
        profile = await measure(partial(profiling.sampled, looks, _EVERY, wait=time.sleep))
        if form == "folded":
            return web.Response(text=profiling.folded(profile))
        return _json(profiling.speedscope(profile, "tierwise"))

    async def serve_allocations(request: web.Request) -> web.Response:
        return _json(await measure(partial(profiling.allocations, _seconds(request), wait=time.sleep)))

    async def serve_threads(_: web.Request) -> web.Response:
        return _json(profiling.threads((asyncio.get_running_loop(), *loops())))

    app.router.add_get("/debug/cycle", serve_cycle)
    app.router.add_get("/debug/profile", serve_profile)
    app.router.add_get("/debug/allocations", serve_allocations)
    app.router.add_get("/debug/threads", serve_threads)
    return app


def _json(answer: Raw) -> web.Response:
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


def _seconds(request: web.Request) -> float:
    """For how long to measure, as the request says."""
    try:
        seconds = float(request.query.get("seconds", "5"))
    except ValueError:
        seconds = nan
    if not _EVERY <= seconds <= _LONGEST:
        raise web.HTTPBadRequest(text=f"seconds is a number from {_EVERY} to {_LONGEST:.0f}\n")
    return seconds


def _answer(health: Health, notes: Callable[[], str]) -> Handler:
    async def serve(_: web.Request) -> web.Response:
        fault = health()
        if fault:
            return web.Response(status=503, text=f"{fault}\n")
        noted = notes()
        return web.Response(text=f"ok\n{noted}\n" if noted else "ok\n")

    return serve


def cycle_wire(snapshot: Snapshot, report: CycleReport, stages: dict[str, float]) -> Raw:
    """A cycle for people who look into a running scheduler: times, decisions and refusals with their ids."""
    names = snapshot.topology.name
    tiers = snapshot.topology.tier
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
                "pods": {task.key: snapshot.nodes.names[row] for task, row in decision.places()},
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
