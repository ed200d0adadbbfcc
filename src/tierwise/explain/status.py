"""What a report means for pod groups: phase, conditions, chosen domain, events. Only changes are asked for."""

from __future__ import annotations

from collections.abc import Iterator

from tierwise.api.codec import Raw
from tierwise.api.volcano import PodGroup
from tierwise.explain.decisions import decision_id
from tierwise.explain.message import message
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, Phase, Status
from tierwise.model.reason import Rejection
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT
from tierwise.port import Effect, Key, Objects, PatchStatus, RecordEvent

__all__ = ["DOMAIN_ANNOTATION", "TIER_ANNOTATION", "statuses"]

DOMAIN_ANNOTATION = "tierwise.io/hypernode"
TIER_ANNOTATION = "tierwise.io/tier"
_GROUP = "scheduling.volcano.sh"


def statuses(objects: Objects, snapshot: Snapshot, report: CycleReport) -> list[Effect]:
    """Status patches and events of the pod groups that a cycle changed."""
    return [effect for job in snapshot.jobs if job.declared for effect in _of(objects, snapshot, report, job)]


def _of(objects: Objects, snapshot: Snapshot, report: CycleReport, job: Job) -> Iterator[Effect]:
    namespace, _, name = job.key.partition("/")
    record = objects.every(PodGroup).get(job.key)
    if record is None:
        return
    key = Key(_GROUP, "PodGroup", namespace, name)
    bound = sum(d.count() for d in report.decisions if d.job is job and d.bound)
    rejection = report.rejections.get(job.key)
    phase = _phase(job, report, bound)
    status: Raw = {}
    if record.status.phase != phase.value:
        status["phase"] = phase.value
    condition = _condition(job, rejection, bound)
    if condition is not None and not any(
        _same(condition, c.type, c.reason, c.message) for c in record.status.conditions
    ):
        status["conditions"] = [condition]
        kind = "Warning" if rejection is not None else "Normal"
        decision = decision_id(snapshot.now, job.key)
        yield RecordEvent(key, kind, str(condition["type"]), str(condition["message"]), decision)
    if bound or rejection is not None:
        yield from _unknown_tiers(snapshot, job, key)
    annotations = _domain(snapshot, report, job) if bound else {}
    if status or any(record.metadata.annotations.get(k) != v for k, v in annotations.items()):
        yield PatchStatus(key, status, annotations)


def _unknown_tiers(snapshot: Snapshot, job: Job, key: Key) -> Iterator[Effect]:
    """A tier name that no hyperNode has limits nothing: people should hear of it."""
    for constraint in (job.constraint, *(policy.constraint for policy in job.policies)):
        if constraint is not None and constraint.tier_name and constraint.tier_name not in snapshot.topology.tier_names:
            text = f"highestTierName {constraint.tier_name} is not the tierName of any hyperNode, so it limits nothing"
            yield RecordEvent(key, "Warning", "UnknownTierName", text)


def _phase(job: Job, report: CycleReport, bound: int) -> Phase:
    """Running once the minimum stands; Unknown where some stand and the rest cannot be placed."""
    held = sum(task.status in (Status.RUNNING, Status.RELEASING, Status.SUCCEEDED) for task in job.tasks) + bound
    ended = sum(task.status is Status.SUCCEEDED for task in job.tasks)
    if job.tasks and ended == len(job.tasks):
        return Phase.COMPLETED
    if held and held >= job.minimum:
        return Phase.RUNNING
    if held and job.key in report.rejections:
        return Phase.UNKNOWN
    return report.phases.get(job.key, job.phase)


def _condition(job: Job, rejection: Rejection | None, bound: int) -> Raw | None:
    if rejection is not None:
        pending = sum(len(part.tasks) for part in job.parts()) - bound
        text = f"{pending}/{len(job.tasks)} tasks in gang unschedulable: {message(rejection)}"
        return {"type": "Unschedulable", "status": "True", "reason": rejection.reason.code, "message": text}
    if bound:
        text = "tasks in gang are ready to be scheduled"
        return {
            "type": "Scheduled",
            "status": "True",
            "reason": "tasks in gang are ready to be scheduled",
            "message": text,
        }
    return None


def _same(condition: Raw, *values: str) -> bool:
    return (condition["type"], condition["reason"], condition["message"]) == values


def _domain(snapshot: Snapshot, report: CycleReport, job: Job) -> dict[str, str]:
    last = [d for d in report.decisions if d.job is job][-1]
    if last.domain == ROOT:
        return {}
    topology = snapshot.topology
    return {DOMAIN_ANNOTATION: topology.name[last.domain], TIER_ANNOTATION: str(int(topology.tier[last.domain]))}
