"""The evictions that let a job start and cost least: gangs broken, then work lost, then pods.

Pods that the scheduler would evict itself come first: of the job's own queue, and of queues above their share. Gangs
are broken as few as will do, and of equally few those that lose least since their last checkpoint; then the fewest pods
of these gangs, and of those that no gang needs. A count on the tree and of quotas says which choices cannot do; what
should do is tried by running the scheduler.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, product
from math import comb
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from tierwise.api.core import Pod
from tierwise.api.plurals import count
from tierwise.dialects.kubernetes.requests import counted, effective_request
from tierwise.explain.comparison import Answer
from tierwise.explain.disruption import Losses, broken, hours, lost_text
from tierwise.explain.ranges import compact
from tierwise.framework.ledger import Ledger
from tierwise.model.arrays import POD_SLOTS, Ints
from tierwise.model.job import Job, Status
from tierwise.model.snapshot import Snapshot
from tierwise.sim.what_if.changes import Scenario
from tierwise.sim.what_if.fewest import PLENTY, Counting, Counts, Trial, Way, fewest, fruitless
from tierwise.sim.what_if.room_by_count import RoomByCount, Shortfall

__all__ = [
    "UNFAIR",
    "Kind",
    "Victims",
    "eviction_answer",
    "fewest_by_count",
    "filled",
    "least_evictions",
    "may_go",
    "queues_around",
    "shortfalls_of",
]

_CRITICAL: Final = 2_000_000_000
_COMBINATIONS: Final = 4096
"""Choices of pods on one node that are compared one by one."""
_SETS: Final = 1024
"""Sets of gangs of one size that are counted before they are taken one by one."""
UNFAIR: Final = "; the scheduler itself would not evict them, by priority or share of their queues"
_ALIKE: Final = 256
"""Choices of as many gangs and pods that are compared by the tier of their domain."""
_POD: Final = 1 << 36
"""What one pod counts as, in accelerator-seconds, where choices of equally many pods are looked for."""
_LOSS: Final = 1 << 20
"""What one accelerator-second counts as, in pods: it outweighs their number."""


Kind = tuple[str, tuple[tuple[str, int], ...], list[str]]
"""Pods that are alike: their node, what each holds, and their paths."""


class Victims(msgspec.Struct, frozen=True, dict=True):
    """Pods that may go, alike ones together: by node, by what they hold, by job, and by what each loses."""

    kinds: list[Kind]
    owners: list[Job | None]  # of each kind
    losses: list[int]  # accelerator-seconds of each pod of a kind
    amounts: Ints  # (resources x kinds): what each pod of a kind holds
    snapshot: Snapshot
    lost: Losses

    @classmethod
    def of(cls, scenario: Scenario, job: Job, *, fair: bool) -> Victims:
        """All that may go for a job; where it is to be fair, those that the scheduler would evict itself."""
        snapshot = scenario.snapshot()
        lost = Losses(snapshot)
        tasks = {task.key: (task, owner) for owner in snapshot.jobs for task in owner.tasks}
        victims_of = _above_their_share(snapshot, job)
        kinds: dict[tuple[object, ...], Kind] = {}
        owners: list[Job | None] = []
        for path, pod in scenario.objects.every(Pod).items():
            task, owner = tasks.get(path, (None, None))
            protected = task is not None and (task.not_preemptable or task.critical)
            protected = protected or (owner is not None and (owner.key == job.key or owner.not_preemptable))
            if protected or not may_go(pod):
                continue
            unfair = owner is not None and (owner.queue not in victims_of or owner.priority > job.priority)
            if fair and unfair:
                continue
            holds = tuple(sorted({**effective_request(counted(pod)), POD_SLOTS: 1}.items()))
            alike = pod.spec.node_name, holds, owner.key if owner is not None else "", round(lost.each(path))
            if alike not in kinds:
                kinds[alike] = (pod.spec.node_name, holds, [])
                owners.append(owner)
            kinds[alike][2].append(path)
        index = snapshot.axis.index
        amounts = np.zeros((len(snapshot.axis), len(kinds)), dtype=np.int64)
        for column, (_, holds, _) in enumerate(kinds.values()):
            for name, amount in holds:
                if name in index:
                    amounts[index[name], column] = amount
        loss_each = [round(lost.each(pods[0])) for _, _, pods in kinds.values()]
        return cls(list(kinds.values()), owners, loss_each, amounts, snapshot, lost)

    @cached_property
    def most(self) -> Counts:
        """How many there are of each kind."""
        return tuple(len(pods) for _, _, pods in self.kinds)

    @cached_property
    def rows(self) -> Ints:
        """The row of each kind; -1 where its node is none of the snapshot."""
        row = self.snapshot.nodes.row
        return np.array([row.get(node, -1) for node, _, _ in self.kinds], dtype=np.int64)

    def cost(self, counts: Counts, gangs: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
        """How many of these `gangs` a choice breaks, and the accelerator-seconds that are lost with it."""
        going: Counter[int] = Counter()
        lost: Counter[int] = Counter()
        for kind in np.flatnonzero(counts).tolist():
            owner = self.owners[kind]
            number = owner.number if owner is not None else -1
            going[number] += counts[kind]
            lost[number] += counts[kind] * self.losses[kind]
        broken = {number for number, pods in going.items() if number in gangs and pods > gangs[number][1]}
        for number in broken:
            lost[number] = gangs[number][0]
        return len(broken), sum(lost.values())

    def pods(self, counts: Counts) -> list[str]:
        """The pods of a choice."""
        return [pod for (_, _, every), number in zip(self.kinds, counts, strict=True) for pod in every[:number]]

    def gangs(self) -> dict[int, tuple[int, int]]:
        """By the number of each gang that runs: what it loses when it falls below a minimum, and its pods above it."""
        gangs = {}
        for owner in self.owners:
            if owner is None or owner.lone or owner.number in gangs or not self.lost.ready(owner):
                continue
            running = sum(task.status is Status.RUNNING and task.node >= 0 for task in owner.tasks)
            parts = owner.together or not owner.shape.only_pods
            surplus = 0 if parts else max(0, running - owner.minimum)
            if running > 1:  # a pod by itself breaks nothing
                gangs[owner.number] = self.lost.whole(owner), surplus
        return gangs


def _above_their_share(snapshot: Snapshot, job: Job) -> set[str]:
    """The job's own queue, and those others that may be taken from: above what they deserve, where they say."""
    ledger = Ledger(snapshot)
    queues = {job.queue}
    for name, queue in snapshot.queues.items():
        used = ledger.queue_used[:, ledger.queue_index[name]]
        index = snapshot.axis.index
        above = any(used[index[r]] > amount for r, amount in queue.deserved.items() if r in index)
        if queue.reclaimable and (above or not queue.deserved):
            queues.add(name)
    return queues


