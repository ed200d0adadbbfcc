"""What the embedded cluster makes of workloads: their pods and pod groups, before anything is scheduled."""

from __future__ import annotations

import yaml
from tests.support.koordinator import objects_of

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.port import Key, Objects
from tierwise.sim.cluster import driver, rounds
from tierwise.sim.cluster.store import EmbeddedCluster

__all__ = ["expanded", "group", "manifests", "pods", "scheduled"]


def manifests(text: str) -> list[Raw]:
    """The documents of a text."""
    return [raw for raw in yaml.safe_load_all(text) if raw]


def expanded(*given: Raw) -> Objects:
    """All objects once the controllers have nothing more to do, and they have nothing to do then."""
    cluster = EmbeddedCluster(objects_of(list(given)))
    guard = driver.reconcile(cluster, 0.0)
    assert not guard.crashes
    version = cluster.read().version
    driver.reconcile(cluster, 0.0)
    assert version == cluster.read().version
    return cluster.read()


def pods(*given: Raw) -> dict[str, Pod]:
    """The pods among them by name."""
    return {pod.metadata.name: pod for pod in expanded(*given).every(Pod).values()}


def scheduled(*given: Raw) -> dict[str, str]:
    """Where pods are bound, by name."""
    from tierwise.config.profile import DEFAULT

    history = rounds.schedule(objects_of(list(given)), DEFAULT, now=0.0)
    return {path.partition("/")[2]: node for path, node in history.bindings.items()}


def group(objects: Objects, name: str, of: str = "scheduling.volcano.sh") -> Raw:
    """The spec of a pod group."""
    raw = objects.raw(Key(of, "PodGroup", "default", name))
    assert raw is not None, f"no PodGroup {name}"
    spec = raw["spec"]
    assert isinstance(spec, dict)
    return spec
