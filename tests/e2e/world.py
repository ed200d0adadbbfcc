"""What scenarios are told with: nodes, hyperNodes, jobs; processes of tierwise; waiting; and the auditor at the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.e2e.accounts import NAMESPACE, Accounts
from tests.e2e.api import Api, ApiRefusal, Json, path_of
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kubelet import Kubelets

__all__ = ["COMMAND", "GROUPS", "PATIENCE", "World", "job", "node", "task"]

_ROOT: Final = Path(__file__).parents[2]
_OURS: Final = ("Job", "PodGroup", "Pod", "PodDisruptionBudget", "Queue", "HyperNode", "Node", "Event")
GROUPS: Final = ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha2", "scheduling.x-k8s.io/v1alpha1")
"""Where PodGroups of other languages are served."""
PATIENCE: Final = 120.0
"""Seconds until a test gives up: what takes one on a quiet machine may take many where others work beside it."""
COMMAND: Final = [str(Path(sys.executable).parent / "tierwise")]


def node(name: str, *, cpu: int = 8, gpu: int = 8, labels: Json | None = None) -> Json:
    """A machine."""
    allocatable = {"cpu": str(cpu), "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpu)}
    status = {"allocatable": allocatable, "capacity": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    meta = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def task(name: str, replicas: int, *, gpu: int = 8, **more: Any) -> Json:
    """A task of a job, each pod of which takes so many GPUs."""
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": str(gpu)}, "limits": {"nvidia.com/gpu": str(gpu)}}
    template = {
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "image", "resources": resources}],
        }
    }
    return {"name": name, "replicas": replicas, "template": template, **more}


def job(name: str, *tasks: Json, minimum: int | None = None, **more: Any) -> Json:
    """A Volcano job for tierwise."""
    least = minimum if minimum is not None else sum(t["replicas"] for t in tasks)
    spec = {"schedulerName": "tierwise", "minAvailable": least, "tasks": list(tasks), **more}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


class World:
    """One scenario."""

    def __init__(self, plane: ControlPlane, api: Api, kubelets: Kubelets, accounts: Accounts, folder: Path) -> None:
        self.plane = plane
        self.api = api
        self.kubelets = kubelets
        self.accounts = accounts
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.webhook: subprocess.Popen[bytes] | None = None  # where one answers
        self._clear()

    @staticmethod
    def install(api: Api) -> None:
        """Our definitions, by server-side apply, as users install them."""
        text = subprocess.run([*COMMAND, "crds"], capture_output=True, text=True, check=True).stdout
        for definition in yaml.safe_load_all(text):
            api.apply(definition)
        World.wait(api)

    @staticmethod
    def wait(api: Api) -> None:
        """Until definitions that were just made are served."""
        _until(lambda: all(_served(api, kind) for kind in ("Job", "PodGroup", "Queue", "HyperNode")), PATIENCE)

    def racks(self, racks: int, size: int, **more: Any) -> None:
        """Racks of nodes below one spine: n0 n1 … in r0, and so on."""
        names = [f"n{i}" for i in range(racks * size)]
        self.api.create(*(node(name, **more) for name in names))
        for r in range(racks):
            self.hypernode(f"r{r}", 1, names[r * size : (r + 1) * size])
        self.hypernode("s0", 2, [f"r{r}" for r in range(racks)], kind="HyperNode")

    def hypernode(self, name: str, tier: int, members: list[str], kind: str = "Node") -> None:
        self.api.apply(
            {
                "apiVersion": "topology.volcano.sh/v1alpha1",
                "kind": "HyperNode",
                "metadata": {"name": name},
                "spec": {
                    "tier": tier,
                    "members": [{"type": kind, "selector": {"exactMatch": {"name": m}}} for m in members],
                },
            }
        )

    def run(
        self,
        *arguments: str,
        verb: str = "run",
        kubeconfig: Path | None = None,
        clock: Path | None = None,
        defective: bool = False,
    ) -> subprocess.Popen[bytes]:
        """A process of tierwise with the rights of its component, acting alone unless told otherwise.

        `clock` is a file that says by how many seconds its wall clock is wrong; a defective one stumbles over pods with
        the label `defect`.
        """
        led = verb == "webhook" or any("lease" in argument for argument in arguments)
        alone = [] if led else ["--no-leader-election"]
        where = ["--kubeconfig", str(kubeconfig or self.accounts.of(verb, arguments))]
        program = [sys.executable, "-m", "tests.e2e.jumping", str(clock)] if clock is not None else COMMAND
        if defective:
            program = [sys.executable, "-m", "tests.e2e.defective"]
        command = [*program, verb, *where, *alone, *arguments]
        with (self._folder / f"{verb}-{len(self._processes)}.log").open("wb") as log:
            process = subprocess.Popen(command, stderr=log, stdout=log, cwd=_ROOT)
        self._processes.append(process)
        return process

    def pods(self, name: str = "") -> list[Json]:
        """The pods of a job, or all."""
        return [p for p in self.api.list("Pod") if p["metadata"]["name"].startswith(f"{name}-" if name else "")]

    def running(self, name: str = "") -> dict[str, str]:
        """Pods that run, and where."""
        return {
            p["metadata"]["name"]: p["spec"]["nodeName"]
            for p in self.pods(name)
            if p["status"].get("phase") == "Running" and not p["metadata"].get("deletionTimestamp")
        }

    def racks_of(self, name: str, size: int) -> Counter[int]:
        """How many pods of a job run in each rack."""
        return Counter(int(where[1:]) // size for where in self.running(name).values())

    def group(self, name: str) -> Json:
        """The pod group of a job; nothing before it is made."""
        groups = self.api.list("PodGroup")
        return next((g for g in groups if g["metadata"]["name"].startswith(f"{name}-")), {})

    def said(self) -> str:
        """What all processes of tierwise have logged so far."""
        return "\n".join(log.read_text() for log in sorted(self._folder.glob("*.log")))

    def told(self, name: str) -> list[str]:
        """What events say about an object."""
        return [e["message"] for e in self.api.list("Event") if e["involvedObject"]["name"] == name]

    def until(self, holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait until something holds; an assertion fails where it does not in time."""
        _until(holds, seconds, self.tell)

    def audit(self) -> list[Json]:
        """What the auditor has to say about the API server's objects."""
        command = [*COMMAND, "audit", "--kubeconfig", str(self.plane.kubeconfig), "-o", "json"]
        found = subprocess.run(command, capture_output=True, text=True)
        assert found.returncode in (0, 1), found.stderr
        findings: list[Json] = json.loads(found.stdout)["findings"]
        moved = [uid for uid, nodes in self.kubelets.places.items() if len(nodes) > 1]
        return findings + [{"rule": "bound-twice", "subject": uid} for uid in moved]

    def tell(self) -> str:
        """Where everybody is, for whoever reads a failed test."""
        pods = [(p["metadata"]["name"], p["spec"].get("nodeName"), p["status"].get("phase")) for p in self.pods()]
        groups = [(g["metadata"]["name"], g.get("status")) for g in self.api.list("PodGroup")]
        logs = [log.read_text()[-1500:] for log in sorted(self._folder.glob("*.log"))]
        return "\n".join(map(str, [pods[:40], groups[:10], *logs]))

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._clear()
        self.kubelets.stop()

    def needs(self, version: str) -> None:
        """Skip the test where the server has no such version of an API."""
        if not self.api.serves(version):
            pytest.skip(f"this Kubernetes does not serve {version}")

    def needs_field(self, field: str, kind: str = "", name: str = "") -> None:
        """Skip the test where the API of devices has no such field, or drops it from an object: its gate is off."""
        found = (
            self.api.get(kind, name)["spec"] if kind else self.api.ask("GET", f"/openapi/v3/apis/{self.api.devices}")
        )
        if f'"{field}":' not in json.dumps(found):
            pytest.skip(f"this Kubernetes has no field {field} of devices")

    def _clear(self) -> None:
        for kind in _OURS:
            self.api.ask("DELETE", path_of(kind, namespace="default"), {"gracePeriodSeconds": 0})
        for version in (one for one in GROUPS if self.api.serves(one, "podgroups")):
            self.api.ask("DELETE", f"/apis/{version}/namespaces/default/podgroups")
        # Who was killed has given nothing back, and the next one would wait for it.
        self.api.ask("DELETE", path_of("Lease", namespace=NAMESPACE))
        _until(lambda: not self.api.list("Pod"), PATIENCE)


def _served(api: Api, kind: str) -> bool:
    try:
        api.ask("GET", path_of(kind))
    except ApiRefusal:
        return False
    return True


def _until(holds: Callable[[], bool], seconds: float, tell: Callable[[], str] = lambda: "") -> None:
    """Look again and again, more rarely where a look takes long: it is the same server that does the work."""
    end = time.monotonic() + seconds
    while True:
        begun = time.monotonic()
        if holds():
            return
        assert begun < end, f"not within {seconds:.0f} seconds\n{tell()}"
        time.sleep(0.1 + 3 * (time.monotonic() - begun))
