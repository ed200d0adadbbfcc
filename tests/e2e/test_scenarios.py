"""What users do, on a real API server: jobs come up where they should, and whatever happens the promises hold."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path

import pytest
from tests.e2e.api import Json
from tests.e2e.proxy import Proxy
from tests.e2e.world import PATIENCE, World, job, node, task
from tests.support.ports import free_port

HARD_RACK: Json = {"mode": "hard", "highestTierAllowed": 1}
HARD_SPINE: Json = {"mode": "hard", "highestTierAllowed": 2}


def _profile(folder: Path, actions: str, *plugins: str) -> str:
    """A configuration with these actions and, besides the usual plugins, these."""
    usual = ("priority", "gang", "conformance", "predicates", "binpack", "network-topology-aware", *plugins)
    lines = [f'actions: "{actions}"', "tiers:", "- plugins:", *(f"  - name: {name}" for name in usual)]
    file = folder / "scheduler.conf"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def _priorities(world: World, **values: int) -> None:
    for name, value in values.items():
        meta = {"name": name}
        world.api.apply(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}
        )


def test_two_level_job_of_a_thousand_pods(world: World) -> None:
    """Ten partitions of a hundred pods each get a rack of their own, all below one spine."""
    world.racks(racks=10, size=13)
    world.run()
    partitions = {"totalPartitions": 10, "partitionSize": 100, "networkTopology": HARD_RACK}
    world.api.create(job("big", task("worker", 1000, gpu=1, partitionPolicy=partitions), networkTopology=HARD_SPINE))
    world.until(lambda: len(world.running("big")) == 1000)

    assert [100] * 10 == sorted(world.racks_of("big", 13).values())
    assert [] == world.audit()
    assert "Running" == world.group("big")["status"]["phase"]
    world.until(lambda: world.api.get("Job", "big")["status"]["state"]["phase"] == "Running")


def test_soft_gang_falls_back_to_a_wider_tier(world: World) -> None:
    """A soft gang that no rack holds is placed anyway; a hard one of the same size waits, and is told why."""
    world.racks(racks=2, size=2)
    world.run()
    world.api.create(job("soft", task("w", 3), networkTopology={"mode": "soft", "highestTierAllowed": 1}))
    world.until(lambda: len(world.running("soft")) == 3)
    world.api.create(job("hard", task("w", 3), networkTopology=HARD_RACK))
    world.until(lambda: "nvidia.com/gpu" in _why(world, "hard"))
    name, message = world.group("hard")["metadata"]["name"], _why(world, "hard")

    def told() -> bool:
        """By an event with the same words, and with the decision that a look into the log starts from."""
        events = [e for e in world.api.list("Event") if e["involvedObject"]["name"] == name]
        decisions = [(e, e["metadata"].get("annotations", {}).get("tierwise.io/decision")) for e in events]
        return any(e["message"] == f"{message} (decision {decision})" for e, decision in decisions)

    world.until(told)
    assert {} == world.running("hard")
    assert [] == world.audit()


def _why(world: World, name: str) -> str:
    """Why a gang waits, by the condition of its group; nothing before it is written."""
    conditions: list[Json] = world.group(name).get("status", {}).get("conditions", [])
    return next((str(c["message"]) for c in conditions if c["type"] == "Unschedulable"), "")


def test_replacement_goes_to_its_siblings(world: World) -> None:
    """A pod that is made anew stands again in the rack of its gang, although another rack is emptier."""
    world.racks(racks=2, size=3)
    world.run()
    world.api.create(job("train", task("w", 2), networkTopology=HARD_RACK))
    world.until(lambda: len(world.running("train")) == 2)
    (rack,) = world.racks_of("train", 3)
    old = world.api.get("Pod", "train-w-0")["metadata"]["uid"]
    world.api.delete("Pod", "train-w-0")
    world.until(
        lambda: len(world.running("train")) == 2 and world.api.get("Pod", "train-w-0")["metadata"]["uid"] != old
    )

    assert {rack: 2} == dict(world.racks_of("train", 3))
    assert [] == world.audit()


def test_partition_restarts_alone_and_returns(world: World) -> None:
    """When a pod fails, its partition is made anew and stands in its rack again; the other one never stops."""
    world.racks(racks=3, size=2)
    world.run()
    partitions = {"totalPartitions": 2, "partitionSize": 2, "networkTopology": HARD_RACK}
    policies = [{"event": "PodFailed", "action": "RestartPartition"}]
    world.api.create(
        job("train", task("w", 4, partitionPolicy=partitions), networkTopology=HARD_SPINE, policies=policies)
    )
    world.until(lambda: len(world.running("train")) == 4)
    before, uids = world.running("train"), _uids(world, "train")
    world.api.patch("Pod", "train-w-0", {"status": {"phase": "Failed"}}, status=True)
    world.until(lambda: len(world.running("train")) == 4 and _uids(world, "train")["train-w-0"] != uids["train-w-0"])

    after = _uids(world, "train")
    assert [True, True, False, False] == [after[f"train-w-{i}"] != uids[f"train-w-{i}"] for i in range(4)]
    assert before == world.running("train")
    assert [] == world.audit()


def _uids(world: World, name: str) -> dict[str, str]:
    return {p["metadata"]["name"]: p["metadata"]["uid"] for p in world.pods(name)}


def test_gang_preempts_a_whole_gang_in_one_domain(world: World, tmp_path: Path) -> None:
    """An urgent gang takes one rack; the gang that stood there goes as a whole, the other rack's stays."""
    world.racks(racks=2, size=2)
    _priorities(world, low=10, high=1000)
    world.run("--config", _profile(tmp_path, "enqueue, allocate, backfill, gangpreempt"))
    for name in ("a", "b"):
        world.api.create(job(name, task("w", 2), networkTopology=HARD_RACK, priorityClassName="low"))
    world.until(lambda: len(world.running("a")) == 2 and len(world.running("b")) == 2)
    world.api.create(job("urgent", task("w", 2), networkTopology=HARD_RACK, priorityClassName="high"))
    world.until(lambda: len(world.running("urgent")) == 2)

    assert [0, 2] == sorted(len(world.running(name)) for name in ("a", "b"))
    assert 1 == len(world.racks_of("urgent", 2))
    assert [] == world.audit()


