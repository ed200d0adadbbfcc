"""`spec.scheduling` of Jobs, JobSets and StatefulSets: the PodGroup that their controllers would make."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.commands import answer, manifests, run
from tests.support.koordinator import objects_of
from tests.support.languages import RACK, nodes
from tests.support.workloads import expanded, group, pods, scheduled

from tierwise.admission import validate
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.errors import InputError
from tierwise.api.workload import PodGroup
from tierwise.dialects import workloads

WORLD = nodes({"s0": {"r0": "n0 n1", "r1": "n2 n3"}}, cpu=1)
TEMPLATE: Raw = {
    "spec": {
        "schedulerName": "tierwise",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
    }
}
IN_A_RACK: Raw = {"topology": [{"key": RACK}]}


def _gang(least: int | None = None, **more: object) -> Raw:
    return {"schedulingPolicy": {"gang": {} if least is None else {"minCount": least}}, **more}


def _job(size: int, scheduling: Raw, *, status: Raw | None = None, labels: Raw | None = None, **spec: object) -> Raw:
    body = {"parallelism": size, "completions": size, "template": TEMPLATE, **spec, "scheduling": scheduling}
    meta = {"name": "j", "namespace": "default", "labels": labels or {}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body, "status": status or {}}


def _set(kind: str, given: Raw, **more: object) -> Raw:
    if kind == "StatefulSet":
        body: Raw = {"replicas": 3, "serviceName": "s", "template": TEMPLATE, **more}
        version = "apps/v1"
    else:
        job = {"spec": {"parallelism": 3, "completions": 3, "template": TEMPLATE, **more}}
        body, version = {"replicatedJobs": [{"name": "w", "replicas": 1, "template": job}]}, "jobset.x-k8s.io/v1alpha2"
    body["scheduling"] = given
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "s", "namespace": "default"}, "spec": body}


def _waiting(*objects: Raw) -> list[str]:
    """What the notes say of workloads whose pods do not start."""
    return [text for _, text in workloads.notes(objects_of(list(objects)))]


def _errors(*objects: Raw) -> list[tuple[str, str]]:
    return [(found.path, found.message) for found in validate(objects_of(list(objects))).errors]


def test_a_job_is_a_gang_in_its_rack() -> None:
    """Two pods fit a rack and start; three fit none and wait together."""
    assert sorted(scheduled(*WORLD, _job(2, _gang(2, schedulingConstraints=IN_A_RACK))).values()) == ["n0", "n1"]
    assert scheduled(*WORLD, _job(3, _gang(3, schedulingConstraints=IN_A_RACK))) == {}


def test_more_than_the_least_stay_in_the_rack() -> None:
    """Two of six start in one rack; the four others may not leave it."""
    placed = scheduled(*WORLD, _job(6, _gang(2, schedulingConstraints=IN_A_RACK)))
    assert sorted(placed.values()) == ["n0", "n1"]


def test_the_least_is_all_pods_at_a_time_where_it_is_left_out() -> None:
    """Five pods do not fit four nodes."""
    assert scheduled(*WORLD, _job(5, _gang())) == {}
    assert len(scheduled(*WORLD, _job(4, _gang()))) == 4
    assert len(scheduled(*WORLD, _job(5, {"schedulingPolicy": {"basic": {}}}))) == 4


def test_the_group_is_what_the_controller_would_make() -> None:
    """Word for word; its pods name it."""
    objects = expanded(_job(3, _gang(2, schedulingConstraints=IN_A_RACK, disruptionMode={"all": {}})))
    names = {
        pod.spec.scheduling_group.pod_group_name for pod in objects.every(Pod).values() if pod.spec.scheduling_group
    }
    assert len(names) == 1
    assert group(objects, names.pop(), "scheduling.k8s.io") == {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": IN_A_RACK,
        "disruptionMode": {"all": {}},
    }


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
def test_a_job_that_has_done_a_part_needs_no_more_than_the_rest(mode: str) -> None:
    """Four of five have succeeded: one is left, and may start alone."""
    done: Raw = {"succeeded": 4, "completedIndexes": "0-3"}
    assert len(scheduled(*WORLD, _job(5, _gang(5), status=done, completionMode=mode))) == 1


@pytest.mark.parametrize(
    ("scheduling", "field"),
    [
        (_gang(2, elastic={}), "spec.scheduling.elastic"),
        (
            _gang(2, schedulingConstraints={"topology": [{"key": "rack", "level": 1}]}),
            "spec.scheduling.schedulingC",
        ),
        (_gang(2, schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}), "spec.scheduling.schedulingC"),
        (_gang(2, schedulingConstraints={"topology": [{}]}), "spec.scheduling.schedulingConstraints.topology[0].key"),
        (_gang(2, resourceClaims=[{"name": "c"}]), "spec.scheduling.resourceClaims"),
        (_gang(2, disruptionMode={"all": {}, "single": {}}), "spec.scheduling.disruptionMode"),
        (_gang(3), "spec.scheduling.schedulingPolicy.gang.minCount"),
        (_gang(0), "spec.scheduling.schedulingPolicy.gang.minCount"),
        ({}, "spec.scheduling.schedulingPolicy"),
        ({"schedulingPolicy": {"rounds": {}}}, "spec.scheduling.schedulingPolicy.rounds"),
        ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}, "spec.scheduling.schedulingPolicy"),
    ],
)
def test_what_is_not_understood_makes_the_pods_wait_and_is_told(scheduling: Raw, field: str) -> None:
    """In the notes of `schedule` and in `validate`, with the field; no pod starts."""
    job = _job(2, scheduling)
    assert pods(job)
    assert scheduled(*WORLD, job) == {}
    (note,) = _waiting(job)
    assert note.startswith(f"makes pods that wait: {field}")
    assert [path for path, _ in _errors(job) if path.startswith(field)]


@pytest.mark.parametrize("value", ["all", [1], {"schedulingPolicy": {"gang": {"minCount": "two"}}}])
def test_a_wrong_type_is_refused_with_its_field(value: object) -> None:
    """One line, with the place in the Job."""
    with pytest.raises(InputError) as refused:
        workloads.check(_job(2, value))  # type: ignore[arg-type]
    assert (refused.value.field or "").startswith("spec.scheduling")


@pytest.mark.parametrize("kind", ["StatefulSet", "JobSet"])
def test_sets_are_read_by_the_same_reader(kind: str) -> None:
    """Three pods in a rack of two wait; without the rack they start; what is not understood makes them wait."""
    assert scheduled(*WORLD, _set(kind, _gang(schedulingConstraints=IN_A_RACK))) == {}
    assert len(scheduled(*WORLD, _set(kind, _gang()))) == 3
    assert scheduled(*WORLD, _set(kind, _gang(elastic={}))) == {}
    assert _waiting(_set(kind, _gang(elastic={})))[0].startswith("makes pods that wait: spec.scheduling.elastic")


@pytest.mark.parametrize("kind", ["StatefulSet", "JobSet"])
def test_a_field_that_is_to_come_is_read_and_said_to_be(kind: str, tmp_path: Path) -> None:
    """Not as one that is unknown: it is obeyed. Real servers do not have it, so that --strict refuses it."""
    file = manifests(tmp_path, *WORLD, _set(kind, _gang()))
    given = {"object": f"{kind} default/s", "path": "spec.scheduling"}

    lenient = json.loads(run("validate", "-f", file, "-o", "json").stdout)
    (warned,) = (one for one in lenient["warnings"] if given.items() <= one.items())
    strict = run("validate", "--strict", "-f", file, "-o", "json")

    assert "it is read here as that of Jobs" in warned["message"]
    assert [warned["message"].removesuffix("; an error with --strict")] == [
        one["message"] for one in json.loads(strict.stdout)["errors"] if given.items() <= one.items()
    ]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("made", ["Job", "StatefulSet", "JobSet"])
def test_validate_names_a_field_once(made: str, strict: bool, tmp_path: Path) -> None:
    """As an error, where the pods would wait for its sake."""
    raw = _job(2, _gang(elastic={})) if made == "Job" else _set(made, _gang(elastic={}))
    flags = ["--strict"] if strict else []
    found = json.loads(run("validate", *flags, "-f", manifests(tmp_path, raw), "-o", "json").stdout)
    places = [(one["object"], one["path"]) for one in [*found["errors"], *found["warnings"]]]

    assert len(places) == len(set(places))
    assert 1 == sum("spec.scheduling.elastic" == one["path"] for one in found["errors"])


@pytest.mark.parametrize("kind", ["Job", "StatefulSet", "JobSet"])
def test_the_cause_is_told_wherever_the_pods_are_told_of(kind: str, tmp_path: Path) -> None:
    """In the reason of the pods and a problem, by `schedule`, `submit` and `explain`, in text and JSON."""
    raw = _job(3, _gang(9)) if kind == "Job" else _set(kind, _gang(9))
    name = f"{kind} default/{raw['metadata']['name']}"  # type: ignore[index]
    why, file = f"{name}: spec.scheduling.schedulingPolicy.gang.minCount: ", manifests(tmp_path, *WORLD, raw)

    found = {verb: answer(verb, "-f", file) for verb in ("schedule", "submit")}
    pod, group, problem = "", "", {}
    for verb, told in found.items():
        assert 3 == len(told["pending"])
        assert all(f"does not exist: {why}" in pod["message"] for pod in told["pending"])
        (problem,) = (one for one in told["problems"] if one["code"] == "WorkloadWaits")
        assert name == problem["object"]
        assert "minCount: " in problem["message"]
        assert why in "".join(run(verb, "-f", file, width=300).stdout.splitlines())
        pod, group = told["pending"][0]["pod"], told["pending"][0]["podGroup"]
    one = answer("explain", pod, "-f", file)
    assert why in one["message"]
    assert [problem] == [told for told in one["problems"] if told["code"] == "WorkloadWaits"]
    job = run("explain", "--job", name.split()[1], "-f", file)
    assert 2 == job.exit_code
    assert "makes pods that wait: spec.scheduling.schedulingPolicy.gang.minCount" in job.stderr.splitlines()[-1]
    assert why in run("explain", "--job", group, "-f", file).stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "scheduling",
    [
        {"replicatedJobs": [{"targetReplicatedJobs": ["w"]}]},
        {"schedulingPolicy": {"gang": {"minGroupCount": 1}}},
    ],
)
def test_parts_of_a_job_set_are_not_read_and_wait(scheduling: Raw) -> None:
    """Policies for single jobs, and gangs for which some groups are enough."""
    assert scheduled(*WORLD, _set("JobSet", scheduling)) == {}
    (note,) = _waiting(_set("JobSet", scheduling))
    assert note.endswith("it is not read here")


def test_a_job_set_is_one_gang_where_it_says_no_more() -> None:
    """Its Jobs may not have the field beside it."""
    assert len(scheduled(*WORLD, _set("JobSet", {}))) == 3
    assert len(scheduled(*WORLD[:2], _set("JobSet", {}))) == 0
    assert scheduled(*WORLD, _set("JobSet", {}, scheduling=_gang(1))) == {}


def test_a_template_that_names_a_group_keeps_it() -> None:
    """No other group is made."""
    inside = {**TEMPLATE, "metadata": {"annotations": {"scheduling.k8s.io/group-name": "g"}}}
    objects = expanded(_job(2, _gang(2), template=inside))
    assert not objects.every(PodGroup)
    assert all(pod.spec.scheduling_group is None for pod in objects.every(Pod).values())


def test_the_field_comes_before_a_queue_of_kueues() -> None:
    """The pods carry no marks of a pod group of Kueue's."""
    found = pods(_job(2, _gang(2), labels={"kueue.x-k8s.io/queue-name": "q"}))
    assert all("kueue.x-k8s.io/pod-group-name" not in pod.metadata.labels for pod in found.values())
    assert all(pod.spec.scheduling_group is not None for pod in found.values())


def test_a_cron_jobs_next_run_is_the_gang_of_its_template() -> None:
    """Three pods fit no rack."""
    template = {"spec": _job(3, _gang(3, schedulingConstraints=IN_A_RACK))["spec"]}
    cron: Raw = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c"},
        "spec": {"jobTemplate": template},
    }
    assert len(pods(cron)) == 3
    assert scheduled(*WORLD, cron) == {}
