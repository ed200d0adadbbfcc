"""Selectors of devices that a grammar draws: whatever is written, there is one answer, and it comes soon."""

from __future__ import annotations

from collections import Counter

import msgspec
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
