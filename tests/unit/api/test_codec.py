"""Decoding manifests: what is read, what is refused, and how the refusal names its place."""

import re
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tierwise.api import codec, core, errors, resource, volcano
from tierwise.api.codec import Raw
from tierwise.api.core import ObjectMeta
from tierwise.api.errors import InputError
from tierwise.api.quantity import Quantity


def manifest(kind: str, api_version: str = "v1", **parts: object) -> Raw:
    """An object called x."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **parts}


def complaint(raw: object) -> str:
    """What decoding says about a manifest that it refuses."""
    with pytest.raises(InputError) as caught:
        codec.decode(raw)
    return str(caught.value)


def pod(spec: Raw) -> Raw:
    """A pod with this specification."""
    return manifest("Pod", spec=spec)


def job(task: Raw) -> Raw:
    """A job of one task."""
    return manifest("Job", "batch.volcano.sh/v1alpha1", spec={"tasks": [task]})


def test_names_of_the_api_become_attributes() -> None:
    """Fields are read by their API names, odd capitals included, and unknown ones are ignored."""
    ports = [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}]
    found = codec.decode(pod({"nodeName": "n0", "containers": [{"name": "c", "ports": ports}], "novelty": [1]}))

    assert isinstance(found, core.Pod)
    assert ("n0", "10.0.0.1", 8080) == (
        found.spec.node_name,
        found.spec.containers[0].ports[0].host_ip,
        found.spec.containers[0].ports[0].host_port,
    )


def test_null_counts_as_absent() -> None:
    """Empty fields of YAML are like missing ones; in maps of texts they are empty texts."""
    raw = manifest("Pod", metadata={"name": "x", "labels": None, "annotations": {"a": None}}, spec=None, status=None)
    found = codec.decode(raw)

    assert ({}, {"a": ""}, core.PodSpec()) == (found.metadata.labels, found.metadata.annotations, found.spec)


def test_whether_a_number_was_given_is_kept() -> None:
    """Absent and zero differ where admission or scheduling tells them apart."""
    given = codec.decode(
        manifest("Job", "batch.volcano.sh/v1alpha1", spec={"minAvailable": 0, "tasks": [{"name": "t"}]})
    )
    task = given.spec.tasks[0]

    assert (0, None, 1) == (given.spec.min_available, task.min_available, task.replicas)


def test_enumerations_are_not_judged() -> None:
    """An unknown mode or operator is for admission to report."""
    spec = {"networkTopology": {"mode": "gentle", "highestTierAllowed": -3}}
    found = codec.decode(manifest("PodGroup", "scheduling.volcano.sh/v1beta1", spec=spec))

    assert volcano.NetworkTopologySpec(mode="gentle", highest_tier_allowed=-3) == found.spec.network_topology


def test_conditions_may_have_an_unquoted_status() -> None:
    """`status: True` is read as the text that it stands for."""
    found = codec.decode(manifest("Node", status={"conditions": [{"type": "Ready", "status": True}]}))

    assert (core.Condition(type="Ready", status="True"),) == found.status.conditions


def test_templates_keep_what_tierwise_does_not_know() -> None:
    """A pod made from a job's template carries every field that the user wrote, and so does the encoded job."""
    template = {"metadata": {"labels": None}, "spec": {"volumes": [{"name": "v"}], "priority": 3}}
    raw = job({"name": "t", "template": template})
    found = codec.decode(raw)

    assert (3, template) == (found.spec.tasks[0].template.spec.priority, found.spec.tasks[0].template.raw)
    assert raw == codec.encode(found)


def test_unknown_kinds_are_kept() -> None:
    """A kind that nobody registered is no error; another group's Job is not Volcano's."""
    found = codec.decode(manifest("Job", "batch/v1", spec={"tasks": 3}))

    assert (codec.Unknown, "Job x") == (type(found), codec.label(found))


