"""`explain` shows the domains that the search compared, where it searched, with the scores that it saw."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from tests.support.commands import ROOT, answer, manifests, run
from tests.support.draw import Gang, World, draw, gang, groups
from tests.support.koordinator import cluster, hypernode
from tests.support.koordinator import gang as gathered

from tierwise.explain.terms import because
from tierwise.framework.report import Term

PROPOSING = """
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: network-topology-aware
  - name: propose
"""


def _file(folder: Path, world: World, *gangs: Gang) -> Path:
    return manifests(folder, *world.manifests, *(manifest for one in gangs for manifest in one.manifests()))


def _explained(folder: Path, world: World, *gangs: Gang, pod: str, config: str = "") -> Any:
    words: list[object] = ["explain", "-f", _file(folder, world, *gangs), "--pod", f"default/{pod}"]
    if config:
        (folder / "scheduler.conf").write_text(config)
        words += ["--config", folder / "scheduler.conf"]
    return answer(*words)


def test_hypernodes_are_scored_together(tmp_path: Path) -> None:
    """Two racks are as full; the one with a pod of the gang has the tie, which is seen only where both are compared."""
    world = draw("r0[n0] r1[n1]", node="cpu=32", running="n1:cpu=8")
    seen = _explained(tmp_path, world, gang("g", tasks=2, each="cpu=8", soft=True, on="n0 -"), pod="g-1")

    assert {"r0": 125.0, "r1": 75.0} == seen["hyperNodeScores"]


def test_a_half_running_gang_is_searched_in_its_own_hypernode(tmp_path: Path) -> None:
    """Its job may use s0 alone: the free racks of s1 are no candidates for the sub-group that waits."""
    world = draw("s0[r0[n0 n1] r1[n2 n3]] s1[r2[n4 n5] r3[n6 n7]]", node="cpu=8", running="n2:cpu=8")
    half = gang("g", each="cpu=8", within=2, groups=(groups(2, size=2, within=1),), on="n0 n1")
    seen = _explained(tmp_path, world, half, pod="g-part-1-0")

    assert "s0" == seen["searchedIn"]
    assert [] == seen["gradients"]
    assert {} == seen["hyperNodeScores"]


def test_nodes_that_its_job_may_not_use_do_not_take_the_pod(tmp_path: Path) -> None:
    """Every filter lets the pod in on the free racks of s1, as the JSON says; the page says that they are out."""
    world = draw("s0[r0[n0 n1] r1[n2 n3]] s1[r2[n4 n5] r3[n6 n7]]", node="cpu=8", running="n2:cpu=8")
    half = gang("g", each="cpu=8", within=2, groups=(groups(2, size=2, within=1),), on="n0 n1")
    file = _file(tmp_path, world, half)
    page = run("explain", "-f", file, "default/g-part-1-0", width=120).stdout

    assert "Nodes: 1 of 8 take the pod" in page
    assert re.search(r"4  outside of s0, where its job's pods run +n\[4-7\]", page)
    nodes = answer("explain", "-f", file, "default/g-part-1-0")["nodes"]
    assert nodes["n4"]["feasible"]
    assert ["n0", "n1", "n2", "n3"] == [name for name, node in nodes.items() if node["withinReach"]]
    assert "outside of s0, where its job's pods run" in nodes["n4"]["reasons"]


def test_nodes_outside_of_a_hard_limit_do_not_take_the_rest(tmp_path: Path) -> None:
    """Of a gang that runs in one rack; one that merely prefers it may go elsewhere."""
    racks = draw("r0[n0 n1] r1[n2 n3]", node="cpu=16")
    rest = _file(tmp_path, racks, gang("g", tasks=3, minimum=2, each="cpu=8", within=1, on="n0 n1 -"))
    page = run("explain", "-f", rest, "default/g-2", width=120).stdout
    assert "Nodes: 2 of 4 take the pod" in page
    assert "outside of r0, where its job's pods run" in page

    soft = _file(tmp_path, racks, gang("g", tasks=3, minimum=2, each="cpu=8", soft=True, on="n0 n1 -"))
    assert "Nodes: 4 of 4 take the pod" in run("explain", "-f", soft, "default/g-2", width=120).stdout


def test_a_tie_by_name_is_told(tmp_path: Path) -> None:
    """Two racks with equal scores: the page of `schedule` and that of the job name what decided."""
    file = _file(tmp_path, draw("r0[n0] r1[n1]", node="cpu=8"), gang("g", tasks=1, each="cpu=8", within=1))

    for words in (["schedule"], ["explain", "--job", "default/g"]):
        text = " ".join(run(*words, "-f", file, width=160).stdout.split())
        assert "r0 comes first by name: nothing else tells them apart" in text
    assert ["name"] == answer("schedule", "-f", file)["podGroups"]["default/g"]["decidedBy"]


def test_scores_are_those_before_the_proposal_was_placed(tmp_path: Path) -> None:
    """A recommended rack that the gang fills has no room afterwards, which would count as a score of 0."""
    world = draw("r0[n0 n1] r1[n2 n3]", node="cpu=8")
    seen = _explained(tmp_path, world, gang("g", tasks=2, each="cpu=8", within=1), pod="g-0", config=PROPOSING)

    assert {"r0": 100.0, "r1": 100.0} == seen["hyperNodeScores"]
    assert ["proposed"] == seen["decidedBy"]


def test_the_term_before_the_score_is_named(tmp_path: Path) -> None:
    """r1 has the lower score and takes less from later gangs: in text and JSON, of the pod, the job and the run."""
    world = draw("r0[n0] r1[n1]", node="cpu=10 mem=100", running="n0:mem=90 n1:cpu=5")
    train = gang("g", tasks=2, each="cpu=1 mem=1", within=1)
    file, sentence = _file(tmp_path, world, train), "r1 comes first by places: it takes least from later gangs"
    pod, job = answer("explain", "-f", file, "g-0"), answer("explain", "-f", file, "--job", "g")

    for told in (pod, job):
        assert ["r1", "r0"] == list(told["hyperNodeScores"])
        assert told["hyperNodeScores"]["r1"] < told["hyperNodeScores"]["r0"]
        assert ["places"] == told["decidedBy"]
        assert told["hyperNodeTerms"]["r1"]["places"] < told["hyperNodeTerms"]["r0"]["places"]
    assert ["places"] == answer("schedule", "-f", file)["podGroups"]["default/g"]["decidedBy"]
    for words in (["explain", "-f", file, "g-0"], ["explain", "-f", file, "--job", "g"], ["schedule", "-f", file]):
        assert sentence in " ".join(run(*words).stdout.split())


def test_a_sub_group_stands_beside_its_siblings(tmp_path: Path) -> None:
    """Both racks hold either sub-group; what the first one has taken is not the place of the second."""
    train = gang("g", each="cpu=8", within=2, groups=(groups(2, size=1, within=1),))
    seen = _explained(tmp_path, draw("s0[r0[n0] r1[n1]]"), train, pod="g-part-1-0")

    assert ["r1", "r0"] == list(seen["hyperNodeScores"])
    assert ["siblings"] == seen["decidedBy"]


def test_room_that_was_kept_is_named(tmp_path: Path) -> None:
    """A gang starts where its pods are nominated, though another rack comes before by its score."""
    world = draw("r0[n0] r1[n1]", node="cpu=8", running="n0:cpu=4")
    objects = [*world.manifests, *gang("g", tasks=1, each="cpu=4", within=1, phase="Inqueue").manifests()]
    objects[-1] = {**objects[-1], "status": {"phase": "Pending", "nominatedNodeName": "n1"}}
    file = manifests(tmp_path, *objects)
    seen = answer("explain", "-f", file, "g-0")

    assert ["r1", "r0"] == list(seen["hyperNodeScores"])
    assert ["nominated"] == seen["decidedBy"]
    assert "r1 was kept for it (nominated)" in run("schedule", "-f", file).stdout


def test_every_term_has_words_and_a_row_in_the_documentation() -> None:
    """Whoever reads a name in JSON finds what it means."""
    page = (ROOT / "docs" / "actions" / "allocate.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([a-z-]+)` \|", page.split("## The order of hyperNodes")[1].split("\n## ")[0], re.MULTILINE
    )

    assert set(Term) == set(rows)
    assert all(because("r0", [term], "sub-group", always=True) for term in Term)


def test_plugins_are_named_as_the_configuration_spells_them(tmp_path: Path) -> None:
    """Of a KubeSchedulerConfiguration, whose Coscheduling is a plugin of another name here."""
    plugins = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = yaml.safe_dump({**kind, "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]})
    seen = _explained(tmp_path, draw("r0[n0] r1[n1]"), gang("g", tasks=1), pod="g-0", config=config)

    assert {"Coscheduling", "NodeResourcesFit", "NodeAffinity"} <= set(seen["nodes"]["n0"]["scores"])
    assert "coscheduling" not in seen["nodes"]["n0"]["scores"]


def test_a_gang_stands_on_the_tree_of_its_constraint(tmp_path: Path) -> None:
    """Its nodes are of one block of Koordinator's tree, and of both hyperNodes beside it."""
    tree = [hypernode("r0", 1, [("Node", "n0"), ("Node", "n2")]), hypernode("r1", 1, [("Node", "n1"), ("Node", "n3")])]
    world = cluster({"s0": {"b0": "n0 n1", "b1": "n2 n3"}})
    file = manifests(tmp_path, *world, *tree, *gathered("g", 2, must="BlockLayer"))
    group = answer("schedule", "-f", file)["podGroups"]["default/g"]

    assert ("b0", 1) == (group["hyperNode"], group["tier"])


