"""Causes of differences between schedulers of gangs, whoever the other one is: the world without each of them.

A cause is taken away only from the gangs that it touches. `volcano_causes` and `group_causes` name and list them.
"""

from __future__ import annotations

import collections
import copy

from counting import Answer, audit
from drawn_gangs import World


def served(world: World, answer: Answer) -> set[str]:
    """The gangs for which something was bound or nominated."""
    return {world.pods[key].gang for key in (*answer.bound, *answer.nominated)}


def differing(world: World, theirs: Answer, ours: Answer) -> set[str]:
    """The gangs that fare otherwise: served or not, other numbers bound, and victims where their total differs."""
    found = served(world, theirs) ^ served(world, ours)
    bound = [collections.Counter(world.pods[key].gang for key in answer.bound) for answer in (theirs, ours)]
    found |= {gang for gang in world.gangs if bound[0][gang] != bound[1][gang]}
    if len(theirs.evicted) != len(ours.evicted):
        lost = [collections.Counter(world.pods[key].gang for key in answer.evicted) for answer in (theirs, ours)]
        found |= {gang for gang in world.gangs if lost[0][gang] != lost[1][gang]}
    return found


def drop_waiting(world: World, gangs: set[str]) -> World:
    """The world without what these gangs wait for."""
    left = copy.deepcopy(world)
    for gang in gangs:
        for key in left.members(gang):
            if not left.pods[key].node:
                del left.pods[key]
        if not left.members(gang):
            del left.gangs[gang]
            left.budgets = {name: budget for name, budget in left.budgets.items() if budget.gang != gang}
            continue
        counts = collections.Counter(left.pods[key].role for key in left.members(gang))
        left.gangs[gang].minimum = min(left.gangs[gang].minimum, len(left.members(gang)))
        left.gangs[gang].roles = {r: min(n, counts[r]) for r, n in left.gangs[gang].roles.items()}
    return left


def drop_surplus(world: World, gangs: set[str]) -> World | None:
    """The world in which these gangs have no more pods than their minimum."""
    left, changed = copy.deepcopy(world), False
    for gang in gangs:
        spec = left.gangs[gang]
        minimum = spec.minimum if not spec.parts else max(spec.minimum, spec.parts.size * spec.parts.minimum)
        for key in sorted(left.members(gang), reverse=True):
            role = left.pods[key].role
            of_role = sum(left.pods[k].role == role for k in left.members(gang))
            if left.pods[key].node or len(left.members(gang)) <= minimum or of_role <= spec.roles.get(role, 0):
                continue
            del left.pods[key]
            changed = True
    return left if changed else None


def protect(world: World, keys: set[str]) -> World | None:
    """The world in which nobody may evict these pods."""
    left, changed = copy.deepcopy(world), False
    for key in keys:
        changed |= not left.pods[key].protected
        left.pods[key].protected = True
    return left if changed else None


def invalid(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Gangs that an answer of the other scheduler wrongs do not wait, and its victims there are protected."""
    del ours
    gangs = {gang for fault in audit(world, theirs) for gang in fault.gangs}
    if not gangs:
        return None
    waiting = {gang for gang in gangs if gang in served(world, theirs)}
    victims = {key for key in theirs.evicted if world.pods[key].gang in gangs}
    left = protect(world, victims) or world
    return drop_waiting(left, waiting) if waiting else (left if victims else None)


def surplus(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Gangs that fare otherwise have no more pods than their minimum."""
    return drop_surplus(world, differing(world, theirs, ours) & set(world.gangs))


def ties(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Gangs of which both bound as many, on other nodes, stand on ours."""
    gangs = set()
    for gang in world.gangs:
        places = [
            sorted((k, n) for k, n in answer.bound.items() if world.pods[k].gang == gang) for answer in (theirs, ours)
        ]
        if places[0] and len(places[0]) == len(places[1]) and places[0] != places[1]:
            gangs.add(gang)
    if not gangs:
        return None
    left = copy.deepcopy(world)
    for key, node in ours.bound.items():
        if world.pods[key].gang in gangs:
            left.pods[key].node = node
            left.pods[key].nominated = ""
            left.gangs[world.pods[key].gang].phase = "Running"
    return left


def ours_alone(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Gangs of which tierwise binds more, soundly, do not wait."""
    bound = [collections.Counter(world.pods[key].gang for key in answer.bound) for answer in (theirs, ours)]
    gangs = {gang for gang in world.gangs if bound[1][gang] > bound[0][gang]}
    return drop_waiting(world, gangs) if gangs else None


def room_made_by_ours_alone(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Gangs that tierwise alone makes room for do not wait."""
    gangs = {world.pods[key].gang for key in ours.nominated} - served(world, theirs)
    return drop_waiting(world, gangs) if gangs else None


def fewer_victims(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Whom the other scheduler evicts besides, nobody may evict."""
    if len(ours.evicted) >= len(theirs.evicted):
        return None
    return protect(world, set(theirs.evicted) - set(ours.evicted))


def made_room_cheaper(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Where tierwise evicts fewer, soundly, gangs that both make room for do not wait."""
    gangs = {world.pods[key].gang for key in theirs.nominated} & {world.pods[key].gang for key in ours.nominated}
    return drop_waiting(world, gangs) if gangs and len(ours.evicted) < len(theirs.evicted) else None


def leaving(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Pods on their way out are gone."""
    del theirs, ours
    going = [key for key, pod in world.pods.items() if pod.leaving]
    if not going:
        return None
    left = copy.deepcopy(world)
    for key in going:
        del left.pods[key]
    for gang in [gang for gang in left.gangs if not left.members(gang)]:
        del left.gangs[gang]
        left.budgets = {name: budget for name, budget in left.budgets.items() if budget.gang != gang}
    return left
