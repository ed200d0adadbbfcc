"""What a client is told before it asks for objects: groups, versions and resources, in both forms of the API."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from tierwise import __version__
from tierwise.api.codec import Raw
from tierwise.apiserver.kinds import KINDS, ServedKind

__all__ = ["aggregated", "core_versions", "groups", "resources", "version"]

_KUBERNETES: Final = "1.33"
"""The release of Kubernetes' API whose ways are followed."""

_SCALE: Final = ("autoscaling", "v1", "Scale")


def version() -> Raw:
    """Version object that `kubectl version` shows."""
    major, _, minor = _KUBERNETES.partition(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{_KUBERNETES}.0+tierwise-{__version__}",
        "platform": "simulated",
        **dict.fromkeys(("gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler"), ""),
    }


_BESIDE: Final = {"metrics.k8s.io": ["v1beta1"]}
"""Groups that are served and hold no objects; their resources have the names of others, and are not listed."""


@cache
def _versions() -> dict[str, list[str]]:
    """The versions of every group, the preferred one first."""
    by_group: dict[str, dict[str, None]] = {}
    for served in KINDS:
        by_group.setdefault(served.group, {}).update(dict.fromkeys(served.versions))
    return {**{group: list(versions) for group, versions in by_group.items()}, **_BESIDE}


def core_versions(address: str) -> Raw:
    """The answer at /api."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def groups() -> Raw:
    """The answer at /apis."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(group) for group in _versions() if group]}


def _group(group: str) -> Raw:
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in _versions()[group]]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def resources(group: str, version: str) -> Raw | None:
    """The answer at /api/v1 or /apis/GROUP/VERSION; None where there is no such version."""
    served_kinds = [served for served in KINDS if served.group == group and version in served.versions]
    if not served_kinds and version not in _BESIDE.get(group, ()):
        return None
    listed: list[Raw] = []
    for served in served_kinds:
        described: Raw = {"name": served.plural, "singularName": served.singular, "namespaced": served.namespaced}
        described |= {"kind": served.kind, "verbs": list(served.verbs)}
        described |= {"shortNames": list(served.short_names)} if served.short_names else {}
        described |= {"categories": list(served.categories)} if served.categories else {}
        listed.append(described)
        for name, (of_group, of_version, kind), verbs in _sub_resources(served, version):
            entry: Raw = {"name": f"{served.plural}/{name}", "singularName": "", "namespaced": served.namespaced}
            gvk = {"group": of_group, "version": of_version} if (of_group, of_version) != (group, version) else {}
            listed.append(entry | gvk | {"kind": kind, "verbs": list(verbs)})
    api_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": listed}


def _sub_resources(served: ServedKind, version: str) -> Iterator[tuple[str, tuple[str, str, str], tuple[str, ...]]]:
    """Yield (name, (group, version, kind) of the body, verbs) for each sub-resource of a kind.

    The name is the last part only: "status", not "pods/status".
    """
    if served.status:
        yield "status", (served.group, version, served.kind), ("get", "patch", "update")
    if served.scale:
        yield "scale", _SCALE, ("get", "patch", "update")
    if (served.group, served.kind) == ("", "Pod"):
        yield "binding", ("", "v1", "Binding"), ("create",)
        yield "eviction", ("policy", "v1", "Eviction"), ("create",)
        yield "log", ("", "v1", "Pod"), ("get",)
        yield "ephemeralcontainers", ("", "v1", "Pod"), ("get", "patch", "update")


def aggregated(*, core: bool, form: str) -> Raw:
    """The answer at /api or /apis for clients that ask for everything at once; `form` is "v2" or "v2beta1"."""
    items = []
    for group, versions in _versions().items():
        if (group == "") == core:
            served = [_of_version(group, version) for version in versions]
            items.append({"metadata": {"name": group} if group else {}, "versions": served})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{form}",
        "metadata": {},
        "items": items,
    }


def _of_version(group: str, version: str) -> Raw:
    listed: list[Raw] = []
    for served in KINDS:
        if served.group != group or version not in served.versions:
            continue
        entry: Raw = {
            "resource": served.plural,
            "responseKind": {"group": group, "version": version, "kind": served.kind},
            "scope": "Namespaced" if served.namespaced else "Cluster",
            "singularResource": served.singular,
            "verbs": list(served.verbs),
        }
        entry |= {"shortNames": list(served.short_names)} if served.short_names else {}
        entry |= {"categories": list(served.categories)} if served.categories else {}
        below = [
            {
                "subresource": name,
                "responseKind": {"group": of_group, "version": of_version, "kind": kind},
                "verbs": list(verbs),
            }
            for name, (of_group, of_version, kind), verbs in _sub_resources(served, version)
        ]
        listed.append(entry | ({"subresources": below} if below else {}))
    return {"version": version, "resources": listed, "freshness": "Current"}
