"""What our side of a bind costs, step by step, in microseconds of processor time for each pod.

    python tools/bind_budget.py [PODS]

Gangs of 16, each in one rack, come six at a time to 1,000 nodes as lines of a watch, are read, decided and encoded as
Bindings, and come back bound. No server takes part: sockets, TLS and the event loop are what `make bench-kube` shows
beyond this.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any, TypeVar

import msgspec

from tierwise.config.profile import DEFAULT
from tierwise.kube.decoding import Event, event
from tierwise.kube.kinds import Resource
from tierwise.port import Bind, Objects, key_of
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.snapshot.builder import Reader
from tierwise_lab.bench.manifests import Manifest, group, node, pod, racks, read_manifests
from tierwise_lab.bench.measure import gc_off

GANG, AT_ONCE, NODES, ROUNDS = 16, 6, 1_000, 8
PODS = Resource("", "v1", "Pod", "pods", namespaced=True, status=True)
T = TypeVar("T")


def _pod(gang: int, rank: int) -> Manifest:
    """As an API server sends it, some 4 KB."""
    raw = pod(gang, rank, on="")
    raw["metadata"] |= {"uid": f"u{gang}-{rank}", "resourceVersion": "7", "managedFields": [{"f": ["x" * 20] * 40}]}
    raw["spec"]["containers"][0]["env"] = [{"name": f"VARIABLE_{i}", "value": "v" * 20} for i in range(12)]
    raw["spec"]["volumes"] = [{"name": "token", "projected": {"sources": [{"configMap": {"name": "ca"}}]}}]
    return raw


def _lines(kind: str, pods: Sequence[Manifest]) -> list[bytes]:
    return [json.dumps({"type": kind, "object": raw}).encode() for raw in pods]


def _binding(bind: Bind) -> bytes:
    meta = {"name": bind.pod.name, "namespace": bind.pod.namespace, "uid": "u", "annotations": dict(bind.annotations)}
    target = {"apiVersion": "v1", "kind": "Node", "name": bind.node}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target})


def measure(gangs: int) -> dict[str, float]:
    """Seconds of each step for all pods."""
    seconds: dict[str, float] = {}

    def timed(name: str, step: Callable[[], T]) -> T:
        begun = process_time()
        found = step()
        seconds[name] = seconds.get(name, 0.0) + process_time() - begun
        return found

    def held(objects: Objects, events: Sequence[Event]) -> Objects:
        entries = {key_of(e.entry[0]): e.entry for e in events if e.entry is not None}
        return objects.updated(entries, (), objects.version + 1)

    groups: list[Any] = [group(g, minimum=GANG, phase="Inqueue") for g in range(gangs)]
    for raw in groups:
        raw["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    objects, reader = read_manifests([*map(node, range(NODES)), *racks(NODES), *groups]), Reader()
    reader.read(objects, 0.0)
    for first in range(0, gangs, AT_ONCE):
        pods = [_pod(g, i) for g in range(first, min(first + AT_ONCE, gangs)) for i in range(GANG)]
        lines = _lines("ADDED", pods)
        events = timed("decode", lambda lines=lines: [event(PODS, line) for line in lines])
        objects = timed("hold", lambda o=objects, e=events: held(o, e))
        seen = timed("diff and read", lambda o=objects: reader.read(o, 0.0))
        report = timed("cycle", lambda s=seen: cycle(s, DEFAULT))
        wanted = timed("effects", lambda s=seen, r=report: effects(s, r))
        binds = [effect for effect in wanted if isinstance(effect, Bind)]
        timed("encode", lambda b=binds: [_binding(bind) for bind in b])
        nodes = {bind.pod.name: bind for bind in binds}
        for raw in pods:
            bind = nodes[raw["metadata"]["name"]]
            raw["spec"]["nodeName"] = bind.node
            raw["metadata"]["annotations"] |= dict(bind.annotations)
        lines = _lines("MODIFIED", pods)
        events = timed("decode, bound", lambda lines=lines: [event(PODS, line) for line in lines])
        objects = timed("hold, bound", lambda o=objects, e=events: held(o, e))
        timed("diff and read, bound", lambda o=objects: reader.read(o, 0.0))
    return seconds


def main() -> None:
    """Print the least of several rounds."""
    gangs = int(sys.argv[1] if len(sys.argv) > 1 else 960) // GANG
    measure(gangs)
    with gc_off():
        rounds = [measure(gangs) for _ in range(ROUNDS)]
    least = {name: min(one[name] for one in rounds) for name in rounds[0]}
    for name, seconds in {**least, "all": sum(least.values())}.items():
        print(f"{name:22} {seconds / gangs / GANG * 1e6:6.1f} µs")


if __name__ == "__main__":
    main()
