"""A driver of devices that do nothing, and the controller that looks after claims: what a cluster with devices has.

The driver publishes slices and withdraws them. The controller makes the claims that templates promise, and takes back
what nobody uses any more, as Kubernetes' controller manager does; nothing of tierwise is in it.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import threading
from typing import Final

from tests.e2e.api import Api, ApiRefusal, Json, path_of

__all__ = ["CLASS", "TEMPLATE", "Driver"]

CLASS: Final = "gpu.example.com"
TEMPLATE: Final = "gpus"
_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_VERSION: Final = "resource.k8s.io/v1"


class Driver:
    """Devices of one class on some nodes, and a template for claims of so many of them."""

    def __init__(self, api: Api, each: int) -> None:
        self._api = api
        self._numbers = itertools.count()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        selector = {"cel": {"expression": f'device.driver == "{CLASS}"'}}
        request = {"name": "gpu", "exactly": {"deviceClassName": CLASS, "count": each}}
        spec: Json = {"spec": {"devices": {"requests": [request]}}}
        meta = {"name": TEMPLATE, "namespace": "default"}
        api.apply(
            {
                "apiVersion": _VERSION,
                "kind": "DeviceClass",
                "metadata": {"name": CLASS},
                "spec": {"selectors": [selector]},
            }
        )
        api.apply({"apiVersion": _VERSION, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": spec})

    def __enter__(self) -> Driver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(timeout=20)
        for claim in self._api.list("ResourceClaim"):
            with contextlib.suppress(ApiRefusal):
                self._release(claim)
                self._api.delete("ResourceClaim", claim["metadata"]["name"])
        for kind in ("ResourceSlice", "DeviceClass"):
            self._api.ask("DELETE", path_of(kind))
        self._api.ask("DELETE", path_of("ResourceClaimTemplate", namespace="default"))

    def publish(self, node: str, number: int, generation: int = 1, slices: int = 1, *, prepared: bool = False) -> None:
        """Say that a node has so many devices, in one of `slices` slices of its pool.

        Those that are `prepared` are ready some time after they were given away.
        """
        devices: list[Json] = [{"name": f"gpu-{i}", "attributes": {"index": {"int": i}}} for i in range(number)]
        if prepared:
            for device in devices:
                device |= {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]}
        pool = {"name": node, "generation": generation, "resourceSliceCount": slices}
        spec = {"driver": CLASS, "nodeName": node, "pool": pool, "devices": devices}
        self._api.apply(
            {"apiVersion": _VERSION, "kind": "ResourceSlice", "metadata": {"name": f"{node}-gpus"}, "spec": spec}
        )

    def withdraw(self, node: str) -> None:
        self._api.delete("ResourceSlice", f"{node}-gpus")

    def held(self) -> dict[str, list[str]]:
        """The devices that each claim holds."""
        return {
            claim["metadata"]["name"]: [f"{one['pool']}/{one['device']}" for one in allocation["devices"]["results"]]
            for claim in self._api.list("ResourceClaim")
            if (allocation := claim.get("status", {}).get("allocation"))
        }

    def tell(self, claim: str, condition: str) -> None:
        """Report a condition of all devices that a claim holds."""
        found = self._api.get("ResourceClaim", claim)
        since = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Fabric", "message": "by a test"}
        devices = [
            {
                **{name: one[name] for name in ("driver", "pool", "device")},
                "conditions": [{"type": condition, "status": "True", **since}],
            }
            for one in found["status"]["allocation"]["devices"]["results"]
        ]
        self._api.patch("ResourceClaim", claim, {"status": {"devices": devices}}, status=True)

    # -- the controller

    def _follow(self) -> None:
        while not self._ending.wait(0.1):
            with contextlib.suppress(OSError, ApiRefusal, http.client.HTTPException, ValueError, KeyError):
                self._step()

    def _step(self) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in self._api.list("Pod")}
        claims = self._api.list("ResourceClaim")
        for pod in pods.values():
            if not pod["metadata"].get("deletionTimestamp") and pod["spec"].get("resourceClaims"):
                self._make(pod, claims)
        for claim in claims:
            self._tend(claim, pods)

    def _make(self, pod: Json, claims: list[Json]) -> None:
        """A claim for each template that a pod names and has none of, or one that is gone."""
        meta, statuses, news = pod["metadata"], [], False
        told = {one["name"]: one.get("resourceClaimName") for one in pod["status"].get("resourceClaimStatuses", ())}
        own = [claim["metadata"]["name"] for claim in claims if meta["uid"] == _owner(claim)]
        for entry in pod["spec"]["resourceClaims"]:
            if "resourceClaimTemplateName" not in entry:
                continue
            begin = f"{meta['name']}-{entry['name']}-"
            name = next((name for name in own if name.startswith(begin)), None) or self._claim(pod, entry, begin)
            statuses.append({"name": entry["name"], "resourceClaimName": name})
            news = news or told.get(entry["name"]) != name
        if news:
            self._api.patch("Pod", meta["name"], {"status": {"resourceClaimStatuses": statuses}}, status=True)

    def _claim(self, pod: Json, entry: Json, begin: str) -> str:
        """Make a claim with a name that none has had before."""
        name, meta = f"{begin}{next(self._numbers)}", pod["metadata"]
        template = self._api.get("ResourceClaimTemplate", entry["resourceClaimTemplateName"])
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
        made = {"name": name, "namespace": "default", "ownerReferences": [owner]}
        spec = template["spec"]["spec"]
        self._api.create({"apiVersion": _VERSION, "kind": "ResourceClaim", "metadata": made, "spec": spec})
        return name

    def _tend(self, claim: Json, pods: dict[str, Json]) -> None:
        """Reservations of pods that are gone go; then the devices; then, with its pod, the claim."""
        meta, status = claim["metadata"], claim.get("status", {})
        reserved = status.get("reservedFor", [])
        kept = [one for one in reserved if one["uid"] in pods]
        owner = _owner(claim)
        if len(kept) < len(reserved):
            if kept:
                self._api.patch("ResourceClaim", meta["name"], {"status": {"reservedFor": kept}}, status=True)
            else:
                self._release(claim)
        if owner is not None and owner not in pods and not kept:
            self._release(claim)
            if not meta.get("deletionTimestamp"):
                self._api.delete("ResourceClaim", meta["name"])

    def _release(self, claim: Json) -> None:
        name = claim["metadata"]["name"]
        if claim.get("status", {}).get("allocation"):
            self._api.patch("ResourceClaim", name, {"status": {"allocation": None, "reservedFor": None}}, status=True)
        if _FINALIZER in claim["metadata"].get("finalizers", ()):
            self._api.patch("ResourceClaim", name, {"metadata": {"finalizers": None}})


def _owner(claim: Json) -> str | None:
    """The uid of the pod that a claim was made for."""
    return next((one["uid"] for one in claim["metadata"].get("ownerReferences", ())), None)
