"""Amounts up to the largest that the API server accepts: no sum wraps, and nothing is decided otherwise for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.manifests import node, objects
from tests.support.sight import schedule, sees

from tierwise.api.codec import Raw
from tierwise.api.core import Node, Pod
from tierwise.api.quantity import LARGEST, amount
from tierwise.config.volcano import read_volcano
from tierwise.dialects.kubernetes.requests import effective_request
from tierwise.scheduler.cycle import check_profile
from tierwise.sim.cluster.rounds import Rounds

RESOURCES = ("cpu", "memory", "nvidia.com/gpu")
TWIN = 10**7
"""What stands for a giant amount where exact sums are compared: more than all nodes have, and far from any limit."""

PLUGINS = ("proportion", "capacity", "drf", "overcommit", "elasticquota", "resourcequota")

small = st.integers(0, 6)
giant = st.one_of(
    st.sampled_from([LARGEST, LARGEST - 1, 2**62, 2**61, 2**61 - 1, 9 * 10**15, 2**54, 5 * 10**18, 10**30]),
    st.integers(2**50, 10**30),
)
weights = st.sampled_from([1, 3, 2**31 - 1, LARGEST])


class World:
    """Drawn objects, with the numbers that are giant either as they are or as their twins."""

    def __init__(self, draw: st.DrawFn, *, giant_nodes: bool) -> None:
        self._draw = draw
        self._giants = giant_nodes
        self.nodes = [self._amounts(allow=giant_nodes) for _ in range(draw(st.integers(1, 3)))]
        self.queues = [(draw(weights), self._amounts(), self._amounts()) for _ in range(2)]
        self.pods = [
            (
                draw(st.integers(0, 1)),
                self._amounts(),
                draw(st.sampled_from([-1, *range(len(self.nodes))])),
                draw(st.sampled_from([0, 5, 2**31 - 1, -(2**31)])),
            )
            for _ in range(draw(st.integers(1, 6)))
        ]
        self.minimums = [self._amounts() for _ in range(2)]
        self.quotas = [(self._amounts(), self._amounts()) for _ in range(draw(st.integers(0, 2)))]

    def _amounts(self, *, allow: bool = True) -> dict[str, int]:
        draw = self._draw
        names = draw(st.sets(st.sampled_from(RESOURCES), max_size=3))
        return {name: draw(st.one_of(small, giant) if allow else st.integers(0, 9)) for name in sorted(names)}

    def manifests(self, twin: int | None) -> list[Raw]:
        """The objects; with a twin, that many whole units stand for everything giant."""

        def shown(given: dict[str, int]) -> dict[str, str]:
            return {name: str(n if n < 2**50 or twin is None else twin) for name, n in given.items()}

        found = [node(f"n{i}", "pods=20") for i in range(len(self.nodes))]
        for raw, has in zip(found, self.nodes, strict=True):
            raw["status"] = {"allocatable": {"pods": "20", **shown(has)}}
        for i, (weight, capability, deserved) in enumerate(self.queues):
            spec: Raw = {"weight": weight, "capability": shown(capability), "deserved": shown(deserved)}
            found.append(_object("scheduling.volcano.sh/v1beta1", "Queue", f"q{i}", spec))
        for i, least in enumerate(self.minimums):
            spec = {"minMember": 1, "queue": f"q{i}", "minResources": shown(least)}
            found.append(_object("scheduling.volcano.sh/v1beta1", "PodGroup", f"g{i}", spec))
        for i, (least, most) in enumerate(self.quotas):
            spec = {"min": shown(least), "max": shown(most)}
            found.append(_object("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", f"e{i}", spec))
            found.append(_object("v1", "ResourceQuota", f"r{i}", {"hard": shown(most)}))
        for i, (group, asked, where, priority) in enumerate(self.pods):
            spec = {"priority": priority, "containers": [{"name": "c", "resources": {"requests": shown(asked)}}] * 2}
            if where >= 0:
                spec["nodeName"] = f"n{where}"
            pod = _object("v1", "Pod", f"p{i}", spec)
            pod["metadata"] = {"name": f"p{i}", "annotations": {"scheduling.k8s.io/group-name": f"g{group}"}}
            pod["status"] = {"phase": "Running" if where >= 0 else "Pending"}
            found.append(pod)
        return found


@st.composite
def worlds(draw: st.DrawFn, *, giant_nodes: bool) -> World:
    """Clusters with giants in them."""
    return World(draw, giant_nodes=giant_nodes)


def _object(version: str, kind: str, name: str, spec: Raw) -> Raw:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _run(raws: Iterable[Raw], plugins: Sequence[str], actions: Sequence[str]) -> Rounds:
    tier = ["gang", "priority", "predicates", "conformance", *plugins]
    names = ", ".join(["enqueue", "allocate", "backfill", *actions])
    profile = read_volcano({"actions": names, "tiers": [{"plugins": [{"name": name} for name in tier]}]})
    return schedule(objects(*raws), check_profile(profile), now=0.0, cycles=3)


def _overfull(history: Rounds) -> set[tuple[str, str]]:
    """Nodes and resources of which their pods ask for more than they have, counted without any limit."""
    held = history.cluster.read()
    used: dict[tuple[str, str], int] = {}
    for pod in held.every(Pod).values():
        for name, number in effective_request(pod.spec).items():
            if pod.spec.node_name:
                used[pod.spec.node_name, name] = used.get((pod.spec.node_name, name), 0) + number
    has = {
        (key, name): amount(name, quantity)
        for key, record in held.every(Node).items()
        for name, quantity in record.status.allocatable.items()
    }
    return {where for where, number in used.items() if number > has.get(where, 0)}


policies = st.tuples(
    st.sets(st.sampled_from(PLUGINS), min_size=1, max_size=3).map(sorted),
    st.sampled_from([(), ("gangreclaim",), ("gangpreempt",), ("reclaim",), ("preempt", "reclaim")]),
)


@pytest.mark.filterwarnings("error")
@sees(binds=2, refusals=5)
@given(worlds(giant_nodes=False), policies)
def test_a_giant_decides_what_any_request_beyond_all_nodes_decides(
    world: World, policy: tuple[list[str], tuple[str, ...]]
) -> None:
    """With 2^63 units in place of ten million nothing is bound, nominated or evicted otherwise."""
    giant, exact = (_run(world.manifests(twin), *policy) for twin in (None, TWIN))

    assert exact.bindings == giant.bindings
    assert exact.nominations == giant.nominations
    assert [e.task.key for e in exact.evictions] == [e.task.key for e in giant.evictions]


@pytest.mark.filterwarnings("error")
@sees(binds=1, refusals=2)
@given(worlds(giant_nodes=True), policies)
def test_no_full_node_takes_pods_whatever_the_amounts(world: World, policy: tuple[list[str], tuple[str, ...]]) -> None:
    """Pods go only where unbounded integers say that there is room, on nodes of any size."""
    history = _run(world.manifests(None), *policy)
    asked = {
        f"default/p{i}": [name for name, number in asked.items() if number]
        for i, (_, asked, _, _) in enumerate(world.pods)
    }

    assert _overfull(history).isdisjoint((node, name) for pod, node in history.bindings.items() for name in asked[pod])
    shapes = history.after(0.0).shapes
    assert all(int(shape.request.min(initial=0)) >= 0 for shape in shapes)
