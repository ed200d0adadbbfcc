"""`tierwise top`: what is in use, and what is free for which gangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierwise.api.core import read_number
from tierwise.cli import options
from tierwise.cli.inputs import Source, moment, profile_of, tell_unread
from tierwise.cli.options import ListOutput, option, verb

if TYPE_CHECKING:
    from tierwise.model.snapshot import Snapshot

__all__ = ["top"]


def _may_keep(snapshot: Snapshot) -> bool:
    """Whether there is a job that anything could be kept idle for."""
    return bool(snapshot.waiting) or any(job.repair is not None and job.repair.spares for job in snapshot.jobs)


def _sizes(text: str) -> tuple[int, ...]:
    sizes = text.split(",")
    if not all(number is not None and number > 0 for number in map(read_number, map(str.strip, sizes))):
        raise ValueError(f'"{text}" is not a list of sizes such as 8,64')
    return tuple(sorted({int(size) for size in sizes}))


@verb("""
  kubectl tierwise top
  tierwise top -f cluster.yaml --gangs 8,64,256
  tierwise top -f cluster.yaml -o json | jq '.slots[] | select(.gang == 64)'
""")
def top(
    *,
    source: Source,
    gangs: tuple[int, ...] | None = option(
        "--gangs N,N,...", "Sizes of gangs, in slots.  [default: 8,64,512]", read=_sizes
    ),
    config: str | None = options.config,
    now: float | None = options.now,
    output: ListOutput,
) -> None:
    """Show what is in use, how many gangs of which size would find room in each tier, and who holds how much.

    Looks at the state as it is. What is kept idle for jobs (reservations, declined places, spares, nominations) is what
    a cycle with this configuration would keep now. A slot is one accelerator, or one core where there are none.
    """
    from tierwise.explain.fair_shares import fair_shares_wire, share_lines
    from tierwise.explain.idle_room import idle_room_wire
    from tierwise.explain.naming import full_name
    from tierwise.explain.text.top import top_lines, top_wire
    from tierwise.model.slots import SIZES
    from tierwise.scheduler import cycle
    from tierwise.snapshot.builder import build

    objects = source.objects(tell_unread)
    profile = profile_of(config)
    snapshot = build(objects, moment(objects, now), profile)
    report = cycle(snapshot, profile) if _may_keep(snapshot) or snapshot.usage_memory is not None else None
    shares = fair_shares_wire(report.turns.usage.standings) if report is not None else []
    idle = [
        {"namespace": namespace_room["namespace"], "queue": namespace_room["queue"], "nodes": namespace_room["nodes"]}
        for namespace_room in (idle_room_wire(report) if report is not None else ())
    ]
    sizes = gangs or SIZES
    output.show(
        lambda: {**top_wire(snapshot, sizes, idle), **({"shares": shares} if shares else {})},
        lambda page: [*top_lines(page, snapshot, sizes, idle), *share_lines(page, shares)],
        lambda: [f"podgroup/{full_name(job)}" for job in snapshot.jobs if job.declared],
    )
