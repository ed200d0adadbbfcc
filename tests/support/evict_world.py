"""Worlds in which eviction happens, as plain values: their manifests, and what a cycle made of them.

    scene = random_scene(Random(7))
    told = once(scene, profile_of("gangpreempt", quota="capacity"))
    assert [] == told.evictions

Amounts are whole numbers by short name ("cpu", "gpu", "pods"). A scene is printed as the calls that make it.
`evict_scenes` makes random ones, `evict_oracle` judges what came of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.support.sight import saw

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import PluginChoice, Profile
from tierwise.explain.wire import schedule_wire
from tierwise.framework.report import CycleReport, EvictionAttempt
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects
from tierwise.sim.cluster import rounds

__all__ = [
    "Budget",
    "Gang",
    "Pod",
    "Queue",
    "Scene",
    "Step",
    "Told",
    "manifests",
    "many",
    "node_manifest",
    "objects",
    "once",
    "onward",
    "pod_group_manifest",
    "pod_manifest",
    "profile_of",
    "queue_manifest",
    "read",
    "starves",
    "steps",
]

CRITICAL = "system-node-critical"


def read(text: str) -> Counter[str]:
    """Amounts such as "cpu=2 gpu=1" as numbers."""
    return Counter({name: int(number) for name, number in (item.split("=") for item in text.split())})


# -- values


class Pod(msgspec.Struct, frozen=True, dict=True):
    """A pod: on a node, leaving it, or pending (and then perhaps nominated)."""

    name: str
    asks: str = "cpu=1"
    on: str = ""
    leaving: bool = False
    nominated: str = ""
    role: str = ""
    part: str = ""  # the sub-group it belongs to
    priority: int = 0
    created: int = 0
    mark: str = ""  # "kept": marked as not preemptable; "critical": of a system class
    never: bool = False

    @property
    def stands(self) -> bool:
        return bool(self.on) and not self.leaving

    @cached_property
    def need(self) -> Counter[str]:
        return read(self.asks) + Counter(pods=1)


class Gang(msgspec.Struct, frozen=True):
    """A pod group and its pods."""

    name: str
    pods: tuple[Pod, ...]
    minimum: int
    queue: str = "default"
    priority: int = 0
    created: int = 0
    roles: Mapping[str, int] = {}
    size: int = 0  # of its sub-groups; 0 where it has none
    whole: int = 0  # how many sub-groups must be whole
    inner: int | None = None  # hard tier of each sub-group
    within: int | None = None  # hard tier of the gang
    soft: bool = False
    kept: bool = False  # marked as not preemptable
    namespace: str = "default"
    held: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def path(self, pod: Pod) -> str:
        return f"{self.namespace}/{pod.name}"


class Queue(msgspec.Struct, frozen=True):
    name: str
    deserved: str = ""
    guarantee: str = ""
    capability: str = ""
    reclaimable: bool = True
    open: bool = True
    priority: int = 0
    weight: int = 1
    held: bool = False


class Budget(msgspec.Struct, frozen=True):
    """A disruption budget over the pods of a gang, all or those of a role."""

    gang: str
    allowed: int
    role: str = ""

    def covers(self, gang: Gang, pod: Pod) -> bool:
        return gang.key == f"default/{self.gang}" and self.role in ("", pod.role)


class Scene(msgspec.Struct, frozen=True, dict=True):
    """A cluster: spines of racks of nodes, queues, gangs and budgets."""

    spines: Mapping[str, tuple[str, ...]]
    racks: Mapping[str, tuple[str, ...]]
    nodes: Mapping[str, str]  # what each has
    queues: tuple[Queue, ...] = ()
    gangs: tuple[Gang, ...] = ()
    budgets: tuple[Budget, ...] = ()
    cordoned: tuple[str, ...] = ()

    def gang(self, key: str) -> Gang:
        return next(gang for gang in self.gangs if gang.key == key)

    def pods(self) -> dict[str, tuple[Gang, Pod]]:
        """Every pod by its path, with its gang."""
        return self._pods

    @cached_property
    def _pods(self) -> dict[str, tuple[Gang, Pod]]:
        return {gang.path(pod): (gang, pod) for gang in self.gangs for pod in gang.pods}

    def has(self, node: str) -> Counter[str]:
        return Counter({"pods": 110, **read(self.nodes[node])})

    def queue(self, name: str) -> Queue:
        return next((queue for queue in self.queues if queue.name == name), Queue(name))

    def held(self, gang: Gang) -> bool:
        """Whether somebody has held a gang, or its queue."""
        return gang.held or self.queue(gang.queue).held

    def with_gang(self, gang: Gang) -> Scene:
        """The same with one gang replaced, or added."""
        known = any(other.key == gang.key for other in self.gangs)
        swapped = tuple(gang if other.key == gang.key else other for other in self.gangs)
        return replace(self, gangs=swapped if known else (*self.gangs, gang))


# -- manifests


def amounts(text: str) -> dict[str, str]:
    """Amounts as a manifest spells them."""
    return {"nvidia.com/gpu" if name == "gpu" else name: str(number) for name, number in read(text).items()}


def objects(scene: Scene, order: Random | None = None) -> Objects:
    """The scene's manifests, decoded; in another order where one is given."""
    raws = manifests(scene)
    if order is not None:
        order.shuffle(raws)
    return Objects.of((codec.decode(raw), raw) for raw in raws)


