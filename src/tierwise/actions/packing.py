"""Unlike sub-jobs in one domain: a search with backtracking.

Lots of one plain shape are dealt with by counting alone. Tasks may be split freely inside a domain, so an assignment
of lots to domains works exactly when no domain gets more than its room, at any height: the search over assignments
is exact, and small because it moves whole numbers. Lots of several shapes are tried on the ledger itself.
Both searches stop at a bound and say so.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from tierwise.actions.demand import Lot
from tierwise.actions.fit import Take, fit
from tierwise.actions.search import BOTH, candidates, home, ordered
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.framework.standing import job_ready, roles_count, standing_of, sub_ready
from tierwise.model.job import Job

__all__ = ["Packing", "pack"]

_STEPS = 100_000
_TRIALS = 400


class Packing(msgspec.Struct):
    """What a search in one domain came to."""

    takes: list[Take] | None
    score: float = 0.0
    bounded: bool = False


def pack(cycle: Cycle, job: Job, lots: tuple[Lot, ...], spares: tuple[Lot, ...], domain: int) -> Packing:
    """Place enough of the lots below a domain to make the job ready; what stands on the ledger is the caller's."""
    items = sorted(lots, key=lambda lot: _tightness(cycle, lot))
    shapes = {portion.part.shape.number for lot in (*lots, *spares) for portion in lot.portions}
    everyone = (*lots, *spares)
    once = len({lot.sub.number for lot in everyone}) == len(everyone)
    one_class = once and len(shapes) == 1 and not cycle.pipeline.moving(lots[0].portions[0].part.shape)
    return (_Counting if one_class else _Trying)(cycle, job, [*items, *spares], len(items), domain).run()


def _tightness(cycle: Cycle, lot: Lot) -> tuple[int, int]:
    """Tight limits first, then large lots: they have the fewest places to go."""
    limit = cycle.pipeline.limit(lot.sub)
    return (2**62 if limit is None else limit, -lot.need)


class _Search:
    """Lots in the order of trial, the first `needed` of which make the job ready; the rest are spares."""

    def __init__(self, cycle: Cycle, job: Job, lots: list[Lot], needed: int, domain: int) -> None:
        self._cycle = cycle
        self._job = job
        self._lots = lots
        self._spares = len(lots) > needed
        self._domain = domain
        self._near = home(cycle, job)
        self._steps = 0
        self._bounded = False

    def _settle(self, lot: Lot, place: int) -> list[Take] | None:
        """Place a lot in the tightest and best domain below `place` that holds it."""
        for domain, _ in self._ranked(lot, place):
            with self._cycle.ledger.statement() as statement:
                found = fit(self._cycle, self._job, lot, domain, BOTH)
                if found is not None:
                    statement.keep()
                    return found
        return None

    def _ranked(self, lot: Lot, place: int) -> Iterator[tuple[int, float]]:
        """Domains below `place` that may hold a lot, with their scores, in the order of preference."""
        for group in candidates(self._cycle, lot.sub, place):
            yield from ordered(self._cycle, lot, group, self._near, BOTH)


class _Trying(_Search):
    """Several shapes: each step is a trial on the ledger."""

    def run(self) -> Packing:
        takes: list[Take] = []
        scores: list[float] = []
        if self._place(0, takes, scores):
            return Packing(takes, sum(scores), self._bounded)
        return Packing(None, bounded=self._bounded)

    def _place(self, i: int, takes: list[Take], scores: list[float]) -> bool:
        if job_ready(self._cycle.ledger, self._job, waiting=True):
            return True
        if i == len(self._lots):
            return False
        lot = self._lots[i]
        extra_too_early = lot.extra and not sub_ready(self._cycle.ledger, lot.sub, waiting=True)
        for domain, worth in () if extra_too_early else self._ranked(lot, self._domain):
            if self._steps >= _TRIALS:
                self._bounded = True
                return False
            self._steps += 1
            self._cycle.report.work.trials += 1
            with self._cycle.ledger.statement() as statement:
                found = fit(self._cycle, self._job, lot, domain, BOTH)
                if found is None:
                    continue
                mark = len(takes)
                takes.extend(found)
                scores.append(worth)
                if self._place(i + 1, takes, scores):
                    statement.keep()
                    return True
                del takes[mark:]
                scores.pop()
        return self._spares and self._place(i + 1, takes, scores)


