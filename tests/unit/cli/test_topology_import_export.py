"""`topology import` and `export`: a tree carried as the JSON list of a topology ConfigMap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.support.commands import manifests, run
from tests.support.koordinator import cluster

from tierwise.dialects.koordinator.topology_map import hypernodes_of, read_entries

LIST = [
    {"layer": 2, "name": "s2", "children": ["s0", "s1"]},
    {"layer": 1, "name": "s0", "parents": ["s2"], "children": ["node0", "node1"]},
    {"layer": 1, "name": "s1", "parents": ["s2"], "children": ["node2", "node3"]},
]
NODES = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node{i}"}} for i in range(4)]


def test_what_is_imported_can_be_exported(tmp_path: Path) -> None:
    """The list of document 003 becomes hyperNodes, and these the same list again."""
    file = tmp_path / "topology.json"
    file.write_text(json.dumps(LIST))
    hypernodes = list(yaml.safe_load_all(run("topology", "import", file).stdout))

    exported = run("topology", "export", "-f", manifests(tmp_path, *hypernodes, *NODES))

    assert LIST == json.loads(exported.stdout)


def test_a_config_map_holds_the_list(tmp_path: Path) -> None:
    """What export wraps in a ConfigMap, import takes out again; layers make the tree as hyperNodes do."""
    world = manifests(tmp_path, *cluster({"s0": {"b0": "n0", "b1": "n1"}}))
    file = tmp_path / "map.yaml"
    file.write_text(run("topology", "export", "-f", world, "--config-map", "network").stdout)

    found = list(yaml.safe_load_all(run("topology", "import", file).stdout))

    assert "network" == yaml.safe_load(file.read_text())["metadata"]["name"]
    assert ["s0", "b0", "b1"] == [hypernode["metadata"]["name"] for hypernode in found]


PLANES = {
    "two spines over the same leaves": [
        {"layer": 2, "name": "s2", "children": ["s0", "s1"]},
        {"layer": 2, "name": "s3", "children": ["s0", "s1"]},
        {"layer": 1, "name": "s0", "parents": ["s2", "s3"], "children": ["node0", "node1"]},
        {"layer": 1, "name": "s1", "parents": ["s2", "s3"], "children": ["node2", "node3"]},
    ],
    "children named from below alone": [
        {"layer": 2, "name": "s2"},
        {"layer": 2, "name": "s3"},
        {"layer": 1, "name": "s0", "parents": ["s2", "s3"], "children": ["node0", "node1"]},
        {"layer": 1, "name": "s1", "parents": ["s3", "s2"], "children": ["node2", "node3"]},
    ],
    "leaves of two rails, and a core for each plane": [
        {"layer": 3, "name": "c0", "children": ["s2"]},
        {"layer": 3, "name": "c1", "children": ["s3"]},
        {"layer": 2, "name": "s2", "parents": ["c0"], "children": ["s0", "s1"]},
        {"layer": 2, "name": "s3", "parents": ["c1"], "children": ["r0", "r1"]},
        {"layer": 1, "name": "s0", "children": ["node0", "node1"]},
        {"layer": 1, "name": "s1", "children": ["node2", "node3"]},
        {"layer": 1, "name": "r0", "children": ["node1", "node0"]},
        {"layer": 1, "name": "r1", "children": ["node2", "node3"]},
    ],
}


@pytest.mark.parametrize("planes", PLANES)
def test_planes_are_merged_with_a_warning(planes: str, tmp_path: Path) -> None:
    """Domains with the same members are one hyperNode, and the tree is whole."""
    file = tmp_path / "topology.json"
    file.write_text(json.dumps(PLANES[planes]))
    result = run("topology", "import", file)
    hypernodes = list(yaml.safe_load_all(result.stdout))
    shown = run("topology", "show", "-f", manifests(tmp_path, *hypernodes, *NODES), "-o", "json")
    tree = json.loads(shown.stdout)

    assert (0, []) == (result.exit_code, tree["problems"])
    assert "warning: " in result.stderr
    assert "they have the same members" in result.stderr
    spine = next(d for d in tree["hyperNodes"].values() if d["tier"] == 2)
    assert 2 == len(spine["children"])
    leaves = [sorted(d["nodes"]) for d in tree["hyperNodes"].values() if d["tier"] == 1]
    assert [["node0", "node1"], ["node2", "node3"]] == sorted(leaves)


@pytest.mark.parametrize("planes", PLANES)
def test_planes_among_hypernodes_are_exported_as_one_domain(planes: str, tmp_path: Path) -> None:
    """What import makes of a list with planes, export makes of hyperNodes with them; so does `generate`."""
    file = tmp_path / "topology.json"
    file.write_text(json.dumps(PLANES[planes]))
    merged = manifests(tmp_path, *yaml.safe_load_all(run("topology", "import", file).stdout), *NODES)
    wanted = json.loads(run("topology", "export", "-f", merged).stdout)
    written = manifests(tmp_path, *_as_hypernodes(PLANES[planes]), *NODES)
    result = run("topology", "export", "-f", written)
    generated = run("topology", "generate", "--from", f"hypernodes:{written}", "--to", "slurm")

    assert wanted == json.loads(result.stdout)
    assert "warning: HyperNode s2: hyperNode s2 stands for s3 too: they have the same members" in result.stderr
    assert 0 == generated.exit_code, generated.stderr
    assert "SwitchName=s2 Switches=" in generated.stdout


def _as_hypernodes(entries: list[dict[str, object]]) -> list[dict[str, object]]:
    """A hyperNode for each domain of a list, planes and all."""
    return hypernodes_of(read_entries(entries))


def test_hypernodes_of_two_tiers_are_no_planes(tmp_path: Path) -> None:
    """A spine that names the nodes of its only leaf, and not the leaf, has the same members one tier above."""
    chain = [{"layer": 2, "name": "s0", "children": ["node0"]}, {"layer": 1, "name": "l0", "children": ["node0"]}]
    result = run("topology", "export", "-f", manifests(tmp_path, *_as_hypernodes(chain), *NODES))

    assert ("", ["s0", "l0"]) == (result.stderr, [entry["name"] for entry in json.loads(result.stdout)])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[{"layer": "x", "name": "a"}]', "[0].layer: expected an integer"),
        ('[{"layer": 0, "name": "a"}]', "[0].layer: layer is 0"),
        ('[{"layer": 1, "name": "a"}, {"layer": 1, "name": "a"}]', '[1].name: "a" is listed twice'),
        ('[{"layer": 1, "name": "a", "parents": ["b"]}]', '[0].parents: "b" is not in the list'),
        (
            '[{"layer":1,"name":"c"},{"layer":2,"name":"a","children":["c"]},{"layer":2,"name":"b","children":["c","n"]}]',
            "[2]: domain c is below b and below a: two parents",
        ),
        (
            '[{"layer": 1, "name": "a", "children": ["n"]}, {"layer": 1, "name": "b", "children": ["m", "n"]}]',
            "[1]: node n is on domain b and on a",
        ),
        ('{"kind": "Pod"}', "expected a list of domains, or a ConfigMap"),
        ("3", "expected a list of domains"),
    ],
)
def test_what_is_no_list_is_bad_input(text: str, complaint: str, tmp_path: Path) -> None:
    """One line says what is wrong and where; nothing is printed."""
    file = tmp_path / "topology.json"
    file.write_text(text)
    result = run("topology", "import", file)

    assert (2, "") == (result.exit_code, result.stdout)
    assert complaint in result.stderr
