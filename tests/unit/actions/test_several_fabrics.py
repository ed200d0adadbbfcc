"""Constraints on several trees at once: NVLink, switches and power over the same nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support import commands, languages
from tests.support.commands import manifests
from tests.support.drawn_gang import Gang, Groups
from tests.support.koordinator import gang as koordinator_gang
from tests.support.koordinator import hypernode, layers, objects_of, run

from tierwise.api.codec import Raw
from tierwise.api.merge_patch import merged
from tierwise.audit import audit
from tierwise.config.profile import DEFAULT
from tierwise.model.topology import HYPERNODES
from tierwise.port import key_of_raw
from tierwise.sim.cluster.rounds import schedule
from tierwise.snapshot.builder import Reader

FABRIC = "tierwise.io/fabric"
CONSTRAINTS = "tierwise.io/topology-constraints"

RACKS = {"r0": "n0 n1 n2 n3", "r1": "n4 n5 n6 n7"}
NVLINK = {"v0": "n0 n1", "v1": "n2 n4", "v2": "n3 n5", "v3": "n6 n7"}
POWER = {"p0": "n0 n1 n4 n5", "p1": "n2 n3 n6 n7"}


def node(name: str, cpu: int = 1, **labels: str) -> Raw:
    """A node with so many cpus."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": {"cpu": str(cpu), "pods": "110"}},
    }


def fabric(name: str, domains: Mapping[str, str], tier_name: str = "", *, annotation: bool = False) -> list[Raw]:
    """HyperNodes of tier 1 that belong to a fabric; "" stands for the tree that Volcano's constraints mean."""
    found = []
    for domain, nodes in domains.items():
        raw = hypernode(domain, 1, [("Node", member) for member in nodes.split()])
        raw["spec"] = {**raw["spec"], "tierName": tier_name}  # type: ignore[dict-item]
        marks = {"annotations" if annotation else "labels": {FABRIC: name}} if name else {}
        found.append({**raw, "metadata": {"name": domain, **marks}})
    return found


WORLD = [
    *(node(f"n{i}") for i in range(8)),
    *fabric("", RACKS, "rack"),
    *fabric("nvlink", NVLINK, "nvl"),
    *fabric("power", POWER, "feed"),
]


def gang(
    name: str,
    tasks: int = 0,
    *,
    marks: Mapping[str, str] | None = None,
    further: list[Raw] | None = None,
    **rest: object,
) -> list[Raw]:
    """A Volcano pod group with its pods, with marks and further constraints."""
    drawn = Gang(name, tasks=tasks, **rest).manifests()  # type: ignore[arg-type]
    added = {**(marks or {}), **({CONSTRAINTS: json.dumps(further)} if further else {})}
    meta = drawn[0]["metadata"]
    assert isinstance(meta, dict)
    return [{**drawn[0], "metadata": {**meta, "annotations": {**meta.get("annotations", {}), **added}}}, *drawn[1:]]


def test_hypernodes_of_a_fabric_are_a_tree_of_their_own() -> None:
    """A gang of two in one domain of NVLink lands in one that crosses the racks; without the mark, in a rack."""
    world = [*(node(f"n{i}") for i in range(8)), *fabric("", RACKS), *fabric("nvlink", {"v1": "n3 n4"})]

    bound, _ = run(world, gang("g", 2, within=1, marks={FABRIC: "nvlink"}))
    assert {"n3", "n4"} == set(bound.values())
    assert {"n0", "n1"} == set(run(world, gang("g", 2, within=1))[0].values())


def test_a_fabric_may_be_named_by_an_annotation_of_its_hypernodes() -> None:
    """Labels come first, annotations serve as well."""
    world = [*(node(f"n{i}") for i in range(4)), *fabric("nvlink", {"v1": "n1 n2"}, annotation=True)]

    assert {"n1", "n2"} == set(run(world, gang("g", 2, within=1, marks={FABRIC: "nvlink"}))[0].values())


def test_the_whole_gang_keeps_to_domains_of_two_trees() -> None:
    """One rack and one feed: two nodes of each rack are on each feed."""
    bound, _ = run(WORLD, gang("g", 2, within="rack", further=[{"fabric": "power", "tier": "feed"}]))
    assert {"n0", "n1"} == set(bound.values())

    bound, why = run(WORLD, gang("g", 3, within="rack", further=[{"fabric": "power", "tier": "feed"}]))
    assert {} == bound
    assert all("NoPlaceOnFabrics" in text for text in why.values())


