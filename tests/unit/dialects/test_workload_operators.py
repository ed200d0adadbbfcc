"""Jobs of Kubeflow's and clusters of Ray's on the embedded cluster, by the examples that their projects document."""

from __future__ import annotations

import pytest
from tests.support.languages import nodes
from tests.support.workloads import expanded, group, manifests, pods, scheduled

from tierwise.api.codec import Raw, part, versions_of
from tierwise.api.errors import InputError
from tierwise.dialects import workloads

FOUR = nodes({"s0": {"r0": "n0 n1", "r1": "n2 n3"}}, cpu=1)
TWO = nodes({"s0": {"r0": "n0 n1"}}, cpu=1)
TEMPLATE: Raw = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}
SIBLINGS = {
    "PyTorchJob": ("pytorchReplicaSpecs", "Master"),
    "TFJob": ("tfReplicaSpecs", "Chief"),
    "XGBoostJob": ("xgbReplicaSpecs", "Master"),
    "PaddleJob": ("paddleReplicaSpecs", "Master"),
    "JAXJob": ("jaxReplicaSpecs", "Worker"),
}


def _job(kind: str = "PyTorchJob", workers: int = 2, **spec: object) -> Raw:
    field, first = SIBLINGS[kind]
    types = {first: {"template": TEMPLATE}, "Worker": {"replicas": workers, "template": TEMPLATE}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "mnist"},
        "spec": {field: types, **spec},
    }


@pytest.mark.parametrize("kind", SIBLINGS)
def test_jobs_of_the_training_operator_have_pods_by_type(kind: str) -> None:
    """Named and labelled by type and index, and one gang of them all."""
    first = SIBLINGS[kind][1].lower()
    names = [f"mnist-{first}-0"] if first != "worker" else []
    objects, made = expanded(_job(kind)), pods(_job(kind))

    assert [*names, "mnist-worker-0", "mnist-worker-1"] == sorted(made, key=lambda name: ("worker" in name, name))
    labels = made["mnist-worker-1"].metadata.labels
    assert ("mnist", "worker", "1") == tuple(
        labels[f"training.kubeflow.org/{key}"] for key in ("job-name", "replica-type", "replica-index")
    )
    assert len(made) == group(objects, "mnist")["minMember"]
    assert kind.lower() in labels["training.kubeflow.org/operator-name"]


def test_a_training_starts_whole_or_not_at_all() -> None:
    """Three pods have no room on two nodes."""
    assert 3 == len(scheduled(*FOUR, _job()))
    assert 0 == len(scheduled(*TWO, _job()))


def test_the_scheduling_policy_says_what_starts() -> None:
    """Minimum, queue and priority class are the group's."""
    policy = {"schedulingPolicy": {"minAvailable": 2, "queue": "team", "priorityClass": "high"}}
    objects = expanded(_job(runPolicy=policy))

    assert {"minMember": 2, "queue": "team", "priorityClassName": "high"} == group(objects, "mnist")


def test_a_scheduler_name_chooses_the_language_of_the_group() -> None:
    """That of scheduler-plugins has PodGroups of its own."""
    template = {"spec": {**TEMPLATE["spec"], "schedulerName": "scheduler-plugins-scheduler"}}  # type: ignore[dict-item]
    given = _job(pytorchReplicaSpecs={"Worker": {"replicas": 3, "template": template}})

    assert 3 == group(expanded(given), "mnist", "scheduling.x-k8s.io")["minMember"]
    assert {"mnist"} == {pod.metadata.labels["scheduling.x-k8s.io/pod-group"] for pod in pods(given).values()}
    assert 0 == len(scheduled(*TWO, given))


def test_a_suspended_training_makes_nothing() -> None:
    """And says so."""
    given = _job(runPolicy={"suspend": True})

    assert {} == pods(given)
    assert ["makes no pods: it is suspended"] == [note for _, note in workloads.notes(expanded(given))]


def _mpi_job(**spec: object) -> Raw:
    launcher = {"spec": {"containers": [{"name": "l", "image": "i"}]}}
    types = {"Launcher": {"replicas": 1, "template": launcher}, "Worker": {"replicas": 2, "template": TEMPLATE}}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "pi"},
        "spec": {"mpiReplicaSpecs": types, **spec},
    }


