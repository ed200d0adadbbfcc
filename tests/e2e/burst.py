"""Gangs of four that arrive live: seconds from each pod's creation to its bind, calm and beside another tenant's flood.

Called by `make bench-kube`. 250 podGroups with their pods are made within four seconds, each of which must stand in one
rack; kube-scheduler gets as many plain pods in the same way. The flood is made before, in a namespace of its own, of
objects that cannot be scheduled: a scheduler that has just seen them has something to write about each. What the same
number of such pods does to kube-scheduler says how much of it is the server's and the machine's.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.e2e.api import Api, Json, path_of
from tests.e2e.control_plane import ControlPlane
from tests.e2e.rivals import Race, Rival, Say, ready, rivals
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


def measure_bursts(
    plane: ControlPlane, program: Path | None, tierwise: str, *, gangs: int, floods: Sequence[int], say: Say
) -> None:
    """Tell how long pods wait under each scheduler, and under tierwise beside floods."""
    known = rivals(plane, program, tierwise)
    api, tight = Api(plane), Tight(plane)
    World.install(api)
    tight.send("POST", [("/api/v1/nodes", big_node(i)) for i in range(_NODES)])
    Race(plane, api, tight).racks(_NODES)
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NOISY}})
    burst = _Burst(plane, api, tight, gangs)
    theirs = burst.run(known["raised"]) if "raised" in known else None
    ours = burst.run(known["tierwise"])
    if theirs is not None:
        _tell(f"{GANG * gangs} plain pods in 4 s, kube-scheduler", theirs, say)
        what = f"{gangs} gangs of {GANG} in 4 s, ÷ kube-scheduler"
        _compare(what, ours, theirs, (1.5, 3.0), say)
    else:
        _tell(f"{gangs} gangs of {GANG} in 4 s", ours, say)
    if theirs is not None and floods:
        beside = burst.run(known["raised"], floods[0])
        half, most = (_at(beside, share) / _at(theirs, share) for share in (0.5, 0.99))
        say(f"kube-scheduler beside {floods[0]} odd pods, ÷ calm", f"{half:.2f}; {most:.2f}", "-", met=True)
    for flood in floods:
        _compare(f"beside {flood} odd objects, ÷ calm", burst.run(known["tierwise"], flood), ours, (2.0, 2.0), say)
    api.close()


def _at(waits: Sequence[float], share: float) -> float:
    return sorted(waits)[min(len(waits) - 1, int(share * len(waits)))]


def _tell(what: str, waits: Sequence[float], say: Say) -> None:
    value = f"{1000 * _at(waits, 0.5):.0f}; {1000 * _at(waits, 0.99):.0f} ms"
    say(what, value, "-", met=True)


def _compare(what: str, ours: Sequence[float], theirs: Sequence[float], goal: tuple[float, float], say: Say) -> None:
    """Half of the pods, and all but one in a hundred, beside the others' as a goal says."""
    half, most = (_at(ours, share) / _at(theirs, share) for share in (0.5, 0.99))
    _tell(f"  {what}:", ours, say)
    say(what, f"{half:.2f}; {most:.2f}", f"<= {goal[0]:g}; {goal[1]:g}", met=half <= goal[0] and most <= goal[1])


class _Burst:
    """A cluster in which pods arrive."""

    def __init__(self, plane: ControlPlane, api: Api, tight: Tight, gangs: int) -> None:
        self._plane, self._api, self._tight, self._gangs = plane, api, tight, gangs

    def run(self, rival: Rival, flood: int = 0) -> list[float]:
        """Seconds that each pod waited for its node; a pod that got none waited as long as we did."""
        with (self._plane.folder / "rival.log").open("wb") as log:
            process = subprocess.Popen(rival.command, stdout=log, stderr=log)
            try:
                ready(rival, process)
                if flood:
                    made = odd_object if rival.gangs else _odd_pod
                    self._tight.send("POST", [made(_NOISY, i) for i in range(flood)])
                return asyncio.run(self._arrive(rival))
            finally:
                process.terminate()
                process.wait()
                self._clear()

    async def _arrive(self, rival: Rival) -> list[float]:
        """Make everything at its time, and watch what becomes of it."""
        transport = DirectTransport(f"https://127.0.0.1:{self._plane.port}", self._plane.tls(), None)
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
                            bound.setdefault(meta["name"], time.perf_counter())

        async def ask(method: str, path: str, body: bytes = b"") -> bytes:
            answer = await transport.request(Request(method, path, headers, body), lambda: True, LIMITS)
            assert answer.status < 300, answer.body
            return answer.body

        async def gang(number: int) -> None:
            await asyncio.sleep(max(0.0, begun + number * _SECONDS / self._gangs - time.perf_counter()))
            if rival.gangs:
                group = _group("default", f"b{number}", GANG)
                await ask("POST", path_of("PodGroup", namespace="default"), json.dumps(group).encode())
            for member in range(GANG):
                name = f"b{number}-{member}"
                body = json.dumps(_pod("default", name, f"b{number}", rival.name)).encode()
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
