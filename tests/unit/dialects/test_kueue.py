"""Kueue's pod groups and annotations of topology: what Kueue assigned is kept, and without it they are limits."""

from __future__ import annotations

import json

import pytest
from tests.support.languages import RACK, SPINE, kueue_gang, nodes, objects_of, pod, run, topology

from tierwise.admission import validate
from tierwise.api.codec import Raw
from tierwise.audit import audit

V1 = "kueue.x-k8s.io/v1beta2"
TREE = {"s0": {"r0": "n0 n1", "r1": "n2 n3"}, "s1": {"r2": "n4 n5"}}
WORLD = [*nodes(TREE), topology(of=V1)]
RACKS = {n["metadata"]["name"]: n["metadata"]["labels"][RACK] for n in nodes(TREE)}  # type: ignore[index]


def _codes(why: dict[str, str]) -> set[str]:
    return {text.partition(":")[0] for text in why.values()}


# -- without Kueue


def test_a_pod_group_starts_whole_or_not_at_all() -> None:
    """As many pods as it says, and not before all of them exist."""
    assert 6 == len(run(WORLD, kueue_gang("g", 6))[0])
    assert {} == run(WORLD, kueue_gang("g", 7))[0]
    bound, why = run(WORLD, kueue_gang("g", 2, total=3))
    assert ({}, {"NotEnoughTasks"}) == (bound, _codes(why))


def test_a_required_level_is_a_limit() -> None:
    """Three pods fit in no rack, and in a spine."""
    assert {} == run(WORLD, kueue_gang("g", 3, required_topology=RACK))[0]
    assert 3 == len(run(WORLD, kueue_gang("g", 3, required_topology=SPINE))[0])


def test_a_preferred_level_is_had_if_it_can_be() -> None:
    """Two share a rack; five go where they can."""
    assert 1 == len({RACKS[n] for n in run(WORLD, kueue_gang("g", 2, preferred_topology=RACK))[0].values()})
    assert 5 == len(run(WORLD, kueue_gang("g", 5, preferred_topology=RACK))[0])


def test_an_unconstrained_pod_set_goes_anywhere() -> None:
    """It asks for nothing but room."""
    assert 6 == len(run(WORLD, kueue_gang("g", 6, unconstrained_topology="true"))[0])


def test_slices_have_a_domain_each() -> None:
    """Three slices of two, a rack each; the whole in one spine where that is asked for too."""
    bound = run(WORLD, kueue_gang("g", 6, slice_required_topology=RACK, slice_size=2))[0]
    assert 6 == len(bound)
    assert all(RACKS[bound[f"g-{i}"]] == RACKS[bound[f"g-{i + 1}"]] for i in (0, 2, 4))

    within = {"slice_required_topology": RACK, "slice_size": 2, "required_topology": SPINE}
    assert {"n0", "n1", "n2", "n3"} == set(run(WORLD, kueue_gang("g", 4, **within))[0].values())  # type: ignore[arg-type]
    assert {} == run(WORLD, kueue_gang("g", 6, **within))[0]  # type: ignore[arg-type]


def test_a_last_slice_may_be_smaller() -> None:
    """Five pods in slices of two."""
    assert 5 == len(run(WORLD, kueue_gang("g", 5, slice_required_topology=RACK, slice_size=2))[0])


def _layers(*layers: tuple[str, object]) -> str:
    return json.dumps([{"topology": level, "size": size} for level, size in layers])


def test_slices_lie_within_each_other() -> None:
    """Four pods in a spine, two of them in a rack, and six of them: the last two have a spine to themselves."""
    asked = _layers((SPINE, 4), (RACK, "2"))
    bound = run(WORLD, kueue_gang("g", 6, slice_required_topology_constraints=asked))[0]

    assert {"n0", "n1", "n2", "n3"} == {bound[f"g-{i}"] for i in range(4)}
    assert all(RACKS[bound[f"g-{i}"]] == RACKS[bound[f"g-{i + 1}"]] for i in (0, 2, 4))
    assert {} == run(WORLD, kueue_gang("g", 8, slice_required_topology_constraints=asked))[0]
    within = {"slice_required_topology_constraints": asked, "required_topology": SPINE}
    assert 4 == len(run(WORLD, kueue_gang("g", 4, **within))[0])  # type: ignore[arg-type]
    assert {} == run(WORLD, kueue_gang("g", 6, **within))[0]  # type: ignore[arg-type]


def test_the_auditor_knows_slices() -> None:
    """Two pods of a slice in two racks, and four of an outer one in two spines."""
    asked = _layers((SPINE, 4), (RACK, 2))

    def found(*nodes: str, **marks: object) -> list[str]:
        gang = kueue_gang("g", len(nodes), on=dict(enumerate(nodes)), **marks)  # type: ignore[arg-type]
        return [finding.subject for finding in audit(objects_of(WORLD, gang))]

    assert [] == found("n0", "n1", "n2", "n3", slice_required_topology_constraints=asked)
    assert ["pod group default/g, slice 0 of 4"] == found(
        "n0", "n1", "n4", "n5", slice_required_topology_constraints=asked
    )
    assert ["pod group default/g, slice 1 of 2"] == found(
        "n0", "n1", "n4", "n2", slice_required_topology=RACK, slice_size=2
    )


