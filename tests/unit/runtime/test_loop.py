"""The loop on the embedded cluster: the same turns, whatever stands behind the port."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest
from tests.contract.manifests import node, pod, pod_group
from tests.support import devices
from tests.support.strategies import profile

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Node, Pod, format_time
from tierwise.api.volcano import PodGroup
from tierwise.config.profile import DEFAULT
from tierwise.port import (
    Begun,
    Bind,
    Create,
    Effect,
    Evict,
    Key,
    Objects,
    Outcome,
    PatchStatus,
    RecordEvent,
    Update,
    Version,
    about,
)
from tierwise.runtime import profile_run
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import LoopPass, RefusedEvictions, SchedulerProfile
from tierwise.scheduler.effects import effects
from tierwise.scheduler.guard import Crash
from tierwise.scheduler.partial_gangs import DIMINISHED
from tierwise.sim.cluster.store import EmbeddedCluster

NOW = 1_800_000_000.0


class _Refusing(EmbeddedCluster):
    """Refuses binds and evictions of some pods, and remembers what was asked."""

    def __init__(self, manifests: Sequence[Raw], refused: Sequence[str] = ()) -> None:
        super().__init__(_objects(manifests))
        self._refused = refused
        self.asked: list[Effect] = []

    def apply(self, effects: Sequence[Effect]) -> list[Outcome]:
        self.asked += effects
        return [outcome for effect in effects for outcome in self._try(effect)]

    def _try(self, effect: Effect) -> list[Outcome]:
        if isinstance(effect, Evict) and effect.pod.name in self._refused:
            return [Outcome(effect, ok=False, error="a budget stands against it")]
        if isinstance(effect, Bind) and effect.pod.name in self._refused:
            return [Outcome(effect, ok=False, error="the node is gone")]
        return super().apply([effect])


class _Watcher:
    def __init__(self) -> None:
        self.turns: list[LoopPass] = []

    def saw(self, turn: LoopPass) -> None:
        self.turns.append(turn)

    def crashed(self, crash: Crash) -> None:
        raise AssertionError(crash.text)


def _objects(manifests: Sequence[Raw]) -> Objects:
    return Objects.of((codec.decode(m), m) for m in manifests)


def _loop(cluster: EmbeddedCluster, *observers: _Watcher) -> Loop:
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    return Loop(cluster, [own], clock=lambda: NOW, ticks=lambda: NOW, observers=observers)


def _gang(size: int) -> list[Raw]:
    return [pod_group("g", size), *(pod(f"p{i}", cpu="2", group="g") for i in range(size))]


def test_turn_places_and_tells() -> None:
    """Pods are bound, each with an event, and observers see the turn with the seconds of its stages."""
    cluster, watcher = _Refusing([node("n0"), *_gang(2)]), _Watcher()
    _loop(cluster, watcher).run_once()

    assert ["n0", "n0"] == [p.spec.node_name for p in cluster.read().every(Pod).values()]
    told = [e.message for e in cluster.asked if isinstance(e, RecordEvent) and e.about.kind == "Pod"]
    assert [f"Successfully assigned default/p{i} to n0" for i in range(2)] == told
    (turn,) = watcher.turns
    assert ["read", "build", "decide", "apply", "publish"] == list(turn.seconds)


def test_warming_up_is_no_turn() -> None:
    """Nothing is asked of the cluster and nobody is told; the first turn is as it would have been."""
    cluster, watcher = _Refusing([node("n0"), *_gang(2)]), _Watcher()
    loop = _loop(cluster, watcher)
    loop.warm_up()
    assert ([], []) == (cluster.asked, watcher.turns)
    loop.run_once()

    assert ["n0", "n0"] == [p.spec.node_name for p in cluster.read().every(Pod).values()]


def test_failed_bind_is_no_success() -> None:
    """A pod that could not be bound is not counted as placed, and its group says what happened."""
    cluster, watcher = _Refusing([node("n0"), *_gang(3)], refused=["p1"]), _Watcher()
    _loop(cluster, watcher).run_once()

    (turn,) = watcher.turns
    assert [2] == [decision.count() for decision in turn.report.decisions]
    rejection = turn.report.rejections["default/g"]
    assert ("bind", "BindFailed") == (rejection.stage, rejection.reason.code)
    assert "1 of 3 pods could not be bound: default/p1: the node is gone" == rejection.reason.text
    phases = [e.status.get("phase") for e in cluster.asked if isinstance(e, PatchStatus) and e.key.kind == "PodGroup"]
    assert "Running" not in phases


def _groups_told(cluster: _Refusing) -> list[str]:
    told = [e for e in cluster.asked if isinstance(e, PatchStatus) and e.key.kind == "PodGroup"]
    return sorted(e.key.name for e in told if e.status.get("phase") == "Running")


def test_pods_are_told_of_a_gang_that_stays_too_small() -> None:
    """Neither it nor its pods are told before none has come for a while: else all are written to with each."""
    cluster, now = _Refusing([node("n0"), pod_group("g", 4)]), [NOW]
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: NOW, ticks=lambda: now[0])

    def told() -> list[str]:
        cluster.asked.clear()
        loop.run_once()
        return [e.key.name for e in cluster.asked if isinstance(e, PatchStatus)]

    for i in range(3):
        cluster.apply([Create(pod(f"p{i}", cpu="2", group="g"))])
        now[0] += 1.5
        assert [] == told()
    now[0] += 1.5
    assert [] == told()
    now[0] += 1.0
    assert ["g", "p0", "p1", "p2"] == told()


def _gangs(names: str) -> list[Raw]:
    return [raw for name in names for raw in (pod_group(name, 1), pod(f"{name}0", cpu="2", group=name))]


def test_statuses_wait_while_cycles_follow_each_other() -> None:
    """Binds come first: a turn that leaves jobs to the next tells of its pods, and the last turn of all groups."""
    cluster, watcher = _Refusing([node("n0"), *_gangs("gh")]), _Watcher()
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: NOW, ticks=lambda: NOW, observers=[watcher], most_pods=1)
    while not watcher.turns or loop.unfinished:
        loop.run_once()
        assert [] == _groups_told(cluster) or not loop.unfinished

    assert ["g", "h"] == _groups_told(cluster)
    assert len(watcher.turns) >= 2
    events = [(e.about.kind, e.about.name, e.reason) for e in cluster.asked if isinstance(e, RecordEvent)]
    assert sorted(events) == [
        (kind, f"{name}{'0' * (kind == 'Pod')}", "Scheduled") for kind in ("Pod", "PodGroup") for name in "gh"
    ]


def test_statuses_wait_for_seconds_only() -> None:
    """However long the backlog is, groups hear what became of them."""
    cluster, ticks = _Refusing([node("n0"), *_gangs("ghi")]), iter(range(0, 10_000, 20))
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: NOW, ticks=lambda: float(next(ticks)), most_pods=1)
    loop.run_once()

    assert (True, ["g"]) == (loop.unfinished, _groups_told(cluster))


def test_binds_under_way_are_waited_for_at_the_end() -> None:
    """A loop that is told to stop hears first what became of its binds."""
    cluster, watcher = _Refusing([node("n0"), *_gangs("gh")]), _Watcher()
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: NOW, ticks=lambda: NOW, observers=[watcher], most_pods=1)
    loop.run(period=0.0, pause=0.0, stopping=lambda: loop.unfinished, may=lambda: True)

    assert [1] == [sum(outcome.ok for outcome in turn.outcomes) for turn in watcher.turns]


class _Slow(_Refusing):
    """Binds show at once, and what becomes of them is known when somebody waits for it, or after so many looks at the
    oldest.
    """

    def __init__(self, manifests: Sequence[Raw], looks: int, refused: Sequence[str] = ()) -> None:
        super().__init__(manifests, refused)
        self.looks = looks
        self.under_way: list[_UnderWay] = []
        self.watcher = _Watcher()
        self.begun: list[tuple[str, int]] = []  # of each batch the first pod, and how many turns had ended by then

    def begin(self, effects: Sequence[Effect]) -> Begun:
        if not effects:
            return super().begin(effects)
        self.begun.append((about(effects[0]).name, len(self.watcher.turns)))
        return _UnderWay(self, self.apply(effects))


class _UnderWay:
    def __init__(self, cluster: _Slow, outcomes: list[Outcome]) -> None:
        self._cluster, self._outcomes = cluster, outcomes
        self._left = cluster.looks
        cluster.under_way.append(self)

    def waits(self) -> int:
        if self in self._cluster.under_way and self is self._cluster.under_way[0]:
            self._left -= 1
            if self._left < 0:
                self._cluster.under_way.remove(self)
        return len(self._outcomes) if self in self._cluster.under_way else 0

    def done(self) -> bool:
        return not self.waits()

    def so_far(self) -> list[Outcome | None]:
        return [None] * len(self._outcomes)

    def pause(self, seconds: float) -> None:
        """Whoever looks next knows more."""

    def __call__(self) -> list[Outcome]:
        return self._outcomes


def _turning(cluster: _Slow, stopping: Callable[[], bool], period: float = 1.0) -> None:
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: NOW, ticks=lambda: NOW, observers=[cluster.watcher])
    loop.run(period=period, pause=0.0, stopping=stopping, may=lambda: True)


def test_who_comes_while_binds_are_under_way_does_not_wait_for_them() -> None:
    """The next cycle decides and sends its binds; what became of them is told in the order of the cycles."""
    cluster, coming = _Slow([node("n0"), *_gangs("g")], looks=1000), [_gangs("h"), _gangs("i")]

    def stopping() -> bool:
        if coming and len(cluster.begun) + len(coming) == 3:
            cluster.apply([Create(raw) for raw in coming.pop(0)])
        return len(cluster.begun) == 3

    _turning(cluster, stopping, period=0.0)

    assert [("g0", 0), ("h0", 0), ("i0", 0)] == cluster.begun
    told = [decision.job.key for turn in cluster.watcher.turns for decision in turn.report.decisions]
    assert ["default/g", "default/h", "default/i"] == told
    assert ["g", "h", "i"] == _groups_told(cluster)


def test_who_waits_is_told_before_the_binds_of_others_have_ended() -> None:
    """A gang that is being bound hears when that is done; one that has no place need not wait for it."""
    cluster = _Slow([node("n0"), *_gangs("g"), pod_group("w", 1), pod("w0", cpu="99", group="w")], looks=20)
    words: list[list[str]] = []

    def stopping() -> bool:
        told = [e for e in cluster.asked if isinstance(e, PatchStatus) and e.key.kind == "PodGroup"]
        names = sorted({e.key.name for e in told})
        if names not in words:
            words.append(names)
        return bool(cluster.watcher.turns)

    _turning(cluster, stopping)

    assert [[], ["w"], ["g", "w"]] == words
    assert ["Running"] == [e.status["phase"] for e in cluster.asked if isinstance(e, PatchStatus) and e.key.name == "g"]


@pytest.mark.parametrize("phase", ["Pending", "Inqueue"])
def test_a_flood_is_told_in_parts_and_others_with_the_first(phase: str) -> None:
    """A tenant's hundreds of gangs that wait are told some at a time; another's one gang is among the first."""
    flood = [
        manifest | {"metadata": {**manifest["metadata"], "namespace": "noisy"}}
        for n in range(300)
        for manifest in (pod_group(f"f{n}", 1, {"phase": phase}), pod(f"f{n}", cpu=str(100 + n), group=f"f{n}"))
    ]
    cluster = _Refusing([node("n0"), *flood, pod_group("g", 1, {"phase": phase}), pod("g", cpu="99", group="g")])
    now = NOW
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: now, ticks=lambda: now, with_controllers=False)
    told: list[set[Key]] = []
    for _ in range(4):
        loop.run_once()
        told.append({effect.key for effect in cluster.asked if isinstance(effect, PatchStatus)})
        cluster.asked.clear()
        now += 10.0

    assert 256 == max(map(len, told))
    assert {"PodGroup", "Pod"} == {key.kind for key in told[0] if key.namespace == "default"}
    assert (602, set()) == (len(set().union(*told)), told[-1])


def test_a_gang_of_which_no_bind_has_succeeded_is_told_so() -> None:
    """It was placed and stands nowhere: what it hears is why, although its binds ended after their turn."""
    cluster = _Slow([node("n0"), *_gangs("g")], looks=20, refused=["g0"])
    _turning(cluster, lambda: bool(cluster.watcher.turns))

    told = [e.message for e in cluster.asked if isinstance(e, RecordEvent) and e.about.name == "g"]
    assert ["1 of 1 pods could not be bound: default/g0: the node is gone" in text for text in told] == [True]


def test_not_too_many_binds_are_under_way() -> None:
    """Where the server falls behind, what was sent first is waited for before more is sent."""
    names = "abcdefgh"
    cluster, coming = _Slow([node(f"n{i}", cpu="1000") for i in range(8)], looks=10_000), list(names)

    def stopping() -> bool:
        if coming and len(cluster.begun) + len(coming) == len(names):
            name = coming.pop(0)
            gang = [pod_group(name, 100), *(pod(f"{name}{i}", cpu="1", group=name) for i in range(100))]
            cluster.apply([Create(raw) for raw in gang])
        return len(cluster.begun) == len(names)

    _turning(cluster, stopping, period=0.0)

    assert [0, 0, 0, 1, 2, 3, 4, 5] == [ended for _, ended in cluster.begun]


class _Tired(_Refusing):
    """Whatever is asked of it takes a second, and who waits for it waits for as long as it may."""

    now = NOW

    def apply(self, effects: Sequence[Effect]) -> list[Outcome]:
        self.now += 1.0
        return super().apply(effects)

    def tell(self, effects: Sequence[PatchStatus | RecordEvent], by: str = "") -> None:
        super().apply(effects)

    def wait(self, since: Version, timeout: float) -> Version:
        version = super().wait(since, 0.0)
        self.now += timeout if version == since else 0.0
        return version

    def put(self, manifests: Sequence[Raw]) -> None:
        super().apply([Create(raw) for raw in manifests])

    def groups(self) -> list[str]:
        """The groups that were told something since the last time."""
        told = {e.key.name for e in self.asked if isinstance(e, PatchStatus) and e.key.kind == "PodGroup"}
        self.asked.clear()
        return sorted(told)


def test_telling_all_who_wait_takes_a_part_of_the_time() -> None:
    """The longer it took, the later it comes again, but it comes; pods are bound in between, and hear of it."""
    large = {name: [pod_group(name, 1), pod(f"{name}0", cpu="99", group=name)] for name in "wv"}
    cluster, coming = _Tired([node("n0"), *large["w"]]), [large["v"], _gangs("g")]
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: cluster.now, ticks=lambda: cluster.now)
    words: list[tuple[float, list[str]]] = []

    def stopping() -> bool:
        told = cluster.groups()
        if told:
            words.append((cluster.now - NOW, told))
        if told and coming:
            cluster.put([raw for manifests in coming for raw in manifests])
            coming.clear()
            cluster.asked.clear()
        return cluster.now > NOW + 30.0

    loop.run(period=60.0, pause=0.0, stopping=stopping, may=lambda: True)

    assert [(2.0, ["w"]), (3.0, ["g"]), (13.0, ["v"])] == words


def _wanting_claims() -> list[Raw]:
    """Pods whose devices are written before they are bound."""
    machine = [devices.node("n0"), devices.resource_slice("n0", [devices.device(f"d{i}") for i in range(3)])]
    claims = [devices.claim(f"c{i}", devices.exactly()) for i in range(3)]
    return [*machine, devices.device_class(), *claims, *(devices.pod(f"p{i}", f"c{i}") for i in range(3))]


def _wanting_room() -> list[Raw]:
    """A node from which a pod goes, for one pod; further pods have room already, or lose a room that has none."""
    leaving = pod("leaving", cpu="6", on="n0")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    first, second = pod("a", cpu="6"), pod("b", cpu="9", nominated="n0")
    first["spec"]["priority"], second["spec"]["priority"] = 10, 20
    return [node("n0"), leaving, first, second, pod("c"), pod("d")]


def _named(asked: Iterable[Effect]) -> list[tuple[str, str]]:
    """What is asked for of whom; the loop adds which object of that name was meant."""
    return [(type(one).__name__, str(getattr(one, "pod", None) or getattr(one, "key", ""))) for one in asked]


@pytest.mark.parametrize(
    ("manifests", "kinds"),
    [(_wanting_claims(), ["Bind", "Prepare"]), (_wanting_room(), ["Bind", "Nominate"])],
    ids=["claims", "nominations"],
)
def test_a_cycle_that_leaves_jobs_to_the_next_does_all_that_it_asks_for(manifests: list[Raw], kinds: list[str]) -> None:
    """Binds go out while the next cycle decides; where there is more than binds, all of it, in its order."""
    cluster, watcher = _Refusing(manifests), _Watcher()
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: NOW, ticks=lambda: NOW, observers=[watcher], most_pods=1)
    while not watcher.turns or (loop.unfinished and len(watcher.turns) < len(manifests)):
        loop.run_once()

    assert not loop.unfinished
    early = set()
    for turn in watcher.turns:
        assert turn.decided is not None
        asked = list(effects(turn.snapshot, turn.decided))
        assert _named(asked) == _named(outcome.effect for outcome in turn.outcomes)[: len(asked)]
        early |= {type(effect).__name__ for effect in asked if turn.report.unfinished}
    assert kinds == sorted(early)


def test_pods_that_wait_for_their_room_keep_nobody_waiting() -> None:
    """They are nominated in every cycle, and do not count as pods that a cycle has dealt with."""
    cluster = _Refusing(_wanting_room())
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: NOW, ticks=lambda: NOW, most_pods=1)
    for _ in range(3):
        loop.run_once()

    nodes = {found.metadata.name: found.spec.node_name for found in cluster.read().every(Pod).values()}
    assert ({"leaving": "n0", "a": "", "b": "", "c": "n0", "d": "n0"}, False) == (nodes, loop.unfinished)


def test_turns_follow_changes_until_stopped() -> None:
    """The loop turns while it may, and ends when it is told to."""
    cluster, watcher = _Refusing([node("n0"), *_gang(2)]), _Watcher()
    loop = _loop(cluster, watcher)
    loop.run(period=0.0, pause=0.0, stopping=lambda: len(watcher.turns) >= 3, may=lambda: True)

    assert 3 == len(watcher.turns)


def test_quiet_cluster_is_not_built_again() -> None:
    """Where nothing has changed since the last turn, only the time of the snapshot is another."""
    cluster, watcher = _Refusing([node("n0"), *_gang(2)]), _Watcher()
    loop = _loop(cluster, watcher)
    for _ in range(4):
        loop.run_once()

    first, *_, before, last = (turn.snapshot for turn in watcher.turns)
    assert (True, False) == (before.jobs is last.jobs, first.jobs is last.jobs)


def test_follower_only_watches() -> None:
    """Who may not write decides nothing."""
    cluster, watcher = _Refusing([node("n0"), *_gang(2)]), _Watcher()
    looks = iter(range(4))
    _loop(cluster, watcher).run(period=0.0, pause=0.0, stopping=lambda: next(looks) >= 3, may=lambda: False)

    assert ([], []) == (watcher.turns, cluster.asked)


def test_every_profile_has_its_turn() -> None:
    """Pods of several scheduler names are placed in one turn, each by the profile of its name; observers hear whose."""
    manifests = [node("n0"), *(pod(name) for name in ("a", "b", "c"))]
    for name, raw in zip("abc", manifests[1:], strict=True):
        raw["spec"]["schedulerName"] = name
    cluster, watcher = _Refusing(manifests), _Watcher()
    schedulers = [SchedulerProfile(frozenset({name}), DEFAULT) for name in ("a", "b")]
    turns = Loop(cluster, schedulers, clock=lambda: NOW, ticks=lambda: NOW, observers=[watcher])
    turns.run_once()

    assert ["n0", "n0", ""] == [found.spec.node_name for found in cluster.read().every(Pod).values()]
    assert [frozenset("a"), frozenset("b")] == [turn.schedulers for turn in watcher.turns]


def test_follower_is_not_stuck() -> None:
    """It has looked, and had nothing to do: the time of its last turn goes on, and that is what probes ask for."""
    times, looks = [NOW], iter(range(3))
    loop = Loop(_Refusing([node("n0")]), [], clock=lambda: NOW, ticks=lambda: times[0])
    times[0] += 1000.0
    loop.run(period=0.0, pause=0.0, stopping=lambda: next(looks) >= 2, may=lambda: False)

    assert NOW + 1000.0 == loop.iterated


@pytest.mark.parametrize(
    ("coming", "took", "waits"),
    [
        (0, 0.0, [0.01]),
        (1, 0.0, [0.01, 0.01]),
        (99, 0.0, [0.01, 0.01]),
        (99, 0.02, [0.01, 0.01]),
        (99, 0.04, [0.02, 0.02]),
        (0, 3.0, [0.05]),
    ],
    ids=["nothing more", "some", "without end", "slow turns", "slower turns", "very slow turns"],
)
def test_what_comes_together_is_decided_together(coming: int, took: float, waits: list[float]) -> None:
    """After a change the loop waits while more come, for a while: a gang's pods arrive one by one.

    The longer a turn takes, the longer must nothing come before the next; but it comes.
    """
    cluster, watcher, time = _Waiting([node("n0")]), _Watcher(), [0.0]

    def ticks() -> float:
        time[0] += took / 4  # a turn asks five times from its beginning to its decision
        return time[0]

    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop, looks = Loop(cluster, [own], clock=lambda: NOW, ticks=ticks, observers=[watcher]), iter(range(9))

    def stopping() -> bool:
        if next(looks) == 2:  # between the first turn and the next
            cluster.apply([Create(raw) for raw in _gang(1)])
            cluster.coming = coming
        return len(watcher.turns) >= 2

    loop.run(period=0.0, pause=0.05, stopping=stopping, may=lambda: True)

    assert [0.0, 0.0, *waits] == pytest.approx(cluster.patience)


def test_refused_victims_are_spared_for_a_while() -> None:
    """A pod that may not be evicted is read as marked so, and no longer when the time is over."""
    objects = _objects([node("n0"), pod("v", on="n0")])
    key = Key("", "Pod", "default", "v")
    refused = RefusedEvictions()
    refused.note([Outcome(Evict(key, "", "default/g", "preempt"), ok=False, error="budget")], NOW)

    def mark(now: float) -> str | None:
        found = refused.over(objects, now).record(key)
        assert found is not None
        return found.metadata.annotations.get("volcano.sh/preemptable")

    assert ("false", None) == (mark(NOW + 1), mark(NOW + 61))
    assert objects is refused.over(objects, NOW + 100)


def test_what_readers_keep_is_checked_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an hour after the last look an iteration compares; what has drifted is read again."""
    cluster, watcher = EmbeddedCluster(_objects([node("n1", cpu="8"), *_gang(2)])), _Watcher()
    time = iter([0.0] * 20 + [2000.0] * 100)
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: NOW, ticks=lambda: next(time), observers=[watcher])

    loop.run_once()
    while watcher.turns[-1].drift is None:
        loop.run_once()
    assert [] == watcher.turns[-1].drift

    monkeypatch.setattr(profile_run, "differences", lambda kept, fresh: ["default/g"])
    monkeypatch.setattr(profile_run, "_CHECK", 0.0)
    loop.run_once()
    assert ["default/g"] == watcher.turns[-1].drift


