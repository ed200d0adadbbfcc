"""Check that each Volcano gang runs whole or not at all.

A gang that was whole before (its phase or its annotations say so) and has lost pods since is no violation by the
scheduler; its policies deal with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tierwise.api.core import ObjectMeta, Pod
from tierwise.api.selector import matches
from tierwise.api.volcano import PodGroup, SubGroupPolicy
from tierwise.audit.pods import Finding, by_part, counts, group
from tierwise.port import Objects

__all__ = ["gangs", "members", "part_word", "sub_groups", "was_whole"]

_ONCE_WHOLE = ("Running", "Unknown", "Completed")


def members(objects: Objects) -> dict[str, list[Pod]]:
    """Return, by path "namespace/name" of each PodGroup that exists, its pods, whether waiting, placed or ended.

    A group without pods has an empty list.
    """
    by_group: dict[str, list[Pod]] = {path: [] for path in objects.every(PodGroup)}
    for pod in objects.every(Pod).values():
        if group(pod) in by_group:
            by_group[group(pod)].append(pod)
    return by_group


def gangs(objects: Objects) -> Iterator[Finding]:
    """Yield a finding for each lack of each PodGroup that has pods placed, is short of what its gang needs, and has
    never stood whole. Gangs that lost pods later are no finding.
    """
    inside = members(objects)
    for path, record in objects.every(PodGroup).items():
        placed = [pod for pod in inside[path] if counts(pod)]
        if not placed or was_whole(record.metadata, by_status=record.status.phase in _ONCE_WHOLE):
            continue
        for text in _missing(record, placed):
            yield Finding("part-of-gang", f"PodGroup {path}", text)


def was_whole(meta: ObjectMeta, *, by_status: bool) -> bool:
    """Whether a gang has stood whole at least once. by_status is what its status says.

    The annotation tierwise.io/partial-since overrules that: then it has not; tierwise.io/diminished-since alone is
    enough: then it has.
    """
    if meta.annotations.get("tierwise.io/partial-since"):
        return False
    return by_status or bool(meta.annotations.get("tierwise.io/diminished-since"))


def _missing(record: PodGroup, placed: list[Pod]) -> Iterator[str]:
    spec = record.spec
    if len(placed) < spec.min_member:
        yield f"{len(placed)} of {spec.min_member} pods are placed{by_part(placed)}"
    roles = Counter(
        pod.metadata.annotations.get("volcano.sh/task-spec") or pod.metadata.labels.get("volcano.sh/task-spec", "")
        for pod in placed
    )
    if sum(spec.min_task_member.values()) <= spec.min_member:
        for role, minimum in sorted(spec.min_task_member.items()):
            if roles[role] < minimum:
                yield f"{roles[role]} of {minimum} pods of task {role} are placed"
    for policy, groups in sub_groups(record, placed):
        complete = sum(len(pods) >= (policy.sub_group_size or 1) for pods in groups.values())
        if complete < (policy.min_sub_groups or 0):
            yield f"{complete} of {policy.min_sub_groups} {part_word(policy)}s of {policy.name} are complete"


def part_word(policy: SubGroupPolicy) -> str:
    """How people call a sub-group of a policy: a partition where a Job's controller has parted a task."""
    return "partition" if "volcano.sh/partition-id" in policy.match_label_keys else "sub-group"


def sub_groups(record: PodGroup, pods: list[Pod]) -> Iterator[tuple[SubGroupPolicy, dict[tuple[str, ...], list[Pod]]]]:
    """The sub-groups of each policy by their label values; a pod belongs to the first policy that takes it."""
    unsorted_pods = pods
    for policy in record.spec.sub_group_policy:
        by_values: dict[tuple[str, ...], list[Pod]] = {}
        unmatched = []
        for pod in unsorted_pods:
            labels = pod.metadata.labels
            values = tuple(labels.get(key, "") for key in policy.match_label_keys)
            if all(values) and matches(policy.label_selector, labels, absent=True):
                by_values.setdefault(values, []).append(pod)
            else:
                unmatched.append(pod)
        unsorted_pods = unmatched
        yield policy, by_values
