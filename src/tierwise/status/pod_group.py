"""The status of pod groups after a cycle: phase, conditions, counts, chosen domains, events; only changes are written.

The only module that writes the status of a Volcano PodGroup; in Volcano that is the scheduler's task too. The caller
applies these effects after those of the scheduler.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator
from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.natural import natural
from tierwise.api.plurals import several
from tierwise.api.volcano import PodGroup, PodGroupStatus
from tierwise.controllers.workqueue import Index
from tierwise.dialects.language import NotOurs, loaded
from tierwise.dialects.languages import LANGUAGES
from tierwise.dialects.pod_marks import group_of
from tierwise.dialects.volcano.pod_group import previous_placements
from tierwise.explain.job_location import DomainLocation, job_location
from tierwise.explain.message import decision_id
from tierwise.framework.report import CycleReport, Decision
from tierwise.model.job import Job, Phase
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import HYPERNODES, Topology
from tierwise.port import HYPERNODE_ANNOTATION, SUB_GROUPS_ANNOTATION, Effect, Key, Objects, PatchStatus, RecordEvent
from tierwise.snapshot.run_history import history_effects
from tierwise.status.conditions import READY, GangOutcome, conditions, reservation_mark, unschedulable
from tierwise.status.fair_choice import FairChoice, untold

__all__ = ["NOT_RECORDED", "TIER_ANNOTATION", "UNKNOWN_TIER", "StatusWriter", "of_volcano", "statuses"]

# Annotations and not status: an API server drops fields of a status that Volcano's definition does not have.
TIER_ANNOTATION: Final = "tierwise.io/tier"
UNKNOWN_TIER: Final = "UnknownTierName"
"""The event of a limit by a tier name that no hyperNode has."""
NOT_RECORDED: Final = "SubGroupsNotRecorded"
"""The event of a group whose sub-groups are too many for their annotation."""
_LONGEST: Final = 100_000
"""Letters of an annotation: the API server takes no more than 256 KiB of them on an object."""
_GROUP: Final = "scheduling.volcano.sh"


def statuses(objects: Objects, snapshot: Snapshot, report: CycleReport) -> list[Effect]:
    """Status patches and events of the pod groups that a cycle changed, and of pods that plugins cannot serve."""
    return StatusWriter().write(objects, snapshot, report)


class StatusWriter:
    """Writes the statuses of pod groups after cycle and cycle; passes over those of which nothing is left to write."""

    def __init__(self) -> None:
        self._seen = Objects()
        self._pods = Index(Pod, lambda pod: group_of(pod) or None)
        self._topology: Topology | None = None
        self._told: dict[str, tuple[object, object]] = {}  # by job: what there was when nothing was left to write
        self._reserved: frozenset[str] = frozenset()  # whose reservations were last told
        self.choice = FairChoice()

    def write(
        self,
        objects: Objects,
        snapshot: Snapshot,
        report: CycleReport,
        without: Container[str] = frozenset(),
        limit: int | None = None,
    ) -> list[Effect]:
        """As `statuses`, of groups that have changed since they were last written, or that this cycle decided about.

        Nothing is said of the jobs in `without`: they come later. So do some of those that the cycle did not decide
        about, where they are more than `most`.
        """
        writer = _Writer(objects, snapshot, report, self._pods)
        decided = {*writer.decisions, *(eviction.job.key for eviction in report.evictions)}
        reserved = self._reserved
        self._reserved = frozenset([reservation.job.key for reservation in report.reservations])
        changed = self._changed(objects, snapshot, report, decided.union(report.phases, reserved, self._reserved))
        selected = self.choice.choose([job.key for job in changed], limit, decided, without)
        effects: list[Effect] = []
        for job in changed:
            effects_of_job = writer.effects(job) if job.key in selected else []
            effects += effects_of_job
            if job.key in selected and not any(isinstance(effect, PatchStatus) for effect in effects_of_job):
                self._told[job.key] = job.tasks, report.rejections.get(job.key)
            else:
                self._told.pop(job.key, None)
        return [
            *effects,
            *_complaints(snapshot, report),
            *history_effects(objects, snapshot),
            *_failed_starts(objects, snapshot),
            *_kept_places(objects, snapshot, report),
            *_usage(objects, snapshot, report),
        ]

    def write_some(
        self, objects: Objects, snapshot: Snapshot, report: CycleReport, whose: Collection[str]
    ) -> list[Effect]:
        """Effects for the podGroups of these jobs alone; all others come later."""
        if not whose:
            return []
        writer = _Writer(objects, snapshot, report, self._pods)
        return [e for job in snapshot.jobs if job.declared and job.key in whose for e in writer.effects(job)]

    def count(self, objects: Objects) -> list[Effect]:
        """The counts of groups whose pods have changed, for callers who know that all else of a status holds."""
        touched = self._pods.follow(objects.changed_objects(self._seen, Pod))
        self._seen = objects
        effects: list[Effect] = []
        for path in sorted(touched, key=natural):
            key = Key.at(_GROUP, "PodGroup", path)
            record = objects.record(key)
            differing = _counts(record.status, self._pods.of(path)) if isinstance(record, PodGroup) else {}
            if differing:
                effects.append(PatchStatus(key, differing))
        return effects

    def _changed(self, objects: Objects, snapshot: Snapshot, report: CycleReport, heard: Collection[str]) -> list[Job]:
        """The declared jobs whose status may have become another one."""
        changed = objects.changed_objects(self._seen)
        touched = self._pods.follow(changed)
        for kind, keys in changed.items():
            if kind is not Pod:
                touched.update([key.path for key in keys])
        if self._topology is not snapshot.topology:
            self._told = {}
        self._seen = objects
        self._topology = snapshot.topology

        # A job that is only numbered otherwise has the tasks that it had.
        due = touched.union(heard, untold(self._told, snapshot.jobs, report))
        return [
            job
            for job in snapshot.jobs
            if job.declared
            and (
                job.key in due
                or (job.gangs and not touched.isdisjoint(job.gangs))
                or (job.declared_by is not None and job.declared_by.path in touched)
            )
        ]


def _failed_starts(objects: Objects, snapshot: Snapshot) -> list[Effect]:
    if snapshot.start_memory is None:
        return []
    from tierwise.snapshot.failed_starts import failed_start_effects  # few profiles remember

    return failed_start_effects(objects, snapshot)


def _kept_places(objects: Objects, snapshot: Snapshot, report: CycleReport) -> list[Effect]:
    if snapshot.place_memory is None:
        return []
    from tierwise.snapshot.kept_places import kept_place_effects  # few profiles keep any

    return kept_place_effects(objects, snapshot, {eviction.task.key for eviction in report.evictions})


def _usage(objects: Objects, snapshot: Snapshot, report: CycleReport) -> list[Effect]:
    if snapshot.usage_memory is None:
        return []
    from tierwise.snapshot.usage import usage_effects  # few profiles remember

    return usage_effects(objects, snapshot, report.turns.usage)


def _complaints(snapshot: Snapshot, report: CycleReport) -> Iterator[Effect]:
    about = {task.key for task, _ in report.complaints}
    whose = {t.key: job.key for job in snapshot.jobs for t in job.tasks if t.key in about} if about else {}
    for task, reason in report.complaints:
        pod = Key.at("", "Pod", task.key)
        decision = decision_id(snapshot.now, whose[task.key])
        yield RecordEvent(pod, "Warning", reason.code, reason.told(pod.namespace), decision)


class _Writer:
    def __init__(self, objects: Objects, snapshot: Snapshot, report: CycleReport, pods: Index[Pod]) -> None:
        self._objects = objects
        self._snapshot = snapshot
        self._report = report
        self._pods = pods
        self._reserved = {reservation.job.key: reservation for reservation in report.reservations}
        self.decisions: dict[str, list[Decision]] = {}
        for decision in report.decisions:
            self.decisions.setdefault(decision.job.key, []).append(decision)

    def effects(self, job: Job) -> list[Effect]:
        """Effects on one group, in any language."""
        language = LANGUAGES.get(job.language)
        if language is None or isinstance(language.status, NotOurs):
            return []
        decisions_of_job = self.decisions.get(job.key, [])
        reserved = self._reserved.get(job.key)
        outcome = GangOutcome(self._objects, self._snapshot, self._report, self._pods, job, decisions_of_job, reserved)
        return list(loaded(language.status)(outcome))


def of_volcano(outcome: GangOutcome) -> Iterator[Effect]:
    """The status of a podGroup of Volcano's, and events about it."""
    job = outcome.job
    rejection = outcome.rejection
    key = Key.at(_GROUP, "PodGroup", job.key)
    record = outcome.objects.record(key)
    if not isinstance(record, PodGroup):
        return
    waits = None
    if rejection is not None:
        code = f"{rejection.verdict.camel}:{rejection.reason.code}"
        waits = code, unschedulable(job, rejection, outcome.bound)
    status = _status(record, outcome, waits)
    if outcome.bound or rejection is not None:
        yield from _events(key, record, waits, outcome.decision)
        yield from _unknown_tiers(outcome.snapshot, job, key, outcome.decision)
    stands = _marks(record, outcome)
    length = len(stands.get(SUB_GROUPS_ANNOTATION, ""))
    if length > _LONGEST:
        del stands[SUB_GROUPS_ANNOTATION]
        if outcome.decisions:
            yield RecordEvent(key, "Warning", NOT_RECORDED, _not_recorded(length, job.joint_word()), outcome.decision)
    marks = stands | reservation_mark(record.metadata.annotations, outcome.reserved)
    if status or any(record.metadata.annotations.get(mark) != value for mark, value in marks.items()):
        yield PatchStatus(key, status, marks)


