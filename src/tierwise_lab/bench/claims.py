"""Rows about claims: a gang whose pods claim devices or volumes, against the same gang without.

Both clusters have the same nodes, and both gangs are found a place among all of them. Claims of volumes wait for their
first consumer: volumes are made for the nodes that are chosen, by a driver that attaches only so many to a node, or
local disks are there that each can be reached from one node. Seconds are processor time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from tierwise.config.profile import DEFAULT
from tierwise.port import Bind, Nominate, Objects
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.snapshot.builder import build
from tierwise_lab.bench import manifests
from tierwise_lab.bench.lab import Lab, Measured, row
from tierwise_lab.bench.measure import at_most, compared, in_turns

__all__ = []

_DEVICES, _DISKS = 8, 4  # of a node
_ATTACHED = 16
_STORAGE = "storage.k8s.io/v1"


@row("D1a", at_most(5, 1.5))
def _d1a(lab: Lab) -> Measured:
    """Deciding for a gang with claims of devices, what is written on them included."""
    nodes = f"{lab.size.small:,} nodes with {_DEVICES} devices each"
    what = f"deciding for a gang of {lab.size.gang} pods with claims ÷ with extended resources at {nodes}"
    return compared(what, *_deciding(lab, "devices"))


@row("D1b", at_most(10, 4))
def _d1b(lab: Lab) -> Measured:
    """Reading the nodes, devices and claims of such a cluster for the first time."""
    return compared("reading those nodes and devices for the first time ÷ the nodes alone", *_reading(lab, "devices"))


@row("V1a", at_most(5, 1.5))
def _v1a(lab: Lab) -> Measured:
    """Measure how many times as long it takes to decide for a gang whose volumes are made, with what is written on the
    claims, as for one without volumes.
    """
    what = f"deciding for a gang of {lab.size.gang} pods whose volumes are made ÷ without volumes"
    return compared(f"{what} at {lab.size.small:,} nodes", *_deciding(lab, "volumes"))


@row("V1b", at_most(30, 5))
def _v1b(lab: Lab) -> Measured:
    """Deciding for a gang with volumes where every node has local disks."""
    return compared(f"the same with {_DISKS} local disks on each node ÷ without volumes", *_deciding(lab, "disks"))


@row("V1c", at_most(10, 4))
def _v1c(lab: Lab) -> Measured:
    """Reading such a cluster for the first time."""
    return compared("reading those nodes and disks for the first time ÷ the nodes alone", *_reading(lab, "disks"))


def _reading(lab: Lab, what: str) -> list[float]:
    return in_turns(2, *(partial(build, _objects(lab, claimed), 0.0) for claimed in (what, "")))


def _deciding(lab: Lab, what: str) -> list[float]:
    return in_turns(lab.size.repeats, *(_decide(lab, claimed) for claimed in (what, "")))


def _decide(lab: Lab, what: str) -> Callable[[], None]:
    snapshot = build(_objects(lab, what), 0.0)

    def decide() -> None:
        decided = effects(snapshot, cycle(snapshot, DEFAULT))
        if sum(isinstance(effect, Bind | Nominate) for effect in decided) != lab.size.gang:
            raise RuntimeError("the gang is meant to fit, and was refused")

    return decide


def _objects(lab: Lab, what: str) -> Objects:
    """Nodes and a waiting gang whose pods claim what this key of _WITH says: devices, volumes that are made, disks, or
    nothing. Each is made once for a Lab and then shared.
    """
    return lab.once(f"claims of {what}", lambda: manifests.read_manifests(_WITH[what](lab)))


def _plain(lab: Lab) -> Iterator[manifests.Manifest]:
    yield manifests.group(0, minimum=lab.size.gang, phase="Inqueue")
    for i in range(lab.size.small):
        raw = manifests.node(i)
        raw["metadata"]["labels"]["kubernetes.io/hostname"] = f"n{i}"
        yield raw
    yield from (manifests.pod(0, rank, on="") for rank in range(lab.size.gang))


def _with_devices(lab: Lab) -> Iterator[manifests.Manifest]:
    """Devices that each have attributes of their own, and a claim for each pod, made for it from a template."""
    yield manifests.device_class()
    for raw in _plain(lab):
        name = raw["metadata"]["name"]
        if raw["kind"] == "Node":
            del raw["status"]["allocatable"]["nvidia.com/gpu"]
            uuids = [{"uuid": {"string": f"{name}-{i}"}, "productName": {"string": "H100"}} for i in range(_DEVICES)]
            yield manifests.device_slice(
                name, [{"attributes": a, "capacity": {"memory": {"value": "80Gi"}}} for a in uuids]
            )
        elif raw["kind"] == "Pod":
            del raw["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"]
            raw["metadata"]["uid"] = f"uid-{name}"
            raw["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
            raw["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
            claim = manifests.manifest(manifests.DEVICES, "ResourceClaim", f"{name}-gpu", "d", spec=_one_device())
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
            claim["metadata"]["ownerReferences"] = [owner]
            yield claim
        yield raw


def _one_device() -> manifests.Manifest:
    device_request = {
        "deviceClassName": manifests.device_class()["metadata"]["name"],
        "allocationMode": "ExactCount",
        "count": 1,
    }
    return {"devices": {"requests": [{"name": "gpu", "exactly": device_request}]}}


def _with_volumes(lab: Lab, *, local: bool = False) -> Iterator[manifests.Manifest]:
    """A claim for each pod, of a volume that is made for it, or of one of the local disks."""
    yield manifests.storage_class("kubernetes.io/no-provisioner" if local else "csi.test")
    for number, raw in enumerate(_plain(lab)):
        name = raw["metadata"]["name"]
        if raw["kind"] == "Node" and local:
            yield from (_disk(name, disk, number * _DISKS + disk) for disk in range(_DISKS))
        elif raw["kind"] == "Node":
            drivers = [{"name": "csi.test", "nodeID": name, "allocatable": {"count": _ATTACHED}}]
            yield manifests.manifest(_STORAGE, "CSINode", name, spec={"drivers": drivers})
        elif raw["kind"] == "Pod":
            raw["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"{name}-data"}}]
            yield manifests.claim(f"{name}-data", raw["metadata"]["namespace"])
        yield raw


def _disk(of: str, number: int, bytes_more: int) -> manifests.Manifest:
    """A disk of a node; no two are of quite the same size."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [of]}]}
    spec = {
        "capacity": {"storage": str(2**30 + bytes_more)},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": manifests.STORAGE_CLASS,
        "local": {"path": f"/disk{number}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return manifests.manifest("v1", "PersistentVolume", f"{of}-disk{number}", spec=spec, status={"phase": "Available"})


_WITH: Final[Mapping[str, Callable[[Lab], Iterator[manifests.Manifest]]]] = {
    "": _plain,
    "devices": _with_devices,
    "volumes": _with_volumes,
    "disks": partial(_with_volumes, local=True),
}
