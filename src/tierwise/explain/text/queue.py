"""The page of `queue`: jobs that wait, by queue, in the order in which they are served, and what makes that order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import inf
from typing import cast

import msgspec

from tierwise.api.codec import Raw
from tierwise.explain.eta import clock_text, lasting
from tierwise.explain.naming import full_name
from tierwise.explain.page import Page, Text, count, heading, wrapped
from tierwise.explain.tables import Cell, table
from tierwise.framework.ledger import Ledger, stands_in_part
from tierwise.framework.pipeline import Pipeline
from tierwise.model.job import Job, Status
from tierwise.model.snapshot import Snapshot

__all__ = ["Place", "places", "queue_lines", "queue_wire"]

_JOBS = 20


class Place(msgspec.Struct, frozen=True, rename={"job": "podGroup", "pods": "podsWaiting"}):
    """One waiting job, its place, and what that follows from."""

    job: str
    name: str
    queue: str
    position: int
    of: int
    priority: int
    since: float  # when it was created; 0 where that is not known
    pods: int
    factors: dict[str, str]  # by plugin, in the order in which they count
    held: str = ""  # why it is held, or its queue


def places(
    snapshot: Snapshot, pipeline: Pipeline, waiting: Mapping[str, tuple[int, int]], queues: Sequence[str] = ()
) -> list[Place]:
    """Waiting jobs by queue and place; `waiting` has the place of each by key, and of how many."""
    ledger = Ledger(snapshot)
    queue_places = []
    for job in snapshot.jobs:
        if job.key not in waiting or (queues and job.queue not in queues):
            continue
        keys = cast("dict[str, tuple[float, ...]]", pipeline.job_factors(job))  # the rule keeps them apart
        factors = {}
        for name, key in keys.items():
            if key:
                factors[name] = _words(name, key, snapshot.now)
        if stands_in_part(ledger, job):
            factors = {"in part": "goes first among its priority", **factors}
        pods = sum(task.status in (Status.PENDING, Status.GATED) for task in job.tasks)
        position, number = waiting[job.key]
        queue_places.append(
            Place(
                job=job.key,
                name=full_name(job),
                queue=job.queue,
                position=position,
                of=number,
                priority=job.priority,
                since=job.created,
                pods=pods or job.minimum,
                factors=factors,
                held=_held(snapshot, job),
            )
        )
    return sorted(queue_places, key=lambda place: (place.queue, place.position))


def _held(snapshot: Snapshot, job: Job) -> str:
    if job.refusal is not None and job.refusal.code == "Held":
        return job.refusal.text
    queue = snapshot.queues.get(job.queue)
    if queue is not None and queue.held:
        return f"its queue is held: {queue.held}"
    return ""


def _words(plugin: str, key: Sequence[float], now: float) -> str:
    """What a plugin says of a job's place, in a few words; the smaller number goes first."""
    number = key[0]
    match plugin:
        case "priority":
            return f"{-number:g}"
        case "gang":
            return "has its minimum" if number else "below its minimum"
        case "sla":
            if number == inf:
                return "none"
            return f"until {clock_text(number, now)}"
        case "fairshare":
            return _fair_words(key)
        case "drf":
            return f"share {number:.3f}"
        case _:
            return ", ".join(f"{part:g}" for part in key)


def _fair_words(key: Sequence[float]) -> str:
    """Why usage puts a job where it is."""
    if not key[0]:
        return "has waited for the bound: goes first"
    return f"used {key[1]:.2f} of its part" if key[0] == 1.0 else "-"


def queue_lines(page: Page, queue_places: Sequence[Place], now: float) -> list[Text]:
    """Everything that `queue` tells people."""
    if not queue_places:
        return [Text("no job waits")]
    lines: list[Text] = []
    for queue, group in groupby(queue_places, key=lambda place: place.queue):
        jobs = list(group)
        title = f"queue {queue or 'none'}: {count(len(jobs), 'job')} waiting"
        lines += heading(title) if lines else [Text(title, style="bold")]
        plugins = list(dict.fromkeys(name for place in jobs for name in place.factors if name != "priority"))
        rows: list[Sequence[Cell]] = [
            (
                str(place.position),
                place.name,
                str(place.pods),
                lasting(now - place.since) if place.since else "-",
                str(place.priority),
                *(place.factors.get(name, "-") for name in plugins),
                Text(place.held, style="yellow"),
            )
            for place in jobs
        ]
        titles = (
            "position>",
            "job:12",
            "pods>",
            "waiting>",
            "priority>",
            *(f"{name}:6" for name in plugins),
            "held~16",
        )
        some_held = any(place.held for place in jobs)
        if not some_held:
            titles = titles[:-1]
            rows = [row[:-1] for row in rows]
        lines += table(page, titles, rows, most=None if page.everything else _JOBS, more="more jobs")
    order = "columns right of priority count in the order of the profile, then the older job goes first"
    return [*lines, Text(""), *wrapped(Text(order, style="dim"), page.width)]


def queue_wire(queue_places: Sequence[Place]) -> Raw:
    """The waiting jobs by queue and place, as JSON."""
    jobs = [msgspec.to_builtins(place) for place in queue_places]
    for job in jobs:
        del job["name"]
    return {"jobs": jobs}
