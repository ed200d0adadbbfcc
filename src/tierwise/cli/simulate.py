"""`tierwise simulate`: a trace on a virtual clock, under several profiles side by side."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec.structs import replace

from tierwise.api.errors import InputError
from tierwise.cli import options
from tierwise.cli.inputs import profile_of
from tierwise.cli.pages import opening, pages_options, play
from tierwise.replay.engine.checkpoint import load, save
from tierwise.replay.engine.contenders import BUILT_IN, Contender
from tierwise.replay.engine.failures import draw
from tierwise.replay.engine.rules import DURATIONS, STATED, Rules
from tierwise.replay.engine.run import Comparison, Replay
from tierwise.replay.shared_gpu.filling import Fillings
from tierwise.replay.shared_gpu.openb import WHOLE, is_openb, order, read_nodes, read_pods
from tierwise.replay.shared_gpu.policies import POLICIES, sharing
from tierwise.replay.traces.fabric import Fabric
from tierwise.replay.traces.queues import weighted_queues
from tierwise.replay.traces.readers import Table, read_fabric, read_table, read_trace
from tierwise.replay.traces.synthetic import PREFIX, synthetic_fabric, synthetic_trace
from tierwise.replay.traces.trace import Trace

if TYPE_CHECKING:
    from tierwise.web.recording import Recording

__all__ = ["SimulateOptions", "comparison", "drive", "fillings", "shared_nodes", "simulate", "watching"]


# How far a run is: what is done and how fast, on standard error, only on a terminal.


_EVERY = 0.2


@contextmanager
def watching(run: Replay) -> Iterator[Callable[[], None]]:
    """Yields a function that is called at every step; it draws a few times a second, or never."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bars = {name: progress.add_task(name, total=run.total, told="") for name in run.names}
        yield _Drawer(run, progress.update, bars)


class _Drawer:
    """Tells a bar where its contender is, and how fast it has gone since it was told last."""

    def __init__(self, run: Replay, update: Callable[..., None], bars: Mapping[str, object]) -> None:
        self._run, self._update, self._bars = run, update, bars
        self._drawn, self._done = time.monotonic(), 0

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._drawn < _EVERY:
            return
        at = self._run.progress()
        speed = max(0, at.done - self._done) / (now - self._drawn)
        self._drawn, self._done = now, at.done
        self._update(self._bars[at.name], completed=at.done, told=f"{at.told}, {speed:,.0f}/s")


# What `tierwise simulate` is to replay: files and options become contenders on a trace, or policies on shared GPUs.


class SimulateOptions(msgspec.Struct, frozen=True):
    """Options as they were given; times are seconds."""

    topology: str
    trace: str
    profiles: tuple[str, ...]
    gpus_per_host: int
    load: float | None
    jobs: int | None
    queues: str | None
    between_failures: float
    repair: float
    spares: int = 1


def shared_nodes(topology: str) -> Table | None:
    """The table of nodes where GPUs are shared; None for a fabric of hosts and switches."""
    if topology.startswith(PREFIX):
        return None
    table = read_table(topology)
    return table if is_openb(table) else None


def comparison(asked: SimulateOptions, rules: Rules, checkpoint: str | None, *, record: bool = False) -> Comparison:
    """Contenders on a trace; with `record` what happens is kept to be played."""
    if checkpoint and rules.controllers:
        raise InputError("a replay through the controllers cannot be interrupted and go on", field="--checkpoint")
    fabric, trace = _fabric(asked), _trace(asked, rules.seed)
    trace = trace.first(asked.jobs) if asked.jobs else trace
    trace = trace.at_load(asked.load, fabric.gpus) if asked.load else trace
    hosts, between, repair = fabric.nodes.names, asked.between_failures, asked.repair
    incidents = draw(hosts, trace.span, between=between, repair=repair, seed=rules.seed)
    queues = weighted_queues(asked.queues, trace, fabric) if asked.queues else ()
    contenders = [_contender(name, rules.seed) for name in dict.fromkeys(asked.profiles)]
    contenders = [c.with_spares(asked.spares) if c.spares else c for c in contenders]
    if rules.controllers and any(contender.replaces for contender in contenders):
        raise InputError("jobs that go through controllers restart as a whole: leave out repair", field="--profile")
    return Comparison(fabric, trace, contenders, replace(rules, incidents=incidents, queues=queues), record=record)


