"""The status of pod groups: phases, conditions, counts and places; written once, and only where it changes."""

from __future__ import annotations

import json

import pytest
from tests.support.draw import draw, objects_of
from tests.support.draw import gang as drawn
from tests.support.draw import groups as parts
from tests.support.lives import gang, machines
from tests.support.manifests import (
    NOW,
    applied,
    children,
    hypernode,
    nodes,
    objects,
    pod_group,
)

from tierwise.api.codec import Raw
from tierwise.api.volcano import PodGroup, PodGroupStatus
from tierwise.config.profile import DEFAULT
from tierwise.controllers.stamp import stamp
from tierwise.explain.message import decision_id
from tierwise.port import (
    HYPERNODE_ANNOTATION,
    SUB_GROUPS_ANNOTATION,
    Bind,
    Effect,
    Evict,
    Key,
    Objects,
    Outcome,
    PatchStatus,
    RecordEvent,
)
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import amended
from tierwise.scheduler.effects import effects as asked_of
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import build
from tierwise.status import pod_group as of_groups
from tierwise.status.pod import pod_conditions, pod_events
from tierwise.status.pod_group import NOT_RECORDED, TIER_ANNOTATION, UNKNOWN_TIER, statuses


def told(world: Objects, now: float = NOW) -> tuple[Objects, list[Effect]]:
    """The world with what one cycle says of its groups; nothing is bound."""
    snapshot = build(world, now)
    effects = statuses(world, snapshot, cycle(snapshot, DEFAULT))
    return applied(world, [effect for effect in effects if isinstance(effect, PatchStatus)]), effects


def status(world: Objects) -> PodGroupStatus:
    """What is said of the gang."""
    return world.every(PodGroup)["default/a"].status


def standing(raws: list[Raw], **phases: str) -> list[Raw]:
    """The pods of a gang on nodes n0, n1, ... by their phases; those without one wait."""
    found: list[Raw] = [raws[0]]
    for index, raw in enumerate(raws[1:]):
        phase = phases.get(f"p{index}", "")
        spec = raw["spec"]
        assert isinstance(spec, dict)
        found.append({**raw, "spec": {**spec, "nodeName": f"n{index}"}, "status": {"phase": phase}} if phase else raw)
    return found


def test_a_gang_that_waits_says_why_once() -> None:
    """Inqueue and Unschedulable with a reason; a second cycle, a minute later, has nothing to add."""
    world, effects = told(objects(*machines("n0"), *gang("a", 2)))
    _, nothing = told(world, NOW + 60)

    found = status(world)
    assert ("Inqueue", ["Unschedulable"]) == (found.phase, [c.type for c in found.conditions])
    assert found.conditions[0].message.startswith("2/2 tasks in gang unschedulable")
    assert ["Unschedulable"] == [effect.reason for effect in effects if isinstance(effect, RecordEvent)]
    assert [] == nothing


def test_a_gang_that_found_its_place_is_unschedulable_no_more() -> None:
    """Unschedulable turns False with a new time, Scheduled turns True, and the counts are there."""
    waiting, _ = told(objects(*machines("n0"), *gang("a", 2)))
    group = waiting.raw(next(key for key in waiting if key.kind == "PodGroup")) or {}
    pods = standing(gang("a", 2), p0="Running", p1="Running")
    world, _ = told(objects(*machines("n0", "n1"), group, *pods[1:]), NOW + 60)

    found = status(world)
    said = {c.type: (c.status, c.last_transition_time) for c in found.conditions}
    later = "2025-10-09T08:54:20Z"
    assert {"Scheduled": ("True", later), "Unschedulable": ("False", later)} == said
    assert ("Running", 2, 0, 0) == (found.phase, found.running, found.succeeded, found.failed)


def test_phases_follow_the_pods() -> None:
    """Completed when all is over and enough went well; Pending again below the minimum; Unknown where some stand."""
    nodes_ = machines("n0", "n1")
    over, _ = told(objects(*nodes_, *standing(gang("a", 2), p0="Succeeded", p1="Succeeded")))
    half, _ = told(objects(*machines("n0"), *standing(gang("a", 2), p0="Running")))
    fallen = standing(gang("a", 2), p0="Failed", p1="Failed")
    fallen[0] = pod_group("a", phase="Running", minMember=2)
    down, _ = told(objects(*nodes_, *fallen))

    assert ["Completed", "Unknown", "Pending"] == [status(world).phase for world in (over, half, down)]
    assert (2, 2) == (status(over).succeeded, status(down).failed)


def test_gang_of_which_too_few_went_well_is_not_completed() -> None:
    """All is over, but its minimum did not succeed."""
    over, _ = told(objects(*machines("n0", "n1"), *standing(gang("a", 2), p0="Succeeded", p1="Failed")))

    assert "Completed" != status(over).phase


