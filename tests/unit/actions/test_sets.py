"""Gangs that stand together or apart as parts of a set."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.drawn_gang import Gang, Groups
from tests.support.koordinator import objects_of, run
from tests.support.languages import grove_gang, packed
from tests.support.sets import CONSTRAINTS, SET, apart, fabric, node, part, stand, together
from tests.support.sight import schedule

from tierwise.actions.placement import sets
from tierwise.actions.placement.solve import search_minimum
from tierwise.api.codec import Raw
from tierwise.audit import audit
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.model.job import Job, Verdict
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import Reader

FOUR = {"s0": "r0 r1", "s1": "r2 r3"}


# Apart: at most so many parts in one domain.


def test_replicas_stand_in_different_racks() -> None:
    """Two would fit into the first rack; the fifth waits, and hears why."""
    gangs = [part(f"a{i}", 1, "serve", apart("serve"), within="rack") for i in range(5)]

    racks, why = stand(fabric(FOUR), *gangs)

    assert {"a0": "r0", "a1": "r1", "a2": "r2", "a3": "r3"} == racks
    assert {"a4": "NotApart: all 4 racks that hold it have 1 part of set serve, which is the most"} == why
    assert 4 == sum(len(stand(fabric(FOUR), part(f"a{i}", 1, "serve", within="rack"))[0]) for i in range(4))


def test_as_many_parts_stand_in_a_rack_as_the_rule_allows() -> None:
    """A number is the most."""
    gangs = [part(f"a{i}", 1, "serve", apart("serve", 2), within="rack") for i in range(5)]

    racks, why = stand(fabric({"s0": "r0:4 r1:4"}), *gangs)

    assert {"a0": "r0", "a1": "r0", "a2": "r1", "a3": "r1"} == racks
    assert ["a4"] == list(why)


@pytest.mark.parametrize("start", [0, 2])
def test_gangs_of_one_pod_that_may_go_anywhere_stand_apart_as_well(start: int) -> None:
    """Such pods are placed many at once; not those of a set, whose rules or joint start bind them."""
    gangs = [part(f"a{i}", 1, "serve", apart("serve"), start=start) for i in range(2)]

    assert {"a0": "r0", "a1": "r1"} == stand(fabric({"s0": "r0 r1"}), *gangs)[0]


def test_who_states_no_rule_is_counted_and_not_bound() -> None:
    """In whatever order they come."""
    free, bound = part("a", 1, "serve", within="rack"), part("b", 1, "serve", apart("serve"), within="rack")

    assert {"a": "r0", "b": "r1"} == stand(fabric(FOUR), free, bound)[0]
    assert {"a": "r0", "b": "r0"} == stand(
        fabric(FOUR), part("a", 1, "serve", apart("serve"), within="rack"), [*part("b", 1, "serve", within="rack")]
    )[0]


def test_a_share_opens_domains_as_parts_come() -> None:
    """Up to 45 % of the parts that stand: three racks take turns."""
    gangs = [part(f"a{i}", 1, "serve", apart("serve", "45%"), within="rack") for i in range(6)]

    racks, _ = stand(fabric({"s0": "r0:6 r1:6 r2:6"}), *gangs)

    assert 6 == len(racks)
    assert {"r0", "r1", "r2"} == {racks["a0"], racks["a1"], racks["a2"]}


def test_other_sets_and_other_namespaces_do_not_count() -> None:
    """Sets of one name in two namespaces are two sets."""
    other = [{**raw, "metadata": {**raw["metadata"], "namespace": "other"}} for raw in part("b", 1, "serve")]  # type: ignore[dict-item]

    racks, _ = stand(
        fabric({"s0": "r0"}),
        [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}],
        other,
        part("a", 1, "serve", apart("serve"), within="rack"),
    )

    assert {"a": "r0", "other/b": "r0"} == racks


def test_whoever_runs_is_nominated_or_leaves_stands_there() -> None:
    """A rack is counted until the last pod of its part has left."""
    for where in ("r0n0", "r0n0!"):
        old = part("old", 1, "serve", within="rack", on=where, phase="Running")
        assert "r1" == stand(fabric(FOUR), old, part("new", 1, "serve", apart("serve"), within="rack"))[0]["new"]


def test_a_wide_part_counts_in_each_domain() -> None:
    """A gang over both racks of a spine closes both."""
    wide = part("awide", 4, "serve", within="spine")

    racks, _ = stand(fabric(FOUR), wide, part("new", 2, "serve", apart("serve"), within="rack"))

    assert {"awide": "r0 r1", "new": "r2"} == racks


def test_what_grows_stays_in_its_own_domain() -> None:
    """Pods beyond the minimum go where the gang stands, which a part more there would not be allowed."""
    rules = apart("serve")
    one = part("a", 3, "serve", rules, within="rack", minimum=1, on="r0n0", phase="Running")
    two = part("b", 1, "serve", rules, within="rack", on="r1n0", phase="Running")

    assert {"a": "r0"} == stand(fabric({"s0": "r0:3 r1:3"}), one, two)[0]


def test_a_soft_rule_chooses_among_equals_and_keeps_nobody_waiting() -> None:
    """Of three the last one stands beside another."""
    gangs = [part(f"a{i}", 1, "serve", apart("serve", mode="soft"), within="rack") for i in range(3)]

    racks, why = stand(fabric({"s0": "r0 r1"}), *gangs)

    assert {} == why
    assert ["r0", "r1", "r0"] == list(racks.values())


# Together: a set in one domain.


def test_a_later_gang_joins_its_set() -> None:
    """Of racks of two nodes the second one is tighter; the first gang goes where both fit."""
    prefill, decode = (part(name, 2, "serve/0", together("serve/0"), within="rack") for name in ("prefill", "decode"))

    racks, why = stand(fabric({"s0": "r0:2 r1:3 r2:4"}), prefill, decode)

    assert {"decode": "r2", "prefill": "r2"} == racks
    assert {} == why


def test_the_first_goes_as_if_alone_where_no_domain_holds_all() -> None:
    """Then the second one hears where its set runs, and where it would fit."""
    prefill, decode = (part(name, 2, "serve/0", together("serve/0"), within="rack") for name in ("a", "b"))

    racks, why = stand(fabric({"s0": "r0 r1"}), prefill, decode)

    assert {"a": "r0"} == racks
    assert {"b": "SetElsewhere: its set serve/0 runs in r0, where 0 of 2 pods fit; r1 would hold all of it"} == why


def test_what_holds_for_the_set_holds_for_a_gang_that_says_nothing_else() -> None:
    """Without a constraint of its own a gang would be spread over racks."""
    assert {"a": "r1"} == stand(fabric({"s0": "r0:2 r1:3"}), part("a", 3, "serve", together("serve")))[0]
    assert {"a": "r1"} == stand(fabric({"s0": "r0:2 r1:3"}), part("a", 3, "s", together("s"), within="spine"))[0]


def test_pairs_in_a_rack_and_replicas_in_racks_of_one_spine() -> None:
    """Prefill and decode of a replica in one rack, replicas in different racks of one spine."""
    gangs = [
        part(f"{role}{i}", 1, f"serve/{i}", together(f"serve/{i}"), together("serve", "spine"), apart("serve"))
        for i in range(2)
        for role in ("prefill", "decode")
    ]

    racks, why = stand(fabric({"s0": "r0:2 r1:1", "s1": "r2:2 r3:2"}), *gangs)

    assert {} == why
    assert {"decode0": "r2", "decode1": "r3", "prefill0": "r2", "prefill1": "r3"} == racks


# Sub-groups of a gang apart.


def groups_apart(count: int, most: int = 1, *, size: int = 1, mode: str = "hard", **rest: object) -> list[Raw]:
    """A gang of sub-groups, at most so many of them in one rack."""
    rule = {"tier": "rack", "subGroup": "part", "apart": most, "mode": mode}
    groups = (Groups(count=count, size=size, within="rack"),)
    marks = {CONSTRAINTS: json.dumps([rule])}
    return Gang("g", groups=groups, marks=marks, **rest).manifests()  # type: ignore[arg-type]


def racks_of_groups(bound: Mapping[str, str]) -> list[str]:
    """The racks of the sub-groups, in order."""
    return sorted({pod.rpartition("-")[0]: where.rpartition("n")[0] for pod, where in bound.items()}.values())


def test_sub_groups_stand_in_different_racks() -> None:
    """Two of them would fit into one rack; a fourth one has none, and the gang is told that it never fits."""
    world = fabric({"s0": "r0:2 r1:4 r2:2"})

    assert ["r0", "r1", "r2"] == racks_of_groups(run(world, groups_apart(3))[0])
    assert ["r0", "r1", "r1", "r2"] == racks_of_groups(run(world, groups_apart(4, 2, size=2, mode="soft"))[0])
    bound, why = run(world, groups_apart(4))
    assert {} == bound
    assert "NotApart: 4 sub-groups part with at most 1 in one rack: too few racks hold them so" in why["g-part-0-0"]


def test_sub_groups_beyond_the_minimum_stand_apart_as_well() -> None:
    """Two are needed, three find racks, and the fourth waits."""
    rule = {"tier": "rack", "subGroup": "part", "apart": 1}
    groups = (Groups(count=4, size=1, within="rack", minimum=2),)
    gang = Gang("g", groups=groups, minimum=2, marks={CONSTRAINTS: json.dumps([rule])}).manifests()

    assert ["r0", "r1", "r2"] == racks_of_groups(run(fabric({"s0": "r0 r1 r2"}), gang)[0])


def test_a_sub_group_comes_back_apart_from_the_others() -> None:
    """Of three that ran one has lost its node's rack to a stranger: the racks of the others stay closed."""
    gang = groups_apart(3, on="r0n0 r1n0", phase="Running")
    stranger = Gang("z", tasks=2, on="r2n0 r2n1").manifests()

    assert {"g-part-2-0": "r3n0"} == run(fabric({"s0": "r0 r1 r2 r3"}), gang, stranger)[0]


