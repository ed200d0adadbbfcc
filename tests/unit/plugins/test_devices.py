"""Pods with claims of devices: where they go, and what is written on the claims."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.support.devices import (
    DRIVER,
    claim,
    device,
    device_class,
    exactly,
    given,
    node,
    objects,
    pod,
    resource_slice,
    run,
    template,
)

from tierwise.api.codec import Raw
from tierwise.api.resource import DeviceAllocationResult, ResourceClaim
from tierwise.config.profile import DEFAULT
from tierwise.model.job import Verdict
from tierwise.scheduler import cycle
from tierwise.sim.cluster.rounds import Rounds
from tierwise.snapshot.builder import build


def _machine(name: str, *devices: Raw) -> list[Raw]:
    return [node(name), resource_slice(name, devices)]


def _code(history: Rounds, key: str) -> str:
    assert history.report is not None
    return history.report.rejections[key].reason.code


def _text(history: Rounds, key: str) -> str:
    assert history.report is not None
    return history.report.rejections[key].reason.text


def _claim(history: Rounds, name: str) -> ResourceClaim:
    return history.cluster.read().every(ResourceClaim)[f"default/{name}"]


GPUS = [device(f"gpu-{i}") for i in range(4)]


def test_a_pod_goes_where_the_devices_are() -> None:
    """The claim is allocated and reserved, protected, and tied to the node."""
    history = run(node("n0"), _machine("n1", *GPUS), device_class(), claim("c", exactly(2)), pod("p", "c"))

    assert {"default/p": "n1"} == history.bindings
    found = _claim(history, "c")
    assert ["gpu-0", "gpu-1"] == given(history, "c")
    assert ("resource.kubernetes.io/delete-protection",) == found.metadata.finalizers
    assert [("pods", "p", "uid-p")] == [(one.resource, one.name, one.uid) for one in found.status.reserved_for]
    assert found.status.allocation is not None
    selector = found.status.allocation.node_selector
    assert selector is not None
    assert ("n1",) == selector.node_selector_terms[0].match_fields[0].values


def test_two_pods_never_get_one_device() -> None:
    """What a running pod holds is not there for others."""
    history = run(
        _machine("n0", *GPUS), device_class(), template("t", exactly(2)), [pod(f"p{i}", of="t") for i in range(3)]
    )

    assert 2 == len(history.bindings)
    held = [name for i in range(3) for name in given(history, f"p{i}-made")]
    assert sorted(held) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]


def test_a_gang_whose_claims_come_from_a_template_is_one_shape() -> None:
    """A thousand claims alike are counted, and not searched for one by one."""
    group: Any = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 4},
        "status": {"phase": "Inqueue"},
    }
    machines = [_machine(f"n{i}", *GPUS) for i in range(2)]
    pods = [pod(f"p{i}", of="t", group="g") for i in range(4)]

    history = run(*machines, device_class(), template("t", exactly(2)), group, pods)

    assert history.reports[-1][0] is not None
    snapshot = next(s for s, report in history.reports if report.decisions)
    job = next(job for job in snapshot.jobs if job.key == "default/g")
    assert 1 == len({task.shape for task in job.tasks})
    assert {"n0": 2, "n1": 2} == {n: list(history.bindings.values()).count(n) for n in ("n0", "n1")}


def test_a_gang_that_does_not_fit_gets_no_device() -> None:
    """Nothing is allocated where the minimum does not fit."""
    group: Any = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 3},
        "status": {"phase": "Inqueue"},
    }
    pods = [pod(f"p{i}", of="t", group="g") for i in range(3)]

    history = run(_machine("n0", *GPUS), device_class(), template("t", exactly(2)), group, pods)

    assert {} == history.bindings
    assert [[], [], []] == [given(history, f"p{i}-made") for i in range(3)]
    assert "deviceclass/gpu.example.com" in str(history.report.rejections["default/g"])  # type: ignore[union-attr]


def test_selectors_of_classes_and_requests_both_count() -> None:
    """A device must be of the class and meet what the request asks for."""
    devices = [device("small", model="a30"), device("large", model="a100"), device("odd", model="a100")]
    other = resource_slice("n0", [device("nic", model="a100")], driver="nic.example.com")
    wanted = exactly(where=f'device.attributes["{DRIVER}"].model == "a100"')

    history = run(_machine("n0", *devices), other, device_class(), claim("c", wanted), pod("p", "c"))

    assert ["large"] == given(history, "c")


def test_who_may_have_any_device_leaves_the_special_one() -> None:
    """Sets that nest are counted exactly: both pods fit, whoever comes first."""
    devices = [device("large", model="a100"), device("small", model="a30")]
    wanted = exactly(where=f'device.attributes["{DRIVER}"].model == "a100"')

    history = run(
        _machine("n0", *devices),
        device_class(),
        claim("any", exactly()),
        claim("big", wanted),
        pod("a", "any"),
        pod("b", "big"),
    )

    assert {"default/a": "n0", "default/b": "n0"} == history.bindings
    assert ["small"] == given(history, "any")
    assert ["large"] == given(history, "big")


def test_sets_that_overlap_are_matched() -> None:
    """Where neither set contains the other, devices are matched on each node."""
    devices = [device("x", a=True, b=False), device("y", a=True, b=True), device("z", a=False, b=True)]
    has_a = exactly(2, where=f'device.attributes["{DRIVER}"].a')
    has_b = exactly(1, where=f'device.attributes["{DRIVER}"].b')

    history = run(
        _machine("n0", *devices), device_class(), claim("a", has_a), claim("b", has_b), pod("pa", "a"), pod("pb", "b")
    )

    assert {"default/pa": "n0", "default/pb": "n0"} == history.bindings
    assert ["x", "y"] == given(history, "a")
    assert ["z"] == given(history, "b")


@pytest.mark.parametrize("places", [(0, 1), (1, 0)])
def test_devices_are_dealt_anew_for_one_more_shape(places: tuple[int, int]) -> None:
    """Whoever comes first gives the device back that alone would do for the other, and takes the other one."""
    machine = [*_machine("n0", device("d0", level=0), device("d1", level=1)), *_machine("n1", device("d2", level=2))]
    machine[2] = node("n1", cpu=0)
    level = f"device.attributes['{DRIVER}'].level"
    claims = [claim("c0", exactly(where=f"{level} in [0, 1]")), claim("c1", exactly(where=f"{level} in [0, 2]"))]
    pods = [pod(f"p{i}", f"c{place}", group="g") for i, place in enumerate(places)]

    history = run(machine, device_class(), claims, pods, _group("g", 2))

    assert {"default/p0": "n0", "default/p1": "n0"} == history.bindings
    assert (["d1"], ["d0"]) == (given(history, "c0"), given(history, "c1"))


def test_devices_are_dealt_anew_where_pods_come_one_by_one() -> None:
    """Four pods and four devices: there is one way to serve them all, which those who came first could not foresee."""
    level = f"device.attributes['{DRIVER}'].level"
    claims = [
        claim(f"c{i}", exactly(where=f"{level} in {of}")) for i, of in enumerate(([0, 1], [0, 1, 2], [1], [1, 3]))
    ]
    machine = _machine("n0", *(device(f"d{i}", level=i) for i in range(4)))

    history = run(machine, device_class(), claims, [pod(f"p{i}", f"c{i}") for i in range(4)])

    assert [["d0"], ["d2"], ["d1"], ["d3"]] == [given(history, f"c{i}") for i in range(4)]


def test_all_devices_of_a_node() -> None:
    """A request for all gets every one, or none where one is in use."""
    every: Any = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "allocationMode": "All"}}

    alone = run(_machine("n0", *GPUS), device_class(), claim("c", every), pod("p", "c"))
    crowded = run(
        _machine("n0", *GPUS),
        device_class(),
        claim("c", every),
        pod("p", "c"),
        _held("x", "gpu-2"),
        pod("q", "x", on="n0"),
    )
    none = run(_machine("n0"), device_class(), claim("c", every), pod("p", "c"))

    assert 4 == len(given(alone, "c"))
    assert {} == crowded.bindings
    assert {} == none.bindings


def _held(name: str, *devices: str, pool: str = "n0", user: str = "q") -> dict[str, Any]:
    results = [{"request": "gpu", "driver": DRIVER, "pool": pool, "device": one} for one in devices]
    only = {"key": "metadata.name", "operator": "In", "values": [pool]}
    allocation = {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
    }
    reserved = [{"resource": "pods", "name": user, "uid": f"uid-{user}"}] if user else []
    return claim(name, exactly(len(devices)), status={"allocation": allocation, "reservedFor": reserved})


def test_an_allocated_claim_ties_its_pods_to_the_node() -> None:
    """Whoever joins a claim that is in use goes where its devices are."""
    history = run(
        _machine("n0", *GPUS),
        _machine("n1", *GPUS),
        device_class(),
        _held("c", "gpu-0", pool="n1"),
        pod("q", "c", on="n1"),
        pod("p", "c"),
    )

    assert {"default/p": "n1"} == history.bindings
    assert ["q", "p"] == [one.name for one in _claim(history, "c").status.reserved_for]


def test_pods_that_share_a_claim_go_to_one_node() -> None:
    """A claim that is not allocated yet is allocated once, where all who share it have room."""
    shared = [pod(f"p{i}", "c", cpu=3) for i in range(2)]

    history = run(
        [node("a", cpu=4), resource_slice("a", GPUS)],
        [node("b", cpu=8), resource_slice("b", GPUS)],
        device_class(),
        claim("c", exactly()),
        shared,
    )

    assert {"default/p0": "b", "default/p1": "b"} == history.bindings
    assert 1 == len(given(history, "c"))


def test_a_claim_is_reserved_for_all_whose_jobs_take_turns() -> None:
    """Of two gangs that share a claim both get a pod, and then one of them another: the last write names all three."""
    names = ["x-0", "y-0", "x-1"]
    pods = [pod(name, "c", group=name[0]) for name in names]

    history = run(_machine("n0", *GPUS), device_class(), claim("c", exactly()), _group("x", 1), _group("y", 1), pods)

    assert dict.fromkeys((f"default/{name}" for name in names), "n0") == history.bindings
    assert sorted(names) == sorted(one.name for one in _claim(history, "c").status.reserved_for)


def test_a_claim_stays_where_it_was_given_when_the_first_that_shares_it_goes() -> None:
    """The nomination of a pod is withdrawn after another pod was placed beside it: the devices are that pod's now."""
    group: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "late", "namespace": "default", "creationTimestamp": "2026-01-01T00:03:20Z"},
        "spec": {"minMember": 1, "queue": "default"},
        "status": {"phase": "Inqueue"},
    }
    early = pod("early", "c", cpu=2, nodeSelector={"kubernetes.io/hostname": "b"})
    late = [pod(f"late-{i}", "c", cpu=2, group="late") for i in range(2)]
    late[0]["status"] = {"nominatedNodeName": "b"}

    history = run(
        [node("a", cpu=4), resource_slice("a", GPUS)],
        [node("b", cpu=4, labels={"kubernetes.io/hostname": "b"}), resource_slice("b", GPUS)],
        device_class(),
        claim("c", exactly()),
        *(group, early, late),
    )

    assert {"b"} == set(history.bindings.values())
    assert 2 == len(history.bindings)


