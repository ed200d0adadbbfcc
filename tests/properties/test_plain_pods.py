"""Plain pods that are placed as one run stand where each would have gone in its own turn."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support import volumes
from tests.support.depth import examples
from tests.support.plugin_table import plugin_table, plugins_at
from tests.support.sight import cycle, sees
from tests.support.strategies import profile

from tierwise.actions.jobs_by_queue import Kind, plain_kind
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.dialects.kubernetes.volumes import FAILED_AT
from tierwise.explain.wire import pending_wire
from tierwise.framework.cycle import Cycle
from tierwise.framework.declaration import check_plugin, declared, takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, Filter, Gate, JobOrder, QueueOrder, Quota, Scorer
from tierwise.model.arrays import Why
from tierwise.model.job import Job, Queue, Reason, Shape
from tierwise.model.snapshot import Snapshot
from tierwise.plugins import PLUGINS
from tierwise.scheduler import open_cycle
from tierwise.snapshot.builder import build
from tierwise_lab.bench.manifests import Manifest, daemon_pod, lone_pod, node, read_manifests

_MOST = {"mostrequested.weight": 1, "leastrequested.weight": 0, "balancedresource.weight": 0}
PROFILES = {
    "default": DEFAULT,
    "most": profile("gang", "predicates", PluginChoice("nodeorder", _MOST), "binpack"),
    "least": profile("gang", "predicates", "nodeorder"),
    "domains": profile("gang", "predicates", "network-topology-aware"),
    "shares": profile("gang", "predicates", "proportion", "binpack"),
    "capacity": profile("gang", "predicates", "capacity", "binpack", "nodeorder"),
    "weights": profile("gang", "capacity", "predicates", "nodeorder", "network-topology-aware"),
    "fairness": profile("gang", "drf", "predicates", "proportion", "network-topology-aware"),
    "anywhere": profile("gang", PluginChoice("predicates", {"predicate.NodeAffinityEnable": False}), "binpack"),
    "at once": replace(
        profile("priority", "gang", "predicates", "binpack", actions="enqueue allocate podpreempt"),
        immediate_preemption=True,
    ),
    "kubernetes": profile(
        "gang", PluginChoice("predicates", {"kubernetes": True}), "NodeResourcesFit", "TaintToleration"
    ),
}


def world(pick: Random) -> list[Manifest]:
    """A few nodes with room for a few pods each, and the pods of some services, one of which may be picky."""
    nodes: list[Manifest] = []
    for i in range(pick.randrange(1, 6)):
        meta = {"name": f"n{i}", "labels": {"zone": pick.choice("ab")}}
        amounts = {"cpu": str(pick.randrange(4)), "memory": "8Gi", "pods": str(pick.randrange(1, 6)), "disk": "2"}
        nodes.append({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": amounts}})
    pods: list[Manifest] = []
    for service in range(pick.randrange(1, 4)):
        spec: dict[str, Any] = {}
        if pick.random() < 0.3:
            spec["nodeSelector"] = {"zone": "a"}
        if pick.random() < 0.2:
            term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"s{service}"}}}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if pick.random() < 0.3:
            spec["priority"] = pick.randrange(3)
        on = [f"n{pick.randrange(len(nodes))}" if pick.random() < 0.1 else "" for _ in range(pick.randrange(9))]
        marks = [{"scheduling.volcano.sh/queue-name": pick.choice("qr")} if pick.random() < 0.5 else {}]
        if pick.random() < 0.3:
            marks.append({"scheduling.volcano.sh/queue-name": "q"})  # the pods of a service wait in two queues
        if pick.random() < 0.3:
            marks = [{"scheduling.k8s.io/group-name": f"s{service}"}]
            pods.append(elastic(f"s{service}", pick.randrange(1, 3), pick.choice("qr")))
        elif on and pick.random() < 0.4:  # each pod is a gang of its own
            names, queues_of = [f"s{service}-gang-{i}" for i in range(len(on))], pick.choice(("q", "qr"))
            marks = [{"scheduling.k8s.io/group-name": name} for name in names]
            pods += [elastic(name, 1, pick.choice(queues_of)) for name in names]
        made = [lone_pod(f"s{service}", i, on=where, **spec) for i, where in enumerate(on)]
        for i, pod in enumerate(made):
            pod["metadata"]["annotations"] = marks[i % len(marks)]
            if pod["spec"].get("nodeName") and pick.random() < 0.4:
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        pods += made
    pick.shuffle(pods)
    for i, pod in enumerate(pods if pick.random() < 0.5 else ()):  # services that wait among each other
        pod["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{i:02}Z"
    queues = [queue(name, pick) for name in "qr"]
    if pick.random() < 0.5:
        names = [f"n{pick.randrange(len(nodes) + 1)}" for _ in range(pick.randrange(2, 9))]  # one may not exist
        larger, priority = pick.random() < 0.5, pick.randrange(3)
        pods += [named(daemon_pod(0, n, bound=False), i, priority, larger=larger) for i, n in enumerate(names)]
    return [*nodes, *queues, *pods]


def elastic(name: str, least: int, queue: str) -> Manifest:
    """A podGroup that starts with so many of its pods."""
    spec = {"minMember": least, "queue": queue}
    meta = {"name": name, "namespace": "web"}
    version = "scheduling.volcano.sh/v1beta1"
    return {
        "apiVersion": version,
        "kind": "PodGroup",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": "Inqueue"},
    }


def queue(name: str, pick: Random) -> Manifest:
    """A queue that may use some of the cluster."""
    spec: dict[str, Any] = {"weight": pick.randrange(1, 3)}
    for limit in ("capability", "deserved"):
        if pick.random() < 0.5:
            spec[limit] = {"cpu": f"{pick.randrange(5) * 500}m"}
    paths = {"volcano.sh/hierarchy": f"root/{name}", "volcano.sh/hierarchy-weights": f"1/{pick.randrange(1, 3)}"}
    meta = {"name": name, "annotations": paths if pick.random() < 0.3 else {}}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": meta, "spec": spec}


def named(pod: Manifest, number: int, priority: int = 0, *, larger: bool = False) -> Manifest:
    """A pod under another name: a node may be the pin of several. Where asked for, every other one wants disks."""
    (container,) = pod["spec"]["containers"]
    if larger and number % 2:
        container = {**container, "resources": {"requests": {**container["resources"]["requests"], "disk": "2"}}}
    metadata = {**pod["metadata"], "name": f"daemon-{number}"}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "priority": priority, "containers": [container]}}


def told(snapshot: Snapshot, by: Profile, *, singly: bool) -> list[object]:
    """Where pods go, in which order, and why the others wait; somebody who looks on has every job served by itself."""

    def look(_: Cycle, __: Job) -> None:
        return None

    report = cycle(replace(snapshot, kept_verdicts=None), by, inspect=look if singly else None)
    where = [(d.job.key, d.domain, [(p.rows.tolist(), p.pool) for p in d.placed]) for d in report.decisions]
    counts = replace(report.search_counts, steps=0)  # what is taken at once takes fewer
    return [where, pending_wire(snapshot, report, {}), counts]


@pytest.mark.parametrize("scorers", PROFILES)
@sees(decisions=7, refusals=9)
@given(pick=st.randoms(use_true_random=False))
@examples(24)
def test_a_run_equals_turns(scorers: str, pick: Random) -> None:
    """Nodes, order of decisions and reasons are those of serving pod after pod."""
    snapshot = build(read_manifests(world(pick)), 0.0, PROFILES[scorers])

    assert told(snapshot, PROFILES[scorers], singly=True) == told(snapshot, PROFILES[scorers], singly=False)


@pytest.mark.parametrize("scorers", ["default", "least", "shares"])
@sees(decisions=20, refusals=5)
@given(pick=st.randoms(use_true_random=False))
@examples(12, least=5)
def test_pods_with_claims_go_where_each_would_have_gone(scorers: str, pick: Random) -> None:
    """Claims whose volumes are made on any node or in one zone, that share one, or of which one has failed just now."""
    chosen = PROFILES[scorers]
    chosen = replace(chosen, tiers=(*chosen.tiers, (PluginChoice("volumes"),)))
    made = [volumes.node(f"n{i}", pick.choice(("z1", "z2")), cpu=str(pick.randrange(1, 5))) for i in range(4)]
    made.append(volumes.storage_class())
    made += [volumes.csi_node(f"n{i}", csi_test=pick.randrange(1, 4)) for i in range(4) if pick.random() < 0.5]
    for i in range(pick.randrange(2, 12)):
        failed = {FAILED_AT: "2026-01-01T00:00:00Z"} if pick.random() < 0.1 else {}
        bound = f"v{i}" if pick.random() < 0.2 else ""
        made += [volumes.claim(f"c{i}", bound, annotations=failed), volumes.pod(f"p{i}", f"c{i}")]
        made += [volumes.volume(bound, f"c{i}", affinity=volumes.within(volumes.ZONE, "z1"))] if bound else []
    snapshot = build(volumes.objects(*made), 1_767_225_601.0, chosen)

    assert told(snapshot, chosen, singly=True) == told(snapshot, chosen, singly=False)


def waits_in(queue: str, pods: list[Manifest]) -> list[Manifest]:
    """Pods that wait in a queue."""
    for pod in pods:
        pod["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": queue}
    return pods


def of_group(name: str, queue: str, pods: int) -> list[Manifest]:
    """An elastic gang that starts with one pod."""
    made = [lone_pod(name, i) for i in range(pods)]
    for pod in made:
        pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name}
    return [elastic(name, 1, queue), *made]


def two_queues(**spec: Any) -> list[Manifest]:
    """Queues q and r, the first of which may be limited."""
    made = [queue(name, Random(0)) for name in "qr"]
    return [{**made[0], "spec": {"weight": 1, **spec}}, {**made[1], "spec": {"weight": 1}}]


def choosy(number: int) -> list[Manifest]:
    """Pods of another shape, which only some of the nodes suit."""
    return [lone_pod("b", i, nodeSelector={"rack": "r9"}) for i in range(number)]


TURNS = {
    "a queue that is limited": [
        *two_queues(capability={"cpu": "2"}),
        *waits_in("q", [lone_pod("a", i) for i in range(8)]),
    ],
    "queues that take turns": [
        *two_queues(),
        *waits_in("q", [lone_pod("a", i) for i in range(8)]),
        *waits_in("r", [lone_pod("a", i) for i in range(8, 16)]),
    ],
    "queues with pods of two shapes": [
        *two_queues(),
        *waits_in("q", [lone_pod("a", i) for i in range(8)]),
        *waits_in("r", [*(lone_pod("a", i) for i in range(8, 11)), *choosy(8)]),
    ],
    "elastic gangs of one queue": [*two_queues(), *of_group("a", "q", 8), *of_group("b", "q", 8)],
    "elastic gangs of two queues": [*two_queues(), *of_group("a", "q", 8), *of_group("b", "r", 8)],
    "an elastic gang beside pods": [
        *two_queues(),
        *of_group("a", "q", 8),
        *waits_in("r", choosy(8)),
    ],
}


@pytest.mark.parametrize("scorers", ["shares", "capacity", "fairness", "weights"])
@pytest.mark.parametrize("waiting", TURNS)
def test_turns_are_kept(waiting: str, scorers: str) -> None:
    """Whoever's turn it is by shares gets the next place, and with one node after the other being full, just that."""
    nodes = [small(i, 1 + i % 3) for i in (*range(8), *range(9 * 16, 9 * 16 + 6))]
    snapshot = build(read_manifests([*nodes, *TURNS[waiting]]), 0.0, PROFILES[scorers])

    assert told(snapshot, PROFILES[scorers], singly=True) == told(snapshot, PROFILES[scorers], singly=False)


