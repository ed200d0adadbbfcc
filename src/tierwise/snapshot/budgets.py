"""Disruption budgets: which pods each covers, and how many more of them may go.

A budget's status says how many disruptions it allows; without one the number follows from its spec and the pods.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from tierwise.api.core import Pod, PodDisruptionBudget
from tierwise.api.selector import matches
from tierwise.snapshot.derive import Facet

__all__ = ["SCOPE", "Budgets", "allowed", "covers"]

SCOPE = Facet("spec.selector")
"""All that decides which pods a budget covers."""


class Budgets:
    """The budgets of a cycle, numbered.

    Budgets stand under their namespace and one label that they ask for, so a pod is held against few of them.
    """

    def __init__(self, records: Mapping[str, PodDisruptionBudget]) -> None:
        self._records = tuple(records.values())
        self._by_label: dict[tuple[str, str, str], list[int]] = {}
        self._by_namespace: dict[str, list[int]] = {}  # those that ask for no single label
        for i, record in enumerate(self._records):
            namespace = record.metadata.namespace or "default"
            selector = record.spec.selector
            label = next(iter(selector.match_labels.items()), None) if selector is not None else None
            if label is not None:
                self._by_label.setdefault((namespace, *label), []).append(i)
            else:
                self._by_namespace.setdefault(namespace, []).append(i)

    def of(self, pod: Pod) -> tuple[int, ...]:
        """The numbers of the budgets that cover a pod."""
        if not self._records:
            return ()
        namespace = pod.metadata.namespace or "default"
        near: list[int] = []
        for label in pod.metadata.labels.items():
            near.extend(self._by_label.get((namespace, *label), ()))
        near += self._by_namespace.get(namespace, ())
        return tuple(sorted(i for i in near if covers(self._records[i], pod)))


def allowed(budgets: Budgets, records: Mapping[str, PodDisruptionBudget], pods: Mapping[str, Pod]) -> tuple[int, ...]:
    """How many more of its pods each budget lets go."""
    covered: list[list[Pod]] = [[] for _ in records]
    if any(record.status is None for record in records.values()):
        for pod in pods.values():
            for i in budgets.of(pod):
                covered[i].append(pod)
    return tuple(_allowed(record, pods_covered) for record, pods_covered in zip(records.values(), covered, strict=True))


def covers(record: PodDisruptionBudget, pod: Pod) -> bool:
    """Whether a budget means a pod."""
    same_namespace = (record.metadata.namespace or "default") == (pod.metadata.namespace or "default")
    return same_namespace and matches(record.spec.selector, pod.metadata.labels)


def _allowed(record: PodDisruptionBudget, covered: Collection[Pod]) -> int:
    if record.status is not None:
        return record.status.disruptions_allowed
    healthy = sum(bool(pod.spec.node_name) and pod.status.phase in ("", "Running") for pod in covered)
    if record.spec.max_unavailable is not None:
        return max(0, healthy - (len(covered) - _number(record.spec.max_unavailable, len(covered))))
    if record.spec.min_available is not None:
        return max(0, healthy - _number(record.spec.min_available, len(covered)))
    return healthy


def _number(value: int | str, total: int) -> int:
    """A number, or a percentage of all covered pods, rounded up."""
    if isinstance(value, int):
        return value
    return math.ceil(total * float(value.rstrip("%")) / 100) if value.endswith("%") else int(value)