def test_condition_keeps_the_time_at_which_it_began() -> None:
    """Another message is not another beginning, and what others wrote stays beside it."""
    waiting, _ = told(objects(*machines("n0"), *gang("a", 2)))
    [key] = [key for key in waiting if key.kind == "PodGroup"]
    group = waiting.raw(key) or {}
    found = group["status"]
    assert isinstance(found, dict)
    others = {
        "type": "Mine",
        "status": "True",
        "reason": "Own",
        "message": "",
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    }
    shown = {**group, "status": {**found, "conditions": [others, *found["conditions"]]}}
    world, _ = told(objects(*machines("n0"), shown, *gang("a", 3)[1:]), NOW + 60)

    said = {c.type: (c.message[:9], c.last_transition_time) for c in status(world).conditions}
    assert {"Mine": ("", "2025-01-01T00:00:00Z"), "Unschedulable": ("3/3 tasks", stamp(NOW))} == said


def test_binds_that_were_withheld_are_no_events() -> None:
    """The pod whose bind failed says enough; the others were withheld for its sake."""
    snapshot = build(Objects(), now=0.0)
    binds = [Bind(Key("", "Pod", "default", f"p{i}"), "n0", gang="default/g") for i in range(3)]
    errors = ("withheld, because its gang would not be whole: p1", "exceeded quota", "withheld: no longer the leader")
    outcomes = [
        Outcome(bind, ok=False, error=error, withheld=bind is not binds[1])
        for bind, error in zip(binds, errors, strict=True)
    ]

    events = [e for e in pod_events(snapshot, outcomes) if isinstance(e, RecordEvent)]
    assert [("p1", "FailedBinding", "exceeded quota")] == [(e.about.name, e.reason, e.message) for e in events]


def test_autoscalers_are_called_only_where_nodes_would_help() -> None:
    """A gang that lacks pods is not Unschedulable in the sense that autoscalers know, one without room is."""
    group = pod_group("a", phase="Inqueue", minMember=3)
    world = objects(*machines("n0"), group, *gang("a", 2)[1:], *gang("b", 2))
    snapshot = build(world, NOW)
    effects = pod_conditions(world, snapshot, cycle(snapshot, DEFAULT))
    reasons = {
        e.key.name[0]: e.status["conditions"][0]["reason"]  # type: ignore[index]
        for e in effects
        if isinstance(e, PatchStatus)
    }

    assert {"a": "NotAllowed", "b": "Unschedulable"} == reasons


def test_a_condition_that_a_pod_shows_is_not_written_again() -> None:
    """Pods that wait cost no write in any later cycle."""
    cluster = EmbeddedCluster(objects(*machines("n0"), *gang("a", 2)[1:], *gang("b", 2)))
    snapshot = build(cluster.read(), NOW)
    report = cycle(snapshot, DEFAULT)
    told = pod_conditions(cluster.read(), snapshot, report)
    cluster.apply(told)

    assert 4 == sum(isinstance(effect, PatchStatus) for effect in told)
    assert [] == pod_conditions(cluster.read(), snapshot, report)


def test_the_place_of_a_gang_and_of_its_sub_groups_is_on_record() -> None:
    """The innermost hyperNode of each, with its tier."""
    policy = {"name": "p", "subGroupSize": 1, "matchLabelKeys": ["part"]}
    pods = standing(gang("a", 2), p0="Running", p1="Running")
    for index, raw in enumerate(pods[1:]):
        metadata = raw["metadata"]
        assert isinstance(metadata, dict)
        raw["metadata"] = {**metadata, "labels": {"part": str(index)}}
    pods[0] = pod_group("a", phase="Running", minMember=2, subGroupPolicy=[policy])
    racks = [hypernode("r0", 1, nodes("n0")), hypernode("r1", 1, nodes("n1"))]
    tree = [*racks, hypernode("s0", 2, children("r0", "r1"))]
    world, _ = told(objects(*machines("n0", "n1"), *tree, *pods))

    marks = world.every(PodGroup)["default/a"].metadata.annotations
    assert ("s0", "2") == (marks[HYPERNODE_ANNOTATION], marks[TIER_ANNOTATION])
    subs = {"p-0": {"hyperNode": "r0", "tier": 1}, "p-1": {"hyperNode": "r1", "tier": 1}}
    assert subs == json.loads(marks[SUB_GROUPS_ANNOTATION])


def test_sub_groups_beyond_their_annotation_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """An annotation that would be too long is not written, and an event says so when they are placed."""
    world, racks = (
        draw("r0[n0] r1[n1]"),
        drawn("a", each="cpu=8", groups=(parts(2, size=1, within=1),), phase="Inqueue"),
    )
    monkeypatch.setattr(of_groups, "_LONGEST", 20)
    _, effects = told(objects_of(world, racks))
    events = [effect.message for effect in effects if isinstance(effect, RecordEvent) and effect.reason == NOT_RECORDED]
    (patch,) = (effect for effect in effects if isinstance(effect, PatchStatus))

    assert SUB_GROUPS_ANNOTATION not in patch.annotations
    assert ["where its sub-groups stand takes"] == [event[:32] for event in events]


