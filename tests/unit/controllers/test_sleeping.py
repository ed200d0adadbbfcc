"""Controllers are not asked while there are no objects of the kinds that they are about."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tierwise.api.codec import Object, Raw, Unknown
from tierwise.api.core import ConfigMap
from tierwise.api.elastic_quota import ElasticQuota
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.network_aware import AppGroup, KepAppGroup, KepNetworkTopology, NetworkTopology
from tierwise.api.resource import ResourceClaim, ResourceClaimTemplate
from tierwise.api.volcano import HyperNode
from tierwise.controllers import Controllers, WholeController, app_group, network_topology
from tierwise.controllers.discovery import hypernode_status, labels, layers, sources
from tierwise.controllers.elastic_quota import QuotaFigures
from tierwise.port import Effect, Key, Objects, PatchStatus
from tierwise.sim.cluster import claims, workloads
from tierwise_lab.bench.manifests import job, node, read_manifests

GROUP: Raw = {
    "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
    "kind": "AppGroup",
    "metadata": {"name": "shop", "namespace": "d"},
    "spec": {"numMembers": 1, "topologySortingAlgorithm": "KahnSort", "workloads": [{"workload": {"name": "a"}}]},
}


@pytest.mark.parametrize(
    ("about", "reconcile"),
    [
        ((ConfigMap,), labels.reconcile),
        ((ConfigMap,), sources.reconcile),
        ((HyperNode,), hypernode_status.reconcile),
        ((ClusterNetworkTopology,), layers.reconcile),
        ((AppGroup, KepAppGroup), app_group.reconcile),
        ((NetworkTopology, KepNetworkTopology), network_topology.reconcile),
        ((ElasticQuota,), QuotaFigures().reconcile),
        ((ResourceClaim, ResourceClaimTemplate), claims.reconcile),
        ((Unknown,), workloads.reconcile),
    ],
)
def test_who_has_no_objects_has_nothing_to_do(
    about: tuple[type[Object], ...], reconcile: Callable[[Objects, float], list[Effect]]
) -> None:
    """Whatever else there is: so nobody misses what a sleeping controller would have asked for."""
    objects = read_manifests([node(0), *[job(i, 2) for i in range(3)]])

    assert not any(objects.every(kind) for kind in about)
    assert [] == reconcile(objects, 0.0)


def test_the_first_object_wakes_it_and_the_last_lets_it_sleep() -> None:
    """A controller is asked about what came after it fell asleep."""
    asked: list[int] = []

    def reconcile(objects: Objects, now: float) -> list[Effect]:
        asked.append(len(objects.every(AppGroup)))
        return []

    controllers = Controllers(controllers=[WholeController((AppGroup,), reconcile, about=(AppGroup,))])
    alone = read_manifests([node(0), job(0, 2)])
    key = Key("appgroup.diktyo.x-k8s.io", "AppGroup", "d", "shop")
    grouped = alone.changed({key: GROUP})

    controllers.run(alone, 0.0)
    effects = controllers.run(grouped, 0.0)
    controllers.run(grouped.changed({}, [key]), 0.0)

    assert [1] == asked
    assert any(isinstance(effect, PatchStatus) and effect.key == key for effect in effects)
