"""The least that makes a job start now: the fewest evictions, nodes to add or to uncordon, tiers to relax, or quota.

Each way is a set of units (a pod that goes, a node that comes, a tier higher), and the question is how few of them will
do. Whether a number of them will do is never guessed: the changed cluster is scheduled to the end. A count on the tree
says which numbers cannot do, and proposes one that should; below what it proves, all choices are tried, as long as
there are not too many. An answer says whether it is proved to be the least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, compress, product
from math import prod
from typing import Final, Protocol

import msgspec
import numpy as np

from tierwise.api.core import Node, Pod
from tierwise.api.plurals import count
from tierwise.api.quantity import show
from tierwise.config.profile import Profile
from tierwise.dialects.kubernetes.requests import counted, effective_request
from tierwise.explain.comparison import Answer, LeastChange, started
from tierwise.explain.naming import full_name
from tierwise.explain.ranges import compact
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import POD_SLOTS, Ints
from tierwise.model.job import Constraint, Job, PodSet, Status
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT
from tierwise.scheduler.cycle import open_cycle
from tierwise.sim.what_if import changes as what_if
from tierwise.sim.what_if.runs import outcome_of
from tierwise.snapshot.builder import Reader

__all__ = [
    "BRIEF",
    "PLENTY",
    "Counting",
    "Counts",
    "Kind",
    "fewest",
    "fewest_by_count",
    "least_change",
    "may_go",
    "of_size",
]

_CRITICAL: Final = 2_000_000_000
_COMBINATIONS: Final = 4096
"""Choices of pods on one node that are compared one by one."""
_RARE: Final = 8
"""The part of the runs that is spent on what rarely helps."""
PLENTY: Final = 2**60
"""A number of units that stands for: however many, they will not do."""


class Effort(msgspec.Struct, frozen=True):
    """What one way may cost before it is left unproved: runs of the scheduler, and objects that these may look at."""

    least: int  # runs on a large cluster
    most: int  # and on a small one
    work: int  # objects that the runs look at together

    def trials(self, objects: int) -> int:
        """The runs for a cluster of so many objects."""
        return max(self.least, min(self.most, self.work // max(1, objects)))


THOROUGH: Final = Effort(12, 200, 60_000)
BRIEF: Final = Effort(20, 40, 20_000)
"""For people who wait for a page."""


class _Unit(msgspec.Struct, frozen=True):
    """Something of which between none and `most` may be done; the changes for a number of it."""

    most: int
    change: Callable[[int], what_if.Change]


Counts = tuple[int, ...]


def least_change(scenario: what_if.Scenario, name: str, effort: Effort = THOROUGH) -> LeastChange:
    """The ways to make a job start now, the simplest first; InputError where there is no such job."""
    job = what_if.job_named(scenario.snapshot(), name)
    runs = _Runs(scenario, job.key, effort)
    if runs.start(scenario):
        return LeastChange(job.key, True, (), (), full_name(job))
    counting = Counting.of(scenario, job)
    found: list[Answer] = []
    hopeless: list[str] = []
    for way, answer in (
        ("uncordon", _uncordon(scenario, job, runs)),
        ("relax", _relax(scenario, job, runs)),
        ("quota", _quota(scenario, job, runs)),
        ("evict", _evict(scenario, job, runs, counting)),
        ("add-nodes", _add_nodes(scenario, job, runs, counting)),
    ):
        if isinstance(answer, Answer):
            found.append(answer)
        elif answer:
            hopeless.append(way)
    return LeastChange(job.key, False, tuple(found), tuple(hopeless), full_name(job))


class _Runs:
    """Runs of the scheduler on one cluster with changes; each reads what differs from the one before it."""

    def __init__(self, scenario: what_if.Scenario, job: str, effort: Effort) -> None:
        self._job, self._profile = job, scenario.profile
        self._reader = Reader(scenario.profile)
        self.trials = effort.trials(len(scenario.objects))

    def start(self, scenario: what_if.Scenario) -> bool:
        """Whether the job starts."""
        history, outcome = outcome_of(scenario, reader=self._reader)
        self._reader = history.reader or Reader(self._profile)
        return any(job.key == self._job and started(outcome.snapshot, job) for job in outcome.snapshot.jobs)


# -- the fewest units that will do


class Trial(Protocol):
    """A test of choices that knows how many more it can afford."""

    left: int

    def __call__(self, counts: Counts) -> bool:
        """Whether so many of each unit will do."""


def fewest(
    most: Sequence[int],
    test: Trial,
    *,
    lower: int = 1,
    proposals: Iterable[Counts] = (),
    cost: Callable[[Counts], float] = lambda _: 0.0,
) -> tuple[Counts, bool] | None:
    """The fewest units that pass a test, and whether fewer certainly do not; None where not even all of them do.

    `most` is how many there are of each unit; `lower` is a number below which none can pass. Proposals are tried first,
    the smallest first, and of equal ones the one that costs least.
    """
    trials = test.left
    seen: dict[Counts, bool] = {}

    def passes(counts: Counts) -> bool:
        if counts not in seen:
            seen[counts] = test(counts)
        return seen[counts]

    smallest = sorted(proposals, key=lambda c: (sum(c), cost(c), c))
    best = next((found for found in smallest if test.left > 0 and passes(found)), None)
    if best is None:
        full = tuple(most)
        best = _reduced(full, passes, lambda: test.left > trials // 3) if passes(full) else None
    if best is None and prod(number + 1 for number in most) > test.left:
        # Fewer than all might do where all do not, because others take the room; that is rare, and cannot be ruled out.
        test.left = min(test.left, trials // _RARE)
    largest = sum(best) - 1 if best is not None else sum(most)
    for size in range(max(lower, 1), largest + 1):
        for counts in of_size(most, size):
            if test.left <= 0:
                return (best, False) if best is not None else None
            if passes(counts):
                return counts, True
    return (best, True) if best is not None else None


def _reduced(full: Counts, passes: Callable[[Counts], bool], may: Callable[[], bool]) -> Counts:
    """A choice of which no unit can be left out: from the front as many as are needed, then each that can go, goes."""
    low, high = 0, len(full)
    while low + 1 < high and may():
        middle = (low + high) // 2
        if passes((*full[:middle], *(0 for _ in full[middle:]))):
            high = middle
        else:
            low = middle
    best = (*full[:high], *(0 for _ in full[high:]))
    if not passes(best):
        best = full
    for index, number in enumerate(best):
        for less in range(number):
            if not may():
                return best
            fewer = (*best[:index], less, *best[index + 1 :])
            if passes(fewer):
                best = fewer
                break
    return best


def of_size(most: Sequence[int], size: int) -> Iterator[Counts]:
    """All choices of so many units; the first units are taken first."""
    if size > sum(most):
        return
    counts = _filled(most, size)
    upto = list(accumulate(most))
    while True:
        yield tuple(counts)
        behind = 0  # units after an index that are taken; there may be many, and few of them are
        for index in reversed(list(compress(range(len(counts)), counts))):
            if upto[-1] - upto[index] > behind:
                counts[index] -= 1
                counts[index + 1 :] = _filled(most[index + 1 :], behind + 1)
                break
            behind += counts[index]
        else:
            return


def _filled(most: Sequence[int], size: int) -> list[int]:
    counts = [0] * len(most)
    for index, number in enumerate(most):
        if not size:
            break
        counts[index] = min(number, size)
        size -= counts[index]
    return counts


def _changes(units: Sequence[_Unit], counts: Counts) -> list[what_if.Change]:
    return [unit.change(number) for unit, number in zip(units, counts, strict=True) if number]


def _texts(changes: Sequence[what_if.Change]) -> tuple[str, ...]:
    return tuple(change.text for change in changes)


class _Test:
    """Whether the job starts where so many of each unit are done."""

    def __init__(self, scenario: what_if.Scenario, units: Sequence[_Unit], runs: _Runs) -> None:
        self._scenario, self._units, self._runs = scenario, units, runs
        self.left = runs.trials

    def __call__(self, counts: Counts) -> bool:
        self.left -= 1
        changed = self._scenario
        for change in _changes(self._units, counts):
            changed = change.apply(changed)
        return self._runs.start(changed)


# -- counting


class Counting(msgspec.Struct, frozen=True):
    """How many tasks of a job of one shape each node takes, and where the job must fit as a whole."""

    snapshot: Snapshot
    pod_set: PodSet
    need: int  # tasks that are still to be placed
    fits: Ints  # per row, now
    open: Ints  # per row, 1 where nothing but amounts can be in the way
    free: Ints  # (resources x rows)
    domains: Ints  # one of which must hold the job

    @property
    def idle(self) -> Ints:
        """What is free of the resources that are asked for."""
        return self.free[self.pod_set.shape.asked]

    @classmethod
    def on(cls, snapshot: Snapshot, profile: Profile, pod_set: PodSet, need: int, domains: Ints) -> Counting:
        """How many tasks of a pod set each node of a cluster takes now."""
        current, shape = open_cycle(snapshot, profile), pod_set.shape
        return cls(
            snapshot=snapshot,
            pod_set=pod_set,
            need=need,
            fits=current.fit_counts.of(shape).rows(Pool.IDLE).copy(),
            open=(current.pipeline.why_not(shape) == 0).astype(np.int64),
            free=current.ledger.free(np.arange(len(snapshot.axis)), slice(None), Pool.IDLE),
            domains=domains,
        )

    @classmethod
    def of(cls, scenario: what_if.Scenario, job: Job) -> Counting | None:
        """None where counting says nothing: several shapes or sub-groups, rules between pods, another tree."""
        snapshot = scenario.snapshot()
        job = next(found for found in snapshot.jobs if found.key == job.key)
        pod_sets = list(job.pod_sets())
        if len(pod_sets) != 1 or job.policies or len(job.subs) != 1:
            return None
        shape, constraint, topology = pod_sets[0].shape, job.constraint, snapshot.topology
        if shape.affinity is not None or shape.spread or shape.volumes is not None or shape.devices is not None:
            return None
        if len(job.subs[0].held) or snapshot.alternate_topology(constraint) is not None or job.gather is not None:
            return None
        limit = _limit(snapshot, constraint)
        allowed = np.flatnonzero(topology.tier <= limit) if limit is not None else np.array([ROOT])
        need = max(1, job.minimum - job.subs[0].ready)
        return cls.on(snapshot, scenario.profile, pod_sets[0], need, allowed)

    def takes(self, free: Ints) -> Ints:
        """How many tasks columns of free amounts take."""
        return self.pod_set.shape.max_tasks(free.copy())


def _limit(snapshot: Snapshot, constraint: Constraint | None) -> int | None:
    if constraint is None or not constraint.hard:
        return None
    if constraint.tier is not None:
        return constraint.tier
    return snapshot.topology.tier_names.get(constraint.tier_name)


# -- evictions


def _evict(scenario: what_if.Scenario, job: Job, runs: _Runs, counting: Counting | None) -> Answer | bool:
    """The fewest running pods whose going makes the job start; False where no pod may go, True where none helps."""
    kinds = _victims(scenario, job)
    units = [_Unit(len(pods), lambda n, pods=pods: what_if.evict_pods(pods[:n])) for _, _, pods in kinds]  # type: ignore[misc]
    if not units:
        return False
    lower, proposals = fewest_by_count(counting, kinds) if counting is not None else (1, [])
    if lower >= PLENTY:
        return True
    found = fewest([unit.most for unit in units], _Test(scenario, units, runs), lower=lower, proposals=proposals)
    if found is None:
        return True
    counts, exact = found
    pods = [pod for (_, _, every), number in zip(kinds, counts, strict=True) for pod in every[:number]]
    text = (
        f"evict {count(len(pods), 'pod')}: {compact(pod.rpartition('/')[2] for pod in pods)}{_of_gangs(scenario, pods)}"
    )
    return Answer("evict", len(pods), exact, tuple(pods), text, _texts(_changes(units, counts)))


def _of_gangs(scenario: what_if.Scenario, pods: Sequence[str]) -> str:
    """Whose pods they are, where they have a gang, and which gangs would have too few left."""
    snapshot = scenario.snapshot()
    jobs = {task.key: job for job in snapshot.jobs for task in job.tasks if not job.lone}
    lost = Counter(jobs[pod].number for pod in pods if pod in jobs)
    told = []
    for number, going in lost.items():
        job = snapshot.jobs[number]
        left = sum(task.status is Status.RUNNING for task in job.tasks) - going
        below = f", which has {left} left and needs {job.minimum}" if left < job.minimum else ""
        told.append(f"{going} of {full_name(job)}{below}")
    return f" ({'; '.join(told)})" if told else ""


Kind = tuple[str, tuple[tuple[str, int], ...], list[str]]
"""Pods that are alike: their node, what each holds, and their paths."""


def _victims(scenario: what_if.Scenario, job: Job) -> list[Kind]:
    """Pods that may go, alike ones together: by node, by what they hold, and by job."""
    snapshot = scenario.snapshot()
    tasks = {task.key: (task, owner) for owner in snapshot.jobs for task in owner.tasks}
    kinds: dict[tuple[str, tuple[tuple[str, int], ...], str], list[str]] = {}
    for path, pod in scenario.objects.every(Pod).items():
        task, owner = tasks.get(path, (None, None))
        kept = task is not None and (task.not_preemptable or task.critical)
        kept = kept or (owner is not None and (owner.key == job.key or owner.not_preemptable))
        if kept or not may_go(pod):
            continue
        holds = tuple(sorted({**effective_request(counted(pod)), POD_SLOTS: 1}.items()))
        kinds.setdefault((pod.spec.node_name, holds, owner.key if owner is not None else ""), []).append(path)
    return [(node, holds, pods) for (node, holds, _), pods in kinds.items()]


def may_go(pod: Pod) -> bool:
    """Whether a pod runs, and is neither a daemon's nor critical."""
    if not pod.spec.node_name or pod.status.ended or pod.metadata.deletion_timestamp:
        return False
    if any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references):
        return False
    return (pod.spec.priority or 0) < _CRITICAL


