"""How long a cycle takes Volcano's own code and tierwise, on large clusters that both are given alike.

In one scene gangs come to an empty cluster, each of which must be in one rack; in the others the cluster is full, and
gangs of a higher priority must evict, anywhere or within one rack. Volcano's session is opened before its clock runs;
tierwise's cycle opens within its own. Volcano works on all cores, so processor time is compared, and the time on the
wall is shown beside it. Rounds take turns; the medians count.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import go_programs
from drawn_gangs import Gang, Node, Pod, Queue, World, manifests
from go_programs import Conversation, UnavailableError

_DEVICES = {"cpu": 64, "memory": 256, "nvidia.com/gpu": 8, "pods": 110}
_NOW = 1_767_236_400.0


def arriving(nodes: int, gangs: int, *, rack: int = 20) -> World:
    """An empty cluster in racks and spines, and gangs of eight pods of two devices that must each be in one rack."""
    world = _cluster("enqueue, allocate, backfill", nodes, rack)
    for i in range(gangs):
        _gang(world, f"g{i}", 8, "low", {"cpu": 16, "nvidia.com/gpu": 2}, created=i, limit=("hard", 1))
    return world


def full(nodes: int, gangs: int, *, rack: int = 20, limit: tuple[str, int] | None = None) -> World:
    """A cluster full of gangs of eight single devices on two nodes, and gangs of four nodes of a higher priority."""
    world = _cluster("allocate, gangpreempt", nodes, rack)
    for i in range(nodes):
        on = [f"n{(i + rank % 2) % nodes}" for rank in range(8)]
        _gang(world, f"r{i}", 8, "low", {"cpu": 8, "nvidia.com/gpu": 1}, created=i, on=on)
    for i in range(gangs):
        _gang(world, f"h{i}", 4, "high", {"cpu": 64, "nvidia.com/gpu": 8}, created=nodes + i, limit=limit)
    return world


def full_racks(nodes: int, gangs: int) -> World:
    """The same where each of these must be in one rack."""
    return full(nodes, gangs, limit=("hard", 1))


def _cluster(actions: str, nodes: int, rack: int, spine: int = 5) -> World:
    world = World(0, actions, "proportion", frozenset())
    names = [f"n{i}" for i in range(nodes)]
    world.nodes = {name: Node(_DEVICES, {"kubernetes.io/hostname": name}) for name in names}
    racks = [names[i : i + rack] for i in range(0, nodes, rack)]
    world.domains = {f"rack{i}": (1, members) for i, members in enumerate(racks)}
    spines = [list(world.domains)[i : i + spine] for i in range(0, len(racks), spine)]
    world.domains |= {f"spine{i}": (2, members) for i, members in enumerate(spines)}
    world.domains["all"] = (3, [f"spine{i}" for i in range(len(spines))])
    world.queues = {"default": Queue()}
    return world


def _gang(
    world: World,
    name: str,
    size: int,
    priority: str,
    ask: dict[str, int],
    *,
    created: int,
    limit: tuple[str, int] | None = None,
    on: list[str] | None = None,
) -> None:
    phase = "Running" if on else "Inqueue"
    world.gangs[name] = Gang(name, "default", priority, size, created, limit=limit, phase=phase)
    for rank in range(size):
        world.pods[f"ns/{name}-{rank}"] = Pod(name, "", ask, node=on[rank] if on else "")


def ours(world: World) -> Callable[[], tuple[int, int, float, float]]:
    """One cycle of tierwise: pods that it binds or nominates, victims, processor time, time on the wall."""
    from tierwise.api.yaml_text import documents
    from tierwise.manifests.configuration import profile_in
    from tierwise.scheduler import cycle
    from tierwise.snapshot.builder import build
    from tierwise_lab.bench.manifests import read_manifests

    profile = profile_in(next(iter(documents(world.config().encode(), file="")))[0], "")
    snapshot = build(read_manifests(manifests(world)), _NOW, profile)

    def run() -> tuple[int, int, float, float]:
        wall, used = time.perf_counter(), time.process_time()
        report = cycle(snapshot, profile)
        took = time.process_time() - used, time.perf_counter() - wall
        return sum(one.count() for one in report.decisions), len(report.evictions), *took

    return run


SCENES = {"arriving": arriving, "full": full, "full-racks": full_racks}


def main() -> int:
    """Measure both from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scene", choices=SCENES, action="append")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--gangs", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    try:
        program = Conversation(go_programs.volcano())
    except UnavailableError as error:
        print(f"skipped: {error}", file=sys.stderr)
        return go_programs.SKIPPED
    for name in given.scene or SCENES:
        world = SCENES[name](given.nodes, given.gangs)
        question = {"config": world.config(), "objects": manifests(world), "times": 1}
        mine, found = ours(world), {"Volcano": [], "tierwise": []}
        for _ in range(given.rounds):
            program.send(question)
            one = program.receive()["answers"][0]
            pods = len(one["bound"]) + len(one["pipelined"])
            found["Volcano"].append((pods, len(one["evicted"]), one["processor"] / 1e6, one["micros"] / 1e6))
            found["tierwise"].append(mine())
        medians = {
            who: [statistics.median(column) for column in zip(*runs, strict=True)] for who, runs in found.items()
        }
        print(f"{name}: {given.nodes:,} nodes, {given.gangs:,} gangs, {given.rounds} rounds")
        for who, (pods, victims, used, wall) in medians.items():
            print(f"  {who:9} {pods:7,.0f} pods  {victims:5,.0f} victims  {used:8.3f} s of processor  {wall:8.3f} s")
        theirs, own = medians["Volcano"], medians["tierwise"]
        print(f"  Volcano / tierwise: {theirs[2] / own[2]:.1f} by processor time, {theirs[3] / own[3]:.1f} on the wall")
    program.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
