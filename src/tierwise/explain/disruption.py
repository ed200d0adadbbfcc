"""What is lost where running pods go: pods that restart, gangs that fall below a minimum, and work that was not saved.

`what-if`, `drainable` and the pages weigh evictions and drains with it. Pure: one snapshot, nothing is run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.natural import natural
from tierwise.api.plurals import count, several
from tierwise.explain.naming import full_name
from tierwise.explain.usage import scarce
from tierwise.framework.ledger import Ledger, job_ready
from tierwise.model.arrays import CPU, distinct
from tierwise.model.job import Job, Status, Task
from tierwise.model.running import running_table
from tierwise.model.snapshot import Snapshot

__all__ = [
    "Drain",
    "DrainTime",
    "Drainable",
    "Loss",
    "Losses",
    "broken",
    "drainable_wire",
    "hours",
    "losses_wire",
    "lost_text",
    "lost_work_text",
]


class Loss(
    msgspec.Struct,
    frozen=True,
    rename={
        "job": "podGroup",
        "pods": "podsRestarting",
        "running": "podsRunning",
        "below": "belowMinimum",
        "seconds": "acceleratorSecondsLost",
    },
):
    """What the going of some of its pods costs one job."""

    job: str  # namespace/name; the pod's own, where it is in no group
    name: str  # as people call it
    pods: int  # that go
    running: int  # that run now
    minimum: int
    below: bool  # what is left is less than a minimum of it, so that all of its work stops
    seconds: int  # times accelerators (cores, where nodes have none): work since its last checkpoint, and its restart
    growth: float = 0.0  # of these, by every second that it runs on without a checkpoint


def broken(losses: Iterable[Loss]) -> int:
    """How many gangs fall below a minimum; pods by themselves are none."""
    return sum(loss.below and loss.running > 1 for loss in losses)


def hours(losses: Iterable[Loss]) -> float:
    """Accelerator-hours that are lost."""
    return sum(loss.seconds for loss in losses) / 3600


class Losses:
    """What going pods cost, in one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.resource = scarce(snapshot)
        self.unit = "core-hour" if self.resource == CPU else "accelerator-hour"
        self._snapshot = snapshot
        self._ledger = Ledger(snapshot)
        self._running = running_table(snapshot)
        self._others = {task.key: task for task in snapshot.others if _runs(task)}
        self._saved: dict[int, float] = {}

    def ready(self, job: Job) -> bool:
        """Whether every minimum of a job is met now, by pods that run."""
        return any(_runs(task) for task in job.tasks) and job_ready(self._ledger, job)

    def of(self, pods: Collection[str]) -> tuple[Loss, ...]:
        """By job, those that fall below a minimum first, and of these those that lose most."""
        positions = sorted(self._running.position[pod] for pod in pods if pod in self._running.position)
        victims = np.array(positions, dtype=np.int64)
        jobs = [self._snapshot.jobs[number] for number in distinct(self._running.job[victims]).tolist()]
        below: set[str] = set()
        if jobs:
            before = [job for job in jobs if job_ready(self._ledger, job)]
            with self._ledger.statement():
                self._ledger.evict(self._running, victims)
                below = {job.key for job in before if not job_ready(self._ledger, job)}
        going = {self._running.tasks[position].key for position in positions}
        losses = [self._of_job(job, going, below=job.key in below) for job in jobs]
        for pod in pods:
            if pod in self._others:
                seconds = self._seconds(self._others[pod], None)
                growth = self._accelerators(self._others[pod])
                losses.append(Loss(pod, pod, 1, 1, 1, True, round(seconds), growth))
        return tuple(sorted(losses, key=lambda loss: (not loss.below, -loss.seconds, -loss.pods, natural(loss.name))))

    def whole(self, job: Job) -> int:
        """Accelerator-seconds that a job loses where it falls below a minimum."""
        return round(sum(self._seconds(task, job) for task in job.tasks if _runs(task)))

    def each(self, pod: str) -> float:
        """Accelerator-seconds that one pod loses by itself."""
        position = self._running.position.get(pod)
        if position is None:
            if pod in self._others:
                return self._seconds(self._others[pod], None)
            return 0.0
        job = self._snapshot.jobs[int(self._running.job[position])]
        return self._seconds(self._running.tasks[position], job)

    def _of_job(self, job: Job, going: Collection[str], *, below: bool) -> Loss:
        running = [task for task in job.tasks if _runs(task)]
        pods = [task for task in running if task.key in going]
        lost = running if below else pods
        seconds = round(sum(self._seconds(task, job) for task in lost))
        growth = sum(map(self._accelerators, lost))
        return Loss(job.key, full_name(job), len(pods), len(running), job.minimum, below, seconds, growth)

    def _accelerators(self, task: Task) -> float:
        """Accelerators, or cores, of a task whose work is counted."""
        index = self._snapshot.axis.index.get(self.resource)
        amount = int(task.shape.request[index]) if index is not None and (task.started or task.created) else 0
        return amount / (1000 if self.resource == CPU else 1)

    def _seconds(self, task: Task, job: Job | None) -> float:
        amount = self._accelerators(task)
        begun = task.started or task.created
        if not amount or not begun:
            return 0.0
        saved = task.checkpointed
        restart = 0.0
        if job is not None:
            if job.number not in self._saved:
                self._saved[job.number] = job.saved
            saved = self._saved[job.number]
            restart = job.terms.restart_cost if job.terms is not None else 0.0
        lost = max(0.0, self._snapshot.now - max(begun, saved)) + restart
        return lost * amount


