"""The node that kept scores lead to is the one that scoring all nodes anew leads to."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.test_plain_pods import PROFILES, told, world
from tests.support.depth import examples
from tests.support.kernels import reference
from tests.support.plugin_table import plugin_table, plugins_at
from tests.support.strategies import profile

from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, Scorer
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import KeptScores
from tierwise.scheduler import open_cycle
from tierwise.snapshot.builder import build
from tierwise_lab.bench.manifests import Manifest, lone_pod, rack, read_manifests

_KUBERNETES = ("NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality", "TaintToleration")
SCORERS = {
    **PROFILES,
    "nodes behind domains": profile("predicates", "network-topology-aware", "nodeorder", "binpack"),
    "weights": profile(
        "predicates", PluginChoice("binpack", weight=0.3), PluginChoice("network-topology-aware", weight=1.7)
    ),
    "whole numbers": profile(PluginChoice("predicates", {"kubernetes": True}), *_KUBERNETES),
    "strategy": profile("predicates", "resource-strategy-fit"),
}


def in_racks(pick: Random) -> list[Manifest]:
    """The world of the other properties: most nodes stand in racks, and services ask for different amounts."""
    manifests = world(pick)
    sizes = {f"s{i}": {"cpu": f"{pick.randrange(1, 12)}00m", "memory": f"{pick.randrange(4)}Gi"} for i in range(4)}
    for pod in (manifest for manifest in manifests if manifest["kind"] == "Pod"):
        asks = sizes.get(pod["metadata"].get("labels", {}).get("app", ""))
        if asks is not None:
            pod["spec"]["containers"][0]["resources"] = {"requests": asks}
    nodes = [manifest for manifest in manifests if manifest["kind"] == "Node"]
    for node in nodes:
        if pick.random() < 0.8:
            node["metadata"]["labels"]["rack"] = f"r{pick.randrange(2)}"
    return [*manifests, rack(0), rack(1)]


def opened(pick: Random, by: Profile) -> tuple[Cycle, list[Ask]]:
    """A cycle, and what its waiting jobs ask for; one task of each shape at least."""
    cycle = open_cycle(build(read_manifests(in_racks(pick)), 0.0, by), by, plugins=plugin_table())
    jobs = [(job, sub) for job in cycle.snapshot.waiting for sub in job.subs]
    return cycle, [Ask(pod_set.shape, sub, job) for job, sub in jobs for pod_set in sub.pod_sets]


def disturb(cycle: Cycle, ask: Ask, pick: Random) -> None:
    """Something happens on a node: a task is placed, waits for it, or was there for a moment."""
    row = pick.randrange(len(cycle.nodes))
    if not cycle.fits(ask, slice(row, row + 1), Pool.IDLE)[0]:
        return
    what = pick.random()
    if what < 0.6:
        cycle.ledger.place_each([ask.shape], row)
    elif what < 0.8:
        with cycle.ledger.statement():
            cycle.ledger.place_each([ask.shape], row)
            cycle.ledger.place(ask.shape, np.array([row]), np.array([1]), pool=Pool.IDLE)
    elif what < 0.9:
        cycle.ledger.place(ask.shape, np.array([row]), np.array([1]), pool=Pool.IDLE)
    else:
        cycle.ledger.set_aside(ask.shape, np.array([row]), np.array([1]))


@pytest.mark.parametrize("scorers", SCORERS)
@given(pick=st.randoms(use_true_random=False))
@examples(24)
def test_kept_scores_equal_reference(scorers: str, pick: Random) -> None:
    """Whatever is placed between two turns of a shape, and wherever."""
    cycle, asks = opened(pick, SCORERS[scorers])
    kept = KeptScores(cycle)
    for _ in range(30 if asks else 0):
        ask = pick.choice(asks)
        found = kept.best(ask)
        rows, _ = reference(cycle, ask, 1, slice(0, len(cycle.nodes)), Pool.IDLE)
        assert found is None or [found][: found + 1] == rows.tolist()
        if found is not None and found >= 0 and pick.random() < 0.7:
            cycle.ledger.place_each([ask.shape], found)
        else:
            disturb(cycle, pick.choice(asks), pick)


@pytest.mark.parametrize("scorers", SCORERS)
@given(pick=st.randoms(use_true_random=False))
@examples(24)
def test_tasks_count_before_the_ledger_is_told_of_them(scorers: str, pick: Random) -> None:
    """Nodes that fill up one after the other are the same as if each task were on the ledger at once."""
    drawn = pick.randrange(2**32)
    (cycle, asks), (other, others) = (opened(Random(drawn), SCORERS[scorers]) for _ in range(2))
    kept = KeptScores(cycle)
    for _ in range(60 if asks else 0):
        number = pick.randrange(len(asks))
        ask, found = others[number], kept.best(asks[number])
        rows, _ = reference(other, ask, 1, slice(0, len(other.nodes)), Pool.IDLE)
        assert found is None or [found][: found + 1] == rows.tolist()
        if found is not None and found >= 0:
            kept.place(asks[number].shape, found)
            other.ledger.place_each([ask.shape], found)
    kept.write()
    assert cycle.ledger.idle.tobytes() == other.ledger.idle.tobytes()
    assert cycle.ledger.domain_idle.tobytes() == other.ledger.domain_idle.tobytes()


@pytest.mark.parametrize("scorers", SCORERS)
@given(pick=st.randoms(use_true_random=False))
@examples(24)
def test_services_among_each_other_equal_turns(scorers: str, pick: Random) -> None:
    """Pods that ask for different amounts and wait in any order stand where each would have gone by itself."""
    snapshot = build(read_manifests(in_racks(pick)), 0.0, SCORERS[scorers])

    assert told(snapshot, SCORERS[scorers], singly=True) == told(snapshot, SCORERS[scorers], singly=False)


@pytest.mark.parametrize("plugin", plugins_at(Scorer))
@given(pick=st.randoms(use_true_random=False))
@examples(12)
def test_parts_add_up_to_the_score(plugin: str, pick: Random) -> None:
    """By rows and by domains a plugin says what it says of all nodes, and moves no other rows than were placed on."""
    cycle, asks = opened(pick, profile("gang", plugin))
    pipeline, every = cycle.pipeline, slice(0, len(cycle.nodes))
    before: dict[int, list[float]] = {}
    moved = 0
    for _ in range(12 if asks else 0):
        ask = pick.choice(asks)
        rows, leaves = pipeline.score_rows(ask, every), pipeline.score_leaves(ask)
        if rows is not None and leaves is not None:
            known = before.pop(ask.shape.number, None)
            changed = cycle.ledger.moved.since(moved).tolist()
            total = rows.copy()
            for leaf in leaves:
                total += leaf[cycle.topology.leaf]
            assert total.tobytes() == pipeline.score(ask, every, np.ones(len(rows), dtype=bool)).tobytes()
            some = np.array(sorted(pick.sample(range(len(rows)), pick.randrange(1, len(rows) + 1))))
            picked = pipeline.score_rows(ask, some)
            assert picked is not None
            assert rows[some].tobytes() == picked.tobytes()
            if known is not None:
                assert all(row in changed for row in np.flatnonzero(rows != known).tolist())
            if not before:
                before, moved = {ask.shape.number: rows.tolist()}, cycle.ledger.moved.length
        disturb(cycle, pick.choice(asks), pick)


def test_rows_that_moved_are_told_once() -> None:
    """In order, without repeats, from where a reader has stopped."""
    cycle, asks = opened(Random(3), PROFILES["default"])
    moved, shape = cycle.ledger.moved, asks[0].shape
    begun = moved.length
    with cycle.ledger.statement():
        for row in (1, 0, 1):
            cycle.ledger.place_each([shape], row)
        assert [0, 1] == moved.since(begun).tolist()
        assert [1] == moved.since(moved.length - 1).tolist()
        assert [1] == moved.taken_since(moved.length - 1)
        assert [1, 0, 1] == moved.taken_since(begun)
    assert moved.taken_since(begun) is None


def test_a_cluster_may_have_no_node() -> None:
    """Services that wait among each other for the first node to join."""
    pods = [lone_pod(f"s{i % 2}", i) for i in range(4)]
    cycle = open_cycle(build(read_manifests(pods), 0.0), DEFAULT)
    job = cycle.snapshot.waiting[0]

    assert -1 == KeptScores(cycle).best(Ask(job.subs[0].pod_sets[0].shape, job.subs[0], job))
