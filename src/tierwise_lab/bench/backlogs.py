"""Rows about what waits: gangs that are refused cycle after cycle, pods that go one by one, budgets that allow little.

Each was a hole once, where one more role, fabric, claim or budget cost tens of times what its neighbours cost. Seconds
are processor time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from random import Random

from msgspec.structs import replace

from tierwise.api.core import parse_time
from tierwise.config.profile import DEFAULT, Profile
from tierwise.port import Key, Objects, key_of_raw
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import Reader, build
from tierwise_lab.bench.evictions import EVICTING
from tierwise_lab.bench.lab import Lab, Measured, row
from tierwise_lab.bench.manifests import (
    Manifest,
    claim,
    group,
    lone_pod,
    manifest,
    node,
    pod,
    racks,
    read_manifests,
    storage_class,
)
from tierwise_lab.bench.measure import at_most, best_of, compared, gc_off, timed

__all__ = [
    "BEGUN",
    "ends_are_known",
    "in_leaves",
    "refused_again",
    "settled",
    "stated",
    "tight_budgets",
    "two_roles",
]

_DEPLOYMENTS = 100
_NEED = 16  # nodes of each gang that wants room
BEGUN = "2027-01-15T00:00:00Z"


@row("C9b", at_most(0.15, 0.1))
def _c9b(lab: Lab) -> Measured:
    """Measure the seconds of a cycle, from the second one on, over a backlog of gangs of two roles in a full cluster
    that refuses them all.
    """
    nodes = lab.size.everyday // 2
    gangs = lab.size.backlog
    what = f"seconds of a cycle after the first over {gangs:,} gangs of two roles at {nodes:,} full nodes"
    return what, refused_again(
        nodes, (raw for i in range(gangs) for raw in two_roles(i)), max(3, lab.size.repeats // 4)
    )


def refused_again(nodes: int, waiting: Iterable[Manifest], repeats: int) -> float:
    """The shortest of some cycles after the first, before each of which one more pod has come to run."""
    busy_pods = [_asking(lone_pod("busy", i, on=f"n{i}"), {"cpu": "120", "nvidia.com/gpu": "8"}) for i in range(nodes)]
    objects = read_manifests([*(node(i) for i in range(nodes)), *racks(nodes), *busy_pods, *waiting])
    reader = Reader()
    shortest = float("inf")
    for number in range(repeats + 1):
        fresh = lone_pod("fresh", number, on=f"n{number}")
        objects = objects.changed({key_of_raw(fresh): fresh})
        seen = reader.read(objects, float(number))
        with gc_off():
            seconds, report = timed(partial(cycle, seen, DEFAULT))
        if report.decisions:
            raise RuntimeError("every gang is meant to be refused")
        shortest = min(shortest, seconds) if number else shortest
    return shortest


def two_roles(number: int) -> list[Manifest]:
    """A gang of a master and a worker in one rack, as Volcano's controllers make it."""
    pod_group = group(number, minimum=2, phase="Inqueue")
    members = [pod(number, i, on="") for i in range(2)]
    pod_group["spec"] |= {
        "minTaskMember": {"master": 1, "worker": 1},
        "minResources": {"cpu": "12", "nvidia.com/gpu": "2"},
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    members[0]["metadata"]["annotations"]["volcano.sh/task-spec"] = "master"
    return [pod_group, _asking(members[0], {"cpu": "8", "nvidia.com/gpu": "1"}), members[1]]


# -- gangs that wait for a closer place, in the default profile


@row("C9c", at_most(3, 2))
def _c9c(lab: Lab) -> Measured:
    """Cost of patience where all running jobs state their ends, and a backlog declines free nodes."""
    nodes = lab.size.everyday // 2
    gangs = lab.size.backlog // 10
    objects = read_manifests(ends_are_known(nodes, gangs))
    first_tier, second = DEFAULT.tiers
    hasty = replace(DEFAULT, tiers=(first_tier, tuple(choice for choice in second if choice.name != "patience")))
    repeats = max(2, lab.size.repeats // 4)
    patient, without = (settled(objects, profile, repeats) for profile in (DEFAULT, hasty))
    what = f"a cycle over {gangs:,} waiting gangs at {nodes:,} nodes whose ends are known, with patience ÷ without"
    return compared(what, patient, without)


def ends_are_known(nodes: int, gangs: int) -> Iterator[Manifest]:
    """Leaves of 16 racks, nine nodes in ten in use by gangs of four that state how long they run; gangs that wait."""
    pick = Random(7)
    yield from in_leaves(nodes)
    hosts = pick.sample(range(nodes), nodes)
    running = nodes * 9 // 10 // 4
    for i in range(running):
        yield from stated(i, hosts[4 * i : 4 * i + 4], 4, 2 + pick.randrange(4_000))
    for i in range(running, running + gangs):
        yield from stated(i, (), (8, 12, 16)[i % 3], 30 + pick.randrange(2_000))


def in_leaves(nodes: int) -> Iterator[Manifest]:
    """Nodes with their labels in leaves of 16 racks."""
    yield from (node(i) for i in range(nodes))
    inner = racks(nodes)
    yield from inner
    for i in range(0, len(inner), 16):
        names = [rack_manifest["metadata"]["name"] for rack_manifest in inner[i : i + 16]]
        inside = [{"type": "HyperNode", "selector": {"exactMatch": {"name": name}}} for name in names]
        spec = {"tier": 2, "members": inside}
        yield manifest("topology.volcano.sh/v1alpha1", "HyperNode", f"leaf{i // 16}", spec=spec)


# -- gangs that spread over racks


@row("C9d", at_most(10, 5))
def _c9d(lab: Lab) -> Measured:
    """Milliseconds for each of some gangs with a hard spread over racks, of which no rack alone holds one."""
    nodes, gangs = lab.size.everyday // 2, max(2, lab.size.backlog // 25)
    seen = build(read_manifests([*in_leaves(nodes), *(raw for i in range(gangs) for raw in _spread(i))]), 0.0)
    if len(cycle(seen, DEFAULT).decisions) != gangs:
        raise RuntimeError("every gang is meant to find a leaf")
    seconds = best_of(max(2, lab.size.repeats // 4), partial(cycle, seen, DEFAULT), clock=time.process_time)
    what = f"milliseconds for each of {gangs:,} gangs of eight spread over the racks of a leaf at {nodes:,} nodes"
    return what, seconds * 1_000 / gangs


def _spread(number: int) -> Iterator[Manifest]:
    """A gang of eight pods in one leaf, as many in each of all racks but for one."""
    pod_group = group(number, minimum=8, phase="Inqueue")
    pod_group["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 2}
    yield pod_group
    rule = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    rule["labelSelector"] = {"matchLabels": {"job": f"g{number}"}}
    for rank in range(8):
        waiting = pod(number, rank, on="")
        yield {**waiting, "spec": {**waiting["spec"], "topologySpreadConstraints": [rule]}}


def stated(number: int, hosts: Sequence[int], size: int, minutes: int, *, tier: int = 2) -> Iterator[Manifest]:
    """A gang of whole nodes that says how long it runs, on these hosts; of none, it waits for a place in one domain."""
    pod_group = group(number, minimum=size, phase="Running" if hosts else "Inqueue")
    pod_group["metadata"]["annotations"] = {"tierwise.io/expected-duration": f"{minutes}m"}
    pod_group["metadata"]["creationTimestamp"] = BEGUN
    pod_group["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": tier}
    yield pod_group
    for rank in range(size):
        raw = _asking(pod(number, rank, on=f"n{hosts[rank]}" if hosts else ""), {"cpu": "32", "nvidia.com/gpu": "8"})
        yield _started(raw) if hosts else raw


def _started(raw: Manifest) -> Manifest:
    return {**raw, "status": {"phase": "Running", "startTime": BEGUN}}


def settled(objects: Objects, profile: Profile, repeats: int) -> float:
    """The shortest of some cycles that bind nothing, once what fits is bound."""
    reader = Reader(profile)
    shortest = float("inf")
    idle = 0
    while idle < repeats:
        seen = reader.read(objects, parse_time(BEGUN) + 60)
        with gc_off():
            seconds, report = timed(partial(cycle, seen, profile))
        bound: dict[Key, Manifest] = {}
        for task, where in (place for decision in report.decisions for place in decision.places()):
            key = Key("", "Pod", *task.key.split("/"))
            raw: Manifest = dict(objects.raw(key) or {})
            bound[key] = _started({**raw, "spec": {**raw["spec"], "nodeName": seen.nodes.names[where]}})
        objects = objects.changed(bound)
        if not bound:
            shortest = min(shortest, seconds)
            idle = idle + 1
    return shortest


# -- pods that go one by one, against those of one Deployment


def _gangs_of_one(pods: int) -> Iterator[Manifest]:
    for i in range(pods):
        yield group(i, minimum=1, phase="Inqueue")
        yield pod(i, 0, on="")


def _with_claims(pods: int) -> Iterator[Manifest]:
    yield storage_class("csi.test")
    for i in range(pods):
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{i}"}}
        yield claim(f"data-{i}", "web")
        yield lone_pod("db", i, volumes=[volume])


def _interleaved(pods: int) -> Iterator[Manifest]:
    for i in range(pods):
        asks = {"cpu": f"{500 + i % _DEPLOYMENTS}m", "memory": "1Gi"}
        pod_manifest = _asking(lone_pod(f"s{i % _DEPLOYMENTS}", i), asks)
        pod_manifest["metadata"]["creationTimestamp"] = f"2027-01-15T{i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}Z"
        yield pod_manifest


def _beside_plain(lab: Lab, waiting: Callable[[int], Iterable[Manifest]], what: str) -> Measured:
    """Cost of a pod in a cycle, relative to a pod of one Deployment."""
    nodes = lab.size.everyday // 2
    plain = lab.once("plain pods", lambda: _a_pod(lab, [lone_pod("web", i) for i in range(nodes)]))
    return compared(f"{what} ÷ a pod of one Deployment at {nodes:,} nodes", _a_pod(lab, [*waiting(nodes)]), plain)


def _a_pod(lab: Lab, waiting: Sequence[Manifest]) -> float:
    """Seconds of a cycle for each pod that it places, all of which fit."""
    nodes = lab.size.everyday // 2
    pods = len([raw for raw in waiting if raw["kind"] == "Pod"])
    seen = build(read_manifests([*(node(i) for i in range(nodes)), *racks(nodes), *waiting]), 0.0)
    if sum(decision.count() for decision in cycle(seen, DEFAULT).decisions) != pods:
        raise RuntimeError("all pods are meant to fit")
    return best_of(max(2, lab.size.repeats // 4), partial(cycle, seen, DEFAULT), clock=time.process_time) / pods


row("C5c", at_most(3, 1.5))(partial(_beside_plain, waiting=_gangs_of_one, what="a gang of one pod"))
row("C5d", at_most(10, 3))(partial(_beside_plain, waiting=_with_claims, what="a plain pod with a claim"))
row("C5e", at_most(5, 3))(
    partial(_beside_plain, waiting=_interleaved, what=f"a pod of {_DEPLOYMENTS} Deployments among each other")
)


@row("C5f", at_most(1.07, 1))
def _c5f(lab: Lab) -> Measured:
    """Whether twice as many pods of Deployments among each other take twice as long; 1.07 is an exponent of 1.1."""
    pods = lab.size.everyday
    many, few = (_a_pod(lab, [*_interleaved(number)]) for number in (2 * pods, pods))
    return compared(f"a pod of {_DEPLOYMENTS} Deployments among each other, of {2 * pods:,} ÷ of {pods:,}", many, few)


# -- disruption budgets


@row("C3d", at_most(0.9, 0.4))
def _c3d(lab: Lab) -> Measured:
    """Room for gangs of whole nodes where every victim is under a budget that allows less than is needed."""
    nodes = lab.size.everyday // 16
    seen = build(read_manifests(tight_budgets(nodes, max(1, nodes // 16))), 0.0)
    seconds = best_of(max(1, lab.size.repeats // 10), partial(cycle, seen, EVICTING), clock=time.process_time)
    return (
        f"seconds for a preempting cycle, five gangs of {_NEED} nodes at {nodes:,} nodes under tight budgets",
        seconds,
    )


def tight_budgets(nodes: int, budgets: int) -> Iterator[Manifest]:
    """Nodes full of gangs of eight single GPUs, scattered; budgets that allow four pods each, and five preemptors."""
    yield from (node(i) for i in range(nodes))
    yield from racks(nodes)
    yield manifest("scheduling.k8s.io/v1", "PriorityClass", "high", value=1000)
    for i in range(nodes):
        yield group(i, minimum=8)
        for rank in range(8):
            pod_manifest = pod(i, rank, on=f"n{(8 * i + rank) * 7919 % nodes}")
            pod_manifest["metadata"]["labels"]["app"] = f"a{i % budgets}"
            yield pod_manifest
    for i in range(budgets):
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": f"a{i}"}}}
        status = {"disruptionsAllowed": 4}
        yield manifest("policy/v1", "PodDisruptionBudget", f"a{i}", "d", spec=spec, status=status)
    for i in range(nodes, nodes + 5):
        yield _important(group(i, minimum=_NEED, phase="Inqueue"))
        for rank in range(_NEED):
            yield _important(_asking(pod(i, rank, on=""), {"cpu": "32", "nvidia.com/gpu": "8"}))


def _important(raw: Manifest) -> Manifest:
    raw["spec"]["priorityClassName"] = "high"
    return raw


def _asking(raw: Manifest, asks: dict[str, str]) -> Manifest:
    raw["spec"]["containers"][0]["resources"] = {"requests": asks}
    return raw
