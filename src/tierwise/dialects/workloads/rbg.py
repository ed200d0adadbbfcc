"""RoleBasedGroups: the workload of each role, and one group of all pods where a gang is asked for.

A role is a set of instances. An instance is a pod, a leader with its workers, or a pod of each of several components;
what holds the instances is a Deployment, a StatefulSet or a LeaderWorkerSet where the role says so. The sets of the
project's own, which are the default of its second version, make nothing but pods, so these are the group's own here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.dialects.workloads.children import Child, Expansion, NoTemplateError, Owner, digest, named, pod
from tierwise.dialects.workloads.fields import Fields, few
from tierwise.dialects.workloads.gangs import Gang, of_templates
from tierwise.dialects.workloads.templates import has_directives, in_own_domain, patched, with_marks
from tierwise.dialects.workloads.unread import Unread, marked

__all__ = ["role_based_group"]

_PREFIX: Final = "rbg.workloads.x-k8s.io"
_FORMER: Final = "rolebasedgroup.workloads.x-k8s.io"
_NAME: Final = f"{_PREFIX}/group-name"
_ROLE: Final = f"{_PREFIX}/role-name"
_TYPE: Final = f"{_PREFIX}/role-workload-type"
_GANG: Final = f"{_PREFIX}/group-gang-scheduling"
_EXCLUSIVE: Final = (f"{_PREFIX}/group-exclusive-topology", f"{_FORMER}/exclusive-topology")
_NOT_EXCLUSIVE: Final = (f"{_PREFIX}/role-disable-exclusive", f"{_FORMER}/disable-exclusive-topology")
_UNIQUE: Final = f"{_PREFIX}/group-unique-hash"
_OWN_SETS: Final = ("RoleInstanceSet", "InstanceSet")
_LEADERS: Final = "LeaderWorkerSet"


class _Part(msgspec.Struct, frozen=True):
    """Pods of one kind in an instance."""

    name: str
    size: int
    template: Raw
    path: str


class _Role(msgspec.Struct, frozen=True):
    name: str
    fields: Fields
    kind: str
    """The workload that holds its instances."""
    replicas: int
    parts: Sequence[_Part]
    in_line: bool
    """Whether an instance is a leader and its workers, with one row of numbers."""
    listed: bool
    """Whether an instance has several components, which are named."""

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


def role_based_group(owner: Owner) -> Expansion:
    """Children that the controller makes of the roles."""
    entries = list(owner.spec.each("roles"))
    if not entries:
        raise NoTemplateError("at least one is needed", field="spec.roles")
    roles = [_role(owner, entry) for entry in entries]
    unread = Unread(fault for role in roles for fault in _unread(role))
    templates = [pod(owner, Fields(part.template, part.path), owner.name) for role in roles for part in role.parts]
    total = 0
    for role in roles:
        total += role.replicas * role.size
        few(role.fields, "replicas", total)
    gang = _gang(owner, roles)
    marks, group = of_templates(owner, gang, templates) if gang.minimum else (None, [])
    children = group
    for role in roles:
        parts = []
        for part in role.parts:
            template = marked(_apart(owner, part.template), unread)
            if marks is not None:
                template = with_marks(template, marks.labels, marks.annotations)
            parts.append(msgspec.structs.replace(part, template=template))
        children = [*children, *_made(owner, msgspec.structs.replace(role, parts=parts))]
    return Expansion(children, waits=unread.why, examples=templates)


def _role(owner: Owner, entry: Fields) -> _Role:
    name = entry.text("name")
    replicas = entry.count("replicas", 1)
    leaders = entry.at("leaderWorkerPattern") or entry.at("leaderWorkerSet")
    listed = list(entry.at("customComponentsPattern").each("components")) or list(entry.each("components"))
    alone = entry if _is_first(owner) else entry.at("standalonePattern")
    source = entry.at("leaderWorkerPattern") or alone
    if leaders:
        base, path = _template(owner, entry, source)
        size = max(leaders.count("size", 1), 1)
        parts = [_Part("leader", 1, _patched(base, leaders, "leader"), path)]
        if size > 1:
            parts.append(_Part("worker", size - 1, _patched(base, leaders, "worker"), path))
    elif listed:
        parts = [_component(part) for part in listed]
    else:
        parts = [_Part(name, 1, *_template(owner, entry, source))]
    marks = {_NAME: owner.name, _ROLE: name}
    parts = [msgspec.structs.replace(part, template=with_marks(part.template, marks)) for part in parts]
    return _Role(name, entry, _kind(entry, owner), replicas, parts, bool(leaders), bool(listed))


def _kind(entry: Fields, owner: Owner) -> str:
    """The kind that holds the instances: each version has a default and a field of its own."""
    workload_kind = entry.at("workload").text("kind") or entry.texts("annotations").get(_TYPE, "").rpartition("/")[2]
    return workload_kind or ("StatefulSet" if _is_first(owner) else _OWN_SETS[0])


def _is_first(owner: Owner) -> bool:
    """Whether the group is written in the first version of its kind."""
    return str(owner.raw["apiVersion"]).endswith("/v1alpha1")


def _template(owner: Owner, entry: Fields, source: Fields) -> tuple[Raw, str]:
    """The template of a role, or the one of the group that it refers to with a patch; and its field."""
    template = source.at("template")
    refers = source.at("templateRef")
    patch = refers.at("patch") or entry.at("templatePatch")
    if refers.text("name"):
        by_name = {role_template.text("name"): role_template for role_template in owner.spec.each("roleTemplates")}
        if refers.text("name") not in by_name:
            raise refers.wrong("name", f"there is no role template {refers.text('name')}")
        template = by_name[refers.text("name")].at("template")
    return patched(template.raw, patch.raw), template.path


def _patched(base: Raw, leaders: Fields, part: str) -> Raw:
    """The template of a leader or a worker, whose patch has a name of its own in each version."""
    patch = leaders.at(f"{part}TemplatePatch") or leaders.at(f"patch{part.title()}Template")
    return patched(base, patch.raw)


def _component(entry: Fields) -> _Part:
    template = with_marks(entry.at("template").raw, entry.texts("labels"), entry.texts("annotations"))
    return _Part(entry.text("name"), entry.count("size", 1), template, entry.where("template"))


def _unread(role: _Role) -> Iterator[tuple[str, str]]:
    """Fields that change what pods there are, or what they ask for, and that are not read."""
    kinds_read = ("Deployment", "StatefulSet", _LEADERS, *_OWN_SETS)
    if role.kind not in kinds_read:
        yield role.fields.where("workload"), f"nothing is known of {role.kind} as the workload of a role"
    elif role.size > 1 and role.kind not in (_LEADERS, *_OWN_SETS):
        yield role.fields.where("workload"), f"a {role.kind} holds instances of one pod"
    if any(True for _ in role.fields.each("engineRuntimes")):
        yield role.fields.where("engineRuntimes"), "containers of profiles are not added here"
    if has_directives(role.fields.raw):
        yield role.fields.path, "directives of patches are not followed here"


def _gang(owner: Owner, roles: Sequence[_Role]) -> Gang:
    """The group of all; without a minimum where none is asked for. Of components the controller counts instances."""
    policy = owner.spec.at("podGroupPolicy")
    volcano = policy.at("volcanoScheduling")
    plugins = policy.at("kubeScheduling")
    annotations = owner.annotations
    wants_gang = annotations.get(_GANG) == "true" or any(value is not None for value in policy.raw.values())
    counted = (role.replicas * (role.size if role.in_line else 1) for role in roles)
    given_time = "scheduleTimeoutSeconds" in plugins.raw
    return Gang(
        owner.name,
        sum(counted) if wants_gang else 0,
        queue=volcano.text("queue") or annotations.get(f"{_GANG}-volcano-queue", ""),
        priority_class=volcano.text("priorityClassName") or annotations.get(f"{_GANG}-volcano-priority", ""),
        timeout=plugins.number("scheduleTimeoutSeconds", 0) if given_time else None,
        plugins=policy.raw.get("kubeScheduling") is not None,
    )


def _apart(owner: Owner, template: Raw) -> Raw:
    """A template that keeps the group in one domain, and others of its like out of it, where that is asked for."""
    topology = next((owner.annotations[key] for key in _EXCLUSIVE if owner.annotations.get(key)), "")
    annotations = Fields(template).at("metadata").texts("annotations")
    if not topology or any(annotations.get(key) for key in _NOT_EXCLUSIVE):
        return template
    unique = digest(f"{owner.namespace}/{owner.name}", 40)
    spec = in_own_domain(Fields(template).at("spec").raw, _UNIQUE, unique, topology)
    return {**with_marks(template, {_UNIQUE: unique}), "spec": spec}


def _made(owner: Owner, role: _Role) -> Iterator[Child]:
    """The workload of a role, or the pods of its instances."""
    name = f"{owner.name}-{role.name}"
    template = role.parts[0].template
    labels = {_NAME: owner.name, _ROLE: role.name}
    selector: Raw = {"replicas": role.replicas, "selector": {"matchLabels": labels}, "template": template}
    if role.kind == _LEADERS:
        body: Raw = {"size": role.size, "workerTemplate": role.parts[-1].template}
        if role.size > 1:
            body["leaderTemplate"] = template
        spec: Raw = {"replicas": role.replicas, "leaderWorkerTemplate": body}
        yield Child(named(owner, "leaderworkerset.x-k8s.io/v1", _LEADERS, name, {"spec": spec}, labels=labels))
    elif role.kind in ("Deployment", "StatefulSet") and role.size == 1:
        yield Child(named(owner, "apps/v1", role.kind, name, {"spec": selector}, labels=labels))
    else:
        for index in range(role.replicas):
            yield from _instance(owner, role, f"{name}-{index}")


def _instance(owner: Owner, role: _Role, name: str) -> Iterator[Child]:
    place = 0
    for part in role.parts:
        for index in range(part.size):
            pod_prefix = f"{name}-{place}" if role.in_line else name
            pod_prefix = f"{name}-{part.name}-{index}" if role.listed else pod_prefix
            labels = {f"{_PREFIX}/role-instance-name": name, f"{_PREFIX}/component-name": part.name}
            yield pod(owner, Fields(part.template, part.path), pod_prefix, labels=labels)
            place += 1