def test_sub_groups_keep_to_another_tree_than_the_job() -> None:
    """Each pair in one NVLink domain, all in one rack: of the first rack only one such domain is inside."""
    further: list[Raw] = [{"fabric": "nvlink", "tier": "nvl", "subGroup": "part"}]
    crossing = [*fabric("nvlink", {"v0": "n0 n1", "v1": "n2 n4", "v2": "n3 n5", "v3": "n6 n7"}, "nvl")]
    world = [*(node(f"n{i}") for i in range(8)), *fabric("", RACKS, "rack"), *crossing]

    bound, _ = run(world, gang("g", within="rack", groups=(Groups(count=2, size=2),), further=further))
    assert {} == bound
    straight = fabric("nvlink", {"v0": "n0 n1", "v1": "n2 n4", "v2": "n4 n7", "v3": "n5 n6"}, "nvl")[2:]
    world = [*(node(f"n{i}") for i in range(8)), *fabric("", RACKS, "rack"), *straight]
    bound, _ = run(world, gang("g", within="rack", groups=(Groups(count=2, size=2),), further=further))
    assert {"n4", "n5", "n6", "n7"} == set(bound.values())
    assert [{"n4", "n7"}, {"n5", "n6"}] == sorted(
        ({bound[f"g-part-{i}-{j}"] for j in range(2)} for i in range(2)), key=sorted
    )


def test_tasks_are_spread_over_domains_of_a_tree() -> None:
    """Two feeds at least, within one rack; three feeds there are not."""
    bound, _ = run(WORLD, gang("g", 3, within="rack", further=[{"fabric": "power", "tier": "feed", "spread": 2}]))
    assert 3 == len(bound)
    assert set(bound.values()) <= set(RACKS["r0"].split())
    assert set(bound.values()) & set(POWER["p0"].split())
    assert set(bound.values()) & set(POWER["p1"].split())

    bound, _ = run(WORLD, gang("g", 3, further=[{"fabric": "power", "tier": "feed", "spread": 3}]))
    assert {} == bound


@pytest.mark.parametrize(
    ("marks", "further", "code"),
    [
        ({FABRIC: "roce"}, None, "NoTopology"),
        ({}, [{"fabric": "roce", "tier": "leaf"}], "NoTopology"),
        ({}, [{"fabric": "nvlink", "tier": "leaf"}], "UnknownLayer"),
        ({}, [{"fabric": "nvlink", "tier": 0}], "NoTopology"),
        ({}, [{"fabric": "nvlink", "tier": 2}], "UnknownLayer"),
        ({}, [{"tier": 2}], "UnknownLayer"),
        ({}, [{"fabric": "nvlink", "tier": "nvl", "spread": 0}], "InvalidGroup"),
        ({}, [{"fabric": "nvlink", "tier": "nvl", "spread": 1}], "InvalidGroup"),
        ({}, [{"fabric": "nvlink", "tier": "nvl", "subGroup": "nobody"}], "InvalidGroup"),
        ({}, [{"fabric": "nvlink", "teir": "nvl"}], "InvalidGroup"),
    ],
)
def test_what_is_missing_or_not_understood_makes_a_hard_job_wait(
    marks: Mapping[str, str], further: list[Raw] | None, code: str
) -> None:
    """A constraint that cannot be judged never passes, and says what is wrong."""
    bound, why = run(WORLD, gang("g", 2, within=1, marks=marks, further=further))

    assert {} == bound
    assert {code} == {text.partition(":")[0] for text in why.values()}


def test_what_is_soft_passes_without_its_tree() -> None:
    """It asks for what cannot be had."""
    further: list[Raw] = [{"fabric": "roce", "tier": "leaf", "mode": "soft"}]

    assert 2 == len(run(WORLD, gang("g", 2, further=further))[0])


def test_who_insists_on_nothing_is_told_that_room_is_missing() -> None:
    """What is only preferred is no constraint that a refusal could name."""
    further: list[Raw] = [{"fabric": "power", "tier": "feed", "mode": "soft"}]
    bound, why = run(WORLD, gang("g", 9, further=further))

    assert {} == bound
    assert all("no nodes have a place for its 9 pods" in text for text in why.values())
    assert not any("keeps every constraint" in text or "every one of these" in text for text in why.values())


