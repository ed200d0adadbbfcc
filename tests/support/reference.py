"""Slow and obvious versions of what the engine does fast: its rules read off manifests, and placing by recursion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace
from tests.support.kernels import reference

from tierwise.api.core import Node, Pod
from tierwise.api.quantity import amount
from tierwise.api.volcano import HyperNode, NetworkTopologySpec, PodGroup
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import Picks
from tierwise.model.arrays import Ints
from tierwise.port import Objects

__all__ = ["Judge", "close_reference"]


class Judge(msgspec.Struct, frozen=True):
    """Says what is wrong with new bindings (pod -> node), given the objects as they were before."""

    objects: Objects
    bindings: Mapping[str, str]

    # -- nodes

    def overfull(self) -> list[str]:
        """Nodes that were given a pod and hold more than they can allocate of something that it asks for."""
        found = []
        for name, node in self.objects.every(Node).items():
            new = [p for p in self._pods() if self.bindings.get(p.metadata.name) == name]
            held: Counter[str] = Counter()
            for pod in self._pods():
                if name == self._where(pod) and pod.status.phase != "Succeeded":
                    held.update(_asks(pod))
            has = {r: amount(r, q) for r, q in node.status.allocatable.items()}
            asked = {r for pod in new for r in _asks(pod)}
            found += [f"{name}: {held[r]} of {has.get(r, 0)} {r}" for r in sorted(asked) if held[r] > has.get(r, 0)]
        return found

    def _pods(self) -> Iterator[Pod]:
        yield from self.objects.every(Pod).values()

    def _where(self, pod: Pod) -> str:
        return self.bindings.get(pod.metadata.name) or pod.spec.node_name

    # -- minimums

    def halves(self) -> list[str]:
        """Gangs that were given pods and stand below one of their minimums."""
        return [f"{key}: {fault}" for key, group in self._started() for fault in self._short(group)]

    def _started(self) -> Iterator[tuple[str, PodGroup]]:
        for key, group in self.objects.every(PodGroup).items():
            if any(pod.metadata.name in self.bindings for pod in self._members(group)):
                yield key, group

    def _members(self, group: PodGroup) -> list[Pod]:
        name = group.metadata.name
        return [p for p in self._pods() if p.metadata.annotations.get("scheduling.k8s.io/group-name") == name]

    def _ready(self, pod: Pod) -> bool:
        """Runs, has run, was placed now, or asks for nothing and waits for backfill."""
        if pod.status.phase == "Succeeded" or pod.metadata.name in self.bindings:
            return True
        if pod.spec.node_name:
            return not pod.metadata.deletion_timestamp
        return not _asks(pod).keys() - {"pods"} and not pod.spec.scheduling_gates

    def _short(self, group: PodGroup) -> Iterator[str]:
        spec = group.spec
        ready = [pod for pod in self._members(group) if self._ready(pod)]
        if len(ready) < spec.min_member:
            yield f"{len(ready)} pods, minimum {spec.min_member}"
        if spec.min_member >= sum(spec.min_task_member.values()):
            roles = Counter(pod.metadata.labels.get("volcano.sh/task-spec", "") for pod in ready)
            yield from (f"{roles[r]} of role {r}, minimum {n}" for r, n in spec.min_task_member.items() if roles[r] < n)
        for policy, subs in self._sub_groups(group).items():
            size, least = next(
                (p.sub_group_size or 1, p.min_sub_groups) for p in spec.sub_group_policy if p.name == policy
            )
            whole = sum(sum(map(self._ready, pods)) >= size for pods in subs.values())
            if whole < (least or 0):
                yield f"{whole} sub-groups of {policy}, minimum {least}"
            for label, pods in subs.items():
                started = any(pod.metadata.name in self.bindings for pod in pods)
                if started and sum(map(self._ready, pods)) < size:
                    yield f"sub-group {policy}-{label} below its size {size}"

    def _sub_groups(self, group: PodGroup) -> dict[str, dict[str, list[Pod]]]:
        """Pods by policy and label value; drawings give each policy one label key, its name."""
        found: dict[str, dict[str, list[Pod]]] = {p.name: {} for p in group.spec.sub_group_policy}
        for pod in self._members(group):
            for policy in found:
                if policy in pod.metadata.labels:
                    found[policy].setdefault(pod.metadata.labels[policy], []).append(pod)
                    break
        return found

    # -- tiers

    def too_wide(self) -> list[str]:
        """Gangs and sub-groups that were given pods and span more than their hard tier allows."""
        found = []
        for key, group in self._started():
            if not self._inside(self._members(group), group.spec.network_topology):
                found.append(key)
            limits = {p.name: p.network_topology for p in group.spec.sub_group_policy}
            for policy, subs in self._sub_groups(group).items():
                found += [f"{key}/{policy}-{s}" for s, pods in subs.items() if not self._inside(pods, limits[policy])]
        return found

    def _inside(self, pods: list[Pod], spec: NetworkTopologySpec | None) -> bool:
        limit = self._limit(spec)
        if limit is None or not any(pod.metadata.name in self.bindings for pod in pods):
            return True
        standing = (p for p in pods if not p.metadata.deletion_timestamp and p.status.phase != "Succeeded")
        nodes = {self._where(pod) for pod in standing} - {""}
        hypernodes = self.objects.every(HyperNode)
        if limit > max((h.spec.tier for h in hypernodes.values()), default=0):
            return True
        return any(nodes <= self._nodes(name) for name, h in hypernodes.items() if h.spec.tier <= limit)

    def _limit(self, spec: NetworkTopologySpec | None) -> int | None:
        if spec is None or spec.mode == "soft":
            return None
        if spec.highest_tier_allowed is not None:
            return spec.highest_tier_allowed
        names = {h.spec.tier_name: h.spec.tier for h in self.objects.every(HyperNode).values()}
        return names.get(spec.highest_tier_name) if spec.highest_tier_name else None

    def _nodes(self, hypernode: str) -> set[str]:
        found: set[str] = set()
        for member in self.objects.every(HyperNode)[hypernode].spec.members:
            exact = member.selector.exact_match
            if exact is not None:
                found |= {exact.name} if member.type == "Node" else self._nodes(exact.name)
        return found


def _asks(pod: Pod) -> dict[str, int]:
    asked = {"pods": 1}
    for container in pod.spec.containers:
        for name, quantity in container.resources.requests.items():
            asked[name] = asked.get(name, 0) + amount(name, quantity)
    return asked


# -- placing close together


def close_reference(cycle: Cycle, ask: Ask, count: int, domain: int, pool: Pool) -> Picks:
    """`walk` by recursion: which member of a domain takes the next tasks is asked again after each one is used up.

    Members where the gang stood at the start come first, the fullest of it first; then the one that holds all the
    rest with the least left over; where none does, the largest. Ties go to the first in the tree's order.
    Inside the innermost domain task after task goes to the node with the highest score.
    """
    stood = _stood(cycle, ask)
    taken: Counter[int] = Counter()
    with cycle.ledger.statement():
        _recurse(cycle, replace(ask, distance_decided=True), domain, count, pool, stood, taken)
    rows = sorted(taken)
    return np.array(rows, dtype=np.int64), np.array([taken[row] for row in rows], dtype=np.int64)


def _stood(cycle: Cycle, ask: Ask) -> Counter[int]:
    """How many tasks of the sub-job stand on each row; of the job, where the sub-job has none."""
    for subs in ((ask.sub,), ask.job.subs):
        found: Counter[int] = Counter()
        for sub in subs:
            rows, counts = cycle.ledger.placed_rows(sub) or (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
            for row, number in zip(rows.tolist(), counts.tolist(), strict=True):
                found[row] += number
        if found:
            return found
    return Counter()


def _recurse(
    cycle: Cycle, ask: Ask, domain: int, count: int, pool: Pool, stood: Counter[int], taken: Counter[int]
) -> None:
    members = [cycle.topology.span(child) for child in cycle.topology.children[domain]]
    whole = cycle.topology.span(domain)
    direct = slice(members[-1].stop if members else whole.start, whole.stop)
    places: list[tuple[int | None, slice]] = [
        *zip(cycle.topology.children[domain], members, strict=True),
        (None, direct),
    ]
    while count:
        room = [_room(cycle, ask, span, pool) for _, span in places]
        open_places = [i for i, r in enumerate(room) if r]
        if not open_places:
            return
        best = min(open_places, key=lambda i: (*_preference(room[i], count, _sum(stood, places[i][1])), i))
        child, span = places[best]
        number = min(count, room[best])
        if child is None:
            _take(cycle, ask, number, span, pool, taken)
        else:
            _recurse(cycle, ask, child, number, pool, stood, taken)
        count -= number


def _preference(room: int, count: int, stood: int) -> tuple[int, int, int]:
    if stood:
        return 0, 0, -stood
    return (1, 0, room) if room >= count else (1, 1, -room)


def _sum(stood: Counter[int], span: slice) -> int:
    return sum(number for row, number in stood.items() if span.start <= row < span.stop)


def _room(cycle: Cycle, ask: Ask, span: slice, pool: Pool) -> int:
    shape = ask.shape
    open_rows = cycle.pipeline.why_not(shape)[span] == 0
    free: Ints = cycle.ledger.free(shape.asked, span, pool)
    asked = shape.request[shape.asked].tolist()
    fits = [min(f // a for f, a in zip(column, asked, strict=True)) for column in free.T.tolist()]
    return sum(max(0, f) for f, is_open in zip(fits, open_rows.tolist(), strict=True) if is_open)


def _take(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool, taken: Counter[int]) -> None:
    rows, counts = reference(cycle, ask, count, span, pool)
    cycle.ledger.place(ask.shape, rows, counts, pool=pool)
    taken.update(dict(zip(rows.tolist(), counts.tolist(), strict=True)))
