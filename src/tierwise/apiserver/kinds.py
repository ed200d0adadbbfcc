"""Which kinds the embedded cluster serves: names, versions, scopes and sub-resources.

All that tierwise reads, the workloads that become pods, and a few that clients expect everywhere. Groups are in the
order in which kubectl looks for a short name, so that `podgroup` means Volcano's and `job` Kubernetes' own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise.api import codec
from tierwise.api.definitions import DEFINITIONS, Definition
from tierwise.dialects import workloads

__all__ = ["ASIDE", "DEFINITION", "IDLE", "KINDS", "ServedKind", "find", "of_kind"]

DEFINITION: Final = ("apiextensions.k8s.io", "CustomResourceDefinition")
ASIDE: Final = frozenset({("", "Event"), ("events.k8s.io", "Event"), ("coordination.k8s.io", "Lease"), DEFINITION})
"""Kinds that neither scheduler nor controllers read, and some of which come and go by the thousand: kept apart."""

_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class ServedKind(msgspec.Struct, frozen=True):
    """A kind, and how clients may ask for it. The first version is the one that is preferred."""

    group: str
    versions: tuple[str, ...]
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False  # whether status is written at a path of its own
    scale: bool = False
    definition: Definition | None = None  # of a custom resource

    @property
    def resource(self) -> str:
        """How messages name the kind: "pods", "jobs.batch"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def verbs(self) -> tuple[str, ...]:
        return _VERBS

    def api_version(self, version: str = "") -> str:
        """As manifests write it."""
        version = version or self.versions[0]
        return f"{self.group}/{version}" if self.group else version


def find(group: str, version: str, plural: str) -> ServedKind | None:
    """The kind at a path."""
    return _by_path().get((group, version, plural))


def of_kind(group: str, kind: str) -> ServedKind | None:
    """A kind by its name."""
    return _by_kind().get((group, kind))


@cache
def _by_path() -> dict[tuple[str, str, str], ServedKind]:
    return {(served.group, version, served.plural): served for served in KINDS for version in served.versions}


@cache
def _by_kind() -> dict[tuple[str, str], ServedKind]:
    return {(served.group, served.kind): served for served in KINDS}


_SHORT: Final = {
    ("", "Pod"): ("po",),
    ("", "Node"): ("no",),
    ("", "Namespace"): ("ns",),
    ("", "ConfigMap"): ("cm",),
    ("", "Service"): ("svc",),
    ("", "ResourceQuota"): ("quota",),
    ("", "PersistentVolume"): ("pv",),
    ("", "PersistentVolumeClaim"): ("pvc",),
    ("", "Event"): ("ev",),
    ("", "ServiceAccount"): ("sa",),
    ("storage.k8s.io", "StorageClass"): ("sc",),
    ("policy", "PodDisruptionBudget"): ("pdb",),
    ("networking.k8s.io", "NetworkPolicy"): ("netpol",),
    ("scheduling.k8s.io", "PriorityClass"): ("pc",),
    ("networking.k8s.io", "Ingress"): ("ing",),
    ("autoscaling", "HorizontalPodAutoscaler"): ("hpa",),
    DEFINITION: ("crd", "crds"),
    ("apps", "Deployment"): ("deploy",),
    ("apps", "ReplicaSet"): ("rs",),
    ("apps", "StatefulSet"): ("sts",),
    ("apps", "DaemonSet"): ("ds",),
    ("batch", "CronJob"): ("cj",),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): ("lws",),
}
_IN_ALL: Final = frozenset({"Pod", "Service", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"})
_SCALED: Final = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "LeaderWorkerSet"})
_PLAIN: Final = frozenset(
    {
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "ServiceAccount"),
        ("", "Event"),
        ("events.k8s.io", "Event"),
        ("coordination.k8s.io", "Lease"),
        ("discovery.k8s.io", "EndpointSlice"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "StorageClass"),
        ("storage.k8s.io", "CSINode"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "CSIStorageCapacity"),
        ("resource.k8s.io", "ResourceClaimTemplate"),
        ("resource.k8s.io", "DeviceClass"),
        ("resource.k8s.io", "ResourceSlice"),
    }
)
"""Kinds without a status."""

