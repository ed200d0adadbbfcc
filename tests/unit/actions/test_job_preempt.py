"""jobpreempt and quotapreempt: whole jobs make room for themselves, pods fall one by one, and as few as possible."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.support import koordinator as drawn
from tests.support.quotas import koordinator, nodes, quota, settle, worker

from tierwise.api.codec import Raw

TWO_SPINES = {
    "spine-0": {"block-0": "node0 node1 node2", "block-1": "node3 node4"},
    "spine-1": {"block-2": "node5 node6 node7", "block-3": "node8 node9 node10 node11"},
}
JOBS = koordinator(preempts=True, in_quota=False)
QUOTAS = koordinator()
OWNER = "scheduling.koordinator.sh/questioned-object-key"


def gang(name: str, pods: int, *, priority: int = 0, on: str = "", **rest: object) -> list[Raw]:
    """A gathered gang; `on` lists the nodes where it runs."""
    running = dict(enumerate(on.split()))
    found = drawn.gang(name, pods, running=running, **rest)  # type: ignore[arg-type]
    for raw in found[1:]:
        raw["spec"] |= {"priority": priority, "schedulerName": "koord-scheduler"}  # type: ignore[operator]
    return found


def plain(name: str, pods: int, **rest: object) -> list[Raw]:
    """A gang that asks nothing of the network."""
    group = drawn.gang(name, 0, least=pods)[0]
    group["metadata"] = {"name": name, "namespace": "default"}
    return [group, *(worker(f"{name}-{i}", of=name, **rest) for i in range(pods))]  # type: ignore[arg-type]


def marked(raw: Raw, labels: Mapping[str, str]) -> Raw:
    """The same object with these labels too."""
    meta = raw["metadata"]
    assert isinstance(meta, dict)
    return {**raw, "metadata": {**meta, "labels": {**meta["labels"], **labels}}}


# -- the figure of document 003


def test_the_figure_of_the_document() -> None:
    """Three jobs fill the cluster; the fourth, more important, takes the four nodes of one block."""
    world = drawn.cluster(TWO_SPINES)
    rows = [("job1", 2, "node3 node4"), ("job2", 2, "node0 node1")]
    rows.append(("job3", 8, "node8 node9 node10 node11 node5 node6 node7 node2"))
    standing: list[Raw] = []
    for name, pods, where in rows:
        outcome = settle(world, standing, gang(name, pods), profile=JOBS)
        assert where.split() == [outcome.bound[f"{name}-{i}"] for i in range(pods)]
        standing += gang(name, pods, on=where)
    outcome = settle(world, standing, gang("job4", 4, priority=100), profile=JOBS)

    assert ["job3-0", "job3-1", "job3-2", "job3-3"] == outcome.evicted
    assert {f"job4-{i}": f"node{8 + i}" for i in range(4)} == outcome.bound


# -- where


def test_the_tightest_layer_counts_before_the_fewest_evictions() -> None:
    """A block can be cleared, though three free nodes of the spine would cost one eviction less."""
    world = drawn.cluster({"s0": {"b0": "n0 n1", "b1": "n2"}})
    standing = [*gang("a", 1, on="n0"), *gang("b", 1, on="n1")]
    outcome = settle(world, standing, gang("j", 2, priority=9), profile=JOBS)

    assert {"j-0": "n0", "j-1": "n1"} == outcome.bound


def test_of_one_layer_the_place_with_the_fewest_evictions() -> None:
    """The second block has one pod in the way, the first two."""
    world = drawn.cluster({"s0": {"b0": "n0 n1", "b1": "n2 n3"}})
    standing = [*gang("a", 2, on="n0 n1"), *gang("b", 1, on="n2")]

    assert ["b-0"] == settle(world, standing, gang("j", 2, priority=9), profile=JOBS).evicted


def test_of_equally_many_evictions_the_least_important() -> None:
    """The first block holds the more important pod."""
    world = drawn.cluster({"s0": {"b0": "n0 n1", "b1": "n2 n3"}})
    standing = [*gang("a", 1, on="n0", priority=5), *gang("b", 1, on="n2", priority=3)]
    job = gang("j", 2, priority=9, must="BlockLayer")

    assert ["b-0"] == settle(world, standing, job, profile=JOBS).evicted


def test_multiples_hold_on_the_emptied_nodes() -> None:
    """Two nodes of two, not one of two and two halves, though these would cost less."""
    world = drawn.cluster({"s0": {"b0": "n0 n1 n2 n3"}}, cpu=2)
    standing = [*gang("a", 2, on="n0 n0"), *gang("b", 2, on="n1 n1"), *gang("c", 1, on="n2"), *gang("d", 1, on="n3")]
    outcome = settle(world, standing, gang("j", 4, priority=9, multiples={"NodeTopologyLayer": 2}), profile=JOBS)

    assert ["c-0", "d-0"] == outcome.evicted
    assert {"j-0": "n2", "j-1": "n2", "j-2": "n3", "j-3": "n3"} == outcome.bound


def test_without_a_topology_what_fits_stays_where_it_is() -> None:
    """One member has a node; for the other the node with one large pod is cleared, not the one with two."""
    standing = [worker("s0", on="n0", gpu=4), worker("s1", on="n0", gpu=4), worker("large", on="n1", gpu=8)]
    outcome = settle(nodes("n0 n1 n2"), standing, plain("j", 2, gpu=8, priority=9), profile=JOBS)

    assert ["large"] == outcome.evicted
    assert {"n1", "n2"} == set(outcome.bound.values())


# -- who


def test_the_more_important_are_put_back_first() -> None:
    """One card is needed: of four pods the least important goes, of equals the last by name."""
    standing = [worker(f"p{i}", on="n0", gpu=2, priority=1 + (i < 2)) for i in range(4)]

    assert ["p3"] == settle(nodes("n0"), standing, [worker("j", gpu=1, priority=9)], profile=JOBS).evicted


def test_owners_are_put_back_before_names() -> None:
    """Of equals whoever names a later owner goes, and costs of one owner on a node are counted once."""
    standing = [marked(worker("p0", on="n0", gpu=4), {OWNER: "z"}), marked(worker("p1", on="n0", gpu=4), {OWNER: "a"})]

    assert ["p0"] == settle(nodes("n0"), standing, [worker("j", gpu=4, priority=9)], profile=JOBS).evicted


@pytest.mark.parametrize(
    "labels",
    [
        {"scheduling.koordinator.sh/disable-preemptible": "true"},
        {"quota.scheduling.koordinator.sh/preemptible": "false"},
    ],
)
def test_marked_pods_stay(labels: Mapping[str, str]) -> None:
    """Neither mark lets a pod go, however important the other."""
    standing = [marked(worker("p", on="n0", gpu=8), labels)]

    assert [] == settle(nodes("n0"), standing, [worker("j", gpu=8, priority=9)], profile=JOBS).evicted


def test_each_pod_counts_by_its_own_priority() -> None:
    """The unimportant member of an important gang may go."""
    members = [worker("v0", on="n0", gpu=8, priority=20, of="v"), worker("v1", on="n1", gpu=8, priority=1, of="v")]
    standing = [*plain("v", 0), *members]

    assert ["v1"] == settle(nodes("n0 n1"), standing, [worker("j", gpu=8, priority=9)], profile=JOBS).evicted


def test_two_jobs_do_not_count_on_the_same_room() -> None:
    """Each evicts for itself, in one cycle."""
    standing = [worker(f"p{i}", on=f"n{i}", gpu=8) for i in range(2)]
    jobs = [*plain("a", 1, gpu=8, priority=9), *plain("b", 1, gpu=8, priority=9)]
    outcome = settle(nodes("n0 n1"), standing, jobs, profile=JOBS, cycles=1)

    assert ["p0", "p1"] == outcome.evicted
    assert {"a-0": "n0", "b-0": "n1"} == outcome.nominated


def test_a_job_that_never_preempts_waits() -> None:
    """Its policy holds for the whole gang."""
    job = plain("j", 1, gpu=8, priority=9, preemptionPolicy="Never")
    outcome = settle(nodes("n0"), [worker("p", on="n0", gpu=8)], job, profile=JOBS)

    assert [] == outcome.evicted
    assert "preemptionPolicy Never" in outcome.why["j-0"]


def test_victims_on_their_way_out_are_waited_for() -> None:
    """The room of its nominated node is not there yet: nobody else goes for it."""
    job = worker("j", gpu=8, priority=9)
    job["status"] = {"phase": "Pending", "nominatedNodeName": "n0"}
    standing = [worker("going", on="n0!", gpu=4), worker("p", on="n0", gpu=4), worker("q", on="n1", gpu=8)]
    outcome = settle(nodes("n0 n1"), standing, [job], profile=JOBS, cycles=1)

    assert [] == outcome.evicted
    assert "it waits for default/going" in outcome.why["j"]


def test_every_node_that_could_be_cleared_is_looked_at() -> None:
    """A selector that no node matches cannot be cured, and the message says what was in the way."""
    job = [worker("j", gpu=8, priority=9, nodeSelector={"pool": "a100"})]
    outcome = settle(nodes("n0"), [worker("p", on="n0", gpu=8)], job, profile=JOBS)

    assert [] == outcome.evicted
    assert "node selector" in outcome.why["j"]


def test_rules_between_pods_are_tried_on_the_ledger() -> None:
    """A node is cleared because of the pod that keeps the job off, not because of room."""
    rule: Raw = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    standing = [marked(worker("p", on="n0", gpu=1), {"app": "x"}), worker("q", on="n0", gpu=1)]

    assert ["p"] == settle(nodes("n0"), standing, [worker("j", gpu=1, priority=9, affinity=away)], profile=JOBS).evicted


# -- quotas


def rivals(**rest: object) -> list[Raw]:
    """Two quotas and a node full of pods of the second one."""
    return [*nodes("n0"), quota("a", most=8, least=8), quota("b", most=8), worker("v", quota="b", on="n0", gpu=8)]


def test_a_job_preempts_across_quotas_and_a_pod_within_its_own() -> None:
    """The same pod, under either profile."""
    pod = [worker("j", quota="a", gpu=8, priority=9)]

    assert ["v"] == settle(rivals(), pod, profile=JOBS).evicted
    assert [] == settle(rivals(), pod, profile=QUOTAS).evicted


def test_a_full_quota_makes_room_for_its_more_important_pod() -> None:
    """The second node is free: the quota is what is full, so its least important pod goes."""
    standing = [worker("v", quota="a", on="n0", gpu=4, priority=1), worker("w", quota="a", on="n0", gpu=4, priority=2)]
    outcome = settle(nodes("n0 n1"), [quota("a", most=8)], standing, [worker("j", quota="a", gpu=4, priority=9)])

    assert ["v"] == outcome.evicted
    assert ["j"] == list(outcome.bound)


def test_a_job_over_its_min_evicts_nobody_and_hears_why() -> None:
    """Whoever went, its quota would not let it in."""
    pod = [worker("j", quota="a", gpu=8, priority=9, firm=True)]
    small = [quota("a", most=8, least=4) if raw["kind"] == "ElasticQuota" else raw for raw in rivals()[:2]]
    outcome = settle(small, rivals()[2:], pod, profile=koordinator(preempts=True))

    assert [] == outcome.evicted
    assert (
        "nothing was evicted, as it would not help: quota a would have 8 nvidia.com/gpu with a min of 4"
        in outcome.why["j"]
    )


@pytest.mark.parametrize(("disabled", "evicted"), [(True, []), (False, ["v"])])
def test_the_default_quota_preempts_only_where_the_profile_lets_it(disabled: bool, evicted: list[str]) -> None:
    """Pods of no quota leave each other alone by default."""
    world = [*nodes("n0"), quota("a", most=8), worker("v", on="n0", gpu=8)]
    profile = koordinator(disableDefaultQuotaPreemption=disabled)

    assert evicted == settle(world, [worker("j", gpu=8, priority=9)], profile=profile).evicted
