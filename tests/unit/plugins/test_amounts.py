"""Amounts of domains: what pods of a rack share is not exceeded, whoever says how much there is."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from tests.support.amounts import MODEL, marked, with_amounts
from tests.support.draw import Outcome, World, allocate, draw, gang, placed, why

from tierwise.admission import validate
from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.audit import audit
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.config.volcano import read_volcano
from tierwise.explain.amounts import amount_lines, amounts_wire
from tierwise.explain.obstacles import obstacles_of
from tierwise.explain.page import Page
from tierwise.model.job import Verdict
from tierwise.port import Objects

RACKS = draw("s0[r0[n0 n1 n2] r1[n3 n4 n5]]", node="gpu=4", tier_names={1: "rack", 2: "spine"})
GPU: list[dict[str, object]] = [{"resource": "nvidia.com/gpu", "each": 700}]


def power(amount: str, charges: list[dict[str, object]] = GPU) -> list[dict[str, object]]:
    """An amount of power in the words of the annotation."""
    return [{"name": "power", "amount": amount, "charges": charges}]


def given(*amounts: dict[str, object]) -> Profile:
    """The default profile with amounts by tier."""
    return replace(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("amounts", {"amounts": [*amounts]}),)))


def code(outcome: Outcome) -> str:
    """Why g waits."""
    return outcome.report.rejections["default/g"].reason.code


def test_a_rack_takes_what_it_can_pay_for() -> None:
    """Seven GPUs of 700 W fit 5 kW; the eighth goes to the next rack, and no rack would ever hold all of them."""
    world = with_amounts(RACKS, {"r0": power("5k"), "r1": power("5k")})

    assert 7 == sum(placed(allocate(world, gang("g", 7, "gpu=1", within="rack")), "g").values())
    assert 8 == sum(placed(allocate(world, gang("g", 8, "gpu=1")), "g").values())
    refused = allocate(world, gang("g", 8, "gpu=1", within="rack"))
    assert Verdict.NEVER is refused.report.rejections["default/g"].verdict


def test_a_rack_that_holds_all_is_found_behind_a_fuller_one() -> None:
    """The tightest rack has nodes and no power: the gang goes to the other one, whole."""
    world = with_amounts(RACKS, {"r0": power("2k"), "r1": power("5k")})

    assert {"n3", "n4"} == set(placed(allocate(world, gang("g", 6, "gpu=1", within="rack")), "g"))


def test_racks_and_the_spine_around_them_may_both_have_an_amount() -> None:
    """Two racks of seven below a spine of ten."""
    world = with_amounts(RACKS, {"r0": power("5k"), "r1": power("5k"), "s0": power("7k")})

    assert placed(allocate(world, gang("g", 10, "gpu=1")), "g")
    assert not placed(allocate(world, gang("g", 11, "gpu=1")), "g")


def test_what_runs_or_is_leaving_takes_its_part() -> None:
    """Four pods of 700 W are on the rack, one of them on its way out: three more fit 5 kW."""
    world = with_amounts(RACKS, {"r0": power("5k"), "r1": power("0")})
    standing = gang("other", 4, "gpu=1", minimum=1, on="n0 n0 n0 n0!")

    assert placed(allocate(world, standing, gang("g", 3, "gpu=1")), "g")
    assert not placed(allocate(world, standing, gang("g", 4, "gpu=1")), "g")


def test_the_first_charge_that_is_for_a_node_counts() -> None:
    """A device costs what its model takes; a pod without devices costs nothing."""
    charges: list[dict[str, object]] = [{"resource": "nvidia.com/gpu", "each": "1k", "nodes": {MODEL: "big"}}, *GPU]
    world = with_amounts(RACKS, {"r0": power("2k", charges), "r1": power("0", charges)})

    assert not placed(allocate(world, gang("g", 3, "gpu=1")), "g")
    assert placed(allocate(world, gang("g", 2, "gpu=1")), "g")
    of_big = marked(world, {f"n{i}": {MODEL: "big"} for i in range(6)})
    assert placed(allocate(of_big, gang("g", 2, "gpu=1")), "g")
    assert not placed(allocate(of_big, gang("g", 2, "gpu=2")), "g")
    assert placed(allocate(draw("n0", node="cpu=8"), gang("g", 2, "cpu=1")), "g")


def test_a_profile_gives_amounts_by_tier_and_by_label() -> None:
    """A tier's amount is of each domain that says nothing itself; a key that is no tier is a label."""
    by_rack = given({"name": "power", "charges": GPU, "tiers": {"rack": "2100"}})
    own = with_amounts(RACKS, {"r0": [{"name": "power", "amount": "700"}]})

    assert 6 == len(allocate(RACKS, gang("g", 6, "gpu=1"), profile=by_rack).bindings)
    assert not allocate(RACKS, gang("g", 7, "gpu=1"), profile=by_rack).bindings
    assert 4 == len(allocate(own, gang("g", 4, "gpu=1"), profile=by_rack).bindings)
    assert not allocate(own, gang("g", 5, "gpu=1"), profile=by_rack).bindings
    by_label = given({"name": "power", "charges": GPU, "tiers": {"example.com/feed": "1400"}})
    fed = marked(RACKS, {f"n{i}": {"example.com/feed": "a" if i % 2 else "b"} for i in range(6)})
    assert 4 == len(allocate(fed, gang("g", 4, "gpu=1"), profile=by_label).bindings)
    assert not allocate(fed, gang("g", 5, "gpu=1"), profile=by_label).bindings


