"""Grove's PodCliqueSets on the embedded cluster: pods of cliques, and gangs of replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from tests.support.commands import run
from tests.support.languages import RACK, nodes
from tests.support.workloads import expanded, pods, scheduled

from tierwise.api.codec import Raw, part
from tierwise.dialects.workloads import ELSEWHERE
from tierwise.port import Key, Objects

WORLD = nodes({"s0": {"r0": "n0 n1", "r1": "n2 n3"}}, cpu=1)
LEVELS: Raw = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopologyBinding",
    "metadata": {"name": "net"},
    "spec": {"levels": [{"domain": "rack", "key": RACK}]},
}


def _clique(name: str, replicas: int = 1, **more: object) -> Raw:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    least = more.pop("least", None)
    spec: Raw = {"replicas": replicas, "podSpec": {"containers": containers}}
    return {"name": name, "spec": spec | ({"minAvailable": least} if least is not None else {}), **more}


def _set(*cliques: Raw, replicas: int = 1, **template: object) -> Raw:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "serve"},
        "spec": {"replicas": replicas, "template": {"cliques": list(cliques), **template}},
    }


def _gang(objects: Objects, name: str) -> Raw:
    raw = objects.raw(Key("scheduler.grove.io", "PodGang", "default", name))
    assert raw is not None
    return part(raw, "spec")


def test_each_replica_is_a_gang_of_its_cliques() -> None:
    """Pods are named by set, replica and clique; a gang starts with the least of each clique, or not at all."""
    given = _set(_clique("lead"), _clique("work", 2, least=1), replicas=2)

    assert [{"name": "serve-1-lead", "minReplicas": 1}, {"name": "serve-1-work", "minReplicas": 1}] == _gang(
        expanded(given), "serve-1"
    )["podgroups"]
    made = [f"serve-{r}-{part}" for r in (0, 1) for part in ("lead-00001", "work-00001", "work-00002")]
    assert sorted(made) == sorted(pods(given))
    assert 4 == len(scheduled(*WORLD, given))
    assert {} == scheduled(*WORLD, _set(_clique("lead"), _clique("work", 4)))


def test_further_replicas_of_a_scaling_group_are_gangs_of_their_own() -> None:
    """One is needed, and starts with the set; two more are started where there is room."""
    group = {"name": "dec", "cliqueNames": ["work"], "replicas": 3, "minAvailable": 1}
    given = _set(_clique("lead"), _clique("work", 2), podCliqueScalingGroups=[group])
    objects = expanded(given)

    names = [path.partition("/")[2] for path in objects.of_kind("scheduler.grove.io", "PodGang")]
    assert ["serve-0", "serve-0-dec-0", "serve-0-dec-1"] == names
    assert ["serve-0-lead", "serve-0-dec-0-work"] == [g["name"] for g in _gang(objects, "serve-0")["podgroups"]]  # type: ignore[attr-defined]
    bound = scheduled(*WORLD, given)
    assert (3, 2) == (len(bound), sum("dec-0-work" in name for name in bound))


def test_levels_are_looked_up_in_the_topology_of_the_cluster() -> None:
    """A set in one rack, and a rack for each replica of a scaling group."""
    pack: Any = {"topologyConstraint": {"pack": {"required": "rack"}}}

    assert {"n0", "n1"} == set(scheduled(*WORLD, LEVELS, _set(_clique("work", 2), **pack)).values())
    assert {} == scheduled(*WORLD, LEVELS, _set(_clique("work", 3), **pack))
    group = {"name": "dec", "cliqueNames": ["a", "b"], "replicas": 2, "minAvailable": 2, **pack}
    bound = scheduled(*WORLD, LEVELS, _set(_clique("a"), _clique("b"), podCliqueScalingGroups=[group]))
    racks = {"n0": 0, "n1": 0, "n2": 1, "n3": 1}
    assert all(1 == len({racks[node] for name, node in bound.items() if f"dec-{index}-" in name}) for index in (0, 1))
    assert 4 == len(bound)


def test_kinds_whose_controllers_are_not_here_say_what_to_give(tmp_path: Path) -> None:
    """One line for each of them."""
    file = tmp_path / "all.yaml"
    given = [
        {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": "x"}}
        for group, kind in list(ELSEWHERE)[:5]
    ]
    file.write_text(yaml.safe_dump_all([*given, *WORLD]))

    told = run("schedule", "-f", str(file)).stderr

    assert 5 == told.count("its controller, which makes pods, does not run here; give ")
