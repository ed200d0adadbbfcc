"""The languages in which gangs are declared: a line for each, whose record is in its folder.

A pod that names groups in several languages belongs to that of the first one here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from tierwise.api.codec import Object
from tierwise.api.core import Pod
from tierwise.api.fabric import fabric_of
from tierwise.api.grove import PodGang
from tierwise.api.kai import Topology
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.kueue import ResourceFlavor
from tierwise.api.kueue import Topology as KueueTopology
from tierwise.api.meta import ObjectMeta
from tierwise.api.nvidia import ComputeDomain
from tierwise.api.workload import CompositePodGroup, PodGroup
from tierwise.dialects.groups import Group
from tierwise.dialects.grove import pod_gang as grove
from tierwise.dialects.kai import pod_group as kai
from tierwise.dialects.koordinator import gangs as koordinator
from tierwise.dialects.koordinator.gangs import gang_of
from tierwise.dialects.koordinator.network_topology import default_topology
from tierwise.dialects.kubernetes import compute_domains
from tierwise.dialects.kubernetes import pod_groups as kubernetes
from tierwise.dialects.kueue import pod_sets as kueue
from tierwise.dialects.label_trees import LabelTree
from tierwise.dialects.language import Language, NotOurs, kinds
from tierwise.dialects.scheduler_plugins import pod_group as scheduler_plugins
from tierwise.dialects.volcano import pod_group as volcano
from tierwise.dialects.volcano.annotations import group_of
from tierwise.model.topology import LABELS, LAYERS, fabric_kind
from tierwise.port import Objects

__all__ = [
    "DECLARING",
    "LANGUAGES",
    "TREES_READ",
    "TREE_ALIASES_READ",
    "Declared",
    "Language",
    "Name",
    "declares_one",
    "label_trees",
    "language_of",
    "named_group",
    "read_languages",
    "tree_aliases",
    "whose",
]

VOLCANO: Final = volcano.LANGUAGE.name
KOORDINATOR: Final = koordinator.LANGUAGE.name

Name = tuple[str, str]
"""A language, and what its pods call a group: namespace/name."""


LANGUAGES: Final[Mapping[str, Language]] = {
    language.name: language
    for language in (
        volcano.LANGUAGE,
        koordinator.LANGUAGE,
        kubernetes.LANGUAGE,
        scheduler_plugins.LANGUAGE,
        kai.LANGUAGE,
        grove.LANGUAGE,
        kueue.LANGUAGE,
    )
}
"""By name, in the order in which they count where a pod names groups in several of them."""

_OTHERS: Final = [language for language in LANGUAGES.values() if language.name not in (VOLCANO, KOORDINATOR)]

_OF_RECORD: Final = {record: language for language in LANGUAGES.values() for record in language.declares}


def language_of(record: Object) -> Language | None:
    """The language in which an object declares a gang; None where it declares none."""
    return _OF_RECORD.get(type(record))


def declares_one(record: Object) -> Language | None:
    """The same where the object declares one gang, and keeps the marks of it; None where it may declare several."""
    language = language_of(record)
    keeps = language.marks if language is not None and not isinstance(language.marks, NotOurs) else ()
    return language if isinstance(record, keeps) else None


DECLARING: Final = frozenset(kind for language in LANGUAGES.values() for kind in kinds(language.declares))
"""The API groups and kinds of objects that declare gangs."""

TREES_READ: Final = (PodGroup, CompositePodGroup, PodGang, Topology, KueueTopology, ResourceFlavor, ComputeDomain)
"""The records that label trees follow from."""

TREE_ALIASES_READ: Final = (ClusterNetworkTopology, Topology, KueueTopology)
"""The records that further names of trees follow from."""

_GROUPS_READ: Final = tuple({record: None for language in _OTHERS for record in language.reads})
"""The records that groups follow from."""


def named_group(pod: Pod) -> Name | None:
    """The group that a pod names in one of these languages; None where it names none."""
    for language in _OTHERS:
        path = language.named(pod)
        if path:
            return language.name, path
    return None


def whose(pod: Pod) -> str:
    """What a pod says that it belongs to, in any language; empty where it names nothing."""
    found = group_of(pod) or gang_of(pod)
    if found:
        return found
    name = named_group(pod)
    return " ".join(name) if name is not None else ""


class Declared(msgspec.Struct, frozen=True):
    """Every group of every language, as it was read at one time."""

    groups: Mapping[Name, Group] = {}
    objects: Objects = Objects()
    pods: Mapping[Name, Pod] = {}


def read_languages(objects: Objects, pods: Mapping[Name, Pod], last: Declared) -> Declared:
    """Every group of every language; what follows from objects and pods that have not changed is taken over.

    `pods` are the names that pods call, with the first pod of each.
    """
    same = pods.keys() == last.pods.keys() and all(last.pods[name] is pod for name, pod in pods.items())
    if same and objects.alike(last.objects, *_GROUPS_READ):
        return Declared(last.groups, objects, pods)
    found: dict[Name, Group] = {}
    for language in _OTHERS:
        name = language.name
        own = {path: pod for (called, path), pod in pods.items() if called == name}
        before = {path: pod for (called, path), pod in last.pods.items() if called == name}
        same = own.keys() == before.keys() and all(before[path] is pod for path, pod in own.items())
        if same and objects.alike(last.objects, *language.reads):
            found |= {key: group for key, group in last.groups.items() if key[0] == name}
        else:
            found |= {(name, path): group for path, group in language.read(objects, own).items()}
    return Declared(found, objects, pods)


def tree_aliases(objects: Objects) -> dict[str, str]:
    """Further names of trees: the fabrics that their declarations say to be, by how constraints name these."""
    layered = default_topology(objects.every(ClusterNetworkTopology))
    declared: list[tuple[str, ObjectMeta]] = [(LAYERS, layered.metadata)] if layered is not None else []
    declared += ((kai.tree_of(name), record.metadata) for name, record in objects.every(Topology).items())
    declared += ((kueue.tree_of(name), record.metadata) for name, record in objects.every(KueueTopology).items())
    return {fabric_kind(name): kind for kind, meta in declared if (name := fabric_of(meta))}


def label_trees(objects: Objects) -> list[LabelTree]:
    """The trees of node labels that constraints of any language are about; keys without an order share one."""
    found = [tree for language in LANGUAGES.values() for tree in language.trees(objects)]
    found += compute_domains.trees(objects)
    keys = sorted({key for tree in found if tree.bare for key in tree.keys})
    listed = [tree for tree in found if not tree.bare]
    return [*listed, LabelTree(LABELS, tuple(keys), bare=True)] if keys else listed
