"""`tierwise top`: what is in use, and what is free for which gangs."""

from __future__ import annotations

from tierwise.api.core import read_number
from tierwise.cli import options
from tierwise.cli.inputs import Source, moment, tell_unread
from tierwise.cli.options import ListOutput, option, verb

__all__ = ["top"]


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
    now: float | None = options.now,
    output: ListOutput,
) -> None:
    """Show what is in use, how many gangs of which size would find room in each tier, and who holds how much.

    Looks at the state as it is, and schedules nothing. A slot is one accelerator, or one core where there are none.
    """
    from tierwise.explain.naming import full_name
    from tierwise.explain.text.top import top_lines, top_wire
    from tierwise.model.slots import SIZES
    from tierwise.snapshot.builder import build

    objects = source.objects(tell_unread)
    snapshot = build(objects, moment(objects, now))
    sizes = gangs or SIZES
    output.show(
        lambda: top_wire(snapshot, sizes),
        lambda page: top_lines(page, snapshot, sizes),
        lambda: [f"podgroup/{full_name(job)}" for job in snapshot.jobs if job.declared],
    )
