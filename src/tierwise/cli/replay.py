"""`tierwise replay`: cycles that a running scheduler has recorded, listed, repeated and explained.

The other verbs read what a recorded cycle saw as `-f journal:DIR@CYCLE`, and its profile as `--config` of the same.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tierwise.api.errors import InputError
from tierwise.api.meta import format_time
from tierwise.cli import options

if TYPE_CHECKING:
    from tierwise.api.codec import Raw
    from tierwise.config.profile import Profile
    from tierwise.explain.text.schedule import Run
    from tierwise.port import Objects
    from tierwise.runtime.journal import CycleSummary, Journal, RecordedCycle, Repetition

__all__ = ["recorded_objects", "recorded_profile", "replay"]


@click.command(
    epilog="""\b
Examples:
  tierwise run --journal /var/lib/tierwise/journal --journal-size 256
  tierwise replay /var/lib/tierwise/journal --job team-a/train
  tierwise replay /var/lib/tierwise/journal --at 2026-11-15T02:40:00Z --pod team-a/train-0
  tierwise replay /var/lib/tierwise/journal --verify
  tierwise what-if -f journal:/var/lib/tierwise/journal@4711 --drain rack-3
"""
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--cycle", "number", type=click.IntRange(min=1), metavar="N", help="Repeat this cycle.")
@options.at
@click.option("--job", metavar="JOB", help="What was decided of a job; with a cycle, explain it.")
@click.option("--pod", metavar="POD", help="With a cycle: explain the decision about a pod.")
@click.option("--verify", is_flag=True, help="Repeat every cycle, and say which decide otherwise now.")
@options.everything
@options.output
def replay(
    folder: Path,
    number: int | None,
    at: float | None,
    job: str | None,
    pod: str | None,
    verify: bool,
    everything: bool,
    output_format: str,
) -> None:
    """List the cycles in a journal that `tierwise run --journal DIR` has written, or repeat one of them.

    A repeated cycle has the objects, the profile and the time of the recorded one, and its decisions are compared byte
    by byte: the exit status is 1 where they differ. Cycles that decided nothing new are left out of the list; --all
    shows them.
    """
    from tierwise.runtime.journal import Journal

    journal = Journal(folder)
    json = output_format == "json"
    if at is not None:
        number = journal.at(at)
    if verify:
        _verify(journal, json=json)
    elif number is not None:
        _repeat(journal.cycle(number), pod, job, everything=everything, json=json)
    elif pod is not None:
        raise click.UsageError("--pod needs a cycle: --cycle N or --at TIME.")
    else:
        _list(journal, job, everything=everything, json=json)


def recorded_objects(place: str) -> Objects:
    """What the cycle of `DIR@CYCLE` saw, with its time, for verbs that take manifests."""
    from tierwise.api import codec
    from tierwise.manifests.saved import saved, served
    from tierwise.port import Objects
    from tierwise.snapshot.builder import SCHEDULER_NAMES

    found = _recorded(place)
    every = (raw for key in found.objects if (raw := found.objects.raw(key)) is not None)
    known = SCHEDULER_NAMES.union(found.duty.profile.schedulers)
    raws = [_ours(raw, known) for raw in served(every, found.duty.schedulers)]
    return Objects.of((codec.decode(raw), raw) for raw in saved(raws, found.now))


def _ours(raw: Raw, known: frozenset[str]) -> Raw:
    """A waiting pod under a name that every verb serves: it was served under its own."""
    spec = raw.get("spec")
    if raw.get("kind") != "Pod" or not isinstance(spec, dict) or spec.get("schedulerName", "") in known:
        return raw
    return {**raw, "spec": {**spec, "schedulerName": "tierwise"}} if not spec.get("nodeName") else raw


def recorded_profile(place: str) -> Profile:
    """The profile of the cycle of `DIR@CYCLE`."""
    return _recorded(place).duty.profile


def _recorded(place: str) -> RecordedCycle:
    from tierwise.runtime.journal import Journal

    folder, _, number = place.rpartition("@")
    if not folder or not number.isdecimal():
        raise InputError(f'"journal:{place}" is not journal:DIR@CYCLE')
    return Journal(Path(folder)).cycle(int(number))


def _verify(journal: Journal, *, json: bool) -> None:
    from tierwise.cli.progress import show_progress
    from tierwise.cli.screen import print_json
    from tierwise.runtime.journal import repeat

    numbers = [found.number for found in journal.cycles()]
    with show_progress("repeating", len(numbers)) as progress:
        differ = []
        for done, number in enumerate(numbers):
            progress(done)
            if not repeat(journal.cycle(number)).same:
                differ.append(number)
    if json:
        print_json({"cycles": len(numbers), "differ": differ})
    else:
        from tierwise.api.plurals import count

        same = f"{count(len(numbers) - len(differ), 'cycle')} decided the same"
        click.echo(f"{same}; others: {', '.join(map(str, differ))}" if differ else f"{same}, byte by byte")
    if differ:
        click.get_current_context().exit(1)


def _repeat(recorded: RecordedCycle, pod: str | None, job: str | None, *, everything: bool, json: bool) -> None:
    from tierwise.cli.screen import print_json, print_page
    from tierwise.runtime.journal import repeat

    again = repeat(recorded)
    if pod is not None:
        _explain_pod(recorded, pod, everything=everything, json=json)
    elif job is not None:
        _explain_job(recorded, again, job, everything=everything, json=json)
    elif json:
        import msgspec

        told: Raw = msgspec.json.decode(again.decided)
        time = format_time(recorded.now)
        print_json({"cycle": recorded.number, "time": time, "version": recorded.version, "same": again.same, **told})
    else:
        from tierwise.explain.text.schedule import schedule_lines

        said = "the same decisions, byte by byte" if again.same else "OTHER decisions than were recorded"
        click.echo(f"cycle {recorded.number} of {format_time(recorded.now)}, repeated: {said}\n")
        run = _run(recorded, again)
        print_page(lambda page: schedule_lines(page, run), everything=everything)
    if not again.same:
        from tierwise import __version__
        from tierwise.cli.main import report_error

        other = (
            f" (written by {recorded.version}, repeated by {__version__})" if recorded.version != __version__ else ""
        )
        report_error(f"cycle {recorded.number} decides otherwise now{other}")
        click.get_current_context().exit(1)


def _run(recorded: RecordedCycle, again: Repetition) -> Run:
    """One cycle as a run that pages are made of."""
    from tierwise.explain.text.schedule import Run
    from tierwise.scheduler.effects import effects
    from tierwise.sim.cluster.store import EmbeddedCluster
    from tierwise.snapshot.builder import build

    cluster = EmbeddedCluster(recorded.objects)
    cluster.apply(effects(again.snapshot, again.report))
    duty = recorded.duty
    after = build(cluster.read(), recorded.now, duty.profile, schedulers=duty.schedulers)
    return Run([(again.snapshot, again.report)], after, duty.profile, again.report.evictions)


def _explain_pod(recorded: RecordedCycle, pod: str, *, everything: bool, json: bool) -> None:
    from tierwise.actions.diagnosis.inspection import PodInspector
    from tierwise.cli.screen import print_json, print_page
    from tierwise.explain.text.explain_pod import pod_lines
    from tierwise.explain.wire import explain_wire
    from tierwise.scheduler import cycle
    from tierwise.snapshot.builder import build

    path = pod if "/" in pod else f"default/{pod}"
    inspector = PodInspector(path)
    snapshot = build(recorded.objects, recorded.now, recorded.duty.profile, schedulers=recorded.duty.schedulers)
    report = cycle(snapshot, recorded.duty.profile, inspect=inspector.inspect)
    seen = inspector.inspection
    if seen is None:
        raise InputError(f"cycle {recorded.number} did not look for a place for it", obj=f"Pod {path}")
    if json:
        print_json(explain_wire(seen, report))
    else:
        print_page(lambda page: pod_lines(page, seen, snapshot, report, recorded.number), everything=everything)


def _explain_job(recorded: RecordedCycle, again: Repetition, name: str, *, everything: bool, json: bool) -> None:
    from tierwise.cli.screen import print_json, print_page
    from tierwise.explain.job_wire import job_wire
    from tierwise.explain.text.explain_job import job_lines
    from tierwise.port import Bind
    from tierwise.scheduler.effects import effects
    from tierwise.sim.what_if.changes import job_named

    run = _run(recorded, again)
    job = job_named(run.after, name)
    if json:
        binds = (effect for effect in effects(again.snapshot, again.report) if isinstance(effect, Bind))
        print_json(job_wire(job, run.after, run.reports, {bind.pod.path: bind.node for bind in binds}))
    else:
        print_page(lambda page: job_lines(page, run, job), everything=everything)


def _list(journal: Journal, job: str | None, *, everything: bool, json: bool) -> None:
    from tierwise.cli.screen import print_json

    path = None if job is None else job if "/" in job else f"default/{job}"
    rows: list[Raw] = []
    waiting: dict[str, tuple[str, str, str]] = {}
    for found in journal.cycles():
        row = _row(found, path)
        news = bool(row["effects"]) or _reasons(found, path) != waiting
        waiting = _reasons(found, path)
        if news or everything:
            rows.append(row)
    if json:
        print_json({"cycles": rows})
    else:
        _table(rows, everything=everything)


def _reasons(found: CycleSummary, path: str | None) -> dict[str, tuple[str, str, str]]:
    """Why jobs wait, without the figures of the messages where all jobs are told of."""
    if path is None:
        return {key: (verdict, code, "") for key, (verdict, code, _) in found.waiting.items()}
    return {key: why for key, why in found.waiting.items() if key == path or key.startswith(f"{path}-")}


def _row(found: CycleSummary, path: str | None) -> Raw:
    """A cycle for programs: what it did, and why jobs wait; of one job where one is named."""
    mine = [effect for effect in found.effects if path is None or _about(effect, path)]
    counts = Counter(str(effect["effect"]) for effect in mine)
    waiting = _reasons(found, path) if path is not None else found.waiting
    return {
        "cycle": found.number,
        "time": format_time(found.now),
        "effects": dict(sorted(counts.items())),
        "waiting": {key: {"verdict": v, "reason": code, "message": text} for key, (v, code, text) in waiting.items()},
    }


def _about(effect: Raw, path: str) -> bool:
    """Whether an effect concerns a job: a place for its pods, or an eviction of or for them."""
    gang, by, pod = str(effect.get("gang", "")), str(effect.get("by", "")), str(effect.get("pod", ""))
    own = pod.removeprefix("Pod ")
    return any(name == path or name.startswith(f"{path}-") for name in (gang, by, own) if name)


def _table(rows: list[Raw], *, everything: bool) -> None:
    from rich.text import Text

    from tierwise.api.plurals import count
    from tierwise.cli.screen import print_page
    from tierwise.explain.tables import TableColumn, table

    done = {"Bind": "bound", "Evict": "evicted", "Nominate": "nominated", "Prepare": "prepared"}

    def cells(row: Raw) -> list[str]:
        effects, waiting = row["effects"], row["waiting"]
        assert isinstance(effects, dict)
        assert isinstance(waiting, dict)
        did = ", ".join(f"{number} {done.get(name, name)}" for name, number in effects.items())
        why = ", ".join(f"{n} {code}" for code, n in Counter(str(w["reason"]) for w in waiting.values()).items())
        if len(waiting) == 1:
            why = next(f"{w['reason']}: {w['message']}" for w in waiting.values())
        return [str(row["cycle"]), str(row["time"]), did, why]

    columns = (
        TableColumn("cycle"),
        TableColumn("time"),
        TableColumn("pods", least=10),
        TableColumn("waiting", least=20, wraps=True),
    )
    if not rows:
        click.echo("nothing was decided")
        return
    print_page(
        lambda page: table(page, columns, [[Text(c) for c in cells(row)] for row in rows]), everything=everything
    )
    click.echo(f"\n{count(len(rows), 'cycle')}{'' if everything else ' with news; --all shows the others'}")
