"""Manifests to records and back, by group and kind.

`decode` is the only way from raw data to records: code that has a record may rely on its types and on every
quantity and time in it being valid. Called by the manifest loader, the embedded cluster and the real cluster's
informers. Refuses nothing for its meaning: unknown enumeration values and numbers out of range are admission's.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

import msgspec
from msgspec import ValidationError
from msgspec.structs import replace

from tierwise.api import (
    amounts,
    core,
    elastic_quota,
    grove,
    kai,
    koordinator,
    kueue,
    network_aware,
    nvidia,
    resource,
    scheduler_plugins,
    storage,
    volcano,
    window,
    workload,
)
from tierwise.api.core import ObjectMeta, Record, parse_time
from tierwise.api.errors import InputError
from tierwise.api.pod_defaults import filled_pod

__all__ = [
    "KINDS",
    "KINDS_OF",
    "ONLY_KIND_OF",
    "Kind",
    "Object",
    "Raw",
    "Unknown",
    "accepted",
    "api_group",
    "converted",
    "decode",
    "decode_changed",
    "decode_json",
    "encode",
    "explain",
    "group_of",
    "key",
    "kind_of",
    "label",
    "lists",
    "part",
    "register",
    "said",
    "tidy",
    "version_of",
    "versions_of",
]


# Type errors in manifests, in words.
#
# Called by the codec where msgspec refuses a manifest: turns its message into an InputError with the field's path, and
# names the key where a map holds something other than texts. Knows the nearest word to a misspelt one. Judges nothing
# itself.


R = TypeVar("R")

_AT: Final = r"(?s)(?P<what>.*?)(?: - at (?P<key>`key` in )?`(?P<path>[^`]*)`)?"
_EXPECTED: Final = r"(?s)Expected `(?P<wanted>[^`]*)`(?:, got `(?P<given>[^`]*)`)?(?P<rest>.*)"
_STEP: Final = r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\.\.\.|[0-9]+)\]"
_WORDS: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "object": "an object",
    "array": "a list",
}


def explain(error: ValidationError, raw: object) -> InputError:
    """InputError for msgspec's error about `raw`, with the path of the field: "spec.tier", "spec.members[0].type".
    Where msgspec leaves open which entry of a map it means, the first that cannot be right is named.
    """
    match = re.fullmatch(_AT, str(error))
    if match is None:
        return InputError(str(error))
    path = match["path"] or "$"
    message = _in_words(match["what"])
    if match["key"]:
        message = f"{message} as a key (quote it)"
    elif path.endswith("[...]"):
        path, hint = _culprit(raw, path.removesuffix("[...]"), match["what"])
        message += hint
    field = path.removeprefix("$").replace("[...]", "[]").removeprefix(".")
    return InputError(message, field=field or None)


def converted(raw: object, kind: type[R], at: str = "") -> R:
    """Plain data as a record; InputError with the path of the field below `at`."""
    try:
        return msgspec.convert(raw, kind)
    except ValidationError as error:
        explained = explain(error, raw)
        field = explained.field or ""
        between = "." if at and field and not field.startswith("[") else ""
        raise InputError(explained.message, field=f"{at}{between}{field}" or None) from None


def said(value: object) -> str:
    """Type of a value in the words of a manifest's author, such as "a list"."""
    if isinstance(value, bool):
        return "a boolean"
    for python_type, word in ((str, "str"), (int, "int"), (float, "float"), (dict, "object"), (list, "array")):
        if isinstance(value, python_type):
            return _WORDS[word]
    return "null" if value is None else "something else"


def _in_words(what: str) -> str:
    match = re.fullmatch(_EXPECTED, what)
    if match is None:
        return what.replace("`", '"')
    actual = f", got {_words(match['given'])}" if match["given"] else ""
    return f"expected {_words(match['wanted'])}{actual}{match['rest']}".replace("`", '"')


def _words(types: str) -> str:
    type_words = []
    for part in types.split(" | "):
        if part != "null" or types == "null":
            type_words.append(_WORDS.get(part, part))
    return " or ".join(type_words)


def _culprit(raw: object, path: str, what: str) -> tuple[str, str]:
    """The path of the entry that is meant, and a hint where quotes are missing: YAML's unquoted `yes` and `1`."""
    texts = what.startswith("Expected `str`")
    right = str if texts else (str, int, float)
    for holder in _at(raw, path):
        for name, value in holder.items() if isinstance(holder, dict) else ():
            if not isinstance(value, right) or (isinstance(value, bool) and not texts):
                quotable = texts and isinstance(value, bool | int | float)
                return f"{path}.{name}", " (quote it)" if quotable else ""
    return f"{path}[]", ""


