"""Which kinds an API server serves, and under which paths, as the server itself reports them.

A kind whose definition is not installed is not served, and is looked up again later.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final
from urllib.parse import quote

import msgspec

from tierwise.api import codec
from tierwise.api.core import ObjectMeta
from tierwise.api.defrag_record import RECORD_NAME
from tierwise.kube.client import Client
from tierwise.kube.errors import ApiError, understood
from tierwise.port import Key

__all__ = ["Resource", "discover", "of_interest"]

_OTHERS: Final = frozenset({("", "ConfigMap"), ("", "Service"), ("networking.k8s.io", "NetworkPolicy")})
"""Kinds that others keep a great deal in."""
_RECORDS: Final = frozenset(
    ("tierwise-run-history", "tierwise-failed-starts", "tierwise-kept-places", "tierwise-usage")
)
"""The records of jobs that have ended, of starts that failed, of kept places and of usage; a profile says where."""


def of_interest(
    group: str, kind: str, meta: ObjectMeta, entries: Iterable[str] = (), trusted: Container[str] | None = None
) -> bool:
    """Whether a controller of ours may look at an object: of some kinds that is little, and the rest is not kept.

    What was made for a job, the record of runs, what network discovery is told by, in a `trusted` namespace (None:
    any), and measurements, which their keys show (`entries`), as people choose the names of the ConfigMaps.
    """
    if (group, kind) not in _OTHERS:
        return True
    if any(owner.kind == "Job" for owner in meta.owner_references):
        return True
    if kind == "ConfigMap" and meta.name in _RECORDS:
        return True
    measured = any(entry.startswith("netperf") for entry in entries)
    return kind == "ConfigMap" and (measured or _discovers(meta, trusted))


def _discovers(meta: ObjectMeta, trusted: Container[str] | None) -> bool:
    """Such a ConfigMap defines the tree and names servers to fetch it from, or keeps nodes for jobs that are moved."""
    named = meta.name.endswith("-controller-configmap") or meta.name.startswith("tierwise-discovery-")
    named = named or meta.name == RECORD_NAME
    return named and (trusted is None or meta.namespace in trusted)


class Resource(msgspec.Struct, frozen=True):
    """A kind as the API server serves it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    status: bool  # whether status is written at a path of its own

    @property
    def api_version(self) -> str:
        if self.group:
            return f"{self.group}/{self.version}"
        return self.version

    @property
    def collection(self) -> str:
        """The path of all objects, in whatever namespace."""
        return f"{_root(self.group)}/{self.version}/{self.plural}"

    def path(self, namespace: str, name: str = "") -> str:
        """The path of an object, or of its namespace's objects where no name is given."""
        root = f"{_root(self.group)}/{self.version}"
        inside = f"/namespaces/{quote(namespace)}" if self.namespaced else ""
        return f"{root}{inside}/{self.plural}" + (f"/{quote(name)}" if name else "")

    def at(self, key: Key) -> str:
        return self.path(key.namespace, key.name)


def _root(group: str) -> str:
    return f"/apis/{group}" if group else "/api"


class _Served(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = True
    verbs: list[str] = []


class _Resources(msgspec.Struct):
    resources: list[_Served] = []


_RESOURCES: Final = msgspec.json.Decoder(_Resources)


async def discover(client: Client, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Resource]:
    """The resources of the wanted groups and kinds that are served, each in the best version that tierwise reads."""
    resources: dict[tuple[str, str], Resource] = {}
    by_version: dict[tuple[int, str, str], list[str]] = {}
    for group, kind in wanted:
        for place, version in enumerate(codec.versions_of(group, kind)):
            by_version.setdefault((place, group, version), []).append(kind)
    answers: dict[tuple[str, str], list[_Served]] = {}
    for (_, group, version), kinds in sorted(by_version.items()):
        missing = [kind for kind in kinds if (group, kind) not in resources]
        if not missing:
            continue
        if (group, version) not in answers:
            answers[group, version] = await _served(client, group, version)
        served = answers[group, version]
        names = {entry.name for entry in served}
        for entry in served:
            if entry.kind in missing and "/" not in entry.name and {"list", "watch"} <= set(entry.verbs):
                resources[group, entry.kind] = Resource(
                    group, version, entry.kind, entry.name, entry.namespaced, f"{entry.name}/status" in names
                )
    return resources


async def _served(client: Client, group: str, version: str) -> list[_Served]:
    """Resources that a server has of a group's version; empty if it does not know the version."""
    try:
        answer = await client.ask("GET", f"{_root(group)}/{version}", expects="APIResourceList")
    except ApiError as error:
        if error.status == 404:
            return []
        raise
    return understood(_RESOURCES.decode, answer).resources
