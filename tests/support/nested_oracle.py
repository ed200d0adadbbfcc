"""Nested gangs, the manifests of each in two languages, and an exact answer to "can this one start?".

Clusters have zones of spines of racks of nodes. `solvable` asks CP-SAT for a domain of every group and a node of every
task; it knows nothing of how the engine searches.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import msgspec
from ortools.sat.python import cp_model
from tests.support.languages import RACK, SPINE, composite, kai_gang, kubernetes_gang, near, pod, topology

from tierwise.api.codec import Raw

__all__ = [
    "LEVELS",
    "ZONE",
    "Leaf",
    "Nest",
    "Scene",
    "kai",
    "kubernetes",
    "leaves",
    "random_scene",
    "solvable",
    "standing",
]

ZONE = "example.com/zone"
LEVELS = (ZONE, SPINE, RACK)


class Leaf(msgspec.Struct, frozen=True):
    """A sub-group of pods: `size` of its `pods` start together, in one domain of the level `key`."""

    name: str
    size: int
    key: str = ""
    pods: int = 0
    cpu: int = 1
    on: tuple[str, ...] = ()  # nodes of the pods that run

    @property
    def total(self) -> int:
        return max(self.pods, self.size)


class Nest(msgspec.Struct, frozen=True):
    """A group of groups: `least` of its parts start together, in one domain of the level `key`."""

    name: str
    parts: tuple[Leaf | Nest, ...]
    least: int
    key: str = ""
    preferred: str = ""


class Scene(msgspec.Struct, frozen=True):
    """Nodes with their place, zone, spine and rack, and their room; and a gang."""

    nodes: Mapping[str, tuple[tuple[str, str, str], int]]
    gang: Nest

    def manifests(self) -> list[Raw]:
        return [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {"kubernetes.io/hostname": name, **dict(zip(LEVELS, place, strict=True))},
                },
                "status": {"allocatable": {"cpu": str(room), "pods": "110"}},
            }
            for name, (place, room) in self.nodes.items()
        ]

    def domains(self, key: str) -> list[frozenset[str]]:
        """The nodes of each domain of a level; the cluster where none is named."""
        if not key:
            return [frozenset(self.nodes)]
        found: dict[tuple[str, ...], set[str]] = {}
        for name, (place, _) in self.nodes.items():
            found.setdefault(place[: LEVELS.index(key) + 1], set()).add(name)
        return [frozenset(names) for names in found.values()]


def leaves(group: Leaf | Nest) -> Iterator[Leaf]:
    """The sub-groups of pods in a group, at any depth."""
    if isinstance(group, Leaf):
        yield group
    else:
        for part in group.parts:
            yield from leaves(part)


def solvable(scene: Scene) -> bool:
    """Whether the gang can start, decided by a solver."""
    model = cp_model.CpModel()
    on_node: dict[str, list[cp_model.LinearExprT]] = {name: [] for name in scene.nodes}

    def add(group: Leaf | Nest, around: list[dict[str, cp_model.LinearExprT]]) -> cp_model.IntVar:
        """The flag that says that a group is whole; `around` are the nodes that the groups around it have chosen."""
        whole = model.new_bool_var("")
        chosen = [(nodes, model.new_bool_var("")) for nodes in scene.domains(group.key)]
        model.add_exactly_one(flag for _, flag in chosen)
        open_to = {name: next(flag for nodes, flag in chosen if name in nodes) for name in scene.nodes}
        around = [*around, open_to]  # type: ignore[list-item]
        if isinstance(group, Nest):
            model.add(sum(add(part, around) for part in group.parts) >= group.least).only_enforce_if(whole)
            return whole
        numbers = []
        for name in scene.nodes:
            number = model.new_int_var(group.on.count(name), group.total, "")
            for allowed in around:
                model.add(number <= group.total * allowed[name])
            on_node[name].append(number * group.cpu)
            numbers.append(number)
        model.add(sum(numbers) <= group.total)
        model.add(sum(numbers) >= group.size).only_enforce_if(whole)
        return whole

    model.add(add(scene.gang, []) == 1)
    for name, (_, room) in scene.nodes.items():
        model.add(sum(on_node[name]) <= room)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


def standing(scene: Scene, bound: Mapping[str, str]) -> list[str]:
    """What is wrong with where pods stand: a group that is neither whole nor absent, or in several domains."""
    faults: list[str] = []

    def look(group: Leaf | Nest) -> tuple[bool, list[str]]:
        """Whether a group is whole, and the nodes of its pods."""
        if isinstance(group, Leaf):
            own = [node for name, node in bound.items() if name.rpartition("-")[0] == f"g-{group.name}"]
            nodes, whole = [*group.on, *own], len(own) + len(group.on) >= group.size
        else:
            found = [look(part) for part in group.parts]
            nodes, whole = [n for _, names in found for n in names], sum(w for w, _ in found) >= group.least
        if group.key and not any(set(nodes) <= names for names in scene.domains(group.key)):
            faults.append(f"{group.name} stands in several domains of {group.key}: {nodes}")
        if nodes and not whole and any(name.rpartition("-")[0] in _names(group) for name in bound):
            faults.append(f"{group.name} stands by half: {nodes}")
        return whole, nodes

    look(scene.gang)
    used = dict.fromkeys(scene.nodes, 0)
    for leaf in leaves(scene.gang):
        for node in [*leaf.on, *(n for p, n in bound.items() if p.rpartition("-")[0] == f"g-{leaf.name}")]:
            used[node] += leaf.cpu
    faults += [f"{name} is overfull" for name, (_, room) in scene.nodes.items() if used[name] > room]
    return faults


def _names(group: Leaf | Nest) -> set[str]:
    return {f"g-{leaf.name}" for leaf in leaves(group)}


# -- in two languages


def kai(gang: Nest) -> list[Raw]:
    """A PodGroup of KAI's with sub-groups that name their parents, and a Topology."""
    subs: list[Raw] = []

    def write(group: Leaf | Nest, parent: str) -> None:
        body: Raw = {"name": group.name, **({"parent": parent} if parent else {})}
        if group.key or (isinstance(group, Nest) and group.preferred):
            body["topologyConstraint"] = near(group.key, group.preferred if isinstance(group, Nest) else "")
        if isinstance(group, Leaf):
            subs.append(body | {"minMember": group.size})
            return
        subs.append(body | {"minMember": 0, "minSubGroup": group.least})
        for part in group.parts:
            write(part, group.name)

    for part in gang.parts:
        write(part, "")
    spec: Raw = {"minMember": 1, "minSubGroup": gang.least, "subGroups": subs}
    if gang.key or gang.preferred:
        spec["topologyConstraint"] = near(gang.key, gang.preferred)
    (group,) = kai_gang("g", 0, **spec)  # type: ignore[arg-type]
    pods = []
    for leaf in leaves(gang):
        for i in range(leaf.total):
            marks = {"kai.scheduler/subgroup-name": leaf.name}
            on = leaf.on[i] if i < len(leaf.on) else ""
            name = f"g-{leaf.name}-{i}"
            pods.append(pod(name, on=on, cpu=leaf.cpu, labels=marks, annotations={"pod-group-name": "g"}))
    return [topology(levels=LEVELS), group, *pods]


