"""How node labels become a tree."""

from __future__ import annotations

import pytest
from tests.support.koordinator import cluster, layers, objects_of

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.controllers.discovery import layers as controller
from tierwise.dialects.koordinator.network_topology import read_layers
from tierwise.model.snapshot import Snapshot
from tierwise.port import PatchStatus
from tierwise.snapshot.builder import build


def _snapshot(*manifests: list[Raw]) -> Snapshot:
    return build(objects_of(*manifests), now=0.0)


def _node(name: str, **labels: str) -> Raw:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def test_a_name_under_two_parents_is_two_domains() -> None:
    """Domains are paths; a name that is not unique is shown with its parents."""
    topology = _snapshot(cluster({"s0": {"b0": "n0"}, "s1": {"b0": "n1", "b1": "n2"}})).topology

    assert ("s0", "s0/b0", "s1", "b1", "s1/b0") == topology.name[1:]


def test_a_node_without_the_innermost_label_stands_alone() -> None:
    """Its domain has its own name; other gaps leave the node outside the tree, and people hear of it."""
    nodes = [_node("n0", SpineLayer="s0"), _node("n1", BlockLayer="b0"), _node("n2", SpineLayer="s0", BlockLayer="b1")]
    snapshot = _snapshot([layers("BlockLayer", "SpineLayer"), *nodes])

    assert ("s0", "b1", "n0") == snapshot.topology.name[1:]
    assert ["NodesOutsideTree"] == [fault.code for fault in snapshot.faults]


def test_the_first_label_that_a_node_has_counts() -> None:
    """Several keys name one layer."""
    raw = layers()
    raw["spec"] = {
        "hierarchy": [
            {"layerName": "nodeLayer", "parentTopologyLayer": "blockLayer"},
            {"layerName": "blockLayer", "labelKey": ["new", "old"]},
        ]
    }
    topology = _snapshot([raw, _node("n0", old="a", new="b"), _node("n1", old="a")]).topology

    assert ("a", "b") == topology.name[1:]


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        ([], "no layer is listed"),
        ([("Block", "")], "the layer of the nodes, NodeTopologyLayer, is not listed"),
        ([("NodeTopologyLayer", "Row")], 'layer "NodeTopologyLayer" has the parent "Row", which is not listed'),
        ([("NodeTopologyLayer", "A"), ("A", "B"), ("B", "A")], 'layer "A" is its own ancestor'),
        ([("NodeTopologyLayer", ""), ("A", "")], 'layer "A" is not above the nodes: no chain of parents leads to it'),
        ([("NodeTopologyLayer", ""), ("NodeTopologyLayer", "")], 'layer "NodeTopologyLayer" is listed twice'),
    ],
)
def test_layers_that_form_no_chain(entries: list[tuple[str, str]], fault: str) -> None:
    """What is wrong is said once, with the layer's name."""
    raw = layers()
    raw["spec"] = {"hierarchy": [{"layerName": n, "parentTopologyLayer": p, "labelKey": n} for n, p in entries]}

    assert fault == read_layers(codec.decode(raw)).fault


def test_the_layer_of_the_nodes_may_have_any_name() -> None:
    """It is the one without a label that is around no other; the cluster may be listed too."""
    raw = layers()
    raw["spec"] = {
        "hierarchy": [
            {"layerName": "hosts", "parentTopologyLayer": "racks"},
            {"layerName": "racks", "labelKey": "rack", "parentTopologyLayer": "ClusterTopologyLayer"},
            {"layerName": "ClusterTopologyLayer"},
        ]
    }

    assert {"hosts": 0, "racks": 1, "ClusterTopologyLayer": 2} == read_layers(codec.decode(raw)).tiers()


def test_the_status_lists_domains_from_the_outside_in() -> None:
    """Names of children are left out where they are nodes; what the controller wrote it leaves alone."""
    objects = objects_of(cluster({"s0": {"b0": "n0 n1"}}))
    (patch,) = controller.reconcile(objects, 0.0)
    assert isinstance(patch, PatchStatus)

    root = {"topologyLayer": "ClusterTopologyLayer", "topologyName": ""}
    spine = {"topologyLayer": "SpineLayer", "topologyName": "s0"}
    block = {"topologyLayer": "BlockLayer", "topologyName": "b0"}
    assert [
        {"topologyInfo": root, "childTopologyLayer": "SpineLayer", "childTopologyNames": ["s0"], "nodeNum": 2},
        {
            "topologyInfo": spine,
            "parentTopologyInfo": root,
            "childTopologyLayer": "BlockLayer",
            "childTopologyNames": ["b0"],
            "nodeNum": 2,
        },
        {"topologyInfo": block, "parentTopologyInfo": spine, "childTopologyLayer": "NodeTopologyLayer", "nodeNum": 2},
    ] == patch.status["detailStatus"]
