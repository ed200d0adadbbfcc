"""The defaults of an API server, filled in wherever a pod is decoded."""

from __future__ import annotations

from typing import Any

import msgspec

from tierwise.api import codec
from tierwise.api.core import Pod, PodSpec
from tierwise.api.pod_defaults import container_requests, filled


def _spec(**spec: Any) -> PodSpec:
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    found: Pod = codec.decode(raw)
    assert found == codec.decode_json(msgspec.json.encode(raw), Pod)
    return found.spec


def _container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "resources": resources}


def test_limits_are_requests_where_there_are_none() -> None:
    """Of every container, init containers included; a request that is there stays."""
    given = _container(limits={"cpu": "2", "x.io/gpu": 1}, requests={"cpu": "1"})

    spec = _spec(containers=[given], initContainers=[_container(limits={"memory": "1Gi"})])

    assert {"cpu": "1", "x.io/gpu": 1} == spec.containers[0].resources.requests
    assert {"memory": "1Gi"} == spec.init_containers[0].resources.requests


def test_limits_of_the_whole_pod_are_its_requests() -> None:
    """Where containers ask for something of cpu or memory, that comes first."""
    spec = _spec(
        containers=[_container(requests={"cpu": "1"}), _container(requests={"cpu": "500m"})],
        resources={"limits": {"cpu": "4", "memory": "2Gi", "hugepages-2Mi": "4Mi"}},
    )

    assert spec.resources is not None
    assert {"cpu": "1500m", "memory": "2Gi", "hugepages-2Mi": "4Mi"} == spec.resources.requests


def test_requests_of_the_whole_pod_without_limits_stay_as_they_are() -> None:
    """Containers' requests for other resources are added up as ever."""
    spec = _spec(containers=[_container(requests={"memory": "1Gi"})], resources={"requests": {"cpu": "2"}})

    assert spec.resources is not None
    assert {"cpu": "2"} == spec.resources.requests


def test_huge_pages_of_containers_limit_the_whole_pod() -> None:
    """An API server writes their sum into the pod's limits, and from there into its requests."""
    page = {"hugepages-2Mi": "4Mi"}
    spec = _spec(containers=[_container(limits=page), _container(limits=page)], resources={"limits": {"cpu": "1"}})

    assert spec.resources is not None
    assert {"cpu": "1", "hugepages-2Mi": "8Mi"} == spec.resources.requests


def test_ports_of_the_host_network_are_host_ports() -> None:
    """Sidecars' too; without hostNetwork a container port takes nothing of its node."""
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]
    inside, outside = (
        _spec(
            containers=[{"name": "c", "ports": ports}], initContainers=[{"name": "i", "ports": ports}], hostNetwork=on
        )
        for on in (True, False)
    )

    assert [80, 8081] == [port.host_port for port in inside.containers[0].ports]
    assert [80, 8081] == [port.host_port for port in inside.init_containers[0].ports]
    assert [0, 8081] == [port.host_port for port in outside.containers[0].ports]


def test_what_is_filled_in_stays_the_same_record() -> None:
    """Pods from an API server cost nothing."""
    spec = _spec(containers=[_container(limits={"cpu": "1"})], resources={"limits": {"cpu": "1"}}, hostNetwork=True)

    assert filled(spec) is spec


def test_sums_beyond_what_can_be_counted_are_cut() -> None:
    """Nothing raises, whatever containers ask for."""
    huge = _container(requests={"memory": "6Ei"})

    assert _spec(containers=[huge, huge, huge], resources={"limits": {"cpu": "1"}}).resources is not None


def test_sidecars_run_beside_all_that_comes_after_them() -> None:
    """An init container starts beside the sidecars before it, and so do the containers of the pod."""
    sidecar = _container(requests={"cpu": "2"}) | {"name": "s", "restartPolicy": "Always"}
    first, later = (_container(requests={"cpu": cpu}) | {"name": f"i{cpu}"} for cpu in ("6", "5"))

    def asked(main: str, *before: dict[str, Any]) -> int:
        spec = _spec(containers=[_container(requests={"cpu": main})], initContainers=list(before))
        return container_requests(spec)["cpu"] // 1000

    assert [3, 6, 7, 5, 11] == [
        asked("3"),
        asked("3", first, sidecar),
        asked("3", sidecar, later),
        asked("3", sidecar),
        asked("9", sidecar, later),
    ]
