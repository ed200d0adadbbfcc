"""Kubernetes' own workloads on the embedded cluster: the pods that the controller manager would write."""

from __future__ import annotations

import pytest
from tests.support.languages import nodes, pod
from tests.support.workloads import expanded, manifests, pods, scheduled

from tierwise.admission import validate
from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.dialects import workloads
from tierwise.manifests.saved import saved
from tierwise.port import Key, Objects
from tierwise.sim.cluster.pod_behaviour import check_habits

WORLD = nodes({"s0": {"r0": "n0 n1", "r1": "n2"}}, cpu=4)
TEMPLATE: Raw = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}]},
}


def _of(
    kind: str, name: str, *, status: Raw | None = None, annotations: dict[str, str] | None = None, **spec: object
) -> Raw:
    group = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    meta = {"name": name, "annotations": annotations or {}}
    body = {"template": TEMPLATE, **spec} if kind != "CronJob" else spec
    return {"apiVersion": group, "kind": kind, "metadata": meta, "spec": body, "status": status or {}}


def _owned(name: str, kind: str, owner: str, **more: object) -> Raw:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "u", "controller": True}
    return pod(name, ownerReferences=[reference], **more)  # type: ignore[arg-type]


def test_a_deployment_has_a_replica_set_and_that_has_pods() -> None:
    """Named and labelled by the hash of the template; both know whose they are."""
    objects = expanded(_of("Deployment", "web", replicas=3, selector={"matchLabels": {"app": "web"}}))
    (path,) = objects.of_kind("apps", "ReplicaSet")
    replica_set = path.partition("/")[2]
    made = pods(_of("Deployment", "web", replicas=3))

    assert replica_set.startswith("web-")
    assert [f"{replica_set}-{i:05}" for i in (1, 2, 3)] == list(made)
    first = made[f"{replica_set}-00001"].metadata
    assert {"app": "web", "pod-template-hash": replica_set[4:]} == first.labels
    assert ("ReplicaSet", replica_set, True) == (
        first.owner_references[0].kind,
        first.owner_references[0].name,
        first.owner_references[0].controller,
    )
    assert 3 == len(scheduled(*WORLD, _of("Deployment", "web", replicas=3)))


def test_replicas_are_one_unless_said_otherwise() -> None:
    """As the API server fills them in; none is none."""
    assert 1 == len(pods(_of("Deployment", "web")))
    assert 0 == len(pods(_of("ReplicaSet", "web", replicas=0)))


def test_pods_that_exist_count() -> None:
    """Only the missing are made; one that failed or is leaving is replaced, one of somebody else is not counted."""
    own = [_owned("web-a", "ReplicaSet", "web", on="n0"), _owned("web-b", "ReplicaSet", "web")]
    lost = _owned("web-c", "ReplicaSet", "web", on="n0", phase="Failed")
    other = _owned("x-1", "ReplicaSet", "x", on="n0")
    leaving = _owned("web-d", "ReplicaSet", "web", on="n1", deletionTimestamp="2026-01-01T00:00:00Z")

    made = pods(_of("ReplicaSet", "web", replicas=3), *own, lost, other, leaving)

    assert {"web-00001"} == set(made) - {"web-a", "web-b", "web-c", "web-d", "x-1"}


def test_pods_of_a_replica_set_that_is_not_at_hand_count() -> None:
    """Deployment and pods, and nothing between them, as `kubectl get deployments,pods` has them."""
    own = [_owned(f"web-abc-{i}", "ReplicaSet", "web-abc", labels={"pod-template-hash": "abc"}) for i in "xy"]

    made = pods(_of("Deployment", "web", replicas=3), *own)

    assert {"web-abc-x", "web-abc-y", "web-abc-00001"} == set(made)


def test_a_deployment_with_a_replica_set_makes_no_other() -> None:
    """What its ReplicaSets have is as it should be."""
    meta = {"name": "web-abc", "labels": {"pod-template-hash": "abc"}}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": True}
    old = {**_of("ReplicaSet", "web-abc", replicas=2), "metadata": {**meta, "ownerReferences": [reference]}}

    assert ["web-abc-00001", "web-abc-00002"] == list(pods(_of("Deployment", "web", replicas=2), old))