def test_a_version_that_does_not_exist_is_a_kind_that_is_not_known() -> None:
    """The versions of a kind are read the same, and no others."""
    for version in codec.versions_of("resource.k8s.io", "DeviceClass"):
        assert isinstance(codec.decode(manifest("DeviceClass", f"resource.k8s.io/{version}")), resource.DeviceClass)
    for group, kind in codec.KINDS:
        assert isinstance(codec.decode(manifest(kind, f"{group}/v9".removeprefix("/"))), codec.Unknown)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (manifest("Node"), "Node x"),
        (manifest("Pod"), "Pod default/x"),
        (manifest("Pod", metadata={"name": "x", "namespace": "ns"}), "Pod ns/x"),
        (manifest("Queue", "scheduling.volcano.sh/v1beta1", metadata={"name": "x", "namespace": "ns"}), "Queue x"),
        (manifest("Thing", "a.b/v1", metadata={"name": "x", "namespace": "ns"}), "Thing ns/x"),
    ],
)
def test_objects_are_named_by_kind_and_key(raw: Raw, expected: str) -> None:
    """Namespaced kinds have a namespace, "default" where none is given; others have none."""
    assert expected == codec.label(codec.decode(raw))


def test_other_modules_can_register_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered kind is decoded, named, encoded, and has its quantities checked."""

    class Quota(msgspec.Struct, frozen=True):
        metadata: ObjectMeta
        top: core.ResourceList = {}

    monkeypatch.setitem(codec.KINDS, ("quota.test", "Quota"), Quota)  # forgotten after the test
    codec.register("quota.test/v1", "Quota", Quota, namespaced=False)
    raw = manifest("Quota", "quota.test/v1", top={"cpu": "1"})

    assert ("Quota x", raw) == (codec.label(codec.decode(raw)), codec.encode(codec.decode(raw)))
    assert 'Quota x: top.cpu: "y" is not a quantity' == complaint({**raw, "top": {"cpu": "y"}})


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (None, "an object is expected, not null"),
        ([], "an object is expected, not a list"),
        ({}, "kind: the kind is missing"),
        ({"kind": 3}, "kind: the kind is not a string"),
        ({"kind": "Pod"}, "Pod: apiVersion: the apiVersion is missing"),
        ({"kind": "Pod", "apiVersion": "v1"}, "Pod: metadata.name: the object has no name"),
        (manifest("Pod", metadata={"generateName": "x-"}), "Pod: metadata.name: the object has no name"),
        (manifest("Pod", metadata={"name": 3}), "Pod: metadata.name: expected a string, got an integer"),
        (manifest("Pod", metadata={"name": "a/b"}), 'Pod: metadata.name: "a/b" must not contain "/"'),
    ],
)
def test_what_is_no_object_is_refused(raw: object, expected: str) -> None:
    """Something with a kind and a name is needed."""
    assert expected == complaint(raw)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            manifest("HyperNode", "topology.volcano.sh/v1alpha1", spec={"tier": "1"}),
            "HyperNode x: spec.tier: expected an integer, got a string",
        ),
        (
            manifest("HyperNode", "topology.volcano.sh/v1alpha1", spec={"members": [{}, {"type": 1}]}),
            "HyperNode x: spec.members[1].type: expected a string, got an integer",
        ),
        (manifest("Node", spec=[]), "Node x: spec: expected an object, got a list"),
        (
            manifest("Node", metadata={"name": "x", "labels": {"a": "b", "c": True}}),
            "Node x: metadata.labels.c: expected a string, got a boolean (quote it)",
        ),
        (
            manifest("Thing", "a.b/v1", metadata={"name": "x", "labels": {"c": 1}}),
            "Thing x: metadata.labels.c: expected a string, got an integer (quote it)",
        ),
        (
            manifest("Node", metadata={"name": "x", "labels": {1: "b"}}),
            "Node x: metadata.labels: expected a string, got an integer as a key (quote it)",
        ),
        (pod({"priority": 10**30}), "Pod default/x: spec.priority: expected an integer <= 9223372036854775807"),
        (pod({"containers": [None]}), "Pod default/x: spec.containers[0]: expected an object, got null"),
        (
            manifest("Node", metadata={"name": "x", "creationTimestamp": "yesterday"}),
            'Node x: metadata.creationTimestamp: "yesterday" is not an RFC 3339 time',
        ),
    ],
)
def test_wrong_types_name_their_field(raw: Raw, expected: str) -> None:
    """One line with the object, the path of the field, and what was expected there."""
    assert expected == complaint(raw)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (manifest("Node", status={"allocatable": {"cpu": "12parsecs"}}), "status.allocatable.cpu"),
        (manifest("Node", status={"capacity": {"memory": "-1"}}), "status.capacity.memory"),
        (manifest("Node", status={"allocatable": {"cpu": True}}), "status.allocatable.cpu"),
        (
            pod({"containers": [{"resources": {"requests": {"cpu": "-1"}}}]}),
            "spec.containers[0].resources.requests.cpu",
        ),
        (pod({"initContainers": [{"resources": {"limits": {"a": ""}}}]}), "spec.initContainers[0].resources.limits.a"),
        (pod({"overhead": {"cpu": "x"}}), "spec.overhead.cpu"),
        (
            job({"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}}}),
            "spec.tasks[0].template.spec.containers[0].resources.requests.cpu",
        ),
        (
            manifest("PodGroup", "scheduling.volcano.sh/v1beta1", spec={"minResources": {"cpu": "x"}}),
            "spec.minResources.cpu",
        ),
        (
            manifest("Queue", "scheduling.volcano.sh/v1beta1", spec={"guarantee": {"resource": {"cpu": "x"}}}),
            "spec.guarantee.resource.cpu",
        ),
        (manifest("Queue", "scheduling.volcano.sh/v1beta1", spec={"deserved": {"cpu": "x"}}), "spec.deserved.cpu"),
    ],
)
def test_quantities_that_cannot_be_counted_name_their_field(raw: Raw, field: str) -> None:
    """Unreadable amounts, and negative ones of nodes and pods, are refused wherever they stand."""
    with pytest.raises(InputError) as caught:
        codec.decode(raw)

    assert field == caught.value.field


def _quantities(kind: Any, path: str = "") -> Iterator[str]:
    """The paths of all quantities in values of a type, with [] for the entries of a list and .* for those of a map."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in (Quantity, Quantity | None):
        yield path
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            yield from _quantities(field.type, f"{path}.{field.encode_name}")
    elif origin is tuple:
        yield from _quantities(inner[0], f"{path}[]")
    elif origin is dict:
        yield from _quantities(inner[1], f"{path}.*")
    elif origin in (typing.Union, types.UnionType):
        for one in inner:
            yield from _quantities(one, path)


