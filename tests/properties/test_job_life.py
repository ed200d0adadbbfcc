"""Any life of a job comes to the same rest, whatever the controller misses, sees twice or fails to write."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.support.job_life import command, policy
from tests.support.manifests import (
    NOW,
    job,
    objects,
    part,
    partitions,
    pod_group,
    task,
)

from tierwise import controllers
from tierwise.api.codec import Raw
from tierwise.port import Key, Objects
from tierwise.sim.cluster.store import EmbeddedCluster

Change = tuple[str, object]
EVENTS = st.sampled_from(["PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "JobUpdated", "*", 3])
ACTIONS = st.sampled_from(
    ["RestartJob", "RestartTask", "RestartPartition", "RestartPod", "AbortJob", "TerminateJob", "CompleteJob"]
)
POLICIES = st.lists(st.builds(policy, EVENTS, ACTIONS), max_size=2)
PATIENT = st.lists(
    st.builds(policy, EVENTS | st.just("PodPending"), ACTIONS, timeout=st.sampled_from(["1m", "1h"])), max_size=2
)
COMMANDS = st.sampled_from(["AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "CompleteJob"])
PODS = st.sampled_from(["a-0", "a-1", "a-2", "a-3", "b-0"])
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.tuples(st.sampled_from(["Running", "Succeeded", "Failed", "gone"]), PODS),
    st.tuples(st.just("command"), COMMANDS),
    st.tuples(st.just("scale"), st.sampled_from([2, 4])),
)
# Changes of one look concern different objects, so that their order means nothing.
LIVES = st.lists(st.lists(CHANGES, max_size=3, unique_by=lambda c: "a" if c[0] == "scale" else str(c[1])), max_size=4)
MAX_RETRY = 2


@st.composite
def batches(draw: st.DrawFn, policies: st.SearchStrategy[list[Raw]] = POLICIES) -> Raw:
    """A job of two tasks, one of them parted, with some policies."""
    tasks = [task("a", 4, partitionPolicy=partitions(2, 2), policies=draw(policies)), task("b", 1)]
    least = draw(st.sampled_from([1, 4, 5]))
    return job("train", *tasks, policies=draw(policies), maxRetry=MAX_RETRY, minAvailable=least)


def _began(batch: Raw) -> Objects:
    return _settled(objects(batch, pod_group("train-u1")))


def _settled(world: Objects, chance: Random | None = None) -> Objects:
    """Let the controllers work to the end; by `chance`, writes are lost, done twice and come in any order."""
    for step in range(200):
        asked = controllers.run(world, NOW)
        if not asked:
            entered = _let_in(world)
            if entered is world:
                return world
            world = entered
        if chance is not None and step < 20:
            asked = [effect for effect in asked for _ in range(chance.choice([0, 0, 1, 1, 2]))]
            chance.shuffle(asked)
        cluster = EmbeddedCluster(world)
        cluster.apply(asked)
        world = cluster.read()
        _holds(world)
    raise AssertionError("the controllers do not settle")


def _let_in(world: Objects) -> Objects:
    """The scheduler lets pod groups that are new leave Pending."""
    groups = {key: world.raw(key) or {} for key in world if key.kind == "PodGroup"}
    puts = {key: raw | {"status": {"phase": "Inqueue"}} for key, raw in groups.items() if "status" not in raw}
    return world.changed(puts) if puts else world


def _after(world: Objects, changes: list[Change]) -> Objects:
    """What kubelets, users and others do, all before the controller looks again."""
    for what, whom in changes:
        if what == "command":
            name = str(whom).lower()
            world = world.changed({Key("bus.volcano.sh", "Command", "default", name): command(name, str(whom))})
        elif what == "scale":
            world = _scaled(world, whom)
        else:
            world = _reached(world, Key("", "Pod", "default", f"train-{whom}"), what)
    return world


def _scaled(world: Objects, replicas: object) -> Objects:
    [key] = [key for key in world if key.kind == "Job"]
    raw = world.raw(key) or {}
    tasks = part(raw, "spec")["tasks"]
    assert isinstance(tasks, list)
    sized = [entry | {"replicas": replicas} if entry["name"] == "a" else entry for entry in tasks]
    return world.changed({key: raw | {"spec": part(raw, "spec") | {"tasks": sized}}})


def _reached(world: Objects, key: Key, phase: str) -> Objects:
    raw = world.raw(key)
    if raw is None or phase == "gone":
        return world.changed({}, [key])
    ended = {"name": "main", "state": {"terminated": {"exitCode": 3 if phase == "Failed" else 0}}}
    status = {"phase": phase, "containerStatuses": [ended] if phase != "Running" else []}
    return world.changed({key: raw | {"status": status}})


def _holds(world: Objects) -> None:
    """What is true of a job at every moment."""
    [own] = [key for key in world if key.kind == "Job"]
    raw = world.raw(own) or {}
    retries = part(raw, "status").get("retryCount", 0) if "status" in raw else 0
    assert isinstance(retries, int)
    assert retries <= MAX_RETRY
    assert len([key for key in world if key.kind == "Pod"]) <= 5


def _content(world: Objects) -> dict[str, Raw | None]:
    return {str(key): world.raw(key) for key in world}


@given(batches(), LIVES)
def test_a_settled_job_stays_as_it_is(batch: Raw, life: list[list[Change]]) -> None:
    """Whatever happened, looking again changes nothing."""
    world = _began(batch)
    for changes in life:
        world = _settled(_after(world, changes))

    assert [] == controllers.run(world, NOW)
    assert [] == controllers.run(world, NOW + 3600)


@given(batches(), LIVES, st.randoms(use_true_random=False))
def test_lost_and_repeated_writes_change_nothing(batch: Raw, life: list[list[Change]], chance: Random) -> None:
    """A cluster that loses, repeats and reorders what happens and what is asked of it ends where a perfect one does."""
    perfect = poor = _began(batch)
    for changes in life:
        perfect = _settled(_after(perfect, changes))
        chance.shuffle(changes)
        poor = _settled(_after(poor, changes), chance)

        assert _content(perfect) == _content(poor)


@given(batches(PATIENT), LIVES, st.sampled_from([None, 30, 7200]))
def test_nothing_is_to_be_done_before_it_is_due(batch: Raw, life: list[list[Change]], ttl: int | None) -> None:
    """Between two changes the controller may sleep until the moment that it names, and has something to do then."""
    batch["spec"] = part(batch, "spec") | {"ttlSecondsAfterFinished": ttl}
    world = _began(batch)
    for changes in life:
        world = _settled(_after(world, changes))
        moment = controllers.due(world)

        assert [] == controllers.run(world, NOW + 10**6 if moment is None else moment - 1)
        assert moment is None or [] != controllers.run(world, moment)