def test_a_gathered_gang_is_told_where_it_was_gathered(tmp_path: Path) -> None:
    """Beside its running pod, on the tree that it is about: other blocks are out of reach, and none has a score."""
    tree = [hypernode("r0", 1, [("Node", "n0"), ("Node", "n2")]), hypernode("r1", 1, [("Node", "n1"), ("Node", "n3")])]
    world = cluster({"s0": {"b0": "n0 n1", "b1": "n2 n3"}})
    file = manifests(tmp_path, *world, *tree, *gathered("g", 2, must="BlockLayer", running={0: "n2"}))
    seen, whole = (answer("explain", "-f", file, *name) for name in (["default/g-1"], ["--job", "default/g"]))

    assert ["n2", "n3"] == [name for name, node in seen["nodes"].items() if node["withinReach"]]
    assert ["b1"] == list(seen["hyperNodeScores"]) == list(whole["hyperNodeScores"])
    page = run("explain", "-f", file, "default/g-1", width=120).stdout
    assert "not scored; chosen: b1" in page
    assert "outside of b1, where its job's pods run" in page
    assert "Nodes: 1 of 4 take the pod" in page


def test_an_attempt_of_several_cycles_is_told_once(tmp_path: Path) -> None:
    """In JSON as on the page: each cycle finds again that nobody may go."""
    world = draw("r0[n0] r1[n1]", node="cpu=2", running="n0:cpu=2 n1:cpu=2")
    file = _file(tmp_path, world, gang("g", tasks=2, each="cpu=2", within=1), gang("h", tasks=1, each="cpu=1"))
    (tmp_path / "scheduler.conf").write_text(PROPOSING.replace("allocate", "allocate, gangpreempt"))
    told = answer("explain", "-f", file, "--job", "default/g", "--config", tmp_path / "scheduler.conf")["eviction"]

    assert told
    assert len(told) == len({json.dumps(attempt) for attempt in told})
