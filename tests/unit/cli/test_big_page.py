"""A large cluster still fits on a screen or two."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.support.commands import run

NODES, PER_RACK, PER_LEAF = 1_600, 16, 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred racks, twenty gangs of two racks each, and one that needs half of the cluster."""
    racks = range(NODES // PER_RACK)
    objects = [_node(number) for number in range(NODES)]
    objects += [
        _domain(f"rack-{r}", 1, f"^n({'|'.join(str(r * PER_RACK + i) for i in range(PER_RACK))})$") for r in racks
    ]
    objects += [_domain(f"leaf-{a}", 2, *(f"rack-{r}" for r in racks[a : a + PER_LEAF])) for a in racks[::PER_LEAF]]
    objects += [_job(f"train-{number}", 32, 2) for number in range(20)]
    objects += [_job("giant", 800, 3)]
    file = tmp_path_factory.mktemp("big") / "cluster.jsonl"
    file.write_text("\n".join(map(json.dumps, objects)))
    return file


def _node(number: int) -> dict[str, object]:
    amounts = {"cpu": "64", "nvidia.com/gpu": "8", "pods": "64"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}, "status": {"allocatable": amounts}}


def _domain(name: str, tier: int, *members: str) -> dict[str, object]:
    kind = "Node" if tier == 1 else "HyperNode"
    how = ("regexMatch", "pattern") if tier == 1 else ("exactMatch", "name")
    listed = [{"type": kind, "selector": {how[0]: {how[1]: member}}} for member in members]
    meta, spec = {"name": name}, {"tier": tier, "members": listed}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": meta, "spec": spec}


def _job(name: str, pods: int, limit: int) -> dict[str, object]:
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": "8"}}}
    task = {"name": "worker", "replicas": pods, "template": {"spec": {"containers": [container]}}}
    topology = {"mode": "hard", "highestTierAllowed": limit}
    spec = {"schedulerName": "volcano", "minAvailable": pods, "networkTopology": topology, "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def test_schedule_stays_short(cluster: Path) -> None:
    """Under a hundred lines, none wider than the terminal, and nothing is silently left out."""
    lines = run("schedule", "-f", cluster).stdout.splitlines()

    assert lines[0].startswith("1440 pods bound in 21 gangs")
    assert 100 > len(lines)
    assert 80 >= max(map(cell_len, lines))
    assert any("more gangs with" in line and "--all shows them" in line for line in lines)


def test_topology_stays_short(cluster: Path) -> None:
    """Racks are folded into their leaves, and the page says so."""
    lines = run("topology", "show", "-f", cluster).stdout.splitlines()

    assert 60 > len(lines)
    assert "folded to fit a screen; --all shows everything" in lines


def test_all_folds_nothing(cluster: Path) -> None:
    """Every hyperNode and every node has its line."""
    lines = run("topology", "show", "-f", cluster, "--all").stdout.splitlines()

    assert 1 + NODES + 100 + 20 <= len(lines)
