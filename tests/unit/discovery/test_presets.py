"""Node labels of clouds: their levels from the node outwards, and which of them nodes carry."""

from collections.abc import Iterator

import pytest

from tierwise.api.core import Node, ObjectMeta
from tierwise.discovery.presets import PRESETS, carried, preset_named, read
from tierwise.discovery.tree import Discovered

CLIQUE = "nvidia.com/gpu.clique"

# The documented labels of each, outermost first.
DOCUMENTED = {
    "aws": (
        "topology.k8s.aws/network-node-layer-1",
        "topology.k8s.aws/network-node-layer-2",
        "topology.k8s.aws/network-node-layer-3",
        "topology.k8s.aws/network-node-layer-4",
        "topology.k8s.aws/ultraserver-id",
        CLIQUE,
    ),
    "azure": ("kubernetes.azure.com/ppg", CLIQUE),
    "coreweave": (
        "backend.coreweave.cloud/fabric",
        "backend.coreweave.cloud/superpod",
        "backend.coreweave.cloud/leafgroup",
        "ds.coreweave.com/nvlink.domain",
        CLIQUE,
    ),
    "gke": (
        "cloud.google.com/gce-topology-block",
        "cloud.google.com/gce-topology-subblock",
        CLIQUE,
        "cloud.google.com/gce-topology-host",
    ),
    "nebius": (
        "topology.nebius.com/gpu-cluster-id",
        "topology.nebius.com/tier-2",
        "topology.nebius.com/tier-1",
        "topology.nebius.com/tier-0",
        CLIQUE,
    ),
    "oke": (
        "oci.oraclecloud.com/rdma.hpc_island_id",
        "oci.oraclecloud.com/rdma.network_block_id",
        "oci.oraclecloud.com/rdma.local_block_id",
        CLIQUE,
    ),
    "topograph": (
        "network.topology.nvidia.com/core",
        "network.topology.nvidia.com/spine",
        "network.topology.nvidia.com/leaf",
        "network.topology.nvidia.com/accelerator",
    ),
}


def _nodes(**labels: dict[str, str]) -> Iterator[Node]:
    return (Node(metadata=ObjectMeta(name=name, labels=given)) for name, given in labels.items())


def _read(preset: str, **labels: dict[str, str]) -> Discovered:
    return read(PRESETS[preset], _nodes(**labels))


def test_every_preset_has_its_documented_labels_here() -> None:
    """A preset that is added needs its line above."""
    assert DOCUMENTED.keys() == PRESETS.keys()


@pytest.mark.parametrize("preset", DOCUMENTED)
def test_levels_are_in_the_order_of_the_network(preset: str) -> None:
    """Each label is one tier, the outermost first on a node's path, and its values make the domains."""
    labels = {key: f"v{i}" for i, key in enumerate(DOCUMENTED[preset])}
    found = _read(preset, n0=labels, plain={})
    tiers = range(len(labels), 0, -1)

    assert {"n0": tuple(zip(tiers, labels.values(), strict=True))} == found.tree.places
    assert () == found.remarks
    assert len(labels) == len(found.tree.tier_names)


@pytest.mark.parametrize("preset", DOCUMENTED)
def test_labels_lead_to_their_preset(preset: str) -> None:
    """By any one of them but the clique, which every cloud's nodes may carry."""
    for key in DOCUMENTED[preset]:
        if key != CLIQUE:
            assert {preset: 1} == carried(_nodes(n0={key: "v", CLIQUE: "c"}, n1={CLIQUE: "c"}, n2={key: ""}))


def test_a_clique_alone_is_read_as_topograph_reads_it() -> None:
    """The GPU operator writes it without topograph, too."""
    assert {"topograph": 2} == carried(_nodes(n0={CLIQUE: "c"}, n1={CLIQUE: "c"}, n2={}))
    assert {} == carried(_nodes(n0={"zone": "a"}))


def test_instances_with_three_layers_stand_beside_those_with_four() -> None:
    """Layer 1 is the outermost for both; the fourth is passed over where it is missing."""
    layers = {f"topology.k8s.aws/network-node-layer-{n}": f"nn-{n}" for n in (1, 2, 3)}
    found = _read("aws", p5=layers, gb200={**layers, "topology.k8s.aws/network-node-layer-4": "nn-4"})

    assert ["nn-1", "nn-2", "nn-3"] == [step.name for step in found.tree.places["p5"]]
    assert [(4, "nn-1"), (3, "nn-2"), (2, "nn-3"), (1, "nn-4")] == list(found.tree.places["gb200"])


def test_numbers_count_within_the_level_around_them() -> None:
    """CoreWeave numbers its leaf groups within a superpod: 1 and 1 are two domains, and nothing to wonder at."""
    key = "backend.coreweave.cloud/"
    labels = {f"n{pod}": {f"{key}superpod": str(pod), f"{key}leafgroup": "1"} for pod in range(2)}

    assert (4, ()) == (len(_read("coreweave", **labels).tree), _read("coreweave", **labels).remarks)


def test_older_keys_of_infiniband_mean_the_same() -> None:
    """CoreWeave's first labels are still there; the newer of two counts."""
    old = _read("coreweave", n0={"ib.coreweave.cloud/leafgroup": "7", "ib.coreweave.cloud/superpod": "2"})
    both = _read("coreweave", n0={"ib.coreweave.cloud/leafgroup": "7", "backend.coreweave.cloud/leafgroup": "8"})

    assert ["2", "7"] == [step.name for step in old.tree.places["n0"]]
    assert ["8"] == [step.name for step in both.tree.places["n0"]]


def test_a_value_in_two_places_is_told() -> None:
    """An id that two others contain is two domains, and a warning."""
    key = "cloud.google.com/gce-topology-"
    found = _read("gke", **{f"n{i}": {f"{key}block": f"b{i}", f"{key}subblock": "s"} for i in range(2)})

    assert ["subblock s is found in several places: every place is a domain of its own"] == list(
        map(str, found.warnings)
    )


def test_a_preset_without_its_labels_fails() -> None:
    """They may have been lost; an empty network would delete the old one."""
    assert ["no node carries a label of oke"] == [str(remark) for remark in _read("oke", n0={"zone": "a"}).errors]


@pytest.mark.parametrize(("said", "meant"), [("nvidia", "topograph"), ("eks", "aws"), ("gke", "gke")])
def test_presets_have_the_names_that_people_use(said: str, meant: str) -> None:
    """The cloud's name or that of its Kubernetes service."""
    assert PRESETS[meant] is preset_named(said)
    assert preset_named("acme") is None
