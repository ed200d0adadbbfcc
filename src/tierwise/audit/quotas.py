"""No queue uses more than its capability, and no elastic quota more than its max; none above it does, either.

Non-preemptible pods fit into the min of their quota.

Pods count in the quota that their label names, that is called like their namespace, or that lists it; all of a gang
in the quota of its first pod, and the pods of a group of Volcano's in the quota that the group names as its queue. The
queues that always exist are no quota and no choice: a group that names one is in the quota of its first pod. Only
quotas of the pod's own namespace and of the quota root's count for it. A pod whose node is gone uses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from tierwise.api.core import Node, Pod, ResourceList, read_number
from tierwise.api.elastic_quota import ElasticQuota
from tierwise.api.natural import natural
from tierwise.api.quantity import amount, show
from tierwise.api.volcano import PodGroup, Queue
from tierwise.audit.koordinator import gang_groups
from tierwise.audit.pods import Finding, asked, group, holds
from tierwise.port import Objects

__all__ = ["queues", "quotas"]

_PREFIX = "quota.scheduling.koordinator.sh/"
_DEFAULT = "koordinator-default-quota"
_ROOT = "koordinator-root-quota"
_QUEUE = "scheduling.volcano.sh/queue-name"
_INDEX = "gang.scheduling.koordinator.sh/network-topology-index"


_TRUSTED = "koordinator-system"
_NO_CHOICE = frozenset(("default", "root"))
"""Volcano's queues that always exist."""

Known = dict[tuple[str, str], ElasticQuota]
"""By scope, "" for the quota root's, and name."""


def quotas(objects: Objects) -> Iterator[Finding]:
    """Quotas above their max, and quotas whose non-preemptible pods hold more than min."""
    known = _known(objects)
    if not known:
        return
    used: dict[tuple[str, str], Counter[str]] = {key: Counter() for key in known}
    firm: dict[tuple[str, str], Counter[str]] = {key: Counter() for key in known}
    pods = objects.every(Pod)
    nodes = objects.every(Node)
    for path, key in _quota_by_pod(objects, known).items():
        pod = pods[path]
        if not holds(pod) or pod.metadata.deletion_timestamp or key not in known or pod.spec.node_name not in nodes:
            continue
        if pod.metadata.labels.get(f"{_PREFIX}preemptible") == "false":
            firm[key].update(asked(pod))
        for above in _upwards(known, key):
            used[above].update(asked(pod))
    for key, record in known.items():
        yield from _over("over-max", key[1], used[key], record.spec.max, "uses", "max")
        yield from _over("over-min", key[1], firm[key], record.spec.min, "non-preemptible pods use", "min")


def _known(objects: Objects) -> Known:
    """Each ElasticQuota that counts by (namespace, name); the namespace is "" for one of the trusted namespace, which
    all namespaces see. Where two have one name in sight of a namespace, the older counts. The root quota, and quotas
    with a name of Koordinator's in other namespaces, do not count.
    """
    known: Known = {}
    records = objects.every(ElasticQuota).values()
    for record in sorted(records, key=lambda r: r.metadata.creation_timestamp or ""):
        space = record.metadata.namespace or "default"
        name = record.metadata.name
        if name == _ROOT or (space != _TRUSTED and name.startswith("koordinator-") and name.endswith("-quota")):
            continue
        if space == _TRUSTED:
            known.setdefault(("", name), record)
        elif ("", name) not in known:
            known.setdefault((space, name), record)
    return known


def _over(rule: str, name: str, used: Counter[str], limit: ResourceList, says: str, called: str) -> Iterator[Finding]:
    for resource, quantity in sorted(limit.items()):
        most = max(amount(resource, quantity), 0)
        if used[resource] > most:
            text = f"{says} {show(resource, used[resource])} of {resource}, and its {called} is {show(resource, most)}"
            yield Finding(rule, f"ElasticQuota {name}", text)


def _upwards(known: Known, key: tuple[str, str]) -> list[tuple[str, str]]:
    """A quota and those above it in its scope."""
    chain: list[tuple[str, str]] = []
    while key in known and key not in chain:
        chain.append(key)
        key = (key[0], known[key].metadata.labels.get(f"{_PREFIX}parent", ""))
    return chain


