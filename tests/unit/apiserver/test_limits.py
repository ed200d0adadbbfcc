"""What a namespace allows is kept on the embedded cluster: quotas, limits, priority classes; and what acts, acts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.playground import Json, Playground, deployment, nodes

from tierwise.apiserver.failures import ApiFailure
from tierwise.apiserver.tables import table


def _pod(name: str = "p", *, requests: Json | None = None, limits: Json | None = None, **spec: object) -> Json:
    given = {field: amounts for field, amounts in (("requests", requests), ("limits", limits)) if amounts}
    container = {"name": "c", "image": "i", "resources": given}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


def _of(version: str, kind: str, name: str, **body: object) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **body}


def _refused(ground: Playground, path: str, raw: Json) -> str:
    with pytest.raises(ApiFailure) as raised:
        ground.create(path, raw)
    assert raised.value.code in (403, 422)
    return raised.value.message


def _quota(**spec: object) -> Json:
    return _of("v1", "ResourceQuota", "q", spec=spec)


def _ranged(**item: object) -> Json:
    return _of("v1", "LimitRange", "l", spec={"limits": [{"type": "Container", **item}]})


# -- quotas


def test_a_quota_counts_what_comes_and_what_goes() -> None:
    """The third pod is refused with the figures; once one has gone there is room again."""
    ground = Playground(nodes("n0"))
    ground.create("v1/resourcequotas", _quota(hard={"pods": "2", "requests.cpu": "3"}))
    for name in "ab":
        ground.create("v1/pods", _pod(name, requests={"cpu": "1"}))
    ground.live()
    status = ground.get("v1/resourcequotas", "q")["status"]
    said = _refused(ground, "v1/pods", _pod("c", requests={"cpu": "1"}))
    ground.delete("v1/pods", "a")
    ground.live(40)
    ground.create("v1/pods", _pod("c", requests={"cpu": "1"}))

    assert {"hard": {"pods": "2", "requests.cpu": "3"}, "used": {"pods": "2", "requests.cpu": "2"}} == status
    assert 'pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2' == said


@pytest.mark.parametrize(
    ("spec", "pod", "said"),
    [
        ({"hard": {"requests.memory": "1Gi"}}, _pod(requests={"cpu": "1"}), "must specify requests.memory for: c"),
        ({"hard": {"limits.cpu": "1"}}, _pod(limits={"cpu": "2"}), "requested: limits.cpu=2"),
        ({"hard": {"requests.nvidia.com/gpu": "1"}}, _pod(limits={"nvidia.com/gpu": 2}), "requested: requests.nvidia"),
        ({"hard": {"pods": "0"}, "scopes": ["BestEffort"]}, _pod(), "exceeded quota"),
        ({"hard": {"count/pods": "0"}}, _pod(), "exceeded quota"),
    ],
)
def test_what_a_quota_is_about_is_refused_beyond_it(spec: Json, pod: Json, said: str) -> None:
    """Requests, limits, extended resources, counts and scopes."""
    ground = Playground(nodes("n0"))
    ground.create("v1/resourcequotas", _quota(**spec))

    assert said in _refused(ground, "v1/pods", pod)


@pytest.mark.parametrize(
    "spec",
    [
        {"hard": {"pods": "0"}, "scopes": ["NotBestEffort"]},
        {"hard": {"pods": "0"}, "scopes": ["Terminating"]},
        {
            "hard": {"pods": "0"},
            "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]},
        },
        {"hard": {"configmaps": "0"}},
    ],
)
def test_what_a_quota_is_not_about_goes_through(spec: Json) -> None:
    """Pods of other scopes, and other kinds."""
    ground = Playground(nodes("n0"))
    ground.create("v1/resourcequotas", _quota(**spec))

    ground.create("v1/pods", _pod())


def test_controllers_are_held_to_quotas_too() -> None:
    """A set gets as many pods as its namespace may have, hears why not more, and the rest once it may."""
    ground = Playground(nodes("n0"))
    ground.create("v1/resourcequotas", _quota(hard={"pods": "2"}))
    ground.create("apps/v1/deployments", deployment("web", 3))
    ground.live()
    few, events = len(ground.names("v1/pods")), ground.list("v1/events")
    ground.patch("v1/resourcequotas", "q", {"spec": {"hard": {"pods": "5"}}})
    ground.live()

    assert (2, 3) == (few, len(ground.names("v1/pods")))
    told = {(one["involvedObject"]["kind"], one["reason"]) for one in events if "exceeded quota" in one["message"]}
    assert {("ReplicaSet", "FailedCreate")} == told


@pytest.mark.parametrize("path", ["apps/v1/deployments", "batch/v1/jobs"])
def test_a_refusal_is_one_event_that_is_told_less_and_less(path: str) -> None:
    """With a count: after 1, 2, 4 seconds and so on; a change of what is wanted or allowed is acted on at once."""
    ground = Playground(nodes("n0"))
    ground.create("v1/resourcequotas", _quota(hard={"pods": "0"}))
    raw = deployment("web", 1)
    if "jobs" in path:
        template = {"spec": _pod(restartPolicy="Never")["spec"]}
        raw = _of("batch/v1", "Job", "web", spec={"template": template})
    ground.create(path, raw)

    def told() -> list[int]:
        return [one["count"] for one in ground.list("v1/events") if "exceeded quota" in one["message"]]

    seen: list[int] = []
    for _ in range(70):
        ground.live(1)
        seen.append(*told())
    ground.patch("v1/resourcequotas", "q", {"spec": {"hard": {"pods": "1"}}})
    ground.live(1)

    # At once and after a second, which is the first that is seen; then after 2 more, 4 more and so on.
    assert {2: 0, 3: 2, 4: 6, 5: 14, 6: 30, 7: 62} == {count: seen.index(count) for count in seen}
    assert 1 == len(ground.names("v1/pods"))


def test_other_kinds_are_counted() -> None:
    """By the name that the API has for them."""
    ground = Playground(nodes("n0"))
    ground.create("v1/resourcequotas", _quota(hard={"configmaps": "1", "count/jobs.batch": "0"}))
    ground.create("v1/configmaps", _of("v1", "ConfigMap", "a"))

    assert "configmaps=1" in _refused(ground, "v1/configmaps", _of("v1", "ConfigMap", "b"))
    job = _of("batch/v1", "Job", "j", spec={"template": {"spec": _pod(restartPolicy="Never")["spec"]}})
    assert "count/jobs.batch" in _refused(ground, "batch/v1/jobs", job)


# -- limits


def test_containers_get_the_defaults_of_a_limit_range() -> None:
    """Limits and requests where they say none; what they say stays."""
    ground = Playground(nodes("n0"))
    ground.create("v1/limitranges", _ranged(default={"cpu": "2"}, defaultRequest={"cpu": "1"}))

    def of(name: str, **given: Any) -> Json:
        made: Json = ground.create("v1/pods", _pod(name, **given))["spec"]["containers"][0]["resources"]
        return made

    assert {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}} == of("a")
    assert {"limits": {"cpu": "2"}, "requests": {"cpu": "500m"}} == of("b", requests={"cpu": "500m"})
    assert {"limits": {"cpu": "3"}, "requests": {"cpu": "3"}} == of("c", limits={"cpu": "3"})


@pytest.mark.parametrize(
    ("item", "pod", "said"),
    [
        ({"max": {"cpu": "1"}}, _pod(limits={"cpu": "2"}), "maximum cpu usage per Container is 1, but limit is 2"),
        ({"min": {"cpu": "1"}}, _pod(requests={"cpu": "500m"}), "minimum cpu usage per Container is 1, but request is"),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            _pod(requests={"cpu": "1"}, limits={"cpu": "3"}),
            "cpu max limit to request ratio per Container is 2",
        ),
        ({"type": "Pod", "max": {"cpu": "1"}}, _pod(limits={"cpu": "2"}), "maximum cpu usage per Pod is 1"),
    ],
)
def test_what_is_outside_of_a_limit_range_is_refused(item: Json, pod: Json, said: str) -> None:
    """More than the most, less than the least, and too far from each other."""
    ground = Playground(nodes("n0"))
    ground.create("v1/limitranges", _ranged(**item))

    assert said in _refused(ground, "v1/pods", pod)


# -- classes


def test_priority_classes_are_resolved() -> None:
    """By name, by default, and for controllers' pods; a class that is not there is refused."""
    ground = Playground(nodes("n0"))
    high = _of("scheduling.k8s.io/v1", "PriorityClass", "high", value=100, preemptionPolicy="Never")
    ground.create("scheduling.k8s.io/v1/priorityclasses", high)
    named = ground.create("v1/pods", _pod("a", priorityClassName="high"))["spec"]
    plain = ground.create("v1/pods", _pod("b"))["spec"]
    usual = _of("scheduling.k8s.io/v1", "PriorityClass", "usual", value=7, globalDefault=True)
    ground.create("scheduling.k8s.io/v1/priorityclasses", usual)
    ground.create("apps/v1/deployments", deployment("web", 1))
    ground.live()
    made = next(pod["spec"] for pod in ground.list("v1/pods") if pod["metadata"]["name"].startswith("web"))

    assert (100, "Never") == (named["priority"], named["preemptionPolicy"])
    assert "priority" not in plain
    assert ("usual", 7) == (made["priorityClassName"], made["priority"])
    assert "no PriorityClass with name none was found" in _refused(
        ground, "v1/pods", _pod("c", priorityClassName="none")
    )
    system = ground.create("v1/pods", _pod("d", priorityClassName="system-node-critical"))["spec"]
    assert 2_000_001_000 == system["priority"]


