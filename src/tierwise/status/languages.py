"""What a cycle means for groups of the other languages: each has a status of its own, written as its users know it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tierwise.api.codec import Object, Raw
from tierwise.api.core import Pod
from tierwise.api.scheduler_plugins import PodGroup as PluginGroup
from tierwise.explain.message import decision_id
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot
from tierwise.port import Effect, Objects, PatchStatus
from tierwise.status.koordinator import told

__all__ = ["language_status"]


def language_status(
    objects: Objects, snapshot: Snapshot, report: CycleReport, job: Job, bound: int
) -> Iterator[Effect]:
    """The status of the object that declares a job, and events about it, after a cycle that bound so many pods."""
    key = job.declared_by
    record: Object | None = objects.record(key) if key is not None else None
    if key is None or record is None:
        return
    events, marks = told(
        key, record.metadata, report.rejections.get(job.key), bound, decision_id(snapshot.now, job.key)
    )
    yield from events
    status = _of_plugin_group(objects, job, record) if isinstance(record, PluginGroup) else {}
    if status or marks:
        yield PatchStatus(key, status, marks)


# scheduling.x-k8s.io: the phase and the counts that the controller of these groups writes.


def _of_plugin_group(objects: Objects, job: Job, record: PluginGroup) -> Raw:
    """The fields that differ; a group that has finished or failed stays so, whatever becomes of its pods."""
    status = record.status
    if status.phase in ("Finished", "Failed"):
        return {}
    pods = objects.every(Pod)
    own = [pods[task.key] for task in job.tasks if task.key in pods]
    phases = Counter(pod.status.phase for pod in own)
    running, succeeded, failed = phases["Running"], phases["Succeeded"], phases["Failed"]
    phase = _phase(max(record.spec.min_member, 1), len(own), running, succeeded, failed)
    wanted: Raw = {"phase": phase, "running": running, "succeeded": succeeded, "failed": failed}
    if phase != "Pending" and not status.occupied_by and own and own[0].metadata.owner_references:
        owners = (
            f"{record.metadata.namespace or 'default'}/{owner.name}" for owner in own[0].metadata.owner_references
        )
        wanted["occupiedBy"] = ",".join(sorted(owners))
    known = {"phase": status.phase, "running": status.running, "succeeded": status.succeeded, "failed": status.failed}
    return {field: value for field, value in wanted.items() if known.get(field, "") != value}


def _phase(least: int, pods: int, running: int, succeeded: int, failed: int) -> str:
    """Pending until so many pods exist, then by what became of them."""
    if pods < least:
        return "Pending"
    if succeeded >= least:
        return "Finished"
    if failed and failed + running + succeeded >= least:
        return "Failed"
    return "Running" if succeeded + running >= least else "Scheduling"
