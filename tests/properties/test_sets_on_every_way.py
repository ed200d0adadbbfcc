"""Parts of a set stay apart whichever way gives their pods a node: one property asks all of these ways alike."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec
import pytest
from msgspec.structs import replace
from tests.support.depth import size
from tests.support.drawn_gang import Gang
from tests.support.field_scenes import all_objects
from tests.support.koordinator import objects_of
from tests.support.sets import CONSTRAINTS, SET, apart, fabric
from tests.support.sight import saw, schedule, sees

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.repair import ON_NODE_LOSS, SPARES
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.port import Objects
from tierwise.sim.defragmentation.plan import defrag
from tierwise.sim.what_if.runs import prepared

SIZE = size(80, 800, quick=40)
_TIERS = (
    tuple(map(PluginChoice, ("priority", "gang", "conformance", "predicates", "network-topology-aware", "places"))),
)
_REPAIRS = replace(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("repair", {"maxSpares": 2}),)))


class Part(msgspec.Struct, frozen=True):
    """A gang of one cpu a pod: a part of the set, or a stranger."""

    tasks: int
    more: int  # pods beyond its minimum
    stranger: bool
    within: bool  # in one rack
    spares: int

    def manifests(self, name: str, most: int, *, priority: int = 0) -> list[Raw]:
        marks = {ON_NODE_LOSS: "replace", **({SPARES: str(self.spares)} if self.spares else {})}
        if not self.stranger:
            marks |= {SET: "serve", CONSTRAINTS: json.dumps([apart("serve", most)])}
        within = "rack" if self.within else None
        pods = self.tasks + self.more
        return Gang(name, tasks=pods, minimum=self.tasks, within=within, priority=priority, marks=marks).manifests()


def _part(chance: random.Random) -> Part:
    return Part(
        tasks=chance.randint(1, 2),
        more=chance.choice((0, 0, 1)),
        stranger=chance.random() < 0.4,
        within=chance.random() < 0.5,
        spares=chance.choice((0, 0, 1)),
    )


class Scene(msgspec.Struct, frozen=True):
    """Racks, gangs that come first, others that come then, and what goes in between."""

    racks: tuple[int, ...]
    most: int
    first: tuple[Part, ...]
    then: tuple[Part, ...]
    chance: int

    def objects(self) -> list[Raw]:
        return fabric({"s0": " ".join(f"r{i}:{size}" for i, size in enumerate(self.racks))})


def _scene(chance: random.Random) -> Scene:
    return Scene(
        racks=tuple(chance.randint(1, 4) for _ in range(chance.randint(2, 4))),
        most=chance.choice((1, 1, 2)),
        first=tuple(_part(chance) for _ in range(chance.randint(2, 4))),
        then=tuple(_part(chance) for _ in range(chance.randint(1, 3))),
        chance=chance.randrange(12),
    )


def _manifests(parts: Sequence[Part], letter: str, most: int, *, priority: int = 0) -> list[Raw]:
    gangs = (part.manifests(f"{letter}{i}", most, priority=priority) for i, part in enumerate(parts))
    return [raw for gang in gangs for raw in gang]


def _nodes(objects: Objects) -> dict[str, str]:
    return {path: pod.spec.node_name for path, pod in objects.every(Pod).items() if pod.spec.node_name}


def _crowded(scene: Scene, nodes: Mapping[str, str]) -> list[str]:
    """Racks with more parts than may be there, counted by the names of pods and nodes alone."""
    parts = {f"{letter}{i}": part for letter in "ab" for i, part in enumerate(getattr(scene, _WHEN[letter]))}
    found: dict[str, set[str]] = {}
    for path, node in nodes.items():
        gang = path.partition("/")[2].rpartition("-")[0]
        if not parts[gang].stranger:
            found.setdefault(node.rpartition("n")[0], set()).add(gang)
    return [f"{rack} has {sorted(gangs)}" for rack, gangs in found.items() if len(gangs) > scene.most]


_WHEN = {"a": "first", "b": "then"}


def _by(profile: Profile, scene: Scene, raws: Sequence[Raw], *, priority: int = 9) -> Objects:
    """What has become of objects, with the gangs that come then, once nothing changes any more."""
    more = _manifests(scene.then, "b", scene.most, priority=priority)
    history = schedule(objects_of(list(raws), more), profile, now=10.0)
    saw(evicted=len(history.evictions))
    for _, report in history.reports:
        kept = {task.key: "" for decision in report.decisions for task, _ in decision.places()}
        saw(placed=len(kept))
    return history.cluster.read()


def _after_pods_left(scene: Scene, objects: Objects) -> Objects:
    """Every third pod is gone: surplus, and gangs that come back, fill what is free."""
    raws = all_objects(objects).values()
    kept = [raw for i, raw in enumerate(raws) if raw["kind"] != "Pod" or i % 3 != scene.chance % 3]
    return _by(_REPAIRS, scene, kept, priority=0)


def _after_a_node_was_lost(scene: Scene, objects: Objects) -> Objects:
    """Its pods are replaced, on spares where there are any."""
    names = sorted({*_nodes(objects).values()})
    lost = names[scene.chance % len(names)] if names else ""
    raws = [_not_ready(raw) if _is_node(raw, lost) else raw for raw in all_objects(objects).values()]
    return _by(_REPAIRS, scene, raws, priority=0)


def _is_node(raw: Raw, name: str) -> bool:
    metadata = raw["metadata"]
    return raw["kind"] == "Node" and isinstance(metadata, dict) and metadata["name"] == name


def _not_ready(raw: Raw) -> Raw:
    status = raw["status"]
    assert isinstance(status, dict)
    condition: Raw = {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:00:00Z"}
    return {**raw, "status": {**status, "conditions": [condition]}}


def _after_evictions(action: str) -> Callable[[Scene, Objects], Objects]:
    """More important gangs come; who is nominated comes to run before this ends."""
    profile = Profile(("enqueue", "allocate", action, "backfill"), _TIERS)
    return lambda scene, objects: _by(profile, scene, [*all_objects(objects).values()])


def _after_moves(scene: Scene, objects: Objects) -> Objects:
    """A plan for room in a rack, and the rule is asked after each of its moves."""
    held = Counter(node.rpartition("n")[0] for node in _nodes(objects).values())
    wanted = 1 + max(size - held[f"r{i}"] for i, size in enumerate(scene.racks))
    plan = defrag(prepared(objects, DEFAULT, 0.0), f"cpu=1x{wanted}@rack")
    nodes = _nodes(objects)
    for move in plan.moves:
        nodes |= {pod: new for pod, (_, new) in move.pods.items()}
        saw(placed=len(move.pods))
        assert [] == _crowded(scene, nodes)
    return objects


WAYS: Mapping[str, Callable[[Scene, Objects], Objects]] = {
    "surplus and replaced pods": _after_pods_left,
    "repair and spares": _after_a_node_was_lost,
    **{action: _after_evictions(action) for action in ("preempt", "podpreempt", "jobpreempt", "gangpreempt")},
    "defragmentation": _after_moves,
}


@pytest.mark.parametrize("way", WAYS)
@sees(binds=50, placed=2)
def test_every_way_to_a_node_keeps_parts_apart(way: str) -> None:
    """Gangs of a set are placed; then pods go, nodes are lost, others come first, or room is opened."""
    for seed in range(SIZE if way != "defragmentation" else 3 * SIZE):  # few rooms take a move
        scene = _scene(random.Random(seed))
        given = objects_of(scene.objects(), _manifests(scene.first, "a", scene.most))
        objects = schedule(given, _REPAIRS, now=0.0).cluster.read()
        assert [] == _crowded(scene, _nodes(objects)), seed

        assert [] == _crowded(scene, _nodes(WAYS[way](scene, objects))), seed