# -- what acts, and what does not


@pytest.mark.parametrize(
    ("path", "raw", "said"),
    [
        (
            "batch/v1/jobs",
            _of("batch/v1", "Job", "j", spec={"template": {"spec": _pod()["spec"]}}),
            'spec.template.spec.restartPolicy: "Always" is not for the pods of a Job',
        ),
        (
            "batch/v1/cronjobs",
            _of("batch/v1", "CronJob", "j", spec={"jobTemplate": {"spec": {"template": {"spec": _pod()["spec"]}}}}),
            'spec.jobTemplate.spec.template.spec.restartPolicy: "Always" is not for the pods of a CronJob',
        ),
        (
            "apps/v1/statefulsets",
            _of("apps/v1", "StatefulSet", "j", spec={"template": {"spec": _pod(restartPolicy="Never")["spec"]}}),
            '"Never" is not for the pods of a StatefulSet, which run on: it must be Always',
        ),
    ],
)
def test_jobs_end_and_sets_do_not(path: str, raw: Json, said: str) -> None:
    """A restart policy that does not fit is refused as a real server refuses it."""
    assert said in _refused(Playground(nodes("n0")), path, raw)


@pytest.mark.parametrize(
    ("path", "version", "kind"),
    [
        ("networking.k8s.io/v1/networkpolicies", "networking.k8s.io/v1", "NetworkPolicy"),
        ("autoscaling/v2/horizontalpodautoscalers", "autoscaling/v2", "HorizontalPodAutoscaler"),
    ],
)
def test_kinds_that_nothing_acts_on_are_kept_with_a_warning(path: str, version: str, kind: str) -> None:
    """When they are made."""
    answer = Playground().answer(path, _of(version, kind, "x", spec={}))

    assert ["are kept, and nothing acts on them here"] == [one.partition(" ")[2] for one in answer.warnings]


