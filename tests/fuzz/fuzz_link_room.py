"""Random histories on the ledger alone: pods are placed, tried and undone, and links are counted after every step.

    python -m tests.fuzz.fuzz_link_room --histories 10000 --seed 1

Whole cycles are in `fuzz_links`; here nothing but the ledger and its links is at work, so many more fit into a minute.
"""

from __future__ import annotations

import argparse
import sys
from random import Random

import numpy as np
from tests.support.services import (
    app_group,
    network,
    node,
    objects,
    pod,
    profile,
)

from tierwise.framework.ledger import Ledger, Pool
from tierwise.model.job import Shape
from tierwise.model.services import Link, link_between
from tierwise.plugins.network_overhead.dependencies import Calls
from tierwise.plugins.network_overhead.zones import Edge, LinkBandwidth, Zones
from tierwise.snapshot.builder import build

__all__ = ["histories"]

SERVICES = ("a", "b", "c", "d")
SPOTS = ("ra/z1", "ra/z2", "ra/z3", "rb/z4", "rb/z1", "")
STEPS = 14


class _Room:
    """A ledger with its links, and the same counted pod by pod."""

    def __init__(self, pick: Random) -> None:
        nodes = [node(f"n{i}", pick.choice(SPOTS), cpu=64) for i in range(7)]
        pairs = [(x, y) for x in SERVICES for y in SERVICES if pick.random() < 0.4] or [("a", "b")]
        calls = [(x, y, {"minBandwidth": str(pick.choice((0, 1, 3, 7)))}) for x, y in pairs]
        pods = [pod(f"p-{name}", name) for name in SERVICES]
        pods += [pod(f"r{i}", pick.choice(SERVICES), on=f"n{pick.randrange(7)}") for i in range(pick.randint(0, 3))]
        ends = [(f"z{i}", f"z{j}") for i in range(1, 5) for j in range(1, 5)] + [("ra", "rb"), ("rb", "ra")]
        # Wide enough for whoever stands already.
        given = {f"{a}>{b}": {"bandwidthCapacity": str(pick.choice((30, 60, 90)))} for a, b in ends if a != b}
        held = objects(*nodes, app_group(calls), network(given), *pods)
        self.snapshot = build(held, 0.0, profile())
        self.ledger = Ledger(self.snapshot)
        self.spots = Zones(self.snapshot.nodes)
        self.calls = Calls(self.snapshot.services, self.snapshot.shapes)
        edges = [Edge(a, b, d.bandwidth) for a, b, d in self.calls.pairs if d.bandwidth]
        capacities = self.snapshot.services.maps["default/nt-default"].capacities("UserDefined")
        self.links = LinkBandwidth(self.ledger, self.spots, capacities, self.calls.kind, edges)
        self.shapes = {shape.service[1]: shape for shape in self.snapshot.shapes if shape.service is not None}
        self.standing = [(n, int(row)) for n, rows in self.ledger.held.items() for row in rows]

    def reserved(self) -> dict[Link, int]:
        total = dict.fromkeys(self.links.links, 0)
        for caller, row in self.standing:
            for callee, other in self.standing:
                link = link_between(self.spots[int(self.spots.of_row[row])], self.spots[int(self.spots.of_row[other])])
                if link in total:
                    pair = (self.calls.kind[caller], self.calls.kind[callee])
                    total[link] += sum(d.bandwidth for a, b, d in self.calls.pairs if (a, b) == pair)
        return total

    def place(self, shape: Shape, row: int) -> bool:
        """Place a pod where the links let it."""
        kind = self.calls.kind[shape.number]
        spot = int(self.spots.of_row[row])
        if self.links.concerns(kind) and self.links.overloaded(kind)[spot] >= 0:
            return False
        self.ledger.place(shape, np.array([row]), np.array([1]), pool=Pool.IDLE)
        self.standing.append((shape.number, row))
        return True

    def faults(self) -> list[str]:
        found = []
        for link, counted in self.reserved().items():
            number = self.links.links.index(link)
            if counted != self.links.reserved[number]:
                found.append(f"link {link} carries {counted}, the ledger says {self.links.reserved[number]}")
            if counted > self.links.capacity[number]:
                found.append(f"link {link} carries {counted} of {self.links.capacity[number]}")
        return found


def histories(seed: int, number: int) -> list[str]:
    """So many histories on one cluster, each undone at its end; what went wrong in them."""
    pick = Random(seed)
    room = _Room(pick)
    found: list[str] = []
    for _ in range(number):
        start, marks = len(room.standing), [(room.ledger.mark(), len(room.standing))]
        for _ in range(STEPS):
            if pick.random() < 0.2:
                mark, standing = marks[pick.randrange(len(marks))]
                room.ledger.rewind(mark)
                del room.standing[standing:]
                marks = [(m, s) for m, s in marks if m <= mark]
            else:
                room.place(room.shapes[pick.choice(SERVICES)], pick.randrange(7))
                marks.append((room.ledger.mark(), len(room.standing)))
        found += [f"seed {seed}: {fault}" for fault in room.faults()]
        room.ledger.rewind(marks[0][0])
        del room.standing[start:]
    return found


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    faults = [f for i in range(0, asked.histories, 20) for f in histories(asked.seed + i, 20)]
    for fault in faults[:20]:
        print(fault)
    print(f"{asked.histories} histories of {STEPS} steps, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
