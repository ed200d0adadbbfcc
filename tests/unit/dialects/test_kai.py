"""KAI's pod groups: sub-groups, levels of a Topology, required and preferred, queues and what they may use."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.koordinator import hypernode
from tests.support.languages import RACK, SPINE, kai_gang, near, nodes, objects_of, pod, run, topology

from tierwise.admission import validate
from tierwise.api.codec import Raw
from tierwise.audit import audit
from tierwise.config.profile import DEFAULT
from tierwise.port import Key
from tierwise.sim.cluster.rounds import schedule
from tierwise.snapshot.builder import build

TREE = {"s0": {"r0": "n0 n1", "r1": "n2 n3"}, "s1": {"r2": "n4 n5"}}
WORLD = [*nodes(TREE), topology()]
RACKS = {n["metadata"]["name"]: n["metadata"]["labels"][RACK] for n in nodes(TREE)}  # type: ignore[index]


def _codes(why: dict[str, str]) -> set[str]:
    return {text.partition(":")[0] for text in why.values()}


def _sub(name: str, least: int, level: str = "", parent: str = "", **more: object) -> Raw:
    found: Raw = {"name": name, "minMember": least, **more}
    found |= {"topologyConstraint": near(level)} if level else {}
    return found | ({"parent": parent} if parent else {})


def test_a_gang_starts_whole_or_not_at_all() -> None:
    """Six nodes hold six pods, and of a gang of seven none starts."""
    assert 6 == len(run(WORLD, kai_gang("g", 6))[0])
    assert {} == run(WORLD, kai_gang("g", 7))[0]


def test_a_pod_waits_for_its_group() -> None:
    """Somebody makes it: KAI's pod grouper, or a person."""
    assert {"PodGroupNotFound"} == _codes(run(WORLD, kai_gang("g", 2)[1:])[1])


def test_a_required_level_is_a_limit() -> None:
    """Three pods fit in no rack, and in a spine."""
    assert {} == run(WORLD, kai_gang("g", 3, topologyConstraint=near(RACK)))[0]
    assert {"n0", "n1", "n2", "n3"} >= set(run(WORLD, kai_gang("g", 3, topologyConstraint=near(SPINE)))[0].values())


def test_a_preferred_level_is_had_if_it_can_be() -> None:
    """Two pods share a rack; three go where they can, and within a spine where that is required."""
    alone = kai_gang("g", 2, topologyConstraint=near(preferred=RACK))
    assert 1 == len({RACKS[node] for node in run(WORLD, alone)[0].values()})
    assert 5 == len(run(WORLD, kai_gang("g", 5, topologyConstraint=near(preferred=RACK)))[0])

    both = kai_gang("g", 3, topologyConstraint=near(SPINE, RACK))
    bound = run(WORLD, both)[0]
    assert {"r0", "r1"} == {RACKS[node] for node in bound.values()}
    assert {} == run(WORLD, kai_gang("g", 5, topologyConstraint=near(SPINE, RACK)))[0]


def test_a_domain_is_the_path_to_it() -> None:
    """The same rack name in two spines is two racks."""
    world = [*nodes({"s0": {"r0": "n0"}, "s1": {"r0": "n1"}}), topology()]

    assert {} == run(world, kai_gang("g", 2, topologyConstraint=near(RACK)))[0]


def test_a_node_without_a_label_of_the_topology_is_outside() -> None:
    """However much room it has."""
    lost = [n | {"metadata": {"name": "x", "labels": {RACK: "r9"}}} for n in nodes(TREE)[:1]]

    for level in (RACK, SPINE):
        assert {} == run([*lost, topology()], kai_gang("g", 1, topologyConstraint=near(level)))[0]


@pytest.mark.parametrize(
    "racks", [[], [hypernode("h", 1, [("Node", f"n{i}") for i in range(6)])]], ids=["alone", "beside"]
)
@pytest.mark.parametrize(
    ("asked", "code"),
    [(near(RACK, name="other"), "NoTopology"), (near("example.com/row"), "UnknownLayer")],
)
def test_a_limit_without_its_tree_waits(asked: Raw, code: str, racks: list[Raw]) -> None:
    """And says which topology, or level, does not exist."""
    bound, why = run(WORLD, racks, kai_gang("g", 2, topologyConstraint=asked))

    assert ({}, {code}) == (bound, _codes(why))