def test_what_has_drifted_is_read_anew_from_then_on() -> None:
    """The fresh reader takes the place of the one that was wrong: the next turn sees what is."""
    objects = _objects([node("n1", cpu="8"), *_gang(2)])
    cluster, watcher, ticks = EmbeddedCluster(objects), _Watcher(), [0.0]
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: NOW, ticks=lambda: ticks[0], observers=[watcher])

    def cpu() -> int:
        loop.run_once()
        return int(watcher.turns[-1].snapshot.nodes.allocatable[0][0])

    assert 8000 == cpu()
    # The same record says something else, which nobody who follows records by identity can notice.
    cluster.read().every(Node)["n1"].status.allocatable["cpu"] = "4"
    assert 8000 == cpu()
    ticks[0] = 2000.0
    cpu()
    assert watcher.turns[-1].drift
    ticks[0] = 2001.0
    assert 4000 == cpu()


def _rack(tier: int) -> Raw:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": "n0"}}}]
    spec = {"tier": tier, "members": members}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "r0"}, "spec": spec}


def test_tier_of_a_gang_follows_the_tree() -> None:
    """A gang that has not moved, and of which nothing else is to be told, stands in another tier of another tree."""
    cluster = EmbeddedCluster(_objects([node("n0"), _rack(1), *_gang(2)]))
    loop, group = _loop(cluster), Key("scheduling.volcano.sh", "PodGroup", "default", "g")

    def tier() -> str | None:
        loop.run_once()
        loop.run_once()
        found = cluster.read().record(group)
        assert found is not None
        return found.metadata.annotations.get("tierwise.io/tier")

    assert "1" == tier()
    cluster.apply([Update(Key("topology.volcano.sh", "HyperNode", "", "r0"), _rack(3))])
    assert "3" == tier()