def kubernetes(gang: Nest) -> list[Raw]:
    """Composites of composites of PodGroups; all keys are named by somebody, so that all are in the tree."""
    found = [raw for key in LEVELS for raw in kubernetes_gang(f"idle-{key[-4:]}", 0, least=1, key=key)]

    def write(group: Leaf | Nest, parent: str) -> None:
        if isinstance(group, Nest):
            found.append(composite(group.name, group.least, key=group.key, parent=parent))
            for part in group.parts:
                write(part, group.name)
            return
        found.extend(
            kubernetes_gang(group.name, 0, least=group.size, key=group.key, parentCompositePodGroupName=parent)
        )
        for i in range(group.total):
            named: Raw = {"schedulingGroup": {"podGroupName": group.name}}
            on = group.on[i] if i < len(group.on) else ""
            found.append(pod(f"g-{group.name}-{i}", on=on, cpu=group.cpu, spec=named))

    write(gang, "")
    return found


# -- random gangs


def random_scene(chance: random.Random, kind: str) -> Scene:
    """A cluster and a gang of three levels of groups, of a kind: alike, unlike, choosing, elastic, running, shapes."""
    nodes: dict[str, tuple[tuple[str, str, str], int]] = {}
    most = chance.choice((1, 2, 3))
    for z in range(chance.randint(1, 2)):
        for s in range(chance.randint(1, 2)):
            for r in range(chance.randint(1, 3)):
                for _ in range(chance.randint(1, 2)):
                    place = (f"z{z}", f"z{z}s{s}", f"z{z}s{s}r{r}")
                    nodes[f"n{len(nodes)}"] = (place, chance.randint(0, most))
    gang = _alike(chance) if kind == "alike" else _unlike(chance, kind)
    if kind == "running":
        gang = _running(chance, gang, nodes)
        taken = [(node, leaf.cpu) for leaf in leaves(gang) for node in leaf.on]
        nodes |= {n: (nodes[n][0], nodes[n][1] + sum(c for m, c in taken if m == n)) for n, _ in taken}
    return Scene(nodes, gang)