def manifests(scene: Scene) -> list[Raw]:
    """Every object of a scene."""
    return [
        *(node_manifest(scene, name) for name in scene.nodes),
        *(_hypernode(name, 1, "Node", members) for name, members in scene.racks.items()),
        *(_hypernode(name, 2, "HyperNode", members) for name, members in scene.spines.items()),
        *({**_object("scheduling.k8s.io/v1", "PriorityClass", name=f"p{p}"), "value": p} for p in range(10)),
        *map(queue_manifest, scene.queues),
        *map(pod_group_manifest, scene.gangs),
        *(pod_manifest(gang, pod) for gang in scene.gangs for pod in gang.pods),
        *map(_budget, scene.budgets),
    ]


def _object(api_version: str, kind: str, spec: Raw | None = None, status: Raw | None = None, **metadata: Any) -> Raw:
    parts: Raw = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    return parts | ({"spec": spec} if spec is not None else {}) | ({"status": status} if status is not None else {})


def node_manifest(scene: Scene, name: str) -> Raw:
    """One node."""
    status: Raw = {"allocatable": {"pods": "110"} | amounts(scene.nodes[name])}
    return _object("v1", "Node", {"unschedulable": name in scene.cordoned}, status, name=name)


def _hypernode(name: str, tier: int, kind: str, members: Iterable[str]) -> Raw:
    listed = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    return _object("topology.volcano.sh/v1alpha1", "HyperNode", {"tier": tier, "members": listed}, name=name)


def queue_manifest(queue: Queue) -> Raw:
    """One queue."""
    spec: Raw = {
        "deserved": amounts(queue.deserved),
        "guarantee": {"resource": amounts(queue.guarantee)},
        "capability": amounts(queue.capability),
        "reclaimable": queue.reclaimable,
        "priority": queue.priority,
        "weight": queue.weight,
    }
    status: Raw = {"state": "Open" if queue.open else "Closed"}
    return _object(
        "scheduling.volcano.sh/v1beta1", "Queue", spec, status, name=queue.name, annotations=_hold(held=queue.held)
    )


def _hold(*, held: bool) -> dict[str, str]:
    return {"tierwise.io/hold": "until the audit is over"} if held else {}


