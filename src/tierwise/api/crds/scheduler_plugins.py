"""The pod groups of scheduling.x-k8s.io, which Kubeflow Trainer and KubeRay write."""

from __future__ import annotations

from typing import Final

from tierwise.api.crds.definition import AGE, Definition, PrinterColumn
from tierwise.api.crds.schema import amounts, number, part, text, time
from tierwise.api.scheduler_plugins import GROUP

__all__ = ["POD_GROUP"]

POD_GROUP: Final = Definition(
    family="scheduler-plugins",
    group=GROUP,
    version="v1alpha1",
    kind="PodGroup",
    plural="podgroups",
    short_names=("pg", "pgs"),
    about="Pods that start together or not at all.",
    columns=(
        PrinterColumn("Phase", ".status.phase"),
        PrinterColumn("MinMember", ".spec.minMember", "integer"),
        PrinterColumn("Running", ".status.running", "integer"),
        PrinterColumn("Succeeded", ".status.succeeded", "integer"),
        PrinterColumn("Failed", ".status.failed", "integer"),
        AGE,
    ),
    fields={
        "spec": part(
            "What the gang needs to start.",
            {
                "minMember": number("How many pods must find a place together.", least=1),
                "minResources": amounts("What the minimum needs in all."),
                "scheduleTimeoutSeconds": number("Seconds that pods may hold room while they wait for the others."),
            },
        ),
        "status": part(
            "The state of the gang.",
            {
                "phase": text("Its phase."),
                "occupiedBy": text("The workload that it belongs to."),
                "running": number("Pods that run."),
                "succeeded": number("Pods that succeeded."),
                "failed": number("Pods that failed."),
                "scheduleStartTime": time("When it was first tried."),
            },
        ),
    },
)
