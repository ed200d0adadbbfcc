"""One line for each job: its identity, counts of its pods, its domain, and the sentence that says why it waits.

A page asks for some of them at a time: by words, state, queue and verdict, in an order of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from tierwise.api.codec import Raw
from tierwise.api.natural import natural
from tierwise.explain.board.pods import BoardPod, PodState, is_single
from tierwise.explain.board.tree import BoardTree
from tierwise.explain.message import decisive, refusal
from tierwise.explain.naming import ObjectNames, full_name
from tierwise.explain.text.schedule import Run
from tierwise.explain.wire import why_waiting
from tierwise.model.job import Job, Status, Task
from tierwise.model.snapshot import Snapshot

__all__ = ["JobQuery", "Line", "by_job", "job_lines", "jobs_wire", "selected"]

_MOST: Final = 500
"""Jobs of one answer; a page asks again for those that follow."""

_REASONS: Final = 12
"""Reasons of one answer, and jobs that are told of with each."""

Standing = dict[str, list[BoardPod]]


class Line(msgspec.Struct, frozen=True, rename={"hyper_nodes": "hyperNodes"}):
    """One job; amounts are lists in the order of the shown resources."""

    key: str
    path: str  # how links name it
    name: str
    lone: bool
    queue: str
    priority: int
    created: float
    phase: str
    minimum: int
    pods: int  # that hold their rows
    new: int
    leaving: int
    kept: int  # that wait until resources are released, or until what was decided is carried out
    waiting: int  # that have no place
    used: list[int]
    asks: list[int]
    hyper_nodes: list[int]  # the innermost of each tree that holds its pods; -1 where none runs
    verdict: str  # of what waits
    reason: str
    decisive: str  # its shortest sentence
    message: str
    expected: str = ""  # what was last said of its start, where it waits

    @property
    def waits(self) -> bool:
        """Whether some of its pods have no place, or one that is only kept for them."""
        return bool(self.waiting or self.kept)


class JobQuery(msgspec.Struct, frozen=True):
    """Which jobs a page wants to list; what is empty selects nothing away."""

    text: str = ""  # words that must all be found in a job's name, queue, phase, verdict, reason or message
    state: str = ""  # "waiting" or "running"
    queue: str | None = None
    verdict: str = ""
    reason: str = ""
    sort: str = ""  # a column, with "-" before it from the largest down; empty for the order of `job_lines`
    offset: int = 0
    limit: int = 60
    first: int = 0  # with each reason so many of its jobs, those that wait longest, for pages that list by reason


SORTS: Final[Mapping[str, Callable[[Line], object]]] = {
    "name": lambda line: natural(line.name),
    "queue": lambda line: natural(line.queue),
    "priority": lambda line: line.priority,
    "age": lambda line: -line.created,
    "pods": lambda line: line.pods + line.kept + line.waiting,
    "amount": lambda line: line.used[0] + line.asks[0],
    "verdict": lambda line: (line.verdict, line.reason),
}


def by_job(board_pods: Sequence[BoardPod]) -> Standing:
    """Pods by the key of their job."""
    pods_by_job: Standing = {}
    for stand in board_pods:
        pods_by_job.setdefault(stand.job.key, []).append(stand)
    return pods_by_job


def job_lines(run: Run, pods_by_job: Standing, tree: BoardTree) -> list[Line]:
    """The jobs that wait, by queue and age, then the others that hold something, the largest first."""
    jobs = run.after.jobs
    names = ObjectNames(jobs)
    shared = Counter(full_name(job) for job in jobs)
    waiting: list[tuple[Job, Line]] = []
    settled: list[tuple[Job, Line]] = []
    for job in jobs:
        path = full_name(job) if shared[full_name(job)] == 1 else job.key
        line = _line(run, job, pods_by_job.get(job.key, []), tree, called=(path, names.of(job)))
        if line.waits:
            waiting.append((job, line))
        elif line.pods:
            settled.append((job, line))
    waiting.sort(key=lambda pair: (pair[1].queue, pair[1].created, pair[0].order))
    settled.sort(key=lambda pair: (-pair[1].used[0], pair[0].order))
    return [line for _, line in (*waiting, *settled)]


def jobs_wire(lines: Sequence[Line]) -> Raw:
    """How many there are of each kind."""
    return {
        "count": len(lines),
        "running": sum(line.pods > 0 for line in lines),
        "waiting": sum(line.waits for line in lines),
        "podsRunning": sum(line.pods for line in lines),
        "podsWaiting": sum(line.waiting + line.kept for line in lines),
        "verdicts": dict(sorted(Counter(line.verdict for line in lines if line.waiting).items())),
    }


def selected(lines: Sequence[Line], query: JobQuery) -> Raw:
    """Some of the jobs that match, how many do, and how many of those that wait give which reason."""
    words = query.text.lower().split()
    matching = [line for line in lines if _matches(line, query, words)]
    key = SORTS.get(query.sort.lstrip("-"))
    if key is not None:
        matching.sort(key=key, reverse=query.sort.startswith("-"))  # type: ignore[arg-type]  # each yields its own type
    reasons: dict[tuple[str, str], list[Line]] = {}
    for line in matching:
        if line.waiting or (query.first and line.kept):
            reasons.setdefault((line.verdict, line.reason), []).append(line)
    commonest = sorted(reasons.items(), key=lambda item: -len(item[1]))[:_REASONS]
    part = matching[query.offset : query.offset + min(query.limit, _MOST)]
    return {
        "count": len(matching),
        "offset": query.offset,
        "reasons": [
            {"verdict": verdict, "reason": reason, "jobs": len(jobs), **_of_reason(jobs, query.first)}
            for (verdict, reason), jobs in commonest
        ],
        "list": [msgspec.to_builtins(line) for line in part],
    }


def _of_reason(lines: Sequence[Line], shown_jobs: int) -> Raw:
    """How many pods wait for a reason, since when, and the jobs that wait longest; nothing unless asked for."""
    if not shown_jobs:
        return {}
    oldest = sorted(lines, key=lambda line: line.created)
    return {
        "pods": sum(line.waiting + line.kept for line in lines),
        "since": oldest[0].created,
        "first": [msgspec.to_builtins(line) for line in oldest[: min(shown_jobs, _REASONS)]],
    }


def _matches(line: Line, query: JobQuery, words: Sequence[str]) -> bool:
    if (query.state == "waiting" and not line.waits) or (query.state == "running" and not line.pods):
        return False
    if query.queue is not None and line.queue != query.queue:
        return False
    if (query.verdict and line.verdict != query.verdict) or (query.reason and line.reason != query.reason):
        return False
    text = "\n".join((line.name, line.key, line.queue, line.phase, line.verdict, line.reason, line.message)).lower()
    return all(word in text for word in words)


def _line(run: Run, job: Job, board_pods: Sequence[BoardPod], tree: BoardTree, *, called: tuple[str, str]) -> Line:
    how = Counter(stand.how for stand in board_pods)
    holding = [stand for stand in board_pods if stand.holds]
    placed = {stand.task.key for stand in board_pods}
    idle = [t for t in job.tasks if t.status in (Status.PENDING, Status.GATED) and t.key not in placed]
    rejection = refusal(job, run.last)
    # A job whose pods are not made yet waits with its minimum.
    waiting = len(idle) or (job.minimum if rejection is not None and not job.tasks else 0)
    gated = bool(idle) and all(task.status is Status.GATED for task in idle)
    verdict, reason, text = why_waiting(job, rejection, gated=gated) if waiting else (None, "", "")
    short = decisive(rejection) if waiting and rejection is not None and not gated else text
    rows = np.array([stand.row for stand in board_pods], dtype=np.int64)
    return Line(
        key=job.key,
        path=called[0],
        name=called[1],
        lone=is_single(job),
        queue=job.queue,
        priority=job.priority,
        created=job.created,
        phase=job.phase.value,
        minimum=job.minimum,
        pods=len(holding),
        new=how[PodState.NEW],
        leaving=how[PodState.LEAVING],
        kept=how[PodState.KEPT],
        waiting=waiting,
        used=_amounts(run.after, [stand.task for stand in holding], tree.resources),
        asks=_amounts(run.after, idle, tree.resources),
        hyper_nodes=[t.topology.meet_rows(t.positions[rows]) if board_pods else -1 for t in tree.trees.values()],
        verdict=verdict.value if verdict is not None else "",
        reason=reason,
        decisive=short,
        message=text,
        expected=job.expected_start.text if waiting and job.expected_start is not None else "",
    )


def _amounts(snapshot: Snapshot, tasks: Sequence[Task], resources: Sequence[str]) -> list[int]:
    """Sum of the requests of tasks, resource by resource."""
    counts = Counter(task.shape.number for task in tasks)
    index = [snapshot.axis.index.get(name, -1) for name in resources]
    shapes = [(snapshot.shapes[number].request, times) for number, times in counts.items()]
    return [sum(int(request[i]) * times for request, times in shapes) if i >= 0 else 0 for i in index]