def fewest_by_count(counting: Counting, kinds: Sequence[Kind]) -> tuple[int, list[Counts]]:
    """A number of evictions below which the job certainly has no place, and for each domain a choice that should do."""
    snapshot, topology = counting.snapshot, counting.snapshot.topology
    rows = {name: row for row, name in enumerate(snapshot.nodes.names)}
    by_row: dict[int, list[int]] = {}
    for index, (node, _, _) in enumerate(kinds):
        if node in rows and counting.open[rows[node]]:
            by_row.setdefault(rows[node], []).append(index)
    exact = True
    prices: dict[int, list[tuple[int, dict[int, int]]]] = {}  # by row: for 0, 1, … more tasks, pods that go, by kind
    for row, indexes in by_row.items():
        prices[row], proved = _node_prices(counting, row, indexes, kinds)
        exact = exact and proved
    best, proposals = PLENTY, []
    for domain in counting.domains.tolist():
        span = topology.span(domain)
        free = int(counting.fits[span].sum())
        chosen = _cheapest([prices[row] for row in by_row if span.start <= row < span.stop], counting.need - free)
        if chosen is not None:
            best = min(best, sum(chosen.values()))
            proposals.append(tuple(chosen.get(index, 0) for index in range(len(kinds))))
    return (best if exact else min(best, 1)), proposals


