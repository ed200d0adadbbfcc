"""Everything about one job: its limits, the search tier by tier, its parts and where they run, evictions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tierwise.api.codec import Raw
from tierwise.api.natural import natural
from tierwise.explain.board.pods import BoardPod, PodState
from tierwise.explain.message import message, refusal
from tierwise.explain.naming import ObjectNames, name_of_pod, sub_id, tier_title
from tierwise.explain.ranges import compact, pods
from tierwise.explain.text.evictions import eviction_wire
from tierwise.explain.text.explain_job import search_texts
from tierwise.explain.text.explain_pod import job_facts
from tierwise.explain.text.schedule import Run
from tierwise.model.job import Job, SubJob, group_job
from tierwise.model.reason import Rejection, Tried
from tierwise.model.topology import Topology

__all__ = ["job_page"]


def job_page(run: Run, job: Job, standing: Sequence[BoardPod]) -> Raw:
    """What `explain --job` tells, and the domains that light up in the map."""
    topology = run.after.topology
    rejection = refusal(job, run.last)
    attempts = [attempt for _, report in run.reports for attempt in report.eviction_attempts.get(job.key, ())]
    return {
        "key": job.key,
        "name": ObjectNames(run.after.jobs).of(job),
        "pod": job.tasks[0].key if job.lone and job.tasks else "",
        "facts": [[title, str(text)] for title, text in job_facts(run.after, job)],
        "search": [text.plain for text in search_texts(run, job)],
        "why": _rejection(topology, rejection) if rejection is not None else None,
        "eviction": eviction_wire(attempts),
        "evicted": [
            {"pod": e.task.key, "by": e.by.key if e.by is not None else "", "action": e.action, "reason": e.reason}
            for e in run.evictions
            if e.job.key == job.key
        ],
        "domains": _lights(topology, standing),
        "parts": _parts(topology, job, standing),
        "places": _places(run, job, standing),
    }


def _rejection(topology: Topology, rejection: Rejection) -> Raw:
    """A rejection with its causes; those of sub-groups and of attempts to evict hang below it."""
    return {
        "subject": rejection.subject,
        "stage": rejection.stage,
        "verdict": rejection.verdict.value,
        "reason": rejection.reason.code,
        "plugin": rejection.reason.plugin,
        "text": rejection.reason.text,
        "message": message(rejection),
        "bounded": rejection.bounded,
        "tried": [_tried(topology, tried) for tried in rejection.tried],
        "children": [_rejection(topology, child) for child in rejection.children],
    }


def _tried(topology: Topology, tried: Tried) -> Raw:
    return {
        "tier": tried.layer or tier_title(topology, tried.tier),
        "domains": tried.domains,
        "best": topology.index.get(tried.best, -1),
        "bestName": tried.best,
        "fits": tried.fits,
        "asked": tried.asked,
        "nodes": tried.nodes,
        "whole": tried.whole,
        "here": tried.here,
        "outside": tried.outside,
        "short": tried.short,
        "causes": [{"reason": reason.code, "text": reason.text, "nodes": n} for reason, n in tried.causes],
    }


def _lights(topology: Topology, standing: Sequence[BoardPod]) -> list[list[int]]:
    """Every domain that holds some of the job, with the number of its pods there."""
    if not standing:
        return []
    rows, counts = np.unique([stand.row for stand in standing], return_counts=True)
    domains, held = topology.touched(rows, counts)
    order = np.argsort(domains)
    return [[int(domains[i]), int(held[i])] for i in order]


def _parts(topology: Topology, job: Job, standing: Sequence[BoardPod]) -> list[Raw]:
    """The sub-groups at every level: how many of their pods stand, and the innermost domain that holds them."""
    found: list[tuple[str, int, tuple[SubJob, ...]]] = [
        (sub_id(sub), sub.minimum, (sub,)) for sub in job.subs if sub_id(sub)
    ]
    if job.inner_groups:
        inner = enumerate(job.inner_groups[1:], start=1)
        found += ((group.path, group.pods, group_job(job, number).subs) for number, group in inner)
        found.sort(key=lambda part: natural(part[0]))
    parts: list[Raw] = []
    for name, least, subs in found:
        numbers = {sub.number for sub in subs}
        rows = np.array([stand.row for stand in standing if stand.sub.number in numbers], dtype=np.int64)
        parts.append(
            {
                "name": name,
                "minimum": least,
                "pods": sum(len(sub.tasks) for sub in subs),
                "standing": len(rows),
                "domain": topology.meet_rows(rows) if len(rows) else -1,
            }
        )
    return parts


def _places(run: Run, job: Job, standing: Sequence[BoardPod]) -> list[Raw]:
    """Which pods, by rank, stand in which innermost domain and on which of its nodes."""
    topology, nodes, stem = run.after.topology, run.after.nodes, ObjectNames.stem(job)
    groups: dict[tuple[int, str, str, PodState], list[BoardPod]] = {}
    for stand in sorted(standing, key=lambda stand: stand.row):
        home = int(topology.leaf[stand.row])
        groups.setdefault((home, sub_id(stand.sub), stand.task.role, stand.how), []).append(stand)
    return [
        {
            "domain": home,
            "part": part,
            "how": how.value,
            "count": len(found),
            "pods": pods(stem, [name_of_pod(stand.task.key) for stand in found], role),
            "nodes": compact((nodes.names[stand.row] for stand in found), most=2),
        }
        for (home, part, role, how), found in groups.items()
    ]