def test_what_is_soft_is_kept_where_it_can_be() -> None:
    """A pair on one feed where there is room, across feeds where there is not."""
    further: list[Raw] = [{"fabric": "power", "tier": "feed", "mode": "soft"}]
    tight = [*(node(f"n{i}") for i in range(2)), *fabric("power", {"p0": "n0", "p1": "n1"}, "feed")]
    wide = [*(node(f"n{i}") for i in range(4)), *fabric("power", {"p0": "n0 n3", "p1": "n1"}, "feed")]

    assert {"n0", "n1"} == set(run(tight, gang("g", 2, further=further))[0].values())
    assert {"n0", "n3"} == set(run(wide, gang("g", 2, further=further))[0].values())


def test_a_broken_fabric_keeps_its_gangs_waiting() -> None:
    """Two domains that overlap are set aside, and nothing of the fabric is left; other gangs are not concerned."""
    world = [*(node(f"n{i}") for i in range(3)), *fabric("nvlink", {"v0": "n0 n1", "v1": "n1 n2"}, "nvl")]

    bound, why = run(world, gang("g", 2, further=[{"fabric": "nvlink", "tier": "nvl"}]))
    assert {} == bound
    assert all(text.startswith("NoTopology") and "v0, v1" in text for text in why.values())
    assert 2 == len(run(world, gang("g", 2))[0])


@pytest.mark.parametrize(
    ("trees", "expected"),
    [
        ([], "NoTopology"),
        (fabric("", {"r0": "n0", "r1": "n1"}), "UnknownLayer"),
        (fabric("", {"r0": "n0", "r1": "n1"}, languages.RACK), "LargerThanAnyDomain"),
    ],
    ids=["no hyperNodes", "no such tier", "domains that are too small"],
)
@pytest.mark.parametrize(
    "asked",
    [
        languages.kubernetes_gang("g", 2, key=languages.RACK),
        languages.kai_gang("g", 2, topologyConstraint=languages.near(languages.RACK)),
        languages.kueue_gang("g", 2, required_topology=languages.RACK),
        koordinator_gang("g", 2, must=languages.RACK),
    ],
    ids=["Kubernetes", "KAI", "Kueue", "Koordinator"],
)
def test_limits_of_other_languages_hold_on_the_tree_of_the_hypernodes(
    asked: list[Raw], trees: list[Raw], expected: str
) -> None:
    """Where a limit of Volcano's would mean nothing, without hyperNodes or such a tier, gangs of others wait."""
    named: Raw = {"metadata": {"annotations": {FABRIC: HYPERNODES}}}
    world = [*languages.nodes({"s0": {"r0": "n0", "r1": "n1"}}), languages.topology(), *trees]

    bound, why = run(world, [merged(raw, named) for raw in asked])

    assert ({}, {expected}) == (bound, {text.partition(":")[0] for text in why.values()})


def test_hypernodes_that_all_belong_to_fabrics_are_no_tree_for_volcano() -> None:
    """A hard tier without a fabric would mean nothing: the gang waits, and hears which fabrics there are."""
    world = [*(node(f"n{i}") for i in range(3)), *fabric("nvlink", {"v0": "n0 n1"}), *fabric("power", {"p0": "n0 n1"})]

    bound, why = run(world, gang("g", 2, within=1))
    assert {} == bound
    assert all(text.startswith("NoTopology") and "nvlink, power" in text for text in why.values())


def test_layers_may_be_named_by_a_volcano_gang() -> None:
    """A fabric may also be a kind: the layers beside the hyperNodes."""
    world = [
        *(node(f"n{i}", BlockLayer=f"b{i % 2}", SpineLayer="s0") for i in range(4)),
        layers("BlockLayer", "SpineLayer"),
        *fabric("", {"r0": "n0 n1", "r1": "n2 n3"}, "rack"),
    ]
    further: list[Raw] = [{"fabric": "ClusterNetworkTopology", "tier": "BlockLayer"}]

    assert {"n0", "n2"} == set(run(world, gang("g", 2, further=further))[0].values())
    assert {} == run(world, gang("g", 2, within="rack", further=further))[0]


def test_tasks_beyond_the_minimum_join_the_others_or_wait() -> None:
    """Of four tasks with a minimum of two, only those that find room on the same feed of the same rack are placed."""
    bound, _ = run(WORLD, gang("g", 4, minimum=1, within="rack", further=[{"fabric": "power", "tier": "feed"}]))

    assert {"n0", "n1"} == set(bound.values())


def test_running_tasks_decide_where_the_others_go() -> None:
    """A gang that has a pod on n2 goes on in n2's rack and on n2's feed."""
    further: list[Raw] = [{"fabric": "power", "tier": "feed"}]
    bound, _ = run(WORLD, gang("g", 2, within="rack", on="n2", further=further))

    assert {"n3"} == set(bound.values()) - {"n2"}