# Joint starts: all gangs of a set, or none.


def pair(start: int = 2, *, tasks: int = 2, **rest: object) -> list[list[Raw]]:
    """Prefill and decode that start together in one rack."""
    rule = together("serve/0")
    return [part(name, tasks, "serve/0", rule, start=start, within="rack", **rest) for name in ("decode", "prefill")]


def test_a_set_that_starts_together_starts_whole_or_not_at_all() -> None:
    """Three of four nodes are not enough for both, and the first of them alone does not start."""
    racks, why = stand(fabric({"s0": "r0:3 r1:3"}), *pair())
    assert {} == racks
    assert {
        "decode": "SetWaits: set serve/0 starts together: it is placed with prefill",
        "prefill": "SetWaits: set serve/0 starts together, and prefill has no place together with the other gangs",
    } == why

    assert {"decode": "r1", "prefill": "r1"} == stand(fabric({"s0": "r0:3 r1:4"}), *pair())[0]


def test_a_set_waits_for_its_parts() -> None:
    """It starts with three gangs, of which two exist, or two of which one has too few pods."""
    racks, why = stand(fabric({"s0": "r0:9"}), *pair(3))
    assert {} == racks
    text = "SetIncomplete: set serve/0 starts with 3 gangs, and 2 exist: decode, prefill"
    assert {"decode": text, "prefill": text} == why

    short = part("late", 1, "serve/0", start=3, minimum=2)
    assert {} == stand(fabric({"s0": "r0:9"}), *pair(3), short)[0]


