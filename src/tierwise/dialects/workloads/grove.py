"""Grove's PodCliqueSets: the pods of their cliques, and a PodGang for each replica.

Replicas of a scaling group that are needed are in the gang of the set's replica, and each further one is a gang of its
own. A clique without a least number needs all its pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tierwise.api.codec import Raw
from tierwise.dialects.grove.pod_gang import PART_OF, REPLICA
from tierwise.dialects.workloads.children import (
    Child,
    Expansion,
    NoTemplateError,
    Owner,
    alike,
    named,
    pod,
    with_containers,
)
from tierwise.dialects.workloads.fields import Fields, few
from tierwise.dialects.workloads.gangs import marks_of_group
from tierwise.port import Key

__all__ = ["pod_clique_set"]

GROUP: Final = "grove.io"
_TOPOLOGIES: Final = ((GROUP, "ClusterTopologyBinding"), (GROUP, "ClusterTopology"))
_CLIQUE: Final = f"{GROUP}/podclique"


def pod_clique_set(owner: Owner) -> Expansion:
    """The gangs of every replica, and their pods."""
    template = owner.spec.at("template")
    cliques = {clique.text("name"): clique for clique in template.each("cliques")}
    if not cliques:
        raise NoTemplateError("at least one is needed", field="spec.template.cliques")
    for clique in cliques.values():
        with_containers(clique.at("spec", "podSpec"))
    children: list[Child] = []
    for replica in range(owner.spec.count("replicas", 0)):
        gangs: dict[str, _Gang] = {}
        needed: list[Child] = []  # before the others, which may have to wait until some of these have started
        further: list[Child] = []
        for clique, gang, name in _cliques(owner, template, cliques, replica, gangs):
            size = clique.at("spec").count("replicas", 1)
            minimum = min(clique.at("spec").number("minAvailable", size), size)
            gang.podgroups.append({"name": name, "minReplicas": minimum, **_near(owner, clique)})
            members = alike(_member(owner, clique, name, gang.name, replica), size, {_CLIQUE: name})
            needed += members[:minimum]
            further += members[minimum:]
            few(owner.spec, "replicas", len(children) + len(needed) + len(further))
        children += (Child(_manifest(owner, gang, replica)) for gang in gangs.values())
        children += needed + further
    return Expansion(children)


class _Gang:
    def __init__(self, name: str, near: Raw) -> None:
        self.name = name
        self.near = near
        self.podgroups: list[Raw] = []
        self.shared: dict[str, Raw] = {}  # constraints for some of the groups together


def _cliques(
    owner: Owner, template: Fields, cliques: dict[str, Fields], replica: int, gangs: dict[str, _Gang]
) -> Iterator[tuple[Fields, _Gang, str]]:
    """Every clique of a replica of the set with its gang and its name."""
    base = f"{owner.name}-{replica}"
    base_gang = gangs[base] = _Gang(base, _near(owner, template))
    groups = list(template.each("podCliqueScalingGroups"))
    inside = {str(name) for group in groups for name in _names(group)}
    yield from ((clique, base_gang, f"{base}-{name}") for name, clique in cliques.items() if name not in inside)
    for group in groups:
        minimum = group.number("minAvailable", 1)
        number = group.count("replicas", 1)
        for index in range(number):
            group_name = f"{base}-{group.text('name')}"
            gang = base_gang
            near = _near(owner, group)
            if index >= minimum:
                gang = gangs[f"{group_name}-{index - minimum}"] = _Gang(
                    f"{group_name}-{index - minimum}", near or _near(owner, template)
                )
            elif near:
                listed = [f"{group_name}-{index}-{name}" for name in _names(group)]
                gang.shared[f"{group_name}-{index}"] = {
                    "name": f"{group_name}-{index}",
                    "podGroupNames": listed,
                    **near,
                }
            for name in _names(group):
                if name not in cliques:
                    raise group.wrong("cliqueNames", f"there is no clique {name}")
                yield cliques[name], gang, f"{group_name}-{index}-{name}"


def _names(group: Fields) -> list[str]:
    names = group.raw.get("cliqueNames")
    if isinstance(names, list):
        return [str(name) for name in names]
    return []


def _near(owner: Owner, fields: Fields) -> Raw:
    """How near pods must be, by labels of nodes: Grove's words for levels are those of a topology of the cluster."""
    constraint = fields.at("topologyConstraint")
    pack = constraint.at("pack")
    keys = _keys(owner, constraint.text("topologyName"))
    required = pack.text("required") or constraint.text("packDomain")
    preferred = pack.text("preferred")
    words = {"required": keys.get(required, required), "preferred": keys.get(preferred, preferred)}
    pack_words = {field: word for field, word in words.items() if word}
    if pack_words:
        return {"topologyConstraint": {"packConstraint": pack_words}}
    return {}


def _keys(owner: Owner, name: str) -> dict[str, str]:
    """Labels of nodes by the words for levels, of one topology or of all."""
    key_by_domain: dict[str, str] = {}
    for kind in _TOPOLOGIES:
        for path in owner.family.objects.of_kind(*kind):
            if path.rpartition("/")[2] == name or not name:
                raw = owner.family.objects.raw(Key(*kind, *path.rpartition("/")[::2])) or {}
                levels = Fields(raw).at("spec").each("levels")
                key_by_domain |= {level.text("domain"): level.text("key") for level in levels}
    return key_by_domain


def _member(owner: Owner, clique: Fields, name: str, gang: str, replica: int) -> Child:
    """A pod of a clique, as the operator marks it."""
    spec = clique.at("spec", "podSpec")
    labels = {
        **clique.texts("labels"),
        "app.kubernetes.io/managed-by": "grove-operator",
        PART_OF: owner.name,
        REPLICA: str(replica),
        _CLIQUE: name,
        f"{GROUP}/podgang": gang,
    }
    template = Fields({"spec": spec.raw}, clique.at("spec").path)
    marked = pod(owner, template, f"{name}-", labels=labels, annotations=clique.texts("annotations"))
    return Child(marked.raw, spec.path.removesuffix(".podSpec"))


def _manifest(owner: Owner, gang: _Gang, replica: int) -> Raw:
    spec: Raw = {"podgroups": gang.podgroups, **gang.near}
    if gang.shared:
        spec["topologyConstraintGroupConfigs"] = list(gang.shared.values())
    if owner.spec.at("template").text("priorityClassName"):
        spec["priorityClassName"] = owner.spec.at("template").text("priorityClassName")
    gang_manifest = named(
        owner, "scheduler.grove.io/v1alpha1", "PodGang", gang.name, {"spec": spec}, **marks_of_group(owner)
    )
    meta = gang_manifest["metadata"]
    assert isinstance(meta, dict)
    of_set = {PART_OF: owner.name, REPLICA: str(replica)}
    return {**gang_manifest, "metadata": {**meta, "labels": {**meta.get("labels", {}), **of_set}}}
