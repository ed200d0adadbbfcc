"""Small clusters in which a label or annotation of one language decides; for `tests/support/field_pairs.py`.

As in `tests/support/field_scenes.py` the subject is called v, its pods v-0 and so on. Pods whose names begin otherwise
are not marked, so that a scene can have a gang of which one pod alone says something.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace
from tests.support import quotas
from tests.support.field_scenes import MINUTE, Scene, other, own, scene, scene_in, scene_of_one, tree
from tests.support.koordinator import AWARE, cluster, gang
from tests.support.languages import (
    RACK,
    grove_gang,
    kai_gang,
    kueue_gang,
    nodes,
    packed,
    plugin_gang,
    pod,
    topology,
    volcano_gang,
)
from tests.support.marked_gangs import LANGUAGE_OF
from tests.support.queue_worlds import queue
from tests.support.workloads_of_v import templates, workload

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, PluginChoice, Profile

_GANG: Final = "gang.scheduling.koordinator.sh"
_KUEUE: Final = "kueue.x-k8s.io"
_RACKS: Final = {"s0": {"r0": "n0 n1", "r1": "n2 n3"}}
_ROOMY: Final = nodes(_RACKS, cpu=2)
_SPLIT: Final = nodes({"s0": {"r0": "n0", "r1": "n1"}})
_ONE: Final = nodes({"s0": {"r0": "n0"}})


def _with(manifests: Iterable[Raw], start: str, **fields: Mapping[str, object]) -> list[Raw]:
    """The same objects; pods whose names begin so have these further entries in fields of their metadata."""
    found: list[Any] = copy.deepcopy(list(manifests))
    for raw in found:
        if raw["kind"] == "Pod" and raw["metadata"]["name"].startswith(start):
            for field, entries in fields.items():
                raw["metadata"][field] = {**raw["metadata"].get(field, {}), **entries}
    return found


def _without(manifests: Iterable[Raw], *keys: str) -> list[Raw]:
    """The same objects; the pods of v are without these marks."""
    found: list[Any] = copy.deepcopy(list(manifests))
    for raw in found:
        if raw["kind"] == "Pod" and raw["metadata"]["name"].startswith("v-"):
            for field in ("labels", "annotations"):
                raw["metadata"][field] = {k: v for k, v in raw["metadata"].get(field, {}).items() if k not in keys}
    return found


# -- which gang a pod is in, and what part of it


@scene_of_one
def beside_its_volcano_group() -> Scene:
    """Two pods that do not name a gang of three; there is room for both."""
    return Scene([*_ROOMY, *_without(volcano_gang("v", 2, least=3), "scheduling.k8s.io/group-name")])


@scene_of_one
def beside_its_koordinator_gang() -> Scene:
    """The same in Koordinator's words."""
    return Scene([*_ROOMY, *_without(gang("v", 2, least=3), "pod-group.scheduling.sigs.k8s.io")])


@scene_of_one
def beside_its_plugin_group() -> Scene:
    """The same in those of scheduler-plugins."""
    return Scene([*_ROOMY, *_without(plugin_gang("v", 2, least=3), "scheduling.x-k8s.io/pod-group")])


@scene_of_one
def beside_its_kai_group() -> Scene:
    """The same in those of KAI."""
    return Scene([*_ROOMY, *_without(kai_gang("v", 2, least=3), "pod-group-name")])


@scene_of_one
def beside_its_podgang() -> Scene:
    """The same in those of Grove."""
    return Scene([*_ROOMY, *_without(_named_v(grove_gang("v", {"w": 3})[:3]), "grove.io/podgang")])


@scene_of_one
def beside_its_replica() -> Scene:
    """A PodGang that does not say of which replica it is, and one that runs in the rack with more room."""
    return _beside_a_part({_PART_OF: "serve"})


@scene_of_one
def beside_its_set() -> Scene:
    """The same where it does not say of which PodCliqueSet it is."""
    return _beside_a_part({_REPLICA: "0"})


_PART_OF: Final = "app.kubernetes.io/part-of"
_REPLICA: Final = "grove.io/podcliqueset-replica-index"