def fillings(asked: SimulateOptions, nodes: Table, seed: int) -> Fillings:
    """Policies on nodes whose GPUs are shared."""
    names, empty = read_nodes(nodes)
    pods = read_pods(read_table(asked.trace))
    gpus = int(empty.left.sum()) // WHOLE
    arriving = order(pods, asked.load or 1.0, gpus, seed)
    policies = {
        name if name in POLICIES else Path(name).stem: POLICIES.get(name) or sharing(profile_of(_file(name, POLICIES)))
        for name in asked.profiles
    }
    return Fillings(names, empty, pods, arriving[: asked.jobs], policies)


def _fabric(asked: SimulateOptions) -> Fabric:
    read = synthetic_fabric if asked.topology.startswith(PREFIX) else read_fabric
    return read(asked.topology, asked.gpus_per_host)


def _trace(asked: SimulateOptions, seed: int) -> Trace:
    return synthetic_trace(asked.trace, seed) if asked.trace.startswith(PREFIX) else read_trace(asked.trace)


def _contender(name: str, seed: int) -> Contender:
    """One by its name, else the profile of a configuration file."""
    if name in BUILT_IN:
        return BUILT_IN[name](seed)
    return Contender(Path(name).stem, profile_of(_file(name, BUILT_IN)))


def _file(name: str, known: Iterable[str]) -> str:
    if not Path(name).exists():
        raise InputError(f"{name} is neither a file nor one of {', '.join(known)}", field="--profile")
    return name


# Driving a run of `tierwise simulate`: progress on the screen, checkpoints now and then, and Ctrl-C as a wish.


_KEPT_EVERY = 60.0
"""Seconds between checkpoints."""


def drive(run: Replay, file: str | None) -> bool:
    """Run to the end, keeping checkpoints in a file; whether it got there."""
    point = load(file, run.digest) if file else None
    if point is not None:
        run.resume(point)
    stop = _Stop()
    before = signal.signal(signal.SIGINT, stop)
    kept = time.monotonic()
    try:
        with watching(run) as look:
            for _ in run.run():
                look()
                if stop.asked:
                    break
                if file and time.monotonic() - kept > _KEPT_EVERY:
                    save(file, run.checkpoint())
                    kept = time.monotonic()
    finally:
        signal.signal(signal.SIGINT, before)
    if file:
        save(file, run.checkpoint())
    return not stop.asked


class _Stop:
    """Ctrl-C is a wish: the run ends after the moment at hand, when its state is whole."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked = True


@click.command(
    epilog="""\b
Examples:
  tierwise simulate --topology synthetic:spines=4 --trace synthetic:jobs=2000 --profile default --profile best-fit
  tierwise simulate --topology lingjun_topology.csv --trace philly_jobs.csv --load 0.9 \\
      --profile default --profile propose --profile best-fit --profile random --html report.html
  tierwise simulate --topology synthetic:spines=2 --trace synthetic:jobs=500 --profile default --serve
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
    help="default, propose, patient, easy, conservative, repair, spares, best-fit, random, or a configuration file. "
    "[default: default]",
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
@click.option(
    "--repair",
    "--mttr",
    type=click.FloatRange(0),
    default=4.0,
    show_default=True,
    help="Mean hours until it is back.",
)
@click.option(
    "--restart-cost",
    type=click.FloatRange(0),
    default=600.0,
    show_default=True,
    help="Seconds of work that a stopped gang repeats.",
)
@click.option(
    "--checkpoint-interval",
    type=click.FloatRange(0),
    default=0.0,
    help="Seconds of work between two checkpoints of a gang: what comes after the last is repeated too.  [default: 0]",
)
@click.option(
    "--spares", type=click.IntRange(0), default=1, show_default=True, help="Spares of each gang with profile spares."
)
@click.option(
    "--durations",
    type=click.Choice(DURATIONS),
    default=STATED,
    show_default=True,
    help="What profiles with reservations know of durations: the true ones, those of ended jobs, or nothing.",
)
@click.option(
    "--calibrate-eta",
    type=click.IntRange(1),
    metavar="N",
    help="Instead, ask about N jobs while they wait, and count the starts inside the stated ranges.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--checkpoint", metavar="FILE", help="Keep the state here; an interrupted run goes on from it.")
