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
from tierwise.model.job import Job, Status
from tierwise.model.reason import Rejection, Verdict, namespace_of, other_job
from tierwise.model.reason import told as told_in
from tierwise.model.snapshot import Snapshot
from tierwise.port import Bind, Effect, Evict, Key, Objects, Outcome, PatchStatus, RecordEvent

__all__ = ["more_nodes_help", "pod_conditions", "pod_events"]

_SCHEDULED = "PodScheduled"
_UNSCHEDULABLE = "Unschedulable"
"""Autoscalers look for this reason, and for no other: a cluster with more nodes could help."""
_HAS_PLACE = frozenset(("place", "bind"))
"""Stages after a place was found: a plugin declines it for a time, or volumes and binding are waited for."""
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
"""Kubernetes' word for a turn that went wrong: it will be tried again as it is."""
_FAULTS = frozenset(("PluginFailed", "BindFailed"))


def pod_conditions(
    objects: Objects, snapshot: Snapshot, report: CycleReport, fresh: Container[str] = frozenset()
) -> list[Effect]:
    """Conditions of the pods that this cycle left without a node, and events about those without a group.

    Nothing is said of `fresh` pods: their group, or the rest of it, may be on its way, and the reason is another then.
    """
    return [
        effect
        for path, reason, text, decision in _told(snapshot, report)
        if path not in fresh
        for effect in _patch(objects, snapshot, path, (reason, text), decision)
    ]


def _told(snapshot: Snapshot, report: CycleReport) -> Iterator[tuple[str, str, str, str | None]]:
    """Each waiting pod, reason and words, and where people hear of it nowhere else the decision that it is told of."""
    kept = {
        task.key: snapshot.nodes.names[row]
        for decision in report.decisions
        for placed in decision.placed
        for task, row in zip(placed.tasks, placed.rows.tolist(), strict=True)
        if not decision.bound
    }
    bound = {t.key for d in report.decisions if d.bound for placed in d.placed for t in placed.tasks}
    for job in snapshot.waiting:
        rejection = report.rejections.get(job.key)
        for task in job.tasks:
            if task.status is not Status.PENDING or task.key in bound:
                continue
            if task.key in kept:
                text = f"node {kept[task.key]} is kept for it until resources are released there"
                yield task.key, Verdict.NOT_NOW.camel, text, None
            elif rejection is not None:
                told = None if job.declared else decision_id(snapshot.now, job.key)
                yield task.key, _reason(rejection), _words(job, rejection), told
    for path, group in snapshot.orphans.items():
        yield path, Verdict.NOT_ALLOWED.camel, f"podGroup {group} does not exist", ""


def _reason(rejection: Rejection) -> str:
    """What more nodes would not help against must not look as if they did; it is called by its verdict."""
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
    if rejection.stage in _HAS_PLACE:
        return False
    held_back = any(c.stage in _HELD_BACK and c.reason.code != _OVERCOMMITTED for c in rejection.children)
    return not held_back and all(child.reason.code != _LEAVING for child in rejection.children)


def _words(job: Job, rejection: Rejection) -> str:
    if not job.declared or len(job.tasks) == 1:
        return message(rejection, namespace_of(job.key))
    why = rejection.reason.told(namespace_of(job.key))
    return f"podGroup {job.key} waits, {rejection.verdict.words}: {why}"


def _patch(
    objects: Objects, snapshot: Snapshot, path: str, told: tuple[str, str], decision: str | None
) -> Iterator[Effect]:
    reason, text = told
    namespace, _, name = path.partition("/")
    key = Key("", "Pod", namespace, name)
    pod = objects.record(key)
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
        "lastTransitionTime": since or stamp(snapshot.now),
    }
    yield PatchStatus(key, {"conditions": [condition]})
    if decision is not None:
        yield RecordEvent(key, "Warning", "FailedScheduling", text, decision)


def pod_events(snapshot: Snapshot, outcomes: Sequence[Outcome]) -> list[Effect]:
    """What happened to pods, in the words that Kubernetes' users know, and by which decision."""
    victims = {o.effect.pod.path for o in outcomes if isinstance(o.effect, Evict) and not o.effect.by}
    whose = {t.key: job.key for job in snapshot.jobs for t in job.tasks if t.key in victims} if victims else {}
    events: list[Effect] = []
    for outcome in outcomes:
        match outcome.effect:
            case Bind(pod, node):
                job = outcome.effect.gang
                text = f"Successfully assigned {pod.path} to {node}"
                told = ("Normal", "Scheduled", text) if outcome.ok else ("Warning", "FailedBinding", outcome.error)
            case Evict(pod, reason, by, action):
                job = by or whose.get(pod.path, "")  # of the victim where it goes for a quota's sake, as in the log
                text = f"{reason} ({action}, for {by})" if by else f"{reason} ({action})"
                # The victim's users may not read what is over there; the decision's id tells administrators.
                text = told_in(text, (other_job(by),) if by else (), pod.namespace)
                told = ("Normal", "Evict", text) if outcome.ok else ("Warning", "FailedEviction", outcome.error)
            case _:
                continue
        # One pod of a gang that failed says enough; the others were withheld for its sake.
        if outcome.ok or not outcome.withheld:
            events.append(RecordEvent(pod, *told, decision_id(snapshot.now, job)))
    return events
