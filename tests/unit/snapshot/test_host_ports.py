"""Which host ports clash on a node, by address and protocol."""

from __future__ import annotations

from itertools import product

import pytest
from tests.support.services import Raw, objects

from tierwise.config.profile import DEFAULT
from tierwise.sim.cluster.rounds import schedule

ADDRESSES = ("", "0.0.0.0", "::", "10.0.0.1", "fd00::1")
EVERYWHERE = ("", "0.0.0.0")
NODE: Raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"pods": "9"}}}


def _pod(name: str, address: str, protocol: str, *, on: str = "") -> Raw:
    port: Raw = {"containerPort": 80, "hostPort": 80, "protocol": protocol} | ({"hostIP": address} if address else {})
    spec: Raw = {"containers": [{"name": "c", "image": "i", "ports": [port]}]} | ({"nodeName": on} if on else {})
    meta: Raw = {"name": name, "namespace": "default", "uid": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.mark.parametrize(("one", "other"), [*product(ADDRESSES, ADDRESSES)])
def test_ports_clash_where_one_is_for_all_addresses_or_both_are_the_same(one: str, other: str) -> None:
    """As in Kubernetes, "::" is an address like any other; ports of two protocols never clash."""
    clash = one == other or one in EVERYWHERE or other in EVERYWHERE
    held = _pod("old", one, "TCP", on="a")
    wanted = objects(NODE, held, _pod("tcp", other, "TCP"), _pod("udp", other, "UDP"))
    bound = schedule(wanted, DEFAULT, now=0.0, cycles=1).bindings

    assert {"default/udp", *(() if clash else ("default/tcp",))} == set(bound)
