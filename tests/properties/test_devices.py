"""Devices on small random clusters: counting agrees with an exhaustive search, and nobody gets what is not theirs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import examples
from tests.support.devices import (
    DRIVER,
    claim,
    device,
    device_class,
    exactly,
    node,
    objects,
    pod,
    resource_slice,
    run,
    template,
)
from tests.support.sight import sees

from tierwise.api.cel import selector
from tierwise.api.core import Pod
from tierwise.api.resource import Device, DeviceClaim, ResourceClaim, ResourceSlice
from tierwise.config.profile import DEFAULT
from tierwise.port import Objects, key_of_raw
from tierwise.sim.cluster.rounds import Rounds
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import Reader
from tierwise.snapshot.consistency import differences

_GROUP: Any = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default"},
    "status": {"phase": "Inqueue"},
}


def _where(levels: tuple[int, ...]) -> str:
    """Devices whose level is one of these; no condition where that is all of them."""
    return f"device.attributes['{DRIVER}'].level in {list(levels)}" if levels else ""


@st.composite
def _nested(draw: st.DrawFn) -> tuple[list[int], list[tuple[tuple[int, ...], int]]]:
    """Levels of the devices of a node, and claims: sets of levels that nest or are disjoint, and how many."""
    levels = draw(st.lists(st.integers(0, 3), max_size=7))
    sets: tuple[tuple[int, ...], ...] = draw(
        st.sampled_from([((), (0,), (1,)), ((), (0, 1), (0,), (2, 3)), ((0, 1), (2,)), ((0,), (1,), (2,), (3,))])
    )
    claims = draw(st.lists(st.tuples(st.sampled_from(sets), st.integers(1, 3)), min_size=1, max_size=5))
    return levels, claims


@st.composite
def _any_sets(draw: st.DrawFn) -> tuple[list[int], list[tuple[tuple[int, ...], int]]]:
    """The same, with sets that may overlap in any way."""
    levels = draw(st.lists(st.integers(0, 3), max_size=6))
    sets = st.lists(st.integers(0, 3), max_size=3, unique=True).map(lambda found: tuple(sorted(found)))
    return levels, draw(st.lists(st.tuples(sets, st.integers(1, 2)), min_size=1, max_size=4))


def _gang(levels: list[int], claims: list[tuple[tuple[int, ...], int]]) -> Rounds:
    """One node, and a pod for each claim, all of which start or none."""
    devices = [device(f"d{i}", level=level) for i, level in enumerate(levels)]
    wanted = [claim(f"c{i}", exactly(number, where=_where(some))) for i, (some, number) in enumerate(claims)]
    pods = [pod(f"p{i}", f"c{i}", group="g") for i in range(len(claims))]
    group = {**_GROUP, "spec": {"minMember": len(claims)}}
    return run(node("n0"), resource_slice("n0", devices), device_class(), wanted, pods, group)


def _feasible(levels: list[int], claims: list[tuple[tuple[int, ...], int]]) -> bool:
    """Whether the claims can all be served: every way to give devices is tried."""

    def serve(at: int, free: frozenset[int]) -> bool:
        if at == len(claims):
            return True
        some, number = claims[at]
        fitting = [i for i in sorted(free) if not some or levels[i] in some]
        return any(serve(at + 1, free - set(chosen)) for chosen in combinations(fitting, number))

    return serve(0, frozenset(range(len(levels))))


def _check(history: Rounds) -> None:
    """Every device is held once, and by a claim that may have it."""
    shown = history.cluster.read()
    described = {
        (one.spec.driver, one.spec.pool.name, found.name): found
        for one in shown.every(ResourceSlice).values()
        for found in one.spec.devices
    }
    held: set[tuple[str, str, str]] = set()
    for one in shown.every(ResourceClaim).values():
        if one.status.allocation is None:
            continue
        results = one.status.allocation.devices.results
        for result in results:
            key = result.driver, result.pool, result.device
            assert key not in held
            held.add(key)
            assert _may_have(one.spec.devices, result.request, described[key])
        for request in one.spec.devices.requests:
            assert request.exactly is not None
            assert request.exactly.count == sum(result.request == request.name for result in results)


def _may_have(spec: DeviceClaim, name: str, found: Device) -> bool:
    asked = next(request.exactly for request in spec.requests if request.name == name)
    assert asked is not None
    return all(selector(one.cel.expression).matches(DRIVER, found) for one in asked.selectors if one.cel is not None)


@sees(binds=1, refusals=3)
@given(_nested())
@examples(45)
def test_counting_is_exact_where_sets_nest(world: tuple[list[int], list[tuple[tuple[int, ...], int]]]) -> None:
    """A gang starts exactly where an exhaustive search finds devices for all of it."""
    history = _gang(*world)

    _check(history)
    assert _feasible(*world) is (len(history.bindings) == len(world[1]))
    assert len(history.bindings) in (0, len(world[1]))


@sees(binds=3, refusals=2)
@given(_any_sets())
@examples(45)
def test_matching_is_exact_on_a_node(world: tuple[list[int], list[tuple[tuple[int, ...], int]]]) -> None:
    """Where sets overlap, a gang of several shapes starts exactly where an exhaustive search finds its devices."""
    history = _gang(*world)

    _check(history)
    assert (len(world[1]) if _feasible(*world) else 0) == len(history.bindings)


@st.composite
def _held(draw: st.DrawFn) -> tuple[list[list[int]], list[tuple[int, tuple[int, ...]]], int]:
    """The levels of the devices of two nodes, running pods by node and device, and the size of a gang."""
    nodes = draw(st.lists(st.lists(st.integers(0, 1), max_size=5), min_size=2, max_size=2))
    free = [(n, d) for n, levels in enumerate(nodes) for d in range(len(levels))]
    running: list[tuple[int, tuple[int, ...]]] = []
    for n, d in draw(st.permutations(free)):
        join = running and running[-1][0] == n and len(running[-1][1]) < 2 and draw(st.booleans())
        if join:
            running[-1] = n, (*running[-1][1], d)
        elif draw(st.booleans()):
            running.append((n, (d,)))
    return nodes, running, draw(st.integers(1, 4))


def _room(nodes: list[list[int]], taken: set[tuple[int, int]]) -> int:
    """How many pods have devices: two of level 0 each, or one of level 1."""
    free = [[level for d, level in enumerate(levels) if (n, d) not in taken] for n, levels in enumerate(nodes)]
    return sum(levels.count(0) // 2 + levels.count(1) for levels in free)


_PREEMPTS = replace(DEFAULT, actions=(*DEFAULT.actions, "gangpreempt"))


@sees(evictions=3)
@given(_held())
@examples(40)
def test_preemption_frees_devices_that_are_matched(
    world: tuple[list[list[int]], list[tuple[int, tuple[int, ...]]], int],
) -> None:
    """A gang starts exactly where less important pods hold what it lacks, and no pod goes that could have stayed."""
    nodes, running, size = world
    machines = [
        [node(f"n{n}"), resource_slice(f"n{n}", [device(f"d{d}", level=level) for d, level in enumerate(levels)])]
        for n, levels in enumerate(nodes)
    ]
    low: list[Any] = []
    for i, (n, held) in enumerate(running):
        results = [{"request": "gpu", "driver": DRIVER, "pool": f"n{n}", "device": f"d{d}"} for d in held]
        used = [{"resource": "pods", "name": f"low{i}", "uid": f"uid-low{i}"}]
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": used}
        low += [claim(f"x{i}", exactly(len(held)), status=status), pod(f"low{i}", f"x{i}", on=f"n{n}", group=f"l{i}")]
        low.append({**_GROUP, "metadata": {"name": f"l{i}", "namespace": "default"}, "spec": {"minMember": 1}})
    options = [((0,), 2), ((1,), 1)]
    either = {
        "name": "gpu",
        "firstAvailable": [
            {"name": f"o{i}", **exactly(n, where=_where(s))["exactly"]} for i, (s, n) in enumerate(options)
        ],
    }
    important = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 9,
    }
    group = {**_GROUP, "spec": {"minMember": size, "priorityClassName": "high"}}
    gang = [pod(f"p{i}", of="t", group="g", priorityClassName="high") for i in range(size)]
    template_ = template("t", either)

    history = run(*machines, device_class(), low, template_, important, group, gang, profile=_PREEMPTS)

    gone = {int(eviction.task.key.partition("/low")[2]) for eviction in history.evictions}
    assert (size if _room(nodes, set()) >= size else 0) == len(history.bindings)
    assert not gone or history.bindings
    for spared in gone:
        left = {(n, d) for i, (n, held) in enumerate(running) for d in held if i == spared or i not in gone}
        assert _room(nodes, left) < size


@sees(binds=1, refusals=1)
@given(_any_sets(), st.lists(st.integers(0, 11), max_size=12))
@examples(30)
def test_following_is_reading_anew(
    world: tuple[list[int], list[tuple[tuple[int, ...], int]]], steps: list[int]
) -> None:
    """A reader that follows a cluster sees what a new one sees, whatever comes and goes."""
    levels, claims = world
    history = _gang(levels, claims)
    raws = [raw for key in history.cluster.read() if (raw := history.cluster.read().raw(key)) is not None]
    everything = objects(raws)
    reader, here = Reader(), dict.fromkeys(range(len(raws)))
    cluster = EmbeddedCluster(everything)
    reader.read(cluster.read(), 0.0)
    keys = list(everything)
    for step in steps:
        number = step % len(keys)
        changed = cluster.read()
        if number in here:
            here.pop(number)
            changed = changed.changed({}, [keys[number]])
        else:
            here[number] = None
            raw = everything.raw(keys[number])
            assert raw is not None
            changed = changed.changed({keys[number]: raw})
        cluster = EmbeddedCluster(changed)
        kept, fresh = reader.read(changed, 1.0), Reader().read(changed, 1.0)
        assert [] == differences(kept, fresh)
        assert kept.axis == fresh.axis
        assert np.array_equal(kept.nodes.allocatable, fresh.nodes.allocatable)
        assert _asked(kept.jobs, changed) == _asked(fresh.jobs, changed)


def _asked(jobs: Any, shown: Objects) -> list[tuple[str, list[int], bool, str]]:
    assert shown.every(Pod) is not None
    return [
        (task.key, task.shape.request.tolist(), bool(task.shape.devices and task.shape.devices.matched), task.unready)
        for job in jobs
        for task in job.tasks
    ]


def test_a_pod_that_a_node_serves_itself_holds_no_devices() -> None:
    """Bound to a node that offers the extended resource, it is read as a new reader reads it."""
    served = device_class(extendedResourceName="example.com/gpu")
    waiting = pod("p", requests={"example.com/gpu": "1"})
    raws = [node("n0", amounts={"example.com/gpu": "2"}), resource_slice("n0", [device("d")]), served]
    before = objects(raws, waiting)
    after = before.changed({key_of_raw(waiting): {**pod("p", on="n0", requests={"example.com/gpu": "1"})}})
    reader = Reader()
    reader.read(before, 0.0)

    assert [] == differences(reader.read(after, 1.0), Reader().read(after, 1.0))


def test_devices_are_found_by_name() -> None:
    """Whatever pool they are in, of whichever driver, and no others."""
    pools = [resource_slice(f"n{i}", [device(f"d{number}") for number in range(3 - i)]) for i in range(2)]
    shown = objects(node("n0"), node("n1"), pools, device_class(), pod("p0", "c0"), claim("c0", exactly(1)))
    table = Reader().read(shown, 0.0).devices.table  # type: ignore[union-attr]
    expected = {
        (pool.driver, pool.name, table.devices[number].name): number
        for pool in table.pools
        for number in range(pool.first, pool.last)
    }

    assert 5 == len(expected) == len(table.index)
    assert expected == dict(table.index)
    assert -1 == table.index.get((DRIVER, "n0", "d9"), -1) == table.index.get((DRIVER, "n9", "d0"), -1)
