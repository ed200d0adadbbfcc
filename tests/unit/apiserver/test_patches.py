"""Patches: what each kind of them makes of an object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.playground import Json, Playground, deployment

from tierwise.apiserver.failures import ApiFailure
from tierwise.apiserver.objects import ObjectApi
from tierwise.apiserver.patches import json_patch, merge_patch, strategic_patch

POD: Json = {
    "spec": {
        "containers": [{"name": "a", "image": "1", "ports": [{"containerPort": 80}]}, {"name": "b", "image": "1"}],
        "tolerations": [{"key": "x"}],
        "nodeSelector": {"zone": "z1"},
    }
}


def _strategic(spec: Json) -> Any:
    return strategic_patch(POD, {"spec": spec})["spec"]


def test_a_merge_patch_replaces_lists_and_removes_with_null() -> None:
    """RFC 7386, with its own examples in mind."""
    assert {"a": {"b": [2], "d": 1}} == merge_patch({"a": {"b": [1], "c": 1}}, {"a": {"b": [2], "c": None, "d": 1}})
    assert {"a": {"b": {}}} == merge_patch({"a": [1]}, {"a": {"b": {"c": None}}})


@pytest.mark.parametrize(
    ("operation", "after"),
    [
        ({"op": "add", "path": "/a/1", "value": 9}, {"a": [1, 9, 2], "b~/c": 3}),
        ({"op": "add", "path": "/a/-", "value": 9}, {"a": [1, 2, 9], "b~/c": 3}),
        ({"op": "replace", "path": "/b~0~1c", "value": 9}, {"a": [1, 2], "b~/c": 9}),
        ({"op": "remove", "path": "/a/0"}, {"a": [2], "b~/c": 3}),
        ({"op": "move", "from": "/a/0", "path": "/d"}, {"a": [2], "b~/c": 3, "d": 1}),
        ({"op": "copy", "from": "/a/0", "path": "/a/-"}, {"a": [1, 2, 1], "b~/c": 3}),
        ({"op": "test", "path": "/a/0", "value": 1}, {"a": [1, 2], "b~/c": 3}),
    ],
)
def test_a_json_patch_does_what_its_operation_says(operation: Json, after: Json) -> None:
    """RFC 6902."""
    assert after == json_patch({"a": [1, 2], "b~/c": 3}, [operation])


@pytest.mark.parametrize(("path", "changed"), [("/~01", "~1"), ("/~1", "/"), ("/~00", "~0")])
def test_what_an_escape_gives_is_no_escape(path: str, changed: str) -> None:
    """RFC 6901: a tilde that was written as ~0 is not read together with what follows it."""
    before = {"~1": 1, "/": 1, "~0": 1}

    assert {**before, changed: 9} == json_patch(before, [{"op": "replace", "path": path, "value": 9}])


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/x"},
        {"op": "replace", "path": "/a/7", "value": 1},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/a/3", "value": 1},
        {"op": "test", "path": "/a/0", "value": 2},
        {"op": "melt", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "replace", "path": "/a/²", "value": 1},
        {"op": "replace", "path": "/a/\u0660", "value": 1},
        {"op": "remove", "path": "/a/-1"},
        {"op": "add", "path": f"/a/{'9' * 5000}", "value": 1},
        7,
    ],
)
def test_a_json_patch_that_does_not_fit_is_refused(operation: object) -> None:
    """Nothing of it is done."""
    with pytest.raises(ApiFailure):
        json_patch({"a": [1, 2]}, [operation])


def test_a_strategic_patch_merges_lists_by_their_key() -> None:
    """Containers by name, ports within them by number; tolerations are replaced as a whole."""
    after = _strategic(
        {
            "containers": [{"name": "a", "image": "2", "ports": [{"containerPort": 81}]}, {"name": "c"}],
            "tolerations": [{"key": "y"}],
        }
    )

    assert ["a", "b", "c"] == [container["name"] for container in after["containers"]]
    assert "2" == after["containers"][0]["image"]
    assert [80, 81] == [port["containerPort"] for port in after["containers"][0]["ports"]]
    assert [{"key": "y"}] == after["tolerations"]


def test_a_strategic_patch_has_directives() -> None:
    """Items and maps are deleted or replaced, keys retained, and items put in order."""
    assert ["b"] == [c["name"] for c in _strategic({"containers": [{"name": "a", "$patch": "delete"}]})["containers"]]
    assert {"disk": "ssd"} == _strategic({"nodeSelector": {"$patch": "replace", "disk": "ssd"}})["nodeSelector"]
    assert {"tolerations"} == set(_strategic({"$retainKeys": ["tolerations"]}))
    ordered = _strategic({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]})["containers"]
    assert ["b", "a"] == [container["name"] for container in ordered]
    finalizers = strategic_patch({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]})
    assert {"finalizers": ["b"]} == finalizers
    assert ["a", "b", "c"] == strategic_patch({"finalizers": ["a", "b"]}, {"finalizers": ["b", "c"]})["finalizers"]


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        ("abc", "c", "abc"),  # what nobody names stays where it is
        ("abc", "ca", "bca"),  # b is before c
        ("abcd", "db", "acdb"),
        ("ab", "xb", "xab"),  # nothing came before x, which is new
        ("ab", "bx", "abx"),
    ],
)
def test_what_a_patch_does_not_order_stays_before_what_followed_it(before: str, patch: str, after: str) -> None:
    """As in Kubernetes: only the items of one owner are put in order, and others keep their places among them."""
    items = [{"name": letter} for letter in before]
    named: list[Json] = [{"name": letter} for letter in patch]
    patched = strategic_patch({"containers": items}, {"containers": named, "$setElementOrder/containers": named})
    assert [{"name": letter} for letter in after] == patched["containers"]


def test_taints_of_one_key_differ_in_their_effect() -> None:
    """As kubectl writes them."""
    node: Json = {"taints": [{"key": "k", "effect": "NoSchedule"}]}

    after: Json = strategic_patch(node, {"taints": [{"key": "k", "effect": "NoExecute"}]})

    assert ["NoSchedule", "NoExecute"] == [taint["effect"] for taint in after["taints"]]


def test_custom_resources_take_no_strategic_patch() -> None:
    """As on a real API server: nobody knows the keys of their lists."""
    ground = Playground()
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
    ground.create("scheduling.volcano.sh/v1beta1/queues", queue)

    with pytest.raises(ApiFailure) as refused:
        ground.patch("scheduling.volcano.sh/v1beta1/queues", "q", {"spec": {}}, ObjectApi.STRATEGIC_PATCH)

    assert 415 == refused.value.code


def _applied(ground: Playground, manager: str, *, force: str = "", **changes: object) -> Json:
    raw = deployment()
    raw["spec"] |= {name: value for name, value in changes.items() if value is not None}
    for name in [name for name, value in changes.items() if value is None]:
        raw["spec"].pop(name, None)
    query = {"fieldManager": manager} | ({"force": force} if force else {})
    return ground.patch("apps/v1/deployments", "web", raw, ObjectApi.APPLY, **query)


def test_apply_makes_changes_and_takes_back_what_its_manager_no_longer_says() -> None:
    """Fields that another writes stay, and so do those that nobody applied."""
    ground = Playground()

    first = _applied(ground, "a", minReadySeconds=5)
    ground.patch("apps/v1/deployments", "web", {"spec": {"paused": True}})
    second = _applied(ground, "a")

    assert (5, 2) == (first["spec"]["minReadySeconds"], first["spec"]["replicas"])
    assert "minReadySeconds" not in second["spec"]
    assert second["spec"]["paused"]


def test_applying_the_same_again_changes_nothing() -> None:
    """Not even the version."""
    ground = Playground()

    assert _applied(ground, "a") == _applied(ground, "a")


def test_another_managers_field_is_a_conflict_unless_it_is_forced() -> None:
    """The refusal names manager and field; force takes the field over, and what is shared stays with who says it."""
    ground = Playground()
    _applied(ground, "a", replicas=2)

    with pytest.raises(ApiFailure) as refused:
        _applied(ground, "b", replicas=3)
    forced = _applied(ground, "b", force="true", replicas=3)
    left = _applied(ground, "a", replicas=None)

    assert 'Apply failed with 1 conflict: conflict with "a": .spec.replicas' == refused.value.message
    assert (3, 3) == (forced["spec"]["replicas"], left["spec"]["replicas"])


def test_an_item_of_a_list_goes_when_its_manager_no_longer_names_it() -> None:
    """Containers are told apart by name."""
    ground = Playground()
    raw = deployment()
    containers = raw["spec"]["template"]["spec"]["containers"]
    containers.append({"name": "sidecar", "image": "proxy"})
    ground.patch("apps/v1/deployments", "web", raw, ObjectApi.APPLY, fieldManager="a")

    containers.pop()
    after = ground.patch("apps/v1/deployments", "web", raw, ObjectApi.APPLY, fieldManager="a")

    assert ["main"] == [one["name"] for one in after["spec"]["template"]["spec"]["containers"]]


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"$patch": "merge"}},
        {"nodeSelector": {"$patch": None}},
        {"containers": [{"name": "a", "$patch": "remove"}]},
        {"containers": [{"name": "a", "resources": {"$patch": ["delete"]}}]},
        {"tolerations": [{"key": "x", "$patch": "delete"}]},
        {"$retainKeys": "tolerations"},
        {"$setElementOrder/containers": {"name": "a"}},
        {"$deleteFromPrimitiveList/finalizers": "a"},
        {"$retainKeys": ["tolerations"], "nodeSelector": {"zone": "z2"}},
    ],
)
def test_a_directive_that_says_nothing_known_is_refused(spec: Json) -> None:
    """Nothing is done, rather than something else than was meant."""
    with pytest.raises(ApiFailure) as refused:
        _strategic(spec)

    assert refused.value.code in (400, 422)


@pytest.mark.parametrize(
    ("patch", "kind"),
    [
        ({"metadata": None}, ObjectApi.MERGE_PATCH),
        ({"metadata": "web"}, ObjectApi.MERGE_PATCH),
        ({"metadata": {"name": None}}, ObjectApi.MERGE_PATCH),
        ({"metadata": None}, ObjectApi.STRATEGIC_PATCH),
        ({"metadata": {"$patch": "delete"}}, ObjectApi.STRATEGIC_PATCH),
        ({"metadata": {"$patch": "replace", "labels": {"a": "b"}}}, ObjectApi.STRATEGIC_PATCH),
        ({"$patch": "delete"}, ObjectApi.STRATEGIC_PATCH),
        ([{"op": "remove", "path": "/metadata"}], ObjectApi.JSON_PATCH),
        ([{"op": "replace", "path": "/metadata", "value": None}], ObjectApi.JSON_PATCH),
        ([{"op": "remove", "path": "/metadata/name"}], ObjectApi.JSON_PATCH),
    ],
)
def test_a_patch_leaves_an_object_its_name(patch: Any, kind: str) -> None:
    """As in Kubernetes, where the name of an object cannot be changed."""
    ground = Playground()
    ground.create("apps/v1/deployments", deployment())

    with pytest.raises(ApiFailure) as refused:
        ground.patch("apps/v1/deployments", "web", patch, kind)

    assert 422 == refused.value.code


# -- who wrote what


def _owned(raw: Json) -> dict[str, list[str]]:
    """By manager and operation, the fields at the top of the spec."""
    entries = raw["metadata"].get("managedFields", [])
    return {
        " ".join([entry["manager"], entry["operation"], entry.get("subresource", "")]).strip(): sorted(
            name.removeprefix("f:") for name in entry["fieldsV1"].get("f:spec", {})
        )
        for entry in entries
    }


def _spec(**changes: object) -> Json:
    return {"spec": changes}


def test_who_writes_owns_what_it_changes() -> None:
    """Whoever creates owns all, a patch what it changes, and who is not named is known by its program."""
    ground = Playground()
    ground.create("apps/v1/deployments", deployment(), fieldManager="maker")
    ground.patch("apps/v1/deployments", "web", _spec(paused=True, replicas=2), fieldManager="changer")
    by_scale = {"user-agent": "scaler"}
    ground.api.rescale(ground.place("apps/v1/deployments", "web"), lambda scale: scale | _spec(replicas=5), by_scale)

    assert {
        "maker Update": ["selector", "template"],
        "changer Update": ["paused"],
        "scaler Update scale": ["replicas"],
    } == _owned(ground.get("apps/v1/deployments", "web"))


def test_what_was_written_in_another_way_is_a_conflict_too() -> None:
    """In the words of an API server, one line for one field and a list for several."""
    ground = Playground()
    ground.create("apps/v1/deployments", deployment(), fieldManager="maker")
    scale = {"fieldManager": "kubectl"}
    ground.api.rescale(ground.place("apps/v1/deployments", "web"), lambda found: found | _spec(replicas=5), scale)

    with pytest.raises(ApiFailure) as one:
        _applied(ground, "b", replicas=3)
    raw = deployment(image="other")
    with pytest.raises(ApiFailure) as several:
        ground.patch("apps/v1/deployments", "web", raw, ObjectApi.APPLY, fieldManager="b")
    forced = _applied(ground, "b", force="true", replicas=3)

    by_scale = '"kubectl" with subresource "scale" using apps/v1'
    image = '.spec.template.spec.containers[name="main"].image'
    assert f"Apply failed with 1 conflict: conflict with {by_scale}: .spec.replicas" == one.value.message
    assert (
        f"Apply failed with 2 conflicts: conflicts with {by_scale}:\n- .spec.replicas\n"
        f'conflicts with "maker" using apps/v1:\n- {image}'
    ) == several.value.message
    assert [".spec.replicas", image] == [cause["field"] for cause in (several.value.details or {})["causes"]]  # type: ignore[attr-defined]
    assert 3 == forced["spec"]["replicas"]
    assert "kubectl Update scale" not in _owned(forced)


def test_what_is_equal_is_no_conflict_however_it_is_written() -> None:
    """A quantity in another spelling is the same."""
    ground = Playground()
    ground.create("apps/v1/deployments", deployment(), fieldManager="maker")
    raw = deployment()
    raw["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1000m"

    ground.patch("apps/v1/deployments", "web", raw, ObjectApi.APPLY, fieldManager="b")


def test_kubectl_takes_over_what_it_applied_at_the_client() -> None:
    """As long as nobody has changed it since: the object remembers what was applied. Others are refused."""
    ground = Playground()
    raw = deployment(replicas=2)
    raw["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(deployment())}
    ground.create("apps/v1/deployments", raw, fieldManager="kubectl-client-side-apply")

    with pytest.raises(ApiFailure, match='"kubectl-client-side-apply" using apps/v1'):
        _applied(ground, "other", replicas=3)
    assert 3 == _applied(ground, "kubectl", replicas=3)["spec"]["replicas"]
    ground.patch("apps/v1/deployments", "web", _spec(replicas=9), fieldManager="someone")
    with pytest.raises(ApiFailure, match="someone"):
        _applied(ground, "kubectl", replicas=4)


def test_a_client_may_write_the_owners_itself() -> None:
    """As kubectl does when it goes over to applying at the server; an empty entry lets nobody own anything."""
    ground = Playground()
    made = ground.create("apps/v1/deployments", deployment(), fieldManager="maker")
    entries = [{**entry, "operation": "Apply", "manager": "kubectl"} for entry in made["metadata"]["managedFields"]]
    where = {"op": "replace", "path": "/metadata/managedFields"}
    changed = ground.patch("apps/v1/deployments", "web", [{**where, "value": entries}], ObjectApi.JSON_PATCH)
    emptied = ground.patch("apps/v1/deployments", "web", [{**where, "value": [{}]}], ObjectApi.JSON_PATCH)

    assert ["kubectl Apply"] == list(_owned(changed))
    assert {} == _owned(emptied)


def test_no_more_than_ten_writers_are_told_apart() -> None:
    """The oldest become one."""
    ground = Playground()
    ground.create("v1/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}})
    for number in range(20):
        ground.patch("v1/configmaps", "c", {"data": {f"k{number}": "v"}}, fieldManager=f"m{number}")

    managers = [entry["manager"] for entry in ground.get("v1/configmaps", "c")["metadata"]["managedFields"]]
    assert ["ancient-changes", *(f"m{number}" for number in range(11, 20))] == managers


def test_an_object_that_is_too_large_to_look_through_is_written_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a note of who owns what."""
    monkeypatch.setattr("tierwise.apiserver.failures._MOST_STEPS", 5)
    ground = Playground()

    made = ground.create("apps/v1/deployments", deployment(), fieldManager="maker")

    assert {} == _owned(made)
