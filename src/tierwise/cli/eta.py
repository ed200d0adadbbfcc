"""`tierwise eta`: the place of waiting jobs in their queues, and when they are expected to start."""

from __future__ import annotations

import click

from tierwise.cli import options

__all__ = ["eta"]


@click.command(
    epilog="""\b
Examples:
  tierwise eta -f cluster.yaml -f jobs.yaml
  tierwise eta -f state.json team-a/train team-a/eval
  kubectl tierwise eta team-a/train
  kubectl tierwise eta -o json | jq '.jobs[] | {podGroup, position, start, range90}'
"""
)
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@options.source
@options.config
@options.now
@click.option("--runs", type=click.IntRange(1, 1001), help="Runs ahead where ends are uncertain.  [default: 21]")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the ends that runs draw.")
@options.everything
@options.output
def eta(
    jobs: tuple[str, ...],
    filenames: tuple[str, ...],
    config_file: str | None,
    now: float | None,
    runs: int | None,
    seed: int,
    everything: bool,
    output_format: str,
) -> None:
    """Say when the JOBs that wait, or all of them, are expected to start, and what that depends on.

    Runs the scheduler's cycle ahead on a virtual clock, with the expected ends of jobs: as stated
    (tierwise.io/expected-duration), by their queue, by the history of like jobs, or by their deadline. With a JOB it
    also says what would start it now. The same inputs and seed print the same bytes.
    """
    from tierwise.cli.inputs import introduce, load, moment, profile_of
    from tierwise.cli.progress import show_progress
    from tierwise.cli.screen import print_json, print_page
    from tierwise.explain.eta import etas_wire
    from tierwise.explain.text.eta import eta_lines
    from tierwise.sim.forecast.eta import RUNS, etas

    profile = profile_of(config_file)
    objects = load(filenames)
    if filenames:
        introduce(objects)
    with show_progress("running ahead"):
        report = etas(
            objects,
            profile,
            moment(objects, now),
            names=jobs,
            runs=RUNS if runs is None else runs,
            seed=seed,
            alternatives=bool(jobs),
        )
    if output_format == "json":
        print_json(etas_wire(report))
    else:
        print_page(lambda page: eta_lines(page, report, each=bool(jobs)), everything=everything)
