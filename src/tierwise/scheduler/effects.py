"""What a report asks of the cluster: pods to bind, and pods to nominate while their gang waits for room."""

from __future__ import annotations

from collections.abc import Iterator

from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Bind, Effect, Key, Nominate

__all__ = ["effects", "pod_key"]


def effects(snapshot: Snapshot, report: CycleReport) -> list[Effect]:
    """Decisions pod by pod, in the order in which they fell."""
    return list(_placements(snapshot, report))


def _placements(snapshot: Snapshot, report: CycleReport) -> Iterator[Effect]:
    names = snapshot.nodes.names
    for decision in report.decisions:
        make = Bind if decision.bound else Nominate
        for placed in decision.placed:
            for task, row in zip(placed.tasks, placed.rows.tolist(), strict=True):
                yield make(pod_key(task.key), names[row])


def pod_key(path: str) -> Key:
    """The identity of a pod by its namespace/name."""
    namespace, _, name = path.partition("/")
    return Key("", "Pod", namespace, name)