def pod_group_manifest(gang: Gang) -> Raw:
    """A gang without its pods."""
    topology: Raw | None = {"mode": "soft"} if gang.soft else _hard(gang.within)
    policy = {"name": "part", "subGroupSize": gang.size, "minSubGroups": gang.whole, "matchLabelKeys": ["part"]}
    spec: Raw = {
        "minMember": gang.minimum,
        "minTaskMember": dict(gang.roles),
        "queue": gang.queue,
        "priorityClassName": f"p{gang.priority}",
        "networkTopology": topology,
        "subGroupPolicy": [policy | {"networkTopology": _hard(gang.inner)}] if gang.size else [],
    }
    annotations = _hold(held=gang.held) | ({"volcano.sh/preemptable": "false"} if gang.kept else {})
    where = {"name": gang.name, "namespace": gang.namespace}
    group = _object("scheduling.volcano.sh/v1beta1", "PodGroup", spec, {"phase": "Inqueue"}, **where)
    group["metadata"] |= {"annotations": annotations, "creationTimestamp": _time(gang.created)}  # type: ignore[operator]
    return group


def _hard(tier: int | None) -> Raw | None:
    return None if tier is None else {"mode": "hard", "highestTierAllowed": tier}


def _time(second: int) -> str:
    return f"1970-01-01T00:{second // 60:02}:{second % 60:02}Z"


def pod_manifest(gang: Gang, pod: Pod) -> Raw:
    """One pod."""
    annotations = {"scheduling.k8s.io/group-name": gang.name}
    annotations |= {"volcano.sh/preemptable": "false"} if pod.mark == "kept" else {}
    labels = {"gang": gang.name} | ({"part": pod.part} if pod.part else {})
    labels |= {"volcano.sh/task-spec": pod.role} if pod.role else {}
    spec: Raw = {"containers": [{"name": "main", "resources": {"requests": amounts(pod.asks)}}]}
    spec |= {"priority": pod.priority} | ({"priorityClassName": CRITICAL} if pod.mark == "critical" else {})
    spec |= ({"preemptionPolicy": "Never"} if pod.never else {}) | ({"nodeName": pod.on} if pod.on else {})
    status: Raw = {"phase": "Running" if pod.on else "Pending"}
    status |= {"nominatedNodeName": pod.nominated} if pod.nominated else {}
    metadata: Raw = {"name": pod.name, "namespace": gang.namespace, "labels": labels, "annotations": annotations}
    metadata |= {"creationTimestamp": _time(pod.created)} | ({"deletionTimestamp": _time(0)} if pod.leaving else {})
    return _object("v1", "Pod", spec, status, **metadata)


def _budget(budget: Budget) -> Raw:
    role = {"volcano.sh/task-spec": budget.role} if budget.role else {}
    spec: Raw = {"selector": {"matchLabels": {"gang": budget.gang, **role}}}
    where = {"name": f"budget-{budget.gang}-{budget.allowed}", "namespace": "default"}
    return _object("policy/v1", "PodDisruptionBudget", spec, {"disruptionsAllowed": budget.allowed}, **where)


# -- what a cycle made of it


class Step(msgspec.Struct, frozen=True):
    """One decision: who was evicted for a gang, and where its pods went."""

    gang: str
    action: str
    evicted: tuple[str, ...]
    placed: Mapping[str, str]
    bound: bool


class Told(msgspec.Struct, frozen=True):
    """The JSON of `schedule`, and the report of the first cycle."""

    wire: Mapping[str, Any]
    report: CycleReport
    steps: tuple[Step, ...]

    @property
    def evictions(self) -> list[dict[str, str]]:
        return list(self.wire["evictions"])

    @property
    def victims(self) -> set[str]:
        return {entry["pod"] for entry in self.evictions}

    @property
    def placed(self) -> dict[str, str]:
        """Every pod that was bound or nominated."""
        return {**self.wire["nominations"], **self.wire["bindings"]}

    def story(self, step: Step) -> EvictionAttempt:
        """How room was made for a gang."""
        return next(
            s for s in self.report.eviction_attempts[step.gang] if s.action == step.action and s.obstacle is None
        )


_TRIED: list[tuple[Scene, Profile, rounds.Rounds]] = []
"""The last cycle that told whether a world starves; the first that a property asks for is mostly the same one."""


def once(scene: Scene, chosen: Profile, order: Random | None = None) -> Told:
    """One cycle."""
    if order is None and _TRIED and _TRIED[0][0] is scene and _TRIED[0][1] is chosen:
        history = _TRIED.pop()[2]
    else:
        history = rounds.schedule(objects(scene, order), chosen, now=0.0, cycles=1)
    return _told(_noted(scene, history))


