"""A cluster as large as wished, always the same one: most of it full, many jobs that wait for a few reasons, a queue
above its share, and an urgent gang for which the scheduler evicts others.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
from tests.support.drawn_gang import manifest

from tierwise.api.codec import Raw
from tierwise.api.core import format_time

__all__ = ["CONFIG", "GPU", "IN_RACK", "NOW", "RACKS", "large_cluster", "written"]

NOW = 1_772_443_800.0  # 2026-03-02T09:30:00Z
GPU = "nvidia.com/gpu"
IN_RACK, RACKS, LEAVES = 10, 10, 10
TIERS = {1: "rack", 2: "leaf", 3: "spine"}
TEAMS = ("speech", "vision", "search", "evals")
CONFIG = """actions: "enqueue, allocate, gangpreempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: capacity
  - name: binpack
  - name: network-topology-aware
"""


def large_cluster(nodes: int) -> list[Raw]:
    """Nodes of 8 GPUs, ten to a rack, ten racks to a leaf, ten leaves to a spine; and what runs and waits there."""
    racks = nodes // IN_RACK
    found = [_node(f"node-{number:05d}", number % 97 == 13) for number in range(nodes)]
    found += _tree(racks)
    share = str(nodes * 16 // 5)  # more than each uses
    found += [_queue(team, "80" if team == "evals" else share) for team in TEAMS]
    found += _running(racks)
    found += _waiting(racks)
    return found


def written(folder: Path, nodes: int) -> tuple[Path, Path]:
    """The same as files, the objects and the configuration, as commands read them."""
    file, config = folder / f"cluster-{nodes}.json", folder / "scheduler.conf"
    file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": large_cluster(nodes)}))
    config.write_text(CONFIG)
    return file, config


def _node(name: str, shut: bool) -> Raw:
    has = {"pods": "110", "cpu": "128", GPU: "8"}
    return manifest(
        "v1",
        "Node",
        {"name": name, "labels": {"kubernetes.io/hostname": name}},
        spec={"unschedulable": shut},
        status={"allocatable": has, "capacity": has},
    )


def _tree(racks: int) -> list[Raw]:
    found, below = [], [f"node-{number:05d}" for number in range(racks * IN_RACK)]
    for tier, (name, each) in enumerate(zip(TIERS.values(), (IN_RACK, RACKS, LEAVES), strict=True), start=1):
        kind, parts = "Node" if tier == 1 else "HyperNode", [below[i : i + each] for i in range(0, len(below), each)]
        below = [f"{name}-{number}" for number in range(len(parts))]
        for domain, members in zip(below, parts, strict=True):
            selected: list[Raw] = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
            spec: Raw = {"tier": tier, "tierName": name, "members": selected}
            found.append(manifest("topology.volcano.sh/v1alpha1", "HyperNode", {"name": domain}, spec=spec))
    return found


def _queue(name: str, deserved: str) -> Raw:
    spec: Raw = {"weight": 1, "reclaimable": True, "deserved": {GPU: deserved}}
    return manifest("scheduling.volcano.sh/v1beta1", "Queue", {"name": name}, spec=spec, status={"state": "Open"})


def _gang(
    name: str, pods: int, gpus: int, *, tier: int, on: Sequence[str], age: float, queue: str, priority: int = 0
) -> list[Raw]:
    created = format_time(NOW - age)
    policy: Raw = {"networkTopology": {"mode": "hard", "highestTierAllowed": tier}} if tier else {}
    spec: Raw = {"minMember": pods, "queue": queue, **policy}
    found = [
        manifest(
            "scheduling.volcano.sh/v1beta1",
            "PodGroup",
            {"name": name, "namespace": f"team-{queue}", "creationTimestamp": created},
            spec=spec,
            status={"phase": "Running" if on else "Inqueue"},
        )
    ]
    asks = {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    for number in range(pods):
        metadata: Raw = {
            "name": f"{name}-{number}",
            "namespace": f"team-{queue}",
            "creationTimestamp": created,
            "annotations": {"scheduling.k8s.io/group-name": name, "tierwise.io/run-for": f"{6 + number % 3}h"},
        }
        main: Raw = {"name": "main", "resources": asks}
        of_pod: Raw = {"schedulerName": "volcano", "priority": priority, "containers": [main]}
        status: Raw = {"phase": "Pending"}
        if on:
            of_pod["nodeName"], status = on[number % len(on)], {"phase": "Running", "startTime": created}
        found.append(manifest("v1", "Pod", metadata, spec=of_pod, status=status))
    return found


def _running(racks: int) -> list[Raw]:
    """Three in four racks are full of gangs that stay in them; the others hold some."""
    chance, found = random.Random(1), list[Raw]()
    for rack in range(racks):
        nodes = [f"node-{rack * IN_RACK + i:05d}" for i in range(IN_RACK)]
        share = 1.0 if rack % 7 != 3 else chance.choice((0.3, 0.7))
        queue = "evals" if rack % 20 == 1 else TEAMS[rack % 3]
        while nodes and (len(nodes) == IN_RACK or chance.random() < share):  # no rack is empty
            size = chance.choice((1, 2, 4))
            here, nodes = nodes[:size], nodes[size:]
            name, age = f"{queue}-{rack}-{IN_RACK - len(nodes)}", 3600.0 * chance.randint(1, 40) / 8
            found += _gang(name, len(here), 8, tier=1, on=here, age=age, queue=queue)
    return found


def _waiting(racks: int) -> list[Raw]:
    """Gangs that a rack never holds, that no rack holds now, of pods that no node holds; and one that evicts."""
    found = []
    for number in range(racks // 5):
        queue, age = TEAMS[number % 3], 60.0 * (number + 1)
        of: dict[int, tuple[str, int, int, int]] = {
            0: ("wide", 14, 8, 1),
            1: ("rack", 10, 8, 1),
            2: ("leaf", 70, 8, 2),
            3: ("big", 1, 16, 0),
        }
        kind, pods, gpus, tier = of[number % 4]
        name = f"{kind}-{number:03d}"
        found += _gang(name, pods, gpus, tier=tier, on=[], age=age, queue=queue)
    return found + _gang("urgent", 10, 8, tier=1, on=[], age=30.0, queue="search", priority=1000)
