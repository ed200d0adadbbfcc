"""`tierwise schedule`: load, run controllers and scheduler until nothing changes, show what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tierwise.cli import options

if TYPE_CHECKING:
    from tierwise.config.profile import Profile
    from tierwise.model.snapshot import Snapshot
    from tierwise.sim.cluster.rounds import Rounds

__all__ = ["schedule"]


@click.command(
    epilog="""\b
Examples:
  tierwise schedule -f examples/01-llm-training
  tierwise schedule -f cluster.yaml -f job.yaml --config volcano-scheduler.conf
  kubectl get nodes,pods,podgroups,hypernodes,queues -A -o json | tierwise schedule -f - -o json
"""
)
@options.filenames
@options.config
@options.cycles
@options.now
@options.everything
@options.output
def schedule(
    filenames: tuple[str, ...],
    config_file: str | None,
    cycles: int | None,
    now: float | None,
    everything: bool,
    output_format: str,
) -> None:
    """Place the pending pods of the manifests, and show where they went, why there, and why others wait.

    The manifests are loaded into a cluster in memory. Its controllers make the pods of Volcano jobs, the scheduler
    places them gang by gang, and this repeats until nothing changes any more. Nothing outside is touched.
    """
    from tierwise.cli.inputs import introduce, load, moment, profile_of
    from tierwise.cli.progress import show_progress
    from tierwise.sim.cluster import rounds

    profile = profile_of(config_file)
    objects = load(filenames)
    introduce(objects)
    time = moment(objects, now)
    with show_progress("scheduling", cycles) as progress:
        history = rounds.schedule(objects, profile, now=time, cycles=cycles, progress=progress)
        after = history.after(time)
    if output_format == "json":
        _json(history, after)
    else:
        _text(history, after, profile, everything=everything)


def _json(history: Rounds, after: Snapshot) -> None:
    from tierwise.cli.screen import print_json
    from tierwise.explain.wire import schedule_wire

    _, report = history.reports[-1]
    print_json(
        schedule_wire(
            bindings=history.bindings,
            nominations=history.nominations,
            evictions=history.evictions,
            report=report,
            after=after,
            complaints=history.complaints(),
        )
    )


def _text(history: Rounds, after: Snapshot, profile: Profile, *, everything: bool) -> None:
    from tierwise.cli.screen import print_page
    from tierwise.explain.text.schedule import Run, schedule_lines

    run = Run(history.reports, after, profile, history.evictions, history.complaints())
    print_page(lambda page: schedule_lines(page, run), everything=everything)
