"""Two schedulers that decide at the same moment: a node that was given too much is given back by who came last."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.fake_api import FakeApi, Json
from tests.contract.manifests import node, pod, pod_group
from tests.contract.turns import START, World

from tierwise.api import codec
from tierwise.audit import audit
from tierwise.controllers.stamp import stamp
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.port import Objects
from tierwise.scheduler.partial_gangs import DIMINISHED, PARTIAL, overbound
from tierwise.snapshot.builder import build

EARLIER, LATER = stamp(START - 5), stamp(START + 5)
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}


@pytest.fixture
def world() -> Iterator[World]:
    """Two nodes of eight, and bindings that are stamped with the time of the first turn."""
    with FakeApi() as api:
        api.put(node("n0"), node("n1"))
        api.time = stamp(START)
        with KubeCluster(Access(api.url)) as cluster:
            assert cluster.synced(timeout=60)
            yield World(api, cluster)


def _pod(name: str, cpu: int, *, on: str = "", at: str = "", group: str = "", scheduler: str = "tierwise") -> Json:
    found = pod(name, cpu=str(cpu), on=on, group=group)
    found["metadata"]["ownerReferences"] = [OWNER]
    found["spec"]["schedulerName"] = scheduler
    if at:
        found["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]
    return found


def _gang() -> list[Json]:
    """A gang that fills both nodes."""
    return [pod_group("g", 2), _pod("p0", 8, group="g"), _pod("p1", 8, group="g")]


def _nodes(world: World) -> dict[str, str]:
    return {p["metadata"]["name"]: p["spec"].get("nodeName", "") for p in world.api.all("pods")}


def _collide(world: World, at: str) -> None:
    """Another scheduler takes n0, and we do not hear of it before our gang is bound."""
    theirs = _pod("theirs", 8, on="n0", at=at, scheduler="other")
    world.put(*_gang())
    world.api.silently(theirs)
    assert 3 == world.turn()
    world.put(theirs)


def test_who_was_bound_last_is_taken_back_and_placed_again(world: World) -> None:
    """The pod on the full node goes, its gang counts as never whole, and its replacement goes elsewhere."""
    _collide(world, EARLIER)
    world.turn()
    assert {"theirs": "n0", "p1": "n1"} == _nodes(world)
    assert ["g"] == world.marks(PARTIAL)

    world.put(node("n2"), _pod("p0", 8, group="g"))
    world.turn()
    assert {"theirs": "n0", "p0": "n2", "p1": "n1"} == _nodes(world)
    world.turn()
    assert [] == world.marks(PARTIAL)


def test_gang_that_lost_its_room_is_released_as_a_whole(world: World) -> None:
    """What is taken back and finds no other place leads to the end of the rest, as after any failed bind."""
    _collide(world, EARLIER)
    world.turn()
    world.put(_pod("p0", 8, group="g"))
    world.turn()
    assert {"theirs": "n0", "p0": "", "p1": "n1"} == _nodes(world)

    world.turn(after=60.0)
    assert {"theirs": "n0", "p0": ""} == _nodes(world)


def test_who_was_bound_first_stays(world: World) -> None:
    """The other one came last: that is between it and the kubelet."""
    _collide(world, LATER)
    world.turn()

    assert {"theirs": "n0", "p0": "n0", "p1": "n1"} == _nodes(world)


def test_gang_of_which_nothing_is_left_is_no_part(world: World) -> None:
    """Its only pod is taken back once, and there is nothing to release later."""
    theirs = _pod("theirs", 8, on="n0", at=EARLIER, scheduler="other")
    world.put(pod_group("g", 1), _pod("p0", 8, group="g"), _pod("full", 8, on="n1", at=EARLIER, scheduler="other"))
    world.api.silently(theirs)
    world.turn()
    world.put(theirs)
    world.turn()

    assert {"theirs": "n0", "full": "n1"} == _nodes(world)
    assert [] == world.marks(PARTIAL)
    assert 1 == sum(request.endswith("/eviction") for request in world.api.requests)


def test_pod_whose_binding_has_no_time_yet_is_waited_for() -> None:
    """Until the server says when each pod of a full node was bound, nobody knows who came last."""
    old, new = _pod("old", 8, on="n0", at=EARLIER, scheduler="a"), _pod("new", 8, on="n0", scheduler="b")
    groups = []
    for found in (old, new):
        name = found["metadata"]["name"]
        found["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": f"g-{name}"}
        groups.append(pod_group(f"g-{name}", 1))
    assert set() == _taken_back([node("n0"), *groups, old, new])

    new["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": LATER}]
    assert {"new"} == _taken_back([node("n0"), *groups, old, new])


def test_gang_was_bound_when_its_last_pod_was() -> None:
    """A gang that began first and ended last came last, and its pod on the full node is the one that goes."""
    first = [_pod("p0", 1, on="n1", at=EARLIER, group="g", scheduler="a")]
    last = _pod("p1", 8, on="n0", at=LATER, group="g", scheduler="a")
    between = _pod("q0", 8, on="n0", at=stamp(START), group="h", scheduler="b")

    manifests = [node("n0"), node("n1"), pod_group("g", 2), pod_group("h", 1), *first, last, between]
    assert {"p1"} == _taken_back(manifests)


def test_who_is_on_the_way_out_holds_its_room() -> None:
    """A kubelet refuses whoever comes before it has gone: the one that came last is taken back."""
    leaving = _pod("old", 8, on="n0", at=EARLIER, group="g", scheduler="a")
    leaving["metadata"]["deletionTimestamp"] = LATER
    late = _pod("new", 8, on="n0", at=LATER, group="h", scheduler="b")

    assert {"new"} == _taken_back([node("n0"), pod_group("g", 1), pod_group("h", 1), leaving, late])


def test_pod_of_no_gang_is_left_to_its_kubelet() -> None:
    """Gangs are taken back so that they are whole elsewhere; a pod that stands alone is refused where it is."""
    first = _pod("old", 8, on="n0", at=EARLIER, group="g", scheduler="a")

    assert set() == _taken_back(
        [node("n0"), pod_group("g", 1), first, _pod("new", 8, on="n0", at=LATER, scheduler="b")]
    )


def test_pod_that_is_refused_and_leaving_is_not_evicted_again() -> None:
    """It is on its way out; asking once is enough."""
    refused = _pod("p0", 8, on="n0", at=EARLIER, group="g", scheduler="a")
    refused["status"] = {"phase": "Failed", "reason": "OutOfcpu"}
    assert {"p0"} == _taken_back([node("n0"), pod_group("g", 1), refused])

    refused["metadata"]["deletionTimestamp"] = LATER
    assert set() == _taken_back([node("n0"), pod_group("g", 1), refused])


def test_what_a_kubelet_has_taken_up_stays(world: World) -> None:
    """A node that has less than it had, because a device fell silent, say, costs nobody his place."""
    world.put(*_gang())
    assert 2 == world.turn()
    for name in ("p0", "p1"):
        found = world.api.get("pods", name)
        world.put({**found, "status": {**found["status"], "startTime": LATER}})
    world.put(node("n0", cpu="2"))

    assert 2 == world.turn()


def test_pod_without_an_owner_stays(world: World) -> None:
    """Nobody would make it anew; the kubelet may refuse it."""
    group, first, second = _gang()
    del first["metadata"]["ownerReferences"]
    world.put(group, first, second)
    theirs = _pod("theirs", 8, on="n0", at=EARLIER, scheduler="other")
    world.api.silently(theirs)
    world.turn()
    world.put(theirs)

    assert 3 == world.turn()


@pytest.mark.parametrize(("others_bound", "mark"), [(START, PARTIAL), (START - 3600, DIMINISHED)])
def test_pod_that_a_kubelet_has_refused_is_taken_back(world: World, others_bound: float, mark: str) -> None:
    """It has never run; its gang was whole only on paper, unless it was a replacement."""
    group, refused, other = _gang()
    group["status"] = {"phase": "Running"}
    refused |= {"status": {"phase": "Failed", "reason": "OutOfcpu"}}
    scheduled = {"type": "PodScheduled", "status": "True"}
    refused["status"]["conditions"] = [{**scheduled, "lastTransitionTime": stamp(START)}]
    other["status"]["conditions"] = [{**scheduled, "lastTransitionTime": stamp(others_bound)}]
    refused["spec"]["nodeName"], other["spec"]["nodeName"] = "n0", "n1"
    world.put(group, refused, other)
    world.turn()

    assert {"p1": "n1"} == _nodes(world)
    assert ["g"] == world.marks(mark)


@given(st.data())
def test_both_come_to_the_same_order(data: st.DataObject) -> None:
    """Each of two schedulers takes back its own, and what is left fits, whatever was bound when."""
    manifests: list[Json] = [node("n0"), node("n1"), *(pod_group(f"g{i}", 1) for i in range(4))]
    for i in range(data.draw(st.integers(1, 10))):
        gang = data.draw(st.integers(0, 3))
        at = stamp(START + data.draw(st.integers(0, 2)))
        on = data.draw(st.sampled_from(["n0", "n1"]))
        cpu, name = data.draw(st.integers(1, 5)), ("a", "b")[gang % 2]
        manifests.append(_pod(f"p{i}", cpu, on=on, at=at, group=f"g{gang}", scheduler=name))
    taken = _taken_back(manifests)
    left = [m for m in manifests if m["metadata"]["name"] not in taken]
    assert not _crowded(left)
    assert not taken or _crowded(manifests)

    for manifest in manifests:
        if manifest["metadata"]["name"] in taken:
            manifest["metadata"]["deletionTimestamp"] = LATER
    assert set() == _taken_back(manifests)  # nobody gives way to those who are on their way out


def _taken_back(manifests: list[Json]) -> set[str]:
    """What each of two schedulers takes back of its own."""
    objects = _objects(manifests)
    taken: set[str] = set()
    for name in ("a", "b"):
        back = overbound(objects, build(objects, START, schedulers=frozenset({name}))).values()
        assert {name} >= {found.spec.scheduler_name for pods in back for found in pods}
        taken |= {found.metadata.name for pods in back for found in pods}
    return taken


def _crowded(manifests: list[Json]) -> bool:
    return "oversubscribed" in {finding.rule for finding in audit(_objects(manifests))}


def _objects(manifests: list[Json]) -> Objects:
    return Objects.of((codec.decode(m), m) for m in manifests)
