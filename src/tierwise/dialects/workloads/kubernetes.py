"""Kubernetes' own workloads: what the controller manager makes of Deployments, sets, Jobs and CronJobs.

None of them is a gang by itself: their pods start one by one unless they name a group, or the workload says in
`spec.scheduling` how they are scheduled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Node, NodeSelectorTerm, Pod, read_number
from tierwise.api.errors import InputError
from tierwise.api.own_keys import KUEUE_LEAST
from tierwise.api.selector import holds, tolerates
from tierwise.dialects.workloads.children import Child, Expansion, Owner, alike, digest, named, pod
from tierwise.dialects.workloads.fields import Fields
from tierwise.dialects.workloads.gangs import POD_SET, Marks, in_queue, names_no_group
from tierwise.dialects.workloads.scheduling import is_declared, of_pods

__all__ = ["COMPLETION_INDEX", "cron_job", "daemon_set", "deployment", "job", "replica_set", "stateful_set"]

_HASH: Final = "pod-template-hash"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_ENDED: Final = ("Succeeded", "Failed")
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
_POD_INDEX: Final = "kueue.x-k8s.io/pod-group-pod-index"


# Deployments and the sets of apps/v1.


def deployment(owner: Owner) -> Expansion:
    """One ReplicaSet, unless it has one already; none while it is paused before its first."""
    spec = owner.spec
    template = owner.spec.at("template")
    if any(record.metadata.labels.get(_HASH) for record in owner.children()):
        return Expansion()
    pod(owner, template, owner.name)  # or it is refused
    if spec.flag("paused"):
        return Expansion(note="it is paused")
    replicas = spec.count("replicas", 1)
    mark = {_HASH: _former_hash(owner) or digest(template.raw)}
    labels = template.at("metadata").texts("labels") | mark
    marked = {**template.raw, "metadata": {**template.at("metadata").raw, "labels": labels}}
    selector = owner.spec.at("selector")
    body: Raw = {
        "spec": {
            "replicas": replicas,
            "selector": {**selector.raw, "matchLabels": selector.texts("matchLabels") | mark},
            "template": marked,
        }
    }
    copied = {key: text for key, text in owner.annotations.items() if key != _LAST_APPLIED}
    name = f"{owner.name}-{mark[_HASH]}"
    raw = named(owner, "apps/v1", "ReplicaSet", name, body, labels=labels, annotations=copied)
    return Expansion([Child(raw)])


def _former_hash(owner: Owner) -> str:
    """The hash of a ReplicaSet that is not at hand, by pods of it that are."""
    for (kind, namespace, name), children in owner.family.owned.items():
        if kind == "ReplicaSet" and namespace == owner.namespace and name.startswith(f"{owner.name}-"):
            mark = children[0].metadata.labels.get(_HASH, "")
            if mark and name == f"{owner.name}-{mark}":
                return mark
    return ""


def replica_set(owner: Owner) -> Expansion:
    """So many pods, one like the other."""
    number = owner.spec.count("replicas", 1)
    return Expansion(alike(pod(owner, owner.spec.at("template"), f"{owner.name}-"), number))


def stateful_set(owner: Owner) -> Expansion:
    """Pods by ordinal, with a claim each for every claim template; all at once, whatever their order of starting."""
    spec = owner.spec
    template = owner.spec.at("template")
    example = pod(owner, template, owner.name)
    replicas = spec.count("replicas", 1)
    scheduled = is_declared(spec) and names_no_group([example])
    group = Marks() if scheduled else in_queue(owner, [example], replicas)
    start = spec.at("ordinals").number("start", 0)
    claims = {claim.at("metadata").text("name"): claim for claim in spec.each("volumeClaimTemplates")}
    claimed: list[Child] = []
    pods: list[Child] = []
    for index in range(start, start + replicas):
        name = f"{owner.name}-{index}"
        labels = {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(index),
            "controller-revision-hash": f"{owner.name}-{digest(template.raw)}",
            **group.labels,
        }
        claimed += (Child(_claim(owner, claim, f"{volume}-{name}")) for volume, claim in claims.items())
        pod_spec = _claiming(template.at("spec").raw, claims, name)
        pods.append(pod(owner, template, name, labels=labels, annotations=group.annotations, spec=pod_spec))
    if not scheduled:
        return Expansion([*claimed, *pods])
    pod_group = of_pods(owner, replicas, replicas)
    return Expansion([*claimed, *pod_group.with_pods(pods)], waits=pod_group.waits)


def _claim(owner: Owner, claim: Fields, name: str) -> Raw:
    meta = claim.at("metadata")
    metadata: Raw = {"name": name, "namespace": owner.namespace}
    metadata |= {field: meta.texts(field) for field in ("labels", "annotations") if meta.texts(field)}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim.at("spec").raw}


def _claiming(raw: Raw, claims: dict[str, Fields], name: str) -> Raw:
    """A pod's spec with the volumes of its own claims, which come before those of the template."""
    volumes = [volume for volume in Fields(raw).each("volumes") if volume.text("name") not in claims]
    claim_volumes = [{"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}"}} for volume in claims]
    if claims:
        return {**raw, "volumes": claim_volumes + [volume.raw for volume in volumes]}
    return raw