def queues_around(snapshot: Snapshot, name: str) -> list[str]:
    """A queue, and those in which what it holds counts as well, the innermost first."""
    around: list[str] = []
    queue = snapshot.queues.get(name)
    while queue is not None and queue.name not in around:
        around.append(queue.name)
        queue = snapshot.queues.get(queue.parent or queue.enclosing)
    return around


def shortfalls_of(snapshot: Snapshot, job: Job, counting: Counting | None) -> list[Shortfall]:
    """The limits of queues around the job's own that it would exceed, by how much."""
    ledger = Ledger(snapshot)
    axis = snapshot.axis
    if counting is not None:
        request = counting.pod_set.shape.request * counting.need
    else:
        request = sum(
            (p.shape.request * len(p.tasks) for p in job.pod_sets()), start=np.zeros(len(axis), dtype=np.int64)
        )
    inside = {name: set(queues_around(snapshot, name)) for name in snapshot.queues}
    shortfalls = []
    for name in queues_around(snapshot, job.queue):
        family = frozenset(queue for queue, around in inside.items() if name in around)
        used = sum((ledger.queue_used[:, ledger.queue_index[queue]] for queue in family), start=np.zeros_like(request))
        limit = snapshot.queues[name].capability
        missing = np.zeros_like(request)
        for resource, most in limit.items():
            row = axis.index.get(resource)
            if row is not None and request[row] > 0:
                missing[row] = max(0, int(used[row] + request[row]) - most)
        if missing.any():
            shortfalls.append(Shortfall(name, family, missing))
    return shortfalls


