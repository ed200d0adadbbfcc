"""NVIDIA Dynamo's graphs: a PodCliqueSet of Grove's for all components, or a workload for each where Grove is refused.

A component of several nodes is a scaling group of a leader and its workers. As much of each component as its
`minAvailable` says, one where it says nothing, starts together; the rest starts by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.dialects.workloads.children import Child, Expansion, NoTemplateError, Owner, named, pod
from tierwise.dialects.workloads.fields import Fields, few
from tierwise.dialects.workloads.gangs import marks_of_group
from tierwise.dialects.workloads.templates import patched, with_marks
from tierwise.dialects.workloads.unread import Unread, marked

__all__ = ["GRAPH", "dynamo_graph_deployment"]

_NVIDIA: Final = "nvidia.com"
GRAPH: Final = f"{_NVIDIA}/dynamo-graph-deployment-name"
_GROVE: Final = f"{_NVIDIA}/enable-grove"
_MAIN: Final = "main"
_GPU: Final = "nvidia.com/gpu"
_SHARED: Final = "the operator makes claims that pods share, and further pods or containers"


class _Component(msgspec.Struct, frozen=True):
    name: str
    fields: Fields
    template: Raw
    path: str
    """The field that the template comes from."""

    @property
    def nodes(self) -> int:
        return max(self.fields.at("multinode").count("nodeCount", 1), 1)

    @property
    def is_scaling_group(self) -> bool:
        return self.nodes > 1 or self.fields.at("experimental", "grove").flag("forceScalingGroup")


def dynamo_graph_deployment(owner: Owner) -> Expansion:
    """Children that the operator makes of the components; components without replicas are left out."""
    components = list(_components(owner))
    if not components:
        raise NoTemplateError("at least one is needed", field="spec.components")
    unread = Unread(_unread(owner, components))
    examples = [pod(owner, Fields(component.template, component.path), owner.name) for component in components]
    total = 0
    for component in components:
        total += component.fields.count("replicas", 1) * component.nodes
        few(component.fields, "replicas", total)
    active = [component for component in components if component.fields.count("replicas", 1)]
    if not active:
        return Expansion(note="none of its components has replicas", examples=examples)
    claims = [Child(raw, "spec.pvcs") for raw in _claims(owner)]
    if owner.annotations.get(_GROVE, "").lower() == "false":
        alone = [Child(_alone(owner, component, unread)) for component in active]
        return Expansion([*claims, *alone], waits=unread.why, examples=examples)
    return Expansion([*claims, Child(_clique_set(owner, active, unread))], waits=unread.why, examples=examples)


def _components(owner: Owner) -> Iterator[_Component]:
    """Those of the list, or of the map of services that the first version of the kind has."""
    services = owner.spec.at("services")
    for name in services.raw:
        yield _service(owner, name, services.at(name))
    for entry in owner.spec.each("components") if not services else ():
        name = entry.text("name")
        template = entry.at("podTemplate")
        path = template.where("spec")
        spec = _with_claims(Fields(template.at("spec").raw, path))
        yield _Component(name, entry, _marked(owner, name, {**template.raw, "spec": spec}), template.path)


def _service(owner: Owner, name: str, entry: Fields) -> _Component:
    """A service as a component: its fields for the main container become those of a pod template."""
    extra = entry.at("extraPodSpec")
    meta = entry.at("extraPodMetadata")
    main = extra.at("mainContainer")
    spec = {field: value for field, value in extra.raw.items() if field != "mainContainer"}
    if not main and not extra.raw.get("containers"):
        raise NoTemplateError("it has no pod template", field=extra.where("mainContainer"))
    main_container = {**main.raw, "name": _MAIN, "resources": _resources(entry.at("resources"), main.at("resources"))}
    mounts = [{"name": mount.text("name")} for mount in entry.each("volumeMounts")]
    main_container["volumeMounts"] = [*(mount.raw for mount in main.each("volumeMounts")), *mounts]
    spec["containers"] = [
        main_container,
        *(container.raw for container in extra.each("containers") if container.text("name") != _MAIN),
    ]
    spec = _with_claims(Fields(spec, extra.path))
    marks = {field: entry.texts(field) | meta.texts(field) for field in ("labels", "annotations")}
    template = _marked(owner, name, {"metadata": marks, "spec": spec})
    return _Component(name, entry, template, entry.where("extraPodSpec"))


def _resources(stated: Fields, main: Fields) -> Raw:
    """Amounts by Kubernetes' names; those of the main container come first."""
    resources: Raw = {**main.raw}
    for part in ("requests", "limits"):
        item = stated.at(part)
        amounts: Raw = {name: item.raw[name] for name in ("cpu", "memory") if item.raw.get(name)}
        if item.raw.get("gpu"):
            amounts[item.text("gpuType", _GPU)] = item.raw["gpu"]
        resources[part] = {**amounts, **item.at("custom").raw, **main.at(part).raw}
    if stated.raw.get("claims") and not main.raw.get("claims"):
        resources["claims"] = stated.raw["claims"]
    return resources


def _with_claims(spec: Fields) -> Raw:
    """A spec with a volume for each mount of the main container that has none: the claim of that name."""
    volume_names = {volume.text("name") for volume in spec.each("volumes")}
    main = next((container for container in spec.each("containers") if container.text("name") == _MAIN), Fields({}))
    names = dict.fromkeys(mount.text("name") for mount in main.each("volumeMounts"))
    added = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names if name not in volume_names]
    if added:
        return {**spec.raw, "volumes": [*(volume.raw for volume in spec.each("volumes")), *added]}
    return spec.raw


