"""Judges one cycle of a history by counting: what must never happen, whatever the cluster went through.

Knows the scene before and after the cycle and the decisions in between; asks nothing of the scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
from tests.fuzz.stage import Act
from tests.support.evict_facts import (
    Moment,
    crowded,
    domains,
    dues,
    healthy,
    losable,
    moments,
    used,
)
from tests.support.evict_world import Gang, Scene

__all__ = ["Rules", "audit"]


class Rules(msgspec.Struct, frozen=True):
    """What a profile promises: its plugin for quotas, and the plugins that are asked who may go, by purpose."""

    quota: str
    preempt: frozenset[str] = frozenset(("priority", "gang", "conformance", "pdb"))
    reclaim: frozenset[str] = frozenset(("gang", "conformance", "pdb", "capacity", "proportion"))

    def asked(self, action: str) -> frozenset[str]:
        return self.preempt if "preempt" in action else self.reclaim


def audit(act: Act, rules: Rules) -> list[str]:
    """Everything that is wrong with a cycle, each as "rule: what"."""
    checks = (_room, _topology, _reasons, _fitting, _held)
    found = [fault for check in checks for fault in check(act)]
    found += _evictions(act, rules)
    found += _nominations(act)
    settled: dict[str, Moment] = {}
    for moment in moments(act.before, act.steps):
        found += _decision(act, moment, rules)
        found += _left_alone(act, moment, settled)
        settled[moment.step.gang] = moment
    return found


def _fitting(act: Act) -> Iterator[str]:
    """What fits without an eviction is bound in the same cycle, whatever the order of actions."""
    bound = {path for step in act.steps if step.bound for path in step.placed}
    for path in sorted(act.fits - bound):
        yield f"fits and is not bound: {path}"


def _held(act: Act) -> Iterator[str]:
    """Who is held, or whose queue is, gets no place, and nobody goes for it."""
    there = _places(act.before, nominated=False)
    for path in sorted(_places(act.after, nominated=False).keys() - there.keys()):
        if act.before.held(act.before.pods()[path][0]):
            yield f"bound while held: {path}"
    for path, by, action in act.evictions:
        if act.before.held(act.before.gang(by)):
            yield f"evicted for the held: {path} for {by} by {action}"


def _left_alone(act: Act, moment: Moment, settled: dict[str, Moment]) -> Iterator[str]:
    """What a cycle has placed is left alone: the nominated and the healed lose nobody, others stay whole."""
    for path in moment.step.evicted:
        gang = act.before.pods()[path][0]
        earlier = settled.get(gang.key)
        if earlier is None:
            continue
        if not earlier.step.bound or earlier.step.evicted:
            yield f"taken from the nominated: {path} by {moment.step}"
        elif not healthy(gang, earlier.before.keys() - earlier.waits):
            yield f"taken from the healed: {path} by {moment.step}"
        elif not healthy(gang, moment.cleared.keys() - moment.waits):
            yield f"broken after it was given more: {path} by {moment.step}"


def _places(scene: Scene, *, nominated: bool) -> dict[str, str]:
    pods = scene.pods().items()
    found = {path: pod.on for path, (_, pod) in pods if pod.stands}
    return found | (
        {path: pod.nominated for path, (_, pod) in pods if pod.nominated and not pod.on} if nominated else {}
    )


def _room(act: Act) -> Iterator[str]:
    """Pods fit with those that are still leaving, and with those that are expected once they have left."""
    leaving = [path for path, (_, pod) in act.after.pods().items() if pod.leaving]
    for node in crowded(act.after, _places(act.after, nominated=False), leaving):
        yield f"oversubscribed: {node} now"
    for node in crowded(act.after, _places(act.after, nominated=True)):
        yield f"oversubscribed: {node} once nominated pods have come"


def _evictions(act: Act, rules: Rules) -> Iterator[str]:
    """Nobody goes in vain, twice, protected, or where no plugin lets anybody go."""
    pods, there = act.before.pods(), _places(act.after, nominated=True)
    for path, number in Counter(path for path, _, _ in act.evictions).items():
        if number > 1 or pods[path][1].leaving:
            yield f"evicted twice: {path}"
    for path, by, action in act.evictions:
        gang, pod = pods[path]
        if not healthy(act.after.gang(by), there):
            yield f"wasted eviction: {path} for {by} by {action}"
        asked = rules.asked(action)
        if not asked:
            yield f"nobody was asked: {path} by {action}"
        critical = pod.mark == "critical" or gang.namespace == "kube-system"
        marked = (gang.kept or pod.mark == "kept") and not _may_be_borrowed(rules, action)
        if marked or (critical and "conformance" in asked):
            yield f"protected victim: {path} by {action}"
    for budget in act.before.budgets if "pdb" in rules.preempt & rules.reclaim else ():
        firm = [path for path, _, action in act.evictions if not _may_be_borrowed(rules, action)]
        gone = sum(budget.covers(*pods[path]) for path in firm)
        if gone > budget.allowed:
            yield f"budget broken: {gone} of {budget.gang}, {budget.allowed} allowed"


def _may_be_borrowed(rules: Rules, action: str) -> bool:
    """Whether an action takes from another queue what it may hold beyond what it deserves."""
    return bool(rules.quota) and "reclaim" in action


def _decision(act: Act, moment: Moment, rules: Rules) -> Iterator[str]:
    """Whom a gang may take from, and what their queues keep."""
    step, pods, quota = moment.step, act.before.pods(), rules.quota
    by = act.before.gang(step.gang)
    if step.bound and not healthy(by, moment.after.keys() - moment.waits):
        yield f"not whole: {step}"
    if step.evicted and any(pods[path][1].never for path in step.placed):
        yield f"never preempts: {step}"
    due, need = dues(act.before, quota), sum((pods[path][1].need for path in step.placed), Counter[str]())
    if not due[by.queue].allows(used(act.before, moment.cleared, by.queue), need, ""):
        yield f"beyond capability: {by.queue} by {step}"
    for path in step.evicted:
        gang = pods[path][0]
        lower = gang.queue == by.queue and _rank(gang) < _rank(by) and gang.key != by.key
        within = step.action == "preempt" and gang.key == by.key
        open_ = act.before.queue(gang.queue).reclaimable and act.before.queue(by.queue).open
        if not (lower or within) if "preempt" in step.action else gang.queue == by.queue or not open_:
            yield f"wrong victim: {path} for {by.key} by {step.action}"
    if "reclaim" not in step.action or not step.evicted:
        return
    for name in () if quota not in rules.reclaim else sorted({pods[path][0].queue for path in step.evicted}):
        held = used(act.before, moment.cleared, name)
        if any(held[r] < n for r, n in due[name].guarantee.items()):
            yield f"guarantee broken: {name} by {step}"
        if not losable(act.before, due[name], held, [v for v in step.evicted if pods[v][0].queue == name], quota):
            yield f"below deserved: {name} by {step}"
    if not due[by.queue].may_reclaim(used(act.before, moment.cleared, by.queue), need, quota):
        yield f"more than deserved: {by.queue} by {step}"


def _rank(gang: Gang) -> int:
    """A gang is at most as important as its pods were admitted."""
    return min(gang.priority, max((pod.priority for pod in gang.pods), default=gang.priority))


def _topology(act: Act) -> Iterator[str]:
    """Hard tiers hold for gangs and for their sub-groups, nominated pods included."""
    there = _places(act.after, nominated=True)
    placed = {step.gang for step in act.steps}
    for gang in act.after.gangs:
        if gang.key in placed:
            yield from (f"too wide: {gang.key}" for tier, nodes in _spots(gang, there) if not _inside(act, tier, nodes))


def _spots(gang: Gang, there: dict[str, str]) -> Iterator[tuple[int, set[str]]]:
    """The nodes of each set of pods that must be near each other, with its tier."""
    if gang.within is not None:
        yield gang.within, {there[path] for pod in gang.pods if (path := gang.path(pod)) in there}
    for part in sorted({pod.part for pod in gang.pods if pod.part and gang.inner is not None}):
        inside = [gang.path(pod) for pod in gang.pods if pod.part == part]
        yield gang.inner or 0, {there[path] for path in inside if path in there}


def _inside(act: Act, tier: int, nodes: set[str]) -> bool:
    return any(nodes <= domain.nodes for domain in domains(act.after) if domain.tier <= tier)


def _reasons(act: Act) -> Iterator[str]:
    """Every pod without a place is listed, with a reason and a message."""
    told = {entry["pod"]: entry for entry in act.pending}
    for path, (_, pod) in act.after.pods().items():
        if pod.on or pod.nominated:
            continue
        if path not in told:
            yield f"not listed as pending: {path}"
        elif not told[path]["reason"] or not told[path]["message"]:
            yield f"no reason: {path}"


def _nominations(act: Act) -> Iterator[str]:
    """Room that was kept is used or kept on, where nothing has happened since and no quota stands against it.

    Other pods of the gang may have come back and take the room.
    """
    if not act.quiet:
        return
    there = _places(act.before, nominated=True)
    victims = {path for path, _, _ in act.evictions}
    for gang in act.before.gangs:
        kept = {gang.path(p): p.nominated for p in gang.pods if p.nominated and not p.on}
        usable = all(node in act.before.nodes and node not in act.before.cordoned for node in kept.values())
        own = {gang.path(pod) for pod in gang.pods}
        if not kept or not usable or not healthy(gang, there) or own & victims or act.before.held(gang):
            continue
        after = _places(act.after, nominated=True)
        if any(after.get(path) != node for path, node in kept.items()) and not healthy(act.after.gang(gang.key), after):
            codes = {entry["reason"] for entry in act.pending if entry["pod"] in kept}
            if not any(code.startswith("Queue") for code in codes):  # a capability holds without a quota plugin too
                yield f"nomination lost: {gang.key} {kept} {sorted(codes)}"
