"""`make bench-kube`: lists, watches and binds of our client, and whole schedulers, on a real kube-apiserver.

Processor time of the client is the figure to trust: client and server share the machine. Binds are compared with a
client that does nothing but send them, and tierwise with kube-scheduler, in alternating runs against the same server.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from tests.e2e.api import Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.tight import Tight, big_node, big_pod

from tierwise.api.core import Node, Pod
from tierwise.kube.auth import access
from tierwise.kube.cluster import KubeCluster
from tierwise.port import Bind, Key

ROOT: Final = Path(__file__).parents[2]


class Size(msgspec.Struct, frozen=True):
    """How much of everything."""

    nodes: int
    pods: int
    binds: int
    rounds: int
    race: int
    race_rounds: int
    gangs: int
    bursts: int
    floods: list[int]
    apart: bool
    only_tierwise: bool
    burst_rounds: int
    tierwise: list[str]
    volcano: Path | None


def _binding(number: int) -> tuple[str, Json]:
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"p{number}"}, "target": {"name": "n0"}}
    return f"/api/v1/namespaces/default/pods/p{number}/binding?fieldValidation=Ignore", body


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


class Goals:
    """Lines of the result, and how many goals were missed."""

    def __init__(self) -> None:
        self.missed = 0

    def say(self, what: str, value: str, goal: str, *, met: bool) -> None:
        self.missed += not met
        print(f"{what:<44} {value:>14}   goal {goal:<16} {'met' if met else 'MISSED'}", flush=True)


def load(size: Size, goals: Goals) -> None:
    """Everything."""
    found = subprocess.run([ROOT / "tools" / "control_plane", "--no-build"], capture_output=True, text=True)
    if found.returncode:
        sys.exit(found.stderr.strip())
    binaries = Path(found.stdout.strip())
    if size.pods:
        with _plane(binaries, apart=size.apart) as plane:
            _client(plane, size, goals)
    if size.race:
        from tests.e2e.rivals import compare  # here, because the memory of measuring processes is measured

        with _plane(binaries, apart=size.apart) as plane:
            compare(
                plane,
                None if size.only_tierwise else binaries / "kube-scheduler",
                nodes=size.nodes,
                pods=size.race,
                gangs=size.gangs,
                rounds=size.race_rounds,
                say=goals.say,
            )

    if size.bursts:
        from tests.e2e.burst import measure_bursts

        with _plane(binaries, apart=size.apart) as plane:
            measure_bursts(
                plane,
                None if size.only_tierwise else binaries / "kube-scheduler",
                size.tierwise,
                size.volcano,
                gangs=size.bursts,
                floods=size.floods,
                rounds=size.burst_rounds,
                say=goals.say,
            )


@contextlib.contextmanager
def _plane(binaries: Path, *, apart: bool) -> Iterator[ControlPlane]:
    """A control plane; `apart`, it has half of the cores to itself and everything else has the other half."""
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2 if apart else len(cores)
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(binaries, Path(folder) / "plane")
        try:
            os.sched_setaffinity(0, cores[:half])  # what is started from here on inherits it
            plane.start()
            os.sched_setaffinity(0, cores[half:] or cores)
            yield plane
        finally:
            plane.stop()
            os.sched_setaffinity(0, cores)


def _client(plane: ControlPlane, size: Size, goals: Goals) -> None:
    """Lists, watches and binds."""
    tight, config, say, pods, nodes = Tight(plane), str(plane.kubeconfig), goals.say, size.pods, size.nodes
    tight.send("POST", [("/api/v1/nodes", big_node(i)) for i in range(nodes)])
    tight.send("POST", [("/api/v1/namespaces/default/pods", big_pod(i)) for i in range(pods)])

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

    ratio = _compare_binds(tight, config, size.binds, size.rounds)
    say("binds, share of a tight client", f"{ratio:.2f}", ">= 0.75", met=ratio >= 0.75)


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
            parser.add_argument(
                "--pods", type=int, default=30_000, help="for lists, watches and binds; 0 leaves these out"
            )
            parser.add_argument("--binds", type=int, default=500, help="binds in each run")
            parser.add_argument("--rounds", type=int, default=10)
            parser.add_argument("--race", type=int, default=5000, help="pods for whole schedulers; 0 leaves these out")
            parser.add_argument("--race-rounds", type=int, default=2)
            parser.add_argument("--gangs", type=int, default=100, help="that come one by one to an idle cluster")
            parser.add_argument("--bursts", type=int, default=250, help="gangs of 4 that arrive within four seconds")
            parser.add_argument("--floods", type=int, nargs="*", default=[1200, 5000], help="of another tenant beside")
            parser.add_argument("--burst-rounds", type=int, default=5, help="bursts of each kind, in turns")
            parser.add_argument(
                "--tierwise", nargs="*", default=[], help="further programs to measure in those bursts, in turns"
            )
            parser.add_argument("--volcano", type=Path, help="Volcano's scheduler, which then takes part in the bursts")
            parser.add_argument(
                "--apart", action="store_true", help="the control plane has half of the cores, all else the other half"
            )
            parser.add_argument("--only-tierwise", action="store_true", help="leave kube-scheduler out")
            goals = Goals()
            load(Size(**vars(parser.parse_args(arguments))), goals)
            sys.exit(bool(goals.missed))


if __name__ == "__main__":
    main()