_NAME: Final = "metadata.name"
_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_OF_HOSTS: Final = (("node.kubernetes.io/network-unavailable", "NoSchedule"),)


def daemon_set(owner: Owner) -> Expansion:
    """A pod for each node that its template may run on, bound to that node by affinity."""
    template = owner.spec.at("template")
    like = pod(owner, template, f"{owner.name}-")
    example: Pod = codec.decode({**like.raw, "spec": _for_node(template.at("spec").raw, "")})
    plain: Pod = codec.decode(like.raw)
    present_nodes = {
        _bound_to(pod) for pod in owner.pods() if not pod.metadata.deletion_timestamp and pod.status.phase != "Failed"
    }
    eligible = [name for name, node in owner.family.objects.every(Node).items() if _may_run(plain, example, node)]
    missing = (name for name in eligible if name not in present_nodes)
    pod_spec = template.at("spec").raw
    note = "" if eligible else "it may run on no node"
    return Expansion([pod(owner, template, f"{owner.name}-", spec=_for_node(pod_spec, name)) for name in missing], note)


def _may_run(plain: Pod, example: Pod, node: Node) -> bool:
    """By the node selector and affinity of a template, and by the tolerations that its pods will have."""
    labels = node.metadata.labels
    spec = plain.spec
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    if required is not None and not any(_in_term(term, node) for term in required.node_selector_terms):
        return False
    barring = (taint for taint in node.spec.taints if taint.effect in ("NoSchedule", "NoExecute"))
    return all(tolerates(example.spec.tolerations, taint) for taint in barring)


