"""Kubernetes' own groups: PodGroups and composites by label key, Workloads of 1.35, and conditions that are final."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.koordinator import hypernode
from tests.support.languages import (
    RACK,
    SPINE,
    composite,
    grouped_pods,
    kubernetes_gang,
    nodes,
    objects_of,
    pod,
    run,
)

from tierwise.admission import validate
from tierwise.api.codec import Raw
from tierwise.api.core import Condition
from tierwise.api.workload import CompositePodGroup, PodGroup
from tierwise.audit import audit
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.dialects.label_trees import MOST_CROSSING
from tierwise.sim.cluster.rounds import schedule
from tierwise.snapshot.builder import build

TREE = {"s0": {"r0": "n0 n1", "r1": "n2 n3"}, "s1": {"r2": "n4 n5"}}
WORLD = nodes(TREE)
EVICTS = Profile(("enqueue", "allocate", "gangpreempt"), DEFAULT.tiers)


def _codes(why: dict[str, str]) -> set[str]:
    return {text.partition(":")[0] for text in why.values()}


def _conditions(*manifests: list[Raw], of: str = "g") -> list[Condition]:
    after = schedule(objects_of(*manifests), DEFAULT, now=0.0).cluster.read()
    found: dict[str, PodGroup | CompositePodGroup] = {**after.every(PodGroup), **after.every(CompositePodGroup)}
    return list(found[f"default/{of}"].status.conditions)


# -- one group


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
def test_a_gang_starts_whole_or_not_at_all(version: str) -> None:
    """Six nodes hold six pods, and of a gang of seven none starts."""
    assert 6 == len(run(WORLD, kubernetes_gang("g", 6, version=version))[0])
    assert {} == run(WORLD, kubernetes_gang("g", 7, version=version))[0]


def test_a_pod_waits_for_its_group() -> None:
    """The group may come after its pods; nothing is placed until then."""
    bound, why = run(WORLD, grouped_pods("g", 2))

    assert ({}, {"PodGroupNotFound"}) == (bound, _codes(why))


def test_a_pod_waits_until_its_group_has_pods_enough() -> None:
    """`minCount` pods must exist."""
    bound, why = run(WORLD, kubernetes_gang("g", 1, least=2))

    assert ({}, {"NotEnoughTasks"}) == (bound, _codes(why))


def test_the_pods_of_a_basic_group_start_one_by_one() -> None:
    """As many as there is room for."""
    gang = kubernetes_gang("g", 8, schedulingPolicy={"basic": {}})

    assert 6 == len(run(WORLD, gang)[0])


def test_a_key_of_a_node_label_is_a_limit() -> None:
    """Three pods fit in no rack of two nodes, and in a spine of four."""
    assert {} == run(WORLD, kubernetes_gang("g", 3, key=RACK))[0]
    assert {"n0", "n1", "n2", "n3"} >= set(run(WORLD, kubernetes_gang("g", 3, key=SPINE))[0].values())


def test_a_domain_is_a_value_wherever_it_is_found() -> None:
    """The same rack in two spines is one domain, as Kubernetes has it."""
    world = nodes({"s0": {"r0": "n0", "r1": "n1"}, "s1": {"r0": "n2"}})

    assert {"n0", "n2"} == set(run(world, kubernetes_gang("g", 2, key=RACK))[0].values())


def test_nodes_without_the_label_are_not_used() -> None:
    """They are in no domain, however much room they have."""
    bare = [n | {"metadata": {"name": f"x{i}"}} for i, n in enumerate(WORLD[:3])]

    assert {} == run(bare, kubernetes_gang("g", 1, key=RACK))[0]
    assert {"n4", "n5"} == set(run([*bare, *WORLD[4:]], kubernetes_gang("g", 2, key=RACK))[0].values())


def test_a_key_that_no_node_has_lets_nobody_pass() -> None:
    """Alone, beside others, and beside another tree; the message names the key."""
    lost = kubernetes_gang("g", 1, key="example.com/lost")
    for world in (WORLD, [*WORLD, *kubernetes_gang("h", 0, least=1, key=RACK)], [*WORLD, hypernode("x", 1, [])]):
        bound, why = run(world, lost)
        assert ({}, "UnknownLayer") == (bound, why["g-0"].partition(":")[0])
        assert "example.com/lost" in why["g-0"]


def test_keys_are_many_and_trees_are_few() -> None:
    """A tenant may name every label that nodes have: so many trees are grown, and no more."""
    world = nodes({"s0": {"r0": "n0 n1 n2 n3"}})
    for i, n in enumerate(world):
        n["metadata"]["labels"] |= {f"k{j}": str((i + j) % 2 if j % 2 else i // 2) for j in range(60)}  # type: ignore[index]
    gangs = [raw for j in range(60) for raw in kubernetes_gang(f"g{j}", 0, least=1, key=f"k{j}")]
    snapshot = build(objects_of(world, gangs), 0.0)

    assert MOST_CROSSING >= len(snapshot.alternate_topologies) > 0


def test_later_pods_join_the_domain_of_the_others() -> None:
    """And wait where there is no more room in it."""
    assert {"g-1": "n3"} == run(WORLD, kubernetes_gang("g", 2, least=1, key=RACK, on={0: "n2"}))[0]
    assert {} == run(WORLD, kubernetes_gang("g", 3, least=1, key=RACK, on={0: "n2", 1: "n3"}))[0]


@pytest.mark.parametrize("key", [RACK, SPINE])
def test_a_key_is_judged_on_its_own_tree_beside_hypernodes(key: str) -> None:
    """HyperNodes that cross the racks are no help, and no hindrance."""
    crossing = [hypernode("h0", 1, [("Node", "n0"), ("Node", "n2")]), hypernode("h1", 1, [("Node", "n1")])]

    bound = run(WORLD, crossing, kubernetes_gang("g", 2, key=key))[0]

    assert 2 == len(bound)
    racks = {n["metadata"]["name"]: n["metadata"]["labels"][key] for n in WORLD}  # type: ignore[index]
    assert 1 == len({racks[node] for node in bound.values()})
    assert {} == run(WORLD, crossing, kubernetes_gang("g", 3, key=RACK))[0]


def test_keys_that_cross_each_other_are_trees_of_their_own() -> None:
    """A rack of one row and a power domain over all rows: each gang keeps to its own."""
    world = [
        n | {"metadata": {**n["metadata"], "labels": {**n["metadata"]["labels"], "power": f"p{i % 2}"}}}  # type: ignore[dict-item, index]
        for i, n in enumerate(WORLD)
    ]

    racked = kubernetes_gang("a", 2, key=RACK)
    powered = kubernetes_gang("b", 2, key="power")
    bound = run(world, racked, powered)[0]

    where = {n["metadata"]["name"]: n["metadata"]["labels"] for n in world}  # type: ignore[index]
    assert 1 == len({where[bound[f"a-{i}"]][RACK] for i in range(2)})
    assert 1 == len({where[bound[f"b-{i}"]]["power"] for i in range(2)})


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"priority": 7}, "InvalidGroup"),
        ({"schedulerName": "volcano"}, "InvalidGroup"),
        ({"schedulerName": "somebody-else"}, "InvalidGroup"),
    ],
)
def test_a_group_has_one_scheduler_and_one_priority(change: Raw, code: str) -> None:
    """Else nobody can say when it starts, and it waits."""
    group, first, second = kubernetes_gang("g", 2, least=1)
    bound, why = run(WORLD, [group, first, second | {"spec": {**second["spec"], **change}}])  # type: ignore[dict-item]

    assert ({}, {code}) == (bound, _codes(why))


def test_what_is_not_read_keeps_the_group_waiting() -> None:
    """Claims of a whole group, and several constraints at once."""
    claims = kubernetes_gang("g", 2, resourceClaims=[{"name": "c", "resourceClaimName": "x"}])
    two = kubernetes_gang("g", 2, schedulingConstraints={"topology": [{"key": RACK}, {"key": SPINE}]})

    for gang, field in ((claims, "spec.resourceClaims"), (two, "spec.schedulingConstraints.topology")):
        bound, why = run(WORLD, gang)
        assert ({}, {"NotSupported"}) == (bound, _codes(why))
        assert all(field in text for text in why.values())


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulingPolicy": {}},
        {"schedulingPolicy": None},
        {"schedulingPolicy": {"elastic": {"minCount": 2}}},
        {"schedulingPolicy": {"gang": {}}},
        {"schedulingPolicy": {"gang": {"minCount": 0}}},
        {"schedulingPolicy": {"gang": {"minCount": -1}}},
        {"schedulingConstraints": {"topology": [{"key": ""}]}},
        {"schedulingConstraints": {"topology": [{}]}},
    ],
)
def test_a_group_that_does_not_say_what_it_wants_starts_nothing(spec: dict[str, Any]) -> None:
    """A policy of another kind may be a gang's, and a limit without a key is a limit: not one pod is bound."""
    alone = kubernetes_gang("g", 2, **spec)
    below = [composite("c", 1), *kubernetes_gang("h", 2, parentCompositePodGroupName="c", **spec)]

    for gang in (alone, below):
        bound, why = run(WORLD, gang)
        assert ({}, {"InvalidGroup"}) == (bound, _codes(why))


