"""No way to write a job leads out of an ElasticQuota: 6 cpu are asked for under a max of 4, in every language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from tests.support.languages import (
    grove_gang,
    kai_gang,
    kubernetes_gang,
    kueue_gang,
    nodes,
    objects_of,
    plugin_gang,
    pod,
    run,
    volcano_gang,
)

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.sim.cluster import rounds

_LABEL = "quota.scheduling.koordinator.sh/name"
_NAMESPACES = "quota.scheduling.koordinator.sh/namespaces"
_QUEUE = "scheduling.volcano.sh/queue-name"
_ROOT: Raw = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "root"}}
_WIDE = [*nodes({"s": {"r": "n0 n1"}}, cpu=8), _ROOT]


def _quota(name: str, namespace: str = "koordinator-system", **annotations: str) -> Raw:
    marks = {key.replace("namespaces", _NAMESPACES): value for key, value in annotations.items()}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": namespace, "annotations": marks},
        "spec": {"min": {"cpu": "0"}, "max": {"cpu": "4"}},
    }


_WAYS: dict[str, tuple[Raw, bool]] = {
    "the label of its pods": (_quota("team"), True),
    "a label, of its namespace's own": (_quota("team", "default"), True),
    "a quota called like the namespace": (_quota("default"), False),
    "a quota that lists the namespace": (_quota("team", namespaces='["default"]'), False),
    "the default quota": (_quota("koordinator-default-quota"), False),
}
"""How a quota is found, and whether pods have to name it."""

_TEMPLATE = """
    metadata: {labels: {app: w}}
    spec:
      schedulerName: NAME
      restartPolicy: Never
      containers: [{name: c, image: x, resources: {requests: {cpu: 3}}}]
