"""UFM's ports as a tree."""

import pytest
from tests.support.fabric_manager import ports

from tierwise.discovery.tree import Discovered, Path, PathElement
from tierwise.discovery.ufm import read


def _read(*links: str, systems: object = None) -> Discovered:
    return read(ports(*links), systems, "ufm")


def _names(place: Path) -> list[str]:
    return [step.name for step in place]


def test_leaves_that_share_a_host_are_one_domain() -> None:
    """The rails of a machine are not apart; without links between switches one domain holds all, as in Volcano."""
    found = _read("n0-leaf0", "n0-leaf1", "n1-leaf1", "n1-leaf2", "n2-leaf4")

    assert {
        "n0": (PathElement(2, "fabric"), PathElement(1, "leaf0")),
        "n1": (PathElement(2, "fabric"), PathElement(1, "leaf0")),
        "n2": (PathElement(2, "fabric"), PathElement(1, "leaf4")),
    } == found.tree.places
    assert ({1: "leaf", 2: "spine"}, ()) == (found.tree.tier_names, found.remarks)


def test_links_between_switches_tell_the_tiers_above() -> None:
    """Leaves below the same spine are one domain, spines below the same core another."""
    pods = ["n0-l0", "n1-l1", "l0=s0", "l1=s0", "l0=s1", "n2-l2", "n3-l3", "l2=s2", "l3=s2"]
    found = _read(*pods, "s0=c0", "s1=c0", "s2=c0")

    assert ["c0", "s0", "l0"] == _names(found.tree.places["n0"])
    assert ["c0", "s0", "l1"] == _names(found.tree.places["n1"])
    assert ["c0", "s2", "l3"] == _names(found.tree.places["n3"])
    assert {1: "leaf", 2: "spine", 3: "core"} == found.tree.tier_names


def test_separate_fabrics_stay_apart() -> None:
    """Where the links are known, nothing joins what no link joins."""
    found = _read("n0-l0", "n1-l1", "l0=s0", "n2-l2", "n3-l3", "l2=s1", "l1=s0", "l3=s1")

    assert {"s0", "s1"} == {place[0].name for place in found.tree.places.values()}


def test_one_leaf_needs_nothing_above_it() -> None:
    """A domain over all that has one member says nothing."""
    assert {"n0": (PathElement(1, "l0"),)} == _read("n0-l0").tree.places


def test_a_host_without_a_link_is_named_and_left_out() -> None:
    """A port that is down has no peer."""
    found = read([*ports("n0-l0"), *ports("n1-N/A")], None, "ufm")

    assert ["n0"] == list(found.tree.places)
    assert ["ufm: host n1 has no link to a switch: it is left out"] == list(map(str, found.warnings))


def test_systems_say_what_a_port_does_not() -> None:
    """A description may be missing; a gateway beside a switch is no switch."""
    bare = [{"system_name": "n0", "peer_node_name": "l0"}, {"system_name": "l0", "peer_node_name": "gw"}]
    found = read(bare, [{"system_name": "n0", "type": "host"}], "ufm")

    assert {"n0": (PathElement(1, "l0"),)} == found.tree.places


@pytest.mark.parametrize(
    ("data", "remark"),
    [
        ({"error": "x"}, "ufm: expected a list of ports"),
        ([1], "ufm: expected a list of ports, each an object"),
        ([], "ufm: no port joins a host to a switch"),
        ([{"system_name": 3}], "ufm: no port joins a host to a switch"),
    ],
)
def test_an_answer_of_another_shape_discovers_nothing(data: object, remark: str) -> None:
    """An empty list too: a fabric that lost all its hosts is not believed."""
    assert [remark] == list(map(str, read(data, None, "ufm").errors))
