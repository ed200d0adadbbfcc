"""Nothing is bound where the next cycle of the same profile would evict it, in every format of profiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from tests.support.depth import examples
from tests.support.manifests import job, node, objects, task
from tests.support.sight import saw, schedule, sees

from tierwise.api.codec import Raw
from tierwise.config.kube import read_kube
from tierwise.config.profile import Profile
from tierwise.config.volcano import read_volcano
from tierwise.scheduler import check_profile

MARK = "tierwise.io/on-node-loss"
WISHES = ("replace", "restart-subgroup", "restart-all")
MAINTENANCE: Raw = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}
_UNHEARD = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
USUAL: list[Raw] = [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in _UNHEARD]
"""What Kubernetes' admission adds to pods, but for the seconds."""

TOLERATIONS: Mapping[str, list[Raw]] = {
    "nothing": [],
    "usual": [{**one, "tolerationSeconds": 300} for one in USUAL],
    "maintenance for an hour": [{**MAINTENANCE, "tolerationSeconds": 3600}],
    "maintenance for good": [MAINTENANCE],
    "maintenance for no time": [{**MAINTENANCE, "tolerationSeconds": 0}],
    "maintenance for good and for a minute": [MAINTENANCE, {**MAINTENANCE, "tolerationSeconds": 60}],
    "everything for a minute": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}],
    "everything for good": [{"operator": "Exists"}],
    "not ready for good": USUAL,
}
TAINTS: tuple[Raw, ...] = (
    {"key": "maintenance", "value": "soon", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
)
CONDITIONS: tuple[Raw, ...] = (
    {"type": "Ready", "status": "True"},
    {"type": "Ready", "status": "False"},
    {"type": "Ready", "status": "Unknown"},
    {"type": "GPUUnhealthy", "status": "True"},
)


class Scene(msgspec.Struct, frozen=True):
    """Nodes with their taints and conditions, jobs by their size, tolerations and wish, and a profile."""

    nodes: tuple[tuple[tuple[int, ...], int], ...]
    jobs: tuple[tuple[int, str, str], ...]
    config: Mapping[str, Any]

    def manifests(self) -> list[Raw]:
        found: list[Raw] = []
        for i, (taints, condition) in enumerate(self.nodes):
            raw: Any = node(f"n{i}", "cpu=2 pods=10")
            raw["spec"] = {"taints": [TAINTS[taint] for taint in taints]}
            raw["status"]["conditions"] = [CONDITIONS[condition]]
            found.append(raw)
        for i, (size, tolerated, wish) in enumerate(self.jobs):
            pods: Any = task("w", size)
            pods["template"]["spec"] |= {"tolerations": TOLERATIONS[tolerated]}
            metadata: Raw = {"uid": f"u{i}", "annotations": {MARK: wish} if wish else {}}
            found.append(job(f"j{i}", pods, metadata=metadata, minAvailable=size, schedulerName="tierwise"))
        return found

    @property
    def profile(self) -> Profile:
        read = read_kube if "profiles" in self.config else read_volcano
        return check_profile(read(dict(self.config)))


def _volcano(second: Sequence[str], repair: Raw, off: Raw, taints: bool) -> Raw:
    plugins: list[Raw] = [{"name": name} for name in second]
    for plugin in plugins:
        if plugin["name"] == "predicates":
            plugin["arguments"] = {"predicate.TaintTolerationEnable": taints}
    if repair:
        plugins.append({"name": "repair", "arguments": repair, **off})
    first = [{"name": "priority"}, {"name": "gang"}]
    return {"actions": "enqueue, allocate, backfill", "tiers": [{"plugins": first}, {"plugins": plugins}]}


def _kube(out: Sequence[str]) -> Raw:
    disabled = {"filter": {"disabled": [{"name": name} for name in out]}}
    profile = {"schedulerName": "tierwise", **({"plugins": disabled} if out else {})}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**kind, "profiles": [profile]}


def _configs() -> st.SearchStrategy[Raw]:
    repair = st.fixed_dictionaries(
        {}, optional={"conditions": st.just(["GPUUnhealthy"]), "onNodeLoss": st.sampled_from(WISHES)}
    )
    volcano = st.builds(
        _volcano,
        st.sampled_from((["predicates", "nodeorder"], ["predicates"], ["nodeorder"], [])),
        repair,
        st.sampled_from(({}, {"enablePredicate": False})),
        st.booleans(),
    )
    return volcano | st.builds(_kube, st.sampled_from(([], ["TaintToleration"], ["NodeUnschedulable", "*"])))


@st.composite
def _scenes(draw: DrawFn) -> Scene:
    taints = st.sets(st.integers(0, len(TAINTS) - 1), max_size=2).map(lambda some: tuple(sorted(some)))
    nodes = st.tuples(taints, st.integers(0, len(CONDITIONS) - 1))
    jobs = st.tuples(st.integers(1, 3), st.sampled_from([*TOLERATIONS]), st.sampled_from((*WISHES, "")))
    return Scene(
        tuple(draw(st.lists(nodes, min_size=1, max_size=4))),
        tuple(draw(st.lists(jobs, min_size=1, max_size=3))),
        draw(_configs()),
    )


@sees(lost=10, bound=10)
@examples(150)
@given(_scenes())
def test_nothing_is_bound_where_the_next_cycle_would_evict_it(scene: Scene) -> None:
    """Nodes are tainted, not ready or unhealthy from the beginning: nobody is evicted, whatever is tolerated."""
    rounds = schedule(objects(*scene.manifests()), scene.profile, now=1_767_225_600.0, cycles=4)

    evicted = Counter(eviction.task.key for eviction in rounds.evictions)
    assert {} == dict(evicted)
    saw(lost=sum(bool(taints) or condition > 0 for taints, condition in scene.nodes), bound=len(rounds.bindings))


@sees(bound=10, evictions=1)
@examples(150)
@given(_scenes(), st.lists(st.tuples(st.integers(0, 3), st.integers(1, len(CONDITIONS) - 1)), min_size=1, max_size=2))
def test_what_is_evicted_once_is_not_evicted_again(scene: Scene, losses: list[tuple[int, int]]) -> None:
    """Nodes are lost while jobs run there: each pod that repair evicts comes to a place where it stays."""
    before = schedule(objects(*scene.manifests()), scene.profile, now=1_767_225_600.0, cycles=2)
    after = before.cluster.read()
    lost: list[Raw] = []
    for raw in (after.raw(key) for key in after):
        if raw is not None and raw["kind"] == "Node":
            for number, condition in losses:
                if raw["metadata"] == {**raw["metadata"], "name": f"n{number}"}:  # type: ignore[dict-item]
                    raw = {**raw, "status": {**raw["status"], "conditions": [CONDITIONS[condition]]}}  # type: ignore[dict-item]
        lost += [raw] if raw is not None else []

    rounds = schedule(objects(*lost), scene.profile, now=1_767_225_700.0, cycles=6)

    evicted = Counter(eviction.task.key for eviction in rounds.evictions)
    assert max(evicted.values(), default=0) <= 1, evicted
    saw(bound=len(before.bindings), evictions=sum(evicted.values()))
