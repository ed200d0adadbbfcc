"""podpreempt: what users of kube-scheduler expect of DefaultPreemption, for pods and for gangs."""

from __future__ import annotations

import pytest
from tests.support import koordinator as drawn
from tests.support import volumes
from tests.support.draw import allocate, draw
from tests.support.draw import gang as queued
from tests.support.quotas import nodes, settle, worker
from tests.support.strategies import profile

from tierwise.api.codec import Raw
from tierwise.api.merge_patch import merged
from tierwise.config.kube import read_kube
from tierwise.config.profile import Profile


def kubernetes(**plugins: object) -> Profile:
    """The profile of a configuration that says nothing but this."""
    entry = {"schedulerName": "koord-scheduler", "plugins": plugins} if plugins else {}
    return read_kube(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [entry] if entry else [],
        }
    )


DEFAULTS = kubernetes()


def gang(name: str, pods: int, *, priority: int, **rest: object) -> list[Raw]:
    """A gang that asks nothing of the network."""
    group = drawn.gang(name, 0, least=pods)[0]
    group["metadata"] = {"name": name, "namespace": "default"}
    members = [worker(f"{name}-{i}", of=name, priority=priority, **rest) for i in range(pods)]  # type: ignore[arg-type]
    return [group, *members]


def budget(name: str, *, allows: int, **labels: str) -> Raw:
    """A disruption budget over the pods with these labels."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allows},
    }


def labelled(raw: Raw, *, born: str = "", **labels: str) -> Raw:
    """The same pod with labels, and a time at which it came."""
    meta = raw["metadata"]
    assert isinstance(meta, dict)
    time = {"creationTimestamp": f"2026-01-01T{born}:00Z"} if born else {}
    return {**raw, "metadata": {**meta, **time, "labels": {**meta["labels"], **labels}}}


# -- who goes


def test_a_plain_pod_makes_room_for_a_more_important_one() -> None:
    """Neither belongs to any group."""
    world = [*nodes("n0"), worker("low", gpu=8, on="n0"), worker("high", gpu=8, priority=10)]

    first = settle(world, profile=DEFAULTS, cycles=1)
    last = settle(world, profile=DEFAULTS)

    assert (["low"], {"high": "n0"}, {}) == (first.evicted, first.nominated, first.bound)
    assert {"high": "n0"} == last.bound


@pytest.mark.parametrize(("action", "victims"), [("podpreempt", {"low-0"}), ("preempt", set())])
def test_queues_are_no_bound_for_pods_by_themselves(action: str, victims: set[str]) -> None:
    """Kubernetes knows none, so a more important pod may take the room of another queue; Volcano's preempt may not."""
    low = queued("low", tasks=1, each="cpu=8", on="n0", queue="a")
    high = queued("high", tasks=1, each="cpu=8", priority=9, queue="b")
    plugins = ("priority", "gang", "conformance", "predicates")
    outcome = allocate(
        draw("n0", node="cpu=8", queues="a b"), low, high, profile=profile(*plugins, actions=f"allocate {action}")
    )

    assert victims == {eviction.task.key.partition("/")[2] for eviction in outcome.report.evictions}


def test_plain_pods_make_room_for_a_gang() -> None:
    """As many as it takes, all at once, or none."""
    standing = [worker(f"low-{n}", gpu=8, on=n) for n in ("n0", "n1")]
    served = settle(nodes("n0 n1"), standing, gang("g", 2, priority=5, gpu=8), profile=DEFAULTS)
    refused = settle(nodes("n0 n1"), standing, gang("g", 3, priority=5, gpu=8), profile=DEFAULTS)

    assert ["low-n0", "low-n1"] == served.evicted
    assert {"g-0", "g-1"} == set(served.bound)
    assert ([], {}) == (refused.evicted, refused.bound)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_pod_that_no_node_takes_stands_in_nobodys_way(order: tuple[int, int]) -> None:
    """Of a group that needs one of two pods, the one whose claim does not exist is passed over, named first or last."""
    group, *members = gang("g", 2, priority=5, gpu=8)
    claims = {f"g-{order[0]}": "missing", f"g-{order[1]}": "disk"}
    wanting = [merged(raw, {"spec": _using(claims[str(raw["metadata"]["name"])])}) for raw in members]  # type: ignore[index]
    world = [*nodes("n0"), worker("low", gpu=8, on="n0"), merged(group, {"spec": {"minMember": 1}}), *wanting]
    world += [volumes.claim("disk", to="disk", modes=("ReadWriteOnce",)), volumes.volume("disk", of="disk")]

    done = settle(world, profile=DEFAULTS, cycles=1)

    assert (["low"], {f"g-{order[1]}": "n0"}) == (done.evicted, done.nominated)


