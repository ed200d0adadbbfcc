"""drf: orders jobs by dominant resource fairness, the smallest share first.

    share = max over resources of held / total

Jobs are ordered by share, the smallest first. A task may be preempted only if the victim's job, after losing it
and all preceding candidates of the same job, still has at least the share that the preemptor would have; shares
that differ by no more than 0.000001 are equal, as in Volcano. Reclaim is not filtered.

Where a queue declares a path (annotations volcano.sh/hierarchy and volcano.sh/hierarchy-weights), queues are ordered
by hierarchical share as well: see `FairTree`. Where the profile remembers usage, the weights of its vertices are
corrected by it (`framework.usage`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tierwise.framework.declaration import chooses, takes_part
from tierwise.framework.extension import Arguments, CycleView, JobOrder, Preemptor, Purpose, QueueOrder, VictimFilter
from tierwise.framework.victim_counts import sums_before
from tierwise.model.arrays import Bools, Floats, Ints
from tierwise.model.job import Job, Queue
from tierwise.plugins.queues.table import counted, total

__all__ = ["drf"]

_EQUAL = 1e-6


@takes_part(JobOrder, VictimFilter, ignores_names=True, rises_with_use=True, by_amounts=True)
class Drf:
    """Orders jobs by dominant share, and protects jobs that preemption would leave with a smaller share."""

    answers = frozenset((Purpose.PREEMPT,))
    counts = True

    def __init__(self, view: CycleView) -> None:
        self._held = view.ledger.job_used  # read, never written: always current
        everything = np.where(counted(view.axis), total(view.nodes), 0)
        self._some = np.flatnonzero(everything > 0)
        self._total = everything[self._some, None].astype(np.float64)

    def share(self, held_amounts: Ints) -> Floats:
        """The dominant share of each column of `held_amounts` (resources x n)."""
        result: Floats = (held_amounts[self._some] / self._total).max(axis=0, initial=0.0)
        return result

    def job_key(self, job: Job) -> tuple[float, ...]:
        return (float(self.share(self._held[:, [job.number]])[0]),)

    def protect(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Protects tasks whose job would be left with a smaller share than the preemptor's; none when reclaiming."""
        if preemptor.purpose is Purpose.RECLAIM:
            return np.zeros(len(victims), dtype=bool)
        jobs = preemptor.running.job[victims]
        lost = preemptor.running.request[:, victims]
        gains = float(self.share(self._held[:, [preemptor.job.number]] + preemptor.need[:, None])[0])
        keeps = self.share(self._held[:, jobs] - sums_before(lost, jobs) - lost)
        result: Bools = keeps < gains - _EQUAL
        return result


@takes_part(JobOrder, QueueOrder, VictimFilter, ignores_names=True, by_amounts=True)
class HierarchicalDrf(Drf):
    """Dominant shares with an order of queues, for queues that declare a path."""

    def __init__(self, view: CycleView) -> None:
        super().__init__(view)
        self._queues = FairTree(view, np.where(counted(view.axis), total(view.nodes), 0))

    def queue_key(self, queue: Queue) -> tuple[float, ...]:
        return self._queues.key(queue)


@chooses(Drf, HierarchicalDrf)
def drf(arguments: Arguments, view: CycleView) -> Drf | HierarchicalDrf:
    """The plugin; queues are ordered only if one of them declares a path."""
    declared = any(queue.hierarchy for queue in view.queues.values())
    return HierarchicalDrf(view) if declared else Drf(view)


# Hierarchical dominant shares: the tree that queues declare by path, with the jobs as its leaves.
#
# A job's share is its dominant share of the cluster, max held / total. A vertex holds what its children hold, after
# those that could use more are scaled down to the smallest share among them (a child must not look poor because its
# own parts are dear): children that are saturated count in full, children that hold nothing not at all.
# A job is saturated where it has all that it asks for of some resource, or asks for one that the cluster has run out
# of; a vertex is saturated where all its children are.


_TOP = "root"


class _Vertices(msgspec.Struct, frozen=True):
    """Steps of all paths, the root first; every vertex after its parent."""

    parent: Ints
    depth: Ints
    weight: Floats
    of_queue: dict[str, tuple[int, ...]]  # the vertices of a queue's path, without the root


