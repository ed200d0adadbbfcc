"""Which pods a pod-affinity term or a spread constraint means, freed of the pod that carries it.

A term is read together with its carrier: its namespace is the default, and its label values fill in
`matchLabelKeys` and `mismatchLabelKeys`. What comes out is a value, equal for all carriers that mean the same pods,
so that one count serves them all. The builder asks `label_keys` which pod labels matter; plugins ask the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from tierwise.api.core import Affinity, LabelSelector, PodAffinityTerm, Requirement, TopologySpreadConstraint
from tierwise.api.selector import matches

__all__ = [
    "NAMESPACE_NAME",
    "Conditions",
    "PodSelector",
    "affinity_pods",
    "label_keys",
    "namespace_keys",
    "spread_pods",
]

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label that every namespace has, with its own name as the value."""

_UNLABELLED: Mapping[str, str] = {}

Conditions = tuple[Requirement, ...]


class PodSelector(msgspec.Struct, frozen=True):
    """Pods by label and namespace. Equal values mean the same pods."""

    labels: Conditions | None  # all of which hold; None matches no pod
    namespaces: frozenset[str]
    also: Conditions | None  # conditions on a namespace's labels which let it in as well: () all, None no further one

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str] = _UNLABELLED
    ) -> bool:
        """Whether a pod with these labels is meant; a namespace has the label of its name, whatever else it has."""
        if self.labels is None or not self._covers(namespace, namespace_labels):
            return False
        return matches(LabelSelector(match_expressions=self.labels), labels)

    def _covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        if namespace in self.namespaces:
            return True
        if self.also is None:
            return False
        return matches(LabelSelector(match_expressions=self.also), {**labels, NAMESPACE_NAME: namespace})

    def anchor(self) -> Requirement | None:
        """A condition that only listed values of one label meet, for look-ups by label; None where there is none."""
        return next((r for r in self.labels or () if r.operator == "In"), None)


def label_keys(affinity: Affinity | None, spread: tuple[TopologySpreadConstraint, ...]) -> set[str]:
    """Every pod-label key that the selectors of a pod look at, required and preferred ones alike."""
    keys: set[str] = set()
    for term in _affinity_terms(affinity):
        keys.update(_selector_keys(term.label_selector), term.match_label_keys, term.mismatch_label_keys)
    for constraint in spread:
        keys.update(_selector_keys(constraint.label_selector), constraint.match_label_keys)
    return keys


def namespace_keys(affinity: Affinity | None) -> set[str]:
    """Every label key of namespaces that the selectors of a pod look at, but for the one with the name."""
    keys = {key for term in _affinity_terms(affinity) for key in _selector_keys(term.namespace_selector)}
    return keys - {NAMESPACE_NAME}


def affinity_pods(term: PodAffinityTerm, namespace: str, labels: Mapping[str, str]) -> PodSelector:
    """The pods of a term that a pod with these labels carries."""
    extra = [Requirement(key=k, operator="In", values=(labels[k],)) for k in term.match_label_keys if k in labels]
    extra += [
        Requirement(key=k, operator="NotIn", values=(labels[k],)) for k in term.mismatch_label_keys if k in labels
    ]
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((namespace,))
    return PodSelector(_conditions(term.label_selector, extra), namespaces, _conditions(term.namespace_selector))


def spread_pods(constraint: TopologySpreadConstraint, namespace: str, labels: Mapping[str, str]) -> PodSelector:
    """The pods that a constraint counts for a pod with these labels: always of its own namespace."""
    keys = constraint.match_label_keys
    extra = [Requirement(key=k, operator="In", values=(labels[k],)) for k in keys if k in labels]
    return PodSelector(_conditions(constraint.label_selector, extra), frozenset((namespace,)), None)


def _affinity_terms(affinity: Affinity | None) -> Iterator[PodAffinityTerm]:
    if affinity is None:
        return
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if side is not None:
            yield from side.required
            yield from (wish.pod_affinity_term for wish in side.preferred)


def _selector_keys(selector: LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.match_labels
        yield from (requirement.key for requirement in selector.match_expressions)


def _conditions(selector: LabelSelector | None, extra: Iterable[Requirement] = ()) -> Conditions | None:
    """All conditions of a selector in one spelling and one order; None for no selector, which matches no pod."""
    if selector is None:
        return None
    labels = (Requirement(key=k, operator="In", values=(v,)) for k, v in selector.match_labels.items())
    distinct = {
        (r.key, r.operator, tuple(sorted(set(r.values)))) for r in (*labels, *selector.match_expressions, *extra)
    }
    return tuple(Requirement(key=k, operator=o, values=v) for k, o, v in sorted(distinct))
