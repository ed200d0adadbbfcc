"""What a journal holds of objects: what scheduling reads, and no word of anything else."""

from __future__ import annotations

import gzip
import types
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.commands import EXAMPLES, run

from tierwise.api import codec, core, volcano
from tierwise.api.core import ObjectMeta
from tierwise.api.quantity import Quantity
from tierwise.config.profile import DEFAULT
from tierwise.port import Objects
from tierwise.runtime.journal import JournalWriter
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import SchedulerProfile
from tierwise.sim.cluster.store import EmbeddedCluster

Raw = dict[str, Any]
UNREAD = {
    core.Condition: {"message"},
    core.PodStatus: {"reason", "message"},
    core.NodeSpec: {"provider_id"},
    core.NodeStatus: {"addresses"},
    core.ContainerPort: {"name"},
    core.EphemeralSource: {"volume_claim_template"},
    core.PodTemplate: {"raw"},
    core.PriorityClass: {"description"},
    core.ConfigMap: {"data"},
    ObjectMeta: {"generate_name"},
    volcano.JobSpec: {"plugins", "volumes"},
    volcano.JobState: {"reason", "message"},
}
"""Fields of records that are for controllers and for people."""

READ_IN_FULL = "status.devices[].conditions[].message"
"""Why a device failed to bind is part of what is decided about its pod."""

LEFT_OUT = {"Service", "NetworkPolicy", "Command", "ConfigMap"}
"""Kinds that controllers read, and scheduling does not."""

READ = {
    "": "Namespace Node PersistentVolume PersistentVolumeClaim Pod ResourceQuota",
    "appgroup.diktyo.x-k8s.io": "AppGroup",
    "batch.volcano.sh": "Job",
    "kai.scheduler": "Topology",
    "kueue.x-k8s.io": "ClusterQueue LocalQueue ResourceFlavor Topology Workload",
    "networktopology.diktyo.x-k8s.io": "NetworkTopology",
    "policy": "PodDisruptionBudget",
    "resource.k8s.io": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
    "resource.nvidia.com": "ComputeDomain",
    "scheduler.grove.io": "PodGang",
    "scheduling.k8s.io": "CompositePodGroup PodGroup PriorityClass Workload",
    "scheduling.koordinator.sh": "ClusterNetworkTopology PodGroup",
    "scheduling.run.ai": "PodGroup Queue",
    "scheduling.sigs.k8s.io": "ElasticQuota PodGroup",
    "scheduling.sigs.x-k8s.io": "AppGroup NetworkTopology",
    "scheduling.volcano.sh": "PodGroup Queue",
    "scheduling.x-k8s.io": "PodGroup",
    "storage.k8s.io": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment",
    "tierwise.io": "Window",
    "topology.volcano.sh": "HyperNode",
}
"""Kinds that scheduling reads, by their group."""

OTHERS: list[Raw] = [
    {"apiVersion": "v1", "kind": "Secret", "stringData": {"k": "UNREAD"}, "data": {"k": "UNREAD"}, "type": "UNREAD"},
    {"apiVersion": "v1", "kind": "Event", "message": "UNREAD"},
    *(
        {"apiVersion": version, "kind": kind, "spec": {"template": {"spec": {"containers": [{"env": "UNREAD"}]}}}}
        for version, kind in [
            ("apps/v1", "Deployment"),
            ("apps/v1", "StatefulSet"),
            ("batch/v1", "Job"),
            ("batch/v1", "CronJob"),
            ("jobset.x-k8s.io/v1alpha2", "JobSet"),
            ("kubeflow.org/v1", "PyTorchJob"),
            ("ray.io/v1", "RayCluster"),
            ("example.com/v1", "Anything"),
        ]
    ),
]


