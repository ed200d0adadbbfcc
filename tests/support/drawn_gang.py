"""Gangs in a line each, as the manifests of a pod group and its pods; part of `tests.support.draw`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from tierwise.api.codec import Raw

__all__ = ["Gang", "Groups", "Printer", "Role", "amounts", "gang", "groups", "manifest", "pod", "role"]

_LONG = {"gpu": "nvidia.com/gpu", "mem": "memory"}
_LEAVING = "1970-01-01T00:00:00Z"


def amounts(text: str) -> dict[str, str]:
    """Read `gpu=4 cpu=64`, parted by blanks or commas."""
    pairs = (item.split("=") for item in text.replace(",", " ").split())
    return {_LONG.get(name, name): f"{number}Gi" if name == "mem" else number for name, number in pairs}


class Printer(Protocol):
    """What Hypothesis' printer offers."""

    def text(self, obj: str) -> None: ...


def manifest(api_version: str, kind: str, metadata: Raw, **rest: object) -> Raw:
    """An object as YAML would give it."""
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def pod(
    name: str, where: str, asks: str, metadata: Raw | None = None, further: Raw | None = None, since: str = ""
) -> Raw:
    """One pod; `where` as the module says, `since` when it began to run."""
    meta: Raw = {"name": name, "namespace": "default", **(metadata or {})}
    requests = {"resources": {"requests": amounts(asks)}} if asks else {}
    spec: Raw = {"containers": [{"name": "main", **requests}], **(further or {})}
    status: Raw = {"phase": {"+": "Succeeded", "-": "Pending", "~": "Pending"}.get(where, "Running")}
    if since:
        status["startTime"] = since
    if where == "~":
        spec["schedulingGates"] = [{"name": "wait"}]
    elif where not in ("-", "+"):
        spec["nodeName"] = where.rstrip("!")
        if where.endswith("!"):
            meta["deletionTimestamp"] = _LEAVING
    return manifest("v1", "Pod", meta, spec=spec, status=status)


class _Call(msgspec.Struct, frozen=True):
    """Shows a value as the call that makes it, defaults left out; Hypothesis prints failing examples so."""

    def __repr__(self) -> str:
        every = msgspec.structs.fields(self)
        said = {f.name: getattr(self, f.name) for f in every if getattr(self, f.name) != f.default}
        return f"{type(self).__name__.lower()}({', '.join(f'{k}={v!r}' for k, v in said.items() if v != {})})"

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        printer.text(repr(self))


class Role(_Call, frozen=True):
    """Pods of one role; `minimum` of them must start, where it is given."""

    name: str
    tasks: int
    each: str = "cpu=1"
    minimum: int | None = None


class Groups(_Call, frozen=True):
    """Alike sub-groups of one policy: `size` pods are the least of each, `tasks` what it has (the same if left out)."""

    count: int
    size: int
    tasks: int | None = None
    within: int | str | None = None
    soft: bool = False
    minimum: int = 0
    each: str = ""
    name: str = "part"
    keyed: bool = True  # False: the policy names no label keys


class Gang(_Call, frozen=True):
    """A pod group and its pods: plain ones first, then role by role, then sub-group by sub-group.

    `within` is a hard tier by number or name, "" a hard constraint that names none; `on` says where the pods stand,
    in order, those left out being pending.
    """

    name: str
    tasks: int = 0
    each: str = "cpu=1"
    within: int | str | None = None
    soft: bool = False
    minimum: int | None = None
    roles: tuple[Role, ...] = ()
    groups: tuple[Groups, ...] = ()
    on: str = ""
    priority: int = 0
    queue: str = ""
    created: int = 0
    least: str = ""
    phase: str = ""
    labels: Mapping[str, Mapping[str, str]] = {}  # further ones, by pod
    spec: Raw = msgspec.field(default_factory=dict)  # further fields of every pod's spec
    marks: Mapping[str, str] = {}  # annotations of the pod group
    told: Mapping[str, Mapping[str, str]] = {}  # annotations, by pod
    owned: bool = False  # somebody makes its pods anew
    since: str = ""  # when its pods began to run

    def manifests(self) -> list[Raw]:
        members: list[tuple[str, str, dict[str, str]]] = [
            (f"{self.name}-{i}", self.each, {}) for i in range(self.tasks)
        ]
        for r in self.roles:
            members += [(f"{self.name}-{r.name}-{i}", r.each, {"volcano.sh/task-spec": r.name}) for i in range(r.tasks)]
        for g in self.groups:
            for i in range(g.count):
                own = range(g.size if g.tasks is None else g.tasks)
                members += [(f"{self.name}-{g.name}-{i}-{j}", g.each or self.each, {g.name: str(i)}) for j in own]
        where = [*self.on.split(), *["-"] * len(members)]
        pods = [
            pod(name, spot, each, self._metadata(name, labels), {"priority": self.priority, **self.spec}, self.since)
            for (name, each, labels), spot in zip(members, where, strict=False)
        ]
        return [self._pod_group(len(members)), *pods]

    def _metadata(self, pod: str, labels: Mapping[str, str]) -> Raw:
        annotations = {"scheduling.k8s.io/group-name": self.name, **self.told.get(pod, {})}
        marks: Raw = {"labels": {**labels, **self.labels.get(pod, {})}, "annotations": annotations}
        if self.owned:
            marks["ownerReferences"] = [
                {"apiVersion": "example.com/v1", "kind": "Set", "name": self.name, "uid": self.name, "controller": True}
            ]
        return marks

    def _pod_group(self, tasks: int) -> Raw:
        created = f"1970-01-01T00:{self.created // 60:02}:{self.created % 60:02}Z"
        metadata: Raw = {"name": self.name, "namespace": "default", "creationTimestamp": created}
        if self.marks:
            metadata["annotations"] = dict(self.marks)
        spec: Raw = {
            "minMember": tasks if self.minimum is None else self.minimum,
            "minTaskMember": {r.name: r.minimum for r in self.roles if r.minimum is not None},
            "queue": self.queue,
            "minResources": amounts(self.least) if self.least else None,
            "networkTopology": _topology(self.within, self.soft),
            "subGroupPolicy": [
                {
                    "name": g.name,
                    "subGroupSize": g.size,
                    "minSubGroups": g.minimum,
                    "matchLabelKeys": [g.name] if g.keyed else [],
                    "networkTopology": _topology(g.within, g.soft),
                }
                for g in self.groups
            ],
        }
        api_version = "scheduling.volcano.sh/v1beta1"
        return manifest(api_version, "PodGroup", metadata, spec=spec, status={"phase": self.phase})


gang, groups, role = Gang, Groups, Role


def _topology(within: int | str | None, soft: bool) -> Raw | None:
    if soft:
        return {"mode": "soft"}
    if within is None:
        return None
    if within == "":
        return {"mode": "hard"}
    return {"mode": "hard", "highestTierAllowed" if isinstance(within, int) else "highestTierName": within}
