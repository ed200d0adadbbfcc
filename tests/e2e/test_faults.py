"""Whatever fails between scheduler and API server, and whenever the scheduler dies: the auditor finds nothing."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.e2e.accounts import NAMESPACE
from tests.e2e.api import Json, path_of
from tests.e2e.proxy import FAULTS, Proxy
from tests.e2e.world import PATIENCE, World, job, task

RACKS, SIZE = 4, 4
RACK: Json = {"mode": "hard", "highestTierAllowed": 1}
DEEP = "E2E_DEEP" in os.environ
"""With it two hundred kills and each fault by itself, which takes a quarter of an hour."""
KILLED = 40 if DEEP else 2
MIXES = [FAULTS, *((fault,) for fault in FAULTS if DEEP)]


def _gangs(world: World, count: int, start: int = 0) -> None:
    """Gangs of two to eight pods with a GPU or two each, every other one bound to a rack."""
    chance = random.Random(start)
    jobs = []
    for i in range(start, start + count):
        more: Json = {"networkTopology": RACK} if i % 2 else {}
        jobs.append(job(f"g{i}x", task("w", chance.randint(2, 8), gpu=chance.choice([1, 2])), **more))
    world.api.create(*jobs)


def _settled(world: World) -> bool:
    """Every gang runs whole or waits whole, and the auditor finds nothing; while binds are under way it may."""
    pods = world.pods()
    if not pods or any(p["spec"].get("nodeName") and p["status"].get("phase") != "Running" for p in pods):
        return False
    return world.audit() == []


@pytest.mark.parametrize("faults", MIXES, ids="+".join)
def test_faulty_connection(world: World, faults: tuple[str, ...]) -> None:
    """One request in seven goes wrong in one of ten ways, while gangs come up."""
    world.racks(RACKS, SIZE)
    with Proxy(world.plane, faults, share=0.15, seed=1) as proxy:
        world.run(kubeconfig=Path(proxy.kubeconfig()))
        _gangs(world, 12)
        world.until(lambda: len(world.running()) >= 30)
        proxy.quiet = True
        world.until(lambda: _settled(world))
        total = sum(t["replicas"] for j in world.api.list("Job") for t in j["spec"]["tasks"])
        world.until(lambda: len(world.pods()) == total)
        world.until(lambda: _settled(world))

        assert sum(proxy.done.values()) > (8 if len(faults) > 1 else 1), (
            proxy.done
        )  # watches alone can be gone, and are few


def test_watches_that_fall_silent_are_begun_again(world: World) -> None:
    """Nobody closes them and nobody says anything any more: gangs that come then run all the same, a while later."""
    world.racks(RACKS, SIZE)
    with Proxy(world.plane, (), share=0.0) as proxy:
        process = world.run(kubeconfig=Path(proxy.kubeconfig()))
        world.api.create(job("before", task("w", 2)))
        world.until(lambda: len(world.running("before")) == 2)
        proxy.silent = True
        world.api.create(job("after", task("w", 2)))  # this much is noticed before a watch falls silent, perhaps
        time.sleep(1.0)
        world.api.create(job("later", task("w", 2)))
        time.sleep(1.0)
        proxy.silent = False  # watches that are begun from here on are told everything
        world.until(lambda: len(world.running("later")) == 2, seconds=3 * PATIENCE)

        assert process.poll() is None
        assert "watch broken off: no answer in time" in world.said()
        assert [] == world.audit()


def test_pages_in_place_of_answers_end_nothing(world: World) -> None:
    """Half of all answers are a gateway's page with a 200: the process goes on, and so do the gangs once it is gone."""
    world.racks(RACKS, SIZE)
    with Proxy(world.plane, ("page",), share=0.5, seed=1) as proxy:
        process = world.run(
            "--lease-duration", "5", "--lease-namespace", NAMESPACE, kubeconfig=Path(proxy.kubeconfig())
        )
        _gangs(world, 4)
        world.until(lambda: proxy.done["page"] > 50)
        proxy.quiet = True
        total = sum(t["replicas"] for j in world.api.list("Job") for t in j["spec"]["tasks"])
        world.until(lambda: len(world.pods()) == total)
        world.until(lambda: _settled(world))

        assert process.poll() is None
        assert "the answer cannot be read" in world.said()


def test_odd_objects_of_one_tenant_are_not_in_the_way_of_others(world: World) -> None:
    """A thousand podGroups and pods that cannot be scheduled: a gang that comes behind them runs, and is told so."""
    world.racks(RACKS, SIZE)
    world.api.ask(
        "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "noisy"}}
    )
    world.run()
    world.api.create(job("before", task("w", 2)))
    world.until(lambda: len(world.running("before")) == 2)
    odd = [_odd(i) for i in range(1000)]
    world.api.create(*odd)
    world.api.create(job("after", task("w", 2)))
    world.until(lambda: len(world.running("after")) == 2)
    world.until(lambda: world.group("after").get("status", {}).get("phase") == "Running")

    assert [] == world.audit()
    for kind in ("Pod", "PodGroup", "Event"):
        world.api.ask("DELETE", path_of(kind, namespace="noisy"), {"gracePeriodSeconds": 0})