def _holding(path: str) -> Any:
    """What a manifest has at a path on the way to a broken quantity."""
    step, rest = re.fullmatch(r"(\[\]|\.[^.\[]+|)(.*)", path).groups()  # type: ignore[union-attr]
    if not step:
        return "x"
    return [_holding(rest)] if step == "[]" else {step[1:]: _holding(rest)}


@pytest.mark.parametrize(
    ("group", "kind", "path"),
    [(*kind, path) for kind, record in sorted(codec.KINDS.items()) for path in _quantities(record)],
)
def test_every_quantity_of_every_kind_is_looked_at(group: str, kind: str, path: str) -> None:
    """Whoever has a record may rely on its quantities: the types say where they are."""
    version = codec.version_of(group, kind)
    raw = manifest(kind, f"{group}/{version}" if group else version, **_holding(path))

    field = path[1:].replace("[]", "[0]")
    assert complaint(raw).endswith(f'{field.replace(".basic.", ".")}: "x" is not a quantity')


def test_nothing_is_suggested_that_is_far_off() -> None:
    """A misspelt word is told its neighbour, and any other word none at all."""
    assert (" (did you mean memory?)", "") == (
        errors.suggestion("memroy", ["cpu", "memory"]),
        errors.suggestion("zebra", ["cpu"]),
    )


def test_depth_is_the_files_fault() -> None:
    """An object that is nested beyond all measure is named, and nothing ends in a trace."""
    deep: object = 1
    for _ in range(5_000):
        deep = {"a": deep}
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"more": deep, "nodeName": None}}
    with pytest.raises(InputError, match="Pod default/p: nested too deeply"):
        codec.decode(raw)
