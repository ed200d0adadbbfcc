"""`tierwise submit`: the whole life of jobs on the embedded cluster, as a timeline, a live view or JSON."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec
from msgspec.structs import replace
from rich.console import Group
from rich.live import Live

from tierwise.cli import options
from tierwise.cli.inputs import Manifests
from tierwise.cli.options import Journal, option, verb
from tierwise.cli.pages import Played, play
from tierwise.cli.screen import coloured, page_of, print_data, print_json, print_page, terminal
from tierwise.explain.text.submit import View, frame, life_wire, outcome_lines
from tierwise.explain.timeline import timeline_entry_wire, timeline_lines
from tierwise.sim.cluster.agenda import Incident, node_back, node_lost, pod_fails

if TYPE_CHECKING:
    from tierwise.model.snapshot import Fault
    from tierwise.sim.cluster.simulation import Moment, Simulation

__all__ = ["submit", "ticks"]


# A live view on the terminal: the frames of `explain.life_page` one after the other, as fast as was asked for.


_TICK: Final = 0.1
"""Seconds between two frames while nothing happens but the clock going on."""

_LINGER: Final = 1.0


class Shown(msgspec.Struct, frozen=True):
    """The last view that was reached, and whether it was interrupted before the end."""

    view: View
    interrupted: bool


def show(views: Iterable[View], speed: float | None, *, everything: bool) -> Shown:
    """Draw every view at its time; Ctrl-C ends it, and leaves the terminal as it was."""
    console = terminal()
    page = page_of(everything=everything)
    note = "Ctrl-C ends" if speed is None else f"{speed:g} times as fast, Ctrl-C ends"
    current: View | None = None
    interrupted = False
    with Live(console=console, screen=True, auto_refresh=False) as live:

        def draw(view: View) -> None:
            live.update(Group(*map(coloured, frame(page, view, console.height - 1, note))), refresh=True)

        try:
            for view in views:
                if current is not None:
                    for at in ticks(current.at, view.at, speed):
                        draw(replace(current, at=at))
                        time.sleep(_TICK)
                current = view
                draw(view)
            time.sleep(_LINGER if speed is not None else 0)
        except KeyboardInterrupt:
            interrupted = True
    if current is None:
        raise KeyboardInterrupt  # before there was anything to see
    return Shown(current, interrupted)


def ticks(start: float, end: float, speed: float | None) -> Iterator[float]:
    """The times between two moments at which a frame is due."""
    step = 0.0 if speed is None else speed * _TICK
    at = start
    while step and at < end:
        yield at
        at += step


_DAY: Final = 86_400
_SPEED: Final = 30.0
_RECENT: Final = 200
"""Events of which a live view may show the last few, once those of like pods are put together."""


@verb(
    """
  tierwise submit -f examples/05-a-jobs-life --watch
  tierwise submit -f examples/05-a-jobs-life --serve
  tierwise submit -f cluster.yaml -f job.yaml --fail train-worker-5=137@60s
  tierwise submit -f cluster.yaml -f job.yaml --lose-node node-7@2m --return-node node-7@20m -o jsonl
