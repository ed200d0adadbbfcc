"""Rows about a cluster that holds everything at once and changes all the time: what an iteration of the loop costs.

DaemonSets, services with rules between their pods, disruption budgets, gangs of all sizes in many queues; pods that
come, go and change, and nodes that report. Time is the processor's. The loop is the live one on the embedded cluster,
so an iteration holds everything but the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from statistics import median
from time import process_time

import msgspec
import numpy as np

from tierwise.api.manifest import members
from tierwise.config.profile import DEFAULT
from tierwise.port import Create, Delete, Effect, Key, PatchStatus
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import SchedulerProfile
from tierwise.scheduler import cycle
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import build
from tierwise_lab.bench import manifests
from tierwise_lab.bench.lab import Lab, Measured, row
from tierwise_lab.bench.measure import at_most, compared, gc_off, in_turns, timed

__all__ = ["Live", "beside_flood", "gang_sizes", "kept_out", "living_cluster", "many_services", "too_large"]

_DAEMONS, _QUEUES, _ITERATIONS_A_SECOND = 4, 40, 5
_FEW = 10
"""Groups that change in an iteration where no more than usual happens."""
_SPINE = 16  # racks
_ZONE = "topology.kubernetes.io/zone"
_PODS_A_SECOND, _HEARTBEATS_A_SECOND = 50, 20
_FOUR = 4  # pods of each gang that comes beside a flood
_SETTLED = 4  # iterations after which all that is odd has been read, refused and told of


def gang_sizes(gangs: int, pods: int, seed: int = 1) -> list[int]:
    """So many sizes from 1 to 512, most of them small, that add up to so many pods."""
    drawn = np.random.default_rng(seed).pareto(0.7, gangs) + 1
    sizes: list[int] = np.minimum(drawn, 512).astype(int).tolist()
    at = 0
    while sum(sizes) != pods:
        step = 1 if sum(sizes) < pods else -1
        if 1 <= sizes[at % gangs] + step <= 512:
            sizes[at % gangs] += step
        at += 1
    return sizes


def living_cluster(nodes: int, *, waiting: int = 0) -> list[manifests.Manifest]:
    """A cluster of so many nodes with 12 pods for each: 4 of DaemonSets, 1 of a service and 7 of gangs.

    One node holds more than it has, as some do for weeks. `waiting` gangs ask for more than any node has left.
    """
    manifests_made: list[manifests.Manifest] = []
    for i in range(nodes):
        manifests_made.append(_node(i, nodes))
        manifests_made += [manifests.daemon_pod(d, f"n{i}") for d in range(_DAEMONS)]
    manifests_made += manifests.racks(nodes)
    manifests_made += [_spine(i, nodes) for i in range(-(-nodes // (_SPINE * 16)))]
    manifests_made += [_queue(i) for i in range(_QUEUES)]
    services = max(2, nodes * 600 // 5_000)
    manifests_made += [_service_pod(i % services, i, f"n{i}") for i in range(nodes)]
    manifests_made += [manifests.budget(f"s{i}", "web") for i in range(services // 2)]
    at = 0
    for gang, size in enumerate(gang_sizes(max(2, nodes * 3 // 5), 7 * nodes)):
        manifests_made.append(_group(gang, size))
        manifests_made += [_gang_pod(gang, rank, f"n{(at + rank) // 7}") for rank in range(size)]
        at += size
    for gang, size in enumerate(gang_sizes(waiting, 12 * waiting, seed=2) if waiting else ()):
        manifests_made.append(_group(1_000_000 + gang, size, phase="Inqueue", tier=1 + gang % 2))
        manifests_made += [_gang_pod(1_000_000 + gang, rank, "", gpus=2) for rank in range(size)]
    return manifests_made


def _node(number: int, nodes: int) -> manifests.Manifest:
    raw = manifests.node(number)
    raw["metadata"]["labels"][_ZONE] = f"z{number * 3 // nodes}"
    raw["metadata"]["labels"]["kubernetes.io/hostname"] = f"n{number}"
    if number == 0:
        raw["status"]["allocatable"]["cpu"] = "24"
    return raw


def _spine(number: int, nodes: int) -> manifests.Manifest:
    end = min((number + 1) * _SPINE, -(-nodes // 16))
    spec = {"tier": 2, "members": members("HyperNode", (f"r{i}" for i in range(number * _SPINE, end)))}
    return manifests.manifest("topology.volcano.sh/v1alpha1", "HyperNode", f"spine{number}", spec=spec)


def _queue(number: int) -> manifests.Manifest:
    spec = {"weight": 1 + number % 4, "reclaimable": True}
    return manifests.manifest("scheduling.volcano.sh/v1beta1", "Queue", f"q{number}", spec=spec)


def _service_pod(service: int, number: int, on: str) -> manifests.Manifest:
    """A pod of a service: no two of them on one node, and spread over zones."""
    selector = {"labelSelector": {"matchLabels": {"app": f"s{service}"}}}
    apart = [{**selector, "topologyKey": "kubernetes.io/hostname"}]
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}
    spread = {**selector, "maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
    return manifests.lone_pod(
        f"s{service}",
        number,
        on=on,
        schedulerName="volcano",
        affinity=rule,
        topologySpreadConstraints=[spread],
    )


def _group(number: int, size: int, *, phase: str = "Running", tier: int = 0) -> manifests.Manifest:
    raw = manifests.group(number, minimum=size, phase=phase)
    raw["spec"]["queue"] = f"q{number % _QUEUES}"
    if tier:
        raw["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": tier}
    return raw


def _gang_pod(gang: int, rank: int, on: str, *, gpus: int = 1) -> manifests.Manifest:
    raw = manifests.pod(gang, rank, on=on)
    del raw["metadata"]["labels"]
    raw["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = str(gpus)
    return raw


class Iterations(msgspec.Struct, frozen=True):
    """Seconds of iterations, without the first ones, which read everything."""

    seconds: list[float]
    bound: int  # pods that found a node in them

    def at(self, share: float) -> float:
        return float(np.quantile(self.seconds, share))


class Live:
    """The loop on such a cluster, and what happens around it."""

    def __init__(self, nodes: int, *, waiting: int = 0, seed: int = 1) -> None:
        self._pick = Random(seed)
        self._now = 1_800_000_000.0
        self._nodes = nodes
        self._services = max(2, nodes * 600 // 5_000)
        self._fresh = nodes
        self.cluster = EmbeddedCluster(manifests.read_manifests(living_cluster(nodes, waiting=waiting)))
        profile = SchedulerProfile(frozenset({"volcano"}), DEFAULT)
        self.loop = Loop(self.cluster, [profile], clock=lambda: self._now, ticks=lambda: self._now)
        self._pods = [key for key in self.cluster.read() if key.kind == "Pod" and not key.name.startswith("g1000")]

    def settle(self) -> None:
        """Iterations until all is read and every group was told its state: where there are many, in parts."""
        groups = [key for key in self.cluster.read() if key.kind == "PodGroup"]
        changed = len(groups)
        while changed > _FEW:
            before = self.cluster.read()
            self.iterations(1)
            after = self.cluster.read()
            changed = sum(before.raw(key) != after.raw(key) for key in groups)

    def iterations(self, number: int) -> Iterations:
        """So many iterations, a fifth of a second apart."""
        seconds = []
        before = len(self.cluster.events)
        for _ in range(number):
            self._now += 1 / _ITERATIONS_A_SECOND
            self.cluster.apply(list(self._news()))
            seconds.append(timed(self.loop.run_once)[0])
        bound = sum(event.reason == "Scheduled" for event in self.cluster.events[before:])
        return Iterations(seconds, bound)

    def _news(self) -> Iterator[Effect]:
        """Changes since the last iteration: half of the pods are touched, some end, others come."""
        for _ in range(_HEARTBEATS_A_SECOND // _ITERATIONS_A_SECOND):
            name = f"n{self._pick.randrange(self._nodes)}"
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": _time(self._now)}
            yield PatchStatus(Key("", "Node", "", name), {"conditions": [ready]})
        for i in range(_PODS_A_SECOND // _ITERATIONS_A_SECOND):
            at = self._pick.randrange(len(self._pods))
            key = self._pods[at]
            if i % 2 == 0:
                status: manifests.Manifest = {"phase": "Running", "hostIP": f"10.0.{i}.{self._pick.randrange(256)}"}
                yield PatchStatus(key, status)
                continue
            if key.namespace == "system":
                yield PatchStatus(key, {"phase": "Running", "message": _time(self._now)})
            elif key.namespace == "d":
                yield PatchStatus(key, {"phase": "Succeeded"})
                self._pods[at] = self._pods[-1]
                self._pods.pop()
            else:
                self._fresh += 1
                raw = _service_pod(self._pick.randrange(self._services), self._fresh, "")
                yield Delete(key)
                yield Create(raw)
                self._pods[at] = Key("", "Pod", "web", raw["metadata"]["name"])


def _time(moment: float) -> str:
    seconds = int(moment) % 86_400
    return f"2027-01-15T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


def _iterations(lab: Lab, *, waiting: int) -> Iterations:
    def measured() -> Iterations:
        live = Live(lab.size.everyday // 2, waiting=waiting)
        live.settle()
        with gc_off():  # a live scheduler spares the collector, too
            return live.iterations(max(40, 10 * lab.size.repeats))

    return lab.once(f"iterations with {waiting} waiting", measured)


def _iteration(lab: Lab, share: float, waiting: int) -> Measured:
    iterations = _iterations(lab, waiting=waiting)
    nodes = lab.size.everyday // 2
    backlog = f", {waiting} gangs waiting" if waiting else ""
    what = (
        f"ms of an iteration at {nodes:,} nodes and {12 * nodes:,} pods that change all the time{backlog}:"
        f" {'median' if share == 0.5 else '99th percentile'} of {len(iterations.seconds)}"
    )
    return what, iterations.at(share) * 1e3


def many_services(nodes: int, services: int, pods: int) -> list[manifests.Manifest]:
    """So many pods of so many services, which wait, and of which no two of a service share a node."""
    waiting = [_service_pod(i % services, i, "") for i in range(pods)]
    return [*(_node(i, nodes) for i in range(nodes)), *manifests.racks(nodes), *waiting]


@row("C11", at_most(2, 1.2))
def _c11(lab: Lab) -> Measured:
    """Rules between the pods of many services, against those of few."""
    nodes = lab.size.everyday // 5
    pods = lab.size.everyday // 5
    both = (_placing(nodes, services, pods) for services in (max(2, pods // 4), max(1, pods // 40)))
    many, few = in_turns(max(1, lab.size.repeats // 20), *both)
    what = (
        f"cycle over {pods:,} pods of {pods // 4:,} services that stand apart and spread ÷ of {pods // 40:,}"
        f" at {nodes:,} nodes ({many / pods * 1e3:.2g} ms a pod ÷ {few / pods * 1e3:.2g} ms)"
    )
    return what, many / few


def _placing(nodes: int, services: int, pods: int) -> Callable[[], object]:
    seen = build(manifests.read_manifests(many_services(nodes, services, pods)), 0.0)
    placed = sum(decision.count() for decision in cycle(seen, DEFAULT).decisions)
    if placed != pods:
        raise RuntimeError(f"all {pods} pods are meant to fit, and {placed} did")
    return partial(cycle, seen, DEFAULT)


def beside_flood(nodes: int, flood: Sequence[manifests.Manifest], gangs: int) -> list[float]:
    """Seconds of each iteration in which a gang of four comes, and is bound, beside another tenant's objects."""
    queue = manifests.manifest("scheduling.volcano.sh/v1beta1", "Queue", "default")
    cluster = EmbeddedCluster(
        manifests.read_manifests([*(_node(i, nodes) for i in range(nodes)), *manifests.racks(nodes), queue])
    )
    profile = SchedulerProfile(frozenset({"volcano"}), DEFAULT)
    loop = Loop(cluster, [profile], clock=lambda: 1_800_000_000.0, ticks=process_time, with_controllers=False)
    cluster.apply([Create(raw) for raw in flood])
    for _ in range(_SETTLED):
        loop.run_once()
    seconds = []
    for number in range(gangs):
        cluster.apply([Create(raw) for raw in _gang_of_four("d", number, "default", "4")])
        seconds.append(timed(loop.run_once)[0])
    bound = sum(event.reason == "Scheduled" and event.about.kind == "Pod" for event in cluster.events)
    if bound != _FOUR * gangs:
        raise RuntimeError(f"all {_FOUR * gangs} pods are meant to fit, and {bound} did")
    return seconds