@pytest.mark.parametrize("how", ["selector", "taint", "cordon", "anti-affinity"])
def test_a_node_that_pods_may_not_use_keeps_them_from_no_other(how: str) -> None:
    """Of three pods that share a claim two fit on the only node for them, whatever room there is elsewhere."""
    small, large = _machine("a", *GPUS), _machine("b", *GPUS)
    small[0] = node("a", cpu=4, labels={"kubernetes.io/hostname": "a"})
    large[0] = node("b", cpu=64, labels={"kubernetes.io/hostname": "b"})
    spec: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "a"}} if how == "selector" else {}
    if how == "taint":
        large[0] = large[0] | {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    if how == "cordon":
        large[0] = large[0] | {"spec": {"unschedulable": True}}
    others: list[Raw] = []
    if how == "anti-affinity":
        others = [
            pod("other", on="b") | {"metadata": {"name": "other", "namespace": "default", "labels": {"app": "x"}}}
        ]
        term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    pods = [pod(f"p{i}", "c", cpu=2, **spec) for i in range(3)]

    history = run(small, large, device_class(), claim("c", exactly()), others, pods)

    assert ["a", "a"] == list(history.bindings.values())


@pytest.mark.parametrize("larger", ["n0", "n1", "n2"])
def test_pods_of_two_sizes_that_share_a_claim_find_the_node_that_holds_both(larger: str) -> None:
    """The first of them does not choose a node that is too small for the other."""
    machines = [
        raw
        for name in ("n0", "n1", "n2")
        for raw in (node(name, cpu=5 if name == larger else 4), resource_slice(name, GPUS[:1]))
    ]
    pods = [pod("a", "c", group="g", cpu=3), pod("b", "c", group="g", cpu=2)]

    history = run(machines, device_class(), claim("c", exactly(1)), _group("g", 2), pods)

    assert {"default/a": larger, "default/b": larger} == history.bindings


def test_first_available() -> None:
    """The first alternative that a node can serve is taken."""
    options = [
        {"name": "many", "deviceClassName": DRIVER, "count": 8},
        {"name": "few", "deviceClassName": DRIVER, "count": 2},
    ]

    history = run(
        _machine("n0", *GPUS), device_class(), claim("c", {"name": "gpu", "firstAvailable": options}), pod("p", "c")
    )

    found = _claim(history, "c").status.allocation
    assert found is not None
    assert ["gpu/few", "gpu/few"] == [one.request for one in found.devices.results]


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ({"matchAttribute": f"{DRIVER}/numa"}, ["b", "c"]),
        ({"distinctAttribute": f"{DRIVER}/numa"}, ["a", "b"]),
    ],
)
def test_constraints_between_devices(constraint: Raw, expected: list[str]) -> None:
    """Devices of one claim agree, or differ, in an attribute."""
    devices = [device("a", numa=0), device("b", numa=1), device("c", numa=1)]

    history = run(
        _machine("n0", *devices), device_class(), claim("c", exactly(2), constraints=[constraint]), pod("p", "c")
    )

    assert expected == given(history, "c")


