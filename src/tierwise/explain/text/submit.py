"""What `submit` says: a frame of the live view, the summary at the end, and the same for programs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.koordinator import PodGroup as Gang
from tierwise.api.volcano import Job as BatchJob
from tierwise.api.volcano import PodGroup
from tierwise.controllers.stamp import stamp
from tierwise.dialects.languages import whose
from tierwise.dialects.pod_marks import group_of
from tierwise.dialects.volcano.job import defaulted, pod_group_name
from tierwise.explain.job_location import DomainLocation, job_location
from tierwise.explain.naming import ObjectNames, domain_title, sub_id
from tierwise.explain.page import Page, Text, count, section, wrapped
from tierwise.explain.tables import Cell, table
from tierwise.explain.text.tree import topology_tree
from tierwise.explain.text.waiting import waiting, waiting_lines
from tierwise.explain.timeline import TimelineEntry, lasted, timeline_lines
from tierwise.explain.wire import pending_wire, pod_groups_wire, problems_wire
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job
from tierwise.model.snapshot import Fault, Snapshot
from tierwise.port import Objects, lone_gang

__all__ = ["View", "frame", "life_wire", "outcome_lines"]

_RECENT: Final = 8
_TREE: Final = 7
_HEADING: Final = 2
_JOBS: Final = 12
_DONE: Final = ("Completed", "Failed", "Aborted", "Terminated")


# The state of jobs at one moment: phase, retries, pods and domain, and the same for their partitions.


_STATES: Final = ("running", "starting", "waiting", "gated", "stopping", "succeeded", "failed")
_STYLES: Final = {
    "Running": "green",
    "Completed": "bold green",
    "Failed": "bold red",
    "Aborted": "red",
    "Terminated": "red",
    "Unknown": "yellow",
    "Pending": "yellow",
    "Inqueue": "yellow",
    "Restarting": "yellow",
}


class JobProgress(msgspec.Struct, frozen=True):
    """One job: a Volcano Job, or a podGroup or pod of no such job."""

    path: str
    name: str
    phase: str
    pods: Counter[str]
    retries: int = 0
    most: int | None = None  # None: nothing restarts it
    job: Job | None = None  # None: it has no podGroup now
    place: DomainLocation | None = None
    last: str = ""  # the hyperNode where it was last placed
    lone: bool = False


def job_progress(
    objects: Objects, snapshot: Snapshot, last_places: Mapping[str, str] = MappingProxyType({})
) -> list[JobProgress]:
    """Every job, Volcano's first, pods by themselves last; `last_places` are hyperNodes by podGroup."""
    job_by_key = {job.key: job for job in snapshot.jobs}
    groups = objects.every(PodGroup)
    gangs = objects.every(Gang)
    pods = _pods(objects, snapshot)
    names = ObjectNames(snapshot.jobs)
    progress_of_jobs: list[JobProgress] = []
    for path, batch in objects.every(BatchJob).items():
        key = f"{path.partition('/')[0]}/{pod_group_name(batch)}"
        job = job_by_key.pop(key, None)
        progress_of_jobs.append(
            JobProgress(
                path,
                path.removeprefix("default/"),
                batch.status.state.phase or "Pending",
                pods[key],
                retries=batch.status.retry_count,
                most=defaulted(batch).spec.max_retry,
                job=job,
                place=job_location(snapshot, job).whole if job is not None else None,
                last=last_places.get(key, ""),
            )
        )
    for key, job in job_by_key.items():
        declared = groups.get(key) or gangs.get(key)
        phase = declared.status.phase if declared is not None else ""
        phase = phase or (job.phase.value if key in groups else _phase(job, pods[key]))
        place = job_location(snapshot, job).whole
        progress_of_jobs.append(
            JobProgress(
                key, names.of(job), phase, pods[key], job=job, place=place, last=last_places.get(key, ""), lone=job.lone
            )
        )
    return sorted(progress_of_jobs, key=lambda progress: progress.lone)


def _pods(objects: Objects, snapshot: Snapshot) -> defaultdict[str, Counter[str]]:
    """How many pods of each job do what; one that has ended counts for the group or gang that it names."""
    of_pod = {}
    for job in snapshot.jobs:
        for task in job.tasks:
            of_pod[task.key] = job.key
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for path, pod in objects.every(Pod).items():
        counts[group_of(pod) or of_pod.get(path) or whose(pod) or lone_gang(path)][_state(pod)] += 1
    return counts


