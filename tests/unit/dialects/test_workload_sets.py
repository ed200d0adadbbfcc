"""JobSets and LeaderWorkerSets on the embedded cluster, by the examples that their projects document."""

from __future__ import annotations

import pytest
from tests.support.languages import RACK, nodes, objects_of, topology
from tests.support.workloads import expanded, group, manifests, pods, scheduled

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.errors import InputError
from tierwise.audit import audit
from tierwise.dialects import workloads
from tierwise.port import Key

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
        note.removeprefix("makes no pods: ")
        for raw in (suspended, managed)
        for _, note in workloads.notes(expanded(raw))
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


# -- in a queue of Kueue's

QUEUED = {"labels": {"kueue.x-k8s.io/queue-name": "team"}}
KUEUE = topology(of="kueue.x-k8s.io/v1beta2")
RACKS = {"n0": "r0", "n1": "r0", "n2": "r1", "n3": "r1"}


def _queued(*sets: tuple[str, int, int, dict[str, str]], cpu: str = "1") -> Raw:
    """A JobSet of replicated jobs: name, replicas, pods of each, and annotations of the pods after `podset-`."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", **QUEUED},
        "spec": {
            "replicatedJobs": [
                {
                    "name": name,
                    "replicas": replicas,
                    "template": {
                        "spec": {
                            "parallelism": size,
                            "completions": size,
                            "template": {
                                "metadata": {
                                    "annotations": {f"kueue.x-k8s.io/podset-{k}": v for k, v in asked.items()}
                                },
                                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
                            },
                        }
                    },
                }
                for name, replicas, size, asked in sets
            ]
        },
    }


def _racks(bound: dict[str, str], start: str) -> set[str]:
    return {RACKS[node] for name, node in bound.items() if name.startswith(start)}


def test_a_job_set_in_a_queue_of_kueue_starts_whole_or_not_at_all() -> None:
    """Five pods on four nodes: all of four, none of five; without the queue four of five."""
    whole, large = (_queued(("a", 1, 1, {}), ("b", 1, size, {})) for size in (3, 4))

    assert 4 == len(scheduled(*WORLD, whole))
    assert {} == scheduled(*WORLD, large)
    assert 4 == len(scheduled(*WORLD, {**large, "metadata": {"name": "train"}}))


def test_pod_sets_of_a_job_set_have_limits_of_their_own() -> None:
    """Two pairs, each in a rack and anywhere; three in no rack; one pair limited and the other not."""
    rack = {"required-topology": RACK}

    bound = scheduled(*WORLD, KUEUE, _queued(("a", 1, 2, rack), ("b", 1, 2, rack)))
    assert (4, 1, 1) == (len(bound), len(_racks(bound, "train-a")), len(_racks(bound, "train-b")))
    assert {} == scheduled(*WORLD, KUEUE, _queued(("a", 1, 1, rack), ("b", 1, 3, rack)))
    bound = scheduled(*WORLD, KUEUE, _queued(("a", 1, 2, rack), ("b", 1, 1, {})))
    assert (3, 1) == (len(bound), len(_racks(bound, "train-a")))


def test_pod_sets_of_one_group_of_them_share_a_domain() -> None:
    """A leader and its worker in one rack; a leader and two workers in none."""
    unit = {"required-topology": RACK, "group-name": "unit"}

    assert 1 == len(_racks(scheduled(*WORLD, KUEUE, _queued(("a", 1, 1, unit), ("b", 1, 1, unit))), "train"))
    assert {} == scheduled(*WORLD, KUEUE, _queued(("a", 1, 1, unit), ("b", 1, 2, unit)))


@pytest.mark.parametrize(("replicas", "size", "asked"), [(2, 2, ""), (4, 1, "2"), (1, 4, "2")])
def test_slices_of_a_job_set_count_through_its_jobs(replicas: int, size: int, asked: str) -> None:
    """A slice without a size is one Job; one with a size may be of several Jobs, or a part of one."""
    sized = {"slice-size": asked} if asked else {}
    bound = scheduled(*WORLD, KUEUE, _queued(("w", replicas, size, {"slice-required-topology": RACK, **sized})))

    ordered = [RACKS[bound[name]] for name in sorted(bound)]
    assert 4 == len(ordered)
    assert (ordered[0], ordered[2]) == (ordered[1], ordered[3])


def _job(parallelism: int, **annotations: str) -> Raw:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "pi", **QUEUED, "annotations": annotations},
        "spec": {
            "parallelism": parallelism,
            "completions": 9,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                }
            },
        },
    }


def test_a_job_in_a_queue_of_kueue_is_a_gang() -> None:
    """Of as many pods as run at a time, or as few as it says it can do with."""
    assert 4 == len(scheduled(*WORLD, _job(4)))
    assert {} == scheduled(*WORLD, _job(5))
    assert 4 == len(scheduled(*WORLD, _job(5, **{"kueue.x-k8s.io/job-min-parallelism": "3"})))


def test_a_stateful_set_in_a_queue_of_kueue_is_a_gang() -> None:
    """All of its replicas."""
    template = _job(1)["spec"]["template"]  # type: ignore[index]

    def of(replicas: int) -> Raw:
        spec = {"replicas": replicas, "template": template}
        return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", **QUEUED}, "spec": spec}

    assert [4, 0] == [len(scheduled(*WORLD, of(replicas))) for replicas in (4, 5)]


def test_pods_that_name_a_group_stay_in_it() -> None:
    """A queue of Kueue's makes no second group."""
    given = _job(2)
    given["spec"]["template"]["metadata"] = {"annotations": {"scheduling.k8s.io/group-name": "own"}}  # type: ignore[index]

    assert [False, False] == ["kueue.x-k8s.io/pod-group-name" in one.metadata.labels for one in pods(given).values()]


def test_the_auditor_knows_pod_sets() -> None:
    """A pod set in two racks; two of them in a rack each."""
    rack = {"required-topology": RACK}
    world = nodes({"s0": {"r0": "n0 n1", "r1": "n2 n3", "r2": "n4"}}, cpu=1)
    objects = expanded(*world, KUEUE, _queued(("a", 1, 2, rack), ("b", 1, 2, rack)))

    def found(*where: str) -> list[str]:
        standing = objects.every(Pod).items()
        placed = [
            {**(objects.raw(Key("", "Pod", *path.split("/"))) or {}), "status": {"phase": "Running"}}
            for path, _ in standing
        ]
        for raw, node in zip(placed, where, strict=True):
            raw["spec"] = {**raw["spec"], "nodeName": node}  # type: ignore[dict-item]
        jobs = [objects.raw(Key("batch", "Job", "default", f"train-{name}-0")) or {} for name in "ab"]
        return [finding.subject for finding in audit(objects_of(world, [KUEUE], jobs, placed))]

    assert [] == found("n0", "n1", "n2", "n3")
    assert ["pod group default/jobset-train, replicated job b"] == found("n0", "n1", "n2", "n4")
