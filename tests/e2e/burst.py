"""Gangs of four that arrive live: seconds from each pod's creation to its bind, calm and beside another tenant's flood.

Called by `make bench-kube`. 250 podGroups with their pods are made within four seconds, each of which must be in one
rack; kube-scheduler, and tierwise once more, get as many plain pods in the same way, and Volcano's scheduler the gangs.
Each burst has a scheduler that was just started and has bound its first pod. Calm bursts, bursts beside floods and
those of others take turns, forwards and backwards, and medians over the rounds count, because on busy cores one burst
differs from the next by a factor of three.

The flood is made by 32 connections as fast as the server takes it, in a namespace of its own, and the first gang comes
as soon as the last object of the flood is accepted. Its objects cannot be scheduled and stay: groups without pods, of
queues that are not there, without their last pod, pods of groups that are not there, pods that fit on no node; no two
are alike, and a scheduler that has just seen them has something to write about each. kube-scheduler gets as many pods
that fit on no node, which says how much of it is the server's and the cores'.

Beside the waits are the processor seconds of each process while the gangs arrive and are bound, and those of which
stages of our loop they were: two cores have eight seconds in the four.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace
from tests.e2e.api import Api, Json, path_of
from tests.e2e.control_plane import ControlPlane, processor_seconds
from tests.e2e.rivals import Race, Rival, Say, ready, rivals, writes_so_far
from tests.e2e.tight import LIMITS, Tight, big_node, big_pod
from tests.e2e.world import World

from tierwise.kube.transport import DirectTransport, Request

__all__ = ["measure_bursts", "odd_object", "small_gang"]

GANG: Final = 4
_NODES: Final = 500
_SECONDS: Final = 4.0
_PATIENCE: Final = 60.0
_PODS: Final = "/api/v1/namespaces/default/pods"
_NOISY: Final = "noisy"
_STAGE: Final = re.compile(r'tierwise_stage_duration_seconds_(sum|count)\{stage="(\w+)"\} (\S+)')


class _Waits(msgspec.Struct, frozen=True):
    """What came of one burst: milliseconds that half of the pods waited, and all but one in a hundred; seconds."""

    half: float
    most: float
    used: Mapping[str, float]  # processor seconds by process
    stages: Mapping[str, float]  # of our loop; cycles are counted as such
    writes: Mapping[str, float]  # what the server was asked to write, the flood and the gangs included


def measure_bursts(
    plane: ControlPlane,
    program: Path | None,
    tierwise: Sequence[str],
    volcano: Path | None,
    *,
    gangs: int,
    floods: Sequence[int],
    rounds: int,
    say: Say,
) -> None:
    """Tell how long pods wait under each scheduler, calm and beside floods; `tierwise` are further ones of ours."""
    known = rivals(plane, program, volcano=volcano)
    titles = (("kube-scheduler", "raised"), ("tierwise", "tierwise"), ("Volcano", "volcano"))
    racing = {title: known[name] for title, name in titles if name in known}
    racing |= {f"tierwise at {other}": rivals(plane, None, other)["tierwise"] for other in tierwise}
    racing["tierwise, plain pods"] = replace(known["tierwise"], gangs=False)
    api, tight = Api(plane), Tight(plane)
    World.install(api)
    tight.send("POST", [("/api/v1/nodes", big_node(i)) for i in range(_NODES)])
    Race(plane, api, tight).racks(_NODES)
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NOISY}})
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    api.create({**queue, "spec": {"weight": 1}})
    opened = {"status": {"state": "Open"}}  # as Volcano's controllers do, without which its scheduler binds nothing
    tight.send("PATCH", [(f"{path_of('Queue')}/default/status", opened)], "application/merge-patch+json")
    burst = _Burst(plane, api, tight, gangs)
    # kube-scheduler meets the first flood alone, and Volcano none: how they fare is no goal of ours.
    turns = [
        (title, flood)
        for flood in (0, *floods)
        for title, rival in racing.items()
        if not flood or (rival.ours and rival.gangs) or (title == "kube-scheduler" and flood == floods[0])
    ]
    found: dict[tuple[str, int], list[_Waits]] = {turn: [] for turn in turns}
    for number in range(rounds):
        for title, flood in turns[::-1] if number % 2 else turns:
            found[title, flood].append(burst.run(racing[title], flood))
            _tell(title, flood, found[title, flood][-1:])
    api.close()
    print(f"{gangs} gangs of {GANG}, or as many plain pods, in 4 s; medians of {rounds} bursts each, in turns:")
    for (title, flood), waits in found.items():
        _tell(title, flood, waits)
    for title in [title for title, rival in racing.items() if rival.ours]:
        calm, goal = found[title, 0], (1.2, 1.2) if racing[title].gangs else (1.0, 1.0)
        if "kube-scheduler" in racing:
            _compare(f"{title} ÷ kube-scheduler", calm, found["kube-scheduler", 0], goal, say)
        if "Volcano" in racing and racing[title].gangs:
            _compare(f"{title} ÷ Volcano", calm, found["Volcano", 0], (1.0, 1.0), say)
        for flood in floods if racing[title].gangs else ():
            _compare(f"{title} beside {flood} odd objects, ÷ calm", found[title, flood], calm, (2.0, 2.0), say)


def _medians(waits: Sequence[_Waits]) -> tuple[float, float]:
    return statistics.median([one.half for one in waits]), statistics.median([one.most for one in waits])


def _tell(title: str, flood: int, waits: Sequence[_Waits]) -> None:
    half, most = _medians(waits)
    beside = f" beside {flood}" if flood else ""
    print(f"  {title + beside:<32} {half:5.0f}; {most:5.0f} ms; ", end="")
    for what in ("used", "stages", "writes"):
        each = [getattr(one, what) for one in waits]
        names = dict.fromkeys(name for one in each for name in one)
        found = {name: statistics.median([one.get(name, 0.0) for one in each]) for name in names}
        print(f"{what}: {', '.join(f'{name} {value:.3g}' for name, value in found.items())}; ", end="")
    print(flush=True)


def _compare(what: str, ours: Sequence[_Waits], theirs: Sequence[_Waits], goal: tuple[float, float], say: Say) -> None:
    """Half of the pods, and all but one in a hundred, beside the others' as a goal says."""
    half, most = (a / b for a, b in zip(_medians(ours), _medians(theirs), strict=True))
    say(what, f"{half:.2f}; {most:.2f}", f"<= {goal[0]:g}; {goal[1]:g}", met=half <= goal[0] and most <= goal[1])