def test_a_stateful_set_counts_its_pods() -> None:
    """From its first ordinal, with index labels and a claim each."""
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    given = _of("StatefulSet", "db", replicas=2, ordinals={"start": 3}, volumeClaimTemplates=[claim])
    objects = expanded(given)
    made = pods(given)

    assert ["db-3", "db-4"] == list(made)
    assert ("3", "db-3") == (
        made["db-3"].metadata.labels["apps.kubernetes.io/pod-index"],
        made["db-3"].metadata.labels["statefulset.kubernetes.io/pod-name"],
    )
    assert objects.record(Key("", "PersistentVolumeClaim", "default", "data-db-4")) is not None
    (volume,) = made["db-4"].spec.volumes
    assert volume.persistent_volume_claim is not None
    assert "data-db-4" == volume.persistent_volume_claim.claim_name


def test_a_daemon_set_has_a_pod_on_each_node_it_may_run_on() -> None:
    """Cordoned ones too, but none behind a taint or outside its selector; each pod goes to its own node."""
    world = nodes({"s0": {"r0": "n0 n1 n2 n3"}}, cpu=4)
    world[1]["spec"] = {"taints": [{"key": "x", "effect": "NoSchedule"}]}
    world[2]["spec"] = {"unschedulable": True}
    world[3]["metadata"]["labels"] = {"kubernetes.io/hostname": "n3"}  # type: ignore[index]
    template = {"metadata": {}, "spec": {**TEMPLATE["spec"], "nodeSelector": {"example.com/rack": "r0"}}}  # type: ignore[dict-item]

    assert {"agent-00001": "n0", "agent-00002": "n2"} == scheduled(*world, _of("DaemonSet", "agent", template=template))
    there = _owned("agent-x", "DaemonSet", "agent", on="n0")
    assert {"agent-x", "agent-00001"} == set(pods(*world, there, _of("DaemonSet", "agent", template=template)))


def test_a_job_runs_as_many_at_once_as_it_may() -> None:
    """No more than are left to do; without completions as many as run side by side."""
    assert ["pi-00001", "pi-00002"] == list(pods(_of("Job", "pi", completions=5, parallelism=2)))
    assert 3 == len(pods(_of("Job", "pi", completions=3, parallelism=7)))
    assert 4 == len(pods(_of("Job", "pi", parallelism=4)))
    labels = pods(_of("Job", "pi"))["pi-00001"].metadata.labels
    assert "pi" == labels["job-name"] == labels["batch.kubernetes.io/job-name"]
    done = [_owned(f"pi-{i}", "Job", "pi", on="n0", phase="Succeeded") for i in range(4)]
    assert 5 == len(pods(_of("Job", "pi", completions=5, parallelism=2), *done))


def test_pods_of_an_indexed_job_have_an_index() -> None:
    """As label and annotation, and an index that is done or taken is not given again."""
    given = _of("Job", "train", completions=4, parallelism=2, completionMode="Indexed")
    made = pods(given)
    mark = "batch.kubernetes.io/job-completion-index"

    assert ["train-0-00001", "train-1-00001"] == list(made)
    assert "1" == made["train-1-00001"].metadata.labels[mark] == made["train-1-00001"].metadata.annotations[mark]
    done = _owned("train-0-x", "Job", "train", on="n0", phase="Succeeded", annotations={mark: "0"})
    runs = _owned("train-1-x", "Job", "train", on="n0", annotations={mark: "1"})
    assert {"train-0-x", "train-1-x", "train-2-00001"} == set(pods(given, done, runs))
    later = _of(
        "Job", "train", completions=4, parallelism=4, completionMode="Indexed", status={"completedIndexes": "0-2"}
    )
    assert ["train-3-00001"] == list(pods(later))


def test_an_indexed_job_is_not_a_gang() -> None:
    """Two of its four pods fit, and two start."""
    job = _of("Job", "train", completions=4, parallelism=4, completionMode="Indexed")

    assert 2 == len(scheduled(*nodes({"s0": {"r0": "n0 n1"}}, cpu=1), job))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (_of("Job", "x", suspend=True), "it is suspended"),
        (_of("Job", "x", managedBy="kueue.x-k8s.io/multikueue"), "it is managed by kueue.x-k8s.io/multikueue"),
        (_of("CronJob", "x", suspend=True, jobTemplate={"spec": {"template": TEMPLATE}}), "it is suspended"),
        (_of("Deployment", "x", paused=True), "it is paused"),
    ],
)
def test_what_makes_no_pods_says_why(given: Raw, why: str) -> None:
    """And its owner is told; it is no fault."""
    assert {} == pods(given)
    objects = expanded(given)
    assert [f"makes no pods: {why}"] == [note for _, note in workloads.notes(objects)]
    workloads.check(given)


