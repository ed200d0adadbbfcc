"""The log of a simulated cluster: effects that were applied, and phases that changed.

`Simulation` passes everything in order; the command line decides how to show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tierwise.api.core import Pod
from tierwise.api.volcano import Job, PodGroup
from tierwise.dialects.pod_marks import role_of
from tierwise.dialects.volcano.job import defaulted
from tierwise.explain.job_location import job_location
from tierwise.explain.naming import ObjectNames, decision_title, sub_id
from tierwise.explain.page import count
from tierwise.explain.ranges import compact
from tierwise.explain.timeline import TimelineEntry
from tierwise.framework.report import CycleReport, Decision
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT
from tierwise.port import Bind, Create, Delete, Effect, Evict, Key, Nominate, Objects, RecordEvent, key_of, key_of_raw
from tierwise.scheduler.effects import pod_key

__all__ = ["EventLog"]

_GROUP = "scheduling.volcano.sh"
_QUIET = ("Scheduled", "Gone", "PodGroupPending")
_STATES = ("Unschedulable", "UnknownTierName", "PodGroupPending")
_SHOWN = ("Pod", "Job")


class EventLog:
    """Everything that happened so far, in order."""

    def __init__(self, start: float) -> None:
        self.start = start
        self.events: list[TimelineEntry] = []
        self.places: dict[str, str] = {}  # the hyperNode where each pod group was last placed
        self._said: dict[tuple[Key, str], str] = {}
        self._waiting: set[Key] = set()

    def effects(self, done: Sequence[Effect], before: Objects, after: Objects, now: float) -> None:
        """Note what was carried out between two states of the cluster, and the phases that differ between them."""
        for effect in done:
            self.events += filter(self._news, self._of_effect(effect, before, after, now - self.start))
        self.events += self._phases(before, after, now - self.start)

    def _news(self, entry: TimelineEntry) -> bool:
        """Whether this happened, or, where it says how things stand, whether they stand otherwise than before."""
        if entry.reason not in _STATES:
            return True
        about = entry.about, entry.reason
        previous, self._said[about] = self._said.get(about), entry.text
        return previous != entry.text

    def cycle(self, snapshot: Snapshot, report: CycleReport, now: float) -> None:
        """Note where a cycle placed what."""
        news = [decision for decision in report.decisions if decision.bound or not _was_nominated(snapshot, decision)]
        names = ObjectNames(snapshot.jobs if news else ())
        self.events += [self._placed(snapshot, decision, names, now - self.start) for decision in news]

    def _placed(self, snapshot: Snapshot, decision: Decision, names: ObjectNames, at: float) -> TimelineEntry:
        job = decision.job
        namespace, _, name = job.key.partition("/")
        about = Key(_GROUP, "PodGroup", namespace, name)
        if job.lone:
            about = pod_key(decision.placed[0].tasks[0].key)
        self._waiting.discard(about)
        if decision.bound and decision.domain != ROOT:
            self.places[job.key] = snapshot.topology.name[decision.domain]
        word = "bound" if decision.bound else "nominated: room is kept"
        text = f"{count(decision.count(), 'pod')} {word} in {decision_title(snapshot, decision)}"
        if job.lone:
            rows = []
            for placed in decision.placed:
                rows.extend(placed.rows.tolist())
            text = f"{word} on {compact(snapshot.nodes.names[row] for row in rows)}"
        location = job_location(snapshot, job, [decision])
        touched = {sub_id(placed.sub) for placed in decision.placed}
        subs: dict[str, list[str]] = {}
        for sub, place in location.subs.items():
            if place is not None and sub in touched:
                subs.setdefault(place.name, []).append(sub)
        if subs:
            text += ": " + ", ".join(f"{compact(named)} in {domain}" for domain, named in subs.items())
        return TimelineEntry(at, about, "Placed", text, job=names.of(job))

    def _of_effect(self, effect: Effect, before: Objects, after: Objects, at: float) -> Iterator[TimelineEntry]:
        match effect:
            case Create(raw):
                key = key_of_raw(raw)
                if key.kind in _SHOWN:
                    yield self._pod(after, key, at, "Created", "")
            case Bind(pod, node):
                yield self._pod(after, pod, at, "Bound", f"to node {node}", detail=True)
            case Nominate(pod, node):
                text = f"node {node} is kept for it" if node else "no node is kept for it any more"
                yield self._pod(after, pod, at, "Nominated", text, detail=True)
            case Evict(pod, reason, by, action):
                cause = f"by {action} for {by}: {reason}" if by else f"by {action}: {reason}"
                yield self._pod(before, pod, at, "Evicted", cause, warning=True)
            case Delete(key) if key.kind == "Pod":
                yield self._pod(before, key, at, "Killing", "told to stop" if after.record(key) else "deleted")
            case RecordEvent(about, kind, reason, text):
                objects = before if before.record(about) is not None else after
                quiet = reason in _QUIET or self._waits_still(about, reason)
                warning = kind == "Warning"
                yield self._pod(objects, about, at, reason, text, detail=quiet, warning=warning)
            case _:
                return

    def _waits_still(self, group: Key, reason: str) -> bool:
        """Whether a group has waited since it was last placed; further reasons are then shown in full detail only."""
        if reason != "Unschedulable" or group in self._waiting:
            return reason == "Unschedulable"
        self._waiting.add(group)
        return False

    def _pod(
        self,
        objects: Objects,
        key: Key,
        at: float,
        reason: str,
        text: str,
        *,
        warning: bool = False,
        detail: bool = False,
    ) -> TimelineEntry:
        """An event about a pod, with the job that it is of; or about anything else, with what it is called."""
        record = objects.record(key)
        if isinstance(record, PodGroup):
            return TimelineEntry(at, key, reason, text, warning, job=_called(record), detail=detail)
        job = role = ""
        if isinstance(record, Pod):
            job = record.metadata.annotations.get("volcano.sh/job-name", "")
            role = role_of(record) if job else ""
        return TimelineEntry(at, key, reason, text, warning, job, role, detail)

    def _phases(self, before: Objects, after: Objects, at: float) -> Iterator[TimelineEntry]:
        old = before.every(PodGroup)
        new = after.every(PodGroup)
        for path in after.changes(before, PodGroup):
            if path in new:
                group = new[path]
                past = old[path].status.phase if path in old else ""
                present = group.status.phase
                if present and present != past:
                    lone = any(owner.kind == "Pod" for owner in group.metadata.owner_references)
                    yield TimelineEntry(
                        at, key_of(group), "Phase", _turned(past, present), job=_called(group), detail=lone
                    )
        jobs_before = before.every(Job)
        jobs = after.every(Job)
        for path in after.changes(before, Job):
            if path in jobs:
                job = jobs[path]
                was = jobs_before.get(path)
                past = was.status.state.phase if was is not None else ""
                present = job.status.state.phase
                if present and present != past:
                    yield TimelineEntry(at, key_of(job), "Phase", _turned(past, present), warning=present == "Failed")
                retries = job.status.retry_count
                if retries and (was is None or retries > was.status.retry_count):
                    retry_limit = defaulted(job).spec.max_retry
                    yield TimelineEntry(at, key_of(job), "Retry", f"retry {retries} of {retry_limit}", warning=True)


def _turned(past: str, present: str) -> str:
    return f"{past} → {present}" if past else present


def _called(group: PodGroup) -> str:
    owner = next((reference for reference in group.metadata.owner_references if reference.controller), None)
    if owner is not None:
        return owner.name
    return group.metadata.name


def _was_nominated(snapshot: Snapshot, decision: Decision) -> bool:
    """Whether the same nodes were kept for a gang before: that is no news."""
    return all(task.nominated == snapshot.nodes.number[row] for task, row in decision.places())