def test_once_started_parts_come_one_by_one() -> None:
    """A third gang of two starts later, by itself."""
    first, second = pair(on="r0n0 r0n1"), part("third", 2, "serve/0", together("serve/0"), start=2, within="rack")
    first[1] = part("prefill", 2, "serve/0", together("serve/0"), start=2, within="rack", on="r0n2 r0n3")

    assert "r0" == stand(fabric({"s0": "r0:6 r1:6"}), *first, second)[0]["third"]


def test_gangs_that_start_together_stand_apart() -> None:
    """Both racks at once: one rack too few, and neither starts."""
    gangs = [part(name, 1, "serve", apart("serve"), start=2, within="rack") for name in "ab"]

    assert {"a": "r0", "b": "r1"} == stand(fabric({"s0": "r0 r1"}), *gangs)[0]
    assert {} == stand(fabric({"s0": "r0"}), *gangs)[0]


def test_a_tier_of_too_few_domains_never_starts_a_set() -> None:
    """Whatever runs there: three parts need three racks of one spine. With one rack more they wait for room."""
    rules = apart("serve"), together("serve", "spine")
    gangs = [part(name, 1, "serve", *rules, start=3) for name in "abc"]

    report = schedule(objects_of(fabric({"s0": "r0 r1", "s1": "r2"}), *gangs), DEFAULT, now=0.0).report
    assert report is not None
    text = "3 parts with at most 1 in one rack, of one spine: no spine has more than 2 racks"
    told = {(refused.verdict, refused.reason.code, refused.reason.text) for refused in report.rejections.values()}
    assert {(Verdict.NEVER, "NotApart", text)} == told
    without = [part(name, 1, "serve", apart("serve"), start=3) for name in "abc"]
    text = "3 parts with at most 1 in one rack: there are 2 racks"
    assert f"NotApart: {text}" == stand(fabric({"s0": "r0 r1"}), *without)[1]["a"]
    full = part("other", 2, "x", on="r2n0 r2n1", phase="Running")
    assert "SetWaits" in stand(fabric({"s0": "r0 r1 r2"}), full, *gangs)[1]["c"]