class _Search:
    """The search for one job among some victims."""

    def __init__(self, victims: Victims, test: Trial, counting: Counting | None, shortfalls: list[Shortfall]) -> None:
        self._victims = victims
        self._test = test
        self._counting = counting
        self._shortfalls = shortfalls
        self._gangs = victims.gangs()
        self._family = [short.returned_by(victims.owners) for short in shortfalls]
        self._grown: tuple[tuple[int, ...], ...] | None = None
        surplus = {number: pods for number, (_, pods) in self._gangs.items()}
        self._room = RoomByCount(
            victims.owners, victims.most, surplus, victims.rows, victims.amounts, counting, shortfalls
        )

    def least(self) -> tuple[Counts, bool] | None:
        """The least choice that lets the job start, and whether it is proved to be that; None where none does."""
        best: tuple[tuple[int, int, int], Counts, bool] | None = None
        gangs_chosen: tuple[int, ...] = ()
        proved = True
        for going, sure in self._sets():
            proved = proved and sure
            lost = sum(self._gangs[number][0] for number in going)
            if best is not None and (len(going), lost, 0) > best[0]:
                break
            limits = self._room.limits(going)
            if not any(limits) or not self._room.may_do(going):
                continue
            if self._test.left <= 0:
                proved = False
                break
            counts_inside = self._inside(limits, going) if self._test(limits) else None
            if counts_inside is not None:
                counts, exact = counts_inside
                measure = (len(going), lost + self._loss(counts, going), sum(counts))
                if best is None or measure < best[0]:
                    best = (measure, counts, exact)
                    gangs_chosen = going
        if best is None:
            return None
        # Which of its surplus pods a gang gives up was not weighed.
        elastic = any(surplus for _, surplus in self._gangs.values())
        return self._tighter(best[1], gangs_chosen), best[2] and proved and not elastic

    def _tighter(self, counts: Counts, going: Collection[int]) -> Counts:
        """A choice like this one but for the age of its pods, where one makes room in a tighter domain."""
        if self._counting is None or self._shortfalls or not self._says_age_alone(counts):
            return counts
        tier = self._tier(counts)
        alike = self._importance(counts)
        alternatives = []
        for instead, _ in self._sets():
            if len(instead) > len(going):
                break
            limits = self._room.limits(instead)
            if len(instead) != len(going) or not any(limits) or self._room.tier(instead) >= tier:
                continue
            prices = [_POD + min(loss, _POD - 1) for loss in self._each(instead)]
            lost = sum(self._gangs[number][0] for number in instead)
            alternatives += [
                (self._tier(candidate), lost + self._loss(candidate, instead), candidate)
                for candidate in fewest_by_count(self._counting, self._victims.kinds, prices, limits)[1]
                if sum(candidate) == sum(counts)
                and self._importance(candidate) == alike
                and self._says_age_alone(candidate)
            ]
            if len(alternatives) > _ALIKE:
                break
        for near, _, counts_instead in sorted(alternatives):
            if near < tier and self._test.left > 0 and self._test(counts_instead):
                return counts_instead
        return counts

    def _says_age_alone(self, counts: Counts) -> bool:
        """Whether what the pods of a choice lose is the time that they have run, and nothing that their jobs say."""
        owners = {id(owner): owner for owner, n in zip(self._victims.owners, counts, strict=True) if n and owner}
        for owner in owners.values():
            if owner.saved or (owner.terms is not None and owner.terms.restart_cost):
                return False
            if any(task.checkpointed for task in owner.tasks):
                return False
        return True

    def _importance(self, counts: Counts) -> list[tuple[int, int]]:
        """How many pods of each priority go."""
        by_priority: Counter[int] = Counter()
        for owner, number in zip(self._victims.owners, counts, strict=True):
            by_priority[owner.priority if owner is not None else 0] += number
        return sorted((priority, number) for priority, number in by_priority.items() if number)

    def _tier(self, counts: Counts) -> int:
        """The tier of the tightest domain that holds the job by count once these pods are gone."""
        assert self._counting is not None
        tiers = self._victims.snapshot.topology.tier[self._counting.domains]
        return int(min(tiers[self._held(counts)], default=PLENTY))

    def _sets(self) -> Iterator[tuple[tuple[int, ...], bool]]:
        """Sets of gangs to break: fewer first, then those that lose less; and whether none was passed over before."""
        order = sorted(self._gangs, key=lambda number: (self._gangs[number][0], number))
        for size in range(len(order) + 1):
            if comb(len(order), size) > _SETS:
                yield from ((going, False) for going in self._grown_by_domain(order))
                return
            sets = combinations(order, size)
            yield from ((going, True) for going in sorted(sets, key=lambda s: (sum(self._gangs[n][0] for n in s), s)))

    def _grown_by_domain(self, order: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Of too many sets: per domain the gangs that must go by count alone, one after the other, cheapest first."""
        if self._grown is None:
            self._grown = self._grow(order)
        return self._grown

    def _pods_by_row(self, order: Sequence[int]) -> list[tuple[int, int]]:
        """Row of every pod of these gangs, with the place of its gang in the order; ascending."""
        rank = {number: place for place, number in enumerate(order)}
        gangs = [owner.number if owner is not None else -1 for owner in self._victims.owners]
        pods = zip(self._victims.rows.tolist(), gangs, strict=True)
        return sorted((row, rank[number]) for row, number in pods if number in rank)

    def _grow(self, order: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        every = tuple(order)
        if not self._room.may_do(every):
            return ()
        spans = [slice(0, len(self._victims.snapshot.nodes))]
        if self._counting is not None:
            spans = [self._victims.snapshot.topology.span(domain) for domain in self._counting.domains.tolist()]
        pods_by_row = self._pods_by_row(order)
        rows = [row for row, _ in pods_by_row]
        gang_sets = set()
        for span in spans:
            near = pods_by_row
            if not self._shortfalls:
                near = pods_by_row[bisect_left(rows, span.start) : bisect_left(rows, span.stop)]
            going = self._room.needed([order[place] for place in sorted({place for _, place in near})])
            if going is not None:
                gang_sets.add(going)
        sets = sorted(gang_sets, key=lambda s: (len(s), sum(self._gangs[n][0] for n in s), s))
        return (*sets, every)

    def _held(self, gone: Counts) -> npt.NDArray[np.bool_]:
        """For each domain of the count, whether it has room for the job once so many of each kind are gone."""
        counting = self._counting
        assert counting is not None
        freed = self._victims.amounts * np.array(gone, dtype=np.int64)
        free = counting.idle.copy()
        on_rows = self._victims.rows >= 0
        resources = counting.pod_set.shape.asked
        np.add.at(free.T, self._victims.rows[on_rows], freed[resources][:, on_rows].T)
        fits = np.where(counting.open > 0, np.maximum(counting.fits, counting.takes(free)), counting.fits)
        totals = counting.snapshot.topology.totals(fits)
        enough: npt.NDArray[np.bool_] = totals[counting.domains] >= counting.need
        return enough

    def _loss(self, counts: Counts, going: Collection[int]) -> int:
        """Accelerator-seconds of pods of a choice that are in no gang that is broken."""
        return sum(number * loss for number, loss in zip(counts, self._each(going), strict=True))

    def _each(self, going: Collection[int]) -> list[int]:
        pairs = zip(self._victims.owners, self._victims.losses, strict=True)
        return [0 if owner is not None and owner.number in going else loss for owner, loss in pairs]

    def _inside(self, limits: Counts, going: Collection[int]) -> tuple[Counts, bool] | None:
        """The least choice within what may go, which together will do."""
        prices = [loss * _LOSS + 1 for loss in self._each(going)]
        lower = 1
        proposals = list[Counts]()
        if self._counting is not None:
            lower, proposals = fewest_by_count(self._counting, self._victims.kinds, prices, limits)
        if self._shortfalls:
            proposals = [
                filled(self._victims, self._shortfalls, counts, limits, prices)
                for counts in (proposals or [tuple(0 for _ in limits)])
            ]
            lower = max(lower, self._least_given_back(limits, prices))
        elif self._counting is not None and lower >= PLENTY:
            return None
        flat = len({price for price, number in zip(prices, limits, strict=True) if number}) <= 1
        unit = prices[next(i for i, number in enumerate(limits) if number)]
        return fewest(
            limits,
            self._test,
            lower=-(-lower // unit) if flat else lower,
            proposals=proposals,
            price=sum if flat else lambda c: sum(n * p for n, p in zip(c, prices, strict=True)),
        )

    def _least_given_back(self, limits: Counts, prices: Sequence[int]) -> int:
        """A price below which no pods give the queues back what they lack."""
        fewest = 0
        for short, family in zip(self._shortfalls, self._family, strict=True):
            pods = [(i, n) for i, n in enumerate(limits) if family[i] and n]
            cheapest = sorted(price for i, n in pods for price in [prices[i]] * n)
            for row in np.flatnonzero(short.missing).tolist():
                large = sorted((int(self._victims.amounts[row, i]) for i, n in pods for _ in range(n)), reverse=True)
                needed = int(np.searchsorted(np.cumsum(large), short.missing[row])) + 1
                fewest = max(fewest, sum(cheapest[:needed]))
        return fewest


def filled(
    victims: Victims, shortfalls: Sequence[Shortfall], counts: Counts, limits: Counts, prices: Sequence[int]
) -> Counts:
    """A choice with further pods, so that every queue has what it lacks: the cheapest, of these the largest."""
    choice = np.array(counts, dtype=np.int64)
    for short in shortfalls:
        family = short.returned_by(victims.owners)
        resources = np.flatnonzero(short.missing)
        freed = victims.amounts[resources]
        order = sorted(
            (i for i in np.flatnonzero(family).tolist() if freed[:, i].any()),
            key=lambda i: (prices[i], *(-freed[:, i]).tolist(), i),
        )
        returned = (freed[:, family] * choice[family]).sum(axis=1)
        for index in order:
            while choice[index] < limits[index] and (returned < short.missing[resources]).any():
                choice[index] += 1
                returned = returned + freed[:, index]
    return tuple(choice.tolist())


def least_evictions(
    scenario: Scenario, job: Job, counting: Counting | None, tested: Callable[[Victims], Trial]
) -> Answer | Way:
    """The evictions that let a job start and cost least; else what is known of them.

    `tested` makes the test of choices among victims.
    """
    shortfalls = shortfalls_of(scenario.snapshot(), job, counting)
    seen: list[Kind] = []
    failure = Way.NOT_OPEN
    for fair in (True, False):
        victims = Victims.of(scenario, job, fair=fair)
        if not victims.kinds or victims.kinds == seen:
            continue
        seen = victims.kinds
        test = tested(victims)
        answer = _Search(victims, test, counting, shortfalls).least()
        if answer is not None:
            return eviction_answer(victims, answer[0], exact=answer[1], fair=fair)
        failure = Way.UNSETTLED if failure is Way.UNSETTLED else fruitless(test)
    return failure


def eviction_answer(victims: Victims, counts: Counts, *, exact: bool, fair: bool) -> Answer:
    """The answer that so many pods of each kind go."""
    pods = victims.pods(counts)
    losses = victims.lost.of(pods)
    told = []
    for loss in losses:
        if loss.running > 1 or loss.minimum > 1:
            below = f", which has {loss.running - loss.pods} left and needs {loss.minimum}" if loss.below else ""
            told.append(f"{loss.pods} of {loss.name}{below}")
    whose = f" ({'; '.join(told)})" if told else ""
    text = f"evict {count(len(pods), 'pod')}: {compact(pod.rpartition('/')[2] for pod in pods)}{whose}"
    unfair = "" if fair else UNFAIR
    return Answer(
        way="evict",
        number=len(pods),
        exact=exact,
        subjects=tuple(pods),
        text=f"{text}: {lost_text(losses, victims.lost.unit)}{unfair}",
        changes=(f"evict {count(len(pods), 'pod')}",),
        gangs=broken(losses),
        hours=round(hours(losses), 3),
    )


def may_go(pod: Pod) -> bool:
    """Whether a pod runs, and is neither a daemon's nor critical."""
    if not pod.spec.node_name or pod.status.ended or pod.metadata.deletion_timestamp:
        return False
    if any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references):
        return False
    return (pod.spec.priority or 0) < _CRITICAL