def _node_prices(
    counting: Counting, row: int, indexes: Sequence[int], kinds: Sequence[Kind]
) -> tuple[list[tuple[int, dict[int, int]]], bool]:
    """For each number of further tasks on a node, the fewest pods that must go; and whether that is proved."""
    axis, asked = counting.snapshot.axis, counting.pod_set.shape.asked
    idle = counting.free[asked, row]
    freed = [np.array([dict(kinds[i][1]).get(axis.names[r], 0) for r in asked.tolist()]) for i in indexes]
    most = [len(kinds[i][2]) for i in indexes]
    proved = int(np.prod([number + 1 for number in most], dtype=np.float64)) <= _COMBINATIONS
    choices = product(*(range(number + 1) for number in most)) if proved else _growing(freed, most)
    base, found = int(counting.fits[row]), {0: (0, dict[int, int]())}
    for numbers in choices:
        free = idle + sum(amount * number for amount, number in zip(freed, numbers, strict=True))
        more = int(counting.takes(free[:, None])[0]) - base
        size = sum(numbers)
        for further in range(1, more + 1):
            if further not in found or size < found[further][0]:
                found[further] = size, {i: n for i, n in zip(indexes, numbers, strict=True) if n}
    return [found[further] for further in range(len(found))], proved


def _growing(freed: Sequence[Ints], most: Sequence[int]) -> Iterator[Counts]:
    """One pod after the other, the largest first: an order, where there are too many choices to try them all."""
    order = sorted(range(len(most)), key=lambda i: (-int(freed[i].max(initial=0)), i))
    numbers = [0] * len(most)
    for index in order:
        for _ in range(most[index]):
            numbers[index] += 1
            yield tuple(numbers)