def test_refused_victims_are_spared_by_a_clock_that_never_jumps() -> None:
    """A wall clock that is set back does not spare a pod for an hour, and one that is set ahead not for a moment."""
    urgent, groups = pod("urgent", cpu="8", group="u"), [pod_group("u"), pod_group("g")]
    urgent["spec"]["priority"] = 100
    groups[0]["spec"]["priorityClassName"] = "high"
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
    cluster = _Refusing([node("n0"), high, *groups, pod("v", cpu="8", on="n0", group="g"), urgent], refused=["v"])
    times = {"wall": NOW, "ticks": 0.0}
    own = SchedulerProfile(frozenset({"tierwise"}), profile("priority", "predicates", actions="allocate preempt"))
    loop = Loop(cluster, [own], clock=lambda: times["wall"], ticks=lambda: times["ticks"])

    def tries(hours: int, ticks: float) -> int:
        times.update(wall=NOW + 3600 * hours, ticks=ticks)
        loop.run_once()
        return sum(isinstance(effect, Evict) for effect in cluster.asked)

    assert [1, 1, 2] == [tries(0, 0.0), tries(1, 59.0), tries(-1, 60.0)]


def test_what_was_withheld_is_not_spared() -> None:
    """Nobody has refused an eviction that was not sent: the next leader's plan may be the same."""
    objects = _objects([node("n0"), pod("v", on="n0")])
    evict = Evict(Key("", "Pod", "default", "v"), "", "default/g", "preempt")
    refused = RefusedEvictions()
    refused.note([Outcome(evict, ok=False, error="withheld: no longer the leader", withheld=True)], NOW)

    assert objects is refused.over(objects, NOW + 1)


