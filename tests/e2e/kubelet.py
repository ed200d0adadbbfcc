"""Kubelets that run nothing: pods with a node become Running, terminating ones are gone. And a witness of it all."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.e2e.api import Api, ApiRefusal, Json

__all__ = ["Kubelets"]


class Kubelets:
    """Watches all pods in the background; also keeps every node that a pod was ever seen on."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._ending = threading.Event()
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="kubelet")
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.places: dict[str, set[str]] = {}  # uid -> nodes
        self.holding = False  # while true nobody starts, and nobody leaves

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join(timeout=20)
        self._pool.shutdown(cancel_futures=True)

    def _follow(self) -> None:
        while not self._ending.is_set():
            try:
                found = self._api.ask("GET", "/api/v1/pods")
                for pod in found.get("items") or []:
                    self._see(pod)
                for event in self._api.watch("Pod", found["metadata"]["resourceVersion"]):
                    if self._ending.is_set():
                        return
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._see(event["object"])
                    elif event["type"] == "ERROR":
                        break
            except (OSError, ApiRefusal, http.client.HTTPException, ValueError):
                self._ending.wait(0.3)  # the server is being restarted

    def _see(self, pod: Json) -> None:
        node, meta = pod["spec"].get("nodeName"), pod["metadata"]
        if not node:
            return
        self.places.setdefault(meta["uid"], set()).add(node)
        if self.holding:
            return
        if meta.get("deletionTimestamp"):
            self._do(lambda: self._api.delete("Pod", meta["name"], meta["namespace"], now=True))
        elif pod["status"].get("phase") in (None, "Pending"):
            ready = {"type": "Ready", "status": "True"}
            status = {"phase": "Running", "conditions": [*pod["status"].get("conditions", []), ready]}
            self._do(lambda: self._api.patch("Pod", meta["name"], {"status": status}, meta["namespace"], status=True))

    def _do(self, work: Callable[[], None]) -> None:
        def quietly() -> None:
            with contextlib.suppress(ApiRefusal, OSError, http.client.HTTPException, ValueError):
                work()

        with contextlib.suppress(RuntimeError):  # already ending
            self._pool.submit(quietly)
