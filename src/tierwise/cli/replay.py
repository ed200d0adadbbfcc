"""`tierwise replay`: cycles that a running scheduler has recorded, listed, repeated and explained.

The other verbs read what a recorded cycle saw as `-f journal:DIR@CYCLE`, and its profile as `--config` of the same.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tierwise.api.core import Pod, format_time
from tierwise.api.errors import InputError, suggestion
from tierwise.cli import options
from tierwise.cli.explain import show_job, show_pod
from tierwise.cli.options import Format, Output, argument, option, verb

if TYPE_CHECKING:
    from tierwise.api.codec import Raw
    from tierwise.explain.page import Page, Text
    from tierwise.explain.text.schedule import Run
    from tierwise.runtime.journal import CycleSummary, Journal, RecordedCycle, Repetition

__all__ = ["replay"]


@verb(
    """
  tierwise run --journal /var/lib/tierwise/journal --journal-size 256
  tierwise replay /var/lib/tierwise/journal --job team-a/train
  tierwise replay /var/lib/tierwise/journal --at 2026-11-15T02:40:00Z --pod team-a/train-0
  tierwise replay /var/lib/tierwise/journal --verify
  tierwise what-if -f journal:/var/lib/tierwise/journal@4711 --drain rack-3
""",
    decides=True,
)
def replay(
    *,
    folder: Path = argument("DIR"),
    number: int | None = option("--cycle N", "Repeat this cycle.", least=1),
    at: float | None = options.at,
    job: str | None = option("--job JOB", "What was decided of a job; with a cycle, explain it."),
    pod: str | None = option("--pod POD", "With a cycle: explain the decision about a pod."),
    verify: bool = option("--verify", "Repeat every cycle, and say which decide otherwise now."),
    output: Output,
) -> None:
    """List the cycles in a journal that `tierwise run --journal DIR` has written, or repeat one of them.

    A repeated cycle has the objects, the profile and the time of the recorded one, and its decisions are compared byte
    by byte: the exit status is 1 where they differ. Cycles that decided nothing new are left out of the list; --all
    shows them.
    """
    from tierwise.runtime.journal import Journal

    journal = Journal(folder)
    if at is not None:
        number = journal.at(at)
    if verify:
        _verify(journal, output.format)
    elif number is not None:
        _repeat(journal.cycle(number), pod, job, output)
    elif pod is not None:
        raise click.UsageError("--pod needs a cycle: --cycle N or --at TIME.")
    else:
        _list(journal, job, output)


def _verify(journal: Journal, output: Format) -> None:
    from tierwise.cli.progress import show_progress
    from tierwise.cli.screen import print_data
    from tierwise.runtime.journal import repeat

    numbers = [cycle.number for cycle in journal.cycles()]
    with show_progress("repeating", len(numbers)) as progress:
        differ = []
        for done, number in enumerate(numbers):
            progress(done)
            if not repeat(journal.cycle(number)).same:
                differ.append(number)
    if output.for_programs:
        print_data({"cycles": len(numbers), "differ": differ}, output.output_format)
    else:
        from tierwise.api.plurals import count

        summary = f"{count(len(numbers) - len(differ), 'cycle')} decided the same"
        click.echo(f"{summary}; others: {', '.join(map(str, differ))}" if differ else f"{summary}, byte by byte")
    if differ:
        click.get_current_context().exit(1)


def _repeat(recorded: RecordedCycle, pod: str | None, job: str | None, output: Output) -> None:
    from tierwise.runtime.journal import repeat

    repetition = repeat(recorded)
    if pod is not None:
        _explain_pod(recorded, pod, output)
    elif job is not None:
        _explain_job(recorded, repetition, job, output)
    else:
        output.show(lambda: _told(recorded, repetition), lambda page: _repeated_lines(page, recorded, repetition))
    if not repetition.same:
        from tierwise import __version__
        from tierwise.cli.main import report_error
        from tierwise.framework.solver import solver_version

        then = f"{recorded.version} with {recorded.solver or 'a solver'}"
        now = f"{__version__} with {solver_version()}"
        versions = f" (written by {then}, repeated by {now})" if then != now else ""
        report_error(f"cycle {recorded.number} decides otherwise now{versions}")
        click.get_current_context().exit(1)


def _run(recorded: RecordedCycle, repetition: Repetition) -> Run:
    """One cycle as a run that pages are made of."""
    from tierwise.explain.text.schedule import Run
    from tierwise.scheduler.effects import effects
    from tierwise.sim.cluster.store import EmbeddedCluster
    from tierwise.snapshot.builder import build

    cluster = EmbeddedCluster(recorded.objects)
    cluster.apply(effects(repetition.snapshot, repetition.report))
    scheduler = recorded.scheduler
    after = build(cluster.read(), recorded.now, scheduler.profile, schedulers=scheduler.schedulers)
    return Run([(repetition.snapshot, repetition.report)], after, scheduler.profile, repetition.report.evictions)


def _told(recorded: RecordedCycle, repetition: Repetition) -> Raw:
    """A repeated cycle for programs."""
    import msgspec

    decided: Raw = msgspec.json.decode(repetition.decided)
    time = format_time(recorded.now)
    by = {"version": recorded.version, "solver": recorded.solver}
    return {"cycle": recorded.number, "time": time, **by, "same": repetition.same, **decided}


def _repeated_lines(page: Page, recorded: RecordedCycle, repetition: Repetition) -> list[Text]:
    from tierwise.explain.page import Text
    from tierwise.explain.text.schedule import schedule_lines

    verdict = "the same decisions, byte by byte" if repetition.same else "OTHER decisions than were recorded"
    title = f"cycle {recorded.number} of {format_time(recorded.now)}, repeated: {verdict}"
    return [Text(title), Text(""), *schedule_lines(page, _run(recorded, repetition))]


def _explain_pod(recorded: RecordedCycle, pod: str, output: Output) -> None:
    from tierwise.actions.diagnosis.inspection import PodInspector
    from tierwise.scheduler import cycle
    from tierwise.snapshot.builder import build

    path = pod if "/" in pod else f"default/{pod}"
    inspector = PodInspector(path)
    snapshot = build(
        recorded.objects, recorded.now, recorded.scheduler.profile, schedulers=recorded.scheduler.schedulers
    )
    report = cycle(snapshot, recorded.scheduler.profile, inspect=inspector.inspect)
    seen = inspector.inspection
    if seen is None:
        near = "" if path in recorded.objects.every(Pod) else suggestion(path, recorded.objects.every(Pod))
        raise InputError(f"cycle {recorded.number} did not look for a place for it{near}", obj=f"Pod {path}")
    show_pod(seen, snapshot, report, recorded.scheduler.profile, recorded.number, output)


def _explain_job(recorded: RecordedCycle, repetition: Repetition, name: str, output: Output) -> None:
    from tierwise.port import Bind
    from tierwise.scheduler.effects import effects
    from tierwise.sim.what_if.changes import job_named

    run = _run(recorded, repetition)
    binds = (effect for effect in effects(repetition.snapshot, repetition.report) if isinstance(effect, Bind))
    show_job(run, job_named(run.after, name), {bind.pod.path: bind.node for bind in binds}, output)


def _list(journal: Journal, job: str | None, output: Output) -> None:
    path = f"default/{job}" if job is not None and "/" not in job else job
    rows: list[Raw] = []
    waiting: dict[str, tuple[str, str, str]] = {}
    for cycle in journal.cycles():
        row = _row(cycle, path)
        news = bool(row["effects"]) or _reasons(cycle, path) != waiting
        waiting = _reasons(cycle, path)
        if news or output.everything:
            rows.append(row)
    output.show(lambda: {"cycles": rows}, lambda page: _rows(page, rows))


def _reasons(cycle: CycleSummary, path: str | None) -> dict[str, tuple[str, str, str]]:
    """Why jobs wait, without the figures of the messages where all jobs are told of."""
    if path is None:
        return {key: (verdict, code, "") for key, (verdict, code, _) in cycle.waiting.items()}
    return {key: why for key, why in cycle.waiting.items() if key == path or key.startswith(f"{path}-")}


def _row(cycle: CycleSummary, path: str | None) -> Raw:
    """A cycle for programs: what it did, and why jobs wait; of one job where one is named."""
    mine = [effect for effect in cycle.effects if path is None or _about(effect, path)]
    counts = Counter(str(effect["effect"]) for effect in mine)
    waiting = _reasons(cycle, path) if path is not None else cycle.waiting
    return {
        "cycle": cycle.number,
        "time": format_time(cycle.now),
        "effects": dict(sorted(counts.items())),
        "waiting": {key: {"verdict": v, "reason": code, "message": text} for key, (v, code, text) in waiting.items()},
    }


def _about(effect: Raw, path: str) -> bool:
    """Whether an effect concerns a job: a place for its pods, or an eviction of or for them."""
    gang = str(effect.get("gang", ""))
    by = str(effect.get("by", ""))
    pod = str(effect.get("pod", ""))
    pod_path = pod.removeprefix("Pod ")
    return any(name == path or name.startswith(f"{path}-") for name in (gang, by, pod_path) if name)


def _rows(page: Page, rows: list[Raw]) -> list[Text]:
    from tierwise.api.plurals import count
    from tierwise.explain.page import Text
    from tierwise.explain.tables import table

    done = {"Bind": "bound", "Evict": "evicted", "Nominate": "nominated", "Prepare": "prepared"}

    def cells(row: Raw) -> list[str]:
        effects = row["effects"]
        waiting = row["waiting"]
        assert isinstance(effects, dict)
        assert isinstance(waiting, dict)
        did = ", ".join(f"{number} {done.get(name, name)}" for name, number in effects.items())
        why = ", ".join(f"{n} {code}" for code, n in Counter(str(w["reason"]) for w in waiting.values()).items())
        if len(waiting) == 1:
            why = next(f"{w['reason']}: {w['message']}" for w in waiting.values())
        return [str(row["cycle"]), str(row["time"]), did, why]

    columns = ("cycle", "time", "pods:10", "waiting~20")
    if not rows:
        return [Text("nothing was decided")]
    news = "" if page.everything else " with news; --all shows the others"
    listed = table(page, columns, [[Text(c) for c in cells(row)] for row in rows])
    return [*listed, Text(""), Text(f"{count(len(rows), 'cycle')}{news}")]
