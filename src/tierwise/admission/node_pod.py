"""Basic checks of Nodes and Pods in manifests; an API server checks them more thoroughly."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from tierwise.admission.context import ClusterContext
from tierwise.admission.findings import Issue, at_least, at_most, error, one_of, warning
from tierwise.admission.names import check_ladder, check_repair, check_sizes, check_terms, dns_subdomain
from tierwise.api.core import Affinity, Node, Pod, PodSpec, PodTemplate
from tierwise.api.limits import too_many_resources
from tierwise.api.unsupported import unsupported
from tierwise.dialects.pod_marks import QUEUE_ANNOTATION, queue_of
from tierwise.dialects.volcano.job import GROUP_NAME

__all__ = ["check_node", "check_pod", "check_pod_spec", "check_support", "doubtful", "will_wait"]

_EFFECTS: Final = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})
_PHASES: Final = frozenset({"", "Pending", "Running", "Succeeded", "Failed", "Unknown"})
_RESTARTS: Final = frozenset({"", "Always", "OnFailure", "Never"})
_PREEMPTION: Final = frozenset({"", "PreemptLowerPriority", "Never"})
_OPERATORS: Final = frozenset({"", "Equal", "Exists"})
_WHEN: Final = frozenset({"DoNotSchedule", "ScheduleAnyway"})


def check_node(node: Node) -> Iterator[Issue]:
    """Issues of a node."""
    yield from dns_subdomain("metadata.name", node.metadata.name)
    for index, taint in enumerate(node.spec.taints):
        yield from one_of(f"spec.taints[{index}].effect", taint.effect, _EFFECTS)


def check_pod(pod: Pod, nodes: Collection[str], groups: Collection[str], context: ClusterContext) -> Iterator[Issue]:
    """Issues of a pod; `groups` are the keys of all pod groups that are there or will be."""
    yield from dns_subdomain("metadata.name", pod.metadata.name)
    yield from one_of("status.phase", pod.status.phase, _PHASES)
    yield from check_pod_spec("spec", pod.spec)
    if not pod.spec.containers and not pod.metadata.uid:  # else an API server has stored it
        yield error("spec.containers", "at least one container is needed")
    yield from (error(f"spec.{path}", text) for path, text in too_many_resources(pod.spec))
    yield from doubtful(pod)
    if pod.spec.priority is None:  # else it was admitted, and its class is no matter any more
        yield from context.priority_class("spec.priorityClassName", pod.spec.priority_class_name)
    for issue in context.queue(f"metadata.annotations.{QUEUE_ANNOTATION}", queue_of(pod)):
        yield warning(issue.path, issue.message)  # Volcano's admission does not look at pods' queues
    if pod.spec.node_name and pod.spec.node_name not in nodes:
        yield warning("spec.nodeName", f'node "{pod.spec.node_name}" does not exist')
    group = pod.metadata.annotations.get(GROUP_NAME)
    if group and f"{pod.metadata.namespace or 'default'}/{group}" not in groups:
        yield warning(f"metadata.annotations.{GROUP_NAME}", f'pod group "{group}" does not exist')


def doubtful(pod: Pod) -> Iterator[Issue]:
    """Yield the issues of one pod that need no knowledge of the cluster: features in its spec that this scheduler does
    not support, and faults in its ladder, terms and repair annotations.
    """
    yield from check_support(pod)
    yield from check_ladder(pod.metadata)
    yield from check_sizes(pod.metadata)
    yield from check_terms(pod.metadata)
    yield from check_repair(pod.metadata)


def check_support(pod: Pod | PodTemplate, path: str = "") -> Iterator[Issue]:
    """A warning about what a pod, or a template at a path, names and what keeps its pods waiting."""
    unsupported_field = unsupported(pod) if isinstance(pod, PodTemplate) or not pod.spec.node_name else None
    if unsupported_field is not None:
        yield warning(f"{path}{unsupported_field.field}", will_wait(unsupported_field.why))


def will_wait(why: str) -> str:
    """Warning text for a field that is not supported: the pod will wait."""
    return f"not supported: {why}; the pod will wait (NotSupported)"


def check_pod_spec(path: str, spec: PodSpec) -> Iterator[Issue]:
    """Issues of a pod's spec, in a pod or in a template."""
    yield from one_of(f"{path}.restartPolicy", spec.restart_policy, _RESTARTS)
    yield from one_of(f"{path}.preemptionPolicy", spec.preemption_policy, _PREEMPTION)
    yield from at_least(f"{path}.terminationGracePeriodSeconds", spec.termination_grace_period_seconds, 0)
    for index, toleration in enumerate(spec.tolerations):
        where = f"{path}.tolerations[{index}]"
        yield from one_of(f"{where}.operator", toleration.operator, _OPERATORS)
        yield from one_of(f"{where}.effect", toleration.effect, _EFFECTS | {""})
    for where, weight in _weights(f"{path}.affinity", spec.affinity):
        yield from at_least(where, weight, 1)
        yield from at_most(where, weight, 100)
    for index, spread in enumerate(spec.topology_spread_constraints):
        where = f"{path}.topologySpreadConstraints[{index}]"
        yield from at_least(f"{where}.maxSkew", spread.max_skew, 1)
        yield from one_of(f"{where}.whenUnsatisfiable", spread.when_unsatisfiable, _WHEN)


def _weights(path: str, affinity: Affinity | None) -> Iterator[tuple[str, int]]:
    """The weights of all wishes, with their fields."""
    if affinity is None:
        return
    node = affinity.node_affinity
    near = affinity.pod_affinity
    away = affinity.pod_anti_affinity
    sides = (
        ("nodeAffinity", [wish.weight for wish in node.preferred] if node is not None else []),
        ("podAffinity", [wish.weight for wish in near.preferred] if near is not None else []),
        ("podAntiAffinity", [wish.weight for wish in away.preferred] if away is not None else []),
    )
    for name, weights in sides:
        for index, weight in enumerate(weights):
            yield f"{path}.{name}.preferredDuringSchedulingIgnoredDuringExecution[{index}].weight", weight
