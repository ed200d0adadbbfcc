"""An exact answer to "can this gang start?" for gangs of one pod class, and random gangs to ask it about.

`feasible` tries every domain and every number of tasks for each sub-group. Tasks of one class may be split freely
inside a domain and domains are nested or apart, so a choice works exactly when no domain is given more than its room.
`solvable` asks CP-SAT the same with tasks on single nodes, and takes nothing of that for granted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
from ortools.sat.python import cp_model
from tests.support.draw import Gang, Groups, World, draw, objects_of

from tierwise.api.core import Node, Pod
from tierwise.api.quantity import amount
from tierwise.api.volcano import HyperNode, NetworkTopologySpec, PodGroup
from tierwise.port import Objects

__all__ = ["Instance", "Puzzle", "feasible", "puzzle_of", "random_instance", "solvable"]

Nodes = frozenset[str]
NO_LIMIT = 99


class Sub(msgspec.Struct, frozen=True):
    """A sub-group: at least `size` of it or nothing, inside one domain of at most `limit`."""

    policy: int
    size: int
    limit: int
    held: tuple[str, ...]  # nodes of the pods that run
    pending: int

    def numbers(self) -> list[int]:
        """How many pods may be added."""
        return [0, *range(max(1, self.size - len(self.held)), self.pending + 1)]


class Puzzle(msgspec.Struct, frozen=True):
    """One gang and a tree of domains; `domains` are (tier, nodes), the whole cluster last."""

    room: dict[str, int]
    domains: tuple[tuple[int, Nodes], ...]
    limit: int
    minimum: int
    least: tuple[int, ...]  # whole sub-groups by policy
    subs: tuple[Sub, ...]

    def ready(self, numbers: tuple[int, ...]) -> bool:
        standing = [len(sub.held) + n for sub, n in zip(self.subs, numbers, strict=True)]
        whole = [0] * len(self.least)
        for sub, number in zip(self.subs, standing, strict=True):
            if sub.policy >= 0 and number >= sub.size:
                whole[sub.policy] += 1
        return sum(standing) >= self.minimum and all(w >= n for w, n in zip(whole, self.least, strict=True))

    def homes(self) -> Iterator[Nodes]:
        """Where the gang as a whole may be."""
        held = {node for sub in self.subs for node in sub.held}
        yield from (nodes for tier, nodes in self.domains if tier <= self.limit and held <= nodes)

    def places(self, sub: Sub, home: Nodes) -> list[Nodes]:
        """Where a sub-group may be, if the gang is at home there."""
        inner = [nodes for tier, nodes in self.domains if tier <= sub.limit and nodes <= home]
        return [nodes for nodes in (inner if sub.limit < NO_LIMIT else [home]) if set(sub.held) <= nodes]


def feasible(puzzle: Puzzle) -> bool:
    """Whether the gang can start, by trying everything."""
    return any(_fits(puzzle, home, (), {}) for home in puzzle.homes())


def _fits(puzzle: Puzzle, home: Nodes, numbers: tuple[int, ...], used: dict[Nodes, int]) -> bool:
    if len(numbers) == len(puzzle.subs):
        return puzzle.ready(numbers)
    sub = puzzle.subs[len(numbers)]
    for number in sub.numbers():
        for place in puzzle.places(sub, home) if number else [home]:
            charged = used if not number else {**used, place: used.get(place, 0) + number}
            if not _overfull(puzzle, charged) and _fits(puzzle, home, (*numbers, number), charged):
                return True
    return False


def _overfull(puzzle: Puzzle, used: dict[Nodes, int]) -> bool:
    return any(
        sum(n for inner, n in used.items() if inner <= outer) > sum(puzzle.room[node] for node in outer)
        for outer in used
    )


def solvable(puzzle: Puzzle) -> bool:
    """The same by constraint programming, task numbers on single nodes."""
    return any(_solve(puzzle, home) for home in puzzle.homes())


def _solve(puzzle: Puzzle, home: Nodes) -> bool:
    model = cp_model.CpModel()
    on_node: dict[str, list[cp_model.IntVar]] = {node: [] for node in puzzle.room}
    standing, whole = [], []
    for sub in puzzle.subs:
        chosen = [(place, model.new_bool_var("")) for place in puzzle.places(sub, home)]
        model.add_at_most_one(flag for _, flag in chosen)
        mine = []
        for node, spots in on_node.items():
            number = model.new_int_var(0, sub.pending, "")
            model.add(number <= sub.pending * sum(flag for place, flag in chosen if node in place))
            spots.append(number)
            mine.append(number)
        total = model.new_int_var_from_domain(cp_model.Domain.from_values(sub.numbers()), "")
        model.add(total == sum(mine))
        standing.append(total + len(sub.held))
        is_whole = model.new_bool_var("")
        model.add(total + len(sub.held) >= sub.size).only_enforce_if(is_whole)
        whole.append(is_whole)
    for node, spots in on_node.items():
        model.add(sum(spots) <= puzzle.room[node])
    model.add(sum(standing) >= puzzle.minimum)
    for i, least in enumerate(puzzle.least):
        model.add(sum(w for w, sub in zip(whole, puzzle.subs, strict=True) if sub.policy == i) >= least)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


# -- from manifests


def puzzle_of(objects: Objects) -> Puzzle:
    """The only gang of a cluster, every pod of which asks for one cpu."""
    (group,) = objects.every(PodGroup).values()
    room = {name: amount("cpu", node.status.allocatable["cpu"]) // 1000 for name, node in objects.every(Node).items()}
    subs: dict[tuple[int, str], list[str]] = {}
    for pod in objects.every(Pod).values():
        node = pod.spec.node_name
        if node:
            room[node] -= 1
        policies = ((i, p.name) for i, p in enumerate(group.spec.sub_group_policy) if p.name in pod.metadata.labels)
        policy, name = next(policies, (-1, ""))
        subs.setdefault((policy, pod.metadata.labels.get(name, "")), []).append(node)
    limit = _limit(group.spec.network_topology, NO_LIMIT)
    return Puzzle(
        room,
        _domains(objects),
        limit,
        group.spec.min_member,
        tuple(p.min_sub_groups or 0 for p in group.spec.sub_group_policy),
        tuple(_sub(group, limit, policy, nodes) for (policy, _), nodes in sorted(subs.items())),
    )


def _limit(spec: NetworkTopologySpec | None, outer: int) -> int:
    if spec is None:
        return NO_LIMIT
    return outer if spec.mode == "soft" or spec.highest_tier_allowed is None else spec.highest_tier_allowed


def _sub(group: PodGroup, outer: int, policy: int, nodes: list[str]) -> Sub:
    held = tuple(node for node in nodes if node)
    if policy < 0:
        return Sub(-1, 1, outer, held, len(nodes) - len(held))
    own = group.spec.sub_group_policy[policy]
    return Sub(policy, own.sub_group_size or 1, _limit(own.network_topology, outer), held, len(nodes) - len(held))


def _domains(objects: Objects) -> tuple[tuple[int, Nodes], ...]:
    hypernodes = objects.every(HyperNode)

    def nodes(name: str) -> Nodes:
        names = [(m.type, m.selector.exact_match.name) for m in hypernodes[name].spec.members if m.selector.exact_match]
        return frozenset[str]().union(*(nodes(n) if kind == "HyperNode" else {n} for kind, n in names))

    found = [(h.spec.tier, nodes(name)) for name, h in hypernodes.items()]
    top = max((tier for tier, _ in found), default=0) + 1
    return (*found, (top, frozenset(objects.every(Node))))


# -- random gangs


class Instance(msgspec.Struct, frozen=True):
    """A cluster and one gang of pods that ask for one cpu each."""

    world: World
    gang: Gang

    @property
    def objects(self) -> Objects:
        return objects_of(self.world, self.gang)

    def __str__(self) -> str:
        return f"{self.world.drawing}\n{self.gang!r}"


def random_instance(chance: random.Random, kind: str) -> Instance:
    """A gang of a kind: one-level, alike, unlike, running, elastic."""
    tree, nodes, tops = _random_tree(chance)
    rooms = dict.fromkeys(nodes, 0) | {n: chance.randint(0, chance.choice((2, 3, 4))) for n in nodes}
    gang = _random_gang(chance, kind)
    if kind == "running":
        gang = _partly_running(chance, gang, nodes, tops)
    has = {n: f"cpu={rooms[n] + gang.on.split().count(n)}" for n in nodes}
    return Instance(draw(tree, nodes=has), gang)


def _random_tree(chance: random.Random) -> tuple[str, list[str], list[list[str]]]:
    """The drawing, its nodes, and the nodes of each domain."""
    nodes: list[str] = []
    inside: list[list[str]] = []
    mixed = chance.random() < 0.3

    def node() -> str:
        nodes.append(f"n{len(nodes)}")
        return nodes[-1]

    def domain(height: int) -> str:
        first, name = len(nodes), f"d{len(inside)}"
        inside.append([])
        mine = inside[-1]
        bare = height == 1
        members = [
            node() if bare or (mixed and chance.random() < 0.3) else domain(height - 1)
            for _ in range(chance.randint(1, 3 if bare else 2))
        ]
        mine += nodes[first:]
        return f"{name}[{' '.join(members)}]"

    height = chance.choice((1, 2, 2, 3))
    tops = [domain(height) for _ in range(chance.randint(1, 3 if height == 1 else 2))]
    return " ".join(tops + [node() for _ in range(chance.choice((0, 0, 1)))]), nodes, inside


def _tier(chance: random.Random) -> int | None:
    return chance.choice((None, 1, 1, 2, 2, 3))


def _random_gang(chance: random.Random, kind: str) -> Gang:
    within, soft = _tier(chance), chance.random() < 0.15
    if kind == "one-level":
        tasks = chance.randint(1, 8)
        minimum = chance.choice((None, chance.randint(1, tasks)))
        return Gang("g", tasks=tasks, within=within, soft=soft, minimum=minimum)
    extra = chance.choice((1, 2)) if kind == "elastic" else 0
    policies = 1 if kind == "alike" else chance.choice((1, 2, 2, 3))
    groups = tuple(
        _random_groups(chance, f"p{i}", most=4 if policies == 1 else 2, extra=extra) for i in range(policies)
    )
    total = sum(g.count * (g.tasks or g.size) for g in groups)
    rest = chance.choice((0, 0, 1)) if kind != "alike" else 0
    minimum = chance.choice((None, chance.randint(1, total + rest), chance.randint(1, total + rest)))
    return Gang("g", tasks=rest, within=within, soft=soft, minimum=minimum, groups=groups)


def _random_groups(chance: random.Random, name: str, *, most: int, extra: int) -> Groups:
    count, size = chance.randint(1, most), chance.randint(1, 4)
    least = chance.choice((0, count, chance.randint(0, count)))
    soft = chance.random() < 0.15
    return Groups(count, size, size + extra, _tier(chance), soft=soft, minimum=least, name=name)


def _partly_running(chance: random.Random, gang: Gang, nodes: list[str], domains: list[list[str]]) -> Gang:
    """The same with some pods of some sub-groups on nodes, mostly inside one domain."""
    home = chance.choice([*domains, nodes])
    spots = ["-"] * gang.tasks
    for g in gang.groups:
        for _ in range(g.count):
            inner = [d for d in domains if set(d) <= set(home)] or [home]
            rack = chance.choice(inner)
            held = chance.choice((0, 0, 1, chance.randint(0, g.size)))
            spots += [chance.choice(rack)] * min(held, 1) + [chance.choice(rack) for _ in range(held - 1)]
            spots += ["-"] * ((g.tasks or g.size) - held)
    return Gang(
        gang.name,
        gang.tasks,
        within=gang.within,
        soft=gang.soft,
        minimum=gang.minimum,
        groups=gang.groups,
        on=" ".join(spots),
    )