class _Burst:
    """A cluster in which pods arrive."""

    def __init__(self, plane: ControlPlane, api: Api, tight: Tight, gangs: int) -> None:
        self._plane, self._api, self._tight, self._gangs = plane, api, tight, gangs

    def run(self, rival: Rival, flood: int) -> _Waits:
        """How long pods waited for their nodes; a pod that got none waited as long as we did."""
        with (self._plane.folder / "rival.log").open("wb") as log:
            process = subprocess.Popen(rival.command, stdout=log, stderr=log)
            try:
                ready(rival, process)
                self._begin(rival)
                asked = writes_so_far(self._plane)
                if flood:
                    made = odd_object if rival.gangs else _odd_pod
                    self._tight.send("POST", [made(_NOISY, i) for i in range(flood)])
                before, stages = self._used(process.pid), _stages(rival)
                waits = sorted(asyncio.run(self._arrive(rival)))
                half, most = (1000 * waits[min(len(waits) - 1, int(share * len(waits)))] for share in (0.5, 0.99))
                used, after, writes = self._used(process.pid), _stages(rival), writes_so_far(self._plane)
                return _Waits(
                    half,
                    most,
                    {name: seconds - before[name] for name, seconds in used.items()},
                    {name: seconds - stages.get(name, 0.0) for name, seconds in after.items()},
                    {what: n - asked.get(what, 0) for what, n in writes.items() if n > asked.get(what, 0)},
                )
            finally:
                process.terminate()
                process.wait()
                self._clear()

    def _begin(self, rival: Rival) -> None:
        """Wait for a first pod to be bound: a scheduler may say that it is ready before its caches are filled."""
        if rival.gangs:
            self._api.create(_group("default", "first", 1))
        self._api.create(_pod("default", "first-0", "first" if rival.gangs else "", rival.name))
        end = time.monotonic() + _PATIENCE
        while not self._api.list("Pod")[0]["spec"].get("nodeName"):
            assert time.monotonic() < end, f"{rival.title} binds nothing"
            time.sleep(0.1)

    def _used(self, scheduler: int) -> dict[str, float]:
        """Processor seconds so far, of the processes that a burst keeps busy."""
        return {
            "scheduler": processor_seconds(scheduler),
            **self._plane.processor_seconds_by_process(),
            "load": time.process_time(),
        }

    async def _arrive(self, rival: Rival) -> list[float]:
        """Make everything at its time, and watch what becomes of it."""
        transport = DirectTransport(f"https://127.0.0.1:{self._plane.port}", self._plane.tls, None)
        headers = {"Authorization": f"Bearer {self._plane.token}", "Content-Type": "application/json"}
        made: dict[str, float] = {}
        bound: dict[str, float] = {}

        async def watch(version: str) -> None:
            while True:  # a server ends the watch of who reads too slowly, as happens on busy cores
                query = f"watch=true&fieldSelector=spec.nodeName!%3D&resourceVersion={version}"
                async with transport.stream(Request("GET", f"{_PODS}?{query}", headers), LIMITS) as answer:
                    rest = b""
                    async for part in answer.parts:
                        *lines, rest = (rest + part).split(b"\n")
                        for line in lines:
                            meta = json.loads(line)["object"]["metadata"]
                            version = meta["resourceVersion"]
                            if meta["name"] in made:
                                bound.setdefault(meta["name"], time.perf_counter())

        async def ask(method: str, path: str, body: bytes = b"") -> bytes:
            answer = await transport.request(Request(method, path, headers, body), lambda: True, LIMITS)
            assert answer.status < 300, answer.body
            return answer.body

        async def gang(number: int) -> None:
            await asyncio.sleep(max(0.0, begun + number * _SECONDS / self._gangs - time.perf_counter()))
            if rival.gangs:
                made_group = json.dumps(_group("default", f"b{number}", GANG)).encode()
                await ask("POST", path_of("PodGroup", namespace="default"), made_group)
            for member in range(GANG):
                name = f"b{number}-{member}"
                group = f"b{number}" if rival.gangs else ""
                body = json.dumps(_pod("default", name, group, rival.name)).encode()
                made[name] = time.perf_counter()
                await ask("POST", _PODS, body)

        listed = json.loads(await ask("GET", f"{_PODS}?limit=1"))
        watching = asyncio.create_task(watch(listed["metadata"]["resourceVersion"]))
        begun = time.perf_counter()
        await asyncio.gather(*map(gang, range(self._gangs)))
        while len(bound) < len(made) and time.perf_counter() < begun + _PATIENCE and not watching.done():
            await asyncio.sleep(0.02)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await transport.close()
        left = len(made) - len(bound)
        if left:
            print(f"{left} pods of {len(made)} were not seen to be bound", flush=True)
        return [bound.get(name, time.perf_counter()) - at for name, at in made.items()]

    def _clear(self) -> None:
        for namespace in ("default", _NOISY):
            for kind in ("Pod", "PodGroup", "Event"):
                self._api.ask("DELETE", path_of(kind, namespace=namespace), {"gracePeriodSeconds": 0})
        end = time.monotonic() + _PATIENCE
        while self._api.list("Pod") or self._api.list("Pod", _NOISY):
            assert time.monotonic() < end
            time.sleep(0.5)


