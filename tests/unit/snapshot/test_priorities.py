"""Priorities of pods without one of their own: by class, by the global default, and where the class is missing."""

from __future__ import annotations

import pytest
from tests.support.manifests import NOW, node, objects

from tierwise.api.codec import Raw
from tierwise.model.snapshot import Fault
from tierwise.snapshot.builder import build


def pod(class_name: str) -> Raw:
    """A pending pod of a class."""
    spec = {"schedulerName": "default-scheduler", "priorityClassName": class_name, "containers": [{"name": "main"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}


def priority_class(name: str, value: int, *, default: bool = False) -> Raw:
    """A class."""
    version = "scheduling.k8s.io/v1"
    return {
        "apiVersion": version,
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "globalDefault": default,
    }


def group(class_name: str) -> Raw:
    """A podGroup of a class."""
    version = "scheduling.volcano.sh/v1beta1"
    metadata = {"name": "g", "namespace": "default"}
    return {
        "apiVersion": version,
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"minMember": 1, "priorityClassName": class_name},
    }


def read(*raws: Raw) -> tuple[int, tuple[Fault, ...]]:
    """The priority of the one job, and what is told."""
    snapshot = build(objects(node("n0"), *raws), NOW)
    return snapshot.jobs[0].priority, snapshot.faults


@pytest.mark.parametrize(
    ("name", "value"), [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
)
def test_built_in_classes_need_not_be_given(name: str, value: int) -> None:
    """Every API server has them."""
    assert (value, ()) == read(pod(name))


def test_of_several_global_defaults_the_lowest_counts() -> None:
    """As in Kubernetes, whatever their order."""
    first, second = priority_class("a", 7, default=True), priority_class("b", 5, default=True)

    assert 5 == read(pod(""), first, second)[0]
    assert 5 == read(pod(""), second, first)[0]


@pytest.mark.parametrize("who", [pod, group])
def test_a_missing_class_is_told_of(who: object) -> None:
    """Who names it has the global default."""
    assert callable(who)

    priority, faults = read(who("gone"), priority_class("usual", 5, default=True))

    text = "it does not exist, so pods that name it have priority 5"
    assert (5, (Fault("PriorityClass gone", "PriorityClassNotFound", text),)) == (priority, faults)


@pytest.mark.parametrize("who", [pod, group])
def test_a_class_beyond_what_the_api_counts_is_its_limit(who: object) -> None:
    """However large a number a file gives."""
    assert callable(who)

    assert 2**31 == read(who("huge"), priority_class("huge", 10**15))[0]
