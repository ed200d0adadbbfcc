"""Engine against reference: the same gangs in the same order, and they must agree on what fits and how tightly."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from tierwise.framework.report import Decision
from tierwise.model.arrays import Ints
from tierwise.model.job import Constraint, Job, Shape, SubJob
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT
from tierwise_lab.bench.measure import Pass, decisions, gc_off
from tierwise_lab.bench.worlds import BenchCluster, GangSpec, jobs, snapshot

__all__ = ["Reference", "agree", "compare"]


# A pod-by-pod scheduler: the denominator of P3, and a second opinion on where a gang fits.
#
# It reads Volcano's design the obvious way. Domains are tried tier by tier from the tightest; those whose idle sums
# cover the gang are eligible; in each of them the gang is placed on trial, pod after pod, each pod on the node with
# room that it would leave fullest, every node of the domain looked at for every pod; then the trial is undone. The
# domain that would be fullest takes the gang. A partitioned gang does the same inside each eligible domain for one
# group after the other. Plain Python loops, kept lean, with the sums per domain kept current.


_SCORED = (0, 1)
"""Cpu and memory, as in the default profile: the axis puts them first."""


class ReferencePlacement(msgspec.Struct, frozen=True):
    """Where a gang goes: a domain, its tier, and the row of every pod."""

    domain: int
    tier: int
    rows: tuple[int, ...]


class _Asks(msgspec.Struct, frozen=True):
    """Requests of one pod of a shape, as pairs of resource and amount."""

    needs: tuple[tuple[int, int], ...]
    scored: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, shape: Shape) -> _Asks:
        needs = tuple((r, int(shape.request[r])) for r in shape.asked.tolist())
        return cls(needs, tuple(need for need in needs if need[0] in _SCORED))


class Reference:
    """The free amounts of a cluster, and one decision at a time on them."""

    def __init__(self, snapshot: Snapshot) -> None:
        topology = snapshot.topology
        self._tier: list[int] = topology.tier.tolist()
        self._last: list[int] = topology.last.tolist()
        self._span: list[tuple[int, int]] = list(zip(topology.start.tolist(), topology.end.tolist(), strict=True))
        chains = [tuple(topology.ancestors(d)) for d in range(len(topology))]
        self._above = [chains[leaf] for leaf in topology.leaf.tolist()]
        self._asks = [_Asks.of(shape) for shape in snapshot.shapes]
        self._size: list[list[int]] = snapshot.nodes.allocatable.T.tolist()
        self._free: list[list[int]] = [list(node) for node in self._size]
        sums = np.stack([topology.totals(amounts) for amounts in snapshot.nodes.allocatable])
        self._domain_size: list[list[int]] = sums.T.tolist()
        self._domain_free: list[list[int]] = [list(domain) for domain in self._domain_size]
        self._journal: list[tuple[int, _Asks]] = []
        for task in snapshot.others:
            self._take(int(snapshot.nodes.rows[task.node]), self._asks[task.shape.number])

    def decide(self, job: Job) -> ReferencePlacement | None:
        """The best place for a gang now; None where there is none. Nothing is changed."""
        request = np.sum([sub.request for sub in job.subs], axis=0)
        for tier, group in self._gradients(job.constraint, ROOT):
            trials = [(self._try(job, domain), domain) for domain in group if self._covers(domain, request)]
            placements = [(score, -domain, rows) for (score, rows), domain in trials if rows]
            if placements:
                _, domain, rows = max(placements)
                return ReferencePlacement(-domain, tier, rows)
        return None

    def apply(self, decision: Decision) -> None:
        """Take over what another scheduler decided."""
        for task, row in decision.places():
            self._take(row, self._asks[task.shape.number])

    # -- one gang

    def _try(self, job: Job, domain: int) -> tuple[float, tuple[int, ...]]:
        """Place a gang below a domain and undo it: its score there and the rows, none where it does not fit."""
        mark = len(self._journal)
        score = self._place_groups(job, domain) if job.policies else self._place_whole(job.subs[0], domain)
        rows = tuple(row for row, _ in self._journal[mark:])
        self._rewind(mark)
        return score, rows

    def _place_groups(self, job: Job, outer: int) -> float:
        """Group after group, each in the best domain of its own; the sum of their scores."""
        mark = len(self._journal)
        total = 0.0
        for sub in job.subs:
            best = self._best_domain(sub, outer)
            if best < 0:
                self._rewind(mark)
                break
            total += self._place_whole(sub, best)
        return total

    def _best_domain(self, sub: SubJob, outer: int) -> int:
        """Try a group in every eligible domain of the tightest tier that holds it; -1 where none does."""
        for _, group in self._gradients(sub.constraint, outer):
            scores = []
            for domain in group:
                if self._covers(domain, sub.request):
                    mark = len(self._journal)
                    score = self._place_whole(sub, domain)
                    if len(self._journal) > mark:
                        scores.append((score, -domain))
                        self._rewind(mark)
            if scores:
                return -max(scores)[1]
        return -1

    def _place_whole(self, sub: SubJob, domain: int) -> float:
        """Every pod of a sub-job below a domain, or none where one of them finds no node; the domain's score."""
        mark = len(self._journal)
        score = self._fullness(domain, sub.request)
        for pod_set in sub.pod_sets:
            asks = self._asks[pod_set.shape.number]
            for _ in pod_set.tasks:
                row = self._best_row(asks, domain)
                if row < 0:
                    self._rewind(mark)
                    return score
                self._take(row, asks)
        return score

    def _best_row(self, asks: _Asks, domain: int) -> int:
        """Look at every node: of those with room, the one that the pod would leave fullest; -1 where none has room."""
        best = -1
        highest = -1.0
        needs = asks.needs
        scored = asks.scored
        start, end = self._span[domain]
        for row, (free, size) in enumerate(zip(self._free[start:end], self._size[start:end], strict=True), start):
            for resource, amount in needs:
                if free[resource] < amount:
                    break
            else:
                score = 0.0
                for resource, amount in scored:
                    score += (size[resource] - free[resource] + amount) / size[resource]
                if score > highest:
                    best = row
                    highest = score
        return best

    # -- amounts

    def _take(self, row: int, asks: _Asks) -> None:
        self._charge(row, asks, 1)
        self._journal.append((row, asks))

    def _rewind(self, mark: int) -> None:
        while len(self._journal) > mark:
            row, asks = self._journal.pop()
            self._charge(row, asks, -1)

    def _charge(self, row: int, asks: _Asks, sign: int) -> None:
        for amounts in (self._free[row], *(self._domain_free[domain] for domain in self._above[row])):
            for resource, amount in asks.needs:
                amounts[resource] -= sign * amount

    # -- domains

    def _gradients(self, limit: Constraint | None, outer: int) -> Iterator[tuple[int, list[int]]]:
        """The domains below one, tier by tier up to a limit."""
        highest = limit.tier if limit is not None and limit.tier is not None else self._tier[ROOT]
        by_tier: dict[int, list[int]] = {}
        for domain in range(outer, self._last[outer]):
            by_tier.setdefault(self._tier[domain], []).append(domain)
        for tier in sorted(by_tier):
            if tier <= highest:
                yield tier, by_tier[tier]

    def _covers(self, domain: int, request: Ints) -> bool:
        """Whether the idle sums of a domain cover what is asked."""
        return all(have >= need for have, need in zip(self._domain_free[domain], request.tolist(), strict=True))

    def _fullness(self, domain: int, request: Ints) -> float:
        """How full a domain would be with so much more in it."""
        size = self._domain_size[domain]
        free = self._domain_free[domain]
        shares = [(size[r] - free[r] + int(request[r])) / size[r] for r in _SCORED]
        return sum(shares) / len(shares)