def test_a_preference_without_its_tree_is_none() -> None:
    """It never keeps anybody waiting."""
    assert 3 == len(run(WORLD, kai_gang("g", 3, topologyConstraint=near(preferred=RACK, name="other")))[0])


def test_sub_groups_have_minimums_and_levels_of_their_own() -> None:
    """Two of two in a rack each, all in a spine: only the first spine has two racks."""
    subs = [_sub("a", 2, RACK), _sub("b", 2, RACK)]
    bound = run(WORLD, kai_gang("g", {"a": 2, "b": 2}, subGroups=subs, topologyConstraint=near(SPINE)))[0]

    assert {"n0", "n1", "n2", "n3"} == set(bound.values())
    assert RACKS[bound["g-a-0"]] == RACKS[bound["g-a-1"]] != RACKS[bound["g-b-0"]] == RACKS[bound["g-b-1"]]


def test_sub_groups_may_differ() -> None:
    """Each needs its own number; where one of them finds no place nobody starts."""
    subs = [_sub("leader", 1), _sub("workers", 2, RACK)]
    assert 3 == len(run(WORLD, kai_gang("g", {"leader": 1, "workers": 2}, subGroups=subs))[0])

    subs = [_sub("leader", 1), _sub("workers", 3, RACK)]
    assert {} == run(WORLD, kai_gang("g", {"leader": 1, "workers": 3}, subGroups=subs))[0]
    bound, why = run(WORLD, kai_gang("g", {"leader": 1, "workers": 1}, subGroups=subs))
    assert ({}, {"NotEnoughPodsOfTask"}) == (bound, _codes(why))


def test_sub_groups_count_in_the_spelling_of_kais_documentation() -> None:
    """An API server would drop them, so `validate` says so."""
    gang = kai_gang("g", {"a": 1, "b": 6}, subgroups=[_sub("a", 1), _sub("b", 6)])

    assert {} == run(WORLD, gang)[0]
    assert ["spec.subgroups"] == [told.path for told in validate(objects_of(WORLD, gang)).warnings]


def test_some_of_alike_sub_groups_may_be_enough() -> None:
    """Three of four racks' worth, where there are three racks."""
    subs = [_sub(f"s{i}", 2, RACK) for i in range(4)]
    sizes = {f"s{i}": 2 for i in range(4)}

    assert {} == run(WORLD, kai_gang("g", sizes, subGroups=subs))[0]
    assert 6 == len(run(WORLD, kai_gang("g", sizes, subGroups=subs, minSubGroup=3))[0])


def test_some_of_unlike_sub_groups_may_be_enough() -> None:
    """Two of three: the one that fits no rack is left out, whichever it is; with three of three nobody starts."""
    sizes = {"a": 3, "b": 2, "c": 1}
    subs = [_sub(name, size, RACK) for name, size in sizes.items()]

    bound = run(WORLD, kai_gang("g", sizes, subGroups=subs, minSubGroup=2))[0]
    assert {"g-b-0", "g-b-1", "g-c-0"} == set(bound)
    assert RACKS[bound["g-b-0"]] == RACKS[bound["g-b-1"]]
    assert {} == run(WORLD, kai_gang("g", sizes, subGroups=subs, minSubGroup=3))[0]
    bound, why = run(WORLD, kai_gang("g", {"a": 3, "b": 1, "c": 1}, subGroups=subs, minSubGroup=3))
    assert ({}, {"NotEnoughPodsOfTask"}) == (bound, _codes(why))


def test_a_parent_that_asks_for_nothing_is_no_level() -> None:
    """Its sub-groups stand for it."""
    sizes = {"a": 1, "b": 1}
    plain = [_sub("ab", 0), _sub("a", 1, RACK, "ab"), _sub("b", 1, RACK, "ab")]

    assert 2 == len(run(WORLD, kai_gang("g", sizes, subGroups=plain))[0])