class _Hearing(_Watcher):
    def crashed(self, crash: Crash) -> None:
        """Others may crash."""


class _Crashes:
    """An observer that cannot do its work, and hears of what has crashed."""

    def __init__(self) -> None:
        self.heard: list[Crash] = []

    def saw(self, turn: LoopPass) -> None:
        raise OSError("no space left")

    def crashed(self, crash: Crash) -> None:
        self.heard.append(crash)


def test_observer_that_raises_is_no_objects_fault() -> None:
    """The turn has been carried out, nothing is set aside for it, and the other observers are told."""
    cluster, broken, watcher = _Refusing([node("n0"), *_gang(2)]), _Crashes(), _Hearing()
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: NOW, ticks=lambda: NOW, observers=[broken, watcher])
    loop.run_once()

    assert ["n0", "n0"] == [p.spec.node_name for p in cluster.read().every(Pod).values()]
    assert 1 == len(watcher.turns)
    assert {("telling of an iteration", None)} == {(crash.stage, crash.key) for crash in broken.heard}


class _Waiting(_Refusing):
    """Remembers for how long somebody was ready to wait, for a change or for the time alone."""

    def __init__(self, manifests: Sequence[Raw]) -> None:
        super().__init__(manifests)
        self.patience: list[float] = []
        self.coming = 0  # how often something comes while somebody waits for the time alone

    def wait(self, since: Version, timeout: float) -> Version:
        self.patience.append(timeout)
        if self.coming and since > self.read().version:
            self.coming -= 1
            self.apply([Create(pod(f"more-{self.coming}"))])
        return super().wait(since, timeout)