def _odd(number: int) -> Json:
    """A podGroup whose pods do not come, or a pod whose group does not."""
    meta: Json = {"name": f"odd-{number}", "namespace": "noisy"}
    if number % 2:
        group: Json = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta}
        return {**group, "spec": {"minMember": 3, "queue": "default"}}
    meta["annotations"] = {"scheduling.k8s.io/group-name": f"nobody-{number}"}
    spec = task("w", 1)["template"]["spec"] | {"schedulerName": "tierwise"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def test_server_restarts_under_way(world: World) -> None:
    """The API server is killed and started again while gangs are bound; nothing is lost, and nothing bound twice."""
    world.racks(RACKS, SIZE)
    world.run()
    _gangs(world, 6)
    world.until(lambda: len(world.pods()) > 4)
    world.plane.stop_server()
    time.sleep(1.0)
    world.plane.start_server()
    _gangs(world, 4, start=50)
    total = sum(t["replicas"] for j in world.api.list("Job") for t in j["spec"]["tasks"])
    world.until(lambda: len(world.pods()) == total)
    world.until(lambda: _settled(world))


def test_history_is_compacted_while_nobody_looks(world: World) -> None:
    """What has changed since the last look is in no history any more: all is listed again, and gangs go on."""
    world.racks(RACKS, SIZE)
    process = world.run()
    world.api.create(job("stays", task("w", 4, gpu=4)), job("ends", task("w", 4, gpu=4)))
    world.until(lambda: len(world.running()) == 8)
    before = {p["metadata"]["uid"] for p in world.pods("stays")}
    process.send_signal(signal.SIGSTOP)
    for kind, name in (("Job", "ends"), ("Node", "n15")):
        world.api.delete(kind, name, now=True)
    for found in world.pods("ends"):
        world.api.delete("Pod", found["metadata"]["name"], now=True)
    world.api.create(job("new", task("w", 8, gpu=4)))
    world.plane.stop_server()
    world.plane.compact()
    world.plane.start_server()
    process.send_signal(signal.SIGCONT)
    world.until(lambda: len(world.running("new")) == 8)

    assert "pods: version" in world.said()  # is too old
    assert before == {p["metadata"]["uid"] for p in world.pods("stays")}
    assert "n15" not in world.running().values()
    world.until(lambda: _settled(world))


def test_clock_jumps(world: World, tmp_path: Path) -> None:
    """The wall clock is set while gangs come up: nobody's time is over for it, and the lease stays where it is."""
    clock = tmp_path / "clock"
    clock.write_text("0")
    world.racks(2, 2)
    world.run("--lease-duration", "5", "--lease-namespace", NAMESPACE, clock=clock)
    patient = {"event": "PodPending", "action": "TerminateJob", "timeout": "30m"}
    world.api.create(job("done", task("w", 2), ttlSecondsAfterFinished=1800))
    world.until(lambda: len(world.running("done")) == 2)
    for found in world.pods("done"):
        world.api.patch("Pod", found["metadata"]["name"], {"status": {"phase": "Succeeded"}}, status=True)
    world.api.create(job("waits", task("w", 5), policies=[patient]))
    world.until(lambda: [_phase(world, name) for name in ("done", "waits")] == ["Completed", "Pending"])
    world.until(lambda: len(world.pods("waits")) == 5)
    lease = world.api.get("Lease", "tierwise", NAMESPACE)["spec"]
    clock.write_text("3600")
    world.api.create(job("ahead", task("w", 2)))
    world.until(lambda: len(world.running("ahead")) == 2)
    clock.write_text("-3600")
    world.api.create(job("behind", task("w", 2)))
    world.until(lambda: len(world.running("behind")) == 2)

    assert ["Completed", "Pending"] == [_phase(world, name) for name in ("done", "waits")]
    now = world.api.get("Lease", "tierwise", NAMESPACE)["spec"]
    assert [now[part] == lease[part] for part in ("holderIdentity", "leaseTransitions")] == [True, True]
    assert [] == world.audit()


def _phase(world: World, name: str) -> str:
    return str(world.api.get("Job", name).get("status", {}).get("state", {}).get("phase"))


@pytest.mark.parametrize("seed", range(KILLED))
def test_killed_at_any_moment(world: World, seed: int) -> None:
    """Kill -9 again and again while many gangs come up: whoever goes on finds all it needs in the API server."""
    world.racks(RACKS, SIZE)
    chance = random.Random(seed)
    _gangs(world, 14, start=100 * seed)
    for _ in range(5):
        process = world.run()
        # Starting takes the better part of a second; then the binds begin.
        time.sleep(chance.uniform(0.6, 2.2))
        process.kill()
        process.wait()
    world.run()
    total = sum(t["replicas"] for j in world.api.list("Job") for t in j["spec"]["tasks"])
    world.until(lambda: len(world.pods()) == total)
    world.until(lambda: _settled(world))

    names = [p["metadata"]["name"] for p in world.pods()]
    assert len(names) == len(set(names)) == total


def test_leader_fails_and_the_next_goes_on(world: World) -> None:
    """Two candidates: the one that leads is killed, the other takes over when the lease has lapsed, and schedules."""
    world.racks(1, 4)
    candidates = [world.run("--lease-duration", "3", "--lease-namespace", NAMESPACE) for _ in range(2)]
    world.api.create(job("one", task("w", 2)))
    world.until(lambda: len(world.running("one")) == 2)
    holder = world.api.get("Lease", "tierwise", NAMESPACE)["spec"]["holderIdentity"]
    leader = next(p for p in candidates if holder.endswith(f"_{p.pid}"))
    leader.kill()
    leader.wait()
    world.api.create(job("two", task("w", 2)))
    world.until(lambda: len(world.running("two")) == 2)

    assert holder != world.api.get("Lease", "tierwise", NAMESPACE)["spec"]["holderIdentity"]
    assert [] == world.audit()


def test_frozen_leader_sends_nothing_after_its_term(world: World) -> None:
    """Its binds hang while the next leader gives the nodes away: they are looked up then, and not sent again."""
    world.racks(1, 2)
    _priority(world, "high", 1000)
    words = ("--no-controllers", "--lease-duration", "10", "--lease-namespace", NAMESPACE)
    with Proxy(world.plane, (), share=0.0) as proxy:
        proxy.freezes_at = "/binding"
        first = world.run(*words, kubeconfig=Path(proxy.kubeconfig()))
        world.until(lambda: _holder(world).endswith(f"_{first.pid}"))
        second = world.run(*words)
        _gang_of_two(world, "one")
        assert proxy.frozen.wait(PATIENCE)
        _gang_of_two(world, "urgent", priorityClassName="high")
        world.until(lambda: len(world.running("urgent")) == 2)
        assert _holder(world).endswith(f"_{second.pid}")
        proxy.thaw()
        # The last word on a bind without an answer comes when the server must have given it up.
        world.until(lambda: world.said().count("was not bound after all") >= 2)

        assert [] == [path for path in proxy.since if path.endswith("/binding")]
        assert {"urgent-0", "urgent-1"} == {p["metadata"]["name"] for p in world.pods() if p["spec"].get("nodeName")}
        assert [] == world.audit()
        second.terminate()
        second.wait(timeout=PATIENCE)
        for found in world.pods("urgent"):
            world.api.delete("Pod", found["metadata"]["name"], now=True)
        world.until(lambda: len(world.running("one")) == 2)  # the first leads again, and nothing is left of it

    assert [] == world.audit()


def _priority(world: World, name: str, value: int) -> None:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    world.api.apply({**kind, "value": value})


def _gang_of_two(world: World, name: str, **more: str) -> None:
    """A podGroup and its pods, each of which fills a node."""
    meta: Json = {"name": name, "namespace": "default"}
    group: Json = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta}
    world.api.create({**group, "spec": {"minMember": 2, "queue": "default", **more}})
    mark = {"scheduling.k8s.io/group-name": name}
    spec = task("w", 1)["template"]["spec"] | {"schedulerName": "tierwise", **more}
    for i in range(2):
        meta = {"name": f"{name}-{i}", "namespace": "default", "annotations": mark}
        world.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def test_leader_that_ends_in_order_hands_over_at_once(world: World) -> None:
    """SIGTERM gives the lease back: the next one does not wait for it to lapse, which would take too long here."""
    world.racks(1, 2)
    first = world.run("--lease-duration", "900", "--lease-namespace", NAMESPACE)
    world.until(lambda: bool(world.api.list("Lease", NAMESPACE)))
    world.until(lambda: _holder(world).endswith(f"_{first.pid}"))
    world.run("--lease-duration", "900", "--lease-namespace", NAMESPACE)
    first.terminate()
    assert 0 == first.wait(timeout=PATIENCE)
    world.api.create(job("one", task("w", 2)))
    world.until(lambda: len(world.running("one")) == 2)

    assert [] == world.audit()


def _holder(world: World) -> str:
    found = [lease for lease in world.api.list("Lease", NAMESPACE) if lease["metadata"]["name"] == "tierwise"]
    return str(found[0]["spec"].get("holderIdentity")) if found else ""