def test_a_constraint_that_cannot_be_met_is_named() -> None:
    """The reason says which attribute keeps the pod waiting."""
    devices = [device("a", numa=0), device("b", numa=1)]
    constraint = {"matchAttribute": f"{DRIVER}/numa"}

    history = run(
        _machine("n0", *devices), device_class(), claim("c", exactly(2), constraints=[constraint]), pod("p", "c")
    )

    assert "DeviceConstraintNotMet" in str(history.report)
    assert f"{DRIVER}/numa" in str(history.report)


def test_taints_bar_devices_unless_they_are_tolerated() -> None:
    """A tainted device is for those who tolerate it."""
    bad = device("bad", taints=[{"key": "broken", "effect": "NoSchedule"}])
    tolerant = exactly(2, tolerations=[{"key": "broken", "operator": "Exists"}])

    strict = run(_machine("n0", bad, device("good")), device_class(), claim("c", exactly(2)), pod("p", "c"))
    lenient = run(_machine("n0", bad, device("good")), device_class(), claim("c", tolerant), pod("p", "c"))

    assert {} == strict.bindings
    assert ["bad", "good"] == given(lenient, "c")


def test_admin_access_takes_nothing() -> None:
    """Who only looks may look at devices in use, and keeps them from nobody."""
    looking = exactly(4, adminAccess=True)

    history = run(
        _machine("n0", *GPUS),
        device_class(),
        _held("x", "gpu-0", "gpu-1", "gpu-2", "gpu-3"),
        pod("q", "x", on="n0"),
        claim("c", looking),
        pod("p", "c"),
    )

    assert {"default/p": "n0"} == history.bindings
    assert 4 == len(given(history, "c"))


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ([], "ResourceClaim c does not exist"),
        (
            [
                {
                    **claim("c", exactly()),
                    "metadata": {"name": "c", "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"},
                }
            ],
            "ResourceClaim c is being deleted",
        ),
        ([claim("c", exactly(deviceClassName="none"))], "device class none does not exist"),
        ([claim("c", exactly(33))], "ResourceClaim c asks for 33 devices, and a claim can hold 32"),
        ([claim("c", exactly(-1))], "request gpu of ResourceClaim c asks for -1 devices"),
        ([claim("c", {"name": "gpu"})], "request gpu of ResourceClaim c is of a type that is not known"),
        (
            [
                claim(
                    "c",
                    exactly(),
                    status={"reservedFor": [{"resource": "pods", "name": f"x{i}", "uid": f"x{i}"} for i in range(256)]},
                )
            ],
            "",
        ),
    ],
)
def test_a_pod_whose_claim_is_not_ready_waits_and_says_why(extra: list[Raw], text: str) -> None:
    """The message names the claim."""
    history = run(_machine("n0", *GPUS), device_class(), extra, pod("p", "c"))

    if text:
        assert {} == history.bindings
        assert "ClaimNotReady" == _code(history, "default/podgroup-uid-p")
        assert text in _text(history, "default/podgroup-uid-p")