def _phase(job: Job, pods: Counter[str]) -> str:
    """The phase of a gang for which no object keeps one: what its pods come to."""
    if pods["succeeded"] and pods["succeeded"] == pods.total():
        return "Completed"
    if 0 < job.minimum <= pods["running"] + pods["succeeded"]:
        return "Running"
    return job.phase.value


def _state(pod: Pod) -> str:
    if pod.status.ended:
        return pod.status.phase.lower()
    if pod.metadata.deletion_timestamp:
        return "stopping"
    if pod.spec.node_name:
        if pod.status.phase == "Running":
            return "running"
        return "starting"
    return "gated" if pod.spec.scheduling_gates else "waiting"


def job_lines(page: Page, progress_of_jobs: Sequence[JobProgress]) -> list[Text]:
    """A table of jobs."""
    rows: list[list[Cell]] = [
        [
            Text(progress.name, style="bold"),
            Text(progress.phase, style=_STYLES.get(progress.phase, "")),
            f"{progress.retries} of {progress.most}" if progress.most is not None else "",
            _counted(progress.pods),
            _where(progress.place) or (f"was in {progress.last}" if progress.last else ""),
        ]
        for progress in progress_of_jobs
    ]
    columns = ["job:12", "phase", "retries", "pods~16", "where:14"]
    if all(progress.most is None for progress in progress_of_jobs):
        columns = columns[:2] + columns[3:]
        rows = [row[:2] + row[3:] for row in rows]
    return table(page, columns, rows)


def partition_lines(
    page: Page, objects: Objects, snapshot: Snapshot, progress_of_jobs: Sequence[JobProgress]
) -> list[Text]:
    """A table of the sub-groups of all jobs that have any."""
    rows: list[list[Cell]] = []
    pods = objects.every(Pod)
    for progress in progress_of_jobs:
        if progress.job is None or not progress.job.shape.parted:
            continue
        places = job_location(snapshot, progress.job).subs
        for sub in sorted(progress.job.subs, key=lambda sub: (sub.policy, sub.match_index, sub.order)):
            if sub.policy >= 0:
                place = places[sub_id(sub)]
                counts = Counter(_state(pods[task.key]) for task in sub.tasks if task.key in pods)
                rows.append([f"{progress.name} {sub_id(sub)}", _counted(counts), _where(place)])
    return table(
        page,
        ("partition:16", "pods~16", "where:14"),
        rows,
    )


def jobs_wire(progress_of_jobs: Sequence[JobProgress]) -> Raw:
    """Progress of every job by its path, as JSON; pods without a podGroup are left out."""
    return {progress.path: dict(_wire(progress)) for progress in progress_of_jobs if not progress.lone}


def _wire(progress: JobProgress) -> Iterator[tuple[str, object]]:
    yield "phase", progress.phase
    yield "retryCount", progress.retries
    yield "hyperNode", progress.place.name if progress.place is not None else ""
    yield "tier", progress.place.tier if progress.place is not None else None
    yield "pods", {state: progress.pods[state] for state in _STATES if progress.pods[state]}


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[state]} {state}" for state in _STATES if counts[state]) or "none"


def _where(place: DomainLocation | None) -> str:
    if place is not None:
        return domain_title(place.topology, place.domain)
    return ""


def frame(page: Page, view: View, height: int, note: str = "") -> list[Text]:
    """One picture of the live view: clock, jobs, partitions, the tree with its use, and the latest news."""
    progress_of_jobs = job_progress(view.objects, view.snapshot, view.places)
    head = Text.assemble(("tierwise  ", "bold"), (f"{lasted(view.at):<10}", "bold cyan"), _tally(progress_of_jobs))
    if note:
        head.append(f"  {note}", style="bright_black")
    top = wrapped(head, page.width) + section("Jobs", job_lines(page, progress_of_jobs[:_JOBS]))
    top += section("Partitions", partition_lines(page, view.objects, view.snapshot, progress_of_jobs)[: 1 + _JOBS])
    tree = section("Topology", topology_tree(page, view.snapshot))
    # On a low terminal the latest three things and the top of the tree stay.
    latest = min(max(height - len(top) - _HEADING - _TREE, 3), _RECENT)
    bottom = section("Recent", timeline_lines(page, view.recent, brief=True)[-latest:])
    room = max(0, height - len(top) - len(bottom))
    if len(tree) > room:
        tree = [*tree[: max(0, room - 1)], Text("  ...", style="bright_black")][:room]
    return [*top, *tree, *bottom][:height]