def test_victims_go_until_enough_is_free() -> None:
    """Five GPUs more in a rack of seven with four in use: two victims, and no more."""
    world = with_amounts(RACKS, {"r0": power("5k"), "r1": power("5k")})
    low = (gang(f"low{i}", 4, "gpu=1", minimum=1, on=f"n{3 * i} " * 4, owned=True) for i in range(2))
    evicting = replace(DEFAULT, actions=("enqueue", "allocate", "gangpreempt"))
    outcome = allocate(world, *low, gang("g", 5, "gpu=1", within="rack", priority=9), profile=evicting)

    assert 2 == len(outcome.report.evictions)
    assert 5 == len(outcome.nominations)


def test_what_cannot_be_read_closes_its_domain_and_is_told() -> None:
    """Nothing that takes of an amount starts there; validation, the tree and the cycle say why."""
    world = with_amounts(RACKS, {"r0": power("5k"), "r1": power("lots")})
    outcome = allocate(world, gang("g", 8, "gpu=1"))

    assert not outcome.bindings
    assert [("r1", "InvalidAmounts")] == [(p.domain, p.code) for p in outcome.snapshot.topology.problems]
    errors = validate(_objects(world)).errors
    assert ["HyperNode r1"] == [error.object for error in errors]
    assert '"lots" is not a quantity' in errors[0].message


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "JSON list"),
        ('[{"name": "a b", "amount": 1}]', "cannot be the name"),
        ('[{"name": "a"}]', "amount: it is missing"),
        ('[{"name": "a", "amount": -1}]', "less than 0"),
        ('[{"name": "a", "amount": 1, "tiers": {"rack": 1}}]', "of itself alone"),
        ('[{"name": "a", "amount": 1}, {"name": "a", "amount": 2}]', "twice"),
        ('[{"name": "a", "amount": 1, "charges": [{"resource": "", "each": 1}]}]', "it is empty"),
        ('[{"name": "a", "amount": 1, "charges": [{"resource": "cpu", "each": "x"}]}]', "not a quantity"),
        ('[{"name": "a", "amount": 1, "colour": "red"}]', "colour"),
        (json.dumps([{"name": f"a{i}", "amount": 1} for i in range(17)]), "more than the 16"),
    ],
)
def test_each_mistake_is_named(text: str, fault: str) -> None:
    """One line for each of the mistakes that somebody is likely to make."""
    hypernode = _hypernode(text)
    errors = validate(Objects.of([(codec.decode(hypernode), hypernode)])).errors

    assert [True] == [fault in found.message for found in errors]