def test_services_have_the_addresses_of_their_pods() -> None:
    """As Endpoints and as EndpointSlices, by ready pods, on the port where they listen; gone with the service."""
    ground = Playground(nodes("n0"))
    raw = deployment("web", 2)
    raw["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": 8080}]
    ground.create("apps/v1/deployments", raw)
    service = _of(
        "v1", "Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}
    )
    ground.create("v1/services", service)
    ground.create("v1/services", _of("v1", "Service", "none", spec={"ports": [{"port": 80}]}))
    ground.live()

    (shown,) = ground.list("discovery.k8s.io/v1/endpointslices")
    (subset,) = ground.get("v1/endpoints", "web")["subsets"]
    addresses = sorted(pod["status"]["podIP"] for pod in ground.list("v1/pods"))
    assert addresses == sorted(one["addresses"][0] for one in shown["endpoints"])
    assert addresses == sorted(one["ip"] for one in subset["addresses"])
    assert [8080] == [port["port"] for port in shown["ports"]]
    ground.api.rescale(ground.place("apps/v1/deployments", "web"), lambda scale: scale | {"spec": {"replicas": 1}}, {})
    ground.live(40)
    assert 1 == len(ground.list("discovery.k8s.io/v1/endpointslices")[0]["endpoints"])
    ground.delete("v1/services", "web")
    ground.live()
    assert ([], []) == (ground.names("discovery.k8s.io/v1/endpointslices"), ground.names("v1/endpoints"))