def test_sub_groups_of_sub_groups_have_domains_of_their_own() -> None:
    """Two halves in a spine each, of two parts in a rack each; the second spine has one rack."""
    subs = [_sub(half, 0, SPINE, minSubGroup=2) for half in ("x", "y")]
    subs += [_sub(f"{half}{i}", 1, RACK, half) for half in ("x", "y") for i in range(2)]
    sizes = {f"{half}{i}": 1 for half in ("x", "y") for i in range(2)}
    spines = {n["metadata"]["name"]: n["metadata"]["labels"][SPINE] for n in nodes(TREE)}  # type: ignore[index]

    bound = run(WORLD, kai_gang("g", sizes, subGroups=subs))[0]
    assert 4 == len(bound)
    assert all(spines[bound[f"g-{half}0-0"]] == spines[bound[f"g-{half}1-0"]] for half in ("x", "y"))

    large = [sub | {"minMember": 2} if sub["minMember"] else sub for sub in subs]
    bound, why = run(WORLD, kai_gang("g", dict.fromkeys(sizes, 2), subGroups=large))
    assert ({}, {"LargerThanAnyDomain"}) == (bound, _codes(why))
    assert 4 == len(run(WORLD, kai_gang("g", dict.fromkeys(sizes, 2), subGroups=large, minSubGroup=1))[0])


def test_the_auditor_counts_sub_groups_at_every_level() -> None:
    """One half of two in a spine each: where it lacks a part, and where its parts stand in two spines."""
    subs = [_sub(half, 0, SPINE, minSubGroup=2) for half in ("x", "y")]
    subs += [_sub(f"{half}{i}", 1, RACK, half) for half in ("x", "y") for i in range(2)]
    sizes = {f"{half}{i}": 1 for half in ("x", "y") for i in range(2)}

    def found(least: int, **on: str) -> list[str]:
        where = {f"g-{name}-0": node for name, node in on.items()}
        gang = kai_gang("g", sizes, on=where, subGroups=subs, minSubGroup=least)
        return [finding.rule for finding in audit(objects_of(WORLD, gang))]

    assert [] == found(1, x0="n0", x1="n2")
    assert ["part-of-gang"] == found(2, x0="n0", x1="n2")
    assert ["part-of-gang"] == found(1, x0="n0", y0="n2")
    assert ["topology"] == found(1, x0="n0", x1="n4")


@pytest.mark.parametrize("parent", ["", "x"])
def test_nothing_is_needed_of_a_sub_group_with_a_minimum_of_none(parent: str) -> None:
    """Its pods come as room allows, within the domains around them; and it need not have any."""
    subs = [_sub("x", 0, RACK)] if parent else []
    subs += [_sub("a", 2, "", parent), _sub("b", 0, "", parent), _sub("none", 0, RACK, parent)]
    whole: Any = {"topologyConstraint": near(SPINE)}

    bound = run(WORLD, kai_gang("g", {"a": 2, "b": 3}, subGroups=subs, **whole))[0]
    assert (2 if parent else 4) == len(bound)
    assert {"g-a-0", "g-a-1"} <= set(bound)
    assert 2 == len(run(WORLD, kai_gang("g", {"a": 2}, subGroups=subs, **whole))[0])
    assert {} == run(WORLD, kai_gang("g", {"b": 3}, subGroups=subs, **whole))[0]


def test_further_sub_groups_come_whole() -> None:
    """One of two halves is enough; the other starts as soon as both of its parts have room, and not by half."""
    subs = [_sub(half, 0, SPINE, minSubGroup=2) for half in ("x", "y")]
    subs += [_sub(f"{half}{i}", 2, RACK, half) for half in ("x", "y") for i in range(2)]
    sizes = {f"{half}{i}": 2 for half in ("x", "y") for i in range(2)}
    wider = [*nodes({"s2": {"r3": "n6 n7", "r4": "n8"}}), *WORLD]
    enough = [*nodes({"s2": {"r3": "n6 n7", "r4": "n8 n9"}}), *WORLD]

    assert 4 == len(run(wider, kai_gang("g", sizes, subGroups=subs, minSubGroup=1))[0])
    assert 8 == len(run(enough, kai_gang("g", sizes, subGroups=subs, minSubGroup=1))[0])


