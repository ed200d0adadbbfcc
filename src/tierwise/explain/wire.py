"""The JSON that the commands print: a contract with scripts, kept stable. docs/reference/json.md describes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tierwise.api.codec import Raw
from tierwise.explain.eviction_story import eviction_wire
from tierwise.explain.message import message
from tierwise.explain.whereabouts import Place, whereabouts
from tierwise.framework.probe import Look
from tierwise.framework.report import CycleReport, Eviction
from tierwise.model.job import Job, Status
from tierwise.model.reason import Rejection
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import Problem

__all__ = ["explain_wire", "pending_wire", "pod_groups_wire", "schedule_wire", "topology_wire"]


def schedule_wire(
    *,
    bindings: Mapping[str, str],
    nominations: Mapping[str, str],
    evictions: Iterable[Eviction],
    report: CycleReport,
    after: Snapshot,
) -> Raw:
    """What `schedule` did. `report` is the last cycle's, `after` is the cluster once it was over."""
    return {
        "bindings": dict(bindings),
        "nominations": dict(nominations),
        "evictions": [_eviction(e) for e in evictions],
        "pending": pending_wire(after, report, nominations),
        "podGroups": pod_groups_wire(after),
        "problems": [problem_wire(p) for p in after.topology.problems]
        + [{"object": f.subject, "code": f.code, "message": f.text} for f in after.faults],
        "work": {"trials": report.work.trials, "domains": report.work.domains},
    }


def _eviction(evicted: Eviction) -> Raw:
    group = evicted.job.key if evicted.job.declared else ""
    return {
        "pod": evicted.task.key,
        "podGroup": group,
        "by": evicted.by.key,
        "action": evicted.action,
        "reason": evicted.reason,
    }


def pending_wire(snapshot: Snapshot, report: CycleReport, nominations: Mapping[str, str]) -> list[Raw]:
    """Every pod of ours without a place, with the reason of its job."""
    rows: list[Raw] = []
    for job in snapshot.jobs:
        group = job.key if job.declared else ""
        for task in job.tasks:
            if task.status is Status.GATED:
                reason, text = "SchedulingGated", "the pod has scheduling gates"
            elif task.status is not Status.PENDING or task.key in nominations:
                continue
            else:
                reason, text = _why(job, report.rejections.get(job.key))
            rows.append({"pod": task.key, "podGroup": group, "reason": reason, "message": text})
    for pod, group in snapshot.orphans.items():
        text = f"pod group {group} does not exist"
        rows.append({"pod": pod, "podGroup": group, "reason": "PodGroupNotFound", "message": text})
    return rows


def _why(job: Job, rejection: Rejection | None) -> tuple[str, str]:
    if rejection is None:
        return "NotTried", f"no cycle has reached {job.key} yet"
    return rejection.reason.code, message(rejection)


def pod_groups_wire(snapshot: Snapshot) -> Raw:
    """Every pod group: its phase, and where it and its sub-groups stand."""
    return {job.key: _pod_group(snapshot, job) for job in snapshot.jobs if job.declared}


def _pod_group(snapshot: Snapshot, job: Job) -> Raw:
    found = whereabouts(snapshot.topology, job)
    subs: Raw = {sub: _where(place) for sub, place in found.subs.items()}
    return {"phase": job.phase.value, **_where(found.whole), "subGroups": subs}


def _where(place: Place | None) -> Raw:
    """The innermost domain that holds something; nothing where it stands nowhere."""
    return {"hyperNode": place.name, "tier": place.tier} if place is not None else {"hyperNode": "", "tier": None}


def explain_wire(look: Look, report: CycleReport) -> Raw:
    """What one pod saw."""
    rejection = report.rejections.get(look.job.key)
    return {
        "pod": look.task.key,
        "podGroup": look.job.key if look.job.declared else "",
        "subGroup": look.sub.key.rpartition("/")[2] if look.sub.policy >= 0 else "",
        "gradients": [list(group) for group in look.gradients],
        "hyperNodeScores": dict(look.domain_scores),
        "nodes": {
            node.name: {
                "feasible": node.feasible,
                "reasons": list(node.reasons),
                "scores": node.scores,
                "total": node.total,
            }
            for node in look.nodes
        },
        "message": message(rejection) if rejection is not None else "",
        "eviction": eviction_wire(report.stories.get(look.job.key, ())),
    }


def problem_wire(problem: Problem) -> Raw:
    return {
        "object": f"HyperNode {problem.domain}",
        "code": problem.code,
        "message": problem.text,
        "severity": "error" if problem.error else "warning",
    }


def topology_wire(snapshot: Snapshot) -> Raw:
    """The tree, domain by domain, with every problem that was found while growing it."""
    topology = snapshot.topology
    names = topology.name
    tier_names = {tier: name for name, tier in topology.tier_names.items()}
    domains: Raw = {}
    for d, name in enumerate(names):
        span = topology.span(d)
        domains[name] = {
            "tier": int(topology.tier[d]),
            "tierName": tier_names.get(int(topology.tier[d]), ""),
            "parent": names[int(topology.parent[d])] if d else "",
            "children": [names[c] for c in topology.children[d]],
            "nodes": list(snapshot.nodes.names[span]),
        }
    return {
        "root": names[0],
        "hyperNodes": domains,
        "problems": [problem_wire(p) for p in topology.problems]
        + [{"object": f.subject, "code": f.code, "message": f.text} for f in snapshot.faults],
        "setAside": list(topology.set_aside),
    }
