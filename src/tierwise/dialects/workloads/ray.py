"""Ray's clusters, and the jobs and services that have one.

A cluster is a gang where it is asked for, as KubeRay does it: by the label `ray.io/gang-scheduling-enabled`, by a
queue of Volcano's, or by pods that name a gang scheduler; else its pods start one by one, and Ray goes on with those.
"""

from __future__ import annotations

from typing import Final

from tierwise.api.codec import Raw, kind_of
from tierwise.dialects.workloads.children import (
    KUEUE_QUEUE,
    Child,
    Expansion,
    NoTemplateError,
    Owner,
    alike,
    named,
    pod,
)
from tierwise.dialects.workloads.fields import Fields, few
from tierwise.dialects.workloads.gangs import Gang, in_gang

__all__ = ["ray_cluster", "ray_job", "ray_service"]

_RAY: Final = "ray.io"
_GANG: Final = f"{_RAY}/gang-scheduling-enabled"
_QUEUES: Final = ("volcano.sh/queue-name", "kai.scheduler/queue", KUEUE_QUEUE)
_SCHEDULERS: Final = ("volcano", "tierwise", "scheduler-plugins-scheduler")
_FROM: Final = f"{_RAY}/originated-from-crd"
_FROM_NAME: Final = f"{_RAY}/originated-from-cr-name"


def ray_cluster(owner: Owner) -> Expansion:
    """A head, and the workers of each group: as many as are wanted, between least and most, times hosts."""
    spec = owner.spec
    groups = [(entry, _desired(entry)) for entry in spec.each("workerGroupSpecs")]
    few(spec, "workerGroupSpecs", 1 + sum(number for _, number in groups))
    if owner.suspended():
        return Expansion(note="it is suspended")
    if spec.text("managedBy", _OPERATOR) != _OPERATOR:
        return Expansion(note=f"it is managed by {spec.text('managedBy')}")
    head = spec.at("headGroupSpec")
    children = _of_group(owner, head.at("template"), "headgroup", 1, head=True)
    roles = ["headgroup"]
    for entry, number in groups:
        name = entry.text("groupName")
        children += _of_group(owner, entry.at("template"), name, number)
        roles += [name] * number
    if not _is_gang(owner, children):
        return Expansion(children)
    least = 1 + sum(
        min(entry.count("minReplicas", 0) * entry.count("numOfHosts", 1), number) for entry, number in groups
    )
    minimum = least if spec.flag("enableInTreeAutoscaling") else len(children)
    whose = owner.labels.get(_FROM_NAME, "") if owner.labels.get(_FROM) == "RayJob" else ""
    gang = Gang(
        f"ray-{whose or owner.name}-pg", minimum, priority_class=owner.labels.get(f"{_RAY}/priority-class-name", "")
    )
    return Expansion(in_gang(owner, gang, children, roles))


_OPERATOR: Final = f"{_RAY}/kuberay-operator"


def _desired(entry: Fields) -> int:
    """How many workers a group has."""
    lowest = entry.count("minReplicas", 0)
    highest = entry.number("maxReplicas", 2**31 - 1)
    desired = entry.number("replicas", 0)
    hosts = entry.count("numOfHosts", 1)
    if entry.flag("suspend"):
        return 0
    number = lowest if desired < lowest else min(desired, highest)
    return few(entry, "replicas", number * hosts)