def test_the_event_of_a_victim_names_no_job_of_another_namespace() -> None:
    """Who profits is named to those who may see it: in the same namespace."""
    snapshot = build(Objects(), now=0.0)

    def told(by: str) -> str:
        evict = Evict(Key("", "Pod", "team-a", "p"), f"to make room for {by}: cheapest", by, "preempt")
        (event,) = (e for e in pod_events(snapshot, [Outcome(evict, ok=True)]) if isinstance(e, RecordEvent))
        return event.message

    assert "to make room for team-a/x: cheapest (preempt, for team-a/x)" == told("team-a/x")
    assert "secret" not in told("evil/secret")
    assert "secret" not in told("pod evil/secret")
    assert "a job of another namespace" in told("evil/secret")


def _condition(effect: Effect) -> Raw:
    """The one condition that a pod is told."""
    assert isinstance(effect, PatchStatus)
    found = effect.status["conditions"]
    assert isinstance(found, list)
    [condition] = found
    return dict(condition)


def test_pod_that_a_node_is_kept_for_hears_of_it() -> None:
    """It waits for somebody to leave there; a reason that nobody has any more is not told."""
    world = objects_of(draw("r0[n0]", running="n0!:cpu=8"), drawn("a", tasks=1, each="cpu=8"))
    snapshot = build(world, NOW)
    [effect] = pod_conditions(world, snapshot, cycle(snapshot, DEFAULT))

    condition = _condition(effect)
    assert "node n0 is kept for it until resources are released there" == condition["message"]
    assert ("False", "NotNow") == (condition["status"], condition["reason"])


def test_pod_that_could_not_be_bound_calls_for_no_nodes() -> None:
    """More nodes would not have helped: the same will be tried again as it is."""
    world = objects_of(draw("r0[n0]"), drawn("a", tasks=1))
    snapshot = build(world, NOW)
    report = cycle(snapshot, DEFAULT)
    refused = [Outcome(effect, ok=False, error="exceeded quota") for effect in asked_of(snapshot, report)]
    [effect] = pod_conditions(world, snapshot, amended(report, refused))

    condition = _condition(effect)
    assert "SchedulerError" == condition["reason"]
    assert "exceeded quota" in str(condition["message"])


def test_tier_that_no_hypernode_has_is_told() -> None:
    """It limits nothing, and whoever wrote it should know; the name of a tier that is there needs no word."""
    world = draw("r0[n0]", tier_names={1: "rack"})

    def words(name: str) -> list[str]:
        _, effects = told(objects_of(world, drawn("a", tasks=1, within=name)))
        return [e.message for e in effects if isinstance(e, RecordEvent) and e.reason == UNKNOWN_TIER]

    assert ([], 1) == (words("rack"), len(words("rak")))
    assert "highestTierName rak is not the tierName of any hyperNode" in words("rak")[0]


def test_place_of_a_sub_group_that_left_stays_on_record() -> None:
    """It returns there when its pods are made anew; the place of the others is brought up to date."""
    policy = {"name": "p", "subGroupSize": 1, "matchLabelKeys": ["part"]}
    pods = standing(gang("a", 1), p0="Running")
    metadata = pods[1]["metadata"]
    assert isinstance(metadata, dict)
    pods[1]["metadata"] = {**metadata, "labels": {"part": "1"}}
    group = pod_group("a", phase="Running", minMember=1, subGroupPolicy=[policy])
    before = {"p-0": {"hyperNode": "r1", "tier": 1}, "p-1": {"hyperNode": "r1", "tier": 1}}
    own = group["metadata"]
    assert isinstance(own, dict)
    group["metadata"] = {**own, "annotations": {SUB_GROUPS_ANNOTATION: json.dumps(before)}}
    tree = [hypernode("r0", 1, nodes("n0")), hypernode("r1", 1, nodes("n1"))]
    world, _ = told(objects(*machines("n0", "n1"), *tree, group, *pods[1:]))

    marks = world.every(PodGroup)["default/a"].metadata.annotations
    assert {**before, "p-1": {"hyperNode": "r0", "tier": 1}} == json.loads(marks[SUB_GROUPS_ANNOTATION])


def test_eviction_for_nobody_is_a_decision_about_the_victim() -> None:
    """A quota takes back what is its own: the event has the id of the job that loses the pod."""
    world = objects_of(draw("r0[n0]"), drawn("a", tasks=1, on="n0"))
    evict = Evict(Key("", "Pod", "default", "a-0"), "its quota is over its runtime", "", "giveback")
    [event] = pod_events(build(world, NOW), [Outcome(evict, ok=True)])

    assert isinstance(event, RecordEvent)
    assert ("its quota is over its runtime (giveback)", decision_id(NOW, "default/a")) == (
        event.message,
        event.decision,
    )