def promising(promise: str, *points: type) -> list[str]:
    """The plugins at these points that make a promise; of those that choose a class, all classes must."""
    table = plugin_table()
    said = {name: check_plugin(name, table[name]) for name in plugins_at(*points)}
    made = {name: [declared(kind) or it for kind in it.makes] or [it] for name, it in said.items()}
    return [name for name, each in made.items() if all(getattr(one, promise) for one in each)]


@pytest.mark.parametrize("plugin", promising("ignores_names", Gate, JobOrder))
@given(pick=st.randoms(use_true_random=False))
@examples(12)
def test_names_are_ignored(plugin: str, pick: Random) -> None:
    """Plain pods of one kind pass the same gates and have the same place in the order of a plugin that promises it."""
    chosen = profile("gang", plugin)
    current = open_cycle(build(read_manifests(world(pick)), 0.0, chosen), chosen, plugins=plugin_table())
    told: dict[Kind | None, set[object]] = {}
    for job in current.snapshot.waiting:
        answers = (current.pipeline.admit(job), current.pipeline.job_order(job))
        told.setdefault(plain_kind(current, job), set()).add(answers)

    told.pop(None, None)
    assert [1] * len(told) == [len(answers) for answers in told.values()]


@pytest.mark.parametrize("plugin", promising("rises_with_use", QueueOrder, Quota))
@given(pick=st.randoms(use_true_random=False))
@examples(12)
def test_limits_rise_with_use(plugin: str, pick: Random) -> None:
    """While a queue uses more, its key does not fall, and what it may not use stays so, where a plugin promises it."""
    chosen = profile("gang", plugin)
    current = open_cycle(build(read_manifests(world(pick)), 0.0, chosen), chosen, plugins=plugin_table())
    pipeline = current.pipeline
    for job in current.snapshot.waiting:
        queue, request = current.snapshot.queues[job.queue], job.tasks[0].shape.request
        told = []
        for _ in range(5):
            told.append(
                (
                    pipeline.queue_order(queue),
                    pipeline.overused(queue) is not None,
                    pipeline.quota_exceeded(job, request) is not None,
                )
            )
            current.ledger.charge(job, request)
        for answers in zip(*told, strict=True):
            assert sorted(answers) == list(answers)


