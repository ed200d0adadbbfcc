"""When waiting jobs start: the cycle run ahead on a virtual clock, several times, with the expected ends of jobs.

The one function behind `tierwise eta`, the pages and the status of podGroups. Each run draws the ends of running jobs
and the durations of waiting ones from what is expected of them (`model.expected_ends`); the starts of a job over all
runs are its range. Where every end is stated, one run says it all. What a job follows is told from the run whose start
is the median. Reads no clock and does no I/O; draws depend on the seed and on the names of jobs alone, so equal inputs
give equal bytes, and a job more or less does not change the draws of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2s
from math import inf
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.natural import natural
from tierwise.api.plurals import count, joined, verb
from tierwise.api.volcano import PodGroup
from tierwise.config.profile import Profile
from tierwise.explain.comparison import Answer, LeastChange
from tierwise.explain.disruption import Loss
from tierwise.explain.eta import (
    Awaited,
    Eta,
    EtaReport,
    Range,
    StartKind,
    alternative_text,
    clock_text,
    eta_text,
    lasting,
)
from tierwise.explain.message import refusal
from tierwise.explain.naming import ObjectNames
from tierwise.explain.wire import why_waiting
from tierwise.framework.report import ReportBuilder
from tierwise.model.arrays import Floats
from tierwise.model.expected_ends import EndSource, ExpectedEnd, ExpectedEnds
from tierwise.model.job import Job, Named, Phase, Rejection, Status, Task, Verdict, namespace_of
from tierwise.model.snapshot import Snapshot
from tierwise.port import Key, key_of
from tierwise.scheduler.cycle import open_cycle
from tierwise.sim.forecast.forward import ForwardRun, pod_key, run_forward, waits
from tierwise.sim.forecast.start_ranges import ForecastErrors, StartRange, range_of_runs
from tierwise.sim.what_if.changes import Scenario, job_named
from tierwise.sim.what_if.runs import prepared

__all__ = [
    "RUNS",
    "Forecasts",
    "back_again",
    "etas",
    "forecasts",
    "positions",
    "summary",
    "waiting_snapshot",
    "with_wait",
]

RUNS: Final = 21
"""Runs ahead where ends are uncertain and the cluster is small; an odd number, so that the median is one of them."""
_FEWEST_RUNS: Final = 5
_WORK: Final = 2_000_000
"""Nodes and tasks that the cycles of all runs may look at together, before there are fewer runs and cycles."""
_CYCLES: Final = (40, 400)
"""Cycles of one run at most, on a large cluster and on a small one."""
_STEP: Final = 0.02
"""Where ends are uncertain, moments closer together than this share of the time ahead are one."""
_COMMON: Final = 0.3
"""Of the variance of ends, as normal scores, what all jobs of a run have in common (decision 0261)."""
STOPPED: Final = "RunsStopped"
"""The reason why a start is not known where runs ahead were stopped before it."""
_NAMED: Final = 3
"""Jobs of which one sentence names."""


def waiting_snapshot(scenario: Scenario) -> tuple[Scenario, Snapshot]:
    """The cluster with the pods of all jobs, and what a cycle sees of it.

    Controllers make the pods of a podGroup once it has left phase Pending; a run ahead needs them before. In the
    snapshot such podGroups still wait to be let in.
    """
    statuses: dict[Key, Raw] = {}
    for record in scenario.objects.every(PodGroup).values():
        raw = scenario.objects.raw(key_of(record))
        if record.status.phase in ("", Phase.PENDING.value) and raw is not None:
            status = raw.get("status")
            old_status = status if isinstance(status, dict) else {}
            statuses[key_of(record)] = {**raw, "status": {**old_status, "phase": Phase.INQUEUE.value}}
    if not statuses:
        return scenario, scenario.snapshot()
    changed = scenario.with_objects(statuses)
    scenario = replace(changed, objects=prepared(changed.objects, changed.profile, changed.now).objects)
    outside = {key.path for key in statuses}
    snapshot = scenario.snapshot()
    jobs = (
        replace(job, phase=Phase.PENDING) if job.key in outside and job.phase is Phase.INQUEUE else job
        for job in snapshot.jobs
    )
    return scenario, replace(snapshot, jobs=tuple(jobs))


def positions(snapshot: Snapshot, profile: Profile, waiting: Collection[Job]) -> dict[str, tuple[int, int]]:
    """The place of each waiting job in its queue and how many wait there, in the order in which a cycle serves them."""
    pipeline = open_cycle(snapshot, profile).pipeline
    lines: dict[str, list[tuple[tuple[object, ...], int, str]]] = {}
    for job in waiting:
        queue = snapshot.queues.get(job.queue)
        line = "" if pipeline.global_queue or queue is None else queue.served_with
        lines.setdefault(line, []).append((pipeline.job_key(job), job.number, job.key))
    return {
        key: (place, len(line)) for line in lines.values() for place, (_, _, key) in enumerate(sorted(line), start=1)
    }


class Forecasts(msgspec.Struct, frozen=True):
    """Results of simulated runs ahead for the jobs that wait in one snapshot."""

    snapshot: Snapshot
    waiting: tuple[Job, ...]
    runs: tuple[ForwardRun, ...]
    ends: dict[str, ExpectedEnd]  # of running jobs, by key
    stopped: str = ""

    def starts(self, job: Job) -> list[float]:
        """Its start in every run; infinite where it had none."""
        return [run.starts[job.key].at if job.key in run.starts else inf for run in self.runs]


def forecasts(
    snapshot: Snapshot,
    profile: Profile,
    *,
    until: Collection[str] | None = None,
    runs: int = RUNS,
    seed: int = 1,
    report_progress: Callable[[Forecasts, int], None] = lambda found, number: None,
) -> Forecasts:
    """Run a snapshot ahead until the jobs `until` have started, or all of those that wait.

    `told` hears after each run but the last what is known so far, and how many runs there will be.
    """
    waiting = tuple(job for job in snapshot.jobs if waits(job))
    expected_ends = ExpectedEnds(snapshot)
    ends = {}
    for job in snapshot.jobs:
        if _runs(job) and not waits(job):
            ends[job.key] = expected_ends.of(job)
    ends |= {
        pod_key(task): end for task in snapshot.others if _stands(task) and (end := expected_ends.of_task(task)).known
    }
    durations = {job.key: expected_ends.if_started(job, snapshot.now) for job in waiting}
    job_keys = [job.key for job in waiting] if until is None else [job.key for job in waiting if job.key in until]
    certain = all(_certain(end) for end in (*ends.values(), *durations.values()))
    size = len(snapshot.nodes) + sum(len(job.tasks) for job in snapshot.jobs)
    cycles = max(_CYCLES[0], min(_CYCLES[1], _WORK // (_FEWEST_RUNS * max(1, size))))
    number = 1 if certain else max(min(runs, _FEWEST_RUNS), min(runs, _WORK // (cycles * max(1, size))))
    number -= number % 2 == 0
    draws = _Draws(seed, number)
    done: list[ForwardRun] = []
    for run in range(number):
        if done:
            report_progress(
                Forecasts(snapshot, waiting, tuple(done), ends, _stopped(done, cycles, snapshot.now)), number
            )
        done.append(
            run_forward(
                snapshot,
                profile,
                ends={key: draws.of(key, end, snapshot.now, run) for key, end in ends.items()},
                durations={key: draws.of(key, end, snapshot.now, run) - snapshot.now for key, end in durations.items()},
                until=job_keys,
                cycles=cycles,
                step=0.0 if certain else _STEP,
            )
        )
    return Forecasts(snapshot, waiting, tuple(done), ends, _stopped(done, cycles, snapshot.now))


def _stands(task: Task) -> bool:
    return task.status is Status.RUNNING and task.node >= 0


def _runs(job: Job) -> bool:
    return any(map(_stands, job.tasks))


def _stopped(runs: Sequence[ForwardRun], cycles: int, now: float) -> str:
    short = [run.clock for run in runs if not run.complete]
    if not short:
        return ""
    came = format_time(min(short))
    return (
        f"{count(len(short), 'run')} of {len(runs)} stopped after {count(cycles, 'cycle')}, the earliest at {came}: "
        "what would start later is not known"
    )


def _certain(end: ExpectedEnd) -> bool:
    """Whether an end is one moment, or not known at all."""
    return not end.overdue and end.half is None


class _Draws:
    """Quantiles at which the ends of jobs are drawn: for each job as evenly spread over all runs as can be.

    Jobs of one time run longer, or shorter, than those of the past together. Independent draws would cancel out over
    the many ends before a start, and ranges would be far too narrow; so a run that is late for one tends to be for all.
    """

    def __init__(self, seed: int, runs: int) -> None:
        self._seed = seed
        self._runs = runs
        self._common = self._rng("").standard_normal(runs)
        self._known: dict[str, Floats] = {}

    def of(self, key: str, end: ExpectedEnd, now: float, run: int) -> float:
        """When a job ends in a run."""
        if not end.known:
            return inf
        if _certain(end):
            return max(end.planned, now)
        positions = self._known.get(key)
        if positions is None:
            rng = self._rng(key)
            scores = _COMMON**0.5 * self._common + (1 - _COMMON) ** 0.5 * rng.standard_normal(self._runs)
            positions = self._known[key] = (scores.argsort().argsort() + rng.random(self._runs)) / self._runs
        return _quantile(end, now, float(positions[run]))

    def _rng(self, key: str) -> np.random.Generator:
        """The chance of a job or, without a name, that of all of them."""
        return np.random.default_rng((self._seed, int.from_bytes(blake2s(key.encode(), digest_size=8).digest())))


def _quantile(end: ExpectedEnd, now: float, at: float) -> float:
    """Of an expected end, between the points that are known; beyond the outermost as far as the next but one."""
    if end.half is None or end.most is None or end.median is None:
        # It is overdue and no run like it is known: as long again as it is overdue now, give or take.
        late = max(60.0, now - end.planned)
        bound = end.latest if end.latest is not None else inf
        return min(bound, now + late * at / (1 - at))
    points = (end.most[0], end.half[0], end.median, end.half[1], end.most[1])
    quantile = float(np.interp(at, (0.05, 0.25, 0.5, 0.75, 0.95), points))
    return max(now, quantile)


# -- what is said of each job


def etas(
    scenario: Scenario,
    *,
    names: Sequence[str] = (),
    runs: int = RUNS,
    seed: int = 1,
    alternatives: bool = False,
    errors: ForecastErrors | None = None,
    report_progress: Callable[[EtaReport, int], None] = lambda report, number: None,
) -> EtaReport:
    """The expected starts of the jobs of these names, or of all that wait; InputError where there is no such job.

    `alternatives` also asks for the least changes that would start each of them now. `told` hears what is known after
    each run but the last, and how many there will be.
    """
    profile = scenario.profile
    scenario, snapshot = waiting_snapshot(scenario)
    jobs = [job_named(snapshot, name) for name in names]
    until = {job.key for job in jobs} if names else None

    def known(so_far: Forecasts, number: int) -> None:
        report_progress(summary(so_far, profile, until=until, errors=errors), number)

    runs_ahead = forecasts(snapshot, profile, until=until, runs=runs, seed=seed, report_progress=known)
    report = summary(runs_ahead, profile, until=until, errors=errors)
    if not alternatives:
        return report
    return replace(report, jobs=tuple(_with_alternatives(scenario, snapshot, eta) for eta in report.jobs))


def summary(
    runs_ahead: Forecasts,
    profile: Profile,
    *,
    until: Collection[str] | None = None,
    errors: ForecastErrors | None = None,
) -> EtaReport:
    """Report of runs ahead, job by job, in the order of queues and places."""
    snapshot = runs_ahead.snapshot
    names = ObjectNames(snapshot.jobs)
    places = positions(snapshot, profile, runs_ahead.waiting)
    unknown = tuple(
        names.of(job) for job in snapshot.jobs if job.key in runs_ahead.ends and not runs_ahead.ends[job.key].known
    )
    jobs = []
    for job in runs_ahead.waiting:
        if until is None or job.key in until:
            jobs.append(_eta(runs_ahead, job, names, places[job.key], errors))
    if until is not None:
        jobs += [_running(job, names) for job in snapshot.jobs if job.key in until and not waits(job)]
    jobs.sort(key=lambda eta: (eta.queue, eta.position))
    sources = Counter(end.source.value for end in runs_ahead.ends.values() if end.source is not EndSource.UNKNOWN)
    return EtaReport(
        now=snapshot.now,
        jobs=tuple(jobs),
        runs=len(runs_ahead.runs),
        cycles=sum(run.cycles for run in runs_ahead.runs),
        stopped=runs_ahead.stopped,
        sources=tuple(sorted(sources.items())),
        unknown=unknown,
    )


def _running(job: Job, names: ObjectNames) -> Eta:
    return Eta(job.key, names.of(job), job.queue, 0, 0, StartKind.STARTED)


def _eta(
    runs_ahead: Forecasts, job: Job, names: ObjectNames, place: tuple[int, int], errors: ForecastErrors | None
) -> Eta:
    now = runs_ahead.snapshot.now
    eta = Eta(job.key, names.of(job), job.queue, *place, StartKind.UNKNOWN)
    starts = runs_ahead.starts(job)
    if all(at == now for at in starts):
        return replace(eta, kind=StartKind.NOW, start=now)
    ranges = range_of_runs(starts, now)
    if ranges.start == inf:
        return _not_expected(runs_ahead, job, names, eta)
    ranges_shown = errors.corrected(now, ranges) if errors is not None else ranges
    run = runs_ahead.runs[starts.index(ranges.start)]
    return replace(
        eta,
        kind=StartKind.EXPECTED,
        start=ranges_shown.start,
        half=_bounds(ranges_shown.half, ranges_shown),
        most=_bounds(ranges_shown.most, ranges_shown),
        after=_awaited(runs_ahead, names, run, job),
    )


def _bounds(bounds: tuple[float, float], ranges_shown: StartRange) -> Range | None:
    """(earliest, latest) of a start; latest is None where there is no end.

    It returns None where both are the forecast start itself, so that there is no range to show.
    """
    low, high = bounds
    if low == high == ranges_shown.start:
        return None
    return (low, high if high < inf else None)


def _awaited(runs_ahead: Forecasts, names: ObjectNames, run: ForwardRun, job: Job) -> tuple[Awaited, ...]:
    """The jobs whose ends its start follows in a run: those on its nodes, else all that ended then."""
    start = run.starts[job.key]
    jobs_by_key = {job_ahead.key: job_ahead for job_ahead in runs_ahead.snapshot.jobs}
    pods = {pod_key(task): task.node for task in runs_ahead.snapshot.others}
    nodes = set(start.nodes)

    def there(key: str) -> bool:
        if key in run.starts:
            return not nodes.isdisjoint(run.starts[key].nodes)
        if key in jobs_by_key:
            return any(task.node in nodes for task in jobs_by_key[key].tasks)
        return pods[key] in nodes

    keys = [key for key in start.after if there(key)] or list(start.after)
    awaited = []
    for key in sorted(keys, key=natural):
        name = names.of(jobs_by_key[key]) if key in jobs_by_key else key
        awaited.append(_awaited_job(key, name, runs_ahead.ends.get(key)))
    return tuple(awaited)


def _awaited_job(key: str, name: str, end: ExpectedEnd | None) -> Awaited:
    """A job that another one waits for, with its expected end where that is known."""
    if end is None:
        return Awaited(key, name, None, None, "")
    at = end.median if end.median is not None else end.planned
    return Awaited(key, name, at if end.known else None, end.half, end.text)


def _not_expected(runs_ahead: Forecasts, job: Job, names: ObjectNames, eta: Eta) -> Eta:
    """Why no start can be given: never, not allowed, or not known."""
    run = runs_ahead.runs[0]
    gated = bool(job.tasks) and all(task.status is Status.GATED for task in job.tasks)
    rejection = _rejection(run, job)
    verdict, code, text = why_waiting(job, rejection, gated=gated)
    eta = replace(eta, names=tuple(rejection.names()) if rejection is not None else ())
    if verdict is Verdict.NEVER:
        return replace(eta, kind=StartKind.NEVER, reason=code, message=text)
    if not run.complete:
        return replace(eta, reason=STOPPED, message=runs_ahead.stopped)
    if verdict is Verdict.NOT_ALLOWED:
        return replace(eta, kind=StartKind.NOT_ALLOWED, reason=code, message=text)
    stay = [job for job in runs_ahead.snapshot.jobs if job.key in run.running and not _ends(runs_ahead, run, job)]
    if not stay:
        return replace(eta, reason=code, message=f"it does not start when all jobs have ended: {text}")
    stay.sort(key=lambda job: (-len(job.tasks), job.order))
    which = joined([names.of(job_ahead) for job_ahead in stay], limit=_NAMED)
    why = f"it is not known when {which} {verb(len(stay), 'ends', 'end')}"
    elsewhere = any(namespace_of(job_ahead.key) != namespace_of(job.key) for job_ahead in stay)
    further_names = (Named("", why, "it is not known when jobs of other namespaces end"),) if elsewhere else ()
    return replace(eta, reason="EndsUnknown", message=f"{why}; {text}", names=(*eta.names, *further_names))


def _ends(runs_ahead: Forecasts, run: ForwardRun, job: Job) -> bool:
    end = runs_ahead.ends.get(job.key)
    return end is not None and end.known


def _rejection(run: ForwardRun, job: Job) -> Rejection | None:
    builder = ReportBuilder()
    builder.rejections = run.rejections
    return refusal(job, builder.build())


def starts_of(scenario: Scenario, keys: Collection[str]) -> dict[str, Eta]:
    """When jobs of a scenario with changes are expected to start, by key."""
    _, snapshot = waiting_snapshot(scenario)
    report = summary(forecasts(snapshot, scenario.profile, until=keys), scenario.profile, until=keys)
    return {eta.job: eta for eta in report.jobs}


def with_wait(scenario: Scenario, change: LeastChange, counted: Answer | None = None) -> LeastChange:
    """The ways to make a job start now, and behind them that of waiting, until when.

    Where the runs ahead were stopped before its start, the wait that was `counted` is told, if there is one.
    """
    if change.starts:
        return change
    eta = starts_of(scenario, {change.job}).get(change.job)
    if eta is not None and eta.reason == STOPPED:
        if counted is not None:
            return replace(change, answers=(*change.answers, counted))
        return replace(change, unsettled=(*change.unsettled, "wait"))
    if eta is None or eta.start is None:
        return replace(change, hopeless=(*change.hopeless, "wait"))
    wait = max(0.0, eta.start - scenario.now)
    after = f": {joined([a.name for a in eta.after])} {verb(len(eta.after), 'ends', 'end')}" if eta.after else ""
    text = f"wait {lasting(wait)}, until {clock_text(eta.start, scenario.now)}{after} (expected)"
    subjects = tuple(awaited.job for awaited in eta.after)
    return replace(change, answers=(*change.answers, Answer("wait", round(wait), True, subjects, text, ())))


def back_again(scenario: Scenario, losses: Sequence[Loss], running: Collection[str]) -> dict[str, str]:
    """For how long jobs that lose pods are below a minimum, in words, by key: those of `running` restart at once."""
    below = [loss.job for loss in losses if loss.below]
    waiting = [key for key in below if key not in running]
    starts = starts_of(scenario, set(waiting)) if waiting else {}
    texts = {key: "until it has restarted: there is room for it" for key in below if key in running}
    for key in waiting:
        eta = starts.get(key)
        if eta is None:
            texts[key] = "for good: no controller starts it again"
        elif eta.start is None:
            texts[key] = f"for an unknown time: {eta_text(eta, scenario.now)}"
        else:
            texts[key] = f"for {lasting(eta.start - scenario.now)}: it starts again {eta_text(eta, scenario.now)}"
    return texts


def _with_alternatives(scenario: Scenario, snapshot: Snapshot, eta: Eta) -> Eta:
    from tierwise.sim.what_if.least_change import least_change

    if eta.kind in (StartKind.NOW, StartKind.STARTED):
        return eta
    change = least_change(scenario, eta.job)
    return replace(eta, now_if=_now_if(snapshot, change))


def _now_if(snapshot: Snapshot, change: LeastChange) -> tuple[str, ...]:
    rows: Mapping[str, int] = {name: row for row, name in enumerate(snapshot.nodes.names)}
    texts = []
    for answer in change.answers:
        inside = [rows[name] for name in answer.subjects if name in rows]
        domain = snapshot.topology.meet_rows(np.array(inside)) if inside else 0
        place = snapshot.topology.name[domain] if domain else ""
        texts.append(alternative_text(answer.way, answer.number, answer.text, place))
    return tuple(texts)