def _cheapest(rows: Sequence[Sequence[tuple[int, dict[int, int]]]], need: int) -> dict[int, int] | None:
    """Which pods go so that nodes take so many tasks more, at the lowest number; None where they never do."""
    if need <= 0:
        return {}
    best: list[tuple[int, dict[int, int]] | None] = [(0, {}), *([None] * need)]
    for prices in rows:
        after = list(best)
        for have, known in enumerate(best):
            if known is None:
                continue
            for further, (price, going) in enumerate(prices[1:], 1):
                to = min(need, have + further)
                other = after[to]
                if other is None or known[0] + price < other[0]:
                    after[to] = known[0] + price, {**known[1], **going}
        best = after
    found = best[need]
    return found[1] if found is not None else None


# -- nodes


def _uncordon(scenario: what_if.Scenario, job: Job, runs: _Runs) -> Answer | bool:
    nodes = [name for name, node in scenario.objects.every(Node).items() if node.spec.unschedulable]
    if not nodes:
        return False
    units = [_Unit(1, lambda _, name=name: what_if.uncordon(name)) for name in nodes]  # type: ignore[misc]
    found = fewest([unit.most for unit in units], _Test(scenario, units, runs))
    if found is None:
        return True
    counts, exact = found
    chosen = [name for name, number in zip(nodes, counts, strict=True) if number]
    text = f"uncordon {count(len(chosen), 'node')}: {compact(chosen)}"
    return Answer("uncordon", len(chosen), exact, tuple(chosen), text, _texts(_changes(units, counts)))


