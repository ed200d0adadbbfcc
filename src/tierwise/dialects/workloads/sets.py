"""Sets of Kubernetes' sigs: JobSets, which are Jobs, and LeaderWorkerSets, which are groups of pods.

A JobSet is no gang by itself; in a queue of Kueue's, which admits it whole, it is one. Each group of a LeaderWorkerSet
is a gang, as its operator writes it for Volcano: a leader without its workers serves nothing.
"""

from __future__ import annotations

from typing import Final

from tierwise.api.codec import Raw
from tierwise.dialects.workloads.children import Child, Expansion, NoTemplateError, Owner, digest, named, pod
from tierwise.dialects.workloads.fields import Fields, few
from tierwise.dialects.workloads.gangs import POD_SET, Gang, Marks, in_gang, in_queue, names_no_group
from tierwise.dialects.workloads.scheduling import PodGroup, is_declared, of_job_set
from tierwise.dialects.workloads.templates import in_own_domain

__all__ = ["job_set", "leader_worker_set"]

_JOB_SET: Final = "jobset.sigs.k8s.io"
_EXCLUSIVE: Final = f"alpha.{_JOB_SET}/exclusive-topology"
_BY_SELECTOR: Final = f"alpha.{_JOB_SET}/node-selector"
_SLICE: Final = "kueue.x-k8s.io/podset-slice-required-topology"
_SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
_CONTROLLER: Final = f"{_JOB_SET}/jobset-controller"


def job_set(owner: Owner) -> Expansion:
    """A Job for each replica of each replicated job, all at once, whatever waits for what when they start."""
    spec = owner.spec
    replicated = list(spec.each("replicatedJobs"))
    if not replicated:
        raise NoTemplateError("it has no pod template", field="spec.replicatedJobs")
    examples = [pod(owner, entry.at("template", "spec", "template"), owner.name) for entry in replicated]
    replicas = [entry.count("replicas", 1) for entry in replicated]
    shown = [str(number) for number in replicas]
    everything = few(spec, "replicatedJobs", sum(replicas))
    sizes = [_pods(entry.at("template", "spec")) for entry in replicated]
    total = few(spec, "replicatedJobs", sum(n * size for n, size in zip(replicas, sizes, strict=True)))
    scheduled = is_declared(spec) and names_no_group(examples)
    pod_group = of_job_set(owner, replicated, total) if scheduled else None
    grouped = Marks() if scheduled else in_queue(owner, examples, total)
    if spec.text("managedBy", _CONTROLLER) != _CONTROLLER:
        return Expansion(note=f"it is managed by {spec.text('managedBy')}")
    if owner.suspended():
        return Expansion(note="it is suspended")
    if _is_over(owner):
        return Expansion()
    children: list[Child] = []
    for place, entry in enumerate(replicated):
        role = entry.text("name")
        for index in range(replicas[place]):
            name = f"{owner.name}-{role}-{index}"
            marks = {
                f"{_JOB_SET}/jobset-name": owner.name,
                f"{_JOB_SET}/jobset-uid": owner.uid,
                f"{_JOB_SET}/replicatedjob-name": role,
                f"{_JOB_SET}/restart-attempt": str(owner.fields.at("status").number("restarts", 0)),
                f"{_JOB_SET}/replicatedjob-replicas": shown[place],
                f"{_JOB_SET}/global-replicas": str(everything),
                f"{_JOB_SET}/job-index": str(index),
                f"{_JOB_SET}/job-key": digest(f"{owner.namespace}/{name}", 40),
                f"{_JOB_SET}/job-global-index": str(sum(replicas[:place]) + index),
            }
            group = entry.text("groupName", "default")
            marks |= {f"{_JOB_SET}/group-name": group}
            pod_set = _as_pod_set(grouped, role, sizes[place], examples[place])
            job_manifest = _job(owner, entry.at("template"), name, marks, pod_set, pod_group)
            children.append(Child(job_manifest, f"{entry.path}.template"))
    if pod_group is not None and pod_group.child is not None:
        children.insert(0, pod_group.child)
    return Expansion(children, waits=pod_group.waits if pod_group is not None else "")


def _pods(job: Fields) -> int:
    """How many pods a Job has at a time."""
    at_once = job.number("parallelism", 1)
    return min(at_once, job.number("completions", at_once))


def _as_pod_set(grouped: Marks, role: str, size: int, example: Child) -> Marks:
    """The marks of a replicated job, which is a pod set of its own; a slice without a size is one Job."""
    if not grouped.labels:
        return grouped
    annotations = Fields(example.raw).at("metadata").texts("annotations")
    sized = {_SLICE_SIZE: str(size)} if _SLICE in annotations and _SLICE_SIZE not in annotations else {}
    return Marks({**grouped.labels, POD_SET: role}, {**grouped.annotations, **sized})


