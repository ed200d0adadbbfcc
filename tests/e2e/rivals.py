"""Pods per second of tierwise and of kube-scheduler: the same API server, the same nodes, the same pods, in turns.

Called by `make bench-kube`. Pods wait before a scheduler starts; the clock runs from the moment at which that says it
is ready until a watch has shown the last of them bound. kube-scheduler sees plain pods. tierwise sees the same pods in
gangs of 16, each of which must stand in one rack. Then gangs come one by one, to an otherwise idle cluster.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final, Protocol

import msgspec
from tests.e2e.api import Api, Json, path_of
from tests.e2e.control_plane import ControlPlane, processor_seconds
from tests.e2e.tight import Tight, big_node, big_pod
from tests.e2e.world import World
from tests.support.ports import free_port

__all__ = ["Race", "Rival", "Say", "compare", "ready", "rivals", "writes_so_far"]

GANG: Final = 16
_RACK: Final = 16
_PATIENCE: Final = 900.0
_PODS: Final = "/api/v1/namespaces/default/pods"
_ANSWERED: Final = re.compile(r"apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>\S+)")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_READS: Final = ("GET", "LIST", "WATCH", "CONNECT")

_UNLIMITED: Final = ("--kube-api-qps=5000", "--kube-api-burst=10000")

_VOLCANO: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
  - name: network-topology-aware
"""
"""What Volcano decides by: its usual plugins and the one that knows racks."""


class Say(Protocol):
    """Who tells a result beside its goal."""

    def __call__(self, what: str, value: str, goal: str, *, met: bool) -> None: ...


class Rival(msgspec.Struct, frozen=True):
    """A scheduler: the name that pods ask for, how to start it, and where it says that it is ready."""

    title: str
    name: str
    command: tuple[str, ...]
    ready: str
    gangs: bool = False
    ours: bool = False  # its stages can be read


def rivals(
    plane: ControlPlane, program: Path | None, tierwise: str = "", volcano: Path | None = None
) -> dict[str, Rival]:
    """tierwise; kube-scheduler as it comes, and without the limit that its client sets itself; and Volcano's scheduler.

    The others are there if their programs are.
    """
    config, port = str(plane.kubeconfig), free_port()
    installed = str(Path(sys.executable).parent / "tierwise")
    own = (tierwise or installed, "run", "--kubeconfig", config, "--no-leader-election")
    found = {
        "tierwise": Rival(
            "tierwise",
            "tierwise",
            (*own, "--no-controllers", "--log-level", "warning", "--listen", f"127.0.0.1:{port}"),
            f"http://127.0.0.1:{port}/readyz",
            gangs=True,
            ours=True,
        )
    }
    if program is not None and program.is_file():
        port = free_port()
        served = (f"--secure-port={port}", "--bind-address=127.0.0.1", f"--cert-dir={plane.folder}/scheduler-certs")
        common = (str(program), f"--kubeconfig={config}", "--leader-elect=false", *served)
        ready = f"https://127.0.0.1:{port}/readyz"
        found["default"] = Rival("kube-scheduler, 50 requests/s", "default-scheduler", common, ready)
        found["raised"] = Rival("kube-scheduler, 5,000 requests/s", "default-scheduler", common + _UNLIMITED, ready)
    if volcano is not None and volcano.is_file():
        port, conf = free_port(), plane.folder / "volcano.yaml"
        conf.write_text(_VOLCANO)
        health = ("--enable-healthz", f"--healthz-address=127.0.0.1:{port}", "--enable-metrics=false")
        alone = (f"--scheduler-conf={conf}", "--leader-elect=false", "--feature-gates=ResourceTopology=false")
        command = (str(volcano), f"--kubeconfig={config}", *health, *alone, *_UNLIMITED)
        found["volcano"] = Rival("Volcano", "volcano", command, f"http://127.0.0.1:{port}/healthz", gangs=True)
    return found


class _Turn(msgspec.Struct, frozen=True):
    """What came of one turn: pods per second, and processor time for each pod, from the moment at which the scheduler
    was ready until the last pod was bound: of the server, and of the scheduler.
    """

    rate: float
    server: float
    cost: float
    writes: Mapping[str, float]  # requests for each pod, by verb and resource