def _timed_job() -> Raw:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "99"}}}]}}
    policies = [{"event": "PodPending", "action": "AbortJob", "timeout": "10m"}]
    spec = {"minAvailable": 1, "tasks": [{"name": "w", "replicas": 1, "template": template}], "policies": policies}
    meta = {"name": "timed", "namespace": "default", "uid": "u"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def test_loop_wakes_up_when_a_time_is_over() -> None:
    """It waits no longer than until a policy acts and no longer than the period, and never without a pause."""
    cluster, times = _Waiting([node("n0"), _timed_job()]), [NOW]
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: times[0], ticks=lambda: times[0])
    for _ in range(3):  # its group is let in, and its pod is made
        loop.run_once()

    def patience(now: float) -> float:
        times[0], steps = now, iter((False, True))
        loop.run(period=60.0, pause=0.0, stopping=lambda: next(steps), may=lambda: True)
        return cluster.patience[-1]

    moments = (0.0, 540.0, 570.0, 599.9, 700.0)
    assert [60.0, 60.0, 30.0, 0.2, 0.2] == [patience(NOW + after) for after in moments]


@pytest.mark.parametrize("with_controllers", [True, False])
def test_loop_wakes_up_when_a_claim_has_waited_long_enough(with_controllers: bool) -> None:
    """Nobody changes anything when a time-out is over, so the loop looks by itself; once it is over, no more."""
    held = devices.prepared("c", since=format_time(NOW))
    raws = [devices.node("n0"), devices.device_class(), held, devices.pod("p", "c")]
    cluster, times = _Waiting(raws), [NOW]
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    clock = lambda: times[0]  # noqa: E731
    loop = Loop(cluster, [own], clock=clock, ticks=clock, with_controllers=with_controllers)
    loop.run_once()

    def patience(now: float) -> float:
        times[0], steps = now, iter((False, True))
        loop.run(period=60.0, pause=0.0, stopping=lambda: next(steps), may=lambda: True)
        return cluster.patience[-1]

    assert [60.0, 20.0] == [patience(NOW + after) for after in (0.0, 580.0)]
    times[0] = NOW + 600
    loop.run_once()
    assert 60.0 == patience(NOW + 601)


