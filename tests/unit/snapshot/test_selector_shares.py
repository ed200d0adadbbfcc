"""What a cycle spends on the selectors of claims is bounded, and shared fairly between namespaces."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.devices import DRIVER, claim, device, device_class, exactly, node, objects, pod, resource_slice, run

from tierwise.api.codec import Raw
from tierwise.api.resource import DeviceClaim
from tierwise.dialects.kubernetes.devices import Planner, Selectors
from tierwise.model.job import Verdict
from tierwise.snapshot.builder import Reader, build
from tierwise.snapshot.selector_shares import MOST_BYTES, MOST_COST, beyond_evaluating, beyond_reading

DEAR = "lists.range(95).all(i, sets.contains(lists.range(90), lists.range(90)))"
"""Costs nearly what Kubernetes allows one selector."""

NOW = 0.0

CHEAP = f'device.driver == "{DRIVER}"'


def _in(namespace: str, raw: Raw) -> Raw:
    meta = {**raw["metadata"], "namespace": namespace}  # type: ignore[dict-item]
    if "uid" in meta:
        meta["uid"] = f"{namespace}-{meta['uid']}"
    return {**raw, "metadata": meta}


def _asking(namespace: str, name: str, where: str) -> list[Raw]:
    return [_in(namespace, claim(name, exactly(where=where))), _in(namespace, pod(name, name))]


def _machine(*devices: Raw) -> list[Raw]:
    return [node("n0", cpu=200), resource_slice("n0", devices), device_class()]


def _spec(*where: str) -> DeviceClaim:
    requests: list[Any] = [exactly(name=f"r{i}", where=text) for i, text in enumerate(where)]
    return msgspec.convert({"requests": requests}, DeviceClaim)


class _Counted(Planner):
    """Says what selectors cost by their texts, and counts what is spent."""

    def __init__(self) -> None:
        super().__init__((), {}, Selectors())
        self.spent = 0

    def cost(self, texts: tuple[str, ...], whose: str, left: int) -> int | None:
        del whose
        cost = int(texts[0])
        self.spent += min(cost, left)
        return cost if cost <= left else None


def test_many_dear_claims_of_one_tenant_keep_nobody_else_waiting() -> None:
    """Another's claim is served in the first cycle, and those beyond the bound are told of it: not now."""
    evil = [_asking("evil", f"e{i}", f"{DEAR} && device.driver == 'x{i}'") for i in range(8)]

    history = run(_machine(device("d0")), *evil, _asking("team", "t", CHEAP))

    assert history.report is not None
    assert {"team/t"} == {key for key in history.bindings if key.startswith("team/")}
    waiting = [one for one in history.report.rejections.values() if one.reason.code == "ClaimNotReady"]
    assert 6 == len(waiting)
    assert {Verdict.NOT_NOW} == {one.verdict for one in waiting}
    assert all(f"spends {MOST_COST} units of cost" in one.reason.text for one in waiting)


def test_the_oldest_claims_of_a_tenant_are_served_first() -> None:
    """Each that is allocated makes room for the next, so all are served in the end."""
    claims = [_asking("evil", f"e{i}", f"device.driver == 'x{i}' || {DEAR}") for i in range(3)]
    gpus = [device(f"d{i}") for i in range(3)]

    history = run(_machine(*gpus), *claims)

    assert {f"evil/e{i}" for i in range(3)} == set(history.bindings)


@pytest.mark.parametrize("number", [1, 10, 1000])
def test_what_a_cycle_spends_does_not_grow_with_claims(number: int) -> None:
    """However many claims and namespaces there are, and whatever their selectors cost."""
    for namespaces in (1, 7, number):
        planner = _Counted()
        costs = (3, 900_000, 40, 1_000_200, 70_000)
        specs = [(f"n{i % namespaces}/c{i}", _spec(f"{costs[i % 5] + i:09}")) for i in range(number)]

        beyond_evaluating(specs, planner)

        assert planner.spent <= MOST_COST


def test_cheap_selectors_are_served_whoever_else_waits() -> None:
    """Fifty namespaces with a dear claim each, all before it by name, do not use up what a cheap one needs."""
    dear = [(f"a{i}/c", _spec(f"{900_000 + i}")) for i in range(50)]

    beyond = beyond_evaluating([*dear, ("z/c", _spec("0100")), ("z/d", _spec("0200"))], _Counted())

    assert set() == {"z/c", "z/d"} & set(beyond)
    assert 45 < len(beyond)


def test_what_was_paid_for_is_free() -> None:
    """Claims with the same selectors are served with the first of them, in other namespaces too."""
    specs = [(f"n{i % 3}/c{i}", _spec("900000")) for i in range(100)]

    assert {} == beyond_evaluating(specs, _Counted())


def test_texts_beyond_the_bound_are_not_read() -> None:
    """A flood of long texts leaves the small share of others; the bound is named, and one long text blocks no other."""
    flood = [("evil/long", _spec("x" * MOST_BYTES))]
    flood += [(f"evil/c{i:03}", _spec(f"device.driver == '{i}' || {'true && ' * 500} true")) for i in range(100)]

    beyond = beyond_reading([*flood, *((f"team/t{i}", _spec(f"device.driver == '{i}'")) for i in range(20))])

    assert set() == {path for path in beyond if path.startswith("team/")}
    assert "evil/long" in beyond
    assert "evil/c000" not in beyond
    assert "evil/c099" in beyond
    assert f"reads {MOST_BYTES} bytes of selectors" in beyond["evil/c099"]


def test_nobody_is_told_of_claims_of_others() -> None:
    """Claims that ask alike share an answer, and each is told its own name."""
    wrong = f'device.attributes["{DRIVER}"].none == 1'

    history = run(_machine(device("d0")), _asking("one", "a", wrong), _asking("other", "b", wrong))

    assert history.report is not None
    said = {key: str(one) for key, one in history.report.rejections.items()}
    assert {True} == {"ResourceClaim a: selector" in text for key, text in said.items() if key.startswith("one/")}
    assert {False} == {"ResourceClaim a" in text for key, text in said.items() if key.startswith("other/")}


def test_a_kept_snapshot_agrees_with_one_that_is_read_anew() -> None:
    """Whatever came and went before: shares follow from the claims that wait."""
    gpus = [device(f"d{i}", number=i) for i in range(3)]
    machine = _machine(*gpus)
    seen = [
        _asking("evil", f"e{i}", f'device.attributes["{DRIVER}"].{"number" if i % 2 else "none"} > {i} || {DEAR}')
        for i in range(5)
    ]
    other = [_asking("team", "t", CHEAP)]
    reader, waited = Reader(), []
    for chosen in ([*seen[3:], *other], [*seen], [*seen[:1], *seen[4:]], [*seen[1:], *other], [*other, *seen]):
        state = objects(machine, *chosen)

        kept, anew = reader.read(state, NOW), build(state, NOW)

        assert {job.key: job.unready for job in anew.jobs} == {job.key: job.unready for job in kept.jobs}
        waited.append(sum(bool(job.unready) for job in anew.jobs))
    assert [0, 3, 0, 2, 3] == waited