@pytest.mark.parametrize("plugin", promising("scores_by_shape", Scorer))
@given(pick=st.randoms(use_true_random=False))
@examples(12)
def test_scores_follow_the_shape(plugin: str, pick: Random) -> None:
    """Jobs with tasks of one shape have the same scores, whatever their queue, where a plugin promises it."""
    chosen = profile("gang", plugin)
    current = open_cycle(build(read_manifests(world(pick)), 0.0, chosen), chosen, plugins=plugin_table())
    every, fits = slice(0, len(current.nodes)), np.ones(len(current.nodes), dtype=bool)
    told: dict[int, set[object]] = {}
    for job in current.snapshot.waiting:
        for sub in job.subs:
            for pod_set in sub.pod_sets:
                ask = Ask(pod_set.shape, sub, job)
                answers = current.pipeline.effect(ask), current.pipeline.score(ask, every, fits).tobytes()
                told.setdefault(pod_set.shape.number, set()).add(answers)

    assert [1] * len(told) == [len(answers) for answers in told.values()]


@pytest.mark.parametrize("room", [3, 1])
def test_a_daemon_set_is_one_run(room: int) -> None:
    """Filters are asked once for all pods of a DaemonSet, and pods whose nodes are full are the only ones left over."""
    pins: list[int] = []

    @takes_part(Filter)
    class Pins:
        """A filter that objects to nothing and notes how many nodes it is asked about at once."""

        def __init__(self, _: Arguments, view: CycleView) -> None:
            self._why = np.zeros(len(view.nodes), dtype=np.uint16)

        def why_not(self, shape: Shape) -> Why:
            nodes = shape.affinity.node_affinity if shape.affinity is not None else None
            pins.append(len(nodes.required.node_selector_terms) if nodes is not None and nodes.required else -1)
            return self._why

    chosen = profile("gang", "predicates", "binpack", "pins")
    pods = [named(daemon_pod(0, f"n{i % 4}", bound=False), i) for i in range(8)]
    snapshot = build(read_manifests([*(small(i, room) for i in range(4)), *pods]), 0.0, chosen)
    report = cycle(snapshot, chosen, plugins={**PLUGINS, "pins": Pins})

    placed = min(room, 2) * 4
    assert placed == len(report.decisions)
    assert 8 - placed == len(report.rejections)
    assert [0, 4] == pins[:2]
    assert len(report.rejections) == len(pins[2:])


