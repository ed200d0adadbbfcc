"""The ways in which the answers of several plugins become one, and what a plugin that fails answers instead.

The first line of each is what the tables of the reference page say. Each way makes, of the plugins of a panel, the
function that answers the question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any, Final, NoReturn, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.framework.answers import bounded, key
from tierwise.framework.boundary import RAISED, RULES, Answer, AnyRule, Asked, Panel, PluginError, promises, sealed
from tierwise.framework.extension import Abstained, Ask, Debt, Gradients, Preparation, Proposal, ScoreEffect, Units
from tierwise.framework.ledger import Ledger, stands_in_part
from tierwise.model.arrays import Bools, Floats, Ints, Rows, Why, length
from tierwise.model.job import Job, Reason, Shape, SubJob, Task
from tierwise.model.topology import ROOT

Key = tuple[float, ...]

_LAST: Final = (math.inf,)
_NUMBERS: Final = (int, float)


# -- what a failure means


def costs_turn(_: Asked, reason: Reason) -> NoReturn:
    """The job loses its turn and waits with `PluginFailed`."""
    raise PluginError(reason)


def objects(_: Asked, reason: Reason) -> Reason:
    """An objection with the reason `PluginFailed`."""
    return reason


def goes_last(_: Asked, __: Reason) -> Key:
    """What the key was asked for goes last."""
    return _LAST


def says_no(_: Asked, __: Reason) -> bool:
    """No."""
    return False


def protects_all(_: Asked, __: Reason) -> np.bool_:
    """Everybody is protected."""
    return np.True_


def nobody_goes(_: Asked, __: Reason) -> Ints:
    """Nobody goes."""
    return np.zeros(0, dtype=np.int64)


def is_silent(_: Asked, __: Reason) -> None:
    """Nothing is said."""


def is_not_bound(_: Asked, reason: Reason) -> Preparation:
    """The gang is not bound, and waits with `PluginFailed`."""
    return Preparation(failed=reason)


def abstains(asked: Asked, reason: Reason) -> Abstained:
    """No recommendation; the ordinary search goes on."""
    return Abstained(asked.name, reason.text)


# -- one answer of several


def first(panel: Panel, rule: AnyRule) -> Answer:
    """The first that answers."""
    asks = panel.asks(rule)

    def ask(*args: Any) -> Any:
        for asked in asks:
            answer = asked(*args)
            if answer is not None:
                return answer
        return None

    return ask


def first_of_all(panel: Panel, rule: AnyRule) -> Answer:
    """The first that has any."""
    asks = panel.asks(rule)

    def ask(*args: Any) -> Any:
        for asked in asks:
            answer = asked(*args)
            if answer is not None and len(answer):
                return answer
        return None

    return ask


def first_per_row(panel: Panel, rule: AnyRule) -> Answer:
    """The first objection for each node."""
    asks, nodes = panel.asks(rule), panel.view.nodes

    def ask(*args: Any) -> Why:
        why = np.zeros(len(nodes), dtype=np.uint16)
        for asked in asks:
            np.copyto(why, asked(*args), where=why == 0)
        return why

    return ask


def keys(panel: Panel, rule: AnyRule) -> Answer:
    """Keys one after the other, in the order of the profile."""
    return _joined(panel, rule, [(asked, None) for asked in panel.members(rule)])


def job_keys(panel: Panel, rule: AnyRule) -> Answer:
    """Keys one after the other; what stands in part goes first among jobs of its priority."""
    ledger, members = panel.view.ledger, panel.members(rule)
    place = next((i for i, asked in enumerate(members) if promises(asked.by.plugin).by_priority), None)
    if place is None:
        others = keys(panel, rule)
        return lambda job: (_whole(ledger, job), *others(job))

    def at_once(key: Key, job: Job) -> Key:
        """In an order before priority what stands in part counts as one that holds nothing, if it has a place there."""
        if not stands_in_part(ledger, job):
            return key
        return tuple([number if number == math.inf else min(number, 0.0) for number in key])

    def behind_priority(key: Key, job: Job) -> Key:
        return *key[:1], _whole(ledger, job), *key[1:]

    changes = [at_once] * place + [behind_priority] + [None] * (len(members) - place - 1)
    return _joined(panel, rule, list(zip(members, changes, strict=True)))


def _whole(ledger: Ledger, job: Job) -> float:
    return float(not stands_in_part(ledger, job))


def _joined(panel: Panel, rule: AnyRule, members: list[tuple[Asked, Callable[[Key, Any], Key] | None]]) -> Answer:
    note, failed = panel.note, rule.failure

    def ask(*about: Any) -> Key:
        found: list[float] = []
        for asked, changed in members:  # in line: there is one key for each waiting job
            try:
                numbers = asked.ask(*about)
                if type(numbers) is not tuple or type(total := sum(numbers)) not in _NUMBERS or total != total:
                    key(numbers, about, panel.view)
            except RAISED as error:
                numbers = failed(asked, note(asked.name, asked.method, error))
            found += numbers if changed is None else changed(numbers, *about)
        return tuple(found)

    return ask


def any_of_them(panel: Panel, rule: AnyRule) -> Answer:
    """Any."""
    asks = panel.asks(rule)
    return lambda *args: any(asked(*args) for asked in asks)


def all_of_them(panel: Panel, rule: AnyRule) -> Answer:
    """All."""
    asks = panel.asks(rule)
    return lambda *args: all(asked(*args) for asked in asks)


def most(panel: Panel, rule: AnyRule) -> Answer:
    """The most of them."""
    asks = panel.asks(rule)
    return lambda *args: max([answer for asked in asks if (answer := asked(*args)) is not None], default=0.0)


def least(panel: Panel, rule: AnyRule) -> Answer:
    """The least of them."""
    asks = panel.asks(rule)
    return lambda *args: min([asked(*args) for asked in asks], default=math.inf)


def most_of_each(panel: Panel, rule: AnyRule) -> Answer:
    """The most for each of them."""
    return _folded(panel, rule, np.maximum)


def total(panel: Panel, rule: AnyRule) -> Answer:
    """The sum."""
    return _folded(panel, rule, np.add)


def _folded(panel: Panel, rule: AnyRule, join: Callable[[Floats, Floats], Floats]) -> Answer:
    """Numbers for each of what is asked about, beginning with 0."""
    asks = panel.asks(rule)
    return lambda *args: reduce(join, (asked(*args) for asked in asks), np.zeros(len(args[1])))


# -- all answers


def one_after_the_other(panel: Panel, rule: AnyRule) -> Answer:
    """All of them, one after the other."""
    asks = panel.asks(rule)
    return lambda *args: [answer for asked in asks for answer in asked(*args)]


def by_plugin(panel: Panel, rule: AnyRule) -> Answer:
    """One for each plugin."""
    members = [(asked.name, panel.guarded(rule, asked)) for asked in panel.members(rule)]
    return lambda *args: {name: found for name, asked in members if (found := asked(*args)) is not None}


def each_once(panel: Panel, rule: AnyRule) -> Answer:
    """All, each once."""
    ask = with_its_plugin(panel, rule)
    return lambda: dict.fromkeys(answer for _, answer in ask())


def with_its_plugin(panel: Panel, rule: AnyRule) -> Answer:
    """One after the other, as long as they are wanted."""
    members, check, view, note, failed = panel.members(rule), rule.check, panel.view, panel.note, rule.failure

    def ask() -> Iterator[tuple[Any, Debt]]:
        for asked in members:
            try:
                for answer in bounded(asked.ask(), asked.method):  # one by one: victims for one may settle the next
                    yield asked.by.plugin, check(answer, (), view)
            except RAISED as error:
                failed(asked, note(asked.name, asked.method, error))

    return ask


def of_its_plugin(panel: Panel, rule: AnyRule) -> Answer:
    """Of the plugin that said so."""
    asks = {id(asked.by.plugin): panel.guarded(rule, asked) for asked in panel.members(rule)}
    return lambda plugin, *args: asks[id(plugin)](*args)


def by_task(panel: Panel, rule: AnyRule) -> Answer:
    """Everything that any of them says."""
    asks = panel.asks(rule)

    def ask(job: Job, tasks: Iterable[tuple[Task, int]]) -> dict[str, list[Preparation]]:
        found: dict[str, list[Preparation]] = {}
        for task, row in tasks:
            for asked in asks:
                said = asked(job, task, row)
                if said is not None:
                    found.setdefault(task.key, []).append(said)
        return found

    return ask


# -- searches and gates


def proposals(panel: Panel, rule: AnyRule) -> Answer:
    """The first recommendation; without one, the first reason for abstaining."""
    asks = panel.asks(rule)

    def ask(units: Units, candidates: Ints) -> Proposal | Abstained | None:
        found: Abstained | None = None
        units = replace(units, own=sealed(units.own), held=sealed(units.held))
        for asked in asks:
            said = asked(units, candidates)
            if isinstance(said, Proposal):
                return said
            found = found if found is not None else said
        return found

    return ask


def limit_once(panel: Panel, _: AnyRule) -> Answer:
    """The first that sets one decides; asked once for each gang."""
    space_of, known = _spaces(panel)

    def ask(gang: Job | SubJob) -> int | None:
        found = known.get(id(gang))  # in line: a search wants it many times
        return found[1] if found is not None else space_of(gang)[1]

    return ask


_Space = tuple[Asked | None, int | None, Job | SubJob]
"""The plugin that sets a limit for a gang, the limit, and the gang, which keeps its identity."""


def _spaces(panel: Panel) -> tuple[Callable[[Job | SubJob], _Space], dict[int, _Space]]:
    """Who sets a limit for a gang, and what is known of that by identity."""
    if "spaces" in panel.memo:
        return panel.memo["spaces"]  # type: ignore[no-any-return]
    rule = RULES["limit"]
    members = [(asked, panel.guarded(rule, asked)) for asked in panel.members(rule)]
    known: dict[int, _Space] = {}

    def space_of(gang: Job | SubJob) -> _Space:
        found = known.get(id(gang))
        if found is None:
            limits = ((asked, limit, gang) for asked, ask in members if (limit := ask(gang)) is not None)
            found = known[id(gang)] = next(limits, (None, None, gang))
        return found

    panel.memo["spaces"] = space_of, known
    return space_of, known


def of_the_limiter(panel: Panel, rule: AnyRule) -> Answer:
    """Those of the plugin that sets the limit; without one, the whole is the only candidate."""
    (space_of, _), view, note = _spaces(panel), panel.view, panel.note
    members = {asked.by.plugin_id: asked for asked in panel.members(rule)}

    def ask(gang: Job | SubJob, within: int = ROOT, *, evicting: bool = False) -> Gradients:
        limiter = space_of(gang)[0]
        if limiter is None:
            return (np.array([within]),)
        return groups(members[limiter.by.plugin_id], gang, within, evicting=evicting)

    def groups(asked: Asked, gang: Job | SubJob, within: int, *, evicting: bool) -> Iterator[Ints]:
        try:
            yield from rule.check(asked.ask(gang, within, evicting=evicting), (gang, within), view)
        except RAISED as error:
            rule.failure(asked, note(asked.name, asked.method, error))

    return ask


def tier_by_tier(panel: Panel, rule: AnyRule) -> Answer:
    """Tier by tier, the first objection; a permit of a tier without one ends the asking."""
    tiers: dict[int, tuple[list[Answer], list[Answer]]] = {}
    for i, asking in enumerate((rule, RULES["must_enqueue"])):
        for asked in panel.members(asking):
            tiers.setdefault(asked.by.tier, ([], []))[i].append(panel.guarded(asking, asked))
    in_order = [tiers[number] for number in sorted(tiers)]

    def ask(job: Job) -> Reason | None:
        for gates, permits in in_order:
            for gate in gates:
                reason: Reason | None = gate(job)
                if reason is not None:
                    return reason
            if any(permitted(job) for permitted in permits):
                return None
        return None

    return ask


# What filters that move say together of a shape: those whose answer changes as tasks are placed.
#
# Which of them concern a shape is asked once in a cycle.


R = TypeVar("R")


class _Mover(msgspec.Struct, frozen=True, eq=False):
    """A filter that moves: what it is asked, None where it has no answer."""

    concerns: Callable[[Shape], bool]
    why_not_now: Callable[[Shape, slice], Why]
    own_row: Callable[[Shape], bool] | None
    order_free: Callable[[Shape], bool] | None
    room: Callable[[Shape], Ints | None] | None

    def keeps_to_its_row(self, shape: Shape) -> bool:
        return self.own_row is not None and self.own_row(shape)


def _once(answer: Callable[[Shape], R]) -> Callable[[Shape], R]:
    """The same answer, asked for once for each shape."""
    known: dict[int, R] = {}

    def ask(shape: Shape) -> R:
        number = shape.number
        if number not in known:  # no exception: a flood has thousands of shapes, each asked about once
            known[number] = answer(shape)
        return known[number]

    return ask


def _movers(panel: Panel) -> Callable[[Shape], tuple[_Mover, ...]]:
    """The filters that move for a shape."""
    found: Callable[[Shape], tuple[_Mover, ...]] | None = panel.memo.get("movers")
    if found is None:
        asks: Any = {name: panel.by_plugin(RULES[name]) for name in _Mover.__struct_fields__}
        movers = [_Mover(*(own.get(plugin) for own in asks.values())) for plugin in asks["concerns"]]
        found = _once(lambda shape: tuple([mover for mover in movers if mover.concerns(shape)]))
        panel.memo["movers"] = found
    return found


def any_concerned(panel: Panel, _: AnyRule) -> Answer:
    """Any."""
    moving = _movers(panel)
    return lambda shape: bool(moving(shape))


def first_that_moves(panel: Panel, _: AnyRule) -> Answer:
    """The first objection for each node, of those that the shape concerns."""
    moving = _movers(panel)

    def ask(shape: Shape, span: slice) -> Why:
        why = np.zeros(span.stop - span.start, dtype=np.uint16)
        for mover in moving(shape):
            np.copyto(why, mover.why_not_now(shape, span), where=why == 0)
        return why

    return ask


def all_keep_to_their_row(panel: Panel, _: AnyRule) -> Answer:
    """All that move for the shape must say so."""
    moving = _movers(panel)
    return _once(lambda shape: all(mover.keeps_to_its_row(shape) for mover in moving(shape)))


def free_but_one(panel: Panel, _: AnyRule) -> Answer:
    """Of those that move beyond a task's own node there must be one at most, and it must say so."""
    moving = _movers(panel)

    def ask(shape: Shape) -> bool:
        wide = [mover for mover in moving(shape) if not mover.keeps_to_its_row(shape)]
        return not wide or (len(wide) == 1 and wide[0].order_free is not None and wide[0].order_free(shape))

    return _once(ask)


def least_room(panel: Panel, _: AnyRule) -> Answer:
    """The least of them; all that move for the shape must know it."""
    moving = _movers(panel)

    def known(shape: Shape) -> list[Any]:
        rooms = [mover.room for mover in moving(shape)]
        return rooms if None not in rooms else []

    rooms_of = _once(known)

    def ask(shape: Shape) -> Ints | None:
        least: Ints | None = None
        for room in rooms_of(shape):
            found = room(shape)
            if found is None:
                return None
            least = found if least is None else np.minimum(least, found)
        return least

    return ask


# What scorers of nodes say together: the weighted sum of their scores, and its parts.
#
# Scores that are the same throughout a domain are added last, so that the sum is the same, bit by bit, whether nodes
# are scored at once or in parts.


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
