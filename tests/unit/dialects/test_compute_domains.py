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
