"""`make bench-kube`: lists, watches and binds of our client on a real kube-apiserver, against goals.

Processor time of the client is the figure to trust: client and server share the machine. Binds are compared with a
client that does nothing but send them, in alternating runs against the same server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
from tests.e2e.api import Json
from tests.e2e.control_plane import ControlPlane

from tierwise.api.core import Node, Pod
from tierwise.kube.auth import access
from tierwise.kube.cluster import KubeCluster
from tierwise.port import Bind, Key

ROOT: Final = Path(__file__).parents[2]
IN_FLIGHT: Final = 32


class Tight:
    """The least that a client can do: encoded bodies, kept connections, nothing looked at but the status."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._server = f"https://127.0.0.1:{plane.port}"

    def send(self, method: str, requests: Sequence[tuple[str, Json]], kind: str = "application/json") -> float:
        """Seconds for all requests."""
        return asyncio.run(self._send(method, requests, kind))

    async def _send(self, method: str, requests: Sequence[tuple[str, Json]], kind: str) -> float:
        headers = {"Authorization": f"Bearer {self._plane.token}", "Content-Type": kind}
        connector = aiohttp.TCPConnector(limit=IN_FLIGHT, ssl=self._plane.tls())
        todo = iter([(self._server + path, json.dumps(body).encode()) for path, body in requests])
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

            async def worker() -> None:
                for url, data in todo:
                    async with session.request(method, url, data=data) as answer:
                        await answer.read()
                        assert answer.status < 300, answer.status

            begun = time.perf_counter()
            await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
            return time.perf_counter() - begun


def _node(number: int) -> Json:
    amounts = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": "8"}
    labels = {"kubernetes.io/hostname": f"n{number}", "rack": f"r{number // 16}", "zone": f"z{number % 3}"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}", "labels": labels}, "status": status}


def _pod(number: int) -> Json:
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


def _binding(number: int) -> tuple[str, Json]:
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"p{number}"}, "target": {"name": "n0"}}
    return f"/api/v1/namespaces/default/pods/p{number}/binding", body


def _open(kubeconfig: str) -> KubeCluster:
    return KubeCluster(access(kubeconfig))


def measure_list(kubeconfig: str) -> dict[str, float]:
    """Processor seconds and peak memory from nothing to filled caches."""
    begun, cpu = time.perf_counter(), time.process_time()
    with _open(kubeconfig) as cluster:
        assert cluster.synced(timeout=300)
        objects = cluster.read()
        found = {
            "seconds": time.perf_counter() - begun,
            "cpu": time.process_time() - cpu,
            "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "pods": len(objects.every(Pod)),
            "nodes": len(objects.every(Node)),
        }
    return found


def measure_watch(kubeconfig: str, events: int) -> dict[str, float]:
    """Processor seconds for so many watch events; says "ready" when they may begin."""
    with _open(kubeconfig) as cluster:
        assert cluster.synced(timeout=300)
        version, cpu = cluster.read().version, time.process_time()
        first = version
        print("ready", flush=True)
        end = time.monotonic() + 300
        while version < first + events and time.monotonic() < end:
            time.sleep(0.2)
            version = cluster.wait(version, 1.0)
        return {"events": version - first, "cpu": time.process_time() - cpu}


def measure_binds(kubeconfig: str) -> None:
    """Seconds for binds "from to", as often as somebody asks for some; caches are filled before."""
    with _open(kubeconfig) as cluster:
        assert cluster.synced(timeout=300)
        cluster.read()
        print("ready", flush=True)
        for line in sys.stdin:
            numbers = range(*map(int, line.split()))
            binds = [Bind(Key("", "Pod", "default", f"p{i}"), "n0", gang=f"g{i // 16}") for i in numbers]
            begun = time.perf_counter()
            outcomes = cluster.apply(binds)
            seconds = time.perf_counter() - begun
            assert all(outcome.ok for outcome in outcomes)
            print(seconds, flush=True)


