"""`tierwise simulate`: a trace on a virtual clock, under several profiles side by side."""

from __future__ import annotations

import signal
from types import FrameType
from typing import TYPE_CHECKING

import click

from tierwise.api.errors import InputError
from tierwise.cli import options

if TYPE_CHECKING:
    from tierwise.replay.contenders import Contender
    from tierwise.replay.fabric import Fabric
    from tierwise.replay.run import Comparison
    from tierwise.replay.trace import Trace

__all__ = ["simulate"]

_KEPT_EVERY = 60.0
"""Seconds between checkpoints."""


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
    the --load of all GPUs (1), and what is allocated then is shown; profiles are
    fragmentation, stranding and best-fit.
    """
    from tierwise.replay.synthetic import PREFIX

    if not topology.startswith(PREFIX):
        from tierwise.replay.openb import is_openb
        from tierwise.replay.readers import read_table

        if is_openb(nodes := read_table(topology)):
            from tierwise.cli.simulate_filling import fill

            fill(nodes, trace, profiles, load=load or 1.0, seed=seed, output_format=output_format)
            return
    from tierwise.replay.incidents import draw
    from tierwise.replay.queues import weighted_queues
    from tierwise.replay.rules import Rules
    from tierwise.replay.run import Comparison

    where = _fabric(topology, gpus_per_host)
    what = _trace(trace, seed)
    what = what.first(jobs) if jobs else what
    what = what.at_load(load, where.gpus) if load else what
    incidents = draw(len(where.nodes), what.span, between=3600 * mtbf, repair=3600 * repair, seed=seed)
    if checkpoint and through == "controllers":
        raise InputError("a replay through the controllers cannot be interrupted and go on", field="--checkpoint")
    deserved = weighted_queues(queues, what, where) if queues else ()
    rules = Rules(period, look_ahead, restart_cost, seed, incidents, through == "controllers", deserved)
    comparison = Comparison(where, what, [_contender(name, seed) for name in dict.fromkeys(profiles)], rules)
    if not _drive(comparison, checkpoint):
        then = f"the same command goes on from {checkpoint}" if checkpoint else "with --checkpoint it could go on"
        click.echo(f"tierwise: stopped; {then}", err=True)
        ctx.exit(130)
    results = comparison.results()
    if html:
        from pathlib import Path

        from tierwise.replay.html import report

        Path(html).write_text(report(results), encoding="utf-8")
    if output_format == "json":
        from tierwise.cli.screen import print_json

        print_json(results)
    else:
        from tierwise.cli.screen import print_page
        from tierwise.replay.page import lines

        print_page(lambda page: lines(page, results))


def _fabric(text: str, gpus_per_host: int) -> Fabric:
    from tierwise.replay.readers import read_fabric
    from tierwise.replay.synthetic import PREFIX, synthetic_fabric

    return synthetic_fabric(text, gpus_per_host) if text.startswith(PREFIX) else read_fabric(text, gpus_per_host)


def _trace(text: str, seed: int) -> Trace:
    from tierwise.replay.readers import read_trace
    from tierwise.replay.synthetic import PREFIX, synthetic_trace

    return synthetic_trace(text, seed) if text.startswith(PREFIX) else read_trace(text)


def _contender(name: str, seed: int) -> Contender:
    """One by its name, else the profile of a configuration file."""
    from pathlib import Path

    from tierwise.cli.inputs import profile_of
    from tierwise.replay.contenders import BUILT_IN, Contender

    if name in BUILT_IN:
        return BUILT_IN[name](seed)
    if not Path(name).exists():
        raise InputError(f"{name} is neither a file nor one of {', '.join(BUILT_IN)}", field="--profile")
    return Contender(Path(name).stem, profile_of(name))


def _drive(comparison: Comparison, file: str | None) -> bool:
    """Run to the end, keeping checkpoints; whether it got there."""
    import time

    from tierwise.cli.simulate_progress import watching
    from tierwise.replay.checkpoint import load, save

    point = load(file, comparison.digest) if file else None
    if point is not None:
        comparison.resume(point)
    stop = _Stop()
    before = signal.signal(signal.SIGINT, stop)
    kept = time.monotonic()
    try:
        with watching(comparison) as progress:
            for engine in comparison.run():
                progress(engine)
                if stop.asked:
                    break
                if file and time.monotonic() - kept > _KEPT_EVERY:
                    save(file, comparison.checkpoint())
                    kept = time.monotonic()
    finally:
        signal.signal(signal.SIGINT, before)
    if file:
        save(file, comparison.checkpoint())
    return not stop.asked


class _Stop:
    """Ctrl-C is a wish: the replay ends after the moment at hand, when its state is whole."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked = True