def _using(claim: str) -> Raw:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}


@pytest.mark.parametrize("priority", [10, 11])
def test_nobody_goes_who_is_as_important(priority: int) -> None:
    """The priority of a victim is strictly lower."""
    world = [*nodes("n0"), worker("old", gpu=8, on="n0", priority=priority), worker("new", gpu=8, priority=10)]

    assert [] == settle(world, profile=DEFAULTS).evicted


def test_who_never_preempts_waits() -> None:
    """Its own policy says so."""
    meek = worker("high", gpu=8, priority=10, preemptionPolicy="Never")
    outcome = settle([*nodes("n0"), worker("low", gpu=8, on="n0"), meek], profile=DEFAULTS)

    assert [] == outcome.evicted
    assert "preemptionPolicy Never" in outcome.why["high"]


def test_pods_of_other_schedulers_stay() -> None:
    """Whoever placed them is asked to remove them, not we."""
    world = [*nodes("n0"), worker("low", gpu=8, on="n0", schedulerName="another"), worker("high", gpu=8, priority=10)]

    assert [] == settle(world, profile=DEFAULTS).evicted


def test_a_gang_member_goes_like_any_other_pod() -> None:
    """Kubernetes does not look at groups: what is needed goes, the rest stays."""
    running = gang("g", 2, priority=0, gpu=4, on="n0")
    outcome = settle([*nodes("n0"), *running, worker("high", gpu=4, priority=10)], profile=DEFAULTS, cycles=1)

    assert ["g-1"] == outcome.evicted


def test_switched_off_it_evicts_nobody() -> None:
    """By name or with a star."""
    world = [*nodes("n0"), worker("low", gpu=8, on="n0"), worker("high", gpu=8, priority=10)]

    for name in ("*", "DefaultPreemption"):
        off = kubernetes(postFilter={"disabled": [{"name": name}]})
        assert [] == settle(world, profile=off).evicted


# -- as few and as unimportant as possible


def test_whoever_is_not_needed_stays() -> None:
    """Of three pods on a node the two that must go are the least important."""
    standing = [worker(f"v{i}", gpu=size, on="n0", priority=i) for i, size in enumerate((2, 3, 3))]
    outcome = settle(nodes("n0"), standing, [worker("high", gpu=5, priority=10)], profile=DEFAULTS, cycles=1)

    assert ["v0", "v1"] == outcome.evicted


def test_of_equals_the_younger_goes() -> None:
    """It has the least to lose."""
    standing = [
        labelled(worker("a", gpu=4, on="n0"), born="09:00"),
        labelled(worker("b", gpu=4, on="n0"), born="08:00"),
    ]
    outcome = settle(nodes("n0"), standing, [worker("high", gpu=4, priority=10)], profile=DEFAULTS, cycles=1)

    assert ["a"] == outcome.evicted


def test_nodes_are_compared_as_kubernetes_compares_them() -> None:
    """By the most important victim, then by their number, then by their age; then by name."""
    high = worker("high", gpu=8, priority=10)
    many = [*nodes("n0 n1"), worker("one", gpu=8, on="n0", priority=3), high]
    many += [worker(f"two-{i}", gpu=4, on="n1", priority=2) for i in range(2)]
    fewer = [*nodes("n0 n1"), worker("one", gpu=8, on="n1", priority=2), high]
    fewer += [worker(f"two-{i}", gpu=4, on="n0", priority=2) for i in range(2)]
    older = [*nodes("n0 n1"), labelled(worker("old", gpu=8, on="n0"), born="08:00"), high]
    older += [labelled(worker("young", gpu=8, on="n1"), born="09:00")]

    assert ["two-0", "two-1"] == settle(many, profile=DEFAULTS, cycles=1).evicted
    assert ["one"] == settle(fewer, profile=DEFAULTS, cycles=1).evicted
    assert ["young"] == settle(older, profile=DEFAULTS, cycles=1).evicted


