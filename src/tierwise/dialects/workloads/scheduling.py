"""`spec.scheduling` of a workload: the PodGroup of scheduling.k8s.io that the workload's own controller makes of it.

Kubernetes 1.37 has the field on Jobs; StatefulSets and JobSets are to have it. A workload that says something in it
which is not understood here gets no group: its pods name one that does not exist, so they wait, and are never started
as if the field were not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from tierwise.api import field_names
from tierwise.api.brief import brief
from tierwise.api.codec import Raw, part
from tierwise.api.workload import GROUP
from tierwise.dialects.pod_marks import NO_GROUP
from tierwise.dialects.workloads.children import Child, Owner, digest, named
from tierwise.dialects.workloads.fields import Fields
from tierwise.dialects.workloads.gangs import marks_of_group

__all__ = ["PodGroup", "is_declared", "of_job_set", "of_pods"]

_FIELD: Final = "scheduling"
_API_VERSION: Final = f"{GROUP}/v1beta1"
_TYPE: Final = "JobSchedulingConfiguration"
"""The type of the field in `field_names.txt`."""


class PodGroup(msgspec.Struct, frozen=True):
    """The group that the field of a workload asks for."""

    name: str
    child: Child | None
    """None where the field is not understood: the group is not made."""
    waits: str = ""
    """Why it is not made."""
    owner: str = ""
    """Which workload asks for it."""

    def inside(self, pod: Raw) -> Raw:
        """A pod, or a template of pods, in this group; it says why, where there will be no such group."""
        spec = part(pod, "spec")
        meta = part(pod, "metadata")
        if self.waits:
            why = {NO_GROUP: brief(f"{self.owner}: {self.waits}")}
            meta = {**meta, "annotations": part(meta, "annotations") | why}
        return {**pod, "metadata": meta, "spec": {**spec, "schedulingGroup": {"podGroupName": self.name}}}

    def with_pods(self, pods: Sequence[Child]) -> list[Child]:
        """The group and its pods; many pods of one kind stay one manifest. No group is made for no pods."""
        by_template: dict[int, Raw] = {}
        for pod in pods:
            if id(pod.raw) not in by_template:
                by_template[id(pod.raw)] = self.inside(pod.raw)
        group = [self.child] if self.child is not None and pods else []
        return group + [msgspec.structs.replace(pod, raw=by_template[id(pod.raw)]) for pod in pods]


def is_declared(spec: Fields) -> bool:
    """Whether the spec of a workload says how its pods are scheduled."""
    return spec.raw.get(_FIELD) is not None


def of_pods(owner: Owner, size: int, remaining: int) -> PodGroup:
    """The group of a workload that runs `size` pods at a time.

    It has `left` to run: one that has done a part of its work starts with fewer than it began with.
    """
    scheduling = owner.spec.at(_FIELD)
    return _group(owner, scheduling, _first_fault(scheduling, size), remaining)


def of_job_set(owner: Owner, replicated: Sequence[Fields], total: int) -> PodGroup:
    """The group of all pods of a JobSet, which are a gang where it does not say otherwise.

    Policies for single replicated jobs are not read, nor gangs for which a number of Jobs is enough.
    """
    given = owner.spec.at(_FIELD)
    gang = given.at("schedulingPolicy", "gang")
    for place, name in ((given, "replicatedJobs"), (gang, "minGroupCount")):
        if place.raw.get(name) is not None:
            return _group(owner, given, f"{place.where(name)}: it is not read here", total)
    jobs = (entry.at("template", "spec") for entry in replicated)
    twice = next((job.where(_FIELD) for job in jobs if is_declared(job)), "")
    if twice:
        return _group(owner, given, f"{twice}: the JobSet says already how its pods are scheduled", total)
    policy = given.raw.get("schedulingPolicy") or {"gang": {}}
    scheduling = Fields({**given.raw, "schedulingPolicy": policy}, given.path)
    return _group(owner, scheduling, _first_fault(scheduling, total), total)


def _group(owner: Owner, scheduling: Fields, fault: str, pods_at_most: int) -> PodGroup:
    """The PodGroup, word for word as the workload has it, but that it never needs more pods than there will be."""
    name = _name(owner)
    if fault:
        return PodGroup(name, None, fault, f"{owner.kind} {owner.namespace}/{owner.name}")
    spec: Raw = dict(scheduling.raw)
    policy = scheduling.at("schedulingPolicy")
    if policy.raw.get("gang") is not None:
        minimum = min(policy.at("gang").number("minCount", pods_at_most), pods_at_most)
        spec["schedulingPolicy"] = {"gang": {"minCount": max(minimum, 1)}}
    raw = named(owner, _API_VERSION, "PodGroup", name, {"spec": spec}, **marks_of_group(owner))
    return PodGroup(name, Child(raw, scheduling.path))


def _name(owner: Owner) -> str:
    """The group that pods of the workload name already, else a name that no other workload has."""
    groups = (pod.spec.scheduling_group for pod in owner.pods())
    stated_name = next((group.pod_group_name for group in groups if group is not None and group.pod_group_name), "")
    return stated_name or f"{owner.name}-{digest(f'{owner.kind} {owner.namespace}/{owner.name}', 5)}"


def _first_fault(scheduling: Fields, size: int) -> str:
    return next((f"{place}: {why}" for place, why in _faults(scheduling, size)), "")


def _faults(scheduling: Fields, size: int) -> Iterator[tuple[str, str]]:
    """Faults of the field as pairs of place and reason: not understood, or impossible with this number of pods."""
    yield from field_names.unheard_in(scheduling.raw, _TYPE, scheduling.path)
    policy = scheduling.at("schedulingPolicy")
    if sum(policy.raw.get(name) is not None for name in ("basic", "gang")) != 1:
        yield policy.path, "exactly one of basic and gang must be set"
    gang = policy.at("gang")
    minimum = gang.number("minCount", max(size, 1))
    if minimum < 1:
        yield gang.where("minCount"), f"{minimum} is less than 1"
    if minimum > max(size, 1):
        yield gang.where("minCount"), f"{minimum} is more than the {size} pods that run at a time"
    topology = list(scheduling.at("schedulingConstraints").each("topology"))
    if len(topology) > 1:
        yield scheduling.where("schedulingConstraints.topology"), f"{len(topology)} are more than the one allowed"
    for entry in topology:
        if not entry.text("key"):
            yield entry.where("key"), "the key is empty"
    if scheduling.raw.get("resourceClaims"):
        yield scheduling.where("resourceClaims"), "device claims of a whole group are not read"
    mode = scheduling.at("disruptionMode")
    if mode and sum(mode.raw.get(name) is not None for name in ("single", "all")) != 1:
        yield mode.path, "exactly one of single and all must be set"
