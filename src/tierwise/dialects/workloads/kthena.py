"""ModelServings of Kthena: serving groups of roles, each an entry pod and its workers, and Volcano's PodGroup of each.

A serving group is a gang where Volcano schedules it, as Kthena has it where nothing is said, or tierwise does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.dialects.workloads.children import Child, Expansion, NoTemplateError, Owner, pod
from tierwise.dialects.workloads.fields import Fields, few
from tierwise.dialects.workloads.gangs import Gang, of_templates
from tierwise.dialects.workloads.templates import with_marks
from tierwise.dialects.workloads.unread import Unread, marked

__all__ = ["model_serving"]

_PREFIX: Final = "modelserving.volcano.sh"
_NAME: Final = f"{_PREFIX}/name"
_ROLE: Final = f"{_PREFIX}/role"
_ROLE_ID: Final = f"{_PREFIX}/role-id"
_TASK: Final = "volcano.sh/task-spec"
_GANGS: Final = ("volcano", "tierwise")
"""Schedulers for which serving groups are gangs; the first is Kthena's default."""
_HARMLESS: Final = ("lws-standard-labels",)
"""Plugins that add labels and nothing else."""


class _Role(msgspec.Struct, frozen=True):
    name: str
    replicas: int
    least: int
    """How many of them the serving group needs to start."""
    entry: Child
    worker: Child
    workers: int


def model_serving(owner: Owner) -> Expansion:
    """The serving groups: pods by role, and a gang of each group."""
    spec = owner.spec
    template = owner.spec.at("template")
    scheduler = spec.text("schedulerName", _GANGS[0])
    roles = [_role(owner, entry, template, scheduler) for entry in template.each("roles")]
    if not roles:
        raise NoTemplateError("at least one is needed", field="spec.template.roles")
    groups = spec.count("replicas", 1)
    few(spec, "replicas", groups * sum(role.replicas * (1 + role.workers) for role in roles))
    examples: list[Child] = []
    for role in roles:
        examples.extend((role.entry, role.worker)[: 2 if role.workers else 1])
    unread = Unread(_unread(spec))
    children: list[Child] = []
    for index in range(groups):
        children += _group(owner, f"{owner.name}-{index}", roles, unread)
    return Expansion(children, waits=unread.why, examples=examples)


def _role(owner: Owner, entry: Fields, template: Fields, scheduler: str) -> _Role:
    name = entry.text("name")
    replicas = entry.count("replicas", 1)
    workers = entry.count("workerReplicas", 0)
    minimum = template.at("gangPolicy", "minRoleReplicas").number(name, replicas)
    pods = [entry.at("entryTemplate"), entry.at("workerTemplate")]
    labels = {_NAME: owner.name, _ROLE: name}
    examples_made = [_example(owner, pod_fields, scheduler, labels) for pod_fields in pods[: 2 if workers else 1]]
    return _Role(name, replicas, min(minimum, replicas), examples_made[0], examples_made[-1], workers)


def _example(owner: Owner, template: Fields, scheduler: str, labels: dict[str, str]) -> Child:
    spec: Raw = {**template.at("spec").raw, "schedulerName": scheduler} if template.at("spec") else {}
    return pod(owner, Fields({**template.raw, "spec": spec}, template.path), owner.name, labels=labels)


def _unread(spec: Fields) -> Iterator[tuple[str, str]]:
    for plugin in spec.each("plugins"):
        if plugin.text("name") not in _HARMLESS:
            yield plugin.path, "what the plugin changes in pods is not known here"


def _group(owner: Owner, name: str, roles: Sequence[_Role], unread: Unread) -> Iterator[Child]:
    """The pods of one serving group, and the gang that they are in."""
    network = owner.spec.at("template", "networkTopology")
    minimum = sum(role.least * (1 + role.workers) for role in roles)
    gang = Gang(name, minimum, topology=network.at("groupPolicy").raw)
    templates = [child for role in roles for child in (role.entry, role.worker)]
    together = owner.spec.text("schedulerName", _GANGS[0]) in _GANGS
    marks, groups = of_templates(owner, gang, templates) if together and minimum else (None, [])
    for group in groups:
        policy = [_sub_group(owner, role, network.at("rolePolicy").raw) for role in roles]
        spec = group.raw["spec"]
        assert isinstance(spec, dict)
        yield Child({**group.raw, "spec": {**spec, "subGroupPolicy": policy}})
    needed = [(role, replica) for role in roles for replica in range(role.least)]
    further = [(role, replica) for role in roles for replica in range(role.least, role.replicas)]
    for role, replica in needed + further:  # the others may have to wait until some of these have started
        replica_name = f"{role.name}-{replica}"
        labels = {f"{_PREFIX}/group-name": name, _ROLE_ID: replica_name}
        annotations = {**marks.annotations, _TASK: replica_name} if marks is not None and groups else {}
        for place in range(1 + role.workers):
            child = role.worker if place else role.entry
            raw = with_marks(marked(child.raw, unread), labels, annotations)
            yield msgspec.structs.replace(child, raw=_called(raw, f"{name}-{replica_name}-{place}"))


def _called(raw: Raw, name: str) -> Raw:
    return {**raw, "metadata": {**Fields(raw).at("metadata").raw, "name": name}}


def _sub_group(owner: Owner, role: _Role, near: Raw) -> Raw:
    """The instances of a role, in Volcano's words: pods of one instance are together, and so many instances start."""
    policy: Raw = {
        "name": role.name,
        "labelSelector": {"matchLabels": {_NAME: owner.name, _ROLE: role.name}},
        "matchLabelKeys": [_ROLE_ID],
        "subGroupSize": 1 + role.workers,
        "minSubGroups": role.least,
    }
    if near:
        return {**policy, "networkTopology": near}
    return policy
