"""What pods are read by changes after them, and nothing of theirs: what is kept of them is what reading anew tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.manifests import node, objects, pod_group, queue

from tierwise.api.codec import Raw
from tierwise.framework.ledger import Ledger
from tierwise.model.snapshot import Snapshot
from tierwise.port import key_of_raw
from tierwise.snapshot.builder import Reader, build
from tierwise.snapshot.consistency import differences

NODES = [node("n0"), node("n1")]
SIGS = "scheduling.sigs.k8s.io/v1alpha1"


def followed(before: Sequence[Raw], *changes: Raw) -> tuple[Snapshot, Snapshot]:
    """What a reader tells before and after some objects have come or become others."""
    reader, held = Reader(), objects(*NODES, *before)
    first = reader.read(held, 0.0)
    held = held.changed({key_of_raw(raw): raw for raw in changes})
    kept = reader.read(held, 0.0)

    assert [] == differences(kept, build(held, 0.0))
    return first, kept


def made(version: str, kind: str, name: str, namespace: str, **body: Any) -> Raw:
    """An object of a namespace; `meta` is what its metadata say besides."""
    meta = {"name": name, "namespace": namespace, **body.pop("meta", {})}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **body}


def pod(name: str, on: str = "", marks: dict[str, str] | None = None, **spec: Any) -> Raw:
    """A pod that asks for a cpu."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "ports": spec.pop("ports", [])}]
    spec = {"schedulerName": "tierwise", "containers": containers, **spec} | ({"nodeName": on} if on else {})
    meta = {"annotations": marks or {}}
    return made("v1", "Pod", name, "default", meta=meta, spec=spec, status={"phase": "Running" if on else "Pending"})


def quota(name: str, namespace: str, lists: str = "") -> Raw:
    """An ElasticQuota, and the namespaces that it lists."""
    meta = {"annotations": {"quota.scheduling.koordinator.sh/namespaces": lists}} if lists else {}
    return made(SIGS, "ElasticQuota", name, namespace, meta=meta, spec={"min": {"cpu": "1"}, "max": {"cpu": "4"}})


def queues(*snapshots: Snapshot) -> list[str]:
    """Where the one job of each counts."""
    return [job.queue for snapshot in snapshots for job in snapshot.jobs]


def test_a_compute_domain_that_comes_after_its_pods_keeps_them_in_one_clique() -> None:
    """They join it by the template that they name already."""
    claims = [{"name": "channel", "resourceClaimTemplateName": "channel"}]
    pods = [pod(f"p{i}", marks={"scheduling.k8s.io/group-name": "g"}, resourceClaims=claims) for i in range(2)]
    spec = {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "channel"}}}
    domain = made("resource.nvidia.com/v1beta1", "ComputeDomain", "c", "default", spec=spec)
    read = followed([pod_group("g", minMember=2), *pods], domain)
    confined = [job.constraint for snapshot in read for job in snapshot.jobs]

    assert ["", "nvidia.com/gpu.clique"] == [found.tier_name if found is not None else "" for found in confined]


def test_a_pod_leaves_the_quota_that_no_longer_lists_its_namespace() -> None:
    """And counts in the one that does."""
    lists = [quota("one", "koordinator-system", '["default"]'), quota("two", "koordinator-system")]
    others = [quota("one", "koordinator-system"), quota("two", "koordinator-system", '["default"]')]

    assert ["one", "two"] == queues(*followed([*lists, pod("p")], *others))


def test_a_queue_that_is_declared_is_meant_by_its_name() -> None:
    """Before, a group that named it meant the quota of its namespace; quotas keep the names of their queues."""
    quotas = [quota("q", namespace) for namespace in ("default", "other")]

    assert ["default/q", "q"] == queues(*followed([*quotas, pod_group("g", minMember=1, queue="q")], queue("q")))


def test_a_pod_by_itself_is_drawn_to_where_its_like_has_come() -> None:
    """A pod with the same selector gets a node."""
    marks = {"scheduling.koordinator.sh/network-topology-selector": "near"}
    read = followed([pod("waits", marks=marks), pod("runs", marks=marks)], pod("runs", "n1", marks))
    drawn = [job.gather.drawn.tolist() for s in read for job in s.jobs if job.key == "pod default/waits" and job.gather]

    assert [[], [1]] == drawn


def test_a_host_port_of_another_pod_counts_for_those_that_have_it_everywhere() -> None:
    """Who listens on all addresses of its node takes the port of any one of them; there are as many ports as before."""
    port = {"hostPort": 80, "containerPort": 80}
    waits = [pod("p", ports=[{**port, **other}]) for other in ({"hostPort": 81}, {"hostIP": "10.0.0.1"})]
    read = followed([pod("runs", "n0", ports=[port]), waits[0]], waits[1])
    ports = [[i for name, i in snapshot.axis.index.items() if "/80/" in name] for snapshot in read]
    taken = [snapshot.others[0].shape.request[which].tolist() for snapshot, which in zip(read, ports, strict=True)]

    assert [[1], [1, 1]] == taken


def test_a_pod_that_is_bound_without_its_claim_waits_for_it_no_longer() -> None:
    """Somebody bound it before a claim was made from its template."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    read = followed([pod("p", resourceClaims=claims)], pod("p", "n0", resourceClaims=claims))
    first, after = ([task for job in s.jobs for task in job.tasks] + [*s.others] for s in read)

    assert ["no ResourceClaim was made yet for its claim gpu from the template gpu"] == [task.unready for task in first]
    assert [""] == [task.unready for task in after]


def test_what_a_pod_that_starts_to_terminate_holds_is_being_released() -> None:
    """Gangs may be nominated for it."""
    leaving = pod("p", "n1")
    leaving["metadata"] = {**leaving["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}  # type: ignore[dict-item]
    read = followed([pod("p", "n1")], leaving)
    cpu = read[0].axis.index["cpu"]

    assert [[0, 0], [0, 1000]] == [Ledger(snapshot).releasing[cpu].tolist() for snapshot in read]


def test_the_last_device_class_is_forgotten() -> None:
    """A claim that comes after it was deleted names a class that there is not."""
    anything = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
    kind: Raw = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "any"}}
    request = {"name": "r", "exactly": {"deviceClassName": "any", "count": 1}}
    claim = made("resource.k8s.io/v1", "ResourceClaim", "c", "default", spec={"devices": {"requests": [request]}})
    asks = pod("p", resourceClaims=[{"name": "devices", "resourceClaimName": "c"}])
    reader, held = Reader(), objects(*NODES, {**kind, "spec": {"selectors": anything}})
    reader.read(held, 0.0)
    held = held.changed({}, [key_of_raw(kind)])
    reader.read(held, 0.0)
    held = held.changed({key_of_raw(raw): raw for raw in (claim, asks)})

    assert [] == differences(reader.read(held, 0.0), build(held, 0.0))


def test_queues_do_not_remember_which_came_first() -> None:
    """The one that always exists stands where it stood, whether it is declared or not."""
    reader, held = Reader(), objects(*NODES, queue("default"), queue("q"))
    reader.read(held, 0.0)
    held = held.changed({}, [key_of_raw(queue("default"))])

    assert [] == differences(reader.read(held, 0.0), build(held, 0.0))