def test_a_claim_that_is_full_takes_no_more() -> None:
    """A claim is reserved for at most 256 pods."""
    users = [pod(f"u{i}", "c", on="n0", cpu=0) for i in range(256)]
    full = _held("c", "gpu-0", user="")
    full["status"]["reservedFor"] = [{"resource": "pods", "name": f"u{i}", "uid": f"uid-u{i}"} for i in range(256)]

    history = run(
        [node("n0", amounts={"pods": "1000"}), resource_slice("n0", GPUS)], device_class(), full, users, pod("p", "c")
    )

    assert "reserved for 256 pods already" in _text(history, "default/podgroup-uid-p")


def test_a_pod_waits_for_the_claim_that_its_template_promises() -> None:
    """Without the template no claim is made, and the reason says so."""
    history = run(_machine("n0", *GPUS), device_class(), pod("p", of="t"))

    assert "no ResourceClaim was made yet" in _text(history, "default/podgroup-uid-p")


def test_pools_count_when_they_are_complete() -> None:
    """Of a pool with two slices both must be there, and older generations do not count."""
    pool = {"name": "n0", "generation": 2, "resourceSliceCount": 2}
    first = resource_slice("n0", [device("a")], name="s1", pool=pool)
    second = resource_slice("n0", [device("b")], name="s2", pool=pool)
    old = resource_slice("n0", [device("old")], name="s0")
    rest = (node("n0"), device_class(), claim("c", exactly()), pod("p", "c"))

    assert {} == run(first, *rest).bindings
    assert ["a"] == given(run(first, second, old, *rest), "c")


def test_a_selector_that_fails_makes_the_node_unusable() -> None:
    """Nobody knows whether the device would do, so nothing is taken there."""
    wanted = exactly(where=f'device.attributes["{DRIVER}"].none == 1')

    history = run(_machine("n0", *GPUS), device_class(), claim("c", wanted), pod("p", "c"))

    assert {} == history.bindings
    assert "DevicesUnusable" in str(history.report)
    assert "no such key" in str(history.report)


def test_a_selector_that_costs_too_much_keeps_nobody_else_waiting() -> None:
    """Its claim has a fault, and the pod beside it, which wants any device, is bound."""
    heavy = exactly(where="cel.bind(a, lists.range(100), cel.bind(b, a.map(x, a), cel.bind(c, b.map(x, b), c == c)))")

    history = run(_machine("n0", *GPUS), device_class(), claim("c", heavy), pod("p", "c"), claim("d"), pod("q", "d"))

    assert {"default/q"} == set(history.bindings)
    assert "it costs more than Kubernetes allows a selector" in str(history.report)