@row("R4", at_most(400, 120))
def _r4(lab: Lab) -> Measured:
    """Measure the microseconds of an iteration, controllers included, for each of 100 pods that end or start at the
    same time.
    """
    gangs = lab.size.everyday // 4
    events = 100
    pods = []
    for g in range(gangs):
        for i in range(8):
            pods.append(manifests.pod(g, i, on=f"n{g}"))
    groups = [manifests.group(g, minimum=8) for g in range(gangs)]
    objects = manifests.read_manifests(
        [*map(manifests.node, range(gangs)), *manifests.racks(gangs), *groups, *pods],
    )
    cluster = EmbeddedCluster(objects)
    seconds = list[float]()
    ends: manifests.Manifest = {"phase": "Succeeded"}
    profile = SchedulerProfile(frozenset({"volcano"}), DEFAULT)
    loop = Loop(cluster, [profile], clock=lambda: 1_800_000_000.0, ticks=process_time)
    for _ in range(_SETTLED):
        loop.run_once()
    with gc_off():
        for repeat in range(4):
            starts: manifests.Manifest = {"phase": "Running", "startTime": _time(repeat)}
            news = ((g, starts if g % 2 else ends) for g in range(repeat * gangs // 4, repeat * gangs // 4 + events))
            cluster.apply([PatchStatus(Key("", "Pod", "d", f"g{g % gangs}-3"), status) for g, status in news])
            seconds.append(timed(loop.run_once)[0])
    what = f"µs of an iteration for each of {events} pods that end or start, among {8 * gangs:,}"
    return what, min(seconds) / events * 1e6


def _gang_of_four(namespace: str, number: int, queue: str, cpu: str) -> list[manifests.Manifest]:
    gang = _group(number, _FOUR, phase="Inqueue", tier=1)
    gang["spec"]["queue"] = queue
    pods = [_gang_pod(number, rank, "") for rank in range(_FOUR)]
    for raw in pods:
        raw["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu}
    for raw in (gang, *pods):
        raw["metadata"]["namespace"] = namespace
    return [gang, *pods]


def kept_out(jobs: int) -> list[manifests.Manifest]:
    """Gangs of another tenant that a gate keeps out: of a queue that is not there, or without their last pod."""
    pods = []
    for number in range(jobs):
        gang = _gang_of_four("noisy", number, f"nowhere-{number}" if number % 2 else "default", "4")
        pods += gang if number % 2 else gang[:-1]
    return pods


def too_large(jobs: int) -> list[manifests.Manifest]:
    """Gangs of another tenant that fit on no node, no two alike."""
    return [raw for n in range(jobs) for raw in _gang_of_four("noisy", n, "default", str(1_000 + n))]


def _beside(lab: Lab, flood: Callable[[int], list[manifests.Manifest]], what: str) -> Measured:
    """An iteration in which a gang comes beside a flood, against one without."""
    nodes = max(16, lab.size.everyday // 20)
    jobs = lab.size.everyday // 5
    gangs = 10 * lab.size.repeats
    with gc_off():
        calm, beside = (median(beside_flood(nodes, flood_made, gangs)) for flood_made in ([], flood(jobs)))
    return compared(
        f"iteration in which a gang of 4 comes beside {jobs:,} of another tenant {what} ÷ calm", beside, calm
    )


for _name, _goal, _share, _waiting in (
    ("R1a", at_most(200, 50), 0.5, 0),
    ("R1b", at_most(400, 100), 0.99, 0),
    ("R2a", at_most(500, 250), 0.5, 200),
    ("R2b", at_most(1_000, 500), 0.99, 200),
):
    row(_name, _goal)(partial(_iteration, share=_share, waiting=_waiting))
row("R3a", at_most(15, 4))(partial(_beside, flood=kept_out, what="that a gate keeps out"))
row("R3b", at_most(40, 8))(partial(_beside, flood=too_large, what="that fit on no node"))