def _stages(rival: Rival) -> dict[str, float]:
    """Seconds that each stage of our loop has taken so far, and how many cycles there were."""
    if not rival.ours:
        return {}
    with urllib.request.urlopen(rival.ready.replace("/readyz", "/metrics"), timeout=60) as answer:
        found = {(kind, stage): float(value) for kind, stage, value in _STAGE.findall(answer.read().decode())}
    cycles = max([value for (kind, _), value in found.items() if kind == "count"], default=0.0)
    return {"cycles": cycles, **{stage: value for (kind, stage), value in found.items() if kind == "sum"}}


def _pod(namespace: str, name: str, group: str, scheduler: str) -> Json:
    pod = big_pod(0)
    marks = {"scheduling.k8s.io/group-name": group} if group else {}
    pod["metadata"] = {"name": name, "namespace": namespace, "annotations": marks}
    return {**pod, "spec": {**pod["spec"], "schedulerName": scheduler}}


def _group(namespace: str, name: str, least: int, queue: str = "default") -> Json:
    topology = {"mode": "hard", "highestTierAllowed": 1}
    spec = {"minMember": least, "queue": queue, "networkTopology": topology}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}


def small_gang(namespace: str, name: str) -> list[tuple[str, Json]]:
    """A podGroup and its pods, with the paths to make them at."""
    pods = [_pod(namespace, f"{name}-{member}", name, "tierwise") for member in range(GANG)]
    group = path_of("PodGroup", namespace=namespace), _group(namespace, name, GANG)
    return [group, *((path_of("Pod", namespace=namespace), pod) for pod in pods)]


def odd_object(namespace: str, number: int) -> tuple[str, Json]:
    """An object that nobody can schedule, with the path to make it at: each kind of oddity in turn, no two alike."""
    pods, groups = path_of("Pod", namespace=namespace), path_of("PodGroup", namespace=namespace)
    name = f"odd-{number}"
    match number % 5:
        case 0:
            return groups, _group(namespace, name, 5)  # without pods
        case 1:
            return groups, _group(namespace, name, 1, queue=f"nowhere-{number}")
        case 2:
            return pods, _pod(namespace, name, f"nobody-{number}", "tierwise")  # of a group that is not there
        case 3:
            return pods, _pod(namespace, name, f"odd-{number - 3}", "tierwise")  # one of five
        case _:
            return pods, _huge(namespace, number, f"odd-{number - 3}", "tierwise")


def _odd_pod(namespace: str, number: int) -> tuple[str, Json]:
    """What a scheduler of plain pods cannot schedule."""
    return path_of("Pod", namespace=namespace), _huge(namespace, number, "", "default-scheduler")


def _huge(namespace: str, number: int, group: str, scheduler: str) -> Json:
    huge = _pod(namespace, f"odd-{number}", group, scheduler)
    requests = {"cpu": str(1000 + number), "memory": "8Gi"}
    huge["spec"]["containers"] = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    return huge