def test_budget_keeps_a_gang_from_being_preempted(world: World, tmp_path: Path) -> None:
    """The gang with a budget stays, the other one makes room; the profile need not say so."""
    world.racks(racks=2, size=2)
    _priorities(world, low=10, high=1000)
    world.run("--config", _profile(tmp_path, "enqueue, allocate, backfill, gangpreempt"))
    for name in ("a", "b"):
        world.api.create(job(name, task("w", 2), networkTopology=HARD_RACK, priorityClassName="low"))
    world.until(lambda: len(world.running("a")) == 2 and len(world.running("b")) == 2)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "default"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"volcano.sh/job-name": "a"}}},
    }
    world.api.create(budget)
    healthy = {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2}
    world.api.patch("PodDisruptionBudget", "keep", {"status": {**healthy, "observedGeneration": 1}}, status=True)
    world.api.create(job("urgent", task("w", 2), networkTopology=HARD_RACK, priorityClassName="high"))
    world.until(lambda: len(world.running("urgent")) == 2)

    assert (2, 0) == (len(world.running("a")), len(world.running("b")))
    assert [] == world.audit()


def test_queue_reclaims_what_it_deserves(world: World, tmp_path: Path) -> None:
    """A queue that lent its share gets it back when it needs it."""
    world.racks(racks=2, size=2)
    for name in ("lender", "borrower"):
        spec = {"reclaimable": True, "weight": 1, "deserved": {"cpu": "16", "memory": "128Gi", "nvidia.com/gpu": "16"}}
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        world.api.create({**queue, "spec": spec})
        world.api.patch("Queue", name, {"status": {"state": "Open"}}, status=True)
    world.run("--config", _profile(tmp_path, "enqueue, allocate, backfill, reclaim", "capacity"))
    world.api.create(job("guest", task("w", 4), minimum=1, queue="borrower"))
    world.until(lambda: len(world.running("guest")) == 4)
    world.api.create(job("owner", task("w", 2), queue="lender"))
    world.until(lambda: len(world.running("owner")) == 2)

    assert 2 == len(world.running("guest"))
    assert [] == world.audit()


def test_node_lost_under_a_gang(world: World) -> None:
    """What stood on a node that is gone stands elsewhere in the gang's rack, as soon as its pods are made anew."""
    world.racks(racks=2, size=3)
    world.run()
    world.api.create(job("train", task("w", 2), networkTopology=HARD_RACK))
    world.until(lambda: len(world.running("train")) == 2)
    (rack,) = world.racks_of("train", 3)
    name, lost = next(iter(world.running("train").items()))
    world.api.delete("Node", lost)
    world.api.delete("Pod", name, now=True)  # as the pod garbage collector does
    world.until(lambda: len(world.running("train")) == 2 and lost not in world.running("train").values())

    assert {rack: 2} == dict(world.racks_of("train", 3))
    assert [] == world.audit()


def test_topology_changes_while_a_gang_waits(world: World) -> None:
    """A gang that no rack holds starts when the operator puts another node into the rack."""
    world.racks(racks=2, size=2)
    world.run()
    world.api.create(job("train", task("w", 3), networkTopology=HARD_RACK))
    world.until(lambda: bool(world.group("train").get("status", {}).get("conditions")))
    assert {} == world.running("train")
    world.api.create(node("n9"))
    world.hypernode("r1", 1, ["n2", "n3", "n9"])
    world.until(lambda: len(world.running("train")) == 3)

    assert {"n2", "n3", "n9"} == set(world.running("train").values())
    world.until(lambda: world.api.get("HyperNode", "r1").get("status", {}).get("nodeCount") == 3)
    assert [] == world.audit()


