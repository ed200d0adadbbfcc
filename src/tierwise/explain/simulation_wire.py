"""The JSON of `submit`: what became of jobs, podGroups and pods. docs/reference/json.md describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.controllers.stamp import stamp
from tierwise.explain.job_status import job_progress, jobs_wire
from tierwise.explain.timeline import TimelineEntry
from tierwise.explain.wire import pending_wire, pod_groups_wire
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects

__all__ = ["View", "life_wire"]


class View(msgspec.Struct, frozen=True):
    """A cluster at one moment, and what has happened shortly before."""

    at: float
    objects: Objects
    snapshot: Snapshot
    report: CycleReport
    recent: Sequence[TimelineEntry]
    places: Mapping[str, str]  # the hyperNode where each podGroup was last placed
    cycles: int = 0
    unfinished: bool = False


def life_wire(view: View, start: float) -> Raw:
    """Everything but the timeline."""
    return {
        "start": stamp(start),
        "end": stamp(start + view.at),
        "elapsed": int(view.at),
        "cycles": view.cycles,
        "unfinished": view.unfinished,
        "jobs": jobs_wire(job_progress(view.objects, view.snapshot, view.places)),
        "podGroups": pod_groups_wire(view.snapshot),
        "pods": {path: _pod(pod) for path, pod in view.objects.every(Pod).items()},
        "pending": pending_wire(view.snapshot, view.report, {}),
    }


def _pod(pod: Pod) -> Raw:
    """Where a pod is, what it is doing, and how its containers last ended."""
    first = next(iter(pod.status.container_statuses), None)
    ended = (first.state.terminated or first.last_state.terminated) if first is not None else None
    return {
        "phase": pod.status.phase or "Pending",
        "node": pod.spec.node_name,
        "exitCode": ended.exit_code if ended is not None else None,
        "restarts": first.restart_count if first is not None else 0,
    }
