"""What holds for every cycle over every cluster, checked against the manifests alone."""

from __future__ import annotations

import json
import random
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.draw import Gang, World, allocate, draw, objects_of
from tests.support.reference import Judge
from tests.support.sight import cycle, schedule, sees
from tests.support.strategies import NODE_KINDS, PROFILES, Scene, crowds, scenes

from tierwise.actions.diagnosis.rejection_cache import RejectionCache
from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.config.profile import DEFAULT
from tierwise.explain.wire import pending_wire, schedule_wire
from tierwise.framework.report import ReportBuilder
from tierwise.port import Create, Effect, Objects, PatchStatus
from tierwise.scheduler.cycle import nothing_waits
from tierwise.scheduler.effects import effects
from tierwise.sim.cluster.driver import reconcile
from tierwise.sim.cluster.rounds import Rounds
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import Reader, build
from tierwise.status.pod import ConditionWriter, pod_conditions
from tierwise.status.pod_group import StatusWriter, statuses

PROFILE_NAMES = st.sampled_from(sorted(PROFILES))


def _judge(scene: Scene, name: str) -> Judge:
    outcome = allocate(scene.world, *scene.gangs, profile=PROFILES[name])
    return Judge(objects_of(scene.world, *scene.gangs), outcome.bindings)


def _wire(history: Rounds) -> str:
    assert history.report is not None
    wire = schedule_wire(
        bindings=history.bindings,
        nominations=history.nominations,
        evictions=history.evictions,
        report=history.report,
        after=history.after(0.0),
    )
    return json.dumps(wire)


@given(scenes(), PROFILE_NAMES)
def test_no_node_is_oversubscribed(scene: Scene, profile: str) -> None:
    """What is bound fits on top of everything that runs there or has not left yet."""
    assert [] == _judge(scene, profile).overfull()


@given(scenes(), PROFILE_NAMES)
def test_a_gang_is_whole_or_absent(scene: Scene, profile: str) -> None:
    """A gang that was given pods meets every minimum: its own, its roles', its sub-groups' size and number."""
    assert [] == _judge(scene, profile).halves()


@given(scenes(), PROFILE_NAMES)
def test_a_hard_tier_is_never_exceeded(scene: Scene, profile: str) -> None:
    """All pods of a gang or sub-group that was given pods stand inside one domain within its hard tier."""
    assert [] == _judge(scene, profile).too_wide()


@sees(binds=12, refusals=3)
@examples(16, least=5)
@given(scenes())
def test_the_same_holds_once_nothing_changes_any_more(scene: Scene) -> None:
    """Cycle after cycle the bindings together keep every rule."""
    history = schedule(objects_of(scene.world, *scene.gangs), DEFAULT, now=0.0)
    judge = Judge(history.cluster.read(), {pod.rpartition("/")[2]: node for pod, node in history.bindings.items()})

    assert ([], [], []) == (judge.overfull(), judge.halves(), judge.too_wide())


@sees(binds=19, refusals=3)
@given(scenes(), st.sampled_from((1, None)))
def test_every_pending_pod_has_a_reason(scene: Scene, cycles: int | None) -> None:
    """A pod that is neither bound nor nominated is listed with a reason that says more than that nobody looked."""
    history = schedule(objects_of(scene.world, *scene.gangs), DEFAULT, now=0.0, cycles=cycles)
    rows = json.loads(_wire(history))["pending"]
    listed = {row["pod"]: row for row in rows if row["pod"]}  # the others are jobs without pods
    pods = history.cluster.read().every(Pod)
    pending = [p for p, pod in pods.items() if not pod.spec.node_name and pod.status.phase == "Pending"]

    assert sorted(set(pending) - set(history.nominations)) == sorted(listed)
    assert [] == [row for row in rows if not row["message"] or row["reason"] in ("", "NotTried")]


@sees(binds=18, refusals=4)
@examples(16, least=5)
@given(scenes(), st.randoms(use_true_random=False))
def test_the_order_of_manifests_does_not_matter(scene: Scene, chance: random.Random) -> None:
    """Shuffled manifests give the same bytes."""
    manifests = [*scene.world.manifests, *(m for g in scene.gangs for m in g.manifests())]
    shuffled = list(manifests)
    chance.shuffle(shuffled)

    def run(order: list[dict[str, object]]) -> str:
        return _wire(schedule(Objects.of((codec.decode(m), m) for m in order), DEFAULT, now=0.0))

    assert run(manifests) == run(shuffled)


@sees(binds=17, refusals=5)
@given(scenes())
def test_two_runs_give_the_same_bytes(scene: Scene) -> None:
    """Nothing but the input decides."""
    first, second = (schedule(objects_of(scene.world, *scene.gangs), DEFAULT, now=0.0) for _ in range(2))

    assert _wire(first) == _wire(second)


@sees(binds=9, refusals=3)
@examples(16, least=5)
@given(scenes(), PROFILE_NAMES)
def test_where_nothing_waits_nothing_is_decided(scene: Scene, profile: str) -> None:
    """The look that spares a simulation a cycle is right whenever it says so."""
    history = schedule(objects_of(scene.world, *scene.gangs), PROFILES[profile], now=0.0)

    for snapshot, report in history.reports:
        if nothing_waits(snapshot, PROFILES[profile]):
            assert ReportBuilder().build() == report


