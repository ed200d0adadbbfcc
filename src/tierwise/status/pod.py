"""What a report means for single pods: the condition PodScheduled and events. Only changes are asked for.

A pod of a gang is told which group it waits for and the sentence that decides, because its group's condition says the
rest and changes with every figure; a pod on its own is told everything.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from tierwise.api.core import Pod
from tierwise.controllers.stamp import stamp
from tierwise.explain.message import decision_id, message
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, Rejection, Status, Verdict, namespace_of, other_job
from tierwise.model.job import told as told_in
from tierwise.model.snapshot import Orphan, Snapshot
from tierwise.port import Bind, Effect, Evict, Key, Objects, Outcome, PatchStatus, RecordEvent, lone_gang
from tierwise.status.fair_choice import FairChoice, untold

__all__ = ["ConditionWriter", "more_nodes_help", "pod_conditions", "pod_events"]

_SCHEDULED = "PodScheduled"
_UNSCHEDULABLE = "Unschedulable"
"""Autoscalers look for this reason, and for no other: a cluster with more nodes could help."""
_NOT_FOR_ROOM = frozenset(("place", "bind", "steps"))
"""A place was found, and declined or not yet bound; or the search for one was not finished."""
_HELD_BACK = frozenset(("enqueue", "gate", "quota"))
"""Stages in which a job is held back, also where it would not fit either."""
_NO_MATTER_OF_NODES = frozenset(
    ("AlreadyTooWide", "BrokenTopology", "ClaimNotReady", "NoDomainWithinTier", "WaitsForGang")
)
"""What is wrong with the tree or with the job's running pods, and waits for claims or for the rest of a gang."""
_OVERCOMMITTED = "ClusterOvercommitted"
"""A gate that holds jobs back for lack of nodes."""
_LEAVING = "AwaitsVictims"
"""Evictions have made the room already."""
_FAULT = "SchedulerError"
"""Kubernetes' word for a cycle that went wrong: it will be tried again as it is."""
_FAULTS = frozenset(("PluginFailed", "BindFailed"))
_MORE = 64


def pod_conditions(objects: Objects, snapshot: Snapshot, report: CycleReport) -> list[Effect]:
    """Conditions of the pods that this cycle left without a node, and events about those without a group."""
    return ConditionWriter().write(objects, snapshot, report)


class ConditionWriter:
    """Tells pods after cycle and cycle why they wait; passes over those of which nothing is left to tell."""

    def __init__(self, *, every_pod: bool = False) -> None:
        """With `every_pod` there is an event about each pod of a gang too, for clusters of few pods."""
        self._every_pod = every_pod
        self._seen = Objects()
        self._told: dict[str, tuple[object, object]] = {}  # by gang: what there was when nothing was left to tell
        self._gangs: dict[str, str] = {}  # of the pods of these, by path
        self.choice = FairChoice()

    def write(
        self,
        objects: Objects,
        snapshot: Snapshot,
        report: CycleReport,
        without: Container[str] = frozenset(),
        limit: int | None = None,
    ) -> list[Effect]:
        """As `pod_conditions`, of `most` gangs at most; those that the cycle decided about are all told.

        Nothing is said of gangs in `without`: their group, or the rest of it, may be on its way, and the reason is
        another then.
        """
        for key in objects.changed_objects(self._seen, Pod).get(Pod, ()):
            self._told.pop(self._gangs.pop(key.path, ""), None)
        self._seen = objects
        cycle = _Told(objects, snapshot, report, every_pod=self._every_pod)
        due: dict[str, Job | tuple[str, Orphan]] = {}
        news = untold(self._told, snapshot.waiting, report)
        for job in snapshot.waiting:
            if job.key in cycle.decided or job.key in news:
                due[job.key] = job
        for path, orphan in snapshot.orphans.items():
            if (gang := lone_gang(path)) not in self._told:
                due[gang] = path, orphan
        selected = self.choice.choose(due, limit, cycle.decided, without)
        effects: list[Effect] = []
        for gang, about in due.items():
            if gang in selected:
                effects_of_gang = cycle.orphan(*about) if isinstance(about, tuple) else cycle.job(about)
                effects += effects_of_gang
                if not effects_of_gang and gang not in cycle.decided:
                    self._keep(gang, about, report)
        if len(self._told) > 2 * (len(snapshot.waiting) + len(snapshot.orphans)) + _MORE:
            self._told = {}
            self._gangs = {}
        return effects

    def _keep(self, gang: str, about: Job | tuple[str, Orphan], report: CycleReport) -> None:
        """Nothing is left to tell as long as nothing of all this is another."""
        if isinstance(about, tuple):
            self._told[gang], self._gangs[about[0]] = (None, None), gang
        else:
            self._told[gang] = about.tasks, report.rejections.get(gang)
            self._gangs.update((task.key, gang) for task in about.tasks)


