"""The least that a client can do, and a big cluster to try it on: for measurements."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Final

from tests.e2e.api import Json
from tests.e2e.control_plane import ControlPlane

from tierwise.kube.transport import DirectTransport, Request, WaitLimits

__all__ = ["Tight", "big_node", "big_pod"]

IN_FLIGHT: Final = 32

LIMITS: Final = WaitLimits(head=30.0, part=30.0, whole=30.0)


class Tight:
    """The least that a client can do: encoded bodies, kept connections, nothing looked at but the status.

    It sends over tierwise's own connections, as they are the fastest that we know; with aiohttp a request takes more
    than twice the processor time.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._server = f"https://127.0.0.1:{plane.port}"

    def send(self, method: str, requests: Sequence[tuple[str, Json]], kind: str = "application/json") -> float:
        """Seconds for all requests."""
        return asyncio.run(self._send(method, requests, kind))

    async def _send(self, method: str, requests: Sequence[tuple[str, Json]], kind: str) -> float:
        headers = {"Authorization": f"Bearer {self._plane.token}", "Content-Type": kind}
        todo = iter([Request(method, path, headers, json.dumps(body).encode()) for path, body in requests])
        transport = DirectTransport(self._server, self._plane.tls, None)

        async def worker() -> None:
            for request in todo:
                answer = await transport.request(request, lambda: True, LIMITS)
                assert answer.status < 300, answer.status

        begun = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
        seconds = time.perf_counter() - begun
        await transport.close()
        return seconds


def big_node(number: int) -> Json:
    """One of many machines with eight GPUs, n0, n1 …"""
    amounts = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": "8"}
    labels = {"kubernetes.io/hostname": f"n{number}", "rack": f"r{number // 16}", "zone": f"z{number % 3}"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}", "labels": labels}, "status": status}


def big_pod(number: int) -> Json:
    """One of many pods of one GPU, in gangs of 16."""
    gang = f"g{number // 16}"
    meta = {
        "name": f"p{number}",
        "namespace": "default",
        "labels": {"app": gang, "volcano.sh/job-name": gang, "volcano.sh/task-index": str(number % 16)},
        "annotations": {"scheduling.k8s.io/group-name": gang, "volcano.sh/task-spec": "worker"},
    }
    resources = {"requests": {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    variables = [{"name": name, "value": f"value-{number}"} for name in ("MASTER_ADDR", "WORLD_SIZE", "RANK")]
    container = {"name": "worker", "image": "example.com/train:1", "env": variables, "resources": resources}
    spec = {"schedulerName": "tierwise", "containers": [container], "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
