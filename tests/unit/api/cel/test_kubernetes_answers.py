"""Selectors answer as Kubernetes' own package does, by a table that it has written.

tools/compare_device_selectors --table makes the table anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.support.selectors import DEVICES, DRIVER

from tierwise.api.cel import CompileError, EvaluationError, selector
from tierwise.api.resource import Device

TABLE = json.loads(Path(__file__).with_name("kubernetes_answers.json").read_text(encoding="utf-8"))
NAMED = {raw["name"]: msgspec.convert(raw, Device) for raw in DEVICES}


def _said(expression: str, device: str) -> tuple[str, int]:
    """The verdict, and the estimate of what the selector costs at most."""
    try:
        found = selector(expression)
    except CompileError:
        return "refused", 0
    try:
        return "yes" if found.matches(DRIVER, NAMED[device]) else "no", found.most
    except EvaluationError:
        return "error", found.most


def test_the_table_has_every_verdict() -> None:
    """Hundreds of selectors, of which many are taken, turned down, refused, and have no answer."""
    counts = {said: sum(row[2] == said for row in TABLE) for said in ("yes", "no", "refused", "error")}

    assert all(number >= 100 for number in counts.values()), counts


@pytest.mark.parametrize("start", range(0, len(TABLE), 100))
def test_answers_are_those_of_kubernetes(start: int) -> None:
    """What is refused, what it is estimated to cost, and what it says of a device."""
    rows = TABLE[start : start + 100]

    assert [tuple(row) for row in rows] == [(text, device, *_said(text, device)) for text, device, _, _ in rows]