def test_a_composite_that_does_not_say_what_it_wants_starts_nothing() -> None:
    """Its groups would start one by one if it were taken for a basic one."""
    wrong = composite("c", 2)
    policies: list[Raw] = [{}, {"gang": {}}, {"elastic": {}}]
    for policy in policies:
        outer = wrong | {"spec": {**wrong["spec"], "schedulingPolicy": policy}}  # type: ignore[dict-item]
        bound, why = run(WORLD, [outer], kubernetes_gang("g", 2, parentCompositePodGroupName="c"))
        assert ({}, {"InvalidGroup"}) == (bound, _codes(why))
        assert all("CompositePodGroup default/c" in text for text in why.values())


def test_a_limit_that_no_plugin_minds_is_not_passed_over() -> None:
    """A profile without the topology plugin places no gang that has a limit."""
    blind = Profile(DEFAULT.actions, ((PluginChoice("gang"), PluginChoice("predicates")),))

    assert ({}, {"NotSupported"}) == (
        (found := run(WORLD, kubernetes_gang("g", 2, key=RACK), profile=blind))[0],
        _codes(found[1]),
    )
    assert 2 == len(run(WORLD, kubernetes_gang("g", 2), profile=blind)[0])


# -- groups of groups


def _pipeline(groups: int, size: int, least: int, *, inner: str = RACK, outer: str = "") -> list[Raw]:
    members = [
        raw
        for i in range(groups)
        for raw in kubernetes_gang(f"p{i}", size, key=inner, parentCompositePodGroupName="all")
    ]
    return [composite("all", least, key=outer), *members]