class SpeedComparison(msgspec.Struct, frozen=True):
    """Seconds that each took for all gangs, and the median over the gangs of what one of them took more."""

    reference: float
    engine: float
    median: float

    @property
    def ratio(self) -> float:
        return self.reference / self.engine


def compare(where: BenchCluster, gangs: Sequence[GangSpec], repeats: int) -> SpeedComparison:
    """Decide gangs with both; RuntimeError where they disagree.

    The reference decides each gang on what the engine left after the gangs before it, so that one difference in
    taste does not become a difference in fact later on. It runs once and in full, so its processor time is what
    counts; nothing is extrapolated.
    """
    snap = snapshot(where, jobs(gangs))
    done = decisions(snap, repeats)
    seconds = _reference_seconds(snap, done)
    seconds_each = np.array(seconds[1:])  # without the lead
    return SpeedComparison(
        float(seconds_each.sum()), float(done.seconds.sum()), float(np.median(seconds_each / done.seconds))
    )


def _reference_seconds(snap: Snapshot, done: Pass) -> list[float]:
    reference = Reference(snap)
    decided = {decision.job.key: decision for decision in done.report.decisions}
    seconds = []
    with gc_off():
        for job in snap.jobs:
            start = time.process_time()
            verdict = reference.decide(job)
            seconds.append(time.process_time() - start)
            decision = decided.get(job.key)
            agree(snap, job, decision, verdict)
            if decision is not None:
                reference.apply(decision)
    return seconds


def agree(snap: Snapshot, job: Job, decision: Decision | None, verdict: ReferencePlacement | None) -> None:
    """RuntimeError where engine and reference do not say the same of what fits, or of the tier at which it does."""
    mine = None if decision is None else int(snap.topology.tier[decision.domain])
    theirs = None if verdict is None else verdict.tier
    if mine != theirs:
        raise RuntimeError(f"{job.key}: the engine says tier {mine}, pod by pod says tier {theirs}")
