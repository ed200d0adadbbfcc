"""A served cluster for tests: the API without HTTP, and time that passes when a test says so."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

from tierwise.api import codec
from tierwise.apiserver.kinds import find
from tierwise.apiserver.life import life_of
from tierwise.apiserver.objects import Answer, ObjectApi, Place
from tierwise.apiserver.store import ServedCluster
from tierwise.config.profile import DEFAULT
from tierwise.port import Objects
from tierwise.sim.cluster.pod_behaviour import PodSpeed

__all__ = ["START", "Json", "Playground", "deployment", "nodes"]

Json = dict[str, Any]
START = 1_800_000_000.0
OWN_TIMING = PodSpeed()


def nodes(*names: str, cpu: str = "4") -> list[Json]:
    """Nodes that are ready."""
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    return [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status} for name in names]


def deployment(name: str = "web", replicas: int = 2, image: str = "nginx", **marks: str) -> Json:
    """A Deployment of small pods; `marks` are annotations of its pods."""
    labels = {"app": name}
    containers = [{"name": "main", "image": image, "resources": {"requests": {"cpu": "1"}}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": marks}, "spec": {"containers": containers}},
        },
    }


class Playground:
    """A cluster with these objects, and its clients' view of it."""

    def __init__(
        self,
        raws: Iterable[Json] = (),
        *,
        timing: PodSpeed = OWN_TIMING,
        window: int = 1000,
        events: int = 1000,
        real_time: bool = False,
    ) -> None:
        """With `real_time` the clock is the machine's, for clusters that live by it."""
        objects = Objects.of((codec.decode(raw), raw) for raw in raws)
        self.now = float(math.floor(time.time())) if real_time else START
        self.cluster = ServedCluster(objects, time.time if real_time else lambda: self.now, window, events)
        self.api = ObjectApi(self.cluster)
        self.simulation = life_of(self.cluster, DEFAULT, self.now, timing)

    def live(self, seconds: int = 3) -> None:
        """Let so many seconds pass, one after the other."""
        for _ in range(seconds):
            self.simulation.advance(self.now)
            self.now += 1
        self.simulation.advance(self.now)

    def place(self, path: str, name: str = "", namespace: str = "default") -> Place:
        """Where a kind is: "v1/pods", "apps/v1/deployments"."""
        version, _, plural = path.rpartition("/")
        group, _, version = version.rpartition("/")
        served = find(group, version, plural)
        assert served is not None, path
        return Place(served, version, namespace if served.namespaced else "", name)

    def create(self, path: str, raw: Json, **query: str) -> Json:
        return self.answer(path, raw, **query).body

    def answer(self, path: str, raw: Json, **query: str) -> Answer:
        """As `create`, with the warnings."""
        return self.api.create(self.place(path, namespace=raw["metadata"].get("namespace", "default")), raw, query)

    def get(self, path: str, name: str, namespace: str = "default") -> Json:
        return self.api.get(self.place(path, name, namespace))

    def list(self, path: str, namespace: str = "default", **query: str) -> Sequence[Json]:
        found: Any = self.api.list(self.place(path, namespace=namespace), query)["items"]
        listed: Sequence[Json] = found
        return listed

    def names(self, path: str, **query: str) -> Sequence[str]:
        return [item["metadata"]["name"] for item in self.list(path, **query)]

    def patch(self, path: str, name: str, patch: object, kind: str = ObjectApi.MERGE_PATCH, **query: str) -> Json:
        return self.api.patch(self.place(path, name), patch, kind, query).body

    def delete(self, path: str, name: str, **options: object) -> Json:
        return self.api.delete(self.place(path, name), options, {}).body
