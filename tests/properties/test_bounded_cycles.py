"""Cycles that place so many pods at most, one after another, against one that places them all."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.config.profile import DEFAULT, Profile
from tierwise.config.volcano import read_volcano
from tierwise.port import Objects
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import SchedulerProfile
from tierwise.sim.cluster.store import EmbeddedCluster

QUEUES = ("a", "b")
_FIRST = [{"name": "priority"}, {"name": "gang"}]
_SECOND = [{"name": name} for name in ("proportion", "predicates", "nodeorder", "network-topology-aware")]
FAIR = read_volcano({"actions": "enqueue, allocate, backfill", "tiers": [{"plugins": _FIRST}, {"plugins": _SECOND}]})


def manifest(version: str, kind: str, name: str, namespace: str = "", **body: Any) -> Raw:
    """An object in few words."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **body}


def crowd(pick: Random) -> list[Raw]:
    """A cluster, and more pods than it holds: gangs, gangs that need only some of their pods, and plain ones.

    The pods of a gang are alike: which of several kinds comes first beyond the minimum depends on those that wait yet.
    """
    nodes = pick.randint(2, 6)
    made = [manifest("scheduling.volcano.sh/v1beta1", "Queue", q, spec={"weight": pick.randint(1, 3)}) for q in QUEUES]
    for i in range(nodes):
        node: Any = manifest("v1", "Node", f"n{i}", status={"allocatable": {"cpu": "8", "pods": "9"}})
        node["metadata"]["labels"] = {"rack": f"r{i % 2}"}
        made.append(node)
    for rack in range(2):
        member = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": f"r{rack}"}}}}
        spec = {"tier": 1, "members": [member]}
        made.append(manifest("topology.volcano.sh/v1alpha1", "HyperNode", f"r{rack}", spec=spec))
    for g in range(pick.randint(1, 5)):
        size = pick.randint(1, 5)
        limit = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}} if pick.random() < 0.4 else {}
        spec = {"minMember": pick.randint(1, size), "queue": pick.choice(QUEUES), **limit}
        made.append(manifest("scheduling.volcano.sh/v1beta1", "PodGroup", f"g{g}", "d", spec=spec))
        cpus = pick.choice([1, 2, 4])
        made += [_pod(f"g{g}-{i}", cpus, f"g{g}") for i in range(size)]
    return made + [_pod(f"p{i}", pick.choice([0, 1, 2, 4]), "") for i in range(pick.randint(0, 6))]


def _pod(name: str, cpus: int, group: str) -> Raw:
    asks = {"cpu": str(cpus)} if cpus else {}
    spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i", "resources": {"requests": asks}}]}
    made: Any = manifest("v1", "Pod", name, "d", spec=spec, status={"phase": "Pending"})
    made["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": group} if group else {}
    return dict(made)


def places(raws: list[Raw], profile: Profile, most_pods: int | None) -> tuple[dict[str, str], list[int]]:
    """Where pods stand in the end, and how many were placed in each turn that left some to the next."""
    cluster = EmbeddedCluster(Objects.of((codec.decode(raw), raw) for raw in raws))
    scheduler = SchedulerProfile(frozenset({"volcano"}), profile)
    loop = Loop(cluster, [scheduler], clock=lambda: 0.0, ticks=lambda: 0.0, with_controllers=False, most_pods=most_pods)
    before: dict[str, str] = {}
    placed, again = [], 3
    while again:
        loop.run_once()
        now = {path: pod.spec.node_name for path, pod in cluster.read().every(Pod).items() if pod.spec.node_name}
        if loop.unfinished:
            placed.append(len(now) - len(before))
        again = again - 1 if now == before and not loop.unfinished else 3
        before = now
    return before, placed


def by_gang(placed: dict[str, str]) -> Counter[tuple[str, str]]:
    """How many pods of each gang stand on each node; a plain pod is its own."""
    return Counter((path.partition("-")[0], node) for path, node in placed.items())


@given(pick=st.randoms(use_true_random=False), most_pods=st.integers(1, 6))
@examples(25)
def test_many_short_cycles_place_what_one_long_cycle_places(pick: Random, most_pods: int) -> None:
    """Everybody stands where one cycle would have put them; a cycle ends with the gang that reaches its bound."""
    raws = crowd(pick)
    at_once, none = places(raws, DEFAULT, None)
    in_turns, placed = places(raws, DEFAULT, most_pods)

    assert by_gang(at_once) == by_gang(in_turns)
    assert [] == none
    assert placed or sum(path.startswith("d/g") for path in at_once) < most_pods + 5
    assert all(most_pods <= number < most_pods + 5 for number in placed)


def test_cycles_are_not_cut_where_shares_decide_the_order() -> None:
    """Shares are counted anew in the next cycle, and the queue whose turn it was might have to wait."""
    raws = crowd(Random(3))

    assert places(raws, FAIR, None) == places(raws, FAIR, 1)