def _add_nodes(scenario: what_if.Scenario, job: Job, runs: _Runs, counting: Counting | None) -> Answer | bool:
    """The fewest nodes like present ones, beside these."""
    models = _models(scenario)
    if not models:
        return False
    need = counting.need if counting is not None else max(1, job.minimum)
    units = [_Unit(need, lambda n, name=name: what_if.add_nodes(n, name)) for name in models]  # type: ignore[misc]
    lower, proposals = _added_by_count(counting, models) if counting is not None else (1, [])
    if lower >= PLENTY:
        return True
    found = fewest([unit.most for unit in units], _Test(scenario, units, runs), lower=lower, proposals=proposals)
    if found is None:
        return True
    counts, exact = found
    chosen = [(name, number) for name, number in zip(models, counts, strict=True) if number]
    total = sum(counts)
    text = "add " + " and ".join(f"{count(number, 'node')} like {name}, beside it" for name, number in chosen)
    subjects = tuple(name for name, number in chosen for _ in range(number))
    return Answer("add-nodes", total, exact, subjects, text, _texts(_changes(units, counts)))


def _models(scenario: what_if.Scenario) -> list[str]:
    """A ready node of each kind in each innermost domain; one kind has the same amounts, labels and taints."""
    snapshot, nodes = scenario.snapshot(), scenario.objects.every(Node)
    found: dict[tuple[object, ...], str] = {}
    for row, name in enumerate(snapshot.nodes.names):
        node = nodes.get(name)
        if node is None or node.spec.unschedulable or not snapshot.nodes.ready[row]:
            continue
        labels = tuple(sorted((k, v) for k, v in node.metadata.labels.items() if v != name))
        amounts = tuple(snapshot.nodes.allocatable[:, row].tolist())
        kind = int(snapshot.topology.leaf[row]), amounts, labels, node.spec.taints
        found.setdefault(kind, name)
    return list(found.values())


