"""Checks of Volcano PodGroups: minimums, sub-groups and topology."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tierwise.admission import names, network_topology
from tierwise.admission.capacity import smallest
from tierwise.admission.context import ClusterContext, Surroundings
from tierwise.admission.findings import Issue, at_least, at_most, error, one_of, warning
from tierwise.admission.names import dns_subdomain, label_selector
from tierwise.api import plurals
from tierwise.api.core import Pod
from tierwise.api.fabric import fabrics_of_sub_groups
from tierwise.api.koordinator import GROUPS
from tierwise.api.limits import PODS, POLICIES
from tierwise.api.quantity import amount
from tierwise.api.selector import matches
from tierwise.api.volcano import PodGroup, SubGroupPolicy
from tierwise.dialects.kubernetes.requests import effective_request
from tierwise.dialects.volcano.job import PARTITION_ID
from tierwise.dialects.volcano.pod_group import partners_of
from tierwise.port import Key

__all__ = ["admit"]

# Volcano's job controller also writes what counts against quotas into minResources; no node has any of that.
_OF_QUOTAS: Final = ("requests.", "limits.", "count/")

_PHASES: Final = frozenset({"", "Pending", "Inqueue", "Running", "Unknown", "Completed"})


def admit(group: PodGroup, key: Key, around: Surroundings) -> Iterator[Issue]:
    """Issues of a pod group and the pods that belong to it."""
    spec = group.spec
    pods = around.members.get(key.path, ())
    context = around.cluster.on_fabric_of(group.metadata)
    yield from dns_subdomain("metadata.name", group.metadata.name)
    yield from names.check(group.metadata, len(pods))
    yield from at_least("spec.minMember", spec.min_member, 0)
    yield from at_most("spec.minMember", spec.min_member, PODS)
    if len(spec.sub_group_policy) > POLICIES:
        text = f"{len(spec.sub_group_policy)} policies are more than the {POLICIES} that a podGroup may have"
        yield error("spec.subGroupPolicy", text)
    for role, count in spec.min_task_member.items():
        yield from at_least(f"spec.minTaskMember.{role}", count, 0)
    if spec.min_task_member and sum(spec.min_task_member.values()) > spec.min_member:
        yield warning("spec.minTaskMember", "the minimums of the tasks add up to more than minMember: they are ignored")
    yield from context.queue("spec.queue", spec.queue)
    yield from context.priority_class("spec.priorityClassName", spec.priority_class_name)
    yield from _check_priority(group, pods, context)
    yield from network_topology.check("spec.networkTopology", spec.network_topology, context)
    if spec.topology_affinity is not None:
        text = "a draft of Volcano: it counts only in a profile with the feature gate VolcanoTopologyAffinity"
        yield warning("spec.topologyAffinity", text)
    yield from _check_partners(group, key, around.objects.every(PodGroup))
    policies = [policy.name for policy in spec.sub_group_policy]
    yield from network_topology.check_fabrics(group.metadata, policies, around.cluster)
    yield from one_of("status.phase", group.status.phase, _PHASES)
    yield from _check_policies(group, context)
    yield from _check_room(group, pods, context)


def _check_partners(group: PodGroup, key: Key, others: Mapping[str, PodGroup]) -> Iterator[Issue]:
    """Yield at most one issue of the annotation that names the pod groups this one starts together with.

    It is an error where the annotation cannot be read, else a warning for the first partner, by name, that lists other
    groups: then this group starts by itself. Partners that do not exist are not reported.
    """
    names = partners_of(key.path, group.metadata)
    where = f"metadata.annotations.{GROUPS}"
    if isinstance(names, str):
        yield error(where, names)
        return
    for name in sorted(names & others.keys()):
        if partners_of(name, others[name].metadata) != names:
            yield warning(where, f"podGroup {name} does not name the same ones: {key.path} starts by itself")
            return


def _check_priority(group: PodGroup, pods: Sequence[Pod], context: ClusterContext) -> Iterator[Issue]:
    """A class above all that the pods were admitted with counts only as far as theirs."""
    named = group.spec.priority_class_name
    value = context.priority_classes.get(named)
    admitted = [pod.spec.priority for pod in pods if pod.spec.priority is not None]
    if value is not None and admitted and value > max(admitted):
        text = f'priority class "{named}" stands for {value}, and its pods were admitted with {max(admitted)} at most'
        yield warning("spec.priorityClassName", f"{text}: the podGroup has the priority of its pods")


def _check_policies(group: PodGroup, context: ClusterContext) -> Iterator[Issue]:
    seen: set[str] = set()
    limit = network_topology.limit(group.spec.network_topology, context.tiers)
    fabrics = fabrics_of_sub_groups(group.metadata)
    around = context
    for index, policy in enumerate(group.spec.sub_group_policy):
        path = f"spec.subGroupPolicy[{index}]"
        context = around.on_fabric(fabrics.get(policy.name, ""))
        outer = limit if context is around else None  # tiers of two trees are not compared
        if policy.name in seen:
            yield error(f"{path}.name", f'there are two subGroupPolicies of the name "{policy.name}"')
        seen.add(policy.name)
        inner = network_topology.limit(policy.network_topology, context.tiers)
        for issue in (*_check_policy(path, policy, context), *network_topology.within(path, inner, outer)):
            yield msgspec.structs.replace(issue, message=f'subGroupPolicy "{policy.name}": {issue.message}')


def _check_policy(path: str, policy: SubGroupPolicy, context: ClusterContext) -> Iterator[Issue]:
    if not policy.name:
        yield error(f"{path}.name", "the name is empty")
    yield from at_least(f"{path}.subGroupSize", policy.sub_group_size, 1)
    yield from at_least(f"{path}.minSubGroups", policy.min_sub_groups, 0)
    yield from label_selector(f"{path}.labelSelector", policy.label_selector)
    yield from network_topology.check(f"{path}.networkTopology", policy.network_topology, context)


def _check_room(group: PodGroup, pods: Sequence[Pod], context: ClusterContext) -> Iterator[Issue]:
    """Warnings for minimums that no domain could ever hold."""
    if context.capacity is None:
        return
    spec = group.spec
    outer = network_topology.limit(spec.network_topology, context.tiers)
    together = {}
    for name, quantity in (spec.min_resources or {}).items():
        if not name.startswith(_OF_QUOTAS):
            together[name] = amount(name, quantity)
    asks = [effective_request(pod.spec) for pod in pods]
    if pods:  # a claim counts as far as its pods ask, as in a cycle
        together = {name: min(claim, sum(ask.get(name, 0) for ask in asks)) for name, claim in together.items()}
    shares = [(smallest(asks), spec.min_member)] if pods else []
    if not context.capacity.holds(shares, outer, together):
        needed = plurals.count(spec.min_member, "pod")
        yield warning("spec.minMember", f"no domain{_up_to(outer)} can ever hold the minimum of {needed}")
    for index, policy in enumerate(spec.sub_group_policy):
        inner = network_topology.limit(policy.network_topology, context.tiers)
        pods_matching = [pod for pod in pods if matches(policy.label_selector, pod.metadata.labels, absent=True)]
        size = policy.sub_group_size or 1
        if pods_matching and inner is not None:
            smallest_request = smallest(effective_request(pod.spec) for pod in pods_matching)
            if not context.capacity.holds([(smallest_request, size)], inner, {}):
                word = "partition" if PARTITION_ID in policy.match_label_keys else "sub-group"
                message = f"no domain{_up_to(inner)} can ever hold the {plurals.count(size, 'pod')} of a {word}"
                path = f"spec.subGroupPolicy[{index}].subGroupSize"
                yield warning(path, f'subGroupPolicy "{policy.name}": {message}')


def _up_to(limit: int | None) -> str:
    return "" if limit is None else f" up to tier {limit}"