def _status(record: PodGroup, outcome: GangOutcome, waits: tuple[str, str] | None) -> Raw:
    """The fields that differ from what is there."""
    status = record.status
    job = outcome.job
    phase = outcome.phase
    ready = phase in (Phase.RUNNING, Phase.COMPLETED)
    now = outcome.snapshot.now
    new_conditions = conditions(status.conditions, job, ready=ready, waits=waits, now=now, reserved=outcome.reserved)
    differing: Raw = {}
    if status.phase != (text := phase.value):
        differing["phase"] = text
    old_conditions = [(c.type, c.transition_id) for c in status.conditions]
    if old_conditions != [(c["type"], c["transitionID"]) for c in new_conditions]:
        differing["conditions"] = new_conditions
    return differing | _counts(status, outcome.pods.of(job.key))


def _marks(record: PodGroup, outcome: GangOutcome) -> dict[str, str]:
    """Where the group and its sub-groups stand, or last stood: a sub-group that loses its pods returns there."""
    location = job_location(outcome.snapshot, outcome.job, outcome.decisions)
    marks: dict[str, str] = {}
    if location.whole is not None and not location.whole.anywhere:
        marks = {HYPERNODE_ANNOTATION: location.whole.name, TIER_ANNOTATION: str(location.whole.tier)}
    stand = {}
    for sub, place in location.subs.items():
        if place is not None and not place.anywhere:
            stand[sub] = _wire(place)
    if stand:
        previous_places = {
            sub: msgspec.to_builtins(place) for sub, place in previous_placements(record.metadata).items()
        }
        marks[SUB_GROUPS_ANNOTATION] = json.dumps({**previous_places, **stand}, separators=(",", ":"))
    return marks