class _Counting(_Search):
    """One shape: assign lots to domains by counting, then place them."""

    def run(self) -> Packing:
        shape = self._lots[0].portions[0].part.shape
        self._room: list[int] = self._cycle.rooms.of(shape).domains(Pool.LATER).tolist()
        self._options = [self._outermost(lot) for lot in self._lots]
        self._state = sorted({d for options in self._options for place, _ in options for d in self._above(place)})
        self._dead: set[tuple[int, ...]] = set()
        self._tied = [here for lot in self._lots if (here := home(self._cycle, lot.sub)) is not None]
        self._short = _Short(self._cycle, self._job)
        chosen = self._assign(0, [])
        if chosen is None:
            return Packing(None, bounded=self._bounded)
        takes: list[Take] = []
        for i, place, _ in sorted(chosen, key=lambda c: _tightness(self._cycle, self._lots[c[0]])):
            found = self._settle(self._lots[i], place)
            if found is None:  # releasing room is counted per node: what fits in sum may not fit in turn
                return Packing(None, bounded=True)
            takes += found
        return Packing(takes, sum(worth for _, _, worth in chosen), self._bounded)

    def _outermost(self, lot: Lot) -> list[tuple[int, float]]:
        """The widest domains that the lot may use, best first; a tighter one inside is chosen when it is placed."""
        groups = tuple(candidates(self._cycle, lot.sub, self._domain))
        if not groups:
            return []
        every = np.concatenate(groups)
        widest = every[~np.isin(self._cycle.topology.parent[every], every)]
        return list(ordered(self._cycle, lot, widest, self._near, BOTH))

    def _assign(self, i: int, chosen: list[tuple[int, int, float]]) -> list[tuple[int, int, float]] | None:
        """Give lots i and later a domain each; a lot may be left out where spares can stand in for it."""
        picked = [self._lots[j] for j, _, _ in chosen]
        if self._short.covered(picked):
            return list(chosen)
        state = (i, *self._short.counts(picked), *(self._room[d] for d in self._state))
        if i == len(self._lots) or state in self._dead:
            return None
        for place, worth in self._distinct(self._options[i], self._lots[i].need):
            self._steps += 1
            if self._steps > _STEPS:
                self._bounded = True
                return None
            self._charge(place, self._lots[i].need)
            found = self._assign(i + 1, [*chosen, (i, place, worth)])
            if found is not None:
                return found
            self._charge(place, -self._lots[i].need)
        if self._spares and (found := self._assign(i + 1, chosen)) is not None:
            return found
        if not self._bounded:
            self._dead.add(state)
        return None

    def _distinct(self, options: list[tuple[int, float]], need: int) -> Iterator[tuple[int, float]]:
        """The places with enough room, one of each kind: alike siblings are the same choice for later lots."""
        tried: set[tuple[int, ...]] = set()
        for place, worth in options:
            kind = self._kind(place)
            if kind not in tried and all(self._room[d] >= need for d in self._above(place)):
                tried.add(kind)
                yield place, worth

    def _kind(self, place: int) -> tuple[int, ...]:
        """What tells a place from its siblings: the rooms and tiers in it, and itself where a lot is tied to it."""
        topology = self._cycle.topology
        inner = topology.below(place)
        tied = any(topology.contains(place, d) or topology.contains(d, place) for d in self._tied)
        own = (place,) if tied else ()
        return (int(topology.parent[place]), *own, *self._room[inner], *topology.tier[inner].tolist())

    def _charge(self, place: int, need: int) -> None:
        for d in self._above(place):
            self._room[d] -= need

    def _above(self, place: int) -> list[int]:
        """The place and the domains around it, up to the one that is being packed."""
        chain = [place]
        while chain[-1] != self._domain:
            chain.append(int(self._cycle.topology.parent[chain[-1]]))
        return chain


class _Short:
    """What a job lacks: tasks in all, whole sub-jobs by policy, tasks by role."""

    def __init__(self, cycle: Cycle, job: Job) -> None:
        standing = {sub.number: standing_of(cycle.ledger, sub) for sub in job.subs}
        whole = [0] * len(job.policies)
        for sub in job.subs:
            if sub.policy >= 0 and standing[sub.number] >= sub.minimum:
                whole[sub.policy] += 1
        self._standing = standing
        self._roles = {n: i for i, n in enumerate(job.roles)} if roles_count(job) else {}
        roles = [job.roles[n] - int(cycle.ledger.role_ready[n]) for n in self._roles]
        policies = [policy.minimum - have for policy, have in zip(job.policies, whole, strict=True)]
        self._policies = len(policies)
        self._least = (job.minimum - sum(standing.values()), *policies, *roles)

    def counts(self, picked: list[Lot]) -> tuple[int, ...]:
        """What these lots add to each of the numbers."""
        counts = [0] * len(self._least)
        for lot in picked:
            counts[0] += lot.need
            before = self._standing[lot.sub.number]
            if lot.sub.policy >= 0 and before < lot.sub.minimum <= before + lot.need:
                counts[1 + lot.sub.policy] += 1
            left = lot.need
            for portion in lot.portions:
                number = min(left, portion.left)
                left -= number
                role = self._roles.get(portion.part.role_number)
                if role is not None:
                    counts[1 + self._policies + role] += number
        return tuple(counts)

    def covered(self, picked: list[Lot]) -> bool:
        return all(have >= least for have, least in zip(self.counts(picked), self._least, strict=True))