class _Stubborn(_Refusing):
    """Keeps hyperNodes without the status that is written."""

    def _try(self, effect: Effect) -> list[Outcome]:
        if isinstance(effect, PatchStatus) and effect.key.kind == "HyperNode":
            return [Outcome(effect, ok=True)]
        return super()._try(effect)


def test_what_the_server_keeps_otherwise_is_not_written_again_and_again() -> None:
    """Twice in a turn, which shows that it is of no use, and not until the turn is full."""
    cluster = _Stubborn([node("n0"), _rack(1)])
    _loop(cluster).run_once()

    assert 1 == sum(isinstance(effect, PatchStatus) for effect in cluster.asked)


def test_pod_is_told_that_its_group_is_missing_after_a_moment() -> None:
    """Pods may be known before their group: nothing for two seconds, then the reason."""
    cluster, ticks = _Refusing([node("n0"), pod("p0", group="late")]), [0.0]
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: NOW, ticks=lambda: ticks[0])

    def told(now: float) -> list[str]:
        ticks[0] = now
        loop.run_once()
        [found] = cluster.read().every(Pod).values()
        return [condition.message for condition in found.status.conditions]

    assert [[], [], ["podGroup default/late does not exist"]] == [told(10.0), told(11.9), told(12.0)]


def _timed(cluster: EmbeddedCluster, times: list[float]) -> Loop:
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    return Loop(cluster, [own], clock=lambda: NOW, ticks=lambda: times[0])


