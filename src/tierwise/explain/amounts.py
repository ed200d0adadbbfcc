"""Amounts that domains share, such as power: how much there is, and how much the pods there take.

For `topology show`. Equal snapshot and profile give equal answers.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.domain_amounts import AmountEntry, read_amounts, shown
from tierwise.config.profile import Profile
from tierwise.explain.page import Page, Text, wrapped
from tierwise.explain.tables import Cell, table
from tierwise.model.snapshot import Snapshot
from tierwise.plugins.amounts import shared_amounts, taken_now, unused_tiers

__all__ = ["amount_lines", "amounts_wire"]

_SHOWN = 40
"""Domains that people see without `--all`."""


class AmountView(msgspec.Struct, frozen=True):
    """An amount of one domain, in thousandths."""

    name: str
    tier: str
    domain: str
    used: int
    limit: int


def _entries(profile: Profile) -> tuple[AmountEntry, ...]:
    """The amounts that a profile gives."""
    lists = (choice.arguments.get("amounts") for choice in profile.plugins() if choice.name == "amounts")
    return read_amounts(next(lists, None))


def _views(snapshot: Snapshot, profile: Profile) -> Iterator[AmountView]:
    for shared in shared_amounts(snapshot, _entries(profile)):
        used = taken_now(shared, snapshot)
        for i, domain in enumerate(shared.domains):
            yield AmountView(shared.name, shared.tier, domain, int(used[i]), int(shared.limits[i]))


def amount_lines(page: Page, snapshot: Snapshot, profile: Profile) -> list[Text]:
    """For people: each domain with an amount, and tiers of the profile that there are not."""
    rows: list[list[Cell]] = []
    for view in _views(snapshot, profile):
        text = f"{shown(view.used)} of {shown(view.limit)}"
        over = Text(f"{text}: more than there is", style="red") if view.used > view.limit else Text(text)
        rows.append([view.name, view.tier, view.domain, over])
    lines = table(page, ["amount:8", "tier:8", "domain:12", "taken~16"], rows, most=_SHOWN)
    for name, tier in unused_tiers(snapshot, _entries(profile)):
        text = f"{name}: {tier} is neither a tier nor a label that some node has"
        lines += wrapped(Text(text, style="yellow"), page.width)
    return lines


def amounts_wire(snapshot: Snapshot, profile: Profile) -> Raw:
    """For programs: only where some domain has an amount."""
    views = [*_views(snapshot, profile)]
    if not views:
        return {}
    return {
        "amounts": [
            {"name": v.name, "tier": v.tier, "domain": v.domain, "taken": shown(v.used), "amount": shown(v.limit)}
            for v in views
        ]
    }
