"""Random gangs of two or three pod sizes, and an exact answer to "can this gang start, and how tightly?".

`tightest` asks CP-SAT, domain by domain, with tasks of every size on single nodes; it knows nothing of how the engine
counts.
"""

from __future__ import annotations

import random

import msgspec
from ortools.sat.python import cp_model
from tests.support.draw import Gang, draw
from tests.support.drawn_gang import amounts
from tests.support.oracle import (
    Instance,
    Nodes,
    Puzzle,
    Sub,
    puzzle_of,
    random_instance,
)

from tierwise.api.codec import Raw
from tierwise.api.core import Node, Pod
from tierwise.api.quantity import amount
from tierwise.api.volcano import PodGroup
from tierwise.port import Objects

__all__ = ["random_mixture", "tightest"]

Size = tuple[int, ...]


class Mixed(Gang, frozen=True):
    """A gang whose pods, in order, ask for these amounts."""

    asks: tuple[str, ...] = ()

    def manifests(self) -> list[Raw]:
        group, *pods = super().manifests()
        return [group, *(_asking(pod, asked) for pod, asked in zip(pods, self.asks, strict=True))]


def _asking(pod: Raw, asked: str) -> Raw:
    spec = pod["spec"]
    assert isinstance(spec, dict)
    return pod | {"spec": spec | {"containers": [{"name": "main", "resources": {"requests": amounts(asked)}}]}}


def random_mixture(chance: random.Random, kind: str) -> Instance:
    """An instance of a kind of `oracle`, its pods of two or three sizes in two resources, on unequal nodes.

    Of "bundles", alike sub-groups, each has the same sizes in the same order.
    """
    plain = random_instance(chance, kind if kind != "bundles" else "alike")
    sizes = [
        f"cpu={chance.choice((1, 2, 3, 4))} gpu={chance.choice((0, 0, 1, 2))}" for _ in range(chance.choice((2, 2, 3)))
    ]
    pods = len(plain.objects.every(Pod))
    own = pods // plain.gang.groups[0].count if kind == "bundles" else pods
    asks = tuple(chance.choice(sizes) for _ in range(own)) * (pods // own)
    fields = {f.name: getattr(plain.gang, f.name) for f in msgspec.structs.fields(plain.gang)}
    gang = Mixed(**fields, asks=asks)
    held: dict[str, list[str]] = {}
    for spot, asked in zip([*gang.on.split(), *["-"] * pods], asks, strict=False):
        held.setdefault(spot, []).append(asked)
    has = {}
    for name in plain.objects.every(Node):
        cpu, gpu = chance.choice((2, 3, 4, 5, 6, 8)), chance.choice((0, 1, 2, 4))
        for asked in held.get(name, ()):
            cpu += int(amounts(asked)["cpu"])
            gpu += int(amounts(asked)["nvidia.com/gpu"])
        has[name] = f"cpu={cpu} gpu={gpu}"
    return Instance(draw(_tree_of(plain), nodes=has), gang)


def _tree_of(instance: Instance) -> str:
    return instance.world.drawing.split("'")[1]


def tightest(objects: Objects) -> int | None:
    """The lowest tier of a domain in which the gang can start; None where there is none."""
    puzzle = puzzle_of(objects)
    held = {node for sub in puzzle.subs for node in sub.held}
    homes = sorted((d for d in puzzle.domains if d[0] <= puzzle.limit and held <= d[1]), key=lambda d: d[0])
    return next((tier for tier, home in homes if _solve(objects, puzzle, home)), None)


def _solve(objects: Objects, puzzle: Puzzle, home: Nodes) -> bool:
    model = cp_model.CpModel()
    free = {name: _amounts(node.status.allocatable) for name, node in objects.every(Node).items()}
    load: dict[str, list[tuple[cp_model.IntVar, Size]]] = {name: [] for name in free}
    for pod in objects.every(Pod).values():
        if pod.spec.node_name:
            free[pod.spec.node_name] = _minus(free[pod.spec.node_name], _asked(pod))
    standing, whole = [], []
    for sub, sizes in zip(puzzle.subs, _pending(objects), strict=True):
        chosen = [(place, model.new_bool_var("")) for place in puzzle.places(sub, home)]
        model.add_at_most_one(flag for _, flag in chosen)
        mine = []
        for size in dict.fromkeys(sizes):
            per_node = []
            for node, loads in load.items():
                number = model.new_int_var(0, sizes.count(size), "")
                model.add(number <= sub.pending * sum(flag for place, flag in chosen if node in place))
                loads.append((number, size))
                per_node.append(number)
            model.add(sum(per_node) <= sizes.count(size))
            mine += per_node
        total = model.new_int_var_from_domain(cp_model.Domain.from_values(sub.numbers()), "")
        model.add(total == sum(mine))
        standing.append(total + len(sub.held))
        whole.append((sub, _whole(model, sub, total)))
    for node, loads in load.items():
        for r, have in enumerate(free[node]):
            model.add(sum(number * size[r] for number, size in loads) <= have)
    model.add(sum(standing) >= puzzle.minimum)
    for i, least in enumerate(puzzle.least):
        model.add(sum(flag for sub, flag in whole if sub.policy == i) >= least)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


def _whole(model: cp_model.CpModel, sub: Sub, total: cp_model.IntVar) -> cp_model.IntVar:
    flag = model.new_bool_var("")
    model.add(total + len(sub.held) >= sub.size).only_enforce_if(flag)
    return flag


def _pending(objects: Objects) -> list[list[Size]]:
    """The sizes of the pending pods of each sub-group, in the order of the puzzle's."""
    (group,) = objects.every(PodGroup).values()
    found: dict[tuple[int, str], list[Size]] = {}
    for pod in objects.every(Pod).values():
        labels = pod.metadata.labels
        named = ((i, p.name) for i, p in enumerate(group.spec.sub_group_policy) if p.name in labels)
        policy, name = next(named, (-1, ""))
        sizes = found.setdefault((policy, labels.get(name, "")), [])
        if not pod.spec.node_name:
            sizes.append(_asked(pod))
    return [sizes for _, sizes in sorted(found.items())]


def _asked(pod: Pod) -> Size:
    return _amounts(pod.spec.containers[0].resources.requests)


def _amounts(given: object) -> Size:
    assert isinstance(given, dict)
    return tuple(amount(name, given.get(name, "0")) for name in ("cpu", "nvidia.com/gpu"))


def _minus(one: Size, other: Size) -> Size:
    return tuple(a - b for a, b in zip(one, other, strict=True))
