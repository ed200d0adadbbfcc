"""Gangs of a set, and sub-groups of a gang, start exactly when CP-SAT finds a way that keeps their rules."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Final

import pytest
from tests.support.depth import size
from tests.support.drawn_gang import Gang, Groups
from tests.support.koordinator import hypernode, objects_of
from tests.support.sets import CONSTRAINTS, named_tier, node, part
from tests.support.sets_oracle import Rule, Side, World, solvable
from tests.support.sight import saw, schedule, sees

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.audit import audit
from tierwise.config.profile import DEFAULT
from tierwise.port import Objects

SIZE: Final = size(120, 1200, quick=30)
Fabric = dict[str, dict[str, list[int]]]


def _fabric(chance: random.Random) -> Fabric:
    """Spines of racks of nodes with so many cpus."""
    return {
        f"s{s}": {
            f"s{s}r{r}": [chance.choice((1, 2, 2, 3)) for _ in range(chance.randint(1, 3))]
            for r in range(chance.randint(1, 3))
        }
        for s in range(chance.randint(1, 2))
    }


def _manifests(fabric: Fabric) -> list[Raw]:
    found: list[Raw] = []
    for spine, racks in fabric.items():
        for rack, sizes in racks.items():
            names = [f"{rack}n{i}" for i in range(len(sizes))]
            found += map(node, names, sizes)
            found.append(named_tier(hypernode(rack, 1, [("Node", name) for name in names]), "rack"))
        found.append(named_tier(hypernode(spine, 2, [("HyperNode", rack) for rack in racks]), "spine"))
    return found


def _scenes(first: int) -> Iterator[tuple[str, random.Random, Fabric]]:
    """What is drawn, and on which fabric, for each of as many seeds as there is time for."""
    for seed in range(first, first + SIZE):
        chance = random.Random(seed)
        yield str(seed), chance, _fabric(chance)


def _settled(fabric: Fabric, gangs: Sequence[Raw]) -> Objects:
    """Gangs on a fabric once no cycle changes anything."""
    return schedule(objects_of(_manifests(fabric), list(gangs)), DEFAULT, now=0.0).cluster.read()


def _world(fabric: Fabric, objects: Objects | None = None) -> World:
    """What is idle beside the pods that are bound."""
    idle, rack_of, spine_of = {}, {}, {}
    for spine, racks in fabric.items():
        for rack, sizes in racks.items():
            for i, cpus in enumerate(sizes):
                idle[f"{rack}n{i}"], rack_of[f"{rack}n{i}"], spine_of[f"{rack}n{i}"] = cpus, rack, spine
    for pod in objects.every(Pod).values() if objects is not None else ():
        if pod.spec.node_name:
            idle[pod.spec.node_name] -= int(str(pod.spec.containers[0].resources.requests["cpu"]))
    return World(idle, {"rack": rack_of, "spine": spine_of})


def _rules(side: Side, of: str) -> list[Raw]:
    """The rules of a gang as its annotation has them."""
    return [{"tier": r.tier, "set": of, **({"apart": r.most} if r.most else {})} for r in side.rules]


def _gang(name: str, side: Side, *, start: int = 0) -> list[Raw]:
    """The manifests of a gang of the set serve; all its tasks ask for the same."""
    ((number, each),) = side.tasks
    named = {"within": side.within or None, "each": f"cpu={each}", "start": start}
    return part(name, number, "serve", *_rules(side, "serve"), **named)  # type: ignore[arg-type]


_RULES: Final = (
    (),
    (Rule("rack", 1),),
    (Rule("rack", 1),),
    (Rule("rack", 2),),
    (Rule("rack"),),
    (Rule("spine"), Rule("rack", 1)),
    (Rule("spine", 1),),
    (Rule("spine", 2), Rule("rack", 1)),
)


def _side(chance: random.Random, rules: Sequence[Rule] | None = None) -> Side:
    tasks = ((chance.randint(1, 4), chance.choice((1, 1, 2))),)
    own = chance.choice(_RULES) if rules is None else tuple(rules)
    return Side(tasks, chance.choice(("rack", "rack", "spine", "spine")), own)


def _stand(objects: Objects) -> dict[str, frozenset[str]]:
    """The nodes of each gang."""
    found: dict[str, set[str]] = {}
    for path, pod in objects.every(Pod).items():
        if pod.spec.node_name:
            found.setdefault(path.partition("/")[2].rpartition("-")[0], set()).add(pod.spec.node_name)
    return {name: frozenset(nodes) for name, nodes in found.items()}


def _broken(objects: Objects) -> list[str]:
    return [str(f) for f in audit(objects) if f.rule in ("not-apart", "not-together", "topology")]


@sees(binds=20, refusals=10)
def test_no_gang_waits_that_cp_sat_would_place() -> None:
    """One by one, also with parts over several racks: in the end each that waits has no place that its rules allow."""
    wrong = []
    for seed, chance, fabric in _scenes(0):
        rules = chance.choice(_RULES)
        sides = {f"g{i}": _side(chance, rules) for i in range(chance.randint(2, 5))}
        given = [raw for name, side in sides.items() for raw in _gang(name, side)]

        objects = _settled(fabric, given)

        standing, world = _stand(objects), _world(fabric, objects)
        wrong += [f"{seed}: {text}" for text in _broken(objects)]
        for name in sides.keys() - standing.keys():
            saw(refusals=1)
            if solvable(world, [sides[name]], [*standing.values()]):
                wrong.append(f"{seed}: {name} waits, {sides}, {fabric}, {standing}")
    assert [] == wrong[:1]


@pytest.mark.parametrize("kind", ["alike", "unlike"])
@sees(binds=20, refusals=5)
def test_a_joint_start_is_one_question(kind: str) -> None:
    """Alike gangs start together exactly when CP-SAT places all of them; of unlike ones hardly any way is missed."""
    wrong, missed, able = [], 0, 0
    for seed, chance, fabric in _scenes(1000):
        number = chance.choice((2, 2, 3))
        first = _side(chance)
        sides = [first if kind == "alike" else _side(chance, first.rules) for _ in range(number)]
        given = [raw for i, side in enumerate(sides) for raw in _gang(f"g{i}", side, start=number)]

        objects = _settled(fabric, given)

        started, possible = len(_stand(objects)), solvable(_world(fabric), sides)
        able += possible
        wrong += [f"{seed}: {text}" for text in _broken(objects)]
        if started not in (0, number) or (started and not possible):
            wrong.append(f"{seed}: {started} of {number} started, {sides}, {fabric}")
        if possible and not started:
            missed += 1
            if kind == "alike":
                wrong.append(f"{seed}: none started, {sides}, {fabric}")
    saw(able=able, missed=missed)
    assert [] == wrong[:1]
    assert missed * 50 <= able


@pytest.mark.parametrize("kind", ["alike", "unlike", "two policies", "in a spine"])
@sees(binds=20, refusals=3)
def test_sub_groups_start_exactly_when_there_is_a_way(kind: str) -> None:
    """With at most so many of a policy in one rack; what is missed of unlike ones is not said to be impossible."""
    wrong, missed, able = [], 0, 0
    for seed, chance, fabric in _scenes(2000):
        most = chance.choice((1, 1, 2))
        whole = "spine" if kind == "in a spine" else ""
        groups = [Groups(count=chance.randint(2, 3), size=chance.randint(1, 3), within="rack")]
        if kind in ("unlike", "two policies"):
            groups.append(Groups(count=chance.randint(1, 2), size=chance.randint(1, 2), within="rack", name="other"))
        ruled = [group.name for group in groups if kind != "unlike" or group.name == "part"]
        rules = [{"tier": "rack", "subGroup": name, "apart": most} for name in ruled]
        marks = {CONSTRAINTS: json.dumps(rules)}
        gang = Gang("g", groups=tuple(groups), within=whole or None, marks=marks).manifests()

        objects = _settled(fabric, gang)

        possible, started = _possible(_world(fabric), groups, ruled, most, whole), bool(_stand(objects))
        able += possible
        wrong += [f"{seed}: {text}" for text in _broken(objects)]
        if started and not possible:
            wrong.append(f"{seed}: started, {groups}, {fabric}, {_stand(objects)}")
        if possible and not started:
            missed += 1
            if kind in ("alike", "in a spine"):
                wrong.append(f"{seed}: none started, {groups}, {most}, {fabric}")
    saw(able=able, missed=missed)
    assert [] == wrong[:1]
    assert missed * 50 <= able


def _possible(world: World, groups: Sequence[Groups], ruled: Sequence[str], most: int, whole: str) -> bool:
    """Whether sub-groups find their places: each policy is a set of its own."""
    inside = [world]
    if whole:
        inside = [
            World({name: world.idle[name] for name in nodes}, world.domains) for nodes in world.of(whole).values()
        ]
    return any(_in_one(part_of, groups, ruled, most) for part_of in inside)


def _in_one(world: World, groups: Sequence[Groups], ruled: Sequence[str], most: int) -> bool:
    sides, policies = [], []
    for group in groups:
        rules = (Rule("rack", most),) if group.name in ruled else ()
        sides += [Side(((group.size, 1),), "rack", rules) for _ in range(group.count)]
        policies += [group.name] * group.count
    return solvable(world, sides, policies=policies)
