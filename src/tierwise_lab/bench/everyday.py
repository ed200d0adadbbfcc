"""Rows about what clusters hold besides gangs: DaemonSets, plain pods, budgets, heartbeats, pods that come and go.

Each row was a performance cliff once: a step ten to hundreds of times slower than the others. Seconds are
processor time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import process_time

from msgspec.structs import replace

from tierwise.api import codec
from tierwise.config.profile import DEFAULT
from tierwise.kube.kinds import Resource
from tierwise.kube.store import Store
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot
from tierwise.model.tree import Declared, build_tree
from tierwise.port import Key, Objects, key_of_raw
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import Reader, build
from tierwise_lab.bench.lab import Lab, Measured, row
from tierwise_lab.bench.manifests import (
    GANG,
    Manifest,
    budget,
    daemon_pod,
    full_of_gangs,
    lone_pod,
    node,
    pod,
    rack,
    racks,
    read_manifests,
)
from tierwise_lab.bench.measure import at_least, at_most, best_of, compared, duration, gc_off, in_turns, timed
from tierwise_lab.bench.worlds import cluster, jobs, mix, snapshot

__all__ = ["with_minimums"]

_DAEMONS = 4  # DaemonSets
_NODES = Resource("", "v1", "Node", "nodes", namespaced=False, status=True)


@row("C2a", at_most(1.5, 1.1))
def _c2a(lab: Lab) -> Measured:
    """The cycle of a cluster with DaemonSets, against the same pods without a pin."""
    seen = (build(_daemons(lab, pinned=pinned), 0.0) for pinned in (True, False))
    pinned, free = in_turns(max(2, lab.size.repeats // 4), *(partial(cycle, full, DEFAULT) for full in seen))
    return compared(f"cycle over {_daemon_pods(lab)} ÷ the same pods without their pins", pinned, free)


@row("C2b", at_most(1.5, 1.2))
def _c2b(lab: Lab) -> Measured:
    """Reading such a cluster, likewise."""
    pinned, free = in_turns(2, *(partial(build, _daemons(lab, pinned=pinned), 0.0) for pinned in (True, False)))
    return compared(f"reading {_daemon_pods(lab)} ÷ the same pods without their pins", pinned, free)


@row("C2c", at_least(2_000, 10_000))
def _c2c(lab: Lab) -> Measured:
    """A DaemonSet that is new to a cluster: every pod of it waits for one node."""
    nodes = lab.size.everyday // 2
    waiting = [daemon_pod(0, f"n{i}", bound=False) for i in range(nodes)]
    rate = _pods_a_second(lab, nodes, waiting)
    what = f"pods/s of a cycle, one DaemonSet that is new to {nodes:,} nodes"
    return what, rate


@row("C5", at_least(20_000, 100_000))
def _c5(lab: Lab) -> Measured:
    """The pods of a Deployment, none of which is in a group."""
    nodes = lab.size.everyday
    rate = _pods_a_second(lab, nodes, [lone_pod("web", i) for i in range(nodes // 2)])
    what = f"pods/s of a cycle, {nodes // 2:,} plain pods of one Deployment at {nodes:,} nodes"
    return what, rate


@row("C5b", at_least(3_000, 20_000))
def _c5b(lab: Lab) -> Measured:
    """The pods of many services that came one after another, so that no two in a row are alike."""
    nodes = lab.size.everyday
    services = lab.size.everyday * 6 // 100
    waiting = [_one_of_many(i % services, i) for i in range(nodes // 2)]
    rate = _pods_a_second(lab, nodes, waiting)
    what = f"pods/s of a cycle, {nodes // 2:,} plain pods of {services:,} services among each other at {nodes:,} nodes"
    return what, rate


def _one_of_many(service: int, number: int) -> Manifest:
    """The pod of a service that came as the one of this number; services ask for different amounts."""
    asks = {"cpu": f"{service % 16 + 1}00m", "memory": f"{service // 16 % 16 + 1}Gi"}
    pod_manifest = lone_pod(f"s{service}", number)
    pod_manifest["metadata"]["creationTimestamp"] = (
        f"2027-01-15T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
    )
    pod_manifest["spec"]["containers"][0]["resources"] = {"requests": asks}
    return pod_manifest


@row("C6", at_most(1.5, 1.1))
def _c6(lab: Lab) -> Measured:
    """Reading pods of many services with a disruption budget each, against reading them without."""
    nodes = lab.size.everyday // 2
    services = lab.size.everyday // 50
    pods = [lone_pod(f"s{i % services}", i, on=f"n{i % nodes}") for i in range(4 * nodes)]
    plain = [*(node(i) for i in range(nodes)), *racks(nodes), *pods]
    covered = [*plain, *(budget(f"s{i}", "web") for i in range(services))]
    with_budgets, without = in_turns(2, *(partial(build, read_manifests(these), 0.0) for these in (covered, plain)))
    what = f"reading {len(pods):,} pods with {services:,} disruption budgets ÷ without"
    return compared(what, with_budgets, without)


@row("C7a", at_most(5, 0.2))
def _c7a(lab: Lab) -> Measured:
    """Measure the milliseconds that it takes to follow a kubelet's report in which only the time of its heartbeat has
    changed. RuntimeError where a reader wakes of it.
    """
    store = Store()
    reader = Reader()
    store.listed(_NODES, [(codec.decode(_reporting(i, 0)), None) for i in range(lab.size.pods // 8)], "1", since=0)
    before = store.read()
    reader.read(before, 0.0)
    reports = [(codec.decode(_reporting(7, minute)), None) for minute in range(1, lab.size.repeats + 1)]
    shortest = float("inf")
    for report in reports:
        with gc_off():
            begun = process_time()
            store.put(_NODES, report)
            reader.read(store.read(), 0.0)
            shortest = min(shortest, process_time() - begun)
    if store.read() is not before:
        raise RuntimeError("a heartbeat is meant to wake no reader")
    what = f"ms to follow a heartbeat at {lab.size.pods // 8:,} nodes"
    return what, shortest * 1e3


@row("C7b", at_most(50, 20))
def _c7b(lab: Lab) -> Measured:
    """A node that is cordoned, and let in again."""
    objects = _gangs(lab)
    states = [{**node(7), "spec": {"unschedulable": cordoned}} for cordoned in (True, False)]
    holding_seconds, reading_seconds = _following(lab, objects, [({key_of_raw(raw): raw}, ()) for raw in states])
    what = f"ms to follow a cordon at {lab.size.pods // 8:,} nodes and {lab.size.pods:,} pods"
    return what, (holding_seconds + reading_seconds) * 1e3


def _reporting(number: int, minute: int) -> Manifest:
    raw = node(number)
    raw["metadata"] = {**raw["metadata"], "resourceVersion": str(minute + 1)}
    raw["status"]["conditions"][0]["lastHeartbeatTime"] = f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z"
    return raw


@row("C8a", at_most(20, 5))
def _c8a(lab: Lab) -> Measured:
    """A pod that comes, and goes again."""
    objects = _gangs(lab)
    fresh = pod(0, GANG, on="")
    taking, seconds = _coming_and_going(lab, objects, fresh)
    shares = f"{duration(taking)} to hold it, {duration(seconds)} to read"
    what = f"ms for a pod that comes or goes at {lab.size.pods:,} pods ({shares})"
    return what, (taking + seconds) * 1e3


@row("C8b", at_most(200, 50))
def _c8b(lab: Lab) -> Measured:
    """A node that joins and leaves again at the end of the tree, and one that does in its middle."""
    objects = _gangs(lab)
    nodes = lab.size.pods // 8
    _, at_end = _coming_and_going(lab, objects, node(nodes))
    middle = node(nodes // 2)
    key = key_of_raw(middle)
    _, inside = _following(lab, objects, [({}, (key,)), ({key: middle}, ())])
    what = (
        f"ms for a node that joins or leaves at {lab.size.pods:,} pods"
        f" ({duration(at_end)} at the end of the tree, {duration(inside)} in its middle)"
    )
    return what, max(at_end, inside) * 1e3


@row("C8c", at_most(400, 100))
def _c8c(lab: Lab) -> Measured:
    """A pod that asks for a resource that no pod has asked for before, and a budget: what every pod was read by."""
    objects = _gangs(lab)
    fresh = pod(0, GANG, on="")
    fresh["spec"]["containers"][0]["resources"]["requests"]["example.com/fpga"] = "1"
    port = pod(0, GANG + 1, on="")
    port["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    guard = budget("nobody", "d")
    seconds = sum(_coming_and_going(lab, objects, raw)[1] for raw in (fresh, port, guard)) / 3
    what = f"ms for a new resource, a host port or a budget at {lab.size.pods:,} pods, the mean"
    return what, seconds * 1e3


@row("C9", at_most(1.5, 1.1))
def _c9(lab: Lab) -> Measured:
    """A backlog of jobs as Volcano's controllers make them, with minResources and roles, against plain podGroups."""
    full = (_backlog(lab, declared=declared) for declared in (True, False))
    with_templates, plain = in_turns(
        max(2, lab.size.repeats // 4), *(partial(cycle, waiting, DEFAULT) for waiting in full)
    )
    what = f"cycle over a backlog of {lab.size.backlog:,} gangs that Volcano's controllers made ÷ plain ones"
    return compared(what, with_templates, plain)


@row("C12a", at_most(10, 3))
def _c12a(lab: Lab) -> Measured:
    """HyperNodes that choose their nodes by pattern, against the same by label."""
    nodes = lab.size.everyday
    both = (_paired(nodes, form) for form in ("^n({}|{})$", ""))
    by_pattern, by_label = in_turns(2, *(partial(build, objects, 0.0) for objects in both))
    return compared(f"tree of {nodes // 2:,} hyperNodes by pattern ÷ by label", by_pattern, by_label)


def _paired(nodes: int, form: str) -> Objects:
    """Nodes and hyperNodes of two nodes each. form is a regular expression with two places for the numbers of the two
    nodes, as in "n({}|{})"; with an empty form they are chosen by a label.
    """
    labelled = [{**node(i), "metadata": {"name": f"n{i}", "labels": {"pair": f"p{i // 2}"}}} for i in range(nodes)]
    pairs = []
    for i in range(nodes // 2):
        label = {"labelMatch": {"matchLabels": {"pair": f"p{i}"}}}
        selector = {"regexMatch": {"pattern": form.format(2 * i, 2 * i + 1)}} if form else label
        pairs.append({**rack(i), "spec": {"tier": 1, "members": [{"type": "Node", "selector": selector}]}})
    return read_manifests([*labelled, *pairs])


@row("C12b", at_most(2, 1.5))
def _c12b(lab: Lab) -> Measured:
    """Domains of three tiers that list nodes and not each other: whether four times as many take four times as long."""
    domains = max(16, lab.size.everyday // 10)
    small, large = in_turns(3, *(_growing(number) for number in (domains, 4 * domains)))
    few = small / domains
    many = large / (4 * domains)
    what = f"seconds a domain to grow a tree of {4 * domains:,} that contain each other unnamed ÷ {domains:,}"
    return compared(what, many, few)


def _growing(racks: int) -> Callable[[], object]:
    names = [f"n{i}" for i in range(4 * racks)]
    tiers = [(4, "rack"), (64, "leaf"), (len(names), "spine")]
    declared = []
    for tier, (size, kind) in enumerate(tiers, 1):
        for start in range(0, len(names), size):
            declared.append(Declared(f"{kind}{start}", tier, nodes=frozenset(names[start : start + size])))
    return partial(build_tree, declared, names)


def _backlog(lab: Lab, *, declared: bool) -> Snapshot:
    where = cluster(lab.size.everyday, load=0.3)
    waiting = jobs([replace(gang, group=0) for gang in mix(lab.size.backlog, top=where.top)])
    if declared:
        waiting = [with_minimums(job) for job in waiting]
    return snapshot(where, waiting)


def with_minimums(job: Job) -> Job:
    """A copy of a gang with the minResources and the one role that a controller writes for it."""
    (sub,) = job.subs
    (tasks,) = sub.pod_sets
    role = job.number
    members = tuple(replace(task, role="worker") for task in job.tasks)
    return replace(
        job,
        tasks=members,
        min_resources=tasks.shape.request * len(tasks.tasks),
        roles={role: len(tasks.tasks)},
        role_names={role: "worker"},
        role_ready={role: 0},
        subs=(replace(sub, pod_sets=(replace(tasks, role="worker", role_number=role, tasks=members),)),),
    )


def _gangs(lab: Lab) -> Objects:
    return lab.once("gangs", lambda: full_of_gangs(lab.size.pods))


def _daemons(lab: Lab, *, pinned: bool) -> Objects:
    """Nodes that hold DaemonSet pods, and one pod that waits."""
    nodes = lab.size.everyday
    agents = []
    for i in range(nodes):
        for d in range(_DAEMONS):
            agents.append(daemon_pod(d, f"n{i}", pinned=pinned))
    return read_manifests([*(node(i) for i in range(nodes)), *racks(nodes), *agents, lone_pod("web", 0)])


def _daemon_pods(lab: Lab) -> str:
    return f"{_DAEMONS} DaemonSets on {lab.size.everyday:,} nodes"


def _pods_a_second(lab: Lab, nodes: int, waiting: Sequence[Manifest]) -> float:
    """How many pods a cycle over so many nodes places in a second, all of which fit."""
    seen = build(read_manifests([*(node(i) for i in range(nodes)), *racks(nodes), *waiting]), 0.0)
    placed = sum(decision.count() for decision in cycle(seen, DEFAULT).decisions)
    if placed != len(waiting):
        raise RuntimeError(f"all {len(waiting)} pods are meant to fit, and {placed} did")
    return placed / best_of(max(2, lab.size.repeats // 10), lambda: cycle(seen, DEFAULT), clock=process_time)


_Change = tuple[dict[Key, Manifest], tuple[Key, ...]]
"""What is put, and what is deleted."""


def _coming_and_going(lab: Lab, objects: Objects, raw: Manifest) -> tuple[float, float]:
    """Seconds to hold an object that comes or goes, and to read it."""
    key = key_of_raw(raw)
    return _following(lab, objects, [({key: raw}, ()), ({}, (key,))])


def _following(lab: Lab, objects: Objects, changes: Sequence[_Change]) -> tuple[float, float]:
    """Seconds to hold and to read changes that follow each other, again and again: means of the shortest times."""
    reader = Reader()
    reader.read(objects, 0.0)
    decoded = [({key: (codec.decode(raw), raw) for key, raw in puts.items()}, gone) for puts, gone in changes]
    hold_times = [float("inf")] * len(changes)
    read_times = [float("inf")] * len(changes)
    for repeat in range(max(2, lab.size.repeats // 4) + 1):
        for i, (puts, gone) in enumerate(decoded):
            with gc_off():
                holding, objects = timed(partial(objects.updated, puts, gone, objects.version + 1))
                reading, _ = timed(partial(reader.read, objects, 0.0))
            if repeat:  # every step is taken once before it counts
                hold_times[i], read_times[i] = min(hold_times[i], holding), min(read_times[i], reading)
    return sum(hold_times) / len(hold_times), sum(read_times) / len(read_times)
