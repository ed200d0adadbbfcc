"""Storage controllers and a CSI provisioner that make nothing: claims are bound, and volumes are written down.

Of a controller manager and a driver they do what a scheduler meets: claims of ephemeral volumes are made for pods,
volumes become Available, a volume that names a claim is bound to it, and a volume is made for the node that was chosen.
"""

from __future__ import annotations

import contextlib
import http.client
import threading

from tests.e2e.api import Api, ApiRefusal, Json

__all__ = ["Storage"]

_SELECTED = "volume.kubernetes.io/selected-node"
_DONE = "pv.kubernetes.io/bind-completed"
_KINDS = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode")


class Storage:
    """Looks at claims and volumes again and again, in the background."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.holding = False  # while true no volume is made, and none is bound
        self.refusing: set[str] = set()  # nodes for which no volume is made
        self.refused: list[str] = []  # claims that heard no

    def __enter__(self) -> Storage:
        self._clear()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(timeout=20)
        self._clear()

    def claims(self) -> dict[str, Json]:
        """The claims there are, by name."""
        return {c["metadata"]["name"]: c for c in self._api.list("PersistentVolumeClaim")}

    def chosen(self) -> dict[str, str]:
        """The node that was chosen for each claim."""
        marks = {name: c["metadata"].get("annotations", {}) for name, c in self.claims().items()}
        return {name: own[_SELECTED] for name, own in marks.items() if _SELECTED in own}

    def bound(self) -> dict[str, str]:
        """The volume of each claim that has one."""
        return {n: c["spec"]["volumeName"] for n, c in self.claims().items() if c["spec"].get("volumeName")}

    def remove(self, claim: str) -> None:
        """Delete a claim for good, as when nothing protects it."""
        self._api.patch("PersistentVolumeClaim", claim, {"metadata": {"finalizers": None}})
        self._api.delete("PersistentVolumeClaim", claim)

    def _follow(self) -> None:
        while not self._ending.is_set():
            with contextlib.suppress(OSError, ApiRefusal, http.client.HTTPException, ValueError):
                self._look()
            self._ending.wait(0.2)

    def _look(self) -> None:
        claims = self.claims()
        for pod in self._api.list("Pod"):
            self._make_claims(pod, claims)
        volumes = self._api.list("PersistentVolume")
        for volume in volumes:
            if volume["status"].get("phase") in (None, "Pending") and not volume["spec"].get("claimRef"):
                self._phase("PersistentVolume", volume["metadata"]["name"], "Available")
        if self.holding:
            return
        meant = {v["spec"]["claimRef"]["uid"]: v for v in volumes if v["spec"].get("claimRef", {}).get("uid")}
        for name, claim in claims.items():
            if claim["spec"].get("volumeName") or claim["metadata"].get("deletionTimestamp"):
                continue
            node = claim["metadata"].get("annotations", {}).get(_SELECTED)
            found = meant.get(claim["metadata"]["uid"])
            if found is not None:
                self._bind(name, found["metadata"]["name"])
            elif node in self.refusing:
                self.refused.append(name)
                self._api.patch("PersistentVolumeClaim", name, {"metadata": {"annotations": {_SELECTED: None}}})
            elif node:
                self._make(claim, node)

    def _make_claims(self, pod: Json, claims: dict[str, Json]) -> None:
        meta = pod["metadata"]
        for volume in pod["spec"].get("volumes", ()):
            name = f"{meta['name']}-{volume['name']}"
            if "ephemeral" not in volume or name in claims or meta.get("deletionTimestamp"):
                continue
            owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
            body = {"name": name, "namespace": meta["namespace"], "ownerReferences": [owner]}
            spec = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
            self._api.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": body, "spec": spec})

    def _make(self, claim: Json, node: str) -> None:
        meta = claim["metadata"]
        name = f"pvc-{meta['uid']}"
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": meta["namespace"]}
        spec = {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": claim["spec"]["storageClassName"],
            "claimRef": {**reference, "name": meta["name"], "uid": meta["uid"]},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            "csi": {"driver": "csi.test", "volumeHandle": name},
        }
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
        with contextlib.suppress(ApiRefusal):  # it is there already
            self._api.create(volume)
        self._bind(meta["name"], name)

    def _bind(self, claim: str, volume: str) -> None:
        marks = {"annotations": {_DONE: "yes"}}
        self._api.patch("PersistentVolumeClaim", claim, {"metadata": marks, "spec": {"volumeName": volume}})
        self._phase("PersistentVolumeClaim", claim, "Bound")
        self._phase("PersistentVolume", volume, "Bound")

    def _phase(self, kind: str, name: str, phase: str) -> None:
        self._api.patch(kind, name, {"status": {"phase": phase}}, status=True)

    def _clear(self) -> None:
        for kind in _KINDS:
            for found in self._api.list(kind):
                name = found["metadata"]["name"]
                with contextlib.suppress(ApiRefusal):
                    if found["metadata"].get("finalizers"):
                        self._api.patch(kind, name, {"metadata": {"finalizers": None}})
                    self._api.delete(kind, name)