class FairTree:
    """Sort keys of queues by hierarchical share, by what the ledger holds now."""

    def __init__(self, view: CycleView, total: Ints) -> None:
        self._held = view.ledger.job_used  # read, never written: always current
        self._some = np.flatnonzero(total > 0)
        self._total = total[self._some, None].astype(np.float64)
        self._asked = _asked(view)[self._some]
        self._vertices = _vertices(tuple(view.queues.values()))
        self._weight = self._corrected(view)
        leaf_vertices = [self._vertices.of_queue.get(job.queue, (0,))[-1] for job in view.jobs]
        count = len(self._vertices.parent)
        self._parent = np.concatenate((self._vertices.parent, np.array(leaf_vertices, dtype=np.int64)))
        self._depth = np.concatenate(
            (self._vertices.depth, self._vertices.depth[np.array(leaf_vertices, dtype=np.int64)] + 1)
        )
        self._jobs = slice(count, count + len(view.jobs))
        self._longest = max((len(path) for path in self._vertices.of_queue.values()), default=0)

    def key(self, queue: Queue) -> tuple[float, ...]:
        """Saturation and share by weight of each step of the queue's path; the smallest goes first."""
        share, saturated = self._shares()
        path = self._vertices.of_queue[queue.name]
        keys = [k for v in path for k in (float(saturated[v]), float(share[v] / self._weight[v]))]
        return (*keys, *[0.0] * (2 * self._longest - len(keys)))  # one length, or keys of other plugins would mix in

    def _corrected(self, view: CycleView) -> Floats:
        """The weights of all vertices, corrected by what was used below them where the profile remembers it."""
        fair = view.usage
        vertices = self._vertices
        if fair is None or not fair.rules.between_queues:
            return vertices.weight
        used = np.zeros(len(vertices.parent))
        active = np.zeros(len(vertices.parent), dtype=np.int64)
        for queue in view.queues.values():
            last = vertices.of_queue[queue.name][-1:]
            used[list(last)] += float(fair.used_by(queue.name))
            active[list(last)] |= fair.standing(queue.name) is not None
        corrections = fair.corrections(vertices.parent, vertices.weight, used, active)
        corrected: Floats = vertices.weight * corrections
        return corrected

    def _shares(self) -> tuple[Floats, Bools]:
        """Share and saturation of every vertex and job, from the jobs upwards."""
        held_by_vertex = np.zeros((len(self._some), len(self._parent)))
        held_by_vertex[:, self._jobs] = self._held[self._some]
        share = np.zeros(len(self._parent))
        saturated = np.ones(len(self._parent), dtype=bool)
        saturated[self._jobs] = self._saturated()
        for depth in range(int(self._depth.max(initial=0)), -1, -1):
            vertices_of_depth = np.flatnonzero(self._depth == depth)
            share[vertices_of_depth] = (held_by_vertex[:, vertices_of_depth] / self._total).max(axis=0, initial=0.0)
            if depth:
                self._raise(vertices_of_depth, held_by_vertex, share, saturated)
        return share, saturated

    def _raise(self, vertices: Ints, held_by_vertex: Floats, share: Floats, saturated: Bools) -> None:
        """Count the vertices of one depth towards their parents."""
        np.logical_and.at(saturated, self._parent[vertices], saturated[vertices])
        sharing = vertices[share[vertices] > 0]
        hungry = sharing[~saturated[sharing]]
        lowest_share = np.ones(len(self._parent))
        np.minimum.at(lowest_share, self._parent[hungry], share[hungry])
        scale = np.where(saturated[sharing], 1.0, lowest_share[self._parent[sharing]] / share[sharing])
        np.add.at(held_by_vertex.T, self._parent[sharing], (held_by_vertex[:, sharing] * scale).T)

    def _saturated(self) -> Bools:
        held_by_job = self._held[self._some]
        full = (held_by_job > 0) & (self._asked > 0) & (held_by_job >= self._asked)
        gone = (held_by_job.sum(axis=1) >= self._total[:, 0])[:, None] & (self._asked > 0)
        result: Bools = (full | gone).any(axis=0)
        return result


def _asked(view: CycleView) -> Ints:
    """What each job asks for in all, running tasks included, (resources x jobs)."""
    result = np.zeros((len(view.axis), len(view.jobs)), dtype=np.int64)
    for job in view.jobs:
        for sub in job.subs:
            result[:, job.number] += sub.request
    return result


def _vertices(queues: Sequence[Queue]) -> _Vertices:
    """The steps of all paths; a queue without a path is directly below the root, with its own weight."""
    numbers: dict[tuple[str, ...], int] = {(): 0}
    parent = [-1]
    depth = [0]
    weight = [1.0]
    of_queue: dict[str, tuple[int, ...]] = {}
    for queue in queues:
        steps, weights = _path(queue)
        path = []
        for i in range(1, len(steps) + 1):
            number = numbers.get(steps[:i])
            if number is None:
                number = numbers[steps[:i]] = len(parent)
                parent.append(numbers[steps[: i - 1]])
                depth.append(i)
                weight.append(weights[i - 1])  # who names a step first gives its weight
            path.append(number)
        of_queue[queue.name] = tuple(path)
    return _Vertices(np.array(parent), np.array(depth), np.array(weight), of_queue)


def _path(queue: Queue) -> tuple[tuple[str, ...], list[float]]:
    """The steps below the root and their weights; a weight that is missing, unreadable or below 1 is 1."""
    if not queue.hierarchy:
        return (queue.name,), [float(max(1, queue.weight))]
    steps = queue.hierarchy.split("/")
    weights = [_weight(text) for text in queue.hierarchy_weights.split("/")]
    if steps[0] == _TOP:
        steps = steps[1:]
        weights = weights[1:]
    weights += [1.0] * (len(steps) - len(weights))
    if steps:
        return (tuple(steps), weights)
    return ((queue.name,), [1.0])


def _weight(text: str) -> float:
    try:
        return max(1.0, float(text))
    except ValueError:
        return 1.0