def test_an_mpi_job_has_workers_and_the_job_of_its_launcher() -> None:
    """All of them one gang, the launcher's pod by way of its Job."""
    objects, made = expanded(_mpi_job()), pods(_mpi_job())

    assert ["pi-launcher-00001", "pi-worker-0", "pi-worker-1"] == list(made)
    assert ["default/pi-launcher"] == list(objects.of_kind("batch", "Job"))
    assert 3 == group(objects, "pi")["minMember"]
    assert {"pi"} == {pod.metadata.annotations["scheduling.k8s.io/group-name"] for pod in made.values()}
    assert ("launcher", "worker") == tuple(
        made[name].metadata.labels["training.kubeflow.org/job-role"] for name in ("pi-launcher-00001", "pi-worker-0")
    )
    assert 3 == len(scheduled(*TWO, _mpi_job()))
    assert 0 == len(scheduled(*TWO[:1], _mpi_job()))


RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch-distributed}
spec:
  mlPolicy: {numNodes: 1, torch: {numProcPerNode: 1}}
  podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 100}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: torch}]}}}
"""


def _train_job(**spec: object) -> Raw:
    trainer = {"numNodes": 3, "resourcesPerNode": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "mnist"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer, **spec},
    }


def test_a_train_job_is_the_job_set_of_its_runtime() -> None:
    """With as many nodes, and as large ones, as the trainer asks for, in the group that the runtime asks for."""
    world = [*manifests(RUNTIME), _train_job()]
    made = pods(*world)

    assert [f"mnist-node-0-{index}-00001" for index in range(3)] == list(made)
    assert {"1"} == {pod.spec.containers[0].resources.requests["cpu"] for pod in made.values()}
    assert {"mnist"} == {pod.metadata.labels["scheduling.x-k8s.io/pod-group"] for pod in made.values()}
    assert 3 == group(expanded(*world), "mnist", "scheduling.x-k8s.io")["minMember"]
    assert 3 == len(scheduled(*FOUR, *world))
    assert 0 == len(scheduled(*TWO, *world))


def test_a_train_job_without_its_runtime_has_the_common_form() -> None:
    """One replicated job of nodes; still a gang."""
    assert 3 == len(scheduled(*FOUR, _train_job()))
    assert 0 == len(scheduled(*TWO, _train_job()))


def test_a_train_job_may_change_its_pods() -> None:
    """By patches, and by the overrides of older versions: here they keep it off all nodes."""
    over = [{"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"no": "where"}}}]
    inner = {"spec": {"template": {"spec": {"nodeSelector": {"no": "where"}}}}}
    jobs = {"replicatedJobs": [{"name": "node", "template": inner}]}
    patches = [{"manager": "me", "trainingRuntimeSpec": {"template": {"spec": jobs}}}]

    assert {} == scheduled(*FOUR, _train_job(podTemplateOverrides=over))
    assert {} == scheduled(*FOUR, _train_job(runtimePatches=patches))


def _ray(kind: str = "RayCluster", labels: Raw | None = None, **spec: object) -> Raw:
    worker = {"groupName": "small", "replicas": 2, "minReplicas": 1, "maxReplicas": 5, "template": TEMPLATE}
    cluster: Raw = {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [worker], **spec}
    inner: dict[str, Raw] = {
        "RayCluster": cluster,
        "RayJob": {"entrypoint": "python run.py", "rayClusterSpec": cluster},
        "RayService": {"rayClusterConfig": cluster},
    }
    meta = {"name": "demo", "labels": labels or {}}
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": meta, "spec": inner[kind]}


def test_a_ray_cluster_has_a_head_and_groups_of_workers() -> None:
    """With Ray's labels; without a word about gangs they start one by one."""
    made = pods(_ray())

    assert ["demo-head-00001", "demo-small-worker-00001", "demo-small-worker-00002"] == list(made)
    assert ("demo", "worker", "small") == tuple(
        made["demo-small-worker-00001"].metadata.labels[f"ray.io/{key}"] for key in ("cluster", "node-type", "group")
    )
    assert 2 == len(scheduled(*TWO, _ray()))


@pytest.mark.parametrize(
    ("group_spec", "expected"),
    [
        ({"replicas": 9, "maxReplicas": 3}, 3),
        ({"replicas": 0, "minReplicas": 2}, 2),
        ({"replicas": 2, "numOfHosts": 4}, 8),
        ({"replicas": 2, "suspend": True}, 0),
        ({}, 0),
    ],
)
def test_workers_are_as_many_as_the_group_wants(group_spec: Raw, expected: int) -> None:
    """Between least and most, times the hosts of each."""
    made = pods(_ray(workerGroupSpecs=[{"groupName": "g", "template": TEMPLATE, **group_spec}]))

    assert 1 + expected == len(made)


