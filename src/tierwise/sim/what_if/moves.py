"""A move that lets a job start: pods that make room for it, and start again elsewhere as soon as it stands.

Evictions that break a gang are no loss for good where the gang has a place elsewhere. Whether it has is tried: the
scheduler is run without the pods, and once the job stands again with them waiting. Few choices are tried: the pods of
the eviction that costs least, those that make room in each domain by count, and all pods of the gangs of either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from tierwise.api.core import Pod
from tierwise.api.plurals import count, joined
from tierwise.explain.comparison import Answer, Outcome, started
from tierwise.explain.disruption import broken, hours, lost_work_text
from tierwise.explain.naming import full_name
from tierwise.explain.ranges import compact
from tierwise.model.job import Job, Status
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT
from tierwise.sim.cluster.rounds import Rounds
from tierwise.sim.what_if.changes import Scenario, evict_pods, made_again, restarts
from tierwise.sim.what_if.evictions import UNFAIR, Victims, fewest_by_count
from tierwise.sim.what_if.fewest import Counting

__all__ = ["RUNS", "least_moves"]

_CHOICES: Final = 4
RUNS: Final = 2 * _CHOICES
"""Runs of the scheduler at most: without the pods of a choice, and with them again."""


class _Choice(msgspec.Struct, frozen=True):
    """Pods that may be moved together."""

    pods: tuple[str, ...]
    fair: bool  # the scheduler itself might evict them


def least_moves(
    scenario: Scenario,
    job: Job,
    counting: Counting | None,
    evict: Answer,
    run: Callable[[Scenario], tuple[Rounds, Outcome]],
) -> Answer | None:
    """The first of some choices of pods, the cheapest first, that lets a job start and themselves start elsewhere.

    `evict` are the evictions that cost least. None where no choice that was tried does.
    """
    every = scenario.objects.every(Pod)
    victims = Victims.of(scenario, job, fair=False)
    tried = 0
    for choice in _choices(scenario, job, counting, evict, victims):
        if not all(restarts(every[pod]) for pod in choice.pods):
            continue
        if tried == _CHOICES:
            break
        tried += 1
        nodes = _places(scenario, job, choice.pods, run)
        if nodes:
            return _answer(victims, job, choice, nodes, exact=evict.exact and choice.pods == evict.subjects)
    return None


def _choices(
    scenario: Scenario, job: Job, counting: Counting | None, evict: Answer, victims: Victims
) -> Iterator[_Choice]:
    """The pods of the answer, then those that make room in a domain, the cheapest first; each also with its gangs."""
    mine = set()
    for _, _, pods in Victims.of(scenario, job, fair=True).kinds:
        mine.update(pods)
    may = set()
    for _, _, pods in victims.kinds:
        may.update(pods)
    owners = {}
    for owner in victims.snapshot.jobs:
        for task in owner.tasks:
            owners[task.key] = owner
    near = [victims.pods(counts) for counts in fewest_by_count(counting, victims.kinds)[1]] if counting else []

    def price(choice: _Choice) -> tuple[bool, int, float, int]:
        losses = victims.lost.of(choice.pods)
        return not choice.fair, broken(losses), hours(losses), len(choice.pods)

    def both(pods: Sequence[str]) -> Iterator[_Choice]:
        gangs = {owners[pod].key: owners[pod] for pod in pods if pod in owners}
        whole_gangs = []
        for gang in gangs.values():
            for task in gang.tasks:
                if task.status is Status.RUNNING:
                    whole_gangs.append(task.key)
        for choice in (tuple(pods), tuple(dict.fromkeys([*pods, *whole_gangs]))):
            if may.issuperset(choice):
                yield _Choice(choice, mine.issuperset(choice))

    further = sorted((choice for pods in near if pods for choice in both(pods)), key=price)
    seen: set[frozenset[str]] = set()
    for choice in (*both(evict.subjects), *further):
        if frozenset(choice.pods) not in seen:
            seen.add(frozenset(choice.pods))
            yield choice


def _places(
    scenario: Scenario, job: Job, pods: Sequence[str], run: Callable[[Scenario], tuple[Rounds, Outcome]]
) -> dict[str, str]:
    """The nodes on which pods start again once a job stands in their place; none where it or their jobs do not."""
    history, outcome = run(evict_pods(pods).apply(scenario))
    if job.key not in _started(outcome):
        return {}
    with_pods = msgspec.structs.replace(scenario, objects=history.cluster.read())
    history, outcome = run(made_again(pods, scenario.objects).apply(with_pods))
    before = scenario.snapshot()
    moving = set(pods)
    moved = [moved_job for moved_job in before.jobs if any(task.key in moving for task in moved_job.tasks)]
    needed = {job.key, *(moved_job.key for moved_job in moved if started(before, moved_job))}
    every = history.cluster.read().every(Pod)
    nodes = {path: every[path].spec.node_name for path in pods if path in every and every[path].spec.node_name}
    if history.evictions or len(nodes) < len(pods) or not needed <= _started(outcome):
        return {}
    return nodes


def _started(outcome: Outcome) -> set[str]:
    return {*(j.key for j in outcome.snapshot.jobs if started(outcome.snapshot, j)), *(j.key for j, _ in outcome.lone)}


def _answer(victims: Victims, job: Job, choice: _Choice, nodes: dict[str, str], *, exact: bool) -> Answer:
    snapshot = victims.snapshot
    owners = {}
    for owner in snapshot.jobs:
        for task in owner.tasks:
            owners[task.key] = owner
    before = {pod: node for node, _, pods in victims.kinds for pod in pods}
    by_job: dict[str, list[str]] = {}
    for pod in choice.pods:
        by_job.setdefault(full_name(owners[pod]) if pod in owners else pod, []).append(pod)
    moves = []
    for name, pods in by_job.items():
        old, new = ([side[pod] for pod in pods] for side in (before, nodes))
        moves.append(f"{name} ({count(len(pods), 'pod')}) from {_where(snapshot, old, new)}")
    losses = victims.lost.of(choice.pods)
    work = lost_work_text(losses, victims.lost.unit)
    which = "it starts" if len(by_job) == 1 else "they start"
    text = f"move {joined(moves)}: {which} there as soon as {full_name(job)} stands{f', and {work}' if work else ''}"
    return Answer(
        way="move",
        number=len(choice.pods),
        exact=exact,
        subjects=choice.pods,
        text=f"{text}{'' if choice.fair else UNFAIR}",
        changes=(f"move {count(len(choice.pods), 'pod')}",),
        hours=round(hours(losses), 3),
        nodes=nodes,
    )


def _where(snapshot: Snapshot, old: Sequence[str], new: Sequence[str]) -> str:
    """From where to where: the domains around the nodes, or the nodes where a domain says nothing."""
    topology = snapshot.topology
    row = snapshot.nodes.row
    homes = [topology.meet_rows(np.array([row[node] for node in nodes], dtype=np.int64)) for nodes in (old, new)]
    if ROOT in homes or homes[0] == homes[1]:
        return " to ".join(compact(dict.fromkeys(nodes)) for nodes in (old, new))
    return " to ".join(topology.name[home] for home in homes)
