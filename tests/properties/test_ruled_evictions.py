"""Pods are evicted for gangs with rules between pods exactly where some choice of victims makes room."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from msgspec.structs import replace
from tests.support.depth import size
from tests.support.draw import World, allocate
from tests.support.drawn_gang import manifest
from tests.support.ruled_gangs import HOST, ZONE, Drawn, Instance, Kind, Rule, drawn, startable

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT

BATCHES, SIZE = size(2, 40), size(60, 250, quick=20)
MOST = 6
IMPORTANT: Raw = manifest("scheduling.k8s.io/v1", "PriorityClass", {"name": "important"}, value=10)


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("action", ["gangpreempt", "jobpreempt"])
def test_victims_go_exactly_where_that_makes_room(batch: int, packed: bool, action: str) -> None:
    """No plan is missed, nobody goes for nothing, and nobody goes where idle room does."""
    profile = replace(DEFAULT, actions=("enqueue", "allocate", action))
    wrong = []
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        chance = random.Random(f"evictions {seed}")
        instance = _crowded(chance, drawn(chance, packed=packed))
        if len(instance.standing) <= MOST:
            outcome = allocate(_victims(instance), _important(instance), profile=profile)
            went, should = bool(outcome.report.evictions), not startable(instance) and _some_plan(instance)
            if went != should:
                wrong.append((len(str(instance)), f"{seed}: {'missed' if should else 'needless'}\n{instance}"))

    assert [] == [text for _, text in sorted(wrong)][:1], len(wrong)


def _crowded(chance: random.Random, instance: Instance) -> Instance:
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


def _some_plan(instance: Instance) -> bool:
    """Whether the gang could start if some of the pods were gone, whichever these are."""
    every = instance.standing
    return any(
        startable(replace(instance, standing=staying))
        for number in range(len(every))
        for staying in combinations(every, number)
    )


def _victims(instance: Instance) -> World:
    """The cluster, with each pod as a gang by itself, which may go."""
    manifests = list(instance.world().manifests)
    for raw in [raw for raw in manifests if raw["kind"] == "Pod"]:
        metadata = raw["metadata"]
        assert isinstance(metadata, dict)
        metadata["annotations"] = {"scheduling.k8s.io/group-name": metadata["name"]}
        named: Raw = {"name": metadata["name"], "namespace": "default", "creationTimestamp": "1970-01-01T00:00:00Z"}
        group = manifest("scheduling.volcano.sh/v1beta1", "PodGroup", named, spec={"minMember": 1})
        manifests.append(group | {"status": {"phase": "Running"}})
    return World((*manifests, IMPORTANT), "")


class _Important(Drawn, frozen=True):
    def manifests(self) -> list[Raw]:
        """The gang, more important than all that stands."""
        group, *pods = super().manifests()
        for raw in (group, *pods):
            spec = raw["spec"]
            assert isinstance(spec, dict)
            spec["priorityClassName"] = "important"
            if raw is not group:
                spec["priority"] = 10
        return [group, *pods]


def _important(instance: Instance) -> Drawn:
    return _Important(name="g", tasks=sum(number for _, number in instance.gang), instance=instance)