@pytest.mark.parametrize(
    "subs",
    [
        [_sub("a", 1), _sub("a", 1)],
        [_sub("a", 1, parent="nobody")],
        [_sub("a", 1, parent="b"), _sub("b", 1, parent="a")],
        [_sub("a", 1), *(_sub(f"x{i}", 1, parent=f"x{i - 1}" if i else "a") for i in range(3000))],
    ],
    ids=["twice", "lost", "circle", "deep"],
)
def test_sub_groups_that_are_no_tree_are_invalid(subs: list[Raw]) -> None:
    """KAI's webhook refuses them; a file has none."""
    gang = kai_gang("g", {"a": 1}, subGroups=subs)

    assert {"InvalidGroup"} == _codes(run(WORLD, gang)[1])
    assert any("InvalidGroup" in told.message for told in validate(objects_of(WORLD, gang)).warnings)


# -- queues


def _queue(name: str, gpu: float = -1, cpu: float = -1, **spec: object) -> Raw:
    unlimited = {"quota": -1, "limit": -1}
    resources = {"gpu": {"quota": gpu, "limit": gpu}, "cpu": {"quota": cpu, "limit": cpu}, "memory": unlimited}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": resources, **spec},
    }


def test_a_group_waits_for_its_queue() -> None:
    """By its spec, or by its label."""
    assert {"QueueNotFound"} == _codes(run(WORLD, kai_gang("g", 2, queue="team"))[1])
    assert 2 == len(run(WORLD, [_queue("team")], kai_gang("g", 2, queue="team"))[0])
    assert {"QueueNotFound"} == _codes(run(WORLD, kai_gang("g", 2, labels={"kai.scheduler/queue": "x"}))[1])


def test_the_limit_of_a_queue_and_of_those_above_it_holds() -> None:
    """In thousandths of cpus, as KAI counts."""
    world = [*WORLD, _queue("org", cpu=3000), _queue("team", parentQueue="org")]

    assert 3 == len(run(world, kai_gang("g", 3, queue="team"))[0])
    assert {} == run(world, kai_gang("g", 4, queue="team"))[0]


def test_the_quota_of_a_queue_is_what_it_deserves() -> None:
    """For the plugins that share by that."""
    queue = build(objects_of(WORLD, [_queue("team", gpu=4, cpu=2000, priority=7)]), 0.0).queues["team"]

    assert {"nvidia.com/gpu": 4, "cpu": 2000} == queue.deserved == queue.capability
    assert 7 == queue.priority


def test_memory_of_a_queue_is_told_in_millions_of_bytes() -> None:
    """As KAI counts, and not in the mebibytes of Kubernetes."""
    raw = _queue("team")
    raw["spec"]["resources"]["memory"] = {"quota": 2, "limit": 3}  # type: ignore[index]
    queue = build(objects_of(WORLD, [raw]), 0.0).queues["team"]

    assert (2_000_000, 3_000_000) == (queue.deserved["memory"], queue.capability["memory"])


def test_a_pod_without_a_group_waits_in_the_queue_of_its_label() -> None:
    """As a pod by itself."""
    lone = [pod("p", labels={"kai.scheduler/queue": "team"})]

    assert {"QueueNotFound"} == _codes(run(WORLD, lone)[1])
    assert {"p"} == set(run(WORLD, [_queue("team")], lone)[0])


# -- marks, status, checks


def test_what_only_kais_pod_grouper_reads_keeps_a_lone_pod_waiting() -> None:
    """With a group it has been read."""
    marks = {"kai.scheduler/topology": "net", "kai.scheduler/topology-required-placement": RACK}

    assert {"NotSupported"} == _codes(run(WORLD, [pod("p", annotations=marks)])[1])
    group, member = kai_gang("g", 1)
    told = member | {"metadata": {**member["metadata"], "annotations": {"pod-group-name": "g", **marks}}}  # type: ignore[dict-item]
    assert {"g-0"} == set(run(WORLD, [group, told])[0])


