"""Volcano's batch jobs as a custom resource."""

from __future__ import annotations

from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.crds.definition import AGE, Definition, PrinterColumn
from tierwise.api.crds.schema import anything, each, items, names, number, part, text, time
from tierwise.api.crds.volcano import network_topology
from tierwise.api.limits import PODS, SUB_GROUPS, TASKS

__all__ = ["JOB"]

_LONGEST: Final = 253


def _policies(about: str) -> Raw:
    policy = part(
        "What to do when something happens.",
        {
            "action": text("What to do, such as RestartJob, RestartTask, AbortJob or CompleteJob."),
            "event": text("What happened, such as PodFailed, PodEvicted or TaskCompleted; * is any event."),
            "events": names("The same for several events."),
            "exitCode": number("The exit code of a container; instead of an event."),
            "timeout": text("How long to wait before acting, such as 60s."),
        },
    )
    return items(about, policy)


_PARTITIONS: Final = part(
    "How the replicas are parted.",
    {
        "totalPartitions": number("How many partitions there are.", least=1, most=SUB_GROUPS),
        "partitionSize": number("How many pods make one.", least=1),
        "minPartitions": number("How many must find a place together.", least=0, default=0),
        "networkTopology": network_topology("How near the pods of one partition must be."),
    },
    needs=("totalPartitions", "partitionSize"),
)

_TASK: Final = part(
    "One role of the job.",
    {
        "name": text("The name of the role.", longest=63),
        "replicas": number("How many pods it has.", least=0, most=PODS),
        "minAvailable": number("How many of them the gang needs; all where absent.", least=0),
        "template": anything("What its pods are made from: metadata and spec of a pod."),
        "policies": _policies("What to do when something happens to its pods."),
        "topologyPolicy": text(
            "How pods want their cores and devices within a node.",
            allowed=("none", "best-effort", "restricted", "single-numa-node"),
        ),
        "maxRetry": number("How often its pods may be started again.", least=0),
        "dependsOn": part(
            "Roles that come first.",
            {"name": names("The roles."), "iteration": text("Whether any or all of them are waited for.")},
        ),
        "partitionPolicy": _PARTITIONS,
    },
)

_VOLUME: Final = part(
    "One volume for every pod.",
    {
        "mountPath": text("Where containers see it."),
        "volumeClaimName": text("A claim that exists.", longest=_LONGEST),
        "volumeClaim": anything("The spec of a claim to make."),
    },
    needs=("mountPath",),
)

JOB: Final = Definition(
    family="volcano",
    group="batch.volcano.sh",
    version="v1alpha1",
    kind="Job",
    plural="jobs",
    short_names=("vcjob", "vj"),
    about="A batch job of several roles that start together.",
    columns=(
        PrinterColumn("Status", ".status.state.phase"),
        PrinterColumn("Min", ".status.minAvailable", "integer"),
        PrinterColumn("Running", ".status.running", "integer"),
        PrinterColumn("Pending", ".status.pending", "integer"),
        AGE,
        PrinterColumn("Queue", ".spec.queue", wide=True),
        PrinterColumn("Retries", ".status.retryCount", "integer", wide=True),
    ),
    fields={
        "spec": part(
            "The job as its author wants it.",
            {
                "schedulerName": text("The scheduler of its pods.", longest=63),
                "minAvailable": number("How many pods must find a place together.", least=0),
                "minSuccess": number("How many pods must succeed for the job to be complete.", least=1),
                "queue": text("The queue that pays for it.", default="default", longest=_LONGEST),
                "priorityClassName": text("The priority class of its pods.", longest=_LONGEST),
                "maxRetry": number("How often it may be started again.", least=0, default=3),
                "ttlSecondsAfterFinished": number("Seconds after its end until it is removed.", least=0),
                "plugins": each("Job plugins by name.", names("The plugin's arguments.")),
                "policies": _policies("What to do when something happens to a pod of any role."),
                "networkTopology": network_topology("How near all its pods must be."),
                "runningEstimate": text("How long it is going to run, as far as its author knows."),
                "volumes": items("Volumes for all its pods.", _VOLUME),
                "tasks": items("Its roles.", _TASK, least=1, most=TASKS),
            },
        ),
        "status": part(
            "What became of the job.",
            {
                "state": part(
                    "Its phase.",
                    {
                        "phase": text("Pending, Running, Completed, Failed, Aborted, Terminated, or on the way there."),
                        "reason": text("Why, in one word."),
                        "message": text("Why, in a sentence."),
                        "lastTransitionTime": time("Since when."),
                    },
                ),
                "minAvailable": number("The minimum that holds."),
                "taskStatusCount": each("Pods by role and phase.", anything("Pods of one role by phase.")),
                "pending": number("Pods that wait."),
                "running": number("Pods that run."),
                "succeeded": number("Pods that succeeded."),
                "failed": number("Pods that failed."),
                "terminating": number("Pods that are going."),
                "unknown": number("Pods whose state is unknown."),
                "version": number("Counts the restarts that take hold of all pods."),
                "retryCount": number("How often it was started again."),
                "runningDuration": text("How long it has run."),
                "controlledResources": each("Objects that were made for it.", {"type": "string"}),
                "conditions": items(
                    "Phases that it has been through.",
                    part("One phase.", {"status": text("The phase."), "lastTransitionTime": time("Since when.")}),
                ),
            },
        ),
    },
)
