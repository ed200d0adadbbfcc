"""Rows about devices: a gang whose pods have claims, against the same gang with extended resources.

Both clusters have the same nodes with as many devices, and both gangs are found a place among all of them. Seconds are
processor time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tierwise.bench.lab import Lab, Measured, row
from tierwise.bench.manifests import Manifest, group, manifest, node, pod, read_manifests
from tierwise.bench.measure import at_most, compared, in_turns
from tierwise.config.profile import DEFAULT
from tierwise.port import Bind, Objects
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.snapshot.builder import build

__all__ = []

_DEVICES = 8  # of a node
_CLASS = "gpu.nvidia.com"
_VERSION = "resource.k8s.io/v1"


@row("D1a", at_most(5, 1.5))
def _d1a(lab: Lab) -> Measured:
    """Deciding for a gang with claims, what is written on them included."""
    claims, plain = in_turns(lab.size.repeats, *(_deciding(lab, claims=claims) for claims in (True, False)))
    nodes = f"{lab.size.small:,} nodes with {_DEVICES} devices each"
    what = f"deciding for a gang of {lab.size.gang} pods with claims ÷ with extended resources at {nodes}"
    return compared(what, claims, plain)


@row("D1b", at_most(10, 4))
def _d1b(lab: Lab) -> Measured:
    """Reading the nodes, devices and claims of such a cluster for the first time."""
    claims, plain = in_turns(2, *(partial(build, objects, 0.0) for objects in _both(lab)))
    return compared("reading those nodes and devices for the first time ÷ the nodes alone", claims, plain)


def _both(lab: Lab) -> tuple[Objects, Objects]:
    return lab.once("devices", lambda: (_objects(lab, claims=True), _objects(lab, claims=False)))


def _deciding(lab: Lab, *, claims: bool) -> Callable[[], None]:
    snapshot = build(_both(lab)[0 if claims else 1], 0.0)

    def decide() -> None:
        bound = [effect for effect in effects(snapshot, cycle(snapshot, DEFAULT)) if isinstance(effect, Bind)]
        if len(bound) != lab.size.gang:
            raise RuntimeError("the gang is meant to fit, and was refused")

    return decide


def _objects(lab: Lab, *, claims: bool) -> Objects:
    manifests = [group(0, minimum=lab.size.gang, phase="Inqueue")]
    for i in range(lab.size.small):
        manifests.append(node(i))
        if claims:
            del manifests[-1]["status"]["allocatable"]["nvidia.com/gpu"]
            manifests.append(_slice(i))
    for rank in range(lab.size.gang):
        manifests += _with_claim(rank) if claims else [pod(0, rank, on="")]
    if claims:
        selectors = [{"cel": {"expression": f'device.driver == "{_CLASS}"'}}]
        manifests.append(manifest(_VERSION, "DeviceClass", _CLASS, spec={"selectors": selectors}))
    return read_manifests(manifests)


def _slice(number: int) -> Manifest:
    """The devices of a node; each has attributes of its own."""
    devices = [
        {
            "name": f"gpu-{i}",
            "attributes": {"uuid": {"string": f"GPU-{number}-{i}"}, "productName": {"string": "H100"}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for i in range(_DEVICES)
    ]
    pool = {"name": f"n{number}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _CLASS, "nodeName": f"n{number}", "pool": pool, "devices": devices}
    return manifest(_VERSION, "ResourceSlice", f"n{number}-gpus", spec=spec)


def _with_claim(rank: int) -> Iterator[Manifest]:
    """A waiting pod and the claim that was made for it from a template."""
    made = pod(0, rank, on="")
    name = f"{made['metadata']['name']}-gpu"
    for container in made["spec"]["containers"]:
        del container["resources"]["requests"]["nvidia.com/gpu"]
    made["metadata"]["uid"] = f"uid-{rank}"
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    made["status"] = {"phase": "Pending", "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": made["metadata"]["name"], "uid": f"uid-{rank}"}
    request = {"name": "gpu", "exactly": {"deviceClassName": _CLASS, "allocationMode": "ExactCount", "count": 1}}
    yield made
    claim = manifest(_VERSION, "ResourceClaim", name, "d", spec={"devices": {"requests": [request]}})
    claim["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    yield claim