def starves(scene: Scene, chosen: Profile) -> bool:
    """Whether a cycle evicts somebody; what comes of it is nothing that a property has seen."""
    history = rounds.schedule(objects(scene), chosen, now=0.0, cycles=1)
    _TRIED[:] = [(scene, chosen, history)]
    return bool(history.evictions)


def _noted(scene: Scene, history: rounds.Rounds) -> rounds.Rounds:
    """The same, once the property for which it ran knows what came of it."""
    victims = [scene.pods()[e.task.key] for e in history.evictions if e.task.key in scene.pods()]
    saw(
        cycles=history.cycles,
        evictions=len(victims),
        reclaims=sum("reclaim" in e.action for e in history.evictions),
        binds=len(history.bindings),
        nominations=len(history.nominations),
        half_gangs=sum(len({pod.stands for pod in gang.pods}) == 2 for gang in scene.gangs),
        second_cycles=max(history.cycles - 1, 0),
        budgeted_victims=sum(any(b.covers(*victim) for b in scene.budgets) for victim in victims),
        preemptors_that_never=sum(pod.never for gang in scene.gangs for pod in gang.pods) if victims else 0,
        guarded=sum(gang.kept or any(p.mark for p in gang.pods) for gang in scene.gangs) if victims else 0,
        confined=sum(gang.within is not None for gang in scene.gangs) if victims else 0,
    )
    return history


def onward(scene: Scene, told: Told, *, linger: bool) -> Scene:
    """The scene after a cycle; the evicted are on their way out where they `linger`, else gone."""

    def now(gang: Gang, pod: Pod) -> Pod:
        path = gang.path(pod)
        if path in told.victims or pod.leaving:
            return replace(pod, leaving=True)
        on, nominated = told.wire["bindings"].get(path, pod.on), told.wire["nominations"].get(path, "")
        return replace(pod, on=on, nominated=nominated)

    gangs = []
    for gang in scene.gangs:
        pods = (now(gang, pod) for pod in gang.pods)
        gangs.append(replace(gang, pods=tuple(pod for pod in pods if linger or not pod.leaving)))
    return replace(scene, gangs=tuple(gangs))


def many(scene: Scene, chosen: Profile) -> rounds.Rounds:
    """As many cycles as change anything."""
    return _noted(scene, rounds.schedule(objects(scene), chosen, now=0.0))


def _told(history: rounds.Rounds) -> Told:
    before, report = history.reports[0]
    wire = schedule_wire(
        bindings=history.bindings,
        nominations=history.nominations,
        evictions=history.evictions,
        report=report,
        after=history.after(0.0),
    )
    return Told(wire, report, tuple(steps(before, report)))


def steps(before: Snapshot, report: CycleReport) -> Iterator[Step]:
    """The decisions of a report, each with the evictions made for it."""
    told: set[tuple[str, str]] = set()
    for decision in report.decisions:
        who = (decision.job.key, decision.action)
        gone = tuple(e.task.key for e in report.evictions if e.by and (e.by.key, e.action) == who and who not in told)
        told.add(who)
        names = before.nodes.names
        spots = ((t.key, names[row]) for p in decision.placed for t, row in zip(p.tasks, p.rows.tolist(), strict=True))
        yield Step(*who, gone, dict(spots), decision.bound)


# -- profiles


def profile_of(
    evicting: str, *, quota: str = "", budgets: bool = False, arguments: Mapping[str, object] | None = None
) -> Profile:
    """A profile with these evicting actions, a plugin for quotas, and perhaps disruption budgets."""
    plugins = ["priority", "gang", "conformance", *(["pdb"] if budgets else []), *([quota] if quota else [])]
    plugins += ["predicates", "nodeorder", "network-topology-aware"]
    actions = ("enqueue", "allocate", *evicting.split(), "backfill")
    given = {name: arguments or {} for name in evicting.split()}
    return Profile(actions, (tuple(map(PluginChoice, plugins)),), given)
