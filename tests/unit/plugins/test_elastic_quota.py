"""Elastic quotas, end to end: who is let in, what is shared, and what is given back."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from tests.support.koordinator import objects_of
from tests.support.quotas import (
    koordinator,
    nodes,
    quota,
    runtimes,
    settle,
    worker,
)

from tierwise.api.codec import Raw, decode
from tierwise.api.core import Pod, format_time
from tierwise.api.elastic_quota import SYSTEM_QUOTA, ElasticQuota
from tierwise.config.profile import DEFAULT, PluginChoice
from tierwise.dialects.elastic_quota import Quotas
from tierwise.sim.cluster.rounds import schedule

HALL = nodes("n0 n1 n2 n3")


def gang(name: str, least: int) -> Raw:
    """A pod group."""
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": least},
    }


def _record(raw: Raw) -> ElasticQuota:
    record = decode(raw)
    assert isinstance(record, ElasticQuota)
    return record


def _pod(namespace: str) -> Pod:
    record = decode(worker("w", namespace=namespace))
    assert isinstance(record, Pod)
    return record


# -- which quota


def test_a_pod_is_in_the_quota_that_it_names() -> None:
    """Its quota is full after one pod of eight cards."""
    outcome = settle(HALL, [quota("a", most=8), worker("w0", quota="a", gpu=8), worker("w1", quota="a", gpu=8)])

    assert ["w0"] == list(outcome.bound)
    assert "QuotaExceeded: quota a would have 16 nvidia.com/gpu with a runtime of 8;" in outcome.why["w1"]


def test_a_namespace_may_have_a_quota_by_name_or_by_list() -> None:
    """Without a label the quota called like the namespace counts, else the one that lists it, else the default."""
    listed = {"quota.scheduling.koordinator.sh/namespaces": '["blue"]'}
    root = "koordinator-system"
    quotas = [quota("red", most=8, namespace=root), quota("b", most=8, annotations=listed, namespace=root)]
    pods = [worker(f"w{i}", gpu=8, namespace=space) for space in ("red", "blue", "default") for i in range(2)]

    assert {"red/w0", "blue/w0", "w0", "w1"} == set(settle(HALL, quotas, pods).bound)


def test_the_default_quota_has_the_max_that_the_profile_sets() -> None:
    """Pods of no quota, and of one that does not exist, are counted there."""
    pods = [worker("w0", gpu=8), worker("w1", gpu=8, quota="missing")]
    profile = koordinator(defaultQuotaGroupMax={"nvidia.com/gpu": "8"})

    assert ["w0"] == list(settle(HALL, [quota("a", most=8)], pods, profile=profile).bound)


@pytest.mark.parametrize(("space", "bound"), [("default", 1), ("kube-system", 2), ("koordinator-system", 2)])
def test_the_system_quota_is_for_the_system(space: str, bound: int) -> None:
    """Nothing limits it, so pods of other namespaces that name it are in the default quota."""
    pods = [worker(f"w{i}", gpu=8, quota="koordinator-system-quota", namespace=space) for i in range(2)]
    profile = koordinator(defaultQuotaGroupMax={"nvidia.com/gpu": "8"})

    assert bound == len(settle(HALL, [quota("a", most=8)], pods, profile=profile).bound)


@pytest.mark.parametrize(("space", "found"), [("evil", False), ("kube-system", True), ("koordinator-system", True)])
def test_groups_name_the_system_quota_where_pods_may(space: str, found: bool) -> None:
    """A podGroup of another namespace that names it as its queue has none."""
    declared = Quotas({"koordinator-system/a": _record(quota("a", most=8, namespace="koordinator-system"))})

    assert found == (declared.queue(SYSTEM_QUOTA, space) in declared.queues)


def test_a_quota_speaks_for_its_own_namespace_alone() -> None:
    """One that lists another namespace, and is not of a trusted one, is told that this does not count."""
    listed = {"quota.scheduling.koordinator.sh/namespaces": '["blue", "evil"]'}
    mine = _record(quota("mine", most=8, annotations=listed, namespace="evil"))
    declared = Quotas({"evil/mine": mine})

    assert [("ElasticQuota evil/mine", "QuotaNotTrusted")] == [(f.subject, f.code) for f in declared.faults]
    assert "it lists namespace blue" in declared.faults[0].text
    assert ("mine", "default") == (declared.of(_pod("evil")), declared.of(_pod("blue")))


@pytest.mark.parametrize(("claimed", "parent"), [((), ""), (("other",), ""), (("evil",), "team")])
def test_a_quota_stands_below_a_trusted_one_that_claims_its_namespace(claimed: tuple[str, ...], parent: str) -> None:
    """And below no other: else it would use up, or be freed by, what is somebody else's."""
    listed = {"quota.scheduling.koordinator.sh/namespaces": json.dumps(claimed)} if claimed else {}
    root = quota("team", most=8, is_parent=True, namespace="koordinator-system", annotations=listed)
    mine = quota("mine", most=8, parent="team", namespace="evil")
    declared = Quotas({"koordinator-system/team": _record(root), "evil/mine": _record(mine)})

    assert parent == declared.queues["mine"].parent
    assert ([] if parent else ["QuotaNotTrusted"]) == [fault.code for fault in declared.faults]


