"""`tierwise what-if` asks the same of every language: nodes, racks, drains, constraints, priorities, manifests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support import koordinator, languages
from tests.support.commands import EXAMPLES, answer, manifests, run
from tests.support.languages import RACK, SPINE, near, packed, topology

from tierwise.api.codec import Raw

TREE = {"s0": {"r0": "n0 n1", "r1": "n2 n3", "r2": "n4"}}
"""One free node in r0 beside a cordoned one, a gang in r1, and a free node in r2."""
Make = Callable[[str, int, dict[int, str]], list[Raw]]


def _hypernodes() -> list[Raw]:
    racks = [koordinator.hypernode(rack, 1, [("Node", n) for n in nodes.split()]) for rack, nodes in TREE["s0"].items()]
    return [*racks, koordinator.hypernode("s0", 2, [("HyperNode", rack) for rack in TREE["s0"]])]


def _volcano(name: str, pods: int, on: dict[int, str]) -> list[Raw]:
    group, *members = languages.volcano_gang(name, pods, on=on)
    return [
        group | {"spec": {"minMember": pods, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}},
        *members,
    ]


def _layers() -> Raw:
    layers: Any = koordinator.layers("RackLayer", "SpineLayer")
    for layer, key in zip(layers["spec"]["networkTopologySpec"][1:], (RACK, SPINE), strict=True):
        layer["labelKey"] = [key]
    return layers  # type: ignore[no-any-return]


def _named(name: str, on: dict[int, str], role: str = "") -> dict[str, str]:
    return {f"{name}-{role}{i}": node for i, node in on.items()}


FLAVOR: Raw = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "ResourceFlavor",
    "metadata": {"name": "f"},
    "spec": {"topologyName": "net"},
}
LANGUAGES: dict[str, tuple[list[Raw], Make, str]] = {
    "volcano": (_hypernodes(), _volcano, "2"),
    "koordinator": (
        [_layers()],
        lambda name, pods, on: koordinator.gang(name, pods, must="RackLayer", running=on),
        "SpineLayer",
    ),
    "kubernetes": ([], lambda name, pods, on: languages.kubernetes_gang(name, pods, key=RACK, on=on), SPINE),
    "kai": (
        [topology()],
        lambda name, pods, on: languages.kai_gang(name, pods, on=_named(name, on), topologyConstraint=near(RACK)),
        SPINE,
    ),
    "grove": (
        [],
        lambda name, pods, on: languages.grove_gang(
            name, {"w": pods}, on=_named(name, on, "w-"), topologyConstraint=packed(RACK)
        ),
        SPINE,
    ),
    "kueue": (
        [topology(of="kueue.x-k8s.io/v1beta1"), FLAVOR],
        lambda name, pods, on: languages.kueue_gang(name, pods, on=on, required_topology=RACK),
        SPINE,
    ),
}


@pytest.fixture(params=LANGUAGES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, Path]:
    """A cluster in which a gang waits, and another one to submit, in one language."""
    trees, make, _ = LANGUAGES[request.param]
    nodes = languages.nodes(TREE)
    nodes[1]["spec"] = {"unschedulable": True}
    file = manifests(tmp_path, *nodes, *trees, *make("train", 2, {}), *make("old", 2, {0: "n2", 1: "n3"}))
    return request.param, file, manifests(tmp_path, *make("third", 1, {}), name="more.yaml")


def _effects(file: Path, *options: str) -> dict[str, str]:
    found = answer("what-if", "-f", file, *options)
    return {change["podGroup"].rpartition("/")[2]: change["effect"] for change in found["jobs"]}


def test_every_change_in_every_language(world: tuple[str, Path, Path]) -> None:
    """Who starts, who stops and who comes is the same, whoever declares gangs and trees."""
    language, file, more = world
    wider = LANGUAGES[language][2]

    for starting in (
        ("--uncordon", "n1"),
        ("--uncordon", f"{RACK}=r0"),
        ("--add-nodes", "1=n0"),
        ("--add-domains", "1=r0"),
        ("--constraint", f"train=hard:{wider}"),
        ("--constraint", "train=soft"),
    ):
        assert {"train": "starts"} == _effects(file, *starting), starting
    assert {"train": "starts", "old": "ends"} == _effects(file, "--delete", "old")
    assert "stops" == _effects(file, "--drain", "r1")["old"]
    assert "stops" == _effects(file, "--remove", "n3")["old"]
    assert {"third": "starts"} == _effects(file, "--submit", str(more))
    assert {} == _effects(file, "--priority", "train=100")


def test_nodes_by_a_label_that_nobody_has() -> None:
    """Told, and not passed over."""
    assert "no node has the label a=b" in run("what-if", "-f", EXAMPLES / "02-why-not", "--drain", "a=b").stderr