def test_shapes_that_differ_are_tried_on_the_ledger() -> None:
    """A large pod and a small one in one rack and on one feed."""
    world = [
        node("n0", 1),
        node("n1", 4),
        node("n2", 2),
        node("n3", 4),
        *fabric("", {"r0": "n0 n1", "r1": "n2 n3"}, "rack"),
        *fabric("power", {"p0": "n0 n2 n3", "p1": "n1"}, "feed"),
    ]
    drawn = gang("g", within="rack", further=[{"fabric": "power", "tier": "feed"}])
    drawn[0]["spec"] = {**drawn[0]["spec"], "minMember": 2}  # type: ignore[dict-item]
    big = Gang("g", tasks=1, each="cpu=4").manifests()[1]
    small = Gang("g", tasks=1, each="cpu=2").manifests()[1]
    small["metadata"] = {**small["metadata"], "name": "g-small"}  # type: ignore[dict-item]

    assert {"n2", "n3"} == set(run(world, [drawn[0], big, small])[0].values())


def test_a_profile_without_the_plugin_lets_nothing_pass() -> None:
    """What nobody minds must not be bound."""
    blind = replace(
        DEFAULT, tiers=tuple(tuple(p for p in t if p.name != "network-topology-aware") for t in DEFAULT.tiers)
    )
    listed: list[Raw] = [{"fabric": "nvlink", "tier": "nvl"}]
    for marks, further in (({FABRIC: "nvlink"}, None), ({}, listed)):
        bound, why = run(WORLD, gang("g", 2, within=1, marks=marks, further=further), profile=blind)
        assert {} == bound
        assert {"NotSupported"} == {text.partition(":")[0] for text in why.values()}


def test_the_tree_of_the_hypernodes_has_the_name_of_their_kind() -> None:
    """So that a language whose constraints mean another tree can name it."""
    bound, _ = run(WORLD, gang("g", 4, within=1, marks={FABRIC: HYPERNODES}))

    assert set(RACKS["r0"].split()) == set(bound.values())


@pytest.mark.parametrize(
    ("on", "entry", "found"),
    [
        ("n0 n1", {"fabric": "power", "tier": "feed"}, 0),
        ("n0 n2", {"fabric": "power", "tier": "feed"}, 1),
        ("n0 n2", {"fabric": "power", "tier": "feed", "mode": "soft"}, 0),
        ("n0 n2", {"fabric": "power", "tier": "feed", "spread": 2}, 0),
        ("n0 n1", {"fabric": "power", "tier": "feed", "spread": 2}, 1),
        ("n0 n1", {"fabric": "nvlink", "tier": 1}, 0),
        ("n0 n4", {"fabric": "nvlink", "tier": 1}, 1),
        ("n0 n1", {"fabric": "roce", "tier": 1}, 1),
        ("n0 n1", {"fabric": "HyperNode", "tier": "rack"}, 0),
        ("n0 n4", {"fabric": "HyperNode", "tier": "rack"}, 1),
    ],
)
def test_the_auditor_looks_at_every_tree(on: str, entry: Raw, found: int) -> None:
    """Pods that stand where a constraint on any fabric does not let them are found."""
    objects = objects_of(WORLD, gang("g", 2, on=on, further=[entry], phase="Running"))

    assert found == len([finding for finding in audit(objects) if finding.rule == "too-wide"])


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '[{"fabric": "\\ud800", "tier": 1}]',
        '[{"fabric": {"a": 1}, "tier": 1}]',
        '[{"fabric": "power", "tier": true}]',
        '[{"fabric": "power", "tier": 1, "spread": 2.5}]',
    ],
    ids=["open", "deep", "half a character", "fabric", "tier", "spread"],
)
def test_the_auditor_passes_over_what_cannot_be_read(text: str) -> None:
    """It has placed no pods, and nobody may stop the audit of all others with it."""
    objects = objects_of(WORLD, gang("g", 2, on="n0 n2", marks={CONSTRAINTS: text}, phase="Running"))

    assert [] == list(audit(objects))


def test_the_auditor_names_tiers_as_people_do() -> None:
    """A tier by number is a tier, and one by name has its name."""
    for tier, place in ((1, "one domain of tier 1 of fabric power"), ("feed", "one feed of fabric power")):
        further: list[Raw] = [{"fabric": "power", "tier": tier}]
        (finding,) = audit(objects_of(WORLD, gang("g", 2, on="n0 n2", further=further, phase="Running")))
        assert f"2 pods on 2 nodes must be in {place}, and none holds them" == finding.text


