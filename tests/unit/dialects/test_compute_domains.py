"""Pods of a ComputeDomain stand in one NVLink clique, one on each node."""

from __future__ import annotations

from typing import Any

from tests.support.devices import device, device_class, exactly, node, pod, resource_slice, run, template

CHANNELS = "compute-domain.nvidia.com"
CLASS = "compute-domain-default-channel.nvidia.com"
CLIQUE = "nvidia.com/gpu.clique"
_DOMAIN: Any = {
    "apiVersion": "resource.nvidia.com/v1beta1",
    "kind": "ComputeDomain",
    "metadata": {"name": "d", "namespace": "default"},
    "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "t"}}},
}


def _machine(name: str, clique: str) -> list[Any]:
    labels = {CLIQUE: clique} if clique else {}
    return [node(name, labels=labels), resource_slice(name, [device("channel-0", type="channel")], driver=CHANNELS)]


def _gang(number: int) -> list[Any]:
    group: Any = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": number},
        "status": {"phase": "Inqueue"},
    }
    kinds = device_class(CLASS, expression=f'device.driver == "{CHANNELS}"')
    wanted = template("t", exactly(name="channel", deviceClassName=CLASS))
    return [group, kinds, wanted, *(pod(f"p{i}", of="t", group="g") for i in range(number))]


def test_a_domain_stays_in_one_clique() -> None:
    """Two nodes of one clique, though four others are free."""
    machines = [one for i, clique in enumerate("aab bc".replace(" ", "")) for one in _machine(f"n{i}", clique)]

    history = run(machines, _DOMAIN, _gang(2))

    assert sorted(history.bindings.values()) in (["n0", "n1"], ["n2", "n3"])


def test_a_domain_larger_than_every_clique_waits() -> None:
    """A node has one channel, and a clique of two nodes takes two pods."""
    machines = [one for i, clique in enumerate("aabb") for one in _machine(f"n{i}", clique)]

    assert {} == run(machines, _DOMAIN, _gang(3)).bindings
    assert 3 == len(run(machines, _gang(3)).bindings)  # without a domain nothing ties them together


def test_nodes_without_a_clique_take_no_pod_of_a_domain() -> None:
    """Memory is shared within a clique alone."""
    assert {} == run(_machine("n0", ""), _machine("n1", ""), _DOMAIN, _gang(2)).bindings


def _lone(*names: str, on: str = "") -> list[Any]:
    kinds = device_class(CLASS, expression=f'device.driver == "{CHANNELS}"')
    wanted = template("t", exactly(name="channel", deviceClassName=CLASS))
    return [kinds, wanted, *(pod(name, of="t", on=on) for name in names)]


def test_lone_pods_of_a_domain_follow_each_other() -> None:
    """They are no gang, and still end up in one clique; who finds no node there waits."""
    machines = [one for i, clique in enumerate("abab") for one in _machine(f"n{i}", clique)]

    history = run(machines, _DOMAIN, _lone("p0", "p1", "p2"))

    assert sorted(history.bindings.values()) in (["n0", "n2"], ["n1", "n3"])


def test_pods_follow_those_that_run() -> None:
    """A node of another clique does not do, though it comes first."""
    machines = [one for i, clique in enumerate("abb") for one in _machine(f"n{i}", clique)]
    kinds, wanted, running = _lone("r", on="n2")

    history = run(machines, _DOMAIN, kinds, wanted, running, pod("p", of="t"))

    assert history.bindings["default/p"] in ("n1", "n2")
    full = run(
        _machine("n0", "a"), _machine("n2", "b"), node("n3", cpu=0), _DOMAIN, kinds, wanted, running, _full("n2")
    )
    assert {} == full.bindings
    assert "InAnotherClique" in str(full.report)


def _full(name: str) -> list[Any]:
    """A pod that leaves no room on a node, and one that looks for a place."""
    return [pod("large", on=name, cpu=7), pod("p", of="t")]