def test_gangs_that_start_together_are_of_one_queue_and_one_mind() -> None:
    """Else they wait, and say so."""
    one, other = (part(name, 1, "serve", start=2, queue=queue) for name, queue in (("a", "default"), ("b", "q")))
    queue: Raw = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
    assert "in several queues" in stand(fabric({"s0": "r0"}), [queue], one, other)[1]["a"]

    one, other = (part(name, 1, "serve", start=start) for name, start in (("a", 2), ("b", 0)))
    assert "InvalidGroup" in stand(fabric({"s0": "r0"}), one, other)[1]["a"]


def test_nobody_is_evicted_for_a_part_of_a_set_that_starts_together() -> None:
    """It waits for idle room."""
    low = Gang("low", tasks=4, within="rack", on="r0n0 r0n1 r0n2 r0n3").manifests()

    history = schedule(objects_of(fabric({"s0": "r0:4"}), low, *pair(priority=9)), PREEMPTS, now=0.0)

    assert [] == history.evictions


# What other languages say.


def grove(name: str, pods: int, replica: int = 0, near: str = "rack") -> list[Raw]:
    """A PodGang of a replica of the PodCliqueSet serve."""
    gang, *rest = grove_gang(name, {"w": pods}, topologyConstraint=packed(near))
    labels = {"app.kubernetes.io/part-of": "serve", "grove.io/podcliqueset-replica-index": str(replica)}
    return [{**gang, "metadata": {"name": name, "labels": labels}}, *rest]


def labelled(racks: Mapping[str, int]) -> list[Raw]:
    """Nodes of one cpu with the label of their rack and spine, and no hyperNodes."""
    found = []
    for rack, number in racks.items():
        for i in range(number):
            raw = node(f"{rack}n{i}")
            raw["metadata"]["labels"] |= {"rack": rack, "host": f"{rack}n{i}"}  # type: ignore[index]
            found.append(raw)
    return found


def test_podgangs_of_a_replica_share_the_rack_that_they_were_given() -> None:
    """The operator copies one constraint onto each PodGang of a replica: the first leaves room for the second."""
    gangs = [grove("serve-0", 2), grove("serve-0-w-1", 2), grove("serve-1", 1, replica=1)]

    racks, why = stand(labelled({"r0": 3, "r1": 4}), *gangs)

    assert {} == why
    assert racks["serve-0-w"] == racks["serve-0-w-1-w"] == "r1"
    assert racks["serve-1-w"] == "r0"


def test_podgangs_that_require_different_levels_are_bound_by_none() -> None:
    """One host for a scaled PodGang is not one host for all of the replica."""
    racks, why = stand(labelled({"r0": 3}), grove("serve-0", 2), grove("serve-0-w-1", 1, near="host"))

    assert {} == why
    assert 2 == len(racks)


def affine(name: str, replica: str, terms: Raw, tasks: int = 2) -> list[Raw]:
    """A gang in a rack whose pods carry terms about pods."""
    labels = {f"{name}-{i}": {"app": "serve", "replica": replica} for i in range(tasks)}
    return Gang(name, tasks=tasks, within="rack", labels=labels, spec={"affinity": terms}).manifests()


def on_racks(spines: Mapping[str, str]) -> list[Raw]:
    """A fabric whose nodes carry the label of their rack."""
    found = fabric(spines)
    for raw in found:
        if raw["kind"] == "Node":
            name = raw["metadata"]["name"]  # type: ignore[index]
            raw["metadata"]["labels"]["rack"] = str(name).rpartition("n")[0]  # type: ignore[index]
    return found


