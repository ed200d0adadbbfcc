"""Plain pods that are placed as one run stand where each would have gone in its own turn."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.strategies import profile

from tierwise.bench.manifests import Manifest, lone_pod, read_manifests
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.explain.wire import pending_wire
from tierwise.framework.cycle import Cycle
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

_MOST = {"mostrequested.weight": 1, "leastrequested.weight": 0, "balancedresource.weight": 0}
PROFILES = {
    "default": DEFAULT,
    "most": profile("gang", "predicates", PluginChoice("nodeorder", _MOST), "binpack"),
    "least": profile("gang", "predicates", "nodeorder"),
    "domains": profile("gang", "predicates", "network-topology-aware"),
    "shares": profile("gang", "predicates", "proportion", "binpack"),
    "kubernetes": profile(
        "gang", PluginChoice("predicates", {"kubernetes": True}), "NodeResourcesFit", "TaintToleration"
    ),
}


def world(pick: Random) -> list[Manifest]:
    """A few nodes with room for a few pods each, and the pods of some services, one of which may be picky."""
    nodes: list[Manifest] = []
    for i in range(pick.randrange(1, 6)):
        meta = {"name": f"n{i}", "labels": {"zone": pick.choice("ab")}}
        amounts = {"cpu": str(pick.randrange(4)), "memory": "8Gi", "pods": str(pick.randrange(1, 6))}
        nodes.append({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": amounts}})
    pods: list[Manifest] = []
    for service in range(pick.randrange(1, 4)):
        spec: dict[str, Any] = {}
        if pick.random() < 0.3:
            spec["nodeSelector"] = {"zone": "a"}
        if pick.random() < 0.2:
            term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"s{service}"}}}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if pick.random() < 0.3:
            spec["priority"] = pick.randrange(3)
        on = [f"n{pick.randrange(len(nodes))}" if pick.random() < 0.1 else "" for _ in range(pick.randrange(9))]
        pods += [lone_pod(f"s{service}", i, on=where, **spec) for i, where in enumerate(on)]
    return [*nodes, *pods]


def told(snapshot: Snapshot, by: Profile, *, singly: bool) -> list[object]:
    """Where pods go, in which order, and why the others wait; somebody who looks on has every job served by itself."""

    def look(_: Cycle, __: Job) -> None:
        return None

    report = cycle(snapshot, by, inspect=look if singly else None)
    where = [(d.job.key, d.domain, [(p.rows.tolist(), p.pool) for p in d.placed]) for d in report.decisions]
    return [where, pending_wire(snapshot, report, {}), report.search_counts]


@pytest.mark.parametrize("scorers", PROFILES)
@given(pick=st.randoms(use_true_random=False))
@examples(30)
def test_a_run_equals_turns(scorers: str, pick: Random) -> None:
    """Nodes, order of decisions and reasons are those of serving pod after pod."""
    snapshot = build(read_manifests(world(pick)), 0.0, PROFILES[scorers])

    assert told(snapshot, PROFILES[scorers], singly=True) == told(snapshot, PROFILES[scorers], singly=False)
