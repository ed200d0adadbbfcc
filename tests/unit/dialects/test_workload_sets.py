"""JobSets and LeaderWorkerSets on the embedded cluster, by the examples that their projects document."""

from __future__ import annotations

import pytest
from tests.support.languages import RACK, nodes, topology
from tests.support.workloads import expanded, group, manifests, pods, scheduled

from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.dialects import workloads

WORLD = nodes({"s0": {"r0": "n0 n1", "r1": "n2 n3"}}, cpu=1)


def _job_set(**meta: object) -> Raw:
    """A driver, and two Jobs of two workers."""
    (raw,) = manifests("""
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: train}
        spec:
          replicatedJobs:
          - name: driver
            template:
              spec:
                template:
                  spec: {restartPolicy: Never, containers: [{name: c, image: i}]}
          - name: workers
            replicas: 2
            template:
              spec:
                parallelism: 2
                completions: 2
                template:
                  metadata: {labels: {app: trainer}}
                  spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
    """)
    return {**raw, "metadata": {"name": "train", **meta}}


def _serving(size: int = 3, replicas: int = 2, **body: object) -> Raw:
    """Groups of a leader and workers, alike unless there is a template for the leader."""
    template = {"spec": {"containers": [{"name": "c", "image": "vllm", "resources": {"requests": {"cpu": "1"}}}]}}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "vllm"},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": {"size": size, "workerTemplate": template, **body}},
    }


def test_a_job_set_has_jobs_and_those_have_pods() -> None:
    """By replicated job, index of the Job, and completion index; the marks stand on the pods too."""
    objects, made = expanded(_job_set()), pods(_job_set())

    assert ["train-driver-0", "train-workers-0", "train-workers-1"] == [
        path.partition("/")[2] for path in objects.of_kind("batch", "Job")
    ]
    assert [
        "train-driver-0-0-00001",
        *(f"train-workers-{job}-{index}-00001" for job in (0, 1) for index in (0, 1)),
    ] == list(made)
    marks = made["train-workers-1-0-00001"].metadata
    of = {key.partition("/")[2]: text for key, text in marks.labels.items() if key.startswith("jobset.sigs.k8s.io/")}
    assert {
        "jobset-name": "train",
        "replicatedjob-name": "workers",
        "replicatedjob-replicas": "2",
        "global-replicas": "3",
        "job-index": "1",
        "job-global-index": "2",
        "restart-attempt": "0",
    }.items() <= of.items()
    assert "1" == marks.annotations["jobset.sigs.k8s.io/job-index"]
    assert "trainer" == marks.labels["app"]
    assert "0" == marks.labels["batch.kubernetes.io/job-completion-index"]


def test_jobs_of_a_job_set_may_have_a_domain_each() -> None:
    """The annotation for exclusive topology: no rack has pods of two Jobs, and no Job pods in two racks."""
    bound = scheduled(*WORLD, _job_set(annotations={"alpha.jobset.sigs.k8s.io/exclusive-topology": "example.com/rack"}))

    racks = {"n0": "r0", "n1": "r0", "n2": "r1", "n3": "r1"}
    by_job = {job: {racks[node] for pod, node in bound.items() if f"workers-{job}" in pod} for job in (0, 1)}
    assert 2 == len(set.union(*by_job.values())) == sum(map(len, by_job.values()))


def test_a_job_set_waits_where_it_is_suspended() -> None:
    """And where another controller has it."""
    suspended, managed = _job_set(), _job_set()
    suspended["spec"] = {**suspended["spec"], "suspend": True}  # type: ignore[dict-item]
    managed["spec"] = {**managed["spec"], "managedBy": "x/y"}  # type: ignore[dict-item]

    assert ["it is suspended", "it is managed by x/y"] == [
        note for raw in (suspended, managed) for _, note in workloads.notes(expanded(raw))
    ]
    assert {} == pods(suspended) == pods(managed)


def test_a_leader_worker_set_has_groups_of_pods() -> None:
    """Leaders by group, workers by group and index, and the labels that tell which is which."""
    made = pods(_serving())

    assert [f"vllm-{group}{end}" for group in (0, 1) for end in ("", "-1", "-2")] == list(made)
    marks = made["vllm-1-2"].metadata
    of = {key.partition("/")[2]: text for key, text in marks.labels.items() if key.startswith("leaderworkerset.")}
    assert {"name": "vllm", "group-index": "1", "worker-index": "2"}.items() <= of.items()
    assert ("3", "vllm-1") == (
        marks.annotations["leaderworkerset.sigs.k8s.io/size"],
        marks.annotations["leaderworkerset.sigs.k8s.io/leader-name"],
    )
    assert "0" == made["vllm-0"].metadata.labels["leaderworkerset.sigs.k8s.io/worker-index"]


