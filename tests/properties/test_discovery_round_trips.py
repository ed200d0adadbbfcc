"""Trees that are written in a site's format and read again are the same trees."""

from __future__ import annotations

import yaml
from hypothesis import given
from tests.support.drawn_fabric import same_shape, trees

from tierwise.api import codec
from tierwise.api.core import ConfigMap, Node, ObjectMeta
from tierwise.api.volcano import HyperNode
from tierwise.discovery import fetch_record, from_hypernodes, presets, slurm, topograph
from tierwise.discovery.manifests import hypernodes
from tierwise.discovery.naming import names
from tierwise.discovery.tree import Discovered, Tree


def _from_topograph(tree: Tree) -> Discovered:
    labels = topograph.labels(tree)
    return presets.read(
        presets.PRESETS["topograph"],
        (Node(metadata=ObjectMeta(name=name, labels=given)) for name, given in labels.items()),
    )


def _from_manifests(tree: Tree) -> Discovered:
    records = [codec.decode(raw) for raw in hypernodes(tree, names(tree), "test")]
    return from_hypernodes.read([found for found in records if isinstance(found, HyperNode)], [])


@given(trees(unique=True, gaps=False))
def test_a_tree_of_switches_comes_back_from_slurm_as_it_was(tree: Tree) -> None:
    """Names, tiers and nodes, but for planes: switches over the same nodes are one to Slurm."""
    conf = slurm.parse_conf(slurm.write_conf(tree), "f")
    in_yaml = slurm.parse_yaml(yaml.safe_load(slurm.write_yaml(tree)), "f")

    assert tree.places == conf.tree.places == in_yaml.tree.places
    assert () == conf.remarks == in_yaml.remarks


@given(trees(gaps=False))
def test_any_tree_keeps_its_shape_in_slurm(tree: Tree) -> None:
    """Where one name stands for several switches the paths become names."""
    assert same_shape(tree, slurm.parse_conf(slurm.write_conf(tree), "f").tree)


@given(trees())
def test_any_tree_keeps_its_shape_in_the_labels_of_topograph(tree: Tree) -> None:
    """Whatever the names and whichever tiers a node lacks."""
    found = _from_topograph(tree)

    assert [] == found.errors
    assert same_shape(tree, found.tree)


@given(trees(unique=True))
def test_names_that_are_labels_come_back_from_topograph(tree: Tree) -> None:
    """Short names are written as they are."""
    names_of = {node: [step.name for step in place] for node, place in tree.places.items()}
    found = {node: [step.name for step in place] for node, place in _from_topograph(tree).tree.places.items()}

    assert names_of == found


@given(trees())
def test_any_tree_keeps_its_shape_as_hypernodes(tree: Tree) -> None:
    """Without an error, and without a warning."""
    found = _from_manifests(tree)

    assert () == found.remarks
    assert same_shape(tree, found.tree)


@given(trees())
def test_a_record_keeps_a_tree_to_the_letter(tree: Tree) -> None:
    """What was fetched is what the controllers see."""
    kept = codec.decode(fetch_record.manifest(fetch_record.fetched(tree, 5.0), "ufm", "ns"))
    assert isinstance(kept, ConfigMap)

    assert fetch_record.fetched(tree, 5.0) == fetch_record.read(kept)