def test_what_selectors_cost_is_counted_for_all_devices_together() -> None:
    """A selector that costs most of what one may on each of many devices is given up, not evaluated on each."""

    def said(size: int) -> str:
        devices = [device(f"d{i}", number=i) for i in range(size)]
        last = f'device.attributes["{DRIVER}"].number >= {size - 1}'
        dear = exactly(where=f"cel.bind(l, lists.range(250), l.all(x, l.all(y, y >= 0))) && {last}")
        history = run(_machine("n0", *devices), device_class(), claim("c", dear), pod("p", "c"))
        return "bound" if history.bindings else str(history.report)

    assert "bound" == said(2)
    assert "it costs more than Kubernetes allows a selector" in said(60)


def test_partitions_of_a_device_share_its_counters() -> None:
    """Two halves fit, and then nothing does."""
    counters = [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]

    def part(name: str, size: str) -> Raw:
        return {**device(name), "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": size}}}]}

    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 2}
    parts = [part("whole", "80Gi"), part("left", "40Gi"), part("right", "40Gi")]
    slices = [
        resource_slice("n0", [], name="counters", pool=pool, sharedCounters=counters),
        resource_slice("n0", parts, name="parts", pool=pool),
    ]
    half = exactly(where='device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].size() == 0')

    history = run(node("n0"), slices, device_class(), template("t", half), [pod(f"p{i}", of="t") for i in range(3)])

    held = sorted(name for i in range(3) for name in given(history, f"p{i}-made"))
    assert held in (["left", "right"], ["whole"])
    assert len(held) == len(history.bindings)


def test_capacity_that_is_shared_is_consumed() -> None:
    """Claims take parts of one device until its capacity is used up."""
    several = {**device("nic", capacity={"bandwidth": "10G"}), "allowMultipleAllocations": True}
    wanted = exactly(capacity={"requests": {"bandwidth": "4G"}})

    history = run(
        _machine("n0", several), device_class(), template("t", wanted), [pod(f"p{i}", of="t") for i in range(3)]
    )

    assert 2 == len(history.bindings)
    names = [name for i in range(3) for name in given(history, f"p{i}-made")]
    assert ["nic", "nic"] == names
    shares = [one.share_id for i in range(3) for one in _results(history, f"p{i}-made")]
    assert 2 == len(set(shares))


def _results(history: Rounds, name: str) -> tuple[DeviceAllocationResult, ...]:
    found = _claim(history, name).status.allocation
    return found.devices.results if found is not None else ()


def test_devices_that_several_nodes_reach() -> None:
    """A device of the network goes to one pod, wherever that runs."""
    net = resource_slice("fabric", [device("fpga")], nodeName=None, allNodes=True)

    history = run(
        node("n0"), node("n1"), net, device_class(), template("t", exactly()), [pod(f"p{i}", of="t") for i in range(2)]
    )

    assert 1 == len(history.bindings)
    found = next(one for one in history.cluster.read().every(ResourceClaim).values() if one.status.allocation)
    assert found.status.allocation is not None
    assert found.status.allocation.node_selector is None


def test_settings_of_class_and_claim_go_with_the_devices() -> None:
    """Drivers find them in the allocation, those of the class first."""
    opaque = {"driver": DRIVER, "parameters": {"mode": "shared"}}
    own = {"requests": ["gpu"], "opaque": {"driver": DRIVER, "parameters": {"slices": 2}}}

    history = run(
        _machine("n0", *GPUS),
        device_class(config=[{"opaque": opaque}]),
        claim("c", exactly(), config=[own]),
        pod("p", "c"),
    )

    found = _claim(history, "c").status.allocation
    assert found is not None
    assert ["FromClass", "FromClaim"] == [one.source for one in found.devices.config]
    assert {"slices": 2} == msgspec.to_builtins(found.devices.config[1].opaque)["parameters"]


def test_devices_of_a_pod_that_ended_are_free_again() -> None:
    """The claim of a pod that is gone goes with it, and the next pod gets the devices."""
    done = pod("q", "x", on="n0")
    done["status"] = {"phase": "Succeeded"}

    history = run(
        _machine("n0", device("only")), device_class(), _held("x", "only"), done, claim("c", exactly()), pod("p", "c")
    )

    assert {"default/p": "n0"} == history.bindings
    assert ["only"] == given(history, "c")


def test_a_pod_that_holds_devices_without_a_node_goes_there() -> None:
    """Left by a process that died between allocation and bind: the next one finishes it."""
    history = run(
        _machine("n0", *GPUS),
        _machine("n1", *GPUS),
        device_class(),
        _held("c", "gpu-3", pool="n1", user="p"),
        pod("p", "c"),
    )

    assert {"default/p": "n1"} == history.bindings
    assert ["gpu-3"] == given(history, "c")


def test_a_pod_that_cannot_use_its_devices_gives_them_back() -> None:
    """The node of its devices has no room: it is allocated anew elsewhere."""
    history = run(
        [node("n1", cpu=0), resource_slice("n1", GPUS)],
        _machine("n0", *GPUS),
        device_class(),
        _held("c", "gpu-3", pool="n1", user="p"),
        pod("p", "c"),
    )

    assert {"default/p": "n0"} == history.bindings
    assert ["gpu-0"] == given(history, "c")


