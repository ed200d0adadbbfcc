"""What scorers of nodes say together: the weighted sum of their scores, and its parts.

Scores that are the same throughout a domain are added last, so that the sum is the same, bit by bit, whether nodes are
scored at once or in parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tierwise.framework.boundary import Asked, Panel
from tierwise.framework.extension import Ask, ScoreEffect
from tierwise.framework.rules import RULES, Answer, AnyRule, sealed
from tierwise.model.arrays import Bools, Floats, Rows, length


def _weighed(panel: Panel, rule: AnyRule, members: list[Asked]) -> list[tuple[float, Answer]]:
    return [(asked.by.choice.weight, panel.guarded(rule, asked)) for asked in members]


def _others(panel: Panel) -> list[Asked]:
    """The scorers that do not score by domain."""
    leaves = panel.by_plugin(RULES["score_leaves"])
    return [asked for asked in panel.members(RULES["score"]) if asked.by.plugin_id not in leaves]


def largest_effect(panel: Panel, rule: AnyRule) -> Answer:
    """The largest of them."""
    asks = panel.asks(rule)
    return lambda ask: max([asked(ask) for asked in asks], default=ScoreEffect.FIXED)


def weighted_sum(panel: Panel, rule: AnyRule) -> Answer:
    """The sum, each by its plugin's weight; those by domain behind the others."""
    leaves = panel.by_plugin(RULES["score_leaves"])
    members = sorted(panel.members(rule), key=lambda asked: asked.by.plugin_id in leaves)
    weighed = _weighed(panel, rule, members)

    def ask(ask: Ask, span: slice, fits: Bools) -> Floats:
        total, fits = np.zeros(span.stop - span.start), sealed(fits)
        for weight, asked in weighed:
            score = asked(ask, span, fits)
            total += score if weight == 1.0 else weight * score
        return total

    return ask


def sum_by_row(panel: Panel, rule: AnyRule) -> Answer:
    """The sum; all scorers but those by domain must know it."""
    knowing, others = panel.by_plugin(rule), _others(panel)
    known = all(asked.by.plugin_id in knowing for asked in others)
    weighed = [(asked.by.choice.weight, knowing[asked.by.plugin_id]) for asked in others] if known else []

    def ask(ask: Ask, rows: Rows) -> Floats | None:
        if not known:
            return None
        total = np.zeros(length(rows))
        rows = rows if isinstance(rows, slice) else sealed(rows)
        for weight, asked in weighed:
            score = asked(ask, rows)
            if score is None:
                return None
            total += score if weight == 1.0 else weight * score
        return total

    return ask


def parts_by_domain(panel: Panel, rule: AnyRule) -> Answer:
    """Added behind the sum of all others, in their order."""
    weighed = _weighed(panel, rule, panel.members(rule))

    def ask(ask: Ask) -> list[Floats] | None:
        parts = []
        for weight, asked in weighed:
            score = asked(ask)
            if score is None:
                return None
            parts.append(score if weight == 1.0 else weight * score)
        return parts

    return ask


def widest(panel: Panel, rule: AnyRule) -> Answer:
    """The span of all of them."""
    asks = panel.asks(rule)

    def ask(ask: Ask, row: int) -> slice:
        spans: list[Any] = [asked(ask, row) for asked in asks]
        if not spans:
            return slice(row, row)
        return slice(min([span.start for span in spans]), max([span.stop for span in spans]))

    return ask
