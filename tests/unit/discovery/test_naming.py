"""Names of discovered domains."""

import re
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.support.drawn_fabric import fabric, trees

from tierwise.discovery.naming import LONGEST, names
from tierwise.discovery.tree import PathElement, Tree

DNS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def _called(tree: Tree, prefix: str = "") -> list[str]:
    return list(names(tree, prefix).values())


def test_a_name_is_the_path_unless_names_are_unique() -> None:
    """Rack r0 of two spines is two domains; where the source has one name for one switch, it keeps it."""
    assert ["a-r0", "b-r0", "a", "b"] == _called(fabric("a: r0[n0]", "b: r0[n1]", unique=False))
    assert ["r0", "r1", "a"] == _called(fabric("a: r0[n0] r1[n1]"))
    assert ["x-r0", "x-a"] == _called(fabric("a: r0[n0]"), "x-")


def test_growth_elsewhere_renames_nothing() -> None:
    """A domain's name follows from its own path."""
    small, large = fabric("a: r0[n0]", unique=False), fabric("a: r0[n0] r1[n2]", "b: r0[n1]", unique=False)

    assert names(small).items() <= names(large).items()


def test_names_that_would_become_alike_are_told_apart() -> None:
    """Case and signs get lost in a name; a hash of the path takes their place, for all that are alike."""
    called = _called(fabric("s: R0[n0] r0[n1] r-0[n2] r_0[n3] r1[n4]"))

    assert 6 == len(set(called))
    assert {"r1", "s"} < set(called)
    assert not {"r0", "r-0"} & set(called)


def test_a_name_that_another_source_has_is_left_to_it() -> None:
    """The rest keeps its plain names."""
    tree = fabric("s: r0[n0] r1[n1]")

    assert ["r1", "s"] == list(names(tree, used_names={"r0"}).values())[1:]
    assert names(tree, used_names={"r0"})[(PathElement(2, "s"), PathElement(1, "r0"))].startswith("r0-")


@given(trees(), st.sampled_from(["", "site1-", "P" * 80, "-"]))
def test_names_are_valid_and_unique(tree: Tree, prefix: str) -> None:
    """Whatever a site calls its switches."""
    called = _called(tree, prefix)

    assert len(called) == len(set(called)) == len(tree)
    assert all(DNS.fullmatch(name) and len(name) <= LONGEST for name in called)


@given(trees(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(tree: Tree, chance: Random) -> None:
    """Shuffled hosts give the same domains in the same order under the same names."""
    places = list(tree.places.items())
    chance.shuffle(places)
    shuffled = Tree(dict(places), tree.tier_names, unique=tree.unique)

    assert list(names(tree).items()) == list(names(shuffled).items())
    assert list(tree.domains.items()) == list(shuffled.domains.items())