def _beside_a_part(labels: Mapping[str, str]) -> Scene:
    near = packed(RACK)
    world = nodes({"s0": {"r0": "n0 n1 n2 n3", "r1": "n4 n5"}})
    first = grove_gang("u", {"w": 1}, on={"u-w-0": "n0"}, topologyConstraint=near)
    first[0]["metadata"] |= {"labels": {_PART_OF: "serve", _REPLICA: "0"}}  # type: ignore[operator]
    own = _named_v(grove_gang("v", {"w": 2}, topologyConstraint=near))
    own[0]["metadata"] |= {"labels": dict(labels)}  # type: ignore[operator]
    return Scene([*world, *first, *own])


@scene_of_one
def beside_its_podclique() -> Scene:
    """Two pods of a PodGang that do not say which of its groups they are of."""
    return Scene([*_ROOMY, *_without(_named_v(grove_gang("v", {"w": 2})), "grove.io/podclique")])


def _named_v(manifests: Iterable[Raw]) -> list[Raw]:
    """The same objects; the pods are called v-0, v-1 and so on."""
    found: list[Any] = copy.deepcopy(list(manifests))
    for number, raw in enumerate(one for one in found if one["kind"] == "Pod"):
        raw["metadata"]["name"] = f"v-{number}"
    return found


@scene_of_one
def a_gang_by_pods_without_a_name() -> Scene:
    """Two pods that say how many a gang needs, which is three, and not which gang."""
    return Scene([*_ROOMY, *(pod(f"v-{i}", annotations={f"{_GANG}/min-available": "3"}) for i in range(2))])


@scene_of_one
def a_gang_by_pods_without_a_minimum() -> Scene:
    """Two pods that name a gang that nobody declares."""
    return Scene([*_ROOMY, *(pod(f"v-{i}", annotations={f"{_GANG}/name": "v"}) for i in range(2))])


@scene_of_one
def a_task_of_two() -> Scene:
    """A gang needs two pods of one task, and its pods do not say that they are of it."""
    group, *pods = volcano_gang("v", 2)
    return Scene([*_ROOMY, {**group, "spec": {"minMember": 2, "minTaskMember": {"worker": 2}}}, *pods])


@scene_of_one
def first_of_its_gang() -> Scene:
    """Two pods of a gang that needs one, and room for one: the other pod says that its place is the fifth."""
    group, *pods = volcano_gang("v", 2, least=1)
    return Scene([*_ONE, group, *_called(pods, "v-9", "u-1", {"volcano.sh/task-index": "5"})])


def _called(pods: list[Raw], mine: str, others: str, labels: Raw) -> list[Raw]:
    """Two pods; the first is one of v's, the other one says something of its place."""
    first, second = copy.deepcopy(pods)
    first["metadata"] = {**first["metadata"], "name": mine}  # type: ignore[dict-item]
    second["metadata"] = {**second["metadata"], "name": others, "labels": labels}  # type: ignore[dict-item]
    return [first, second]


@scene_of_one
def a_job_of_a_set() -> Scene:
    """The same with pods that say their places, as pods of a JobSet do in each of its jobs: v-9 is the first."""
    group, *pods = volcano_gang("v", 2, least=1)
    index: Raw = {"batch.kubernetes.io/job-completion-index": "5"}
    found = _called(pods, "v-9", "w-1", index)
    return Scene([*_ONE, group, *_with(found, "v-", labels={"batch.kubernetes.io/job-completion-index": "1"})])