def _at(raw: object, path: str) -> Iterator[object]:
    """Every value that a path of msgspec's could mean; "[...]" means any entry of a list or map."""
    values = [raw]
    for step in re.finditer(_STEP, path.removeprefix("$")):
        inner: list[object] = []
        for value in values:
            if step["name"] is not None:
                inner += [value[step["name"]]] if isinstance(value, dict) and step["name"] in value else []
            elif isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
        values = inner
    yield from values


# Raw data put in order: before it is decoded a second time, and after it was encoded.
#
# Called by the codec only. Copies, never changes what it is given; knows no kinds.


_TEXT_MAPS: Final = frozenset({"labels", "annotations", "matchLabels", "nodeSelector", "data"})
_LIST_MAPS: Final = frozenset({"plugins"})


def tidy(value: object) -> object:
    """A copy without nulls; in maps of texts null becomes the empty text, in maps of lists the empty list.

    That is how the API server reads them: a job plugin without arguments is asked for all the same.

    The unquoted True and False of conditions become texts: so common in hand-written YAML, and so clear, that they
    are read as what they mean.
    """
    if isinstance(value, list):
        return [tidy(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _tidied(name, item) for name, item in value.items() if item is not None}


def lists(value: object) -> object:
    """A copy with lists for tuples: what a manifest read from a file would hold."""
    if isinstance(value, dict):
        return {name: lists(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [lists(item) for item in value]
    return value


def _tidied(name: object, item: object) -> object:
    if name == "raw":
        return item  # a pod template as it was written, put there by the codec
    if name in _TEXT_MAPS and isinstance(item, dict):
        return {key: "" if text is None else tidy(text) for key, text in item.items()}
    if name in _LIST_MAPS and isinstance(item, dict):
        return {key: [] if entries is None else tidy(entries) for key, entries in item.items()}
    if name == "conditions" and isinstance(item, list):
        return [tidy(_with_text_status(condition)) for condition in item]
    return tidy(item)


def _with_text_status(condition: object) -> object:
    if isinstance(condition, dict) and isinstance(condition.get("status"), bool):
        return {**condition, "status": str(condition["status"])}
    return condition


Raw = dict[str, object]
"""A manifest as JSON or YAML reads it."""


def part(raw: Mapping[str, object] | None, name: str) -> Raw:
    """A map inside a manifest; an empty one where there is none."""
    value = raw.get(name) if raw is not None else None
    return value if isinstance(value, dict) else {}


class Object(Protocol):
    """Any record that is an API object of its own."""

    @property
    def metadata(self) -> ObjectMeta:
        """Who the object is."""


class Unknown(Record, frozen=True):
    """An object of a kind that tierwise does not know: kept, so that it can be shown and referred to."""

    metadata: ObjectMeta
    api_version: str = ""
    kind: str = ""


class Kind(msgspec.Struct, frozen=True):
    """Kubernetes names of a type of record, and whether its objects live in namespaces."""

    api_version: str
    name: str
    namespaced: bool


class Packed(msgspec.Struct, frozen=True):
    """A manifest as JSON text, which takes a fraction of the memory of the same as mappings and lists."""

    text: bytes

    @classmethod
    def of(cls, raw: Raw) -> "Packed | Raw":
        """The manifest packed; as it is where JSON cannot say the same."""
        try:
            return cls(msgspec.json.encode(raw))
        except (OverflowError, TypeError, ValueError):
            return raw

    def unpacked(self) -> Raw:
        raw: Raw = msgspec.json.decode(self.text)
        return raw


KINDS: Final[dict[tuple[str, str], type[Any]]] = {}
"""The type of record for an API group ("" for the core group) and kind; filled by `register`."""
KINDS_OF: Final[dict[type[Any], list[tuple[str, str]]]] = {}
"""The groups and kinds that a type of record serves."""

ONLY_KIND_OF: Final[dict[type[Any], tuple[str, str]]] = {}
"""The group and kind of a type of record that serves no other."""

_READERS: Final[dict[type[Any], msgspec.json.Decoder[Any]]] = {}
_VERSIONS: Final[dict[tuple[str, str], tuple[str, ...]]] = {}
_SHOWN_AS: Final[dict[type[Any], Kind]] = {}
_SIGNED: Final[set[type[Any]]] = set()


def register(
    api_version: str,
    name: str,
    record: type[R],
    *,
    namespaced: bool = True,
    signed: bool = False,
    older: tuple[str, ...] = (),
) -> None:
    """Teach the codec a kind; `signed` leaves it to admission to refuse negative quantities.

    `older` are versions that a server may offer instead, the best first.
    The record needs a field `metadata: ObjectMeta`. A type that serves several groups is shown as the first one.
    """
    kind = api_group(api_version), name
    KINDS[kind] = record
    served = KINDS_OF.setdefault(record, [])
    if kind not in served:
        served.append(kind)
    ONLY_KIND_OF[record] = served[0]
    if len(served) > 1:
        del ONLY_KIND_OF[record]
    _VERSIONS[api_group(api_version), name] = (api_version.rpartition("/")[2], *older)
    _SHOWN_AS.setdefault(record, Kind(api_version, name, namespaced))
    if signed:
        _SIGNED.add(record)


@lru_cache(maxsize=1024)
def api_group(api_version: str) -> str:
    """The API group of "group/version", "" for the core group's "v1"."""
    return api_version.rpartition("/")[0]


@lru_cache(maxsize=1024)
def group_of(api_version: str, name: str) -> str:
    """The API group that a kind is in; in a version that its group does not have it is a kind that is not known."""
    group, _, version = api_version.rpartition("/")
    if version in _VERSIONS.get((group, name), (version,)):
        return group
    return api_version


def version_of(group: str, name: str) -> str:
    """The version in which tierwise would have a kind that it knows: "v1beta1"."""
    return _VERSIONS[group, name][0]


def versions_of(group: str, name: str) -> tuple[str, ...]:
    """Every version of a kind that tierwise reads, the best first; none of a kind that it does not know."""
    return _VERSIONS.get((group, name), ())


def decode(raw: object) -> Any:
    """The record for a manifest; InputError names the object and the field where it cannot be one.

    Null counts as absent, except within a map of texts, where it is the empty text, as the API server reads it.
    Fields that tierwise does not know are ignored; a kind that it does not know gives `Unknown`.
    """
    api_version, name = _type_of(raw)
    assert isinstance(raw, dict)  # or _type_of had refused it
    record = KINDS.get((group_of(api_version, name), name), Unknown)
    shown = _identity(raw, record, name)
    try:
        record_read = _convert(raw, record)
        _check(record_read)
    except InputError as error:
        raise error.inside(obj=shown) from None
    except RecursionError:
        raise InputError("nested too deeply", obj=shown) from None
    return _completed(record_read)


_PARTS: Final = ("metadata", "spec", "status")


def decode_changed(raw: Raw, before: Raw, record: Any) -> Any:
    """As `decode`, for a manifest that replaces another, of which the record is known.

    Parts that are the same object in both manifests are taken over. So a status that is written costs no reading of
    the spec, and a cache of what follows from a spec can tell by identity that it still holds.
    """
    unchanged: dict[str, Any] = {}
    for part in _PARTS:
        if part in raw and raw[part] is before.get(part) and part in record.__struct_fields__:
            unchanged[part] = getattr(record, part)
    if not unchanged or raw.get("kind") != before.get("kind") or raw.get("apiVersion") != before.get("apiVersion"):
        return decode(raw)
    changed_fields: Raw = {**raw}
    for part in unchanged:
        del changed_fields[part]
    if "metadata" in unchanged:
        changed_fields["metadata"] = {}
    else:
        _identity(raw, type(record), str(raw["kind"]))
    try:
        changed = _convert(changed_fields, type(record))
        _check(changed)  # what is taken over was checked before
    except InputError:
        return decode(raw)  # which says what is wrong
    merged = replace(changed, **unchanged)
    return merged if "spec" in unchanged else _completed(merged)


_NO_TIME: Final = rb'(?<=[{,])("(?:lastTransitionTime|startedAt|finishedAt)":)null'
"""Times of records that an API server shows as null where there are none. Behind a bracket or a comma a quote opens a
key, in any text: so nothing but keys is found.
"""


def decode_json(data: bytes | memoryview | msgspec.Raw, record: type[R]) -> R | None:
    """The record for the JSON of an object whose kind is known, without its manifest ever being made.

    None where the short way cannot read it: `decode` then reads it, or says what is wrong. About four times as fast;
    not for volcano jobs, whose templates are kept as they were written.
    """
    reader = _reader(record)
    try:
        found: R = reader.decode(data)
    except ValidationError:
        try:
            found = reader.decode(re.sub(_NO_TIME, rb'\1""', bytes(data)))
        except msgspec.MsgspecError:
            return None
    except msgspec.MsgspecError:
        return None
    return accepted(found)


def accepted(record: R) -> R | None:
    """A record that was decoded from JSON by its type, as `decode` gives it; None where that refuses it."""
    try:
        _check(record)
    except InputError:
        return None
    completed: R = _completed(record)
    return completed


def _completed(record: Any) -> Any:
    """A pod with the defaults that an API server gives it; any other record as it is."""
    if isinstance(record, core.Pod):
        return filled_pod(record)
    return record


def _reader(record: type[Any]) -> msgspec.json.Decoder[Any]:
    reader = _READERS.get(record)
    if reader is None:
        reader = _READERS[record] = msgspec.json.Decoder(record)
    return reader


def encode(record: Object) -> Raw:
    """The manifest for a record: known fields that differ from their defaults, pod templates as they were written."""
    content: Any = lists(msgspec.to_builtins(record))
    if isinstance(record, volcano.Job):
        content = _each_template(content, lambda template: template.get("raw") or template)
    kind = kind_of(record)
    return {"apiVersion": kind.api_version, "kind": kind.name, **content}


def kind_of(record: Object) -> Kind:
    """Kind of this record: API version, name, and whether it has a namespace."""
    if isinstance(record, Unknown):
        return Kind(record.api_version, record.kind, bool(record.metadata.namespace))
    return _SHOWN_AS.get(type(record)) or Kind("", type(record).__name__, True)


def key(record: Object) -> str:
    """The object's name within its kind: "namespace/name", the namespace "default" where none is given.

    The name alone for kinds without namespaces (nodes, hyperNodes, queues, ...).
    """
    meta = record.metadata
    if kind_of(record).namespaced:
        return f"{meta.namespace or 'default'}/{meta.name}"
    return meta.name


def label(record: Object) -> str:
    """How messages name an object: "Node n0", "PodGroup default/pg"."""
    return f"{kind_of(record).name} {key(record)}"


def _type_of(raw: object) -> tuple[str, str]:
    """The apiVersion and kind of a manifest, or InputError where it is no API object at all."""
    if not isinstance(raw, dict):
        raise InputError(f"an object is expected, not {said(raw)}")
    name = raw.get("kind")
    if not isinstance(name, str) or not name:
        raise InputError("the kind is missing" if name in (None, "") else "the kind is not a string", field="kind")
    version = raw.get("apiVersion")
    if not isinstance(version, str) or not version:
        reason = "the apiVersion is missing" if version in (None, "") else "the apiVersion is not a string"
        raise InputError(reason + _misplaced(raw), obj=name, field="apiVersion")
    return version, name


def _misplaced(raw: dict[str, Any]) -> str:
    """Fields in the wrong place, as in the first examples of Volcano's design."""
    moved = [("version", "apiVersion", "apiVersion"), ("name", "metadata", "metadata.name")]
    hints = [f"{field} stands for {place}" for field, lacks, place in moved if raw.get(field) and lacks not in raw]
    return f" ({' and '.join(hints)}?)" if hints else ""


def _identity(raw: dict[str, Any], record: type[Any], kind: str) -> str:
    """How messages name a manifest; InputError where it has no usable name."""
    meta = raw.get("metadata")
    if meta is not None and not isinstance(meta, dict):
        raise InputError(f"expected an object, got {said(meta)}", obj=kind, field="metadata")
    if meta is None:
        raise InputError(f"the object has no name{_misplaced(raw)}", obj=kind, field="metadata.name")
    name = meta.get("name")
    namespace = meta.get("namespace")
    if name is None or name == "":
        raise InputError("the object has no name", obj=kind, field="metadata.name")
    for field, part in (("name", name), ("namespace", namespace or "")):
        if not isinstance(part, str):
            raise InputError(f"expected a string, got {said(part)}", obj=kind, field=f"metadata.{field}")
        if "/" in part:
            raise InputError(f'"{part}" must not contain "/"', obj=kind, field=f"metadata.{field}")
    shown = _SHOWN_AS.get(record)
    if shown is not None and shown.namespaced:
        namespace = namespace or "default"
    if namespace and (shown is None or shown.namespaced):
        return f"{kind} {namespace}/{name}"
    return f"{kind} {name}"


def _convert(raw: dict[str, Any], record: type[Any]) -> Any:
    if record is volcano.Job:
        raw = _each_template(raw, lambda template: {**template, "raw": template})
    try:
        return msgspec.convert(raw, record)
    except msgspec.ValidationError:
        pass  # few manifests hold nulls, so only those that fail pay for a second reading
    tidied = tidy(raw)
    try:
        return msgspec.convert(tidied, record)
    except msgspec.ValidationError as error:
        raise explain(error, tidied) from None


def _each_template(raw: dict[str, Any], change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """A copy of a job in which every pod template is changed; what is not shaped like a job is left alone."""
    spec = raw.get("spec")
    tasks = spec.get("tasks") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(tasks, list):
        return raw
    changed = [
        {**task, "template": change(task["template"])}
        if isinstance(task, dict) and isinstance(task.get("template"), dict)
        else task
        for task in tasks
    ]
    return {**raw, "spec": {**spec, "tasks": changed}}


def _check(record: Any) -> None:
    meta: ObjectMeta = record.metadata
    for field, text in (("creationTimestamp", meta.creation_timestamp), ("deletionTimestamp", meta.deletion_timestamp)):
        if text:
            try:
                parse_time(text)
            except ValueError as error:
                raise InputError(str(error), field=f"metadata.{field}") from None
    amounts.check(record, signed=type(record) in _SIGNED)


_VERSIONS.update(
    ((group, name), tuple(versions.split()))
    for group, versions, names in (
        ("", "v1", "ReplicationController"),
        ("apps", "v1", "Deployment ReplicaSet StatefulSet DaemonSet"),
        ("batch", "v1", "Job CronJob"),
        ("grove.io", "v1alpha1", "PodCliqueSet ClusterTopologyBinding ClusterTopology"),
        ("workloads.x-k8s.io", "v1alpha2 v1alpha1", "RoleBasedGroup"),
        ("workload.serving.volcano.sh", "v1alpha1", "ModelServing"),
        ("orchestration.aibrix.ai", "v1alpha1", "StormService RoleSet"),
        ("serving.kserve.io", "v1beta1", "InferenceService"),
        ("serving.kserve.io", "v1alpha1", "ServingRuntime ClusterServingRuntime"),
        ("nvidia.com", "v1beta1 v1alpha1", "DynamoGraphDeployment"),
        ("jobset.x-k8s.io", "v1alpha2", "JobSet"),
        ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet"),
        ("kubeflow.org", "v1", "PyTorchJob TFJob XGBoostJob PaddleJob JAXJob"),
        ("kubeflow.org", "v1 v2beta1", "MPIJob"),
        ("trainer.kubeflow.org", "v1alpha1", "TrainJob TrainingRuntime ClusterTrainingRuntime"),
        ("ray.io", "v1 v1alpha1", "RayJob RayService RayCluster"),
    )
    for name in names.split()
)  # of workloads, which have no records

_RECORDS: Final[tuple[tuple[str, str, type[Any], str], ...]] = (
    ("v1", "Node", core.Node, "cluster-wide"),
    ("v1", "Pod", core.Pod, ""),
    ("v1", "Namespace", core.Namespace, "cluster-wide"),
    ("v1", "ConfigMap", core.ConfigMap, ""),
    ("v1", "Service", core.Service, ""),
    ("v1", "ResourceQuota", core.ResourceQuota, ""),
    ("v1", "PersistentVolume", storage.PersistentVolume, "cluster-wide"),
    ("v1", "PersistentVolumeClaim", storage.PersistentVolumeClaim, ""),
    ("storage.k8s.io/v1", "StorageClass", storage.StorageClass, "cluster-wide"),
    ("storage.k8s.io/v1", "CSINode", storage.CsiNode, "cluster-wide"),
    ("storage.k8s.io/v1", "CSIDriver", storage.CsiDriver, "cluster-wide"),
    ("storage.k8s.io/v1", "CSIStorageCapacity", storage.CsiStorageCapacity, ""),
    ("storage.k8s.io/v1", "VolumeAttachment", storage.VolumeAttachment, "cluster-wide"),
    ("policy/v1", "PodDisruptionBudget", core.PodDisruptionBudget, ""),
    ("networking.k8s.io/v1", "NetworkPolicy", core.NetworkPolicy, ""),
    ("scheduling.k8s.io/v1", "PriorityClass", core.PriorityClass, "cluster-wide"),
    ("resource.k8s.io/v1 v1beta2 v1beta1", "ResourceClaim", resource.ResourceClaim, ""),
    ("resource.k8s.io/v1 v1beta2 v1beta1", "ResourceClaimTemplate", resource.ResourceClaimTemplate, ""),
    ("resource.k8s.io/v1 v1beta2 v1beta1", "DeviceClass", resource.DeviceClass, "cluster-wide"),
    ("resource.k8s.io/v1 v1beta2 v1beta1", "ResourceSlice", resource.ResourceSlice, "cluster-wide"),
    (f"{kueue.GROUP}/v1beta2 v1beta1 v1alpha1", "Topology", kueue.Topology, "cluster-wide"),
    (f"{kueue.GROUP}/v1beta2 v1beta1", "ResourceFlavor", kueue.ResourceFlavor, "cluster-wide"),
    (f"{kueue.GROUP}/v1beta2 v1beta1", "Workload", kueue.Workload, ""),
    (f"{kueue.GROUP}/v1beta2 v1beta1", "LocalQueue", kueue.LocalQueue, ""),
    (f"{kueue.GROUP}/v1beta2 v1beta1", "ClusterQueue", kueue.ClusterQueue, "cluster-wide"),
    (f"{grove.GROUP}/v1alpha1", "PodGang", grove.PodGang, ""),
    (f"{kai.GROUP}/v2alpha2", "PodGroup", kai.PodGroup, ""),
    (f"{kai.GROUP}/v2", "Queue", kai.Queue, "cluster-wide"),
    (f"{kai.TOPOLOGY_GROUP}/v1alpha1", "Topology", kai.Topology, "cluster-wide"),
    (f"{workload.GROUP}/v1beta1 v1alpha3 v1alpha2", "PodGroup", workload.PodGroup, ""),
    (f"{workload.GROUP}/v1alpha3", "CompositePodGroup", workload.CompositePodGroup, ""),
    (f"{workload.GROUP}/v1beta1 v1alpha3 v1alpha2 v1alpha1", "Workload", workload.Workload, ""),
    ("resource.nvidia.com/v1beta1", "ComputeDomain", nvidia.ComputeDomain, ""),
    ("scheduling.volcano.sh/v1beta1", "PodGroup", volcano.PodGroup, "signed"),
    ("scheduling.volcano.sh/v1beta1", "Queue", volcano.Queue, "cluster-wide signed"),
    ("topology.volcano.sh/v1alpha1", "HyperNode", volcano.HyperNode, "cluster-wide"),
    ("batch.volcano.sh/v1alpha1", "Job", volcano.Job, "signed"),
    ("bus.volcano.sh/v1alpha1", "Command", volcano.Command, ""),
    ("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", koordinator.PodGroup, "signed"),
    ("scheduling.koordinator.sh/v1alpha1", "PodGroup", koordinator.PodGroup, ""),
    (f"{scheduler_plugins.GROUP}/v1alpha1", "PodGroup", scheduler_plugins.PodGroup, "signed"),
    (
        "scheduling.koordinator.sh/v1alpha1",
        "ClusterNetworkTopology",
        koordinator.ClusterNetworkTopology,
        "cluster-wide",
    ),
    ("appgroup.diktyo.x-k8s.io/v1alpha1", "AppGroup", network_aware.AppGroup, "signed"),
    ("networktopology.diktyo.x-k8s.io/v1alpha1", "NetworkTopology", network_aware.NetworkTopology, "signed"),
    (f"{network_aware.KEP_GROUP}/v1alpha1", "AppGroup", network_aware.KepAppGroup, "signed"),
    (f"{network_aware.KEP_GROUP}/v1alpha1", "NetworkTopology", network_aware.KepNetworkTopology, "signed"),
    ("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", elastic_quota.ElasticQuota, "signed"),
    (f"{window.GROUP}/v1alpha1", "Window", window.Window, "cluster-wide"),
)
"""The group and versions of each kind, the best first; the kind; its record; and what else `register` is told."""

for _versions, _name, _record, _marks in _RECORDS:
    _best, *_older = _versions.split()
    _wide, _is_signed = "cluster-wide" in _marks, "signed" in _marks
    register(_best, _name, _record, namespaced=not _wide, signed=_is_signed, older=tuple(_older))
