"""`tierwise defrag`: which pods to move so that a gang fits inside one domain."""

from __future__ import annotations

import click

from tierwise.cli import options

__all__ = ["defrag"]


@click.command(
    epilog="""\b
Examples:
  tierwise defrag -f state.json --for nvidia.com/gpu=8x16@rack
  tierwise defrag -f state.json --for 8x4@1 -o json
  kubectl tierwise defrag --for nvidia.com/gpu=8,cpu=64x32@spine
""",
)
@options.source
@options.config
@options.now
@click.option(
    "--for",
    "room",
    required=True,
    metavar="SHAPExPODS@TIER",
    help="The room to open: what a pod asks for, how many pods, and the tier of the domain (number, name or cluster).",
)
@options.output
def defrag(
    filenames: tuple[str, ...], config_file: str | None, now: float | None, room: str, output_format: str
) -> None:
    """Plan which running pods to move so that a gang fits inside one domain.

    The plan moves as few pods as possible, and every moved pod has a place, found by the scheduler itself, before its
    job is touched. Disruption budgets and minimum run times are kept. Nothing is executed.
    """
    from tierwise.cli.inputs import introduce, load, moment, profile_of
    from tierwise.cli.progress import show_progress
    from tierwise.cli.screen import print_json, print_page
    from tierwise.explain.defrag import plan_wire
    from tierwise.explain.text.defrag import defrag_lines
    from tierwise.sim.defrag import defrag as plan_of
    from tierwise.sim.what_if import prepared

    profile = profile_of(config_file)
    objects = load(filenames)
    if filenames:
        introduce(objects)
    with show_progress("planning"):
        plan = plan_of(prepared(objects, profile, moment(objects, now)), room)
    if output_format == "json":
        print_json(plan_wire(plan))
    else:
        print_page(lambda page: defrag_lines(page, plan))
