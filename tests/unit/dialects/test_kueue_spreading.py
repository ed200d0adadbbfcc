"""Kueue's topology spreading without Kueue: a share of the gangs that labels select, in domains of a level."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.support.languages import RACK, SPINE, kueue_gang, nodes, pod, run, topology

from tierwise.api.codec import Raw

TREE = {"s0": {"r0": "n0 n1 n2 n3", "r1": "n4 n5 n6 n7"}, "s1": {"r2": "n8 n9 na nb"}}
WORLD = [*nodes(TREE, cpu=2), topology(of="kueue.x-k8s.io/v1beta2")]
OF_NODE = {n["metadata"]["name"]: n["metadata"]["labels"] for n in nodes(TREE)}  # type: ignore[index]
MAIN = [{"key": "app", "operator": "In", "values": ["main"]}]


def rule(share: str, key: str = RACK, mode: str = "") -> Raw:
    """A rule as users write it."""
    return {"topologyKey": key, "maxShareAllowingPlacement": share, **({"enforcementMode": mode} if mode else {})}


def spread(name: str, pods: int, *rules: Raw, select: object = MAIN, app: str = "main", **more: object) -> list[Raw]:
    """A gang in one rack that stands apart from those with the label `app: main`."""
    asked = {"workloadLabelSelectors": select, "rules": list(rules)} if select else {"rules": list(rules)}
    found = kueue_gang(name, pods, required_topology=RACK, topology_spreading=json.dumps(asked), **more)  # type: ignore[arg-type]
    return _with_labels(found, {"app": app})


def _with_labels(found: list[Raw], labels: dict[str, str]) -> list[Raw]:
    for raw in found:
        meta = raw["metadata"]
        assert isinstance(meta, dict)
        meta["labels"] |= labels
    return found


def places(bound: dict[str, str], key: str = RACK) -> Counter[str]:
    """How many gangs have pods in each domain."""
    pairs = {(name.rpartition("-")[0], OF_NODE[node][key]) for name, node in bound.items()}
    return Counter(domain for _, domain in pairs)


def test_a_share_opens_as_many_domains_as_it_needs() -> None:
    """0.45 of what stands: three racks have a gang before one has two. With a third six gangs are two in each."""
    assert {"r0": 1, "r1": 1, "r2": 1} == places(run(WORLD, *[spread(f"g{i}", 1, rule("0.45")) for i in range(3)])[0])
    assert {"r0": 2, "r1": 2, "r2": 2} == places(run(WORLD, *[spread(f"g{i}", 1, rule("0.34")) for i in range(6)])[0])


def test_a_half_of_two_domains() -> None:
    """With half of them in each spine four groups of pods are two and two, where all would fit one."""
    gangs = [spread(f"g{i}", 2, rule("500m", SPINE)) for i in range(4)]
    assert {"s0": 2, "s1": 2} == places(run(WORLD, *gangs)[0], SPINE)


def test_two_rules_hold_at_once() -> None:
    """A share of the spines, and of the racks in them."""
    gangs = [spread(f"g{i}", 1, rule("0.6", SPINE), rule("0.34")) for i in range(3)]
    bound = run(WORLD, *gangs)[0]
    assert {"r0": 1, "r1": 1, "r2": 1} == places(bound)


def test_required_waits_and_preferred_does_not() -> None:
    """The only racks with room hold more than the share: a required rule waits and says why."""
    full = [*nodes({"s0": {"r0": "n0 n1 n2 n3"}}, cpu=2), topology(of="kueue.x-k8s.io/v1beta2")]
    hard = [spread(f"g{i}", 1, rule("0.45", mode="Required")) for i in range(2)]
    bound, why = run(full, *hard)
    assert {"g0-0"} == bound.keys()
    text = "NotApart: the only rack that holds it has 1 part of set app=main, and 45% of the parts is the most"
    assert why["g1-0"].replace(RACK, "rack") == text

    soft = [spread(f"g{i}", 1, rule("0.45", mode="Preferred")) for i in range(2)]
    assert {"g0-0", "g1-0"} == run(full, *soft)[0].keys()
    assert {"r0": 1, "r1": 1, "r2": 1} == places(
        run(WORLD, *[spread(f"g{i}", 1, rule("0.45", mode="Preferred")) for i in range(3)])[0]
    )


def test_gangs_count_that_say_nothing() -> None:
    """Who has the labels counts; who has other labels, or is in another namespace, does not."""
    silent = _with_labels(kueue_gang("a", 1, required_topology=RACK), {"app": "main"})
    other = _with_labels(kueue_gang("b", 1, required_topology=RACK), {"app": "other"})
    tight = rule("0.3")
    bound = run(WORLD, silent, spread("g", 1, tight))[0]
    assert 2 == len(places(bound))
    bound = run(WORLD, other, spread("g", 1, tight))[0]
    assert 1 == len(places(bound))
    foreign = [json.loads(json.dumps(raw)) for raw in silent]
    for raw in foreign:
        raw["metadata"]["namespace"] = "elsewhere"
    assert 1 == len(places(run(WORLD, foreign, spread("g", 1, tight))[0]))


def test_without_a_selector_groups_of_one_leader_worker_set_count() -> None:
    """Kueue has them share a job uid; a gang that is in no such set stands apart from nobody."""
    label = {"leaderworkerset.sigs.k8s.io/name": "serve"}
    gangs = [_with_labels(spread(f"g{i}", 1, rule("0.45"), select=None), label) for i in range(3)]
    assert {"r0": 1, "r1": 1, "r2": 1} == places(run(WORLD, *gangs)[0])
    assert 1 == len(places(run(WORLD, *[spread(f"g{i}", 1, rule("0.45"), select=None) for i in range(3)])[0]))


def test_each_pod_of_a_deployment_is_a_gang() -> None:
    """Kueue has a Workload for each of them."""
    asked = {"workloadLabelSelectors": MAIN, "rules": [rule("0.45")]}
    marks = {"kueue.x-k8s.io/podset-required-topology": RACK}
    marks["kueue.x-k8s.io/podset-topology-spreading"] = json.dumps(asked)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "serve", "uid": "u", "controller": True}
    pods = [pod(f"p-{i}", labels={"app": "main"}, annotations=marks) for i in range(3)]
    for raw in pods:
        meta = raw["metadata"]
        assert isinstance(meta, dict)
        meta["ownerReferences"] = [owner]
    assert 3 == len({OF_NODE[node][RACK] for node in run(WORLD, pods)[0].values()})


def test_what_kueue_has_assigned_asks_for_nothing_more() -> None:
    """Where Kueue has chosen, its node selectors decide."""
    gangs = [spread(f"g{i}", 1, rule("0.01"), managed=True) for i in range(2)]
    assert 2 == len(run(WORLD, *gangs)[0])


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ("not json", "it must be JSON"),
        ({"rules": []}, "it must have one rule, or two"),
        ({"rules": [rule("0.5"), rule("0.4")]}, "with different topologyKeys"),
        ({"rules": [rule("1")]}, "more than 0 and less than 1"),
        ({"rules": [rule("many")]}, "more than 0 and less than 1"),
        ({"rules": [rule("0.5", mode="Perhaps")]}, "neither Required nor Preferred"),
        ({"rules": [rule("0.5")], "workloadLabelSelectors": [{"key": "a", "operator": "Exists"}]}, "operator In"),
        ({"rules": [rule("0.5")], "workloadLabelSelectors": [*MAIN, *MAIN]}, "one entry"),
        ({"rules": [rule("0.5")], "workloadLabelSelectors": [{**MAIN[0], "values": ["x" * 300]}]}, "256 characters"),
    ],
)
def test_what_cannot_be_read_waits(asked: object, fault: str) -> None:
    """And says what is wrong."""
    text = asked if isinstance(asked, str) else json.dumps(asked)
    bound, why = run(WORLD, kueue_gang("g", 1, required_topology=RACK, topology_spreading=text))
    assert {} == bound
    assert why["g-0"].startswith("InvalidGroup: annotation kueue.x-k8s.io/podset-topology-spreading: ")
    assert fault in why["g-0"]


def test_it_goes_with_a_required_level() -> None:
    """As in Kueue, whose replicas are placed in one domain each."""
    text = json.dumps({"workloadLabelSelectors": MAIN, "rules": [rule("0.5")]})
    why = run(WORLD, kueue_gang("g", 1, topology_spreading=text))[1]
    assert "it needs kueue.x-k8s.io/podset-required-topology, which is missing" in why["g-0"]


def test_a_namespace_selects_in_sixty_four_ways() -> None:
    """Each way costs a look at the gangs of the namespace; more of them make all that select wait."""
    gangs = [spread(f"g{i:02}", 1, rule("0.99"), select=[{**MAIN[0], "values": [f"v{i}"]}]) for i in range(65)]
    bound, why = run(WORLD, *gangs)
    assert {} == bound
    assert "select other gangs in more than 64 ways" in why["g00-0"]
    assert 20 == len(run(WORLD, *gangs[:20])[0])