def test_a_gang_of_two_domains_is_not_kept_in_one_clique() -> None:
    """Each domain has a clique of two nodes, and no clique has room for all four pods."""
    machines = [one for i, clique in enumerate("aabb") for one in _machine(f"n{i}", clique)]
    other: Any = {**_DOMAIN, "metadata": {"name": "e", "namespace": "default"}}
    other["spec"] = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "u"}}}
    group, kinds, wanted, *pods = _gang(4)
    theirs = template("u", exactly(name="channel", deviceClassName=CLASS))
    pods[2:] = [pod(f"p{i}", of="u", group="g") for i in (2, 3)]

    assert 4 == len(run(machines, _DOMAIN, other, group, kinds, wanted, theirs, pods).bindings)


def test_who_joins_no_domain_does_not_hold_the_others_back() -> None:
    """A launcher stands where it can: the clique has no room for it, and needs none."""
    machines = [one for i, clique in enumerate("aa") for one in _machine(f"n{i}", clique)]
    outside = node("front", labels={"role": "front"})
    launcher = pod("launcher", group="g", nodeSelector={"role": "front"})
    group, *rest = _gang(2)
    whole = {**group, "spec": {"minMember": 3}}

    placed = run(machines, outside, _DOMAIN, whole, rest, launcher).bindings
    alone = run(machines[:2], outside, _DOMAIN, whole, rest, launcher).bindings

    assert {"default/launcher": "front", "default/p0": "n0", "default/p1": "n1"} == dict(placed)
    assert {} == alone  # all or nothing, as before


def test_two_domains_of_one_gang_have_a_clique_each() -> None:
    """Pods of either stay together; the domains need not."""
    machines = [one for i, clique in enumerate("abab") for one in _machine(f"n{i}", clique)]
    other = {**_DOMAIN, "metadata": {"name": "e", "namespace": "default"}}
    other["spec"] = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "u"}}}
    kinds = device_class(CLASS, expression=f'device.driver == "{CHANNELS}"')
    templates = [template(name, exactly(name="channel", deviceClassName=CLASS)) for name in ("t", "u")]
    pods = [pod(f"{of}{i}", of=of, group="g") for of in ("t", "u") for i in range(2)]

    placed = run(machines, _DOMAIN, other, _gang(4)[0], kinds, templates, pods).bindings

    cliques = {name: {"n0": "a", "n1": "b", "n2": "a", "n3": "b"}[at] for name, at in placed.items()}
    assert 4 == len(placed)
    assert cliques["default/t0"] == cliques["default/t1"] != cliques["default/u0"] == cliques["default/u1"]


def test_the_label_that_no_node_has_is_named() -> None:
    """And not one node that would not do."""
    world = [_machine("n0", ""), _machine("n1", ""), _DOMAIN, _gang(2)]

    report = run(*world).report
    assert report is not None
    rejection = report.rejections["default/g"]

    assert any(f'"{CLIQUE}", and no node has this label' in one.reason.text for one in rejection.children)


def test_the_template_of_a_domain_is_made_where_the_driver_is() -> None:
    """Its class of devices says so; without it, and where somebody wrote the template, nothing is made."""
    machines = [one for i in range(2) for one in _machine(f"n{i}", "a")]
    with_template = _gang(2)
    without = [one for one in with_template if one["kind"] != "ResourceClaimTemplate"]
    bare = [one for one in without if one["kind"] != "DeviceClass"]

    for gang, made in ((without, True), (with_template, False), (bare, False)):
        history = run(machines, _DOMAIN, gang)
        templates = history.cluster.read().of_kind("resource.k8s.io", "ResourceClaimTemplate")
        labels = [one.metadata.labels for one in templates.values()]
        assert made is any("resource.nvidia.com/computeDomain" in own for own in labels)
        assert (2 if gang is not bare else 0) == len(history.bindings)
