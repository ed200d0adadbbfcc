"""Admission: what a cluster should not accept, and what people should be told before they wait for it.

`validate` judges a whole collection, for the command of that name. `review` and `complete` are what a webhook needs:
the same checks for one object that is about to come or change, and its defaults. Changes nothing, and never raises for
what an object says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from tierwise.admission import (
    app_group,
    command,
    hypernode,
    job,
    koordinator,
    network_map,
    node_pod,
    podgroup,
    queue,
)
from tierwise.admission.defaults import complete
from tierwise.admission.elastic_quota import Forest
from tierwise.admission.room import Room
from tierwise.admission.surroundings import Surroundings, look_around
from tierwise.admission.verdict import Finding, Issue, Verdict, warning
from tierwise.api.codec import Raw, Unknown, kind_of
from tierwise.api.core import ConfigMap, Node, Pod
from tierwise.api.elastic_quota import ElasticQuota
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.koordinator import PodGroup as Gang
from tierwise.api.network_aware import AppGroup, KepNetworkTopology, NetworkTopology
from tierwise.api.volcano import Command, HyperNode, Job, PodGroup, Queue
from tierwise.dialects.discovery import CONFIG_KEY, read_label_source
from tierwise.dialects.volcano_job import GROUP_NAME, pod_group_name
from tierwise.model.topology import Topology
from tierwise.port import Key, Objects, key_of_raw

__all__ = ["Finding", "Issue", "Verdict", "complete", "review", "validate"]


def validate(objects: Objects) -> Verdict:
    """Everything that is wrong or doubtful about a collection of objects, in the order of the objects."""
    checks = _checks(objects)
    return _verdict((key, issue) for key in objects for issue in checks.of(key))


def review(objects: Objects, raw: Raw) -> Verdict:
    """What is wrong or doubtful about one object that is to be created, or to take the place of the present one.

    InputError where the manifest cannot be read at all.
    """
    key = key_of_raw(raw)
    before, after = objects.record(key), objects.changed({key: raw})
    record = after.record(key)
    changes = job.check_change(before, record) if isinstance(before, Job) and isinstance(record, Job) else ()
    return _verdict((key, issue) for issue in (*changes, *_checks(after).of(key)))


def _verdict(found: Iterable[tuple[Key, Issue]]) -> Verdict:
    errors: list[Finding] = []
    warnings: list[Finding] = []
    for key, issue in found:
        (errors if issue.fatal else warnings).append(Finding(str(key), issue.path, issue.message))
    return Verdict(tuple(errors), tuple(warnings))


def _checks(objects: Objects) -> _Checks:
    topology, nodes = hypernode.grown(objects.every(HyperNode).values(), objects.every(Node).values())
    return _Checks(objects, look_around(objects, Room.of(topology, nodes) if nodes else None), topology)


class _Checks:
    """The checks of every object, with what they need to know of the others."""

    def __init__(self, objects: Objects, around: Surroundings, topology: Topology) -> None:
        self._objects = objects
        self._around = around
        self._nodes = objects.every(Node)
        self._layers = koordinator.known_layers(objects.every(ClusterNetworkTopology))
        self._quotas = Forest(objects.every(ElasticQuota).values())
        self._members = _members(objects.every(Pod))
        made = (f"{path.partition('/')[0]}/{pod_group_name(j)}" for path, j in objects.every(Job).items())
        self._groups = {*objects.every(PodGroup), *made}
        self._tree: dict[str, list[Issue]] = {}
        for name, issue in hypernode.check_tree(topology):
            self._tree.setdefault(name, []).append(issue)

    def of(self, key: Key) -> Iterable[Issue]:
        record = self._objects.record(key)
        match record:
            case Pod():
                return chain(
                    node_pod.check_pod(record, self._nodes, self._groups, self._around),
                    koordinator.check_pod(record, self._layers),
                    self._quotas.check_pod(record),
                )
            case Node():
                return node_pod.check_node(record)
            case HyperNode():
                return self._of_hypernode(record, key)
            case PodGroup():
                return podgroup.check(record, self._members.get(key.path, ()), self._around)
            case Job():
                return job.check(record, self._around)
            case ClusterNetworkTopology():
                return koordinator.check_topology(record)
            case Gang():
                return koordinator.check_gang(record, self._layers)
            case ElasticQuota():
                return self._quotas.check(record)
            case Queue():
                return queue.check(record, self._around.queues)
            case Command():
                return command.check(record, self._objects.every(Job))
            case AppGroup():
                return app_group.check(record, self._objects.raw(key) or {})
            case NetworkTopology() | KepNetworkTopology():
                return network_map.check(record, self._objects.raw(key) or {})
            case ConfigMap():
                return _of_config(record)
            case Unknown():
                return [
                    warning("kind", f"kind {key.kind} of {kind_of(record).api_version} is not known: it is ignored")
                ]
            case _:
                return []

    def _of_hypernode(self, record: HyperNode, key: Key) -> Iterator[Issue]:
        own = list(hypernode.check(record, self._objects.raw(key) or {}))
        yield from own
        # A hyperNode that is wrong by itself selects too little because of that: no need to say so twice.
        broken = any(issue.fatal for issue in own)
        yield from (issue for issue in self._tree.get(key.name, ()) if issue.fatal or not broken)


def _members(pods: Mapping[str, Pod]) -> dict[str, list[Pod]]:
    """The pods of each pod group, by the group's key."""
    members: dict[str, list[Pod]] = {}
    for path, pod in pods.items():
        group = pod.metadata.annotations.get(GROUP_NAME)
        if group:
            members.setdefault(f"{path.partition('/')[0]}/{group}", []).append(pod)
    return members


def _of_config(config: ConfigMap) -> list[Issue]:
    source = read_label_source(config)
    return (
        [warning(f"data.{CONFIG_KEY}", f"label discovery is off: {fault}") for fault in source.faults] if source else []
    )