class Race:
    """A cluster in which schedulers take turns; whatever one of them leaves is removed."""

    def __init__(self, plane: ControlPlane, api: Api, tight: Tight) -> None:
        self._plane, self._api, self._tight = plane, api, tight

    def racks(self, nodes: int) -> None:
        """HyperNodes around nodes n0, n1 …"""
        for rack in range(-(-nodes // _RACK)):
            names = [f"n{i}" for i in range(rack * _RACK, min(nodes, (rack + 1) * _RACK))]
            members = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]
            meta, spec = {"name": f"r{rack}"}, {"tier": 1, "members": members}
            self._api.create(
                {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": meta, "spec": spec}
            )

    def run(self, rival: Rival, pods: Sequence[Json]) -> _Turn:
        """Let a scheduler place the pods."""
        if rival.gangs:
            groups = [_group(first // GANG, len(pods[first : first + GANG])) for first in range(0, len(pods), GANG)]
            self._tight.send("POST", [(path_of("PodGroup", namespace="default"), group) for group in groups])
        with self._waiting(pods, rival.name) as finish, (self._plane.folder / "rival.log").open("wb") as log:
            requests = writes_so_far(self._plane)
            process = subprocess.Popen(rival.command, stdout=log, stderr=log)
            try:
                begun = ready(rival, process)
                before = self._plane.processor_seconds(), processor_seconds(process.pid)
                rate = len(pods) / (finish.wait() - begun)
                after = self._plane.processor_seconds(), processor_seconds(process.pid)
                writes = {
                    what: (n - requests.get(what, 0)) / len(pods) for what, n in writes_so_far(self._plane).items()
                }
            finally:
                process.terminate()
                process.wait()
            server, cost = ((b - a) / len(pods) for a, b in zip(before, after, strict=True))
            return _Turn(rate, server, cost, {what: n for what, n in writes.items() if n})

    def bind(self, pods: Sequence[Json], nodes: int) -> _Turn:
        """No scheduler at all: the most that the server takes from a client that only binds."""
        bindings = []
        for number, pod in enumerate(pods):
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}}
            path = f"{_PODS}/{pod['metadata']['name']}/binding?fieldValidation=Ignore"
            bindings.append((path, body | {"target": {"name": f"n{number % nodes}"}}))
        with self._waiting(pods, "nobody") as finish:
            begun = time.perf_counter()
            before = self._plane.processor_seconds(), time.thread_time()  # the thread that counts is no part of it
            self._tight.send("POST", bindings)
            rate = len(pods) / (finish.wait() - begun)
            after = self._plane.processor_seconds(), time.thread_time()
            server, cost = ((b - a) / len(pods) for a, b in zip(before, after, strict=True))
            return _Turn(rate, server, cost, {"POST pods/binding": 1.0})

    def wait_alone(self, rival: Rival, pods: Sequence[Json]) -> list[float]:
        """Gang after gang on an idle cluster: seconds from its last pod being made to its last bind, in order."""
        named = {"schedulerName": rival.name}
        made = [pod | {"spec": pod["spec"] | named} for pod in pods]
        found = []
        with (self._plane.folder / "rival.log").open("wb") as log:
            process = subprocess.Popen(rival.command, stdout=log, stderr=log)
            try:
                ready(rival, process)
                for first in range(0, len(made), GANG):
                    *most, last = made[first : first + GANG]
                    with _Finish(self._plane, len(most) + 1) as finish:
                        self._api.create(_group(first // GANG, len(most) + 1))
                        self._tight.send("POST", [(_PODS, pod) for pod in most])
                        self._api.create(last)
                        begun = time.perf_counter()
                        found.append(max(0.0, finish.wait() - begun))
                    self._clear()
            finally:
                process.terminate()
                process.wait()
        return sorted(found)

    @contextlib.contextmanager
    def _waiting(self, pods: Sequence[Json], scheduler: str) -> Iterator[_Finish]:
        """Pods that wait for a scheduler, and a watch of them."""
        named = {"schedulerName": scheduler}
        self._tight.send("POST", [(_PODS, pod | {"spec": pod["spec"] | named}) for pod in pods])
        try:
            with _Finish(self._plane, len(pods)) as finish:
                yield finish
        finally:
            self._clear()

    def _clear(self) -> None:
        for kind in ("Pod", "PodGroup", "Event"):
            self._api.ask("DELETE", path_of(kind, namespace="default"), {"gracePeriodSeconds": 0})
        end = time.monotonic() + _PATIENCE
        while self._api.list("Pod"):
            assert time.monotonic() < end
            time.sleep(1.0)


def compare(
    plane: ControlPlane, program: Path | None, *, nodes: int, pods: int, gangs: int, rounds: int, say: Say
) -> None:
    """Let all take turns, and tell how fast each was; kube-scheduler with and without its client's limit, if there."""
    known = rivals(plane, program)
    api, tight = Api(plane), Tight(plane)
    World.install(api)
    tight.send("POST", [("/api/v1/nodes", big_node(i)) for i in range(nodes)])
    race = Race(plane, api, tight)
    race.racks(nodes)
    waiting = [big_pod(i) for i in range(pods)]
    alone = race.wait_alone(known["tierwise"], waiting[: gangs * GANG])
    if alone:
        at = {share: 1000 * alone[min(len(alone) - 1, int(share * len(alone)))] for share in (0.5, 0.99)}
        value = f"{at[0.5]:.0f}; {at[0.99]:.0f} ms"
        say(f"last pod to last bind, {len(alone)} gangs of {GANG}", value, "<= 200; 500 ms", met=at[0.99] <= 500)
    turns: dict[str, list[_Turn]] = {"nobody": [], "tierwise": []}
    if "raised" in known:
        turns |= {"raised": [], "default": []}
    racing = [*turns][:3]
    for i in range(rounds):
        for who in racing[::-1] if i % 2 else racing:
            turns[who].append(race.bind(waiting, nodes) if who == "nobody" else race.run(known[who], waiting))
    if "default" in turns:
        turns["default"].append(race.run(known["default"], waiting[:2000]))  # it mostly waits, and would for minutes
    api.close()
    rate = {who: statistics.median(turn.rate for turn in found) for who, found in turns.items()}
    print(f"{pods} pods on {nodes} nodes, {rounds} rounds in turns; medians, and pods/s of each round:")
    for who, found in turns.items():
        cost, server = (1000 * statistics.median(map(get, found)) for get in (attrgetter("cost"), attrgetter("server")))
        used = f"{cost:.2f} ms of processor time each, of the server {server:.2f} ms"
        title = known[who].title if who in known else "a client that only binds"
        each = ", ".join(f"{turn.rate:.0f}" for turn in found)
        print(f"{title:<44} {rate[who]:>7.0f} pods/s  {used}  ({each})")
        writes = sorted(found[-1].writes.items(), key=lambda item: -item[1])
        print(f"  writes for each pod: {', '.join(f'{n:.3g} {what}' for what, n in writes)}", flush=True)
    shares = [ours.rate / theirs.rate for ours, theirs in zip(turns["tierwise"], turns["nobody"], strict=True)]
    share = statistics.median(shares)
    value = f"{share:.2f} ({min(shares):.2f}-{max(shares):.2f})"
    say("pods/s, share of a client that only binds", value, ">= 0.95", met=share >= 0.95)
    if "raised" not in turns:
        print("pods/s ÷ kube-scheduler's: it is not at hand (tools/control_plane --with kube-scheduler builds it)")
    for who in [*turns][2:]:
        ratio = rate["tierwise"] / rate[who]
        say(f"pods/s ÷ {known[who].title}", f"{ratio:.1f}", ">= 10", met=ratio >= 10)


class _Finish:
    """Counts pods that get a node, by a watch that shows these alone and is not decoded."""

    def __init__(self, plane: ControlPlane, pods: int) -> None:
        self._plane, self._pods = plane, pods
        self._over = threading.Event()
        self._last = 0.0
        self._headers = {"Authorization": f"Bearer {plane.token}"}
        self._connection = http.client.HTTPSConnection("127.0.0.1", plane.port, context=plane.tls(), timeout=_PATIENCE)
        self._thread = threading.Thread(target=self._count, daemon=True)

    def __enter__(self) -> _Finish:
        assert not self._begin(), "somebody has bound pods already"
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def wait(self) -> float:
        """When the last pod was bound."""
        assert self._over.wait(_PATIENCE), "not all pods were bound in time"
        return self._last

    def _begin(self) -> int:
        """Begin to watch; how many pods have a node already."""
        self._connection.request("GET", f"{_PODS}?fieldSelector=spec.nodeName!%3D", headers=self._headers)
        listed: Mapping[str, Json] = json.loads(self._connection.getresponse().read())
        query = f"fieldSelector=spec.nodeName!%3D&watch=true&resourceVersion={listed['metadata']['resourceVersion']}"
        self._connection.request("GET", f"{_PODS}?{query}", headers=self._headers)
        return len(listed["items"])

    def _count(self) -> None:
        left = self._pods
        while left:
            with self._connection.getresponse() as answer:
                for line in answer:
                    left -= line.startswith(b'{"type":"ADDED"')
                    if not left:
                        break
            if left:  # a server ends the watch of who reads too slowly, as happens on busy cores
                self._connection.close()
                left = self._pods - self._begin()
        self._last = time.perf_counter()
        self._over.set()


def writes_so_far(plane: ControlPlane) -> dict[str, int]:
    """Requests that the server has answered so far and that are no reads, by verb and resource."""
    found: dict[str, int] = {}
    for line in plane.metrics().splitlines():
        if match := _ANSWERED.match(line):
            fields = dict(_LABEL.findall(match["labels"]))
            what = "/".join(filter(None, (fields["resource"], fields["subresource"])))
            if fields["verb"] not in _READS:
                name = f"{fields['verb']} {what}"
                found[name] = found.get(name, 0) + int(float(match["count"]))
    return found


def ready(rival: Rival, process: subprocess.Popen[bytes]) -> float:
    """When a scheduler was asked for the first time to which it said that its caches are filled."""
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE  # it made its certificate itself
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError, urllib.error.URLError):
            asked = time.perf_counter()  # not when it answers: a busy one answers late
            context = anyone if rival.ready.startswith("https") else None
            urllib.request.urlopen(rival.ready, timeout=30, context=context).close()
            return asked
        time.sleep(0.02)
    raise AssertionError(f"{rival.title} did not become ready")


def _group(number: int, pods: int) -> Json:
    topology = {"mode": "hard", "highestTierAllowed": 1}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": f"g{number}", "namespace": "default"},
        "spec": {"minMember": pods, "queue": "default", "networkTopology": topology},
    }