def fewest_by_count(
    counting: Counting, kinds: Sequence[Kind], prices: Sequence[int] | None = None, limits: Counts | None = None
) -> tuple[int, list[Counts]]:
    """A price of evictions below which the job certainly has no place, and for each domain a choice that should do.

    The price is the number of pods, unless those of each kind have another one; of each kind at most so many go.
    """
    price_each = prices if prices is not None else [1] * len(kinds)
    allowed = limits if limits is not None else tuple(len(pods) for _, _, pods in kinds)
    snapshot = counting.snapshot
    topology = counting.snapshot.topology
    rows = {name: row for row, name in enumerate(snapshot.nodes.names)}
    by_row: dict[int, list[int]] = {}
    for index, (node, _, _) in enumerate(kinds):
        if allowed[index] and node in rows and counting.open[rows[node]]:
            by_row.setdefault(rows[node], []).append(index)
    exact = True
    by_task: dict[int, list[tuple[int, dict[int, int]]]] = {}  # by row: for 0, 1, … more tasks, pods that go, by kind
    for row, indexes in by_row.items():
        by_task[row], proved = _node_prices(counting, row, {i: (kinds[i], allowed[i], price_each[i]) for i in indexes})
        exact = exact and proved
    best = PLENTY
    proposals = []
    for domain in counting.domains.tolist():
        span = topology.span(domain)
        free = int(counting.fits[span].sum())
        chosen_counts = _cheapest(
            [by_task[row] for row in by_row if span.start <= row < span.stop], counting.need - free
        )
        if chosen_counts is not None:
            best = min(best, sum(price_each[index] * number for index, number in chosen_counts.items()))
            proposals.append(tuple(chosen_counts.get(index, 0) for index in range(len(kinds))))
    return (best if exact else min(best, 1)), proposals


