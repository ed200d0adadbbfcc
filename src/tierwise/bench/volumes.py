"""Rows about volumes: a gang whose pods have a claim each, against the same gang without.

Claims wait for their first consumer: volumes are made for the nodes that are chosen, by a driver that attaches only so
many to a node, or local disks are there that each can be reached from one node. Seconds are processor time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tierwise.bench.lab import Lab, Measured, row
from tierwise.bench.manifests import Manifest, group, manifest, node, pod, read_manifests
from tierwise.bench.measure import at_most, compared, in_turns
from tierwise.config.profile import DEFAULT
from tierwise.port import Bind, Nominate, Objects
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.snapshot.builder import build

__all__ = []

_DISKS = 4  # of a node
_ATTACHED = 16
_CLASS = "fast"
_VERSION = "storage.k8s.io/v1"


@row("V1a", at_most(5, 1.5))
def _v1a(lab: Lab) -> Measured:
    """Deciding for a gang whose volumes are made, what is written on the claims included."""
    made, plain = in_turns(lab.size.repeats, _deciding(lab, "made"), _deciding(lab, ""))
    what = f"deciding for a gang of {lab.size.gang} pods whose volumes are made ÷ without volumes"
    return compared(f"{what} at {lab.size.small:,} nodes", made, plain)


@row("V1b", at_most(30, 5))
def _v1b(lab: Lab) -> Measured:
    """The same where every node has local disks."""
    local, plain = in_turns(lab.size.repeats, _deciding(lab, "local"), _deciding(lab, ""))
    return compared(f"the same with {_DISKS} local disks on each node ÷ without volumes", local, plain)


@row("V1c", at_most(10, 4))
def _v1c(lab: Lab) -> Measured:
    """Reading such a cluster for the first time."""
    local, plain = in_turns(2, *(partial(build, _objects_of(lab, kind), 0.0) for kind in ("local", "")))
    return compared("reading those nodes and disks for the first time ÷ the nodes alone", local, plain)


def _objects_of(lab: Lab, kind: str) -> Objects:
    return lab.once(f"volumes {kind}", lambda: _objects(lab, kind))


def _deciding(lab: Lab, kind: str) -> Callable[[], None]:
    snapshot = build(_objects_of(lab, kind), 0.0)

    def decide() -> None:
        asked = effects(snapshot, cycle(snapshot, DEFAULT))
        if sum(isinstance(effect, Nominate if kind else Bind) for effect in asked) != lab.size.gang:
            raise RuntimeError("the gang is meant to fit, and was refused")

    return decide


def _objects(lab: Lab, kind: str) -> Objects:
    manifests = [group(0, minimum=lab.size.gang, phase="Inqueue")]
    for i in range(lab.size.small):
        manifests.append(node(i))
        manifests[-1]["metadata"].setdefault("labels", {})["kubernetes.io/hostname"] = f"n{i}"
        if kind == "local":
            manifests += (_disk(i, number) for number in range(_DISKS))
        elif kind:
            manifests.append(_csi_node(i))
    for rank in range(lab.size.gang):
        manifests.append(pod(0, rank, on=""))
        if kind:
            name = f"{manifests[-1]['metadata']['name']}-data"
            volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
            manifests[-1]["spec"]["volumes"] = [volume]
            manifests.append(_claim(name, manifests[-1]["metadata"]["namespace"]))
    if kind:
        provisioner = "kubernetes.io/no-provisioner" if kind == "local" else "csi.test"
        body = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        manifests.append(manifest(_VERSION, "StorageClass", _CLASS, **body))
    return read_manifests(manifests)


def _claim(name: str, namespace: str) -> Manifest:
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"storageClassName": _CLASS, "accessModes": ["ReadWriteOnce"], "resources": resources}
    raw = manifest("v1", "PersistentVolumeClaim", name, namespace, spec=spec)
    raw["metadata"]["uid"] = f"uid-{name}"
    return raw


def _disk(of: int, number: int) -> Manifest:
    """A disk of a node; no two are of quite the same size."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [f"n{of}"]}]}
    spec = {
        "capacity": {"storage": str(2**30 + of * _DISKS + number)},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": _CLASS,
        "local": {"path": f"/disk{number}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return manifest("v1", "PersistentVolume", f"n{of}-disk{number}", spec=spec, status={"phase": "Available"})


def _csi_node(number: int) -> Manifest:
    drivers = [{"name": "csi.test", "nodeID": f"n{number}", "allocatable": {"count": _ATTACHED}}]
    return manifest(_VERSION, "CSINode", f"n{number}", spec={"drivers": drivers})