def test_the_groups_of_a_composite_start_together() -> None:
    """Three of two pods each fill three racks; a fourth would start alone, and none does."""
    bound = run(WORLD, _pipeline(3, 2, 3))[0]
    racks = {n["metadata"]["name"]: n["metadata"]["labels"][RACK] for n in WORLD}  # type: ignore[index]

    assert 6 == len(bound)
    assert all(racks[bound[f"p{i}-0"]] == racks[bound[f"p{i}-1"]] for i in range(3))
    assert {} == run(WORLD, _pipeline(4, 2, 4))[0]
    assert {} == run(WORLD, _pipeline(2, 3, 2))[0]  # no rack holds three
    assert 6 == len(run(WORLD, _pipeline(4, 2, 3))[0])


def test_a_composite_has_a_domain_of_its_own() -> None:
    """Two groups in racks of one spine: only the first spine has two racks."""
    bound = run(WORLD, _pipeline(2, 2, 2, outer=SPINE))[0]

    assert {"n0", "n1", "n2", "n3"} == set(bound.values())
    assert {} == run(WORLD, _pipeline(3, 2, 3, outer=SPINE))[0]


def test_groups_that_share_a_domain_alone_do_so_on_any_tree() -> None:
    """Beside hyperNodes, too: they are roles of one gang there, and their conditions are written all the same."""
    crossing = [hypernode("h", 1, [("Node", "n0"), ("Node", "n2")])]
    bound = run(WORLD, crossing, _pipeline(2, 1, 2, inner="", outer=RACK))[0]
    assert 1 == len({n["metadata"]["labels"][RACK] for n in WORLD if n["metadata"]["name"] in bound.values()})  # type: ignore[index]

    assert {} == run(WORLD, crossing, _pipeline(2, 2, 2, inner="", outer=RACK))[0]
    (part,) = _conditions(WORLD, crossing, _pipeline(2, 1, 2, inner="", outer=RACK), of="p1")
    assert "True" == part.status
    (part,) = _conditions(WORLD, crossing, _pipeline(2, 2, 2, inner="", outer=RACK), of="p1")
    assert "False" == part.status


def test_a_composite_waits_for_its_groups() -> None:
    """As many as it needs must exist, and so must it."""
    bound, why = run(WORLD, _pipeline(2, 1, 3))
    assert ({}, {"PodGroupNotFound"}) == (bound, _codes(why))

    bound, why = run(WORLD, _pipeline(2, 1, 2)[1:])
    assert ({}, {"PodGroupNotFound"}) == (bound, _codes(why))
    assert all("CompositePodGroup default/all" in text for text in why.values())


