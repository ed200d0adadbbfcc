"""What each component takes of a machine, by the size of the cluster: the table of docs/guides/operations.md.

    python -m tests.e2e.sizing [NODES...]

On a real API server: eight running pods to a node, in gangs of 16, and as many gangs that wait as there are racks. Each
component is started, waited for until it is ready and has worked for a while, and asked what it has used.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from tests.e2e.api import Api, path_of
from tests.e2e.control_plane import ControlPlane
from tests.e2e.tight import Tight, big_node, big_pod
from tests.e2e.world import World
from tests.support.ports import free_port

ROOT: Final = Path(__file__).parents[2]
PODS: Final = "/api/v1/namespaces/default/pods"
COMPONENTS: Final = {
    "scheduler": ["run", "--no-controllers", "--no-leader-election"],
    "controllers": ["controllers", "--no-leader-election"],
}
RACK: Final = 16
STEADY: Final = 60


def fill(plane: ControlPlane, nodes: int) -> int:
    """The cluster; how many pods there are."""
    tight = Tight(plane)
    tight.send("POST", [("/api/v1/nodes", big_node(i)) for i in range(nodes)])
    racks = -(-nodes // RACK)
    trees = []
    for rack in range(racks):
        names = [f"n{i}" for i in range(rack * RACK, min(nodes, (rack + 1) * RACK))]
        members = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]
        trees.append(
            (
                path_of("HyperNode"),
                _object("topology.volcano.sh/v1alpha1", "HyperNode", f"r{rack}", tier=1, members=members),
            )
        )
    tight.send("POST", trees)
    running, waiting = 8 * nodes, RACK * racks
    gangs = -(-(running + waiting) // RACK)
    group = "scheduling.volcano.sh/v1beta1"
    groups = [_object(group, "PodGroup", f"g{i}", minMember=RACK, queue="default") for i in range(gangs)]
    tight.send("POST", [(path_of("PodGroup", namespace="default"), found) for found in groups])
    pods = [big_pod(i) for i in range(running + waiting)]
    tight.send("POST", [(PODS, pod) for pod in pods])
    binds = [
        (
            f"{PODS}/p{i}/binding",
            {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"p{i}"}, "target": {"name": f"n{i // 8}"}},
        )
        for i in range(running)
    ]
    tight.send("POST", binds)
    ready = {"status": {"phase": "Running"}}
    tight.send("PATCH", [(f"{PODS}/p{i}/status", ready) for i in range(running)], "application/merge-patch+json")
    return len(pods)


def _object(version: str, kind: str, name: str, **spec: object) -> dict[str, object]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def measure(plane: ControlPlane, words: list[str]) -> dict[str, float]:
    """One component: memory at its highest, processor seconds until it is ready, and per second afterwards."""
    port = free_port()
    around = ["--kubeconfig", str(plane.kubeconfig), "--listen", f"127.0.0.1:{port}", "--log-level", "error"]
    begun = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "tierwise", *words, *around])
    try:
        while not _ready(port):
            assert process.poll() is None
            time.sleep(0.1)
        started, used = time.monotonic() - begun, _used(process.pid)
        time.sleep(STEADY)
        steady = (_used(process.pid) - used) / STEADY
        (peak,) = (
            int(line.split()[1])
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
            if line.startswith("VmHWM")
        )
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    return {"megabytes": peak / 1024, "seconds": started, "start": used, "steady": steady}


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _used(pid: int) -> float:
    """Processor seconds so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """One table."""
    found = subprocess.run([ROOT / "tools/control_plane", "--no-build"], capture_output=True, text=True)
    if found.returncode:
        sys.exit(found.stderr.strip())
    print("| Nodes | Pods | Component | Memory at most | Until ready | Processor until ready | Processor afterwards |")
    print("|---|---|---|---|---|---|---|")
    for nodes in [int(word) for word in sys.argv[1:]] or [500, 2000, 5000]:
        with tempfile.TemporaryDirectory() as folder:
            plane = ControlPlane(Path(found.stdout.strip()), Path(folder) / "plane")
            try:
                plane.start()
                api = Api(plane)
                World.install(api)
                pods = fill(plane, nodes)
                for name, words in COMPONENTS.items():
                    row = measure(plane, words)
                    print(
                        f"| {nodes:,} | {pods:,} | {name} | {row['megabytes']:.0f} MB | {row['seconds']:.1f} s"
                        f" | {row['start']:.1f} s | {row['steady'] * 1000:.0f}m |",
                        flush=True,
                    )
                api.close()
            finally:
                plane.stop()


if __name__ == "__main__":
    main()
