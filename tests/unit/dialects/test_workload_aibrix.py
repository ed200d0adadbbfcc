"""StormServices of AIBrix on the embedded cluster: RoleSets, their pods, and the groups that strategies ask for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.languages import RACK, nodes
from tests.support.workloads import expanded, group, pods, scheduled

from tierwise.api.codec import Raw, part
from tierwise.api.errors import InputError
from tierwise.dialects import workloads
from tierwise.port import Key

WORLD = nodes({"s0": {"r0": "n0 n1", "r1": "n2 n3"}}, cpu=1)
ASKS: Raw = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
VOLCANO = "volcanoSchedulingStrategy"


def _role(name: str, replicas: int = 1, **more: object) -> Raw:
    return {"name": name, "replicas": replicas, "template": {"spec": ASKS}, **more}


def _service(*roles: Raw, sets: int = 1, **spec: object) -> Raw:
    return {
        "apiVersion": "orchestration.aibrix.ai/v1alpha1",
        "kind": "StormService",
        "metadata": {"name": "chat"},
        "spec": {
            "replicas": sets,
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"roles": [*roles], **spec}},
        },
    }


def test_each_set_has_the_pods_of_its_roles() -> None:
    """Nothing is made twice when they are looked at again."""
    given = _service(_role("prefill"), _role("decode", 2, stateful=True), sets=2)

    assert ["default/chat-roleset-00001", "default/chat-roleset-00002"] == sorted(
        expanded(given).of_kind("orchestration.aibrix.ai", "RoleSet")
    )
    found = pods(given)
    assert 6 == len(found)
    labels = found["chat-roleset-00002-decode-00002"].metadata.labels
    assert ("chat", "1") == (
        labels["storm-service-name"],
        labels["stormservice.orchestration.aibrix.ai/role-replica-index"],
    )


def test_a_strategy_makes_a_gang_of_each_set() -> None:
    """Word for word, in the words of its scheduler."""
    roles = [_role("prefill", 1), _role("decode", 2)]
    given = _service(*roles, sets=2, schedulingStrategy={VOLCANO: {"minMember": 3, "queue": "default"}})

    assert {"minMember": 3, "queue": "default"} == group(expanded(given), "chat-roleset-00001")
    assert 3 == len(scheduled(*WORLD, given))
    other = _service(*roles, schedulingStrategy={"coschedulingSchedulingStrategy": {"minMember": 3}})
    assert {"minMember": 3} == group(expanded(other), "chat-roleset-00001", "scheduling.x-k8s.io")
    assert {} == scheduled(*WORLD[:-2], other)


def test_a_group_says_what_its_service_says() -> None:
    """Over the RoleSet, which is in between."""
    given: Any = _service(_role("a"), schedulingStrategy={VOLCANO: {"minMember": 1}})
    given["metadata"]["annotations"] = {"tierwise.io/expected-duration": "6h"}
    made = expanded(given).raw(Key("scheduling.volcano.sh", "PodGroup", "default", "chat-roleset-00001"))

    assert made is not None
    assert "6h" == part(part(made, "metadata"), "annotations")["tierwise.io/expected-duration"]


def test_a_role_with_a_size_makes_sets_of_pods() -> None:
    """Each is a gang by the strategy of its role."""
    own: Any = {VOLCANO: {"minMember": 3}}
    given = _service(_role("decode", 2, podGroupSize=3, schedulingStrategy=own))

    assert {"minMember": 3} == group(expanded(given), "chat-roleset-00001-decode-1")
    bound = scheduled(*WORLD, given)
    assert 3 == len(bound)
    assert 1 == len({name.rpartition("-")[0] for name in bound})


@pytest.mark.parametrize(("mode", "number"), [("Required", 2), ("Preferred", 3)])
def test_a_topology_keeps_the_pods_of_a_set_together(mode: str, number: int) -> None:
    """Where it is required, only as many start as a domain has room for."""
    policy: Raw = {"scope": "RoleSet", "mode": mode, "key": RACK}

    bound = scheduled(*WORLD, _service(_role("a"), _role("b", 2), topologyPolicy=policy))

    assert number == len(bound)


def test_another_scheduler_makes_the_pods_wait() -> None:
    """Its groups are not read."""
    given = _service(_role("a"), schedulingStrategy={"godelSchedulingStrategy": {"minMember": 1}})

    assert workloads.waits(given).startswith("spec.template.spec.schedulingStrategy.godelSchedulingStrategy: ")
    assert 1 == len(pods(given))
    assert {} == scheduled(*WORLD, given)


def test_nothing_is_made_where_the_controller_runs() -> None:
    """Its sets were left out of the input, or are there with pods of their own names."""
    kind = {"apiVersion": "orchestration.aibrix.ai/v1alpha1", "kind": "RoleSet"}
    whose = {**kind, "name": "chat-roleset-x2x4", "controller": True}
    labels = {"storm-service-name": "chat", "roleset-name": "chat-roleset-x2x4", "role-name": "a"}
    meta: Raw = {"name": "theirs", "namespace": "default", "labels": labels, "ownerReferences": [whose]}
    theirs: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": ASKS}
    given = _service(_role("a"))
    above = {**kind, "kind": "StormService", "name": "chat", "controller": True}
    body: Raw = {"name": "chat-roleset-x2x4", "namespace": "default", "labels": {"storm-service-name": "chat"}}
    role_set: Raw = {**kind, "metadata": {**body, "ownerReferences": [above]}, "spec": {"roles": [_role("a")]}}

    assert ["theirs"] == list(pods(given, theirs))
    assert ["theirs"] == list(pods(given, role_set, theirs))


def test_more_pods_than_an_object_may_have_are_refused() -> None:
    """Sets times replicas times sizes."""
    with pytest.raises(InputError, match=r"spec\.replicas: makes 6000000 pods"):
        workloads.check(_service(_role("a", 100, podGroupSize=3), sets=20_000))
