"""Two executors of one defragmentation that do not see each other's writes: one of them goes on, once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from tests.contract.fake_api import FakeApi
from tests.contract.waiting import eventually
from tests.support.defrag import owned
from tests.support.draw import draw, gang, objects_of

from tierwise.api.defrag_record import OBSERVED, RECORD_NAME, DefragRecord, MovePhase, record_manifest
from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.port import Key
from tierwise.runtime.defrag import DefragExecutor

NOW = 1.8e9
ROOM = "nvidia.com/gpu=4x2@1"
NAMESPACE = "kube-system"


class _World:
    """Three racks of which none is free, and two clients of the server."""

    def __init__(self, api: FakeApi, stack: ExitStack) -> None:
        self.api = api
        a = gang("a", tasks=2, each="gpu=2", within=1, on="n0 n1")
        b = gang("b", tasks=2, each="gpu=3", within=1, on="n2 n3")
        tree = draw("s0[r0[n0 n1] r1[n2 n3] r2[n4 n5]]", node="gpu=4")
        objects = owned(objects_of(tree, a, b, gang("c", tasks=1, each="gpu=2", on="n4")))
        api.put(*(dict(objects.raw(key) or {}) for key in objects))
        self.clusters = [stack.enter_context(KubeCluster(Access(api.url))) for _ in range(2)]
        assert all(cluster.synced(timeout=60) for cluster in self.clusters)

    def executors(self, *names: str) -> list[DefragExecutor]:
        return [
            DefragExecutor(cluster, DEFAULT, namespace=NAMESPACE, by=name, clock=lambda: NOW)
            for cluster, name in zip(self.clusters, names, strict=True)
        ]

    def put(self, record: DefragRecord, seen: int = 0) -> None:
        """A record that both know of."""
        raw: Any = record_manifest(record, NAMESPACE)
        raw["metadata"]["annotations"] = {OBSERVED: str(seen)}
        self.api.put(raw)
        version = self.api.get("configmaps", RECORD_NAME, NAMESPACE)["metadata"]["resourceVersion"]
        key = Key("", "ConfigMap", NAMESPACE, RECORD_NAME)

        def known(cluster: KubeCluster) -> bool:
            found = cluster.read().record(key)
            return found is not None and version == found.metadata.resource_version

        for cluster in self.clusters:
            assert eventually(cluster, partial(known, cluster))

    def written(self) -> str:
        return str(self.api.get("configmaps", RECORD_NAME, NAMESPACE)["data"])

    def evicted(self) -> int:
        return sum(request.endswith("/eviction") for request in self.api.requests)


@pytest.fixture
def world() -> Iterator[_World]:
    """A server with a cluster in which one pod has to move."""
    with FakeApi() as api, ExitStack() as stack:
        yield _World(api, stack)


@pytest.mark.parametrize("before", [None, DefragRecord(ROOM, MovePhase.DONE, revision=3, by="x")], ids=["new", "next"])
def test_of_two_that_begin_at_once_one_does(world: _World, before: DefragRecord | None) -> None:
    """Who was slower hears that the record cannot be written, and leaves that of the other as it is."""
    if before is not None:
        world.put(before)
    first, second = world.executors("first", "second")
    world.api.mute_watches()
    first.begin(ROOM, step_seconds=60)
    written = world.written()

    with pytest.raises(InputError, match="cannot be written"):
        second.begin(ROOM, step_seconds=60)
    assert '"by":"first"' in written
    assert written == world.written()


def test_of_two_that_go_on_at_once_one_evicts(world: _World) -> None:
    """The step of the slower one is refused before it has evicted anything, and it says so."""
    first, second = world.executors("same", "same")
    record, _ = first.begin(ROOM, step_seconds=60)
    world.put(record, seen=record.revision)
    world.api.mute_watches()
    moving = first.step()
    behind = second.step()

    assert moving is not None
    assert (MovePhase.MOVING, record, 0) == (moving.phase, behind, world.evicted())
    assert second.refused
    assert ((), True) == (first.refused, first.step() is not None)
    assert 1 == world.evicted()


def test_who_was_replaced_does_nothing_more(world: _World) -> None:
    """An executor whose execution somebody else has taken over, and that has heard of it, leaves it alone."""
    first, second = world.executors("first", "second")
    record, _ = first.begin(ROOM, step_seconds=60)
    world.put(record, seen=record.revision)
    second.take_over()
    assert eventually(world.clusters[0], lambda: getattr(first.record(), "by", "") == "second")

    assert (None, 0) == (first.step(), world.evicted())
    with pytest.raises(InputError, match="under way"):
        first.begin(ROOM, step_seconds=60)


def test_who_takes_over_what_has_changed_since_does_not(world: _World) -> None:
    """Two that take over at once: the record is the first one's."""
    record, _ = world.executors("gone", "")[0].begin(ROOM, step_seconds=60)
    world.put(record)
    first, second = world.executors("first", "second")
    world.api.mute_watches()
    first.take_over()

    with pytest.raises(InputError, match="cannot be written"):
        second.take_over()
    assert '"by":"first"' in world.written()


def test_who_was_replaced_amid_a_move_and_has_not_heard_of_it_evicts_nobody(world: _World) -> None:
    """The record that it evicts by is an old one, and the server says so before a pod goes."""
    first, second = world.executors("first", "second")
    record, _ = first.begin(ROOM, step_seconds=60)
    world.put(record, seen=record.revision)
    moving = first.step()
    assert moving is not None
    world.put(moving, seen=record.revision)
    world.api.mute_watches()
    second.take_over()

    assert (moving, 0) == (first.step(), world.evicted())
    assert first.refused