def _quota_by_pod(objects: Objects, known: Known) -> dict[str, tuple[str, str]]:
    """The quota of each pod by the pod's path."""
    groups = objects.every(PodGroup)
    declared = objects.every(Queue)
    pods = objects.every(Pod)
    first: dict[str, Pod] = {}
    for path in sorted(pods, key=natural):
        first.setdefault(group(pods[path]), pods[path])
    found: dict[str, tuple[str, str]] = {}
    for path, pod in pods.items():
        space = pod.metadata.namespace or "default"
        queue = pod.metadata.annotations.get(_QUEUE, "")
        spokesman = pod
        if group(pod) in groups:
            queue = groups[group(pod)].spec.queue or "default"
            spokesman = first[group(pod)]
        if not queue or (queue in _NO_CHOICE and (queue in declared or queue == "default")):
            found[path] = _own(spokesman, known)
        else:
            found[path] = ("", "") if queue in declared else _seen(known, space, queue)
    for gangs, _ in gang_groups(objects):
        ordered = sorted((pod for gang in gangs for pod in gang.pods), key=_rank)
        for pod in ordered:
            found[_path(pod)] = _own(ordered[0], known)
    return found


def _seen(known: Known, space: str, name: str) -> tuple[str, str]:
    if (space, name) in known:
        return (space, name)
    return ("", name)


def _own(pod: Pod, known: Known) -> tuple[str, str]:
    named = pod.metadata.labels.get(f"{_PREFIX}name", "")
    space = pod.metadata.namespace or "default"
    if named:
        key = _seen(known, space, named)
        return key if key in known else ("", _DEFAULT)
    if _seen(known, space, space) in known:
        return _seen(known, space, space)
    lists = [key for scope in (space, "") for key in known if key[0] == scope and space in _namespaces(known[key])]
    return lists[0] if lists else ("", _DEFAULT)


def _namespaces(record: ElasticQuota) -> list[str]:
    try:
        text = record.metadata.annotations.get(f"{_PREFIX}namespaces", "")
        if text:
            return msgspec.json.decode(text, type=list[str])
        return []
    except msgspec.DecodeError:
        return []


def _rank(pod: Pod) -> tuple[bool, int, object]:
    text = pod.metadata.annotations.get(_INDEX, "").strip()
    number = read_number(text)
    return number is None, number or 0, natural(_path(pod))


def _path(pod: Pod) -> str:
    return f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"


# No queue, and none above it, uses more than its capability.
#
# Pods count in the queue that their group names, or they themselves where they have none, but for pods that an elastic
# quota counts. A queue that names no parent is below the queue "root", where there is one. A capability of no cpu or
# no memory is none, as in Volcano. A pod whose node is gone uses nothing.


def queues(objects: Objects) -> Iterator[Finding]:
    """Queues above their capability."""
    known = objects.every(Queue)
    groups = objects.every(PodGroup)
    used: dict[str, Counter[str]] = {}
    nodes = objects.every(Node)
    elastic = _known(objects)
    quota_by_pod = _quota_by_pod(objects, elastic) if elastic else {}
    for path, pod in objects.every(Pod).items():
        if not holds(pod) or pod.metadata.deletion_timestamp or pod.spec.node_name not in nodes:
            continue
        if quota_by_pod.get(path) in elastic:
            continue
        record = groups.get(group(pod))
        seen = set[str]()
        name = pod.metadata.annotations.get(_QUEUE, "") if record is None else record.spec.queue or "default"
        while name in known and name not in seen:
            seen.add(name)
            used.setdefault(name, Counter()).update(asked(pod))
            name = known[name].spec.parent or "root"
    for name, queue in known.items():
        yield from _over_capability(name, queue, used.get(name, Counter()))


def _over_capability(name: str, queue: Queue, used: Counter[str]) -> Iterator[Finding]:
    """Resources of which a queue uses more than its capability; none of cpu or memory means no limit."""
    for resource, quantity in sorted(queue.spec.capability.items()):
        most = amount(resource, quantity)
        number = used[resource]
        if number > most and (most or resource not in ("cpu", "memory")):
            text = f"uses {show(resource, number)} of {resource}, and its capability is {show(resource, most)}"
            yield Finding("over-capability", f"Queue {name}", text)