def test_composites_of_composites_have_domains_of_their_own() -> None:
    """Two groups in racks of one spine, and another two in the other spine, which has one rack: then nobody starts."""

    def pair(name: str, *sizes: int) -> list[Raw]:
        groups = [
            raw
            for i, size in enumerate(sizes)
            for raw in kubernetes_gang(f"{name}{i}", size, key=RACK, parentCompositePodGroupName=name)
        ]
        return [composite(name, len(sizes), key=SPINE, parent="top"), *groups]

    bound = run(WORLD, [composite("top", 2), *pair("a", 2, 1), *pair("b", 1, 1)])[0]
    spines = {n["metadata"]["name"]: n["metadata"]["labels"][SPINE] for n in WORLD}  # type: ignore[index]
    assert {"s0"} == {spines[bound[name]] for name in ("a0-0", "a0-1", "a1-0")}
    assert 1 == len({spines[bound[name]] for name in ("b0-0", "b1-0")})

    bound, why = run(WORLD, [composite("top", 2), *pair("a", 2, 2), *pair("b", 2, 1)])
    assert ({}, {"LargerThanAnyDomain"}) == (bound, _codes(why))
    assert 4 == len(run(WORLD, [composite("top", 1), *pair("a", 2, 2), *pair("b", 2, 1)])[0])


def test_a_level_that_asks_for_nothing_is_none() -> None:
    """A composite without a domain that needs all of its groups is its groups."""
    parts = _pipeline(2, 1, 2)[1:]

    assert 2 == len(run(WORLD, [composite("top", 1), composite("all", 2, parent="top"), *parts])[0])
    assert 2 == len(run(WORLD, [composite("top", 1), composite("all", 2, key=SPINE, parent="top"), *parts])[0])


def test_a_circle_of_composites_is_invalid() -> None:
    """Each below the other: nobody is the whole."""
    circle = [composite("top", 1, parent="all"), composite("all", 1, parent="top"), *_pipeline(1, 1, 1)[1:]]

    assert {"InvalidGroup"} == _codes(run(WORLD, circle)[1])


def test_the_groups_of_a_basic_composite_start_by_themselves() -> None:
    """In its domain, where it has one; and those of a gang inside it start together."""
    basic: Raw = {"basic": {}}
    free = [composite("all", 1, schedulingPolicy=basic), *_pipeline(4, 2, 1)[1:]]
    near = [composite("all", 1, key=SPINE, schedulingPolicy=basic), *_pipeline(4, 2, 1)[1:]]
    gang = [composite("top", 1, schedulingPolicy=basic), composite("all", 4, parent="top"), *_pipeline(4, 2, 1)[1:]]

    assert 6 == len(run(WORLD, free)[0])
    assert {"n0", "n1", "n2", "n3"} == set(run(WORLD, near)[0].values())
    assert {} == run(WORLD, gang)[0]


def test_rules_about_sets_are_those_of_the_composite() -> None:
    """Its groups are one part, wherever they stand; a rule on one of them alone is not passed over."""
    rule = {
        "tierwise.io/set": "s",
        "tierwise.io/topology-constraints": f'[{{"tier": "{RACK}", "set": "s", "apart": 1}}]',
    }
    groups = kubernetes_gang("p0", 1, key=RACK, parentCompositePodGroupName="all")
    groups += kubernetes_gang("p1", 1, key=RACK, parentCompositePodGroupName="all")
    outer: Any = composite("all", 2, key=SPINE)

    ruled = {**outer, "metadata": {**outer["metadata"], "annotations": rule}}
    manifests = objects_of(WORLD, [ruled], groups)
    assert 2 == len(run(WORLD, [ruled], groups)[0])
    assert [] == audit(schedule(manifests, DEFAULT, now=0.0).cluster.read())

    declared: list[Any] = [raw for raw in groups if raw["kind"] != "Pod"]
    inner = [{**raw, "metadata": {**raw["metadata"], "annotations": rule}} for raw in declared]
    why = run(WORLD, [outer], inner, [raw for raw in groups if raw["kind"] == "Pod"])[1]
    assert {"NotSupported"} == _codes(why)


# -- Workloads of 1.35


def _workload(*sizes: tuple[str, int]) -> Raw:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {"podGroups": [{"name": name, "policy": {"gang": {"minCount": n}}} for name, n in sizes]},
    }


