"""Known causes of differences between Volcano and tierwise: what each touches, and the world without it.

Their reasons stand in `volcano_differences.toml`. A cause is taken away only from the gangs that it touches.
"""

from __future__ import annotations

import collections
import copy

from counting import Answer, audit, broken
from drawn_gangs import World
from excuses import Cause


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


def _drop_waiting(world: World, gangs: set[str]) -> World:
    """The world without what these gangs wait for."""
    left = copy.deepcopy(world)
    for gang in gangs:
        for key in left.members(gang):
            if not left.pods[key].node:
                del left.pods[key]
        if not left.members(gang):
            del left.gangs[gang]
            continue
        counts = collections.Counter(left.pods[key].role for key in left.members(gang))
        left.gangs[gang].minimum = min(left.gangs[gang].minimum, len(left.members(gang)))
        left.gangs[gang].roles = {r: min(n, counts[r]) for r, n in left.gangs[gang].roles.items()}
    return left


def _drop_surplus(world: World, gangs: set[str]) -> World | None:
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


def _protect(world: World, keys: set[str]) -> World | None:
    left, changed = copy.deepcopy(world), False
    for key in keys:
        changed |= not left.pods[key].protected
        left.pods[key].protected = True
    return left if changed else None


def _invalid(world: World, theirs: Answer, ours: Answer) -> World | None:
    del ours
    gangs = {gang for fault in audit(world, theirs) for gang in fault.gangs}
    if not gangs:
        return None
    waiting = {gang for gang in gangs if gang in served(world, theirs)}
    victims = {key for key in theirs.evicted if world.pods[key].gang in gangs}
    left = _protect(world, victims) or world
    return _drop_waiting(left, waiting) if waiting else (left if victims else None)


def _one_tier(world: World, theirs: Answer, ours: Answer) -> World | None:
    del ours
    if world.one_tier or not theirs.evicted:
        return None
    left = copy.deepcopy(world)
    left.one_tier = True
    return left


def _breaks(world: World, theirs: Answer, ours: Answer) -> World | None:
    gangs = broken(world, theirs) - broken(world, ours)
    return _protect(world, {key for gang in gangs for key in world.members(gang)})


def _less_than_minimum(world: World, theirs: Answer, ours: Answer) -> World | None:
    there = collections.Counter(pod.gang for pod in world.pods.values() if pod.node and not pod.leaving)
    there.update(world.pods[key].gang for key in (*theirs.bound, *theirs.nominated))
    gangs = {g for g in served(world, theirs) if there[g] < world.gangs[g].minimum}
    return _drop_waiting(world, gangs) if gangs else None


def _elastic(world: World, theirs: Answer, ours: Answer) -> World | None:
    gangs = {g for g in served(world, ours) - served(world, theirs) if world.gangs[g].limit or world.gangs[g].parts}
    return _drop_surplus(world, gangs)


def _surplus(world: World, theirs: Answer, ours: Answer) -> World | None:
    return _drop_surplus(world, differing(world, theirs, ours) & set(world.gangs))


def _left_to_gang_actions(world: World, theirs: Answer, ours: Answer) -> World | None:
    if not any(word in world.actions.split(", ") for word in ("reclaim", "preempt")):
        return None
    gangs = {g for g in served(world, theirs) - served(world, ours) if _is_hard(world, g)}
    if not gangs:
        return None
    left = copy.deepcopy(world)
    for gang in gangs:
        left.gangs[gang].limit = None
        parts = left.gangs[gang].parts
        if parts:
            parts.limit = None
    return left


def _is_hard(world: World, gang: str) -> bool:
    spec = world.gangs[gang]
    return (spec.limit is not None and spec.limit[0] == "hard") or (
        spec.parts is not None and spec.parts.limit is not None
    )


def _ties(world: World, theirs: Answer, ours: Answer) -> World | None:
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


def _ours_alone(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Gangs of which tierwise binds more, soundly, do not wait."""
    bound = [collections.Counter(world.pods[key].gang for key in answer.bound) for answer in (theirs, ours)]
    gangs = {gang for gang in world.gangs if bound[1][gang] > bound[0][gang]}
    return _drop_waiting(world, gangs) if gangs else None


def _room_made_by_ours_alone(world: World, theirs: Answer, ours: Answer) -> World | None:
    gangs = {world.pods[key].gang for key in ours.nominated} - served(world, theirs)
    return _drop_waiting(world, gangs) if gangs else None


def _fewer_victims(world: World, theirs: Answer, ours: Answer) -> World | None:
    if len(ours.evicted) >= len(theirs.evicted):
        return None
    return _protect(world, set(theirs.evicted) - set(ours.evicted))


def _reservations(world: World, theirs: Answer, ours: Answer) -> World | None:
    del theirs, ours
    if not any(pod.nominated for pod in world.pods.values()):
        return None
    left = copy.deepcopy(world)
    for pod in left.pods.values():
        pod.nominated = ""
    return left


def _leaving(world: World, theirs: Answer, ours: Answer) -> World | None:
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


def _pod_slots(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Slots are never short where a queue that tierwise serves less shares them by proportion."""
    short = any(node.amounts["pods"] < 110 for node in world.nodes.values())
    if world.share != "proportion" or not short or not served(world, theirs) - served(world, ours):
        return None
    left = copy.deepcopy(world)
    for node in left.nodes.values():
        node.amounts["pods"] = 110
    return left


def _idle_guarantees(world: World, theirs: Answer, ours: Answer) -> World | None:
    del theirs, ours
    if world.share != "proportion" or not any(queue.guarantee for queue in world.queues.values()):
        return None
    left = copy.deepcopy(world)
    for queue in left.queues.values():
        queue.guarantee = {}
    return left


CAUSES: list[Cause[World, Answer]] = [
    Cause("Volcano's own answer is not sound", _invalid),
    Cause("Volcano nominates less than a minimum", _less_than_minimum),
    Cause("Volcano breaks running gangs", _breaks),
    Cause("Volcano asks one tier alone about victims", _one_tier),
    Cause("Volcano asks for room for the whole of an elastic gang", _elastic),
    Cause("tierwise places surplus after all minimums", _surplus),
    Cause("tierwise leaves hard topology to the gang actions", _left_to_gang_actions),
    Cause("another of equally good nodes was taken before", _ties),
    Cause("tierwise finds a place that Volcano misses", _ours_alone),
    Cause("tierwise makes room where Volcano finds no victims", _room_made_by_ours_alone),
    Cause("tierwise evicts fewer", _fewer_victims),
    Cause("a nomination is a reservation", _reservations),
    Cause("pods on their way out count until they are gone", _leaving),
    Cause("pod slots are a resource like any other", _pod_slots),
    Cause("the guarantee of an idle queue is set aside", _idle_guarantees),
]
