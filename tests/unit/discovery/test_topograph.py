"""Node labels of topograph, in all their generations."""

import pytest

from tierwise.api.core import Node, ObjectMeta
from tierwise.discovery import presets, topograph
from tierwise.discovery.tree import Discovered, PathElement

NVIDIA = "network.topology.nvidia.com/"
OLD = {
    "accelerator": f"{NVIDIA}accelerator",
    "leaf": f"{NVIDIA}block",
    "spine": f"{NVIDIA}spine",
    "core": f"{NVIDIA}datacenter",
}
CURRENT = {level: f"{NVIDIA}{level}" for level in ("accelerator", "leaf", "spine", "core")}
NEW = {
    "accelerator": "accelerator.topograph.run/domain",
    "leaf": "fabric.topograph.run/tier-0",
    "spine": "fabric.topograph.run/tier-1",
    "core": "fabric.topograph.run/tier-2",
}  # fmt: skip


def _read(**labels: dict[str, str]) -> Discovered:
    return presets.read(
        presets.PRESETS["topograph"],
        (Node(metadata=ObjectMeta(name=name, labels=given)) for name, given in labels.items()),
    )


@pytest.mark.parametrize("keys", [OLD, CURRENT, NEW])
def test_every_generation_of_keys_means_the_same(keys: dict[str, str]) -> None:
    """The example of topograph's own documentation: NVLink domain nvl1 on switch s1 below s2 below s3."""
    values = {"accelerator": "nvl1", "leaf": "s1", "spine": "s2", "core": "s3"}
    found = _read(n0={keys[level]: value for level, value in values.items()}, other={})

    assert {
        "n0": (PathElement(4, "s3"), PathElement(3, "s2"), PathElement(2, "s1"), PathElement(1, "nvl1"))
    } == found.tree.places
    assert {1: "accelerator", 2: "leaf", 3: "spine", 4: "core"} == found.tree.tier_names


@pytest.mark.parametrize("keys", [CURRENT])
def test_label_sets_round_trip(keys: dict[str, str]) -> None:
    """Labels that were read are written as they were."""
    labels = {
        "n0": {keys["accelerator"]: "nvl1", keys["leaf"]: "s1", keys["spine"]: "s2", keys["core"]: "s3"},
        "n1": {keys["leaf"]: "s1", keys["spine"]: "s2", keys["core"]: "s3"},
        "n2": {keys["accelerator"]: "nvl2", keys["spine"]: "s2", keys["core"]: "s3"},
    }

    assert labels == topograph.labels(_read(**labels).tree)


def test_tiers_are_those_that_some_node_has() -> None:
    """Without accelerators the leaf is tier 1; a node without one hangs on its leaf directly."""
    switches = _read(n0={CURRENT["leaf"]: "s1", CURRENT["spine"]: "s2"})
    mixed = _read(n0={CURRENT["leaf"]: "s1", CURRENT["accelerator"]: "v"}, n1={CURRENT["leaf"]: "s1"})

    assert {"n0": (PathElement(2, "s2"), PathElement(1, "s1"))} == switches.tree.places
    assert {"n0": (PathElement(2, "s1"), PathElement(1, "v")), "n1": (PathElement(2, "s1"),)} == mixed.tree.places


def test_the_gpu_operators_label_stands_in_for_the_accelerator() -> None:
    """Topograph leaves its own label out where that one is there; sub-domains and far tiers are levels as well."""
    labels = {
        "nvidia.com/gpu.clique": "uuid.1",
        "accelerator.topograph.run/sub-domain": "half",
        "fabric.topograph.run/tier-0": "s1",
        "fabric.topograph.run/tier-3": "top",
    }

    assert ["top", "s1", "uuid.1", "half"] == [step.name for step in _read(n0=labels).tree.places["n0"]]


def test_a_switch_in_two_places_is_two_domains_and_a_warning() -> None:
    """Values are identities to topograph, so that is worth a word."""
    found = _read(
        n0={CURRENT["leaf"]: "s1", CURRENT["spine"]: "a"},
        n1={CURRENT["leaf"]: "s1", CURRENT["spine"]: "b"},
    )

    assert 4 == len(found.tree)
    assert ["leaf s1 is found in several places: every place is a domain of its own"] == list(map(str, found.warnings))


def test_without_labels_there_is_nothing_to_read() -> None:
    """Which is a failure and not an empty network: the labels may have been lost."""
    assert ["no node carries a label of topograph"] == list(map(str, _read(n0={"zone": "a"}).errors))


def test_long_names_become_the_hash_that_topograph_writes() -> None:
    """FNV-1a with 64 bits and an x before it; its published test vector for the text foobar."""
    found = _read(n0={CURRENT["leaf"]: "s"})
    place = {"n0": (PathElement(1, "foobar/"),)}
    written = topograph.labels(type(found.tree)(place))

    assert {"n0": {CURRENT["leaf"]: f"x{_fnv('foobar/')}"}} == written
    assert "85944171f73967e8" == _fnv("foobar")


def _fnv(text: str) -> str:
    digest = 14695981039346656037
    for byte in text.encode():
        digest = (digest ^ byte) * 1099511628211 % 2**64
    return f"{digest:016x}"