_OTHERS: Final = (
    ("", "v1", "Secret"),
    ("", "v1", "ReplicationController"),
    ("", "v1", "ServiceAccount"),
    ("", "v1", "Event"),
    ("events.k8s.io", "v1", "Event"),
    ("coordination.k8s.io", "v1", "Lease"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("discovery.k8s.io", "v1", "EndpointSlice"),
    ("networking.k8s.io", "v1", "Ingress"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"),
)
"""Kinds that tierwise does not read, and that clients write or ask for."""

_OF_RIGHTS: Final = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
IDLE: Final = frozenset({"HorizontalPodAutoscaler", "Ingress", "ReplicationController", *_OF_RIGHTS})
"""Kinds that are kept and on which nothing acts."""

_WORKLOAD_VERSIONS: Final = {
    "apps": ("v1",),
    "batch": ("v1",),
    "jobset.x-k8s.io": ("v1alpha2",),
    "leaderworkerset.x-k8s.io": ("v1",),
    "kubeflow.org": ("v1", "v2beta1"),
    "trainer.kubeflow.org": ("v1alpha1",),
    "ray.io": ("v1",),
}
_CLUSTER_WIDE: Final = frozenset({"ClusterTrainingRuntime", "ClusterRole", "ClusterRoleBinding", DEFINITION[1]})
_GROUPS_FIRST: Final = (
    "",
    "apps",
    "batch",
    "policy",
    "scheduling.volcano.sh",
    "batch.volcano.sh",
    "topology.volcano.sh",
)


def _kinds() -> Iterator[ServedKind]:
    for group, kind in codec.KINDS:
        record = codec.kind_of(_example(group, kind))
        yield _served(group, codec.versions_of(group, kind), kind, namespaced=record.namespaced)
    for group, kind in (*workloads.WORKLOADS, *sorted(workloads.READ_BESIDE)):
        yield _served(group, _WORKLOAD_VERSIONS[group], kind, namespaced=kind not in _CLUSTER_WIDE)
    for group, version, kind in _OTHERS:
        yield _served(group, (version,), kind, namespaced=kind not in _CLUSTER_WIDE)


def _example(group: str, kind: str) -> codec.Object:
    version = codec.version_of(group, kind)
    api_version = f"{group}/{version}" if group else version
    example: codec.Object = codec.decode({"apiVersion": api_version, "kind": kind, "metadata": {"name": "any"}})
    return example


def _served(group: str, versions: tuple[str, ...], kind: str, *, namespaced: bool) -> ServedKind:
    definition = next((d for d in DEFINITIONS if (d.group, d.kind) == (group, kind)), None)
    own = group in ("", "apps", "batch")
    return ServedKind(
        group=group,
        versions=versions,
        kind=kind,
        plural=definition.plural if definition is not None else _plural(kind.lower()),
        namespaced=namespaced,
        short_names=definition.short_names if definition is not None else _SHORT.get((group, kind), ()),
        categories=("all",) if own and kind in _IN_ALL else ("tierwise",) if definition is not None else (),
        status=definition.status if definition is not None else (group, kind) not in _PLAIN,
        scale=kind in _SCALED,
        definition=definition,
    )


def _plural(word: str) -> str:
    if word.endswith("s"):
        return f"{word}es"
    return f"{word[:-1]}ies" if word.endswith("y") and word[-2] not in "aeiou" else f"{word}s"


def _place(served: ServedKind) -> tuple[int, int]:
    known = served.group in _GROUPS_FIRST
    return (0, _GROUPS_FIRST.index(served.group)) if known else (1, "." in served.group and "k8s" not in served.group)


def _told_apart(kinds: Iterable[ServedKind]) -> Iterator[ServedKind]:
    """Short names mean one kind of a group each, the first that has it; between groups kubectl chooses, by order."""
    taken: set[tuple[str, str]] = set()
    for served in kinds:
        yield replace(
            served, short_names=tuple(name for name in served.short_names if (served.group, name) not in taken)
        )
        taken.update((served.group, name) for name in served.short_names)


KINDS: Final[tuple[ServedKind, ...]] = tuple(_told_apart(sorted(_kinds(), key=_place)))
"""Every kind that is served, group by group."""