@scene_of_one
def partitions() -> Scene:
    """A gang whose partitions must each be in one rack, and each rack has room for one pod."""
    group, *pods = volcano_gang("v", 2)
    policy = {
        "name": "worker",
        "subGroupSize": 2,
        "matchLabelKeys": ["volcano.sh/partition-id"],
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    spec: Raw = {"minMember": 2, "subGroupPolicy": [policy]}
    return Scene([*tree({"r0": "n0", "r1": "n1"}, cpu=1), {**group, "spec": spec}, *pods])


@scene_of_one
def a_kai_sub_group() -> Scene:
    """A gang needs two pods of its only sub-group, and its pods do not say that they are of it."""
    subs = [{"name": "decode", "minMember": 2}]
    return Scene([*_ROOMY, *kai_gang("v", 2, least=2, subGroups=subs)])


# -- queues


@scene_of_one
def beside_a_closed_queue() -> Scene:
    """Pods that name no queue; that of their name takes no jobs."""
    return Scene([*_ROOMY, queue("v", open=False), *(pod(f"v-{i}") for i in range(2))])


@scene_of_one
def due() -> Scene:
    """Two gangs, room for one; v is the younger one. Jobs that are due come first."""
    first = (PluginChoice("sla"), PluginChoice("gang"))
    profile = Profile(DEFAULT.actions, (first, *DEFAULT.tiers[1:]))
    return Scene([*nodes({"s0": {"r0": "n0"}}, cpu=2), *other("u", 2), *own("volcano", ago=MINUTE)], profile)


def _queues(path: str) -> Scene:
    """Queues a and v want the only place, and each runs a pod; beside a in its branch another queue runs one."""
    found: list[Raw] = []
    for name, below in (("a", "root/one/a"), ("b", "root/one/b"), ("v", path)):
        found.append(queue(name, hierarchy=below, weights="1/1/1" if below and name != "v" else ""))
        for member, on in (("r", "n0"), *((("p", ""),) if name != "b" else ())):
            group, raw = volcano_gang(f"{name}-{member}", 1, on={0: on} if on else {})
            found += [{**group, "spec": {"minMember": 1, "queue": name}}, raw]
    tiers = ((PluginChoice("drf"), PluginChoice("gang")), (PluginChoice("predicates"),))
    return Scene([*nodes({"s0": {"r0": "n0"}}, cpu=4), *found], Profile(("allocate",), tiers))


@scene_of_one
def queues_in_a_tree() -> Scene:
    """V is not said to be in the tree."""
    return _queues("")


@scene_of_one
def queues_of_one_weight() -> Scene:
    """V is in the branch of the others, and as much worth as they are."""
    return _queues("root/one/v")


@scene_of_one
def groups_of_nodes() -> Scene:
    """A queue is tied to a group of nodes, and the only node is in none."""
    (node,) = nodes({"s0": {"r0": "n0"}}, cpu=2)
    node["metadata"] = {**node["metadata"], "name": "v"}  # type: ignore[dict-item]
    affinity = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["batch"]}}
    group, *pods = volcano_gang("g", 1)
    asks: Raw = {**group, "spec": {"minMember": 1, "queue": "q"}}
    tiers = ((PluginChoice("gang"), PluginChoice("predicates"), PluginChoice("nodegroup")),)
    return Scene([node, queue("q", affinity=affinity), asks, *pods], Profile(("allocate",), tiers))


# -- Koordinator's gangs


def _koordinator(way: str) -> list[Raw]:
    """V as an object, or as its pods declare it."""
    if way == "koordinator":
        group, *pods = gang("v", 2)
        return [{**group, "metadata": {"name": "v"}}, *pods]
    marks = {f"{_GANG}/name": "v", f"{_GANG}/min-available": "2"}
    return [pod(f"v-{i}", annotations=dict(marks)) for i in range(2)]


@scene_in("koordinator, by pods")
def over_two_blocks(way: str) -> Scene:
    """V waits, and each of two blocks has room for one of its pods."""
    return Scene([*cluster({"s0": {"b0": "n0", "b1": "n1"}}), *_koordinator(way)], AWARE)


@scene_in("koordinator, by pods")
def half_running(way: str) -> Scene:
    """One pod of v runs, the other one waits."""
    first, *rest = reversed(_koordinator(way))
    first["spec"] |= {"nodeName": "n0"}  # type: ignore[operator]
    return Scene([*_ROOMY, *rest, {**first, "status": {"phase": "Running"}}])


@scene_in("koordinator, by pods")
def partners(way: str) -> Scene:
    """Another gang, whose pods do not exist yet, starts together with v if v says so too."""
    both = {f"{_GANG}/groups": '["default/a","default/v"]'}
    if way == "volcano":
        group = volcano_gang("a", 0, least=1)[0]
        return Scene([*_ROOMY, {**group, "metadata": {"name": "a", "annotations": both}}, *volcano_gang("v", 2)])
    group = gang("a", 0, least=1)[0]
    return Scene([*_ROOMY, {**group, "metadata": {"name": "a", "annotations": both}}, *_koordinator(way)])