def _not_recorded(length: int, part: str) -> str:
    stand = f"where its {several(part)} stand takes {length} characters"
    text = f"{stand}, and {SUB_GROUPS_ANNOTATION} is given {_LONGEST}: it is not written"
    return f"{text}, so a {part} that loses its pods is not led back to its hyperNode"


def _counts(status: PodGroupStatus, pods: Iterable[Pod]) -> Raw:
    """The fields that count pods and differ from what is there."""
    counts = Counter(pod.status.phase for pod in pods)
    old_counts = {"running": status.running, "succeeded": status.succeeded, "failed": status.failed}
    return {field: counts[field.title()] for field, number in old_counts.items() if number != counts[field.title()]}


def _wire(place: DomainLocation) -> Raw:
    return {"hyperNode": place.name, "tier": place.tier}


def _events(key: Key, record: PodGroup, waits: tuple[str, str] | None, decision: str) -> Iterator[Effect]:
    """News for people: what waits, unless that was said before; and that pods were placed."""
    if waits is not None:
        if not any(
            (c.type, c.status, c.message) == ("Unschedulable", "True", waits[1]) for c in record.status.conditions
        ):
            yield RecordEvent(key, "Warning", "Unschedulable", waits[1], decision)
    else:
        yield RecordEvent(key, "Normal", "Scheduled", READY, decision)


def _unknown_tiers(snapshot: Snapshot, job: Job, key: Key, decision: str) -> Iterator[Effect]:
    """A tier name that no hyperNode has limits nothing: people should hear of it."""
    for constraint in (job.constraint, *(policy.constraint for policy in job.policies)):
        if constraint is None or constraint.kind != HYPERNODES or not constraint.tier_name:
            continue
        if constraint.tier_name not in snapshot.topology.tier_names:
            text = f"highestTierName {constraint.tier_name} is not the tierName of any hyperNode, so it limits nothing"
            yield RecordEvent(key, "Warning", UNKNOWN_TIER, text, decision)