@sees(decisions=1, refusals=14)
@examples(16, least=5)
@given(scenes(), st.randoms(use_true_random=False))
def test_statuses_are_the_same_without_a_memory(scene: Scene, chance: random.Random) -> None:
    """A writer that passes over what it has told of writes what one that knows nothing writes."""
    cluster, reader, kept = EmbeddedCluster(objects_of(scene.world, *scene.gangs)), Reader(), StatusWriter()
    for _ in range(6):
        reconcile(cluster, 0.0)
        snapshot = reader.read(cluster.read(), 0.0)
        report = cycle(snapshot, DEFAULT)
        cluster.apply(effects(snapshot, report))
        asked = kept.write(cluster.read(), snapshot, report)

        assert statuses(cluster.read(), snapshot, report) == asked
        cluster.apply([effect for effect in asked if chance.random() < 0.8])
        cluster.advance_pods()
        pods = [key for key in cluster.read() if key.kind == "Pod"]
        ended = chance.sample(pods, min(2, len(pods)))
        cluster.apply([PatchStatus(key, {"phase": chance.choice(["Succeeded", "Running", "Failed"])}) for key in ended])


@sees(refusals=14)
@examples(16, least=5)
@given(scenes(), st.randoms(use_true_random=False))
def test_conditions_are_the_same_without_a_memory(scene: Scene, chance: random.Random) -> None:
    """A writer that passes over pods that it has told of tells the others what one that knows nothing tells them."""
    orphan = {**scene.gangs[0].manifests()[-1], "metadata": {"name": "stray", "namespace": "default"}}
    orphan["metadata"] = {**orphan["metadata"], "annotations": {"scheduling.k8s.io/group-name": "gone"}}  # type: ignore[dict-item]
    cluster = EmbeddedCluster(objects_of(scene.world, *scene.gangs))
    cluster.apply([Create(orphan)])
    reader, kept = Reader(), ConditionWriter()
    for _ in range(6):
        reconcile(cluster, 0.0)
        snapshot = reader.read(cluster.read(), 0.0)
        report = cycle(snapshot, DEFAULT)
        cluster.apply([*effects(snapshot, report), *statuses(cluster.read(), snapshot, report)])
        asked = kept.write(cluster.read(), snapshot, report)

        assert pod_conditions(cluster.read(), snapshot, report) == asked
        cluster.apply([effect for effect in asked if chance.random() < 0.8])
        cluster.advance_pods()
        pods = [key for key in cluster.read() if key.kind == "Pod"]
        other = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Other",
            "message": "in the words of somebody else",
        }
        cluster.apply([PatchStatus(key, {"conditions": [other]}) for key in chance.sample(pods, min(2, len(pods)))])


@given(crowds())
def test_a_refusal_holds_for_the_gang_alone(scene: Scene) -> None:
    """A gang that got nothing would get nothing as the only one that waits in the cluster as it is then."""
    bindings = allocate(scene.world, *scene.gangs).bindings
    for refused in scene.gangs:
        if not _started(bindings, refused):
            others = [_bound(m, bindings) for g in scene.gangs if g is not refused for m in g.manifests()]
            standing = [m for m in others if m["kind"] == "PodGroup" or "nodeName" in m["spec"]]  # type: ignore[operator]
            alone = World((*scene.world.manifests, *standing), "the same without others that wait")
            assert not _started(allocate(alone, refused).bindings, refused), refused


@sees(decisions=8, refusals=6)
@given(crowds())
def test_one_look_refuses_as_the_demand_does(scene: Scene) -> None:
    """Gangs that are refused without working out what they ask for are refused with it too, in the same words."""
    snapshot = build(objects_of(scene.world, *scene.gangs), 0.0)

    def decided() -> tuple[list[Effect], list[Raw]]:
        report = cycle(snapshot, DEFAULT)
        return list(effects(snapshot, report)), pending_wire(snapshot, report, {})

    with patch.object(RejectionCache, "lookup_early", return_value=None):
        worked_out = decided()
    assert worked_out == decided()


def _bound(manifest: Raw, bindings: dict[str, str]) -> Raw:
    node = bindings.get(manifest["metadata"]["name"])  # type: ignore[index]
    return {**manifest, "spec": {**manifest["spec"], "nodeName": node}} if node else manifest  # type: ignore[dict-item]


@given(scenes(gangs=1, busy=False), st.sampled_from(NODE_KINDS), st.integers(0, 99))
def test_one_more_node_never_hurts(scene: Scene, kind: str, where: int) -> None:
    """A gang that is placed alone in an empty cluster is still placed when a rack gains an empty node."""
    alone = allocate(scene.world, *scene.gangs)
    grown = allocate(_grown(scene.world, kind, where), *scene.gangs)

    assert not _started(alone.bindings, scene.gangs[0]) or _started(grown.bindings, scene.gangs[0])


def _started(bindings: dict[str, str], gang: Gang) -> bool:
    return any(pod.startswith(f"{gang.name}-") for pod in bindings)


def _grown(world: World, kind: str, where: int) -> World:
    """The same cluster with a node more in one of its innermost domains."""
    racks = [m["metadata"]["name"] for m in world.manifests if m["kind"] == "HyperNode"]  # type: ignore[index]
    extra = draw(f"{racks[where % len(racks)]}[n99]", node=kind).manifests
    member = {"type": "Node", "selector": {"exactMatch": {"name": "n99"}}}
    changed = []
    for manifest in world.manifests:
        if manifest["kind"] == "HyperNode" and manifest["metadata"]["name"] == racks[where % len(racks)]:  # type: ignore[index]
            spec = manifest["spec"]
            manifest = {**manifest, "spec": {**spec, "members": [*spec["members"], member]}}  # type: ignore[index, dict-item]
        changed.append(manifest)
    return World((*changed, extra[0]), f"{world.drawing} with n99 of {kind} in {racks[where % len(racks)]}")