@pytest.mark.parametrize(("tier", "known"), [(0, False), (1, True), (2, False), ("feed", True), ("rack", False)])
def test_validate_names_tiers_that_a_fabric_does_not_have(
    tier: str | int,
    known: bool,
    tmp_path: Path,
) -> None:
    """By number or by name, in advance."""
    job = gang("g", 2, further=[{"fabric": "power", "tier": tier}])
    result = commands.run("validate", "-f", manifests(tmp_path, *WORLD, *job))

    assert (0, known) == (result.exit_code, "a hard job waits" not in " ".join(result.stdout.split()))


def test_the_auditor_looks_at_each_fabric_by_itself() -> None:
    """A gang in one NVLink domain that crosses the racks stands well if its constraint is about NVLink."""
    for marks, found in (({FABRIC: "nvlink"}, 0), ({}, 1)):
        objects = objects_of(WORLD, gang("g", 2, within=1, on="n2 n4", marks=marks, phase="Running"))
        assert found == len([finding for finding in audit(objects) if finding.rule == "too-wide"])


def test_a_koordinator_gang_has_constraints_on_fabrics_beside_its_layers() -> None:
    """Two pods of one block and one feed; multiples beside that are not understood, so it waits."""
    world = [
        *(node(f"n{i}", BlockLayer=f"b{i // 4}", SpineLayer="s0") for i in range(8)),
        layers("BlockLayer", "SpineLayer"),
        *fabric("power", POWER, "feed"),
    ]
    marks = {CONSTRAINTS: json.dumps([{"fabric": "power", "tier": "feed"}])}

    bound, _ = run(world, koordinator_gang("k", 2, must="BlockLayer", annotations=marks))
    assert {"n0", "n1"} == set(bound.values())
    assert {} == run(world, koordinator_gang("k", 3, must="BlockLayer", annotations=marks))[0]
    bound, why = run(world, koordinator_gang("k", 2, multiples={"BlockLayer": 2}, annotations=marks))
    assert {} == bound
    assert {"NotSupported"} == {text.partition(":")[0] for text in why.values()}


def _kai(name: str, group: str, sub: str) -> Raw:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "schedulerName": "kai-scheduler"}
    meta = {"name": name, "annotations": {"pod-group-name": group}, "labels": {"kai.scheduler/subgroup-name": sub}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


@pytest.mark.parametrize("first", ["rack", "clique"])
def test_kai_sub_groups_name_a_topology_of_their_own(first: str) -> None:
    """The group in one rack, each sub-group in one clique; it does not matter which tree rows follow."""
    homes = {"n0": ("r0", "c0"), "n1": ("r0", "c1"), "n2": ("r1", "c1"), "n3": ("r1", "c2"), "n4": ("r1", "c2")}
    homes |= {"n5": ("r1", "c1")}
    nodes = [node(name, rack=rack, clique=clique) for name, (rack, clique) in homes.items()]
    names = {"rack": "a" if first == "rack" else "b", "clique": "b" if first == "rack" else "a"}
    topologies: list[Raw] = [
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": names[key]},
            "spec": {"levels": [{"nodeLabel": key}]},
        }
        for key in ("rack", "clique")
    ]

    def limit(key: str) -> Raw:
        return {"topology": names[key], "requiredTopologyLevel": key}

    subs = [{"name": f"s{i}", "minMember": 2, "topologyConstraint": limit("clique")} for i in range(2)]
    group: Raw = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 4, "queue": "default", "topologyConstraint": limit("rack"), "subGroups": subs},
    }
    bound, why = run(
        [*nodes, *topologies, group, *(_kai(f"p{i}{j}", "g", f"s{i}") for i in range(2) for j in range(2))]
    )

    assert {"n2", "n3", "n4", "n5"} == set(bound.values()), why
    assert all(homes[bound[f"p{i}0"]][1] == homes[bound[f"p{i}1"]][1] for i in range(2))