def _of_group(owner: Owner, template: Fields, name: str, number: int, *, head: bool = False) -> list[Child]:
    kind = "head" if head else "worker"
    labels = {
        f"{_RAY}/cluster": owner.name,
        f"{_RAY}/node-type": kind,
        f"{_RAY}/group": name,
        f"{_RAY}/identifier": f"{owner.name}-{kind}",
        f"{_RAY}/is-ray-node": "yes",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    prefix = f"{owner.name}-head-" if head else f"{owner.name}-{name}-worker-"
    if not number:
        return []
    queue = {key: owner.labels[key] for key in _QUEUES if owner.labels.get(key)}
    like = {f"{_RAY}/node-type": kind, f"{_RAY}/group": name}
    return alike(pod(owner, template, prefix, labels=labels | queue), number, like)


def _is_gang(owner: Owner, children: list[Child]) -> bool:
    specs = (child.raw["spec"] for child in children)
    named_schedulers = set()
    for spec in specs:
        if isinstance(spec, dict):
            named_schedulers.add(spec.get("schedulerName"))
    named_group = any(key in owner.labels for key in (_GANG, *_QUEUES))
    return named_group or not named_schedulers.isdisjoint(_SCHEDULERS)


def ray_job(owner: Owner) -> Expansion:
    """A cluster, unless it chooses one that exists, and once all of that has a node, a Job that submits the work."""
    spec = owner.spec
    cluster = owner.spec.at("rayClusterSpec")
    if not cluster and not spec.at("clusterSelector"):
        raise NoTemplateError("it has no pod template", field=cluster.path)
    if owner.suspended():
        return Expansion(note="it is suspended")
    if owner.fields.at("status").text("jobDeploymentStatus") in ("Complete", "Failed"):
        return Expansion()
    if not cluster:
        return Expansion([Child(_submitter(owner, Fields({})), "")] if _submits(spec) else [])
    made = _cluster(owner, cluster)
    children = [Child(made, cluster.path)]
    if not _submits(spec):
        return Expansion(children)
    both = [*children, Child(_submitter(owner, cluster), "spec.submitterPodTemplate")]
    return Expansion(both if _has_nodes(Owner(made, owner.family)) else children, examples=both)


def _has_nodes(cluster: Owner) -> bool:
    """Whether every pod of a cluster has been given a node: until then there is nobody to submit to."""
    placed = sum(bool(one.spec.node_name) and one.status.phase not in ("Failed", "Succeeded") for one in cluster.pods())
    if not placed:  # what is wrong with a cluster is told by the cluster itself, with its own paths
        return False
    wanted = sum(child.raw["kind"] == "Pod" for child in ray_cluster(cluster).children)
    return 0 < wanted <= placed


def ray_service(owner: Owner) -> Expansion:
    """Its one cluster."""
    cluster = owner.spec.at("rayClusterConfig")
    if not cluster:
        raise NoTemplateError("it has no pod template", field=cluster.path)
    if owner.suspended():
        return Expansion(note="it is suspended")
    return Expansion([Child(_cluster(owner, cluster), cluster.path)])


def _cluster(owner: Owner, cluster: Fields) -> Raw:
    """The RayCluster of a job or a service; one that it has already is not made again."""
    present = next((child.metadata.name for child in owner.children() if kind_of(child).name == "RayCluster"), "")
    labels = owner.labels | {_FROM: owner.kind, _FROM_NAME: owner.name}
    name = present or owner.fields.at("status").text("rayClusterName") or f"{owner.name}-00001"
    body: Raw = {"spec": cluster.raw}
    return named(owner, f"{_RAY}/v1", "RayCluster", name, body, labels=labels, annotations=owner.annotations)


def _submits(spec: Fields) -> bool:
    return spec.text("submissionMode", "K8sJobMode") == "K8sJobMode"


def _submitter(owner: Owner, cluster: Fields) -> Raw:
    """The Job that submits: by its own template, or as small as KubeRay makes it, with the image of the head."""
    template = owner.spec.at("submitterPodTemplate")
    heads = list(cluster.at("headGroupSpec", "template", "spec").each("containers"))
    image = heads[0].text("image") if heads else ""
    needs = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}}
    small: Raw = {"containers": [{"name": "ray-job-submitter", "image": image, "resources": needs}]}
    pods: Raw = template.raw if template.at("spec") else {"spec": small}
    spec = Fields(pods).at("spec").raw
    body: Raw = {"spec": {"backoffLimit": 2, "template": {**pods, "spec": {"restartPolicy": "Never", **spec}}}}
    labels = {_FROM: owner.kind, _FROM_NAME: owner.name, "app.kubernetes.io/created-by": "kuberay-operator"}
    return named(owner, "batch/v1", "Job", owner.name, body, labels=labels)