def _marked(kind: Any, path: str, said: dict[str, str], *, unread: bool = False) -> Any:
    """A value of a type in which every text is a marker; `said` gets each marker's path, "!" before those not read."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        found: Raw = {
            field.encode_name: _marked(
                field.type,
                f"{path}.{field.encode_name}",
                said,
                unread=unread or field.name in UNREAD.get(kind, ()),
            )
            for field in msgspec.structs.fields(kind)
        }
        return found | {"notKnown": _text(f"{path}.notKnown", said, unread=True)}
    if kind in (Quantity, Quantity | None):
        return "1"
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        first = next((one for one in inner if isinstance(one, type) and issubclass(one, msgspec.Struct)), None)
        text = str if str in inner else next(one for one in inner if one is not types.NoneType)
        return _marked(first or text, path, said, unread=unread)
    if origin is tuple:
        return [_marked(inner[0], f"{path}[]", said, unread=unread)]
    if origin is dict:
        if path.endswith("annotations"):
            read = {"tierwise.io/marked": _text(f"{path}.own", said, unread=unread)}
            return read | {"example.com/marked": _text(f"{path}.others", said, unread=True)}
        key = "cpu" if inner[1] == Quantity else "some"
        return {key: _marked(inner[1], f"{path}.{key}", said, unread=unread)}
    if origin is typing.Annotated:
        return 1
    if kind is str or kind is object:
        return "2026-01-01T00:00:00Z" if _is_time(path) else _text(path, said, unread=unread)
    return {int: 1, float: 1.0, bool: True}.get(kind)


def _is_time(path: str) -> bool:
    name = path.rpartition(".")[2]
    return name.endswith(("Time", "Timestamp", "At", "timeAdded")) or path.endswith("disruptedPods.some")


def _text(path: str, said: dict[str, str], *, unread: bool) -> str:
    mark = f"marker-{len(said)}-"
    said[mark] = f"!{path}" if unread else path
    return mark


def _kept(folder: Path, raws: list[Raw]) -> str:
    """All that a journal says of objects, from the beginning and as changes."""
    loaded = [(codec.decode(raw), raw) for raw in raws]
    scheduler = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    writer = JournalWriter(folder, 1 << 24, (scheduler,))
    try:
        for objects in (Objects(), Objects.of(loaded), Objects()):
            cluster = EmbeddedCluster(objects)
            Loop(
                cluster, [scheduler], clock=lambda: 1e9, ticks=lambda: 0.0, with_controllers=False, observers=[writer]
            ).run_once()
    finally:
        writer.close()
    return "".join(gzip.decompress(path.read_bytes()).decode() for path in sorted(folder.iterdir()))


@pytest.mark.parametrize(("group", "kind"), sorted(codec.KINDS), ids=lambda part: part or "core")
def test_no_field_that_is_not_read_is_written(tmp_path: Path, group: str, kind: str) -> None:
    """A marker in every text of every kind, known and unknown: none of those that scheduling does not read is found."""
    said: dict[str, str] = {}
    raw = _marked(codec.KINDS[group, kind], "", said)
    version = codec.version_of(group, kind)
    raw |= {"apiVersion": f"{group}/{version}" if group else version, "kind": kind}
    raw["metadata"] |= {"name": "named", "namespace": "default"}

    text = _kept(tmp_path, [raw])

    told = {path for mark, path in said.items() if mark in text}
    assert set() == {path for path in told if path.startswith("!")} - {f"!.{READ_IN_FULL}"}
    assert (kind in LEFT_OUT) == (not told)


def test_every_kind_is_read_by_scheduling_or_left_out() -> None:
    """Whoever teaches the codec a kind says here whether a journal may hold it."""
    known = {(group, kind) for group, kind in codec.KINDS if not group.endswith(".test")}
    read = {(group, kind) for group, kinds in READ.items() for kind in kinds.split()}

    assert read == {(group, kind) for group, kind in known if kind not in LEFT_OUT}


def test_what_scheduling_reads_is_written(tmp_path: Path) -> None:
    """Of a pod: selectors, tolerations, amounts, images, and its own annotations."""
    said: dict[str, str] = {}
    raw = _marked(core.Pod, "", said) | {"apiVersion": "v1", "kind": "Pod"}
    raw["metadata"] |= {"name": "named", "namespace": "default"}

    text = _kept(tmp_path, [raw])

    told = {path for mark, path in said.items() if mark in text}
    assert {
        ".metadata.labels.some",
        ".metadata.annotations.own",
        ".spec.nodeSelector.some",
        ".spec.tolerations[].key",
        ".spec.containers[].image",
        ".spec.resourceClaims[].resourceClaimName",
        ".spec.volumes[].persistentVolumeClaim.claimName",
        ".status.nominatedNodeName",
    } <= told


def test_kinds_that_are_not_read_are_not_written(tmp_path: Path) -> None:
    """Secrets, events, workloads of others, ConfigMaps, Services: not even that they are there, or have gone."""
    named = [{**raw, "metadata": {"name": "UNREAD", "namespace": "default"}} for raw in OTHERS if raw["kind"] != "Job"]
    known: list[Raw] = [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "UNREAD"}, "data": {"UNREAD": "UNREAD"}}
        for kind in ("ConfigMap", "Service")
    ]
    job = next(raw for raw in OTHERS if raw["kind"] == "Job")
    job = {**job, "metadata": {"name": "j", "annotations": {"a": "UNREAD"}}, "spec": {**job["spec"], "parallelism": 2}}

    text = _kept(tmp_path, [*named, *known, job])

    assert "UNREAD" not in text
    assert '"spec":{"parallelism":2}' in text


def test_secrets_of_jobs_are_not_recorded(tmp_path: Path) -> None:
    """A Volcano Job with a secret in its environment, recorded by a command: the folder is its owner's alone."""
    job = tmp_path / "job.yaml"
    job.write_text(
        """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train, annotations: {kubectl.kubernetes.io/last-applied-configuration: "HIDDEN"}}
spec:
  minAvailable: 1
  schedulerName: volcano
  plugins: {env: ["HIDDEN"]}
  tasks:
  - name: w
    replicas: 1
    template:
      metadata: {annotations: {note: HIDDEN}}
      spec:
        containers:
        - name: c
          image: i
          command: [HIDDEN]
          args: [HIDDEN]
          env: [{name: TOKEN, value: HIDDEN}]
          resources: {requests: {cpu: "1"}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: cm, namespace: default}
data: {k: HIDDEN}
"""
    )
    folder = tmp_path / "made" / "journal"
    nodes = EXAMPLES / "01-llm-training" / "cluster.yaml"
    result = run("submit", "-f", nodes, "-f", job, "--instant", "--until", "1h", "--journal", folder)
    assert 0 == result.exit_code, result.stderr

    text = "".join(gzip.decompress(path.read_bytes()).decode() for path in folder.iterdir())

    assert "HIDDEN" not in text
    assert "train-w-0" in text
    assert {0o600} == {path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert [0o700, 0o700] == [path.stat().st_mode & 0o777 for path in (folder, folder.parent)]
    assert 0 == run("replay", folder, "--verify").exit_code