def _runs(task: Task) -> bool:
    return task.status is Status.RUNNING and task.node >= 0


def losses_wire(losses: Collection[Loss], back: Mapping[str, str] | None = None) -> Raw:
    """Lost work as JSON. `back` says for how long jobs are below their minimum."""
    jobs: list[Raw] = []
    for loss in losses:
        wire: dict[str, Any] = msgspec.to_builtins(loss)
        del wire["name"], wire["acceleratorSecondsLost"], wire["growth"]
        until = (back or {}).get(loss.job, "")
        jobs.append({**wire, "acceleratorHoursLost": round(loss.seconds / 3600, 3), "back": until})
    pods = sum(loss.pods for loss in losses)
    return {"pods": pods, "gangsBroken": broken(losses), "acceleratorHoursLost": round(hours(losses), 3), "jobs": jobs}


def lost_text(losses: Collection[Loss], unit: str) -> str:
    """What is lost, in a few words: "breaks 1 gang and loses 12 accelerator-hours"."""
    gangs = broken(losses)
    texts = [f"breaks {count(gangs, 'gang')}" if gangs else "breaks no gang", lost_work_text(losses, unit)]
    return " and ".join(filter(None, texts))


def lost_work_text(losses: Collection[Loss], unit: str) -> str:
    """The work that is lost: "loses 12 accelerator-hours"; "" where it is next to none."""
    lost = hours(losses)
    if lost < 0.05:
        return ""
    shown = f"{lost:,.0f}" if lost >= 10 else f"{lost:.1f}"
    return f"loses {shown} {unit}{'' if shown == '1' else 's'}"


# -- drains


class DrainTime(msgspec.Struct, frozen=True):
    """A time at which a node or a domain is drained, if nobody starts there before: what would be left to break."""

    at: float
    pods: int
    gangs: int
    hours: float
    window: str = ""  # that is open then

    @property
    def measure(self) -> tuple[object, ...]:
        """The costs, the worst first; of two times that are alike the earlier one is less."""
        return self.gangs, round(self.hours, 3), self.pods, self.at


class Drain(msgspec.Struct, frozen=True):
    """What it costs to drain a node or a domain, or several of them at once."""

    names: tuple[str, ...]
    nodes: int
    pods: int  # that run there, those of daemons left out
    losses: tuple[Loss, ...]
    gone: tuple[str, ...]  # pods that nothing starts again
    empty_at: float | None  # when all that runs there has ended by itself, where that is known
    waits: tuple[str, ...] | None = None  # jobs that run now and would not find a place again; None: not tried
    cheapest: DrainTime | None = None  # where a later time than now is cheaper
    windows: tuple[str, ...] = ()  # that close some of its nodes, with the times between which they do

    @property
    def measure(self) -> tuple[object, ...]:
        """Sort key of a drain: the one that breaks and loses least comes first."""
        worst = len(self.waits) if self.waits is not None else 0
        return worst, broken(self.losses), hours(self.losses), len(self.gone), self.pods, natural(self.names[0])


class Drainable(msgspec.Struct, frozen=True):
    """All that were asked about, the cheapest first."""

    kind: str  # "node", or the name of the tier
    unit: str
    now: float
    drains: tuple[Drain, ...]
    together: Drain | None = None  # the cheapest set of so many that leaves all jobs a place
    asked: int = 0  # how many were to go together

    @property
    def nouns(self) -> tuple[str, str]:
        """The word for one drain and for several: node, rack, or domain where a tier has no name."""
        if self.kind.startswith("tier "):
            return f"domain of {self.kind}", f"domains of {self.kind}"
        return self.kind, several(self.kind)


def drainable_wire(drainable: Drainable) -> Raw:
    """The answer for programs."""
    return {
        "kind": drainable.kind,
        "unit": f"{drainable.unit}s",
        "drains": [_wire(drain) for drain in drainable.drains],
        "togetherAsked": drainable.asked,
        "together": _wire(drainable.together) if drainable.together is not None else None,
    }


def _time_wire(time: DrainTime) -> Raw:
    return {
        "at": format_time(time.at),
        "pods": time.pods,
        "gangsBroken": time.gangs,
        "hoursLost": round(time.hours, 3),
        "window": time.window or None,
    }


def _wire(drain: Drain) -> Raw:
    jobs: list[Raw] = [
        {"podGroup": loss.job, "podsRestarting": loss.pods, "podsRunning": loss.running, "belowMinimum": loss.below}
        for loss in drain.losses
    ]
    return {
        "names": list(drain.names),
        "nodes": drain.nodes,
        "pods": drain.pods,
        "gangsBroken": broken(drain.losses),
        "hoursLost": round(hours(drain.losses), 3),
        "podsGone": list(drain.gone),
        "waits": list(drain.waits) if drain.waits is not None else None,
        "emptyAt": format_time(drain.empty_at) if drain.empty_at is not None else None,
        "cheapest": _time_wire(drain.cheapest) if drain.cheapest is not None else None,
        "windows": list(drain.windows),
        "jobs": jobs,
    }
