"""Which kinds the embedded cluster serves: names, versions, scopes and sub-resources.

All that tierwise reads, the workloads that become pods, and a few that clients expect everywhere. Groups are in the
order in which kubectl looks for a short name, so that `podgroup` means Volcano's and `job` Kubernetes' own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
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
        if self.group:
            return f"{self.plural}.{self.group}"
        return self.plural

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


_OF_RIGHTS: Final = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
IDLE: Final = frozenset({"HorizontalPodAutoscaler", "Ingress", "NetworkPolicy", "ClusterQueue", *_OF_RIGHTS})
"""Kinds that are kept and on which nothing acts."""

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
    """Served kinds: those of the codec in its order, then workloads that become pods, then the rest of the table."""
    table = {(served.group, served.kind): served for served in _table()}
    for group, kind in codec.KINDS:
        versions = codec.versions_of(group, kind)
        record_type = table.pop((group, kind), None)
        if record_type is not None:
            yield replace(record_type, versions=versions)
        else:
            namespaced = codec.kind_of(_example(group, kind)).namespaced
            yield _custom(group, versions, kind, namespaced=namespaced)
    for group, kind in (*workloads.WORKLOADS, *sorted(workloads.READ_BESIDE)):
        record_type = table.pop((group, kind), None)
        cluster_wide = kind in ("ClusterTrainingRuntime", "ClusterServingRuntime")
        yield record_type or _custom(group, codec.versions_of(group, kind), kind, namespaced=not cluster_wide)
    yield from table.values()


def _table() -> Iterator[ServedKind]:
    """The kinds of `api_resources.txt`, which is in the form of `kubectl api-resources`: those of Kubernetes itself."""
    lines = files("tierwise.apiserver").joinpath("api_resources.txt").read_text(encoding="ascii").splitlines()
    for line in lines[1:]:
        plural, short_names, api_version, namespaced, kind, below, categories = line.split()
        group, _, version = api_version.rpartition("/")
        yield ServedKind(
            group=group,
            versions=(version,),
            kind=kind,
            plural=plural,
            namespaced=namespaced == "true",
            short_names=_words(short_names),
            categories=_words(categories),
            status="status" in below,
            scale="scale" in below,
        )


def _words(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(","))


def _example(group: str, kind: str) -> codec.Object:
    version = codec.version_of(group, kind)
    api_version = f"{group}/{version}" if group else version
    example: codec.Object = codec.decode({"apiVersion": api_version, "kind": kind, "metadata": {"name": "any"}})
    return example


def _custom(group: str, versions: tuple[str, ...], kind: str, *, namespaced: bool) -> ServedKind:
    """A kind that is not of Kubernetes: as its definition says, where there is one here."""
    definition = next((d for d in DEFINITIONS if (d.group, d.kind) == (group, kind)), None)
    if definition is None:
        return ServedKind(group, versions, kind, _plural(kind.lower()), namespaced, status=True)
    return ServedKind(
        group=group,
        versions=versions,
        kind=kind,
        plural=definition.plural,
        namespaced=namespaced,
        short_names=definition.short_names,
        categories=("tierwise",),
        status=definition.status,
        definition=definition,
    )


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}s"


def _place(served: ServedKind) -> tuple[int, int]:
    ours = served.group in _GROUPS_FIRST
    if ours:
        return (0, _GROUPS_FIRST.index(served.group))
    return (1, "." in served.group and "k8s" not in served.group)


def _told_apart(kinds: Iterable[ServedKind]) -> Iterator[ServedKind]:
    """Short names mean one kind of a group each, the first that has it; between groups kubectl chooses, by order."""
    names: set[tuple[str, str]] = set()
    for served in kinds:
        yield replace(
            served, short_names=tuple(name for name in served.short_names if (served.group, name) not in names)
        )
        names.update((served.group, name) for name in served.short_names)


KINDS: Final[tuple[ServedKind, ...]] = tuple(_told_apart(sorted(_kinds(), key=_place)))
"""Every kind that is served, group by group."""