"""
_WORKLOADS = {
    "Job": "batch/v1\nkind: Job\nmetadata: {name: w}\nspec:\n  parallelism: 2\n  completions: 2\n  template:",
    "Deployment": "apps/v1\nkind: Deployment\nmetadata: {name: w}\nspec:\n  replicas: 2\n"
    "  selector: {matchLabels: {app: w}}\n  template:",
    "StatefulSet": "apps/v1\nkind: StatefulSet\nmetadata: {name: w}\nspec:\n  replicas: 2\n"
    "  podManagementPolicy: Parallel\n  selector: {matchLabels: {app: w}}\n  template:",
    "Volcano": "batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: w}\nspec:\n  minAvailable: 1\n"
    "  queue: default\n  tasks:\n  - name: t\n    replicas: 2\n    template:",
    "PyTorchJob": "kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: w}\nspec:\n  pytorchReplicaSpecs:\n"
    "    Worker:\n      replicas: 2\n      template:",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: w}\nspec:\n"
    "  replicas: 2\n  leaderWorkerTemplate:\n    size: 1\n    workerTemplate:",
    "RayCluster": "ray.io/v1\nkind: RayCluster\nmetadata: {name: w}\nspec:\n  workerGroupSpecs:\n"
    "  - groupName: g\n    replicas: 1\n    template:TEMPLATE\n  headGroupSpec:\n    template:",
    "ReplicaSet": "apps/v1\nkind: ReplicaSet\nmetadata: {name: w}\nspec:\n  replicas: 2\n"
    "  selector: {matchLabels: {app: w}}\n  template:",
}


def _workload(kind: str, scheduler: str) -> Callable[[], list[Raw]]:
    def made() -> list[Raw]:
        head, _, inner = _WORKLOADS[kind].partition("TEMPLATE")
        texts = [part + _indented(part, scheduler) for part in (head, inner) if part]
        return [yaml.safe_load("apiVersion: " + "".join(texts))]

    return made


def _indented(head: str, scheduler: str) -> str:
    """The template under the last line of what is before it."""
    last = head.splitlines()[-1]
    depth = len(last) - len(last.lstrip())
    return _TEMPLATE.replace("\n    ", "\n" + " " * (depth + 2)).replace("NAME", scheduler).rstrip()


def _lone(scheduler: str, labels: Raw | None = None, queue: str = "") -> Callable[[], list[Raw]]:
    marks = {_QUEUE: queue} if queue else {}

    def made() -> list[Raw]:
        spec: Raw = {"schedulerName": scheduler}
        return [pod(f"w-{i}", spec=spec, labels=dict(labels or {}), annotations=dict(marks)) for i in range(2)]

    return made


def _in_queue(name: str, made: list[Any]) -> list[Raw]:
    made[0] = {**made[0], "spec": {**made[0]["spec"], "queue": name}}
    return made


_WRITTEN: dict[str, Callable[[], list[Raw]]] = {
    **{f"pods of {name}": _lone(name) for name in ("tierwise", "volcano", "koord-scheduler", "kai-scheduler")},
    "pods that name the default queue": _lone("tierwise", queue="default"),
    "pods that name the root queue": _lone("tierwise", queue="root"),
    "pods of koord-scheduler that name the default queue": _lone("koord-scheduler", queue="default"),
    "pods with KAI's label": _lone("kai-scheduler", {"kai.scheduler/queue": "default"}),
    "pods with KAI's label, of tierwise": _lone("tierwise", {"kai.scheduler/queue": "default"}),
    "Volcano's group": lambda: volcano_gang("w", 2),
    "Volcano's group in the default queue": lambda: _in_queue("default", volcano_gang("w", 2)),
    "Volcano's group in the root queue": lambda: _in_queue("root", volcano_gang("w", 2)),
    "Volcano's elastic group": lambda: volcano_gang("w", 2, least=1),
    "scheduler-plugins": lambda: plugin_gang("w", 2),
    "Kubernetes' group": lambda: kubernetes_gang("w", 2),
    "KAI": lambda: kai_gang("w", 2),
    "KAI in the default queue": lambda: _in_queue("default", kai_gang("w", 2)),
    "Kueue": lambda: kueue_gang("w", 2),
    "Grove": lambda: grove_gang("w", {"a": 2}),
    **{f"{kind} of {name}": _workload(kind, name) for kind in _WORKLOADS for name in ("tierwise", "koord-scheduler")},
}


def _asked(raw: Any, *, label: bool) -> Any:
    """The object with pods of 3 cpu each, which name the quota where that is the way."""
    if isinstance(raw, list):
        return [_asked(item, label=label) for item in raw]
    if not isinstance(raw, dict):
        return raw
    found = {key: _asked(value, label=label) for key, value in raw.items()}
    if "containers" in found.get("spec", {}):
        found["spec"]["containers"] = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "3"}}}]
        meta = found.setdefault("metadata", {})
        if label:
            meta["labels"] = {**meta.get("labels", {}), _LABEL: "team"}
    return found


@pytest.mark.parametrize("written", _WRITTEN)
@pytest.mark.parametrize("way", _WAYS)
def test_a_quota_holds_a_job_however_it_is_written(written: str, way: str) -> None:
    """Without the quota both pods are bound; with it at most one is."""
    quota, label = _WAYS[way]
    made = [_asked(raw, label=label) for raw in _WRITTEN[written]()]

    assert 2 == len(rounds.schedule(objects_of(_WIDE, made), DEFAULT, now=0.0).bindings)
    bound, why = run(_WIDE, [quota], made)
    assert len(bound) < 2, bound
    assert any("quota" in text.lower() for text in why.values()), why


def test_a_queue_stays_where_nothing_limits_the_default_quota() -> None:
    """A trusted quota elsewhere takes nobody out of the default queue, whose capability goes on to hold."""
    queue: Raw = {**_ROOT, "metadata": {"name": "default"}, "spec": {"weight": 1, "capability": {"cpu": "4"}}}
    made = [_asked(raw, label=False) for raw in _lone("tierwise")()]

    bound, why = run(_WIDE, [queue, _quota("team")], made)
    assert len(bound) == 1
    assert any("queue default" in text for text in why.values()), why


def test_a_queue_that_somebody_made_is_a_choice() -> None:
    """It has limits of its own, so a job that names it is in it and in no quota."""
    queue: Raw = {**_ROOT, "metadata": {"name": "research"}, "spec": {"weight": 1}}
    made = [_asked(raw, label=True) for raw in _lone("tierwise", queue="research")()]

    assert len(run(_WIDE, [queue, _quota("team")], made)[0]) == 2


def test_a_pod_whose_group_is_gone_counts_in_its_quota() -> None:
    """Deleting a group after its pods were bound makes no room for more."""
    label = {_LABEL: "team"}
    gone, there = ({"scheduling.k8s.io/group-name": name} for name in "ab")
    old = pod("old", on="n0", cpu=3, labels=label, annotations=gone)
    new = [pod("new", cpu=3, labels=label, annotations=there), volcano_gang("b", 1)[0]]

    assert ["new"] == list(run(_WIDE, [old], new)[0])
    bound, why = run(_WIDE, [_quota("team"), old], new)
    assert not bound
    assert "quota team would have 6 cpu" in why["new"]