def test_required_affinity_leaves_room_for_those_that_it_means() -> None:
    """Prefill and decode that need one rack by terms of their pods: the first one does not take the tightest."""
    term: Raw = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"replica": "0"}}}
    terms: Raw = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    racks, why = stand(on_racks({"s0": "r0:2 r1:4"}), affine("decode", "0", terms), affine("prefill", "0", terms))

    assert {} == why
    assert {"decode": "r1", "prefill": "r1"} == racks


def test_preferred_anti_affinity_chooses_among_equal_racks() -> None:
    """Replicas that would rather not share a rack take turns."""
    term: Raw = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "serve"}}}
    wish: Raw = {"weight": 100, "podAffinityTerm": term}
    terms: Raw = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}

    racks, why = stand(on_racks({"s0": "r0:4 r1:4"}), *(affine(f"a{i}", str(i), terms) for i in range(3)))

    assert {} == why
    assert ["r0", "r1", "r0"] == list(racks.values())


# What cannot be meant.


@pytest.mark.parametrize(
    ("path", "rules", "said"),
    [
        ("a//b", [], f'InvalidGroup: annotation {SET}: "a//b" cannot be the path of a set'),
        ("a/b/c/d/e", [], "deeper than 4 sets in each other"),
        ("serve", [apart("other")], 'it is not in set "other" but in "serve"'),
        ("", [apart("serve")], 'it is not in set "serve" but in none'),
        ("serve", [apart("serve", 0)], '[0].apart: "0" is neither a number from 1 on nor a share'),
        ("serve", [apart("serve", "101%")], '"101%" is neither'),
        ("serve", [{"tier": "rack", "apart": 1}], "[0].apart: it is said of the parts of a set"),
        ("serve", [apart("serve", spread=2)], "[0].set: a rule about a set says nothing of spread"),
        ("serve", [apart("serve", i) for i in range(1, 10)], "9 rules about sets are more than the 8"),
        ("serve", [apart("serve", tier="row")], "UnknownLayer: a rule about set serve is about row of HyperNode"),
        (
            "serve",
            [apart("serve", tier="spine"), together("serve")],
            "InvalidGroup: the parts of set serve are to stay",
        ),
        ("serve", [apart("serve"), together("serve")], "apart in each rack, which is as wide"),
    ],
)
def test_what_cannot_be_meant_waits(path: str, rules: list[Raw], said: str) -> None:
    """A rule that was not understood must not pass."""
    racks, why = stand(fabric(FOUR), part("a", 1, path, *rules))

    assert {} == racks
    assert said in why["a"]


def test_a_set_has_256_parts() -> None:
    """The oldest of them; those beyond wait, and say so."""
    gangs = [raw for i in range(258) for raw in part(f"a{i:03}", 1, "serve", created=i)]

    racks, why = stand(fabric({"s0": "r0:300"}), gangs)

    assert 256 == len(racks)
    text = "InvalidGroup: set serve has 258 parts, and 256 are the most: older ones come first"
    assert {"a256": text, "a257": text} == why


PREEMPTS = Profile(
    ("enqueue", "allocate", "gangpreempt"),
    (tuple(map(PluginChoice, ("priority", "gang", "conformance", "predicates", "network-topology-aware"))),),
)


def test_nobody_goes_for_a_place_apart() -> None:
    """Every rack has a less important part of the set: siblings stay, and a stranger goes where none of them is."""
    rules, low = apart("serve"), [part(f"low{i}", 2, "serve", within="rack", on=f"r{i}n0 r{i}n1") for i in range(2)]
    new = part("new", 2, "serve", rules, within="rack", priority=10)

    history = schedule(objects_of(fabric({"s0": "r0 r1"}), *low, new), PREEMPTS, now=0.0)
    assert [] == history.evictions

    stranger = Gang("z", tasks=2, within="rack", on="r2n0 r2n1").manifests()
    history = schedule(objects_of(fabric({"s0": "r0 r1 r2"}), *low, stranger, new), PREEMPTS, now=0.0)
    assert {"z"} == {eviction.job.key.partition("/")[2] for eviction in history.evictions}


