"""Gangs of several sizes whose pods take volumes from each other start exactly where there is a way."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from typing import Final

import msgspec
import pytest
from tests.support import volumes as draw
from tests.support.depth import size
from tests.support.drawn_gang import manifest
from tests.support.koordinator import hypernode
from tests.support.sight import schedule

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.model.job import Verdict

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ZONES: Final = ("z1", "z1", "z2")
RACKS: Final = (("n0", "n1"), ("n2",))
DRAWN = size(80, 5000, quick=20)


class _Pod(msgspec.Struct, frozen=True):
    """A pod of the gang: its size, whether it wants a volume for itself, what it shares, and how it uses a disk."""

    cpu: int
    wants: bool = False
    shared: str = ""  # "once": a claim for one pod at a time; "data": a volume of a driver with a limit
    disk: str = ""  # "read" or "write"


class _World(msgspec.Struct, frozen=True):
    """Three nodes in two zones, volumes that one node or one zone reaches, and a gang that needs all of its pods."""

    cpus: tuple[int, ...]
    attaches: tuple[int, ...]  # by node: how many volumes of the driver
    by_node: bool
    reached: tuple[int, ...]  # by volume: from which node, or from which zone by the number of a node in it
    pods: tuple[_Pod, ...]
    racked: bool = False  # whether all of them share a rack, of which the first two nodes are one

    def manifests(self) -> list[Raw]:
        """The cluster and the gang."""
        found = [draw.storage_class("local", "kubernetes.io/no-provisioner")]
        for i, cpu in enumerate(self.cpus):
            found.append(draw.node(f"n{i}", ZONES[i], cpu=str(cpu)))
            found.append(draw.csi_node(f"n{i}", csi_test=self.attaches[i]))
        for i, at in enumerate(self.reached):
            near = draw.within(HOST, f"n{at}") if self.by_node else draw.within(ZONE, ZONES[at])
            found.append(draw.volume(f"v{i}", affinity=near, storageClassName="local", local={}))
        found += [
            draw.volume("of-once", "once", hostPath={}),
            draw.claim("once", "of-once", modes=("ReadWriteOncePod",)),
            draw.volume("of-data", "data", csi={"driver": "csi.test", "volumeHandle": "h"}),
            draw.claim("data", "of-data"),
        ]
        for i, pod in enumerate(self.pods):
            claims = [f"own{i}"] if pod.wants else []
            if pod.wants:
                found.append(draw.claim(f"own{i}", storageClassName="local"))
            claims += [pod.shared] if pod.shared else []
            disk: Raw = {"name": "disk", "gcePersistentDisk": {"pdName": "a", "readOnly": pod.disk == "read"}}
            disks = (disk,) if pod.disk else ()
            found.append(draw.pod(f"p{i}", *claims, cpu=str(pod.cpu), volumes=disks, group="g"))
        spec: Raw = {"minMember": len(self.pods)}
        if self.racked:
            found += [hypernode(f"r{i}", 1, [("Node", name) for name in names]) for i, names in enumerate(RACKS)]
            spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
        meta: Raw = {"name": "g", "namespace": "default"}
        group = manifest("scheduling.volcano.sh/v1beta1", "PodGroup", meta, spec=spec, status={"phase": "Inqueue"})
        return [*found, group]

    def startable(self) -> bool:
        """Every way to put the pods on nodes, looked at one by one."""
        if sum(pod.shared == "once" for pod in self.pods) > 1:
            return False
        return any(self._holds(way) for way in product(range(len(self.cpus)), repeat=len(self.pods)))

    def _holds(self, way: tuple[int, ...]) -> bool:
        if self.racked and len({min(at, 2) // 2 for at in way}) > 1:
            return False
        there = Counter(at if self.by_node else ZONES[at] for at in self.reached)
        taken = Counter(at if self.by_node else ZONES[at] for at, pod in zip(way, self.pods, strict=True) if pod.wants)
        if any(number > there[place] for place, number in taken.items()):
            return False
        for node, cpu in enumerate(self.cpus):
            here = [pod for at, pod in zip(way, self.pods, strict=True) if at == node]
            disks = [pod.disk for pod in here if pod.disk]
            if sum(pod.cpu for pod in here) > cpu or (len(disks) > 1 and "write" in disks):
                return False
            if any(pod.shared == "data" for pod in here) and not self.attaches[node]:
                return False
        return True


def _drawn(chance: random.Random) -> _World:
    kinds = []
    for _ in range(chance.choice((1, 2, 2, 3))):
        shared, disk = chance.choice(("", "", "once", "data")), chance.choice(("", "", "read", "write"))
        kinds.append(_Pod(chance.randint(1, 3), chance.random() < 0.6, shared, disk))
    pods = [kind for kind in kinds for _ in range(1 if kind.shared == "once" else chance.randint(1, 2))]
    cpus, attaches = [chance.randint(1, 6) for _ in ZONES], [chance.randint(0, 1) for _ in ZONES]
    reached = [chance.randrange(3) for _ in range(chance.randint(1, 4))]
    by_node, racked = chance.random() < 0.5, chance.random() < 0.4
    return _World((*cpus,), (*attaches,), by_node, (*reached,), (*pods,), racked)


@pytest.mark.parametrize("part", range(2))
def test_gangs_start_exactly_where_their_volumes_allow(part: int) -> None:
    """Volumes of nodes and of zones, claims for one pod at a time, disks, and a driver that attaches only so many."""
    starts: Counter[bool] = Counter()
    for seed in range(part * DRAWN, (part + 1) * DRAWN):
        world = _drawn(random.Random(f"volumes {seed}"))
        history = schedule(draw.objects(*world.manifests()), DEFAULT, now=0.0, cycles=1)
        found = len(history.reports[0][1].decisions) > 0
        rejection = history.reports[0][1].rejections.get("default/g")
        starts[found] += 1

        assert found == world.startable(), (seed, world, rejection)
        once = sum(pod.shared == "once" for pod in world.pods)
        if rejection is not None and rejection.verdict is Verdict.NEVER and once < 2:
            assert not world.startable(), seed
    assert min(starts[True], starts[False]) > DRAWN // 10, starts
