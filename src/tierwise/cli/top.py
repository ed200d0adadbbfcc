"""`tierwise top`: what is in use, and what is free for whom."""

from __future__ import annotations

import click

from tierwise.api.meta import read_number
from tierwise.cli import options

__all__ = ["top"]


def _sizes(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    sizes = value.split(",")
    if not all(number is not None and number > 0 for number in map(read_number, map(str.strip, sizes))):
        raise click.BadParameter(f'"{value}" is not a list of sizes such as 8,64', ctx, param)
    return tuple(sorted({int(size) for size in sizes}))


@click.command(
    epilog="""\b
Examples:
  kubectl tierwise top
  tierwise top -f cluster.yaml --gangs 8,64,256
  tierwise top -f cluster.yaml -o json | jq '.slots[] | select(.gang == 64)'
"""
)
@options.source
@click.option("--gangs", callback=_sizes, metavar="N,N,...", help="Sizes of gangs, in slots.  [default: 8,64,512]")
@options.now
@options.everything
@options.output
def top(
    filenames: tuple[str, ...], gangs: tuple[int, ...] | None, now: float | None, everything: bool, output_format: str
) -> None:
    """Show what is in use, how many gangs of which size would find room in each tier, and who holds how much.

    Looks at the state as it is, and schedules nothing. A slot is one accelerator, or one core where there are none.
    """
    from tierwise.cli.inputs import load, moment, tell_unread
    from tierwise.model.slots import SIZES
    from tierwise.snapshot.builder import build

    objects = load(filenames)
    if filenames:
        tell_unread(objects)
    snapshot = build(objects, moment(objects, now))
    if output_format == "json":
        from tierwise.cli.screen import print_json
        from tierwise.explain.text.top import top_wire

        print_json(top_wire(snapshot, gangs or SIZES))
    else:
        from tierwise.cli.screen import print_page
        from tierwise.explain.text.top import top_lines

        print_page(lambda page: top_lines(page, snapshot, gangs or SIZES), everything=everything)
