"""Admission: which objects a cluster should refuse, and which warnings their authors should get.

`validate` checks a whole collection, for the command of that name. The webhook calls `judge`, the same checks for one
object that is created or updated, and `complete` for defaults. Nothing here changes objects in place or raises because
of an object's content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import msgspec

from tierwise.admission import (
    devices,
    hypernode,
    job,
    koordinator,
    languages,
    network_aware,
    node_pod,
    queue,
    storage,
)
from tierwise.admission.capacity import TreeCapacity
from tierwise.admission.context import Surroundings, cluster_context
from tierwise.admission.defaults import complete
from tierwise.admission.elastic_quota import Forest
from tierwise.admission.findings import FieldFinding, Issue, ValidationResult, error, warning
from tierwise.admission.names import check_terms
from tierwise.admission.passed_over import NO_CONCERN, check_passed_over, known_as, unknown_kind, unserved
from tierwise.admission.window import check_window
from tierwise.admission.workload_specs import check_workload, incomplete_workload
from tierwise.api import field_names
from tierwise.api.amounts import amounts_of
from tierwise.api.codec import Object, Raw, Unknown, decode, kind_of, part
from tierwise.api.core import ConfigMap, Node, ObjectMeta, Pod
from tierwise.api.elastic_quota import ElasticQuota
from tierwise.api.errors import InputError
from tierwise.api.kai import Queue as KaiQueue
from tierwise.api.kai import Topology as KaiTopology
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.koordinator import PodGroup as Gang
from tierwise.api.kueue import ResourceFlavor
from tierwise.api.kueue import Topology as KueueTopology
from tierwise.api.network_aware import AppGroup, KepNetworkTopology, NetworkTopology
from tierwise.api.quantity import whole
from tierwise.api.resource import DeviceClaim, DeviceClass, ResourceClaim, ResourceClaimTemplate
from tierwise.api.scheduler_plugins import PodGroup as PluginGroup
from tierwise.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from tierwise.api.volcano import Command, HyperNode, Job, PodGroup, Queue
from tierwise.api.window import Window
from tierwise.dialects import workloads
from tierwise.dialects.koordinator.gangs import NAME, gang_of
from tierwise.dialects.language import Language, NotOurs, loaded
from tierwise.dialects.languages import every_group, language_of
from tierwise.dialects.volcano.discovery import CONFIG_KEY, read_label_source
from tierwise.dialects.volcano.hypernodes import by_fabric
from tierwise.dialects.volcano.job import GROUP_NAME, pod_group_name
from tierwise.model.topology import Topology
from tierwise.port import Key, Objects, key_of_raw

__all__ = [
    "NO_CONCERN",
    "FieldFinding",
    "Issue",
    "ReviewContext",
    "ValidationResult",
    "complete",
    "incomplete",
    "judge",
    "judge_deletion",
    "known_as",
    "passed_over",
    "refused",
    "review",
    "review_context",
    "unheard",
    "unserved",
    "validate",
]


_COUNTED = (PodGroup, Queue, Job, Gang, PluginGroup)


class ReviewContext(msgspec.Struct, frozen=True):
    """The tree of a collection and what its domains hold: the part of all checks that takes time on a large cluster."""

    objects: Objects
    topology: Topology
    capacity: TreeCapacity | None
    fabrics: tuple[Topology, ...] = ()  # the trees of the hyperNodes that name a fabric


def review_context(objects: Objects, previous: ReviewContext | None = None) -> ReviewContext:
    """The ground of a collection; that of the `last` one where nodes and hyperNodes are still the same."""
    if previous is not None and objects.alike(previous.objects, Node, HyperNode):
        return previous
    all_nodes = objects.every(Node).values()
    fabrics = by_fabric(objects.every(HyperNode).values())
    topology, nodes = hypernode.grown(fabrics.pop("", ()), all_nodes)
    further_trees = tuple(hypernode.grown(members, all_nodes)[0] for members in fabrics.values())
    return ReviewContext(objects, topology, TreeCapacity.of(topology, nodes) if nodes else None, further_trees)


def validate(objects: Objects) -> ValidationResult:
    """Everything that is wrong or doubtful about a collection of objects, in the order of the objects."""
    checks = _Checks(objects, review_context(objects))
    return _verdict((key, issue) for key in objects for issue in checks.of(key))


def refused(objects: Objects) -> tuple[FieldFinding, ...]:
    """The errors among them alone, in less time."""
    checks = _Checks(objects, review_context(objects))
    return _verdict((key, issue) for key in objects for issue in checks.meant(key)).errors


def unheard(objects: Objects) -> list[FieldFinding]:
    """Fields that the kinds of objects do not have, in the order of the objects.

    What an API server has stored is passed over: it has dropped what it does not know, and may know more than we do.
    """
    findings: list[FieldFinding] = []
    for key in objects:
        raw = objects.raw(key)
        meta = part(raw, "metadata")
        if raw is not None and not (meta.get("uid") and meta.get("resourceVersion")):
            findings += (
                FieldFinding(str(key), path, text) for path, text in field_names.unheard(raw, key.group, key.kind)
            )
    return findings


def incomplete(objects: Objects) -> list[FieldFinding]:
    """Fields that Kubernetes requires and scheduling does not need, such as images, where pods and workloads leave them
    out.
    """
    findings: list[FieldFinding] = []
    for key in objects:
        raw = objects.raw(key)
        if raw is not None and not part(raw, "metadata").get("resourceVersion"):
            findings += (FieldFinding(str(key), issue.path, issue.message) for issue in incomplete_workload(key, raw))
    return findings


def passed_over(objects: Objects) -> list[FieldFinding]:
    """Findings about existing fields whose values tierwise does not read."""
    declared = every_group(objects)
    findings: list[FieldFinding] = []
    for key in objects:
        record = objects.record(key)
        if record is not None:
            issues = check_passed_over(record, objects, key, declared)
            findings += (FieldFinding(str(key), issue.path, issue.message) for issue in issues)
    return findings


def judge(objects: Objects, key: Key, context: ReviewContext, before: Object | None = None) -> ValidationResult:
    """Errors and warnings about one object of a collection, and about changing it from the one `before`. Several
    hyperNodes cannot be changed in one request, so the tree may be wrong on the way to a sound one: what is wrong
    between hyperNodes is a warning here, and an error in `validate`.
    """
    checks = _Checks(objects, context)
    record = objects.record(key)
    if isinstance(record, HyperNode):
        alone = [*hypernode.check(record, objects.raw(key) or {}), *hypernode.check_itself(record)]
        between = [warning(issue.path, issue.message) for issue in checks.between(key)]
        return _verdict((key, issue) for issue in [*alone, *between])
    issues = list(checks.of(key))
    if isinstance(before, Job) and isinstance(record, Job):
        issues += job.check_change(before, record)
    return _verdict((key, issue) for issue in issues)


def judge_deletion(objects: Objects, record: Object) -> ValidationResult:
    """Errors against deleting an object of a collection; most kinds may be deleted at any time."""
    if not isinstance(record, Queue):
        return ValidationResult((), ())
    key = Key("scheduling.volcano.sh", "Queue", "", record.metadata.name)
    return _verdict((key, issue) for issue in queue.check_deletion(record, objects))


def review(objects: Objects, raw: Raw) -> ValidationResult:
    """As `judge`, for a manifest that is to be created, or to take the place of the present one.

    InputError where it cannot be read at all.
    """
    key = key_of_raw(raw)
    after = objects.changed({key: raw})
    return judge(after, key, review_context(after), objects.record(key))


def _verdict(issues: Iterable[tuple[Key, Issue]]) -> ValidationResult:
    errors: list[FieldFinding] = []
    warnings: list[FieldFinding] = []
    for key, issue in issues:
        (errors if issue.fatal else warnings).append(FieldFinding(str(key), issue.path, issue.message))
    return ValidationResult(tuple(errors), tuple(warnings))


class _Checks:
    """The checks of every object, with what they need to know of the others."""

    def __init__(self, objects: Objects, context: ReviewContext) -> None:
        self._objects = objects
        self._trials = devices.Trials()
        self._around = cluster_context(objects, context.capacity)
        self._nodes = objects.every(Node)
        self._layers = koordinator.known_layers(objects.every(ClusterNetworkTopology))
        self._quotas = Forest(objects.every(ElasticQuota).values())
        self._members = _members(objects.every(Pod))
        groups_of_jobs = (f"{path.partition('/')[0]}/{pod_group_name(j)}" for path, j in objects.every(Job).items())
        self._groups = {*objects.every(PodGroup), *groups_of_jobs}
        self._declared = every_group(objects)
        self._surroundings = Surroundings(objects, self._around, self._layers, self._members)
        self._tree: dict[str, list[Issue]] = {}
        for tree in (context.topology, *context.fabrics):
            for name, issue in hypernode.check_tree(tree):
                self._tree.setdefault(name, []).append(issue)

    def of(self, key: Key) -> Iterable[Issue]:
        """Errors and warnings about an object; fields that are ignored give warnings only. What an API server has
        stored has passed its own checks, and perhaps those of a later release.
        """
        record = self._objects.record(key)
        raw = self._objects.raw(key)
        unread = check_passed_over(record, self._objects, key, self._declared) if record is not None else ()
        meant = list(self.meant(key))
        refused_paths = {issue.path for issue in meant if issue.fatal}
        stored = raw is None or part(raw, "metadata").get("resourceVersion")
        refused = (
            () if stored else (issue for issue in check_workload(key, raw or {}) if issue.path not in refused_paths)
        )
        return chain(meant, refused, unread)

    def meant(self, key: Key) -> Iterable[Issue]:
        """Errors and warnings about the fields that are read of an object."""
        record = self._objects.record(key)
        if record is not None:
            return chain(_negative(record), self._of(record, key))
        return ()

    def _of(self, record: Object, key: Key) -> Iterable[Issue]:
        language = language_of(record)
        if language is not None:
            return self._of_gang(language, record, key)
        match record:
            case Pod():
                return chain(
                    node_pod.check_pod(record, self._nodes, self._groups, self._around),
                    koordinator.check_pod(record, self._layers),
                    self._groups_of(record.metadata, gang_of(record) if NAME in record.metadata.annotations else ""),
                    self._quotas.check_pod(record),
                    languages.check_pod(record, self._declared),
                    devices.check_pod(record, self._objects),
                    storage.check_pod(record, self._objects),
                )
            case PersistentVolumeClaim():
                return storage.check_claim(record, self._objects)
            case PersistentVolume():
                return storage.check_modes(record)
            case StorageClass():
                return storage.check_class(record)
            case Node():
                return node_pod.check_node(record)
            case HyperNode():
                return self._of_hypernode(record, key)
            case Job():
                return chain(job.check(record, self._around), storage.check_job(record, self._objects))
            case ClusterNetworkTopology():
                return koordinator.check_topology(record, tuple(self._nodes.values()))
            case KaiTopology() | KueueTopology():
                return languages.check_levels(record.spec.levels)
            case ResourceFlavor():
                named = record.spec.topology_name
                lost = named and named not in self._objects.every(KueueTopology)
                if lost:
                    return [warning("spec.topologyName", f'Topology "{named}" does not exist')]
                return []
            case ElasticQuota():
                return chain(self._quotas.check(record), check_terms(record.metadata))
            case KaiQueue():
                return check_terms(record.metadata)
            case Queue():
                return queue.check(record, self._around.queues, self._around.queues_below.get(record.metadata.name, ()))
            case Command():
                return job.check_command(record, self._objects.every(Job))
            case AppGroup():
                return network_aware.check_group(record, self._objects.raw(key) or {})
            case NetworkTopology() | KepNetworkTopology():
                return network_aware.check_topology(record, self._objects.raw(key) or {})
            case DeviceClass():
                return devices.check_selectors("spec.selectors", record.spec.selectors, self._trials)
            case ResourceClaim():
                return self._of_devices("spec.devices", record.spec.devices)
            case ResourceClaimTemplate():
                return self._of_devices("spec.spec.devices", record.spec.spec.devices)
            case ConfigMap():
                return _of_config(record)
            case Window():
                return check_window(record)
            case Unknown():
                return self._of_workload(record, key)
            case _:
                return []

    def _of_devices(self, path: str, spec: DeviceClaim) -> Iterator[Issue]:
        return devices.check_requests(path, spec, self._objects.every(DeviceClass), self._trials)

    def _of_workload(self, record: Unknown, key: Key) -> Iterator[Issue]:
        """An object of which pods may be made, or of a kind that is not known."""
        raw = self._objects.raw(key)
        if raw is None or not workloads.understood(key.group, key.kind):
            kind = kind_of(record)
            if (kind.api_version, kind.name) not in NO_CONCERN:
                yield unknown_kind(kind)
            return
        try:
            for template, pod in workloads.check(raw).items():
                example = decode(pod)
                assert isinstance(example, Pod)  # it was decoded as one already
                yield from node_pod.check_support(example, f"{template}.")
                yield from network_aware.check_pod(example.metadata.labels, self._objects, f"{template}.")
            why = workloads.waits(raw, self._objects)
            if why:
                field, _, text = why.partition(": ")
                yield error(field, text)
        except InputError as refused:
            yield error(refused.field or "spec", refused.message)

    def _of_gang(self, language: Language, record: Object, key: Key) -> Iterator[Issue]:
        """An object that declares a gang; where it has to wait whatever room there is, its author is told."""
        if isinstance(language.admit, NotOurs):
            return
        yield from loaded(language.admit)(record, key, self._surroundings)
        if isinstance(record, language.declares[0]):
            yield from languages.check_waiting(self._declared.get((language.name, key.path)))

    def _groups_of(self, meta: ObjectMeta, gang: str) -> Iterator[Issue]:
        return koordinator.check_groups(meta, gang, self._objects.every(Gang), self._objects.every(Pod).values())

    def between(self, key: Key) -> Iterable[Issue]:
        """Errors and warnings about how a hyperNode relates to the others."""
        return self._tree.get(key.name, ())

    def _of_hypernode(self, record: HyperNode, key: Key) -> Iterator[Issue]:
        issues = list(hypernode.check(record, self._objects.raw(key) or {}))
        yield from issues
        # A hyperNode that is wrong by itself selects too little because of that: no need to say so twice.
        broken = any(issue.fatal for issue in issues)
        yield from (issue for issue in self.between(key) if issue.fatal or not broken)


def _negative(record: Object) -> Iterator[Issue]:
    """Errors for negative amounts of Volcano's kinds; the API server lets them pass, and they count as none."""
    if isinstance(record, _COUNTED):
        for path, quantity in amounts_of(record):
            if whole(quantity) < 0:
                yield error(path, f"{quantity} is negative")


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
    if source:
        return [warning(f"data.{CONFIG_KEY}", f"label discovery is off: {fault}") for fault in source.faults]
    return []