def _referring(name: str, group: str, replica: str = "") -> Raw:
    reference = {"name": "w", "podGroup": group, **({"podGroupReplicaKey": replica} if replica else {})}
    return pod(name, spec={"workloadRef": reference})


def test_each_replica_of_a_workloads_group_is_a_gang() -> None:
    """Two replicas of two pods, of which one is not whole yet."""
    pods = [_referring(f"a{i}", "workers", "a") for i in range(2)] + [_referring("b0", "workers", "b")]
    bound, why = run(WORLD, [_workload(("workers", 2)), *pods])

    assert {"a0", "a1"} == set(bound)
    assert {"b0": "NotEnoughTasks"} == {name: text.partition(":")[0] for name, text in why.items()}


def test_a_pod_waits_for_its_workload_and_its_group() -> None:
    """Neither may be missing."""
    assert {"PodGroupNotFound"} == _codes(run(WORLD, [_referring("a", "workers")])[1])
    assert {"PodGroupNotFound"} == _codes(run(WORLD, [_workload(("others", 1)), _referring("a", "workers")])[1])


# -- conditions


def test_a_group_that_has_started_says_so_for_good() -> None:
    """In the words of its version."""
    (now,) = _conditions(WORLD, kubernetes_gang("g", 2))
    assert ("PodGroupInitiallyScheduled", "True", "Scheduled") == (now.type, now.status, now.reason)
    (then,) = _conditions(WORLD, kubernetes_gang("g", 2, version="v1alpha2"))
    assert ("PodGroupScheduled", "True") == (then.type, then.status)

    told: Raw = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled", "message": "m"}
    (kept,) = _conditions(WORLD, kubernetes_gang("g", 7, status={"conditions": [told]}))
    assert ("True", "m") == (kept.status, kept.message)


def test_a_group_that_waits_says_why() -> None:
    """As the API defines it: Unschedulable."""
    (told,) = _conditions(WORLD, kubernetes_gang("g", 3, key=RACK))

    assert ("PodGroupInitiallyScheduled", "False", "Unschedulable") == (told.type, told.status, told.reason)
    assert "3 pods" in told.message
    assert told.last_transition_time


def test_other_conditions_stay_as_they_are() -> None:
    """Whoever wrote them."""
    other: Raw = {"type": "Mine", "status": "True", "reason": "Because", "message": "", "observedGeneration": 3}
    kinds = [c.type for c in _conditions(WORLD, kubernetes_gang("g", 2, status={"conditions": [other]}))]

    assert ["Mine", "PodGroupInitiallyScheduled"] == kinds


def test_a_composite_and_its_groups_have_conditions() -> None:
    """Each its own."""
    (whole,) = _conditions(WORLD, _pipeline(2, 2, 2), of="all")
    assert ("CompositePodGroupInitiallyScheduled", "True") == (whole.type, whole.status)
    (part,) = _conditions(WORLD, _pipeline(2, 2, 2), of="p1")
    assert ("PodGroupInitiallyScheduled", "True") == (part.type, part.status)
    (part,) = _conditions(WORLD, _pipeline(4, 2, 4), of="p1")
    assert "False" == part.status


# -- disruption


@pytest.mark.parametrize("mode", ["PodGroup", {"all": {}}])
def test_a_group_that_falls_as_one_falls_whole(mode: object) -> None:
    """One node is needed, and a group of three pods that needs one loses all of them."""
    low = kubernetes_gang("g", 3, least=1, on={0: "n0", 1: "n1", 2: "n2"}, disruptionMode=mode)
    single = [raw if raw["kind"] == "Pod" else raw | {"spec": {**raw["spec"], "disruptionMode": None}} for raw in low]  # type: ignore[dict-item]
    high = [pod("boss", spec={"priority": 9})]

    for gang, number in ((low, 3), (single, 1)):
        history = schedule(objects_of(WORLD[:3], gang, high), EVICTS, now=0.0)
        assert number == len([e for e in history.evictions if e.task.key.startswith("default/g")])
        told = {c.type: c.reason for c in history.cluster.read().every(PodGroup)["default/g"].status.conditions}
        assert ("PreemptionByScheduler" if gang is low else None) == told.get("DisruptionTarget")


# -- checks


