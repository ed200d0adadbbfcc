"""What is noticed about nodes, pods and objects of other kinds; and the defaults of those that have some."""

import pytest
from tests.support.manifests import (
    job,
    node,
    objects,
    part,
    pod,
    pod_group,
    queue,
    task,
)
from tests.support.verdicts import errors, warnings

from tierwise.admission import complete, validate
from tierwise.api.codec import Raw

_SPREAD: Raw = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
HIGH: Raw = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (node("N0"), "metadata.name"),
        (node("n0") | {"spec": {"taints": [{"key": "a", "effect": "NoRun"}]}}, "spec.taints[0].effect"),
        (pod("p") | {"status": {"phase": "Sleeping"}}, "status.phase"),
        (pod("p", restartPolicy="Sometimes"), "spec.restartPolicy"),
        (pod("p", preemptionPolicy="Maybe"), "spec.preemptionPolicy"),
        (pod("p", terminationGracePeriodSeconds=-1), "spec.terminationGracePeriodSeconds"),
        (pod("p", tolerations=[{"operator": "Like"}]), "spec.tolerations[0].operator"),
        (pod("p", tolerations=[{"key": "a", "effect": "NoRun"}]), "spec.tolerations[0].effect"),
        (
            pod(
                "p",
                topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}],
            ),
            "spec.topologySpreadConstraints[0].maxSkew",
        ),
    ],
)
def test_unknown_words_and_odd_numbers_are_errors(raw: Raw, path: str) -> None:
    """What an API server would refuse is refused in a file."""
    assert [path] == [found for found, _ in errors(raw)]


def test_a_pod_on_a_missing_node_is_a_warning() -> None:
    """Such a pod holds nothing that is counted."""
    assert [("spec.nodeName", 'node "n1" does not exist')] == warnings(node("n0"), pod("p", nodeName="n1"))


def test_a_pod_of_a_missing_group_is_a_warning() -> None:
    """A group counts as there when a job is going to make it."""
    group = "metadata.annotations.scheduling.k8s.io/group-name"

    assert [(group, 'pod group "pg" does not exist')] == warnings(pod("p", group="pg"))
    assert [] == warnings(pod("p", group="pg"), pod_group("pg"))
    assert [] == warnings(pod("p", group="train-u1"), job("train", task("w", 1)))


def test_a_missing_priority_class_is_a_warning() -> None:
    """Built-in classes are always there, and a pod with a priority was admitted when its class was."""
    admitted = pod("c", priorityClassName="low", priority=5)
    pods = [pod("a", priorityClassName="low"), pod("b", priorityClassName="system-node-critical"), admitted]

    [(path, text)], [(_, with_classes)] = warnings(*pods), warnings(HIGH, *pods)

    assert "spec.priorityClassName" == path
    assert text.startswith('priority class "low" is not among these objects')
    assert with_classes.startswith('priority class "low" does not exist')


def test_an_unknown_kind_is_a_warning() -> None:
    """Whatever tierwise does not know is passed over, and named."""
    verdict = validate(objects({"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {"name": "web"}}))

    assert verdict.valid
    assert [("Odd web", "kind", "kind Odd of example.com/v1 is not known: it is ignored")] == [
        (finding.object, finding.path, finding.message) for finding in verdict.warnings
    ]


def test_nothing_at_all_is_valid() -> None:
    """An empty collection has no faults."""
    assert validate(objects()).valid


def test_a_job_is_completed_as_the_webhook_would() -> None:
    """Names, minimums, retries, queue and scheduler are filled in; what was given stays."""
    done = part(complete(job("train", task("", 2), task("ps", 3, minAvailable=1), queue="research")), "spec")
    tasks = done["tasks"]
    assert isinstance(tasks, list)

    assert ("research", "volcano", 3, 3) == tuple(
        done[field] for field in ("queue", "schedulerName", "maxRetry", "minAvailable")
    )
    assert [("default0", 2, 3), ("ps", 1, 3)] == [(t["name"], t["minAvailable"], t["maxRetry"]) for t in tasks]


def test_completing_twice_changes_nothing() -> None:
    """Defaults are filled in once; a complete manifest is handed back as it is."""
    for raw in (job("train", task("", 2)), pod_group("pg"), queue("q", reclaimable=False), node("n0")):
        once = complete(raw)
        assert once is complete(once)


def test_queues_and_pod_groups_have_defaults_too() -> None:
    """A pod group goes to the default queue; a queue weighs 1 and may be reclaimed from unless it says otherwise."""
    assert {"queue": "default"} == complete(pod_group("pg"))["spec"]
    assert {"weight": 1, "reclaimable": True} == complete(queue("q"))["spec"]
    assert {"weight": 2, "reclaimable": False} == complete(queue("q", weight=2, reclaimable=False))["spec"]


@pytest.mark.parametrize(("api", "kind"), [("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("batch/v1", "Job")])
def test_templates_of_workloads_are_warned_of_what_their_pods_wait_for(api: str, kind: str) -> None:
    """The warning names the field of the template, before a pod of it waits."""
    containers = [{"name": "c", "image": "i", "resources": {"limits": {"volcano.sh/vgpu-number": "1"}}}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    raw: Raw = {"apiVersion": api, "kind": kind, "metadata": {"name": "web"}, "spec": spec}

    (found,) = validate(objects(raw)).warnings
    assert "spec.template.spec.containers[0].resources.limits.volcano.sh/vgpu-number" == found.path
    assert "NotSupported" in found.message
