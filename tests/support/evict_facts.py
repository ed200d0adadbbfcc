"""Naive facts about a scene and what a cycle did to it: minimums, domains, what queues are due, decision by decision.

Everything is counted pod by pod from the scene that the manifests were made of; nothing is asked of the scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from math import floor, inf

import msgspec
from tests.support.evict_world import Gang, Pod, Scene, Step, read

__all__ = [
    "Domain",
    "Due",
    "Moment",
    "crowded",
    "domains",
    "dues",
    "healthy",
    "losable",
    "moments",
    "standing",
    "used",
]

Places = Mapping[str, str]
"""The node of each pod, by path."""

RESOURCES = ("cpu", "gpu", "pods")


class Domain(msgspec.Struct, frozen=True):
    name: str
    tier: int
    nodes: frozenset[str]


def domains(scene: Scene) -> list[Domain]:
    """Racks, spines, and the whole cluster."""
    racks = [Domain(name, 1, frozenset(nodes)) for name, nodes in scene.racks.items()]
    below = {rack.name: rack.nodes for rack in racks}
    spines = [
        Domain(name, 2, frozenset(n for rack in inside for n in below[rack])) for name, inside in scene.spines.items()
    ]
    return [*racks, *spines, Domain("the cluster", 3, frozenset(scene.nodes))]


def standing(scene: Scene) -> dict[str, str]:
    """Where pods stand that are not on their way out."""
    return {path: pod.on for path, (_, pod) in scene.pods().items() if pod.stands}


def healthy(gang: Gang, there: Collection[str]) -> bool:
    """Whether the gang has every minimum with the pods that are there."""
    pods = [pod for pod in gang.pods if gang.path(pod) in there]
    if len(pods) < gang.minimum:
        return False
    roles = Counter(pod.role for pod in pods)
    if sum(gang.roles.values()) <= gang.minimum and any(roles[role] < n for role, n in gang.roles.items()):
        return False
    parts = Counter(pod.part for pod in pods if pod.part)
    return not gang.size or sum(n >= gang.size for n in parts.values()) >= gang.whole


def used(scene: Scene, places: Places, queue: str) -> Counter[str]:
    """What a queue's pods hold."""
    pods = scene.pods()
    total: Counter[str] = Counter()
    for path in places:
        gang, pod = pods[path]
        if gang.queue == queue:
            total += pod.need
    return total


def crowded(scene: Scene, places: Places, leaving: Collection[str] = ()) -> list[str]:
    """The nodes on which these pods, and others that are still there, ask for more than there is."""
    load: dict[str, Counter[str]] = {node: Counter() for node in scene.nodes}
    pods = scene.pods()
    for path, node in places.items():
        if node in load:
            load[node] += pods[path][1].need
    for path in leaving:
        load[pods[path][1].on] += pods[path][1].need
    return [node for node, asked in load.items() if any(asked[r] > scene.has(node)[r] for r in asked)]


# -- what queues are due


class Due(msgspec.Struct, frozen=True):
    """What a queue deserves, is guaranteed, could ever use and may use at most; fractions where shares are computed."""

    deserved: Mapping[str, Fraction]
    guarantee: Mapping[str, int]
    real: Mapping[str, int]
    capability: Mapping[str, int]

    def above(self, held: Counter[str], pod: Pod, quota: str) -> bool:
        """Whether the queue may lose a pod while it holds this much."""
        if quota == "proportion":
            return any(held[r] > self.deserved[r] for r in RESOURCES)
        common = [r for r in self.deserved if pod.need[r]]
        return not common or any(held[r] > self.deserved[r] for r in common)

    def share(self, held: Counter[str], asked: Counter[str]) -> Fraction | float:
        """The largest share of what is deserved; of something that is asked for and not deserved, beyond any other."""
        if any(asked[r] and held[r] and not n for r, n in self.deserved.items()):
            return inf
        return max((held[r] / n for r, n in self.deserved.items() if n), default=Fraction(0))

    def allows(self, held: Counter[str], need: Counter[str], quota: str) -> bool:
        """Whether the queue may be given this much more; its capability holds without a quota plugin as well."""
        limit: Mapping[str, Fraction | int] = self.capability
        if quota:
            limit = self.deserved if quota == "proportion" else self.real
        return all(held[r] + n <= limit[r] for r, n in need.items() if n and r in limit)

    def may_reclaim(self, held: Counter[str], need: Counter[str], quota: str) -> bool:
        """Whether so much more keeps within what it deserves: all of it, or with capacity one resource."""
        within = [held[r] + need[r] <= self.deserved[r] for r in self.deserved if need[r]]
        return self.allows(held, need, quota) and (quota == "proportion" or any(within))


