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
from tierwise.cli.inputs import profile_of
from tierwise.cli.options import Format, option, verb
from tierwise.cli.pages import Played, play
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


class SimulateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is replayed, and by which rules."""

    topology: str = option("--topology FILE", "CSV of hosts and their switches, or synthetic:NUMBERS.")
    trace: str = option("--trace FILE", "CSV of jobs (Philly's columns), or synthetic:NUMBERS.")
    profiles: tuple[str, ...] = option(
        "--profile NAME",
        "default, propose, patient, easy, conservative, repair, spares, best-fit, random, or a configuration file. "
        "[default: default]",
        default=("default",),
    )
    gpus_per_host: int = option("--gpus-per-host", default=8, least=1, most=64)
    load: float | None = option("--load", "Draw arrivals together to offer this share of the GPUs.", above=0)
    jobs: int | None = option("--jobs", "Only the first so many jobs.", least=1)
    queues: str | None = option(
        "--queues HOW",
        "Queues of the trace, by what they deserve: share (of its GPU time), equal, or NAME=WEIGHT,...  "
        "[default: one queue]",
    )
    through: str = option(
        "--through",
        "Call the scheduler's cycle, or live through it with controllers and kubelets: slower by far.",
        choices=("cycle", "controllers"),
        default="cycle",
    )
    period: float = option("--period", "Seconds that share a cycle.", default=10.0, least=0)
    look_ahead: int = option("--look-ahead", "Waiting gangs that a cycle sees.", default=64, least=1)
    mtbf: float = option("--mtbf", "Mean hours between failures of a host.  [default: none fail]", default=0.0, least=0)
    repair: float = option("--repair --mttr", "Mean hours until it is back.", default=4.0, least=0)
    restart_cost: float = option(
        "--restart-cost", "Seconds of work that a stopped gang repeats.", default=600.0, least=0
    )
    checkpoint_interval: float = option(
        "--checkpoint-interval",
        "Seconds of work between two checkpoints of a gang: what comes after the last is repeated too.  [default: 0]",
        default=0.0,
        least=0,
    )
    spares: int = option("--spares", "Spares of each gang with profile spares.", default=1, least=0)
    durations: str = option(
        "--durations",
        "What profiles with reservations know of durations: the true ones, those of ended jobs, or nothing.",
        choices=DURATIONS,
        default=STATED,
    )

    def rules(self, seed: int) -> Rules:
        """The rules of a replay, without incidents and queues: they come with the trace."""
        return Rules(
            self.period,
            self.look_ahead,
            self.restart_cost,
            seed,
            controllers=self.through == "controllers",
            durations=self.durations,
            checkpoint_interval=self.checkpoint_interval,
        )


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
    between, repair = 3600 * asked.mtbf, 3600 * asked.repair
    incidents = draw(fabric.nodes.names, trace.span, between=between, repair=repair, seed=rules.seed)
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


@verb("""
  tierwise simulate --topology synthetic:spines=4 --trace synthetic:jobs=2000 --profile default --profile best-fit
  tierwise simulate --topology lingjun_topology.csv --trace philly_jobs.csv --load 0.9 \\
      --profile default --profile propose --profile best-fit --profile random --html report.html
  tierwise simulate --topology synthetic:spines=2 --trace synthetic:jobs=500 --profile default --serve
  tierwise simulate --topology fabric.csv --trace jobs.csv --checkpoint run.json -o json
""")
def simulate(
    *,
    asked: SimulateOptions,
    calibrate_eta: int | None = option(
        "--calibrate-eta N",
        "Instead, ask about N jobs while they wait, and count the starts inside the stated ranges.",
        least=1,
    ),
    seed: int = option("--seed", default=1, least=0),
    checkpoint: str | None = option("--checkpoint FILE", "Keep the state here; an interrupted run goes on from it."),
    html: Path | None = option("--html FILE", "Write a report with plots, one file."),
    played: Played,
    output: Format,
) -> None:
    """Replay a trace of jobs on a virtual clock, with the same cycle that schedules a cluster.

    The same inputs and seed print the same bytes. Ctrl-C stops at the next moment; with --checkpoint the same command
    goes on from there.

    Where --topology lists nodes with parts of GPUs to share (openb's columns), pods arrive and stay until they ask for
    the --load of all GPUs (1), and what is allocated then is shown; profiles are fragmentation, stranding, best-fit,
    or a configuration file.
    """
    rules = asked.rules(seed)
    if calibrate_eta is not None:
        _calibrate(asked, rules, calibrate_eta, output)
        return
    nodes = shared_nodes(asked.topology)
    if played.served and (checkpoint or nodes is not None):
        raise click.UsageError("--serve plays a whole run of gangs: it goes neither with --checkpoint nor shared GPUs")
    opened = played.opening()
    record = played.served
    run = fillings(asked, nodes, seed) if nodes is not None else comparison(asked, rules, checkpoint, record=record)
    ctx = click.get_current_context()
    if not drive(run, checkpoint):
        then = f"the same command goes on from {checkpoint}" if checkpoint else "with --checkpoint it could go on"
        click.echo(f"tierwise: stopped; {then}", err=True)
        ctx.exit(130)
    _show(run.results(), html, output, shared=nodes is not None, command=_command(ctx))
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


def _calibrate(asked: SimulateOptions, rules: Rules, asks: int, output: Format) -> None:
    """Forecasts of starts against what happened, for every profile."""
    from tierwise.cli.progress import show_progress
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
    output.show(lambda: {"seed": rules.seed, "calibration": found}, lambda page: calibration_lines(page, found))


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


def _show(results: dict[str, object], html: Path | None, output: Format, *, shared: bool, command: str) -> None:
    """Write the report where it is wanted, and print the numbers."""
    from tierwise.replay.report.html import report
    from tierwise.replay.report.table import lines
    from tierwise.replay.shared_gpu.report import filling_lines, filling_report

    if html is not None:
        html.write_text((filling_report if shared else report)(results, command), encoding="utf-8")
    output.show(lambda: results, lambda page: (filling_lines if shared else lines)(page, results, command))
