"""Slurm's topology.conf and topology.yaml: the examples of its documentation, and what can be wrong with a file."""

from itertools import starmap

import pytest
import yaml
from tests.support.drawn_fabric import fabric

from tierwise.discovery import slurm
from tierwise.discovery.tree import Discovered, Tree

# https://slurm.schedmd.com/topology.html and the manual pages topology.conf(5), topology.yaml(5)
THREE_LEVELS = """\
# topology.conf
SwitchName=s0 Nodes=tux[0-1]
SwitchName=s1 Nodes=tux[2-3]
SwitchName=s2 Nodes=tux[4-5]
SwitchName=s3 Nodes=tux[6-7]
SwitchName=s4 Switches=s[0-1]
SwitchName=s5 Switches=s[2-3]
SwitchName=s6 Switches=s[4-5]
"""
FOUR_SPINES = """\
SwitchName=s0 Nodes=tux[0-3]   LinkSpeed=900
SwitchName=s1 Nodes=tux[4-7]   LinkSpeed=900
SwitchName=s2 Nodes=tux[8-11]  LinkSpeed=900
SwitchName=s3 Nodes=tux[12-15] LinkSpeed=1800
SwitchName=s4 Switches=s[0-3]  LinkSpeed=1800
SwitchName=s5 Switches=s[0-3]  LinkSpeed=1800
SwitchName=s6 Switches=s[0-3]  LinkSpeed=1800
SwitchName=s7 Switches=s[0-3]  LinkSpeed=1800
"""
ONE_SPINE = """\
SwitchName=s0 Nodes=tux[0-3]
SwitchName=s1 Nodes=tux[4-7]
SwitchName=s2 Nodes=tux[8-11]
SwitchName=s3 Nodes=tux[12-15]
SwitchName=s4 Switches=s[0-3]
"""
DEV = """\
SwitchName=s0 Nodes=dev[0-5]
SwitchName=s1 Nodes=dev[6-11]
SwitchName=s2 Nodes=dev[12-17]
SwitchName=s3 Switches=s[0-2]
"""
BLOCKS = """\
BlockName=block1 Nodes=node[1-32]
BlockName=block2 Nodes=node[33-64]
BlockName=block3 Nodes=node[65-96]
BlockName=block4 Nodes=node[97-128]
BlockSizes=30,120
"""
RINGS = "RingName=ring0 Nodes=node[01-08]\nRingName=ring1 Nodes=node[09-16]\n"
SEVERAL = """\
---
- topology: topo1
  cluster_default: true
  tree:
    switches:
      - switch: sw_root
        children: s[1-2]
      - switch: s1
        nodes: node[01-02]
      - switch: s2
        nodes: node[03-04]
- topology: topo2
  cluster_default: false
  block:
    block_sizes:
      - 4
      - 16
    blocks:
      - block: b1
        nodes: node[01-04]
      - block: b2
        nodes: node[05-08]
      - block: b3
        nodes: node[09-12]
      - block: b4
        nodes: node[13-16]
- topology: topo3
  cluster_default: false
  flat: true
"""


def _conf(text: str) -> Discovered:
    return slurm.parse_conf(text, "topology.conf")


def _yaml(text: str, topology: str = "") -> Discovered:
    return slurm.parse_yaml(yaml.safe_load(text), "topology.yaml", topology)


def _counts(tree: Tree) -> dict[int, int]:
    """How many domains each tier has."""
    return {tier: sum(path[-1].tier == tier for path in tree) for tier in tree.tiers}


@pytest.mark.parametrize(
    ("text", "tiers", "nodes"),
    [
        (THREE_LEVELS, {1: 4, 2: 2, 3: 1}, 8),
        (FOUR_SPINES, {1: 4, 2: 1}, 16),
        (ONE_SPINE, {1: 4, 2: 1}, 16),
        (DEV, {1: 3, 2: 1}, 18),
        (BLOCKS, {1: 4, 2: 1}, 128),
        (RINGS, {1: 2}, 16),
    ],
)
def test_documented_examples_round_trip(text: str, tiers: dict[int, int], nodes: int) -> None:
    """Read, written and read again they are the same tree, in either format."""
    found = _conf(text)
    written = slurm.write_conf(found.tree)

    assert [] == found.errors
    assert (tiers, nodes) == (_counts(found.tree), len(found.tree.places))
    assert found.tree.places == _conf(written).tree.places
    assert written == slurm.write_conf(_conf(written).tree)
    assert found.tree.places == _yaml(slurm.write_yaml(found.tree)).tree.places