def _measure(*arguments: object) -> tuple[subprocess.Popen[str], Any]:
    """A measurement in a process of its own, so that nobody's memory and imports count for another's."""
    command = [sys.executable, "-m", "tests.e2e.load", *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    return process, process.stdout


def _result(process: subprocess.Popen[str], out: Any) -> dict[str, float]:
    last = out.read().strip().splitlines()[-1]
    assert process.wait() == 0
    found: dict[str, float] = json.loads(last)
    return found


def load(nodes: int, pods: int, binds: int, rounds: int) -> int:
    """Everything; the number of goals that were missed."""
    found = subprocess.run([ROOT / "tools" / "control_plane", "--no-build"], capture_output=True, text=True)
    if found.returncode:
        print(found.stderr.strip(), file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(found.stdout.strip()), Path(folder) / "plane")
        try:
            plane.start()
            return _load(plane, nodes, pods, binds, rounds)
        finally:
            plane.stop()


def _load(plane: ControlPlane, nodes: int, pods: int, binds: int, rounds: int) -> int:
    tight, config = Tight(plane), str(plane.kubeconfig)
    tight.send("POST", [("/api/v1/nodes", _node(i)) for i in range(nodes)])
    tight.send("POST", [("/api/v1/namespaces/default/pods", _pod(i)) for i in range(pods)])
    missed = 0

    def say(what: str, value: str, goal: str, *, met: bool) -> None:
        nonlocal missed
        missed += not met
        print(f"{what:<44} {value:>14}   goal {goal:<16} {'met' if met else 'MISSED'}", flush=True)

    listed = _result(*_measure("list", config))
    assert (listed["pods"], listed["nodes"]) == (pods, nodes)
    print(f"{nodes} nodes, {pods} pods; listed and decoded in {listed['seconds']:.1f} s of wall time")
    say("list and decode, processor time", f"{listed['cpu']:.2f} s", "<= 2.5 s", met=listed["cpu"] <= 2.5)
    say("list and decode, peak memory", f"{listed['megabytes']:.0f} MB", "<= 300 MB", met=listed["megabytes"] <= 300)

    events = min(pods, 5000)
    process, out = _measure("watch", config, events)
    assert out.readline().strip() == "ready"
    patches = [(f"/api/v1/namespaces/default/pods/p{i}", {"metadata": {"labels": {"x": "y"}}}) for i in range(events)]
    threading.Thread(target=tight.send, args=("PATCH", patches, "application/merge-patch+json")).start()
    watched = _result(process, out)
    each = watched["cpu"] / max(1, watched["events"]) * 1e6
    say(f"watch, processor time of {events} events, each", f"{each:.0f} µs", "<= 150 µs", met=each <= 150)

    ratio = _compare_binds(tight, config, binds, rounds)
    say("binds, share of a tight client", f"{ratio:.2f}", ">= 0.75", met=ratio >= 0.75)
    return missed


def _compare_binds(tight: Tight, config: str, binds: int, rounds: int) -> float:
    """How fast we are, as a share of a tight client: short runs in turns, each first in every other round."""
    process, out = _measure("bind", config)
    assert process.stdin is not None
    assert out.readline().strip() == "ready"
    seconds = {"tight": 0.0, "ours": 0.0}
    start = 0
    for i in range(rounds):
        for who in ("tight", "ours") if i % 2 else ("ours", "tight"):
            numbers, start = range(start, start + binds), start + binds
            if who == "tight":
                seconds[who] += tight.send("POST", [_binding(n) for n in numbers])
            else:
                process.stdin.write(f"{numbers.start} {numbers.stop}\n")
                process.stdin.flush()
                seconds[who] += float(out.readline())
    process.stdin.close()
    process.wait()
    rate = {who: rounds * binds / taken for who, taken in seconds.items()}
    print(f"binds/s in {rounds} rounds of {binds}: tight {rate['tight']:.0f}, ours {rate['ours']:.0f}", flush=True)
    return rate["ours"] / rate["tight"]


def main() -> None:
    """Run all, or, in a process of its own, one measurement."""
    match sys.argv[1:]:
        case ["list", config]:
            print(json.dumps(measure_list(config)))
        case ["watch", config, events]:
            print(json.dumps(measure_watch(config, int(events))))
        case ["bind", config]:
            measure_binds(config)
        case arguments:
            parser = argparse.ArgumentParser(description=__doc__)
            parser.add_argument("--nodes", type=int, default=5000)
            parser.add_argument("--pods", type=int, default=30_000)
            parser.add_argument("--binds", type=int, default=500, help="binds in each run")
            parser.add_argument("--rounds", type=int, default=10)
            sys.exit(bool(load(**vars(parser.parse_args(arguments)))))


if __name__ == "__main__":
    main()
