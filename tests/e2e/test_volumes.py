"""Gangs with volumes on a real API server: bound whole when all claims are, whatever happens in between."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.api import Json
from tests.e2e.storage import Storage
from tests.e2e.world import World, job, node, task

SIZE = 4
CLASS: Json = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "fast"},
    "provisioner": "csi.test",
    "volumeBindingMode": "WaitForFirstConsumer",
}


@pytest.fixture
def storage(world: World) -> Iterator[Storage]:
    """Nodes with their hostnames, a class, and whoever serves claims."""
    with Storage(world.api) as found:
        world.api.create(*(node(f"n{i}", labels={"kubernetes.io/hostname": f"n{i}"}) for i in range(SIZE)))
        world.api.create(CLASS)
        yield found


def _train(name: str, replicas: int = SIZE, gpu: int = 8) -> Json:
    """A gang of which every pod has a volume of its own."""
    workers = task("w", replicas, gpu=gpu)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    workers["template"]["spec"]["volumes"] = [volume]
    return job(name, workers)


def _bound(world: World, name: str) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in world.pods(name))


def test_a_gang_waits_for_its_volumes_and_keeps_nobody_else_waiting(world: World, storage: Storage) -> None:
    """Nothing of it is bound while one volume is missing; a job without volumes is served meanwhile."""
    storage.holding = True
    world.run()
    world.api.create(_train("train", gpu=6))
    world.until(lambda: len(storage.chosen()) == SIZE)
    world.api.create(job("other", task("w", 2, gpu=2)))
    world.until(lambda: len(world.running("other")) == 2)

    assert 0 == _bound(world, "train")
    storage.holding = False
    world.until(lambda: len(world.running("train")) == SIZE)
    chosen = storage.chosen()
    assert {f"{pod}-data": where for pod, where in world.running("train").items()} == chosen
    assert [] == world.audit()


def test_a_scheduler_that_dies_between_choice_and_bind_leaves_nothing_behind(world: World, storage: Storage) -> None:
    """The next one finds the choice on the claims, and the nodes that are kept on the pods."""
    storage.holding = True
    first = world.run()
    world.api.create(_train("train"))
    world.until(lambda: len(storage.chosen()) == SIZE)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = storage.chosen()
    storage.holding = False
    world.until(lambda: len(storage.bound()) == SIZE)
    assert 0 == _bound(world, "train")
    world.run()
    world.until(lambda: len(world.running("train")) == SIZE)

    assert before == {f"{pod}-data": where for pod, where in world.running("train").items()}
    assert [] == world.audit()


def test_a_claim_that_is_deleted_in_between_is_chosen_for_again(world: World, storage: Storage) -> None:
    """The gang waits for the new one, and is bound whole."""
    storage.holding = True
    world.run()
    world.api.create(_train("train"))
    world.until(lambda: len(storage.chosen()) == SIZE)
    victim = sorted(storage.claims())[0]
    old = storage.claims()[victim]["metadata"]["uid"]
    storage.remove(victim)
    world.until(lambda: storage.claims().get(victim, {}).get("metadata", {}).get("uid", old) != old)
    assert 0 == _bound(world, "train")
    storage.holding = False
    world.until(lambda: len(world.running("train")) == SIZE)

    assert [] == world.audit()


def test_a_provisioner_that_refuses_is_asked_again_later(world: World, storage: Storage) -> None:
    """The choice of the whole gang is taken back first, and the group says why it waits."""
    storage.refusing = {f"n{i}" for i in range(SIZE)}
    world.run()
    world.api.create(_train("train"))
    world.until(
        lambda: (
            any("no volume was made for claim" in said for said in world.told(world.group("train")["metadata"]["name"]))
            if world.group("train")
            else False
        )
    )
    assert 0 == _bound(world, "train")
    storage.refusing = set()
    world.until(lambda: len(world.running("train")) == SIZE)

    assert storage.refused
    assert [] == world.audit()


def test_volumes_that_do_not_come_in_time_are_given_up_and_chosen_again(
    world: World, storage: Storage, tmp_path: Path
) -> None:
    """The choice of the whole gang is taken back, and people are told; what comes later is waited for anew."""
    config = tmp_path / "scheduler.conf"
    plugins: list[Json] = [{"name": "priority"}, {"name": "gang"}, {"name": "predicates"}]
    plugins.append({"name": "volumes", "arguments": {"bindTimeoutSeconds": 3}})
    config.write_text(json.dumps({"actions": "enqueue, allocate, backfill", "tiers": [{"plugins": plugins}]}))
    storage.holding = True
    world.run("--config", str(config))
    world.api.create(_train("train"))
    world.until(lambda: len(storage.chosen()) == SIZE)
    world.until(lambda: not storage.chosen())
    assert 0 == _bound(world, "train")
    world.until(lambda: any("in 3 seconds" in said for said in world.told(world.group("train")["metadata"]["name"])))
    storage.holding = False
    world.until(lambda: len(world.running("train")) == SIZE)

    assert [] == world.audit()


def test_local_volumes_are_given_to_claims_one_by_one(world: World, storage: Storage) -> None:
    """No volume has two claims, and every pod stands where its volume is."""
    local = {**CLASS, "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"}
    world.api.create(local)
    for i in range(SIZE):
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [f"n{i}"]}]}
        spec = {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }
        meta = {"name": f"disk-{i}"}
        world.api.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec})
    gang = _train("train", gpu=2)
    template = gang["spec"]["tasks"][0]["template"]["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"]
    template["spec"]["storageClassName"] = "local"
    world.run()
    world.api.create(gang)
    world.until(lambda: len(world.running("train")) == SIZE)

    volumes = storage.bound()
    assert SIZE == len(set(volumes.values()))
    for pod, where in world.running("train").items():
        assert volumes[f"{pod}-data"] == f"disk-{where[1:]}"
    assert [] == world.audit()