def _placed(cluster: EmbeddedCluster) -> set[str]:
    return {name for name, found in cluster.read().every(Pod).items() if found.spec.node_name}


def test_an_object_that_was_caught_is_set_aside_and_the_rest_is_scheduled() -> None:
    """For so long as was said; then it has its turn again, without a restart."""
    times = [NOW]
    groups = [pod_group("bad", 1), pod("bad-0", group="bad"), pod_group("good", 1), pod("good-0", group="good")]
    cluster = _Refusing([node("n0"), *groups])
    loop = _timed(cluster, times)

    loop.set_aside(Key("scheduling.volcano.sh", "PodGroup", "default", "bad"), "scheduling did not end", 3600.0)
    loop.run_once()
    assert {"default/good-0"} == _placed(cluster)
    times[0] += 3601.0
    loop.run_once()

    assert {"default/good-0", "default/bad-0"} == _placed(cluster)
    told = [effect.reason for effect in cluster.asked if isinstance(effect, RecordEvent)]
    assert "SetAside" in told


def test_a_plugin_that_was_left_out_has_its_say_again_after_its_time() -> None:
    """Without filters a pod goes to the node that is closed; with them it waits."""
    times = [NOW]
    cluster = _Refusing([{**node("n0"), "spec": {"unschedulable": True}}, pod_group("a", 1), pod("a-0", group="a")])
    loop = _timed(cluster, times)

    loop.leave_out_plugin("predicates", "scheduling did not end", 3600.0)
    loop.run_once()
    assert {"default/a-0"} == _placed(cluster)
    times[0] += 3601.0
    cluster.apply([Create(raw) for raw in (pod_group("b", 1), pod("b-0", group="b"))])
    loop.run_once()

    assert {"default/a-0"} == _placed(cluster)