def test_groups_of_a_composite_name_their_fabrics_by_labels() -> None:
    """Kubernetes' own groups: the composite in one rack by a node label, one of its groups in one NVLink domain."""
    api = "scheduling.k8s.io/v1alpha3"
    racks = {"n0": "r0", "n1": "r0", "n2": "r1", "n3": "r1", "n4": "r1"}
    world: list[Raw] = [
        *(node(name, rack=rack) for name, rack in racks.items()),
        *fabric("nvlink", {"v0": "n1 n2", "v1": "n3 n4"}, "nvl"),
        {
            "apiVersion": api,
            "kind": "CompositePodGroup",
            "metadata": {"name": "c"},
            "spec": {
                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
            },
        },
    ]
    for i, (number, marks) in enumerate(((1, {}), (2, {FABRIC: "nvlink"}))):
        spec: Raw = {
            "parentCompositePodGroupName": "c",
            "schedulingPolicy": {"gang": {"minCount": number}},
            **({"schedulingConstraints": {"topology": [{"key": "nvl"}]}} if marks else {}),
        }
        world.append(
            {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": f"g{i}", "labels": marks}, "spec": spec}
        )
        for j in range(number):
            pod: Raw = {
                "schedulingGroup": {"podGroupName": f"g{i}"},
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            }
            world.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{i}{j}"}, "spec": pod})
    bound, why = run(world)

    assert {"p00": "n2", "p10": "n3", "p11": "n4"} == bound, why


@pytest.mark.parametrize(("on", "found"), [(("n2", "n4"), 0), (("n0", "n4"), 1)])
def test_the_auditor_knows_the_fabric_of_kubernetes_groups(on: tuple[str, str], found: int) -> None:
    """Their constraint names a level, and the mark of the group says of which tree."""
    meta: Raw = {"name": "g", "annotations": {FABRIC: "nvlink"}}
    spec: Raw = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": "nvl"}]},
    }
    group: Raw = {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "PodGroup", "metadata": meta, "spec": spec}
    pods: list[Raw] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{i}"},
            "spec": {"schedulingGroup": {"podGroupName": "g"}, "nodeName": where, "containers": [{"name": "c"}]},
            "status": {"phase": "Running"},
        }
        for i, where in enumerate(on)
    ]

    assert found == len([finding for finding in audit(objects_of(WORLD, [group, *pods])) if finding.rule == "too-wide"])


def test_slices_of_kueue_are_placed_beside_hypernodes() -> None:
    """The level of a Topology is a tree beside the hyperNodes; what the first pod says of fabrics counts for all."""
    cliques = {"n0": "c0", "n1": "c1", "n2": "c0", "n3": "c1", "n4": "c2", "n5": "c2", "n6": "c3", "n7": "c3"}
    topology: Raw = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Topology",
        "metadata": {"name": "t"},
        "spec": {"levels": [{"nodeLabel": "clique"}]},
    }
    world = [*(node(name, clique=clique) for name, clique in cliques.items()), topology, *fabric("", RACKS, "rack")]
    noted = {
        "kueue.x-k8s.io/pod-group-total-count": "4",
        "kueue.x-k8s.io/podset-slice-required-topology": "clique",
        "kueue.x-k8s.io/podset-slice-size": "2",
        CONSTRAINTS: json.dumps([{"fabric": "HyperNode", "tier": "rack"}]),
    }
    pods: list[Raw] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p-{i}", "labels": {"kueue.x-k8s.io/pod-group-name": "g"}, "annotations": noted},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        }
        for i in range(4)
    ]
    bound, why = run(world, pods)

    assert set(RACKS["r0"].split()) == set(bound.values()), why
    assert all(cliques[bound[f"p-{i}"]] == cliques[bound[f"p-{i + 1}"]] for i in (0, 2))


def test_explain_tells_how_far_each_constraint_comes_by_itself(tmp_path: Path) -> None:
    """On every tree the best domain, and of a bound pod the domains around its node."""
    further: list[Raw] = [{"fabric": "power", "tier": "feed"}, {"fabric": "nvlink", "tier": "nvl"}]
    file = manifests(tmp_path, *WORLD, *gang("g", 2, within="rack", further=further))
    told = " ".join(commands.run("explain", "-f", file, "--pod", "default/g-0").stdout.split())
    wire = commands.answer("explain", "-f", file, "--pod", "default/g-0")

    assert "by itself, one feed of fabric power: best of 2 domains is p0: 2 of 2 pods fit" in told
    assert "node n0 in r0, tier 1 (rack); p0 of fabric power; v0 of fabric nvlink" in told
    assert ["one rack", "one feed of fabric power", "one nvl of fabric nvlink"] == [
        entry["constraint"] for entry in wire["constraints"]
    ]


