"""Defragmentation on a real API server: room is opened by command and by itself, and every job keeps running."""

from __future__ import annotations

import json
import subprocess
from functools import partial

from tests.e2e.accounts import NAMESPACE
from tests.e2e.api import Json
from tests.e2e.world import COMMAND, World, job, task

ROOM = "nvidia.com/gpu=8x2@1"
HARD_RACK: Json = {"mode": "hard", "highestTierAllowed": 1}
SEEN = ("--discovery-namespace", NAMESPACE)


def _fragmented(world: World) -> None:
    """Three racks of two nodes, a pod that needs half a node in each of them, and nothing else."""
    for i in range(3):
        world.api.create(job(f"keep{i}", task("w", 1, gpu=4)))
        world.until(partial(_runs, world, f"keep{i}", 1))
        world.api.create(job(f"fill{i}", task("w", 3, gpu=4), networkTopology=HARD_RACK))
        world.until(partial(_runs, world, f"fill{i}", 3))
    for i in range(3):
        world.api.delete("Job", f"fill{i}")
        for pod in world.pods(f"fill{i}"):  # nobody collects garbage here
            world.api.delete("Pod", pod["metadata"]["name"])
    world.until(lambda: len(world.pods()) == 3)
    assert {0: 1, 1: 1, 2: 1} == world.racks_of("", 2)


def _runs(world: World, name: str, pods: int) -> bool:
    return len(world.running(name)) == pods


def _defrag(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    where = ["--kubeconfig", str(world.plane.kubeconfig), "--namespace", NAMESPACE]
    command = [*COMMAND, "defrag", *where, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def _record(world: World) -> Json:
    found: Json = json.loads(world.api.get("ConfigMap", "tierwise-defrag", NAMESPACE)["data"]["record"])
    return found


def test_a_rack_is_emptied_by_command(world: World) -> None:
    """The pod of one rack is moved into another, its place is held meanwhile, and the room is there in the end."""
    world.racks(racks=3, size=2)
    world.run(*SEEN)
    _fragmented(world)
    done = _defrag(world, "--for", ROOM, "--execute", "-o", "json")

    assert 0 == done.returncode, done.stderr + world.tell()
    assert "Done" == json.loads(done.stdout)["execution"]["phase"]
    assert 2 == len(world.racks_of("", 2))
    assert 3 == len(world.running())
    assert [] == world.audit()


def test_what_a_budget_refuses_is_not_moved(world: World) -> None:
    """No pod may go: there is no plan, and nothing is touched."""
    world.racks(racks=3, size=2)
    world.run(*SEEN)
    _fragmented(world)
    before = world.running()
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {}},
    }
    world.api.create(budget)
    done = _defrag(world, "--for", ROOM, "--execute")

    assert 1 == done.returncode, done.stdout + done.stderr
    assert before == world.running()


def test_the_leader_keeps_room_open(world: World) -> None:
    """With --defrag the scheduler moves the pod by itself, with the rights that its Role gives it."""
    world.racks(racks=3, size=2)
    first = world.run(*SEEN)
    _fragmented(world)
    first.terminate()
    first.wait(timeout=60)
    world.run(*SEEN, "--defrag", ROOM, "--defrag-every", "2s", "--lease-namespace", NAMESPACE)
    world.until(lambda: len(world.racks_of("", 2)) == 2 and len(world.running()) == 3)
    world.until(lambda: _record(world)["phase"] == "Done")

    assert [] == world.audit()