def test_extended_resources_that_a_class_serves() -> None:
    """A plain request for GPUs is served by a claim that is made for it."""
    served = device_class(extendedResourceName="example.com/gpu")

    history = run(
        _machine("n0", *GPUS), node("n1"), served, [pod(f"p{i}", requests={"example.com/gpu": "3"}) for i in range(2)]
    )

    assert ["n0"] == list(history.bindings.values())
    made = [one for one in history.cluster.read().every(ResourceClaim).values() if one.status.allocation is not None]
    assert 1 == len(made)
    assert 3 == len(made[0].status.allocation.devices.results)  # type: ignore[union-attr]
    assert "true" == made[0].metadata.annotations["resource.kubernetes.io/extended-resource-claim"]


def test_nodes_that_offer_an_extended_resource_need_no_claim() -> None:
    """Where a device plugin serves it, nothing is made."""
    served = device_class(extendedResourceName="example.com/gpu")

    history = run(node("n0", amounts={"example.com/gpu": "4"}), served, pod("p", requests={"example.com/gpu": "3"}))

    assert {"default/p": "n0"} == history.bindings
    assert {} == dict(history.cluster.read().every(ResourceClaim))


def test_a_node_offers_some_of_the_extended_resources_itself() -> None:
    """The claim that is made asks for the others alone."""
    served = device_class(extendedResourceName="example.com/gpu")
    implicit = f"deviceclass.resource.kubernetes.io/{DRIVER}"
    machine = [node("n0", amounts={"example.com/gpu": "4"}), resource_slice("n0", GPUS[:1])]
    history = run(machine, served, pod("p", requests={"example.com/gpu": "2", implicit: "1"}))

    assert {"default/p": "n0"} == history.bindings
    (found,) = history.cluster.read().every(ResourceClaim).values()
    assert [(implicit, 1)] == [
        (implicit, request.exactly.count) for request in found.spec.devices.requests if request.exactly is not None
    ]


def test_what_a_node_offers_itself_is_not_there_for_claims() -> None:
    """A device plugin's GPUs are served to pods that ask for the resource: a gang of claims goes elsewhere."""
    served = device_class(extendedResourceName="example.com/gpu")
    offers = [node("n0", amounts={"example.com/gpu": "4"}), resource_slice("n0", GPUS[:1])]
    group = {**_group("g", 2), "spec": {"minMember": 2, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}}
    pods = [pod(f"q{i}", of="t", group="g") for i in range(2)]
    history = run(
        offers,
        _machine("n1", *GPUS[:2]),
        *(_tier(name, name.replace("r", "n")) for name in ("r0", "r1")),
        served,
        pod("p", requests={"example.com/gpu": "2"}),
        template("t", exactly()),
        group,
        pods,
    )

    assert {"default/p": "n0", "default/q0": "n1", "default/q1": "n1"} == history.bindings


def test_a_gang_of_claims_takes_what_is_left_beside_what_a_node_offers_itself() -> None:
    """A node of which drivers publish one device takes one of its pods, whatever its device plugin offers."""
    history = run(
        [node("n0", amounts={"example.com/gpu": "4"}), resource_slice("n0", GPUS[:1])],
        _machine("n1", *GPUS[:1]),
        device_class(extendedResourceName="example.com/gpu"),
        pod("p", requests={"example.com/gpu": "2"}),
        template("t", exactly()),
        _group("g", 2),
        [pod(f"q{i}", of="t", group="g") for i in range(2)],
    )

    assert {"default/p": "n0", "default/q0": "n0", "default/q1": "n1"} == history.bindings


def _tier(name: str, *nodes: str) -> Raw:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": one}}} for one in nodes]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": 1, "members": members},
    }


def _group(name: str, minimum: int, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": minimum, **more},
        "status": {"phase": "Inqueue"},
    }


def test_queues_have_quotas_of_device_classes() -> None:
    """As Volcano spells them: what claims of a class take counts towards the queue."""
    queue: Any = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "q"},
        "spec": {"capability": {f"deviceclass/{DRIVER}": "2"}},
        "status": {"state": "Open"},
    }
    groups = [_group("a", 1, queue="q"), _group("b", 1, queue="q")]
    pods = [pod("a0", of="t", group="a"), pod("b0", of="t", group="b")]

    history = run(_machine("n0", *GPUS), device_class(), template("t", exactly(2)), queue, groups, pods)

    assert {"default/a0": "n0"} == history.bindings
    assert "QueueOverCapability" == _code(history, "default/b")
    assert f"deviceclass/{DRIVER}: 2 asked, 2 used, 2 allowed" in _text(history, "default/b")


def test_a_claim_that_a_pod_names_twice_is_allocated_once() -> None:
    """Two names for one claim are one claim."""
    history = run(_machine("n0", *GPUS), device_class(), claim("c", exactly(3)), pod("p", "c", "c"))

    assert ["gpu-0", "gpu-1", "gpu-2"] == given(history, "c")
    assert ["p"] == [one.name for one in _claim(history, "c").status.reserved_for]


