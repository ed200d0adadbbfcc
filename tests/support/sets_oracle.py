"""Exact answers by CP-SAT to "can these gangs start?" where parts of sets stand together or apart.

It knows nodes, racks and spines, a number of tasks on each node for every gang, and a flag for each gang and domain
that it touches. Nothing of how the engine searches is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from ortools.sat.python import cp_model

__all__ = ["Rule", "Side", "Standing", "World", "solvable"]


class Rule(msgspec.Struct, frozen=True):
    """What a gang says of the parts of its set: at most so many in a domain of the tier, or 0 for all in one."""

    tier: str
    most: int = 0


class Side(msgspec.Struct, frozen=True):
    """A gang: so many tasks of so many cpus each, inside one domain of a tier ("" for anywhere)."""

    tasks: tuple[tuple[int, int], ...]  # number, cpus
    within: str = ""
    rules: tuple[Rule, ...] = ()


class World(msgspec.Struct, frozen=True):
    """Idle cpus of each node, and the rack and the spine that it is in."""

    idle: Mapping[str, int]
    domains: Mapping[str, Mapping[str, str]]  # by tier and node

    def of(self, tier: str) -> dict[str, list[str]]:
        """The nodes of each domain of a tier."""
        found: dict[str, list[str]] = {}
        for node in self.idle:
            found.setdefault(self.domains[tier][node], []).append(node)
        return found


Standing = Sequence[frozenset[str]]
"""The nodes of each part of the set that stands already."""


def solvable(world: World, gangs: Sequence[Side], others: Standing = (), *, policies: Sequence[str] = ()) -> bool:
    """Whether all of these gangs can start beside the parts that stand: parts of one set, or of one for each policy."""
    model = cp_model.CpModel()
    on = [
        [{node: model.new_int_var(0, number, "") for node in world.idle} for number, _ in gang.tasks] for gang in gangs
    ]
    for gang, placed in zip(gangs, on, strict=True):
        for (number, _), here in zip(gang.tasks, placed, strict=True):
            model.add(sum(here.values()) == number)
    for node, idle in world.idle.items():
        used = [
            each * here[node]
            for gang, placed in zip(gangs, on, strict=True)
            for (_, each), here in zip(gang.tasks, placed, strict=True)
        ]
        model.add(sum(used) <= idle)
    flags: dict[str, list[dict[str, cp_model.IntVar]]] = {}
    for tier in ("rack", "spine"):
        domains = world.of(tier)
        flags[tier] = [{name: model.new_bool_var("") for name in domains} for _ in gangs]
        for gang, placed, touched in zip(gangs, on, flags[tier], strict=True):
            for name, nodes in domains.items():
                inside = sum(here[node] for here in placed for node in nodes)
                model.add(inside <= sum(number for number, _ in gang.tasks) * touched[name])
                model.add(inside >= touched[name])
            if gang.within == tier:
                model.add_at_most_one(touched.values())
    for i, gang in enumerate(gangs):
        for rule in gang.rules:
            same = [j for j in range(len(gangs)) if j != i and (not policies or policies[j] == policies[i])]
            own, rest = flags[rule.tier][i], [flags[rule.tier][j] for j in same]
            _keep(model, world, rule, own, rest, others)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


def _keep(
    model: cp_model.CpModel,
    world: World,
    rule: Rule,
    own: Mapping[str, cp_model.IntVar],
    rest: Sequence[Mapping[str, cp_model.IntVar]],
    others: Standing,
) -> None:
    """One gang keeps a rule of its own; given the flags of its domains, and those of the other parts."""
    for name, nodes in world.of(rule.tier).items():
        standing = sum(not part.isdisjoint(nodes) for part in others)
        if rule.most:
            model.add(standing + sum(touched[name] for touched in rest) <= rule.most - 1).only_enforce_if(own[name])
        elif others and not standing:
            model.add(own[name] == 0)
    if not rule.most:
        model.add_at_most_one(own.values())
        for touched in rest:
            for name in own:
                model.add(own[name] == touched[name])
