"""StormServices of AIBrix: RoleSets, and of each the pods of its roles, with the group that a strategy asks for.

A role with a size makes sets of so many pods in place of single ones, which may be a group each. Groups are those of
the scheduler that a strategy names, word for word as it has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tierwise.api.codec import Raw
from tierwise.dialects.workloads.children import Child, Expansion, NoTemplateError, Owner, alike, named, pod
from tierwise.dialects.workloads.fields import Fields, few
from tierwise.dialects.workloads.gangs import marks_of_group
from tierwise.dialects.workloads.templates import with_marks
from tierwise.dialects.workloads.unread import Unread, marked

__all__ = ["role_set", "storm_service"]

_AIBRIX: Final = "orchestration.aibrix.ai"
_PREFIX: Final = f"stormservice.{_AIBRIX}"
_SERVICE: Final = "storm-service-name"
_SET: Final = "roleset-name"
_ROLE: Final = "role-name"
_INDEX: Final = f"{_PREFIX}/role-replica-index"
_POD_SET: Final = f"{_PREFIX}/podset-name"
_STRATEGY: Final = "schedulingStrategy"
_VOLCANO: Final = "volcanoSchedulingStrategy"
_PLUGINS: Final = "coschedulingSchedulingStrategy"
_NOT_READ: Final = "PodGroups of this scheduler are not read"
_WEIGHT: Final = 100
"""Of a topology that is preferred."""


def storm_service(owner: Owner) -> Expansion:
    """So many RoleSets, each of which makes its pods."""
    template = owner.spec.at("template")
    examples = [pod(owner, role.at("template"), owner.name) for role in _roles(template.at("spec"))]
    replicas = owner.spec.count("replicas", 1)
    few(owner.spec, "replicas", replicas * _size(template.at("spec")))
    mark = {_SERVICE: owner.name}
    raw = with_marks({"metadata": template.at("metadata").raw}, mark)
    meta = Fields(raw).at("metadata")
    group_marks_found = marks_of_group(owner)
    role_sets = named(
        owner,
        f"{_AIBRIX}/v1alpha1",
        "RoleSet",
        f"{owner.name}-roleset-",
        {"spec": template.at("spec").raw},
        labels={**group_marks_found.get("labels", {}), **meta.texts("labels")},
        annotations={**group_marks_found.get("annotations", {}), **meta.texts("annotations")},
    )
    unread = Unread(_unread(template.at("spec")))
    return Expansion(alike(Child(role_sets), replicas, mark), waits=unread.why, examples=examples)


def role_set(owner: Owner) -> Expansion:
    """The pods of every role, and the groups that strategies ask for."""
    roles = _roles(owner.spec)
    examples = [pod(owner, role.at("template"), owner.name) for role in roles]
    few(owner.spec, "roles", _size(owner.spec))
    unread = Unread(_unread(owner.spec))
    strategy = owner.spec.at(_STRATEGY)
    children = [Child(raw) for raw in _groups(owner, strategy, owner.name)]
    for role in roles:
        children += _pods(owner, role, unread)
    return Expansion(children, waits=unread.why, examples=examples)


def _roles(spec: Fields) -> list[Fields]:
    roles = list(spec.each("roles"))
    if not roles:
        raise NoTemplateError("at least one is needed", field=spec.where("roles"))
    return roles


def _size(spec: Fields) -> int:
    return sum(role.count("replicas", 1) * max(role.count("podGroupSize", 1), 1) for role in _roles(spec))


def _unread(spec: Fields) -> Iterator[tuple[str, str]]:
    for fields in (spec, *_roles(spec)):
        strategy = fields.at(_STRATEGY)
        for name, value in strategy.raw.items():
            if value is not None and name not in (_VOLCANO, _PLUGINS):
                yield strategy.where(name), _NOT_READ


def _pods(owner: Owner, role: Fields, unread: Unread) -> Iterator[Child]:
    """The pods of a role, each of them known by its labels."""
    name = role.text("name")
    size = max(role.count("podGroupSize", 1), 1)
    number = role.count("replicas", 1)
    template = role.at("template")
    strategy = role.at(_STRATEGY) if size > 1 else Fields({})
    base = {_SET: owner.name, _ROLE: name, _SERVICE: owner.labels.get(_SERVICE, "")}
    for index in range(number):
        labels = base
        prefix = f"{owner.name}-{name}-"
        if size > 1:
            labels = {**base, _POD_SET: f"{prefix}{index}"}
            prefix = f"{prefix}{index}-"
        elif role.flag("stateful"):
            labels = {**base, _INDEX: str(index)}
        group = labels.get(_POD_SET, "") if strategy else owner.name
        pod_template = with_marks(
            marked(template.raw, unread), *_membership(strategy or owner.spec.at(_STRATEGY), group)
        )
        pod_template = {**pod_template, "spec": _near(owner, Fields(pod_template).at("spec").raw, labels)}
        yield from (Child(raw) for raw in _groups(owner, strategy, group))
        yield from alike(pod(owner, Fields(pod_template, template.path), prefix, labels=labels), size, labels)


def _membership(strategy: Fields, group: str) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations of the pods of a group."""
    labels = {"scheduling.x-k8s.io/pod-group": group} if strategy.raw.get(_PLUGINS) is not None else {}
    annotations = {"scheduling.k8s.io/group-name": group} if strategy.raw.get(_VOLCANO) is not None else {}
    return labels, annotations


def _groups(owner: Owner, strategy: Fields, name: str) -> Iterator[Raw]:
    versions = {_VOLCANO: "scheduling.volcano.sh/v1beta1", _PLUGINS: "scheduling.x-k8s.io/v1alpha1"}
    for field, version in versions.items():
        if strategy.raw.get(field) is not None:
            yield named(owner, version, "PodGroup", name, {"spec": strategy.at(field).raw}, **marks_of_group(owner))


def _near(owner: Owner, spec: Raw, labels: dict[str, str]) -> Raw:
    """A pod's spec with the affinity that a topology policy asks for, to pods of its service, set or role."""
    policy = owner.spec.at("topologyPolicy")
    scopes = {"StormService": (_SERVICE,), "RoleSet": (_SERVICE, _SET), "Role": (_SERVICE, _ROLE)}
    keys = scopes.get(policy.text("scope"), ())
    if not policy.text("key") or not keys:
        return spec
    term: Raw = {
        "labelSelector": {"matchLabels": {key: labels[key] for key in keys}},
        "topologyKey": policy.text("key"),
    }
    affinity = Fields(spec).at("affinity")
    pod_affinity = affinity.at("podAffinity")
    if policy.text("mode") == "Required":
        field = "requiredDuringSchedulingIgnoredDuringExecution"
        added = term
    else:
        field = "preferredDuringSchedulingIgnoredDuringExecution"
        added = {"weight": _WEIGHT, "podAffinityTerm": term}
    terms: Raw = {**pod_affinity.raw, field: [*(entry.raw for entry in pod_affinity.each(field)), added]}
    return {**spec, "affinity": {**affinity.raw, "podAffinity": terms}}
