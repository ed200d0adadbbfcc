"""Elastic quotas are kept: none, and none above it, uses more than its max, and non-preemptible pods fit into min.

Pods count in the quota that their label names, that is called like their namespace, or that lists it; all of a gang
in the quota of its first pod, and the pods of a group of Volcano's in the quota that the group names as its queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from tierwise.api.core import Pod, ResourceList
from tierwise.api.elastic_quota import ElasticQuota
from tierwise.api.natural import natural
from tierwise.api.quantity import amount, show
from tierwise.api.volcano import PodGroup
from tierwise.audit.finding import Finding
from tierwise.audit.koordinator import gang_groups
from tierwise.audit.pods import asked, group, holds
from tierwise.port import Objects

__all__ = ["quotas"]

_PREFIX = "quota.scheduling.koordinator.sh/"
_DEFAULT, _ROOT = "koordinator-default-quota", "koordinator-root-quota"
_INDEX = "gang.scheduling.koordinator.sh/network-topology-index"


def quotas(objects: Objects) -> Iterator[Finding]:
    """Quotas above their max, and quotas whose non-preemptible pods hold more than min."""
    known: dict[str, ElasticQuota] = {}
    for record in objects.every(ElasticQuota).values():
        known.setdefault(record.metadata.name, record)  # names are unique; of two equal ones the first counts
    if not known:
        return
    used: dict[str, Counter[str]] = {name: Counter() for name in known}
    firm: dict[str, Counter[str]] = {name: Counter() for name in known}
    pods = objects.every(Pod)
    for path, name in _quota_by_pod(objects, known).items():
        pod = pods[path]
        if not holds(pod) or pod.metadata.deletion_timestamp or name not in known:
            continue
        if pod.metadata.labels.get(f"{_PREFIX}preemptible") == "false":
            firm[name].update(asked(pod))
        for above in _upwards(known, name):
            used[above].update(asked(pod))
    for name, record in known.items():
        if name != _ROOT:
            yield from _over("over-max", name, used[name], record.spec.max, "uses", "max")
            yield from _over("over-min", name, firm[name], record.spec.min, "non-preemptible pods use", "min")


def _over(rule: str, name: str, used: Counter[str], limit: ResourceList, says: str, called: str) -> Iterator[Finding]:
    for resource, quantity in sorted(limit.items()):
        most = max(amount(resource, quantity), 0)
        if used[resource] > most:
            text = f"{says} {show(resource, used[resource])} of {resource}, and its {called} is {show(resource, most)}"
            yield Finding(rule, f"ElasticQuota {name}", text)


def _upwards(known: dict[str, ElasticQuota], name: str) -> list[str]:
    """A quota and those above it."""
    chain: list[str] = []
    while name in known and name not in chain:
        chain.append(name)
        name = known[name].metadata.labels.get(f"{_PREFIX}parent", "")
    return chain


def _quota_by_pod(objects: Objects, known: dict[str, ElasticQuota]) -> dict[str, str]:
    """The quota of each pod by the pod's path."""
    groups = objects.every(PodGroup)
    lists = {space: name for name in reversed(list(known)) for space in _namespaces(known[name])}
    found: dict[str, str] = {}
    for path, pod in objects.every(Pod).items():
        queue = pod.metadata.annotations.get("scheduling.volcano.sh/queue-name", "")
        if group(pod) in groups:
            found[path] = groups[group(pod)].spec.queue or "default"
        else:
            found[path] = queue or _own(pod, known, lists)
    for gangs, _ in gang_groups(objects):
        ordered = sorted((pod for gang in gangs for pod in gang.pods), key=_rank)
        for pod in ordered:
            found[_path(pod)] = _own(ordered[0], known, lists)
    return found


def _own(pod: Pod, known: dict[str, ElasticQuota], lists: dict[str, str]) -> str:
    named, space = pod.metadata.labels.get(f"{_PREFIX}name", ""), pod.metadata.namespace or "default"
    if named:
        return named if named in known else _DEFAULT
    return space if space in known else lists.get(space, _DEFAULT)


def _namespaces(record: ElasticQuota) -> list[str]:
    try:
        text = record.metadata.annotations.get(f"{_PREFIX}namespaces", "")
        return msgspec.json.decode(text, type=list[str]) if text else []
    except msgspec.DecodeError:
        return []


def _rank(pod: Pod) -> tuple[bool, int, object]:
    text = pod.metadata.annotations.get(_INDEX, "").strip()
    readable = text.removeprefix("-").isdecimal()
    return not readable, int(text) if readable else 0, natural(_path(pod))


def _path(pod: Pod) -> str:
    return f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