@scene_of_one
def order_in_a_gang() -> Scene:
    """A gathered gang of three over a node for two and one for one: the pods go there in their order."""
    world = cluster({"s0": {"b0": "n0 n1"}})
    world[1]["status"]["allocatable"]["cpu"] = "2"  # type: ignore[index]
    group, *pods = gang("v", 3)
    pods[0]["metadata"] |= {"name": "v-0"}  # type: ignore[operator]
    for i, raw in enumerate(pods[1:]):
        raw["metadata"] |= {"name": f"u-{i}", "annotations": {f"{_GANG}/network-topology-index": str(i + 5)}}  # type: ignore[operator]
    return Scene([*world, group, *pods], AWARE)


@scene_of_one
def drawn_to_each_other() -> Scene:
    """A pod runs at the far end, and says what draws others; v waits."""
    selector = {"scheduling.koordinator.sh/network-topology-selector": "session-1"}
    far = pod("u", on="n3", annotations=selector)
    return Scene(
        [*cluster({"s0": {"b0": "n0 n1"}, "s1": {"b1": "n2 n3"}}, cpu=4), far, *_koordinator("koordinator")], AWARE
    )


# -- Koordinator's pods and quotas


@scene_in(*(way for way in LANGUAGE_OF if way != "volcano"))
def beside_a_quota(way: str) -> Scene:
    """Pods that name no quota; that of v's name may use nothing."""
    return Scene([*nodes(_RACKS, cpu=2), _quota("v", most=0), *own(way)])


def _quota(name: str, *, most: int, least: int = 0, **meta: object) -> Raw:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, **meta},
        "spec": {"max": {"cpu": str(most)}, "min": {"cpu": str(least)}},
    }


@scene
def preemptor(way: str) -> Scene:
    """V is more important than what runs on the only node."""
    return Scene([*tree({"r0": "n0"}), *other("u", 2, {0: "n0", 1: "n0"}, ago=MINUTE), *own(way, priority=9)])


@scene_of_one
def owners() -> Scene:
    """Two nodes are full of pods of one owner each, as far as is told; a gang needs one of them."""
    owner = "scheduling.koordinator.sh/questioned-object-key"
    where = {"v-0": "n0", "u-0": "n0", "u-1": "n1", "u-2": "n1"}
    running = [quotas.worker(name, gpu=4, on=on, priority=5) for name, on in where.items()]
    for raw in running[2:]:
        raw["metadata"]["labels"] = {owner: "team-b/x"}  # type: ignore[index]
    least = [quotas.worker("x", gpu=1, on="n2"), quotas.worker("y", gpu=7, on="n2", priority=9)]
    return Scene(
        [*quotas.nodes("n0 n1 n2"), *running, *least, quotas.worker("w", gpu=8, priority=9)],
        quotas.koordinator(preempts=True, in_quota=False),
    )


# -- Koordinator's quotas, v among them


def _tree_of_quotas(labels: Mapping[str, str] | None = None, of: str = "v") -> list[Raw]:
    """V and another quota share 24 cards, and the pods of each want all of them, four each."""
    mine = quotas.quota("v", most=100)
    mine["metadata"] = {"name": "v", "namespace": "default", "labels": dict(labels or {})}
    rest = quotas.quota("u", most=100)
    pods = [quotas.worker(f"w-{name[0]}-{i}", quota=name, gpu=4) for name in ("u", of) for i in range(6)]
    return [*quotas.nodes("n0 n1 n2"), mine, rest, *pods]


@scene_of_one
def quotas_that_share() -> Scene:
    """V and u share what there is, and both want all of it."""
    return Scene(_tree_of_quotas(), quotas.koordinator())


@scene_of_one
def a_quota_below() -> Scene:
    """V stands beside a quota that may use four cards."""
    return Scene([*_tree_of_quotas(), quotas.quota("root", most=4, is_parent=True)], quotas.koordinator())


