"""The effects of a report: pods to bind, and pods to nominate while their gang waits for resources."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from tierwise import port
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.eviction_terms import NOTICE
from tierwise.api.pattern import COORDINATES, RANK, RANKS
from tierwise.api.resource import ResourceClaim
from tierwise.framework.report import CycleReport, Decision, PlacedTasks
from tierwise.model.job import Job, Reason, Rejection, Status, Task, other_job
from tierwise.model.job import told as told_in
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, Topology

__all__ = ["amended", "effects", "pod_key"]


def effects(snapshot: Snapshot, report: CycleReport, *, observes: bool = True) -> list[port.Effect]:
    """Decisions pod by pod, in the order in which they fell.

    Whoever holds places is answered where `observes` says that no earlier bind that did not know of them is under way.
    """
    return [
        *_evictions(report),
        *_notices(snapshot, report),
        *report.writes,
        *_placements(snapshot, report),
        *_dropped(snapshot, report),
        *_deallocated(snapshot, report),
        *(_observed(snapshot) if observes else ()),
    ]


def _observed(snapshot: Snapshot) -> Iterator[port.Effect]:
    """To whoever holds places: from here on cycles respect them."""
    if not snapshot.held_places.unobserved:
        return
    from tierwise.api.defrag_record import OBSERVED  # few clusters are defragmented

    for key, revision in snapshot.held_places.unobserved:
        yield port.PatchStatus(key, {}, {OBSERVED: str(revision)})


def _evictions(report: CycleReport) -> Iterator[port.Effect]:
    for eviction in report.evictions:
        by = eviction.by.key if eviction.by is not None else ""
        yield port.Evict(
            pod_key(eviction.task.key), eviction.reason, by, eviction.action, past_budgets=eviction.past_budgets
        )


def _notices(snapshot: Snapshot, report: CycleReport) -> Iterator[port.Effect]:
    """Conditions of pods that are told when they go, and of those that stay after all."""
    noticed = {notice.task.key for notice in report.notices} | {eviction.task.key for eviction in report.evictions}
    for notice in report.notices:
        if not 0.0 < notice.task.noticed <= snapshot.now:  # a time in the future is that of a clock which was ahead
            key = pod_key(notice.task.key)
            names = (other_job(notice.by.key),) if notice.by is not None else ()
            text = told_in(f"{notice.reason}; it will be evicted at {format_time(notice.until)}", names, key.namespace)
            yield port.PatchStatus(key, {"conditions": [_condition(snapshot, "True", "ToBeEvicted", text)]})
            yield port.RecordEvent(key, "Normal", NOTICE, text)
    for job in snapshot.jobs:
        if job.terms is not None and job.terms.notice:
            for task in job.tasks:
                if task.key in snapshot.held_places.moving:
                    continue  # who moves it has given it notice
                if task.noticed and task.status is Status.RUNNING and task.key not in noticed:
                    gone = _condition(snapshot, "False", "Withdrawn", "it is not going to be evicted any more")
                    yield port.PatchStatus(pod_key(task.key), {"conditions": [gone]})


def _condition(snapshot: Snapshot, status: str, reason: str, text: str) -> Raw:
    since = format_time(snapshot.now)
    return {"type": NOTICE, "status": status, "reason": reason, "message": text, "lastTransitionTime": since}


def _dropped(snapshot: Snapshot, report: CycleReport) -> Iterator[port.Effect]:
    """Nominations of pods that found no place when their job was tried, or whose group is gone: the room is not theirs.

    Whoever serves a job gives back all that it was nominated for, so what no decision names is free for others.
    """
    for path in snapshot.forsaken:
        yield port.Nominate(pod_key(path), "")
    decided: dict[int, list[Decision]] = {}
    for decision in report.decisions:
        decided.setdefault(decision.job.number, []).append(decision)
    for job in snapshot.nominated:
        if job.key not in report.rejections and job.number not in decided:
            continue
        nominated = [task for task in job.tasks if task.nominated >= 0 and task.status is Status.PENDING]
        kept_tasks = set()
        for d in decided.get(job.number, ()):
            for p in d.placed:
                for t in p.tasks:
                    kept_tasks.add(t.key)
        yield from (
            port.Nominate(pod_key(task.key), "", gang=job.key) for task in nominated if task.key not in kept_tasks
        )


def _placements(snapshot: Snapshot, report: CycleReport) -> Iterator[port.Effect]:
    names = snapshot.nodes.names
    numbers = snapshot.nodes.number
    leaves = snapshot.topology.leaf
    places: dict[int, dict[str, str]] = {}
    for decision in report.decisions:
        for placed in decision.placed:
            for task, row in zip(placed.tasks, placed.rows.tolist(), strict=True):
                if not decision.bound:
                    if task.nominated != numbers[row]:
                        yield port.Nominate(pod_key(task.key), names[row], gang=decision.job.key)
                    continue
                leaf = int(leaves[row])
                if leaf not in places:
                    places[leaf] = _place(snapshot.topology, leaf)
                annotations = places[leaf] | _rank(decision.job, task)
                claims = tuple((key, "") for key in _claims(task))
                yield port.Bind(pod_key(task.key), names[row], annotations, gang=decision.job.key, claims=claims)


def _claims(task: Task) -> Iterator[port.Key]:
    """The claims that a task means, of volumes and of devices."""
    for path in task.volume_names:
        yield port.Key.at("", "PersistentVolumeClaim", path)
    if task.claims:
        from tierwise.plugins.kubernetes.claim_writes import claim_key  # few clusters have claims of devices

        yield from map(claim_key, task.claims)


def _deallocated(snapshot: Snapshot, report: CycleReport) -> Iterator[port.Effect]:
    """Devices that pods hold without a node, and that did not find one with them: left from a bind that failed.

    Kubernetes gives such devices back as well. A claim that others may use is left alone.
    """
    if snapshot.devices is None:
        return
    from tierwise.plugins.kubernetes.claim_writes import claim_key, deallocation  # as above

    written = {write.key for write in report.writes}
    for job in snapshot.jobs:
        if job.key not in report.rejections or any(d.job is job for d in report.decisions):
            continue
        waiting = [task for task in job.tasks if task.status is Status.PENDING and task.claims]
        for path in dict.fromkeys(path for task in waiting for path in task.claims):
            claim = snapshot.devices.claims.get(path)
            if claim is None or claim.status.allocation is None or claim_key(path) in written:
                continue
            if _reserved_for_these_alone(claim, waiting):
                yield deallocation(path, claim)


def _reserved_for_these_alone(claim: ResourceClaim, tasks: Sequence[Task]) -> bool:
    """True if a claim is reserved, and for none but these tasks."""
    names = {task.key.partition("/")[2] for task in tasks}
    uids = {task.uid for task in tasks}
    consumers = claim.status.reserved_for
    return bool(consumers) and all(
        consumer.uid in uids if consumer.uid else consumer.name in names for consumer in consumers
    )


def _place(topology: Topology, leaf: int) -> dict[str, str]:
    """Where nodes of an innermost domain stand, as their pods are told: its name, and the way to it."""
    chain = []
    while leaf != ROOT:
        chain.append(topology.name[leaf])
        leaf = int(topology.parent[leaf])
    return {port.HYPERNODE_ANNOTATION: chain[0], port.PATH_ANNOTATION: "/".join(reversed(chain))} if chain else {}


def _rank(job: Job, task: Task) -> dict[str, str]:
    """Annotations of a task of a job with a pattern: its rank, the number of ranks, and its place in the grid."""
    if job.pattern is None:
        return {}
    rank = job.ranks[task.key]
    ranks = job.world_size
    place = job.pattern.coordinates(rank, ranks)
    return {RANK: str(rank), RANKS: str(ranks)} | ({COORDINATES: place} if place else {})


def pod_key(path: str) -> port.Key:
    """The identity of a pod by its namespace/name."""
    return port.Key.at("", "Pod", path)


# A report after its effects were carried out: what could not be bound was not placed, whatever the cycle decided.


def _keys_among(decision: Decision, keys: Container[str]) -> list[str]:
    """Keys of the tasks that a decision places, of those that are among `keys`."""
    found = []
    for placed in decision.placed:
        found += [task.key for task in placed.tasks if task.key in keys]
    return found


def amended(report: CycleReport, outcomes: Iterable[port.Outcome]) -> CycleReport:
    """The report with pods whose bind failed taken out of its decisions, and their jobs rejected at stage "bind"."""
    failed: dict[str, port.Outcome] = {}
    unprepared: dict[str, port.Outcome] = {}
    for outcome in outcomes:
        if not outcome.ok and isinstance(outcome.effect, port.Bind):
            failed[outcome.effect.pod.path] = outcome
        elif not outcome.ok and isinstance(outcome.effect, port.Prepare):
            unprepared.setdefault(outcome.effect.gang, outcome)
    if not failed:
        return report
    decisions: list[Decision] = []
    rejections = dict(report.rejections)
    for decision in report.decisions:
        lost = _keys_among(decision, failed)
        if not decision.bound or not lost:
            decisions.append(decision)
            continue
        decisions.append(replace(decision, placed=tuple(_left(placed, failed.keys()) for placed in decision.placed)))
        rejections[decision.job.key] = _rejection(
            decision, [failed[key] for key in lost], unprepared.get(decision.job.key)
        )
    undone = tuple(decision for decision in decisions if decision.count())
    return replace(report, decisions=undone, rejections=rejections)


def _left(placed: PlacedTasks, failed: Iterable[str]) -> PlacedTasks:
    indexes = [i for i, task in enumerate(placed.tasks) if task.key not in failed]
    return replace(
        placed, tasks=tuple(placed.tasks[i] for i in indexes), rows=placed.rows[np.array(indexes, dtype=np.intp)]
    )


def _rejection(decision: Decision, lost: list[port.Outcome], unprepared: port.Outcome | None) -> Rejection:
    """The first failure that is one of its own says why; binds withheld for its sake do not."""
    telling = unprepared or next((o for o in lost if not o.withheld), lost[0])
    effect = telling.effect
    assert isinstance(effect, port.Bind | port.Prepare)
    about = effect.pod.path if isinstance(effect, port.Bind) else str(effect.key)
    text = f"{len(lost)} of {decision.count()} pods could not be bound: {about}: {telling.error}"
    return Rejection("bind", decision.job.key, Reason("BindFailed", "bind", text))
