"""Reads PodGroups of scheduling.x-k8s.io into model types.

A pod belongs to the group that its label names. The group says how many pods must start together and, optionally, what
they need in total; it knows no sub-groups, no queue and no topology. `scheduleTimeoutSeconds` bounds how long pods may
hold resources while they wait for the others: tierwise holds none, so the field has no effect.
"""

from __future__ import annotations

from typing import Final

from tierwise.api.core import Pod
from tierwise.api.scheduler_plugins import GROUP, PodGroup
from tierwise.dialects.elastic_quota import forbearing
from tierwise.dialects.groups import Group, created, group_marks
from tierwise.dialects.language import Language, Rules
from tierwise.model.job import Phase
from tierwise.port import Key

__all__ = ["LABEL", "LANGUAGE"]

LABEL: Final = f"{GROUP}/pod-group"

_PHASES: Final = {
    "Running": Phase.RUNNING,
    "Finished": Phase.COMPLETED,
    "Failed": Phase.UNKNOWN,
    "Unknown": Phase.UNKNOWN,
}


def named(pod: Pod) -> str:
    """The group that a pod names, as namespace/name; empty where it names none."""
    name = pod.metadata.labels.get(LABEL, "")
    if name:
        return f"{pod.metadata.namespace or 'default'}/{name}"
    return ""


def _group(path: str, record: PodGroup, rules: Rules) -> Group:
    """Gang that an object declares."""
    namespace, _, name = path.partition("/")
    return Group(
        key=Key(GROUP, "PodGroup", namespace, name),
        minimum=max(record.spec.min_member, 0),
        phase=_PHASES.get(record.status.phase, Phase.PENDING),
        created=created(record.metadata),
        marks=group_marks(record.metadata),
        min_resources=record.spec.min_resources,
        forbears=forbearing(record.metadata),
    )


LANGUAGE: Final = Language(
    name=GROUP,
    reads=(PodGroup,),
    declares=(PodGroup,),
    named=named,
    keys=frozenset((LABEL,)),
    each=_group,
    page="languages/scheduler-plugins.md",
    admit="tierwise.admission.languages:admit_plugin_group",
    status="tierwise.status.languages:of_plugin_group",
    check="tierwise.audit.languages:plugin_groups",
    marks=(PodGroup,),
)
