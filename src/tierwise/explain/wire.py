"""The JSON that the commands print: a contract with scripts, kept stable. docs/reference/json.md describes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

import numpy as np

from tierwise.actions.diagnosis.inspection import Candidates, PodInspection
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.explain.free_slots import slots_wire
from tierwise.explain.idle_room import idle_room_wire
from tierwise.explain.job_location import DomainLocation, job_location
from tierwise.explain.message import message, refusal
from tierwise.explain.naming import sub_id
from tierwise.explain.rejection_wire import (
    FORMAT,
    eviction_wire,
    evictions_wire,
    pod_group_of,
    rejection_wire,
    tried_wire,
    work_wire,
)
from tierwise.framework.report import CycleReport, Decision, Eviction, Reservation
from tierwise.model.job import Job, Rejection, Status, Verdict
from tierwise.model.snapshot import Fault, Snapshot
from tierwise.model.topology import Problem, Topology

__all__ = [
    "candidates_wire",
    "explain_wire",
    "faults_wire",
    "notices_wire",
    "pending_wire",
    "pod_group_wire",
    "pod_groups_of",
    "pod_groups_wire",
    "problem_wire",
    "problems_wire",
    "reservation_wire",
    "reserved_rows",
    "schedule_wire",
    "topology_wire",
    "why_waiting",
]


def schedule_wire(
    *,
    bindings: Mapping[str, str],
    nominations: Mapping[str, str],
    evictions: Iterable[Eviction],
    report: CycleReport,
    after: Snapshot,
    complaints: Iterable[Fault] = (),
    decisions: Mapping[str, Sequence[Decision]] = {},
) -> Raw:
    """What `schedule` did. `report` is the last cycle's, `after` is the cluster once it was over, `decisions` are those
    of all cycles by job key.
    """
    return {
        "formatVersion": FORMAT,
        "bindings": dict(bindings),
        "nominations": dict(nominations),
        "evictions": evictions_wire(evictions),
        "pending": pending_wire(after, report, nominations),
        "podGroups": pod_groups_wire(after, decisions),
        "problems": problems_wire(after, complaints),
        "work": work_wire(report),
        **reservations_wire(after, report),
        **({"idleRoom": idle_rooms} if (idle_rooms := idle_room_wire(report)) else {}),
        **notices_wire(report),
    }


def problems_wire(snapshot: Snapshot, complaints: Iterable[Fault] = ()) -> list[Raw]:
    """Problems of the tree and of other objects as JSON."""
    return [*map(problem_wire, snapshot.topology.problems), *faults_wire((*snapshot.faults, *complaints))]


def faults_wire(faults: Iterable[Fault]) -> list[Raw]:
    """Objects that are well-formed but wrong, or of which something has no effect."""
    return [{"object": fault.subject, "code": fault.code, "message": fault.text} for fault in faults]


def notices_wire(report: CycleReport) -> Raw:
    """Pods that are to be evicted and have time left, under one key; nothing where there are none."""
    notices = [
        {
            "pod": notice.task.key,
            "podGroup": pod_group_of(notice.job, notice.task),
            "by": notice.by.key if notice.by is not None else "",
            "until": format_time(notice.until),
            "reason": notice.reason,
        }
        for notice in report.notices
    ]
    return {"notices": notices} if notices else {}


def pending_wire(snapshot: Snapshot, report: CycleReport, nominations: Mapping[str, str]) -> list[Raw]:
    """Every pod of ours without a place, with the reason of its job; a job without pods has an entry of its own."""
    rows: list[Raw] = []
    for job in snapshot.jobs:
        rejection = refusal(job, report)
        if rejection is not None and not job.tasks:
            rows += [_waiting("", group, why_waiting(job, rejection)) for group in pod_groups_of(job)]
        for task in job.tasks:
            group = pod_group_of(job, task)
            gated = task.status is Status.GATED
            if not gated and (task.status is not Status.PENDING or task.key in nominations):
                continue
            rows.append(_waiting(task.key, group, why_waiting(job, rejection, gated=gated)))
    for pod, orphan in snapshot.orphans.items():
        rows.append(_waiting(pod, orphan.group, (Verdict.NOT_ALLOWED, "PodGroupNotFound", orphan.text)))
    return rows


def _waiting(pod: str, group: str, why: tuple[Verdict, str, str]) -> Raw:
    verdict, reason, text = why
    return {"pod": pod, "podGroup": group, "verdict": verdict.value, "reason": reason, "message": text}


def why_waiting(job: Job, rejection: Rejection | None, *, gated: bool = False) -> tuple[Verdict, str, str]:
    """Verdict, code and sentence for a pod of a job that has no place."""
    if gated:
        return Verdict.NOT_ALLOWED, "SchedulingGated", "the pod has scheduling gates"
    if rejection is None:
        return Verdict.NOT_NOW, "NotTried", f"no cycle has reached {job.key} yet"
    return rejection.verdict, rejection.reason.code, message(rejection)


def pod_groups_wire(snapshot: Snapshot, decisions: Mapping[str, Sequence[Decision]] = {}) -> Raw:
    """Every pod group: its phase, where it and its sub-groups stand, and what put its hyperNode before others."""
    groups: Raw = {}
    for job in snapshot.jobs:
        for key in pod_groups_of(job):
            if key not in groups or key == job.key:  # which one job has, where two languages share a name
                terms = decisions[job.key][0].terms if decisions.get(job.key) else ()
                decided = {"decidedBy": [str(term) for term in terms]} if terms else {}
                groups[key] = {**pod_group_wire(snapshot, job, key), **decided}
    return groups


def pod_groups_of(job: Job) -> tuple[str, ...]:
    """The pod groups behind a job: one, or all gangs of a group that starts as one; none for a lone pod."""
    return job.gangs or ((job.key,) if job.declared else ())


def pod_group_wire(snapshot: Snapshot, job: Job, key: str) -> Raw:
    """One pod group of a job; the job's own key means all of them."""
    location = job_location(snapshot, job, of=lambda task: key in (job.key, pod_group_of(job, task)))
    subs: Raw = {sub: _where(place) for sub, place in location.subs.items()}
    return {"phase": job.phase.value, **_where(location.whole), "subGroups": subs}


