"""A part of a gang is released after some time, in whichever dialect the gang is written; a gang that ran is not."""

from __future__ import annotations

import pytest
from tests.contract.fake_api import GANGS, Json
from tests.contract.manifests import node, pod, pod_group
from tests.contract.turns import START, World

from tierwise.controllers.stamp import stamp
from tierwise.scheduler.partial_gangs import DIMINISHED, PARTIAL, PATIENCE

MADE, BOUND, LATER = stamp(START - 500), stamp(START - 100), stamp(START - 50)
VOLCANO, OBJECT, ANNOTATED, GROUP = "volcano", "object", "annotated", "group"


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long between two attempts."""
    for module in ("client", "binder"):
        monkeypatch.setattr(f"tierwise.kube.{module}.pause", lambda *_, **__: 0.01)


def _gang_object(name: str, minimum: int, **annotations: str) -> Json:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"minMember": minimum},
    }


def _gang(how: str, size: int, bound: int) -> list[Json]:
    """A gang of pods of four cpus each that a controller owns, of which the first ones are bound."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    pods = [pod(f"p{i}", cpu="4", on=f"n{i // 2}" if i < bound else "") for i in range(size)]
    for i, found in enumerate(pods):
        found["metadata"] |= {"ownerReferences": [owner], "creationTimestamp": MADE}
        if i < bound:
            scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": BOUND}
            found["status"]["conditions"] = [scheduled]
        found["metadata"] |= _membership(how, i, size)
    if how == VOLCANO:
        return [pod_group("g", minimum=size), *pods]
    if how == OBJECT:
        return [_gang_object("g", size), *pods]
    if how == GROUP:
        together = {"gang.scheduling.koordinator.sh/groups": '["default/a", "default/b"]'}
        return [_gang_object("a", size - 1, **together), _gang_object("b", 1, **together), *pods]
    return pods


def _membership(how: str, i: int, size: int) -> Json:
    if how == VOLCANO:
        return {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    if how == ANNOTATED:
        prefix = "gang.scheduling.koordinator.sh"
        return {"annotations": {f"{prefix}/name": "g", f"{prefix}/min-available": str(size)}}
    name = "g" if how == OBJECT else "b" if i == size - 1 else "a"
    return {"labels": {"pod-group.scheduling.sigs.k8s.io": name}}


@pytest.mark.parametrize("how", [VOLCANO, OBJECT, GROUP])
def test_part_that_a_dead_process_left_is_marked_and_released(world: World, how: str) -> None:
    """One of five pods is bound, four fit: nothing for a minute, then the room is given back."""
    world.put(*_gang(how, 5, 1))

    assert (1, 1) == (world.turn(), world.turn(after=PATIENCE - 1))
    assert 1 == len(world.marks(PARTIAL))
    assert 0 == world.turn(after=1)


def test_part_of_a_gang_without_an_object_is_released(world: World) -> None:
    """All its pods are older than the first binding, and some have no node: it was never whole."""
    world.put(*_gang(ANNOTATED, 5, 2))

    assert 0 == world.turn()


@pytest.mark.parametrize("how", [VOLCANO, OBJECT, ANNOTATED])
def test_bind_that_fails_and_finds_no_other_place(world: World, how: str) -> None:
    """A part that this process has bound itself is marked at once, whatever phase it is given then, and released."""
    world.put(*_gang(how, 4, 0))
    world.api.time = stamp(START)
    world.api.fail("POST", "/p3/binding", 403, said={"message": "not today"})
    stand = world.turn()
    assert 0 < stand < 4
    theirs = [pod(f"theirs{i}", cpu="1", on=name) for i in range(4) for name in ("n0", "n1")[i % 2 : i % 2 + 1]]
    world.put(*theirs)

    assert stand + 4 == world.turn()
    assert ([] if how == ANNOTATED else ["g"]) == world.marks(PARTIAL)
    assert 4 == world.turn(after=PATIENCE)


@pytest.mark.parametrize("fault", [500, 422])
@pytest.mark.parametrize("how", [VOLCANO, OBJECT, GROUP, ANNOTATED])
def test_rest_of_a_gang_goes_before_an_older_one(world: World, how: str, fault: int) -> None:
    """A bind fails for good; the room for its pod is not given to a gang that has waited for longer."""
    world.put(*_gang(how, 4, 0))
    world.api.time = stamp(START)
    world.api.fail("POST", "/p3/binding", fault, times=100)
    stand = world.turn()
    assert 0 < stand < 4
    world.api.heal()
    old = [pod_group("old"), pod("old-0", cpu="4", group="old")]
    for found in old:
        found["metadata"]["creationTimestamp"] = stamp(START - 9000)
    world.put(*old)

    assert 4 == world.turn()
    assert "nodeName" not in world.api.get("pods", "old-0")["spec"]


@pytest.mark.parametrize("how", [VOLCANO, OBJECT])
def test_gang_that_falls_and_queues_again_keeps_its_pods(world: World, how: str) -> None:
    """A gang that ran and lost a pod is Pending again until the next one comes; that it was whole is written down."""
    group, *pods = _gang(how, 5, 3)
    group["status"] = {"phase": "Running"}
    if how == OBJECT:
        group["metadata"]["annotations"]["gang.scheduling.koordinator.sh/match-policy"] = "waiting-and-running"
    world.put(group, *pods[:3])
    assert (3, ["g"]) == (world.turn(), world.marks(DIMINISHED))
    pods[3]["metadata"]["creationTimestamp"] = pods[4]["metadata"]["creationTimestamp"] = LATER
    world.put(*pods[3:], pod("full", cpu="4", on="n1"))

    assert [4, 4, 4] == [world.turn(), world.turn(after=1), world.turn(after=2 * PATIENCE)]
    assert [] == world.marks(PARTIAL)


def test_gang_without_an_object_that_lost_a_pod_keeps_the_others(world: World) -> None:
    """A pod that is younger than the first binding is a replacement."""
    pods = _gang(ANNOTATED, 5, 2)
    pods[4]["metadata"]["creationTimestamp"] = LATER
    world.put(*pods)

    assert [2, 2] == [world.turn(), world.turn(after=PATIENCE)]


def test_gang_that_need_be_whole_only_once_stays_running(world: World) -> None:
    """Once satisfied, what is missing may come pod by pod; the phase does not forget it."""
    group, *pods = _gang(OBJECT, 5, 2)
    group["status"] = {"phase": "Running"}
    world.put(group, *pods[:2])

    assert [2, 2] == [world.turn(), world.turn(after=PATIENCE)]
    assert "Running" == world.api.get(GANGS, "g")["status"]["phase"]


def test_part_whose_rest_is_about_to_find_its_place_stays(world: World) -> None:
    """However long it has been a part: the rest is nominated for room that is being freed, so nothing is released."""
    group, *pods = _gang(VOLCANO, 4, 1)
    group["metadata"]["annotations"] = {PARTIAL: stamp(START - 2 * PATIENCE)}
    leaving = pod("leaving", cpu="8", on="n1")
    leaving["metadata"]["deletionTimestamp"] = stamp(START)
    world.put(group, *pods, leaving)

    assert 2 == world.turn()
    assert "n0" == world.api.get("pods", "p0")["spec"]["nodeName"]


def test_marks_go_when_the_gang_is_whole_or_gone(world: World) -> None:
    """A gang that has found its place is marked no more, and neither is one of which nothing stands."""
    world.put(*_gang(VOLCANO, 5, 1))
    world.turn()
    assert ["g"] == world.marks(PARTIAL)
    world.put(node("n2"))
    assert (5, 5) == (world.turn(), world.turn())
    assert [] == world.marks(PARTIAL)


@pytest.mark.parametrize("mark", ["tomorrow", stamp(START + 3600)])
def test_mark_that_cannot_be_is_set_anew(world: World, mark: str) -> None:
    """A clock that was ahead, or somebody's own text, does not keep half a gang for ever."""
    group, *pods = _gang(VOLCANO, 5, 1)
    group["metadata"]["annotations"] = {PARTIAL: mark}
    world.put(group, *pods)

    assert [1, 0] == [world.turn(), world.turn(after=PATIENCE)]


def _sub_groups(bound: int, *, minimum: int = 1) -> list[Json]:
    """A running gang of three sub-groups of two pods, of which so many pods are bound; a gang needs two pods."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    group = pod_group("g", 2 * minimum, {"phase": "Running"})
    selector = {"matchLabels": {"app": "g"}}
    policy = {"name": "p", "subGroupSize": 2, "labelSelector": selector, "matchLabelKeys": ["part"]}
    group["spec"]["subGroupPolicy"] = [policy | {"minSubGroups": minimum}]
    pods = [pod(f"p{i}", cpu="4", on=f"n{i // 2}" if i < bound else "", group="g") for i in range(6)]
    for i, found in enumerate(pods):
        found["metadata"] |= {"ownerReferences": [owner], "creationTimestamp": MADE}
        found["metadata"]["labels"] = {"app": "g", "part": f"s{i // 2}"}
        if i < bound:
            scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": BOUND}
            found["status"]["conditions"] = [scheduled]
    return [group, *pods]


def _on_nodes(world: World) -> list[str]:
    return sorted(found["metadata"]["name"] for found in world.api.all("pods") if found["spec"].get("nodeName"))


def test_half_a_sub_group_beyond_the_minimum_is_released(world: World) -> None:
    """The gang has its minimum and goes on; the pod whose partner finds no room gives its own back."""
    world.put(*_sub_groups(3), pod("theirs", cpu="1", on="n1"))

    world.turn()

    assert ["p0", "p1", "theirs"] == _on_nodes(world)
    assert [] == world.marks(PARTIAL)


def test_half_a_sub_group_has_its_time(world: World) -> None:
    """Its last pod was bound 50 seconds ago: in ten seconds it goes, and not before."""
    group, *pods = _sub_groups(3)
    pods[2]["status"]["conditions"][0]["lastTransitionTime"] = LATER
    world.put(group, *pods, pod("theirs", cpu="1", on="n1"))

    assert [4, 4, 3] == [world.turn(), world.turn(after=PATIENCE - 51), world.turn(after=1)]


def test_half_a_sub_group_whose_rest_finds_a_place_stays(world: World) -> None:
    """However long it has been one."""
    world.put(*_sub_groups(3))

    assert 4 == world.turn()
    assert ["p0", "p1", "p2", "p3"] == _on_nodes(world)


def test_sub_group_that_lost_a_pod_is_not_released(world: World) -> None:
    """A pod that is younger than the first binding of the sub-group is a replacement; its policies deal with it."""
    group, *pods = _sub_groups(3)
    pods[3]["metadata"]["creationTimestamp"] = LATER
    world.put(group, *pods, pod("theirs", cpu="1", on="n1"))

    assert [4, 4] == [world.turn(), world.turn(after=PATIENCE)]