def test_without_predicates_nobody_gives_devices() -> None:
    """A profile that would bind pods without their devices lets them wait, and says so."""
    bare = replace(DEFAULT, tiers=tuple(tuple(p for p in tier if p.name != "predicates") for tier in DEFAULT.tiers))

    history = run(_machine("n0", *GPUS), device_class(), claim("c", exactly()), pod("p", "c"), profile=bare)

    assert {} == history.bindings
    assert "NotSupported" == _code(history, "default/podgroup-uid-p")


_PRIORITIES: list[Raw] = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("low", 1), ("high", 100))
]


def test_evicted_pods_make_room_for_more_important_ones() -> None:
    """Devices that are counted are freed by preemption, as any other resource is."""
    low = [pod(f"low{i}", f"x{i}", on="n0", group="low", priorityClassName="low") for i in range(2)]
    held = [_held(f"x{i}", f"gpu-{2 * i}", f"gpu-{2 * i + 1}", user=f"low{i}") for i in range(2)]
    high = pod("high0", of="t", group="high", priorityClassName="high")
    groups = [_group("low", 1, priorityClassName="low"), _group("high", 1, priorityClassName="high")]
    evicting = replace(DEFAULT, actions=(*DEFAULT.actions, "gangpreempt"))

    history = run(
        _machine("n0", *GPUS),
        device_class(),
        template("t", exactly(2)),
        _PRIORITIES,
        held,
        low,
        high,
        groups,
        profile=evicting,
    )

    assert 1 == len(history.evictions)
    assert {"default/high0": "n0"} == history.bindings
    assert 2 == len(given(history, "high0-made"))


_EITHER: Raw = {
    "name": "gpu",
    "firstAvailable": [
        {"name": name, "deviceClassName": DRIVER, "count": number} for name, number in (("four", 4), ("two", 2))
    ],
}


@pytest.mark.parametrize("action", ["gangpreempt", "preempt"])
def test_devices_that_are_matched_are_freed_by_preemption(action: str) -> None:
    """One of two pods goes, and the more important one gets its two devices when it is gone."""
    low = [pod(f"low{i}", f"x{i}", on="n0", group="low", priorityClassName="low") for i in range(2)]
    held = [_held(f"x{i}", f"gpu-{2 * i}", f"gpu-{2 * i + 1}", user=f"low{i}") for i in range(2)]
    high = pod("high0", of="t", group="high", priorityClassName="high")
    groups = [_group(name, 1, priorityClassName=name) for name in ("low", "high")]
    evicting = replace(DEFAULT, actions=(*DEFAULT.actions, action))

    history = run(
        *(_machine("n0", *GPUS), device_class(), template("t", _EITHER), _PRIORITIES, held, low, high, groups),
        profile=evicting,
    )

    assert 1 == len(history.evictions)
    assert {"default/high0": "n0"} == history.bindings
    assert 2 == len(given(history, "high0-made"))


def test_devices_that_are_being_let_go_are_waited_for() -> None:
    """The pod is nominated where a pod on its way out holds the devices, and not bound before they are free."""
    going: Any = pod("q", "x", on="n0")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world = objects(_machine("n0", *GPUS[:2]), device_class(), _held("x", "gpu-0", "gpu-1"), going)
    raws = [raw for key in world if (raw := world.raw(key)) is not None]
    snapshot = build(objects(raws, claim("c", _EITHER), pod("p", "c")), 0.0)
    report = cycle(snapshot, DEFAULT)

    assert [False] == [decision.bound for decision in report.decisions]
    assert () == report.writes


@pytest.mark.parametrize("request_", [exactly(2), _EITHER])
def test_devices_of_claims_for_pods_that_are_gone_are_waited_for(request_: Raw) -> None:
    """They are given back in a moment: nothing is evicted or written before."""
    world: list[Any] = [_machine("n0", *GPUS[:2]), device_class(), _held("x", "gpu-0", "gpu-1"), claim("c", request_)]
    report = cycle(build(objects(*world, pod("p", "c")), 0.0), DEFAULT)

    assert [False] == [decision.bound for decision in report.decisions]
    assert "DevicesInUse" == report.rejections["pod default/p"].reason.code
    assert () == report.writes


def test_a_nominated_gang_finds_its_devices() -> None:
    """What was evicted for it is enough: nobody else has to go."""
    low = [pod(f"low{i}", f"x{i}", on="n0", group=f"low{i}", priorityClassName="low") for i in range(2)]
    held = [_held(f"x{i}", f"gpu-{2 * i}", f"gpu-{2 * i + 1}", user=f"low{i}") for i in range(2)]
    high = pod("high0", of="t", group="high", priorityClassName="high")
    groups = [_group(name, 1, priorityClassName=name.rstrip("01")) for name in ("low0", "low1", "high")]
    evicting = replace(DEFAULT, actions=(*DEFAULT.actions, "gangpreempt"))

    history = run(
        *(_machine("n0", *GPUS), device_class(), template("t", _EITHER), _PRIORITIES, held, low, high, groups),
        profile=evicting,
    )

    assert 1 == len(history.evictions)
    assert {"default/high0": "n0"} == history.bindings


