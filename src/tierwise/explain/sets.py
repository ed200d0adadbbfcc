"""The sets of a gang: where their parts stand, and what closes each domain to the gang.

Found out for `explain`, `why` and the page alone, after all that a cycle has decided. Equal snapshot, report, profile
and job give equal answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from tierwise.actions.placement.demand import demand
from tierwise.actions.placement.sets import RuleState, Sets, minimum_by_shape
from tierwise.api.codec import Raw
from tierwise.api.natural import natural
from tierwise.api.plurals import count, joined, of, verb
from tierwise.api.sets import percent
from tierwise.config.profile import Profile
from tierwise.explain.decision_basis import after_decisions
from tierwise.explain.page import Page, Text, wrapped
from tierwise.explain.ranges import compact
from tierwise.explain.tables import Cell, table
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.framework.report import CycleReport
from tierwise.model.arrays import Ints
from tierwise.model.job import Constraint, Job, Reason, SetRule
from tierwise.model.snapshot import Snapshot

__all__ = ["SetDomain", "SetRuleView", "rules_wire", "set_lines", "sets_of", "sets_wire", "short_lines"]

_SHOWN = 40
"""Domains of a rule that people see without `--all`."""
_PARTS = 4
"""Parts of a domain that people see by name."""


class SetDomain(msgspec.Struct, frozen=True):
    """A domain of a rule's tier: the parts of the set in it, and whether the gang may be placed there."""

    name: str
    number: int  # in its tree
    parts: tuple[str, ...]
    open: bool
    text: str


class SetRuleView(msgspec.Struct, frozen=True):
    """One rule of a gang about one of its sets, with every domain of its tier."""

    set: str
    text: str
    constraint: Constraint
    domains: tuple[SetDomain, ...]
    gangs: dict[str, tuple[str, ...]]  # by part, the keys of its gangs
    waiting: tuple[str, ...]  # parts that stand nowhere

    @property
    def tier(self) -> str:
        return self.constraint.tier_name or "domain"


def sets_of(snapshot: Snapshot, report: CycleReport, profile: Profile, job: Job) -> tuple[SetRuleView, ...]:
    """Every rule of a gang about its sets, after a cycle; nothing for a gang without any."""
    seen = next((any_job for any_job in snapshot.jobs if any_job.key == job.key), None)
    if seen is None or seen.member is None or not seen.member.rules:
        return ()
    cycle = after_decisions(snapshot, report, profile)
    views = cycle.attempt(seen, lambda job: tuple(_views(cycle, job)))
    return () if isinstance(views, Reason) else views


def _views(cycle: Cycle, job: Job) -> Iterator[SetRuleView]:
    assert isinstance(cycle.sets, Sets)
    for state in cycle.sets.rule_states(job):
        rule, tree = state.rule, cycle.tree_of(state.rule.constraint).topology
        room = _room(cycle, job, state)
        domains = (
            SetDomain(
                tree.name[domain],
                domain,
                tuple(map(_part_name, state.parts.get(domain, ()))),
                domain not in state.closed,
                _domain_text(state, domain, room),
            )
            for domain in state.domains
        )
        yield SetRuleView(
            rule.name,
            _rule_text(rule),
            rule.constraint,
            tuple(sorted(domains, key=lambda domain: (not domain.parts, natural(domain.name)))),
            {_part_name(part): keys for part, keys in state.gangs.items()},
            tuple(map(_part_name, state.waiting)),
        )


def _room(cycle: Cycle, job: Job, state: RuleState) -> tuple[Ints, int] | None:
    """How many pods of what a gang takes first each domain has room for, and how many these are; None without any."""
    needed = minimum_by_shape(demand(cycle, job))
    if not needed:
        return None
    inside = state.homes >= 0
    fits = np.zeros(int(state.homes.max()) + 1, dtype=np.int64)
    for shape, number in needed.items():
        rows = cycle.fit_counts.of(shape).rows(Pool.FUTURE_IDLE)[inside]
        fits += np.minimum(np.bincount(state.homes[inside], weights=rows, minlength=len(fits)), number).astype(np.int64)
    return fits, sum(needed.values())