@scene_of_one
def a_quota_with_another_below() -> Scene:
    """Another quota stands below v, which is not marked as a parent."""
    return Scene([*_tree_of_quotas(), quotas.quota("leaf", most=1, parent="v")], quotas.koordinator())


def _root(labels: Mapping[str, str], total: str = '{"nvidia.com/gpu":"4"}', of: str = "leaf") -> list[Raw]:
    """V heads a tree of one quota, and shares its own total with it."""
    prefix = "quota.scheduling.koordinator.sh"
    marks = {f"{prefix}/{key}": value for key, value in labels.items()}
    found = _tree_of_quotas({f"{prefix}/is-parent": "true", **marks}, of)
    if total:
        found[3]["metadata"]["annotations"] = {f"{prefix}/total-resource": total}  # type: ignore[index]
    return [*found, quotas.quota("leaf", most=100, parent="v", labels={f"{prefix}/tree-id": "gpu"})]


@scene_of_one
def the_root_of_no_tree() -> Scene:
    """V has all that the root of a tree has, but for a mark that it is one."""
    return Scene(_root({"tree-id": "gpu"}), quotas.koordinator())


@scene_of_one
def a_root_without_a_tree() -> Scene:
    """V has all that the root of a tree has, but for its name."""
    return Scene(_root({"is-root": "true"}), quotas.koordinator())


@scene_of_one
def a_root_without_a_total() -> Scene:
    """V is the root of a tree that has no total."""
    return Scene(_root({"is-root": "true", "tree-id": "gpu"}, ""), quotas.koordinator())


@scene_of_one
def the_root_of_a_tree() -> Scene:
    """V is the root of a tree in which nobody asks; its total is taken from what others share."""
    return Scene(_root({"is-root": "true", "tree-id": "gpu"}, of="u"), quotas.koordinator())


@scene_of_one
def an_idle_quota() -> Scene:
    """V is guaranteed half of the cards and uses none; another quota wants all."""
    mine = quotas.quota("v", most=16, least=8)
    mine["metadata"] = {"name": "v", "namespace": "default"}
    rest = quotas.quota("u", most=16)
    return Scene([*quotas.nodes("n0 n1"), mine, rest, *(quotas.worker(f"w-{i}", quota="u", gpu=8) for i in range(2))])


@scene_of_one
def too_large_children() -> Scene:
    """The quotas below v are guaranteed more than v."""
    leaves = [quotas.quota(name, most=16, least=8, parent="v") for name in ("a", "b")]
    mine = quotas.quota("v", most=16, least=8, is_parent=True)
    return Scene([*quotas.nodes("n0 n1"), mine, *leaves], quotas.koordinator())


@scene_of_one
def a_quota_that_shrank() -> Scene:
    """V may use less than it uses."""
    mine = {**quotas.quota("v", most=4), "status": {"used": {quotas.GPU: "8"}}}
    return Scene([*quotas.nodes("n0"), mine], quotas.koordinator())


@scene_of_one
def a_quota_for_nobody() -> Scene:
    """V, whose namespace is trusted, may use nothing and lists no namespace; pods of another one wait."""
    mine = quotas.quota("v", most=0, namespace="koordinator-system")
    pods = [quotas.worker(f"w-{i}", namespace="team-a") for i in range(2)]
    return Scene([*quotas.nodes("n0"), mine, *pods], quotas.koordinator())


@scene_of_one
def a_quota_that_owes() -> Scene:
    """V holds more than it may while another quota wants its share; it has a minute to give it back."""
    busy = [quotas.worker(f"x-{i}", quota="v", gpu=8, on=f"n{i}") for i in range(2)]
    wants = quotas.worker("w", quota="u", gpu=8)
    given = {"enableOverUseRevoke": True, "delayEvictTime": "60s", "monitorAllQuotas": True}
    profile = replace(
        DEFAULT,
        actions=("allocate", "giveback"),
        tiers=((PluginChoice("gang"), PluginChoice("predicates"), PluginChoice("elasticquota", dict(given))),),
    )
    shares = [quotas.quota("v", most=16, least=8), quotas.quota("u", most=16, least=8)]
    return Scene([*quotas.nodes("n0 n1"), *shares, *busy, wants], profile)


# -- Kueue's pods