def _added_by_count(counting: Counting, models: Sequence[str]) -> tuple[int, list[Counts]]:
    """A number of nodes below which the job has no place for certain, and per domain and kind one that should do."""
    snapshot, topology = counting.snapshot, counting.snapshot.topology
    rows = {name: row for row, name in enumerate(snapshot.nodes.names)}
    best, proposals = PLENTY, []
    empty = snapshot.nodes.allocatable[counting.pod_set.shape.asked]
    for index, name in enumerate(models):
        row = rows[name]
        each = int(counting.takes(empty[:, [row]])[0])
        if not counting.open[row] or not each:
            continue
        for domain in counting.domains.tolist():
            span = topology.span(domain)
            if span.start <= row < span.stop:
                missing = counting.need - int(counting.fits[span].sum())
                number = max(1, -(-missing // each))
                best = min(best, number)
                proposals.append(tuple(number if i == index else 0 for i in range(len(models))))
    return best, list(dict.fromkeys(proposals))


# -- tiers and quotas


def _relax(scenario: what_if.Scenario, job: Job, runs: _Runs) -> Answer | bool:
    """The fewest tiers by which the limits of a job and its sub-groups must be raised; above the last is no limit."""
    snapshot = scenario.snapshot()
    held = [("", job.constraint), *((policy.name, policy.constraint) for policy in job.policies)]
    hard = [(policy, constraint) for policy, constraint in held if constraint is not None and constraint.hard]
    if not hard:
        return False
    ladders = [_above(snapshot, constraint) for _, constraint in hard]

    def unit(policy: str, ladder: Sequence[tuple[int, str]]) -> _Unit:
        return _Unit(len(ladder) + 1, lambda n: _relaxed(job, policy, ladder, n))

    units = [unit(policy, ladder) for (policy, _), ladder in zip(hard, ladders, strict=True)]
    found = fewest([unit.most for unit in units], _Test(scenario, units, runs))
    if found is None:
        return True
    counts, exact = found
    texts, subjects = [], []
    for (policy, constraint), ladder, number in zip(hard, ladders, counts, strict=True):
        if number:
            to = "no limit" if number > len(ladder) else _level(ladder[number - 1])
            which = f"the limit of {policy}" if policy else "its limit"
            texts.append(f"{which} from {what_if.constraint_text(constraint)} to {to}")
            subjects.append(policy or job.key)
    text = f"relax {' and '.join(texts)}"
    return Answer("relax", sum(counts), exact, tuple(subjects), text, _texts(_changes(units, counts)))


def _above(snapshot: Snapshot, constraint: Constraint | None) -> list[tuple[int, str]]:
    """The tiers above the one that a constraint names."""
    assert constraint is not None
    found = what_if.levels(snapshot, constraint)
    at = constraint.tier
    if at is None:
        at = next((tier for tier, name in found if name == constraint.tier_name), -1)
    return [(tier, name) for tier, name in found if tier > at]


def _level(level: tuple[int, str]) -> str:
    tier, name = level
    return f"tier {tier} ({name})" if name else f"tier {tier}"


def _relaxed(job: Job, policy: str, ladder: Sequence[tuple[int, str]], number: int) -> what_if.Change:
    if number > len(ladder):
        return what_if.set_constraint(_name(job), "soft", policy=policy)
    tier, name = ladder[number - 1]
    return what_if.set_constraint(_name(job), "hard", name or str(tier), policy)


def _name(job: Job) -> str:
    return job.gangs[0] if job.gangs else job.key


def _quota(scenario: what_if.Scenario, job: Job, runs: _Runs) -> Answer | bool:
    """How much more of which resource the job's queue, or one around it, must be given; in steps of one pod."""
    snapshot = scenario.snapshot()
    queue = snapshot.queues.get(job.queue)
    around: list[str] = []
    while queue is not None and queue.name not in around:
        around.append(queue.name)
        queue = snapshot.queues.get(queue.parent or queue.enclosing)
    asked = sum((sub.request for sub in job.subs), start=np.zeros(len(snapshot.axis), dtype=np.int64))
    fields = [
        (name, field, resource, held)
        for name in around
        for field in ("capability", "deserved")
        for resource, held in getattr(snapshot.queues[name], field).items()
        if resource in snapshot.axis.index and asked[snapshot.axis.index[resource]] > 0 and held < PLENTY
    ]
    tasks = max(1, len(job.tasks))
    if not fields:
        return False

    def raised(index: int, steps: int) -> tuple[str, str, str, str]:
        name, field, resource, held = fields[index]
        step = -(-int(asked[snapshot.axis.index[resource]]) // tasks)
        return name, field, resource, show(resource, held + steps * step)

    full = tuple(tasks for _ in fields)
    units = [_Unit(tasks, lambda n, i=i: what_if.set_quota(*raised(i, n))) for i in range(len(fields))]  # type: ignore[misc]
    test = _Test(scenario, units, runs)
    if not test(full):
        return True
    best = list(full)
    for index in range(len(fields)):  # fields do not make up for each other: each has a least of its own
        low, high = -1, best[index]
        while low + 1 < high:
            middle = 0 if low < 0 and high == best[index] else (low + high) // 2
            if test((*best[:index], middle, *best[index + 1 :])):
                high = middle
            else:
                low = middle
        best[index] = high
    quotas = [raised(index, number) for index, number in enumerate(best) if number]
    text = " and ".join(f"the {field} of queue {queue} to {to} of {resource}" for queue, field, resource, to in quotas)
    subjects = tuple(dict.fromkeys(queue for queue, *_ in quotas))
    return Answer("quota", len(quotas), True, subjects, f"raise {text}", _texts(_changes(units, tuple(best))))