def test_each_group_of_a_leader_worker_set_starts_whole() -> None:
    """Four nodes have room for one group of three, and not for a third of another."""
    bound = scheduled(*WORLD, _serving())

    assert 3 == len(bound)
    assert 1 == len({name[:6] for name in bound})


def test_the_leader_may_have_a_template_of_its_own() -> None:
    """With other labels, and what it asks for."""
    leader = {"metadata": {"labels": {"role": "leader"}}, "spec": {"containers": [{"name": "l", "image": "ray"}]}}
    made = pods(_serving(leaderTemplate=leader))

    assert ("leader", None) == (
        made["vllm-0"].metadata.labels.get("role"),
        made["vllm-0-1"].metadata.labels.get("role"),
    )
    assert "ray" == made["vllm-0"].spec.containers[0].image


def test_sub_groups_are_marked() -> None:
    """Of five pods in sub-groups of two the leader stands beside the first; of four it is one of the first."""
    label = "leaderworkerset.sigs.k8s.io/subgroup-index"
    five = pods(_serving(5, 1, subGroupPolicy={"subGroupSize": 2}))
    four = pods(_serving(4, 1, subGroupPolicy={"subGroupSize": 2}))

    assert ["0", "0", "0", "1", "1"] == [pod.metadata.labels[label] for pod in five.values()]
    assert ["0", "0", "1", "1"] == [pod.metadata.labels[label] for pod in four.values()]


def test_a_template_that_names_a_group_keeps_it() -> None:
    """No other group is made."""
    template = {
        "metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "own"}},
        "spec": {"containers": [{"name": "c"}]},
    }
    objects = expanded(_serving(workerTemplate=template))

    assert 0 == len(objects.of_kind("scheduling.volcano.sh", "PodGroup"))


def test_pods_that_were_there_before_are_not_waited_for() -> None:
    """Two of three run, in no group: the third starts by itself."""
    there: list[Raw] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"nodeName": node, "containers": [{"name": "c"}]},
            "status": {"phase": "Running"},
        }
        for name, node in (("vllm-0", "n0"), ("vllm-0-1", "n1"))
    ]

    assert {"vllm-0-2"} == set(scheduled(*WORLD, _serving(3, 1), *there))


def test_a_queue_is_passed_on() -> None:
    """Volcano's annotation for it, to the group."""
    marked = {"name": "vllm", "annotations": {"scheduling.volcano.sh/queue-name": "team"}}
    objects = expanded({**_serving(3, 1), "metadata": marked})
    (path,) = objects.of_kind("scheduling.volcano.sh", "PodGroup")

    assert {"minMember": 3, "queue": "team"} == group(objects, path.partition("/")[2])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (_serving(1000, 1000), "spec.replicas: makes 1000000 pods, more than the 100000"),
        (
            {
                **_job_set(),
                "spec": {
                    "replicatedJobs": [
                        {
                            "name": "w",
                            "replicas": 1000,
                            "template": {
                                "spec": {"parallelism": 1000, "template": {"spec": {"containers": [{"name": "c"}]}}}
                            },
                        }
                    ]
                },
            },
            "spec.replicatedJobs: makes 1000000 pods",
        ),
    ],
)
def test_huge_sets_are_refused(given: Raw, said: str) -> None:
    """By the pods that they would have in all."""
    with pytest.raises(InputError, match=said):
        workloads.check(given)


def test_a_topology_in_words_of_kueue_is_kept_by_each_group() -> None:
    """Two groups of two, a rack each, on a Topology of Kueue's; three pods fit in no rack."""
    template = {
        "metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": RACK}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    }
    world = [*WORLD, topology(of="kueue.x-k8s.io/v1beta2")]
    racks = {"n0": "r0", "n1": "r0", "n2": "r1", "n3": "r1"}

    bound = scheduled(*world, _serving(2, workerTemplate=template))

    assert 4 == len(bound)
    assert all(racks[bound[f"vllm-{group}"]] == racks[bound[f"vllm-{group}-1"]] for group in (0, 1))
    assert {} == scheduled(*world, _serving(3, workerTemplate=template))
