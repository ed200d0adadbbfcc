"""A fake API server, a client of it, and a loop that turns when a test says so, at times that it chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.contract.fake_api import GANGS, FakeApi, Json
from tests.contract.waiting import eventually

from tierwise.api.codec import Object
from tierwise.api.core import Node, Pod
from tierwise.api.koordinator import PodGroup as Gang
from tierwise.api.volcano import PodGroup
from tierwise.config.profile import DEFAULT
from tierwise.kube.cluster import KubeCluster
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import SchedulerProfile

__all__ = ["START", "World", "WrittenLoop"]

START = 1_800_000_000.0


class WrittenLoop(Loop):
    """A loop each of whose turns ends when all that it told is written."""

    def __init__(self, cluster: KubeCluster, *rest: Any, **more: Any) -> None:
        super().__init__(cluster, *rest, **more)
        self._written = cluster

    def run_once(self) -> None:
        super().run_once()
        assert self._written.flush(60.0)


class World:
    """One process of tierwise before one server."""

    def __init__(self, api: FakeApi, cluster: KubeCluster, names: Sequence[str] = ("tierwise",)) -> None:
        self.api = api
        self.cluster = cluster
        self.now = START
        scheduler = SchedulerProfile(frozenset(names), DEFAULT)
        self.loop = WrittenLoop(cluster, [scheduler], clock=lambda: self.now, ticks=lambda: self.now)

    def put(self, *manifests: Json) -> None:
        """Objects that the client knows of as they are now when this returns."""
        self.api.put(*manifests)
        self.catch_up()

    def catch_up(self) -> None:
        """Return when the client knows everything that the server holds."""
        assert eventually(self.cluster, lambda: self._shown() <= self._known())

    def _shown(self) -> set[tuple[str, str]]:
        tables = ("nodes", "pods", "podgroups", GANGS)
        return {_version(found["metadata"]) for table in tables for found in self.api.all(table)}

    def _known(self) -> set[tuple[str, str]]:
        objects = self.cluster.read()
        kinds: tuple[type[Object], ...] = (Node, Pod, PodGroup, Gang)
        records = (record for kind in kinds for record in objects.every(kind).values())
        return {(record.metadata.name, record.metadata.resource_version) for record in records}

    def turn(self, after: float = 0.0) -> int:
        """Let some time pass, then a turn; how many pods have a node afterwards."""
        self.now += after
        self.loop.run_once()
        return sum(bool(found["spec"].get("nodeName")) for found in self.api.all("pods"))

    def marks(self, mark: str) -> list[str]:
        """Who has a mark."""
        every = [*self.api.all("podgroups"), *self.api.all(GANGS)]
        return [g["metadata"]["name"] for g in every if g["metadata"].get("annotations", {}).get(mark)]


def _version(meta: Json) -> tuple[str, str]:
    return meta["name"], meta["resourceVersion"]
