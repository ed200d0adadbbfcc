"""Disruption budgets: which pods each covers, and how many more of them may go.

A budget's status says how many disruptions it allows; without one the number follows from its spec and the pods.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from tierwise.api.core import Pod, PodDisruptionBudget
from tierwise.api.selector import matches

__all__ = ["Budgets"]


class Budgets:
    """The budgets of a cycle, numbered."""

    def __init__(self, records: Mapping[str, PodDisruptionBudget], pods: Collection[Pod]) -> None:
        self._records = tuple(records.values())
        self.allowed = tuple(_allowed(record, pods) for record in self._records)

    def scopes(self) -> tuple[object, ...]:
        """All that decides which budgets cover a pod; comparable."""
        return tuple((record.metadata.namespace, record.spec.selector) for record in self._records)

    def of(self, pod: Pod) -> tuple[int, ...]:
        """The numbers of the budgets that cover a pod."""
        if not self._records:
            return ()
        return tuple(i for i, record in enumerate(self._records) if _covers(record, pod))


def _covers(record: PodDisruptionBudget, pod: Pod) -> bool:
    same = (record.metadata.namespace or "default") == (pod.metadata.namespace or "default")
    return same and matches(record.spec.selector, pod.metadata.labels)


def _allowed(record: PodDisruptionBudget, pods: Collection[Pod]) -> int:
    if record.status is not None:
        return record.status.disruptions_allowed
    covered = [pod for pod in pods if _covers(record, pod)]
    healthy = sum(bool(pod.spec.node_name) and pod.status.phase in ("", "Running") for pod in covered)
    if record.spec.max_unavailable is not None:
        return max(0, healthy - (len(covered) - _number(record.spec.max_unavailable, len(covered))))
    if record.spec.min_available is not None:
        return max(0, healthy - _number(record.spec.min_available, len(covered)))
    return healthy


def _number(value: int | str, whole: int) -> int:
    """A number, or a percentage of all covered pods, rounded up."""
    if isinstance(value, int):
        return value
    return math.ceil(whole * float(value.rstrip("%")) / 100) if value.endswith("%") else int(value)
