"""Which pending pods autoscalers add nodes for, as Karpenter and the cluster autoscaler decide it.

Karpenter provisions for a pod that has no node, is not nominated to one, is not a DaemonSet's or a node's own, and has
a condition PodScheduled with the reason Unschedulable. The cluster autoscaler counts a pod as unschedulable that has
no node, has not ended, and whose condition PodScheduled is False with the reason Unschedulable; one that is nominated
is taken to stand on that node.
"""

from __future__ import annotations

from tierwise.api.core import Pod

__all__ = ["cluster_autoscaler_adds", "karpenter_adds"]

_UNSCHEDULABLE = ("PodScheduled", "Unschedulable")


def karpenter_adds(pod: Pod) -> bool:
    """Whether Karpenter looks for a node for the pod."""
    failed = any((c.type, c.reason) == _UNSCHEDULABLE for c in pod.status.conditions)
    owned = any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references)
    return failed and not pod.spec.node_name and not pod.status.nominated_node_name and not owned


def cluster_autoscaler_adds(pod: Pod) -> bool:
    """Whether the cluster autoscaler scales up for the pod, where a node group has nodes for it."""
    if pod.spec.node_name or pod.status.phase in ("Succeeded", "Failed") or pod.status.nominated_node_name:
        return False
    return any((c.type, c.reason) == _UNSCHEDULABLE and c.status == "False" for c in pod.status.conditions)
