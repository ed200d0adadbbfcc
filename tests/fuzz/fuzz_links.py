"""Random histories of services: pods come, move and go, and no link ever carries more than it has.

    python -m tests.fuzz.fuzz_links --histories 10000 --seed 1

After every cycle the reservations are counted pair by pair, from the pods alone, and held against the capacities and
against what the controller wrote. Prints what went wrong with the seed of its history, and exits with 1 if it did.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from random import Random

from msgspec.structs import replace
from tests.support.services import (
    GROUP,
    REGION,
    WORKLOAD,
    ZONE,
    Raw,
    app_group,
    network,
    node,
    objects,
    pod,
    profile,
)

from tierwise.api.network_aware import NetworkTopology
from tierwise.config.profile import Profile
from tierwise.port import Create, Delete, Effect, Key
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.sim.cluster.driver import reconcile
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import build

__all__ = ["history"]

STEPS = 5
Calls = list[tuple[str, str, dict[str, object]]]


class _World:
    """One cluster and its past."""

    def __init__(self, pick: Random) -> None:
        self._pick = pick
        self._made = 0
        spots = [f"r{r}/z{r}{z}" for r in range(pick.randint(1, 2)) for z in range(pick.randint(1, 3))]
        self.nodes = [node(f"n{i}", pick.choice([*spots, *spots, ""]), cpu=pick.randint(1, 4)) for i in range(6)]
        self.calls = {name: self._calls() for name in ("shop", "bank")[: pick.randint(1, 2)]}
        self.capacities = {
            f"{a}>{b}": pick.choice((0, 5, 12, 30, 100))
            for names in ([s.partition("/")[0] for s in spots], [s.partition("/")[2] for s in spots])
            for a in sorted(set(names))
            for b in sorted(set(names))
            if a != b and pick.random() < 0.8
        }
        links = {link: {"bandwidthCapacity": str(n), "networkCost": 5} for link, n in self.capacities.items()}
        groups = [app_group(calls, name=name) for name, calls in self.calls.items()]
        gang = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "gang"}}
        gang["spec"] = {"minMember": 2}
        self.cluster = EmbeddedCluster(objects(*self.nodes, network(links), gang, *groups))
        self.profile = self._profile()

    def _calls(self) -> Calls:
        """Who calls whom: chains, circles, and workloads that call themselves."""
        pick, names = self._pick, ("a", "b", "c")
        pairs = [(x, y) for x in names for y in names if pick.random() < 0.4] or [("a", "b")]
        return [(x, y, {"minBandwidth": str(pick.choice((0, 1, 3, 7))), "maxNetworkCost": 9}) for x, y in pairs]

    def _profile(self) -> Profile:
        arguments = {"bothWays": self._pick.random() < 0.5, "lookAhead": self._pick.random() < 0.3}
        made = profile(**arguments)
        if self._pick.random() < 0.3:
            return replace(made, actions=("enqueue", "allocate", "gangpreempt"))
        return made

    def news(self) -> None:
        """Some pods come, some go; a pod that moves does both."""
        pick = self._pick
        asked: list[Effect] = []
        for key in [key for key in self.cluster.read() if key.kind == "Pod"]:
            if pick.random() < 0.25:
                asked.append(Delete(key))
        for _ in range(pick.randint(1, 5)):
            asked.append(Create(self._pod()))
        self.cluster.apply(asked)

    def _pod(self) -> Raw:
        self._made += 1
        group = self._pick.choice(sorted(self.calls))
        made = pod(f"p{self._made}", self._pick.choice("abc"), group=group)
        made["spec"]["priority"] = self._pick.randint(0, 2)
        if self._pick.random() < 0.3:
            made["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "gang"}
        return made

    def turn(self) -> None:
        """Controllers, one cycle, its effects, a moment's pause."""
        reconcile(self.cluster, 0.0)
        snapshot = build(self.cluster.read(), 0.0, self.profile)
        self.cluster.apply(effects(snapshot, cycle(snapshot, self.profile)))
        self.cluster.advance_pods()
        reconcile(self.cluster, 0.0)

    def reserved(self) -> dict[str, int]:
        """What each link carries, counted pair by pair."""
        at = {n["metadata"]["name"]: n["metadata"]["labels"] for n in self.nodes}
        held = [raw for key in self.cluster.read() if key.kind == "Pod" and (raw := self.cluster.read().raw(key))]
        placed = [p for p in held if p["spec"].get("nodeName")]  # type: ignore[attr-defined]
        total: dict[str, int] = {}
        for caller in placed:
            for callee in placed:
                bandwidth = self._asks(_labels(caller), _labels(callee))
                link = _link(at[_node(caller)], at[_node(callee)])
                if caller is not callee and bandwidth and link:
                    total[link] = total.get(link, 0) + bandwidth
        return total

    def _asks(self, caller: Raw, callee: Raw) -> int:
        if caller[GROUP] != callee[GROUP]:
            return 0
        pair = (caller[WORKLOAD], callee[WORKLOAD])
        return sum(int(str(f["minBandwidth"])) for a, b, f in self.calls[caller[GROUP]] if (a, b) == pair)

    def written(self) -> dict[str, int]:
        """What the controller says that each link carries."""
        key = Key("networktopology.diktyo.x-k8s.io", "NetworkTopology", "default", "nt-default")
        record = self.cluster.read().record(key)
        assert isinstance(record, NetworkTopology)
        return {
            f"{origin.origin}>{cost.destination}": int(cost.bandwidth_allocated or 0)
            for table in record.spec.weights[0].keys
            for origin in table.origins
            for cost in origin.costs
        }

    def faults(self) -> Iterator[str]:
        reserved, written = self.reserved(), self.written()
        for link, capacity in self.capacities.items():
            carries = reserved.get(link, 0)
            if carries > capacity:
                yield f"link {link} carries {carries} of {capacity}"
            if carries != written[link]:
                yield f"link {link} carries {carries}, and the controller wrote {written[link]}"


def _labels(raw: Raw) -> Raw:
    labels: Raw = raw["metadata"]["labels"]
    return labels


def _node(raw: Raw) -> str:
    return str(raw["spec"]["nodeName"])


def _link(one: Raw, other: Raw) -> str:
    """The link from one node's labels to another's, by the words of the specification."""
    if not one or not other or one == other:
        return ""
    if one.get(REGION) != other.get(REGION):
        return f"{one.get(REGION)}>{other.get(REGION)}"
    return f"{one.get(ZONE)}>{other.get(ZONE)}" if one.get(ZONE) != other.get(ZONE) else ""


def history(seed: int) -> list[str]:
    """One history; what went wrong in it."""
    world = _World(Random(seed))
    found = []
    for step in range(STEPS):
        world.news()
        world.turn()
        found += [f"seed {seed} step {step}: {fault}" for fault in world.faults()]
    return found


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    faults: list[str] = []
    for number in range(asked.histories):
        faults += history(asked.seed + number)
        if number % 500 == 499:
            print(f"{number + 1} histories, {len(faults)} faults", flush=True)
    for fault in faults[:20]:
        print(fault)
    print(f"{asked.histories} histories of {STEPS} cycles, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