_TREES: Final = [topology(of="kueue.x-k8s.io/v1beta1")]


def _kueue(number: int = 2, *, cpu: int = 1, racks: Mapping[str, str] | None = None, **asked: object) -> list[Raw]:
    world = nodes({"s0": racks or {"r0": "n0", "r1": "n1"}}, cpu=cpu)
    return [*world, *_TREES, *kueue_gang("v", number, **asked)]  # type: ignore[arg-type]


def _lone(number: int = 2) -> list[Raw]:
    """Pods that Kueue has not grouped."""
    return [pod(f"v-{i}") for i in range(number)]


@scene_in("")
def kueue_over_two_racks(way: str) -> Scene:
    """V waits, and each of two racks has room for one of its pods."""
    return _template(way, "n0", "n1", "n2") if way else Scene(_kueue())


@scene_in("")
def kueue_nearer(way: str) -> Scene:
    """V waits; one by one its pods go where others run already, and a rack has room for both."""
    if way:
        return _template(way, "n0 n1", "n2 n3", busy=True)
    busy = [pod(f"u-{i}", on=f"n{i}") for i in (0, 2)]
    return Scene([*_kueue(racks={"r0": "n0 n1", "r1": "n2 n3"}, cpu=2), *busy])


@scene_in("")
def kueue_beside_another(way: str) -> Scene:
    """A gang of the same label runs in the rack to which v would go."""
    if way:
        found = _template(way, "n0 n1 n2", "n3 n4 n5 n6", required_topology="" if way in _UNSIZED else RACK)
    else:
        found = Scene(_kueue(racks={"r0": "n0 n1 n2", "r1": "n3 n4 n5 n6"}, required_topology=RACK))
    labels = {f"{_KUEUE}/pod-group-name": "u", "app": "main"}
    marks = {f"{_KUEUE}/pod-group-total-count": "1", f"{_KUEUE}/podset-required-topology": RACK}
    return Scene([*found.manifests, pod("u-0", on="n0", labels=labels, annotations=marks)])


_UNSIZED: Final = (
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "Job",
    "RayCluster",
    "RayService",
)
"""Kinds of which Kueue's reader does not know how many pods they have: these wait whatever they ask of slices."""


def _template(way: str, *racks: str, busy: bool = False, **asked: str) -> Scene:
    """V is a workload whose template may ask for a topology."""
    world = nodes({"s0": {f"r{i}": names for i, names in enumerate(racks)}}, cpu=2 if busy else 1)
    running = [pod(f"u-{i}", on=f"n{i}") for i in (0, 2)] if busy else []
    found: Any = workload(way)
    for template in templates(found):
        marks = {f"{_KUEUE}/podset-{key.replace('_', '-')}": value for key, value in asked.items() if value}
        template["metadata"] = {"annotations": marks}
    return Scene([*world, *_TREES, *running, found])


@scene_of_one
def kueue_without_a_name() -> Scene:
    """Two pods that say that their group has three, and not which it is."""
    return Scene([*_ROOMY, *_without(kueue_gang("v", 2, total=3), f"{_KUEUE}/pod-group-name")])


@scene_of_one
def kueue_without_a_count() -> Scene:
    """Two pods that name a group, and do not say how many it has."""
    return Scene([*_ROOMY, *_without(kueue_gang("v", 2), f"{_KUEUE}/pod-group-total-count")])


@scene_in("")
def kueue_slices_without_a_size(way: str) -> Scene:
    """V wants slices in one rack, and does not say of how many pods."""
    if way:
        return _template(way, "n0", "n1", "n2", slice_required_topology="" if way in _UNSIZED else RACK)
    return Scene(_kueue(slice_required_topology=RACK))


@scene_in("")
def kueue_slices_without_a_level(way: str) -> Scene:
    """V wants slices, and does not say where."""
    if way:
        return _template(way, "n0", "n1", "n2", slice_size="" if way in _UNSIZED else "1")
    return Scene(_kueue(racks={"r0": "n0 n1"}, slice_size=2))