def test_a_file_that_is_plain_already_is_written_as_it_was() -> None:
    """The documentation's own order and spelling."""
    assert ONE_SPINE == slurm.write_conf(_conf(ONE_SPINE).tree)


def test_planes_of_one_fabric_are_one_domain() -> None:
    """Four spines over the same leaves join the same nodes; who is left out is said."""
    found = _conf(FOUR_SPINES)

    assert _conf(ONE_SPINE).tree.places == found.tree.places
    assert ["topology.conf:5: switch s4 stands for s5, s6, s7 too: they have the same members"] == list(
        map(str, found.warnings)
    )


@pytest.mark.parametrize(
    ("topology", "tiers"), [("", {1: 2, 2: 1}), ("topo1", {1: 2, 2: 1}), ("topo2", {1: 4, 2: 1}), ("topo3", {})]
)
def test_one_of_several_topologies_is_read(topology: str, tiers: dict[int, int]) -> None:
    """The one asked for, else the cluster's default; a flat one has no domains."""
    found = _yaml(SEVERAL, topology)

    assert () == found.remarks
    assert tiers == _counts(found.tree)


def test_the_ways_to_write_a_line() -> None:
    """Case of keys, quotes, comments, continued lines, blanks around the equals sign and line ends do not matter."""
    text = (
        "\ufeff# a comment\r\n"
        'switchname=r0 NODES="n[0-1]" # and another\r\n'
        "SWITCHNAME = r1 \\\r\n   Nodes=n[2-3] linkspeed=1\r\n"
        "\r\n"
        "SwitchName=s Switches=r0,r1"
    )

    assert fabric("s: r0[n0 n1] r1[n2 n3]").places == _conf(text).tree.places