def test_taints_that_execute_drive_pods_away() -> None:
    """At once, after the time that a pod tolerates them, or never."""
    ground = Playground(nodes("n0"))
    every = {"key": "k", "operator": "Exists"}
    ground.create("v1/pods", _pod("now"))
    ground.create("v1/pods", _pod("later", tolerations=[{**every, "effect": "NoExecute", "tolerationSeconds": 60}]))
    ground.create("v1/pods", _pod("never", tolerations=[every]))
    ground.live()
    ground.patch("v1/nodes", "n0", {"spec": {"taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "junk"}]}})
    ground.live(40)
    first = sorted(ground.names("v1/pods"))
    ground.live(60)

    assert (["later", "never"], ["never"]) == (first, sorted(ground.names("v1/pods")))


def test_replication_controllers_have_pods() -> None:
    """As many as they say, up and down."""
    ground = Playground(nodes("n0"))
    raw = deployment("web", 2)
    spec = {"replicas": 2, "selector": {"app": "web"}, "template": raw["spec"]["template"]}
    ground.create("v1/replicationcontrollers", _of("v1", "ReplicationController", "rc", spec=spec))
    ground.live()
    two = len(ground.names("v1/pods"))
    place = ground.place("v1/replicationcontrollers", "rc")
    ground.api.rescale(place, lambda scale: scale | {"spec": {"replicas": 1}}, {})
    ground.live(40)

    assert (2, 1) == (two, len(ground.names("v1/pods")))
    assert 1 == ground.get("v1/replicationcontrollers", "rc")["status"]["readyReplicas"]


def test_what_people_look_for_is_in_the_tables() -> None:
    """Used and hard of a quota, and the addresses of a service."""
    ground = Playground(nodes("n0"))
    ground.create("v1/resourcequotas", _quota(hard={"pods": "2", "limits.cpu": "3"}))
    ground.create("v1/services", _of("v1", "Service", "s", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}))
    ground.live()

    def cells(path: str, name: str) -> Any:
        rows: Any = table(ground.place(path).served, [ground.get(path, name)], {}, now=ground.now)["rows"]
        return rows[0]["cells"][1:-1]

    assert ["pods: 0/2", "limits.cpu: 0/3"] == cells("v1/resourcequotas", "q")
    assert ["<none>"] == cells("v1/endpoints", "s")


_UNREADABLE = [
    ("v1/limitranges", _of("v1", "LimitRange", "x", spec={"limits": "none"})),
    ("v1/limitranges", _of("v1", "LimitRange", "x", spec=7)),
    ("v1/limitranges", _ranged(max={"cpu": "much"})),
    ("v1/limitranges", _ranged(default={"cpu": [1]})),
    ("v1/limitranges", _ranged(min={"cpu": None})),
    ("v1/limitranges", _ranged(type="Pod", maxLimitRequestRatio={"cpu": "q"})),
    ("v1/services", _of("v1", "Service", "x", spec={"selector": "app"})),
    ("v1/services", _of("v1", "Service", "x", spec={"selector": {"app": 7}})),
    ("v1/services", _of("v1", "Service", "x", spec={"selector": {"app": "web"}, "ports": [7]})),
    ("v1/services", _of("v1", "Service", "x", spec={"selector": {"app": "web"}, "ports": [{"port": "http"}]})),
]


@pytest.mark.parametrize(("path", "raw"), _UNREADABLE)
def test_what_cannot_be_read_is_refused(path: str, raw: Json) -> None:
    """In one line that names the field; the cluster lives on."""
    assert "is invalid: spec" in _refused(Playground(nodes("n0")), path, raw)


@pytest.mark.parametrize(("path", "raw"), _UNREADABLE)
def test_what_a_file_has_and_cannot_be_read_stops_nothing(path: str, raw: Json) -> None:
    """Pods are made and run beside it."""
    ground = Playground([*nodes("n0"), raw])
    ground.create("apps/v1/deployments", deployment("web", 2))
    ground.create("v1/pods", _pod("p"))
    ground.live()

    assert ["Running"] * 3 == [pod["status"]["phase"] for pod in ground.list("v1/pods")]
