"""Rows about changes: what following them costs against reading everything, and each kind that clusters see.

A snapshot follows the one before it. A change should cost what it concerns; one that made everything be read again
would stand out here by a factor of hundreds. Seconds are processor time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle
from statistics import median
from time import process_time

from tierwise.api import codec
from tierwise.api.core import Pod
from tierwise.port import Objects, key_of_raw
from tierwise.snapshot.builder import Reader, build
from tierwise_lab.bench.lab import Lab, Measured, row
from tierwise_lab.bench.manifests import (
    DEVICES,
    GANG,
    Manifest,
    budget,
    daemon_pod,
    device_class,
    device_slice,
    full_of_gangs,
    group,
    lone_pod,
    manifest,
    node,
    pod,
    racks,
    read_manifests,
)
from tierwise_lab.bench.measure import at_least, at_most, best_of, compared, gc_off, in_turns, timed

__all__ = []

_EVENTS = 1_000
_OFTEN = 10
_REPEATS = 3  # of each change, of which the median counts
_DAEMONS = 4
_DEVICES = 8  # of a node, half of them in use
_DRIVER = "gpu.nvidia.com"

Marks = Callable[[str], Manifest]
"""Labels, annotations and fields of pods that name a gang."""

Changes = Callable[[int], Sequence[Manifest]]
"""The objects that change, or come, in one repeat."""


@row("P7", at_least(20, 100))
def _p7(lab: Lab) -> Measured:
    """A snapshot of everything, against one that follows a gang's worth of changes."""
    objects = full_of_gangs(lab.size.pods)
    full_read = best_of(3, lambda: build(objects, 0.0), clock=process_time)
    change = best_of(2 * lab.size.repeats, _alternating(objects, GANG), clock=process_time)
    what = f"reading {lab.size.pods:,} pods on {lab.size.pods // 8:,} nodes anew ÷ following a change of {GANG} of them"
    return compared(what, full_read, change)


@row("P8", at_most(0.5, 0.1))
def _p8(lab: Lab) -> Measured:
    """Cost of a changed pod for the next snapshot, relative to decoding its event. The cluster is small, so that
    looking for what has changed takes little beside taking the changes over. Both take milliseconds, so they are
    repeated often: busy cores disturb them.
    """
    text = json.dumps(pod(1, 1)).encode()
    # A cluster for each: of two histories of one, the second would be compared object by object.
    following = (_alternating(full_of_gangs(2 * _EVENTS), pods) for pods in (1, _EVENTS + 1))
    decode_only, few, many = in_turns(_OFTEN * lab.size.repeats, lambda: _decode(text), *following)
    decoding = decode_only / _EVENTS
    applying = max(many - few, 0.0) / _EVENTS
    what = (
        f"following one more changed pod ÷ decoding its event ({applying * 1e6:.1f} µs ÷ {decoding * 1e6:.1f} µs,"
        f" {_EVENTS:,} pods in {_EVENTS // GANG} gangs)"
    )
    return what, applying / decoding


def _decode(text: bytes) -> None:
    for _ in range(_EVENTS):
        codec.decode_json(text, Pod)