def _node_prices(
    counting: Counting, row: int, kinds_here: Mapping[int, tuple[Kind, int, int]]
) -> tuple[list[tuple[int, dict[int, int]]], bool]:
    """For each number of further tasks on a node, the cheapest pods that must go; and whether that is proved.

    `there` has the kinds on the node by their index, each with how many of it may go and the price of one.
    """
    axis = counting.snapshot.axis
    resources = counting.pod_set.shape.asked
    idle = counting.free[resources, row]
    freed = [
        np.array([dict(k[1]).get(axis.names[r], 0) for r in resources.tolist()]) for k, _, _ in kinds_here.values()
    ]
    limits = [number for _, number, _ in kinds_here.values()]
    price_each = [price for _, _, price in kinds_here.values()]
    proved = int(np.prod([number + 1 for number in limits], dtype=np.float64)) <= _COMBINATIONS
    choices = product(*(range(number + 1) for number in limits)) if proved else _growing(freed, limits)
    base = int(counting.fits[row])
    cheapest = {0: (0, dict[int, int]())}
    for numbers in choices:
        free = idle + sum(amount * number for amount, number in zip(freed, numbers, strict=True))
        further_pods = int(counting.takes(free[:, None])[0]) - base
        price = sum(number * price for number, price in zip(numbers, price_each, strict=True))
        for further in range(1, further_pods + 1):
            if further not in cheapest or price < cheapest[further][0]:
                cheapest[further] = price, {i: n for i, n in zip(kinds_here, numbers, strict=True) if n}
    return [cheapest[further] for further in range(len(cheapest))], proved


def _growing(freed: Sequence[Ints], limits: Sequence[int]) -> Iterator[Counts]:
    """One pod after the other, the largest first: an order, where there are too many choices to try them all."""
    order = sorted(range(len(limits)), key=lambda i: (-int(freed[i].max(initial=0)), i))
    numbers = [0] * len(limits)
    for index in order:
        for _ in range(limits[index]):
            numbers[index] += 1
            yield tuple(numbers)


def _cheapest(rows: Sequence[Sequence[tuple[int, dict[int, int]]]], need: int) -> dict[int, int] | None:
    """Which pods go so that nodes take so many tasks more, at the lowest price; None where they never do."""
    if need <= 0:
        return {}
    best: list[tuple[int, dict[int, int]] | None] = [(0, {}), *([None] * need)]
    for prices in rows:
        after = list(best)
        for have, entry in enumerate(best):
            if entry is None:
                continue
            for further, (price, going) in enumerate(prices[1:], 1):
                to = min(need, have + further)
                better = after[to]
                if better is None or entry[0] + price < better[0]:
                    after[to] = entry[0] + price, {**entry[1], **going}
        best = after
    result_entry = best[need]
    return result_entry[1] if result_entry is not None else None
