"""Small clusters full of pods that may be evicted, for a gang with rules between pods that is more important."""

from __future__ import annotations

import random

from msgspec.structs import replace
from tests.support.draw import World
from tests.support.drawn_gang import manifest
from tests.support.ruled_gangs import HOST, ZONE, Drawn, Instance, Kind, Rule

from tierwise.api.codec import Raw

__all__ = ["crowded", "important", "victims"]

_CLASS: Raw = manifest("scheduling.k8s.io/v1", "PriorityClass", {"name": "important"}, value=10)


def crowded(chance: random.Random, instance: Instance) -> Instance:
    """The same cluster with more pods on it, a third of which keep others away."""
    standing = list(instance.standing)
    for at, node in enumerate(instance.nodes):
        free = node.cpu - sum(kind.cpu for kind, where in standing if where == at)
        while free > 0 and chance.random() < 0.7:
            app, cpu = chance.choice("xyz"), chance.randint(1, free)
            away = Rule("away", chance.choice("xyz"), chance.choice((HOST, ZONE)))
            standing.append((Kind(app, cpu, (away,) if chance.random() < 0.3 else ()), at))
            free -= cpu
    return replace(instance, standing=tuple(standing))


def victims(instance: Instance) -> World:
    """The cluster, with each pod as a gang by itself, which may go."""
    manifests = list(instance.world().manifests)
    for raw in [raw for raw in manifests if raw["kind"] == "Pod"]:
        metadata = raw["metadata"]
        assert isinstance(metadata, dict)
        metadata["annotations"] = {"scheduling.k8s.io/group-name": metadata["name"]}
        named: Raw = {"name": metadata["name"], "namespace": "default", "creationTimestamp": "1970-01-01T00:00:00Z"}
        group = manifest("scheduling.volcano.sh/v1beta1", "PodGroup", named, spec={"minMember": 1})
        manifests.append(group | {"status": {"phase": "Running"}})
    return World((*manifests, _CLASS), "")


class _Important(Drawn, frozen=True):
    def manifests(self) -> list[Raw]:
        """With the priority class on the group and on each pod."""
        group, *pods = super().manifests()
        for raw in (group, *pods):
            spec = raw["spec"]
            assert isinstance(spec, dict)
            spec["priorityClassName"] = "important"
            if raw is not group:
                spec["priority"] = 10
        return [group, *pods]


def important(instance: Instance) -> Drawn:
    """The gang of an instance, more important than all that stands."""
    return _Important(name="g", tasks=sum(number for _, number in instance.gang), instance=instance)
