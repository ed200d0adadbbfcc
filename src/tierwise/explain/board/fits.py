"""What fits where: a typed shape, or a job, and every domain that takes it as the cluster is now.

Counted by the room that the search itself counts with, filters of the profile included. For pods of one plain shape the
count is exact; for a job of several shapes it never says too little.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np

from tierwise.actions.placement.bounds import Room, may_hold_all
from tierwise.actions.placement.demand import Demand, demand
from tierwise.api.codec import Raw
from tierwise.api.plurals import count
from tierwise.api.quantity import amount, show
from tierwise.explain.board.near import Need, near, victims
from tierwise.explain.naming import ObjectNames, tier_title
from tierwise.explain.text.schedule import Run
from tierwise.explain.usage import scarce
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import CPU, POD_SLOTS, Ints
from tierwise.model.job import Job, Shape, plain_shape
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, AlternateTopology, Topology
from tierwise.scheduler import open_cycle

__all__ = ["fits_job", "fits_shape", "nearly"]

_SHAPE: Final = re.compile(
    r"(?:(\d{1,9})\s*(?:[x×*]|pods? (?:of|with))\s*)?(\d.*?)(?:\s+in\s+(?:one|an?|the same)\s+(.+))?"
)
_PART: Final = re.compile(r"([\d.]+[A-Za-z]{0,2}?)\s*(\S*[A-Za-z]\S*)")
_CORES: Final = frozenset(("core", "cores"))
_NAMED: Final = 6
_NOWHERE: Final[Raw] = {"lit": [], "roomiest": [], "domains": 0, "taking": 0, "gangs": 0}


def fits_shape(run: Run, trees: Iterable[AlternateTopology], text: str) -> Raw:
    """Where gangs of a typed shape fit: "64 × 1 gpu in one leaf". What cannot be read is told with an example."""
    snapshot = run.after
    order = list(trees)
    form = _SHAPE.fullmatch(" ".join(text.split()))
    amounts_per_pod = _amounts(snapshot, form[2]) if form else None
    limits = [_tier(tree.topology, form[3] or "") if form else None for tree in order]
    if form is None or not amounts_per_pod or (form[3] and not any(limits)):
        return {"fault": f"“{text}” cannot be read as a shape; write for example “{_example(snapshot)}”"}
    pods = int(form[1] or 1)
    largest = {
        name: int(snapshot.nodes.allocatable[snapshot.axis.index[name]].max(initial=0)) for name in amounts_per_pod
    }
    if not form[1] and len(amounts_per_pod) == 1:  # "64 gpus", which no node has, are 64 pods of one
        ((name, number),) = amounts_per_pod.items()
        unit = amount(name, "1")
        if number > largest[name] and number % unit == 0:
            pods = number // unit
            amounts_per_pod = {name: unit}
    if pods < 1:
        return {"fault": f"a gang has at least one pod; write for example “{_example(snapshot)}”"}
    cycle = open_cycle(snapshot, run.profile)
    shape = plain_shape(len(snapshot.shapes), snapshot.axis.vector({**amounts_per_pod, POD_SLOTS: 1}), namespace="")
    rows = Room(cycle, Pool.IDLE).rows(shape)
    pod_text = " and ".join(f"{show(name, number)} {name}" for name, number in amounts_per_pod.items())
    where = next((f" in one {_word(t.topology, n)}" for t, n in zip(order, limits, strict=True) if n is not None), "")
    return {
        "asked": f"{count(pods, 'pod')} of {pod_text}{' each' if pods > 1 else ''}{where}",
        "trees": [
            _lit(tree.topology, tree.topology.totals(rows[tree.rows]) // pods, limit)
            if limit is not None or not form[3]
            else _NOWHERE
            for tree, limit in zip(order, limits, strict=True)
        ],
        "near": near(cycle, snapshot.topology, [Need(shape, pods)], _within(snapshot.topology, limits[0])),
    }


def fits_job(run: Run, trees: Iterable[AlternateTopology], job: Job) -> Raw:
    """The domains that take what a job still waits for; of trees that rows do not follow, none."""
    cycle = open_cycle(run.after, run.profile)
    order = list(trees)
    job_demand = demand(cycle, job)
    name = ObjectNames(run.after.jobs).of(job)
    if not job_demand.task_groups:
        return {"fault": f"{name} waits for no place"}
    topology = cycle.topology
    limit = cycle.pipeline.limit(job)
    taking = may_hold_all(Room(cycle, Pool.IDLE), job_demand, np.arange(len(topology.name))).astype(np.int64)
    where = f" in one {_word(topology, limit)}" if limit is not None else ""
    return {
        "asked": f"{count(job_demand.need, 'pod')} of {name}{where}",
        "trees": [_lit(topology, taking, limit), *(_NOWHERE for _ in order[1:])],
        **_nearly(cycle, job, job_demand),
    }


def nearly(run: Run, job: Job) -> Raw:
    """Where a job that waits nearly has room, and whose leaving would make it; nothing for one that waits for none."""
    cycle = open_cycle(run.after, run.profile)
    asked = demand(cycle, job)
    return _nearly(cycle, job, asked) if asked.task_groups else {}


def _nearly(cycle: Cycle, job: Job, asked: Demand) -> Raw:
    topology = cycle.topology
    within = _within(topology, cycle.pipeline.limit(job))
    pods: Counter[int] = Counter()
    shapes: dict[int, Shape] = {}
    for group in asked.task_groups:
        for remaining_tasks in group.remaining:
            shape = remaining_tasks.pod_set.shape
            shapes[shape.number] = shape
            pods[shape.number] += min(remaining_tasks.left, group.need)
    needs = [Need(shapes[number], asked_for) for number, asked_for in pods.items()]
    return {
        "near": near(cycle, topology, needs, within),
        "victims": victims(cycle, topology, job, needs, within),
    }


def _within(topology: Topology, limit: int | None) -> Ints:
    """The domains that a gang may have to itself: the outermost ones of its tier, else the whole cluster."""
    return topology.outermost(limit) if limit is not None else np.array([ROOT], dtype=np.int64)


def _lit(topology: Topology, gangs_by_domain: Ints, limit: int | None) -> Raw:
    """Domains with the gangs that they take: within the limit by themselves, beyond it as many as those inside."""
    if limit is None:
        within = np.flatnonzero(np.arange(len(gangs_by_domain)) > ROOT)
        gangs = gangs_by_domain
    else:
        within = topology.outermost(limit)
        counted = np.zeros_like(gangs_by_domain)
        counted[within] = gangs_by_domain[within]
        gangs = np.where(topology.tier <= limit, gangs_by_domain, topology.roll_up(counted))
    lit_domains = np.flatnonzero(gangs)
    roomiest = within[np.argsort(-gangs[within], kind="stable")[:_NAMED]]
    return {
        "lit": [[d, int(gangs[d])] for d in lit_domains.tolist()],
        "roomiest": [[d, int(gangs[d])] for d in roomiest.tolist() if gangs[d]],
        "domains": len(within),
        "taking": int((gangs[within] > 0).sum()),
        "gangs": int(gangs[ROOT]),
    }


def _amounts(snapshot: Snapshot, text: str) -> dict[str, int] | None:
    """Request of each pod by resource; None where the text names no amount, or a resource that no node has."""
    amounts: dict[str, int] = {}
    for part in re.split(r"\s*(?:\+|,|\band\b)\s*", text.removesuffix(" each")):
        form = _PART.fullmatch(part)
        name = _resource(snapshot, form[2]) if form else ""
        try:
            amounts[name] = amount(name, form[1]) if form and name else 0
        except ValueError:
            return None
    if all(number > 0 for number in amounts.values()):
        return amounts
    return None


def _resource(snapshot: Snapshot, word: str) -> str:
    """The resource that people mean: its name, or the last part of it, in the plural as well."""
    low = word.lower()
    meant = {low, low.removesuffix("s")} | ({CPU} if low in _CORES else set())
    scarce_resource = scarce(snapshot)
    named = (
        n
        for n in (scarce_resource, *snapshot.axis.names)
        if n.lower() in meant or n.rpartition("/")[2].lower() in meant
    )
    return next(named, "")


def _tier(topology: Topology, word: str) -> int | None:
    """The tier that people mean: by its name, or "tier 2"; "leaf" is the innermost one where none is called so."""
    names = {f"tier {tier}": tier for tier in topology.at_tier} | {"leaf": next(iter(topology.at_tier))}
    return (names | {name.lower(): tier for name, tier in topology.tier_names.items()}).get(word.lower())


def _word(topology: Topology, tier: int) -> str:
    return next((name for name, number in topology.tier_names.items() if number == tier), tier_title(topology, tier))


def _example(snapshot: Snapshot) -> str:
    unit = scarce(snapshot).rpartition("/")[2]
    return f"64 × 1 {unit} in one {_word(snapshot.topology, next(iter(snapshot.topology.at_tier)))}"