""",
    decides=True,
)
def submit(
    *,
    inputs: Manifests,
    watch: bool = option("--watch", "A live view on a terminal; elsewhere a line for each thing that happens."),
    speed: float | None = option(
        "--speed N",
        f"Seconds of the cluster in a second of yours.  [default: {_SPEED:g} for the live view, else no waiting]",
        above=0,
    ),
    instant: bool = option("--instant", "Do not wait between one moment and the next."),
    until: float | None = option(
        "--until TIME", "Stop so long after the start, as in 90s or 2h.  [default: 24h]", read=options.seconds
    ),
    failures: list[Incident] = option(
        "--fail POD=EXIT@TIME",
        "Let a pod end with an exit code at a time after the start. May be repeated.",
        read=pod_fails,
    ),
    losses: list[Incident] = option(
        "--lose-node NODE@TIME",
        "Let a host fall silent at a time after the start. May be repeated.",
        read=node_lost,
    ),
    returns: list[Incident] = option(
        "--return-node NODE@TIME", "Let a lost host come back. May be repeated.", read=node_back
    ),
    journal: Journal,
    played: Played,
    everything: bool = options.everything,
    output_format: str = option(
        "-o --output",
        "For people or for programs; jsonl is a line of JSON for each thing that happens.",
        choices=("text", "json", "yaml", "jsonl"),
        default="text",
    ),
) -> None:
    """Run the whole life of the jobs in the manifests, from the queue to the end, and show what happens when.

    The manifests are loaded into a cluster in memory with simulated kubelets and a clock of its own. Pods run for as
    long as their annotation tierwise.io/run-for says and end with tierwise.io/exit-code; without them they run on. The
    run is over when nothing is left to happen. Nothing outside is touched.
    """
    from tierwise.cli.run import scheduler_profile, told, writing
    from tierwise.cli.serve import recorded
    from tierwise.sim.cluster.simulation import Simulation

    if speed is not None and instant:
        raise click.UsageError("--speed and --instant exclude each other")
    opened = played.opening()
    objects, profile, start, remarks = inputs.read()
    incidents = [*failures, *losses, *returns]
    live = watch and output_format == "text" and sys.stdout.isatty()
    speed = None if instant else speed or (_SPEED if live else None)
    with contextlib.ExitStack() as stack:
        if opened is not None and journal.journal is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tierwise-"))
            journal = replace(journal, journal=Path(folder))
        with writing(journal, [scheduler_profile(profile)]) as writers:
            life = Simulation(objects, profile, start=start, incidents=incidents, observe=told(writers, profile))
            moments = life.run(_DAY if until is None else until)
            if live:
                _watch(life, moments, speed, everything=everything)
            elif output_format == "text":
                _tell(life, _slowed(moments, speed), everything=everything)
            else:
                _print_data(life, _slowed(moments, speed), remarks, output_format)
        if opened is not None:
            assert journal.journal is not None
            play({"": recorded(journal.journal, f"submit {', '.join(inputs.filenames)}")}, opened)


def _view(life: Simulation, moment: Moment) -> View:
    from tierwise.snapshot.builder import build

    after = build(life.guard.over(moment.objects), life.start + moment.at, life.profile)
    recent = tuple(life.history.events[-_RECENT:])
    places = dict(life.history.places)
    return View(
        moment.at, moment.objects, after, moment.report, recent, places, life.cycles, life.unfinished, life.circling
    )


def _slowed(moments: Iterator[Moment], speed: float | None) -> Iterator[Moment]:
    """The moments, each at its time."""
    before = 0.0
    for moment in moments:
        if speed is not None:
            time.sleep((moment.at - before) / speed)
        before = moment.at
        yield moment


def _tell(life: Simulation, moments: Iterator[Moment], *, everything: bool) -> None:
    """A line for each thing that happens, and in the end what became of everything; Ctrl-C is an end as well."""
    moment = None
    interrupted = False
    try:
        for moment in moments:
            print_page(partial(timeline_lines, entries=moment.entries), everything=everything)
            sys.stdout.flush()
    except KeyboardInterrupt:
        interrupted = True
    if moment is not None:
        print_page(partial(outcome_lines, view=_view(life, moment)), everything=everything)
    if interrupted:
        raise KeyboardInterrupt


def _print_data(life: Simulation, moments: Iterator[Moment], remarks: Sequence[Fault], form: str) -> None:
    """Print a simulated life for programs, once all moments have passed.

    In the form jsonl it prints a line for each event as it happens and at the end {"summary": ...}; in other forms one
    object, the summary with all events in "timeline". Times are relative to the start.
    """
    moment = None
    lines = form == "jsonl"
    for moment in moments:
        for entry in moment.entries if lines else ():
            print_json(timeline_entry_wire(entry, life.start), indent=0)
    assert moment is not None  # there is always a first moment
    summary = life_wire(_view(life, moment), life.start, remarks)
    timeline = [timeline_entry_wire(entry, life.start) for entry in life.history.events]
    if lines:
        print_json({"summary": summary}, indent=0)
    else:
        print_data({**summary, "timeline": timeline}, form)


def _watch(life: Simulation, moments: Iterator[Moment], speed: float | None, *, everything: bool) -> None:
    """The live view, and in the end what became of everything."""
    shown = show((_view(life, moment) for moment in moments), speed, everything=everything)
    end = replace(shown.view, unfinished=life.unfinished, circling=life.circling)
    print_page(partial(outcome_lines, view=end), everything=everything)
    if shown.interrupted:
        raise KeyboardInterrupt
