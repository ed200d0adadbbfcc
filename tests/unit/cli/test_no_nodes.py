"""Manifests without nodes: a newcomer's first file. What is missing is said, and `--nodes` adds it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.commands import answer, manifests, run
from tests.support.draw import draw, gang

HOW = "kubectl get nodes -o yaml"


def _job(folder: Path, within: int = 2) -> Path:
    return manifests(folder, *gang("train", tasks=8, each="gpu=8", within=within).manifests())


@pytest.mark.parametrize(
    "verb", ["schedule", "explain --job train", "why train-0", "eta", "submit", "queue", "what-if --start train"]
)
def test_how_nodes_are_added_is_said(verb: str, tmp_path: Path) -> None:
    """By the verbs that place pods: the command for a real cluster's, and the option."""
    told = run(*verb.split(), "-f", _job(tmp_path)).stderr

    assert HOW in told
    assert "--nodes 8" in told


def test_the_reason_is_the_lack_of_nodes(tmp_path: Path) -> None:
    """No talk of an empty cluster, of its 0 nodes, or of what was looked for on them."""
    said = run("schedule", "-f", _job(tmp_path)).stdout
    pending = answer("schedule", "-f", _job(tmp_path))["pending"]

    assert "there are no nodes" in said
    assert "even if" not in said
    assert "(0 nodes)" not in said
    assert {("NoFeasibleNode", "there are no nodes")} == {(pod["reason"], pod["message"]) for pod in pending}


@pytest.mark.parametrize("verb", ["reconcile", "validate", "hold train --reason r"])
def test_nobody_else_needs_nodes(verb: str, tmp_path: Path) -> None:
    """Verbs that place nothing do not ask for them."""
    assert HOW not in run(*verb.split(), "-f", _job(tmp_path)).stderr


def test_nodes_are_added(tmp_path: Path) -> None:
    """Eight nodes of eight devices, in two racks below a spine: the job within a spine fits, one within a rack not."""
    found = run("schedule", "-f", _job(tmp_path), "--nodes", "8")
    spine = answer("schedule", "-f", _job(tmp_path), "--nodes", "8")["bindings"]
    rack = run("schedule", "-f", _job(tmp_path, within=1), "--nodes", "8")

    assert "" == found.stderr
    assert {f"node-{number}" for number in range(8)} == set(spine.values())
    assert "0 pods bound" in rack.stdout
    assert "train-0" in run("explain", "-f", _job(tmp_path), "--nodes", "8", "default/train-0").stdout


def test_trees_of_the_manifests_stay_alone(tmp_path: Path) -> None:
    """Where there are hyperNodes, no racks are made beside them."""
    tree = [raw for raw in draw("mine[node-0 node-1]").manifests if raw["kind"] == "HyperNode"]
    job = gang("train", tasks=2, each="gpu=8", within=1)
    shown = run("schedule", "-f", manifests(tmp_path, *tree, *job.manifests()), "--nodes", "8").stdout

    assert "mine" in shown
    assert "rack-0" not in shown


def test_where_nodes_cannot_be_added(tmp_path: Path) -> None:
    """To manifests that have some, and to a live cluster."""
    world = manifests(tmp_path, *draw("r0[n0]", node="gpu=4").manifests)

    for words in (("schedule", "-f", world), ("explain", "-f", world, "x"), ("explain", "x"), ("serve",)):
        done = run(*words, "--nodes", "8")
        assert 2 == done.exit_code
        assert "--nodes: " in done.stderr