@pytest.mark.parametrize(
    ("amounts", "fault"),
    [
        ("power", "expected a list"),
        ([{"name": "power", "amount": 1}], "by tier"),
        ([{"name": "power", "tiers": {"rack": "x"}}], "not a quantity"),
        ([{"name": "power"}, {"name": "power"}], "twice"),
        ([{"nam": "power"}], "nam"),
    ],
)
def test_a_profile_that_is_wrong_is_refused(amounts: object, fault: str) -> None:
    """The field is named when the profile is read."""
    raw = {"actions": "allocate", "tiers": [{"plugins": [{"name": "amounts", "arguments": {"amounts": amounts}}]}]}
    with pytest.raises(InputError, match=fault) as refused:
        read_volcano(raw)

    assert refused.value.field == "tiers[0].plugins[0].arguments.amounts"


def test_an_amount_without_charges_is_warned_of() -> None:
    """Where no profile gives them it counts nowhere."""
    hypernode = _hypernode('[{"name": "power", "amount": 1}]')
    warnings = validate(Objects.of([(codec.decode(hypernode), hypernode)])).warnings

    assert "power has no charges" in [found.message.partition(":")[0] for found in warnings]


def test_the_audit_recounts_it() -> None:
    """Six pods of 700 W stand in a rack of 4 kW: its amount was lowered."""
    world = with_amounts(RACKS, {"r0": power("4k"), "r1": power("4k")})
    standing = gang("other", 6, "gpu=1", on="n0 n0 n0 n0 n1 n1")
    objects = Objects.of((codec.decode(raw), raw) for raw in (*world.manifests, *standing.manifests()))

    found = [finding for finding in audit(objects) if finding.rule == "over-amount"]
    assert ["HyperNode r0: its pods take 4200 of power, and it has 4000 (over-amount)"] == [*map(str, found)]


def test_what_stands_in_the_way_is_named() -> None:
    """`explain` says that it fits without the amount; the tree shows how much is taken."""
    world = with_amounts(RACKS, {"r0": power("5k"), "r1": power("5k")})
    standing = [gang(f"low{i}", 4, "gpu=1", on=f"n{3 * i} " * 4) for i in range(2)]
    asked = gang("g", 7, "gpu=1")
    outcome = allocate(world, *standing, asked)
    (job,) = [job for job in outcome.snapshot.jobs if job.key == "default/g"]

    assert "NotEnoughResources" == code(outcome) == why(outcome, "g")
    every = obstacles_of(outcome.snapshot, outcome.report, DEFAULT, job)
    assert "without the amount of power in each rack it fits" in [obstacle.text() for obstacle in every]
    wire = amounts_wire(outcome.snapshot, DEFAULT)
    first = {"name": "power", "tier": "rack", "domain": "r0", "taken": "2800", "amount": "5k"}
    assert first == wire["amounts"][0]  # type: ignore[index]
    shown = "\n".join(line.plain for line in amount_lines(Page(), outcome.snapshot, DEFAULT))
    assert "2800 of 5k" in shown
    unused = given({"name": "power", "tiers": {"rak": "1"}})
    assert "rak is neither a tier" in "\n".join(line.plain for line in amount_lines(Page(), outcome.snapshot, unused))


def _objects(world: World) -> Objects:
    return Objects.of((codec.decode(raw), raw) for raw in world.manifests)


def _hypernode(text: str) -> Raw:
    member = {"type": "Node", "selector": {"exactMatch": {"name": "n0"}}}
    metadata = {"name": "r0", "annotations": {"tierwise.io/amounts": text}}
    spec = {"tier": 1, "members": [member]}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": metadata, "spec": spec}
