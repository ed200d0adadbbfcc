"""How reading, deciding and following grow with a cluster: one run for one number of nodes, for the scale sheet.

Each node has ten pods: seven of gangs and three of DaemonSets. Records are kept as a live scheduler keeps them, without
their manifests. Seconds are processor time, memory is the peak of the process.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from time import process_time

import msgspec

from tierwise.api import codec
from tierwise.config.profile import DEFAULT
from tierwise.port import Key, Objects, key_of_raw
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import Reader
from tierwise_lab.bench.manifests import GANG, Manifest, daemon_pod, group, node, pod, racks
from tierwise_lab.bench.measure import gc_off, timed

__all__ = ["measure_scale"]

_GANG_PODS, _DAEMONS = 7, 3
_WAITING, _SIZE = 100, 8
_BATCH = 10_000


class Scale(msgspec.Struct, frozen=True):
    """Times and memory of one size."""

    nodes: int
    pods: int
    read: float  # seconds to read everything for the first time
    cycle: float  # seconds of a cycle that places a hundred gangs of eight
    change: float  # seconds to follow one pod that ends
    pod: float  # seconds to follow one pod that comes
    memory: int  # bytes


def measure_scale(nodes: int) -> Scale:
    """Read, decide and follow a cluster of so many nodes."""
    objects = _held(_everything(nodes))
    pods = sum(1 for key in objects if key.kind == "Pod")
    reader = Reader()
    with gc_off():
        read_seconds, snapshot = timed(lambda: reader.read(objects, 0.0))
        decided, report = timed(lambda: cycle(snapshot, DEFAULT))
        placed = len(report.decisions)
        if placed != min(_WAITING, nodes // 16):
            raise RuntimeError(f"the gangs that wait are meant to fit, and {placed} did")
        ends = [{**pod(0, i, on="n0"), "status": {"phase": "Succeeded"}} for i in range(1, 6)]
        comes = [pod(0, GANG + i, on="") for i in range(5)]
        change, objects = _followed(reader, objects, ends)
        came, objects = _followed(reader, objects, comes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Scale(nodes, pods, read_seconds, decided, change, came, peak)


def _everything(nodes: int) -> Iterator[Manifest]:
    yield from (node(i) for i in range(nodes))
    yield from racks(nodes)
    gangs = -(-nodes * _GANG_PODS // GANG)
    for gang in range(gangs):
        members = range(min(GANG, nodes * _GANG_PODS - gang * GANG))
        yield group(gang, minimum=len(members))
        yield from (pod(gang, rank, on=f"n{(gang * GANG + rank) // _GANG_PODS}") for rank in members)
    yield from (daemon_pod(d, f"n{i}") for i in range(nodes) for d in range(_DAEMONS))
    for gang in range(gangs, gangs + min(_WAITING, nodes // 16)):
        yield group(gang, minimum=_SIZE, phase="Inqueue")
        yield from (pod(gang, rank, on="") for rank in range(_SIZE))


def _held(manifests: Iterator[Manifest]) -> Objects:
    """Records without their manifests, taken in by batches as lists of an API server come."""
    objects = Objects()
    batch: dict[Key, tuple[codec.Object, Manifest | None]] = {}
    for raw in manifests:
        batch[key_of_raw(raw)] = codec.decode(raw), None
        if len(batch) >= _BATCH:
            objects = objects.updated(batch, (), objects.version + 1)
            batch = {}
    return objects.updated(batch, (), objects.version + 1)


def _followed(reader: Reader, objects: Objects, raws: list[Manifest]) -> tuple[float, Objects]:
    """The shortest time to hold and read one of these, each after the other."""
    shortest = float("inf")
    for raw in raws:
        entry = codec.decode(raw), None
        begun = process_time()
        objects = objects.updated({key_of_raw(raw): entry}, (), objects.version + 1)
        reader.read(objects, 0.0)
        shortest = min(shortest, process_time() - begun)
    return shortest, objects