def _where(place: DomainLocation | None) -> Raw:
    """The innermost domain that holds something; nothing where no pod runs."""
    return {"hyperNode": place.name, "tier": place.tier} if place is not None else {"hyperNode": "", "tier": None}


def explain_wire(inspection: PodInspection, report: CycleReport) -> Raw:
    """The search for one pod as JSON: candidates, scores, and the answer of every node."""
    return {
        "formatVersion": FORMAT,
        "pod": inspection.task.key,
        "podGroup": pod_group_of(inspection.job, inspection.task),
        "subGroup": sub_id(inspection.sub),
        "searchedIn": inspection.within,
        "gradients": [list(group) for group in inspection.gradients],
        **candidates_wire(inspection.candidates),
        **({"constraints": [tried_wire(tried) for tried in inspection.fabrics]} if inspection.fabrics else {}),
        "nodes": {
            node.name: {
                "feasible": node.feasible,
                "now": node.now,
                "withinReach": node.within_reach,
                "reasons": list(node.reasons),
                "scores": node.scores,
                "total": node.total,
                **({"figures": node.figures} if node.figures else {}),
            }
            for node in inspection.nodes
        },
        **rejection_wire(report.rejections.get(inspection.job.key)),
        "eviction": eviction_wire(report.eviction_attempts.get(inspection.job.key, ())),
    }


def candidates_wire(candidates: Candidates) -> Raw:
    """The hyperNodes that hold a gang, in the order of the search, and why the first comes before the others."""
    return {
        "hyperNodeScores": dict(candidates.scores),
        "decidedBy": [str(term) for term in candidates.decided],
        "hyperNodeTerms": {
            name: {str(t): value for t, value in terms.items()} for name, terms in candidates.terms.items() if terms
        },
    }


def problem_wire(problem: Problem) -> Raw:
    """A problem of a declared domain as JSON."""
    return {
        "object": f"HyperNode {problem.domain}",
        "code": problem.code,
        "message": problem.text,
        "severity": "error" if problem.error else "warning",
    }


def topology_wire(snapshot: Snapshot) -> Raw:
    """The tree, domain by domain, with every problem that was found while growing it; further trees by their kind."""
    topology = snapshot.topology
    names = snapshot.nodes.names
    other_trees: Raw = {}
    for kind, alternate in snapshot.alternate_topologies.items():
        inside = _domains(alternate.topology, [names[row] for row in alternate.rows.tolist()])
        other_trees[kind] = {
            "root": alternate.topology.name[0],
            "hyperNodes": inside,
            "problems": [problem_wire(problem) for problem in alternate.topology.problems],
            "setAside": list(alternate.topology.set_aside),
        }
    return {
        "root": topology.name[0],
        "hyperNodes": _domains(topology, names),
        **({"otherTrees": other_trees} if other_trees else {}),
        "problems": [problem_wire(p) for p in topology.problems]
        + [{"object": f.subject, "code": f.code, "message": f.text} for f in snapshot.faults],
        "setAside": list(topology.set_aside),
        "freeSlots": slots_wire(snapshot),
    }


def _domains(topology: Topology, nodes: Sequence[str]) -> Raw:
    """The domains of a tree over these nodes, by name."""
    names = topology.name
    tier_names = {tier: name for name, tier in topology.tier_names.items()}
    domains: Raw = {}
    for d, name in enumerate(names):
        domains[name] = {
            "tier": int(topology.tier[d]),
            "tierName": tier_names.get(int(topology.tier[d]), ""),
            "parent": names[int(topology.parent[d])] if d else "",
            "children": [names[c] for c in topology.children[d]],
            "nodes": list(nodes[topology.span(d)]),
        }
    return domains


def reservations_wire(snapshot: Snapshot, report: CycleReport) -> Raw:
    """All of them in the order in which their jobs are served, under one key; nothing where there are none."""
    reservations = [reservation_wire(snapshot, reservation) for reservation in report.reservations]
    return {"reservations": reservations} if reservations else {}


def reservation_wire(snapshot: Snapshot, reservation: Reservation) -> Raw:
    """One of them; times are null where they are not known."""
    rows, counts = reserved_rows(reservation)
    names = (snapshot.nodes.names[row] for row in rows)
    return {
        "podGroup": reservation.job.key,
        "hyperNode": reservation.domain,
        "from": format_time(reservation.start) if reservation.start < inf else None,
        "until": format_time(reservation.end) if reservation.end < inf else None,
        "nodes": dict(zip(names, counts, strict=True)),
        "awaits": list(reservation.awaits),
        "quotas": list(reservation.quotas),
        "after": list(reservation.after),
        "lapses": format_time(reservation.lapses) if reservation.holds and reservation.lapses < inf else None,
        "message": reservation.text,
    }


def reserved_rows(reservation: Reservation) -> tuple[list[int], list[int]]:
    """The rows that a job would take, and how many of its pods on each."""
    rows = np.concatenate([np.repeat(rows_of_shape, counts) for _, rows_of_shape, counts in reservation.held])
    distinct, numbers = np.unique(rows, return_counts=True)
    return distinct.tolist(), numbers.tolist()