def test_without_quotas_nothing_is_limited() -> None:
    """The plugin has no say where nobody declares a quota."""
    assert 4 == len(settle(HALL, [worker(f"w{i}", gpu=8) for i in range(4)]).bound)


def test_quotas_hold_without_a_configuration() -> None:
    """What a cluster declares is not ignored because no file was given."""
    pods = [worker(f"w{i}", quota="a", gpu=8) for i in range(2)]

    assert ["w0"] == list(settle(HALL, [quota("a", most=8)], pods, profile=DEFAULT).bound)


# -- who is let in


def test_a_gang_over_its_quota_waits_as_a_whole() -> None:
    """The first members would fit the quota: none of them starts."""
    members = [worker(f"w{i}", quota="a", gpu=8, of="g") for i in range(3)]
    outcome = settle(HALL, [quota("a", most=16), gang("g", 3), *members])

    assert {} == outcome.bound
    assert "quota a would have 24 nvidia.com/gpu with a runtime of 16" in outcome.why["w2"]


def test_surplus_of_a_gang_is_let_in_pod_by_pod() -> None:
    """Beyond the minimum as many pods as the quota leaves."""
    members = [worker(f"w{i}", quota="a", gpu=8, of="g") for i in range(4)]

    assert 3 == len(settle(HALL, [quota("a", most=24), gang("g", 2), *members]).bound)


def test_non_preemptible_pods_keep_within_min() -> None:
    """What may be taken back does not count there, what may not does."""
    running = [worker("lent", quota="a", gpu=8, on="n0"), worker("kept", quota="a", gpu=8, on="n1", firm=True)]
    pods = [worker("more", quota="a", gpu=8, firm=True), worker("over", quota="a", gpu=8, firm=True)]
    outcome = settle(HALL, [quota("a", most=32, least=16)], running, pods)

    assert ["more"] == list(outcome.bound)
    assert outcome.why["over"].startswith(
        "QuotaMinExceeded: quota a would have 24 nvidia.com/gpu with a min of 16, "
        "which is all that non-preemptible pods may use"
    )


def test_a_gang_of_both_kinds_is_counted_exactly() -> None:
    """Only the non-preemptible half must fit min."""
    members = [worker(f"w{i}", quota="a", gpu=8, of="g", firm=i < 2) for i in range(4)]

    assert 4 == len(settle(HALL, [quota("a", most=32, least=16), gang("g", 4), *members]).bound)
    assert 0 == len(settle(HALL, [quota("a", most=32, least=15), gang("g", 4), *members]).bound)