def test_blocks_that_follow_each_other_are_joined() -> None:
    """By powers of two of the base size; what is left over at the end forms a smaller domain, or none."""
    text = "".join(f"BlockName=b{i} Nodes=n[{4 * i}-{4 * i + 3}]\n" for i in range(7)) + "BlockSizes=4,8,16\n"
    tree = _conf(text).tree
    called = {tier: [path[-1].name for path in tree if path[-1].tier == tier] for tier in tree.tiers}

    assert ["b0-b1", "b2-b3", "b4-b5"] == called[2]
    assert ["b0-b3", "b4-b6"] == called[3]
    assert {1: "block", 2: "blockx2", 3: "blockx4"} == tree.tier_names


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("SwitchName=s0 Nodes=n[0-", 'topology.conf:1: "n[0-": "[" without "]"'),
        ("\nSwitchName=s0 Nodes", 'topology.conf:2: "Nodes" is not of the form Key=Value'),
        ("SwitchName=s0 Ndes=n0", 'topology.conf:1: "ndes" does not go with SwitchName'),
        ("Nodes=n0", "topology.conf:1: nodes without SwitchName, BlockName, RingName or BlockSizes"),
        ("SwitchName= Nodes=n0", "topology.conf:1: SwitchName is empty"),
        ("SwitchName=a Nodes=n0 Nodes=n1", "topology.conf:1: Nodes is given twice"),
        ("Include other.conf", "topology.conf:1: Include is not followed: give the file that holds the topology"),
        ("# nothing", "topology.conf: names no switch, block or ring"),
        ("SwitchName=a Switches=b", "topology.conf:1: switch a names switch b, which does not exist"),
        (
            "SwitchName=a Nodes=n0\nSwitchName=a Nodes=n1",
            "topology.conf:2: switch a is given twice, first at topology.conf:1",
        ),
        ("SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[1-2]", "topology.conf:2: node n1 is on switch b and on a"),
        (
            "SwitchName=a Switches=b\nSwitchName=b Switches=a",
            "topology.conf:1: switch a is below itself, or holds one that is",
        ),
        (
            "SwitchName=l0 Nodes=n0\nSwitchName=l1 Nodes=n1\nSwitchName=a Switches=l[0-1]\nSwitchName=b Switches=l1",
            "topology.conf:4: switch l1 is below b and below a: two parents",
        ),
        (
            "BlockName=b Nodes=n0\nSwitchName=s Nodes=n1",
            "topology.conf: switches, blocks and rings cannot be told in one tree: give one of them",
        ),
        (
            "BlockName=b Nodes=n[0-3]\nBlockSizes=4,12",
            "topology.conf:2: block size 12 is not 4 times a power of two above 1",
        ),
        ("BlockName=b Nodes=n[0-3]\nBlockSizes=x", 'topology.conf:2: BlockSizes="x" is not a list of numbers'),
        ("BlockName=b Nodes=n[0-3]\nBlockSizes=0", "topology.conf:2: block size 0 is not positive"),
        ("BlockSizes=4", "topology.conf:1: BlockSizes stands alone, without blocks"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(text: str, remark: str) -> None:
    """And nothing of it becomes a tree."""
    found = _conf(text)

    assert remark in list(map(str, found.errors))
    assert {} == found.tree.places


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("{}", "topology.yaml: expected a list, got an object"),
        ("[]", "topology.yaml: holds no topology"),
        ("- 3", "topology.yaml: [0]: expected an object, got an integer"),
        ("- {topology: a}", "topology.yaml: [0]: exactly one of tree, block, ring, flat, torus3d is needed"),
        ("- {topology: a, torus3d: {x: 1}}", "topology.yaml: [0].torus3d: a torus is no tree"),
        ("- {topology: a, tree: {switches: 1}}", "topology.yaml: [0].tree.switches: expected a list, got an integer"),
        (
            "- {topology: a, tree: {switches: [{}]}}",
            'topology.yaml: [0].tree.switches[0]: Object missing required field "switch"',
        ),
        (
            "- {topology: a, tree: {switches: [{switch: s, nodes: 'n['}]}}",
            'topology.yaml: [0].tree.switches[0].nodes: "n[": a name is empty',
        ),
        (
            "- {topology: a, block: {blocks: [], block_sizes: [x]}}",
            "topology.yaml: [0].block.block_sizes[0]: expected an integer, got a string",
        ),
    ],
)
def test_what_is_wrong_with_a_yaml_file_is_said_with_its_field(text: str, remark: str) -> None:
    """The same, by field."""
    assert [remark] == list(map(str, _yaml(text).errors))


def test_an_unknown_topology_is_refused_with_those_that_there_are() -> None:
    """Whoever misspells it sees the right spelling."""
    assert ['topology.yaml: there is no topology "x": it has topo1, topo2, topo3'] == list(
        map(str, _yaml(SEVERAL, "x").errors)
    )


def test_an_empty_switch_is_left_out() -> None:
    """A hyperNode needs a member; a switch without nodes has none."""
    found = _conf("SwitchName=a Nodes=n0\nSwitchName=b")

    assert ["topology.conf:2: no node is below switch b: it is left out"] == list(map(str, found.warnings))
    assert ["a"] == [path[-1].name for path in found.tree]


def test_a_node_that_slurm_could_not_read_is_not_written() -> None:
    """Rather than a file that means something else."""
    with pytest.raises(ValueError, match='node "n,1" cannot be written'):
        slurm.write_conf(Tree({"n,1": next(iter(fabric("s: r[n0]").places.values()))}))


def test_a_deep_chain_of_switches_is_read() -> None:
    """The depth of a file is no limit."""
    lines = [
        "SwitchName=s0 Nodes=n0",
        *starmap("SwitchName=s{} Switches=s{}".format, ((i, i - 1) for i in range(1, 3000))),
    ]

    assert 3000 == len(_conf("\n".join(lines)).tree.places["n0"])