def test_rules_between_pods_are_kept() -> None:
    """A pod that keeps others away goes before one that only takes up room."""
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
            ]
        }
    }
    standing = [
        labelled(worker("x", gpu=1, on="n0", priority=1), app="x"),
        worker("big", gpu=7, on="n0", priority=2),
        worker("firm", gpu=8, on="n1", priority=20),
    ]
    high = worker("high", gpu=1, priority=10, affinity=apart)
    outcome = settle(nodes("n0 n1"), standing, [high], profile=DEFAULTS)

    assert (["x"], {"high": "n0"}) == (outcome.evicted, outcome.bound)


# -- disruption budgets


def test_a_budget_is_kept_where_it_can_be() -> None:
    """The node whose pods no budget covers, although they are more important."""
    standing = [
        labelled(worker("kept", gpu=8, on="n0"), app="db"),
        worker("free", gpu=8, on="n1", priority=5),
    ]
    high = worker("high", gpu=8, priority=10)
    outcome = settle(nodes("n0 n1"), standing, [budget("b", allows=0, app="db"), high], profile=DEFAULTS, cycles=1)

    assert ["free"] == outcome.evicted


def test_on_a_node_those_beyond_a_budget_stay_first() -> None:
    """The budget lets one of two go; the third goes before the second of them."""
    standing = [labelled(worker(name, gpu=2, on="n0"), app="db") for name in ("db-0", "db-1")]
    standing.append(worker("other", gpu=4, on="n0", priority=3))
    world = [*nodes("n0"), *standing, budget("b", allows=1, app="db"), worker("high", gpu=4, priority=10)]

    assert ["other"] == settle(world, profile=DEFAULTS, cycles=1).evicted


def test_a_budget_is_broken_where_nothing_else_helps() -> None:
    """It is a preference, as in Kubernetes."""
    standing = [labelled(worker("kept", gpu=8, on="n0"), app="db")]
    world = [*nodes("n0"), *standing, budget("b", allows=0, app="db"), worker("high", gpu=8, priority=10)]

    assert ["kept"] == settle(world, profile=DEFAULTS, cycles=1).evicted


# -- turns


def test_a_less_important_job_does_not_take_what_an_eviction_was_to_complete() -> None:
    """A gang needs the free node and one that is cleared; a pod that would fit the free one comes after it."""
    standing = [worker("low", gpu=8, on="n0")]
    world = [*nodes("n0 n1"), *standing, *gang("g", 2, priority=5, gpu=8), worker("late", gpu=8, priority=1)]
    first = settle(world, profile=DEFAULTS, cycles=1)
    last = settle(world, profile=DEFAULTS)

    assert (["low"], {"g-0", "g-1"}, {}) == (first.evicted, set(first.nominated), first.bound)
    assert {"g-0", "g-1"} == set(last.bound)
    assert "late" in last.why


def test_a_more_important_pod_is_bound_before_anybody_is_evicted_for_others() -> None:
    """Turns go by priority: the first takes what is free, the second makes room, the third waits."""
    pods = [worker(f"p{i}", gpu=8, priority=9 - i) for i in range(3)]
    outcome = settle(nodes("n0 n1"), [worker("low", gpu=8, on="n1"), *pods], profile=DEFAULTS, cycles=1)

    assert ({"p0": "n0"}, {"p1": "n1"}, ["low"]) == (outcome.bound, outcome.nominated, outcome.evicted)
    assert "p2" in outcome.why


def test_the_surplus_of_an_older_gang_goes_before_a_younger_pod() -> None:
    """Turns go by priority, age and name; a gang that has its minimum does not fall behind."""
    members = [labelled(raw, born="08:00") for raw in gang("g", 3, priority=0, gpu=8)[1:]]
    group = gang("g", 2, priority=0)[0]
    young = labelled(worker("young", gpu=8), born="09:00")
    outcome = settle(nodes("n0 n1 n2"), [group, *members, young], profile=DEFAULTS, cycles=1)

    assert {"g-0", "g-1", "g-2"} == set(outcome.bound)


def test_an_obstacle_is_told_once() -> None:
    """However many actions met it."""
    named = [{"name": "Coscheduling"}, {"name": "ElasticQuota"}]
    profile = kubernetes(postFilter={"enabled": named})
    outcome = settle([*nodes("n0"), worker("old", gpu=8, on="n0", priority=9), worker("new", gpu=8)], profile=profile)

    assert 1 == outcome.why["new"].count("is less important")