def test_what_the_api_refuses_is_refused_in_files_too() -> None:
    """One policy, one constraint, one mode, positive numbers."""
    wrong = kubernetes_gang(
        "g",
        1,
        schedulingPolicy={"basic": {}, "gang": {"minCount": 0}},
        schedulingConstraints={"topology": [{"key": ""}, {"key": RACK}]},
        disruptionMode={"single": {}, "all": {}},
        preemptionPolicy="Sometimes",
    )[:1]
    errors = {finding.path for finding in validate(objects_of(wrong)).errors}
    composed = validate(objects_of([composite("c", 0)])).errors

    assert {
        "spec.schedulingPolicy",
        "spec.schedulingPolicy.gang.minCount",
        "spec.schedulingConstraints.topology",
        "spec.schedulingConstraints.topology[0].key",
        "spec.disruptionMode",
        "spec.preemptionPolicy",
    } == errors
    assert ["spec.schedulingPolicy.gang.minGroupCount"] == [finding.path for finding in composed]


def test_a_group_that_will_wait_is_told_beforehand() -> None:
    """By `validate`."""
    claims = kubernetes_gang("g", 1, resourceClaims=[{"name": "c"}])[:1]

    (told,) = validate(objects_of(claims)).warnings

    assert "NotSupported" in told.message


def test_the_auditor_counts_for_itself() -> None:
    """A part of a gang, and a gang in two racks; one that has started may have lost pods."""

    def found(*manifests: list[Raw]) -> list[str]:
        return [finding.rule for finding in audit(objects_of(WORLD, *manifests))]

    started: Raw = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]}
    assert ["part-of-gang"] == found(kubernetes_gang("g", 2, on={0: "n0"}))
    assert [] == found(kubernetes_gang("g", 2, on={0: "n0"}, status=started))
    assert ["topology"] == found(kubernetes_gang("g", 2, key=RACK, on={0: "n0", 1: "n4"}))
    assert ["part-of-gang"] == found(
        [
            _workload(("a", 2)),
            _referring("a1", "a"),
            pod("a0", on="n0", spec={"workloadRef": {"name": "w", "podGroup": "a"}}),
        ]
    )


def test_the_auditor_counts_composites_at_every_level() -> None:
    """Pods of a composite in two spines, and one of two groups; one that has started may have lost them."""

    def found(*manifests: list[Raw]) -> list[tuple[str, str]]:
        return [(finding.rule, finding.subject) for finding in audit(objects_of(WORLD, *manifests))]

    def pair(*nodes: str, least: int = 2) -> list[Raw]:
        groups = [
            raw
            for i, node in enumerate(nodes)
            for raw in kubernetes_gang(f"p{i}", 1, on={0: node} if node else {}, parentCompositePodGroupName="all")
        ]
        return [composite("top", 1), composite("all", least, key=SPINE, parent="top"), *groups]

    assert [] == found(pair("n0", "n2"))
    assert [("topology", "CompositePodGroup default/all")] == found(pair("n0", "n4"))
    part = [("part-of-gang", "CompositePodGroup default/all"), ("part-of-gang", "CompositePodGroup default/top")]
    assert part == sorted(found(pair("n0", "")))
    assert [] == found(pair("n0", "", least=1))
    top, *rest = pair("n0", "")
    said: Raw = {"conditions": [{"type": "CompositePodGroupInitiallyScheduled", "status": "True"}]}
    assert [] == found([top | {"status": said}, *rest])


def test_every_composite_has_its_condition() -> None:
    """The one that declares the gang, those inside it, and one of which nothing stands."""
    groups = [
        raw
        for name, size in (("a", 2), ("b", 3))
        for raw in kubernetes_gang(f"{name}0", size, key=RACK, parentCompositePodGroupName=name)
    ]
    inner = [composite(name, 1, key=SPINE, parent="top") for name in ("a", "b")]
    cluster = schedule(objects_of(WORLD, [composite("top", 1), *inner, *groups]), DEFAULT, now=0.0).cluster

    told = {
        path.removeprefix("default/"): [(c.type, c.status) for c in record.status.conditions]
        for path, record in cluster.read().every(CompositePodGroup).items()
    }
    kind = "CompositePodGroupInitiallyScheduled"
    assert [(kind, "True")] == told["top"] == told["a"]
    assert [(kind, "False")] == told["b"]


def test_the_minimum_may_change() -> None:
    """A gang of three that waits starts with two once that is enough."""
    group, *pods = kubernetes_gang("g", 3, key=RACK)
    fewer = kubernetes_gang("g", 3, least=2, key=RACK)[0]

    assert {} == run(WORLD, [group, *pods])[0]
    assert 2 == len(run(WORLD, [fewer, *pods])[0])
