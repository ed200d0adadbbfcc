"""Manifests in one line each, and an applier of effects: for tests of what reads and changes API objects.

world = objects(node("n0", rack="r0"), hypernode("r0", 1, nodes("n0")))
world = settled(world)
assert 1 == status(world, "HyperNode", "r0")["nodeCount"]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.merge_patch import merged
from tierwise.controllers import Controllers
from tierwise.controllers.job import KeySource
from tierwise.port import Create, Delete, Effect, Key, Objects, PatchStatus, Prepare, RecordEvent, Update, key_of_raw

NOW = 1_760_000_000.0
STAMP = "2025-10-09T08:53:20Z"


def objects(*raws: Raw) -> Objects:
    """A collection of these manifests."""
    return Objects.of((codec.decode(raw), raw) for raw in raws)


def node(name: str, allocatable: str = "cpu=8 pods=110", **labels: str) -> Raw:
    """A node; in the names of labels a double underscore stands for a slash."""
    metadata = {"name": name, "labels": {key.replace("__", "/"): value for key, value in labels.items()}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": amounts(allocatable)}}


def amounts(text: str) -> dict[str, str]:
    """The resource list for "cpu=8 nvidia.com/gpu=4"."""
    return dict(part.split("=", 1) for part in text.split())


def hypernode(name: str, tier: int, members: Iterable[Raw], *, tier_name: str = "") -> Raw:
    """A hyperNode over members."""
    spec: Raw = {"tier": tier, "members": list(members)}
    if tier_name:
        spec["tierName"] = tier_name
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


def nodes(*names: str) -> list[Raw]:
    """Members: these nodes."""
    return [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]


def children(*names: str) -> list[Raw]:
    """Members: these hyperNodes."""
    return [{"type": "HyperNode", "selector": {"exactMatch": {"name": name}}} for name in names]


def regex(pattern: str, type_: str = "Node") -> list[Raw]:
    """A member by pattern."""
    return [{"type": type_, "selector": {"regexMatch": {"pattern": pattern}}}]


def labelled(selector: Raw, type_: str = "Node") -> list[Raw]:
    """A member by label selector."""
    return [{"type": type_, "selector": {"labelMatch": selector}}]


def job(name: str, *tasks: Raw, metadata: Raw | None = None, status: Raw | None = None, **spec: object) -> Raw:
    """A batch job with the uid u1; further words are fields of its spec."""
    raw: Raw = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "uid": "u1", **(metadata or {})},
        "spec": {"tasks": list(tasks), **spec},
    }
    return raw if status is None else {**raw, "status": status}


def task(name: str, replicas: int, asks: str = "cpu=1", **fields: object) -> Raw:
    """A task whose pods ask for something; further words are its other fields."""
    named: Raw = {"name": name} if name else {}
    return {**named, "replicas": replicas, "template": {"spec": {"containers": [container(asks)]}}, **fields}


def container(asks: str) -> Raw:
    """A container that asks for something."""
    return {"name": "main", "image": "registry.example/app:1", "resources": {"requests": amounts(asks)}}


def partitions(total: int, size: int, **fields: object) -> Raw:
    """A partition policy."""
    return {"totalPartitions": total, "partitionSize": size, **fields}


def tier(highest: int | str, mode: str = "hard") -> Raw:
    """A network topology, by the number or the name of its highest tier."""
    field = "highestTierName" if isinstance(highest, str) else "highestTierAllowed"
    return {"mode": mode, field: highest}


def pod_group(name: str, *, phase: str = "Inqueue", **spec: object) -> Raw:
    """A pod group; further words are fields of its spec."""
    metadata = {"name": name, "namespace": "default"}
    version = "scheduling.volcano.sh/v1beta1"
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


def queue(name: str, state: str = "Open", **spec: object) -> Raw:
    """A queue; further words are fields of its spec."""
    version = "scheduling.volcano.sh/v1beta1"
    status = {"state": state}
    return {"apiVersion": version, "kind": "Queue", "metadata": {"name": name}, "spec": spec, "status": status}


def pod(name: str, asks: str = "cpu=1", *, group: str = "", **spec: object) -> Raw:
    """A pod, perhaps of a group; further words are fields of its spec."""
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container(asks)], **spec}}


def discovery(types: str, *, enabled: bool = True) -> Raw:
    """A controller configuration; `types` reads "a3: outer inner host; b: rack host"."""
    lines = ["networkTopologyDiscovery:", "- source: label", f"  enabled: {str(enabled).lower()}"]
    lines += ["  config:", "    networkTopologyTypes:"]
    for entry in types.split(";"):
        name, _, keys = entry.partition(":")
        lines += [f"      {name.strip()}:", *(f"      - nodeLabel: {key}" for key in keys.split())]
    metadata = {"name": "volcano-controller-configmap", "namespace": "volcano-system"}
    data = {"volcano-controller.conf": "\n".join(lines)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def discovery_source(kind: str, interval: str = "1h", **config: object) -> Raw:
    """A controller configuration with one source of another kind than label."""
    source = {"source": kind, "enabled": True, "interval": interval, "config": config}
    data = {"volcano-controller.conf": json.dumps({"networkTopologyDiscovery": [source]})}
    return discovery("a: b") | {"data": data}


def applied(world: Objects, effects: Iterable[Effect]) -> Objects:
    """The objects after these effects, as a cluster without kubelets would leave them."""
    pending: dict[Key, Raw | None] = {}

    def present(key: Key) -> Raw | None:
        return pending[key] if key in pending else world.raw(key)

    for effect in effects:
        match effect:
            case Create(raw):
                assert present(key_of_raw(raw)) is None, "created twice"
                pending[key_of_raw(raw)] = raw
            case Update(key, raw):
                assert present(key) is not None, "updated what is not there"
                pending[key] = raw
            case Delete(key):
                assert present(key) is not None, "deleted what is not there"
                pending[key] = None
            case PatchStatus(key, patch, marks):
                found = present(key)
                assert found is not None, "described what is not there"
                status = {**(part(found, "status") if "status" in found else {}), **patch}
                pending[key] = _marked({**found, "status": status} if patch else found, marks)
            case Prepare(key, raw) if effect.create:
                assert present(key) is None, "created twice"
                pending[key] = raw
            case Prepare(key, patch):
                pending[key] = merged(present(key) or {}, patch)
            case RecordEvent():
                pass
            case _:
                raise AssertionError(f"no controller asks for {effect}")
    gone = [key for key, raw in pending.items() if raw is None]
    return world.changed({key: raw for key, raw in pending.items() if raw is not None}, gone)


def _marked(raw: Raw, marks: Mapping[str, str]) -> Raw:
    metadata = part(raw, "metadata")
    annotations = part(metadata, "annotations") if "annotations" in metadata else {}
    return {**raw, "metadata": {**metadata, "annotations": {**annotations, **marks}}} if marks else dict(raw)


def settled(
    world: Objects, now: float = NOW, told: list[RecordEvent] | None = None, keys: KeySource | None = None
) -> Objects:
    """The objects once the controllers have nothing more to do; `told` gathers the events on the way."""
    for _ in range(10):
        effects = Controllers(keys=keys).run(world, now)
        if not effects:
            return world
        if told is not None:
            told += [effect for effect in effects if isinstance(effect, RecordEvent)]
        world = applied(world, effects)
    raise AssertionError("the controllers do not settle")


def manifest(world: Objects, kind: str, path: str) -> Raw:
    """The manifest of an object by its kind and "namespace/name"."""
    found = [key for key in world if (key.kind, key.path) == (kind, path)]
    assert found, f"there is no {kind} {path}"
    return world.raw(found[0]) or {}


def part(raw: Raw, field: str) -> Raw:
    """A part of a manifest that is a mapping."""
    found = raw.get(field)
    assert isinstance(found, dict), f"{field} is missing"
    return found


def spec(world: Objects, kind: str, path: str) -> Raw:
    """The spec of an object."""
    return part(manifest(world, kind, path), "spec")


def status(world: Objects, kind: str, path: str) -> Raw:
    """The status of an object."""
    return part(manifest(world, kind, path), "status")


def names(world: Objects, kind: str) -> list[str]:
    """The keys of all objects of a kind."""
    return [key.path for key in world if key.kind == kind]