def _job(name: str, namespace: str) -> Raw:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "10m"}}}]}}
    spec: Raw = {"minAvailable": 1, "schedulerName": "tierwise"}
    spec["tasks"] = [{"name": "w", "replicas": 1, "template": template}]
    meta = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def _bounded(cluster: EmbeddedCluster, most: int) -> Loop:
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    return Loop(cluster, [own], clock=lambda: NOW, ticks=lambda: NOW, most_writes=most)


def test_what_controllers_write_in_a_turn_is_bounded_and_shared() -> None:
    """A tenant's many jobs keep neither another's nor the cycle waiting; the rest follows at once."""
    cluster = _Refusing([node("n0"), *(_job(f"j{i}", "many") for i in range(30)), _job("one", "zone")])
    loop, before, bound = _bounded(cluster, 12), 0, list[int]()
    for _ in range(60):
        loop.run_once()
        made = [e for e in cluster.asked[before:] if isinstance(e, Create | Update)]
        assert len(made) <= 12
        before = len(cluster.asked)
        bound.append(sum(bool(p.spec.node_name) for p in cluster.read().every(Pod).values()))
        if len(bound) == 2:
            assert cluster.read().every(Pod)["zone/one-w-0"].spec.node_name == "n0"
            assert loop.unfinished
        if not loop.unfinished:
            break

    assert 31 == bound[-1]


def _half(name: str, namespace: str) -> list[Raw]:
    """A gang that ran, of which one of two pods is gone."""
    moved = {"namespace": namespace}
    raws = [pod_group(name, 2, {"phase": "Running", "running": 2}), pod(f"{name}-0", group=name, on="n0")]
    return [{**raw, "metadata": {**raw["metadata"], **moved}} for raw in raws]


def test_marks_of_a_turn_are_bounded_and_stand_before_the_phase() -> None:
    """Of many gangs that lost a pod some are marked in each turn, and none queues again before it is."""
    gangs = [raw for i in range(9) for raw in _half(f"g{i}", "many")]
    cluster = _Refusing([node("n0"), *gangs, *_half("one", "zone")])
    loop, marked = _bounded(cluster, 4), list[int]()
    for _ in range(20):
        loop.run_once()
        groups = cluster.read().every(PodGroup)
        marks = {path for path, group in groups.items() if group.metadata.annotations.get(DIMINISHED)}
        assert set() == {path for path, group in groups.items() if group.status.phase != "Running"} - marks
        assert "zone/one" in marks
        marked.append(len(marks))
        if not loop.unfinished:
            break

    assert [4, 8, 10] == marked