@pytest.mark.parametrize(
    "asked",
    [
        "[]",
        "{",
        '[{"topology": "x"}]',
        _layers((SPINE, 4), (RACK, 3)),
        _layers((RACK, 0)),
        _layers(("", 1)),
        '[{"topology": "x", "sizes": [1, 2]}]',
    ],
)
def test_slices_that_make_no_sense_are_invalid(asked: str) -> None:
    """Sizes are positive, and each consists of the next."""
    gang = kueue_gang("g", 4, slice_required_topology_constraints=asked)

    assert {"InvalidGroup"} == _codes(run(WORLD, gang)[1])


def test_slices_are_asked_for_in_one_way() -> None:
    """Kueue refuses both at once."""
    both = {"slice_required_topology": RACK, "slice_size": 2}
    gang = kueue_gang("g", 4, slice_required_topology_constraints=_layers((RACK, 2)), **both)  # type: ignore[arg-type]

    assert {"InvalidGroup"} == _codes(run(WORLD, gang)[1])


def test_pod_sets_of_one_group_share_a_domain() -> None:
    """A leader and its workers ask for the same, under one group name."""
    gang = kueue_gang("g", 2, required_topology=RACK, group_name="unit")

    assert 1 == len({RACKS[node] for node in run(WORLD, gang)[0].values()})


def test_pods_that_ask_for_different_things_wait() -> None:
    """Which pods of the group are which is not told."""
    first, second = kueue_gang("g", 2, required_topology=RACK)[0], kueue_gang("g", 2, required_topology=SPINE)[1]

    assert {"NotSupported"} == _codes(run(WORLD, [first, second])[1])


@pytest.mark.parametrize(
    ("world", "code"), [(nodes(TREE), "NoTopology"), ([*nodes(TREE), topology(of=V1, levels=(SPINE,))], "NoTopology")]
)
def test_a_level_of_no_topology_waits(world: list[Raw], code: str) -> None:
    """A preference does not."""
    bound, why = run(world, kueue_gang("g", 2, required_topology=RACK))
    assert ({}, {code}) == (bound, _codes(why))
    assert 2 == len(run(world, kueue_gang("g", 2, preferred_topology=RACK))[0])


def test_a_topology_is_that_of_its_flavors_nodes() -> None:
    """Nodes of no flavor that names it are outside."""
    flavor: Raw = {
        "apiVersion": V1,
        "kind": "ResourceFlavor",
        "metadata": {"name": "f"},
        "spec": {"nodeLabels": {SPINE: "s1"}, "topologyName": "net"},
    }

    assert {"n4", "n5"} == set(run([*WORLD, flavor], kueue_gang("g", 2, required_topology=RACK))[0].values())


def test_a_topology_of_two_flavors_has_the_nodes_of_both() -> None:
    """A node need be of one of them only."""
    flavors: list[Raw] = [
        {
            "apiVersion": V1,
            "kind": "ResourceFlavor",
            "metadata": {"name": name},
            "spec": {"nodeLabels": labels, "topologyName": "net"},
        }
        for name, labels in (("f", {SPINE: "s1"}), ("g", {RACK: "r0"}))
    ]
    gangs = [*kueue_gang("g", 2, required_topology=RACK), *kueue_gang("h", 2, required_topology=RACK)]

    assert {"n0", "n1", "n4", "n5"} == set(run([*WORLD, *flavors], gangs)[0].values())


def test_what_does_not_add_up_is_invalid() -> None:
    """A total that is no number or none at all, a level without a name, a slice without a size, a size of nothing."""
    nameless = kueue_gang("g", 1)
    nameless[0]["metadata"]["annotations"] = {}  # type: ignore[index]
    for gang in (
        nameless,
        kueue_gang("g", 2, total=0),
        kueue_gang("g", 2, total=-1),
        [*kueue_gang("g", 2)[:1], *kueue_gang("g", 2, total=3)[1:]],
        kueue_gang("g", 1, required_topology=""),
        kueue_gang("g", 1, slice_required_topology=RACK),
        kueue_gang("g", 1, slice_required_topology=RACK, slice_size=0),
    ):
        bound, why = run(WORLD, gang)
        assert ({}, {"InvalidGroup"}) == (bound, _codes(why))
        assert any("InvalidGroup" in told.message for told in validate(objects_of(WORLD, gang)).warnings)


def test_a_total_beyond_all_limits_waits() -> None:
    """Nothing is made for each of a trillion pods."""
    assert {} == run(WORLD, kueue_gang("g", 1, total=10**12, slice_required_topology=RACK, slice_size=1))[0]


