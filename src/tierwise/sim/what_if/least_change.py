"""The least that makes a job start now: evictions or moves, nodes to add or to uncordon, limits or quota.

Limits are tiers to relax, and rules about sets to loosen.

Each way is a set of units (a pod that goes, a node that comes, a tier higher), and the question is how few of them will
do. Whether a number of them will do is never guessed: the changed cluster is scheduled to the end. A count on the tree
says which numbers cannot do, and proposes one that should; below what it proves, all choices are tried, as long as
there are not too many. An answer says whether it is proved to be the least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from tierwise.api.core import Node
from tierwise.api.plurals import count
from tierwise.api.quantity import show
from tierwise.config.actions import EVICTING
from tierwise.explain.comparison import Answer, LeastChange, Outcome, OwnEvictions, in_order, started
from tierwise.explain.disruption import Losses, broken, hours, lost_text
from tierwise.explain.naming import full_name
from tierwise.explain.ranges import compact
from tierwise.framework.report import EvictionAttempt
from tierwise.model.job import Constraint, Job
from tierwise.model.lost_nodes import LostNodes
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT
from tierwise.sim.cluster.rounds import Rounds
from tierwise.sim.what_if import changes as what_if
from tierwise.sim.what_if.evictions import Victims, least_evictions, queues_around
from tierwise.sim.what_if.fewest import PLENTY, Counting, Counts, Way, fewest, fruitless
from tierwise.sim.what_if.moves import RUNS, least_moves
from tierwise.sim.what_if.runs import outcome_of
from tierwise.sim.what_if.set_changes import loosen, rules_of
from tierwise.snapshot.builder import Reader

__all__ = [
    "BRIEF",
    "THOROUGH",
    "Effort",
    "above",
    "added_text",
    "beside",
    "least_change",
    "level_text",
    "models",
]

_WAYS = 6
"""Uncordon, relax, loosen, quota, evict, add nodes; a move is looked for among few choices."""


class Effort(msgspec.Struct, frozen=True):
    """Budget of one attempt before it is left unproved: runs of the scheduler, and objects that they may read."""

    least: int  # runs on a large cluster
    most: int  # and on a small one
    work: int  # objects that the runs look at together

    def trials(self, objects: int) -> int:
        """The runs for a cluster of so many objects."""
        return max(self.least, min(self.most, self.work // max(1, objects)))

    def most_runs(self, objects: int) -> int:
        """The runs for all ways together, and the one without a change."""
        return 1 + _WAYS * self.trials(objects) + RUNS


THOROUGH: Final = Effort(12, 200, 60_000)
BRIEF: Final = Effort(20, 40, 20_000)
"""For people who wait for a page."""


class _Unit(msgspec.Struct, frozen=True):
    """Something of which between none and `most` may be done; the changes for a number of it."""

    most: int
    change: Callable[[int], what_if.Change]


def least_change(
    scenario: what_if.Scenario,
    name: str,
    effort: Effort = THOROUGH,
    report_progress: Callable[[str, int], None] = lambda way, runs: None,
    answered: Callable[[Answer], None] = lambda answer: None,
    reader: Reader | None = None,
) -> LeastChange:
    """The ways to make a job start now, the simplest first; InputError where there is no such job.

    `told` hears what is tried and how many runs that took so far, `answered` each way as soon as it is found. A
    `reader` has read the scenario before.
    """
    job = what_if.job_named(scenario.snapshot(), name)
    runs = _Runs(scenario, job.key, effort, report_progress, reader)
    if runs.start(scenario):
        return LeastChange(job.key, True, (), (), full_name(job), _own_evictions(scenario, job, runs))
    counting = Counting.of(scenario, job)
    answers: list[Answer] = []
    hopeless: list[str] = []
    unsettled: list[str] = []
    attempts: tuple[tuple[str, Callable[[], Answer | Way]], ...] = (
        ("uncordon", lambda: _uncordon(scenario, job, runs)),
        ("relax", lambda: _relax(scenario, job, runs)),
        ("loosen", lambda: _loosen(scenario, job, runs)),
        ("quota", lambda: _quota(scenario, job, runs)),
        ("evict", lambda: least_evictions(scenario, job, counting, lambda victims: runs.evicting(scenario, victims))),
        ("add-nodes", lambda: _add_nodes(scenario, job, runs, counting)),
    )
    for attempt_name, attempt in attempts:
        runs.way = attempt_name
        answer = attempt()
        if isinstance(answer, Answer):
            answers.append(answer)
            answered(answer)
        elif answer is Way.HOPELESS:
            hopeless.append(attempt_name)
        elif answer is Way.UNSETTLED:
            unsettled.append(attempt_name)
    evict = next((answer for answer in answers if answer.way == "evict"), None)
    if evict is not None:
        runs.way = "move"
        moved = least_moves(scenario, job, counting, evict, runs.run)
        if moved is not None:
            answers.append(moved)
            answered(moved)
    own_evictions = _own_evictions(scenario, job, runs)
    no_help = tuple(hopeless)
    return LeastChange(
        job.key, False, in_order(answers), no_help, full_name(job), own_evictions, unsettled=tuple(unsettled)
    )


def _own_evictions(scenario: what_if.Scenario, job: Job, runs: _Runs) -> OwnEvictions:
    """Pods that the scheduler evicted for a job in the run without changes, or the reason why it evicts none."""
    if not EVICTING.intersection(scenario.profile.actions):
        return OwnEvictions("the scheduler itself evicts nothing: no action of its configuration evicts")
    mine = (e.task.key for e in runs.as_is.evictions if e.by is not None and e.by.key == job.key)
    pods = tuple(dict.fromkeys(mine))  # in a cluster that goes in circles some are evicted many times
    if pods:
        lost = Losses(scenario.snapshot())
        losses = lost.of(pods)
        named = f"{count(len(pods), 'pod')} for it: {compact(pod.rpartition('/')[2] for pod in pods)}"
        circles = "".join(f"; {fault.subject}: {fault.text}" for fault in runs.as_is.circling())
        text = f"the scheduler itself evicts {named}: {lost_text(losses, lost.unit)}{circles}"
        return OwnEvictions(text, pods, broken(losses), round(hours(losses), 3))
    attempts: list[EvictionAttempt] = []
    for _, report in runs.as_is.reports:
        attempts.extend(report.eviction_attempts.get(job.key, ()))
    why = next((f": {a.action}: {a.obstacle.text}" for a in reversed(attempts) if a.obstacle is not None), "")
    return OwnEvictions(f"the scheduler itself evicts nothing for it{why}")


class _Runs:
    """Runs of the scheduler on one cluster with changes; each reads what differs from the one before it."""

    def __init__(
        self,
        scenario: what_if.Scenario,
        job: str,
        effort: Effort,
        report_progress: Callable[[str, int], None],
        reader: Reader | None,
    ) -> None:
        self._job = job
        self._renewed = scenario.reader
        self._told = report_progress
        self._number = 0
        self.way = "start it as things are"
        self._reader = reader or scenario.reader()
        self._first: Rounds | None = None
        self.trials = effort.trials(len(scenario.objects))

    def start(self, scenario: what_if.Scenario) -> bool:
        """Whether the job starts."""
        _, outcome = self.run(scenario)
        return any(job.key == self._job and started(outcome.snapshot, job) for job in outcome.snapshot.jobs)

    def run(self, scenario: what_if.Scenario) -> tuple[Rounds, Outcome]:
        """Run a cluster to its end: its history and outcome."""
        self._told(self.way, self._number)
        self._number += 1
        history, outcome = outcome_of(scenario, reader=self._reader)
        self._first = self._first or history
        self._reader = history.reader or self._renewed()
        return history, outcome

    @property
    def as_is(self) -> Rounds:
        """The first run, which is the one without changes."""
        assert self._first is not None
        return self._first

    def evicting(self, scenario: what_if.Scenario, victims: Victims) -> _Test:
        """Whether the job starts where pods of some kinds go."""

        def unit(pods: Sequence[str]) -> _Unit:
            return _Unit(len(pods), lambda number: what_if.evict_pods(pods[:number]))

        return _Test(scenario, [unit(pods) for _, _, pods in victims.kinds], self)


def _changes(units: Sequence[_Unit], counts: Counts) -> list[what_if.Change]:
    return [unit.change(number) for unit, number in zip(units, counts, strict=True) if number]


def _texts(changes: Sequence[what_if.Change]) -> tuple[str, ...]:
    return tuple(change.text for change in changes)


class _Test:
    """Whether the job starts where so many of each unit are done."""

    def __init__(self, scenario: what_if.Scenario, units: Sequence[_Unit], runs: _Runs) -> None:
        self._scenario = scenario
        self._units = units
        self._runs = runs
        self.left = runs.trials

    def __call__(self, counts: Counts) -> bool:
        self.left -= 1
        changed = self._scenario
        for change in _changes(self._units, counts):
            changed = change.apply(changed)
        return self._runs.start(changed)


# -- nodes


def _uncordon(scenario: what_if.Scenario, job: Job, runs: _Runs) -> Answer | Way:
    nodes = [name for name, node in scenario.objects.every(Node).items() if node.spec.unschedulable]
    if not nodes:
        return Way.NOT_OPEN
    units = [_Unit(1, lambda _, name=name: what_if.uncordon(name)) for name in nodes]  # type: ignore[misc]
    test = _Test(scenario, units, runs)
    result = fewest([unit.most for unit in units], test)
    if result is None:
        return fruitless(test)
    counts, exact = result
    nodes_chosen = [name for name, number in zip(nodes, counts, strict=True) if number]
    text = f"uncordon {count(len(nodes_chosen), 'node')}: {compact(nodes_chosen)}"
    return Answer("uncordon", len(nodes_chosen), exact, tuple(nodes_chosen), text, _texts(_changes(units, counts)))


def _add_nodes(scenario: what_if.Scenario, job: Job, runs: _Runs, counting: Counting | None) -> Answer | Way:
    """The fewest nodes like present ones, beside these."""
    names = models(scenario)
    if not names:
        return Way.NOT_OPEN
    need = counting.need if counting is not None else max(1, job.minimum)
    units = [_Unit(need, lambda n, name=name: what_if.add_nodes(n, name)) for name in names]  # type: ignore[misc]
    lower, proposals = _added_by_count(counting, names) if counting is not None else (1, [])
    if lower >= PLENTY:
        return Way.HOPELESS
    test = _Test(scenario, units, runs)
    result = fewest([unit.most for unit in units], test, lower=lower, proposals=proposals)
    if result is None:
        return fruitless(test)
    counts, exact = result
    models_chosen = [(name, number) for name, number in zip(names, counts, strict=True) if number]
    total = sum(counts)
    snapshot = scenario.snapshot()
    text = added_text([(name, number, beside(snapshot, name)) for name, number in models_chosen])
    subjects = tuple(name for name, number in models_chosen for _ in range(number))
    return Answer("add-nodes", total, exact, subjects, text, _texts(_changes(units, counts)))


def added_text(chosen: Sequence[tuple[str, int, str]]) -> str:
    """That nodes are added: like which, how many, and where they come to be."""
    return "add " + " and ".join(f"{count(number, 'node')} like {name}, {where}" for name, number, where in chosen)


def beside(snapshot: Snapshot, node: str) -> str:
    """Where a node like another one comes to be."""
    leaf = int(snapshot.topology.leaf[snapshot.nodes.row[node]])
    if leaf != ROOT:
        return f"beside it in {snapshot.topology.name[leaf]}"
    return "beside it"


def models(scenario: what_if.Scenario) -> list[str]:
    """A ready node of each kind in each innermost domain; one kind has the same amounts, labels and taints."""
    snapshot = scenario.snapshot()
    nodes = scenario.objects.every(Node)
    name_by_kind: dict[tuple[object, ...], str] = {}
    down = LostNodes(snapshot.nodes).down
    for row, name in enumerate(snapshot.nodes.names):
        node = nodes.get(name)
        if node is None or node.spec.unschedulable or down[row]:
            continue
        labels = tuple(sorted((k, v) for k, v in node.metadata.labels.items() if v != name))
        amounts = tuple(snapshot.nodes.allocatable[:, row].tolist())
        kind = int(snapshot.topology.leaf[row]), amounts, labels, node.spec.taints
        name_by_kind.setdefault(kind, name)
    return list(name_by_kind.values())


def _added_by_count(counting: Counting, models: Sequence[str]) -> tuple[int, list[Counts]]:
    """A number of nodes below which the job has no place for certain, and per domain and kind one that should do."""
    snapshot = counting.snapshot
    topology = counting.snapshot.topology
    rows = {name: row for row, name in enumerate(snapshot.nodes.names)}
    best = PLENTY
    proposals = []
    empty = snapshot.nodes.allocatable[counting.pod_set.shape.asked]
    for index, name in enumerate(models):
        row = rows[name]
        per_node = int(counting.takes(empty[:, [row]])[0])
        if not counting.open[row] or not per_node:
            continue
        for domain in counting.domains.tolist():
            span = topology.span(domain)
            if span.start <= row < span.stop:
                missing = counting.need - int(counting.fits[span].sum())
                number = max(1, -(-missing // per_node))
                best = min(best, number)
                proposals.append(tuple(number if i == index else 0 for i in range(len(models))))
    return best, list(dict.fromkeys(proposals))


# -- tiers and quotas


def _relax(scenario: what_if.Scenario, job: Job, runs: _Runs) -> Answer | Way:
    """The fewest tiers by which the limits of a job and its sub-groups must be raised; above the last is no limit."""
    snapshot = scenario.snapshot()
    constraints = [("", job.constraint), *((policy.name, policy.constraint) for policy in job.policies)]
    hard = [(policy, constraint) for policy, constraint in constraints if constraint is not None and constraint.hard]
    if not hard:
        return Way.NOT_OPEN
    ladders = [above(snapshot, constraint) for _, constraint in hard]

    def unit(policy: str, ladder: Sequence[tuple[int, str]]) -> _Unit:
        return _Unit(len(ladder) + 1, lambda n: _relaxed(job, policy, ladder, n))

    units = [unit(policy, ladder) for (policy, _), ladder in zip(hard, ladders, strict=True)]
    test = _Test(scenario, units, runs)
    result = fewest([unit.most for unit in units], test)
    if result is None:
        return fruitless(test)
    counts, exact = result
    texts = []
    subjects = []
    for (policy, constraint), ladder, number in zip(hard, ladders, counts, strict=True):
        if number:
            to = "no limit" if number > len(ladder) else level_text(ladder[number - 1])
            which = f"the limit of {policy}" if policy else "its limit"
            texts.append(f"{which} from {what_if.constraint_text(constraint)} to {to}")
            subjects.append(policy or job.key)
    text = f"relax {' and '.join(texts)}"
    return Answer("relax", sum(counts), exact, tuple(subjects), text, _texts(_changes(units, counts)))


def _loosen(scenario: what_if.Scenario, job: Job, runs: _Runs) -> Answer | Way:
    """The fewest sets of a job about which its hard rules would have to be soft."""
    paths = list(dict.fromkeys(rule.name for rule in rules_of(job)))
    if not paths:
        return Way.NOT_OPEN
    units = [_Unit(1, lambda _, path=path: loosen(_name(job), path)) for path in paths]  # type: ignore[misc]
    test = _Test(scenario, units, runs)
    result = fewest([1 for _ in units], test)
    if result is None:
        return fruitless(test)
    counts, exact = result
    chosen = [path for path, number in zip(paths, counts, strict=True) if number]
    text = f"make its rules about {' and '.join(f'set {path}' for path in chosen)} soft"
    return Answer("loosen", len(chosen), exact, tuple(chosen), text, _texts(_changes(units, counts)))


def above(snapshot: Snapshot, constraint: Constraint | None) -> list[tuple[int, str]]:
    """The tiers above the one that a constraint names."""
    assert constraint is not None
    tiers = what_if.levels(snapshot, constraint)
    at = constraint.tier
    if at is None:
        at = next((tier for tier, name in tiers if name == constraint.tier_name), -1)
    return [(tier, name) for tier, name in tiers if tier > at]


def level_text(level: tuple[int, str]) -> str:
    """A tier as people call it."""
    tier, name = level
    return f"tier {tier} ({name})" if name else f"tier {tier}"


def _relaxed(job: Job, policy: str, ladder: Sequence[tuple[int, str]], number: int) -> what_if.Change:
    if number > len(ladder):
        return what_if.set_constraint(_name(job), "soft", policy=policy)
    tier, name = ladder[number - 1]
    return what_if.set_constraint(_name(job), "hard", name or str(tier), policy)


def _name(job: Job) -> str:
    return job.gangs[0] if job.gangs else job.key


def _quota(scenario: what_if.Scenario, job: Job, runs: _Runs) -> Answer | Way:
    """How much more of which resource the job's queue, or one around it, must be given; in steps of one pod."""
    snapshot = scenario.snapshot()
    around = queues_around(snapshot, job.queue)
    request = sum((sub.request for sub in job.subs), start=np.zeros(len(snapshot.axis), dtype=np.int64))
    fields = [
        (name, field, resource, amount)
        for name in around
        for field in ("capability", "deserved")
        for resource, amount in getattr(snapshot.queues[name], field).items()
        if resource in snapshot.axis.index and request[snapshot.axis.index[resource]] > 0 and amount < PLENTY
    ]
    tasks = max(1, len(job.tasks))
    if not fields:
        return Way.NOT_OPEN

    def raised(index: int, steps: int) -> tuple[str, str, str, str]:
        name, field, resource, amount = fields[index]
        step = -(-int(request[snapshot.axis.index[resource]]) // tasks)
        return name, field, resource, show(resource, amount + steps * step)

    full = tuple(tasks for _ in fields)
    units = [_Unit(tasks, lambda n, i=i: what_if.set_quota(*raised(i, n))) for i in range(len(fields))]  # type: ignore[misc]
    test = _Test(scenario, units, runs)
    if not test(full):
        return Way.HOPELESS
    best = list(full)
    for index in range(len(fields)):  # fields do not make up for each other: each has a least of its own
        low = -1
        high = best[index]
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
