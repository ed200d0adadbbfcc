"""Disruption budgets: which pods each covers, and how many more of them may go.

A budget's status says how many disruptions it allows; without one the number follows from its spec and the pods.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set

import msgspec

from tierwise.api.core import Pod, PodDisruptionBudget
from tierwise.api.natural import natural
from tierwise.api.selector import matches
from tierwise.snapshot.derive import Facet, Index

__all__ = ["SCOPE", "CoveredPods", "Covering", "allowed", "covers"]

_Label = tuple[str, str, str]
"""A namespace, and the key and value of a label there; both "" for all pods of it."""

SCOPE = Facet("spec.selector")
"""All that decides which pods a budget covers."""


class Covering(msgspec.Struct, frozen=True, eq=False):
    """Which budgets cover which pods, by path, and what that means for those without a status."""

    by_pod: Mapping[str, tuple[str, ...]]  # budgets; of those pods alone that are covered
    changed: frozenset[str] = frozenset()  # pods that may be covered otherwise than in the reading before
    numbers: Mapping[str, tuple[int, int]] = {}  # by budget, the pods that it covers, and how many of them run

    def of(self, path: str) -> tuple[str, ...]:
        """The budgets that cover a pod, in natural order."""
        return self.by_pod.get(path, ())


class CoveredPods:
    """Follows pods and budgets; a change costs what it concerns.

    Budgets stand under their namespace and one label that they ask for, so a pod is held against few of them. Pods
    stand there as well, under the labels that some budget asks for, so a new budget is held against few pods; only one
    with a label that no budget has asked for looks at all pods once.
    """

    def __init__(self) -> None:
        self._records: dict[str, PodDisruptionBudget] = {}
        self._by_label = Index[_Label]()  # budgets
        self._pods = Index[_Label]()
        self._keys: set[str] = {""}  # the labels that pods stand under
        self._budgets: dict[str, tuple[str, ...]] = {}  # by pod
        self._healthy: set[str] = set()
        self._numbers: dict[str, tuple[int, int]] = {}
        self._value = Covering({})

    def follow(
        self,
        pods: Mapping[str, Pod],
        latest_pods: Mapping[str, Pod | None],
        latest: Mapping[str, PodDisruptionBudget | None],
    ) -> Covering:
        """Which pods are covered now; the last answer where nothing that a budget covers is another."""
        changed: set[str] = set()
        if self._records:
            self._follow_pods(latest_pods, changed)
        if latest:
            self._follow_budgets(pods, latest, changed)
        if latest or changed:
            self._value = Covering(self._budgets, frozenset(changed), self._numbers)
        return self._value

    def _follow_pods(self, latest: Mapping[str, Pod | None], changed: set[str]) -> None:
        for path, pod in latest.items():
            self._pods.put(path, self._labels(pod) if pod is not None else ())
            covering = self._covering(pod) if pod is not None else ()
            if covering or path in self._budgets:
                self._cover(path, pod, covering)
                changed.add(path)

    def _follow_budgets(
        self, pods: Mapping[str, Pod], latest: Mapping[str, PodDisruptionBudget | None], changed: set[str]
    ) -> None:
        """Hold budgets that have become others against the pods that they covered, and those with their label."""
        if not self._records:
            self._pods, self._keys = Index(), set()  # without budgets nobody has followed them
        concerned: set[str] = set()
        went = latest.keys() & self._records.keys()
        for path in went:
            concerned |= self._labelled(pods, _label(self._records.pop(path)))
            self._by_label.put(path, ())
        self._cover_again(pods, concerned)
        for path in went:
            del self._numbers[path]
        for path, record in latest.items():
            if record is not None:
                self._records[path] = record
                self._by_label.put(path, (_label(record),))
                self._numbers[path] = 0, 0
                concerned |= self._labelled(pods, _label(record))
        self._cover_again(pods, concerned)
        changed |= concerned

    def _cover_again(self, pods: Mapping[str, Pod], paths: Iterable[str]) -> None:
        for path in paths:
            self._cover(path, pods[path], self._covering(pods[path]))

    def _labelled(self, pods: Mapping[str, Pod], label: _Label) -> Set[str]:
        """The pods with a label; from now on all pods are followed by its key."""
        if label[1] not in self._keys:
            self._keys.add(label[1])
            for path, pod in pods.items():
                self._pods.put(path, self._labels(pod))
        return self._pods[label]

    def _labels(self, pod: Pod) -> tuple[_Label, ...]:
        namespace = pod.metadata.namespace or "default"
        labels = pod.metadata.labels
        found = [(namespace, key, labels[key]) for key in self._keys if key in labels]
        return (*found, (namespace, "", "")) if "" in self._keys else tuple(found)

    def _covering(self, pod: Pod) -> tuple[str, ...]:
        """The budgets that cover a pod, in natural order."""
        near = [path for label in self._labels(pod) for path in self._by_label[label]]
        return tuple(sorted((path for path in near if covers(self._records[path], pod)), key=natural))

    def _cover(self, path: str, pod: Pod | None, covering: tuple[str, ...]) -> None:
        """Count a pod where it is covered, and no longer where it was."""
        self._count(self._budgets.pop(path, ()), -1, healthy=path in self._healthy)
        self._healthy.discard(path)
        if pod is None or not covering:
            return
        if pod.spec.node_name and pod.status.phase in ("", "Running"):
            self._healthy.add(path)
        self._budgets[path] = covering
        self._count(covering, 1, healthy=path in self._healthy)

    def _count(self, budgets: Iterable[str], sign: int, *, healthy: bool) -> None:
        for budget in budgets:
            covered, running = self._numbers[budget]
            self._numbers[budget] = covered + sign, running + sign * healthy


def _label(record: PodDisruptionBudget) -> _Label:
    """The namespace of a budget and a label that it asks for, none where it asks for none: it stands under them."""
    selector = record.spec.selector
    labels = selector.match_labels if selector is not None else {}
    return record.metadata.namespace or "default", *next(iter(labels.items()), ("", ""))


def allowed(covering: Covering, records: Mapping[str, PodDisruptionBudget]) -> dict[str, int]:
    """How many more of its pods each budget lets go."""
    return {path: _allowed(record, *covering.numbers[path]) for path, record in records.items()}


def covers(record: PodDisruptionBudget, pod: Pod) -> bool:
    """Whether a budget means a pod."""
    same_namespace = (record.metadata.namespace or "default") == (pod.metadata.namespace or "default")
    return same_namespace and matches(record.spec.selector, pod.metadata.labels)


def _allowed(record: PodDisruptionBudget, covered: int, healthy: int) -> int:
    if record.status is not None:
        return record.status.disruptions_allowed
    if record.spec.max_unavailable is not None:
        return max(0, healthy - (covered - _number(record.spec.max_unavailable, covered)))
    if record.spec.min_available is not None:
        return max(0, healthy - _number(record.spec.min_available, covered))
    return healthy


def _number(value: int | str, total: int) -> int:
    """A number, or a percentage of all covered pods, rounded up."""
    if isinstance(value, int):
        return value
    return math.ceil(total * float(value.rstrip("%")) / 100) if value.endswith("%") else int(value)