def test_a_resource_that_min_does_not_list_is_not_bound_by_it() -> None:
    """Without min there is nothing that non-preemptible pods would have to fit."""
    assert ["w"] == list(settle(HALL, [quota("a", most=8, least=None), worker("w", quota="a", gpu=8, firm=True)]).bound)


@pytest.mark.parametrize(("checked", "bound"), [(False, 2), (True, 1)])
def test_parents_are_asked_where_the_profile_says_so(checked: bool, bound: int) -> None:
    """With max as the limit, a parent bounds its children only if it is asked."""
    tree = [quota("p", most=8, is_parent=True), *(quota(c, most=8, parent="p") for c in ("a", "b"))]
    pods = [worker("wa", quota="a", gpu=8), worker("wb", quota="b", gpu=8)]
    profile = koordinator(enableRuntimeQuota=False, enableCheckParentQuota=checked)
    outcome = settle(HALL, tree, pods, profile=profile)

    assert bound == len(outcome.bound)
    assert not checked or "quota p would have 16 nvidia.com/gpu with a max of 8" in outcome.why["wb"]


def test_turns_follow_priority_across_quotas() -> None:
    """Quotas are no lines: the important pod of the last quota goes first."""
    quotas = [quota("a", most=8), quota("z", most=8)]
    pods = [worker("wa", quota="a", gpu=8, priority=1), worker("wz", quota="z", gpu=8, priority=2)]

    assert {"wz": "n0"} == settle(nodes("n0"), quotas, pods, profile=koordinator(enableRuntimeQuota=False)).bound


# -- runtime


def test_what_nodes_that_are_not_ready_have_is_not_shared() -> None:
    """Of two nodes one is down: half of what they have is there to share."""
    up, down = nodes("n0 n1")
    down["status"]["conditions"] = [{"type": "Ready", "status": "False"}]  # type: ignore[index]

    assert {"a": 8} == runtimes(
        [up, down], [quota("a", most=64)], [worker(f"w{i}", quota="a", gpu=8) for i in range(3)]
    )


def test_what_pods_outside_the_tree_hold_is_not_shared() -> None:
    """Four nodes of eight, of which pods of no quota hold one and a pod of another scheduler a second."""
    others = [worker("free", gpu=8, on="n0"), worker("other", gpu=8, on="n1", schedulerName="somebody")]
    pods = [worker(f"w{i}", quota="a", gpu=8) for i in range(4)]

    assert {"a": 16} == runtimes(HALL, [quota("a", most=99)], others, pods)


def test_children_share_the_runtime_of_their_parent() -> None:
    """The parent may have 24 of 32 cards; one child asks for all, the other keeps its min."""
    tree = [
        quota("p", most=24, least=8, is_parent=True),
        quota("a", most=32, least=4, parent="p"),
        quota("b", most=32, least=4, parent="p", lends=False),
    ]
    pods = [worker(f"w{i}", quota="a", gpu=8) for i in range(4)]

    assert {"p": 24, "a": 20, "b": 4} == runtimes(HALL, tree, pods)


def test_minimums_shrink_where_they_are_more_than_the_cluster() -> None:
    """Forty and sixty promised of 32: twelve and nineteen, and the odd card by weight."""
    quotas = [quota("a", most=60, least=40), quota("b", most=60, least=60)]
    pods = [worker(f"{q}{i}", quota=q, gpu=8) for q in "ab" for i in range(8)]

    assert {"a": 13, "b": 19} == runtimes(HALL, quotas, pods)


@pytest.mark.parametrize("parent", ["missing", "a"])
def test_a_quota_whose_parent_is_nonsense_stands_at_the_top(parent: str) -> None:
    """Neither a parent that does not exist nor a quota that is its own stops the others."""
    assert {"a": 8} == runtimes(HALL, [quota("a", most=8, parent=parent), worker("w", quota="a", gpu=8)])


# -- give-back


