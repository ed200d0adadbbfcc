"""Gangs whose pods have required affinity to each other, and nodes in zones."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.draw import World, gang
from tests.support.drawn_gang import Gang

from tierwise.api.codec import Raw

__all__ = ["HOST", "ZONE", "near", "only_for", "tied", "zoned"]

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def near(key: str = HOST, **labels: str) -> Raw:
    """The spec of pods that go where pods with these labels stand."""
    term: Raw = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def tied(name: str, tasks: int, each: str = "cpu=2", key: str = HOST, **rest: object) -> Gang:
    """A gang whose pods go where others of it stand."""
    labels = {f"{name}-{i}": {"app": name} for i in range(tasks)}
    return gang(name, tasks=tasks, each=each, spec=near(key, app=name), labels=labels, **rest)  # type: ignore[arg-type]


def zoned(world: World, zones: Mapping[str, str]) -> World:
    """The same cluster with nodes in zones."""
    found: list[Raw] = []
    for manifest in world.manifests:
        metadata = manifest["metadata"]
        assert isinstance(metadata, dict)
        if manifest["kind"] == "Node" and metadata["name"] in zones:
            metadata = metadata | {"labels": metadata["labels"] | {ZONE: zones[metadata["name"]]}}
        found.append(manifest | {"metadata": metadata})
    return World(tuple(found), world.drawing)


def only_for(role: str, whole: Gang, spec: Raw) -> Gang:
    """The gang with this spec for the pods of one role."""

    class Mixed(Gang, frozen=True):
        def manifests(self) -> list[Raw]:
            return [_with(m, spec) if f"-{role}-" in str(m["metadata"]) else m for m in super().manifests()]

    return Mixed(**{name: getattr(whole, name) for name in whole.__struct_fields__})


def _with(pod: Raw, spec: Raw) -> Raw:
    old = pod["spec"]
    assert isinstance(old, dict)
    return pod | {"spec": old | spec}