def _job(
    owner: Owner, template: Fields, name: str, marks: dict[str, str], grouped: Marks, pod_group: PodGroup | None
) -> Raw:
    """One Job, with the marks of its place in the set on itself and on its pods, which have those of their group."""
    meta = template.at("metadata")
    inner = template.at("spec", "template")
    exclusive = meta.texts("annotations").get(_EXCLUSIVE) or owner.annotations.get(_EXCLUSIVE, "")
    by_selector = _BY_SELECTOR in {**owner.annotations, **meta.texts("annotations")}
    annotations = marks | ({_EXCLUSIVE: exclusive} if exclusive else {})
    of_pod = inner.at("metadata")
    spec = inner.at("spec").raw
    if exclusive and not by_selector:
        spec = in_own_domain(spec, f"{_JOB_SET}/job-key", marks[f"{_JOB_SET}/job-key"], exclusive)
    pods: Raw = {
        **inner.raw,
        "metadata": {
            **of_pod.raw,
            "labels": of_pod.texts("labels") | marks | dict(grouped.labels),
            "annotations": of_pod.texts("annotations") | annotations | dict(grouped.annotations),
        },
        "spec": {"subdomain": owner.name, **spec},
    }
    if pod_group is not None:
        pods = pod_group.inside(pods)
    body: Raw = {"spec": {"completionMode": "Indexed", **template.at("spec").raw, "template": pods, "suspend": False}}
    marks_of_job = {"labels": meta.texts("labels") | marks, "annotations": meta.texts("annotations") | annotations}
    return named(owner, "batch/v1", "Job", name, body, **marks_of_job)


def _is_over(owner: Owner) -> bool:
    return bool(owner.fields.at("status").text("terminalState") or owner.conditions & {"Completed", "Failed"})


# LeaderWorkerSets.


_SET: Final = "leaderworkerset.sigs.k8s.io"


def leader_worker_set(owner: Owner) -> Expansion:
    """Groups of a leader and its workers, each a gang."""
    spec = owner.spec
    body = owner.spec.at("leaderWorkerTemplate")
    groups = spec.count("replicas", 1)
    size = body.count("size", 1)
    few(spec, "replicas", groups * size)
    workers = body.at("workerTemplate")
    leaders = body.at("leaderTemplate") or workers
    for template in (leaders, workers)[: min(size, 2)]:
        pod(owner, template, owner.name)  # or it is refused
    revision = digest(body.raw)
    children: list[Child] = []
    for group in range(groups):
        name = f"{owner.name}-{group}"
        labels = {
            f"{_SET}/name": owner.name,
            f"{_SET}/group-index": str(group),
            f"{_SET}/group-key": digest(f"{owner.namespace}/{name}", 40),
            f"{_SET}/template-revision-hash": revision,
        }
        members = [_member(owner, leaders if index == 0 else workers, labels, name, index) for index in range(size)]
        children += in_gang(owner, Gang(f"{name}-{revision}", size), members)
    return Expansion(children)


def _member(owner: Owner, template: Fields, group: dict[str, str], leader: str, index: int) -> Child:
    """The leader of a group, or one of its workers."""
    body = owner.spec.at("leaderWorkerTemplate")
    size = body.number("size", 1)
    parted = body.at("subGroupPolicy")
    labels = {
        **group,
        f"{_SET}/worker-index": str(index),
        "statefulset.kubernetes.io/pod-name": f"{leader}-{index}" if index else leader,
        "apps.kubernetes.io/pod-index": str(index) if index else group[f"{_SET}/group-index"],
    }
    marks = {f"{_SET}/size": str(size)} | ({f"{_SET}/leader-name": leader} if index else {})
    spec = template.at("spec").raw
    exclusive = owner.annotations.get(f"{_SET}/exclusive-topology", "")
    if exclusive:
        marks[f"{_SET}/exclusive-topology"] = exclusive
        spec = in_own_domain(spec, f"{_SET}/group-key", group[f"{_SET}/group-key"], exclusive)
    group_size = parted.number("subGroupSize", 0)
    if group_size > 0 and (index or parted.text("subGroupPolicyType") != "LeaderExcluded"):
        extra = (size - 1) % group_size == 0 and size % group_size != 0  # the leader is beside the first sub-group
        part = str(max(index - 1, 0) // group_size if extra else index // group_size)
        key = digest(f"{leader}/{part}", 40)
        labels |= {f"{_SET}/subgroup-index": part, f"{_SET}/subgroup-key": key}
        marks[f"{_SET}/subgroup-size"] = str(group_size)
        exclusive = owner.annotations.get(f"{_SET}/subgroup-exclusive-topology", "")
        if exclusive:
            spec = in_own_domain(spec, f"{_SET}/subgroup-key", key, exclusive)
    name = f"{leader}-{index}" if index else leader
    return pod(owner, template, name, labels=labels, annotations=marks, spec=spec)
