"""`tierwise simulate`: a trace on a virtual clock, under several profiles side by side."""

from __future__ import annotations

import click

from tierwise.cli import options

__all__ = ["simulate"]


@click.command(
    epilog="""\b
Examples:
  tierwise simulate --topology synthetic:spines=4 --trace synthetic:jobs=2000 --profile default --profile best-fit
  tierwise simulate --topology lingjun_topology.csv --trace philly_jobs.csv --load 0.9 \\
      --profile default --profile propose --profile best-fit --profile random --html report.html
  tierwise simulate --topology fabric.csv --trace jobs.csv --checkpoint run.json -o json
"""
)
@click.option(
    "--topology", required=True, metavar="FILE", help="CSV of hosts and their switches, or synthetic:NUMBERS."
)
@click.option("--trace", required=True, metavar="FILE", help="CSV of jobs (Philly's columns), or synthetic:NUMBERS.")
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    default=("default",),
    metavar="NAME",
    help="default, propose, patient, best-fit, random, or a configuration file. May be repeated.  [default: default]",
)
@click.option("--gpus-per-host", type=click.IntRange(1, 64), default=8, show_default=True)
@click.option(
    "--load", type=click.FloatRange(0, min_open=True), help="Draw arrivals together to offer this share of the GPUs."
)
@click.option("--jobs", type=click.IntRange(1), help="Only the first so many jobs.")
@click.option(
    "--queues",
    metavar="HOW",
    help="Queues of the trace, by what they deserve: share (of its GPU time), equal, or NAME=WEIGHT,...  "
    "[default: one queue]",
)
@click.option(
    "--through",
    type=click.Choice(["cycle", "controllers"]),
    default="cycle",
    show_default=True,
    help="Call the scheduler's cycle, or live through it with controllers and kubelets: slower by far.",
)
@click.option("--period", type=click.FloatRange(0), default=10.0, show_default=True, help="Seconds that share a cycle.")
@click.option(
    "--look-ahead", type=click.IntRange(1), default=64, show_default=True, help="Waiting gangs that a cycle sees."
)
@click.option(
    "--mtbf", type=click.FloatRange(0), default=0.0, help="Mean hours between failures of a host.  [default: none fail]"
)
@click.option("--repair", type=click.FloatRange(0), default=4.0, show_default=True, help="Mean hours until it is back.")
@click.option(
    "--restart-cost",
    type=click.FloatRange(0),
    default=600.0,
    show_default=True,
    help="Seconds of work that a stopped gang repeats.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--checkpoint", metavar="FILE", help="Keep the state here; an interrupted run goes on from it.")
@click.option("--html", metavar="FILE", help="Write a report with plots, one file.")
@options.output
@click.pass_context
def simulate(
    ctx: click.Context,
    topology: str,
    trace: str,
    profiles: tuple[str, ...],
    gpus_per_host: int,
    load: float | None,
    jobs: int | None,
    queues: str | None,
    through: str,
    period: float,
    look_ahead: int,
    mtbf: float,
    repair: float,
    restart_cost: float,
    seed: int,
    checkpoint: str | None,
    html: str | None,
    output_format: str,
) -> None:
    """Replay a trace of jobs on a virtual clock, with the same cycle that schedules a cluster.

    The same inputs and seed print the same bytes. Ctrl-C stops at the next moment; with --checkpoint the same command
    goes on from there.

    Where --topology lists nodes with parts of GPUs to share (openb's columns), pods arrive and stay until they ask for
    the --load of all GPUs (1), and what is allocated then is shown; profiles are fragmentation, stranding, best-fit,
    or a configuration file.
    """
    from tierwise.cli.simulate_drive import drive
    from tierwise.cli.simulate_inputs import Asked, comparison, fillings, shared_nodes
    from tierwise.replay.rules import Rules

    rules = Rules(period, look_ahead, restart_cost, seed, controllers=through == "controllers")
    asked = Asked(topology, trace, profiles, gpus_per_host, load, jobs, queues, 3600 * mtbf, 3600 * repair)
    nodes = shared_nodes(topology)
    run = fillings(asked, nodes, seed) if nodes is not None else comparison(asked, rules, checkpoint)
    if not drive(run, checkpoint):
        then = f"the same command goes on from {checkpoint}" if checkpoint else "with --checkpoint it could go on"
        click.echo(f"tierwise: stopped; {then}", err=True)
        ctx.exit(130)
    _show(run.results(), html, output_format, shared=nodes is not None)


def _show(results: dict[str, object], html: str | None, output_format: str, *, shared: bool) -> None:
    """Write the report where it is wanted, and print the numbers."""
    from tierwise.cli.screen import print_json, print_page
    from tierwise.replay.filling_report import filling_lines, filling_report
    from tierwise.replay.html import report
    from tierwise.replay.page import lines

    if html:
        from pathlib import Path

        Path(html).write_text((filling_report if shared else report)(results), encoding="utf-8")
    if output_format == "json":
        print_json(results)
    else:
        print_page(lambda page: (filling_lines if shared else lines)(page, results))
