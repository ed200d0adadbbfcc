"""Small clusters with gangs that run, for tests of defragmentation: what is asked for, and whether places hold."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from hypothesis import strategies as st
from tests.support.draw import Gang, draw, gang, objects_of

from tierwise.api.core import Pod
from tierwise.api.merge_patch import merged
from tierwise.port import Objects
from tierwise.scheduler.effects import pod_key

__all__ = ["RACK", "SIZE", "Cluster", "clusters", "owned"]

RACK = {"n0": "r0", "n1": "r0", "n2": "r1", "n3": "r1", "n4": "r2"}
SIZE = 4


class Cluster(msgspec.Struct, frozen=True):
    """Five nodes of four GPUs in three racks with gangs that run, and the room that is asked for."""

    gangs: tuple[Gang, ...]
    fixed: tuple[tuple[str, int], ...]  # pods that nothing would start again, by node
    pods: int
    each: int
    tier: str

    @property
    def text(self) -> str:
        return f"nvidia.com/gpu={self.each}x{self.pods}@{self.tier}"

    def objects(self) -> Objects:
        running = " ".join(f"{node}:gpu={size}" for node, size in self.fixed)
        return objects_of(draw("s0[r0[n0 n1] r1[n2 n3] r2[n4]]", node=f"gpu={SIZE}", running=running), *self.gangs)

    def where(self) -> dict[str, str]:
        """The node of every pod that may move."""
        return {f"default/{g.name}-{i}": node for g in self.gangs for i, node in enumerate(g.on.split())}

    def holds(self, places: Mapping[str, str], *, room: bool) -> bool:
        """Whether nodes hold these places, gangs keep their limits, and, if asked, the room is there."""
        free = dict.fromkeys(RACK, SIZE)
        for node, size in self.fixed:
            free[node] -= size
        for g in self.gangs:
            own = [places[f"default/{g.name}-{i}"] for i in range(g.tasks)]
            for node in own:
                free[node] -= int(g.each.partition("=")[2])
            if g.within == 1 and len({RACK[node] for node in own}) > 1:
                return False
        if min(free.values()) < 0:
            return False
        racks = [[n for n in RACK if RACK[n] == rack] for rack in ("r0", "r1", "r2")]
        domains = racks if self.tier == "1" else [list(RACK)]
        return not room or any(sum(free[n] // self.each for n in nodes) >= self.pods for nodes in domains)


@st.composite
def clusters(draws: st.DrawFn) -> Cluster:
    """Up to three gangs of one or two pods where there is room for them."""
    free = dict.fromkeys(RACK, SIZE)
    gangs, fixed = [], []
    for number in range(draws(st.integers(1, 3))):
        size, tasks, within = draws(st.integers(1, 3)), draws(st.integers(1, 2)), draws(st.sampled_from([1, 2]))
        rack = draws(st.sampled_from(["r0", "r1", "r2"]))
        on: list[str] = []
        for _ in range(tasks):
            nodes = [n for n, left in free.items() if left >= size and (within == 2 or RACK[n] == rack)]
            if nodes:
                on.append(draws(st.sampled_from(nodes)))
                free[on[-1]] -= size
        if on:
            least = draws(st.integers(1, len(on)))
            where = " ".join(on)
            gangs.append(gang(f"g{number}", tasks=len(on), each=f"gpu={size}", within=within, minimum=least, on=where))
    for node in draws(st.lists(st.sampled_from(list(RACK)), max_size=1)):
        if free[node]:
            fixed.append((node, 1))
    each = draws(st.sampled_from([2, 3, 4]))
    return Cluster(tuple(gangs), tuple(fixed), draws(st.integers(1, 2)), each, draws(st.sampled_from(["1", "2"])))


def owned(objects: Objects) -> Objects:
    """The same with an owner for each pod, who would start it again."""
    puts = {}
    for path in objects.every(Pod):
        key, raw = pod_key(path), objects.raw(pod_key(path))
        assert raw is not None
        name = path.rpartition("/")[2].rpartition("-")[0]
        owner = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": name,
            "uid": f"owner-{name}",
            "controller": True,
        }
        puts[key] = merged(raw, {"metadata": {"ownerReferences": [owner]}})
    return objects.changed(puts)
