"""Why no cycle searched for a node for a pod: it has one, it is gated, or its job was never served."""

from __future__ import annotations

from tierwise.api.core import Pod
from tierwise.explain.message import message
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects

__all__ = ["unreached"]


def unreached(objects: Objects, after: Snapshot, report: CycleReport | None, pod: str) -> str | None:
    """One line; None where there is no such pod."""
    record = objects.every(Pod).get(pod)
    if record is None:
        return None
    if record.spec.node_name:
        return f"it is on node {record.spec.node_name} already"
    if record.status.ended:
        return f"it has ended: {record.status.phase}"
    if record.spec.scheduling_gates:
        return "it is behind scheduling gates: " + ", ".join(gate.name for gate in record.spec.scheduling_gates)
    if pod in after.orphans:
        return f"its {after.orphans[pod].text}"
    job = next((job for job in after.jobs if any(task.key == pod for task in job.tasks)), None)
    if job is None:
        return f"its scheduler is {record.spec.scheduler_name}, which is not served here"
    rejection = report.rejections.get(job.key) if report is not None else None
    if rejection is not None:
        return message(rejection)
    return "no cycle reached its job"
