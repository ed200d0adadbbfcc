"""Gangs of which only a part was bound: found, marked with the time, and released where the rest finds no place.

A bind may fail, and a scheduler may die half-way. Every cycle places what is missing beside what stands, so a part of a
gang is normally whole a moment later. Where it is not after some time, what stands is evicted: it would hold room for
nothing. A gang that was whole once and has lost pods since is not meant: that is for its policies and its replacements.

The mark is an annotation of the pod group, so a restart goes on where the last process stopped. Pods that nobody would
make anew are left alone, and people are told.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from tierwise.api.core import Pod
from tierwise.api.meta import parse_time
from tierwise.api.volcano import PodGroup
from tierwise.framework.ledger import Ledger
from tierwise.framework.report import CycleReport
from tierwise.framework.standing import job_ready
from tierwise.model.job import Job, Phase, Status
from tierwise.model.snapshot import Snapshot
from tierwise.port import Effect, Evict, Key, Objects, PatchStatus, RecordEvent

__all__ = ["PARTIAL", "PATIENCE", "release"]

PARTIAL: Final = "tierwise.io/partial-since"
"""Since when a gang that was never whole has had some of its pods bound; "" where it no longer is so."""

PATIENCE: Final = 60.0
"""Seconds that the rest of a gang has to find a place."""

_NEVER_WHOLE: Final = (Phase.PENDING, Phase.INQUEUE)
_GROUP: Final = "scheduling.volcano.sh"


def release(objects: Objects, snapshot: Snapshot, report: CycleReport) -> list[Effect]:
    """Marks to set and to take away, and pods of marked gangs to evict."""
    groups = objects.every(PodGroup)
    partial = [(job, group) for job in snapshot.jobs if (group := groups.get(job.key)) and _in_question(job, group)]
    if not partial:
        return []
    ledger = Ledger(snapshot)
    pods = objects.every(Pod)
    effects: list[Effect] = []
    for job, group in partial:
        standing = [pods[task.key] for task in job.tasks if task.status is Status.RUNNING and task.key in pods]
        mark = group.metadata.annotations.get(PARTIAL, "")
        if not standing or job_ready(ledger, job):
            effects += [PatchStatus(_key(job), {}, {PARTIAL: ""})] if mark else []
        elif not mark:
            effects.append(PatchStatus(_key(job), {}, {PARTIAL: _stamp(snapshot.now)}))
        elif job.key in report.rejections and snapshot.now - parse_time(mark) >= PATIENCE:
            effects += _evict(job, standing)
    return effects


def _in_question(job: Job, group: PodGroup) -> bool:
    """Marked, or never whole so far although some of its pods stand."""
    if group.metadata.annotations.get(PARTIAL):
        return True
    return job.phase in _NEVER_WHOLE and any(task.status is Status.RUNNING for task in job.tasks)


def _evict(job: Job, standing: list[Pod]) -> Iterator[Effect]:
    text = f"a part of gang {job.key} was bound, and the rest has found no place for {PATIENCE:.0f} seconds"
    alone = 0
    for pod in standing:
        if any(owner.controller for owner in pod.metadata.owner_references):
            key = Key("", "Pod", pod.metadata.namespace or "default", pod.metadata.name)
            yield Evict(key, text, job.key, "release")
        else:
            alone += 1
    if alone:
        left = f"{text}; {alone} pods stay where they are, because nothing would make them anew"
        yield RecordEvent(_key(job), "Warning", "PartOfGangStands", left)


def _key(job: Job) -> Key:
    namespace, _, name = job.key.partition("/")
    return Key(_GROUP, "PodGroup", namespace, name)


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
