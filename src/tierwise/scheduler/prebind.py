"""The step between placement and bind: objects to write first, and actions of others to wait for.

Plugins report it per task (`PreBind`); this module decides per gang. Writes become effects before the binds. If
another component must act on them first, such as a provisioner of volumes, the gang is nominated, so that its
resources stay reserved, and the next cycle checks again; nothing blocks. All state is in the objects, so it survives a
restart.

A gang is bound only when nothing that its minimum needs is outstanding; if a part fails, all of it is undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tierwise.api.plurals import of
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preparation
from tierwise.framework.ledger import job_ready
from tierwise.framework.report import Decision, PlacedTasks
from tierwise.model.job import Job, Reason, Rejection

if TYPE_CHECKING:
    from tierwise.port import Key, Prepare

__all__ = ["prepare"]

_CLAIMS: Final = ("PersistentVolumeClaim", "ResourceClaim")
_Said = dict[str, list[Preparation]]
"""What plugins say, by the key of the task."""


def prepare(cycle: Cycle) -> None:
    """Ask about every task that this cycle would bind, and put what comes of it on the report."""
    if not cycle.pipeline.before_bind:
        return
    report = cycle.report
    writes: list[Prepare] = _taken_back(cycle)
    by_job: dict[str, tuple[list[Decision], _Said]] = {}
    preparations: list[tuple[str, Preparation]] = []  # by the key of the job
    for decision in report.decisions:  # who was placed first says for which node a volume is made
        if decision.bound:
            key = decision.job.key
            decisions, answers_of_job = by_job.setdefault(key, ([], {}))
            decisions.append(decision)
            answers = _ask(cycle, decision)
            answers_of_job |= answers
            for task_answers in answers.values():
                preparations += ((key, preparation) for preparation in task_answers)
    settled: dict[str, list[Decision] | None] = {}
    for key, (decisions, answers_of_job) in by_job.items():
        if answers_of_job:
            settled[key] = _settle(cycle, decisions, answers_of_job)
    # In the order of asking, whatever the job: a claim is written with all who had it before.
    for key, preparation in preparations:
        writes += preparation.writes if settled[key] is not None else preparation.undo
    report.writes = tuple(_each_once(writes))
    if settled:
        report.decisions = _with_settled(report.decisions, settled)


def _with_settled(decisions: Iterable[Decision], settled: Mapping[str, list[Decision] | None]) -> list[Decision]:
    """All decisions, those that bind settled jobs replaced by what was settled, which comes last."""
    kept = [decision for decision in decisions if not decision.bound or decision.job.key not in settled]
    for decisions_of_job in settled.values():
        kept += decisions_of_job or []
    return kept


def _taken_back(cycle: Cycle) -> list[Prepare]:
    """Writes that undo those of earlier cycles for tasks without a place in this one, so that others may use their
    resources.
    """
    placed = {t.key for d in cycle.report.decisions for placed in d.placed for t in placed.tasks}
    undo_writes: list[Prepare] = []
    if all(shape.volumes is None and shape.devices is None for shape in cycle.snapshot.shapes):
        return undo_writes  # as on most clusters
    for job in cycle.snapshot.jobs:
        for task in job.tasks:
            devices = task.shape.devices
            if (task.volume_claims or (devices is not None and devices.binding)) and task.key not in placed:
                for preparation in cycle.pipeline.before_bind(job, [(task, -1)]).get(task.key, ()):
                    _count(cycle, preparation.failed, preparation.undo)
                    undo_writes += preparation.undo
    return undo_writes


def _count(cycle: Cycle, failed: Reason | None, undone: Iterable[Prepare]) -> None:
    """Note the claims whose volume or devices did not come to be, and are taken back."""
    if failed is not None:
        cycle.report.undone |= {write.key: failed.code for write in undone if write.key.kind in _CLAIMS}


def _ask(cycle: Cycle, decision: Decision) -> _Said:
    answers: _Said = {}
    for placed in decision.placed:
        tasks = zip(placed.tasks, placed.rows.tolist(), strict=True)
        answers |= cycle.pipeline.before_bind(decision.job, tasks)
    return answers


def _settle(cycle: Cycle, decisions: list[Decision], answers: _Said) -> list[Decision] | None:
    """Decisions about one job after its preparation; None if everything prepared for it is undone."""
    job = decisions[0].job
    report = cycle.report
    every = []
    for task_answers in answers.values():
        every.extend(task_answers)
    failed = next((preparation.failed for preparation in every if preparation.failed is not None), None)
    if failed is not None:
        report.rejections[job.key] = Rejection("bind", job.key, failed)
        _count(cycle, failed, [write for preparation in every for write in preparation.undo])
        return None
    waiting = {key for key, task_answers in answers.items() if _some_wait(task_answers)}
    if not waiting:
        return decisions
    report.rejections[job.key] = _waits(job, waiting, every, sum(decision.count() for decision in decisions))
    ends = [preparation.until for preparation in every if preparation.until is not None]
    if ends:
        report.delays[job.key] = min(ends)
    if cycle.pipeline.gangs and not _whole_without(cycle, decisions, waiting):
        return [replace(decision, bound=False) for decision in decisions]
    return _parted(decisions, waiting)


def _some_wait(preparations: Iterable[Preparation]) -> bool:
    return any(preparation.waits is not None for preparation in preparations)


def _parted(decisions: Iterable[Decision], waiting: set[str]) -> list[Decision]:
    """Decisions that bind all tasks but the waiting ones, and keep the places of these."""
    parted: list[Decision] = []
    for decision in decisions:
        ready = tuple(_some(placed, waiting, those=False) for placed in decision.placed)
        waiting_part = tuple(_some(placed, waiting, those=True) for placed in decision.placed)
        parted += [replace(decision, placed=ready), replace(decision, placed=waiting_part, bound=False)]
    return [decision for decision in parted if decision.count()]


def _waits(job: Job, waiting: set[str], every: list[Preparation], placed: int) -> Rejection:
    reasons = dict.fromkeys(preparation.waits for preparation in every if preparation.waits is not None)
    first_reason: Reason = next(iter(reasons))
    if placed == 1:
        return Rejection("bind", job.key, first_reason)
    text = f"{of(len(waiting), placed, 'pod', 'waits', 'wait')}: {first_reason.text}"
    return Rejection("bind", job.key, replace(first_reason, text=text))


def _whole_without(cycle: Cycle, decisions: list[Decision], waiting: set[str]) -> bool:
    """Whether a job has its minimum without the tasks that wait."""
    ledger = cycle.ledger
    job = decisions[0].job
    numbers = {name: (number,) for number, name in job.role_names.items()}
    with ledger.statement():
        for decision in decisions:
            for placed in decision.placed:
                for task in placed.tasks:
                    if task.key in waiting and not job.backfills(task.shape):  # those were counted before
                        ledger.count_ready(placed.sub, numbers.get(task.role, ()), -1)
        return job_ready(ledger, job)


def _some(placed: PlacedTasks, waiting: set[str], *, those: bool) -> PlacedTasks:
    indexes = [i for i, task in enumerate(placed.tasks) if (task.key in waiting) is those]
    return replace(placed, tasks=tuple(placed.tasks[i] for i in indexes), rows=placed.rows[indexes])


def _each_once(writes: list[Prepare]) -> list[Prepare]:
    """Pods that share a claim ask for the same write."""
    by_key: dict[Key, list[Prepare]] = {}
    for write in writes:
        writes_of_key = by_key.setdefault(write.key, [])
        if write not in writes_of_key:
            writes_of_key.append(write)
    return [write for writes_of_key in by_key.values() for write in writes_of_key]