@click.option("--html", metavar="FILE", help="Write a report with plots, one file.")
@pages_options
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
    checkpoint_interval: float,
    spares: int,
    durations: str,
    calibrate_eta: int | None,
    seed: int,
    checkpoint: str | None,
    html: str | None,
    served: bool,
    listen: tuple[str, int] | None,
    names: tuple[str, ...],
    output_format: str,
) -> None:
    """Replay a trace of jobs on a virtual clock, with the same cycle that schedules a cluster.

    The same inputs and seed print the same bytes. Ctrl-C stops at the next moment; with --checkpoint the same command
    goes on from there.

    Where --topology lists nodes with parts of GPUs to share (openb's columns), pods arrive and stay until they ask for
    the --load of all GPUs (1), and what is allocated then is shown; profiles are fragmentation, stranding, best-fit,
    or a configuration file.
    """
    rules = Rules(period, look_ahead, restart_cost, seed, controllers=through == "controllers", durations=durations)
    rules = replace(rules, checkpoint_interval=checkpoint_interval)
    asked = SimulateOptions(topology, trace, profiles, gpus_per_host, load, jobs, queues, 3600 * mtbf, 3600 * repair)
    asked = replace(asked, spares=spares)
    if calibrate_eta is not None:
        _calibrate(asked, rules, calibrate_eta, output_format)
        return
    nodes = shared_nodes(topology)
    if served and (checkpoint or nodes is not None):
        raise click.UsageError("--serve plays a whole run of gangs: it goes neither with --checkpoint nor shared GPUs")
    opened = opening(listen, names) if served else None
    run = fillings(asked, nodes, seed) if nodes is not None else comparison(asked, rules, checkpoint, record=served)
    if not drive(run, checkpoint):
        then = f"the same command goes on from {checkpoint}" if checkpoint else "with --checkpoint it could go on"
        click.echo(f"tierwise: stopped; {then}", err=True)
        ctx.exit(130)
    _show(run.results(), html, output_format, shared=nodes is not None, command=_command(ctx))
    if opened is not None and isinstance(run, Comparison):
        sys.stdout.flush()
        play(_recordings(run), opened)


def _recordings(run: Comparison) -> dict[str, Recording]:
    """What happened under each profile, to be played."""
    from tierwise.web.replayed import ReplayRecording

    return {
        contender.name: ReplayRecording(run.fabric, run.trace, contender, run.rules, log)
        for contender, log in zip(run.contenders, run.logs, strict=True)
    }


def _calibrate(asked: SimulateOptions, rules: Rules, asks: int, output_format: str) -> None:
    """Forecasts of starts against what happened, for every profile."""
    from tierwise.cli.progress import show_progress
    from tierwise.cli.screen import print_json, print_page
    from tierwise.replay.engine.calibration import Asked, calibrate, calibration_wire
    from tierwise.replay.report.table import calibration_lines

    if rules.controllers or shared_nodes(asked.topology) is not None:
        raise InputError("starts are forecast in replays of jobs through the cycle alone", field="--calibrate-eta")
    run = comparison(asked, rules, None)
    found = []
    for contender in run.contenders:
        with show_progress(f"asking about jobs under {contender.name}", asks) as progress:
            told: list[Asked] = []
            for told in calibrate(run.fabric, run.trace, contender, run.rules, asks=asks):
                progress(len(told))
        found.append(calibration_wire(contender.name, told))
    if output_format == "json":
        print_json({"seed": rules.seed, "calibration": found})
    else:
        print_page(lambda page: calibration_lines(page, found))


_ASIDE = ("checkpoint", "html", "served", "listen", "names", "output_format")
"""Options that change where the results go, and not what they are."""


def _command(ctx: click.Context) -> str:
    """The command that gives the same results, with the options that are not as they come."""
    words = ["tierwise", "simulate"]
    for param in ctx.command.params:
        value = ctx.params.get(str(param.name))
        if param.name in _ASIDE or value in (None, ()) or value == param.get_default(ctx):
            continue
        for one in value if isinstance(value, tuple) else (value,):
            words += [param.opts[0], f"{one:g}" if isinstance(one, float) else str(one)]
    return shlex.join(words)


def _show(results: dict[str, object], html: str | None, output_format: str, *, shared: bool, command: str) -> None:
    """Write the report where it is wanted, and print the numbers."""
    from tierwise.cli.screen import print_json, print_page
    from tierwise.replay.report.html import report
    from tierwise.replay.report.table import lines
    from tierwise.replay.shared_gpu.report import filling_lines, filling_report

    if html:
        from pathlib import Path

        Path(html).write_text((filling_report if shared else report)(results, command), encoding="utf-8")
    if output_format == "json":
        print_json(results)
    else:
        print_page(lambda page: (filling_lines if shared else lines)(page, results, command))
