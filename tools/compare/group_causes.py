"""Known causes of differences between Kubernetes' workload-aware scheduling and tierwise, and the world without each.

Their reasons stand in `pod_groups_differences.toml`. A cause is taken away only from the groups that it touches.
"""

from __future__ import annotations

import copy

from counting import Answer
from drawn_gangs import PRIORITIES, World
from drawn_groups import group_of
from excuses import Cause
from gang_causes import (
    differing,
    drop_waiting,
    invalid,
    leaving,
    ours_alone,
    room_made_by_ours_alone,
    served,
    surplus,
    ties,
)


def _room_given_twice(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Whoever fares otherwise after the first group that Kubernetes evicts for does not wait."""
    order = _order(world)
    first = next((key for key in order if key in theirs.by.values() and group_of(world, key).kind != "single"), None)
    if first is None:
        return None
    other = {whom for whom in order if _victims_for(theirs, whom) != _victims_for(ours, whom)}
    later = set(order[order.index(first) + 1 :]) & (differing(world, theirs, ours) | other)
    return drop_waiting(world, later) if later else None


def _order(world: World) -> list[str]:
    """Whoever waits, in the order of turns: the important ones first, then those who came first."""
    waiting = dict.fromkeys(pod.gang for pod in world.pods.values() if not pod.node)
    return sorted(waiting, key=lambda key: -PRIORITIES[world.gangs[key].priority])


def _other_victims(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Whom both make room for, tierwise with no more victims, does not wait."""
    gains = served(world, ours)
    both = {whom: (_victims_for(theirs, whom), _victims_for(ours, whom)) for whom in theirs.by.values()}
    gangs = {w for w, (one, own) in both.items() if w in gains and one != own and len(own) <= len(one)}
    return drop_waiting(world, gangs) if gangs else None


def _falls_as_one(world: World, theirs: Answer, ours: Answer) -> World | None:
    """Groups that fall as one, and lose somebody, may lose single pods."""
    hit = {world.pods[key].gang for answer in (theirs, ours) for key in answer.evicted}
    whole = {key for key in hit if group_of(world, key).whole and group_of(world, key).kind != "single"}
    left = copy.deepcopy(world)
    for key in whole:
        group_of(left, key).whole = False
    return left if whole else None


def _victims_for(answer: Answer, whom: str) -> set[str]:
    return {victim for victim, gains in answer.by.items() if gains == whom}


CAUSES: list[Cause[World, Answer]] = [
    Cause("Kubernetes' own answer is not sound", invalid),
    Cause("Kubernetes gives the room of a group twice", _room_given_twice),
    Cause("no more victims, and others", _other_victims),
    Cause("a group that falls as one", _falls_as_one),
    Cause("tierwise places surplus after all minimums", surplus),
    Cause("another of equally good nodes was taken before", ties),
    Cause("tierwise finds a place that Kubernetes misses", ours_alone),
    Cause("tierwise makes room where Kubernetes finds no victims", room_made_by_ours_alone),
    Cause("pods on their way out are none of their group", leaving),
]