def _keys(chance: random.Random) -> tuple[str, str, str]:
    """Levels for the gang, its groups, and their parts: mostly tighter inwards, sometimes none."""
    picked = sorted((chance.choice(("", *LEVELS, SPINE, RACK)) for _ in range(3)), key=("", *LEVELS).index)
    return picked[0], picked[1], picked[2]


def _alike(chance: random.Random) -> Nest:
    outer, middle, inner = _keys(chance)
    groups, parts, size = chance.randint(1, 3), chance.randint(1, 3), chance.randint(1, 2)
    some = chance.random() < 0.3
    least, few = (chance.randint(1, groups), chance.randint(1, parts)) if some else (groups, parts)
    inside = [
        Nest(f"m{i}", tuple(Leaf(f"m{i}p{j}", size, inner) for j in range(parts)), few, middle or SPINE)
        for i in range(groups)
    ]
    return Nest("g", tuple(inside), least, outer)


def _unlike(chance: random.Random, kind: str) -> Nest:
    def leaf(name: str) -> Leaf:
        size = chance.randint(1, 3)
        more = chance.choice((0, 1)) if kind == "elastic" else 0
        cpu = chance.randint(1, 2) if kind == "shapes" else 1
        return Leaf(name, size, chance.choice(("", SPINE, RACK, RACK)), size + more, cpu)

    def group(name: str, depth: int) -> Nest:
        parts: list[Leaf | Nest] = []
        for i in range(chance.randint(1, 3 if depth > 1 else 2)):
            deeper = depth and chance.random() < 0.6
            parts.append(group(f"{name}{i}", depth - 1) if deeper else leaf(f"{name}{i}"))
        least = len(parts) if kind not in ("choosing", "elastic") else chance.randint(1, len(parts))
        return Nest(name, tuple(parts), least, chance.choice(("", ZONE, SPINE, SPINE, RACK)))

    return group("g", 2)


def _running(chance: random.Random, gang: Nest, nodes: Mapping[str, tuple[tuple[str, str, str], int]]) -> Nest:
    """The same with some of its pods on nodes, where that breaks no limit."""
    for _ in range(10):
        home = chance.choice([place for place, _ in nodes.values()])
        near = [name for name, (place, _) in nodes.items() if place[0] == home[0]]
        rack = [name for name in near if nodes[name][0] == home]

        moved = _placed(chance, gang, near, rack)
        assert isinstance(moved, Nest)
        scene = Scene({name: (place, 99) for name, (place, _) in nodes.items()}, moved)
        if not any("several" in fault for fault in standing(scene, {})):
            return moved
    return gang


def _placed(chance: random.Random, group: Leaf | Nest, near: list[str], rack: list[str]) -> Leaf | Nest:
    if isinstance(group, Nest):
        parts = tuple(_placed(chance, part, near, rack) for part in group.parts)
        return Nest(group.name, parts, group.least, group.key)
    held = chance.choice((0, 0, 1, group.size))
    where = rack if chance.random() < 0.7 else near
    return msgspec.structs.replace(group, on=tuple(chance.choice(where) for _ in range(held)))
