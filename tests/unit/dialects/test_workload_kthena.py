"""ModelServings of Kthena on the embedded cluster: serving groups of entries and workers, each of them a gang."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.languages import nodes
from tests.support.workloads import expanded, group, pods, scheduled

from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.dialects import workloads

WORLD = nodes({"s0": {"r0": "n0 n1", "r1": "n2 n3"}}, cpu=1)
ASKS: Raw = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}


def _role(name: str, replicas: int = 1, workers: int = 0) -> Raw:
    both: Raw = {"entryTemplate": {"spec": ASKS}, "workerReplicas": workers}
    return {"name": name, "replicas": replicas, **both, **({"workerTemplate": {"spec": ASKS}} if workers else {})}


def _serving(*roles: Raw, groups: int = 1, spec: Raw | None = None, **template: object) -> Raw:
    return {
        "apiVersion": "workload.serving.volcano.sh/v1alpha1",
        "kind": "ModelServing",
        "metadata": {"name": "chat", "annotations": {"scheduling.volcano.sh/queue-name": "chats"}},
        "spec": {"replicas": groups, "template": {"roles": list(roles), **template}, **(spec or {})},
    }


def test_a_serving_group_is_a_gang_of_its_roles() -> None:
    """An entry and its workers for each replica of a role; the group starts whole, and another one by itself."""
    given = _serving(_role("prefill"), _role("decode", 1, 1), groups=2)

    names = [f"chat-{i}-{end}" for i in (0, 1) for end in ("prefill-0-0", "decode-0-0", "decode-0-1")]
    assert sorted(names) == sorted(pods(given))
    found = group(expanded(given), "chat-1")
    assert (3, "chats") == (found["minMember"], found["queue"])
    assert {"chat-0"} == {name[:6] for name in scheduled(*_queue(), *WORLD, given)}
    assert 3 == len(scheduled(*_queue(), *WORLD, given))


def _queue() -> list[Raw]:
    queue: Raw = {"metadata": {"name": "chats"}, "spec": {}}
    return [{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", **queue}]


def test_some_replicas_of_a_role_may_be_enough() -> None:
    """Of those that start each is whole."""
    given = _serving(_role("prefill"), _role("decode", 3, 1), gangPolicy={"minRoleReplicas": {"decode": 1}})

    assert 3 == group(expanded(given), "chat-0")["minMember"]
    bound = scheduled(*_queue(), *WORLD, given)
    assert {"chat-0-prefill-0-0", "chat-0-decode-0-0", "chat-0-decode-0-1"} == set(bound)


def test_other_schedulers_get_no_group() -> None:
    """The pods name them, and are in no gang."""
    given = _serving(_role("a", 2), spec={"schedulerName": "default-scheduler"})

    assert {"default-scheduler"} == {pod.spec.scheduler_name for pod in pods(given).values()}
    assert not expanded(given).of_kind("scheduling.volcano.sh", "PodGroup")


def test_topologies_are_those_of_the_group_and_of_each_instance() -> None:
    """In Volcano's words, as they were given."""
    near: Raw = {"mode": "hard", "highestTierAllowed": 2}
    inner: Raw = {"mode": "hard", "highestTierAllowed": 1}
    given = _serving(_role("decode", 2, 1), networkTopology={"groupPolicy": near, "rolePolicy": inner})
    found: Any = group(expanded(given), "chat-0")

    assert near == found["networkTopology"]
    assert [("decode", 2, 2, inner)] == [
        (one["name"], one["subGroupSize"], one["minSubGroups"], one["networkTopology"])
        for one in found["subGroupPolicy"]
    ]


def test_a_plugin_that_changes_pods_makes_them_wait() -> None:
    """One that adds labels does not."""
    plugin: Raw = {"name": "demo-pod-tweaks", "type": "BuiltIn"}
    given = _serving(_role("a"), spec={"plugins": [plugin]})

    assert workloads.waits(given).startswith("spec.plugins[0]: ")
    assert {} == scheduled(*_queue(), *WORLD, given)
    assert "" == workloads.waits(_serving(_role("a"), spec={"plugins": [{**plugin, "name": "lws-standard-labels"}]}))


def test_nothing_is_made_where_the_controller_runs() -> None:
    """Its pods have the names that they would have here."""
    whose = {"apiVersion": "a.example.com/v1", "kind": "Other", "name": "x", "controller": True}
    labels = {"modelserving.volcano.sh/name": "chat"}
    meta: Raw = {"name": "theirs", "namespace": "default", "labels": labels, "ownerReferences": [whose]}
    theirs: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": ASKS}
    given = _serving(_role("a", 2))

    assert ["theirs"] == list(pods(given, theirs))
    owned = {**whose, "apiVersion": str(given["apiVersion"]), "kind": "ModelServing", "name": "chat"}
    own: Raw = {**theirs, "metadata": {**meta, "name": "chat-0-a-0-0", "ownerReferences": [owned]}}
    assert {"chat-0-a-0-0", "chat-0-a-1-0"} == set(pods(given, own))


def test_more_pods_than_an_object_may_have_are_refused() -> None:
    """Groups times replicas times the size of an instance."""
    with pytest.raises(InputError, match=r"spec\.replicas: makes 6000000 pods"):
        workloads.check(_serving(_role("a", 100, 2), groups=20_000))