def _marked(owner: Owner, name: str, template: Raw) -> Raw:
    """A pod template with the marks of the graph and those of the operator."""
    labels = {GRAPH: owner.name, f"{_NVIDIA}/dynamo-component": name}
    base = with_marks({}, owner.spec.texts("labels"), owner.spec.texts("annotations"))
    return with_marks(patched(base, template), labels)


def _unread(owner: Owner, components: list[_Component]) -> Iterator[tuple[str, str]]:
    """Fields that change what pods there are, or what they are given, and that are not read."""
    for fields in (owner.spec, *(component.fields for component in components)):
        if fields.raw.get("providerOverride") is not None:
            yield fields.where("providerOverride"), "fields of Grove's kinds are not written through here"
    for component in components:
        for fields in (component.fields, component.fields.at("experimental")):
            for name in ("gpuMemoryService", "failover"):
                if fields.raw.get(name) is not None and fields.at(name).raw.get("enabled", True):
                    yield fields.where(name), _SHARED
            checkpoint = fields.at("checkpoint")
            if checkpoint.flag("enabled") and checkpoint.text("startupPolicy") == "WaitForCheckpoint":
                yield checkpoint.where("startupPolicy"), "the operator makes no pods before there is a checkpoint"


def _claims(owner: Owner) -> Iterator[Raw]:
    """Claims that the first version of the kind asks to be made."""
    for entry in owner.spec.each("pvcs"):
        if entry.flag("create"):
            spec: Raw = {
                "accessModes": [entry.text("volumeAccessMode")],
                "storageClassName": entry.text("storageClass"),
                "resources": {"requests": {"storage": entry.raw.get("size")}},
            }
            yield named(owner, "v1", "PersistentVolumeClaim", entry.text("name"), {"spec": spec})


def _alone(owner: Owner, component: _Component, unread: Unread) -> Raw:
    """A component without Grove: a Deployment, or a LeaderWorkerSet where it spans nodes."""
    name = f"{owner.name}-{component.name.lower()}"
    replicas = component.fields.count("replicas", 1)
    template = marked(component.template, unread)
    if component.nodes > 1:
        body: Raw = {"size": component.nodes, "workerTemplate": template}
        spec: Raw = {"replicas": replicas, "leaderWorkerTemplate": body}
        return named(owner, "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, {"spec": spec})
    labels = {GRAPH: owner.name, f"{_NVIDIA}/dynamo-component": component.name}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return named(owner, "apps/v1", "Deployment", name, {"spec": spec})


def _clique_set(owner: Owner, components: list[_Component], unread: Unread) -> Raw:
    """All components as cliques of one set."""
    constraint = owner.spec.at("topologyConstraint")
    topology = constraint.text("clusterTopologyName")
    template: Raw = {"cliques": [], **_near(constraint, topology)}
    if owner.spec.text("priorityClassName"):
        template["priorityClassName"] = owner.spec.text("priorityClassName")
    cliques: list[Raw] = []
    groups: list[Raw] = []
    for component in components:
        near = _near(component.fields.at("topologyConstraint"), topology)
        replicas = component.fields.count("replicas", 1)
        minimum = component.fields.number("minAvailable", 1)
        if not component.is_scaling_group:
            cliques.append(_clique(component, component.name, replicas, minimum, unread) | near)
            continue
        roles = (
            {f"{component.name}-ldr": 1, f"{component.name}-wkr": component.nodes - 1}
            if component.nodes > 1
            else {component.name: 1}
        )
        cliques += (_clique(component, name, number, number, unread) for name, number in roles.items())
        names = [name.lower() for name in roles]
        group: Raw = {
            "name": component.name.lower(),
            "cliqueNames": names,
            "replicas": replicas,
            "minAvailable": minimum,
        }
        groups.append(group | near)
    template |= {"cliques": cliques} | ({"podCliqueScalingGroups": groups} if groups else {})
    body: Raw = {"spec": {"replicas": 1, "template": template}}
    handed_on = marks_of_group(owner)
    labels = {**owner.spec.texts("labels"), **handed_on.get("labels", {}), GRAPH: owner.name}
    annotations = {**owner.spec.texts("annotations"), **handed_on.get("annotations", {})}
    return named(owner, "grove.io/v1alpha1", "PodCliqueSet", owner.name, body, labels=labels, annotations=annotations)


def _clique(component: _Component, name: str, replicas: int, minimum: int, unread: Unread) -> Raw:
    template = Fields(marked(component.template, unread))
    meta = template.at("metadata")
    spec: Raw = {"roleName": name.lower(), "replicas": replicas, "minAvailable": minimum}
    spec["podSpec"] = template.at("spec").raw
    return {
        "name": name.lower(),
        "labels": meta.texts("labels"),
        "annotations": meta.texts("annotations"),
        "spec": spec,
    }


def _near(constraint: Fields, topology: str) -> Raw:
    """{"topologyConstraint": ...}, to be merged into a Grove object, that requires one domain of the constraint's
    packDomain. It is {} where the constraint names none. topology is the name where the constraint names no
    topologyProfile.
    """
    domain = constraint.text("packDomain")
    pack: Raw = {"topologyName": constraint.text("topologyProfile") or topology, "pack": {"required": domain}}
    return {"topologyConstraint": pack} if domain else {}