def _alternating(objects: Objects, pods: int) -> Callable[[], object]:
    """Read two states alternately that differ in so many pods, gang after gang."""
    ended = [{**pod(i // GANG, i % GANG), "status": {"phase": "Succeeded"}} for i in range(pods)]
    changed_objects = objects.changed({key_of_raw(raw): raw for raw in ended})  # decoded again, as an event is
    reader = Reader()
    states = cycle((changed_objects, objects))
    reader.read(objects, 0.0)
    return lambda: reader.read(next(states), 0.0)


@row("C16a", at_most(500, 100))
def _c16a(lab: Lab) -> Measured:
    """Changes of a cluster of gangs and DaemonSets."""
    nodes = lab.size.everyday * 3 // 10
    pods = []
    for g in range(nodes // 2):
        for i in range(8):
            pods.append(pod(g, i, on=f"n{(8 * g + i) % nodes}"))
    agents = []
    for d in range(_DAEMONS):
        for i in range(nodes):
            agents.append(daemon_pod(d, f"n{i}"))
    groups = [group(g, minimum=8) for g in range(nodes // 2)]
    objects = read_manifests([*map(node, range(nodes)), *racks(nodes), *groups, *pods, *agents])
    costs = _costs(objects, _kinds(nodes))
    shown = ", ".join(f"{name} {seconds * 1e3:.3g}" for name, seconds in list(costs.items())[:6])
    what = f"ms to follow the costliest of {len(costs)} changes at {nodes:,} nodes and {8 * nodes:,} pods ({shown})"
    return what, max(costs.values()) * 1e3


@row("C16b", at_most(500, 50))
def _c16b(lab: Lab) -> Measured:
    """The slice of one node's devices, in a cluster where half of all devices are in use."""
    nodes = lab.size.everyday * 3 // 10
    used = []
    for i in range(nodes):
        for k in range(_DEVICES // 2):
            used.append((i, k))
    claims = [_claim(i, k) for i, k in used]
    pods = [_claiming(i, k) for i, k in used]
    slices = [device_slice(f"n{i}", [{}] * _DEVICES) for i in range(nodes)]
    objects = read_manifests([*map(node, range(nodes)), device_class(), *slices, *claims, *pods])
    fewer: Changes = lambda repeat: [device_slice(f"n{repeat}", [{}] * (_DEVICES - 1))]  # noqa: E731
    (seconds,) = _costs(objects, {"slice": fewer}).values()
    what = f"ms to follow a ResourceSlice that changes at {nodes:,} nodes and {len(used):,} pods with a claim each"
    return what, seconds * 1e3


def _pod_that_ends(lab: Lab, language: str) -> Measured:
    """A pod that ends, in one of the languages."""
    gangs, (declare, mark) = lab.size.everyday // 4, _LANGUAGES[language]
    pods = []
    for g in range(gangs):
        for i in range(8):
            pods.append(_in_gang(mark, g, i, gangs))
    groups = []
    for g in range(gangs):
        groups.extend(declare(g))
    objects = read_manifests([*map(node, range(gangs)), *groups, *pods])
    ends: Changes = lambda repeat: [  # noqa: E731
        _with(_in_gang(mark, gangs // 2 + repeat, 1, gangs), "status", phase="Succeeded")
    ]
    (seconds,) = _costs(objects, {language: ends}).values()
    return f"ms to follow a pod that ends, among {gangs:,} gangs of 8 in {language}'s language", seconds * 1e3


def _in_gang(mark: Marks, gang: int, rank: int, nodes: int) -> Manifest:
    plain = pod(gang, rank, on=f"n{(8 * gang + rank) % nodes}")
    meta = {**plain["metadata"], "labels": {}, "annotations": {}, **mark(f"g{gang}")}
    spec = {**plain["spec"], **meta.pop("spec", {})}
    return {**plain, "metadata": meta, "spec": spec}


def _declared(
    version: str, kind: str, spec: Manifest, status: Manifest, marks: Manifest | None = None
) -> Callable[[int], list[Manifest]]:
    def of(number: int) -> list[Manifest]:
        return [manifest(version, kind, f"g{number}", "d", marks=marks, spec=spec, status=status)]

    return of


def _condition(kind: str) -> Manifest:
    return {"conditions": [{"type": kind, "status": "True", "reason": "Scheduled", "lastTransitionTime": _SINCE}]}


_SINCE = "2026-01-01T00:00:00Z"
_EIGHT: Manifest = {"minMember": 8}
_RUNNING: Manifest = {"phase": "Running"}
_LANGUAGES: Mapping[str, tuple[Callable[[int], list[Manifest]], Marks]] = {
    "Volcano": (
        _declared("scheduling.volcano.sh/v1beta1", "PodGroup", _EIGHT, _RUNNING),
        lambda g: {"annotations": {"scheduling.k8s.io/group-name": g}},
    ),
    "Koordinator": (
        _declared("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", _EIGHT, _RUNNING),
        lambda g: {"labels": {"pod-group.scheduling.sigs.k8s.io": g}},
    ),
    "Kubernetes": (
        _declared(
            "scheduling.k8s.io/v1beta1",
            "PodGroup",
            {"schedulingPolicy": {"gang": {"minCount": 8}}},
            _condition("PodGroupInitiallyScheduled"),
        ),
        lambda g: {"spec": {"schedulingGroup": {"podGroupName": g}}},
    ),
    "x-k8s": (
        _declared("scheduling.x-k8s.io/v1alpha1", "PodGroup", _EIGHT, _RUNNING),
        lambda g: {"labels": {"scheduling.x-k8s.io/pod-group": g}},
    ),
    "KAI": (
        _declared("scheduling.run.ai/v2alpha2", "PodGroup", _EIGHT, {}, {"kai.scheduler/last-start-timestamp": _SINCE}),
        lambda g: {"annotations": {"pod-group-name": g}},
    ),
    "Grove": (
        _declared(
            "scheduler.grove.io/v1alpha1",
            "PodGang",
            {"podgroups": [{"name": "a", "minReplicas": 8}]},
            _condition("Scheduled"),
        ),
        lambda g: {"labels": {"grove.io/podgang": g, "grove.io/podclique": "a"}},
    ),
    "Kueue": (
        lambda number: [],
        lambda g: {
            "labels": {"kueue.x-k8s.io/pod-group-name": g},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": "8"},
        },
    ),
}
"""How a gang of eight is declared, and how its pods name it."""

for _number, _language in enumerate(_LANGUAGES):
    row(f"C16{chr(ord('c') + _number)}", at_most(10, 1))(partial(_pod_that_ends, language=_language))


def _costs(objects: Objects, kinds: Mapping[str, Changes]) -> dict[str, float]:
    """Seconds to follow each kind of change, the costliest first."""
    reader = Reader()
    reader.read(objects, 0.0)
    costs: dict[str, float] = {}
    for name, change in kinds.items():
        seconds = []
        for repeat in range(_REPEATS):
            raws = {key_of_raw(raw): raw for raw in change(repeat)}
            objects = objects.updated({k: (codec.decode(raw), raw) for k, raw in raws.items()}, (), objects.version + 1)
            with gc_off():
                seconds.append(timed(partial(reader.read, objects, 0.0))[0])
        costs[name] = median(seconds)
    return dict(sorted(costs.items(), key=lambda entry: -entry[1]))


def _kinds(nodes: int) -> dict[str, Changes]:
    """Kinds of changes in clusters, each to another object every time."""
    return {
        "pod that is touched": lambda i: [_with(pod(i, 0, on=f"n{8 * i % nodes}"), "status", hostIP=f"10.0.0.{i}")],
        "pod that ends": lambda i: [_with(pod(i, 1, on=f"n{(8 * i + 1) % nodes}"), "status", phase="Succeeded")],
        "pod that comes": lambda i: [lone_pod("web", i)],
        "pod of a new shape": lambda i: [_asking(lone_pod("odd", i), {"cpu": f"{i + 7}m"})],
        "gang that comes": lambda i: [
            group(nodes + i, minimum=4, phase="Pending"),
            *(pod(nodes + i, k, on="") for k in range(4)),
        ],
        "podGroup's status": lambda i: [_with(group(i, minimum=8), "status", running=i)],
        "heartbeat": lambda i: [_with(node(i), "status", conditions=[_ready(f"2026-01-01T00:0{i}:00Z")])],
        "label of a node": lambda i: [_with(node(i), "metadata", labels={"rack": "r0", "mark": str(i)})],
        "cordon": lambda i: [{**node(i), "spec": {"unschedulable": True}}],
        "taint": lambda i: [{**node(i), "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}],
        "node that joins": lambda i: [node(nodes + i)],
        "new resource": lambda i: [_offering(node(i), {f"example.com/r{i}": "4"})],
        "host port": lambda i: [_listening(lone_pod("port", i), 9000 + i)],
        "rule between pods": lambda i: [lone_pod("apart", i, affinity=_apart(f"k{i}"))],
        "disruption budget": lambda i: [budget(f"agent-{i}", "system")],
        "priority class": lambda i: [manifest("scheduling.k8s.io/v1", "PriorityClass", f"p{i}", value=i)],
        "queue": lambda i: [manifest("scheduling.volcano.sh/v1beta1", "Queue", f"q{i}", spec={"weight": 1})],
        "namespace": lambda i: [manifest("v1", "Namespace", f"s{i}")],
        "claim of a volume": lambda i: [_volume_claim(i)],
        "ResourceQuota": lambda i: [_quota(i)],
    }


def _with(raw: Manifest, part: str, **fields: object) -> Manifest:
    return {**raw, part: {**raw[part], **fields}}


def _ready(since: str) -> Manifest:
    return {"type": "Ready", "status": "True", "lastHeartbeatTime": since}


def _offering(raw: Manifest, amounts: Manifest) -> Manifest:
    return _with(raw, "status", allocatable={**raw["status"]["allocatable"], **amounts})


def _asking(raw: Manifest, amounts: Manifest) -> Manifest:
    (container,) = raw["spec"]["containers"]
    return _with(raw, "spec", containers=[{**container, "resources": {"requests": amounts}}])


def _listening(raw: Manifest, port: int) -> Manifest:
    (container,) = raw["spec"]["containers"]
    return _with(raw, "spec", containers=[{**container, "ports": [{"containerPort": 80, "hostPort": port}]}])


def _apart(label: str) -> Manifest:
    term = {"labelSelector": {"matchLabels": {label: "x"}}, "topologyKey": "rack"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _volume_claim(number: int) -> Manifest:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return manifest("v1", "PersistentVolumeClaim", f"c{number}", "web", spec=spec)


def _quota(number: int) -> Manifest:
    hard = {"requests.cpu": "1000"}
    status = {"hard": hard, "used": {"requests.cpu": "5"}}
    return manifest("v1", "ResourceQuota", f"q{number}", "web", spec={"hard": hard}, status=status)


# -- devices


def _claim(number: int, device: int) -> Manifest:
    request = {"name": "gpu", "exactly": {"deviceClassName": _DRIVER, "count": 1}}
    result = {"request": "gpu", "driver": _DRIVER, "pool": f"n{number}", "device": f"d{device}"}
    user = {"resource": "pods", "name": f"p{number}-{device}", "uid": ""}
    spec = {"devices": {"requests": [request]}}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    return manifest(DEVICES, "ResourceClaim", f"c{number}-{device}", "web", spec=spec, status=status)


def _claiming(number: int, device: int) -> Manifest:
    claims = [{"name": "gpu", "resourceClaimName": f"c{number}-{device}"}]
    return _with(
        lone_pod("p", 0, on=f"n{number}", resourceClaims=claims), "metadata", name=f"p{number}-{device}", labels={}
    )