def borrowed() -> list[Raw]:
    """Quota a holds all eight cards of a node, b asks for its four."""
    quotas = [quota("a", most=8, least=4), quota("b", most=8, least=4)]
    lent = [worker(f"a{i}", quota="a", on="n0", priority=i, firm=i == 1) for i in range(8)]
    return [*nodes("n0"), *quotas, *lent, *(worker(f"b{i}", quota="b") for i in range(4))]


def test_the_least_important_pods_are_given_back() -> None:
    """Four cards too many: the four least important go, the non-preemptible one stays."""
    outcome = settle(borrowed(), profile=koordinator(monitorAllQuotas=True, delayEvictTime="0s"))

    assert ["a0", "a2", "a3", "a4"] == outcome.evicted
    assert {f"b{i}": "n0" for i in range(4)} == outcome.bound


def test_whoever_is_not_needed_stays() -> None:
    """The least important pod is small: once the large one must go anyway, it stays."""
    quotas = [quota("a", most=8, least=4), quota("b", most=8, least=4)]
    lent = [worker("small", quota="a", on="n0", priority=1), worker("large", quota="a", on="n0", priority=2, gpu=4)]
    lent += [worker("rest", quota="a", on="n0", priority=3, gpu=3)]
    profile = koordinator(monitorAllQuotas=True, delayEvictTime="0s")

    assert ["large"] == settle(nodes("n0"), quotas, lent, [worker("b", quota="b", gpu=4)], profile=profile).evicted


@pytest.mark.parametrize(
    ("arguments", "goes"), [({}, ["a6", "a7"]), ({"minimumRunTime": "5m"}, ["a4", "a5"]), (None, ["a6", "a7"])]
)
def test_what_is_given_back_loses_the_least(arguments: dict[str, object] | None, goes: list[str]) -> None:
    """Of equal priority those that have run for the shortest time, but not those that are too young to be evicted.

    Without a price the youngest go, by their start: all pods were created at once.
    """
    quotas = [quota("a", most=8, least=6), quota("b", most=8, least=2)]
    lent = [worker(f"a{i}", quota="a", on="n0") for i in range(8)]
    started = dict(enumerate([0, 0, 0, 0, 1200, 1200, 3500, 3500]))  # seconds after the first
    for i, raw in enumerate(lent):
        raw["status"] = {"phase": "Running", "startTime": format_time(started[i])}
    profile = koordinator(monitorAllQuotas=True, delayEvictTime="0s")
    if arguments is not None:
        profile = replace(profile, tiers=(*profile.tiers, (PluginChoice("eviction-cost", arguments),)))
    objects = objects_of([*nodes("n0"), *quotas, *lent, *(worker(f"b{i}", quota="b") for i in range(2))])
    history = schedule(objects, profile, now=3600.0)

    assert goes == sorted(eviction.task.key.partition("/")[2] for eviction in history.evictions)


def test_waiting_pods_hear_that_giving_back_is_off() -> None:
    """By default nobody is evicted for it, and who waits is told who holds the room."""
    outcome = settle(borrowed())

    assert [] == outcome.evicted
    assert "quota a holds 4 nvidia.com/gpu more than its runtime, and giving back is off" in outcome.why["b0"]


def test_a_quota_has_its_time_before_it_gives_back() -> None:
    """The controller writes down since when; the embedded cluster's time stands still, so nothing is due."""
    outcome = settle(borrowed(), profile=koordinator(monitorAllQuotas=True))
    assert [] == outcome.evicted
    assert "but not for long enough to give it back" in outcome.why["b0"]

    over = {"tierwise.io/quota-over-since": "1969-12-31T23:57:00Z"}
    long_since = [quota("a", most=8, least=4, annotations=over)]
    rest = [raw for raw in borrowed() if raw["metadata"]["name"] != "a"]  # type: ignore[index]
    assert 4 == len(settle(long_since, rest, profile=koordinator(monitorAllQuotas=True)).evicted)
