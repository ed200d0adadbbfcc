"""RoleBasedGroups on the embedded cluster: the workloads of roles, and one gang of all where it is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.languages import RACK, nodes
from tests.support.workloads import expanded, group, pods, scheduled

from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.dialects import workloads
from tierwise.port import Key

WORLD = nodes({"s0": {"r0": "n0 n1", "r1": "n2 n3"}}, cpu=1)
ASKS: Raw = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
TEMPLATE: Raw = {"spec": ASKS}
GANG: Raw = {"rbg.workloads.x-k8s.io/group-gang-scheduling": "true"}
KIND = "rbg.workloads.x-k8s.io/role-workload-type"


def _group(*roles: Raw, marks: Raw | None = None, version: str = "v1alpha2", **spec: object) -> Raw:
    return {
        "apiVersion": f"workloads.x-k8s.io/{version}",
        "kind": "RoleBasedGroup",
        "metadata": {"name": "chat", "annotations": marks or {}},
        "spec": {"roles": list(roles), **spec},
    }


def _role(name: str, replicas: int = 1, **more: object) -> Raw:
    return {"name": name, "replicas": replicas, **(more or {"standalonePattern": {"template": TEMPLATE}})}


def _line(size: int, **more: object) -> Any:
    return {"leaderWorkerPattern": {"size": size, "template": TEMPLATE, **more}}


def test_instances_are_pods_of_the_group() -> None:
    """One, a leader with workers, or several components."""
    components: Any = [{"name": "a", "size": 2, "template": TEMPLATE}, {"name": "b", "template": TEMPLATE}]
    given = _group(
        _role("router"),
        _role("decode", 2, **_line(2)),
        _role("odd", customComponentsPattern={"components": components}),
    )

    lines = [f"chat-decode-{i}-{j}" for i in (0, 1) for j in (0, 1)]
    assert sorted(["chat-router-0", *lines, "chat-odd-0-a-0", "chat-odd-0-a-1", "chat-odd-0-b-0"]) == sorted(
        pods(given)
    )


def test_all_pods_are_a_gang_where_it_is_asked_for() -> None:
    """Else each starts by itself."""
    roles = [_role("prefill", 2), _role("decode", 1, **_line(3))]
    queue: Raw = {**GANG, "rbg.workloads.x-k8s.io/group-gang-scheduling-volcano-queue": "chats"}

    assert {"minMember": 5, "queue": "chats"} == group(expanded(_group(*roles, marks=queue)), "chat")
    assert {} == scheduled(*WORLD, _group(*roles, marks=GANG))
    assert 4 == len(scheduled(*WORLD, _group(*roles)))
    assert 4 == len(scheduled(*WORLD, _group(_role("prefill"), roles[1], marks=GANG)))


def test_a_role_says_what_holds_its_instances() -> None:
    """The pods of all of them are in the gang."""
    roles = [
        _role("web", 1, annotations={KIND: "apps/v1/Deployment"}, standalonePattern={"template": TEMPLATE}),
        _role("cache", 1, annotations={KIND: "apps/v1/StatefulSet"}, standalonePattern={"template": TEMPLATE}),
        _role("decode", 1, annotations={KIND: "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"}, **_line(2)),
    ]
    given = _group(*roles, marks=GANG)
    objects = expanded(given)

    for api_group, kind, role in (
        ("apps", "Deployment", "web"),
        ("apps", "StatefulSet", "cache"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "decode"),
    ):
        assert objects.raw(Key(api_group, kind, "default", f"chat-{role}")) is not None
    assert 4 == len(scheduled(*WORLD, given))
    assert {} == scheduled(*WORLD[:-1], given)


def test_a_role_changes_the_template_that_it_refers_to() -> None:
    """Containers merge by name, for leaders and workers apart."""
    more: Raw = {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "b"}]}]}}
    big: Raw = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]}}
    line = {"size": 2, "templateRef": {"name": "base", "patch": more}, "workerTemplatePatch": big}
    given = _group(_role("decode", leaderWorkerPattern=line), roleTemplates=[{"name": "base", "template": TEMPLATE}])

    made = expanded(given)
    specs: Any = [made.raw(Key("", "Pod", "default", f"chat-decode-0-{i}")) for i in (0, 1)]
    containers = [spec["spec"]["containers"] for spec in specs]
    assert [["1"], ["9"]] == [[one["resources"]["requests"]["cpu"] for one in found] for found in containers]
    assert all([{"name": "A", "value": "b"}] == found[0]["env"] for found in containers)
    with pytest.raises(InputError, match="there is no role template other"):
        workloads.check(_group(_role("x", standalonePattern={"templateRef": {"name": "other"}})))


def test_a_group_has_a_domain_of_its_own() -> None:
    """Another one keeps out of it."""
    apart: Raw = {"rbg.workloads.x-k8s.io/group-exclusive-topology": RACK}
    one = _group(_role("a"), _role("b"), marks=apart)
    other: Any = _group(_role("a"), marks=apart)
    other["metadata"]["name"] = "other"

    bound = scheduled(*WORLD, one, other)

    racks = {"n0": 0, "n1": 0, "n2": 1, "n3": 1}
    assert 3 == len(bound)
    assert 1 == len({racks[bound[name]] for name in ("chat-a-0", "chat-b-0")})
    assert racks[bound["other-a-0"]] != racks[bound["chat-a-0"]]


def test_the_first_version_has_fields_of_its_own() -> None:
    """A StatefulSet where nothing is said, and a policy for the group."""
    line: Raw = {"size": 2, "patchWorkerTemplate": {"metadata": {"labels": {"a": "b"}}}}
    own: Raw = {"apiVersion": "workloads.x-k8s.io/v1alpha1", "kind": "InstanceSet"}
    roles = [
        _role("web", 1, template=TEMPLATE),
        _role("decode", 1, template=TEMPLATE, leaderWorkerSet=line, workload=own),
    ]
    policy: Raw = {"kubeScheduling": {"scheduleTimeoutSeconds": 60}}
    given = _group(*roles, version="v1alpha1", podGroupPolicy=policy)
    objects = expanded(given)

    assert objects.raw(Key("apps", "StatefulSet", "default", "chat-web")) is not None
    assert {"minMember": 3, "scheduleTimeoutSeconds": 60} == group(objects, "chat", "scheduling.x-k8s.io")
    assert "b" == pods(given)["chat-decode-0-1"].metadata.labels["a"]
    assert 3 == len(scheduled(*WORLD, given))


@pytest.mark.parametrize(
    ("role", "field"),
    [
        (_role("a", engineRuntimes=[{"profileName": "p"}], standalonePattern={"template": TEMPLATE}), "engineRuntimes"),
        (_role("a", annotations={KIND: "apps/v1/Deployment"}, **_line(2)), "workload"),
        (_role("a", annotations={KIND: "b/v1/Odd"}, standalonePattern={"template": TEMPLATE}), "workload"),
        (_role("a", **_line(2, leaderTemplatePatch={"spec": {"$patch": "replace"}})), ""),
    ],
)
def test_what_is_not_read_makes_the_pods_wait(role: Raw, field: str) -> None:
    """All of the group, since one without it would not do."""
    given = _group(role, _role("b"))
    place = f"spec.roles[0].{field}".removesuffix(".")

    assert workloads.waits(given).startswith(f"{place}: ")
    assert {} == scheduled(*WORLD, given)
    marks = {pod.metadata.annotations["tierwise.io/unread-fields"] for pod in pods(given).values()}
    assert 2 <= len(pods(given))
    assert {place} == marks


@pytest.mark.parametrize("label", ["rbg.workloads.x-k8s.io/group-name", "rolebasedgroup.workloads.x-k8s.io/name"])
def test_nothing_is_made_where_the_controller_runs(label: str) -> None:
    """In either version."""
    whose = {
        "apiVersion": "workloads.x-k8s.io/v1alpha2",
        "kind": "RoleInstance",
        "name": "chat-a-0",
        "controller": True,
    }
    meta: Raw = {"name": "theirs", "namespace": "default", "labels": {label: "chat"}, "ownerReferences": [whose]}
    theirs: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": ASKS}

    assert ["theirs"] == list(pods(_group(_role("a", 3), marks=GANG), theirs))


def test_more_pods_than_an_object_may_have_are_refused() -> None:
    """Replicas times the size of an instance, of all roles together."""
    with pytest.raises(InputError, match=r"spec\.roles\[1\]\.replicas: makes 4000001 pods"):
        workloads.check(_group(_role("a"), _role("b", 2_000, **_line(2_000))))
