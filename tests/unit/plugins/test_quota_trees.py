"""Several trees of elastic quotas: each shares a total of its own, and the cluster's tree what is left."""

from __future__ import annotations

import json

import pytest
from tests.support.koordinator import objects_of
from tests.support.quotas import (
    GPU,
    koordinator,
    nodes,
    quota,
    runtimes,
    settle,
    worker,
)

from tierwise.api.codec import Raw
from tierwise.config.kube import read_kube
from tierwise.snapshot.builder import build

HALL = nodes("n0 n1 n2 n3")
PREFIX = "quota.scheduling.koordinator.sh/"


def root(name: str, tree: str, total: int | None, **labels: str) -> Raw:
    """The root of a tree, with as much to share as it says."""
    marks = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in {"is_root": "true", **labels}.items()}
    noted = {f"{PREFIX}total-resource": json.dumps({GPU: str(total)})} if total is not None else {}
    return quota(
        name,
        most=1000,
        is_parent=True,
        labels={f"{PREFIX}tree-id": tree, **marks},
        annotations=noted,
        parent="koordinator-root-quota",
    )


def leaf(name: str, parent: str, tree: str, *, least: int = 0) -> Raw:
    """A quota below a root."""
    return quota(name, most=100, least=least, parent=parent, labels={f"{PREFIX}tree-id": tree})


def asking(*names: str, gpu: int = 40) -> list[Raw]:
    """A pod in each quota that asks for more than there is."""
    return [worker(f"w-{name}", quota=name, gpu=gpu) for name in names]


def test_each_tree_shares_its_own_total() -> None:
    """32 cards: the tree of the root has 8 of them, the other quotas the rest."""
    quotas = [root("pool", "t1", 8), leaf("a", "pool", "t1"), leaf("b", "pool", "t1"), quota("c", most=100)]

    assert {"pool": 8, "a": 4, "b": 4, "c": 24} == runtimes(HALL, quotas, asking("a", "b", "c"))


def test_what_a_tree_leaves_idle_is_not_lent_to_another() -> None:
    """Nobody asks in the tree of the pool."""
    quotas = [root("pool", "t1", 8), leaf("a", "pool", "t1"), quota("c", most=100)]

    assert 24 == runtimes(HALL, quotas, asking("c"))["c"]


def test_a_tree_may_leave_the_default_one_as_it_is() -> None:
    """Where its root is marked so, its total is not taken from the others."""
    quotas = [root("pool", "t1", 8, ignore_default_tree="true"), leaf("a", "pool", "t1"), quota("c", most=100)]

    assert {"pool": 8, "a": 8, "c": 32} == runtimes(HALL, quotas, asking("a", "c"))


@pytest.mark.parametrize("labels", [{}, {"is_root": "false"}])
def test_a_tree_without_a_total_is_part_of_the_cluster(labels: dict[str, str]) -> None:
    """Only a root says what a tree shares; where none does, the tree shares the cluster with all others."""
    quotas = [root("pool", "t1", 8 if labels else None, **labels), leaf("a", "pool", "t1"), quota("c", most=100)]

    found = runtimes(HALL, quotas, asking("a", "c"))

    assert 32 == found["pool"] + found["c"]
    assert 8 < found["a"] == found["pool"]


def test_pods_outside_all_trees_are_taken_from_the_default_one() -> None:
    """What a tree's root says is its to share, whoever else runs."""
    quotas = [root("pool", "t1", 8), leaf("a", "pool", "t1"), quota("c", most=100)]
    stranger = worker("stranger", gpu=4, on="n0")

    assert {"pool": 8, "a": 8, "c": 20} == runtimes(HALL, quotas, [*asking("a", "c"), stranger])


def test_a_tree_holds_its_pods_to_its_total() -> None:
    """The cluster has room, the tree has not."""
    quotas = [root("pool", "t1", 8), leaf("a", "pool", "t1")]
    outcome = settle(HALL, quotas, [worker("w0", quota="a", gpu=8), worker("w1", quota="a", gpu=8)])

    assert ["w0"] == list(outcome.bound)
    assert "quota a would have 16 nvidia.com/gpu with a runtime of 8" in outcome.why["w1"]


def test_minimums_shrink_where_the_profile_lets_them() -> None:
    """The controller counts as the scheduler of the profile does."""
    quotas = [quota("a", most=40, least=32), quota("b", most=40, least=32)]
    pods = asking("a", "b", gpu=32)

    assert {"a": 16, "b": 16} == runtimes(HALL, quotas, pods)
    assert {"a": 32, "b": 32} == runtimes(HALL, quotas, pods, profile=koordinator(enableMinQuotaScale=False))


def test_the_controller_counts_pods_of_the_profiles_scheduler() -> None:
    """One with a name that only the configuration knows."""
    raw = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profile = read_kube({**raw, "profiles": [{"schedulerName": "ours"}]})
    pod = worker("w", quota="a", gpu=6, schedulerName="ours")

    assert ({"a": 0}, {"a": 6}) == (
        runtimes(HALL, [quota("a", most=8), pod]),
        runtimes(HALL, [quota("a", most=8), pod], profile=profile),
    )


def test_a_chain_of_quotas_is_cut() -> None:
    """Beyond 32 levels a quota counts as outermost, and so does one that stands above itself."""
    chain = [quota(f"q{i}", most=8, parent=f"q{i + 1}") for i in range(40)]
    snapshot = build(objects_of(nodes("n0"), chain, [quota("self", most=8, parent="self")]), now=0.0)

    cut = {name for name, queue in snapshot.queues.items() if queue.elastic and not queue.parent}
    assert {"self", *(f"q{i}" for i in range(7))} == cut - {"koordinator-default-quota", "koordinator-system-quota"}
    assert {"QuotaTooDeep"} == {fault.code for fault in snapshot.faults}