@pytest.mark.parametrize("action", ["preempt", "podpreempt", "jobpreempt", "gangpreempt"])
def test_every_evicting_action_keeps_rules(action: str) -> None:
    """A sibling's rack stays closed, whoever could be evicted there, and sub-groups do not share a rack."""
    world = fabric({"s0": "r0:2 r1:1"})
    running = [
        *part("old", 1, "serve", on="r0n0"),
        *Gang("a", tasks=1, on="r0n1").manifests(),
        *Gang("b", tasks=1, on="r1n0").manifests(),
    ]
    new = part("new", 1, "serve", apart("serve"), priority=10)

    history = schedule(
        objects_of(world, running, new), replace(PREEMPTS, actions=(*PREEMPTS.actions[:2], action)), now=0.0
    )
    assert {"default/b-0"} >= {eviction.task.key for eviction in history.evictions}
    assert "r0n1" not in {*history.nominations.values(), *history.bindings.values()}

    low = Gang("low", tasks=3, on="r0n0 r0n1 r1n0").manifests()
    gang = groups_apart(2, priority=10)
    history = schedule(
        objects_of(world, low, gang), replace(PREEMPTS, actions=(*PREEMPTS.actions[:2], action)), now=0.0
    )
    assert [] == [finding for finding in audit(history.cluster.read()) if finding.rule == "not-apart"]
    nominated = [str(node).rpartition("n")[0] for node in history.nominations.values()]
    assert sorted(set(nominated)) == sorted(nominated)


def test_the_audit_counts_by_itself() -> None:
    """What stands otherwise than its rules want is told, and what states none is not."""
    one, two = (part(name, 1, "serve", apart("serve"), within="rack", on=f"r0n{i}") for i, name in enumerate("ab"))
    assert ["not-apart"] == [finding.rule for finding in audit(objects_of(fabric(FOUR), one, two))]
    assert [] == audit(objects_of(fabric(FOUR), one, part("b", 1, "serve", within="rack", on="r0n1")))

    one, two = (part(name, 1, "serve", together("serve"), on=f"r{i}n0") for i, name in enumerate("ab"))
    assert ["not-together"] == [finding.rule for finding in audit(objects_of(fabric(FOUR), one, two))]


def test_gangs_without_a_set_are_as_before() -> None:
    """A rule binds nobody else."""
    plain = Gang("z", tasks=2, within="rack").manifests()

    assert {"a": "r0", "z": "r1"} == stand(fabric({"s0": "r0 r1"}), part("a", 2, "serve", apart("serve")), plain)[0]
    assert CONSTRAINTS


