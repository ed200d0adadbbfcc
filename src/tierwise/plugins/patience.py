"""patience: a gang holds out for a closer place for a time before it takes a wide one.

    declined = ends are expected that give it a place on fewer leaves, within a share of its run for each leaf saved
    until    = created + its run, `time` at most

What it has waited before does not count: a leaf saved is worth the same to who has waited for room and to who has just
come. Where its run and ends are not known, ages and ended runs give the chance of a closer place within some shares of
the mean of like runs, less what it has waited, and it waits where that is three in ten or more. It is looked at again
in every cycle.

    declined = an uplink would carry more than `rings` rings: `created` + `wait` of its run is not over

    until    = created + the times of the steps up to the present one
    wide     = tier of the innermost domain around the place > tier of the step

A ladder of steps is a gang's own (annotation `tierwise.io/topology-ladder`), else the profile's (`ladder`), and
replaces the budget. Steps of the profile's ladder whose tier the gang's tree does not have are passed over. What is
declined by a ladder is for others; what is declined as a closer place is expected stays the gang's own until it is
looked at again (`framework.declined`). Afterwards the gang accepts any place, so no gang waits for
ever. Gangs with placed tasks are not delayed; those without a topology, or smaller than `fromPods`, wait only for what
they ask for themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, islice

import numpy as np
from msgspec.structs import replace

from tierwise.api.core import format_time
from tierwise.api.duration import seconds
from tierwise.api.ladder import FORM, LADDER, LadderStep, parse_ladder
from tierwise.api.plurals import joined
from tierwise.config.arguments import number
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, Delay, Delaying, Gate
from tierwise.framework.room_ahead import GivenBack
from tierwise.framework.uplinks import Uplinks
from tierwise.model.arrays import Ints, distinct
from tierwise.model.job import Job, Reason, Shape, namespace_of
from tierwise.model.lost_nodes import LostNodes
from tierwise.model.topology import ROOT, Topology

__all__ = ["Patience"]

_NAME = "patience"
_SHARE = 0.05
_TIME = "1h"
_FROM = 2
_WAIT = 0.5
_CHANCE = 0.3
_SHARES = 4
"""Where ends are not known: the least chance, and within how many shares. It is as good in the next cycle as in this
one, so what has been waited counts there."""


@takes_part(Delaying, Gate, ignores_names=True)
class Patience:
    """Declines wide places for a time."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        raw = arguments.get("time", _TIME)
        self._time = (seconds(raw) if isinstance(raw, str) else None) or 0.0
        self._share = number(arguments, "share", _SHARE)
        self._stretch = max(1.0, number(arguments, "stretch", 1))
        self._from = number(arguments, "fromPods", _FROM)
        self._rings = int(number(arguments, "rings", 0)) if "rings" in arguments else 0
        self._wait = number(arguments, "wait", _WAIT) if self._rings else _WAIT
        self._uplinks = Uplinks(view) if self._rings else None
        ladder = arguments.get("ladder", "")
        self._ladder = parse_ladder(str(ladder)) if ladder else ()
        self._topology, self._nodes, self._snapshot = view.topology, view.nodes, view.snapshot
        self._ledger, self._ahead, self._lost = view.ledger, view.ahead, LostNodes(view.nodes)
        self._known: dict[tuple[int, int], int] = {}

    # -- gate

    def admit(self, job: Job) -> Reason | None:
        """Reason against a ladder that cannot be read, or a gang's own one with a tier that its tree does not have."""
        if (not job.ladder and self._ladder == ()) or _placed(job):
            return None
        if self._ladder is None and not job.ladder:
            return Reason("InvalidLadder", _NAME, f"the profile's ladder cannot be read: it has {FORM}")
        tree, _ = self._tree(job)
        unknown = next((step.tier for step in job.ladder if step.seconds and _tier(tree, step) is None), None)
        if unknown is None:
            return None
        text = f'its annotation {LADDER} names the tier "{unknown}", which its tree does not have'
        return Reason("InvalidLadder", _NAME, text)

    # -- delay

    def defer(self, job: Job, rows: Ints) -> Delay | None:
        """Why a gang had better wait than stand on these rows."""
        if len(job.tasks) < 2 or _placed(job):
            return None
        delay = None if self._is_nominated_to(job, rows) else self._reason_to_wait(job, rows)
        if delay is None and self._uplinks is not None:
            self._uplinks.note(job)
        return delay

    def _reason_to_wait(self, job: Job, rows: Ints) -> Delay | None:
        steps = self._steps(job)
        delay = self._spread(job, rows) if steps is None else self._climb(job, rows, steps)
        if delay is not None or self._uplinks is None:
            return delay
        return self._crowded(job, rows, self._uplinks)

    def _is_nominated_to(self, job: Job, rows: Ints) -> bool:
        """Whether a gang is nominated to these rows: it was asked then, and others may have gone for it since."""
        nodes = [task.nominated for task in job.tasks if task.nominated >= 0]
        return bool(nodes) and bool(np.isin(rows, self._nodes.rows[nodes]).all())

    def _steps(self, job: Job) -> Sequence[LadderStep] | None:
        """Steps of a gang's own ladder, or else those of the profile's that its tree has. None if no ladder is for it:
        the profile's is for gangs of a size that ask to be close.
        """
        if job.ladder:
            return job.ladder
        if not self._ladder or job.constraint is None or job.minimum < self._from:
            return None
        tree, _ = self._tree(job)
        return [step for step in self._ladder if _tier(tree, step) is not None]

    def _climb(self, job: Job, rows: Ints, steps: Sequence[LadderStep]) -> Delay | None:
        ends = accumulate((step.seconds for step in steps), initial=job.created)
        current = next(((i, end) for i, end in enumerate(islice(ends, 1, None)) if self._ahead.now < end), None)
        if current is None:
            return None
        index, until = current
        tree, positions = self._tree(job)
        step = steps[index]
        limit = _tier(tree, steps[index])
        domain = tree.meet_rows(positions[rows] if positions is not None else rows)
        if limit is None or len(distinct(rows)) == 1 or int(tree.tier[domain]) <= limit:
            return None
        where_text = "only the cluster as a whole" if domain == ROOT else f"one {_called(tree, int(tree.tier[domain]))}"
        then = ", ".join([*(f"for one {_title(tree, later)}" for later in steps[index + 1 :]), "for any place"])
        text = f"waits for one {_title(tree, step)} until {format_time(until)}, then {then}; {where_text} would do now"
        return Delay(Reason("WaitsForCloserPlace", _NAME, text), until)

    def _tree(self, job: Job) -> tuple[Topology, Ints | None]:
        """The tree that the gang's constraint is about, and the cluster's rows in its order; None: in that order."""
        alternate = self._snapshot.alternate_topology(job.constraint)
        return (self._topology, None) if alternate is None else (alternate.topology, alternate.positions)

    # -- uplinks

    def _crowded(self, job: Job, rows: Ints, uplinks: Uplinks) -> Delay | None:
        """Whether an uplink would carry too many rings, and the gang has not waited for long enough for others to end.

        A gang inside one leaf is no ring on its uplink. Only what others may use meanwhile is declined.
        """
        if self._snapshot.alternate_topology(job.constraint) is not None:
            return None
        until = job.created + self._wait * (self._ahead.run_time(job) or self._ahead.mean_run(job))
        waits = job.constraint is not None and job.minimum >= self._from and self._ahead.now < until
        over = uplinks.over(job, rows, self._rings) if waits else []
        if not over:
            return None
        names = [self._topology.name[leaf] for leaf in over]
        where = f"the uplink of {names[0]}" if len(names) == 1 else f"the uplinks of {joined(names)}"
        text = f"waits as {where} would carry more rings than the {self._rings} of the budget"
        return Delay(Reason("UplinkIsFull", _NAME, f"{text}; it waits until {format_time(until)} at most"), until)

    # -- innermost domains

    def _spread(self, job: Job, rows: Ints) -> Delay | None:
        """Whether a place on fewer innermost domains may be expected soon enough."""
        if job.constraint is None or job.minimum < self._from or self._snapshot.alternate_topology(job.constraint):
            return None
        run = self._ahead.run_time(job)
        longest = (run if self._share else 0.0) or _SHARES * self._share * self._ahead.mean_run(job)
        wait = min(longest, self._time)
        until = job.created + wait
        start = self._ahead.now
        touched = len(distinct(self._topology.leaf[rows])) if wait and start < until else 1
        fewest = self._fewest(job) if touched > 1 else 1
        if touched <= self._stretch * fewest:
            return None
        shape, count, without = self._main(job, rows)
        own_namespace = namespace_of(job.key)
        by = self._ahead.planner(job)
        open_rows = ~self._lost.rows(shape.tolerations)
        now = self._needed(self._ahead.leaves_now(shape, without, open_rows, by), count)
        best = min(touched, int(now[0]))
        if not run:
            drawn = self._needed(self._ahead.leaves_drawn(shape, without, open_rows, until, own_namespace), count)
            likely = len(drawn) and np.mean(drawn < best) >= _CHANCE
            return self._delay(rows, best - 1, until, until, "may come free") if likely else None
        times, room = self._ahead.leaves_at(shape, without, open_rows, until, by)
        needed = self._needed(room, count)
        worth = self._share * run * (touched - needed)
        soon = np.flatnonzero((needed < best) & (times - start <= worth))
        if not len(soon):
            return None
        delay = self._delay(rows, int(needed[soon[0]]), float(times[soon[0]]), until, "is expected to be free")
        return replace(delay, firm=True)  # nor is a place that comes before

    def _delay(self, rows: Ints, fewer: int, when: float, until: float, how: str) -> Delay:
        """A wait for fewer innermost domains, which is looked at again when they should be free."""
        leaves = distinct(self._topology.leaf[rows])
        tier = _called(self._topology, int(self._topology.tier[leaves[0]]))
        place_text = f"on {fewer} innermost hyperNodes" if fewer > 1 else f"in one {tier}"
        text = f"waits for a place {place_text} instead of {len(leaves)}, which {how} by {format_time(when)}"
        reason = Reason("WaitsForCloserPlace", _NAME, f"{text}; it waits until {format_time(until)} at most")
        return Delay(reason, when, keeps=True)

    def _main(self, job: Job, rows: Ints) -> tuple[Shape, int, GivenBack]:
        """The shape of most of its tasks, how many these are, and what is idle without the gang on these rows."""
        counts: Counter[Shape] = Counter()
        idle = self._ledger.idle.copy()
        for pod_set in job.pod_sets():
            counts[pod_set.shape] += len(pod_set.tasks)
        if len(counts) == 1:
            (shape,) = counts
            np.add.at(idle.T, rows, shape.request)
        else:
            tasks = [pod_set.shape.request for pod_set in job.pod_sets() for _ in pod_set.tasks]
            np.add.at(idle.T, rows, np.array(tasks)[: len(rows)])
        shape, count = max(counts.items(), key=lambda item: item[1])
        return shape, count, GivenBack(idle, distinct(rows))

    def _needed(self, room: Ints, count: int) -> Ints:
        """By column, how many innermost domains hold so many tasks."""
        upto = np.cumsum(-np.sort(-room.T, axis=1), axis=1)
        number_of_domains: Ints = 1 + (upto < count).sum(axis=1)
        return number_of_domains

    def _fewest(self, job: Job) -> int:
        """A lower bound: shape by shape, as if each had the largest domains for itself."""
        counts: Counter[Shape] = Counter()
        for pod_set in job.pod_sets():
            counts[pod_set.shape] += len(pod_set.tasks)
        return max(self._fewest_of(shape, count) for shape, count in counts.items())

    def _fewest_of(self, shape: Shape, count: int) -> int:
        fewest = self._known.get((shape.number, count))
        if fewest is None:
            room = shape.max_tasks(self._nodes.allocatable[shape.asked])
            room[self._lost.rows(shape.tolerations)] = 0
            by_domain = np.bincount(self._topology.leaf, weights=room)
            reached = np.cumsum(np.sort(by_domain)[::-1])
            fewest = self._known[shape.number, count] = 1 + int(np.searchsorted(reached, count))
        return fewest


def _placed(job: Job) -> bool:
    return any(len(sub.held) for sub in job.subs)


def _tier(tree: Topology, step: LadderStep) -> int | None:
    """The number of a step's tier; None where the tree has no such tier."""
    named = tree.tier_names.get(step.tier)
    if named is not None:
        return named
    return int(step.tier) if step.tier.isdecimal() and int(step.tier) in tree.at_tier else None


def _title(tree: Topology, step: LadderStep) -> str:
    tier = _tier(tree, step)
    return step.tier if tier is None else _called(tree, tier)


def _called(tree: Topology, tier: int) -> str:
    """A tier in a sentence: "rack", or "hyperNode of tier 1" where it has no name."""
    return next(
        (name for name, named_tier in tree.tier_names.items() if named_tier == tier), f"hyperNode of tier {tier}"
    )
