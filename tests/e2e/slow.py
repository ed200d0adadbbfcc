"""Gangs of one tenant while webhooks hang for others: how much longer do they wait, on a real kube-apiserver?

    python -m tests.e2e.slow [--scenes binds claims evictions statuses] [--kube-scheduler PROGRAM]

A validating webhook with `failurePolicy: Ignore` that does not answer for ten seconds is called for one kind of write
in one namespace, then in two. Every second something is made there that needs such a write; gangs of four come to
another namespace meanwhile. Told are the milliseconds from the creation of their pods to their binds, of half of them
and of all but one in a hundred, beside those of the same run without the webhook. Where kube-scheduler's program is
given, it gets the same pods, as plain ones.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from tests.e2e.api import Api, ApiRefusal, Json, path_of
from tests.e2e.control_plane import ControlPlane
from tests.e2e.rivals import Race, Rival, ready, rivals
from tests.e2e.tight import LIMITS, Tight, big_node
from tests.e2e.world import World

from tierwise.kube.transport import DirectTransport, Request
from tierwise.runtime.certificates import issue, tls_of

ROOT: Final = Path(__file__).parents[2]
CALM: Final = "calm"
SLOW: Final = ("slow-a", "slow-b")
URGENT: Final = "urgent"
GANG: Final = 4
NODES: Final = 64
SECONDS: Final = 20
EVERY: Final = 0.4
"""Seconds between two gangs."""
RULES: Final[dict[str, tuple[str, str, str, str]]] = {
    "binds": ("CREATE", "", "v1", "pods/binding"),
    "claims": ("UPDATE", "", "v1", "persistentvolumeclaims"),
    "evictions": ("CREATE", "", "v1", "pods/eviction"),
    "statuses": ("UPDATE", "scheduling.volcano.sh", "v1beta1", "podgroups/status"),
}
_PATIENCE: Final = 90.0
_HANGS: Final = 10


class _Silent(BaseHTTPRequestHandler):
    """Takes a review and says nothing about it."""

    def do_POST(self) -> None:
        time.sleep(_HANGS + 5)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@contextmanager
def _webhook(api: Api, scene: str, namespaces: Sequence[str]) -> Iterator[None]:
    """A webhook that hangs for writes of a scene in these namespaces, where there are any."""
    name = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    bundle = issue(["localhost"], datetime.now(UTC))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Silent)
    server.daemon_threads = True
    server.socket = tls_of(bundle).wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    operation, group, version, resource = RULES[scene]
    hook: Json = {
        "name": "hangs.example.com",
        "clientConfig": {
            "url": f"https://localhost:{server.server_address[1]}/",
            "caBundle": base64.b64encode(bundle.authority).decode(),
        },
        "rules": [{"operations": [operation], "apiGroups": [group], "apiVersions": [version], "resources": [resource]}],
        "namespaceSelector": {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces) or ["nobody"]}
            ]
        },
        "failurePolicy": "Ignore",
        "timeoutSeconds": _HANGS,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    api.ask("POST", path, {**name, "metadata": {"name": "hangs"}, "webhooks": [hook]})
    time.sleep(2.0)  # until the server knows of it
    try:
        yield
    finally:
        api.ask("DELETE", f"{path}/hangs")
        time.sleep(2.0)
        server.shutdown()
        server.server_close()


def _pod(namespace: str, name: str, rival: Rival, group: str = "", **more: object) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    marks = {"scheduling.k8s.io/group-name": group} if group and rival.gangs else {}
    spec = {"schedulerName": rival.name, "containers": [container], "terminationGracePeriodSeconds": 0, **more}
    meta = {"name": name, "namespace": namespace, "annotations": marks}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _group(namespace: str, name: str, least: int) -> Json:
    meta = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": least, "queue": "default"},
    }


def _claim(namespace: str, name: str) -> Json:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _disk(name: str, node: str) -> Json:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": "local",
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


class Scene:
    """One kind of write that hangs, and what needs it."""

    def __init__(self, name: str, plane: ControlPlane, api: Api) -> None:
        self._name, self._plane, self._api = name, plane, api

    def prepare(self, rival: Rival) -> None:
        """What is there before the scheduler starts."""
        if self._name == "claims":
            disks = [_disk(f"d{i}", f"n{i % NODES}") for i in range(2 * SECONDS)]
            Tight(self._plane).send("POST", [(path_of("PersistentVolume"), disk) for disk in disks])
        if self._name == "evictions":
            # Nodes of their own that are full of pods of little importance, already bound.
            for i in range(2 * SECONDS):
                low = _pod(SLOW[i % 2], f"low-{i}", rival, priorityClassName="low", nodeName=f"full-{i}")
                low["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "90"
                self._api.create(low)

    def second(self, rival: Rival, number: int) -> list[Json]:
        """What is made in one second, for both namespaces."""
        found: list[Json] = []
        for i, namespace in enumerate(SLOW):
            name = f"s{number}-{i}"
            match self._name:
                case "claims":
                    volume = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
                    found += [_claim(namespace, name), _pod(namespace, name, rival, volumes=[volume])]
                case "evictions":
                    urgent = _pod(
                        URGENT, name, rival, priorityClassName="high", nodeSelector={"full": f"f{2 * number + i}"}
                    )
                    urgent["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "60"
                    found.append(urgent)
                case _:
                    if rival.gangs:
                        found.append(_group(namespace, name, 2))
                    found += [_pod(namespace, f"{name}-{member}", rival, name) for member in range(2)]
        return found

    def run(self, rival: Rival, slow: Sequence[str]) -> list[float]:
        """Seconds that each pod of the calm namespace waited, in order."""
        self.prepare(rival)
        with (self._plane.folder / "rival.log").open("ab") as log, _webhook(self._api, self._name, slow):
            process = subprocess.Popen(rival.command, stdout=log, stderr=log)
            try:
                ready(rival, process)
                waits = sorted(asyncio.run(self._arrive(rival)))
            finally:
                process.terminate()
                process.wait()
        self._clear()
        return waits

    async def _arrive(self, rival: Rival) -> list[float]:
        """Make everything at its time, and watch when the pods of the calm namespace are bound."""
        transport = DirectTransport(f"https://127.0.0.1:{self._plane.port}", self._plane.tls, None)
        headers = {"Authorization": f"Bearer {self._plane.token}", "Content-Type": "application/json"}
        pods, made, bound = path_of("Pod", namespace=CALM), dict[str, float](), dict[str, float]()

        async def ask(method: str, path: str, body: object = None) -> bytes:
            data = json.dumps(body).encode() if body is not None else b""
            answer = await transport.request(Request(method, path, headers, data), lambda: True, LIMITS)
            assert answer.status < 300, answer.body
            return answer.body

        async def watch(version: str) -> None:
            while True:
                query = f"watch=true&fieldSelector=spec.nodeName!%3D&resourceVersion={version}"
                async with transport.stream(Request("GET", f"{pods}?{query}", headers), LIMITS) as answer:
                    rest = b""
                    async for part in answer.parts:
                        *lines, rest = (rest + part).split(b"\n")
                        for line in lines:
                            meta = json.loads(line)["object"]["metadata"]
                            version = meta["resourceVersion"]
                            bound.setdefault(meta["name"], time.perf_counter())

        async def make(at: float, objects: Sequence[Json]) -> None:
            await asyncio.sleep(max(0.0, begun + at - time.perf_counter()))
            for one in objects:
                meta = one["metadata"]
                if one["kind"] == "Pod" and meta["namespace"] == CALM:
                    made[meta["name"]] = time.perf_counter()
                await ask("POST", path_of(one["kind"], namespace=meta["namespace"]), one)

        listed = json.loads(await ask("GET", f"{pods}?limit=1"))
        watching = asyncio.create_task(watch(listed["metadata"]["resourceVersion"]))
        begun = time.perf_counter()
        work = [make(float(second), self.second(rival, second)) for second in range(SECONDS)]
        for number in range(int((SECONDS - 3) / EVERY)):
            members = [_pod(CALM, f"c{number}-{i}", rival, f"c{number}") for i in range(GANG)]
            group = [_group(CALM, f"c{number}", GANG)] if rival.gangs else []
            work.append(make(3.0 + number * EVERY, [*group, *members]))
        await asyncio.gather(*work)
        while len(bound) < len(made) and time.perf_counter() < begun + _PATIENCE:
            await asyncio.sleep(0.02)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await transport.close()
        return [bound.get(name, time.perf_counter()) - at for name, at in made.items()]

    def _clear(self) -> None:
        every = [CALM, URGENT, *SLOW]
        for kind in ("Pod", "PodGroup", "PersistentVolumeClaim", "Event"):
            for namespace in every:
                self._api.ask("DELETE", path_of(kind, namespace=namespace), {"gracePeriodSeconds": 0})
        self._api.ask("DELETE", path_of("PersistentVolume"), {"gracePeriodSeconds": 0})
        for kind, namespace in (("PersistentVolumeClaim", SLOW[0]), ("PersistentVolumeClaim", SLOW[1])):
            for claim in self._api.list(kind, namespace):  # nobody else takes their finalizers away here
                self._unfinalize(path_of(kind, claim["metadata"]["name"], namespace))
        for volume in self._api.list("PersistentVolume"):
            self._unfinalize(path_of("PersistentVolume", volume["metadata"]["name"]))
        end = time.monotonic() + _PATIENCE
        while any(self._api.list("Pod", namespace) for namespace in every) or self._api.list("PersistentVolume"):
            assert time.monotonic() < end, "pods of an earlier run do not go"
            time.sleep(0.5)

    def _unfinalize(self, path: str) -> None:
        try:
            self._api.ask("PATCH", path, {"metadata": {"finalizers": None}}, kind="application/merge-patch+json")
        except ApiRefusal as refusal:
            if refusal.status != 404:
                raise


def _at(waits: Sequence[float], share: float) -> float:
    return 1000 * waits[min(len(waits) - 1, int(share * len(waits)))]


def measure(plane: ControlPlane, scenes: Sequence[str], program: Path | None, rounds: int) -> None:
    """Let each scene pass without, with one and with two namespaces that hang, in turns."""
    api = Api(plane)
    World.install(api)
    for name in (CALM, URGENT, *SLOW):
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for name, value in (("low", 1), ("high", 1000)):
        api.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
    api.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    full = [big_node(i) for i in range(2 * SECONDS)]
    for i, node in enumerate(full):
        node["metadata"] = {"name": f"full-{i}", "labels": {"kubernetes.io/hostname": f"full-{i}", "full": f"f{i}"}}
        node["spec"] = {"taints": [{"key": "full", "effect": "PreferNoSchedule"}]}
    nodes = [*(big_node(i) for i in range(NODES)), *full]
    Tight(plane).send("POST", [(path_of("Node"), node) for node in nodes])
    Race(plane, api, Tight(plane)).racks(NODES)
    known = rivals(plane, program)
    config = plane.folder / "evicting.yaml"
    config.write_text('actions: "enqueue, allocate, gangpreempt, backfill"\n')
    ours = known["tierwise"]
    racing = [("tierwise", ours)] + ([("kube-scheduler", known["raised"])] if "raised" in known else [])
    for scene in scenes:
        for title, rival in racing:
            command = rival.command
            if title == "tierwise" and scene == "evictions":
                command = (*command, "--config", str(config))
            own = Rival(rival.title, rival.name, command, rival.ready, rival.gangs, rival.ours)
            found: dict[int, list[float]] = {0: [], 1: [], 2: []}
            for _ in range(rounds):
                for hanging in found:
                    found[hanging] += Scene(scene, plane, api).run(own, SLOW[:hanging])
            calm = sorted(found[0])
            for hanging, every in found.items():
                waits = sorted(every)
                half, most = _at(waits, 0.5), _at(waits, 0.99)
                ratios = f"{half / _at(calm, 0.5):5.2f}; {most / _at(calm, 0.99):5.2f}"
                print(f"{scene:<10} {title:<15} {hanging} hang  {half:7.0f}; {most:7.0f} ms   {ratios}", flush=True)
    api.close()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", nargs="*", default=list(RULES), choices=list(RULES))
    parser.add_argument("--rounds", type=int, default=1, help="of each scene, without and with the webhook in turns")
    parser.add_argument("--kube-scheduler", type=Path, help="its program, which then gets the same pods")
    asked = parser.parse_args()
    found = subprocess.run([ROOT / "tools" / "control_plane", "--no-build"], capture_output=True, text=True)
    if found.returncode:
        sys.exit(found.stderr.strip())
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(found.stdout.strip()), Path(folder))
        try:
            plane.start()
            measure(plane, asked.scenes, asked.kube_scheduler, asked.rounds)
        finally:
            plane.stop()


if __name__ == "__main__":
    main()
