"""An auditor of drawn clusters of gangs: which promises one cycle's answer breaks, by counting.

It knows what a `World` holds and what was bound, nominated and evicted; it shares no code with any scheduler. What is
evicted is there until it is gone: victims of the cycle and pods on their way out hold their room, their place in every
spread and their part of every quota.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from drawn_gangs import PRIORITIES, Pod, World
from drawn_rules import Raw


@dataclass
class Answer:
    """What one scheduler did in one cycle."""

    bound: dict[str, str] = field(default_factory=dict)
    nominated: dict[str, str] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    error: str = ""
    by: dict[str, str] = field(default_factory=dict)  # the gang that each victim goes for, where it is told


@dataclass(frozen=True)
class Fault:
    """A broken promise, and the gangs that it is about."""

    promise: str
    gangs: frozenset[str]


def audit(world: World, answer: Answer) -> Iterator[Fault]:
    """Promises that an answer breaks."""
    if answer.error:
        return
    yield from _room(world, answer)
    yield from _rules(world, answer)
    yield from _spread(world, answer)
    yield from _gangs(world, answer)
    yield from _quotas(world, answer)
    yield from _nominated_quotas(world, answer)
    yield from _nominated_tiers(world, answer)
    yield from _victims(world, answer)


def broken(world: World, answer: Answer) -> set[str]:
    """Running gangs that an answer left below their minimum."""
    left: collections.Counter[str] = collections.Counter()
    before: collections.Counter[str] = collections.Counter()
    for key, pod in world.pods.items():
        if pod.node and not pod.leaving:
            before[pod.gang] += 1
            left[pod.gang] += key not in answer.evicted
    hit = {world.pods[key].gang for key in answer.evicted}
    return {key for key in hit if left[key] < world.gangs[key].minimum <= before[key]}


def _room(world: World, answer: Answer) -> Iterator[Fault]:
    for name, node in world.nodes.items():
        bound = [key for key, place in answer.bound.items() if place == name]
        left = world.free(name)
        for key in bound:
            for resource, amount in {**world.pods[key].ask, "pods": 1}.items():
                left[resource] = left.get(resource, 0) - amount
        if bound and any(amount < 0 for amount in left.values()):
            yield Fault("overcommitted node", _gangs_of(world, bound))
        del node


def _rules(world: World, answer: Answer) -> Iterator[Fault]:
    for key, name in sorted({**answer.bound, **answer.nominated}.items()):
        if not name:
            continue  # nominated, without a word about where
        pod, node = world.pods[key], world.nodes[name]
        gang = frozenset({pod.gang})
        hard = [taint for taint in node.taints if taint["effect"] in ("NoSchedule", "NoExecute")]
        if node.cordoned:
            hard.append({"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"})
        if not all(any(_tolerates(one, taint) for one in pod.tolerations) for taint in hard):
            yield Fault("taint not tolerated", gang)
        if not may_be_on(world, pod, name):
            yield Fault("node affinity not met", gang)


def may_be_on(world: World, pod: Pod, name: str) -> bool:
    """Whether node selector and affinity allow a node."""
    labels = world.nodes[name].labels
    if any(labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    return not pod.node_terms or any(_term_matches(term, name, labels) for term in pod.node_terms)


def _term_matches(term: Raw, name: str, labels: dict[str, str]) -> bool:
    fields = [one["values"] == [name] for one in term.get("matchFields", ())]
    return all(fields) and all(_expression_matches(one, labels) for one in term.get("matchExpressions", ()))


def _expression_matches(one: Raw, labels: dict[str, str]) -> bool:
    there, values = labels.get(one["key"]), one.get("values", [])
    match one["operator"]:
        case "In":
            return there in values
        case "NotIn":
            return there not in values
        case "Exists":
            return there is not None
        case "DoesNotExist":
            return there is None
        case "Gt":
            return there is not None and int(there) > int(values[0])
        case _:
            return there is not None and int(there) < int(values[0])


def _tolerates(one: Raw, taint: Raw) -> bool:
    if one.get("effect") not in (None, taint["effect"]):
        return False
    if one.get("key") not in (None, taint["key"]):
        return False
    return one["operator"] == "Exists" or one.get("value", "") == taint.get("value", "")


def _spread(world: World, answer: Answer) -> Iterator[Fault]:
    """Skews at the end of the cycle, and for nominated pods once all who leave have left.

    All pods of a gang have the same constraint here, so no order hides one.
    """
    later = {**answer.bound, **{key: node for key, node in answer.nominated.items() if node}}
    for places, gone in ((answer.bound, set[str]()), (later, set(answer.evicted))):
        for gang in sorted({world.pods[key].gang for key in places}):
            placed = {key: places[key] for key in world.members(gang) if key in places}
            if not _is_even(world, gang, placed, gone):
                yield Fault("topology spread exceeded", frozenset({gang}))


def _is_even(world: World, gang: str, placed: dict[str, str], gone: set[str]) -> bool:
    """Whether domains that pods of a gang are placed in have no more of them than its skews allow."""
    for rule in world.pods[next(iter(placed))].spread:
        label = rule["topologyKey"]
        eligible = [n for n in world.nodes if may_be_on(world, world.pods[next(iter(placed))], n)]
        counts = {world.nodes[n].labels[label]: 0 for n in eligible}
        for key in world.members(gang):
            pod = world.pods[key]
            place = placed.get(key) or pod.node
            if place in eligible and (key in placed or not (pod.leaving or key in gone)):
                counts[world.nodes[place].labels[label]] += 1
        least = min(counts.values(), default=0) if len(counts) >= rule.get("minDomains", 1) else 0
        touched = {world.nodes[node].labels[label] for node in placed.values()}
        if any(counts.get(value, 0) - least > rule["maxSkew"] for value in touched):
            return False
    return True


def _gangs(world: World, answer: Answer) -> Iterator[Fault]:
    started = {world.pods[key].gang for key in answer.bound}
    for key in sorted(started):
        gang = world.gangs[key]
        there = {
            k: answer.bound.get(k) or world.pods[k].node
            for k in world.members(key)
            if k in answer.bound or (world.pods[k].node and not world.pods[k].leaving and k not in answer.evicted)
        }
        only = frozenset({key})
        if len(there) < gang.minimum:
            yield Fault("part of a gang", only)
        by_role = collections.Counter(world.pods[k].role for k in there)
        if gang.minimum >= sum(gang.roles.values()) and any(by_role[r] < n for r, n in gang.roles.items()):
            yield Fault("part of a role", only)
        if gang.parts:
            sizes = collections.Counter(world.pods[k].part for k in there)
            if sum(size >= gang.parts.size for size in sizes.values()) < gang.parts.minimum:
                yield Fault("too few whole sub-groups", only)
        yield from (Fault(broken_tier, only) for broken_tier in _tiers(world, key, there))


def _nominated_tiers(world: World, answer: Answer) -> Iterator[Fault]:
    """Nobody is newly nominated where its gang would stand in too wide a domain once all have left who are asked to."""
    later = {key: node for key, node in answer.nominated.items() if node and not world.pods[key].nominated}
    for gang in sorted({world.pods[key].gang for key in later}):
        stays = {k: p.node for k in world.members(gang) if (p := world.pods[k]).node and not p.leaving}
        there = {k: node for k, node in stays.items() if k not in answer.evicted}
        there |= {k: places[k] for places in (later, answer.bound) for k in world.members(gang) if k in places}
        for broken_tier in _tiers(world, gang, there):
            yield Fault(f"nominated: {broken_tier}", frozenset({gang}))


def _tiers(world: World, key: str, there: dict[str, str]) -> Iterator[str]:
    """Which hard tiers a gang exceeds with its pods on these nodes."""
    gang = world.gangs[key]
    if gang.limit and gang.limit[0] == "hard" and not _within(world, set(there.values()), gang.limit[1]):
        yield "hard tier exceeded"
    limit = gang.parts.limit if gang.parts else None
    if limit is not None:
        parts: dict[str, set[str]] = collections.defaultdict(set)
        for k, node in there.items():
            parts[world.pods[k].part].add(node)
        if not all(_within(world, nodes, limit) for nodes in parts.values()):
            yield "hard tier of a sub-group exceeded"


def _within(world: World, nodes: set[str], tier: int) -> bool:
    return any(nodes <= world.inside(name) for name, (own, _) in world.domains.items() if own <= tier)


def _quotas(world: World, answer: Answer) -> Iterator[Fault]:
    """No queue that something was bound for holds more than its capability, nor what others are guaranteed."""
    held: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    gained: dict[str, set[str]] = collections.defaultdict(set)
    asked: dict[str, set[str]] = collections.defaultdict(set)
    for key, pod in world.pods.items():
        if not pod.node and key not in answer.bound:
            continue
        queue = world.gangs[pod.gang].queue
        while queue:
            held[queue].update(pod.ask)
            if key in answer.bound and pod.ask:
                gained[queue].add(pod.gang)
                asked[queue] |= set(pod.ask)
            queue = world.queues[queue].parent
    for name, gangs in gained.items():
        for resource, most in world.queues[name].capability.items():
            if resource in asked[name] and held[name][resource] > most:
                yield Fault("capability exceeded", frozenset(gangs))
        if any(held[name][resource] > _beside_guarantees(world, name, resource) for resource in asked[name]):
            yield Fault("guarantee of another queue taken", frozenset(gangs))


def _beside_guarantees(world: World, name: str, resource: str) -> float:
    """How much a queue may hold of a resource beside what the queues next to it are guaranteed."""
    queue = world.queues[name]
    others = [q.guarantee for n, q in world.queues.items() if n != name and q.parent == queue.parent]
    kept = sum(guarantee.get(resource, 0) for guarantee in others)
    if not kept or name == "root" or world.share != "capacity":
        return math.inf
    return sum(node.amounts[resource] for node in world.nodes.values()) - kept


def _nominated_quotas(world: World, answer: Answer) -> Iterator[Fault]:
    """Nobody is newly nominated for what its queues may not hold even once all have left who are asked to."""
    held: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    gained: dict[str, set[str]] = collections.defaultdict(set)
    for key, pod in world.pods.items():
        stays = pod.node and not pod.leaving and key not in answer.evicted
        fresh = key in answer.nominated and not pod.nominated
        if not stays and key not in answer.bound and not fresh:
            continue
        queue = world.gangs[pod.gang].queue
        while queue:
            held[queue].update(pod.ask)
            if fresh and "cpu" in pod.ask:
                gained[queue].add(pod.gang)
            queue = world.queues[queue].parent
    for name, gangs in gained.items():
        most = world.queues[name].capability.get("cpu")
        if most is not None and held[name]["cpu"] > most:
            yield Fault("nominated beyond capability", frozenset(gangs))
        if held[name]["cpu"] > _beside_guarantees(world, name, "cpu"):
            yield Fault("nominated for what another queue is guaranteed", frozenset(gangs))


def _victims(world: World, answer: Answer) -> Iterator[Fault]:
    if not answer.evicted:
        return
    gone = frozenset(world.pods[key].gang for key in answer.evicted)
    if len(set(answer.evicted)) < len(answer.evicted):
        yield Fault("evicted twice", gone)
    for_whom = _gangs_of(world, [*answer.nominated, *answer.bound])
    if not for_whom:
        yield Fault("evicted for nobody", gone)
        return
    for budget in world.budgets.values() if world.budgets_bind else ():
        if sum(world.pods[key].gang == budget.gang for key in answer.evicted) > budget.allowed:
            yield Fault("disruption budget exceeded", frozenset({budget.gang}))
    guarded = [key for key in answer.evicted if world.pods[key].protected]
    if guarded:
        yield Fault("victim that is not preemptable", _gangs_of(world, guarded))
    waiting = _gangs_of(world, list(answer.nominated)) or for_whom
    if "preempt" in world.actions:
        for key in answer.evicted:
            own = world.gangs[world.pods[key].gang]
            above = [g for g in waiting if PRIORITIES[world.gangs[g].priority] > PRIORITIES[own.priority]]
            if not above:
                yield Fault("victim of equal or higher priority", frozenset({world.pods[key].gang}))
            elif all(world.gangs[g].queue != own.queue for g in above):
                yield Fault("preempted in another queue", frozenset({world.pods[key].gang}))
    if "reclaim" in world.actions:
        for key in answer.evicted:
            queue = world.gangs[world.pods[key].gang].queue
            if not world.queues[queue].reclaimable:
                yield Fault("victim of a queue that is not reclaimable", frozenset({world.pods[key].gang}))
            if all(world.gangs[g].queue == queue for g in waiting):
                yield Fault("reclaimed in its own queue", frozenset({world.pods[key].gang}))


def _gangs_of(world: World, keys: list[str]) -> frozenset[str]:
    return frozenset(world.pods[key].gang for key in keys)