class _Told:
    """Conditions and events for the pods of one cycle."""

    def __init__(self, objects: Objects, snapshot: Snapshot, report: CycleReport, *, every_pod: bool) -> None:
        self._objects = objects
        self._snapshot = snapshot
        self._report = report
        self._every_pod = every_pod
        self.decided = {decision.job.key for decision in report.decisions}
        self._nodes = {  # that are kept for pods; "" for those that are bound
            task.key: snapshot.nodes.names[row] if not decision.bound else ""
            for decision in report.decisions
            for task, row in decision.places()
        }

    def job(self, job: Job) -> list[Effect]:
        """About the pods of a job that wait."""
        rejection = self._report.rejections.get(job.key)
        effects = list[Effect]()
        for task in job.tasks:
            node = self._nodes.get(task.key)
            if task.status is not Status.PENDING or node == "":
                continue
            if node is not None:
                text = f"node {node} is kept for it until resources are released there"
                effects += self._patch(task.key, Verdict.NOT_NOW.camel, text, None)
            elif rejection is not None:
                decision = None if job.declared and not self._every_pod else decision_id(self._snapshot.now, job.key)
                effects += self._patch(task.key, _reason(rejection), _words(job, rejection), decision)
        return effects

    def orphan(self, path: str, orphan: Orphan) -> list[Effect]:
        """About a pod whose group is not there; people hear of it nowhere else."""
        return list(self._patch(path, Verdict.NOT_ALLOWED.camel, orphan.text, ""))

    def _patch(self, path: str, reason: str, text: str, decision: str | None) -> Iterator[Effect]:
        """The condition, and an event where a decision is given that it is told of."""
        key = Key.at("", "Pod", path)
        pod = self._objects.record(key)
        if not isinstance(pod, Pod):
            return
        shown = next((c for c in pod.status.conditions if c.type == _SCHEDULED), None)
        if shown is not None and (shown.status, shown.reason, shown.message) == ("False", reason, text):
            return
        since = shown.last_transition_time if shown is not None and shown.status == "False" else ""
        condition = {
            "type": _SCHEDULED,
            "status": "False",
            "reason": reason,
            "message": text,
            "lastTransitionTime": since or stamp(self._snapshot.now),
        }
        yield PatchStatus(key, {"conditions": [condition]})
        if decision is not None:
            yield RecordEvent(key, "Warning", "FailedScheduling", text, decision)


def _reason(rejection: Rejection) -> str:
    """The reason of a pod's condition: _FAULT for a fault, Unschedulable where more nodes would help, else the name of
    the verdict. Autoscalers add nodes for Unschedulable alone.
    """
    if rejection.reason.code in _FAULTS:
        return _FAULT
    return _UNSCHEDULABLE if more_nodes_help(rejection) else rejection.verdict.camel


def more_nodes_help(rejection: Rejection) -> bool:
    """Whether a job that was rejected could start if the cluster had more nodes, and nothing else were different.

    Not where a queue, a quota or a gate holds it back, also if it would not fit either; not where a place was found
    or is being made; and not where the tree or the job's own pods are in the way.
    """
    if rejection.verdict is Verdict.NOT_ALLOWED or rejection.reason.code in _FAULTS | _NO_MATTER_OF_NODES:
        return False
    if rejection.stage in _NOT_FOR_ROOM:
        return False
    held_back = any(c.stage in _HELD_BACK and c.reason.code != _OVERCOMMITTED for c in rejection.children)
    return not held_back and all(child.reason.code != _LEAVING for child in rejection.children)


def _words(job: Job, rejection: Rejection) -> str:
    if not job.declared or len(job.tasks) == 1:
        return message(rejection, namespace_of(job.key))
    why = rejection.reason.told(namespace_of(job.key))
    return f"podGroup {job.key} waits, {rejection.verdict.words}: {why}"


def pod_events(snapshot: Snapshot, outcomes: Sequence[Outcome]) -> list[Effect]:
    """An event for each bind and each eviction that was carried out or failed: Scheduled, FailedBinding, Evict,
    FailedEviction. It carries the decision's identifier. Other effects have none, nor have binds and evictions that
    were withheld because another one of the gang failed.
    """
    victims = {o.effect.pod.path for o in outcomes if isinstance(o.effect, Evict) and not o.effect.by}
    whose = {t.key: job.key for job in snapshot.jobs for t in job.tasks if t.key in victims} if victims else {}
    events: list[Effect] = []
    for outcome in outcomes:
        match outcome.effect:
            case Bind(pod, node):
                job = outcome.effect.gang
                text = f"Successfully assigned {pod.path} to {node}"
                event = ("Normal", "Scheduled", text) if outcome.ok else ("Warning", "FailedBinding", outcome.error)
            case Evict(pod, reason, by, action):
                job = by or whose.get(pod.path, "")  # of the victim where it goes for a quota's sake, as in the log
                text = f"{reason} ({action}, for {by})" if by else f"{reason} ({action})"
                # The victim's users may not read what is over there; the decision's id tells administrators.
                text = told_in(text, (other_job(by),) if by else (), pod.namespace)
                event = ("Normal", "Evict", text) if outcome.ok else ("Warning", "FailedEviction", outcome.error)
            case _:
                continue
        # One pod of a gang that failed says enough; the others were withheld for its sake.
        if outcome.ok or not outcome.withheld:
            events.append(RecordEvent(pod, *event, decision_id(snapshot.now, job)))
    return events
