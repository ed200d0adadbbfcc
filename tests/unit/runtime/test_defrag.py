"""Defragmentation carried out: places are held before anything is evicted, and a job that cannot move goes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace
from tests.support.defrag import owned
from tests.support.draw import Gang, draw, gang, objects_of

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap, Pod, format_time
from tierwise.api.defrag_record import (
    OBSERVED,
    RECORD_NAME,
    DefragRecord,
    FinishedMove,
    HeldPods,
    MovePhase,
    read_record,
    record_manifest,
)
from tierwise.api.merge_patch import merged
from tierwise.config.profile import DEFAULT
from tierwise.explain.defrag import DefragPlan, Move, Room, progress
from tierwise.port import (
    Begun,
    Bind,
    Cluster,
    Create,
    Effect,
    Ended,
    Evict,
    Key,
    Objects,
    Outcome,
    PatchStatus,
    key_of_raw,
)
from tierwise.runtime.defrag import DefragController, DefragSettings, over_budget
from tierwise.runtime.defrag_rehearsal import Rehearsal
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects, pod_key
from tierwise.sim.defragmentation.execution import begin
from tierwise.sim.what_if.changes import Scenario
from tierwise.snapshot.builder import build

NOW = 1.8e9
ROOM = "nvidia.com/gpu=4x2@1"
TREE = "s0[r0[n0 n1] r1[n2 n3] r2[n4 n5]]"
NAMES = ("", "mine")
KEY = Key("", "ConfigMap", "kube-system", RECORD_NAME)


def busy(*more: Gang) -> Objects:
    """No rack of three is free; that of c is emptied by moving one pod."""
    a = gang("a", tasks=2, each="gpu=2", within=1, on="n0 n1")
    b = gang("b", tasks=2, each="gpu=3", within=1, on="n2 n3")
    return owned(objects_of(draw(TREE, node="gpu=4"), a, b, gang("c", tasks=1, each="gpu=2", on="n4"), *more))


def lone(name: str, gpus: int, node: str = "") -> Raw:
    """A pod that comes from outside."""
    containers = [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}]
    spec: Raw = {"schedulerName": "other" if node else "volcano", "priority": 1000, "containers": containers}
    meta = {"name": name, "namespace": "rivals", "uid": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec | ({"nodeName": node} if node else {})}


def where(rehearsal: Rehearsal) -> dict[str, str]:
    """The node of each pod."""
    pods = rehearsal.cluster.read().every(Pod)
    return {path.partition("/")[2]: pod.spec.node_name for path, pod in pods.items()}


def until_over(rehearsal: Rehearsal, record: DefragRecord, *, stopping: bool = False) -> DefragRecord:
    """The last record of an execution."""
    for _ in range(100):
        if record.over:
            return record
        record = rehearsal.step(stopping=stopping) or record
    raise AssertionError(record)


def test_the_place_is_held_against_more_important_pods() -> None:
    """Pods that come while a gang is moved, and would take everything, find its place held."""
    rehearsal = Rehearsal(busy(), DEFAULT, NOW)
    record, plan = rehearsal.begin(ROOM, step_seconds=60)
    target = next(iter(plan.moves[0].pods.values()))[1]
    rehearsal.step()
    rehearsal.cluster.apply([Create(lone(f"rival-{i}", 1)) for i in range(24)])
    record = until_over(rehearsal, record)

    assert (MovePhase.DONE, target) == (record.phase, where(rehearsal)["c-0"])


def test_pods_of_other_schedulers_stay() -> None:
    """No other scheduler would respect what is held."""
    scenario = Scenario(busy(), DEFAULT, NOW)
    ours = [begin(replace(scenario, schedulers=frozenset({name})), ROOM, by="", step_seconds=60) for name in NAMES]

    assert [(MovePhase.RESERVING, 1), (MovePhase.STOPPED, 0)] == [(r.phase, len(plan.moves)) for r, plan in ours]
    assert ("5 pods are not moved: served by another scheduler",) == ours[1][1].notes


def test_a_gang_whose_place_is_taken_goes_back() -> None:
    """Another scheduler takes the place after the eviction, others want the rest: the gang has its old place."""
    rehearsal = Rehearsal(busy(), DEFAULT, NOW)
    record, plan = rehearsal.begin(ROOM, step_seconds=60)
    target = next(iter(plan.moves[0].pods.values()))[1]
    rehearsal.step()
    rehearsal.step()  # it is evicted
    rehearsal.cluster.apply([Create(lone("foreign", 2, target))])
    rehearsal.cluster.apply([Create(lone(f"rival-{i}", 1)) for i in range(24)])
    record = until_over(rehearsal, record)

    assert "DefragReturning" in [event.reason for event in rehearsal.cluster.events]
    assert (MovePhase.STOPPED, "n4") == (record.phase, where(rehearsal)["c-0"])


def test_nothing_is_evicted_before_the_scheduler_respects_the_places() -> None:
    """Where no scheduler takes note, the execution ends by itself, and every pod is where it was."""
    rehearsal = Rehearsal(busy(), DEFAULT, NOW)
    rehearsal.begin(ROOM, step_seconds=60)
    before = where(rehearsal)
    seen = [rehearsal.executor.step()]  # no cycle has run since
    rehearsal.now += 61
    seen.append(rehearsal.executor.step())

    assert [MovePhase.RESERVING, MovePhase.STOPPED] == [found.phase for found in seen if found is not None]
    assert before == where(rehearsal)


def test_a_place_that_is_taken_before_the_eviction_costs_nothing() -> None:
    """The move is planned anew while all pods still run, and goes elsewhere."""
    rehearsal = Rehearsal(busy(), DEFAULT, NOW)
    record, plan = rehearsal.begin(ROOM, step_seconds=60)
    target = next(iter(plan.moves[0].pods.values()))[1]
    rehearsal.cluster.apply([Create(lone("foreign", 2, target))])
    record = until_over(rehearsal, record)

    assert (MovePhase.DONE, 2) == (record.phase, record.plans), record.message
    assert where(rehearsal)["c-0"] not in (target, "n4", "n5")


def test_a_stop_leaves_no_half_moved_gang() -> None:
    """Told to stop after the eviction, it finishes the move in hand and begins no other."""
    more = gang("d", tasks=1, each="gpu=1", on="n5")
    rehearsal = Rehearsal(busy(more), DEFAULT, NOW)
    record, plan = rehearsal.begin(ROOM, step_seconds=60)
    rehearsal.step()
    rehearsal.step()
    record = until_over(rehearsal, record, stopping=True)

    assert 2 == len(plan.moves)
    assert (MovePhase.STOPPED, 1) == (record.phase, len(record.finished))
    assert all(where(rehearsal).values())


def test_jobs_have_their_notice() -> None:
    """A job that asks for notice gets the condition first, and is evicted when the time is over."""
    objects = busy()
    key = Key("scheduling.volcano.sh", "PodGroup", "default", "c")
    raw = objects.raw(key)
    assert raw is not None
    told: Raw = {"metadata": {"annotations": {"tierwise.io/eviction-notice": "2m"}}}
    rehearsal = Rehearsal(objects.changed({key: merged(raw, told)}), DEFAULT, NOW)
    record, _ = rehearsal.begin(ROOM, step_seconds=60)
    record = until_over(rehearsal, record)

    assert MovePhase.DONE is record.phase
    assert record.finished[0].at >= NOW + 120
    assert "EvictionNotice" in [event.reason for event in rehearsal.cluster.events]


def test_a_pod_without_an_owner_stays() -> None:
    """What nobody would start again is not evicted, whatever a plan on paper says."""
    objects = objects_of(
        draw(TREE, node="gpu=4"), *(gang(f"g{i}", tasks=1, each="gpu=2", on=f"n{2 * i}") for i in range(3))
    )
    record, plan = Rehearsal(objects, DEFAULT, NOW).begin(ROOM, step_seconds=60)

    assert (MovePhase.STOPPED, ()) == (record.phase, plan.moves)
    assert "3 pods are not moved: without an owner that would start them again" in plan.notes


def test_what_is_held_stays_held_for_a_gang_that_cannot_start_yet() -> None:
    """A gang of which one pod finds no place has its turn in the cycle, and its other place is still its own."""
    train = gang("train", tasks=2, each="gpu=4", minimum=2)
    world = objects_of(draw("r0[n0 n1]", node="gpu=4", running="n1:gpu=1"), train)
    held = (HeldPods("default/train", "n0", 1, {"nvidia.com/gpu": 4, "pods": 1}),)
    record = DefragRecord("", MovePhase.MOVING, deadline=NOW + 60, expires=NOW + 60, held=held)
    rival, config = lone("rival", 4), record_manifest(record, "kube-system")
    del rival["spec"]["priority"]  # type: ignore[attr-defined]
    objects = world.changed({key_of_raw(raw): raw for raw in (rival, config)})

    def bound(now: float) -> list[str]:
        snapshot = build(objects, now)
        asked = effects(snapshot, cycle(snapshot, DEFAULT))
        return [effect.pod.name for effect in asked if isinstance(effect, Bind)]

    assert [] == bound(NOW)
    assert ["rival"] == bound(NOW + 61)  # what is held ends


def test_a_pod_that_came_stands_for_one_of_the_places_on_its_node() -> None:
    """Of two places of one job on a node, one is still held once the first pod has come."""
    train = gang("train", tasks=2, each="gpu=2", minimum=1, on="n0")
    world = objects_of(draw("r0[n0]", node="gpu=4"), train)
    place = HeldPods("default/train", "n0", 1, {"nvidia.com/gpu": 2, "pods": 1})
    record = DefragRecord("", MovePhase.MOVING, deadline=NOW + 60, expires=NOW + 60, held=(place, place))
    rival, config = lone("rival", 2), record_manifest(record, "kube-system")
    objects = world.changed({key_of_raw(raw): raw for raw in (rival, config)})

    def bound(now: float) -> list[str]:
        snapshot = build(objects, now)
        return [effect.pod.name for effect in effects(snapshot, cycle(snapshot, DEFAULT)) if isinstance(effect, Bind)]

    assert ["train-1"] == bound(NOW)


def test_the_scheduler_says_what_it_respects() -> None:
    """A cycle acknowledges the revision that it has seen, after its binds, and once."""
    record = DefragRecord("", MovePhase.RESERVING, revision=7, deadline=NOW + 60)
    config = record_manifest(record, "kube-system")
    world = objects_of(draw("n0", node="gpu=4"), gang("train", tasks=1, each="gpu=1"))

    def asked(raw: Raw) -> list[object]:
        snapshot = build(world.changed({KEY: raw}), NOW)
        return [type(e) for e in effects(snapshot, cycle(snapshot, DEFAULT))]

    assert [Bind, PatchStatus] == asked(config)
    assert [Bind] == asked(merged(config, {"metadata": {"annotations": {OBSERVED: "7"}}}))


def test_a_record_that_is_none_is_told_and_passed_over() -> None:
    """A ConfigMap of that name with anything else in it holds nothing."""
    config: Raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": RECORD_NAME, "namespace": "x"}}
    snapshot = build(objects_of(draw("n0", node="gpu=4")).changed({key_of_raw(config): config}), NOW)

    assert ["InvalidDefragRecord"] == [fault.code for fault in snapshot.faults]


def test_a_record_is_read_as_it_was_written() -> None:
    """Everything that an execution knows is in its ConfigMap."""
    rehearsal = Rehearsal(busy(), DEFAULT, NOW)
    record, _ = rehearsal.begin(ROOM, step_seconds=60)
    config = rehearsal.cluster.read().record(KEY)
    assert isinstance(config, ConfigMap)

    assert record == read_record(config)


def test_progress_is_told_once() -> None:
    """Lines for what has changed between two records, and none where nothing has."""
    rehearsal = Rehearsal(busy(), DEFAULT, NOW)
    record, _ = rehearsal.begin(ROOM, step_seconds=60)

    assert ["holding 1 place on n0 for c"] == progress(None, record)
    assert [] == progress(record, record)


# -- the controller


def controller(rehearsal: Rehearsal, settings: DefragSettings) -> DefragController:
    """One that plans on the spot."""
    return DefragController(rehearsal.executor, settings, clock=lambda: rehearsal.now, run=lambda work: work())


def test_the_controller_opens_what_is_to_be_kept_open() -> None:
    """It plans, carries the plan out step by step, and does nothing more once there is room."""
    rehearsal = Rehearsal(busy(), DEFAULT, NOW)
    working = controller(rehearsal, DefragSettings((ROOM,), every=30.0))
    phases: list[MovePhase] = []
    for _ in range(40):
        rehearsal.simulation.advance(rehearsal.now)
        working.step()
        record = rehearsal.executor.record()
        if record is not None and (not phases or phases[-1] is not record.phase):
            phases.append(record.phase)
        rehearsal.now += 5

    assert [MovePhase.RESERVING, MovePhase.MOVING, MovePhase.DONE] == phases
    assert where(rehearsal)["c-0"] in ("n0", "n1")


class _Unanswered(Ended, frozen=True):
    """Effects of which nobody knows what became of them."""

    def done(self) -> bool:
        return False


class _Hanging:
    """A cluster as an executor reaches it: evictions have no answer."""

    def __init__(self, cluster: Cluster) -> None:
        self.read, self.wait, self.tell, self.apply = cluster.read, cluster.wait, cluster.tell, cluster.apply
        self.begin_in_order = cluster.begin_in_order
        self._cluster = cluster
        self.evicted: list[list[str]] = []

    def begin(self, effects: Sequence[Effect]) -> Begun:
        evicted = [effect.pod.name for effect in effects if isinstance(effect, Evict)]
        self.evicted += [evicted] if evicted else []
        return _Unanswered(()) if evicted else self._cluster.begin(effects)


def test_the_controller_waits_for_no_eviction() -> None:
    """It comes back at once while evictions have no answer, and asks for nothing further until they have."""
    reached: list[_Hanging] = []

    def between(cluster: Cluster) -> Cluster:
        reached.append(_Hanging(cluster))
        return reached[0]

    rehearsal = Rehearsal(busy(), DEFAULT, NOW, between=between)
    working = controller(rehearsal, DefragSettings((ROOM,), every=30.0))
    for _ in range(12):
        rehearsal.simulation.advance(rehearsal.now)
        working.step()
        rehearsal.now += 5

    assert 1 == len(reached[0].evicted)
    assert (record := rehearsal.executor.record()) is not None
    assert MovePhase.MOVING is record.phase


def test_the_controller_looks_when_it_is_time() -> None:
    """Between two looks it has nothing to do, and says when it is to be asked again."""
    looked: list[float] = []
    rehearsal = Rehearsal(busy(), DEFAULT, NOW)

    def look(work: Callable[[], None]) -> None:
        looked.append(rehearsal.now - NOW)
        work()

    working = DefragController(
        rehearsal.executor,
        DefragSettings(("nvidia.com/gpu=1x1@1",), every=30.0),
        clock=lambda: rehearsal.now,
        run=look,
    )
    for _ in range(7):
        working.step()
        rehearsal.now += 10

    assert [0.0, 30.0, 60.0] == looked
    assert NOW + 90 == working.due()


def test_plans_beyond_the_budget_are_not_begun() -> None:
    """Moves and hours of the last hour count; what is older does not."""
    plan = DefragPlan(Room({}, 1, 1), 0, 1, "gpu")
    spent = [FinishedMove("a", 1, NOW - 10, 30.0), FinishedMove("b", 1, NOW - 4000, 500.0)]
    settings = DefragSettings((ROOM,), moves=1, hours=20.0)

    assert "hours after 30.0" in over_budget(spent, plan, settings, NOW)
    assert "" == over_budget(spent[1:], plan, settings, NOW)
    assert "moves after 2" in over_budget([spent[0]] * 2, plan, settings, NOW)


def test_the_controller_spends_no_more_than_it_may() -> None:
    """With no moves allowed nothing is written or evicted."""
    rehearsal = Rehearsal(busy(), DEFAULT, NOW)
    rehearsal.simulation.advance(rehearsal.now)
    working = controller(rehearsal, DefragSettings((ROOM,), moves=0))
    working.step()
    working.step()

    assert rehearsal.executor.record() is None


# -- what it may spend, and for how long it may take


def _plan(*hours: float) -> DefragPlan:
    moves = tuple(Move(f"default/m{i}", f"m{i}", {}, 1, 0, each, "", "") for i, each in enumerate(hours))
    return DefragPlan(Room({}, 1, 1), 0, 1, "gpu", moves)


@pytest.mark.parametrize(
    ("spent", "planned", "allowed"),
    [
        ([], [20.0], True),
        ([], [20.1], False),
        ([15.0], [5.0], True),
        ([15.0], [5.1], False),
        ([15.0], [2.0, 3.0], True),
        ([15.0], [2.0, 3.5], False),
        ([8.0, 8.0], [4.0], True),
        ([8.0, 8.0], [4.5], False),
    ],
)
def test_hours_that_a_plan_would_cost_count(spent: list[float], planned: list[float], allowed: bool) -> None:
    """What was lost in the last hour and what a plan would lose are together no more than may be lost."""
    recent = [FinishedMove("a", 1, NOW - 10, hours) for hours in spent]
    settings = DefragSettings((ROOM,), moves=9, hours=20.0)

    assert allowed == ("" == over_budget(recent, _plan(*planned), settings, NOW))


@pytest.mark.parametrize(("spent", "planned", "allowed"), [(0, 3, True), (2, 1, True), (2, 2, False), (3, 1, False)])
def test_moves_that_a_plan_would_make_count(spent: int, planned: int, allowed: bool) -> None:
    """As many moves as may begin in an hour, and not one more."""
    recent = [FinishedMove("a", 1, NOW - 10, 0.0)] * spent
    settings = DefragSettings((ROOM,), moves=3, hours=20.0)

    assert allowed == ("" == over_budget(recent, _plan(*[1.0] * planned), settings, NOW))


def _old(objects: Objects, hours: float) -> Objects:
    """The same, with pods that have run for so long."""
    puts = {}
    for path in objects.every(Pod):
        raw = objects.raw(pod_key(path))
        assert raw is not None
        puts[pod_key(path)] = merged(raw, {"status": {"startTime": format_time(NOW - hours * 3600)}})
    return objects.changed(puts)


@pytest.mark.parametrize(("hours", "begun"), [(20.0, True), (19.9, False)])
def test_the_controller_counts_what_its_plan_would_lose(hours: float, begun: bool) -> None:
    """A job of two GPUs that has run for ten hours loses twenty."""
    rehearsal = Rehearsal(_old(busy(), 10.0), DEFAULT, NOW)
    working = controller(rehearsal, DefragSettings((ROOM,), hours=hours))
    working.step()
    working.step()
    record = rehearsal.executor.record()

    assert begun == (record is not None)
    assert record is None or [20.0] == [move.hours for move in record.moves]


@pytest.mark.parametrize("field", ["earlier", "finished"])
@pytest.mark.parametrize(("ago", "begun"), [(3599.0, False), (3601.0, True)])
def test_moves_of_executions_before_the_last_count(field: str, ago: float, begun: bool) -> None:
    """An execution takes over what was done before it, so that many short ones do no more than one long one."""
    rehearsal = Rehearsal(busy(), DEFAULT, NOW)
    spent = (FinishedMove("x", 1, NOW - ago, 0.0),)
    fields = {"earlier": spent} if field == "earlier" else {"finished": spent}
    rehearsal.executor.write(replace(DefragRecord(ROOM, MovePhase.DONE, by="x"), **fields), None)
    working = controller(rehearsal, DefragSettings((ROOM,), moves=1))
    working.step()
    working.step()
    record = rehearsal.executor.record()

    assert record is not None
    assert (MovePhase.RESERVING if begun else MovePhase.DONE) is record.phase


def test_what_an_execution_spent_is_known_to_the_next_but_one() -> None:
    """A record that takes the place of another keeps all moves of the last hour."""
    rehearsal = Rehearsal(busy(), DEFAULT, NOW)
    moves = [FinishedMove(name, 1, NOW - ago, 0.0) for name, ago in (("a", 10.0), ("b", 20.0), ("c", 4000.0))]
    before = DefragRecord(ROOM, MovePhase.DONE, revision=7, earlier=(moves[1], moves[2]), finished=(moves[0],))
    rehearsal.executor.write(before, None)
    kept = rehearsal.executor.record()
    rehearsal.executor.write(DefragRecord(ROOM, MovePhase.RESERVING), kept)
    record = rehearsal.executor.record()

    assert record is not None
    assert (["a", "b"], 8) == (sorted(move.name for move in record.earlier), record.revision)


def _under_way(by: str) -> tuple[Rehearsal, DefragRecord]:
    """A world in which somebody has begun an execution and evicts nothing."""
    rehearsal = Rehearsal(busy(), DEFAULT, NOW)
    rehearsal.simulation.advance(rehearsal.now)
    record, _ = rehearsal.another(by).begin(ROOM, step_seconds=60)
    return rehearsal, record


@pytest.mark.parametrize(("after", "by"), [(0.0, "gone"), (60.0, "gone"), (60.1, "rehearsal")])
def test_an_execution_is_taken_over_when_its_executor_is_gone(after: float, by: str) -> None:
    """A minute after the deadline of its step, and not while somebody may still be at it."""
    rehearsal, record = _under_way("gone")
    rehearsal.now = record.deadline + after
    controller(rehearsal, DefragSettings((ROOM,))).step()
    found = rehearsal.executor.record()

    assert found is not None
    assert by == found.by


@pytest.mark.parametrize(("early", "phase"), [(1.0, MovePhase.MOVING), (0.0, MovePhase.STOPPED)])
def test_a_job_that_cannot_be_evicted_is_left_at_the_deadline(early: float, phase: MovePhase) -> None:
    """Until then it is tried again, and afterwards nothing is held for it any more."""
    rehearsal = Rehearsal(busy(), DEFAULT, NOW, between=_Stubborn)
    rehearsal.begin(ROOM, step_seconds=60)
    record = rehearsal.step()
    while record is None or record.phase is not MovePhase.MOVING:
        record = rehearsal.step()
    rehearsal.now = record.deadline - early
    found = rehearsal.executor.step()

    assert found is not None
    assert (phase, phase is MovePhase.MOVING) == (found.phase, bool(found.held))
    assert all(where(rehearsal).values())


class _Stubborn:
    """A cluster as an executor reaches it: no pod may be evicted."""

    def __init__(self, cluster: Cluster) -> None:
        self.read, self.wait, self.tell = cluster.read, cluster.wait, cluster.tell
        self.begin, self.begin_in_order = cluster.begin, cluster.begin_in_order
        self._cluster = cluster

    def apply(self, effects: Sequence[Effect]) -> Sequence[Outcome]:
        refused = [Outcome(effect, ok=False, error="a budget") for effect in effects if isinstance(effect, Evict)]
        return refused or self._cluster.apply(effects)