def _of_job(name: str, pods: int) -> list[Raw]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u", "controller": True}
    marks = {"kueue.x-k8s.io/podset-required-topology": RACK}
    return [pod(f"{name}-{i}", annotations=marks, ownerReferences=[owner]) for i in range(pods)]


def test_the_pods_of_a_job_that_asks_for_a_topology_are_a_gang() -> None:
    """As many as it runs at once; an owner whose size is not known keeps them waiting."""
    job: Raw = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 2}}

    assert 1 == len({RACKS[node] for node in run(WORLD, [job, *_of_job("j", 2)])[0].values()})
    assert {"NotEnoughTasks"} == _codes(run(WORLD, [job, *_of_job("j", 1)])[1])
    assert {"NotSupported"} == _codes(run(WORLD, _of_job("j", 2))[1])


def test_a_job_never_runs_more_pods_than_it_completes() -> None:
    """Two completions are two pods, however many may run at once."""
    spec = {"parallelism": 4, "completions": 2}
    job: Raw = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}

    assert 2 == len(run(WORLD, [job, *_of_job("j", 2)])[0])
    assert {"NotEnoughTasks"} == _codes(run(WORLD, [job, *_of_job("j", 1)])[1])


def test_a_mark_that_is_not_read_keeps_the_pod_waiting() -> None:
    """Such as one that Kueue may have some day."""
    assert {"NotSupported"} == _codes(run(WORLD, kueue_gang("g", 1, topology_scattering="{}"))[1])


# -- beneath Kueue


def test_what_kueue_assigned_is_kept() -> None:
    """Selectors that put the pods into two racks are followed, whatever the annotation says."""
    first = kueue_gang("g", 2, required_topology=RACK, managed=True, spec={"nodeSelector": {RACK: "r0"}})[0]
    second = kueue_gang("g", 2, required_topology=RACK, managed=True, spec={"nodeSelector": {RACK: "r2"}})[1]
    bound = run(WORLD, [first, second])[0]

    assert {"r0", "r2"} == {RACKS[node] for node in bound.values()}


def test_a_gate_of_kueues_holds_the_whole_group() -> None:
    """Nobody starts until all have been let go."""
    gated = kueue_gang("g", 2, managed=True, spec={"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]})[0]
    free = kueue_gang("g", 2, managed=True)[1]

    assert {} == run(WORLD, [gated, free])[0]


def _workload(count: int, admitted: int | None = None) -> Raw:
    status = {"admission": {"podSetAssignments": [{"name": "main", "count": admitted}]}} if admitted else {}
    return {
        "apiVersion": V1,
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {"podSets": [{"name": "main", "count": count}]},
        "status": status,
    }


def test_the_pods_of_a_workload_start_together() -> None:
    """As many as Kueue admitted; without the Workload nobody knows."""
    marks = {"kueue.x-k8s.io/workload": "w", "kueue.x-k8s.io/podset-required-topology": RACK}
    pods = [pod(f"p{i}", annotations=marks) for i in range(2)]

    assert 2 == len(run(WORLD, [_workload(2), *pods])[0])
    assert {"NotEnoughTasks"} == _codes(run(WORLD, [_workload(3), *pods])[1])
    assert 2 == len(run(WORLD, [_workload(3, admitted=2), *pods])[0])
    assert {"PodGroupNotFound"} == _codes(run(WORLD, pods)[1])


def test_marks_that_kueue_has_read_are_fine() -> None:
    """It has chosen a place by them."""
    assert 1 == len(run(WORLD, kueue_gang("g", 1, managed=True, slice_required_topology_constraints="[]"))[0])


# -- checks


def test_wrong_levels_and_flavors_are_told() -> None:
    """Of Topologies and ResourceFlavors."""
    flavor: Raw = {"apiVersion": V1, "kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {"topologyName": "x"}}
    verdict = validate(objects_of([flavor, topology("t", of=V1, levels=(RACK, RACK))]))

    assert ["spec.levels[1].nodeLabel"] == [finding.path for finding in verdict.errors]
    assert ["spec.topologyName"] == [finding.path for finding in verdict.warnings]


def test_the_auditor_counts_for_itself() -> None:
    """A part of a pod group, and one in two racks; where Kueue chose, it answers for that."""

    def found(*manifests: list[Raw]) -> list[str]:
        return [finding.rule for finding in audit(objects_of(WORLD, *manifests))]

    apart = {0: "n0", 1: "n4"}
    assert ["part-of-gang"] == found(kueue_gang("g", 2, on={0: "n0"}))
    assert ["topology"] == found(kueue_gang("g", 2, required_topology=RACK, on=apart))
    assert [] == found(kueue_gang("g", 2, required_topology=RACK, on=apart, managed=True))
    assert [] == found(kueue_gang("g", 2, required_topology=RACK, on={0: "n0", 1: "n1"}))
