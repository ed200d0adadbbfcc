"""Grove's PodGangs: cliques that start together, keys of node labels for the whole, for some and for each."""

from __future__ import annotations

from tests.support.languages import RACK, SPINE, grove_gang, nodes, objects_of, packed, run

from tierwise.admission import validate
from tierwise.api.codec import Raw
from tierwise.api.grove import PodGang
from tierwise.audit import audit
from tierwise.config.profile import DEFAULT
from tierwise.sim.cluster.rounds import schedule

TREE = {"s0": {"r0": "n0 n1", "r1": "n2 n3"}, "s1": {"r2": "n4 n5"}}
WORLD = nodes(TREE)
RACKS = {n["metadata"]["name"]: n["metadata"]["labels"][RACK] for n in WORLD}  # type: ignore[index]


def _codes(why: dict[str, str]) -> set[str]:
    return {text.partition(":")[0] for text in why.values()}


def test_all_cliques_start_together_or_none() -> None:
    """Five pods fit on six nodes, and seven do not."""
    assert 5 == len(run(WORLD, grove_gang("g", {"leader": 1, "worker": 4}))[0])
    assert {} == run(WORLD, grove_gang("g", {"leader": 1, "worker": 6}))[0]


def test_a_pod_waits_for_its_gang() -> None:
    """The operator makes it."""
    assert {"PodGroupNotFound"} == _codes(run(WORLD, grove_gang("g", {"a": 2})[1:])[1])


def test_each_clique_has_a_key_of_its_own_within_that_of_the_whole() -> None:
    """Two racks of one spine: only the first spine has two."""
    gang = grove_gang("g", {"a": 2, "b": 2}, keys={"a": RACK, "b": RACK}, topologyConstraint=packed(SPINE))
    bound = run(WORLD, gang)[0]

    assert {"n0", "n1", "n2", "n3"} == set(bound.values())
    assert RACKS[bound["g-a-0"]] == RACKS[bound["g-a-1"]] != RACKS[bound["g-b-0"]]


def test_a_preferred_key_is_had_if_it_can_be() -> None:
    """And keeps nobody waiting."""
    assert 5 == len(run(WORLD, grove_gang("g", {"a": 5}, topologyConstraint=packed(preferred=RACK)))[0])
    bound = run(WORLD, grove_gang("g", {"a": 2}, topologyConstraint=packed(preferred=RACK)))[0]
    assert 1 == len({RACKS[node] for node in bound.values()})


def test_a_constraint_of_several_cliques_is_a_level() -> None:
    """Of one clique it is that clique's own; of several they share a domain."""
    one = [{"name": "x", "podGroupNames": ["a"], "topologyConstraint": packed(RACK)}]
    assert {} == run(WORLD, grove_gang("g", {"a": 3}, topologyConstraintGroupConfigs=one))[0]
    assert 2 == len(run(WORLD, grove_gang("g", {"a": 2}, topologyConstraintGroupConfigs=one))[0])

    two = [{"name": "x", "podGroupNames": ["a", "b"], "topologyConstraint": packed(RACK)}]
    bound = run(WORLD, grove_gang("g", {"a": 1, "b": 1, "c": 2}, topologyConstraintGroupConfigs=two))[0]
    assert 4 == len(bound)
    assert RACKS[bound["g-a-0"]] == RACKS[bound["g-b-0"]]
    assert {} == run(WORLD, grove_gang("g", {"a": 1, "b": 2, "c": 2}, topologyConstraintGroupConfigs=two))[0]
    twice = grove_gang("g", {"a": 1}, topologyConstraintGroupConfigs=[*one, *one])
    assert {"NotSupported"} == _codes(run(WORLD, twice)[1])


def test_a_clique_alone_in_a_shared_constraint_keeps_its_own() -> None:
    """Three pods that must share a rack do not fit into one, though the spine of their config has four nodes."""
    one = [{"name": "x", "podGroupNames": ["a"], "topologyConstraint": packed(SPINE)}]

    assert {} == run(WORLD, grove_gang("g", {"a": 3}, keys={"a": RACK}, topologyConstraintGroupConfigs=one))[0]
    assert 3 == len(run(WORLD, grove_gang("g", {"a": 3}, topologyConstraintGroupConfigs=one))[0])


def _status(*manifests: list[Raw]) -> tuple[str, str, str]:
    after = schedule(objects_of(WORLD, *manifests), DEFAULT, now=0.0).cluster.read().every(PodGang)["default/g"]
    (condition,) = after.status.conditions
    return after.status.phase, condition.type, condition.status


def test_phase_and_condition_are_written() -> None:
    """As the API has them."""
    assert ("Starting", "Scheduled", "True") == _status(grove_gang("g", {"a": 2}))
    assert ("Pending", "Scheduled", "False") == _status(grove_gang("g", {"a": 7}))


def test_what_cannot_be_is_told() -> None:
    """Two groups of one name, groups that nobody is."""
    gang = grove_gang("g", {"a": 0}, topologyConstraintGroupConfigs=[{"name": "x", "podGroupNames": ["b"]}])
    gang[0]["spec"]["podgroups"] *= 2  # type: ignore[index]
    verdict = validate(objects_of(gang))

    assert ["spec.podgroups[0].name", "spec.podgroups[1].name"] == [finding.path for finding in verdict.errors]
    assert ["spec.topologyConstraintGroupConfigs[0].podGroupNames"] == [finding.path for finding in verdict.warnings]


def test_the_auditor_counts_for_itself() -> None:
    """Parts of cliques, and cliques in two racks."""

    def found(*manifests: list[Raw]) -> list[str]:
        return [finding.rule for finding in audit(objects_of(WORLD, *manifests))]

    assert ["part-of-gang"] == found(grove_gang("g", {"a": 2}, on={"g-a-0": "n0"}))
    assert ["topology"] == found(grove_gang("g", {"a": 2}, keys={"a": RACK}, on={"g-a-0": "n0", "g-a-1": "n4"}))
    assert [] == found(grove_gang("g", {"a": 2}, keys={"a": RACK}, on={"g-a-0": "n0", "g-a-1": "n1"}))