def test_a_job_that_is_over_makes_nothing() -> None:
    """By its conditions, or by more failures than it bears."""
    assert {} == pods(_of("Job", "x", status={"conditions": [{"type": "Complete", "status": "True"}]}))
    failed = [_owned(f"x-{i}", "Job", "x", on="n0", phase="Failed") for i in range(2)]
    assert 2 == len(pods(_of("Job", "x", backoffLimit=1), *failed))
    assert 3 == len(pods(_of("Job", "x", backoffLimit=2), *failed))


def test_a_cron_job_is_one_run_of_it() -> None:
    """Schedules are not followed."""
    (given,) = manifests("""
        apiVersion: batch/v1
        kind: CronJob
        metadata: {name: hello}
        spec:
          schedule: "* * * * *"
          jobTemplate: {spec: {template: {spec: {restartPolicy: OnFailure, containers: [{name: c, image: busybox}]}}}}
    """)

    assert ["hello-00001-00001"] == list(pods(given))


def test_what_an_owner_says_of_groups_counts() -> None:
    """Volcano's annotation for a minimum makes a gang of a Deployment's pods."""
    marked = {"scheduling.volcano.sh/group-min-member": "4"}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "schedulerName": "tierwise"}}  # type: ignore[dict-item]
    given = _of("Deployment", "web", replicas=4, template=template, annotations=marked)

    assert 0 == len(scheduled(*nodes({"s0": {"r0": "n0 n1"}}, cpu=1), given))
    assert 4 == len(scheduled(*WORLD, given))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (_of("Deployment", "web", replicas=10**9), "spec.replicas: makes 1000000000 pods, more than the 100000"),
        (_of("Job", "web", parallelism=10**9), "spec.parallelism: makes 1000000000 pods"),
        (_of("Deployment", "web", replicas="three"), "spec.replicas: expected an integer, got a string"),
        (_of("StatefulSet", "web", replicas=-1), "spec.replicas: -1 is negative"),
        (
            _of("ReplicaSet", "web", template={"spec": {"containers": 5}}),
            "spec.template.spec.containers: expected a list",
        ),
        (
            _of("CronJob", "web", jobTemplate={"spec": {"parallelism": 10**9, "template": TEMPLATE}}),
            "spec.jobTemplate.spec.parallelism: makes 1000000000 pods",
        ),
        (
            _of("Deployment", "web", template={"spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}}),
            "spec.template.spec.containers[0].resources.requests.cpu",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(given: Raw, said: str) -> None:
    """With the object and the field, before anything is made."""
    with pytest.raises(InputError) as caught:
        workloads.check(given)

    assert said in str(caught.value)
    assert " default/web" in str(caught.value)


def test_what_was_read_from_a_real_cluster_is_left_alone() -> None:
    """There the real controllers make the pods."""
    assert {} == pods(*saved([_of("Deployment", "web", replicas=3)], 0.0))


def test_known_workloads_raise_no_doubt() -> None:
    """They are not unknown kinds to admission any more."""
    labels = {"app": "web"}
    template = {**TEMPLATE, "metadata": {"labels": labels}}
    given = _of("Deployment", "web", selector={"matchLabels": labels}, template=template)

    verdict = validate(Objects.of([(codec.decode(given), given)]))

    assert ((), ()) == (verdict.errors, verdict.warnings)


def test_a_queue_of_kueue_does_not_hold_a_job_back() -> None:
    """Suspended is how Kueue holds a job until its quota allows it, and here is no Kueue."""
    given = _of("Job", "x", suspend=True)
    given["metadata"] = {"name": "x", "labels": {"kueue.x-k8s.io/queue-name": "team"}}

    assert 1 == len(pods(given))


def test_a_daemon_set_without_a_node_says_so() -> None:
    """Its template asks for a label that no node has."""
    template = {"spec": {**TEMPLATE["spec"], "nodeSelector": {"no": "where"}}}  # type: ignore[dict-item]
    objects = expanded(*WORLD, _of("DaemonSet", "agent", template=template))

    assert ["makes no pods: it may run on no node"] == [note for _, note in workloads.notes(objects)]


def test_behaviour_that_cannot_be_read_is_refused() -> None:
    """Before the run in which it would be found."""
    template = {**TEMPLATE, "metadata": {"annotations": {"tierwise.io/run-for": "soon"}}}
    given = _of("Deployment", "x", template=template)
    with pytest.raises(InputError) as caught:
        check_habits(Objects.of([(codec.decode(given), given)]))

    assert "Deployment default/x: spec.template.metadata.annotations.tierwise.io/run-for" in str(caught.value)
