"""Selectors of devices that a grammar draws: whatever is written, there is one answer, and it comes soon."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.selectors import DEVICES, DRIVER, draw

from tierwise.api.cel import CompileError, EvaluationError, Work, selector
from tierwise.api.resource import Device

LIMIT = 1_000_000


def _said(expression: str, device: Device) -> tuple[str, int]:
    budget = Work(LIMIT)
    try:
        said = str(selector(expression).matches(DRIVER, device, budget))
    except CompileError as error:
        return f"refused: {error}", 0
    except EvaluationError as error:
        said = f"error: {error}"
    return said, LIMIT - budget.left


@examples(300)
@given(st.integers(0, 2**32))
def test_every_selector_has_one_answer_at_a_bounded_price(seed: int) -> None:
    """Nothing but the errors of CEL comes out, twice the same, and no more is charged than is allowed."""
    expression, raw = draw(seed)
    device = msgspec.convert(raw, Device)
    said, cost = _said(expression, device)

    assert (said, cost) == _said(expression, device)
    assert 0 <= cost <= LIMIT + 1000


@examples(100)
@given(st.text(alphabet="ab1.,()[]{}?:!-+*/%<>=&|\"'\\ux d\n", max_size=40))
def test_any_text_is_a_selector_or_none(text: str) -> None:
    """What cannot be read is refused, however odd."""
    said, _ = _said(text, msgspec.convert(DEVICES[0], Device))

    assert said.startswith(("refused", "error", "True", "False"))


def test_the_grammar_draws_all_verdicts() -> None:
    """A property over selectors of which nearly all are refused would say little."""
    device = msgspec.convert(DEVICES[0], Device)
    counts = Counter(_said(draw(seed)[0], device)[0].partition(":")[0] for seed in range(400))

    assert min(counts[said] for said in ("True", "False", "refused", "error")) >= 40, counts


# -- beside Google's implementation, where it is installed


_OWN = ("in device.attributes", ".fw")
"""What Kubernetes has of its own: attributes that have every domain, yet do not list it, and versions."""


def _shown(raw: Any) -> dict[str, object]:
    """A device as a plain map, in which every domain that the grammar names is there."""
    domains: dict[str, dict[str, object]] = {name: {} for name in (DRIVER, "nic.example.com", "nothere", "foo")}
    for name, value in raw.get("attributes", {}).items():
        domain, _, own = name.rpartition("/")
        domains[domain or DRIVER][own] = next(iter(value.values()))
    several = raw.get("allowMultipleAllocations", False)
    return {"driver": DRIVER, "attributes": domains, "capacity": {}, "allowMultipleAllocations": several}


@pytest.fixture(scope="module")
def google() -> Any:
    """A function that asks Google's CEL; what it says other than yes or no is no answer here."""
    cel = pytest.importorskip("cel_expr_python.cel")
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    extensions = [ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    env = cel.NewEnv(variables={"device": cel.Type.DYN}, extensions=extensions)

    def asked(expression: str, raw: object) -> str:
        try:
            return str(env.compile(expression).eval(data={"device": _shown(raw)}).value())
        except Exception as error:  # noqa: BLE001 - its errors have no common type
            return f"error: {error}"

    return asked


@examples(100)
@given(st.integers(0, 2**32))
def test_where_googles_cel_has_an_answer_too_it_is_the_same(google: Any, seed: int) -> None:
    """Quantities, versions and lists that only Kubernetes has are errors there, and so are costs here."""
    expression, raw = draw(seed)
    said = {google(expression, raw), _said(expression, msgspec.convert(raw, Device))[0]}

    assert {"True", "False"} != said or any(word in expression for word in _OWN)


def test_googles_cel_has_an_answer_often_enough(google: Any) -> None:
    """A comparison in which hardly anything is decided by both would say little."""
    drawn = [draw(seed) for seed in range(200)]
    both = [(google(text, raw), _said(text, msgspec.convert(raw, Device))[0]) for text, raw in drawn]

    assert min(both.count((said, said)) for said in ("True", "False")) >= 20