def dues(scene: Scene, quota: str) -> dict[str, Due]:
    """By queue, what a quota plugin says that it is due; without one, its capability alone counts."""
    total = sum((scene.has(node) for node in scene.nodes), Counter())
    guarantees = sum((read(queue.guarantee) for queue in scene.queues), Counter())
    result = {}
    for queue in scene.queues:
        guarantee, capability = read(queue.guarantee), read(queue.capability)
        real = {r: total[r] - guarantees[r] + guarantee[r] for r in RESOURCES}
        real = {r: min(n, capability.get(r, n)) for r, n in real.items()}
        declared = {
            r: max(min(read(queue.deserved)[r], real[r]), guarantee[r]) for r in {**read(queue.deserved), **guarantee}
        }
        result[queue.name] = Due({r: Fraction(n) for r, n in declared.items()}, guarantee, real, capability)
    return _by_weight(scene, total, result) if quota == "proportion" else result


def _by_weight(scene: Scene, total: Counter[str], declared: Mapping[str, Due]) -> dict[str, Due]:
    """The same where the cluster is shared out by weight, as much as each asks for."""
    asked = {
        queue.name: sum(
            (p.need for g, p in scene.pods().values() if g.queue == queue.name and not p.leaving), Counter()
        )
        for queue in scene.queues
    }
    shares: dict[str, dict[str, Fraction]] = {queue.name: {} for queue in scene.queues}
    for r in RESOURCES:
        unit = 1000 if r == "cpu" else 1  # shares are whole numbers of the units that resources are counted in
        claims = [
            (
                q.weight,
                declared[q.name].guarantee.get(r, 0) * unit,
                min(declared[q.name].real[r], asked[q.name][r]) * unit,
            )
            for q in scene.queues
        ]
        for queue, share in zip(scene.queues, _shares(total[r] * unit, claims), strict=True):
            shares[queue.name][r] = Fraction(share, unit)
    return {name: Due(shares[name], due.guarantee, due.real, due.capability) for name, due in declared.items()}


def _shares(total: int, claims: list[tuple[int, int, int]]) -> list[int]:
    """Water filling in whole units; what rounding leaves goes to the largest fractions, the first first."""
    level = _level(total, claims)
    exact = [max(Fraction(least), min(Fraction(most), level * weight)) for weight, least, most in claims]
    shares = [floor(share) for share in exact]
    by_fraction = sorted(range(len(exact)), key=lambda i: (shares[i] - exact[i], i))
    for i in by_fraction[: floor(sum(exact)) - sum(shares)]:
        shares[i] += 1
    return shares


def _level(total: int, claims: list[tuple[int, int, int]]) -> Fraction:
    """The highest level at which everything together is no more than there is."""

    def filled(level: Fraction) -> Fraction:
        return sum((max(Fraction(f), min(Fraction(c), level * w)) for w, f, c in claims), Fraction(0))

    edges = sorted({Fraction(n, w) for w, f, c in claims for n in (f, c)} | {Fraction(0)})
    best = Fraction(0)
    for low, high in pairwise(edges):
        if filled(high) <= total:
            best = high
        elif filled(low) <= total:
            slope = (filled(high) - filled(low)) / (high - low)
            return low + (total - filled(low)) / slope
    return best


def losable(scene: Scene, due: Due, held: Counter[str], victims: Iterable[str], quota: str) -> bool:
    """Whether a queue that is left with `held` may have lost these pods one by one, in some order.

    From the last to the first: whoever may have gone last is put back, which only makes it easier for the others.
    """
    pods, held, left = scene.pods(), Counter(held), list(victims)
    while left:
        last = next((v for v in left if due.above(held + pods[v][1].need, pods[v][1], quota)), None)
        if last is None:
            return False
        left.remove(last)
        held += pods[last][1].need
    return True


# -- decision by decision


class Moment(msgspec.Struct, frozen=True):
    """One decision, and where pods stood or were expected before it, after its evictions, and after it."""

    step: Step
    before: Places
    cleared: Places
    after: Places
    waits: frozenset[str]  # those of `before` that are only expected
    gone: frozenset[str]  # who was evicted earlier in the cycle


def moments(scene: Scene, steps: Iterable[Step]) -> Iterator[Moment]:
    """The decisions of a cycle in their order."""
    now, waits, gone = standing(scene), frozenset[str](), frozenset[str]()
    for step in steps:
        cleared = {path: node for path, node in now.items() if path not in step.evicted}
        after = {**cleared, **step.placed}
        yield Moment(step, now, cleared, after, waits, gone)
        now, waits, gone = after, waits if step.bound else waits | step.placed.keys(), gone | set(step.evicted)
