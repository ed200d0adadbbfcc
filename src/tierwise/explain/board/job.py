"""Everything about one job: its limits, the search tier by tier, its parts and where they run, evictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from tierwise.api.codec import Raw
from tierwise.api.natural import natural
from tierwise.explain.board.pods import BoardPod, PodState, is_single
from tierwise.explain.message import on_nodes, refusal
from tierwise.explain.naming import ObjectNames, name_of_pod, sub_id, tier_title
from tierwise.explain.ranges import compact, pods
from tierwise.explain.reasons import advice_wire
from tierwise.explain.rejection_wire import eviction_wire, evictions_wire, rejection_wire, tried_wire
from tierwise.explain.sets import rules_wire, sets_of
from tierwise.explain.text.explain_job import search_texts
from tierwise.explain.text.explain_pod import job_facts
from tierwise.explain.text.narrative import tier_domains
from tierwise.explain.text.schedule import Run
from tierwise.model.job import Constraint, Job, Rejection, SubJob, Tried
from tierwise.model.topology import AlternateTopology

__all__ = ["job_page"]


_MOST: Final = 50
"""Groups whose places are told beside a constraint."""

_GANGS: Final = 4
"""Gangs of a part of a set that are told of."""

Trees = Mapping[str, AlternateTopology]


def job_page(run: Run, job: Job, board_pods: Sequence[BoardPod], trees: Trees) -> Raw:
    """The data of `explain --job`, with the domains of each tree that the map lights up."""
    rejection = refusal(job, run.last)
    attempts = [attempt for _, report in run.reports for attempt in report.eviction_attempts.get(job.key, ())]
    return {
        "key": job.key,
        "name": ObjectNames(run.after.jobs).of(job),
        "pod": job.tasks[0].key if is_single(job) and job.tasks else "",
        "services": sorted({task.shape.service for task in job.tasks if task.shape.service is not None}),
        "facts": [[title, str(text)] for title, text in job_facts(run.after, job)],
        "search": [text.plain for text in search_texts(run, job)],
        "why": _rejection(trees, rejection) if rejection is not None else None,
        "eviction": eviction_wire(attempts),
        "evictions": evictions_wire(e for e in run.evictions if e.job.key == job.key),
        "hyperNodes": [_lights(tree, board_pods) for tree in trees.values()],
        "constraints": _constraints(run, job, board_pods, trees),
        "subGroups": _parts(trees, job, board_pods),
        "sets": _sets(run, job, trees),
        "partWord": job.joint_word(),
        "places": [_places(run, job, board_pods, tree) for tree in trees.values()],
    }


def _sets(run: Run, job: Job, trees: Trees) -> list[Raw]:
    """The job's rules about its sets: every domain with its number in the tree that the rule is about, and the gangs
    of each part.
    """
    order, rules = list(trees.values()), list[Raw]()
    views = sets_of(*run.reports[-1], run.profile, job)
    for view, wire in zip(views, rules_wire(views), strict=True):
        alternate = run.after.alternate_topology(view.constraint)
        domains = [
            {"index": domain.number, "parts": list(domain.parts), "open": domain.open, "text": domain.text}
            for domain in view.domains[:_MOST]
        ]
        gangs = {part: list(keys[:_GANGS]) for part, keys in view.gangs.items()}
        fabric = next((number for number, tree in enumerate(order) if tree is alternate), 0)
        hidden = len(view.domains) - len(domains)
        rules.append({**wire, "domains": domains, "more": hidden, "gangs": gangs, "fabric": fabric})
    return rules


def _rejection(trees: Trees, rejection: Rejection) -> Raw:
    """A rejection with its causes; those of sub-groups and of attempts to evict hang below it."""
    return {
        "subject": rejection.subject,
        "part": rejection.part,
        "stage": rejection.stage,
        **rejection_wire(rejection),
        **advice_wire(rejection.reason.code),
        "plugin": rejection.reason.plugin,
        "text": rejection.reason.text,
        "bounded": rejection.bounded,
        "tried": [_tried(trees, tried) for tried in rejection.tried],
        "children": [_rejection(trees, child) for child in rejection.children],
    }


def _tried(trees: Trees, tried: Tried) -> Raw:
    """How far a tier came; its best domain is in the first tree that has one of this name at this tier."""
    number, topology = next(
        (
            (number, tree.topology)
            for number, tree in enumerate(trees.values())
            if (best := tree.topology.index.get(tried.best)) is not None and tree.topology.tier[best] == tried.tier
        ),
        (0, next(iter(trees.values())).topology),
    )
    return {
        **tried_wire(tried),
        "tierTitle": tried.layer or tier_title(topology, tried.tier),
        "fabric": number,
        "bestIndex": topology.index.get(tried.best, -1),
        "nodes": tried.nodes,
        "whole": tried.whole,
        "short": tried.short,
        "told": [on_nodes(reason, n) for reason, n in tried.causes],
    }


def _lights(tree: AlternateTopology, board_pods: Sequence[BoardPod]) -> list[list[int]]:
    """Every domain of a tree that holds some of the job, with the number of its pods there."""
    if not board_pods:
        return []
    rows, counts = np.unique(tree.positions[[stand.row for stand in board_pods]], return_counts=True)
    domains, pods_by_domain = tree.topology.touched(rows, counts)
    order = np.argsort(domains)
    return [[int(domains[i]), int(pods_by_domain[i])] for i in order]


def _constraints(run: Run, job: Job, board_pods: Sequence[BoardPod], trees: Trees) -> list[Raw]:
    """What the job, or each of its groups, has to keep to on which tree, and the domains of that tier it is in there.

    Told where there are several trees; elsewhere the job's limits say it all.
    """
    order, constraints = list(trees.values()), list[Raw]()
    for whose, constraint, groups in _limits(job) if len(order) > 1 else ():
        alternate = run.after.alternate_topology(constraint)
        number = next(
            (i for i, tree in enumerate(order) if tree is alternate), 0 if run.after.knows(constraint) else -1
        )
        places: list[tuple[str, list[int]]] = []
        for name, subs in groups if number >= 0 else ():
            rows = order[number].positions[[stand.row for stand in board_pods if stand.sub.number in subs]]
            if len(rows):
                places.append((name, sorted(tier_domains(order[number].topology, constraint, rows.tolist()))))
        constraints.append(
            {
                "fabric": number,
                "whose": whose,
                "text": constraint.words(),
                "hard": constraint.hard,
                "groups": len(groups),
                "places": places[:_MOST],
            }
        )
    return constraints


def _limits(job: Job) -> Iterator[tuple[str, Constraint, list[tuple[str, set[int]]]]]:
    """Every constraint: whose it is, and the groups that keep it each for itself, as sets of sub-groups."""
    everything = [("", {sub.number for sub in job.subs})]
    yield from (("", constraint, everything) for constraint in (job.constraint, *job.further) if constraint is not None)
    for number, group in enumerate(job.inner_groups[1:], start=1):
        inside = [(group.path, {sub.number for sub in job.group(number).subs})]
        limits = (group.constraint, *group.further)
        yield from ((group.path, constraint, inside) for constraint in limits if constraint is not None)
    for index, policy in enumerate(job.policies):
        sub_groups = [(sub_id(sub), {sub.number}) for sub in job.subs if sub.policy == index]
        limits = (policy.constraint, *policy.further)
        whose = f"each {job.part_names.of(policy.name, policy.name)} {policy.name}"
        yield from ((whose, constraint, sub_groups) for constraint in limits if constraint is not None)


def _parts(trees: Trees, job: Job, board_pods: Sequence[BoardPod]) -> list[Raw]:
    """The sub-groups at every level: how many of their pods stand, and the innermost domains that hold them."""
    found: list[tuple[str, int, tuple[SubJob, ...]]] = [
        (sub_id(sub), sub.minimum, (sub,)) for sub in job.subs if sub_id(sub)
    ]
    if job.shape.nested:
        inner = enumerate(job.inner_groups[1:], start=1)
        found += ((group.path, group.pods, job.group(number).subs) for number, group in inner)
        found.sort(key=lambda part: natural(part[0]))
    parts: list[Raw] = []
    for name, minimum, subs in found:
        numbers = {sub.number for sub in subs}
        rows = np.array([stand.row for stand in board_pods if stand.sub.number in numbers], dtype=np.int64)
        parts.append(
            {
                "name": name,
                "minimum": minimum,
                "pods": sum(len(sub.tasks) for sub in subs),
                "standing": len(rows),
                "hyperNodes": [t.topology.meet_rows(t.positions[rows]) if len(rows) else -1 for t in trees.values()],
            }
        )
    return parts


def _places(run: Run, job: Job, board_pods: Sequence[BoardPod], tree: AlternateTopology) -> list[Raw]:
    """Which pods, by rank, stand in which innermost domain of a tree and on which of its nodes."""
    nodes, stem = run.after.nodes, ObjectNames.stem(job)
    groups: dict[tuple[int, str, str, PodState], list[BoardPod]] = {}
    for stand in sorted(board_pods, key=lambda stand: tree.positions[stand.row]):
        home = int(tree.topology.leaf[tree.positions[stand.row]])
        groups.setdefault((home, sub_id(stand.sub), stand.task.role, stand.how), []).append(stand)
    return [
        {
            "hyperNode": home,
            "subGroup": part,
            "how": how.value,
            "count": len(pods_of_place),
            "pods": pods(stem, [name_of_pod(stand.task.key) for stand in pods_of_place], role),
            "nodes": compact((nodes.names[stand.row] for stand in pods_of_place), limit=2),
        }
        for (home, part, role, how), pods_of_place in groups.items()
    ]