@pytest.mark.parametrize(("spec", "spared"), [({"preemptibility": "non-preemptible"}, True), ({}, False)])
def test_a_group_may_say_that_it_is_not_evicted(spec: dict[str, Any], spared: bool) -> None:
    """Else its priority says so, from 100 on."""
    (job,) = build(objects_of(WORLD, kai_gang("g", 1, **spec)), 0.0).jobs
    assert spared is job.not_preemptable

    group, member = kai_gang("g", 1, **spec)
    high = member | {"spec": {**member["spec"], "priority": 100}}  # type: ignore[dict-item]
    (job,) = build(objects_of(WORLD, [group, high]), 0.0).jobs
    assert job.not_preemptable


def test_a_group_that_may_be_evicted_may_be_at_any_priority() -> None:
    """Its own word counts before its priority."""
    group, member = kai_gang("g", 1, preemptibility="preemptible")
    high = member | {"spec": {**member["spec"], "priority": 100}}  # type: ignore[dict-item]
    (job,) = build(objects_of(WORLD, [group, high]), 0.0).jobs

    assert not job.not_preemptable


def test_a_group_says_why_it_waits_and_when_it_started() -> None:
    """In KAI's condition and annotation."""
    key = Key("scheduling.run.ai", "PodGroup", "default", "g")

    waiting = schedule(objects_of(WORLD, kai_gang("g", 7)), DEFAULT, now=0.0).cluster.read().raw(key)
    (told,) = waiting["status"]["schedulingConditions"]  # type: ignore[index]
    assert ("UnschedulableOnNodePool", "True") == (told["type"], told["status"])
    assert "7 pods" in told["message"]

    started = schedule(objects_of(WORLD, kai_gang("g", 2)), DEFAULT, now=0.0).cluster.read().raw(key)
    assert started["metadata"]["annotations"]["kai.scheduler/last-start-timestamp"]  # type: ignore[index]


def test_what_cannot_be_is_told() -> None:
    """Unknown levels, queues and topologies, numbers below none, levels that are listed twice."""
    wrong = kai_gang(
        "g",
        0,
        least=-1,
        queue="x",
        preemptibility="never",
        topologyConstraint=near("row"),
        subGroups=[_sub("", -1), {"name": "b", "topologyConstraint": near(RACK, name="other")}],
    )
    verdict = validate(objects_of(WORLD, [*wrong, topology("t", levels=(RACK, RACK)), topology("u", levels=())]))

    assert [
        "spec.levels[1].nodeLabel",
        "spec.levels",
        "spec.minMember",
        "spec.preemptibility",
        "spec.subGroups[0].minMember",
        "spec.subGroups[0].name",
    ] == [finding.path for finding in verdict.errors]
    assert [
        "spec.queue",
        "spec.topologyConstraint.requiredTopologyLevel",
        "spec.subGroups[1].topologyConstraint.topology",
        "spec",
    ] == [finding.path for finding in verdict.warnings]


def test_the_auditor_counts_for_itself() -> None:
    """Parts of gangs, parts of sub-groups, and pods that stand too far apart."""

    def found(*manifests: list[Raw]) -> list[str]:
        return [finding.rule for finding in audit(objects_of(WORLD, *manifests))]

    subs = [_sub("a", 2, RACK)]
    assert ["part-of-gang"] == found(kai_gang("g", 2, on={"g-0": "n0"}))
    assert ["part-of-gang"] == found(kai_gang("g", {"a": 2}, subGroups=subs, on={"g-a-0": "n0"}))
    assert ["topology"] == found(kai_gang("g", {"a": 2}, subGroups=subs, on={"g-a-0": "n0", "g-a-1": "n4"}))
    assert [] == found(kai_gang("g", {"a": 2}, subGroups=subs, on={"g-a-0": "n0", "g-a-1": "n1"}))
