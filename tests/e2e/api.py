"""A plain client for tests: blocking, with a few connections that are kept, and nothing of tierwise in it."""

from __future__ import annotations

import http.client
import json
import queue
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any, Final
from urllib.parse import urlencode

from tests.e2e.control_plane import ControlPlane

__all__ = ["DEVICE_VERSIONS", "Api", "ApiRefusal", "Json", "path_of"]

Json = dict[str, Any]

_TRIES: Final = 50

DEVICE_VERSIONS: Final = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1")
"""Of the API of devices, the newest first. Tests write the first; what a server has is sent."""

_PLURALS: Final = {
    "Pod": ("/api/v1", "pods"),
    "Node": ("/api/v1", "nodes"),
    "Namespace": ("/api/v1", "namespaces"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Event": ("/api/v1", "events"),
    "ResourceQuota": ("/api/v1", "resourcequotas"),
    "PersistentVolume": ("/api/v1", "persistentvolumes"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses"),
    "CSINode": ("/apis/storage.k8s.io/v1", "csinodes"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    "CustomResourceDefinition": ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions"),
    "PodGroup": ("/apis/scheduling.volcano.sh/v1beta1", "podgroups"),
    "Queue": ("/apis/scheduling.volcano.sh/v1beta1", "queues"),
    "HyperNode": ("/apis/topology.volcano.sh/v1alpha1", "hypernodes"),
    "ResourceClaim": ("/apis/resource.k8s.io/v1", "resourceclaims"),
    "ResourceClaimTemplate": ("/apis/resource.k8s.io/v1", "resourceclaimtemplates"),
    "ResourceSlice": ("/apis/resource.k8s.io/v1", "resourceslices"),
    "DeviceClass": ("/apis/resource.k8s.io/v1", "deviceclasses"),
    "Job": ("/apis/batch.volcano.sh/v1alpha1", "jobs"),
}
_CLUSTER_WIDE: Final = {
    "Node",
    "Namespace",
    "PriorityClass",
    "CustomResourceDefinition",
    "Queue",
    "HyperNode",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "ResourceSlice",
    "DeviceClass",
}


class ApiRefusal(Exception):  # noqa: N818 - it is the server that errs or not
    """An answer other than a yes."""

    def __init__(self, status: int, said: Json) -> None:
        super().__init__(f"{status}: {said.get('message', said)}")
        self.status = status


def path_of(kind: str, name: str = "", namespace: str = "") -> str:
    """The path of an object, of a namespace's objects, or of all."""
    root, plural = _PLURALS[kind]
    inside = f"/namespaces/{namespace}" if namespace and kind not in _CLUSTER_WIDE else ""
    return f"{root}{inside}/{plural}" + (f"/{name}" if name else "")


def _spoken(manifest: Json, version: str) -> Json:
    """An object of the API of devices, written as its newest version has it, in another one."""
    if manifest.get("apiVersion") != DEVICE_VERSIONS[0]:
        return manifest
    spec: Json = manifest["spec"]
    if version == DEVICE_VERSIONS[-1] and manifest["kind"] == "ResourceSlice":
        basic = [
            {"name": one["name"], "basic": {k: v for k, v in one.items() if k != "name"}} for one in spec["devices"]
        ]
        spec = {**spec, "devices": basic}
    elif version == DEVICE_VERSIONS[-1] and manifest["kind"] == "ResourceClaim":
        spec = _flat(spec)
    elif version == DEVICE_VERSIONS[-1] and manifest["kind"] == "ResourceClaimTemplate":
        spec = {**spec, "spec": _flat(spec["spec"])}
    return {**manifest, "apiVersion": version, "spec": spec}


def _flat(spec: Json) -> Json:
    requests = spec["devices"]["requests"]
    flat = [{**{k: v for k, v in one.items() if k != "exactly"}, **one.get("exactly", {})} for one in requests]
    return {**spec, "devices": {**spec["devices"], "requests": flat}}


class Api:
    """Requests as the administrator, or as whoever a token stands for."""

    def __init__(self, plane: ControlPlane, token: str = "") -> None:
        self._plane = plane
        self._token = token or plane.token
        self._idle: queue.LifoQueue[http.client.HTTPSConnection] = queue.LifoQueue()
        self._devices = ""

    @property
    def devices(self) -> str:
        """The newest version of the API of devices that the server has; "" where it has none."""
        self._devices = self._devices or next(filter(self.serves, DEVICE_VERSIONS), "")
        return self._devices

    def ask(self, method: str, path: str, body: Json | None = None, kind: str = "application/json") -> Json:
        """The answer; ApiRefusal where it is no yes. A priority class that was just made is waited for."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        if path.startswith(f"/apis/{DEVICE_VERSIONS[0]}/"):
            path = path.replace(DEVICE_VERSIONS[0], self.devices, 1)
            body = _spoken(body, self.devices) if body is not None else None
        data = json.dumps(body) if body is not None else None
        tries = _TRIES
        while True:
            try:
                status, said = self._once(method, path, data, headers)
            except (OSError, http.client.HTTPException):
                self.close()  # the server has closed this connection, and perhaps all: it was idle or started anew
                status, said = self._once(method, path, data, headers)
            if status < 300:
                return said
            tries -= 1
            if not tries or "no PriorityClass with name" not in str(said.get("message")):
                raise ApiRefusal(status, said)
            time.sleep(0.1)  # admission hears of new classes by a watch

    def _once(self, method: str, path: str, data: str | None, headers: dict[str, str]) -> tuple[int, Json]:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = self._connect()
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            status, said = answer.status, answer.read()
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)
        return status, json.loads(said or b"{}")

    def serves(self, version: str, plural: str = "") -> bool:
        """Whether the server has a version of an API group, and in it a kind, by its own discovery."""
        try:
            found = self.ask("GET", f"/apis/{version}")
        except ApiRefusal as refusal:
            if refusal.status == 404:
                return False
            raise
        return not plural or plural in {one["name"] for one in found["resources"]}

    def close(self) -> None:
        """Close what is idle."""
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    def list(self, kind: str, namespace: str = "") -> list[Json]:
        items: list[Json] = self.ask("GET", path_of(kind, namespace=namespace)).get("items") or []
        return items

    def get(self, kind: str, name: str, namespace: str = "default") -> Json:
        return self.ask("GET", path_of(kind, name, namespace))

    def create(self, *manifests: Json) -> None:
        """Create objects, several at a time."""
        self.each(manifests, self._create)

    def _create(self, manifest: Json) -> None:
        namespace = manifest["metadata"].get("namespace", "default")
        self.ask("POST", path_of(manifest["kind"], namespace=namespace), manifest)

    def apply(self, manifest: Json) -> None:
        """Server-side apply."""
        meta = manifest["metadata"]
        path = path_of(manifest["kind"], meta["name"], meta.get("namespace", "default"))
        self.ask("PATCH", f"{path}?fieldManager=e2e&force=true", manifest, "application/apply-patch+yaml")

    def patch(self, kind: str, name: str, body: Json, namespace: str = "default", *, status: bool = False) -> None:
        path = path_of(kind, name, namespace) + ("/status" if status else "")
        self.ask("PATCH", path, body, "application/merge-patch+json")

    def delete(self, kind: str, name: str, namespace: str = "default", *, now: bool = False) -> None:
        options = {"gracePeriodSeconds": 0} if now else {}
        self.ask("DELETE", path_of(kind, name, namespace), options)

    def each(self, items: Iterable[Json], work: Any, width: int = 8) -> None:
        with ThreadPoolExecutor(width) as pool:
            for _ in pool.map(work, items):
                pass

    def watch(self, kind: str, version: str) -> Iterator[Json]:
        """Events from a version on, until the connection ends."""
        query = urlencode({"watch": "true", "resourceVersion": version, "timeoutSeconds": "2"})
        headers = {"Authorization": f"Bearer {self._token}"}
        with closing(self._connect()) as connection:
            connection.request("GET", f"{path_of(kind)}?{query}", headers=headers)
            with connection.getresponse() as answer:
                while line := answer.readline():
                    yield json.loads(line)

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._plane.port, context=self._plane.tls(), timeout=60)