def _domain_text(state: RuleState, domain: int, room: tuple[Ints, int] | None) -> str:
    """Why a domain is closed to a gang, else how much of the gang it has room for."""
    rule, number = state.rule, len(state.parts.get(domain, ()))
    if domain in state.closed and not rule.apart:
        return "closed: the set runs elsewhere"
    if domain in state.closed:
        limit = "which is the most" if rule.most else f"and up to {percent(rule.share)} of those that stand may"
        return f"closed: {count(number, 'part')} {verb(number, 'stands', 'stand')} there, {limit}"
    if room is None:
        return "open"
    fits, needed = int(room[0][domain]), room[1]
    if fits >= needed:
        return "open, with room for it"
    return f"open, and {of(fits, needed, 'pod', 'fits', 'fit')}"


def _rule_text(rule: SetRule) -> str:
    where = rule.constraint.where().removeprefix("one ")
    if rule.most:
        text = f"at most {count(rule.most, 'part')} in one {where}"
    elif rule.share:
        text = f"one part more in a {where} that has at most {percent(rule.share)} of those that stand"
    else:
        text = f"all parts in one {where}"
    return text if rule.constraint.hard else f"{text}, if possible"


def _part_name(part: str) -> str:
    """A part without its namespace: a gang by its name, a set by its path."""
    kind, _, path = part.partition(" ")
    name = path.partition("/")[2]
    return name if kind == "gang" else f"set {name}"


def set_lines(page: Page, views: Sequence[SetRuleView], *, indent: int = 2) -> list[Text]:
    """For people: each rule with its domains, those in which parts stand first."""
    lines: list[Text] = []
    lead = " " * indent
    for view in views:
        lines += wrapped(Text(f"set {view.set}: {view.text}"), page.width, first=lead, rest=lead + "  ")
        shown = view.domains if page.everything else view.domains[:_SHOWN]
        rows: list[list[Cell]] = [[domain.name, _parts_text(domain.parts), domain.text] for domain in shown]
        lines += table(page, [f"{view.tier}:8", "parts~12", "this gang~20"], rows)
        if len(view.domains) > len(shown):
            lines.append(Text(f"{lead}and {len(view.domains) - len(shown)} more; --all shows them"))
        if view.waiting:
            text = f"{count(len(view.waiting), 'part')} without a place: {_parts_text(view.waiting)}"
            lines += wrapped(Text(text), page.width, first=lead, rest=lead + "  ")
    return lines


def short_lines(page: Page, views: Sequence[SetRuleView], *, indent: int = 4) -> list[Text]:
    """For people, a line for each rule: which parts stand where, and how many of the other domains are open."""
    lead = " " * indent
    texts = (Text(_in_short(view), style="cyan") for view in views)
    return [line for text in texts for line in wrapped(text, page.width, first=lead, rest=lead + "  ")]


def _in_short(view: SetRuleView) -> str:
    occupied = [domain for domain in view.domains if domain.parts]
    where = joined([f"{_parts_text(domain.parts)} in {domain.name}" for domain in occupied[:_PARTS]])
    hidden_text = f" and parts in {len(occupied) - _PARTS} more" if len(occupied) > _PARTS else ""
    text = (
        f"set {view.set} ({view.text}): {where}{hidden_text}"
        if occupied
        else f"set {view.set} ({view.text}): nobody stands"
    )
    empty_domains = [domain for domain in view.domains if not domain.parts]
    for words in dict.fromkeys(domain.text for domain in empty_domains):
        names = compact((domain.name for domain in empty_domains if domain.text == words), limit=_PARTS)
        text += f"; {names} {words}"
    return text


def _parts_text(parts: Sequence[str]) -> str:
    if len(parts) <= _PARTS:
        return ", ".join(parts) if parts else "-"
    return f"{', '.join(parts[:_PARTS])} and {len(parts) - _PARTS} more"


def sets_wire(views: Sequence[SetRuleView]) -> Raw:
    """For programs: only where a gang has rules about its sets."""
    return {"sets": rules_wire(views)} if views else {}


def rules_wire(views: Sequence[SetRuleView]) -> list[Raw]:
    """Rules as JSON."""
    return [
        {
            "set": view.set,
            "rule": view.text,
            "tier": view.tier,
            "hard": view.constraint.hard,
            "domains": [
                {"hyperNode": domain.name, "parts": list(domain.parts), "open": domain.open, "message": domain.text}
                for domain in view.domains
            ],
            "waiting": list(view.waiting),
        }
        for view in views
    ]