def _of_shapes(name: str, groups: int, sizes: tuple[int, ...], further: list[Raw]) -> list[Raw]:
    """A gang of alike sub-groups, each with a pod of each of these sizes."""
    drawn = gang(name, groups=(Groups(count=groups, size=len(sizes), minimum=groups),), further=further)
    for raw in drawn[1:]:
        cpu = sizes[int(str(raw["metadata"]["name"]).rpartition("-")[2])]  # type: ignore[index]
        containers = [{"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}]
        raw["spec"] = {**raw["spec"], "containers": containers}  # type: ignore[dict-item]
    return drawn


def test_shapes_that_do_not_fit_by_score_are_packed_in_every_way() -> None:
    """Two pods of 4 cpus and four of 3 on two nodes of 10: both large ones on one node would leave too little."""
    world = [node("n0", 10), node("n1", 10), *fabric("power", {"p0": "n0 n1"}, "feed")]
    further: list[Raw] = [{"fabric": "power", "tier": "feed"}]

    assert 6 == len(run(world, _of_shapes("g", 1, (4, 4, 3, 3, 3, 3), further))[0])
    assert 0 == len(run(world, _of_shapes("g", 1, (6, 6, 6, 1), further))[0])


def test_many_shapes_that_do_not_fit_by_score_are_packed() -> None:
    """The same on forty nodes: only one large pod on each leaves room for all small ones."""
    names = [f"n{i}" for i in range(40)]
    world = [*(node(name, 10) for name in names), *fabric("power", {"p0": " ".join(names)}, "feed")]

    assert 120 == len(run(world, _of_shapes("g", 1, (4,) * 40 + (3,) * 80, [{"fabric": "power", "tier": "feed"}]))[0])


def test_unlike_pods_are_distributed_in_every_way() -> None:
    """Counted by its smallest pods, the first domain might hold both groups; with a large pod each it holds one."""
    world = [
        *(node(name, cpu) for name, cpu in (("n0", 3), ("n1", 1), ("n2", 3))),
        *fabric("nvlink", {"v0": "n0 n1", "v1": "n2"}, "nvl"),
    ]
    further: list[Raw] = [{"fabric": "nvlink", "tier": "nvl", "subGroup": "part"}]

    assert 4 == len(run(world, _of_shapes("g", 2, (2, 1), further))[0])


def test_nested_groups_have_constraints_on_several_trees() -> None:
    """KAI, three levels: the job below one spine, a half of it on one feed, each of its parts in one clique."""
    homes = {
        "n0": ("s0", "f0", "c0"),
        "n1": ("s0", "f1", "c0"),
        "n2": ("s0", "f0", "c1"),
        "n3": ("s0", "f1", "c1"),
        "n4": ("s1", "f0", "c2"),
        "n5": ("s1", "f0", "c2"),
        "n6": ("s1", "f0", "c3"),
        "n7": ("s1", "f0", "c3"),
    }
    keys = ("spine", "feed", "clique")
    nodes = [node(name, spine=spine, feed=feed, clique=clique) for name, (spine, feed, clique) in homes.items()]
    trees: list[Raw] = [
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": key},
            "spec": {"levels": [{"nodeLabel": key}]},
        }
        for key in keys
    ]

    def limit(key: str) -> Raw:
        return {"topologyConstraint": {"topology": key, "requiredTopologyLevel": key}}

    subs: list[Raw] = [{"name": "half", **limit("feed")}]
    subs += [{"name": f"s{i}", "parent": "half", "minMember": 2, **limit("clique")} for i in range(2)]
    group: Raw = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 4, "queue": "default", "subGroups": subs, **limit("spine")},
    }
    pods = [_kai(f"p{i}{j}", "g", f"s{i}") for i in range(2) for j in range(2)]

    assert {"n4", "n5", "n6", "n7"} == set(run([*nodes, *trees, group, *pods])[0].values())
    fewer = [raw for raw in nodes if raw["metadata"] != nodes[7]["metadata"]]
    bound, why = run([*fewer, *trees, group, *pods])
    assert {} == bound
    assert all("one feed for sub-group half" in text for text in why.values()), why