@pytest.mark.parametrize("rule", [together("serve"), apart("serve")])
@pytest.mark.parametrize("start", [30, 40, 0])
def test_gangs_of_a_set_are_looked_at_once_for_all(rule: Raw, start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask: looks at gangs grow as the set does, and not as its square."""
    looks = 0
    waits = sets._waits

    def counted(job: Job) -> bool:
        nonlocal looks
        looks += 1
        return waits(job)

    monkeypatch.setattr(sets, "_waits", counted)
    gangs = [part(f"g{i}", 9, "serve", rule, start=start, within="rack") for i in range(30)]
    cycles = len(schedule(objects_of(fabric({"s0": "r0"}), *gangs), PREEMPTS, now=0.0).reports)

    assert looks <= 2 * len(gangs) * max(cycles, 1)


def test_a_spine_of_one_rack_is_wider_than_the_rack() -> None:
    """Tiers are compared, not the nodes that happen to be there: a rack more would make no contradiction of it."""
    rules = [together("serve", "spine"), apart("serve")]

    assert {"a": "r0"} == stand(fabric({"s0": "r0", "s1": "r1"}), part("a", 1, "serve", *rules, within="rack"))[0]
    wrong = [apart("serve", tier="spine"), together("serve")]
    why = stand(fabric({"s0": "r0"}), part("a", 1, "serve", *wrong, within="rack"))[1]["a"]
    assert why.startswith("InvalidGroup: the parts of set serve are to stay in one rack, and apart in each spine")


def test_a_set_starts_in_the_cycle_in_which_its_last_gang_comes() -> None:
    """What a waiting gang was told in the last cycle is no reason to tell it again: it is about other gangs."""
    world, reader = fabric(FOUR), Reader(DEFAULT)
    first = part("a", 1, "serve", start=2, within="rack")
    waits = cycle(reader.read(objects_of(world, first), 0.0), DEFAULT)
    assert ["SetIncomplete"] == [rejection.reason.code for rejection in waits.rejections.values()]

    both = cycle(reader.read(objects_of(world, first, part("b", 1, "serve", start=2, within="rack")), 1.0), DEFAULT)

    assert {"default/a", "default/b"} == {decision.job.key for decision in both.decisions}


def test_what_a_waiting_gang_hears_is_about_the_set_of_now() -> None:
    """A gang that waits for a second one hears in the next cycle that the second says something else."""
    world, reader = fabric({"s0": "r0"}), Reader(DEFAULT)
    first = part("a", 1, "serve", start=2, within="rack")
    cycle(reader.read(objects_of(world, first), 0.0), DEFAULT)

    later = cycle(reader.read(objects_of(world, first, part("c", 1, "serve", within="rack")), 1.0), DEFAULT)

    assert {"InvalidGroup"} == {rejection.reason.code for rejection in later.rejections.values()}


def test_a_share_of_the_sub_groups() -> None:
    """At most half of those that stand in one rack: four are two and two, where one rack holds all; `soft` may miss."""
    groups = (Groups(count=4, size=1, within="rack", minimum=4),)

    def racks(fabric_: list[Raw], mode: str) -> list[str]:
        rule = {"tier": "rack", "subGroup": "part", "apart": "50%", "mode": mode}
        gang = Gang("g", groups=groups, minimum=4, marks={CONSTRAINTS: json.dumps([rule])}).manifests()
        return sorted(name.rpartition("n")[0] for name in run(fabric_, gang)[0].values())

    assert ["r0", "r0", "r1", "r1"] == racks(fabric({"s0": "r0:4 r1:4"}), "hard")
    assert [] == racks(fabric({"s0": "r0:4"}), "hard")
    assert ["r0"] * 4 == racks(fabric({"s0": "r0:4"}), "soft")


SMALL = replace(DEFAULT, action_arguments={"allocate": {"cycleSteps": 2048}})
"""A profile in which a search of more than 32 steps is dear."""


class _Searched:
    """Cycles one after the other, and how many searches sets took that start together."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._reader, self._now, self.searches = Reader(SMALL), 0.0, 0

        def counted(*asked: Any) -> Any:
            self.searches += 1
            return search_minimum(*asked)

        monkeypatch.setattr("tierwise.actions.together.search_minimum", counted)

    def run(self, world: Objects, later: float = 1.0) -> tuple[dict[str, str], int]:
        """Why each gang waits after a cycle, in the words of its code, and how many searches that took."""
        self.searches, self._now = 0, self._now + later
        report = cycle(self._reader.read(world, self._now), SMALL)
        return {key.partition("/")[2]: told.reason.code for key, told in report.rejections.items()}, self.searches


def test_what_found_no_place_together_is_not_searched_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until room grows, a gang of it asks for less, or ten minutes are over."""
    waits = dict.fromkeys(("decode", "other", "prefill"), "SetWaits")
    gangs = [part(name, 4, "serve", start=3, within="rack") for name in waits]
    cycles, racks = _Searched(monkeypatch), fabric({"s0": "r0:4 r1:4"})
    world = objects_of(racks, *gangs)

    told, first = cycles.run(world)
    assert waits == told
    assert first
    assert (waits, 0) == cycles.run(world)
    assert (waits, first) == cycles.run(world, later=600.0)
    assert (waits, 0) == cycles.run(world)
    assert {} == cycles.run(objects_of(fabric({"s0": "r0:4 r1:4 r2:4"}), *gangs))[0]
    assert (waits, first) == cycles.run(world)
    smaller = part("other", 2, "serve", start=3, within="rack"), part("decode", 2, "serve", start=3, within="rack")
    assert {} == cycles.run(objects_of(racks, gangs[2], *smaller))[0]


def test_orders_that_begin_as_one_that_has_failed_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five gangs the second has no place: all six orders begin with these two."""
    cycles = _Searched(monkeypatch)
    gangs = [part(f"a{i}", 2, "serve", start=5, within="rack") for i in range(5)]

    told, searches = cycles.run(objects_of(fabric({"s0": "r0:2"}), *gangs))

    assert {f"a{i}": "SetWaits" for i in range(5)} == told
    assert 2 == searches