def outcome_lines(page: Page, view: View) -> list[Text]:
    """The last page of a simulated run: a summary, jobs, partitions, waiting jobs and problems."""
    progress_of_jobs = job_progress(view.objects, view.snapshot, view.places)
    title = Text.assemble(_tally(progress_of_jobs), f" after {lasted(view.at)}; {count(view.cycles, 'cycle')}")
    if view.circling:
        title.append("; stopped, because the cluster goes in circles", style="bold red")
    elif view.unfinished:
        title.append("; more would happen after that", style="yellow")
    idle = waiting(view.snapshot, view.report, ())
    names = ObjectNames(view.snapshot.jobs)
    lines = [Text(""), *wrapped(title, page.width)]
    lines += [Text(""), *job_lines(page, progress_of_jobs)] if progress_of_jobs else []
    lines += section("Partitions", partition_lines(page, view.objects, view.snapshot, progress_of_jobs))
    lines += section("Waiting", waiting_lines(page, names, view.snapshot, idle))
    circling = (f"{fault.subject} {fault.text}" for fault in view.circling)
    return lines + section(
        "Problems", [line for text in circling for line in wrapped(Text(text), page.width, first="  ")]
    )


def _tally(progress_of_jobs: Sequence[JobProgress]) -> Text:
    """How many jobs are where: the ended first, then those on their way."""
    jobs = [progress for progress in progress_of_jobs if not progress.lone]
    lone = len(progress_of_jobs) - len(jobs)
    phases = Counter(progress.phase for progress in jobs)
    order = [*(phase for phase in _DONE if phases[phase]), *sorted(phase for phase in phases if phase not in _DONE)]
    parts = [f"{phases[phase]} {phase.lower()}" for phase in order]
    text = Text(count(len(jobs), "job"), style="bold")
    if parts:
        text.append(f": {', '.join(parts)}", style="not bold")
    if lone:
        text.append(f"{' and ' if parts else ', '}{count(lone, 'single pod')}", style="not bold")
    return text


class View(msgspec.Struct, frozen=True):
    """A cluster at one moment, and what has happened shortly before."""

    at: float
    objects: Objects
    snapshot: Snapshot
    report: CycleReport
    recent: Sequence[TimelineEntry]
    places: Mapping[str, str]  # the hyperNode where each podGroup was last placed
    cycles: int = 0
    unfinished: bool = False
    circling: Sequence[Fault] = ()  # which jobs went in circles, so that the run was stopped


def life_wire(view: View, start: float, input_faults: Sequence[Fault] = ()) -> Raw:
    """Everything but the timeline; `input_faults` is what was said of the input."""
    return {
        "start": stamp(start),
        "end": stamp(start + view.at),
        "elapsed": int(view.at),
        "cycles": view.cycles,
        "unfinished": view.unfinished,
        "jobs": jobs_wire(job_progress(view.objects, view.snapshot, view.places)),
        "podGroups": pod_groups_wire(view.snapshot),
        "pods": {path: _pod(pod) for path, pod in view.objects.every(Pod).items()},
        "pending": pending_wire(view.snapshot, view.report, {}),
        "problems": problems_wire(view.snapshot, (*view.circling, *input_faults)),
    }


def _pod(pod: Pod) -> Raw:
    """Where a pod is, what it is doing, and how its containers last ended."""
    first_container = next(iter(pod.status.container_statuses), None)
    ended = (
        (first_container.state.terminated or first_container.last_state.terminated)
        if first_container is not None
        else None
    )
    return {
        "phase": pod.status.phase or "Pending",
        "node": pod.spec.node_name,
        "exitCode": ended.exit_code if ended is not None else None,
        "restarts": first_container.restart_count if first_container is not None else 0,
    }