@pytest.mark.parametrize("sizes", [(1,), (1, 2)])
def test_devices_that_a_claim_keeps_for_nobody_may_come_back(sizes: tuple[int, ...]) -> None:
    """Pods wait for them: they are not there now, but the claim may be deleted."""
    kept = _held("x", *(f"gpu-{i}" for i in range(len(sizes))), user="")
    kept["status"]["reservedFor"] = []
    pods = [pod(f"p{i}", f"c{i}", group="g", cpu=cpu) for i, cpu in enumerate(sizes)]
    claims = [claim(f"c{i}", exactly()) for i in range(len(sizes))]
    world: list[Any] = [
        _machine("n0", *GPUS[: len(sizes)]),
        device_class(),
        kept,
        claims,
        pods,
        _group("g", len(sizes)),
    ]
    report = cycle(build(objects(*world), 0.0), DEFAULT)

    assert Verdict.NOT_NOW is report.rejections["default/g"].verdict


def test_a_device_of_another_class_does_not_do() -> None:
    """Pools of other drivers come first by name, and are passed over."""
    other = resource_slice("n0", [device("nic")], driver="a.example.com")

    history = run(_machine("n0", *GPUS), other, device_class(), claim("c", exactly()), pod("p", "c"))

    assert ["gpu-0"] == given(history, "c")


def test_a_claim_that_was_made_for_another_pod_is_not_used() -> None:
    """The status of a pod may name what it likes: the owner of a claim counts."""
    made = claim("made", exactly())
    made["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "q", "uid": "uid-q", "controller": True}]
    waiting = pod("p", of="t")
    waiting["status"] = {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "made"}]}

    history = run(_machine("n0", *GPUS), device_class(), template("t", exactly()), made, waiting, pod("q", "made"))

    assert "default/p" not in history.bindings
    assert "ResourceClaim made was not made for this pod" == _text(history, "default/podgroup-uid-p")


def test_overlapping_sets_are_not_counted() -> None:
    """One device that two claims could have goes to one: nobody is found a place that it cannot have."""
    has_a = exactly(where=f'device.attributes["{DRIVER}"].a')
    has_b = exactly(where=f'device.attributes["{DRIVER}"].b')
    full = [node("n1", cpu=0), resource_slice("n1", [device("x", a=True, b=False), device("z", a=False, b=True)])]
    wanted = [claim("ca", has_a), claim("cb", has_b)]

    neither = device("w", a=False, b=False)  # or the number of all devices would tell

    history = run(
        _machine("n0", device("y", a=True, b=True), neither),
        full,
        device_class(),
        wanted,
        pod("pa", "ca"),
        pod("pb", "cb"),
    )

    assert 1 == len(history.bindings)
    assert all("were given to other pods" not in str(report) for _, report in history.reports)


def test_devices_of_a_claim_that_nobody_runs_with_are_not_counted() -> None:
    """A claim that is allocated and reserved for no running pod keeps its devices."""
    history = run(
        _machine("n0", device("only")),
        device_class(),
        _held("x", "only", user=""),
        claim("c", exactly()),
        pod("p", "c"),
    )

    assert {} == history.bindings
    assert all("were given to other pods" not in str(report) for _, report in history.reports)


def test_devices_of_different_capacity_are_not_alike() -> None:
    """A request for a capacity does not take one device for another because nobody else looks at it."""
    devices = [device("large", capacity={"memory": "80Gi"}), device("small", capacity={"memory": "40Gi"})]
    wanted = claim("c", exactly(), exactly(name="big", capacity={"requests": {"memory": "60Gi"}}))

    history = run(_machine("n0", *devices), device_class(), wanted, pod("p", "c"))

    assert ["small", "large"] == given(history, "c")


def test_who_only_looks_may_choose_a_device_that_is_held() -> None:
    """And leaves the free one to the next claim, though the two are alike otherwise."""
    looking = claim("look", exactly(adminAccess=True))
    devices = _machine("n0", device("free"), device("held"))

    history = run(
        devices,
        device_class(),
        looking,
        claim("take", exactly()),
        _held("x", "held"),
        pod("q", "x", on="n0"),
        pod("p", "look", "take"),
    )

    assert ["held"] == given(history, "look")
    assert ["free"] == given(history, "take")


def test_what_is_wrong_is_told_of_the_pods_own_claim() -> None:
    """Claims that ask for the same are planned once, and each is named to its own pod."""
    claims = [claim(f"c{i}", exactly(deviceClassName="none")) for i in range(2)]

    history = run(_machine("n0", *GPUS), device_class(), claims, [pod(f"p{i}", f"c{i}") for i in range(2)])

    for i in range(2):
        assert f"of ResourceClaim c{i}: device class none" in _text(history, f"default/podgroup-uid-p{i}")
