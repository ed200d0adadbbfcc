"""Rows about answers that are negative or belong to people: backlogs that decline, rules that refuse, what would help.

Each answer depends on little and was once searched for anew, for every gang and in every cycle. Seconds are processor
time; rows of growth say how many times as long four times as much takes, where 4 is linear and 5.28 an exponent of 1.2.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from random import Random

from tierwise.admission import validate
from tierwise.api.core import parse_time
from tierwise.config.profile import DEFAULT
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.sim.forecast.eta import etas
from tierwise.sim.what_if.changes import Scenario
from tierwise.sim.what_if.first_answers import by_counting
from tierwise.sim.what_if.least_change import least_change
from tierwise.sim.what_if.runs import prepared
from tierwise.snapshot.builder import build
from tierwise_lab.bench.backlogs import BEGUN, ends_are_known, in_leaves, refused_again, settled, stated
from tierwise_lab.bench.lab import Lab, Measured, row
from tierwise_lab.bench.manifests import Manifest, group, manifest, pod, read_manifests
from tierwise_lab.bench.measure import at_most, best_of, compared, timed

__all__: list[str] = []

_NOW = parse_time(BEGUN) + 60
_LINEAR = 4.0
_GROWTH = 5.28
_PARTS = 4  # sub-groups of a mixture


def _with_known_ends(lab: Lab) -> tuple[int, int, Objects]:
    """How many nodes there are, how many gangs wait, and the objects."""
    nodes = lab.size.everyday // 2
    gangs = max(2, lab.size.backlog // 5)
    return nodes, gangs, read_manifests(ends_are_known(nodes, gangs))


@row("C9e", at_most(3, 1.5))
def _c9e(lab: Lab) -> Measured:
    """Seconds of the first cycle over a backlog where all running jobs state their ends."""
    nodes, gangs, objects = _with_known_ends(lab)
    seen = build(objects, _NOW, DEFAULT)
    seconds = best_of(2, partial(cycle, seen, DEFAULT), clock=time.process_time)
    return f"seconds of the first cycle over {gangs:,} waiting gangs at {nodes:,} nodes whose ends are known", seconds


@row("C9f", at_most(0.5, 0.3))
def _c9f(lab: Lab) -> Measured:
    """Seconds of a later cycle over the same backlog, which declines free nodes for closer ones."""
    nodes, gangs, objects = _with_known_ends(lab)
    seconds = settled(objects, DEFAULT, max(2, lab.size.repeats // 4))
    return f"seconds of a later cycle over {gangs:,} waiting gangs at {nodes:,} nodes whose ends are known", seconds


@row("C9g", at_most(0.3, 0.2))
def _c9g(lab: Lab) -> Measured:
    """Seconds of a later cycle over gangs that fit everywhere and that a rule between pods keeps out of every rack."""
    nodes = lab.size.everyday // 2
    gangs = max(2, lab.size.backlog // 10)
    seconds = refused_again(nodes, (raw for i in range(gangs) for raw in _kept_out(i)), max(3, lab.size.repeats // 4))
    return f"seconds of a cycle after the first over {gangs:,} gangs with rules at {nodes:,} nodes", seconds


def _kept_out(number: int) -> Iterator[Manifest]:
    """A gang of four that may share no rack with the pods that are on every node."""
    term = {
        "labelSelector": {"matchLabels": {"app": "busy"}},
        "namespaces": ["web"],
        "topologyKey": "rack",
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    yield from _small_gang(number, 4, {"cpu": f"{1 + number % 7}"}, {"affinity": affinity})


def _small_gang(
    number: int, size: int, asks: dict[str, str], spec: dict[str, object], labels: dict[str, str] | None = None
) -> Iterator[Manifest]:
    pod_group = group(number, minimum=size, phase="Inqueue")
    pod_group["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 2 if labels is not None else 1}
    yield pod_group
    for rank in range(size):
        raw = pod(number, rank, on="")
        (container,) = raw["spec"]["containers"]
        container = {**container, "resources": {"requests": asks}}
        metadata = {**raw["metadata"], "labels": {**raw["metadata"]["labels"], **(labels or {})}}
        yield {**raw, "metadata": metadata, "spec": {**raw["spec"], **spec, "containers": [container]}}


@row("C9h", at_most(_GROWTH, _LINEAR))
def _c9h(lab: Lab) -> Measured:
    """Growth of a cycle over gangs of which each keeps out of the racks of all others."""
    gangs = max(4, lab.size.everyday // 200)
    nodes = lab.size.everyday // 4 + 64 * gangs
    few, many = (_apart_seconds(nodes, number, max(2, lab.size.repeats // 4)) for number in (gangs, 4 * gangs))
    what = f"a cycle over {4 * gangs:,} gangs that keep apart from each other's racks ÷ over {gangs:,}"
    return compared(f"{what}, at {nodes:,} nodes", many, few)


def _apart_seconds(nodes: int, gangs: int, repeats: int) -> float:
    raws = (raw for i in range(gangs) for raw in _apart(i))
    seen = build(read_manifests([*in_leaves(nodes), *raws]), 0.0)
    if len(cycle(seen, DEFAULT).decisions) != gangs:
        raise RuntimeError("every gang is meant to find a rack")
    return best_of(repeats, partial(cycle, seen, DEFAULT), clock=time.process_time)


def _apart(number: int) -> Iterator[Manifest]:
    """A gang of four in one rack, where no other gang has pods."""
    strangers = [
        {"key": "job", "operator": "Exists"},
        {"key": "job", "operator": "NotIn", "values": [f"g{number}"]},
    ]
    term = {"labelSelector": {"matchExpressions": strangers}, "topologyKey": "rack"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    asks = {"cpu": "4", "nvidia.com/gpu": "1"}
    yield from _small_gang(number, 4, asks, {"affinity": affinity}, {})


@row("C10b", at_most(10, 5))
def _c10b(lab: Lab) -> Measured:
    """Milliseconds for each placed gang of four unlike sub-groups of several roles."""
    nodes = lab.size.everyday // 4
    gangs = max(2, lab.size.backlog // 250)
    raws = (raw for i in range(gangs) for raw in _mixture(i))
    seen = build(read_manifests([*in_leaves(nodes), *raws]), 0.0)
    if len(cycle(seen, DEFAULT).decisions) != gangs:
        raise RuntimeError("every gang is meant to find a place")
    seconds = best_of(max(2, lab.size.repeats // 4), partial(cycle, seen, DEFAULT), clock=time.process_time)
    what = f"milliseconds for each of {gangs:,} gangs of four unlike sub-groups at {nodes:,} nodes"
    return what, seconds * 1_000 / gangs


def _mixture(number: int) -> Iterator[Manifest]:
    """A gang of four sub-groups of other sizes and limits, each of two roles that ask for other amounts."""
    sizes = [2 + part for part in range(_PARTS)]
    pod_group = group(number, minimum=sum(sizes), phase="Inqueue")
    pod_group["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 2}
    pod_group["spec"]["subGroupPolicy"] = [
        {
            "name": f"p{part}",
            "subGroupSize": size,
            "labelSelector": {"matchLabels": {"part": str(part)}},
            "networkTopology": {"mode": "hard", "highestTierAllowed": 1 + part % 2},
        }
        for part, size in enumerate(sizes)
    ]
    yield pod_group
    ranks = [(part, rank) for part, size in enumerate(sizes) for rank in range(size)]
    for place, (part, rank) in enumerate(ranks):
        raw = pod(number, place, on="")
        (container,) = raw["spec"]["containers"]
        asks = {"cpu": str(4 + 4 * part + rank % 2), "nvidia.com/gpu": str(1 + rank % 2)}
        container = {**container, "resources": {"requests": asks}}
        metadata = {**raw["metadata"], "labels": {**raw["metadata"]["labels"], "part": str(part)}}
        metadata["annotations"] = {**metadata["annotations"], "volcano.sh/task-spec": f"role{rank % 2}"}
        yield {**raw, "metadata": metadata, "spec": {**raw["spec"], "containers": [container]}}


@row("C17", at_most(_GROWTH, _LINEAR))
def _c17(lab: Lab) -> Measured:
    """Growth of the validation of a Job whose tasks depend on each other in one long row."""
    tasks = max(10, lab.size.everyday // 10)
    short, long = (
        best_of(max(2, lab.size.repeats // 4), partial(validate, _long_job(number)), clock=time.process_time)
        for number in (tasks, 4 * tasks)
    )
    return compared(f"validating a Job of {4 * tasks:,} tasks, each on the one before, ÷ of {tasks:,}", long, short)


def _long_job(tasks: int) -> Objects:
    template = {"spec": {"containers": [{"name": "main", "image": "trainer"}]}}
    listed = [
        {"name": f"t{i}", "replicas": 1, "template": template, **({"dependsOn": {"name": [f"t{i - 1}"]}} if i else {})}
        for i in range(tasks)
    ]
    spec = {"minAvailable": tasks, "schedulerName": "volcano", "tasks": listed}
    return read_manifests([manifest("batch.volcano.sh/v1alpha1", "Job", "long", "d", spec=spec)])


# -- questions of people


def _full(nodes: int) -> Scenario:
    """Gangs of four whole nodes scattered over nearly all nodes, and one of sixteen that wants a rack."""
    hosts = Random(7).sample(range(nodes), nodes)
    running = nodes * 97 // 100 // 4
    raws = [*in_leaves(nodes)]
    for i in range(running):
        raws += stated(i, hosts[4 * i : 4 * i + 4], 4, 2 + i % 4_000)
    raws += stated(running, (), 16, 60, tier=1)
    return prepared(read_manifests(raws), DEFAULT, _NOW)


def _name_of_waiting(nodes: int) -> str:
    return f"d/g{nodes * 97 // 100 // 4}"


@row("C18a", at_most(1, 0.5))
def _c18a(lab: Lab) -> Measured:
    """Seconds until the first answer to what would start a gang, by counting alone."""
    nodes = lab.size.everyday // 2
    scenario = _full(nodes)
    scenario.snapshot()
    ask = partial(by_counting, scenario, _name_of_waiting(nodes))
    seconds = best_of(2, ask, clock=time.process_time)
    return f"seconds of the first answer to what would start a gang at {nodes:,} nodes, which are read", seconds


@row("C18b", at_most(_GROWTH, _LINEAR))
def _c18b(lab: Lab) -> Measured:
    """Growth of the whole search for the least that would start a gang."""
    nodes = max(40, lab.size.everyday // 8)
    few, many = (_search_seconds(number) for number in (nodes, 4 * nodes))
    return compared(f"the least that starts a gang at {4 * nodes:,} nodes ÷ at {nodes:,}", many, few)


def _search_seconds(nodes: int) -> float:
    scenario = _full(nodes)
    seconds, _ = timed(partial(least_change, scenario, _name_of_waiting(nodes)))
    return seconds


@row("C18c", at_most(5, 3))
def _c18c(lab: Lab) -> Measured:
    """Seconds until all waiting gangs have an expected start."""
    nodes = lab.size.everyday // 2
    gangs = max(2, lab.size.backlog // 50)
    scenario = prepared(read_manifests(ends_are_known(nodes, gangs)), DEFAULT, _NOW)
    seconds, _ = timed(partial(etas, scenario))
    return f"seconds of the expected starts of {gangs:,} waiting gangs at {nodes:,} nodes", seconds
