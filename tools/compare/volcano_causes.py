"""Known causes of differences between Volcano and tierwise: what each touches, and the world without it.

Their reasons stand in `volcano_differences.toml`. A cause is taken away only from the gangs that it touches.
"""

from __future__ import annotations

import collections
import copy

from counting import Answer, broken
from drawn_gangs import World
from excuses import Cause
from gang_causes import (
    drop_surplus,
    drop_waiting,
    fewer_victims,
    invalid,
    leaving,
    made_room_cheaper,
    ours_alone,
    protect,
    room_made_by_ours_alone,
    served,
    surplus,
    ties,
)


def _one_tier(world: World, theirs: Answer, ours: Answer) -> World | None:
    del ours
    if world.one_tier or not theirs.evicted:
        return None
    left = copy.deepcopy(world)
    left.one_tier = True
    return left


def _breaks(world: World, theirs: Answer, ours: Answer) -> World | None:
    gangs = broken(world, theirs) - broken(world, ours)
    return protect(world, {key for gang in gangs for key in world.members(gang)})


def _room_by_breaking(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Gangs that Volcano alone makes room for do not wait, where all that it evicts breaks running gangs."""
    wronged = broken(world, theirs) - broken(world, ours)
    gangs = {world.pods[key].gang for key in theirs.nominated} - served(world, ours)
    alone = theirs.evicted and all(world.pods[key].gang in wronged for key in theirs.evicted)
    return drop_waiting(world, gangs) if gangs and alone else None


def _less_than_minimum(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Gangs do not wait that Volcano gives less than their minimum, or nominates a part of a sub-group of."""
    del ours
    there = [pod for key, pod in world.pods.items() if (pod.node and not pod.leaving) or key in theirs.bound]
    there += [world.pods[key] for key in theirs.nominated if key not in theirs.bound]
    gangs = collections.Counter(pod.gang for pod in there)
    parts = collections.Counter((pod.gang, pod.part) for pod in there)
    short = {gang for gang in served(world, theirs) if gangs[gang] < world.gangs[gang].minimum}
    for pod in (world.pods[key] for key in theirs.nominated):
        policy = world.gangs[pod.gang].parts
        if policy and parts[pod.gang, pod.part] < policy.size:
            short.add(pod.gang)
    return drop_waiting(world, short) if short else None


def _elastic(world: World, theirs: Answer, ours: Answer) -> World | None:
    gangs = {g for g in served(world, ours) - served(world, theirs) if world.gangs[g].limit or world.gangs[g].parts}
    return drop_surplus(world, gangs)


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


def _reservations(world: World, theirs: Answer, ours: Answer) -> World | None:
    del theirs, ours
    if not any(pod.nominated for pod in world.pods.values()):
        return None
    left = copy.deepcopy(world)
    for pod in left.pods.values():
        pod.nominated = ""
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
    Cause("Volcano's own answer is not sound", invalid),
    Cause("Volcano nominates less than a minimum", _less_than_minimum),
    Cause("Volcano breaks running gangs", _breaks),
    Cause("Volcano asks one tier alone about victims", _one_tier),
    Cause("Volcano asks for room for the whole of an elastic gang", _elastic),
    Cause("tierwise places surplus after all minimums", surplus),
    Cause("tierwise leaves hard topology to the gang actions", _left_to_gang_actions),
    Cause("another of equally good nodes was taken before", ties),
    Cause("tierwise finds a place that Volcano misses", ours_alone),
    Cause("tierwise makes room where Volcano finds no victims", room_made_by_ours_alone),
    Cause("tierwise evicts fewer", fewer_victims),
    Cause("tierwise makes the same room with fewer victims", made_room_cheaper),
    Cause("Volcano makes room by breaking running gangs", _room_by_breaking),
    Cause("a nomination is a reservation", _reservations),
    Cause("pods on their way out count until they are gone", leaving),
    Cause("pod slots are a resource like any other", _pod_slots),
    Cause("the guarantee of an idle queue is set aside", _idle_guarantees),
]