@pytest.mark.parametrize("racks", [RACKS, {}], ids=["beside hyperNodes", "rows follow it"])
def test_declarations_of_other_trees_may_name_their_fabric(racks: Mapping[str, str], tmp_path: Path) -> None:
    """Layers that say to be the fabric roce are it, for constraints, `topology show` and the auditor."""
    layered = layers("BlockLayer", "SpineLayer")
    layered["metadata"] = {"name": "default", "labels": {FABRIC: "roce"}}
    world = [
        *(node(f"n{i}", BlockLayer=f"b{i % 4}", SpineLayer="s0") for i in range(8)),
        layered,
        *fabric("", racks, "rack"),
    ]
    drawn = gang("g", 2, further=[{"fabric": "roce", "tier": "BlockLayer"}])

    assert {"n0", "n4"} == set(run(world, drawn)[0].values())
    shown = commands.answer("topology", "show", "-f", manifests(tmp_path, *world), "--fabric", "roce")
    assert ["n0", "n4"] == shown["hyperNodes"]["b0"]["nodes"]
    for on, found in (("n0 n4", 0), ("n0 n1", 1)):
        stands = gang("g", 2, on=on, further=[{"fabric": "roce", "tier": "BlockLayer"}], phase="Running")
        assert found == len([f for f in audit(objects_of(world, stands)) if f.rule == "too-wide"])


def test_a_backlog_of_alike_gangs_is_refused_by_one_search() -> None:
    """Each hears its own message; a gang that asks for less is looked at, and placed."""
    further: list[Raw] = [{"fabric": "power", "tier": "feed"}]
    alike = [raw for i in range(5) for raw in gang(f"g{i}", 3, within="rack", further=further)]
    small = gang("small", 2, within="rack", further=further)

    def searches(*drawn: list[Raw]) -> int:
        report = schedule(objects_of(WORLD, *drawn), DEFAULT, now=0.0, cycles=1).report
        assert report is not None
        return report.search_counts.trials

    assert searches(alike) == searches(alike[:4])
    bound, why = run(WORLD, alike, small)
    assert {"small-0", "small-1"} == set(bound)
    assert {f"g{i}-{j}" for i in range(5) for j in range(3)} == set(why)
    assert {"NoPlaceOnFabrics"} == {text.partition(":")[0] for text in why.values()}


def test_a_hypernode_that_changes_its_fabric_is_noticed() -> None:
    """A reader that keeps what has not changed looks at the marks, and not at specs alone."""
    reader, objects = Reader(), objects_of(WORLD)
    before = reader.read(objects, 0.0)
    moved = next(raw for raw in WORLD if raw["kind"] == "HyperNode" and raw["metadata"] == {"name": "r1"})
    changed = {key_of_raw(moved): {**moved, "metadata": {"name": "r1", "labels": {FABRIC: "power"}}}}
    after = reader.read(objects.changed(changed), 1.0)

    assert ("fabric nvlink", "fabric power") == tuple(before.alternate_topologies)
    assert "r1" in before.topology.index
    assert "r1" not in after.topology.index
    assert {"p0", "r1"} == set(after.alternate_topologies["fabric power"].topology.set_aside)


def test_sub_groups_have_a_fabric_for_their_own_constraint(tmp_path: Path) -> None:
    """The job in one rack, each pair in one domain of tier 1 of NVLink; a sub-group that does not exist is told."""
    straight = fabric("nvlink", {"v1": "n2 n4", "v2": "n4 n7", "v3": "n5 n6"}, "nvl")[1:]
    world = [*(node(f"n{i}") for i in range(8)), *fabric("", RACKS, "rack"), *straight]
    groups = (Groups(count=2, size=2, within=1),)
    drawn = gang("g", within="rack", groups=groups, marks={f"{FABRIC}.part": "nvlink"})
    lost = gang("g", within="rack", groups=groups, marks={f"{FABRIC}.other": "nvlink"})

    bound, _ = run(world, drawn)
    assert [{"n4", "n7"}, {"n5", "n6"}] == sorted(
        ({bound[f"g-part-{i}-{j}"] for j in range(2)} for i in range(2)), key=sorted
    )
    assert {"InvalidGroup"} == {text.partition(":")[0] for text in run(world, lost)[1].values()}
    assert {"valid": True, "errors": [], "warnings": []} == commands.answer(
        "validate", "-f", manifests(tmp_path, *world, *drawn)
    )
    assert 1 == commands.run("validate", "-f", manifests(tmp_path, *world, *lost)).exit_code


def test_a_hypernode_has_a_fabric_that_groups_can_name(tmp_path: Path) -> None:
    """A name that no constraint may use is told where it is given."""
    result = commands.run(
        "validate", "-f", manifests(tmp_path, node("n0"), *fabric("a*b", {"v0": "n0"}, annotation=True))
    )

    assert 1 == result.exit_code
    assert '"a*b" cannot be the name of a fabric' in result.stdout