@pytest.mark.parametrize("labels", [{"ray.io/gang-scheduling-enabled": "true"}, {"volcano.sh/queue-name": "default"}])
def test_a_ray_cluster_that_asks_for_it_is_a_gang(labels: Raw) -> None:
    """Three pods, all or none; with an autoscaler the least of each group."""
    assert 0 == len(scheduled(*TWO, _ray(labels=labels)))
    assert 3 == len(scheduled(*FOUR, _ray(labels=labels)))
    assert 3 == group(expanded(_ray(labels=labels)), "ray-demo-pg")["minMember"]
    assert 2 == group(expanded(_ray(labels=labels, enableInTreeAutoscaling=True)), "ray-demo-pg")["minMember"]


def test_workers_that_exist_count() -> None:
    """By the group that they are in."""
    reference = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "demo", "controller": True}
    there: Raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "demo-small-worker-x",
            "labels": {"ray.io/node-type": "worker", "ray.io/group": "small"},
            "ownerReferences": [reference],
        },
        "spec": {"containers": [{"name": "c"}]},
    }

    assert ["demo-head-00001", "demo-small-worker-00001", "demo-small-worker-x"] == list(pods(_ray(), there))


def test_a_ray_job_has_a_cluster() -> None:
    """The group is called after the RayJob."""
    objects = expanded(_ray("RayJob", {"ray.io/gang-scheduling-enabled": "true"}))
    made = pods(_ray("RayJob"))

    assert ["default/demo-00001"] == list(objects.of_kind("ray.io", "RayCluster"))
    assert 3 == group(objects, "ray-demo-pg")["minMember"]
    assert {"demo-00001-head-00001"} < set(made)
    assert 3 == len(made)


@pytest.mark.parametrize("labels", [{}, {"ray.io/gang-scheduling-enabled": "true"}])
def test_what_submits_comes_after_the_cluster(labels: Raw) -> None:
    """There is nobody to submit to before: half a cluster must not be kept from its node by that."""
    job = _ray("RayJob", labels)
    job["spec"] = {**part(job, "spec"), "submitterPodTemplate": TEMPLATE}

    assert ["demo-00001"] == [name for name in scheduled(*FOUR, job) if "head" not in name and "worker" not in name]
    assert "demo-00001" not in pods(*TWO, job)
    assert (0 if labels else 2) == len(scheduled(*TWO, job))


def test_a_cluster_that_is_chosen_is_not_waited_for() -> None:
    """It runs by itself: the Job is all that is made."""
    chosen: Raw = {"entrypoint": "python run.py", "clusterSelector": {"ray.io/cluster": "other"}}
    made: Raw = {**_ray("RayJob"), "spec": chosen}

    assert ["demo-00001"] == list(pods(made))


def test_a_ray_service_has_a_cluster() -> None:
    """And no more than that."""
    assert 3 == len(pods(_ray("RayService")))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (_job(workers=10**9), "spec.pytorchReplicaSpecs.Worker.replicas: makes 1000000000 pods"),
        (_ray(workerGroupSpecs=[{"groupName": "g", "replicas": 10**6, "template": TEMPLATE}]), "makes 1000000 pods"),
        (_train_job(trainer={"numNodes": 10**9}), "spec.trainer.numNodes: makes 1000000000 pods"),
        (_ray("RayJob", workerGroupSpecs=7), "workerGroupSpecs: expected a list, got an integer"),
    ],
)
def test_huge_and_broken_ones_are_refused(given: Raw, said: str) -> None:
    """In one line that names the object and the field."""
    with pytest.raises(InputError) as caught:
        workloads.check(given)

    assert said in str(caught.value)
    assert f"{given['kind']} default/" in str(caught.value)


def test_what_an_api_server_has_stored_may_lack_its_template() -> None:
    """It is there for others to name as their owner, and nothing is made of it."""
    for api_group, kind in workloads.WORKLOADS:
        version = versions_of(api_group, kind)[0]
        meta = {"name": "x", "uid": "u"}
        raw: Raw = {"apiVersion": f"{api_group}/{version}".removeprefix("/"), "kind": kind, "metadata": meta}
        assert {} == workloads.check(raw), kind
        assert {} == pods(raw)
