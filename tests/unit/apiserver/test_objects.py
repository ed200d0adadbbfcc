"""The verbs on objects: versions, conflicts, what is kept, what is refused, and in which words."""

from __future__ import annotations

import pytest
from tests.support.playground import Json, Playground, deployment, nodes

from tierwise.apiserver.failures import ApiFailure
from tierwise.apiserver.kinds import KINDS
from tierwise.apiserver.objects import ObjectApi
from tierwise.port import Key, RecordEvent


def _pod(name: str = "p", **spec: object) -> Json:
    containers = [{"name": "main", "image": "nginx"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def _map(name: str = "cm", **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_a_manifest_comes_back_as_it_was_written() -> None:
    """Fields that tierwise does not know are kept, in the order of the author."""
    ground = Playground()
    raw = _pod(dnsPolicy="None", dnsConfig={"nameservers": ["1.1.1.1"]})

    ground.create("v1/pods", raw)
    found = ground.get("v1/pods", "p")

    assert raw["spec"] == {field: found["spec"][field] for field in raw["spec"]}
    assert {"phase": "Pending"} == found["status"]
    assert ("p", "default") == (found["metadata"]["name"], found["metadata"]["namespace"])


def test_clients_see_what_an_api_server_adds() -> None:
    """Strategies, types and contexts that commands of kubectl count on; what is kept is what was written."""
    ground = Playground()
    made = ground.create("apps/v1/deployments", deployment())
    ground.create("v1/secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "labels": {}}})
    pod = ground.create("v1/pods", _pod())
    shown = ground.get("v1/secrets", "s")
    ground.api.update(ground.place("v1/pods", "p"), pod, {})  # what was read can be written

    assert "RollingUpdate" == made["spec"]["strategy"]["type"]
    assert "Opaque" == shown["type"]
    assert "labels" not in shown["metadata"]
    assert {} == pod["spec"]["securityContext"]
    kept = ground.cluster.raw(Key("apps", "Deployment", "default", "web"))
    assert kept is not None
    assert deployment()["spec"] == kept["spec"]


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_a_delete_with_a_precondition_is_about_that_very_object(field: str) -> None:
    """One that was made anew, or changed since it was read, stays."""
    ground = Playground()
    read = ground.create("v1/configmaps", _map(a="1"))["metadata"]
    meant = {"preconditions": {field: read[field]}}
    ground.delete("v1/configmaps", "cm")
    again = ground.create("v1/configmaps", _map(a="2"))["metadata"]

    with pytest.raises(ApiFailure) as refused:
        ground.delete("v1/configmaps", "cm", **meant)

    assert (409, "2") == (refused.value.code, ground.get("v1/configmaps", "cm")["data"]["a"])
    ground.delete("v1/configmaps", "cm", preconditions={field: again[field]})
    with pytest.raises(ApiFailure, match="not found"):
        ground.get("v1/configmaps", "cm")


def test_every_change_has_a_version_and_only_the_spec_counts_as_a_generation() -> None:
    """A write that changes nothing leaves the version; labels change it, and the spec the generation, too."""
    ground = Playground()
    first = ground.create("apps/v1/deployments", deployment())

    same = ground.patch("apps/v1/deployments", "web", {"spec": {"replicas": 2}})
    labelled = ground.patch("apps/v1/deployments", "web", {"metadata": {"labels": {"a": "b"}}})
    scaled = ground.patch("apps/v1/deployments", "web", {"spec": {"replicas": 3}})

    versions = [int(raw["metadata"]["resourceVersion"]) for raw in (first, same, labelled, scaled)]
    assert versions[0] == versions[1] < versions[2] < versions[3]
    assert [1, 1, 1, 2] == [raw["metadata"]["generation"] for raw in (first, same, labelled, scaled)]
    assert 1 == len({raw["metadata"]["uid"] for raw in (first, same, labelled, scaled)})


def test_a_write_on_an_old_version_is_a_conflict() -> None:
    """Who has not seen the last change writes nothing."""
    ground = Playground()
    seen = ground.create("v1/configmaps", _map(a="1"))
    ground.patch("v1/configmaps", "cm", {"data": {"a": "2"}})

    with pytest.raises(ApiFailure) as refused:
        ground.api.update(ground.place("v1/configmaps", "cm"), seen, {})

    assert (409, "Conflict") == (refused.value.code, refused.value.reason)
    assert {"a": "2"} == ground.get("v1/configmaps", "cm")["data"]


@pytest.mark.parametrize(
    ("path", "raw", "code", "words"),
    [
        ("v1/configmaps", _map() | {"metadata": {"name": "cm", "namespace": "no"}}, 404, 'namespaces "no" not found'),
        ("v1/configmaps", _map() | {"metadata": {}}, 422, "name or generateName is required"),
        ("v1/configmaps", _map("Not_A_Name"), 422, 'metadata.name: Invalid value: "Not_A_Name"'),
        ("v1/configmaps", _map("a" * 254), 422, "metadata.name: Invalid value"),
        ("v1/configmaps", _map("a..b"), 422, "metadata.name: Invalid value"),
        ("v1/pods", _pod(container=[]), 400, 'unknown field "spec.container" (did you mean containers?)'),
        ("apps/v1/deployments", deployment() | {"spek": {}}, 400, 'unknown field "spek"'),
        ("v1/pods", _map(), 400, "does not match the expected v1 Pod"),
        ("v1/pods", _pod() | {"apiVersion": "v2"}, 400, "v2 Pod in the data does not match the expected v1 Pod"),
        ("v1/pods", _pod(priority="high"), 422, "spec.priority: expected an integer, got a string"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_place_and_the_reason(
    path: str, raw: Json, code: int, words: str
) -> None:
    """As kubectl asks for it: strictly."""
    with pytest.raises(ApiFailure) as refused:
        Playground().create(path, raw, fieldValidation="Strict")

    assert code == refused.value.code
    assert words in refused.value.message


def test_unknown_fields_are_told_where_the_client_asks_for_no_more() -> None:
    """And they are kept."""
    answer = Playground().answer("v1/pods", _pod(container=[]))
    kept: Json = answer.body

    assert ['unknown field "spec.container" (did you mean containers?)'] == list(answer.warnings)
    assert [] == kept["spec"]["container"]


def test_admission_judges_and_completes_custom_resources() -> None:
    """The webhook's own checks: a queue gets its defaults, and one that makes no sense is refused."""
    ground = Playground()
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}

    kept = ground.create("scheduling.volcano.sh/v1beta1/queues", queue)
    with pytest.raises(ApiFailure) as refused:
        ground.patch("scheduling.volcano.sh/v1beta1/queues", "q", {"spec": {"weight": -1}})

    assert {"weight": 1, "reclaimable": True} == kept["spec"]
    assert 'admission webhook "tierwise" denied the request: spec.weight' in refused.value.message


def _shown_by_kubectl(failure: ApiFailure) -> str:
    """What kubectl prints of an answer with the reason Invalid: with details, their causes alone."""
    status: Json = failure.wire()
    details = status.get("details")
    if details is None:
        return f"The request is invalid: {status['message']}"
    head = f'The {details["kind"]} "{details["name"]}" is invalid'
    return "\n".join([head, *(f"* {cause['field']}: {cause['message']}" for cause in details.get("causes", ()))])


VOLCANO = "scheduling.volcano.sh/v1beta1"


@pytest.mark.parametrize(
    ("path", "raw", "words"),
    [
        (f"{VOLCANO}/queues", {"kind": "Queue", "spec": {"weight": -1}}, "* spec.weight: "),
        (f"{VOLCANO}/podgroups", {"kind": "PodGroup", "spec": {"minMember": -1}}, "* spec.minMember: "),
        (
            "batch.volcano.sh/v1alpha1/jobs",
            {"kind": "Job", "spec": {"minAvailable": 3, "tasks": []}},
            "* spec.tasks: at least one task is needed",
        ),
        ("v1/pods", {"kind": "Pod", "spec": {"priority": "high"}}, "* spec.priority: expected an integer"),
        ("v1/configmaps", {"kind": "ConfigMap", "metadata": {"name": "No_Name"}}, "* metadata.name: Invalid value"),
    ],
)
def test_kubectl_prints_why_an_object_is_invalid(path: str, raw: Json, words: str) -> None:
    """Whoever refused it: a check of the server, the codec or the webhook."""
    with pytest.raises(ApiFailure) as refused:
        Playground().create(path, {"apiVersion": path.rpartition("/")[0], "metadata": {"name": "x"}, **raw})

    assert "Invalid" == refused.value.reason
    assert words in _shown_by_kubectl(refused.value)


def test_a_dry_run_answers_and_writes_nothing() -> None:
    """With the version that the object would have had."""
    ground = Playground()
    version = ground.cluster.version

    shown = ground.create("v1/configmaps", _map(), dryRun="All")

    assert "cm" == shown["metadata"]["name"]
    assert version == ground.cluster.version
    assert [] == ground.names("v1/configmaps")


def test_status_is_written_at_its_own_path_alone() -> None:
    """Elsewhere it stays, and there nothing else changes."""
    ground = Playground(nodes("n0"))
    before = ground.get("v1/nodes", "n0")

    ground.patch("v1/nodes", "n0", {"status": {"allocatable": {"cpu": "1"}}, "spec": {"unschedulable": True}})
    main = ground.get("v1/nodes", "n0")
    place = ground.place("v1/nodes", "n0")
    ground.api.patch(place, {"status": {"x": 1}, "spec": {"y": 1}}, ObjectApi.MERGE_PATCH, {}, "status")
    after = ground.get("v1/nodes", "n0")

    assert (before["status"], True) == (main["status"], main["spec"]["unschedulable"])
    assert (1, main["spec"]) == (after["status"]["x"], after["spec"])


def test_most_of_a_pod_stays_as_it_was_made() -> None:
    """Its image may change, and its resources may not."""
    ground = Playground()
    ground.create("v1/pods", _pod())
    image = {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}

    ground.patch("v1/pods", "p", image, ObjectApi.STRATEGIC_PATCH)
    with pytest.raises(ApiFailure) as refused:
        ground.patch("v1/pods", "p", {"spec": {"nodeName": "n0"}})

    assert "nginx:2" == ground.get("v1/pods", "p")["spec"]["containers"][0]["image"]
    assert (422, "Invalid") == (refused.value.code, refused.value.reason)


def test_lists_come_in_pages_of_one_moment() -> None:
    """A page that was begun goes on as it was, whatever is written meanwhile; a token is good once."""
    ground = Playground()
    for name in ("a", "b", "c"):
        ground.create("v1/configmaps", _map(name))
    place = ground.place("v1/configmaps")

    first: Json = ground.api.list(place, {"limit": "2"})
    token = first["metadata"]["continue"]
    ground.delete("v1/configmaps", "c")
    second: Json = ground.api.list(place, {"limit": "2", "continue": token})

    assert ["c"] == [item["metadata"]["name"] for item in second["items"]]
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    with pytest.raises(ApiFailure) as refused:
        ground.api.list(place, {"continue": token})
    assert (410, "Expired") == (refused.value.code, refused.value.reason)


def test_a_part_of_a_dry_run_is_refused() -> None:
    """And nothing is made or deleted, as the client believes that it is only trying."""
    ground = Playground()
    ground.create("v1/configmaps", _map())
    with pytest.raises(ApiFailure) as made:
        ground.create("v1/configmaps", _map("other"), dryRun="Some")
    with pytest.raises(ApiFailure) as gone:
        ground.api.delete(ground.place("v1/configmaps", "cm"), {"dryRun": ["Some"]}, {})

    assert [400, 400] == [made.value.code, gone.value.code]
    assert "cm" in ground.names("v1/configmaps")
    assert "other" not in ground.names("v1/configmaps")


def test_an_object_is_applied_under_its_own_name() -> None:
    """Where the path has another name, nothing is made under either."""
    ground = Playground()
    place = ground.place("v1/configmaps", "here")
    with pytest.raises(ApiFailure) as refused:
        ground.api.patch(place, _map("there"), ground.api.APPLY, {"fieldManager": "me"})

    assert 400 == refused.value.code
    assert not {"here", "there"} & set(ground.names("v1/configmaps"))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"labelSelector": "app=web"}, ["a", "b"]),
        ({"labelSelector": "app==web,tier!=db"}, ["b"]),
        ({"labelSelector": "tier in (db, cache)"}, ["a", "c"]),
        ({"labelSelector": "tier notin (db)"}, ["b", "c"]),
        ({"labelSelector": "!tier"}, ["b"]),
        ({"labelSelector": "tier"}, ["a", "c"]),
        ({"fieldSelector": "metadata.name=c"}, ["c"]),
        ({"fieldSelector": "status.phase!=Running", "labelSelector": "app"}, ["a", "b"]),
    ],
)
def test_selectors_choose(query: dict[str, str], found: list[str]) -> None:
    """In the words of requests."""
    ground = Playground()
    for name, labels in {"a": {"app": "web", "tier": "db"}, "b": {"app": "web"}, "c": {"tier": "cache"}}.items():
        ground.create("v1/pods", _pod(name) | {"metadata": {"name": name, "labels": labels}})

    assert found == ground.names("v1/pods", **query)


@pytest.mark.parametrize(("asked", "found"), [("=false", ["b"]), ("==true", ["a"]), ("!=true", ["b"])])
def test_a_flag_that_is_not_set_is_false(asked: str, found: list[str]) -> None:
    """Nodes that nobody has cordoned are found by their flag as those are that somebody has."""
    ground = Playground()
    for name, spec in {"a": {"unschedulable": True}, "b": {}}.items():
        ground.create("v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec})

    assert found == [
        name for name in ground.names("v1/nodes", fieldSelector=f"spec.unschedulable{asked}") if name in "ab"
    ]


@pytest.mark.parametrize(
    "query",
    [{"labelSelector": "a=(b"}, {"labelSelector": "a===b"}, {"fieldSelector": "spec.image=x"}, {"limit": "many"}],
)
def test_a_selector_that_cannot_be_read_is_refused(query: dict[str, str]) -> None:
    """And does not choose everything."""
    with pytest.raises(ApiFailure) as refused:
        Playground().list("v1/pods", **query)

    assert 400 == refused.value.code


def test_what_an_object_owns_goes_with_it() -> None:
    """Through every generation; what is orphaned stays."""
    ground = Playground(nodes("n0"))
    ground.create("apps/v1/deployments", deployment("web"))
    ground.create("apps/v1/deployments", deployment("kept", replicas=1))
    ground.live()

    ground.delete("apps/v1/deployments", "web")
    ground.delete("apps/v1/deployments", "kept", propagationPolicy="Orphan")
    ground.live()

    assert [] == ground.names("apps/v1/deployments")
    assert ["kept"] == [name.partition("-")[0] for name in ground.names("apps/v1/replicasets")]
    assert ["kept"] == [name.partition("-")[0] for name in ground.names("v1/pods")]


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_namespaces_that_every_cluster_has_stay(name: str) -> None:
    """As on a real one."""
    with pytest.raises(ApiFailure) as refused:
        Playground().delete("v1/namespaces", name)

    assert 403 == refused.value.code


def test_finalizers_hold_an_object_until_they_are_gone() -> None:
    """Deleting marks it, and the last one that is taken off lets it go."""
    ground = Playground()
    ground.create("v1/configmaps", _map() | {"metadata": {"name": "cm", "finalizers": ["example.com/hold"]}})

    ground.delete("v1/configmaps", "cm")
    held = ground.get("v1/configmaps", "cm")["metadata"]
    ground.patch("v1/configmaps", "cm", {"metadata": {"finalizers": None}})

    assert "deletionTimestamp" in held
    assert [] == ground.names("v1/configmaps")


def test_a_budget_stands_between_an_eviction_and_its_pod() -> None:
    """One pod may go, and not two; deleting asks no budget."""
    ground = Playground(nodes("n0"))
    ground.create("apps/v1/deployments", deployment(replicas=2))
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    named = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": budget}
    ground.create("policy/v1/poddisruptionbudgets", named)
    ground.live()
    first, second = ground.names("v1/pods")

    ground.api.evict(ground.place("v1/pods", first), {}, {})
    with pytest.raises(ApiFailure) as refused:
        ground.api.evict(ground.place("v1/pods", second), {}, {})
    ground.delete("v1/pods", second)

    assert (429, "TooManyRequests") == (refused.value.code, refused.value.reason)
    assert all("deletionTimestamp" in ground.get("v1/pods", name)["metadata"] for name in (first, second))


def test_definitions_of_the_kinds_that_are_served_are_there() -> None:
    """They can be applied again; one of another kind is kept, with a word."""
    ground = Playground()
    found = {one["metadata"]["name"]: one for one in ground.list("apiextensions.k8s.io/v1/customresourcedefinitions")}
    spec = {"group": "example.com", "names": {"kind": "Spoon", "plural": "spoons"}, "versions": [{"name": "v1"}]}
    other = {"metadata": {"name": "spoons.example.com"}, "spec": spec}

    told = ground.answer("apiextensions.k8s.io/v1/customresourcedefinitions", other).warnings

    assert {"podgroups.scheduling.volcano.sh", "hypernodes.topology.volcano.sh"} <= set(found)
    assert "Established" == found["queues.scheduling.volcano.sh"]["status"]["conditions"][-1]["type"]
    assert ["Spoon"] == [word for text in told for word in text.split() if word == "Spoon"]


def test_only_so_many_events_are_kept() -> None:
    """The oldest go; one that is told again is as new as the last time."""
    ground = Playground(nodes("n0"), events=2)
    about = Key("", "Node", "", "n0")

    for text in ("first", "second", "first", "third"):
        ground.cluster.apply([RecordEvent(about, "Normal", "Told", text)])

    found = {event["message"]: event["count"] for event in ground.list("v1/events")}
    assert {"first": 2, "third": 1} == found
    assert 10 < len(ground.list("apiextensions.k8s.io/v1/customresourcedefinitions"))


BANDWIDTH = "network.aware.com/bandwidth"


def test_resources_that_are_patched_into_the_capacity_become_allocatable() -> None:
    """As a kubelet does it with what no device plugin has; an allocatable amount that is patched beside it stays."""
    ground = Playground(nodes("n"))

    def patch(capacity: Json, **allocatable: object) -> Json:
        body = {"status": {"capacity": capacity} | ({"allocatable": allocatable} if allocatable else {})}
        place = ground.place("v1/nodes", "n")
        answer: Json = ground.api.patch(place, body, ObjectApi.MERGE_PATCH, {}, "status").body
        found: Json = answer["status"]["allocatable"]
        return found

    assert "10" == patch({BANDWIDTH: "10"})[BANDWIDTH]
    assert "20" == patch({BANDWIDTH: "20"})[BANDWIDTH]
    assert "15" == patch({BANDWIDTH: "30"}, **{BANDWIDTH: "15"})[BANDWIDTH]
    assert BANDWIDTH not in patch({BANDWIDTH: None})
    assert "4" == patch({"cpu": "8"})["cpu"]


def test_each_api_group_keeps_its_short_names() -> None:
    """Both forms of AppGroups and NetworkTopologies are found by those that their documents give them."""
    short = {(kind.group, kind.kind): kind.short_names for kind in KINDS}

    assert ("ag",) == short["appgroup.diktyo.x-k8s.io", "AppGroup"]
    assert ("ag", "ags") == short["scheduling.sigs.x-k8s.io", "AppGroup"]
    assert ("nt",) == short["networktopology.diktyo.x-k8s.io", "NetworkTopology"]
    assert ("net-topo", "nt") == short["scheduling.sigs.x-k8s.io", "NetworkTopology"]


def test_people_see_both_forms_of_a_kind_and_clients_one() -> None:
    """The forms of AppGroup share a short name, which clients take for that of the first; so people get both."""
    ground = Playground()
    shipped, proposed = "appgroup.diktyo.x-k8s.io/v1alpha1", "scheduling.sigs.x-k8s.io/v1alpha1"
    for version, name in ((shipped, "one"), (proposed, "two")):
        spec = {"numMembers": 1, "topologySortingAlgorithm": "KahnSort", "workloads": []}
        raw = {"apiVersion": version, "kind": "AppGroup", "metadata": {"name": name}, "spec": spec}
        ground.create(f"{version}/appgroups", raw)

    for version, own in ((shipped, "one"), (proposed, "two")):
        place = ground.place(f"{version}/appgroups")
        items = ground.api.list(place, {})["items"]
        both = ground.api.list(place, {}, every_form=True)["items"]
        assert isinstance(items, list)
        assert isinstance(both, list)
        assert [own] == [item["metadata"]["name"] for item in items]
        assert ["one", "two"] == sorted(item["metadata"]["name"] for item in both)
