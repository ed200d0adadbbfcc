"""Rules of a pod group of Volcano about other groups and about its sub-groups: `spec.topologyAffinity`, a draft there.

Read where the gate VolcanoTopologyAffinity is on. Required anti-affinity to pod groups of the namespace that labels
select is a rule *apart*, as is that of the sub-groups of one policy among themselves. What else is required makes the
group wait (`NotSupported`), and what is preferred is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from tierwise.api.core import LabelSelector, Requirement
from tierwise.api.sets import RULES
from tierwise.api.volcano import PodGroupAffinityTerm, PodGroupSpec, SubGroupAffinityTerm
from tierwise.model.job import Constraint, Reason, SetMember, SetRule

__all__ = ["Affinity", "read_affinity"]

_FIELD = "spec.topologyAffinity"
_LONGEST = 1024
"""Characters of the labels that one term selects by."""


class Affinity(msgspec.Struct, frozen=True):
    """Rules about other gangs, those about sub-groups by policy, and why the group waits whatever room there is."""

    rules: tuple[SetRule, ...] = ()
    between: Mapping[str, tuple[SetRule, ...]] = {}
    refusal: Reason | None = None

    def joined(self, member: SetMember | None) -> SetMember | None:
        """A part of a set with these rules as well."""
        if not self.rules:
            return member
        return SetMember("", self.rules) if member is None else replace(member, rules=(*member.rules, *self.rules))


def read_affinity(spec: PodGroupSpec) -> Affinity:
    """The rules of a pod group; a refusal instead where one of them cannot be kept."""
    asked = spec.topology_affinity
    if asked is None:
        return Affinity()
    if asked.sub_group_affinity is not None and asked.sub_group_affinity.required:
        why = "sub-groups share a domain by networkTopology of the group, and not by a rule of their own"
        return _refused("NotSupported", f"subGroupAffinity: {why}")
    groups = asked.pod_group_anti_affinity.required if asked.pod_group_anti_affinity is not None else ()
    parts = asked.sub_group_anti_affinity.required if asked.sub_group_anti_affinity is not None else ()
    if len(groups) + len(parts) > RULES:
        return _refused("InvalidGroup", f"{len(groups) + len(parts)} terms are more than {RULES}")
    policies = {policy.name for policy in spec.sub_group_policy}
    fault = next((fault for term in groups if (fault := _group_fault(term)) is not None), None)
    fault = fault or next((fault for term in parts if (fault := _part_fault(term, policies)) is not None), None)
    if fault is not None:
        return fault
    between: dict[str, tuple[SetRule, ...]] = {}
    for term in parts:
        (name,) = term.sub_groups
        between[name] = (*between.get(name, ()), SetRule("", _constraint(term), most=1))
    return Affinity(tuple(map(_rule, groups)), between)


def _group_fault(term: PodGroupAffinityTerm) -> Affinity | None:
    """The refusal of a term about other pod groups; None where it can be kept."""
    where = "podGroupAntiAffinity"
    if term.namespace_selector is not None:
        return _refused("NotSupported", f"{where}: rules do not cross namespaces, so namespaceSelector is not read")
    if term.pod_group_selector is None or not any(_requirements(term.pod_group_selector)):
        return _refused("InvalidGroup", f"{where}: a term has no podGroupSelector with labels")
    if len(_text(term.pod_group_selector)) > _LONGEST:
        return _refused("InvalidGroup", f"{where}: a selector has more than {_LONGEST} characters")
    return _tier_fault(where, term)


def _part_fault(term: SubGroupAffinityTerm, policies: set[str]) -> Affinity | None:
    """The refusal of a term about sub-groups; None where it can be kept."""
    where = "subGroupAntiAffinity"
    unknown = sorted({*term.sub_groups} - policies)
    if unknown:
        return _refused("InvalidGroup", f'{where}: there is no subGroupPolicy "{unknown[0]}"')
    if len(term.sub_groups) != 1:
        why = "sub-groups of one policy keep apart from each other, and not from those of another"
        return _refused("NotSupported", f"{where}: {why}")
    return _tier_fault(where, term)


def _tier_fault(where: str, term: PodGroupAffinityTerm | SubGroupAffinityTerm) -> Affinity | None:
    if (term.topology_tier is None) != (not term.topology_tier_name):
        return None
    return _refused("InvalidGroup", f"{where}: a term has either topologyTier or topologyTierName")


def _constraint(term: PodGroupAffinityTerm | SubGroupAffinityTerm) -> Constraint:
    return Constraint(hard=True, tier=term.topology_tier, tier_name=term.topology_tier_name)


def _rule(term: PodGroupAffinityTerm) -> SetRule:
    assert term.pod_group_selector is not None
    among = tuple(_requirements(term.pod_group_selector))
    return SetRule(_text(term.pod_group_selector), _constraint(term), most=1, among=among)


def _requirements(selector: LabelSelector) -> Iterator[Requirement]:
    """The conditions of a selector, each as an expression."""
    for key, value in sorted(selector.match_labels.items()):
        yield Requirement(key=key, operator="In", values=(value,))
    yield from selector.match_expressions


def _text(selector: LabelSelector) -> str:
    """A selector as people call the gangs that it means."""
    return ", ".join(f"{entry.key} {entry.operator} {'|'.join(entry.values)}" for entry in _requirements(selector))


def _refused(code: str, text: str) -> Affinity:
    return Affinity(refusal=Reason(code, "pod", f"{_FIELD}.{text}"))
