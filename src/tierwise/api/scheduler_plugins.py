"""The PodGroup of Kubernetes' scheduler-plugins (scheduling.x-k8s.io), as users write it.

Kubeflow Trainer and KubeRay create it too. Built by the codec; `dialects.scheduler_plugins` gives it its meaning,
`admission` checks it.
"""

from tierwise.api.core import Int, ObjectMeta, Record, ResourceList

__all__ = ["GROUP", "PodGroup", "PodGroupStatus"]

GROUP = "scheduling.x-k8s.io"


class PodGroupSpec(Record, frozen=True):
    """Conditions under which a gang may start."""

    min_member: Int = 0
    min_resources: ResourceList | None = None
    schedule_timeout_seconds: Int | None = None


class PodGroupStatus(Record, frozen=True):
    """Reported state of a gang."""

    phase: str = ""
    occupied_by: str = ""
    running: Int = 0
    succeeded: Int = 0
    failed: Int = 0
    schedule_start_time: str = ""


class PodGroup(Record, frozen=True):
    """Pods that start together or not at all."""

    metadata: ObjectMeta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