def _in_term(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    of_fields = all(holds(entry, node.metadata.name) for entry in term.match_fields if entry.key == _NAME)
    return of_fields and all(holds(entry, node.metadata.labels.get(entry.key)) for entry in term.match_expressions)


def _bound_to(pod: Pod) -> str:
    """The node that a pod of the set is for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    terms = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ()
    named = (entry.values[0] for term in terms for entry in term.match_fields if entry.key == _NAME and entry.values)
    return next(named, "")


def _for_node(raw: Raw, name: str) -> Raw:
    """A pod's spec as the controller writes it for a node: the node's name takes the place of required affinity."""
    fields = Fields(raw)
    affinity = fields.at("affinity")
    term = {"matchFields": [{"key": _NAME, "operator": "In", "values": [name]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    added = _TOLERATED + (_OF_HOSTS if fields.flag("hostNetwork") else ())
    return {
        **raw,
        "affinity": {**affinity.raw, "nodeAffinity": {**affinity.at("nodeAffinity").raw, **required}},
        "tolerations": [
            *(entry.raw for entry in fields.each("tolerations")),
            *({"key": key, "operator": "Exists", "effect": effect} for key, effect in added),
        ],
    }


# Jobs and CronJobs of batch/v1.


def _makes_nothing(owner: Owner, pods: Sequence[Pod]) -> Expansion | None:
    """Empty expansion of a Job that is managed elsewhere, suspended, over or failed; None if it makes pods."""
    spec = owner.spec
    if spec.text("managedBy", _JOBS) != _JOBS:
        return Expansion(note=f"it is managed by {spec.text('managedBy')}")
    if owner.suspended():
        return Expansion(note="it is suspended")
    failed = sum(pod.status.phase == "Failed" for pod in pods)
    limit = 6 if spec.raw.get("backoffLimitPerIndex") is None else 2**31
    if _is_over(owner) or failed > spec.number("backoffLimit", limit):
        return Expansion()
    return None


def job(owner: Owner) -> Expansion:
    """As many pods at a time as may run, by what has succeeded; with Indexed completion one for each index."""
    spec = owner.spec
    template = owner.spec.at("template")
    example = pod(owner, template, owner.name)
    has_completions = spec.raw.get("completions") is not None
    at_once = spec.count("parallelism", 1)
    in_all = spec.number("completions", 1) if has_completions or spec.raw.get("parallelism") is None else None
    pods = list(owner.pods())
    ended = _makes_nothing(owner, pods)
    if ended is not None:
        return ended
    active = [pod for pod in pods if pod.status.phase not in _ENDED and not pod.metadata.deletion_timestamp]
    indexed = spec.text("completionMode") == "Indexed"
    labels = {
        "batch.kubernetes.io/controller-uid": owner.uid,
        "batch.kubernetes.io/job-name": owner.name,
        "controller-uid": owner.uid,
        "job-name": owner.name,
    }
    total = at_once if in_all is None else min(at_once, in_all)
    scheduled = is_declared(spec) and names_no_group([example])
    in_kueue = Marks() if scheduled else in_queue(owner, [example], _least(owner) or total)
    labels |= in_kueue.labels
    marks = in_kueue.annotations
    if indexed:
        done = {_index(pod) for pod in pods if pod.status.phase == "Succeeded"} | _completed(owner, in_all or 0)
        used_indexes = {*done, *map(_index, active)}
        free = (index for index in range(in_all if in_all is not None else at_once) if index not in used_indexes)
        next_indexes = islice(free, max(at_once - len(active), 0))
        lacking = [_of_index(owner, template, labels, marks, index) for index in next_indexes]
        remaining = total if in_all is None else min(total, in_all - len(done))
        if scheduled:
            return _grouped(owner, lacking, total, remaining)
        return Expansion(lacking)
    succeeded = max(
        sum(pod.status.phase == "Succeeded" for pod in pods), owner.fields.at("status").number("succeeded", 0)
    )
    limit = at_once if in_all is None else min(at_once, max(in_all - succeeded, 0))
    if in_all is None and succeeded:
        limit = 0
    child = pod(owner, template, f"{owner.name}-", labels=labels, annotations=marks)
    lacking = [Child(child.raw, child.template)] * max(limit - len(active), 0)
    if scheduled:
        return _grouped(owner, lacking, total, limit)
    return Expansion(lacking)


def _grouped(owner: Owner, pods: list[Child], size: int, remaining: int) -> Expansion:
    """The pods that are missing, in the group that `spec.scheduling` asks for."""
    pod_group = of_pods(owner, size, remaining)
    return Expansion(pod_group.with_pods(pods), waits=pod_group.waits)


def _least(owner: Owner) -> int:
    """How many pods at a time Kueue's annotation asks for at least; 0 where it does not say."""
    return read_number(owner.annotations.get(KUEUE_LEAST, "")) or 0


_JOBS: Final = "kubernetes.io/job-controller"


def _of_index(owner: Owner, template: Fields, labels: dict[str, str], marks: Mapping[str, str], index: int) -> Child:
    mark = {COMPLETION_INDEX: str(index)}
    if POD_SET in template.at("metadata").texts("labels"):  # one of several Jobs that count their pods through
        before = (read_number(owner.labels.get(_JOB_INDEX, "")) or 0) * owner.spec.number("parallelism", 1)
        labels = labels | {_POD_INDEX: str(before + index)}
    hosted = {"hostname": f"{owner.name}-{index}", **template.at("spec").raw}
    return pod(
        owner, template, f"{owner.name}-{index}-", labels=labels | mark, annotations={**marks, **mark}, spec=hosted
    )


def _is_over(owner: Owner) -> bool:
    ends = {"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"}
    return bool(owner.fields.at("status").text("completionTime") or owner.conditions & ends)


def _index(pod: Pod) -> int:
    meta = pod.metadata
    index = read_number(meta.annotations.get(COMPLETION_INDEX, "") or meta.labels.get(COMPLETION_INDEX, ""))
    return -1 if index is None else index


def _completed(owner: Owner, in_all: int) -> set[int]:
    """Indexes that the status says have succeeded, such as "1,3-5"."""
    indexes: set[int] = set()
    for part in owner.fields.at("status").text("completedIndexes").split(","):
        begin_text, _, end_text = part.partition("-")
        low = read_number(begin_text)
        high = read_number(end_text or begin_text)
        if low is not None and high is not None:
            indexes.update(range(low, min(high, in_all) + 1))
    return indexes


def cron_job(owner: Owner) -> Expansion:
    """One run of it, as the next one will be: schedules are not followed."""
    template = owner.spec.at("jobTemplate")
    meta = template.at("metadata")
    body: Raw = {"spec": template.at("spec").raw}
    marks = {"labels": meta.texts("labels"), "annotations": meta.texts("annotations")}
    raw = named(owner, "batch/v1", "Job", f"{owner.name}-00001", body, **marks)
    try:
        job(Owner(raw))
    except InputError as error:
        raise type(error)(error.message, field=f"spec.jobTemplate.{error.field}") from None
    if owner.suspended():
        return Expansion(note="it is suspended")
    return Expansion([] if any(True for _ in owner.children()) else [Child(raw)])