@pytest.mark.parametrize("preempts", range(4))
def test_a_pinned_pod_that_preempts_comes_before_those_behind_it(preempts: int) -> None:
    """One pod of a DaemonSet needs a victim, those beside it in a run do not: nobody is decided out of turn."""
    resident = lone_pod("s0", 0, on=f"n{preempts}", priority=0)
    pods = [named(daemon_pod(0, f"n{i}", bound=False), i, 2) for i in range(4)]
    nodes = [small(i, 1) for i in range(4)]
    report = cycle(build(read_manifests([*nodes, resident, *pods]), 0.0, PROFILES["at once"]), PROFILES["at once"])

    assert [f"pod system/daemon-{i}" for i in range(4)] == [decision.job.key for decision in report.decisions]
    assert [i != preempts for i in range(4)] == [decision.bound for decision in report.decisions]


def test_pinned_pods_that_ask_for_different_amounts_are_no_run() -> None:
    """Every other pod wants both disks of the one node that it is pinned to."""
    pods = [named(daemon_pod(0, "n0", bound=False), i, larger=True) for i in range(5)]
    report = cycle(build(read_manifests([small(0, 9), *pods]), 0.0), DEFAULT)

    assert ["pod system/daemon-3"] == list(report.rejections)


@takes_part(Quota)
class TwoPods:
    """A plugin by which a queue has had its share once it holds two pods, whatever quotas say."""

    def __init__(self, _: Arguments, view: CycleView) -> None:
        self._used, self._slots = view.ledger.queue_used, view.axis.index["pods"]

    def overused(self, queue: Queue) -> Reason | None:
        """Why the queue is served no more."""
        return Reason("Enough", "twopods", f"queue {queue.name} has two pods") if self._has_two() else None

    def _has_two(self) -> bool:
        return bool((self._used[self._slots] >= 2).any())


@pytest.mark.parametrize("room", [2, 9])
def test_a_run_ends_where_its_queue_has_had_its_share(room: int) -> None:
    """The pods behind are told what all others of the queue are told, also where a node is full at the same time."""
    chosen = profile("gang", "predicates", "binpack", "twopods")
    snapshot = build(read_manifests([small(0, room), *(lone_pod("s0", i) for i in range(5))]), 0.0, chosen)
    report = cycle(snapshot, chosen, plugins={**PLUGINS, "twopods": TwoPods})

    assert 2 == len(report.decisions)
    assert {"Enough"} == {rejection.reason.code for rejection in report.rejections.values()}
    assert 3 == len(report.rejections)


def small(number: int, pods: int) -> Manifest:
    """A node that takes so many pods and has two disks."""
    amounts = {"cpu": "64", "memory": "64Gi", "pods": str(pods), "disk": "2"}
    return {**node(number), "status": {**node(number)["status"], "allocatable": amounts}}