def test_pods_of_another_scheduler_are_seen_before_the_next_decision(world: World) -> None:
    """Whoever else binds pods: what they take is taken, and their pods are left alone."""
    world.racks(racks=1, size=2)
    world.run()
    resources = {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}}
    theirs = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "theirs", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
    }
    world.api.create(theirs)
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "theirs"}, "target": {"name": "n0"}}
    world.api.ask("POST", "/api/v1/namespaces/default/pods/theirs/binding", binding)
    world.api.create({**theirs, "metadata": {"name": "waiting", "namespace": "default"}})
    world.api.create(job("one", task("w", 1)))
    world.until(lambda: len(world.running("one")) == 1)
    world.api.create(job("two", task("w", 1)))
    world.until(lambda: bool(world.group("two").get("status", {}).get("conditions")))

    assert {"one-w-0": "n1"} == world.running("one")
    assert "nodeName" not in world.api.get("Pod", "waiting")["spec"]
    assert [] == world.audit()


def test_two_schedulers_give_the_same_room_at_once(world: World) -> None:
    """We do not hear of a pod that another scheduler has bound: ours goes to the same node, and is taken back."""
    world.racks(racks=1, size=3)
    world.kubelets.holding = True
    with Proxy(world.plane, (), share=0.0) as proxy:
        world.run(kubeconfig=Path(proxy.kubeconfig()))
        world.api.create(job("first", task("w", 1, gpu=1)))
        world.until(lambda: "nodeName" in world.pods("first")[0]["spec"] if world.pods("first") else False)
        room = world.pods("first")[0]["spec"]["nodeName"]
        proxy.blind = True
        resources = {"requests": {"nvidia.com/gpu": "6"}, "limits": {"nvidia.com/gpu": "6"}}
        meta, spec = {"name": "theirs", "namespace": "default"}, {"name": "c", "image": "i", "resources": resources}
        world.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [spec]}})
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "theirs"}, "target": {"name": room}}
        world.api.ask("POST", "/api/v1/namespaces/default/pods/theirs/binding", binding)
        time.sleep(1.1)  # the server's stamps are whole seconds
        world.api.create(job("late", task("w", 2, gpu=7)))
        world.until(lambda: len(_nodes(world, "late")) == 2)
        assert room in _nodes(world, "late")
        assert ["oversubscribed"] == [finding["rule"] for finding in world.audit()]
        proxy.blind = False
        world.until(lambda: any(p["metadata"].get("deletionTimestamp") for p in world.pods("late")))
        world.kubelets.holding = False
        world.until(lambda: len(world.running("late")) == 2)

    assert room not in world.running("late").values()
    assert {"theirs", "first-w-0"} <= world.running().keys()
    assert [] == world.audit()


def _nodes(world: World, name: str) -> list[str]:
    """Where pods of a job were bound to."""
    return [p["spec"]["nodeName"] for p in world.pods(name) if p["spec"].get("nodeName")]


def test_two_names_with_profiles_of_their_own(world: World, tmp_path: Path) -> None:
    """One process serves several scheduler names, each by its profile, and they never take the same room."""
    world.racks(racks=1, size=4)
    other = tmp_path / "spread.conf"
    other.write_text('actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n')
    world.run("--scheduler-name", "tierwise", "--profile", f"second={other}")
    jobs = [job(f"j{i}", task("w", 1), schedulerName="second" if i % 2 else "tierwise") for i in range(6)]
    world.api.create(*jobs)
    world.until(lambda: len(world.running()) == 4)

    assert [] == world.audit()
    assert 4 == len(set(world.running().values()))


@pytest.mark.parametrize("verb", ["controllers"])
def test_controllers_apart_from_the_scheduler(world: World, verb: str) -> None:
    """The controllers in a process of their own make what the scheduler in another one places."""
    world.racks(racks=1, size=2)
    world.run(verb=verb)
    world.run("--no-controllers")
    world.api.create(job("train", task("w", 2), networkTopology=HARD_RACK))
    world.until(lambda: len(world.running("train")) == 2)

    assert [] == world.audit()


def test_pages_show_the_last_cycle(world: World) -> None:
    """The scheduler's own pages, beside its metrics: who runs where, and who waits and why."""
    port = free_port()
    world.racks(racks=2, size=2)
    world.run("--listen", f"127.0.0.1:{port}", "--pages")
    world.api.create(job("fits", task("w", 2), networkTopology=HARD_RACK))
    world.api.create(job("waits", task("w", 3), networkTopology=HARD_RACK))
    world.until(lambda: len(world.running("fits")) == 2)

    def told(path: str) -> Json:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/{path}", timeout=PATIENCE) as answer:
            found: Json = json.load(answer)
            return found

    world.until(lambda: told("board")["jobs"]["running"] == 1)
    world.until(lambda: {"fits", "waits"} <= {line["name"].partition("-")[0] for line in told("jobs")["list"]})