def _sliced(**labels: str) -> list[Raw]:
    """V in slices of two over racks of one and of three places; the other pods say which place they have."""
    found = _kueue(4, racks={"r0": "n0 n1", "r1": "n2 n3"}, slice_size=2, slice_required_topology=RACK)
    names = {"v-0": "v-8", "v-1": "u-1", "v-2": "u-2", "v-3": "u-3"}
    for raw in found:
        meta: Any = raw["metadata"]
        if raw["kind"] == "Pod":
            meta["labels"].pop(f"{_KUEUE}/pod-group-pod-index")
            number = meta["name"][-1]
            meta["name"] = names[meta["name"]]
            if number != "0":
                meta["labels"] |= dict.fromkeys(labels.values(), number)
            else:
                meta["labels"] |= {labels["own"]: "0"} if "own" in labels else {}
    return found


@scene_of_one
def kueue_slice_by_index() -> Scene:
    """V-8 is the only pod of its gang that does not say its place, so that by its name it is in no slice of two."""
    return Scene(_sliced(others=f"{_KUEUE}/pod-group-pod-index"))


@scene_of_one
def kueue_slice_by_completion() -> Scene:
    """The same with the index of a Job."""
    return Scene(_sliced(others="batch.kubernetes.io/job-completion-index"))


@scene_of_one
def kueue_slice_by_own_label() -> Scene:
    """The same; the place of v-8 is in a label of which nothing is said."""
    return Scene(_sliced(others=f"{_KUEUE}/pod-group-pod-index", own="example.com/place"))


@scene_of_one
def kueue_managed() -> Scene:
    """V asks for one rack, and each of two has room for one pod; where Kueue has it in hand, it has chosen already."""
    return Scene(_kueue(required_topology=RACK))


@scene_of_one
def kueue_sets() -> Scene:
    """Pods of a JobSet in one group: each of its sets asks for one rack."""
    return Scene(_job_set("leader"))


def _job_set(mine: str) -> list[Raw]:
    """V-0 in one set, if it says so, and the other pod in another one."""
    found = _kueue(required_topology=RACK)
    members: list[Any] = [raw for raw in found if raw["kind"] == "Pod"]
    for raw, name in zip(members, (mine, "workers"), strict=True):
        raw["metadata"]["labels"] |= {"jobset.sigs.k8s.io/replicatedjob-replicas": "1"}
        raw["metadata"]["labels"] |= {f"{_KUEUE}/podset": name} if name else {}
    if not mine:
        members[1]["metadata"]["name"] = "u-1"
    return found


@scene_of_one
def kueue_without_its_set() -> Scene:
    """The same, and v-0 does not say of which set it is."""
    return Scene(_job_set(""))


@scene_of_one
def kueue_without_its_replicas() -> Scene:
    """The same, and the pods do not say how many jobs their set has."""
    key = "jobset.sigs.k8s.io/replicatedjob-replicas"
    return Scene(_without(_job_set("leader"), key))


@scene_of_one
def beside_its_workload() -> Scene:
    """Two pods that do not name the Workload of three pods that Kueue made."""
    declared: Raw = {
        "apiVersion": f"{_KUEUE}/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "v", "namespace": "default"},
        "spec": {"queueName": "team", "podSets": [{"name": "main", "count": 3}]},
    }
    return Scene([*_ROOMY, declared, *_lone()])


# -- KAI


@scene_of_one
def kai_started() -> Scene:
    """V has room."""
    return Scene([*_ONE, *kai_gang("v", 1)])


@scene_of_one
def kai_waiting() -> Scene:
    """V waits for room."""
    return Scene([*_ONE, *kai_gang("v", 2)])


@scene_of_one
def a_quota_alone() -> Scene:
    """V has nobody beside it, and no pods."""
    mine = quotas.quota("v", most=8, least=4)
    mine["metadata"] = {"name": "v", "namespace": "default"}
    return Scene([*quotas.nodes("n0"), mine], quotas.koordinator())


@scene_of_one
def a_quota_with_firm_pods() -> Scene:
    """V has a pod that is not to be preempted, and another one wants to run."""
    found = a_quota_alone().manifests
    firm = [quotas.worker(name, quota="v", gpu=2, on=on, firm=True) for name, on in (("x", "n0"), ("y", ""))]
    return Scene([*found, *firm], quotas.koordinator())
